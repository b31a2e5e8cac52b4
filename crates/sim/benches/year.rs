//! A year of one site, under each policy: how long it takes to simulate, and what comes of it.
//!
//! Traffic is generated and, where real logs are at hand (`NIGHTWATT_DATA`), a month of a real site
//! over and over. Reading and classifying it is not timed.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_policy::admission::{Cached, Request, Want};
use nightwatt_policy::manager::Settings;
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::{
    BusyTimes, Constraints, Oracle, PolicyChoice, SleepPolicy, Waking, plan,
};
use nightwatt_policy::visit::Visitor;
use nightwatt_sim::{Demand, Outcome, VisitBook, World};
use nightwatt_traffic::{Arrival, Classifier, ClientFacts, LogReader, SyntheticSite, arrivals};

const DAY: Duration = Duration::from_hours(24);
const DAYS: u32 = 365;
const LOG: &str = "logs/yuvi_in_nginx_2012-03.log.gz";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:<10} {:<11} {:<3} {:>9} {:>7} {:>10} {:>7} {:>9} {:>8}",
        "traffic", "policy", "SLA", "requests", "s", "requests/s", "saving", "wakes/day", "delayed"
    );
    let generated = SyntheticSite { days: DAYS, ..SyntheticSite::default() }.arrivals();
    Year::of(&generated).compare("generated");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let data = std::env::var_os("NIGHTWATT_DATA").unwrap_or_else(|| "../shared/data".into());
    let path = root.join(data).join(LOG);
    if path.is_file() {
        Year::of(&arrivals(&mut LogReader::open(path)?, None)?).compare("real");
    } else {
        println!("skipped: no {}; NIGHTWATT_DATA names the folder", path.display());
    }
    Ok(())
}

/// What reaches the proxy in a year.
struct Year {
    demands: Vec<Demand>,
    start: Wall,
    utc_offset: i32,
}

impl Year {
    /// Repeats what is shorter than a year, shifted by whole days.
    fn of(arrivals: &[Arrival]) -> Self {
        let (first, last) = (&arrivals[0], &arrivals[arrivals.len() - 1]);
        let span = u64::try_from(last.at.0 - first.at.0).expect("arrivals are in order");
        let days = span / DAY.as_millis() as u64 + 1;
        let mut site = Site::default();
        let mut demands = Vec::new();
        for round in 0..u64::from(DAYS).div_ceil(days) {
            let shift = DAY * (round * days) as u32;
            for arrival in arrivals {
                let since = u64::try_from(arrival.at.0 - first.at.0).unwrap_or_default();
                let at = Mono(Duration::from_millis(since) + shift);
                demands.push(site.demand(at, arrival.at + shift, arrival));
            }
        }
        demands.retain(|demand| demand.at < Mono(DAY * DAYS));
        Self { demands, start: first.at, utc_offset: first.utc_offset }
    }

    fn compare(&self, name: &str) {
        for promised in [true, false] {
            let choices = ["always-on", "timeout 5s", "window", "ski-rental", "learned"];
            for choice in choices {
                let parsed: PolicyChoice = choice.parse().expect("a policy of ours");
                self.row(name, choice, promised, |_| parsed.build(&Scenario::default().terms()));
            }
            self.row(name, "oracle", promised, |world| self.oracle(world));
        }
    }

    fn row<P: SleepPolicy>(
        &self,
        name: &str,
        choice: &str,
        promised: bool,
        policy: impl FnOnce(&World) -> P,
    ) {
        let mut scenario = Scenario::default();
        scenario.sla.enabled = promised;
        let world = World {
            states: scenario.power_states(),
            settings: Settings::of(&scenario),
            start: self.start,
            utc_offset: self.utc_offset,
        };
        let policy = policy(&world);
        let (outcome, taken) =
            timed(|| world.run(policy, self.demands.iter().copied(), Mono(DAY * DAYS)));
        let Outcome { bill, admitted, delayed_requests, .. } = outcome;
        println!(
            "{name:<10} {choice:<11} {:<3} {:>9} {:>7.3} {:>10.0} {:>6.1}% {:>9.1} {:>7.2}%",
            if promised { "on" } else { "off" },
            self.demands.len(),
            taken.as_secs_f64(),
            self.demands.len() as f64 / taken.as_secs_f64(),
            100.0 * bill.saving(&world.states, scenario.proxy_power()),
            bill.wakeups as f64 / f64::from(DAYS),
            100.0 * delayed_requests as f64 / admitted as f64,
        );
    }

    /// Knows every request that only the server can answer.
    fn oracle(&self, world: &World) -> Oracle {
        let needed = self.demands.iter().filter(|demand| demand.request.wakes());
        let Settings { min_on, quiet, .. } = world.settings;
        let mut busy = BusyTimes::new(quiet);
        needed.for_each(|demand| busy.push(demand.at));
        let end = Mono(DAY * DAYS);
        let rules = Constraints { states: world.states, min_on, quiet };
        let plan = plan(busy.times(), Mono::ZERO, end, Waking::Ahead, &rules);
        Oracle::new(plan, world.states.wake_time)
    }
}

/// What proxy and cache know of a site's traffic.
#[derive(Default)]
struct Site {
    classifier: Classifier,
    /// When each target was last fetched.
    fetched: HashMap<String, Mono>,
    visits: VisitBook,
}

impl Site {
    fn demand(&mut self, at: Mono, wall: Wall, arrival: &Arrival) -> Demand {
        let now = Now { mono: at, wall, utc_offset: arrival.utc_offset };
        let facts = ClientFacts::from(arrival);
        let verdict = self.classifier.judge(now, &facts);
        let (class, recognised) = (verdict.class(), verdict.recognised);
        self.classifier.learn(now, &facts, arrival.status);
        let visitor = Visitor::new(&arrival.client, arrival.agent.as_deref());
        Demand {
            number: 0,
            at,
            visitor,
            visit: self.visits.of(at, visitor),
            client: visitor.0,
            request: Request { class, want: Want::Other, cached: self.cached(at, arrival) },
            recognised,
        }
    }

    /// An answer is stored for a day, and never fresh.
    fn cached(&mut self, at: Mono, arrival: &Arrival) -> Cached {
        if arrival.method == "POST" {
            return Cached::Nothing;
        }
        match self.fetched.get_mut(&arrival.target) {
            Some(fetched) if at.since(*fetched) < DAY => Cached::Stale,
            Some(fetched) => {
                *fetched = at;
                Cached::Nothing
            }
            None => {
                self.fetched.insert(arrival.target.clone(), at);
                Cached::Nothing
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a stopwatch is what this is")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}
