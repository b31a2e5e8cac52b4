//! Turns requests over HTTP/2 into the form of HTTP/1.1.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Request};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming as FromClient;
use nightwatt_clock::Clock;
use nightwatt_http1::{BadBody, BodyError, Incoming, Limits, Refusal};

/// The request in the form of HTTP/1.1; or why it is rejected.
pub(super) fn by_http1(
    request: Request<FromClient>,
    limits: &Limits,
    clock: &Clock,
) -> Result<Request<Incoming>, Refusal> {
    let (mut parts, body) = request.into_parts();
    join_cookies(&mut parts.headers);
    let fields = parts.headers.iter();
    // Their size in HTTP/1.1: `name: value` and the line end.
    let bytes: usize = fields.map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let target = parts.uri.path_and_query().map_or(0, |it| it.as_str().len());
    if parts.headers.len() > limits.fields || bytes + target > limits.head_bytes {
        return Err(Refusal::HeadTooLarge);
    }
    if let Some(authority) = parts.uri.authority() {
        let authority = authority.as_str();
        let differs = |it: &HeaderValue| !it.as_bytes().eq_ignore_ascii_case(authority.as_bytes());
        if parts.headers.get_all(HOST).iter().any(differs) {
            // RFC 9113, 8.3.1: they must not differ.
            return Err(Refusal::Malformed("The Host field is not that of the target."));
        }
        if let Ok(host) = HeaderValue::from_str(authority) {
            parts.headers.insert(HOST, host);
        }
    }
    let is_number =
        |it: &HeaderValue| !it.is_empty() && it.as_bytes().iter().all(u8::is_ascii_digit);
    if !parts.headers.get_all(CONTENT_LENGTH).iter().all(is_number) {
        return Err(Refusal::Malformed("The Content-Length is no number."));
    }
    if body.is_end_stream() {
        return Ok(Request::from_parts(parts, Incoming::empty()));
    }
    if !parts.headers.contains_key(CONTENT_LENGTH) {
        // This tells the server that there is a body.
        parts.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    let limit = (!clock.is_virtual()).then_some(limits.body_timeout);
    let (body, clock) = (Some(body), clock.clone());
    let body = RequestBody { body, clock, limit, timer: None, has_failed: false };
    Ok(Request::from_parts(parts, Incoming::other(body)))
}

/// Joins the cookies, which may come in several fields, into one as in HTTP/1.1 (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() > 1
        && let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]))
    {
        headers.insert(COOKIE, cookie);
    }
}

/// The body of a request. It fails if nothing arrives for too long while it is being read; then it has failed for all
/// readers.
struct RequestBody {
    /// Nothing once it is dropped.
    body: Option<FromClient>,
    clock: Clock,
    limit: Option<Duration>,
    timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    has_failed: bool,
}

/// A body stopped short.
#[derive(Debug, thiserror::Error)]
#[error("the client broke the request off")]
struct BrokenOff;

impl RequestBody {
    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        (self.has_failed, self.timer) = (true, None);
        Poll::Ready(Some(Err(error)))
    }
}

/// How long to read the rest of a request after its answer has ended: in all, and without progress.
const LINGER: Duration = Duration::from_secs(30);
const LINGER_SILENT: Duration = Duration::from_secs(5);

impl Drop for RequestBody {
    /// Reads and discards the rest: a reset while its client still sends makes some clients (curl 7.88) lose the
    /// answer.
    fn drop(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        if self.has_failed || body.is_end_stream() || self.limit.is_none() {
            return;
        }
        let clock = self.clock.clone();
        let rest = async move {
            while let Ok(Some(Ok(_))) = clock.timeout(LINGER_SILENT, body.frame()).await {}
        };
        let clock = self.clock.clone();
        tokio::spawn(async move { clock.timeout(LINGER, rest).await });
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if this.has_failed {
            return this.fail(BrokenOff.into());
        }
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.timer = None;
                return Poll::Ready(Some(Ok(frame)));
            }
            Poll::Ready(Some(Err(error))) => return this.fail(error.into()),
            // hyper reports a stream that was reset without an error as ended.
            Poll::Ready(None) if !body.is_end_stream() => return this.fail(BrokenOff.into()),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {}
        }
        let Some(limit) = this.limit else { return Poll::Pending };
        let timer = this.timer.get_or_insert_with(|| {
            let clock = this.clock.clone();
            Box::pin(async move { clock.sleep(limit).await })
        });
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => this.fail(BadBody(Refusal::TimedOut).into()),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        !self.has_failed && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}
