//! A request on its way to the server.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRAILER, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, Method, Request};
use http_body::Frame;
use tokio::io::AsyncWrite;

use crate::body::BodyError;
use crate::head::length_of;
use crate::response::{chunk_line, last_chunk, write_field};
use crate::trailers::only_named;
use crate::writer::{ROOM, poll_write};

/// Why a request did not go whole.
#[derive(Debug)]
enum NotSent {
    Stream(io::Error),
    /// It is not what its head says, or broke off.
    Body(BodyError),
}

/// What is left of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Length(u64),
    Chunked,
}

/// The request's body is longer or shorter than its head says.
#[derive(Debug, thiserror::Error)]
#[error("it is not as long as the request says")]
struct OtherLength;

/// A request that is being sent.
pub(super) struct Sending<B> {
    /// As it was: given back if nothing of it was sent.
    request: Request<B>,
    /// What is to be written next.
    out: VecDeque<Bytes>,
    left: Left,
    has_begun: bool,
    /// The stream may keep back what it has taken.
    is_flushed: bool,
    /// Why the stream accepts nothing any more.
    failed: Option<io::Error>,
}

impl<B> Sending<B>
where
    B: http_body::Body<Data = Bytes, Error = BodyError> + Unpin,
{
    pub(super) fn new(request: Request<B>) -> Self {
        let headers = request.headers();
        let length = headers.get(CONTENT_LENGTH).and_then(|it| length_of(it.as_bytes()));
        let left = match length {
            _ if headers.contains_key(TRANSFER_ENCODING) => Left::Chunked,
            None | Some(0) => Left::Nothing,
            Some(length) => Left::Length(length),
        };
        let out = VecDeque::from([head_of(&request)]);
        Self { request, out, left, has_begun: false, is_flushed: false, failed: None }
    }

    /// One without a body, of whose bytes these are left. `has_begun`, `is_flushed`: what became of the others.
    pub(super) fn taken_up(
        request: Request<B>,
        unsent: Bytes,
        has_begun: bool,
        is_flushed: bool,
    ) -> Self {
        let mut out = VecDeque::new();
        if !unsent.is_empty() {
            out.push_back(unsent);
        }
        Self { request, out, left: Left::Nothing, has_begun, is_flushed, failed: None }
    }

    pub(super) fn method(&self) -> &Method {
        self.request.method()
    }

    /// Has all of it gone?
    pub(super) fn is_done(&self) -> bool {
        self.out.is_empty() && self.left == Left::Nothing && self.is_flushed
    }

    /// Has the stream failed? Then nothing more of it can go.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Why the stream failed, if it did.
    pub(super) fn take_failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// The request, if nothing of it was sent.
    pub(super) fn into_unsent(self) -> Option<Request<B>> {
        (!self.has_begun).then_some(self.request)
    }

    /// Sends as much as possible; ready when all has gone or the stream has failed
    /// ([`has_failed`](Self::has_failed)). That is no error yet, since the server may have answered before it
    /// closed. An error of the body is one.
    pub(super) fn poll(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BodyError>> {
        if self.has_failed() {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(match ready!(self.poll_all(stream, cx)) {
            Ok(()) => Ok(()),
            Err(NotSent::Body(error)) => Err(error),
            Err(NotSent::Stream(error)) => {
                self.failed = Some(error);
                Ok(())
            }
        })
    }

    fn poll_all(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), NotSent>> {
        loop {
            // Nothing of the body is taken before the head has gone: until then the request can be given back.
            while self.has_begun && self.left != Left::Nothing && self.out.len() < ROOM {
                match Pin::new(self.request.body_mut()).poll_frame(cx) {
                    Poll::Ready(frame) => self.take(frame).map_err(NotSent::Body)?,
                    Poll::Pending if self.out.is_empty() => {
                        ready!(self.poll_flush(stream, cx))?;
                        return Poll::Pending;
                    }
                    Poll::Pending => break,
                }
            }
            if self.out.is_empty() {
                return self.poll_flush(stream, cx);
            }
            ready!(poll_write(stream, &mut self.out, cx)).map_err(NotSent::Stream)?;
            (self.has_begun, self.is_flushed) = (true, false);
        }
    }

    fn poll_flush(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), NotSent>> {
        if !self.is_flushed {
            ready!(Pin::new(stream).poll_flush(cx)).map_err(NotSent::Stream)?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the next frame of the body, or its end.
    fn take(&mut self, frame: Option<Result<Frame<Bytes>, BodyError>>) -> Result<(), BodyError> {
        let Some(frame) = frame.transpose()? else {
            return self.end(None);
        };
        match frame.into_data() {
            Ok(part) if part.is_empty() => {}
            Ok(part) => match &mut self.left {
                Left::Chunked => {
                    self.out.extend([chunk_line(part.len()), part, Bytes::from_static(b"\r\n")]);
                }
                Left::Length(left) if part.len() as u64 <= *left => {
                    *left -= part.len() as u64;
                    self.out.push_back(part);
                    if *left == 0 {
                        self.left = Left::Nothing;
                    }
                }
                Left::Length(_) | Left::Nothing => return Err(Box::new(OtherLength)),
            },
            Err(frame) => return self.end(frame.into_trailers().ok()),
        }
        Ok(())
    }

    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), BodyError> {
        if self.left != Left::Chunked {
            return Err(Box::new(OtherLength));
        }
        let trailers = trailers.map(|mut trailers| {
            only_named(&mut trailers, &named(self.request.headers()));
            trailers
        });
        self.out.push_back(last_chunk(trailers.as_ref()));
        self.left = Left::Nothing;
        Ok(())
    }
}

/// Request line and fields, as they go out.
fn head_of<B>(request: &Request<B>) -> Bytes {
    let mut out = BytesMut::with_capacity(1024);
    out.put_slice(request.method().as_str().as_bytes());
    out.put_u8(b' ');
    let target = request.uri().path_and_query().map_or("/", |it| it.as_str());
    out.put_slice(target.as_bytes());
    out.put_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.headers() {
        write_field(&mut out, name.as_str(), value);
    }
    out.put_slice(b"\r\n");
    out.freeze()
}

/// The trailers that `Trailer` announces.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(TRAILER).into_iter();
    let listed = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    listed.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect()
}
