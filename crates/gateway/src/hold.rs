//! Requests that wait for the server to wake.

use std::sync::Arc;

use http_body_util::BodyExt;
use nightwatt_clock::Clock;
use nightwatt_http1::Incoming;
use nightwatt_model::policy::lifecycle::Phase;
use nightwatt_model::time::Mono;
use tokio::sync::watch;

use crate::body::Kept;
use crate::exchange::Exchange;
use crate::supervisor::Supervisor;

/// A request's body while its request is held: what has come so far is kept, up to a bound; the
/// rest waits in the client's connection.
#[derive(Debug)]
pub(crate) struct Spool {
    pub(crate) kept: Kept,
    /// What has not been read; `None` when the whole body is kept.
    pub(crate) rest: Option<Incoming>,
    room: usize,
}

impl Spool {
    pub(crate) fn new(body: Incoming, room: usize) -> Self {
        let rest = (!http_body::Body::is_end_stream(&body)).then_some(body);
        Self { kept: Kept::default(), rest, room }
    }

    /// A body that was kept whole, to be sent again.
    pub(crate) const fn again(kept: Kept) -> Self {
        Self { kept, rest: None, room: 0 }
    }

    /// A body that came back unsent.
    pub(crate) const fn resumed(kept: Kept, rest: Option<Incoming>) -> Self {
        Self { kept, rest, room: 0 }
    }

    /// Reads until the body ends or the room is used up.
    async fn read(&mut self) {
        while self.room > 0
            && let Some(rest) = &mut self.rest
        {
            match rest.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(part) => {
                        self.room = self.room.saturating_sub(part.len());
                        self.kept.parts.push(part);
                    }
                    Err(frame) => self.kept.trailers = frame.into_trailers().ok(),
                },
                Some(Err(_)) => return,
                None => self.rest = None,
            }
        }
    }

    /// Can the request be sent more than once?
    pub(crate) const fn is_whole(&self) -> bool {
        self.rest.is_none()
    }
}

/// What comes from a client while it waits, and is kept.
pub(crate) trait Spooling {
    /// Reads until nothing more comes or the room is used up; false if the client is gone.
    fn fill(&mut self) -> impl Future<Output = bool> + Send;

    /// Comes when the client is gone, as far as that can be known of one of whom nothing more is read.
    fn gone(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

impl Spooling for Spool {
    /// Errors are left for whoever reads on.
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

/// Holds the request with this number until the server is awake or `deadline`. `phase`
/// must have been asked for before the request was admitted.
pub(crate) async fn hold(
    supervisor: &Arc<Supervisor>,
    phase: &mut watch::Receiver<Phase>,
    (id, deadline): (u64, Mono),
    spool: &mut impl Spooling,
    clock: &Clock,
) -> Held {
    let waiting = Waiting { supervisor, id };
    let held = clock.until(deadline, wait(supervisor, phase, spool, clock)).await;
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
    spool: &mut impl Spooling,
    clock: &Clock,
) -> Held {
    let mut filled = false;
    loop {
        if let Some(exchange) = Exchange::begin(supervisor) {
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
