//! What requests are sent by: a connection of HTTP/1.1, which takes one at a time, or one of HTTP/2, which
//! takes many.

use http::header::{CONNECTION, HOST, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::Stream;
use crate::body::Question;

/// A request that was not answered: itself, if nothing of it was sent.
type Unanswered = (Option<Request<Question>>, hyper::Error);

pub(super) enum Sender {
    Http1(http1::SendRequest<Question>),
    Http2(http2::SendRequest<Question>),
}

impl Sender {
    /// Speaks what was agreed upon.
    pub(super) async fn over(stream: Stream) -> hyper::Result<Self> {
        let ended = |result: hyper::Result<()>| {
            if let Err(error) = result {
                tracing::debug!(%error, "a connection to the server ended");
            }
        };
        if stream.is_http2() {
            let builder = http2::Builder::new(TokioExecutor::new());
            let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
            tokio::spawn(async move { ended(connection.await) });
            return Ok(Self::Http2(sender));
        }
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move { ended(connection.with_upgrades().await) });
        Ok(Self::Http1(sender))
    }

    /// Another one for the same connection, if that takes many requests at once.
    pub(super) fn share(&self) -> Option<Self> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(sender) => Some(Self::Http2(sender.clone())),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_closed(),
            Self::Http2(sender) => sender.is_closed(),
        }
    }

    pub(super) async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::Http1(sender) => sender.ready().await,
            Self::Http2(sender) => sender.ready().await,
        }
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Question>,
    ) -> Result<Response<Incoming>, Unanswered> {
        match self {
            Self::Http1(sender) => sender
                .try_send_request(request)
                .await
                .map_err(|mut failure| (failure.take_message(), failure.into_error())),
            Self::Http2(sender) => {
                let (parts, body) = request.into_parts();
                let (as_it_was, mut parts) = (parts.clone(), parts);
                say_by_http2(&mut parts);
                let request = Request::from_parts(parts, body);
                let mut response =
                    sender.try_send_request(request).await.map_err(|mut failure| {
                        let unsent = failure.take_message();
                        // It may go out by HTTP/1.1 next.
                        let unsent =
                            unsent.map(|it| Request::from_parts(as_it_was, it.into_body()));
                        (unsent, failure.into_error())
                    })?;
                // What follows knows HTTP/1.1.
                *response.version_mut() = Version::HTTP_11;
                Ok(response)
            }
        }
    }
}

/// What HTTP/1.1 says by fields is said by the frames of HTTP/2 (RFC 9113, 8.2.2 and 8.3.1).
fn say_by_http2(parts: &mut Parts) {
    for name in [CONNECTION, TRANSFER_ENCODING, UPGRADE] {
        parts.headers.remove(name);
    }
    let host = parts.headers.remove(HOST);
    let authority = host.and_then(|it| Authority::try_from(it.as_bytes()).ok());
    let mut uri = std::mem::take(&mut parts.uri).into_parts();
    uri.scheme = authority.is_some().then_some(Scheme::HTTPS);
    uri.authority = authority;
    parts.uri = Uri::from_parts(uri).unwrap_or_default();
    parts.version = Version::HTTP_2;
}
