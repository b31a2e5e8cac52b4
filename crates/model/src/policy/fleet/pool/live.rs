//! What a pool meets that serves real requests: clients that leave, servers that come back, operators.

use super::{OPEN, Phase, Pool};
use crate::policy::fleet::{Action, Route};
use crate::time::Nanos;

impl Pool {
    /// A request that was given to a server which then failed, or was held before the pool opened, is
    /// offered again. It is no new arrival, and not refused: it waits even where the line is full, so
    /// the line may hold as many more as the servers that failed had places. It belongs at the head of
    /// the line. Only a pool that is [closed](Self::close) sends it away.
    pub fn offer_again(&mut self, now: impl Into<Nanos>, actions: &mut Vec<Action>) -> Route {
        let at = now.into().0;
        if let Some(server) = self.line_up.first(OPEN) {
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

    /// Takes a place for work that nobody waits for, if a server that is on has one to spare; gives
    /// the server. No server is switched on for it. It ends as a request does.
    pub fn take_spare(&mut self, now: impl Into<Nanos>) -> Option<u32> {
        let server = self.line_up.first(OPEN)?;
        self.take(now.into().0, server);
        Some(server)
    }

    /// One of those in the line is gone: its client left, or it waited too long.
    pub const fn leave_line(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// A server that had failed is on: nobody switched it on, or it took too long.
    pub fn returned(&mut self, now: impl Into<Nanos>, server: u32, actions: &mut Vec<Action>) {
        if self.phase(server) == Some(Phase::Failed) {
            let at = now.into().0;
            self.came(at, server, actions);
        }
    }

    /// Switches on this very server, whatever the policy says: it is looked at as any other once it is
    /// on. False if it is not off, or the pool is closed.
    pub fn start(&mut self, now: impl Into<Nanos>, server: u32, actions: &mut Vec<Action>) -> bool {
        if self.closed || self.phase(server) != Some(Phase::Off) {
            return false;
        }
        self.switch_on_this(now.into().0, server, actions);
        true
    }

    /// All servers go off: those that are idle at once, the others when they have answered what they
    /// have. Until it is [opened](Self::open) the pool refuses what arrives, and switches nothing on.
    pub fn close(&mut self, now: impl Into<Nanos>, actions: &mut Vec<Action>) {
        let now = now.into();
        self.closed = true;
        for server in 0..self.servers.len() as u32 {
            self.drain(now, server, actions);
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
