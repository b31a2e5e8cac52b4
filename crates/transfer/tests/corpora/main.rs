//! The policies on traces recorded from real content (T2, T3 and T5 of the design). `tests/traces/README.md` has how they
//! were recorded.

mod changing;

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

/// Where the recorded blocks begin: results must not depend on what is tried on which block.
const STARTS: [usize; 5] = [0, 3, 7, 11, 16];

fn recorded(corpus: &str, rate: f64, start: usize) -> Trace {
    let name = format!("tests/traces/{corpus}-{}.trace", block_bytes(rate));
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let mut trace = Trace::from_lines(&text).unwrap().at_rate(rate);
    let start = start % trace.blocks.len();
    trace.blocks.rotate_left(start);
    trace.repeated(BLOCKS)
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
    fn of(corpus: &str, rate: f64, start: usize) -> Self {
        let trace = recorded(corpus, rate, start);
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
            ours.bill() / oracle,
            published / oracle,
            adapt / oracle,
            best.1 / oracle,
            trace.arms[best.0].to_string(),
            ours.trials() / ours.bill(),
            mix.join(", ")
        );
    }
}

/// What bars are for, of all cells.
struct Pooled {
    mean: f64,
    worst: f64,
    /// The worst against zstd's way, and for the film against none.
    to_adapt: f64,
    to_none: f64,
}

fn pooled(start: usize) -> Pooled {
    println!("from block {start}: ours, published, adapt, best fixed (x oracle); mix of ours");
    let mut pooled = Pooled { mean: 0.0, worst: 0.0, to_adapt: 0.0, to_none: 0.0 };
    for corpus in CORPORA {
        for rate in RATES {
            let cell = Cell::of(corpus, rate, start);
            cell.print(corpus, rate);
            let ours = cell.ours.bill();
            pooled.mean += ours / cell.oracle / (CORPORA.len() * RATES.len()) as f64;
            pooled.worst = pooled.worst.max(ours / cell.oracle);
            pooled.to_adapt = pooled.to_adapt.max(ours / cell.adapt);
            if corpus == "mp4" {
                pooled.to_none = pooled.to_none.max(ours / cell.fixed[0]);
            }
        }
    }
    pooled
}

#[test]
fn recorded_content_costs_little_more_than_the_oracle() {
    for start in STARTS {
        let Pooled { mean, worst, to_adapt, to_none } = pooled(start);
        println!(
            "pooled {mean:.4}, worst {worst:.4}, {to_adapt:.4} x adapt, film {to_none:.4} x none"
        );
        assert!(mean <= 1.03, "T2, pooled, from block {start}: {mean}");
        assert!(worst <= 1.10, "T2, worst cell, from block {start}: {worst}");
        assert!(to_adapt <= 1.02, "T5, worst cell, from block {start}: {to_adapt}");
        assert!(to_none <= 1.012, "T3, the film, from block {start}: {to_none}");
    }
}

/// The recordings are of this program's arms: a change of the list must be recorded again.
#[test]
fn the_traces_have_the_usual_arms() {
    for corpus in CORPORA {
        for rate in RATES {
            assert_eq!(recorded(corpus, rate, 0).arms, Arm::usual());
        }
    }
}
