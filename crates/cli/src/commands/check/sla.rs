//! The SLA of a site, and whether its server can keep it.

use nightwatt_gateway::config::SiteKind;
use nightwatt_policy::scenario::{Scenario, SlaRule};

use super::time;

/// What the SLA of a site is, and what it would be with the other `kind`.
pub(super) fn in_words(kind: Option<SiteKind>, sla: &SlaRule) -> String {
    let forms = sla.in_words().join("; ");
    match (sla.enabled, kind) {
        (true, _) => forms,
        (false, Some(SiteKind::App)) => {
            let pages = SlaRule { enabled: true, ..sla.clone() }.in_words().join("; ");
            format!(
                "none, as for every `app`: sleeps even if requests have to wait (with `kind = \"pages\"`: {pages}; \
                 `sla.enabled = true` is for both)"
            )
        }
        (false, _) => "none: sleeps even if requests have to wait".to_owned(),
    }
}

/// A server that takes longer to wake than the longest wait does not sleep.
pub(super) fn too_slow(scenario: &Scenario) -> Option<String> {
    let wake_time = scenario.server.wake_time;
    let most = scenario.sla()?.longest_wait.filter(|&most| wake_time > most)?;
    Some(format!(
        "`sla.longest_wait` is {}, but `server.wake_time` is {}: the server does not sleep unless `nightwatt serve` has \
         seen it wake within {0}; raise `longest_wait`, or correct `wake_time` (`nightwatt doctor` measures it)",
        time(most),
        time(wake_time)
    ))
}
