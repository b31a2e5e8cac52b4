//! Holds requests until the server is awake.

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

/// The memory that a part of a body needs besides its bytes: a client can send it byte by byte.
const PER_PART: usize = 64;

/// Smaller parts are copied: otherwise each would keep its whole read buffer alive.
const SMALL: usize = 4096;

/// A request's body while its request is held: what has arrived so far is kept, up to a limit; the rest waits in the
/// client's connection.
#[derive(Debug)]
pub(crate) struct Spool {
    pub(crate) kept: Kept,
    /// The unread rest; `None` when the whole body is kept.
    pub(crate) rest: Option<Incoming>,
    /// The memory for what is kept.
    room: Room,
}

/// The memory for one body.
#[derive(Debug, Default)]
struct Room {
    /// Maximum number of bytes, and bytes in use.
    most: usize,
    used: usize,
    /// Free blocks, for all bodies.
    free: Option<Arc<Semaphore>>,
}

impl Room {
    /// Whether there is room for more. Acquires a block of memory if necessary.
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
    /// A body of which at most `most` bytes are kept, in memory from `free`.
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

    /// A body that was kept completely, to be sent again.
    pub(crate) fn again(kept: Kept) -> Self {
        Self { kept, rest: None, room: Room::default() }
    }

    /// A body that was not sent.
    pub(crate) fn resumed(kept: Kept, rest: Option<Incoming>) -> Self {
        Self { kept, rest, room: Room::default() }
    }

    /// Reads until the body ends or the memory is used up.
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

    /// Whether the request can be sent more than once.
    pub(crate) const fn is_whole(&self) -> bool {
        self.rest.is_none()
    }
}

impl Spooling for Spool {
    /// Errors are left to the next reader.
    async fn fill(&mut self) -> bool {
        self.read().await;
        true
    }
}

/// How holding ended.
pub(crate) enum Held {
    /// The server is awake, and an exchange with it has begun.
    Awake(Arc<Exchange>),
    /// The server did not wake.
    Failed,
    /// The deadline has passed.
    TooLong,
    /// The client is gone.
    Left,
}

/// Notifies the manager when a held request is dropped.
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
    /// The request's number at the manager.
    pub(crate) number: u64,
    /// The client's network, which is charged for the exchange.
    pub(crate) network: u64,
    /// When it stops waiting.
    pub(crate) deadline: Mono,
}

/// Holds a request until the server is awake, or until its deadline. `phase` must have been subscribed to before the
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
            // The client is not read any more: only time can end this.
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
