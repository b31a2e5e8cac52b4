//! Which server is switched, and what that changes.

use std::cmp::Reverse;

use super::{IDLE, NEVER, OPEN, Pool, Server, Switching, span_ns};
use crate::fleet::{Action, Phase};
use nightwatt_energy::time::Nanos;

impl Server {
    /// It has nothing to do, and carries no tunnel.
    pub(super) const fn is_idle(&self) -> bool {
        self.requests == 0 && self.tunnels == 0
    }
}

impl Pool {
    /// Switches an idle server off if its time has come, or sees to it that it is looked at then.
    pub(super) fn consider(&mut self, at: u64, server: u32, actions: &mut Vec<Action>) {
        let Switching::Keep { always_on, delay } = self.switching else { return };
        let it = &self.servers[server as usize];
        if it.phase != Phase::On || !it.is_idle() || self.staying() <= always_on {
            return;
        }
        let due = it.since.saturating_add(delay).max(it.phase_since.saturating_add(self.min_on));
        if due <= at {
            self.switch_off(at, server, actions);
        } else {
            self.look_at(server, due);
        }
    }

    /// Has a timer look at the server, unless one does so before.
    #[inline]
    pub(super) fn look_at(&mut self, server: u32, due: u64) {
        let it = &mut self.servers[server as usize];
        if due < it.timer {
            it.timer = due;
            self.timers.push(Reverse((due, server)));
        }
    }

    /// The predictive policy may want another number of servers.
    #[cold]
    pub(super) fn bin_is_over(&mut self, at: u64, actions: &mut Vec<Action>) {
        // A request that found no place has waited in the line for as long as a start takes: other requests
        // may hold their places for longer than the rate of service says, and then no place becomes free
        // soon.
        if let Switching::Predictive(policy) = &self.switching
            && self.waiting > 0
            && self.starting == 0
            && policy.is_a_bin_ago(at, self.waits_since)
        {
            self.switch_on(at, actions);
        }
        self.steer(at, actions);
    }

    /// Switches on and off towards what the policy wants now.
    pub(super) fn steer(&mut self, at: u64, actions: &mut Vec<Action>) {
        if self.closed {
            while let Some(idle) = self.line_up.last(IDLE) {
                self.switch_off(at, idle, actions);
            }
            return;
        }
        let (least, most) = match &mut self.switching {
            Switching::Keep { always_on, .. } => (*always_on, NEVER),
            Switching::Predictive(policy) => {
                policy.review(self.busy, self.on - self.leaving);
                (policy.target, if policy.off_due <= at { 0 } else { NEVER })
            }
            Switching::Schedule(schedule) => {
                let wanted = schedule.at(Nanos(at).into());
                (wanted, u64::from(wanted))
            }
        };
        while self.staying() + self.starting < least && self.switch_on(at, actions).is_some() {}
        self.part_with_leaving(at, least, actions);
        match self.switching {
            Switching::Keep { always_on, .. } => self.shed_spare(at, always_on, actions),
            _ if most == NEVER => {}
            Switching::Schedule(_) => {
                while u64::from(self.on) + u64::from(self.starting) > most
                    && self.last_goes_off(at, actions)
                {}
            }
            Switching::Predictive(_) => self.shed_unneeded(at, actions),
        }
    }

    /// Servers that were idle while they had to stay, and now there are more than have to.
    pub(super) fn shed_spare(&mut self, at: u64, always_on: u32, actions: &mut Vec<Action>) {
        if self.staying() <= always_on {
            return;
        }
        if let Some(server) = self.line_up.last(IDLE)
            && self.servers[server as usize].timer == NEVER
        {
            self.consider(at, server, actions);
        }
    }

    pub(super) fn shed_unneeded(&mut self, at: u64, actions: &mut Vec<Action>) {
        loop {
            let Switching::Predictive(policy) = &mut self.switching else { return };
            policy.review(self.busy, self.on - self.leaving);
            if policy.off_due > at || !self.last_goes_off(at, actions) {
                return;
            }
        }
    }

    /// Switches the last idle server off, if it may; else a timer will see to it.
    pub(super) fn last_goes_off(&mut self, at: u64, actions: &mut Vec<Action>) -> bool {
        let Some(server) = self.line_up.last(IDLE) else {
            // Those without requests have tunnels: the end of the last of these looks again.
            if let Switching::Predictive(policy) = &mut self.switching {
                policy.off_due = NEVER;
            }
            return false;
        };
        // One that was started has to be of use for as long as that took; else it would go off in the
        // instant in which it is ready, where little matters less than a start.
        let stays = match self.switching {
            Switching::Predictive(_) => span_ns(self.kind_of(server).switch_on).max(self.min_on),
            _ => self.min_on,
        };
        let may = self.servers[server as usize].phase_since.saturating_add(stays);
        if may > at {
            self.look_at(server, may);
            if let Switching::Predictive(policy) = &mut self.switching {
                policy.off_due = may;
            }
            return false;
        }
        self.switch_off(at, server, actions);
        true
    }

