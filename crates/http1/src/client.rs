//! Requests to a server, over a connection that takes one at a time (RFC 9112).
//!
//! The caller drives the connection: there is no background task and no channel. The one exception is a
//! request whose answer begins before all of its body has been sent: a task of its own sends the rest, since
//! a server may wait for it before it goes on answering. That task ends with the answer.

mod answer;
mod framing;
mod sending;
mod underway;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use self::answer::AnswerBody;
use self::answer::{Rest, Source};
use self::sending::Sending;
pub use self::underway::Underway;
pub use crate::answer_head::{BadAnswer, PlainResponse};
use crate::answer_head::{Head, parse};
use crate::body::BodyError;
use crate::reader::poll_read;

/// No more interim answers come before one answer.
const MOST_INTERIM: usize = 256;

/// A connection to a server, between two requests.
#[derive(Debug)]
pub struct Connection<T> {
    stream: T,
}

/// Why there is no answer, or only a part of one.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server closed the connection before it had answered.
    #[error("it was closed before there was an answer")]
    Closed,
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// What came is no answer of HTTP/1.1 or HTTP/1.0, or its end is not certain.
    #[error(transparent)]
    Bad(#[from] BadAnswer),
    /// The request's body broke off.
    #[error("the request's body broke off: {0}")]
    Body(BodyError),
    /// The answer broke off.
    #[error("the server broke its answer off")]
    BrokenOff,
}

/// A request that was not answered: itself, if nothing of it was sent.
#[derive(Debug)]
pub struct Unanswered<B> {
    /// Why.
    pub error: ClientError,
    /// It may be sent again, whatever it asks for.
    pub unsent: Option<Request<B>>,
}

/// Where a connection is found again when its answer has been read whole.
#[derive(Debug)]
pub struct Return<T>(Arc<Mutex<Option<T>>>);

impl<T> Return<T> {
    /// The connection, if it can serve again.
    pub fn take(self) -> Option<Connection<T>> {
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Connection { stream })
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connection<T> {
    /// Over a stream on which nothing has been said.
    pub const fn new(stream: T) -> Self {
        Self { stream }
    }

    /// Completes when no more requests can be sent: the server has closed, or sends something unasked.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut byte = [0];
        Pin::new(&mut self.stream).poll_read(cx, &mut ReadBuf::new(&mut byte)).map(drop)
    }

    /// Is that so now?
    pub fn is_over(&mut self) -> bool {
        self.poll_over(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    /// Sends a request; returns the answer's head, with its body to come, and where the connection is to be
    /// found when that has been read.
    ///
    /// The request's fields say how long its body is: by `Content-Length`, or by `Transfer-Encoding:
    /// chunked`; without either, it has none. Of its trailers those are sent that `Trailer` names.
    /// Interim answers (1xx but 101) are passed to `interim`.
    pub async fn ask<B>(
        self,
        request: Request<B>,
        interim: impl FnMut(StatusCode, HeaderMap),
    ) -> Result<(Response<AnswerBody<T>>, Return<T>), Unanswered<B>>
    where
        B: http_body::Body<Data = Bytes, Error = BodyError> + Unpin + Send + 'static,
    {
        converse(self.stream, Sending::new(request), BytesMut::new(), interim).await
    }
}

/// Sends what is left of a request, and reads its answer, of which `buffer` has what came already.
async fn converse<T, B>(
    mut stream: T,
    mut sending: Sending<B>,
    mut buffer: BytesMut,
    mut interim: impl FnMut(StatusCode, HeaderMap),
) -> Result<(Response<AnswerBody<T>>, Return<T>), Unanswered<B>>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: http_body::Body<Data = Bytes, Error = BodyError> + Unpin + Send + 'static,
{
    let method = sending.method().clone();
    let mut interims = 0;
    let asked = loop {
        let next = std::future::poll_fn(|cx| poll_head(&mut stream, &mut sending, &mut buffer, cx));
        match next.await {
            Ok(head) if head.is_interim() && interims < MOST_INTERIM => {
                interims += 1;
                interim(head.status, head.headers);
            }
            Ok(head) if head.is_interim() => {
                break Err(BadAnswer("too many interim answers").into());
            }
            Ok(head) => {
                break head.framing(&method).map(|framing| (head, framing)).map_err(Into::into);
            }
            Err(error) => break Err(error),
        }
    };
    let (head, (framing, persists)) = match asked {
        Ok(asked) => asked,
        Err(error) => return Err(Unanswered { error, unsent: sending.into_unsent() }),
    };
    if head.status == StatusCode::SWITCHING_PROTOCOLS && !sending.is_done() {
        // The other protocol begins behind the request's body (RFC 9110, 7.8).
        let sent = std::future::poll_fn(|cx| sending.poll(&mut stream, cx)).await;
        let failed = sending.take_failure().map(ClientError::Io);
        if let Some(error) = sent.map_err(ClientError::Body).err().or(failed) {
            return Err(Unanswered { error, unsent: None });
        }
    }
    let home = Arc::new(Mutex::new(None));
    let persists = persists && sending.is_done();
    let source = if sending.is_done() || sending.has_failed() {
        Source::Whole(stream)
    } else {
        let (read, mut write) = tokio::io::split(stream);
        let rest = tokio::spawn(async move {
            // The caller sees any error when it reads the answer.
            let _ = std::future::poll_fn(|cx| sending.poll(&mut write, cx)).await;
        });
        Source::Half { half: read, _rest: Rest(rest) }
    };
    let answer = AnswerBody::new(source, buffer, framing, persists.then(|| Arc::clone(&home)));
    let mut response = Response::new(answer);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    Ok((response, Return(home)))
}

/// Sends, and reads the next head meanwhile.
fn poll_head<T, B>(
    stream: &mut T,
    sending: &mut Sending<B>,
    buffer: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<Result<Head, ClientError>>
where
    T: AsyncRead + AsyncWrite + Unpin,
    B: http_body::Body<Data = Bytes, Error = BodyError> + Unpin,
{
    if let Poll::Ready(Err(error)) = sending.poll(stream, cx) {
        return Poll::Ready(Err(ClientError::Body(error)));
    }
    // After a failed write, too: a server that refuses a body answers and closes while the body is still being
    // sent. Only the end of the stream shows that no answer will come.
    loop {
        if let Some(head) = parse(buffer)? {
            return Poll::Ready(Ok(head));
        }
        match ready!(poll_read(Pin::new(&mut *stream), cx, buffer)) {
            Ok(1..) => {}
            Ok(0) => {
                let failed = sending.take_failure();
                return Poll::Ready(Err(failed.map_or(ClientError::Closed, ClientError::Io)));
            }
            Err(error) => return Poll::Ready(Err(error.into())),
        }
    }
}

#[cfg(test)]
mod tests;
