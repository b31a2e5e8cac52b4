//! Bodies of answers on their way to clients.

mod ahead;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_http1::BodyError;

use self::ahead::Ahead;
use crate::origin::FromOrigin;
use crate::request_body::JUST_AFTER;

/// Processes a response while it passes: counts it, collects it for the cache, and closes its accounting at its end (or
/// when its client is gone).
pub(crate) trait Watcher: Send {
    /// A part passes.
    fn passes(&mut self, part: &Bytes);
    /// All of it has passed.
    fn ended(&mut self);
}

/// The body of an answer to a client.
pub(crate) struct Answer {
    source: Source,
    /// Dropped with the body: then the exchange is over, whether it succeeded or not.
    watcher: Option<Box<dyn Watcher>>,
}

enum Source {
    Whole(Option<Bytes>),
    Origin(FromOrigin, Silence),
    Ahead(Ahead),
    Other(Pin<Box<dyn http_body::Body<Data = Bytes, Error = BodyError> + Send>>),
}

impl Answer {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { source: Source::Whole((!bytes.is_empty()).then_some(bytes)), watcher: None }
    }

    pub(crate) fn empty() -> Self {
        Self { source: Source::Whole(None), watcher: None }
    }

    /// The server's answer. It fails when nothing comes for `limit`.
    pub(crate) fn of_origin(body: FromOrigin, clock: &Clock, limit: Duration) -> Self {
        Self { source: Source::Origin(body, Silence::new(clock, limit)), watcher: None }
    }

    /// The same, but read from the server as fast as it comes, up to [`AHEAD`](ahead::AHEAD) ahead of the client:
    /// `done` runs when the server has sent all, not when the client has read all.
    pub(crate) fn ahead(self, done: impl FnOnce() + Send + 'static) -> Self {
        if self.is_end_stream() {
            done();
            return self;
        }
        Self { source: Source::Ahead(Ahead::of(self, done)), watcher: None }
    }

    /// A body of another kind.
    pub(crate) fn other(
        body: impl http_body::Body<Data = Bytes, Error = BodyError> + Send + 'static,
    ) -> Self {
        Self { source: Source::Other(Box::pin(body)), watcher: None }
    }

    /// Adds a watcher outside of the one there is.
    pub(crate) fn watched(mut self, mut watcher: Box<dyn Watcher>) -> Self {
        if self.is_end_stream() {
            watcher.ended();
        }
        self.watcher = Some(match self.watcher.take() {
            None => watcher,
            Some(inner) => Box::new((inner, watcher)),
        });
        self
    }
}

impl Watcher for (Box<dyn Watcher>, Box<dyn Watcher>) {
    fn passes(&mut self, part: &Bytes) {
        self.0.passes(part);
        self.1.passes(part);
    }

    fn ended(&mut self) {
        self.0.ended();
        self.1.ended();
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = match &mut this.source {
            Source::Whole(bytes) => bytes.take().map(|bytes| Ok(Frame::data(bytes))),
            Source::Origin(body, silence) => match Pin::new(body).poll_frame(cx) {
                Poll::Ready(frame) => {
                    silence.broken();
                    frame
                }
                Poll::Pending if silence.poll_too_long(cx) => Some(Err(TooSilent.into())),
                Poll::Pending => return Poll::Pending,
            },
            Source::Ahead(ahead) => std::task::ready!(ahead.poll_frame(cx)),
            Source::Other(body) => std::task::ready!(body.as_mut().poll_frame(cx)),
        };
        if let Some(watcher) = &mut this.watcher {
            if let Some(Ok(frame)) = &frame
                && let Some(part) = frame.data_ref()
            {
                watcher.passes(part);
            }
            let last = match &frame {
                None => true,
                // Trailers are the end: the body is not polled after them.
                Some(Ok(frame)) => frame.is_trailers() || this.source.is_end(),
                Some(Err(_)) => false,
            };
            if last {
                watcher.ended();
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            Source::Origin(body, ..) => body.size_hint(),
            Source::Ahead(ahead) => ahead.left.map_or_else(SizeHint::new, SizeHint::with_exact),
            Source::Other(body) => body.size_hint(),
        }
    }
}

impl Source {
    fn is_end(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Origin(body, ..) => body.is_end_stream(),
            Self::Ahead(ahead) => ahead.left == Some(0),
            Self::Other(body) => body.is_end_stream(),
        }
    }
}

/// Waits for data, with a limit.
struct Silence {
    clock: Clock,
    limit: Duration,
    since: Mono,
    timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// The server stopped in the middle of its answer.
#[derive(Debug, thiserror::Error)]
#[error("the server fell silent in the middle of its answer")]
struct TooSilent;

impl Silence {
    fn new(clock: &Clock, limit: Duration) -> Self {
        Self { clock: clock.clone(), limit, since: clock.now().mono, timer: None }
    }

    /// Data came. The timer is not reset: it checks again when it fires.
    fn broken(&mut self) {
        self.since = self.clock.now().mono;
    }

    fn poll_too_long(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            let until = self.since + self.limit + JUST_AFTER;
            if self.clock.now().mono >= until {
                return true;
            }
            let clock = &self.clock;
            let timer = self.timer.get_or_insert_with(|| {
                let clock = clock.clone();
                Box::pin(async move { clock.sleep_until(until).await })
            });
            if timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.timer = None;
        }
    }
}
