//! S4: which compressor takes least energy, by the published table.

use nightwatt_transfer::pure::bill::Bill;
use nightwatt_transfer::pure::compress::{Compress, Settings};
use nightwatt_transfer::pure::law::{LAW, Term, block, trace};
use nightwatt_transfer::pure::policy::Policy;
use nightwatt_transfer::pure::replay::Replay;
use nightwatt_transfer::pure::rivals::{Fixed, Oracle, Published};
use nightwatt_transfer::pure::trace::{Trace, TraceBlock};

use crate::{Answer, Context, Error, Figure, Printed, rows};

const TABLE: &str = include_str!("../../data/singh-compression.csv");

/// Compressors in the order of the table's columns.
const NAMES: [&str; 4] = ["xz", "bzip2", "gzip", "none"];

/// Half a unit in the last digit of the table's ratios.
const HALF_DIGIT: f64 = 0.05;

/// A row: bytes a second, J/MB of each compressor, and the printed ratio of dearest and cheapest.
struct Row {
    rate: String,
    joules: [f64; 4],
    printed: f64,
}

impl Row {
    fn all() -> Vec<Self> {
        let row = |(rate, cells): (&str, Vec<Option<f64>>)| {
            let [xz, bzip2, gzip, none, printed] = cells[..] else { return None };
            let joules = [xz?, bzip2?, gzip?, none?];
            Some(Self { rate: rate.to_owned(), joules, printed: printed? })
        };
        rows(TABLE).into_iter().filter_map(row).collect()
    }

    fn least(&self) -> f64 {
        self.joules.into_iter().fold(f64::INFINITY, f64::min)
    }

    fn ratio(&self) -> f64 {
        self.joules.into_iter().fold(0.0, f64::max) / self.least()
    }

    fn cheapest(&self) -> &'static str {
        let place = self.joules.iter().position(|it| it.to_bits() == self.least().to_bits());
        place.map_or("", |place| NAMES[place])
    }
}

/// The most that knowing the rate saves against the best single compressor, of data that come at two of
/// the rates in any mixture, as a share. The ratio of the two is monotonous between mixtures at which two
/// compressors cost the same, so it is largest at one of these.
fn most_saved(rows: &[Row]) -> f64 {
    let mut most = 0.0_f64;
    for (number, slow) in rows.iter().enumerate() {
        for fast in &rows[number + 1..] {
            let mixed = |share: f64, a: f64, b: f64| share * a + (1.0 - share) * b;
            for one in 0..NAMES.len() {
                for other in 0..one {
                    let apart = fast.joules[other] - fast.joules[one];
                    let share = apart / (slow.joules[one] - slow.joules[other] + apart);
                    if !(0.0..=1.0).contains(&share) {
                        continue;
                    }
                    let of = |it: usize| mixed(share, slow.joules[it], fast.joules[it]);
                    let fixed = (0..NAMES.len()).map(of).fold(f64::INFINITY, f64::min);
                    most = most.max(1.0 - mixed(share, slow.least(), fast.least()) / fixed);
                }
            }
        }
    }
    most
}

/// What the digits of the table leave open: J/MB, or a share where it has no more than three digits.
const OPEN: [f64; 2] = [0.11, 0.004];

/// Most that any printed energy is away from the law of the table, as a share of what its digits leave open.
fn off_the_law(rows: &[Row]) -> f64 {
    let off = |row: &Row| {
        let rate: f64 = row.rate.parse().unwrap_or(f64::NAN);
        let of = |term: &Term, joules: f64| {
            (term.joules(rate) - joules).abs() / f64::max(OPEN[0], joules * OPEN[1])
        };
        let terms = LAW.iter().zip(&row.joules);
        terms.map(|(term, joules)| of(term, *joules)).fold(0.0, f64::max)
    };
    rows.iter().map(off).fold(0.0, f64::max)
}

/// What policies need for blocks that cost as the law says, J.
struct Replayed {
    published: f64,
    ours: f64,
    oracle: f64,
    /// The best compressor for all blocks alike.
    fixed: f64,
    none: f64,
}

impl Replayed {
    fn of(blocks: Vec<TraceBlock>) -> Self {
        let trace: Trace = trace(blocks);
        let replay = Replay { bill: Bill::PUBLISHED, window: 0, knows_length: true };
        let run = |policy: &mut dyn Policy| replay.run(&trace, policy).bill();
        let fixed: Vec<f64> = (0..trace.arms.len()).map(|arm| run(&mut Fixed(arm))).collect();
        let settings = Settings::new(trace.arms.clone(), Bill::PUBLISHED);
        Self {
            published: Published::new(&trace.arms, Bill::PUBLISHED, 1.0)
                .map_or(f64::NAN, |mut policy| run(&mut policy)),
            ours: run(&mut Compress::new(settings)),
            oracle: run(&mut Oracle::of(&trace, &Bill::PUBLISHED)),
            none: fixed[0],
            fixed: fixed.into_iter().fold(f64::INFINITY, f64::min),
        }
    }

