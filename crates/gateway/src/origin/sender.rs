//! What requests are sent by: a connection of HTTP/1.1, which takes one at a time, or one of HTTP/2, which
//! takes many.

use std::sync::Arc;

use http::header::{CONNECTION, HOST, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::shared::Connection;
use super::{OriginError, Stream};
use crate::body::Question;
use crate::question::trailer_names;

/// A request that was not answered: itself, if nothing of it was sent.
type Unanswered = (Option<Request<Question>>, OriginError);

pub(super) enum Sender {
    Http1(http1::SendRequest<Question>),
    /// As long as this lives, it counts as one of the requests that are under way on the connection.
    Http2(Arc<Connection>),
}

impl Sender {
    /// Speaks what was agreed upon.
    pub(super) async fn over(stream: Stream) -> hyper::Result<Self> {
        if stream.is_http2() {
            return Ok(Self::Http2(Arc::new(Connection::over(stream).await?)));
        }
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move { note_end(connection.with_upgrades().await) });
        Ok(Self::Http1(sender))
    }

    pub(super) async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::Http1(sender) => sender.ready().await,
            // Who finds it closed gets the request back.
            Self::Http2(_) => Ok(()),
        }
    }

    /// `authority`: whom it is asked for if the request does not say so.
    pub(super) async fn send(
        &mut self,
        request: Request<Question>,
        authority: &str,
    ) -> Result<Response<Incoming>, Unanswered> {
        let sent = match self {
            Self::Http1(sender) => sender.try_send_request(request).await,
            Self::Http2(connection) => {
                let (parts, mut body) = request.into_parts();
                let as_it_was = parts.clone();
                // By HTTP/1.1 hyper sends no others: a server may take what comes behind for what came before,
                // and our own fields for the client's.
                let named = trailer_names(&parts.headers).filter_map(|name| name.parse().ok());
                body.keep_trailers(named.collect());
                let request = Request::from_parts(said_by_http2(parts, authority), body);
                let sent = connection.sender().try_send_request(request).await;
                return sent.map(as_by_http1).map_err(|mut failure| {
                    // It may go out by HTTP/1.1 next.
                    let unsent = failure.take_message();
                    let unsent = unsent.map(|it| Request::from_parts(as_it_was, it.into_body()));
                    (unsent, why_not_answered(failure.into_error()))
                });
            }
        };
        sent.map_err(|mut failure| {
            (failure.take_message(), OriginError::Broken(failure.into_error()))
        })
    }
}

pub(super) fn note_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the server ended");
    }
}

/// A request that the server refuses it has not acted upon (RFC 9113, 8.7). What else ended with its
/// connection may have reached it, whatever the `GOAWAY` said: hyper does not tell what it had sent by then.
fn why_not_answered(error: hyper::Error) -> OriginError {
    let source = std::error::Error::source(&error);
    let refused = source.and_then(|it| it.downcast_ref::<h2::Error>()).is_some_and(|it| {
        it.is_remote() && it.is_reset() && it.reason() == Some(h2::Reason::REFUSED_STREAM)
    });
    if refused { OriginError::Refused } else { OriginError::Broken(error) }
}

/// What HTTP/1.1 says by fields is said by the frames of HTTP/2 (RFC 9113, 8.2.2 and 8.3.1).
fn said_by_http2(mut parts: Parts, authority: &str) -> Parts {
    for name in [CONNECTION, TRANSFER_ENCODING, UPGRADE] {
        parts.headers.remove(name);
    }
    let host = parts.headers.remove(HOST);
    let host = host.and_then(|it| Authority::try_from(it.as_bytes()).ok());
    let mut uri = parts.uri.clone().into_parts();
    uri.scheme = Some(Scheme::HTTPS);
    uri.authority = host.or_else(|| authority.parse().ok());
    if let Ok(uri) = Uri::from_parts(uri) {
        parts.uri = uri;
    }
    parts.version = Version::HTTP_2;
    parts
}

/// What follows knows HTTP/1.1.
fn as_by_http1<B>(mut response: Response<B>) -> Response<B> {
    *response.version_mut() = Version::HTTP_11;
    response
}
