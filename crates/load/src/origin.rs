//! The log-backed origin: a server that answers as the log says the real one did.
//!
//! Each replayed request carries the logged status and size in `Nightwatt-Replay: status=200;
//! bytes=1234`; cache headers, which a log does not hold, come from rules. What it served is
//! appended to a record, so that nothing lost or answered twice goes unseen.
//!
//! With the files of a site ([`SiteFiles`]), it also answers requests that no log describes, as those of crawlers that
//! follow links.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_host::star::fits;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use crate::agreed::REPLAY_HEADER;
use crate::agreed::etag_of;
use crate::error::Error;
use crate::request::REQUEST_ID;
use crate::site::{SiteFiles, media_type, read_lines};

/// Size of a page if the request doesn't set one.
const SMALL_PAGE: u64 = 512;

/// How long answers under way may take once the origin is to stop.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Which answers may be cached, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheRules {
    /// Where no rule says otherwise.
    pub ttl: Duration,
    /// The first whose pattern matches the path holds.
    pub rules: Vec<CacheRule>,
    /// Paths that begin so are never cached.
    pub no_store: Vec<String>,
}

/// A time to live for some paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheRule {
    /// Path with `*` for any bytes: `*.css`, `/static/*`.
    pub pattern: String,
    /// How long they stay fresh.
    pub ttl: Duration,
}

impl Default for CacheRules {
    fn default() -> Self {
        Self { ttl: Duration::from_mins(2), rules: Vec::new(), no_store: Vec::new() }
    }
}

impl CacheRules {
    /// `Cache-Control` of an answer.
    fn control(&self, method: &Method, path: &str, status: StatusCode) -> String {
        let cacheable = matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 304 | 404 | 410);
        let is_read = [Method::GET, Method::HEAD].contains(method);
        let barred = self.no_store.iter().any(|prefix| path.starts_with(prefix.as_str()));
        if !cacheable || !is_read || barred {
            return "no-store".into();
        }
        let rule = self.rules.iter().find(|rule| fits(&rule.pattern, path));
        format!("max-age={}", rule.map_or(self.ttl, |rule| rule.ttl).as_secs())
    }
}

/// When the origin plays broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BadGateway {
    /// Never.
    #[default]
    Never,
    /// Its first few requests are answered 502.
    Requests(u64),
    /// All requests of its first while are answered 502.
    Time(Duration),
}

/// Reads statuses by target: lines of a target and its status, separated by a tab.
pub fn read_statuses(path: &std::path::Path) -> Result<HashMap<String, u16>, Error> {
    read_lines(path, "TARGET, STATUS", |line| {
        let (target, status) = line.split_once('\t')?;
        let status = status.parse().ok().filter(|it| (200..600).contains(it))?;
        Some((target.to_owned(), status))
    })
}

/// How the log-backed origin behaves.
#[derive(Debug, Clone)]
pub struct OriginOptions {
    /// Cache headers.
    pub cache: CacheRules,
    /// The files of the site. Without them, every request that no log describes gets a small page.
    pub site: Option<SiteFiles>,
    /// The status of requests that carry no logged one, as those for renewal, by target.
    pub statuses: HashMap<String, u16>,
    /// One line per request is appended here, with one write each:
    /// id, method, target, status, bytes of the request's body, separated by tabs.
    pub record: Option<PathBuf>,
    /// When to play broken.
    pub bad_gateway_for: BadGateway,
    /// Time that each answer takes.
    pub delay: Duration,
    /// Whose time that is.
    pub clock: Clock,
}

impl Default for OriginOptions {
    fn default() -> Self {
        Self {
            cache: CacheRules::default(),
            site: None,
            statuses: HashMap::new(),
            record: None,
            bad_gateway_for: BadGateway::default(),
            delay: Duration::ZERO,
            clock: Clock::real(),
        }
    }
}

/// Serves until `shutdown` is ready; answers under way are then finished.
pub async fn serve_origin(
    listener: TcpListener,
    options: OriginOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let record = options.record.as_ref().map(|path| open_record(path)).transpose()?;
    let origin = Arc::new(Origin {
        started: options.clock.now().mono,
        record,
        served: AtomicU64::new(0),
        options,
    });
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(serve_connection(stream, Arc::clone(&origin), stopping.clone()));
            }
            Err(error) if is_passing(&error) => {
                // Out of descriptors, say: those who are being served will free some.
                tracing::warn!(%error, "cannot accept a connection");
                origin.options.clock.sleep(Duration::from_millis(50)).await;
            }
            Err(error) => return Err(Error::Socket(error)),
        }
    }
    drop(listener);
    stop.send_replace(true);
    let finish = async { while connections.join_next().await.is_some() {} };
    if origin.options.clock.timeout(LAST_ANSWERS, finish).await.is_err() {
        tracing::warn!("answers were still under way when the origin stopped");
    }
    Ok(())
}

