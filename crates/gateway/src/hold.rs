//! Requests that wait for the server to wake.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_http1::Incoming;
use nightwatt_policy::lifecycle::Phase;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::config::SPOOL_BLOCK;
use crate::exchange::Exchange;
use crate::request_body::{Kept, Spooling};
use crate::supervisor::Supervisor;

/// What a part of a body costs beside its bytes: a client can send it byte by byte.
const PER_PART: usize = 64;

/// A smaller part is copied: it would keep the whole buffer that it was read into.
const SMALL: usize = 4096;

/// A request's body while its request is held: what has come so far is kept, up to a bound; the
/// rest waits in the client's connection.
#[derive(Debug)]
pub(crate) struct Spool {
    pub(crate) kept: Kept,
    /// What has not been read; `None` when the whole body is kept.
    pub(crate) rest: Option<Incoming>,
    /// What may be kept.
    room: Room,
}

/// The memory for one body.
#[derive(Debug, Default)]
struct Room {
    /// Bytes at most, and those that are used.
    most: usize,
    used: usize,
    /// Free blocks, for all bodies.
    free: Option<Arc<Semaphore>>,
}

impl Room {
    /// Is there room for more? Takes a block of memory if it needs one.
    fn has_more(&self, memory: &mut Vec<Arc<OwnedSemaphorePermit>>) -> bool {
        let Some(free) = self.free.as_ref().filter(|_| self.used < self.most) else { return false };
        while memory.len() * SPOOL_BLOCK <= self.used {
            let Ok(block) = Arc::clone(free).try_acquire_owned() else { return false };
            memory.push(Arc::new(block));
        }
        true
    }
}

impl Spool {
    /// A body of which at most `most` bytes are kept, in memory that `free` has.
    pub(crate) fn new(body: Incoming, most: usize, free: &Arc<Semaphore>) -> Self {
        let room = Room { most, used: 0, free: Some(Arc::clone(free)) };
        let rest = (!http_body::Body::is_end_stream(&body)).then_some(body);
        Self { kept: Kept::default(), rest, room }
    }

    /// A body of which nothing is kept.
    pub(crate) fn unkept(body: Incoming) -> Self {
        let rest = (!http_body::Body::is_end_stream(&body)).then_some(body);
        Self { kept: Kept::default(), rest, room: Room::default() }
    }

    /// A body that was kept whole, to be sent again.
    pub(crate) fn again(kept: Kept) -> Self {
        Self { kept, rest: None, room: Room::default() }
    }

    /// A body that came back unsent.
    pub(crate) fn resumed(kept: Kept, rest: Option<Incoming>) -> Self {
        Self { kept, rest, room: Room::default() }
    }

    /// Reads until the body ends or the room is used up.
    async fn read(&mut self) {
        let Self { kept, rest, room } = self;
        while let Some(body) = rest
            && room.has_more(&mut kept.memory)
        {
            match body.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(part) => {
                        room.used += part.len() + PER_PART;
                        let small = part.len() < SMALL;
                        kept.parts.push(if small { Bytes::copy_from_slice(&part) } else { part });
                    }
                    Err(frame) => kept.trailers = frame.into_trailers().ok(),
                },
                Some(Err(_)) => return,
                None => *rest = None,
            }
        }
    }

    /// Can the request be sent more than once?
    pub(crate) const fn is_whole(&self) -> bool {
        self.rest.is_none()
    }
}

impl Spooling for Spool {
    /// Errors are left for the next reader.
    async fn fill(&mut self) -> bool {
        self.read().await;
        true
    }
}

/// How holding ended.
pub(crate) enum Held {
    /// The server is awake, and an exchange with it has begun.
    Awake(Arc<Exchange>),
    /// The server would not wake.
    Failed,
    /// It took too long.
    TooLong,
    /// The client is gone.
    Left,
}

/// Tells the manager when a held request is gone.
struct Waiting<'a> {
    supervisor: &'a Supervisor,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.supervisor.gave_up(self.id);
    }
}

/// A request to be held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToHold {
    /// The manager knows it by this number.
    pub(crate) number: u64,
    /// Its client's, which is charged for the exchange.
    pub(crate) network: u64,
    /// It waits no longer than that.
    pub(crate) deadline: Mono,
}

/// Holds a request until the server is awake or its deadline. `phase` must have been asked for before the
/// request was admitted.
pub(crate) async fn hold(
    supervisor: &Arc<Supervisor>,
    phase: &mut watch::Receiver<Phase>,
    request: ToHold,
    spool: &mut impl Spooling,
    clock: &Clock,
) -> Held {
    let waiting = Waiting { supervisor, id: request.number };
    let wait = wait(supervisor, phase, request.network, spool, clock);
    let held = clock.until(request.deadline, wait).await;
    match held {
        Ok(Held::Left) => Held::Left,
        Ok(held) => {
            std::mem::forget(waiting);
            held
        }
        Err(_) => Held::TooLong,
    }
}

async fn wait(
    supervisor: &Arc<Supervisor>,
    phase: &mut watch::Receiver<Phase>,
    network: u64,
    spool: &mut impl Spooling,
    clock: &Clock,
) -> Held {
    let mut filled = false;
    loop {
        if let Some(exchange) = Exchange::begin(supervisor, network) {
            return Held::Awake(exchange);
        }
        let changed = if filled {
            // Nothing comes from the client any more: only time can help.
            let changed = tokio::select! {
                changed = clock.parked(phase.changed()) => changed,
                () = spool.gone() => return Held::Left,
            };
            clock.parked(clock.turn()).await;
            changed.is_ok()
        } else {
            tokio::select! {
                changed = phase.changed() => changed.is_ok(),
                there = spool.fill() => {
                    if !there {
                        return Held::Left;
                    }
                    filled = true;
                    false
                }
            }
        };
        if changed && *phase.borrow_and_update() == Phase::Failed {
            return Held::Failed;
        }
    }
}
