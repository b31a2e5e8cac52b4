//! The line: requests that wait until a server has a place.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use tokio::sync::oneshot;

use super::{Seat, ServerPool};
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

    /// Counts a request that one server failed, and that another has to answer.
    pub(crate) fn count_resent(&self) {
        self.counts.resent.fetch_add(1, Ordering::Relaxed);
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