/// Errors of one connection, or of want, rather than of the listener.
fn is_passing(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let lasting = [Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::OPNOTSUPP, Errno::FAULT];
    Errno::from_io_error(error).is_none_or(|errno| !lasting.contains(&errno))
}

fn open_record(path: &std::path::Path) -> Result<File, Error> {
    let opened = File::options().create(true).append(true).open(path);
    opened.map_err(|source| Error::Record { path: path.into(), source })
}

async fn serve_connection(
    stream: TcpStream,
    origin: Arc<Origin>,
    mut stopping: watch::Receiver<bool>,
) {
    // Only a matter of speed.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let origin = Arc::clone(&origin);
        async move { Ok::<_, Infallible>(origin.answer(request).await) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let stop = async { stopping.wait_for(|stop| *stop).await.is_ok() };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stop => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

struct Origin {
    options: OriginOptions,
    record: Option<File>,
    started: Mono,
    served: AtomicU64,
}

/// What the log said of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Logged {
    status: u16,
    bytes: u64,
}

impl Origin {
    async fn answer(&self, request: Request<Incoming>) -> Response<PatternBody> {
        let number = self.served.fetch_add(1, Ordering::Relaxed);
        let (head, mut body) = request.into_parts();
        let mut received = 0;
        while let Some(Ok(frame)) = body.frame().await {
            received += frame.data_ref().map_or(0, Bytes::len);
        }
        let clock = &self.options.clock;
        if !self.options.delay.is_zero() {
            // The client's debt is not ours to hold while we only let time pass.
            clock.parked(clock.sleep(self.options.delay)).await;
        }
        let broken = match self.options.bad_gateway_for {
            BadGateway::Never => false,
            BadGateway::Requests(first) => number < first,
            BadGateway::Time(first) => clock.now().mono.since(self.started) < first,
        };
        let logged = if broken {
            Logged { status: 502, bytes: 0 }
        } else {
            let header = head.headers.get(REPLAY_HEADER).and_then(|value| value.to_str().ok());
            header.and_then(logged).unwrap_or_else(|| self.unlogged(&head))
        };
        let response = self.respond(&head, logged);
        // Before the answer leaves: what was answered is on record even if we are killed now.
        self.note(&head, response.status(), received);
        response
    }

    /// The answer to a request that no log describes.
    fn unlogged(&self, head: &http::request::Parts) -> Logged {
        let target = head.uri.path_and_query().map_or("/", |it| it.as_str());
        let is_known = self.options.site.as_ref().is_none_or(|it| it.has(&head.uri));
        let otherwise = if is_known { 200 } else { 404 };
        let status = self.options.statuses.get(target).copied().unwrap_or(otherwise);
        Logged { status, bytes: SMALL_PAGE }
    }

    /// The body of a good answer.
    fn body(&self, head: &http::request::Parts, code: u16, size: u64) -> PatternBody {
        let host =
            head.headers.get(header::HOST).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let files = self.options.site.as_ref().filter(|_| code == 200);
        let (text, size) =
            files.and_then(|it| it.body(&head.uri, host)).unwrap_or((Bytes::new(), size));
        PatternBody { left: size.saturating_sub(text.len() as u64), text }
    }

    fn respond(&self, head: &http::request::Parts, logged: Logged) -> Response<PatternBody> {
        let path = head.uri.path();
        let etag = etag_of(path);
        let asked = |name| head.headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok());
        let is_read = [Method::GET, Method::HEAD].contains(&head.method);
        let tags = asked(header::IF_NONE_MATCH).filter(|_| is_read);
        let same = tags.is_some_and(|list| names_tag(list, &etag));
        let range = head.method == Method::GET && head.headers.contains_key(header::RANGE);
        let (code, size) = match logged.status {
            200 | 206 | 304 if same => (304, 0),
            206 if range && logged.bytes > 0 => (206, logged.bytes),
            // No tunnels here.
            200..300 if head.method == Method::CONNECT => (405, 0),
            204 => (204, 0),
            // A 206 or 304 that this request didn't ask for, or a status that isn't final.
            206 | 304 | 0..200 => (200, logged.bytes),
            other => (other, logged.bytes),
        };
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
        let mut response = Response::new(self.body(head, code, size));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let control = self.options.cache.control(&head.method, path, status);
        let mut set = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        set(header::CACHE_CONTROL, &control);
        if matches!(code, 200 | 203 | 206 | 304) {
            set(header::ETAG, &etag);
        }
        if code == 206 {
            set(header::CONTENT_RANGE, &format!("bytes 0-{}/{}", size - 1, size));
        }
        if matches!(code, 301 | 302 | 303 | 307 | 308) {
            // The log does not say where to.
            set(header::LOCATION, &format!("{}/", path.trim_end_matches('/')));
        }
        if !matches!(code, 204 | 304) {
            set(header::CONTENT_TYPE, media_type(path));
        }
        response
    }

    fn note(&self, head: &http::request::Parts, status: StatusCode, received: usize) {
        let Some(mut record) = self.record.as_ref() else { return };
        let id = head.headers.get(REQUEST_ID).map_or(&b"-"[..], HeaderValue::as_bytes);
        // Of what a line holds only the id could contain a tab.
        let id = String::from_utf8_lossy(id).replace('\t', " ");
        let target = Target(&head.uri);
        let line = format!("{id}\t{}\t{target}\t{}\t{received}\n", head.method, status.as_u16());
        // One write of one line to a file opened for appending: whole, and in the kernel's hands.
        if let Err(error) = record.write_all(line.as_bytes()) {
            tracing::error!(%error, "a served request is missing from the record");
        }
    }
}

