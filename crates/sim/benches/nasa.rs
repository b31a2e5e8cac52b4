//! The default policy for pools over the requests that NASA's server had in July and August 1995,
//! beside the better of `always-on N` and `delayed-off d`: energy + price x transitions.
//!
//! `make bench-nasa`, or `cargo bench -p nightwatt-sim --bench nasa [-- SERVERS | SERVERS:SLA_MS:START_S ...]`. Needs
//! `nasa_requests_per_second.txt.gz` (`NIGHTWATT_DATA`). Ends with an error where a bound is broken.
//!
//! **Written down before anything was run.**
//!
//! - A server answers 100 requests/s, one in 10 ms. It draws 2.2 W busy, 1.8 W idle, 0.1 W off or
//!   starting; a cycle takes 2 J for each second of starting.
//! - Copies of a month, each shifted by whole days and up to 30 minutes, are superposed: as many as the
//!   pool can serve with 0.5 % refused on July when all of it is always on ([`COPIES`]).
//! - At most 1 % of the requests may be refused ([`LIMIT`]); `predictive` gets this limit as a setting.
//! - N and d are fitted on July: the cheapest that keeps the limit there; a policy that breaks it does not
//!   compete. `predictive` has no parameter to fit. All are shown on August, from its 4th day on (a hurricane
//!   stopped the server before).
//! - A transition's price is 20 or 200 J: 11 or 111 s of idling.
//! - Bounds: 1.0 in the geometric mean over all cells, 1.03 in each.
//!
//! Later: of a hundred servers only some hours are played ([`HUNDRED`]).

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nightwatt_energy::quantity::{Joules, PerSecond, Watts};
use nightwatt_energy::time::{Mono, Nanos};
use nightwatt_policy::arrivals::{Arrivals, Counts};
use nightwatt_policy::fleet::{FleetChoice, FleetSettings, Pool, ServerKind, Wear};
use nightwatt_policy::queueing::places_within;
use nightwatt_sim::fleet::{Service, Window, run};
use nightwatt_traffic::PerSecond as Log;

const RATE: f64 = 100.0;
const LIMIT: f64 = 0.01;
const STARTS: [u64; 4] = [1, 5, 15, 60];
const PRICES: [f64; 2] = [20.0, 200.0];
const BOUND_EACH: f64 = 1.03;
const BOUND_MEAN: f64 = 1.0;
const HOUR: usize = 3600;
const DAY: usize = 24 * HOUR;
/// The archive's July ends at this second, and its August begins; whole days of each.
const AUGUST: usize = 2_381_545;
const JULY_DAYS: usize = 27;
const AUGUST_DAYS: Range<usize> = 3..31;

/// Servers, hours that are played, SLA in ms, copies: by `-- fill SERVERS`.
const COPIES: [(u32, Range<usize>, u64, usize); 6] = [
    (5, 0..48, 10, 110),
    (5, 0..48, 100, 379),
    (20, 0..24, 10, 1003),
    (20, 0..24, 100, 1589),
    (100, HUNDRED, 10, 8643),
    (100, HUNDRED, 100, 10054),
];
/// A whole day of a hundred servers has half a billion requests, and fitting plays it twenty times for
/// each cell: in these hours the night's rate grows to thrice as many, with 14 % of a day's requests.
const HUNDRED: Range<usize> = 6..10;

/// A pool with its traffic.
struct Cell {
    servers: u32,
    sla_ms: u64,
    start: u64,
    july: Arrivals,
    august: Arrivals,
}

/// What a policy made of it.
#[derive(Debug, Clone, Copy)]
struct Score {
    joules: f64,
    transitions: f64,
    refused: f64,
}

