//! Which rule refuses a request, and for how long.

use std::time::Duration;

use nightwatt_model::policy::admission::{Route, Want};
use nightwatt_model::time::Mono;
use nightwatt_traffic::Verdict;

/// The rule that refuses a client that asks too often, in the access log.
pub(crate) const TOO_MANY_REQUESTS: &str = "requests-per-client";

/// The rule that refuses a client of which as many requests wait as may.
pub(crate) const HELD_PER_CLIENT: &str = "held-per-client";

/// For how long a scanner is sent away whose rule does not end by itself.
const SCANNERS_WAIT: Duration = Duration::from_hours(1);

/// The rule by which a request does not reach the server, for the access log; nothing for one that does.
pub(crate) const fn rule(route: Route, want: Want, verdict: &Verdict) -> Option<&'static str> {
    match (route, want) {
        (Route::State, Want::Icon) => Some("icons"),
        (Route::Later(_) | Route::Refuse | Route::State, _) => Some(verdict.rule.as_str()),
        (Route::OverBudget { budget, .. }, _) => Some(budget.as_str()),
        _ => None,
    }
}

/// In how long a client that is refused as a scanner may be welcome again.
pub(crate) fn scanner_waits(verdict: &Verdict, now: Mono) -> Duration {
    let ends = verdict.until.map_or(SCANNERS_WAIT, |until| until.since(now));
    ends.max(Duration::from_secs(1))
}
