//! A mixed load for minutes, while the origin is killed, stopped and frozen, sleeps and wakes. At
//! the end each request is looked up in three books: the client's, the gateway's and the origin's.

mod client;
mod origin;
mod reconciliation;
mod requests;
mod trouble;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nightwatt_clock::Clock;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rustix::process::{Signal, kill_process};

use crate::gateway::{Gateway, Held, eventually, pause};
use crate::seed::{VARIABLE, seed};
use client::{Client, Outcome, SentRequest};
use reconciliation::Reconciliation;
use requests::RequestKind;
use trouble::{Event, What};

/// Clients at once.
const CLIENTS: u64 = 12;

/// Descriptors beyond those at the start that the gateway may hold when its origin sleeps.
const FEW: usize = 6;

/// What the gateway may hold at the end beyond what it held after a fifth of the time. Uploads of
/// up to 900 kB, 100 kB of each spooled, and downloads of 16 MB come and go, twelve at a time: what
/// the allocator keeps of that grew by up to 1.7 MiB in twelve runs of a minute, six at once. These
/// are some 15,000 requests, so a leak of half a kilobyte a request is past this bound.
const SPREAD: u64 = 8 << 20;

const CONFIG: &str = r#"
listen = ["127.0.0.1:0"]
state_dir = "DIR/state"
access_log = "DIR/access.log"
trusted_proxies = ["127.0.0.1"]

[limits]
origin_timeout = "2s"
connect_timeout = "1s"
spool_bytes = 100000

[scenario]
policy = "timeout 300ms"
sla.enabled = false
cache.size_mb = 1

[scenario.server]
wake_time = "100ms"
sleep_time = "100ms"
min_on = "0s"
quiet = "100ms"

[[site]]
name = "site"
origin = "http://ORIGIN"
wake_timeout = "4s"
watch = "1s"
wakes_per_client_and_hour = 4000000000
clients.api_agents = ["soak/"]

[site.power.process]
command = COMMAND
env = { SOAK_ORIGIN_LISTEN = "ORIGIN", SOAK_ORIGIN_RECORD = "DIR/served.log" }
stop_timeout = "1s"
"#;

/// The gateway, and an origin that its controller starts.
struct Stage {
    gateway: Gateway,
    clock: Clock,
    seed: u64,
}

impl Stage {
    fn set() -> Self {
        let address = nightwatt_needs::free_address().to_string();
        let (program, args) = origin::command();
        let command = format!("{:?}", [&[program.to_str().expect("a path")][..], &args].concat());
        let config =
            CONFIG.replace("ORIGIN\"", &format!("{address}\"")).replace("COMMAND", &command);
        let gateway = Gateway::start_telling(&config, "info");
        Self { gateway, clock: Clock::real(), seed: seed() }
    }

    /// What the gateway holds when its origin sleeps: idle connections to it are closed then, whose
    /// buffers may be some hundred kilobytes each.
    fn settled(&self, descriptors: usize) -> Held {
        eventually("the origin sleeps, and its connections are closed", || {
            // Woken by others, it would be left awake for minutes.
            let order = match self.gateway.status()["state"].as_str() {
                Some("failed") => "wake",
                Some("awake") => "sleep",
                Some("asleep") => return self.gateway.holds().descriptors <= descriptors,
                _ => return false,
            };
            self.gateway.order(order);
            false
        });
        self.gateway.holds()
    }

    /// Clients ask for that long, while things happen to the origin.
    fn run(&self, phase: u64, time: Duration) -> (Vec<SentRequest>, Vec<Event>) {
        let until = self.clock.now().mono + time;
        let (resting, count) = (AtomicBool::new(false), AtomicU64::new(0));
        let dice = |stream| {
            let mut random = ChaCha8Rng::seed_from_u64(self.seed);
            random.set_stream(phase * (CLIENTS + 1) + stream);
            random
        };
        let client = |number| {
            let (to, clock) = (self.gateway.address, self.clock.clone());
            let mut client = Client { to, clock, random: dice(number), kept: None };
            let mut asked = Vec::new();
            while self.clock.now().mono < until {
                if resting.load(Ordering::Relaxed) {
                    pause(Duration::from_millis(20));
                    continue;
                }
                let id = format!("soak-{phase}-{}", count.fetch_add(1, Ordering::Relaxed));
                let done = client.ask(id);
                if matches!(done.outcome, Outcome::Answered { status: 500.., .. }) {
                    // Or failures would make most of the load.
                    pause(Duration::from_millis(20));
                }
                asked.push(done);
            }
            asked
        };
        std::thread::scope(|scope| {
            let clients: Vec<_> =
                (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
            let mut dice = dice(CLIENTS);
            let events = trouble::make(&mut dice, &self.clock, &self.gateway, until, &resting);
            let asked = clients.into_iter().flat_map(|it| it.join().expect("a client"));
            (asked.collect(), events)
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for pid in trouble::origins(&self.gateway.dir.path().join("state")) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
#[ignore = "takes minutes: `make soak MINUTES=..`"]
fn nothing_is_lost_and_nothing_is_doubled() {
    let minutes = std::env::var("SOAK_MINUTES").ok();
    let minutes = minutes.map_or(1.0, |it| it.parse().expect("SOAK_MINUTES is a number"));
    let time = Duration::from_secs_f64(minutes * 60.0);
    let mut stage = Stage::set();
    println!("{minutes} minutes, {VARIABLE}={}", stage.seed);
    let descriptors = stage.gateway.holds().descriptors + FEW;
    let (mut asked, mut events) = stage.run(0, time / 5);
    let before = stage.settled(descriptors);
    let (more, others) = stage.run(1, time * 4 / 5);
    let after = stage.settled(descriptors);
    asked.extend(more);
    events.extend(others);
    let wakeups = stage.gateway.status()["ledger"]["wakeups"].as_u64().expect("a count");
    // What is logged is in the file when the gateway has ended.
    stage.gateway.stop();
    let (log, record) = (stage.gateway.read("access.log"), stage.gateway.read("served.log"));
    let reconciliation = Reconciliation::open(asked, &log, &record, events.clone());
    let summary = reconciliation.summary();
    print_summary(&summary, &events, wakeups, (before, after));
    println!("slowest: {:?}", reconciliation.slowest());
    let faults = reconciliation.faults();
    if !faults.is_empty() {
        println!("the gateway's log:\n{}", stage.gateway.read("serve.log"));
    }
    let first: Vec<&String> = faults.iter().take(20).collect();
    assert!(faults.is_empty(), "{} faults (seed {}): {first:#?}", faults.len(), stage.seed);
    let bound = before.memory + SPREAD;
    assert!(after.memory <= bound, "it grew from {before:?} to {after:?}");
    // Or it has shown nothing.
    for kind in RequestKind::ALL {
        assert!(summary.contains_key(&format!("{kind:?}")), "no {kind:?} was asked for");
    }
    assert!(wakeups > 3 && summary.contains_key("200 held"), "it hardly slept: {wakeups}");
    assert!(summary.contains_key("left") && !events.is_empty(), "nothing happened");
}

fn print_summary(
    summary: &std::collections::BTreeMap<String, u64>,
    events: &[Event],
    wakeups: u64,
    (before, after): (Held, Held),
) {
    for (what, count) in summary {
        println!("{count:8} {what}");
    }
    for what in [What::Killed, What::Stopped, What::Restarted, What::Frozen] {
        let count = events.iter().filter(|event| event.what == what).count();
        println!("{count:8} times {what:?}");
    }
    println!("{wakeups:8} wake-ups");
    println!("after a fifth of the time {before:?}, at the end {after:?}");
}
