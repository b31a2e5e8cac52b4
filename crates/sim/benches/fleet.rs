//! How many arrivals a second the fleet simulator takes: by length of the run, number of servers and
//! policy. `cargo bench -p nightwatt-sim --bench fleet [-- ARRIVALS]`; with `md1` and a count it runs
//! one M/D/1 queue alone, for the comparison with other simulators (`benches/fleet`). Times are CPU
//! times of the one thread.

use std::time::Duration;

use nightwatt_energy::quantity::{Joules, PerSecond, Watts};
use nightwatt_energy::time::{Mono, Nanos};
use nightwatt_policy::arrivals::{Arrivals, Rate};
use nightwatt_policy::fleet::{FleetSettings, Pool, ServerKind, Wear};
use nightwatt_sim::fleet::{Outcome, Service, Window, run};

/// The published small server: 261.8 requests/s, two within 10 ms.
const RATE: f64 = 261.8;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with("--")).collect();
    if let [word, count] = &words[..]
        && word == "md1"
    {
        let arrivals = count.parse().expect("how many arrivals");
        let case = Case { servers: 1, places: u32::MAX, load: 0.8, switch_on: 0, arrivals };
        let (outcome, taken) = case.run("always-on 1");
        println!("{} {}", taken.as_secs_f64(), outcome.mean_response().as_secs_f64());
        return;
    }
    let most: u64 = words.first().map_or(100_000_000, |it| it.parse().expect("how many arrivals"));
    println!(
        "{:<18} {:>7} {:>11} {:>9} {:>14} {:>8} {:>9}",
        "policy", "servers", "arrivals", "ms", "ns/arrival", "mean on", "refused"
    );
    for choice in ["baseline", "always-on 6", "delayed-off 1s", "hybrid 4 1s", "predictive"] {
        Case { servers: 10, places: 2, load: 0.55, switch_on: 0, arrivals: 1_000_000 }
            .print(choice);
    }
    for choice in ["delayed-off 60s", "predictive"] {
        Case { servers: 10, places: 2, load: 0.55, switch_on: 5, arrivals: 1_000_000 }
            .print(choice);
    }
    let mut arrivals = 10_000;
    while arrivals <= most {
        Case { servers: 10, places: 2, load: 0.55, switch_on: 0, arrivals }.print("hybrid 4 1s");
        arrivals *= 10;
    }
    for servers in [1, 10, 100, 1000, 10_000] {
        Case { servers, places: 2, load: 0.55, switch_on: 0, arrivals: 1_000_000 }
            .print("baseline");
    }
    for servers in [1, 10, 100, 1000, 10_000] {
        Case { servers, places: 2, load: 0.55, switch_on: 5, arrivals: 1_000_000 }
            .print("predictive");
    }
    Case { servers: 1, places: u32::MAX, load: 0.8, switch_on: 0, arrivals: 1_000_000 }
        .print("always-on 1");
}

struct Case {
    servers: u32,
    places: u32,
    load: f64,
    switch_on: u64,
    arrivals: u64,
}

impl Case {
    fn run(&self, choice: &str) -> (Outcome, Duration) {
        let kind = ServerKind {
            servers: self.servers,
            service: PerSecond(RATE),
            places: self.places,
            idle: Watts(1.8),
            busy: Watts(2.2),
            off: Watts(0.0),
            switch: Joules(10.0),
            switch_on: Duration::from_secs(self.switch_on),
        };
        let settings = FleetSettings {
            kinds: vec![kind],
            min_on: Duration::ZERO,
            line: 0,
            wear: Wear::Spread,
            transition_price: Joules(10.0),
            overflow_share: 0.001,
        };
        let choice = choice.parse().expect("a policy of ours");
        let pool = Pool::new(settings, choice, Mono::ZERO).expect("a pool");
        let rate = Rate::new(RATE * self.load * f64::from(self.servers)).expect("a rate");
        let arrivals = Arrivals::Poisson(rate).times(1).map(Nanos::from_secs);
        let service = Service::Deterministic.start(1, 1).expect("a law");
        let window = Window { counted: self.arrivals, ..Window::ALL };
        timed(|| run(pool, arrivals, service, window))
    }

    fn print(&self, choice: &str) {
        let (outcome, taken) = self.run(choice);
        println!(
            "{choice:<18} {:>7} {:>11} {:>9.2} {:>14.1} {:>8.2} {:>8.3}%",
            self.servers,
            self.arrivals,
            taken.as_secs_f64() * 1e3,
            taken.as_secs_f64() * 1e9 / self.arrivals as f64,
            outcome.mean_on(),
            100.0 * outcome.refused_share(),
        );
    }
}

/// And the CPU time it took: other work on the machine does not count.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let cpu = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
    };
    let start = cpu();
    let result = work();
    (result, cpu().saturating_sub(start))
}
