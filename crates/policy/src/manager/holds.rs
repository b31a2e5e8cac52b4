//! Programs that need the server awake while they run, as a backup does. Each has a hold with a number of its own, so that
//! the end of one takes nothing from the others, nor from the operator.

use std::time::Duration;

use super::{Action, Cause, PowerManager};
use crate::in_use::Standing;
use crate::lifecycle::Phase;
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::{Mono, Now};

/// Which program: a number that it has drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder(pub u64);

#[derive(Debug, Clone, Copy)]
struct Hold {
    holder: Holder,
    until: Mono,
}

/// The holds of a server.
#[derive(Debug, Default)]
pub(super) struct Holds {
    all: Vec<Hold>,
    /// Whether it slept when the first of them began, and is to sleep after the last.
    slept: bool,
}

impl Holds {
    /// When the last one runs out; zero without any.
    pub(super) fn until(&self) -> Mono {
        self.all.iter().map(|hold| hold.until).max().unwrap_or(Mono::ZERO)
    }

    /// Another wants it awake, too: its policy decides when it sleeps.
    pub(super) const fn is_wanted_otherwise(&mut self) {
        self.slept = false;
    }

    fn begin(&mut self, now: Mono, hold: Hold, sleeps: bool) {
        self.all.retain(|it| it.until > now && it.holder != hold.holder);
        self.slept = sleeps || self.slept && !self.all.is_empty();
        self.all.push(hold);
    }

    /// Whether that was the last one, of a server that slept before the first.
    fn end(&mut self, now: Mono, holder: Holder) -> bool {
        let is_held = self.all.iter().any(|it| it.holder == holder && it.until > now);
        self.all.retain(|it| it.until > now && it.holder != holder);
        is_held && self.all.is_empty() && std::mem::take(&mut self.slept)
    }
}

impl<P: SleepPolicy> PowerManager<P> {
    /// Wakes it, and keeps it awake for this program, until it is released or the time is over.
    pub(super) fn hold(
        &mut self,
        now: Now,
        holder: Holder,
        time: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.sleep_ordered = false;
        let phase = self.lifecycle.phase();
        // One that wakes just now has a visitor, whose time the policy decides about.
        let sleeps = matches!(phase, Phase::Asleep | Phase::FallingAsleep | Phase::Failed);
        self.holds.begin(now.mono, Hold { holder, until: now.mono + time }, sleeps);
        self.lifecycle.end_pause(now.mono);
        self.wake(now, Cause::Operator, actions);
        self.reconsider(now);
    }

    /// The program is done. The server sleeps at once if it slept before and nothing else wants it awake.
    pub(super) fn release(&mut self, now: Now, holder: Holder, actions: &mut Vec<Action>) {
        if self.holds.end(now.mono, holder) && !self.is_wanted(now) {
            let phase = self.lifecycle.phase();
            self.sleep_ordered = matches!(phase, Phase::Awake | Phase::Unknown | Phase::Waking);
        }
        self.reconsider(now);
        self.consider_sleep(now, actions);
    }

    /// Whether a client, an order, hours or use past the proxy want it awake.
    fn is_wanted(&self, now: Now) -> bool {
        let is_ahead = |until: Option<Mono>| until.is_some_and(|until| until > now.mono);
        self.in_flight() > 0
            || !self.held.is_empty()
            || self.stay_awake_until > now.mono
            || is_ahead(self.hours_end(now))
            || is_ahead(self.awake_hours.ends(now.mono))
            || self.used(now).is_some_and(|it| it.standing == Standing::InUse)
    }
}
