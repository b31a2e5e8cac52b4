//! A plain request that goes out as bytes, and its answer if that comes whole at once.

use std::cmp::Ordering;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use super::sending::Sending;
use super::{AnswerBody, Connection, Return, Unanswered, converse};
use crate::answer_head::{PlainResponse, end_of};
use crate::body::BodyError;
use crate::head::no_fields;
use crate::reader::{SCRATCH, poll_read};

/// A request without a body that is being sent, or was, and what has come of its answer.
///
/// No header map is built for either: the request is already bytes, and an answer that is complete and plain
/// ([`PlainResponse`]) is read in place. [`take_up`](Self::take_up) handles any other.
#[derive(Debug)]
pub struct Underway<T> {
    stream: T,
    /// What has not gone yet of the request.
    unsent: Bytes,
    has_begun: bool,
    /// The stream may keep back what it has taken.
    is_flushed: bool,
    buffer: BytesMut,
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Underway<T> {
    /// `request`: request line and fields, with the empty line. Nothing is sent before it is polled.
    pub fn new(connection: Connection<T>, request: Bytes) -> Self {
        let Connection { stream } = connection;
        let buffer = BytesMut::new();
        Self { stream, unsent: request, has_begun: false, is_flushed: false, buffer }
    }

    /// Resolves to what `take` makes of the answer's head, and the body, once both are complete and the
    /// connection can be reused. Resolves to `None` if that isn't so, or if `take` refuses: then everything
    /// that has come is still here.
    pub fn poll_whole<R>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl Fn(&PlainResponse<'_, '_>) -> Option<R>,
    ) -> Poll<Option<(R, Bytes)>> {
        if matches!(self.poll_send(cx), Poll::Ready(Err(_))) {
            return Poll::Ready(None);
        }
        loop {
            match self.parse_whole(&take) {
                ParsedAnswer::Whole(end, taken) => {
                    let mut body = std::mem::take(&mut self.buffer);
                    body.advance(end);
                    return Poll::Ready(Some((taken, body.freeze())));
                }
                ParsedAnswer::Other => return Poll::Ready(None),
                ParsedAnswer::Incomplete => {}
            }
            match poll_read(Pin::new(&mut self.stream), cx, &mut self.buffer) {
                Poll::Ready(Ok(1..)) if self.buffer.len() <= SCRATCH => {}
                // An answer in several parts takes the slow path, which passes on each part as it comes.
                Poll::Pending if self.buffer.is_empty() => return Poll::Pending,
                _ => return Poll::Ready(None),
            }
        }
    }

    /// How much of the answer is there.
    fn parse_whole<R>(
        &self,
        take: impl Fn(&PlainResponse<'_, '_>) -> Option<R>,
    ) -> ParsedAnswer<R> {
        let Some(end) = end_of(&self.buffer) else { return ParsedAnswer::Incomplete };
        let mut room = no_fields();
        let Some(glance) = PlainResponse::of(&self.buffer[..end], &mut room) else {
            return ParsedAnswer::Other;
        };
        match self.buffer.len().cmp(&end.saturating_add(glance.length)) {
            Ordering::Less => ParsedAnswer::Incomplete,
            Ordering::Equal if self.unsent.is_empty() && self.is_flushed => {
                take(&glance).map_or(ParsedAnswer::Other, |taken| ParsedAnswer::Whole(end, taken))
            }
            // The server answers before it has the whole request, or sends something unasked.
            _ => ParsedAnswer::Other,
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        while !self.unsent.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.unsent))? {
                0 => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                written => self.unsent.advance(written),
            }
            self.has_begun = true;
        }
        if !self.is_flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// The connection, after a whole answer.
    pub fn into_connection(self) -> Connection<T> {
        Connection::new(self.stream)
    }

    /// Goes on as [`Connection::ask`] would have: `request` is what has been, or is being, sent.
    pub async fn take_up<B>(
        self,
        request: Request<B>,
        interim: impl FnMut(StatusCode, HeaderMap),
    ) -> Result<(Response<AnswerBody<T>>, Return<T>), Unanswered<B>>
    where
        B: http_body::Body<Data = Bytes, Error = BodyError> + Unpin + Send + 'static,
    {
        let Self { stream, unsent, has_begun, is_flushed, buffer } = self;
        let sending = Sending::taken_up(request, unsent, has_begun, is_flushed);
        converse(stream, sending, buffer, interim).await
    }
}

/// How much of an answer is there.
enum ParsedAnswer<R> {
    /// Not all of it, or nothing.
    Incomplete,
    /// All: where its head ends, and what was made of that.
    Whole(usize, R),
    /// It can't be taken whole, or `take` refuses it.
    Other,
}
