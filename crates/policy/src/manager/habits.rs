//! What a server's changes tell of it: how long it takes to wake, whether it is used without this proxy,
//! whether something wakes it again and again.

use std::time::Duration;

use super::{PowerManager, breaker};
use crate::lifecycle::Change;
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::Mono;

/// A new wake-up counts a quarter: the last handful decide.
const GAIN: f64 = 0.25;

/// What is expected of the next wake-up.
#[derive(Debug, Clone, Copy)]
pub(super) struct WakeTime {
    configured: Duration,
    observed: Option<Duration>,
}

impl WakeTime {
    /// With what was seen by an earlier process.
    pub(super) fn new(configured: Duration, observed: Option<Duration>) -> Self {
        Self { configured, observed }
    }

    /// From the wake command to the first answer.
    pub(super) fn expected(&self) -> Duration {
        self.observed.unwrap_or(self.configured)
    }

    /// The mean that was seen, if any was.
    pub(super) fn observed(&self) -> Option<Duration> {
        self.observed
    }

    /// Replaces what was seen before.
    pub(super) fn measured(&mut self, took: Duration) {
        self.observed = Some(took);
    }

    /// Adds the length of one more wake-up.
    pub(super) fn observe(&mut self, took: Duration) {
        let mean = self.observed.unwrap_or(took);
        self.observed = Some(mean.mul_f64(1.0 - GAIN) + took.mul_f64(GAIN));
    }
}

impl<P: SleepPolicy> PowerManager<P> {
    /// What a change tells of the server's habits.
    pub(super) fn learn(&mut self, now: Mono, change: Change) {
        if !matches!(change, Change::Waking | Change::Woke) {
            self.waking_since = None;
        }
        match change {
            // A command that is given again belongs to the same wake-up: clients wait for all of it.
            Change::Waking => {
                self.waking_since.get_or_insert(now);
            }
            Change::Woke => {
                let took = self.waking_since.take().map(|since| now.since(since));
                // Where its slowness forbids sleep, the operator wakes it to measure it again.
                let is_measured =
                    self.wake_cause == Some(super::Cause::Operator) && self.too_slow().is_some();
                match took {
                    Some(took) if is_measured => self.wake_time.measured(took),
                    Some(took) => self.wake_time.observe(took),
                    None => {}
                }
            }
            Change::WokenByOthers if !self.lifecycle.came_back() => {
                self.stay_awake_until = self.stay_awake_until.max(now + self.settings.grace);
            }
            _ => return,
        }
        // Clients that wake it have budgets, so their wake-ups don't count here; and a server that was only
        // out of reach has not slept.
        let for_nothing = match change {
            Change::Woke => self.wake_cause == Some(super::Cause::Policy),
            Change::WokenByOthers => !self.lifecycle.came_back(),
            _ => false,
        };
        if for_nothing && self.breaker.woke(now) {
            self.stay_awake_until = self.stay_awake_until.max(now + breaker::HOLD);
        }
    }

    /// How long it is expected to take from a wake command to the first answer: as seen, or until then
    /// as configured.
    pub fn expected_wake_time(&self) -> Duration {
        self.wake_time.expected()
    }

    /// How many times it was found being woken again and again without serving a request.
    pub const fn wake_loops(&self) -> u64 {
        self.breaker.loops()
    }
}
