//! When the mirror sends requests to its server, and when it wakes the server.
//!
//! * **A whole pass** begins a second after the server has woken, if there was none within `max_age`.
//! * **Pages that are old, popular or reported as changed** are confirmed immediately before the server sleeps. Its
//!   sleep waits at most `extension` for that, and for what changes meanwhile. The remaining pages are confirmed the
//!   next time.
//! * **An operator who reports changes** may want them fetched at once: then nothing waits for sleep.
//! * **The server is woken** once per `max_age` if nothing else woke it: early enough that the pass is over in time.
//!   No client uses the server then, so its sleep waits for the whole pass.

use std::time::Duration;

use nightwatt_httpcache::Timestamp;
use nightwatt_mirror::pure::plan::{PassKind, Planner};

/// Time limit of a pass for which the server was woken.
const LONGEST_ALONE: Duration = Duration::from_mins(10);

/// How the server is used while it is awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Awake {
    /// It was woken for the mirror, and no client has used it since.
    pub(super) is_alone: bool,
    /// Its sleep waits for the mirror.
    pub(super) is_draining: bool,
    /// What is due is wanted at once.
    pub(super) is_urgent: bool,
}

/// What to do while the server is awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Begin a pass, or continue the interrupted one.
    Pass(PassKind),
    /// Make the server's sleep wait, since pages must be confirmed before it.
    AwaitSleep,
    /// Nothing.
    Rest,
}

/// What to do now.
pub(super) fn step(plan: &Planner, awake: Awake, now: Timestamp) -> Step {
    let half = plan.rules().refresh.due_after(0.0);
    let is_half_old = plan.last_whole().is_none_or(|last| now.since(last) >= half);
    if plan.is_running() || plan.wants_whole_pass(now) || awake.is_alone && is_half_old {
        return Step::Pass(PassKind::Whole);
    }
    match plan.due_before_sleep(now) > 0 {
        true if awake.is_draining || awake.is_alone || awake.is_urgent => {
            Step::Pass(PassKind::Refresh)
        }
        true => Step::AwaitSleep,
        false => Step::Rest,
    }
}

/// How long the server's sleep waits for a pass. A pass that is over earlier does not use all of it.
pub(super) fn longest(plan: &Planner, is_alone: bool) -> Duration {
    if is_alone { LONGEST_ALONE } else { plan.rules().refresh.extension }
}

/// What determines the time of a wake-up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    /// Number of pages to confirm.
    pub(super) kept: usize,
    /// Duration of a wake-up.
    pub(super) wake_time: Duration,
    /// When the server was last woken for the mirror.
    pub(super) last: Option<Timestamp>,
}

/// When to wake the server, unless something else wakes it before; never if nothing is mirrored.
pub(super) fn wake_at(plan: &Planner, needs: Needs) -> Option<Timestamp> {
    let rules = plan.rules();
    let kept = u32::try_from(needs.kept).unwrap_or(u32::MAX);
    let pass = rules.limits.pause().saturating_mul(kept);
    let ahead = needs.wake_time.saturating_add(pass).min(rules.refresh.max_age / 2);
    let at = earlier(plan.wake_at(&[])?, ahead);
    // Pages that cannot be confirmed stay old: they must not cause one wake-up after the other.
    let again = needs.last.map(|last| earlier(last.plus(rules.refresh.max_age), ahead));
    Some(again.map_or(at, |again| at.max(again)))
}

