//! What a pool meets that serves real requests: clients that leave, servers that come back, operators.

use super::{IDLE, OPEN, Phase, Pool};
use crate::fleet::{Action, Route};
use nightwatt_energy::time::Nanos;

impl Pool {
    /// A request that was given to a server which then failed, or was held before the pool opened, is
    /// offered again: to the server `failed_at` only if no other has a place, since it may fail there
    /// once more. It is no new arrival, and not refused: it waits even where the line is full, so
    /// the line may hold as many more as the servers that failed had places. It belongs at the head of
    /// the line. Only a pool that is [closed](Self::close) sends it away.
    pub fn offer_again(
        &mut self,
        now: impl Into<Nanos>,
        failed_at: Option<u32>,
        actions: &mut Vec<Action>,
    ) -> Route {
        let at = now.into().0;
        if let Some(server) = self.first_open_but(failed_at) {
            self.take(at, server);
            return Route::To(server);
        }
        if self.closed {
            return Route::Refuse;
        }
        self.wait(at);
        if self.starting == 0 {
            self.replace(at, actions);
        }
        Route::Wait
    }

    /// The first server with a place; this one only if it is the last resort.
    fn first_open_but(&mut self, shunned: Option<u32>) -> Option<u32> {
        let first = self.line_up.first(OPEN)?;
        if Some(first) != shunned {
            return Some(first);
        }
        self.line_up.mark(OPEN, first, false);
        let other = self.line_up.first(OPEN);
        self.line_up.mark(OPEN, first, true);
        other.or(Some(first))
    }

    /// Takes a place for what no server is switched on for, if a server that is on has one to spare; returns
    /// the server: `failed_at` only if no other has a place. It ends as a request does.
    pub fn take_spare(&mut self, now: impl Into<Nanos>, failed_at: Option<u32>) -> Option<u32> {
        let server = self.first_open_but(failed_at)?;
        self.take(now.into().0, server);
        Some(server)
    }

    /// A request became a tunnel: client and server were put through to each other (WebSocket). It gives
    /// back its place, since it may last for hours and do next to nothing, but its server stays on until
    /// its [end](Self::tunnel_ended).
    pub fn tunnel(&mut self, now: impl Into<Nanos>, server: u32, actions: &mut Vec<Action>) {
        if let Some(it) = self.servers.get_mut(server as usize).filter(|it| it.requests > 0) {
            it.tunnels += 1;
            self.complete(now, server, actions);
        }
    }

    /// A [tunnel](Self::tunnel) was closed.
    pub fn tunnel_ended(&mut self, now: impl Into<Nanos>, server: u32, actions: &mut Vec<Action>) {
        let at = now.into().0;
        let Some(it) = self.servers.get_mut(server as usize).filter(|it| it.tunnels > 0) else {
            return;
        };
        it.tunnels -= 1;
        if it.is_idle() {
            it.since = at;
            let open = it.phase == Phase::On;
            self.may_go_off(at, server, open, actions);
            self.steer(at, actions);
        }
    }

    /// One of those in the line is gone: its client left, or it waited too long.
    pub const fn leave_line(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// A server that had failed is on: it took too long, or the pool did not switch it on.
    pub fn returned(&mut self, now: impl Into<Nanos>, server: u32, actions: &mut Vec<Action>) {
        if self.is_held_off(server) {
            self.repaired(now, server, actions);
        } else if self.phase(server) == Some(Phase::Failed) {
            let at = now.into().0;
            self.came(at, server, actions);
        }
    }

    /// The operator wants this very server on, whatever the policy says: ends
    /// [`hold_off`](Self::hold_off) and the pause after a failure, opens a pool that is
    /// [closed](Self::close), and takes back one that drains. Once on it is looked at as any other.
    pub fn start(&mut self, now: impl Into<Nanos>, server: u32, actions: &mut Vec<Action>) {
        let at = now.into().0;
        let Some(phase) = self.phase(server) else { return };
        let was_closed = std::mem::take(&mut self.closed);
        let was_held_off = std::mem::take(&mut self.servers[server as usize].held_off);
        match phase {
            Phase::Off | Phase::Failed => self.switch_on_this(at, server, actions),
            Phase::On => self.leaving -= u32::from(was_held_off),
            Phase::Draining => self.stays_after_all(at, server, actions),
            Phase::Starting => {}
        }
        if was_closed {
            self.replace(at, actions);
        }
    }

    /// A server that drains takes requests again.
    fn stays_after_all(&mut self, at: u64, server: u32, actions: &mut Vec<Action>) {
        let it = &mut self.servers[server as usize];
        it.phase = Phase::On;
        let (has_place, is_idle) = (it.requests < it.places, it.is_idle());
        self.line_up.enter(server, it.kind as usize);
        self.line_up.mark(OPEN, server, has_place);
        self.line_up.mark(IDLE, server, is_idle);
        self.on += 1;
        self.serve_line(at, server, actions);
    }

    /// The operator wants this server off, until [`start`](Self::start): nothing else switches it on. If it
    /// is on, another is first switched on in its place if the policy wants that many, and it serves on until
    /// that one is on or fails to start; then it answers what it has, and goes off.
    pub fn hold_off(&mut self, now: impl Into<Nanos>, server: u32, actions: &mut Vec<Action>) {
        let at = now.into().0;
        let Some(phase) = self.phase(server).filter(|_| !self.is_held_off(server)) else { return };
        self.servers[server as usize].held_off = true;
        match phase {
            Phase::Off => self.bench.leave(server),
            Phase::On => self.leaving += 1,
            Phase::Starting => {
                self.no_longer_starting(at, server);
                let it = &mut self.servers[server as usize];
                (it.phase, it.phase_since) = (Phase::Off, at);
                it.switched_off += 1;
                actions.push(Action::SwitchOff(server));
            }
            Phase::Draining | Phase::Failed => {}
        }
        self.replace(at, actions);
    }

    /// Is this server to be off until it is [started](Self::start)?
    pub fn is_held_off(&self, server: u32) -> bool {
        self.servers.get(server as usize).is_some_and(|it| it.held_off)
    }

    /// All servers go off: those that are idle at once, the others when they have answered what they
    /// have. Until it is [opened](Self::open) the pool refuses what arrives, and switches nothing on.
    pub fn close(&mut self, now: impl Into<Nanos>, actions: &mut Vec<Action>) {
        let at = now.into().0;
        self.closed = true;
        for server in 0..self.servers.len() as u32 {
            self.drain(at, server, actions);
        }
    }

    /// Ends [`close`](Self::close): switches on what is to be on.
    pub fn open(&mut self, now: impl Into<Nanos>, actions: &mut Vec<Action>) {
        self.closed = false;
        self.replace(now.into().0, actions);
    }

    /// Is it closed?
    pub const fn is_closed(&self) -> bool {
        self.closed
    }
}
