//! Which requests wake the server, and whose budget they draw on.

use std::time::Duration;

use super::{Action, AdmissionRequest, Cause, PowerManager};
use crate::admission::Route;
use crate::lifecycle::Phase;
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::Now;

/// Between two wake-ups for `/robots.txt`: crawlers keep what they have read for a day (RFC 9309, 2.4).
const ROBOTS_PAUSE: Duration = Duration::from_hours(24);

impl<P: SleepPolicy> PowerManager<P> {
    /// May this request wake the server, and does it?
    pub(super) fn request_wakes(
        &mut self,
        now: Now,
        admission_request: &AdmissionRequest,
        route: Route,
        actions: &mut Vec<Action>,
    ) -> Route {
        match self.lifecycle.phase() {
            Phase::Failed if now.mono < self.lifecycle.blocked_until() => {
                return Route::Unavailable(self.lifecycle.blocked_until().since(now.mono));
            }
            // Another client's wake-up is under way: joining it costs nothing.
            Phase::Waking | Phase::Unknown => {}
            Phase::FallingAsleep if self.wake_cause.is_some() => {}
            _ => {
                if let Some(refusal) = self.spend(now, admission_request) {
                    return refusal;
                }
            }
        }
        self.wake(now, Cause::Request(admission_request.id), actions);
        route
    }

    /// A crawler asks for `/robots.txt`, which is not stored: search engines take a 503 for "do not crawl",
    /// and keep to it for days. So it wakes the server, once a day and within its budget, or waits for a
    /// wake-up that is under way.
    pub(super) fn robots_wake(
        &mut self,
        now: Now,
        admission_request: &AdmissionRequest,
        refusal: Route,
        actions: &mut Vec<Action>,
    ) -> Route {
        let is_waking = self.lifecycle.phase() == Phase::Waking;
        if !is_waking && now.mono < self.robots_wake_at {
            return refusal;
        }
        let route = self.request_wakes(now, admission_request, Route::Hold, actions);
        if route != Route::Hold {
            return refusal;
        }
        if !is_waking {
            self.robots_wake_at = now.mono + ROBOTS_PAUSE;
        }
        route
    }
}