    /// Periods of 200 blocks at each of these rates in turn, ten times.
    fn steps(rates: &[f64]) -> Self {
        let period = |rate: &f64| vec![block(*rate, true); 200];
        Self::of((0..10).flat_map(|_| rates.iter().flat_map(period)).collect())
    }

    fn saved(&self, joules: f64) -> f64 {
        100.0 * (1.0 - joules / self.fixed)
    }
}

/// The published algorithm and ours on traces that follow the law.
fn replayed() -> Vec<Figure> {
    let mut figures = Vec::new();
    let slow = [1e7, 1e7, 1e7, 1e7, 1e4, 1e7, 1e7, 1e7, 1e7, 1e7];
    let traces = [
        ("steps between the four rates", Replayed::steps(&[1e4, 1e5, 1e6, 1e7])),
        ("10 MB/s, and 10 kB/s for each tenth period", Replayed::steps(&slow)),
    ];
    for (name, it) in &traces {
        let policies = [
            ("the published algorithm", it.published),
            ("ours", it.ours),
            ("the oracle", it.oracle),
        ];
        figures.extend(policies.map(|(policy, joules)| {
            Figure::alone(format!("saved by {policy}: {name}"), it.saved(joules), "%")
        }));
    }
    let mut blocks = vec![block(1e5, false)];
    blocks.extend(vec![block(1e5, true); 400]);
    let locked = Replayed::of(blocks);
    for (policy, joules) in [("published algorithm", locked.published), ("ours", locked.ours)] {
        let what =
            format!("energy over the least after a first block that cannot be packed: {policy}");
        figures.push(Figure::alone(what, joules / locked.oracle, "times"));
    }
    let lost = |rate: f64| {
        let it = Replayed::of(vec![block(rate, false); 400]);
        100.0 * (it.ours / it.none - 1.0)
    };
    let lost = [1e4, 1e5, 1e6, 1e7].map(lost).into_iter().fold(0.0, f64::max);
    let what = "lost at most by ours on what cannot be packed";
    figures.push(Figure::accepting(what, lost, 0.0..=1.2, 0.0..=1.2, "%"));
    figures
}

/// S4: the table against itself and against the text, and compressors that choose, on traces of its law.
pub(crate) fn compressors(_: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let rows = Row::all();
    let mut figures = Vec::new();
    for row in &rows {
        let what = format!("dearest over cheapest compressor at {} bytes/s", row.rate);
        let published = row.printed..=row.printed;
        figures.push(Figure::within(what, row.ratio(), published, HALF_DIGIT, "times"));
    }
    let largest = rows.iter().map(Row::ratio).fold(0.0, f64::max);
    figures.push(printed.figure("text", largest)?);
    let mut cheapest: Vec<&str> = rows.iter().map(Row::cheapest).collect();
    let by_rate: Vec<String> =
        rows.iter().map(|row| format!("{} at {} bytes/s", row.cheapest(), row.rate)).collect();
    cheapest.sort_unstable();
    cheapest.dedup();
    figures.push(printed.figure("compressors", cheapest.len() as f64)?);
    figures.push(printed.figure("saving", 100.0 * most_saved(&rows))?);
    let off = off_the_law(&rows);
    let what = "the table is off an affine law by at most, of 0.11 J/MB or 0.4 %";
    figures.push(Figure::accepting(what, off, 0.0..=1.0, 0.0..=1.0, "times"));
    figures.extend(replayed());
    Ok(Answer::by(
        figures,
        format!(
            "by their table the cheapest is {}. Its largest ratio is 26.9, at 10 MB/s, where the text says 17.3, \
             which is the table's at 10 kB/s. Their traces are not public. On ours, which follow the table's \
             law, the published algorithm saves what it can until a first block cannot be packed: then it \
             never packs again, because it does not try again what it did not choose. Not yet: the 44 % of \
             the interface's energy, for which the table has no figures",
            by_rate.join(", ")
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knowing_the_rate_saves_what_a_search_over_all_mixtures_finds() {
        let rows = Row::all();
        assert_eq!(rows.len(), 4);
        // By Python: 200,000 random mixtures of all four rates, the best 0.78344 of two of them.
        assert!((most_saved(&rows) - 0.7834).abs() < 5e-4, "{}", most_saved(&rows));
        // By Python, to five digits: 0.10705 J/MB, of bzip2 at 10 MB/s.
        let off = off_the_law(&rows);
        assert!((off - 0.107_05 / 0.11).abs() < 5e-6 / 0.11, "{off}");
        let names: Vec<&str> = rows.iter().map(Row::cheapest).collect();
        assert_eq!(names, ["xz", "bzip2", "gzip", "none"], "by looking at the table");
    }
}
