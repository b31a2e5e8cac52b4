//! The policies on traces recorded from real content (T2, T3 and T5 of the design). `tests/traces/README.md` has how they
//! were recorded.

use std::path::Path;

use nightwatt_energy::quantity::Watts;
use nightwatt_transfer::pure::arm::Arm;
use nightwatt_transfer::pure::bill::{Bill, Objective, Overlap, Prices};
use nightwatt_transfer::pure::compress::{Compress, Settings};
use nightwatt_transfer::pure::policy::{Policy, block_bytes};
use nightwatt_transfer::pure::replay::{Replay, Replayed};
use nightwatt_transfer::pure::rivals::{Adapt, Fixed, Oracle, Published};
use nightwatt_transfer::pure::trace::Trace;

const CORPORA: [&str; 4] = ["canterbury", "xml", "reymont", "mp4"];
const RATES: [f64; 5] = [1e4, 1e5, 1e6, 1e7, 1e8];
/// Blocks of each cell: the recorded ones again and again.
const BLOCKS: usize = 300;

fn recorded(corpus: &str, rate: f64) -> Trace {
    let name = format!("tests/traces/{corpus}-{}.trace", block_bytes(rate));
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    Trace::from_lines(&text).unwrap().at_rate(rate).repeated(BLOCKS)
}

fn bill() -> Bill {
    let prices = Prices {
        base: Watts(20.0),
        cpu: Watts(8.0),
        nic: Watts(0.3),
        nic_byte: 2e-9,
        receiver: Watts(0.0),
    };
    Bill { objective: Objective::Whole, overlap: Overlap::Pipelined, prices }
}

/// The bills of one corpus at one rate.
struct Cell {
    trace: Trace,
    ours: Replayed,
    oracle: f64,
    published: f64,
    adapt: f64,
    fixed: Vec<f64>,
}

impl Cell {
    fn of(corpus: &str, rate: f64) -> Self {
        let trace = recorded(corpus, rate);
        let replay = Replay { bill: bill(), window: 1, knows_length: true };
        let run = |policy: &mut dyn Policy| replay.run(&trace, policy).bill();
        let settings = Settings::new(trace.arms.clone(), bill());
        Self {
            ours: replay.run(&trace, &mut Compress::new(settings)),
            oracle: run(&mut Oracle::of(&trace, &bill())),
            published: run(&mut Published::new(&trace.arms, bill(), 1.0).unwrap()),
            adapt: run(&mut Adapt::new(&trace.arms).unwrap()),
            fixed: (0..trace.arms.len()).map(|arm| run(&mut Fixed(arm))).collect(),
            trace,
        }
    }

    fn to_oracle(&self) -> f64 {
        self.ours.bill() / self.oracle
    }

    fn print(&self, corpus: &str, rate: f64) {
        let Self { trace, ours, oracle, published, adapt, fixed } = self;
        let best = fixed.iter().enumerate().min_by(|one, other| one.1.total_cmp(other.1)).unwrap();
        let mix = ours.mix(trace.arms.len()).into_iter().zip(&trace.arms);
        let mix: Vec<String> = mix
            .filter(|(count, _)| *count > 0)
            .map(|(count, arm)| format!("{arm} {count}"))
            .collect();
        println!(
            "{corpus:11} {rate:9} B/s {:.4} {:.4} {:.4} {:.4} {:10}  trials {:.4}  {}",
            self.to_oracle(),
            published / oracle,
            adapt / oracle,
            best.1 / oracle,
            trace.arms[best.0].to_string(),
            ours.trials() / ours.bill(),
            mix.join(", ")
        );
    }
}

#[test]
fn recorded_content_costs_little_more_than_the_oracle() {
    println!(
        "corpus           rate     ours   published  adapt  best fixed (x oracle)   mix of ours"
    );
    let (mut sum, mut count) = (0.0, 0.0);
    for corpus in CORPORA {
        for rate in RATES {
            let cell = Cell::of(corpus, rate);
            cell.print(corpus, rate);
            let ratio = cell.to_oracle();
            assert!(ratio <= 1.10, "T2, worst cell: {corpus} at {rate} B/s: {ratio}");
            let to_adapt = cell.ours.bill() / cell.adapt;
            assert!(to_adapt <= 1.02, "T5: {corpus} at {rate} B/s: {to_adapt} x zstd --adapt");
            let to_none = cell.ours.bill() / cell.fixed[0];
            assert!(corpus != "mp4" || to_none <= 1.012, "T3: at {rate} B/s: {to_none} x none");
            sum += ratio;
            count += 1.0;
        }
    }
    println!("pooled {:.4} x the oracle", sum / count);
    assert!(sum / count <= 1.03, "T2, pooled: {}", sum / count);
}

/// The recordings are of this program's arms: a change of the list must be recorded again.
#[test]
fn the_traces_have_the_usual_arms() {
    for corpus in CORPORA {
        for rate in RATES {
            assert_eq!(recorded(corpus, rate).arms, Arm::usual());
        }
    }
}
