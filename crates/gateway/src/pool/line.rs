//! The line: requests that wait until a server has a place.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use tokio::sync::oneshot;

use super::{Routed, Seat, ServerPool, State};
use crate::request_body::Spooling;

/// The result for a request that needs a place.
pub(crate) enum Placed {
    /// It has one.
    At(Seat),
    /// It has one, after some waiting.
    Waited(Seat),
    /// There is no place, and no room to wait.
    Refused,
    /// It waited for too long.
    TooLong,
    /// Its client is gone.
    Left,
}

/// How a request is offered to the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It has just arrived, and may be refused.
    New,
    /// It was held until the pool woke: it must not be refused now.
    Held,
    /// It was at this server, which failed.
    FailedAt(u32),
    /// Its client may not wake a server, as a crawler: it gets a place at one that is on, after all others. It may have been at a
    /// server that failed.
    Guest { failed_at: Option<u32> },
}

impl ServerPool {
    /// Finds a place for a request, or waits in line for one until `deadline`; its body is spooled meanwhile.
    pub(crate) async fn place(
        self: &Arc<Self>,
        offer: Offer,
        spool: &mut impl Spooling,
        deadline: Mono,
    ) -> Placed {
        self.has_begun().await;
        let (id, receiver) = match self.route(offer) {
            Ok(seat) => return Placed::At(seat),
            Err(None) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                return Placed::Refused;
            }
            Err(Some(waiter)) => waiter,
        };
        self.counts.waited.fetch_add(1, Ordering::Relaxed);
        let in_line = InLine { pool: self, id };
        match self.clock.until(deadline, wait(receiver, spool, &self.clock)).await {
            Ok(Placed::Waited(seat)) => {
                std::mem::forget(in_line);
                Placed::Waited(seat)
            }
            Ok(placed) => placed,
            Err(_) => Placed::TooLong,
        }
    }

    /// A place for a request of a client that may not wake a server. The policy does not learn that it waits, so it
    /// switches on no server for it.
    pub(super) fn route_guest(
        self: &Arc<Self>,
        state: &mut State,
        now: Mono,
        failed_at: Option<u32>,
    ) -> Routed {
        if state.guests.is_empty()
            && let Some(server) = state.pool.take_spare(now, failed_at)
        {
            return Ok(self.seat(state, server));
        }
        if !state.may_have_places() || state.guests.len() >= state.pool.settings().line as usize {
            return Err(None);
        }
        let (waiter, receiver) = state.waiter();
        let id = waiter.id;
        state.guests.push_back(waiter);
        Err(Some((id, receiver)))
    }

    /// Gives places that are to spare to the requests of such clients. Once no server is on, they wait for none.
    pub(super) fn seat_guests(
        self: &Arc<Self>,
        state: &mut State,
        now: Mono,
        nobodys: &mut Vec<Seat>,
    ) {
        while !state.guests.is_empty()
            && let Some(server) = state.pool.take_spare(now, None)
        {
            let seat = self.seat(state, server);
            let guest = state.guests.pop_front();
            nobodys.extend(guest.and_then(|guest| guest.seat.send(seat).err()));
        }
        if !state.may_have_places() {
            state.guests.clear();
        }
    }

    /// Counts a request that one server failed, and that another has to answer.
    pub(crate) fn count_resent(&self) {
        self.counts.resent.fetch_add(1, Ordering::Relaxed);
    }
}

impl State {
    /// A server is on, or is being switched on.
    const fn may_have_places(&self) -> bool {
        self.pool.on() > 0 || self.pool.starting() > 0
    }
}

/// Leaves the line when its request is dropped.
struct InLine<'a> {
    pool: &'a Arc<ServerPool>,
    id: u64,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.pool.with(|state, _| {
            if let Some(place) = state.line.iter().position(|waiter| waiter.id == self.id) {
                state.line.remove(place);
                state.pool.leave_line();
            }
            state.guests.retain(|waiter| waiter.id != self.id);
        });
    }
}

async fn wait(
    mut seat: oneshot::Receiver<Seat>,
    spool: &mut impl Spooling,
    clock: &Clock,
) -> Placed {
    let placed = |seat: Result<Seat, _>| seat.map_or(Placed::TooLong, Placed::Waited);
    tokio::select! {
        biased;
        seat = &mut seat => return placed(seat),
        there = spool.fill() => if !there {
            return Placed::Left;
        }
    }
    // The client is not read any more: only time can end this.
    let seat = tokio::select! {
        biased;
        seat = clock.parked(seat) => seat,
        () = spool.gone() => return Placed::Left,
    };
    clock.parked(clock.turn()).await;
    placed(seat)
}
