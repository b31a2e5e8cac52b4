//! Bodies on their way through.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

/// Why a body stopped short.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// What happens to a response while it passes: it is counted, kept for the cache, and at its end
/// (or when its client is gone) the books are closed.
pub(crate) trait Watcher: Send {
    /// A part passes.
    fn passes(&mut self, part: &Bytes);
    /// All of it has passed.
    fn ended(&mut self);
}

/// The body of an answer to a client.
pub(crate) struct Answer {
    source: Source,
    /// Dropped with the body: the exchange is over then, ended well or not.
    watcher: Option<Box<dyn Watcher>>,
}

enum Source {
    Whole(Option<Bytes>),
    Origin(Incoming),
}

impl Answer {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { source: Source::Whole((!bytes.is_empty()).then_some(bytes)), watcher: None }
    }

    pub(crate) fn empty() -> Self {
        Self { source: Source::Whole(None), watcher: None }
    }

    pub(crate) fn of_origin(body: Incoming) -> Self {
        Self { source: Source::Origin(body), watcher: None }
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
            Source::Origin(body) => std::task::ready!(Pin::new(body).poll_frame(cx))
                .map(|frame| frame.map_err(Into::into)),
        };
        if let Some(watcher) = &mut this.watcher {
            if let Some(Ok(frame)) = &frame
                && let Some(part) = frame.data_ref()
            {
                watcher.passes(part);
            }
            let failed = matches!(&frame, Some(Err(_)));
            // The server does not poll again once the end is known.
            if !failed && (frame.is_none() || this.source.is_end()) {
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
            Source::Origin(body) => body.size_hint(),
        }
    }
}

impl Source {
    fn is_end(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Origin(body) => body.is_end_stream(),
        }
    }
}

/// The body of a request to the server: what was spooled while it was held, then the rest.
#[derive(Debug)]
pub(crate) struct Question {
    spooled: VecDeque<Bytes>,
    rest: Option<Incoming>,
    /// Bytes that may still come.
    allowed: u64,
    too_large: Arc<AtomicBool>,
}

/// A request body was larger than the limit.
#[derive(Debug, thiserror::Error)]
#[error("the request's body is larger than the limit")]
struct TooLarge;

impl Question {
    pub(crate) fn empty() -> Self {
        Self { spooled: VecDeque::new(), rest: None, allowed: 0, too_large: Arc::default() }
    }

    /// What is spooled, then `rest`; `allowed` bytes in all. `too_large` is raised when more come.
    pub(crate) fn new(
        spooled: impl IntoIterator<Item = Bytes>,
        rest: Option<Incoming>,
        allowed: u64,
        too_large: &Arc<AtomicBool>,
    ) -> Self {
        let spooled: VecDeque<Bytes> = spooled.into_iter().collect();
        Self { spooled, rest, allowed, too_large: Arc::clone(too_large) }
    }

    /// What was spooled, and the rest: for a request that was not sent.
    pub(crate) fn into_parts(self) -> (Vec<Bytes>, Option<Incoming>) {
        (self.spooled.into(), self.rest)
    }
}

impl http_body::Body for Question {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = if let Some(part) = this.spooled.pop_front() {
            Some(Ok(Frame::data(part)))
        } else if let Some(rest) = &mut this.rest {
            std::task::ready!(Pin::new(rest).poll_frame(cx)).map(|frame| frame.map_err(Into::into))
        } else {
            None
        };
        if let Some(Ok(frame)) = &frame
            && let Some(part) = frame.data_ref()
        {
            let Some(left) = this.allowed.checked_sub(part.len() as u64) else {
                this.too_large.store(true, Ordering::Relaxed);
                return Poll::Ready(Some(Err(Box::new(TooLarge))));
            };
            this.allowed = left;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.spooled.is_empty() && self.rest.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let spooled = self.spooled.iter().map(Bytes::len).sum::<usize>() as u64;
        let rest = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(spooled + rest.lower());
        if let Some(upper) = rest.upper() {
            hint.set_upper(spooled + upper);
        }
        hint
    }
}
