//! HTTP/2 for clients: hyper implements it, each request is handled like one over HTTP/1.1, and clients that make no
//! progress are dropped.
//!
//! ```text
//! listen -> tls -> here: request (in the form of http1) -> fast_path::Client -> slow_path
//!                    \-> passing (the answer, in small parts), watch (who stands still)
//! ```

mod passing;
mod request;
mod watch;

use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{CONNECTION, TRANSFER_ENCODING};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming as FromClient;
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use nightwatt_clock::Clock;
use nightwatt_http1::{Limits, Service as _};
use tokio::sync::watch::Receiver;

use self::passing::Passing;
use self::watch::{Conversation, Turn};
use crate::body::Answer;
use crate::fast_path::Client;
use crate::tls::Secured;

/// Maximum number of concurrent requests per client, as RFC 9113 (6.5.2) recommends.
const STREAMS: u32 = 100;

/// Bytes of each answer that may be buffered for a slow client.
const READY: usize = passing::PART;

/// Bytes in flight per body, and of all bodies of a connection together, so that an unread body does not stop the
/// others.
const WINDOW: u32 = 256 << 10;
const ALL_WINDOWS: u32 = 2 << 20;

/// Serves one connection until it ends.
pub(crate) async fn serve(
    stream: Secured,
    client: Client,
    limits: Arc<Limits>,
    clock: Clock,
    leaving: Arc<AtomicBool>,
    mut stopped: Receiver<bool>,
) {
    let watch = Conversation::begin(&clock, &limits);
    let next = Arc::new(Mutex::new(None));
    let streams =
        Tasks { next: Arc::clone(&next), clock: clock.clone(), limits: Arc::clone(&limits) };
    let service = Streams {
        client: Mutex::new(client),
        leaving,
        limits: Arc::clone(&limits),
        clock: clock.clone(),
        watch: Arc::clone(&watch),
        next,
    };
    // HTTP/2 counts 32 bytes more per field; we ourselves reject fields that are too long, without these.
    let heads = limits.head_bytes.saturating_mul(2).saturating_add(limits.fields * 64);
    let connection = hyper::server::conn::http2::Builder::new(streams)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(heads).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(ALL_WINDOWS)
        .max_send_buf_size(READY)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut is_ending = false;
    loop {
        let look = watch.next_look(is_ending);
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection by HTTP/2 ended");
                }
                return;
            }
            _ = stopped.wait_for(|now| *now), if !is_ending => {}
            () = watch.is_to_end(), if !is_ending => {}
            () = clock.sleep_until(look) => {
                match (watch.is_idle(is_ending), is_ending) {
                    (true, true) => return,
                    (true, false) => {}
                    (false, _) => continue,
                }
            }
        }
        // Requests under way are answered; for others the client reconnects.
        connection.as_mut().graceful_shutdown();
        is_ending = true;
        watch.touch();
    }
}

/// Answers the requests of one connection.
struct Streams {
    client: Mutex<Client>,
    /// Set while the connection is to close: then each answer is its last one.
    leaving: Arc<AtomicBool>,
    limits: Arc<Limits>,
    clock: Clock,
    watch: Arc<Conversation>,
    next: Next,
}

/// The turn of the stream that begins now: hyper requests its answer, and passes that to a task at once.
type Next = Arc<Mutex<Option<Arc<Turn>>>>;

impl hyper::service::Service<Request<FromClient>> for Streams {
    type Response = Response<Passing>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, request: Request<FromClient>) -> Self::Future {
        let turn = Turn::begin(&self.watch, &self.clock);
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&turn));
        let is_head = request.method() == Method::HEAD;
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let answering = match request::by_http1(request, &self.limits, &self.clock) {
            Ok(request) => client.answer(request),
            Err(refusal) => {
                let refused = client.refused(refusal, &[]);
                Box::pin(std::future::ready(refused))
            }
        };
        drop(client);
        let (watch, leaving) = (Arc::clone(&self.watch), Arc::clone(&self.leaving));
        Box::pin(async move {
            let mut response = answering.await;
            // What closes an HTTP/1.1 connection does not end the other requests here.
            response.headers_mut().remove(CONNECTION);
            response.headers_mut().remove(TRANSFER_ENCODING);
            if leaving.load(Relaxed) {
                watch.end_soon();
            }
            let bodyless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
            let has_none = is_head || bodyless.contains(&response.status());
            let pass = |body| Passing::new(if has_none { Answer::empty() } else { body }, turn);
            Ok(response.map(pass))
        })
    }
}

/// Runs hyper's tasks: drops a stream whose client reads nothing of what is there, which resets it.
#[derive(Clone)]
struct Tasks {
    next: Next,
    clock: Clock,
    limits: Arc<Limits>,
}

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let turn = self.next.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (clock, limit) = (self.clock.clone(), self.limits.send_timeout);
        tokio::spawn(async move {
            let Some(turn) = turn else { return task.await };
            tokio::select! {
                biased;
                () = task => {}
                () = turn.stands_still(&clock, limit) => {}
            }
        });
    }
}
