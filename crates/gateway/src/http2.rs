//! HTTP/2 to clients: hyper speaks it, each request is answered as one that came by HTTP/1.1, and who does
//! not go on is left.
//!
//! ```text
//! listen -> tls -> here: Request as http1 makes it -> quick::Client -> proxy
//!                    \-> progress: which connections stand still
//! ```

mod progress;

use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming as FromClient;
use hyper_util::rt::{TokioExecutor, TokioIo};
use nightwatt_clock::Clock;
use nightwatt_http1::{BadBody, BodyError, Incoming, Limits, Refusal, Service as _};
use tokio::sync::watch;

use self::progress::{Passing, Progress};
use crate::body::Answer;
use crate::quick::Client;
use crate::tls::Secured;

/// Requests that a client may have under way at once, as RFC 9113 (6.5.2) recommends.
const STREAMS: u32 = 100;

/// Of each answer so much may lie ready for a client that takes it slowly.
const READY: usize = 64 << 10;

/// Serves one connection until it ends.
pub(crate) async fn serve(
    stream: Secured,
    client: Client,
    limits: Arc<Limits>,
    clock: Clock,
    (leaving, mut stopped): (Arc<AtomicBool>, watch::Receiver<bool>),
) {
    let progress = Progress::new(&clock);
    let service = Streams {
        client: Mutex::new(client),
        leaving,
        limits: Arc::clone(&limits),
        clock: clock.clone(),
        progress: Arc::clone(&progress),
    };
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(READY)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut is_ending = false;
    loop {
        let look = progress.next_look(&limits, is_ending);
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection by HTTP/2 ended");
                }
                return;
            }
            _ = stopped.wait_for(|now| *now), if !is_ending => {}
            () = progress.is_to_end(), if !is_ending => {}
            () = clock.sleep_until(look) => {
                if progress.stands_still(&limits) || is_ending && progress.is_idle(&limits, true) {
                    return;
                }
                if is_ending || !progress.is_idle(&limits, false) {
                    continue;
                }
            }
        }
        // Requests that are under way are answered; for others the client connects anew.
        connection.as_mut().graceful_shutdown();
        is_ending = true;
        progress.touch();
    }
}

/// Answers the requests of one connection.
struct Streams {
    client: Mutex<Client>,
    /// Each answer is the last one.
    leaving: Arc<AtomicBool>,
    limits: Arc<Limits>,
    clock: Clock,
    progress: Arc<Progress>,
}

impl hyper::service::Service<Request<FromClient>> for Streams {
    type Response = Response<Passing>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, request: Request<FromClient>) -> Self::Future {
        let under_way = self.progress.begin();
        let is_head = request.method() == Method::HEAD;
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let answering = match as_by_http1(request, &self.limits, &self.clock) {
            Ok(request) => client.answer(request),
            Err(refusal) => {
                let refused = client.refused(refusal, &[]);
                Box::pin(std::future::ready(refused))
            }
        };
        drop(client);
        let (progress, leaving) = (Arc::clone(&self.progress), Arc::clone(&self.leaving));
        Box::pin(async move {
            let mut response = answering.await;
            // What ends a connection by HTTP/1.1 ends no other requests here.
            response.headers_mut().remove(CONNECTION);
            response.headers_mut().remove(TRANSFER_ENCODING);
            if leaving.load(Relaxed) {
                progress.end_soon();
            }
            let bodyless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
            let has_none = is_head || bodyless.contains(&response.status());
            let pass =
                |body| Passing::new(if has_none { Answer::empty() } else { body }, under_way);
            Ok(response.map(pass))
        })
    }
}

/// The request as it would have come by HTTP/1.1; or what is wrong with it.
fn as_by_http1(
    request: Request<FromClient>,
    limits: &Limits,
    clock: &Clock,
) -> Result<Request<Incoming>, Refusal> {
    let (mut parts, body) = request.into_parts();
    if parts.headers.len() > limits.fields {
        return Err(Refusal::HeadTooLarge);
    }
    if let Some(authority) = parts.uri.authority() {
        let authority = authority.as_str();
        let host = parts.headers.get(HOST);
        if host.is_some_and(|it| !it.as_bytes().eq_ignore_ascii_case(authority.as_bytes())) {
            // RFC 9113, 8.3.1: they may not differ.
            return Err(Refusal::Malformed("The Host field is not that of the target."));
        }
        if let Ok(host) = HeaderValue::from_str(authority) {
            parts.headers.insert(HOST, host);
        }
    }
    join_cookies(&mut parts.headers);
    if body.is_end_stream() {
        return Ok(Request::from_parts(parts, Incoming::empty()));
    }
    if !parts.headers.contains_key(CONTENT_LENGTH) {
        // So the server is told of it.
        parts.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    let limit = (!clock.is_virtual()).then_some(limits.body_timeout);
    let body = Asked { body, clock: clock.clone(), limit, timer: None };
    Ok(Request::from_parts(parts, Incoming::other(body)))
}

/// Cookies may come in several fields, which in HTTP/1.1 are one (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() > 1
        && let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]))
    {
        headers.insert(COOKIE, cookie);
    }
}

/// The body of a request. It fails if nothing comes for too long while somebody waits for it.
struct Asked {
    body: FromClient,
    clock: Clock,
    limit: Option<Duration>,
    timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Body for Asked {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.timer = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some(limit) = this.limit else { return Poll::Pending };
        let timer = this.timer.get_or_insert_with(|| {
            let clock = this.clock.clone();
            Box::pin(async move { clock.sleep(limit).await })
        });
        timer.as_mut().poll(cx).map(|()| Some(Err(BadBody(Refusal::TimedOut).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
