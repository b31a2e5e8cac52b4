//! A request's body, on its way from the connection to its consumer, perhaps in another task.
//!
//! The connection hands over one frame at a time, and only when the consumer wants one. What the consumer
//! doesn't read stays in the kernel, and the client has to wait.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// Why a body stopped short.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request.
#[derive(Debug)]
pub struct Incoming(Source);

enum Source {
    Nothing,
    /// Fed by a connection of this crate.
    Fed(Arc<Mutex<Shared>>),
    /// Of a connection that speaks another version.
    Other(Pin<Box<dyn http_body::Body<Data = Bytes, Error = BodyError> + Send>>),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Fed(_) => "Fed",
            Self::Other(_) => "Other",
        })
    }
}

#[derive(Debug)]
struct Shared {
    frame: Option<Result<Frame<Bytes>, BodyError>>,
    /// What comes after `frame`.
    then: Then,
    wanted: bool,
    /// The consumer has dropped the body.
    dropped: bool,
    /// Bytes still to come, `frame` among them, where that is known.
    left: Option<u64>,
    taker: Option<Waker>,
    giver: Option<Waker>,
}

/// What is to be expected of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    More,
    /// It came whole.
    Nothing,
    /// It stopped short. Every read returns this: a consumer that reads on after another task met the error
    /// must not mistake the body for a complete one.
    Failure,
}

/// The connection's end of an [`Incoming`].
#[derive(Debug)]
pub(crate) struct Feeder(Arc<Mutex<Shared>>);

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn wake_taker(&mut self) {
        if let Some(taker) = self.taker.take() {
            taker.wake();
        }
    }

    fn wake_giver(&mut self) {
        if let Some(giver) = self.giver.take() {
            giver.wake();
        }
    }
}

impl Incoming {
    /// No body.
    pub const fn empty() -> Self {
        Self(Source::Nothing)
    }

    /// The body of a request that came another way, by HTTP/2 for instance.
    pub fn other(
        body: impl http_body::Body<Data = Bytes, Error = BodyError> + Send + 'static,
    ) -> Self {
        Self(Source::Other(Box::pin(body)))
    }

    /// A body that will be fed; of `length` bytes, if that is known.
    pub(crate) fn fed(length: Option<u64>) -> (Self, Feeder) {
        let shared = Arc::new(Mutex::new(Shared {
            frame: None,
            then: Then::More,
            wanted: false,
            dropped: false,
            left: length,
            taker: None,
            giver: None,
        }));
        (Self(Source::Fed(Arc::clone(&shared))), Feeder(shared))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Source::Fed(shared) = &self.0 {
            let mut shared = lock(shared);
            shared.dropped = true;
            shared.wake_giver();
        }
    }
}

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let shared = match &mut self.get_mut().0 {
            Source::Nothing => return Poll::Ready(None),
            Source::Fed(shared) => shared,
            Source::Other(body) => return body.as_mut().poll_frame(cx),
        };
        let mut shared = lock(shared);
        if let Some(frame) = shared.frame.take() {
            if let (Some(left), Ok(frame)) = (&mut shared.left, &frame) {
                *left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len) as u64);
            }
            shared.wanted = false;
            return Poll::Ready(Some(frame));
        }
        match shared.then {
            Then::More => {}
            Then::Nothing => return Poll::Ready(None),
            Then::Failure => return Poll::Ready(Some(Err(Box::new(BrokenOff)))),
        }
        shared.wanted = true;
        shared.taker = Some(cx.waker().clone());
        shared.wake_giver();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Nothing => true,
            Source::Fed(shared) => {
                let shared = lock(shared);
                shared.then == Then::Nothing && shared.frame.is_none()
            }
            Source::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Nothing => SizeHint::with_exact(0),
            Source::Other(body) => body.size_hint(),
            Source::Fed(shared) => {
                lock(shared).left.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
        }
    }
}

impl Feeder {
    /// Whether the consumer wants a frame; an error if it has dropped the body.
    pub(crate) fn poll_wanted(&self, cx: &mut Context<'_>) -> Poll<Result<(), Dropped>> {
        let mut shared = lock(&self.0);
        if shared.dropped {
            return Poll::Ready(Err(Dropped));
        }
        if shared.wanted && shared.frame.is_none() {
            return Poll::Ready(Ok(()));
        }
        shared.giver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Gives a frame, which was wanted; `last` if it is the last one.
    pub(crate) fn give(&self, frame: Frame<Bytes>, last: bool) {
        let mut shared = lock(&self.0);
        shared.frame = Some(Ok(frame));
        if last {
            shared.then = Then::Nothing;
        }
        shared.wake_taker();
    }

    /// The body is over.
    pub(crate) fn end(&self) {
        let mut shared = lock(&self.0);
        shared.then = Then::Nothing;
        shared.wake_taker();
    }

    /// The body stopped short.
    pub(crate) fn fail(&self, error: BodyError) {
        let mut shared = lock(&self.0);
        shared.frame = Some(Err(error));
        shared.then = Then::Failure;
        shared.wake_taker();
    }
}

/// The consumer has dropped the body.
#[derive(Debug)]
pub(crate) struct Dropped;

impl Drop for Feeder {
    /// A connection that ends in the middle of a body must not leave its taker waiting.
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
        if shared.then == Then::More {
            shared.frame = Some(Err(Box::new(BrokenOff)));
            shared.then = Then::Failure;
            shared.wake_taker();
        }
    }
}

/// The client is gone.
#[derive(Debug, thiserror::Error)]
#[error("the connection ended in the middle of the request's body")]
pub(crate) struct BrokenOff;
