//! What the operator wants of single servers.

use std::sync::Arc;

use nightwatt_energy::time::Mono;
use nightwatt_policy::fleet::Phase as Duty;
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::Order;

use super::ServerPool;

impl ServerPool {
    /// The operator wants this server on, off, or awake for a while.
    ///
    /// One that is to be off stays so until it is wanted again: the pool would else take it for the next
    /// that may be switched on.
    pub(crate) fn order(self: &Arc<Self>, number: u32, order: Order) {
        let supervisor = &self.server(number).supervisor;
        self.with(|state, now| {
            if let Order::StayAwake(time) = order {
                state.note(number, |card| card.pinned_until = now + time);
            }
            if order == Order::Sleep {
                state.note(number, |card| card.pinned_until = Mono::ZERO);
                state.pool.hold_off(now, number, &mut state.actions);
                // One that is on is told when it has answered what it has.
                if matches!(state.pool.phase(number), Some(Duty::Off | Duty::Failed)) {
                    supervisor.order(Order::Sleep);
                }
                return;
            }
            // The operator knows better than the pause after its failure.
            supervisor.order(Order::Wake);
            if state.pool.is_closed() {
                state.opening = state.pool.on() == 0;
            }
            state.pool.start(now, number, &mut state.actions);
        });
    }

    /// A server is up that the operator wants off. If it was on its way up already, or would not sleep,
    /// the order is sent once more; one that another program turned on is left to it.
    pub(super) fn came_although_held_off(&self, number: u32, was: Phase) {
        if matches!(was, Phase::Waking | Phase::FallingAsleep) {
            self.server(number).supervisor.order(Order::Sleep);
        }
    }
}
