//! What perfect knowledge would have saved on the same day.

use nightwatt_energy::quantity::Joules;
use nightwatt_energy::time::Mono;
use nightwatt_load::{RequestKind, Run};
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::{BusyTimes, Waking, plan};

use super::records::Records;

/// What the oracle saves against a server always on: it knows every request that only the server
/// could answer, is awake at each of them, and is bound by the same times.
///
/// Whether the cache could answer is taken from what the proxy saw in this very run; reopened pages are
/// left out, since the oracle delays no request.
pub(super) fn oracle_saving(
    scenario: &Scenario,
    run: &Run,
    records: &Records,
    start: Mono,
    end: Mono,
) -> Joules {
    let mut demands: Vec<Mono> = run
        .outcomes
        .iter()
        .filter(|outcome| outcome.kind == RequestKind::Trace)
        .filter(|outcome| records.line(&outcome.id).is_some_and(|line| line.needs_server))
        .map(|outcome| outcome.intended)
        .collect();
    demands.sort_unstable();
    let rules = scenario.constraints();
    let mut busy = BusyTimes::new(rules.quiet);
    for at in demands {
        busy.push(at);
    }
    plan(busy.times(), start, end, Waking::Ahead, &rules).saved
}