    /// Switches the next server on; returns which, if there is one.
    pub(super) fn switch_on(&mut self, at: u64, actions: &mut Vec<Action>) -> Option<u32> {
        let server = self.bench.first(0).filter(|_| !self.closed)?;
        self.switch_on_this(at, server, actions);
        Some(server)
    }

    /// Switches on a server that is off.
    pub(super) fn switch_on_this(&mut self, at: u64, server: u32, actions: &mut Vec<Action>) {
        self.bench.leave(server);
        actions.push(Action::SwitchOn(server));
        let kind = *self.kind_of(server);
        let it = &mut self.servers[server as usize];
        it.switched_on += 1;
        if kind.switch_on.is_zero() {
            self.come_on(at, server);
            self.serve_line(at, server, actions);
        } else {
            (it.phase, it.phase_since) = (Phase::Starting, at);
            self.starting += 1;
            self.made_up += kind.served_while_starting();
        }
    }

    pub(super) fn come_on(&mut self, at: u64, server: u32) {
        let it = &mut self.servers[server as usize];
        (it.phase, it.phase_since, it.since) = (Phase::On, at, at);
        self.line_up.enter(server, it.kind as usize);
        self.line_up.mark(OPEN, server, true);
        self.line_up.mark(IDLE, server, true);
        self.on += 1;
        if let Switching::Predictive(policy) = &mut self.switching {
            policy.came_on(at, self.busy, self.on);
        }
        if self.starting == 0 {
            self.overflowed = 0;
        }
    }

    /// Passes waiting requests to a server that has just come on.
    pub(super) fn serve_line(&mut self, at: u64, server: u32, actions: &mut Vec<Action>) {
        let places = self.servers[server as usize].places;
        while self.waiting > 0 && self.servers[server as usize].requests < places && !self.closed {
            self.waiting -= 1;
            self.take(at, server);
            actions.push(Action::Take(server));
        }
    }

    pub(super) fn no_longer_starting(&mut self, at: u64, server: u32) {
        let made_up = self.kind_of(server).served_while_starting();
        let it = &mut self.servers[server as usize];
        it.starting += at - it.phase_since;
        self.starting -= 1;
        self.made_up -= made_up;
        self.overflowed = self.overflowed.saturating_sub(made_up);
    }

    /// A server that is on takes no further requests.
    pub(super) fn step_down(&mut self, server: u32) {
        let it = &self.servers[server as usize];
        if it.phase == Phase::On {
            self.leaving -= u32::from(it.held_off);
            self.line_up.leave(server);
            self.on -= 1;
        }
    }

    pub(super) fn no_longer_on(&mut self, at: u64, server: u32) {
        let it = &mut self.servers[server as usize];
        it.on += at - it.phase_since;
        (it.since, it.timer) = (at, NEVER);
    }

    pub(super) fn switch_off(&mut self, at: u64, server: u32, actions: &mut Vec<Action>) {
        self.step_down(server);
        self.no_longer_on(at, server);
        let it = &mut self.servers[server as usize];
        (it.phase, it.phase_since) = (Phase::Off, at);
        it.switched_off += 1;
        self.sit(server);
        actions.push(Action::SwitchOff(server));
        if let Switching::Predictive(policy) = &mut self.switching {
            policy.review(self.busy, self.on);
        }
    }

    /// Servers that are on and not about to leave.
    pub(super) const fn staying(&self) -> u32 {
        self.on - self.leaving
    }

    /// Servers that are to be off leave as soon as as many others as the policy wants are on, or none is
    /// coming.
    fn part_with_leaving(&mut self, at: u64, least: u32, actions: &mut Vec<Action>) {
        if self.leaving == 0 || self.staying() < least && self.starting > 0 {
            return;
        }
        for server in 0..self.servers.len() as u32 {
            if self.is_held_off(server) {
                self.drain(at, server, actions);
            }
        }
    }

    /// A server takes no further requests, and is switched off when it has answered those it has.
    pub(super) fn drain(&mut self, at: u64, server: u32, actions: &mut Vec<Action>) {
        if self.phase(server) == Some(Phase::On) {
            self.step_down(server);
            self.servers[server as usize].phase = Phase::Draining;
            if self.servers[server as usize].is_idle() {
                self.switch_off(at, server, actions);
            }
        }
    }

    /// After a server was lost or gained: switches on as many as the policy wants, and more for waiting
    /// requests.
    pub(super) fn replace(&mut self, at: u64, actions: &mut Vec<Action>) {
        self.steer(at, actions);
        while self.waiting > 0 && self.starting == 0 && self.switch_on(at, actions).is_some() {}
    }
}
