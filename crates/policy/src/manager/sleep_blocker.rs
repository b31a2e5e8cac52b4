//! What keeps a server awake, the policy apart.

use super::PowerManager;
use crate::hours::Hours;
use crate::in_use::{Standing, Use};
use crate::lifecycle::Phase;
use crate::sla::Broken;
use crate::sleep::{SlaBudget, SleepPolicy};
use nightwatt_energy::time::{Mono, Now};

/// Why a server that is awake does not sleep now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SleepBlocker {
    /// It is not awake in the first place.
    NotAwake,
    /// So many exchanges with it are under way.
    InFlight(u32),
    /// The last sleep command failed, and is not given again before then.
    SleepFailed(Mono),
    /// The operator wants it awake until then.
    StayAwake(Mono),
    /// Others woke it, and may need it until then.
    WokenByOthers(Mono),
    /// A crawler has an appointment until then.
    Appointment(Mono),
    /// The minimum time awake after waking ends then.
    MinOn(Mono),
    /// The minimum time awake after a request ends then.
    Quiet(Mono),
    /// It has reasons of its own, and is asked again then.
    Declined(Mono),
    /// It was woken again and again without serving a request, and is left awake until then.
    WakeLoop(Mono),
    /// These are hours in which it is not to sleep, until then.
    Hours(Mono),
    /// These are hours in which it is to be awake, until then.
    AwakeHours(Mono),
    /// A probe reports that it is in use, or gives no answer yet.
    InUse(Use),
    /// The SLA forbids another sleep.
    Sla(Broken),
}

impl<P: SleepPolicy> PowerManager<P> {
    /// What hinders the server from sleeping now, the policy apart.
    pub fn sleep_blocker(&mut self, now: Now) -> Option<SleepBlocker> {
        self.sla_budget(now).err()
    }

    /// How much of the SLA would be used after one more sleep, if there is one and nothing hinders
    /// the server from sleeping.
    pub(super) fn sla_budget(&mut self, now: Now) -> Result<Option<SlaBudget>, SleepBlocker> {
        if self.lifecycle.phase() != Phase::Awake {
            return Err(SleepBlocker::NotAwake);
        }
        if self.is_served(now) {
            return Err(SleepBlocker::InFlight(self.in_flight));
        }
        let mut until = self.lifecycle.blocked_until();
        if !self.sleep_ordered {
            until = until.max(self.kept_until(now));
        }
        if now.mono < until {
            return Err(self.kept_by(now, until));
        }
        let after = self.sla.after_one_more(now, self.delayed_per_sleep);
        if self.sleep_ordered {
            return Ok(after.unwrap_or(None));
        }
        if let Some(too_slow) = self.too_slow() {
            return Err(SleepBlocker::Sla(too_slow));
        }
        // A sleep that goes on uses no more of it than it did when it was allowed.
        if self.resumes_sleep {
            return Ok(self.sla.unused(now));
        }
        after.map_err(SleepBlocker::Sla)
    }

    /// Why the server stays awake until then.
    fn kept_by(&self, now: Now, until: Mono) -> SleepBlocker {
        let asks_again = self.lifecycle.blocked_until();
        let declined = self.lifecycle.declined() > 0 && asks_again == until;
        if self.sleep_ordered {
            return if declined {
                SleepBlocker::Declined(until)
            } else {
                SleepBlocker::SleepFailed(until)
            };
        }
        if self.breaker.holds(now.mono) == Some(until) {
            return SleepBlocker::WakeLoop(until);
        }
        // Use is named whatever else keeps it awake for longer.
        let in_use = self.used(now);
        if let Some(it) = in_use.filter(|it| it.standing == Standing::InUse || it.until == until) {
            return SleepBlocker::InUse(it);
        }
        match until {
            _ if self.hours_end(now) == Some(until) => SleepBlocker::Hours(until),
            _ if self.awake_hours.ends(now.mono) == Some(until) => SleepBlocker::AwakeHours(until),
            _ if declined => SleepBlocker::Declined(until),
            _ if until == self.ordered_until || until == self.holds.until() => {
                SleepBlocker::StayAwake(until)
            }
            _ if until == self.appointment_until => SleepBlocker::Appointment(until),
            _ if until == self.stay_awake_until => SleepBlocker::WokenByOthers(until),
            _ if until == self.last_to_server + self.settings.quiet => SleepBlocker::Quiet(until),
            _ if until == self.lifecycle.since() + self.settings.min_on => {
                SleepBlocker::MinOn(until)
            }
            _ => SleepBlocker::SleepFailed(until),
        }
    }

    /// Whether its SLA keeps the server from sleeping at all, since it wakes too slowly.
    pub fn too_slow(&self) -> Option<Broken> {
        self.sla.is_too_slow(self.expected_wake_time())
    }

    /// Until then a server that is awake stays so, whatever the policy says.
    pub(super) fn kept_until(&self, now: Now) -> Mono {
        self.stay_awake_until
            .max(self.holds.until())
            .max(self.lifecycle.since() + self.settings.min_on)
            .max(self.last_to_server + self.settings.quiet)
            .max(self.hours_end(now).unwrap_or_default())
            .max(self.awake_hours.ends(now.mono).unwrap_or_default())
            .max(self.used(now).map_or(Mono::ZERO, |it| it.until))
    }

    /// Use past this proxy, as its probes report it.
    pub(super) fn used(&self, now: Now) -> Option<Use> {
        self.in_use.keeps(now.mono, self.idle_since())
    }

    /// The end of the hours in which it is not to sleep, if it is in such now.
    pub(super) fn hours_end(&self, now: Now) -> Option<Mono> {
        Hours::left_of(&self.settings.never_sleep, now).map(|left| now.mono + left)
    }

    /// What keeps the server awake now, the policy apart: a [`sleep_blocker`](Self::sleep_blocker), or what is
    /// under way in the background while all else agrees that it may sleep.
    pub fn kept_awake_by(&mut self, now: Now) -> Option<SleepBlocker> {
        let background = self.draining.then_some(SleepBlocker::InFlight(self.background));
        self.sleep_blocker(now).or(background)
    }
}
