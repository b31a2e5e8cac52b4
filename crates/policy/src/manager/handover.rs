//! A manager that goes on with other settings after a reload, or in another process after a hand-over.

use super::{Action, AwakeHours, Crawl, PowerManager, Settings, WakeTime};
use crate::ledger::Billing;
use crate::lifecycle::{Change, Handed, Phase};
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::Now;

impl<P: SleepPolicy> PowerManager<P> {
    /// Applies these settings from now on, and this policy if there is a new one. Held requests, exchanges
    /// under way, the bill and what was seen so far stay; the window of a changed share, and changed
    /// budgets, start again.
    pub fn retune(&mut self, now: Now, settings: Settings, policy: Option<P>) {
        let Self { settings: old, .. } = self;
        self.sla.retune(settings.sla);
        self.wake_budgets.retune(old, &settings);
        if settings.awake_budget != old.awake_budget {
            self.awake_budget.set_most(now.mono, settings.awake_budget);
        }
        if settings.crawl_window != old.crawl_window {
            let appointment = self.crawl.appointment(now);
            self.crawl = Crawl::new(settings.crawl_window.clone(), appointment, now);
        }
        let of_hours = |it: &Settings| (it.awake.clone(), it.days_off.clone(), it.zone.clone());
        if of_hours(&settings) != of_hours(old) {
            self.awake_hours = AwakeHours::new(&settings, self.awake_hours.ordered());
        }
        self.in_use.retune(now.mono, &settings.in_use);
        if settings.timeouts != old.timeouts {
            self.lifecycle.set_timeouts(now.mono, settings.timeouts);
        }
        self.wake_time = WakeTime::new(settings.wake_time, self.wake_time.observed());
        if let Some(policy) = policy {
            self.policy = policy;
        }
        self.settings = settings;
        self.reconsider(now);
    }

    /// The server is reached in another way from now on: see
    /// [`Lifecycle::controller_changed`](crate::lifecycle::Lifecycle::controller_changed).
    pub fn controller_changed(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.lifecycle.controller_changed(now.mono, &mut self.commands);
        self.apply(now, None, actions);
    }

    /// What the next process is to know of the server.
    pub fn hand_over(&self, now: Now, carried_out: bool) -> Handed {
        let stay_awake = self.stay_awake_until.max(self.holds.until()).since(now.mono);
        Handed { stay_awake, ..self.lifecycle.hand_over(now.mono, carried_out) }
    }

    /// Goes on where another process let go. Only for a manager that has not begun; then its server need
    /// not be looked at.
    pub fn take_over(&mut self, now: Now, handed: &Handed, actions: &mut Vec<Action>) {
        self.lifecycle.take_over(now.mono, handed);
        if !handed.stay_awake.is_zero() {
            self.stay_awake_until = now.mono + handed.stay_awake;
            self.ordered_until = self.stay_awake_until;
        }
        let found = match self.lifecycle.phase() {
            Phase::Unknown => return,
            Phase::Awake => Some(Change::FoundAwake),
            Phase::Asleep => Some(Change::FoundAsleep),
            Phase::FallingAsleep | Phase::Waking | Phase::Failed => None,
        };
        if found.is_none() {
            // Its sleep was charged by the process before.
            self.ledger.turn(now.mono, Billing::Off);
        }
        self.apply(now, found, actions);
    }
}
