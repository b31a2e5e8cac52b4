//! Wake-ups for copies of the site: the server is needed, although no request waits for it.

use super::{Action, Cause, PowerManager};
use crate::lifecycle::Phase;
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::Now;

impl<P: SleepPolicy> PowerManager<P> {
    /// Wakes a server that sleeps, so that copies of its site can be looked at again before they are too old.
    ///
    /// Its sleep goes on afterwards: unless a request uses the server in between, the SLA, which allowed that
    /// sleep, is not asked a second time. On a quiet site it would refuse, for lack of requests, and keep the
    /// server awake until the next one.
    pub fn wake_to_refresh(&mut self, now: Now, actions: &mut Vec<Action>) {
        if matches!(self.lifecycle.phase(), Phase::Asleep | Phase::FallingAsleep) {
            self.wake(now, Cause::Refresh, actions);
            self.resumes_sleep = self.wake_cause == Some(Cause::Refresh);
        }
    }

    /// Whether it was woken only for copies of its site, and no request has used it since.
    pub fn is_up_to_refresh(&self) -> bool {
        self.resumes_sleep && self.wake_cause == Some(Cause::Refresh)
    }
}