fn earlier(at: Timestamp, ahead: Duration) -> Timestamp {
    let ahead = u64::try_from(ahead.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(at.as_millis().saturating_sub(ahead))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, StatusCode};
    use nightwatt_httpcache::{Rules, Times};
    use nightwatt_mirror::pure::address::Site;
    use nightwatt_mirror::pure::admit::{Answer, Ended};
    use nightwatt_mirror::pure::plan::Next;

    use super::*;
    use crate::config::MirrorConfig;

    const NOW: Timestamp = Timestamp::from_secs(1_780_000_000);
    const USED: Awake = Awake { is_alone: false, is_draining: false, is_urgent: false };
    const DRAINING: Awake = Awake { is_alone: false, is_draining: true, is_urgent: false };
    const ALONE: Awake = Awake { is_alone: true, is_draining: false, is_urgent: false };

    fn after(hours: u64) -> Timestamp {
        NOW.plus(Duration::from_hours(hours))
    }

    fn empty() -> Planner {
        let rules = MirrorConfig::default().plan_rules(&Rules::default());
        Planner::new(Site::new("http://example.org").unwrap(), rules)
    }

    /// After a whole pass over a site of one page.
    fn whole() -> Planner {
        let mut plan = empty();
        plan.begin(PassKind::Whole, NOW, None);
        let mut now = NOW;
        loop {
            match plan.next(now) {
                Next::Fetch(order) => {
                    let is_page = order.address.as_str() == "/";
                    let mut headers = HeaderMap::new();
                    headers.insert("content-type", HeaderValue::from_static("text/html"));
                    let status = if is_page { StatusCode::OK } else { StatusCode::NOT_FOUND };
                    let answer = Answer {
                        asked: HeaderMap::new(),
                        status,
                        headers,
                        body: "x".into(),
                        ended: Ended::Whole,
                        times: Times::at(now),
                    };
                    plan.take(&order, &answer, None, now);
                }
                Next::WaitUntil(then) => now = then,
                Next::Done(_) => return plan,
                Next::WaitForAnswer | Next::Idle => panic!("nothing is under way"),
            }
        }
    }

    #[test]
    fn a_site_that_was_never_looked_at_is_looked_at_whole_and_once_in_max_age() {
        assert_eq!(step(&empty(), USED, NOW), Step::Pass(PassKind::Whole));
        let plan = whole();
        assert_eq!(step(&plan, USED, after(1)), Step::Rest);
        assert_eq!(step(&plan, USED, after(24)), Step::Pass(PassKind::Whole));
    }

    #[test]
    fn what_is_due_waits_for_the_moment_before_sleep() {
        let plan = whole();
        assert_eq!(step(&plan, USED, after(13)), Step::AwaitSleep);
        assert_eq!(step(&plan, DRAINING, after(13)), Step::Pass(PassKind::Refresh));
        let mut changed = whole();
        assert_eq!(step(&changed, DRAINING, after(1)), Step::Rest);
        changed.outdate("/");
        assert_eq!(step(&changed, USED, after(1)), Step::AwaitSleep);
        let urgent = Awake { is_urgent: true, ..USED };
        assert_eq!(step(&changed, urgent, after(1)), Step::Pass(PassKind::Refresh));
        assert_eq!(step(&plan, urgent, after(1)), Step::Rest, "nothing is due");
        assert_eq!(step(&changed, DRAINING, after(1)), Step::Pass(PassKind::Refresh));
    }

    #[test]
    fn a_server_that_was_woken_for_it_is_asked_at_once_and_for_everything() {
        let plan = whole();
        assert_eq!(step(&plan, ALONE, after(13)), Step::Pass(PassKind::Whole));
        assert_eq!(step(&plan, ALONE, after(1)), Step::Rest);
        assert_eq!(longest(&plan, true), LONGEST_ALONE);
        assert_eq!(longest(&plan, false), plan.rules().refresh.extension);
    }

    #[test]
    fn the_server_is_woken_in_time_and_not_again_if_that_did_not_help() {
        let needs = |last| Needs { kept: 1, wake_time: Duration::from_mins(1), last };
        assert_eq!(wake_at(&empty(), needs(None)), None);
        let plan = whole();
        let wake = wake_at(&plan, needs(None)).unwrap();
        let before = after(24).since(wake);
        assert!((60..62).contains(&before.as_secs()), "{before:?}");
        let again = wake_at(&plan, needs(Some(wake))).unwrap();
        assert!(again.since(wake) > Duration::from_hours(23));
    }
}
