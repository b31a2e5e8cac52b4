//! What operators, jobs and programs order.

use std::time::Duration;

use super::{Action, Cause, Holder, PowerManager};
use crate::lifecycle::Phase;
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::{Mono, Now};

/// What the operator wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Wake the server.
    Wake,
    /// Wake it: a job that the operator has configured needs it now.
    WakeForJob,
    /// Wake it, and keep it awake for that long: a magic packet asks for it, and what follows does not come through
    /// the proxy.
    WakeForPacket(Duration),
    /// Put it to sleep as soon as nothing is in flight, whatever the policy says.
    Sleep,
    /// Wake it and keep it awake for that long.
    StayAwake(Duration),
    /// Wake it and keep it awake for a program, which renews this before that time is over.
    Hold(Holder, Duration),
    /// The program no longer needs it: it sleeps if it slept before, and nothing else wants it awake.
    Release(Holder),
}

impl<P: SleepPolicy> PowerManager<P> {
    /// The operator wants something.
    pub fn order(&mut self, now: Now, order: Order, actions: &mut Vec<Action>) {
        match order {
            Order::Hold(holder, time) => return self.hold(now, holder, time, actions),
            Order::Release(holder) => return self.release(now, holder, actions),
            Order::Wake | Order::WakeForJob => self.sleep_ordered = false,
            Order::WakeForPacket(time) => {
                self.sleep_ordered = false;
                self.stay_awake_until = self.stay_awake_until.max(now.mono + time);
            }
            Order::StayAwake(time) => {
                self.sleep_ordered = false;
                self.stay_awake_until = now.mono + time;
                self.ordered_until = self.stay_awake_until;
            }
            Order::Sleep => {
                // A client that comes while it sleeps must not find it sent back to sleep as soon as it is
                // up.
                self.sleep_ordered =
                    matches!(self.lifecycle.phase(), Phase::Awake | Phase::Unknown | Phase::Waking);
                self.stay_awake_until = Mono::ZERO;
                self.awake_hours.put_to_sleep(now);
                self.reconsider(now);
                self.consider_sleep(now, actions);
                return;
            }
        }
        if order != Order::WakeForJob {
            self.holds.is_wanted_otherwise();
        }
        self.lifecycle.end_pause(now.mono);
        let cause = match order {
            Order::WakeForJob => Cause::Job,
            Order::WakeForPacket(_) => Cause::MagicPacket,
            _ => Cause::Operator,
        };
        self.wake(now, cause, actions);
        self.reconsider(now);
    }
}
