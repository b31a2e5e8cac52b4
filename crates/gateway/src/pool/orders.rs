//! Orders of the operator for single servers.

use std::sync::Arc;

use nightwatt_energy::time::Mono;
use nightwatt_policy::fleet::Phase as Duty;
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::Order;

use super::ServerPool;

impl ServerPool {
    /// Orders this server on, off, or awake for a while.
    ///
    /// A server that is ordered off stays off until it is ordered on: otherwise the pool would consider it next for
    /// switching on.
    pub(crate) fn order(self: &Arc<Self>, number: u32, order: Order) {
        let supervisor = &self.server(number).supervisor;
        self.with(|state, now| {
            match order {
                // The pool switches it off when the time of its last hold is over and it is not needed.
                Order::Release(_) => return,
                Order::StayAwake(time) => {
                    state.note(number, |card| card.pinned_until = now + time);
                }
                Order::Hold(_, time) => state.note(number, |card| {
                    card.pinned_until = card.pinned_until.max(now + time);
                }),
                _ => {}
            }
            if order == Order::Sleep {
                state.note(number, |card| card.pinned_until = Mono::ZERO);
                state.pool.hold_off(now, number, &mut state.actions);
                // A server that is on gets the order when it has answered its requests.
                if matches!(state.pool.phase(number), Some(Duty::Off | Duty::Failed)) {
                    supervisor.order(Order::Sleep);
                }
                return;
            }
            // The operator's order overrides the pause after a failure.
            supervisor.order(Order::Wake);
            if state.pool.is_closed() {
                state.opening = state.pool.on() == 0;
            }
            state.pool.start(now, number, &mut state.actions);
        });
    }

    /// A server is up that the operator wants off. If it was waking already, or would not sleep, the order is sent once
    /// more; a server that another program turned on is left on.
    pub(super) fn came_although_held_off(&self, number: u32, was: Phase) {
        if matches!(was, Phase::Waking | Phase::FallingAsleep) {
            self.server(number).supervisor.order(Order::Sleep);
        }
    }
}
