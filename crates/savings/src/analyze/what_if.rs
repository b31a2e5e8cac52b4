//! What one rule would save: the scenario's policy once more over the newest requests, with one
//! address always answered by the cache, or one client or class sent to the crawlers' queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use nightwatt_energy::time::{Mono, Wall};
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::manager::Settings;
use nightwatt_policy::scenario::Scenario;
use nightwatt_sim::{CacheSettings, LoggedRequest, Outcome, SiteRun, World};
use serde::Serialize;

/// Requests kept for it, some 8 MB; older ones are forgotten.
const MOST: usize = 1 << 16;

/// The newest requests of a log.
#[derive(Debug, Default)]
pub(super) struct Trace(VecDeque<LoggedRequest>);

impl Trace {
    pub(super) fn push(&mut self, asked: LoggedRequest) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(asked);
    }
}

/// A rule that an operator could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// The cache always has this address.
    Cached(u64),
    /// This client is invited to the crawl window, as crawlers are.
    Client(u64),
    /// So is this class.
    Class(ClientClass),
}

impl Rule {
    /// Would it change anything about this request?
    fn concerns(self, asked: &LoggedRequest) -> bool {
        match self {
            Self::Cached(key) => asked.resource.key == key,
            Self::Client(client) => asked.client == client,
            Self::Class(class) => asked.class == class,
        }
    }

    fn apply(self, asked: &LoggedRequest) -> LoggedRequest {
        match self {
            _ if !self.concerns(asked) => *asked,
            Self::Cached(_) => LoggedRequest { is_pinned: true, ..*asked },
            Self::Client(_) | Self::Class(_) => {
                LoggedRequest { class: ClientClass::Crawler, scanner_rules: 0, ..*asked }
            }
        }
    }
}

/// What a rule would save; negative if it would cost more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WhatIf {
    /// `cache` or `crawler`: how the rule treats the address or the client.
    pub rule: &'static str,
    /// Energy of the server, J per day.
    pub saved_j_per_day: f64,
    /// Wake-ups per day.
    pub wakeups_avoided_per_day: f64,
    /// Requests that wait, per day. Clients that are sent away until the crawl window are not counted.
    pub delays_avoided_per_day: f64,
}

/// What all runs have in common.
struct Stage<'a> {
    scenario: &'a Scenario,
    world: World,
    asked: Vec<LoggedRequest>,
    length: Mono,
}

impl Stage<'_> {
    fn run(&self, rule: Option<Rule>) -> Outcome {
        let policy = self.scenario.policy.build(&self.scenario.terms());
        let mut run = SiteRun::begin(&self.world, CacheSettings::of(&self.scenario.cache), policy);
        for asked in &self.asked {
            run.ask(&rule.map_or(*asked, |rule| rule.apply(asked)));
        }
        run.finish(self.length)
    }
}

/// Tries each rule by itself, on all cores; and over how long a stretch it was tried, s.
pub(super) fn try_each(
    trace: Trace,
    rules: &[Rule],
    scenario: &Scenario,
    start: Wall,
    utc_offset: i32,
    end: Mono,
) -> (Vec<WhatIf>, f64) {
    let first = trace.0.front().map_or(Mono::ZERO, |asked| asked.at);
    // A stretch begins with its first request; a whole log with the log.
    let begins = if trace.0.len() < MOST { Mono::ZERO } else { first };
    // Without an SLA: what one rule leaves of its budget is spent on other sleeps, and says little
    // of the rule.
    let settings = Settings { sla: None, ..Settings::of(scenario) };
    let world =
        World { states: scenario.power_states(), settings, start: start + begins.0, utc_offset };
    let asked = trace
        .0
        .into_iter()
        .map(|asked| LoggedRequest { at: Mono(asked.at.since(begins)), ..asked });
    let stage = Stage { scenario, world, asked: asked.collect(), length: Mono(end.since(begins)) };
    let span_s = stage.length.0.as_secs_f64();
    // Skips rules that concern no client of this log.
    let concerns = |rule: &Rule| stage.asked.iter().any(|asked| rule.concerns(asked));
    let tried: Vec<Rule> = rules.iter().copied().filter(concerns).collect();
    let mut outcomes = on_all_cores(tried.len() + 1, |index| {
        stage.run(index.checked_sub(1).map(|index| tried[index]))
    });
    let now = outcomes.remove(0);
    let mut tried = tried.into_iter().zip(outcomes).peekable();
    let per_day = |figure: f64| if span_s > 0.0 { figure * 86_400.0 / span_s } else { 0.0 };
    let energy = |outcome: &Outcome| outcome.bill.server(&stage.world.states).get();
    let saved = |rule: &Rule| {
        let then = tried.next_if(|(tried, _)| tried == rule).map_or(now, |(_, then)| then);
        WhatIf {
            rule: if matches!(rule, Rule::Cached(_)) { "cache" } else { "crawler" },
            saved_j_per_day: per_day(energy(&now) - energy(&then)),
            wakeups_avoided_per_day: per_day(now.bill.wakeups as f64 - then.bill.wakeups as f64),
            delays_avoided_per_day: per_day(
                now.delayed_requests as f64 - then.delayed_requests as f64,
            ),
        }
    };
    (rules.iter().map(saved).collect(), span_s)
}

