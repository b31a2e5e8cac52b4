//! An answer's body, on its way from the server.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf};
use tokio::task::JoinHandle;

use super::ClientError;
use super::framing::Framing;
use crate::answer_head::BadAnswer;
use crate::chunked::Step;
use crate::reader::{PART, SCRATCH, poll_read};

/// What an answer is read from.
#[derive(Debug)]
pub(super) enum Source<T> {
    Whole(T),
    /// The request is still being sent.
    Half {
        half: ReadHalf<T>,
        _rest: Rest,
    },
}

/// The task that sends the rest of a request. It ends with the answer: a server that has answered and reads no
/// more would keep it for ever.
#[derive(Debug)]
pub(super) struct Rest(pub(super) JoinHandle<()>);

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The body of an answer. What the caller doesn't read stays in the kernel, and the server has to wait.
#[derive(Debug)]
pub struct AnswerBody<T> {
    /// `None` once the connection has been returned.
    source: Option<Source<T>>,
    /// What came and was not read yet.
    buffer: BytesMut,
    framing: Framing,
    /// Where the connection goes at the end, if it can serve again.
    home: Option<Arc<Mutex<Option<T>>>>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> AnswerBody<T> {
    pub(super) fn new(
        source: Source<T>,
        buffer: BytesMut,
        framing: Framing,
        home: Option<Arc<Mutex<Option<T>>>>,
    ) -> Self {
        let mut answer = Self { source: Some(source), buffer, framing, home };
        if matches!(answer.framing, Framing::Nothing) {
            answer.end();
        }
        answer
    }

    /// After `101 Switching Protocols`: the connection, and what came behind the answer.
    pub fn into_stream(self) -> Option<(T, Bytes)> {
        match self.source {
            Some(Source::Whole(stream)) => Some((stream, self.buffer.freeze())),
            _ => None,
        }
    }

    /// It was read whole.
    fn end(&mut self) {
        self.framing = Framing::Nothing;
        // What follows was not asked for.
        if let Some(home) = self.home.take().filter(|_| self.buffer.is_empty())
            && let Some(Source::Whole(stream)) = self.source.take()
        {
            *home.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
        }
    }

    /// The next part of the body.
    fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientError>>> {
        loop {
            match &mut self.framing {
                Framing::Nothing => return Poll::Ready(None),
                Framing::Length(_) | Framing::Close if self.buffer.is_empty() => {}
                Framing::Length(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(self.buffer.len());
                    *left -= here as u64;
                    let is_last = *left == 0;
                    let part = self.buffer.split_to(here).freeze();
                    if is_last {
                        self.end();
                    }
                    return Poll::Ready(Some(Ok(Frame::data(part))));
                }
                Framing::Close => {
                    return Poll::Ready(Some(Ok(Frame::data(self.buffer.split().freeze()))));
                }
                Framing::Chunked(chunked) => {
                    let step = chunked.step(&mut self.buffer);
                    match step.map_err(|refusal| BadAnswer(refusal.text()))? {
                        Step::More => {}
                        Step::Data(part) => return Poll::Ready(Some(Ok(Frame::data(part)))),
                        Step::End(trailers) => {
                            self.end();
                            return Poll::Ready(trailers.map(|it| Ok(Frame::trailers(it))));
                        }
                    }
                }
            }
            match ready!(self.poll_more(cx))? {
                0 if matches!(self.framing, Framing::Close) => self.end(),
                0 => return Poll::Ready(Some(Err(ClientError::BrokenOff))),
                _ => {}
            }
        }
    }

    /// Reads more into the buffer.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let Self { source, buffer, framing, .. } = self;
        match source {
            Some(Source::Whole(stream)) => poll_some(stream, framing, buffer, cx),
            Some(Source::Half { half, .. }) => poll_some(half, framing, buffer, cx),
            None => Poll::Ready(Ok(0)),
        }
    }
}

/// Reads more of a body that ends like this.
fn poll_some(
    stream: &mut (impl AsyncRead + Unpin),
    framing: &Framing,
    buffer: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<std::io::Result<usize>> {
    let Framing::Length(left @ SCRATCH_AND_MORE..) = framing else {
        return poll_read(Pin::new(stream), cx, buffer);
    };
    // Much will come: it is read to where it stays.
    buffer.reserve(usize::try_from(*left).unwrap_or(PART).min(PART));
    let read = pin!(stream.read_buf(buffer)).poll(cx);
    if read.is_pending() && buffer.is_empty() {
        // Holds no memory while it waits.
        *buffer = BytesMut::new();
    }
    read
}

const SCRATCH_AND_MORE: u64 = SCRATCH as u64 + 1;

impl<T: AsyncRead + AsyncWrite + Unpin> http_body::Body for AnswerBody<T> {
    type Data = Bytes;
    type Error = ClientError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientError>>> {
        let this = self.get_mut();
        let part = ready!(this.poll_part(cx));
        if matches!(part, Some(Err(_))) {
            (this.source, this.home) = (None, None);
        }
        Poll::Ready(part)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.framing, Framing::Nothing)
    }

    fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Nothing => SizeHint::with_exact(0),
            Framing::Length(left) => SizeHint::with_exact(left),
            Framing::Chunked(_) | Framing::Close => SizeHint::new(),
        }
    }
}
