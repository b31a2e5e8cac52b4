//! Sends requests on a connection: over HTTP/1.1, one at a time, or over HTTP/2, many at once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri, Version};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use nightwatt_http1::client::{self, ClientError, Return};
use nightwatt_http1::{BodyError, Interim};
use nightwatt_httpcache::fields;

use super::shared::Connection;
use super::{Failure, OriginError, Stream};
use crate::request_body::{Question, trailer_names};

pub(super) enum Sender {
    Http1(client::Connection<Stream>),
    /// While this exists, it counts as one of the requests under way on the connection.
    Http2(Arc<Connection>),
}

/// How a request is sent.
pub(super) enum Way {
    /// On a connection of its own.
    Free(client::Connection<Stream>),
    /// It is being sent, or has been.
    Underway(client::Underway<Stream>),
}

/// A connection whose answer is in progress.
pub(super) enum Lent {
    Http1(Return<Stream>),
    Http2(Arc<Connection>),
}

/// The body of a server's answer.
pub(crate) enum FromOrigin {
    Http1(client::AnswerBody<Stream>),
    Http2(Incoming),
}

impl http_body::Body for FromOrigin {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Http1(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|it| it.map_err(Into::into)))
            }
            // An HTTP/2 answer that the server ends early is no error if the server says so (`RST_STREAM` with
            // `NO_ERROR`, when it wants no more of the request): hyper ends the body then, whether or not the answer
            // was complete.
            Self::Http2(body) => Pin::new(&mut *body).poll_frame(cx).map(|frame| match frame {
                None if !has_ended(body) => Some(Err(ClientError::BrokenOff.into())),
                frame => frame.map(|it| it.map_err(Into::into)),
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Http2(body) => body.size_hint(),
        }
    }
}

/// Whether its full length has arrived, or the end of the stream was received.
fn has_ended(body: &Incoming) -> bool {
    use http_body::Body;
    body.is_end_stream() || body.size_hint().exact() == Some(0)
}

impl Sender {
    /// Starts the negotiated protocol.
    pub(super) async fn over(stream: Stream) -> hyper::Result<Self> {
        Ok(if stream.is_http2() {
            Self::Http2(Arc::new(Connection::over(stream).await?))
        } else {
            Self::Http1(client::Connection::new(stream))
        })
    }
}

pub(super) async fn by_http1(
    way: Way,
    request: Request<Question>,
) -> Result<(Response<FromOrigin>, Lent), Failure> {
    let interim = request.extensions().get::<Interim>().cloned();
    let pass_on = |status, mut headers| {
        if let Some(interim) = &interim {
            fields::strip_hop_by_hop(&mut headers);
            interim.send(status, headers);
        }
    };
    let asked = match way {
        Way::Free(connection) => connection.ask(request, pass_on).await,
        Way::Underway(underway) => underway.take_up(request, pass_on).await,
    };
    match asked {
        Ok((response, home)) => Ok((response.map(FromOrigin::Http1), Lent::Http1(home))),
        Err(client::Unanswered { error: error @ ClientError::Bad(_), unsent: None }) => {
            Err(OriginError::Malformed(error.into()).into())
        }
        Err(client::Unanswered { error, unsent }) => {
            Err(Failure { error: OriginError::Broken(error.into()), unsent })
        }
    }
}

/// `authority`: the host to request if the request itself names none.
pub(super) async fn by_http2(
    connection: &Connection,
    request: Request<Question>,
    authority: &str,
    scheme: Scheme,
) -> Result<Response<FromOrigin>, Failure> {
    let (parts, mut body) = request.into_parts();
    let as_it_was = parts.clone();
    // Over HTTP/1.1 no others are sent: a server may confuse trailers with header fields, and our own fields with the
    // client's.
    let named = trailer_names(&parts.headers).filter_map(|name| name.parse().ok());
    body.keep_trailers(named.collect());
    let request = Request::from_parts(for_http2(parts, authority, scheme), body);
    match connection.sender().try_send_request(request).await {
        Ok(response) => Ok(as_by_http1(response).map(FromOrigin::Http2)),
        Err(mut failure) => {
            // It may be sent over HTTP/1.1 next.
            let unsent = failure.take_message();
            let unsent = unsent.map(|it| Request::from_parts(as_it_was, it.into_body()));
            Err(Failure { error: why_not_answered(failure.into_error()), unsent })
        }
    }
}

/// A request that the server refuses was not acted upon (RFC 9113, 8.7). Any other request that ended with its
/// connection may have reached the server, whatever the `GOAWAY` said: hyper does not report what it had sent.
fn why_not_answered(error: hyper::Error) -> OriginError {
    let source = std::error::Error::source(&error);
    let refused = source.and_then(|it| it.downcast_ref::<h2::Error>()).is_some_and(|it| {
        it.is_remote() && it.is_reset() && it.reason() == Some(h2::Reason::REFUSED_STREAM)
    });
    if refused { OriginError::Refused } else { OriginError::Broken(error.into()) }
}

/// HTTP/2 expresses in frames what HTTP/1.1 expresses in fields (RFC 9113, 8.2.2 and 8.3.1).
fn for_http2(mut parts: Parts, authority: &str, scheme: Scheme) -> Parts {
    for name in [CONNECTION, TRANSFER_ENCODING, UPGRADE] {
        parts.headers.remove(name);
    }
    // gRPC has its status in trailers, and servers insist on this field.
    if is_grpc(&parts) {
        parts.headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    let host = parts.headers.remove(HOST);
    let host = host.and_then(|it| Authority::try_from(it.as_bytes()).ok());
    let mut uri = parts.uri.clone().into_parts();
    uri.scheme = Some(scheme);
    uri.authority = host.or_else(|| authority.parse().ok());
    if let Ok(uri) = Uri::from_parts(uri) {
        parts.uri = uri;
    }
    parts.version = Version::HTTP_2;
    parts
}

fn is_grpc(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// The callers expect HTTP/1.1.
fn as_by_http1<B>(mut response: Response<B>) -> Response<B> {
    *response.version_mut() = Version::HTTP_11;
    response
}
