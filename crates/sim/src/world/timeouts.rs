//! Many time-outs at once, as the power manager under each of them.

use std::collections::BTreeSet;
use std::time::Duration;

use nightwatt_energy::time::{Mono, Wall};
use nightwatt_policy::admission::{Cached, ClientClass, Request, Want};
use nightwatt_policy::ledger::Bill;
use nightwatt_policy::manager::Settings;
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::timeouts::{DelayedUnder, Timeouts};
use nightwatt_policy::sleep::{Constraints, Timeout};
use nightwatt_policy::visit::Visitor;
use proptest::prelude::*;

use super::{Demand, World};
use crate::visits::VisitBook;

/// The manager itself says the same of these gaps, one time-out at a time. Gaps, the least time on
/// and what follows the last request are in seconds, time-outs in milliseconds.
fn compare(gaps: &[u64], idle: &BTreeSet<u64>, min_on: u64, after: u64) {
    let scenario = Scenario::default();
    let min_on = Duration::from_secs(min_on);
    let settings = Settings {
        sla: None,
        min_on,
        wake_budget: (u32::MAX, Duration::from_hours(1)),
        waiting_page: false,
        ..Settings::of(&scenario)
    };
    let states = scenario.power_states();
    let world = World { states, settings, start: Wall::default(), utc_offset: 0 };
    let request = Request { class: ClientClass::Human, want: Want::Other, cached: Cached::Nothing };
    let (mut at, mut book) = (0, VisitBook::default());
    let demands: Vec<Demand> = gaps
        .iter()
        .map(|gap| {
            at += gap;
            let at = Mono::from_secs(at);
            let visitor = Visitor(0);
            Demand {
                number: 0,
                at,
                visitor,
                visit: book.of(at, visitor),
                client: 0,
                request,
                recognised: true,
            }
        })
        .collect();
    let end = Mono::from_secs(at + after);
    let rules = Constraints { states, min_on, quiet: scenario.server.quiet };
    let idle: Vec<Duration> = idle.iter().copied().map(Duration::from_millis).collect();
    let mut bank = Timeouts::new(idle.clone(), rules, world.settings.delay);
    let (mut visit, mut last) = (DelayedUnder::default(), Mono::ZERO);
    for demand in &demands {
        if demand.at.since(last) >= nightwatt_policy::visit::VISIT_GAP {
            visit = DelayedUnder::default();
        }
        last = demand.at;
        bank.request(demand.at, &mut visit);
    }
    for under in bank.finish(end) {
        let policy = Timeout { idle: under.idle };
        let outcome = world.run(policy, demands.iter().copied(), end);
        let bill = Bill { wakeups: 0, ..outcome.bill };
        assert_eq!(under.bill, bill, "{:?}", under.idle);
        assert_eq!(under.delayed_requests, outcome.delayed_requests);
        assert_eq!(under.delayed_visits, outcome.delayed_visits);
    }
}

#[test]
fn a_sleep_that_ends_as_it_begins_is_what_the_power_manager_does() {
    compare(&[83, 83, 0], &BTreeSet::from([78_000]), 0, 1);
}

proptest! {
    /// The manager itself says the same, one time-out at a time.
    #[test]
    fn each_is_what_the_power_manager_does(
        gaps in proptest::collection::vec(
            prop_oneof![0_u64..4, 4_u64..12, 0_u64..200, 0_u64..3000], 0..120),
        idle in proptest::collection::btree_set(
            prop_oneof![1_u64..9_000, 5_000_u64..900_000], 1..8),
        min_on in 0_u64..90,
        after in 1_u64..60,
    ) {
        compare(&gaps, &idle, min_on, after);
    }
}
