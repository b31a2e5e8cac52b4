//! Use of the server that goes past this proxy, as probes report it.

use super::PowerManager;
use crate::in_use::{Found, Standing};
use crate::lifecycle::Phase;
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::{Mono, Now};

impl<P: SleepPolicy> PowerManager<P> {
    /// Since when it has served no client, as far as known.
    pub(super) fn idle_since(&self) -> Mono {
        self.last_to_server.max(self.lifecycle.since())
    }

    /// Whether probes may be asked: only of a server that is awake, and that no client keeps awake anyway.
    fn is_open_to_probes(&mut self, now: Now) -> bool {
        let is_free = self.in_flight == 0 || self.awake_budget.is_over(now.mono);
        self.lifecycle.phase() == Phase::Awake && is_free
    }

    /// When the next probe is to be asked whether the server is in use; never while it sleeps or serves clients.
    pub fn probes_due_at(&mut self, now: Now) -> Mono {
        if !self.is_open_to_probes(now) {
            return Mono::NEVER;
        }
        self.in_use.next_due(self.idle_since())
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