impl Score {
    fn cost(&self, price: f64) -> f64 {
        self.joules + price * self.transitions
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with("--")).collect();
    let Some(log) = log() else { return };
    let (july, august) =
        (part(&log, 0, JULY_DAYS), part(&log, AUGUST + AUGUST_DAYS.start * DAY, AUGUST_DAYS.len()));
    if words.first().is_some_and(|word| word == "fill") {
        fill(&july, &words[1..]);
        return;
    }
    // `5`, or one cell: `100:10:60`.
    let wanted = |servers: u32, sla_ms: u64, start: u64| {
        let cell = format!("{servers}:{sla_ms}:{start}");
        words.is_empty() || words.iter().any(|it| *it == cell || *it == servers.to_string())
    };
    let mut cells = Vec::new();
    for (servers, hours, sla_ms, copies) in COPIES {
        for start in STARTS.into_iter().filter(|start| wanted(servers, sla_ms, *start)) {
            let arrivals = |month: &Counts| superposed(month, copies, hours.clone());
            cells.push(Cell {
                servers,
                sla_ms,
                start,
                july: arrivals(&july),
                august: arrivals(&august),
            });
        }
    }
    let next = AtomicUsize::new(0);
    let logarithms = Mutex::new((Vec::new(), 0));
    println!(
        "servers  SLA ms  start s  price J  always-on or delayed-off, J      predictive, J   ratio  refused: theirs, ours"
    );
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let lines = cell.contest();
                    let mut sum = logarithms.lock().expect("no thread panics");
                    for (ratio, line) in lines {
                        println!("{line}");
                        sum.1 += u32::from(ratio > BOUND_EACH);
                        sum.0.push(ratio.ln());
                    }
                }
            });
        }
    });
    let (logarithms, above) = logarithms.into_inner().expect("no thread panicked");
    let mean = (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp();
    println!(
        "geometric mean over {} cells: {mean:.4}; {above} above {BOUND_EACH}",
        logarithms.len()
    );
    assert!(above == 0 && mean <= BOUND_MEAN, "a bound is broken");
}

fn log() -> Option<Vec<u32>> {
    let data = std::env::var_os("NIGHTWATT_DATA").unwrap_or_else(|| "../shared/data".into());
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(data).join("logs/nasa_requests_per_second.txt.gz");
    if !path.exists() {
        println!("skipped: no {}; NIGHTWATT_DATA names the folder", path.display());
        return None;
    }
    let mut log = Log::default();
    log.add_file(&path, &nightwatt_traffic::Reading::default()).expect("counts");
    Some(log.counts)
}

fn part(log: &[u32], from: usize, days: usize) -> Counts {
    Counts::new(&log[from..from + days * DAY], 1.0).expect("requests")
}

/// These hours of this many copies on top of each other, each shifted by whole days and up to half an
/// hour.
fn superposed(month: &Counts, copies: usize, hours: Range<usize>) -> Arrivals {
    let counts = month.counts();
    let mut sum = vec![0; hours.len() * HOUR];
    for copy in 0..copies {
        let shift = copy * DAY + copy * 1103 % 1801;
        // A whole number of months ahead, so that it can be shifted back.
        let first = hours.start * HOUR + counts.len() - shift % counts.len();
        for (step, sum) in sum.iter_mut().enumerate() {
            *sum += counts[(first + step) % counts.len()];
        }
    }
    Arrivals::Counts(Counts::new(sum, 1.0).expect("requests"))
}

/// Prints how many copies fill each pool: `COPIES`.
fn fill(july: &Counts, wanted: &[String]) {
    for (servers, hours, sla_ms, _) in
        COPIES.into_iter().filter(|it| wanted.contains(&it.0.to_string()))
    {
        let (mut low, mut high) = (10 * servers as usize, 200 * servers as usize);
        while high - low > 1.max(low / 100) {
            let copies = low.midpoint(high);
            let arrivals = superposed(july, copies, hours.clone());
            let cell = Cell { servers, sla_ms, start: 1, august: arrivals.clone(), july: arrivals };
            let all = FleetChoice::AlwaysOn { servers };
            if cell.play(&cell.july, all, 0.0).refused <= 0.5 * LIMIT {
                low = copies;
            } else {
                high = copies;
            }
        }
        println!("({servers}, {hours:?}, {sla_ms}, {low}),");
    }
}

impl Cell {
    fn play(&self, arrivals: &Arrivals, choice: FleetChoice, price: f64) -> Score {
        let service = PerSecond(RATE);
        let sla = Duration::from_millis(self.sla_ms);
        let kind = ServerKind {
            servers: self.servers,
            service,
            places: places_within(service, sla).expect("a request fits"),
            idle: Watts(1.8),
            busy: Watts(2.2),
            off: Watts(0.1),
            switch: Joules(2.0 * self.start as f64),
            switch_on: Duration::from_secs(self.start),
        };
        let settings = FleetSettings {
            kinds: vec![kind],
            min_on: Duration::ZERO,
            line: 0,
            wear: Wear::Spread,
            transition_price: Joules(price),
            overflow_share: LIMIT,
        };
        let pool = Pool::new(settings, choice, Mono::ZERO).expect("a pool");
        let service = Service::Deterministic.start(1, 1).expect("a law");
        let outcome = run(pool, arrivals.times(1).map(Nanos::from_secs), service, Window::ALL);
        Score {
            joules: outcome.energy.get(),
            transitions: outcome.tally().transitions() as f64,
            refused: outcome.refused_share(),
        }
    }

