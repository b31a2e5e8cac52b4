//! Use of the server that goes past this proxy, as probes report it.

use super::PowerManager;
use crate::in_use::{Found, InUse, Standing};
use crate::lifecycle::Phase;
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::{Mono, Now};

impl<P: SleepPolicy> PowerManager<P> {
    /// Since when it has served no client, as far as known. Exchanges that no longer keep it awake do not count.
    pub(super) fn idle_since(&self) -> Mono {
        let overdrawn = self.overdrawn_since.unwrap_or(Mono::ZERO);
        self.last_to_server.max(self.lifecycle.since()).max(overdrawn)
    }

    /// Whether clients keep it awake.
    pub(super) fn is_served(&mut self, now: Now) -> bool {
        if self.in_flight == 0 {
            return false;
        }
        let is_over = self.awake_budget.is_over(now.mono);
        self.overdrawn_since = is_over.then(|| self.overdrawn_since.unwrap_or(now.mono));
        !is_over
    }

    /// Whether probes may be asked: only of a server that is awake, and that no client keeps awake anyway.
    fn is_open_to_probes(&mut self, now: Now) -> bool {
        !self.is_served(now) && self.lifecycle.phase() == Phase::Awake
    }

    /// When the next probe is to be asked whether the server is in use; never while it sleeps. While clients keep it
    /// awake, that is when their awake time may be used up.
    pub fn probes_due_at(&mut self, now: Now) -> Mono {
        if self.lifecycle.phase() != Phase::Awake {
            return Mono::NEVER;
        }
        let served = self.is_served(now);
        let due = self.in_use.next_due(self.idle_since());
        if served { due.max(self.awake_budget.over_at(now.mono)) } else { due }
    }

    /// The same number of probes, with the same times, may be others now: what was found says nothing of them.
    pub fn probes_changed(&mut self, now: Now) {
        self.in_use = InUse::begun(now.mono, &self.settings.in_use);
        self.reconsider(now);
    }

    /// The probes that are to be asked now.
    pub fn probes_due(&mut self, now: Now) -> Vec<usize> {
        if !self.is_open_to_probes(now) {
            return Vec::new();
        }
        self.in_use.due(now.mono, self.idle_since()).collect()
    }

    /// A probe of the server was asked. Use counts like a request that ends now, but draws on no budget. Answers about
    /// a server that has gone to sleep meanwhile are ignored.
    pub fn found_in_use(&mut self, now: Now, probe: usize, found: Found) {
        if self.lifecycle.phase() != Phase::Awake {
            return;
        }
        self.in_use.found(now.mono, probe, found);
        if found == Found::InUse {
            self.last_to_server = now.mono;
            self.breaker.served();
            self.resumes_sleep = false;
        }
        self.reconsider(now);
    }

    /// What each probe contributes now; nothing while the server is not awake.
    pub fn standings(&self, now: Now) -> Vec<Standing> {
        if self.lifecycle.phase() != Phase::Awake {
            return Vec::new();
        }
        self.in_use.standings(now.mono, self.idle_since()).collect()
    }
}
