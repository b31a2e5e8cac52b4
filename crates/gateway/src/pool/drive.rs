//! Background work: timers of pool and servers, and the first probes.

use std::sync::Arc;

use nightwatt_energy::time::Mono;
use nightwatt_policy::fleet::Phase as Duty;
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::Order;

use super::whole::FIRST_LOOK;
use super::{ServerPool, State};
use crate::lessons::pool::{self, Place};
use crate::supervisor::CHECKPOINT_EVERY;

/// Drives the pool; stores what its policy has learned when it ends.
pub(crate) struct Drive {
    pub(crate) pool: Arc<ServerPool>,
    pub(crate) shelf: Option<Place>,
    pub(crate) stored: Mono,
    /// Another process has put the pool to sleep.
    pub(crate) sleeps: bool,
}

impl Drive {
    /// Runs forever.
    pub(crate) async fn run(mut self) {
        self.pool.look().await;
        self.pool.begin(self.sleeps);
        loop {
            let checkpoint =
                if self.shelf.is_some() { self.stored + CHECKPOINT_EVERY } else { Mono::NEVER };
            let due = {
                let mut state = self.pool.lock();
                state.armed = state.due();
                state.armed.min(checkpoint)
            };
            tokio::select! {
                biased;
                () = self.pool.rearm.notified() => {}
                () = self.pool.clock.sleep_until(due) => {
                    let now = self.pool.clock.now().mono;
                    if now >= checkpoint {
                        self.store();
                    }
                    self.pool.tick();
                }
            }
        }
    }

    fn store(&mut self) {
        let now = self.pool.clock.now();
        self.stored = now.mono;
        let lessons = self.pool.lock().pool.lessons();
        if let (Some(place), Some(lessons)) = (&self.shelf, lessons) {
            let servers = self.pool.servers.len();
            place.store(&pool::write(&lessons, servers, now.wall));
        }
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.store();
    }
}

impl ServerPool {
    /// Waits until every server was probed, with a timeout.
    async fn look(&self) {
        let all = async {
            for server in &self.servers {
                let mut phase = server.supervisor.phase();
                let _ = phase.wait_for(|phase| *phase != Phase::Unknown).await;
            }
        };
        let _ = self.clock.timeout(FIRST_LOOK, all).await;
    }

    /// Starts with the servers that are awake, and switches on those that should be on: none, if the pool sleeps.
    fn begin(self: &Arc<Self>, sleeps: bool) {
        self.with(|state, now| {
            for number in 0..self.servers.len() as u32 {
                if self.server(number).supervisor.phase_now() == Phase::Awake {
                    state.pool.ready(now, number, &mut state.actions);
                }
            }
            if sleeps {
                state.pool.close(now, &mut state.actions);
            } else {
                state.pool.begin(now, &mut state.actions);
            }
        });
        self.begun.send_replace(true);
    }

    fn tick(self: &Arc<Self>) {
        self.with(|state, now| {
            state.pool.tick(now, &mut state.actions);
            if state.cards_due <= now {
                self.tick_cards(state, now);
            }
        });
    }

    /// Handles what is due for the servers.
    pub(super) fn tick_cards(&self, state: &mut State, now: Mono) {
        for number in 0..self.servers.len() as u32 {
            let card = state.cards[number as usize].clone();
            if card.late_at <= now {
                state.note(number, |card| card.late_at = Mono::NEVER);
                if state.pool.phase(number) == Some(Duty::Starting) {
                    // Its supervisor keeps trying.
                    self.fail(state, now, number, "it takes too long to wake");
                }
            }
            if card.back_at <= now {
                self.comes_back(state, now, number);
            }
            if card.pinned_until > Mono::ZERO && card.pinned_until <= now {
                state.note(number, |card| card.pinned_until = Mono::ZERO);
                if state.pool.phase(number) == Some(Duty::Off) {
                    self.server(number).supervisor.order(Order::Sleep);
                }
            }
        }
        let due = state.cards.iter().map(super::Card::due).min();
        state.cards_due = due.unwrap_or(Mono::NEVER);
    }

    /// The pause after a failure is over.
    fn comes_back(&self, state: &mut State, now: Mono, number: u32) {
        state.note(number, |card| card.back_at = Mono::NEVER);
        if state.pool.phase(number) != Some(Duty::Failed) {
            return;
        }
        let supervisor = &self.server(number).supervisor;
        match supervisor.phase_now() {
            Phase::Awake => self.came(state, now, number),
            Phase::Failed if !supervisor.blocked_for().is_zero() => {
                let back_at = self.back_at(state, now, number);
                state.note(number, |card| card.back_at = back_at);
            }
            // It may be tried again when it is needed.
            Phase::Asleep | Phase::Failed => {
                state.pool.repaired(now, number, &mut state.actions);
            }
            Phase::Unknown | Phase::FallingAsleep | Phase::Waking => {}
        }
    }

    /// Reports changes of a server to the pool, forever.
    pub(crate) async fn follow(self: Arc<Self>, number: u32) {
        let mut phase = self.server(number).supervisor.phase();
        let mut was = *phase.borrow_and_update();
        while phase.changed().await.is_ok() {
            let now = *phase.borrow_and_update();
            self.turned(number, was);
            was = now;
        }
    }
}
