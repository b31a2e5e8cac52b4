//! What the client sends during an exchange.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use nightwatt_energy::time::Mono;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

use crate::Limits;
use crate::body::{BodyError, BrokenOff, Dropped, Feeder};
use crate::chunked::{Chunked, Step};
use crate::head::{Framing, Refusal};
use crate::timer::Timer;

/// What is read at a time, into the stack.
pub(crate) const SCRATCH: usize = 16 << 10;

/// What a client may send ahead of the answer; the rest waits in the kernel.
pub(crate) const READ_AHEAD: usize = 64 << 10;

/// Does a client that shuts down its sending side now still wait for the answer to its request of `since`?
pub(crate) fn still_waits(timer: &Timer, since: Mono, limits: &Limits) -> bool {
    timer.is_real() && timer.now().since(since) < limits.half_closed
}

/// A part of a body as it is read.
pub(crate) const PART: usize = 64 << 10;

/// The client sent something that is not the body it announced, or nothing for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.text())]
pub struct BadBody(pub Refusal);

/// What is left to be read of a body.
pub(crate) enum BodyReader {
    Length(u64),
    Chunked(Chunked),
}

impl BodyReader {
    pub(crate) fn new(framing: Framing, limits: &Limits) -> Option<Self> {
        match framing {
            Framing::None => None,
            Framing::Length(length) => Some(Self::Length(length)),
            Framing::Chunked => Some(Self::Chunked(Chunked::new(limits.head_bytes, limits.fields))),
        }
    }
}

/// Reads what the client sends during an exchange.
pub(crate) struct Reader<'a, R> {
    pub(crate) half: R,
    pub(crate) buffer: &'a mut BytesMut,
    /// Nothing once the body was read whole.
    pub(crate) body: Option<BodyReader>,
    /// Whether there is more of it: then nothing can follow on this connection.
    pub(crate) unread: Arc<AtomicBool>,
    pub(crate) feeder: Option<Feeder>,
    /// The client waits for 100 Continue.
    pub(crate) expects: Option<mpsc::UnboundedSender<(StatusCode, HeaderMap)>>,
    pub(crate) timer: Timer,
    pub(crate) limits: &'a Limits,
    /// When the request came.
    pub(crate) since: Mono,
}

/// The client has left.
pub(crate) struct Gone;

impl<R: AsyncRead + Unpin> Reader<'_, R> {
    /// Reads the body as fast as it is wanted, then watches for the client to leave.
    pub(crate) async fn run(&mut self) -> Gone {
        if let Some(feeder) = self.feeder.take() {
            match self.feed(&feeder).await {
                Ok(()) => self.unread.store(false, Ordering::Relaxed),
                Err(Stopped::Dropped) => return self.discard().await,
                Err(Stopped::Bad(error)) => {
                    feeder.fail(error);
                    return std::future::pending().await;
                }
                Err(Stopped::Gone) => {
                    feeder.fail(Box::new(BrokenOff));
                    return Gone;
                }
            }
        }
        while self.buffer.len() < READ_AHEAD {
            match self.read(None).await {
                Some(Ok(1..)) => {}
                Some(Ok(0)) if still_waits(&self.timer, self.since, self.limits) => break,
                _ => return Gone,
            }
        }
        std::future::pending().await
    }

    /// Discards the rest of the request. A client that sends all of it before it reads the answer would otherwise
    /// block, and so would we.
    async fn discard(&mut self) -> Gone {
        loop {
            self.buffer.clear();
            match self.read(None).await {
                Some(Ok(1..)) => {}
                Some(Ok(0)) => return std::future::pending().await,
                _ => return Gone,
            }
        }
    }

    async fn feed(&mut self, feeder: &Feeder) -> Result<(), Stopped> {
        while self.body.is_some() {
            std::future::poll_fn(|cx| feeder.poll_wanted(cx)).await?;
            while !self.take_part(feeder)? {
                if let Some(expects) = self.expects.take() {
                    let _ = expects.send((StatusCode::CONTINUE, HeaderMap::new()));
                }
                match self.read(Some(self.limits.body_timeout)).await {
                    Some(Ok(1..)) => {}
                    Some(_) => return Err(Stopped::Gone),
                    None => return Err(Stopped::Bad(Box::new(BadBody(Refusal::TimedOut)))),
                }
            }
        }
        Ok(())
    }

    /// Passes on what is in the buffer of the body. False: there is nothing.
    fn take_part(&mut self, feeder: &Feeder) -> Result<bool, Stopped> {
        match &mut self.body {
            None => return Ok(true),
            Some(BodyReader::Length(left)) => {
                if self.buffer.is_empty() {
                    return Ok(false);
                }
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(self.buffer.len());
                *left -= here as u64;
                let last = *left == 0;
                feeder.give(Frame::data(self.buffer.split_to(here).freeze()), last);
                if last {
                    self.body = None;
                }
            }
            Some(BodyReader::Chunked(chunked)) => {
                let step = chunked.step(self.buffer);
                match step.map_err(|refusal| Stopped::Bad(Box::new(BadBody(refusal))))? {
                    Step::More => return Ok(false),
                    Step::Data(part) => feeder.give(Frame::data(part), false),
                    Step::End(trailers) => {
                        match trailers {
                            Some(trailers) => feeder.give(Frame::trailers(trailers), true),
                            None => feeder.end(),
                        }
                        self.body = None;
                    }
                }
            }
        }
        Ok(true)
    }

    /// Reads into the buffer; `None` if that takes too long.
    async fn read(&mut self, limit: Option<Duration>) -> Option<std::io::Result<usize>> {
        let (half, buffer) = (&mut self.half, &mut *self.buffer);
        let limit = limit.unwrap_or(Duration::MAX);
        self.timer.within(limit, |cx| poll_read(Pin::new(&mut *half), cx, buffer)).await
    }
}

/// Why a body was not read to its end.
pub(crate) enum Stopped {
    Dropped,
    Gone,
    Bad(BodyError),
}

impl From<Dropped> for Stopped {
    fn from(_: Dropped) -> Self {
        Self::Dropped
    }
}

/// Appends what has come to `buffer`, which grows only then.
pub(crate) fn poll_read(
    stream: Pin<&mut impl AsyncRead>,
    cx: &mut Context<'_>,
    buffer: &mut BytesMut,
) -> Poll<std::io::Result<usize>> {
    let mut scratch = [std::mem::MaybeUninit::uninit(); SCRATCH];
    let mut read = ReadBuf::uninit(&mut scratch);
    std::task::ready!(stream.poll_read(cx, &mut read))?;
    if buffer.capacity() - buffer.len() < read.filled().len() {
        buffer.reserve(PART.min(4 * read.filled().len()));
    }
    buffer.extend_from_slice(read.filled());
    Poll::Ready(Ok(read.filled().len()))
}