/// Runs `job` for each index once, and returns the results in order.
fn on_all_cores<T: Send>(count: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(count);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            done.push((index, job(index)));
        }
    };
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Vec<(usize, T)>>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().flat_map(join).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nightwatt_policy::admission::Want;
    use nightwatt_policy::scenario::SlaRule;
    use nightwatt_policy::sleep::PolicyChoice;
    use nightwatt_policy::visit::Visitor;
    use nightwatt_sim::{Mirrorable, Resource, Slot, Visit};

    use super::*;

    /// A request of `client` for the address `key`, which no cache may store.
    fn ask(minute: u64, client: u64, key: u64) -> LoggedRequest {
        LoggedRequest {
            number: minute,
            at: Mono::from_secs(minute * 60),
            visitor: Visitor(client),
            visit: Visit { number: minute + 1, seat: 0 },
            client,
            class: ClientClass::Human,
            recognised: true,
            scanner_rules: 0,
            succeeded: true,
            want: Want::Other,
            resource: Resource {
                key,
                slot: Slot::NONE,
                bytes: 1000,
                is_read: true,
                storable: false,
                mirror: Mirrorable::NOTHING,
            },
            is_pinned: false,
        }
    }

    /// One client asks for address 1 every hour; another for address 2 every four hours.
    fn tried(rules: &[Rule]) -> (Vec<WhatIf>, f64) {
        let mut trace = Trace::default();
        for hour in 0..48 {
            trace.push(ask(hour * 60, 10, 1));
            if hour % 4 == 2 {
                trace.push(ask(hour * 60 + 30, 20, 2));
            }
        }
        let scenario = Scenario {
            policy: PolicyChoice::Timeout { idle: Duration::from_mins(1) },
            sla: SlaRule { enabled: false, ..SlaRule::default() },
            ..Scenario::default()
        };
        try_each(trace, rules, &scenario, Wall::default(), 0, Mono::from_secs(48 * 3600))
    }

    #[test]
    fn a_rule_saves_the_wake_ups_that_nobody_else_needs() {
        let rules = [
            Rule::Cached(1),
            Rule::Client(20),
            Rule::Class(ClientClass::Api),
            Rule::Class(ClientClass::Human),
        ];
        let (what, span_s) = tried(&rules);
        assert!((span_s - 48.0 * 3600.0).abs() < 1e-9);
        let wakeups: Vec<f64> = what.iter().map(|it| it.wakeups_avoided_per_day).collect();
        // 47 of the first address' 48 requests wake the server (it starts awake), 12 of the second's.
        assert!((wakeups[0] - 23.5).abs() < 1e-9, "{wakeups:?}");
        assert!((what[0].delays_avoided_per_day - 23.5).abs() < 1e-9);
        assert!((wakeups[1] - 6.0).abs() < 1e-9, "{wakeups:?}");
        assert!(what[2].saved_j_per_day.abs() < 1e-9, "nobody is of that class");
        // The crawl window wakes it once a night for those who were sent away.
        assert!((wakeups[3] - (29.5 - 1.0)).abs() < 0.51, "{wakeups:?}");
        assert!(what[0].saved_j_per_day > what[1].saved_j_per_day);
    }

    #[test]
    fn a_wake_up_saved_is_worth_the_minute_awake_and_the_switch() {
        let (what, _) = tried(&[Rule::Cached(2)]);
        let states = Scenario::default().power_states();
        // Awake for a minute, 5 s of waking billed as off, and a switch: as in the ledger.
        let awake = (states.on - states.off) * Duration::from_mins(1);
        let each = (awake + states.switch).get();
        assert!((what[0].saved_j_per_day - 6.0 * each).abs() < 1e-6, "{what:?}, each {each}");
    }

    #[test]
    fn the_trace_is_bounded() {
        let mut trace = Trace::default();
        for n in 0..(MOST as u64 + 10) {
            trace.push(ask(n, 1, 1));
        }
        assert_eq!((trace.0.len(), trace.0[0].number), (MOST, 10));
    }
}
