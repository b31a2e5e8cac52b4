//! Requests that wait for the server.

use super::{Action, Cause, PowerManager};
use crate::lifecycle::Phase;
use crate::sleep::SleepPolicy;
use crate::visit::Visitor;
use nightwatt_energy::time::Now;

/// A request that waits for the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) id: u64,
    pub(super) arrived: Now,
    /// Nothing where a whole server waits for another.
    pub(super) visitor: Option<Visitor>,
}

impl<P: SleepPolicy> PowerManager<P> {
    /// A request that was held is gone before the server woke (its client gave up, or it waited too
    /// long). It was delayed all the same.
    pub fn gave_up(&mut self, now: Now, id: u64) {
        if let Some(place) = self.held.iter().position(|held| held.id == id) {
            let held = self.held.swap_remove(place);
            self.count_delay(now, &held);
        }
    }

    /// A request that had been let through found the server gone, and waits again; it was counted
    /// when it was admitted. Wakes the server. False if that would not wake: then it need not wait. There is no
    /// `visitor` where a whole server waits for another.
    pub fn rejoin(
        &mut self,
        now: Now,
        id: u64,
        visitor: Option<Visitor>,
        actions: &mut Vec<Action>,
    ) -> bool {
        if self.lifecycle.phase() == Phase::Failed && now.mono < self.lifecycle.blocked_until() {
            return false;
        }
        self.held.push(Held { id, arrived: now, visitor });
        self.wake(now, Cause::Request(id), actions);
        true
    }

    pub(super) fn release_held(&mut self, now: Now) {
        for held in std::mem::take(&mut self.held) {
            self.count_delay(now, &held);
        }
    }

    fn count_delay(&mut self, now: Now, held: &Held) {
        if now.mono.since(held.arrived.mono) <= self.settings.delay {
            return;
        }
        self.delayed_this_sleep += 1;
        self.sla.delayed(now, held.arrived, held.visitor);
    }

    /// Requests held for it now.
    pub fn held(&self) -> usize {
        self.held.len()
    }
}