    /// Each price: ratio and line.
    fn contest(&self) -> Vec<(f64, String)> {
        let mut tried: Vec<(FleetChoice, Score)> = Vec::new();
        let step = self.servers.div_ceil(20);
        let numbers = (1..=self.servers / step).rev().map(|n| always_on(n * step));
        let delays = (-1..=8).rev().map(|half| delayed_off(10_f64.powf(0.5 * f64::from(half))));
        for row in [numbers.collect::<Vec<_>>(), delays.collect()] {
            let mut least = f64::INFINITY;
            for choice in row {
                let score = self.play(&self.july, choice, 0.0);
                tried.push((choice, score));
                // Fewer or shorter refuse still more, and switch still more: enough where that alone
                // costs more than the best of all, at the lower price and so at the higher.
                least = least.min(score.cost(PRICES[0]));
                if score.refused > LIMIT || PRICES[0] * score.transitions > least {
                    break;
                }
            }
        }
        let mut lines = Vec::new();
        for price in PRICES {
            // Around the best of each kind once more, finer.
            for is_delay in [false, true] {
                let of_kind =
                    |it: &FleetChoice| matches!(it, FleetChoice::DelayedOff { .. }) == is_delay;
                let of_all = best(tried.iter(), price).expect("all servers on keep the limit").1;
                let Some(best) = best(tried.iter().filter(|it| of_kind(&it.0)), price) else {
                    continue;
                };
                // Finer steps are worth a few hundredths.
                if best.1.cost(price) > 1.1 * of_all.cost(price) {
                    continue;
                }
                for finer in near(best.0, self.servers, step) {
                    if !tried.iter().any(|it| it.0 == finer) {
                        tried.push((finer, self.play(&self.july, finer, 0.0)));
                    }
                }
            }
            let (theirs, _) = *best(tried.iter(), price).expect("all servers on keep the limit");
            let shown = self.play(&self.august, theirs, 0.0);
            let ours = self.play(&self.august, FleetChoice::Predictive, price);
            let ratio = ours.cost(price) / shown.cost(price);
            lines.push((
                ratio,
                format!(
                    "{:>7} {:>7} {:>8} {:>8}  {:<20} {:>9.0} {:>18.0} {ratio:>7.3}  {:>8.3} % {:>8.3} %",
                    self.servers, self.sla_ms, self.start, price, theirs.to_string(),
                    shown.cost(price), ours.cost(price), 100.0 * shown.refused, 100.0 * ours.refused
                ),
            ));
        }
        lines
    }
}

/// The cheapest that keeps the limit.
fn best<'a>(
    tried: impl Iterator<Item = &'a (FleetChoice, Score)>,
    price: f64,
) -> Option<&'a (FleetChoice, Score)> {
    tried
        .filter(|it| it.1.refused <= LIMIT)
        .min_by(|a, b| a.1.cost(price).total_cmp(&b.1.cost(price)))
}

fn always_on(servers: u32) -> FleetChoice {
    FleetChoice::AlwaysOn { servers }
}

fn delayed_off(secs: f64) -> FleetChoice {
    FleetChoice::DelayedOff { delay: Duration::from_millis((1e3 * secs) as u64) }
}

fn near(choice: FleetChoice, servers: u32, step: u32) -> Vec<FleetChoice> {
    match choice {
        FleetChoice::AlwaysOn { servers: n } => (n.saturating_sub(step - 1).max(1)
            ..=(n + step - 1).min(servers))
            .map(always_on)
            .collect(),
        FleetChoice::DelayedOff { delay } => [0.56, 0.75, 1.33, 1.78]
            .map(|factor| delayed_off(factor * delay.as_secs_f64()))
            .to_vec(),
        other => vec![other],
    }
}