/// A request target as it came over the wire.
struct Target<'a>(&'a Uri);

impl std::fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

fn logged(header: &str) -> Option<Logged> {
    let mut logged = Logged { status: 200, bytes: SMALL_PAGE };
    for parameter in header.split(';') {
        let (name, value) = parameter.trim().split_once('=')?;
        match name {
            "status" => logged.status = value.parse().ok()?,
            "bytes" => logged.bytes = value.parse().ok()?,
            _ => {}
        }
    }
    Some(logged)
}

/// Does a list of entity tags (`If-None-Match`) name this one? By weak comparison, as it must.
fn names_tag(list: &str, etag: &str) -> bool {
    let mut tags = list.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|tag| tag == "*" || tag == etag)
}

/// Text in lines, over and over.
static PATTERN: [u8; 1 << 14] = pattern();

const fn pattern() -> [u8; 1 << 14] {
    let line = *b"nightwatt: a body of the size that the log says, and no meaning\n";
    let mut text = [0; 1 << 14];
    let mut at = 0;
    while at < text.len() {
        text[at] = line[at % line.len()];
        at += 1;
    }
    text
}

/// A body of some size: a text, then one pattern from memory.
struct PatternBody {
    text: Bytes,
    left: u64,
}

impl Body for PatternBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.text.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.text)))));
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let part = usize::try_from(self.left).unwrap_or(usize::MAX).min(PATTERN.len());
        self.left -= part as u64;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&PATTERN[..part])))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.text.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left + self.text.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_headers_follow_the_rules() {
        let rules = CacheRules {
            rules: vec![CacheRule { pattern: "*.css".into(), ttl: Duration::from_hours(1) }],
            no_store: vec!["/admin".into()],
            ..CacheRules::default()
        };
        let control = |method: &Method, path, status| {
            rules.control(method, path, StatusCode::from_u16(status).unwrap())
        };
        assert_eq!(control(&Method::GET, "/", 200), "max-age=120");
        assert_eq!(control(&Method::HEAD, "/a.css", 404), "max-age=3600");
        assert_eq!(control(&Method::GET, "/admin/a.css", 200), "no-store");
        assert_eq!(control(&Method::POST, "/", 200), "no-store");
        for status in [206, 302, 403, 500, 503] {
            assert_eq!(control(&Method::GET, "/", status), "no-store", "{status}");
        }
    }

    #[test]
    fn etags_depend_on_the_path_only_and_are_compared_weakly() {
        assert_eq!(etag_of("/a?b=c"), etag_of("/a"));
        assert_ne!(etag_of("/a"), etag_of("/b"));
        let tag = etag_of("/a");
        assert!(names_tag(&format!("\"x\", W/{tag}"), &tag));
        assert!(names_tag("*", &tag));
        assert!(!names_tag("\"x\"", &tag));
    }

    #[test]
    fn the_replay_header_is_read_and_nonsense_ignored() {
        assert_eq!(logged("status=404; bytes=12"), Some(Logged { status: 404, bytes: 12 }));
        assert_eq!(logged("bytes=12"), Some(Logged { status: 200, bytes: 12 }));
        assert_eq!(logged("status=abc"), None);
        assert_eq!(logged(""), None);
    }
}
