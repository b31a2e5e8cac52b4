//! Bodies of requests on their way to a server.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::TRAILER;
use http::{HeaderMap, HeaderName};
use http_body::{Frame, SizeHint};
use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_http1::{BadBody, BodyError, Incoming, Refusal, only_named};
use tokio::sync::OwnedSemaphorePermit;

/// Extra time, so that what arrives just in time is within a limit.
pub(crate) const JUST_AFTER: Duration = Duration::from_millis(1);

/// Something that stays under way as long as a part of it is held.
pub(crate) trait InFlight: std::fmt::Debug + Send + Sync {}

/// State of a request on its way to the server: shared by its body and the task that waits for the answer.
#[derive(Debug)]
pub(crate) struct Sending {
    clock: Clock,
    /// Nanoseconds of monotonic time at which the last part went.
    last: AtomicU64,
    /// The body was sent completely: the connection can be reused once the answer has come.
    whole: AtomicBool,
    /// The body exceeded the limit.
    too_large: AtomicBool,
    /// The client aborted it, or it is malformed.
    broken: AtomicBool,
    /// Nothing arrived for too long.
    too_slow: AtomicBool,
    /// Keeps the exchange under way as long as its request is.
    _exchange: Arc<dyn InFlight>,
}

impl Sending {
    /// `since`: when it was sent, if that is past.
    pub(crate) fn new(
        clock: &Clock,
        exchange: Arc<dyn InFlight>,
        since: Option<Mono>,
    ) -> Arc<Self> {
        let sending = Self {
            clock: clock.clone(),
            last: AtomicU64::new(0),
            whole: AtomicBool::new(false),
            too_large: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            too_slow: AtomicBool::new(false),
            _exchange: exchange,
        };
        sending.went_at(since.unwrap_or_else(|| clock.now().mono));
        Arc::new(sending)
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    fn goes_on(&self) {
        self.went_at(self.clock.now().mono);
    }

    fn went_at(&self, moment: Mono) {
        let nanos = u64::try_from(moment.0.as_nanos()).unwrap_or(u64::MAX);
        self.last.store(nanos, Ordering::Relaxed);
    }

    /// When the last part was sent.
    pub(crate) fn last(&self) -> Mono {
        Mono(Duration::from_nanos(self.last.load(Ordering::Relaxed)))
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    pub(crate) fn is_too_slow(&self) -> bool {
        self.too_slow.load(Ordering::Relaxed)
    }

    /// Whether the client's body caused the failure.
    pub(crate) fn is_faulty(&self) -> bool {
        self.is_broken() || self.is_too_large()
    }

    pub(crate) fn is_too_large(&self) -> bool {
        self.too_large.load(Ordering::Relaxed)
    }
}

/// The body of a request to the server: what was spooled while it was held, then the rest.
#[derive(Debug)]
pub(crate) struct Question {
    spooled: VecDeque<Bytes>,
    memory: Vec<Arc<OwnedSemaphorePermit>>,
    rest: Option<Incoming>,
    /// Trailers that were spooled: then there is no rest.
    trailers: Option<HeaderMap>,
    /// The only trailers that are passed on, if not all are.
    named_trailers: Option<Vec<HeaderName>>,
    /// Bytes that may still come.
    allowed: u64,
    sending: Arc<Sending>,
}

/// What was kept of a request's body.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    pub(crate) parts: Vec<Bytes>,
    pub(crate) trailers: Option<HeaderMap>,
    /// The memory that the parts are in, as far as it counts against `limits.spool_total_bytes`.
    pub(crate) memory: Vec<Arc<OwnedSemaphorePermit>>,
}

/// The members of a field that is a list.
pub(crate) fn listed(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|it| !it.is_empty())
}

/// What `Trailer` names, as it is written there.
pub(crate) fn trailer_names(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    listed(headers, TRAILER)
}

/// Keeps what arrives from a client while its request waits.
pub(crate) trait Spooling {
    /// Reads until nothing more comes or the memory is used up; false if the client is gone.
    fn fill(&mut self) -> impl Future<Output = bool> + Send;

    /// Returns when the client is gone, as far as that can be known without reading.
    fn gone(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// A request body was larger than the limit.
#[derive(Debug, thiserror::Error)]
#[error("the request's body is larger than the limit")]
struct TooLarge;

/// Keeps only the trailers with these names.
fn only(named: &[HeaderName], frame: Frame<Bytes>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            only_named(&mut trailers, named);
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }
}

impl Question {
    /// What is spooled, then `rest`; `allowed` bytes in all.
    pub(crate) fn new(
        Kept { parts, trailers, memory }: Kept,
        rest: Option<Incoming>,
        allowed: u64,
        sending: &Arc<Sending>,
    ) -> Self {
        let sending = Arc::clone(sending);
        let spooled = parts.into();
        let question =
            Self { spooled, memory, rest, trailers, named_trailers: None, allowed, sending };
        // A body that is empty is never polled.
        question.note_end(false);
        question
    }

    fn note_end(&self, ended: bool) {
        if ended || http_body::Body::is_end_stream(self) {
            self.sending.whole.store(true, Ordering::Relaxed);
        }
    }

    /// Drops all other trailers.
    pub(crate) fn keep_trailers(&mut self, named: Vec<HeaderName>) {
        self.named_trailers = Some(named);
    }

    /// The spooled part and the rest: for a request that was not sent.
    pub(crate) fn into_parts(self) -> (Kept, Option<Incoming>) {
        let Self { spooled, trailers, memory, .. } = self;
        (Kept { parts: spooled.into(), trailers, memory }, self.rest)
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
            std::task::ready!(Pin::new(rest).poll_frame(cx))
        } else {
            this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers)))
        };
        if let Some(Ok(frame)) = &frame
            && let Some(part) = frame.data_ref()
        {
            let Some(left) = this.allowed.checked_sub(part.len() as u64) else {
                this.sending.too_large.store(true, Ordering::Relaxed);
                return Poll::Ready(Some(Err(Box::new(TooLarge))));
            };
            this.allowed = left;
        }
        if let Some(Err(error)) = &frame {
            let too_slow = error.downcast_ref() == Some(&BadBody(Refusal::TimedOut));
            this.sending.too_slow.store(too_slow, Ordering::Relaxed);
            this.sending.broken.store(true, Ordering::Relaxed);
        }
        let frame = match &this.named_trailers {
            Some(named) => frame.map(|it| it.map(|it| only(named, it))),
            None => frame,
        };
        this.sending.goes_on();
        this.note_end(frame.is_none() || matches!(&frame, Some(Ok(frame)) if frame.is_trailers()));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.spooled.is_empty()
            && self.trailers.is_none()
            && self.rest.as_ref().is_none_or(http_body::Body::is_end_stream)
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
