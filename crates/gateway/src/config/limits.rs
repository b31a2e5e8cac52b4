//! `[limits]` and `[site.limits]`: bounds on what clients and servers may do.

use std::time::Duration;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use nightwatt_energy::duration_text;
use nightwatt_http1::MOST_FIELDS;
use nightwatt_policy::rate::Rate;
use serde::Deserialize;

use super::cache::given;
use super::{Wrong, wrong};

/// Bodies of held requests take memory in blocks of so many bytes.
pub(crate) const SPOOL_BLOCK: usize = 64 * 1024;

/// Bounds on what a client may do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections at once; further ones wait in the kernel's queue.
    pub connections: usize,
    /// Connections of one client at once; further ones are closed as they come. `0`: no bound.
    pub connections_per_client: usize,
    /// Requests of one client; further ones are answered with 429. Default: no bound.
    pub requests_per_client: Option<Rate>,
    /// Bytes of a request's head; more is answered with 431.
    pub header_bytes: usize,
    /// Header fields of a request; more is answered with 431.
    pub headers: usize,
    /// Time for a request's head to arrive, from its first byte (of a connection's first request:
    /// from the connection) to its last; then the connection is closed.
    #[serde(with = "duration_text")]
    pub header_timeout: Duration,
    /// Time for the handshake of TLS; then the connection is closed.
    #[serde(with = "duration_text")]
    pub handshake_timeout: Duration,
    /// How long a connection is kept open between two requests.
    #[serde(with = "duration_text")]
    pub idle_timeout: Duration,
    /// Time between two parts of a request's body; counted only while the body is being read.
    #[serde(with = "duration_text")]
    pub body_timeout: Duration,
    /// Time for a client to take a part of its answer; then the connection is closed.
    #[serde(with = "duration_text")]
    pub send_timeout: Duration,
    /// Bytes of a request's body; more is answered with 413. `0`: no bound, since bodies pass through and are not
    /// kept.
    pub body_bytes: u64,
    /// Bytes of a body that are kept in memory while its request is held; the rest waits in the
    /// client's connection.
    pub spool_bytes: usize,
    /// The same of all held requests together.
    pub spool_total_bytes: usize,
    /// How long a request is held for a server to wake; then 504.
    #[serde(with = "duration_text")]
    pub hold: Duration,
    /// Requests held at once; further ones are answered with 503.
    pub held: usize,
    /// Requests of one client held at once; further ones are answered with 503. `0`: no bound.
    pub held_per_client: usize,
    /// Time for the server to begin its answer, and between two parts of it.
    #[serde(with = "duration_text")]
    pub origin_timeout: Duration,
    /// The same between two parts of an answer without an end: a stream of events, a call by gRPC, pictures of a
    /// camera. While it goes on, the server is kept awake.
    #[serde(with = "duration_text")]
    pub stream_timeout: Duration,
    /// Time for a connection to the server.
    #[serde(with = "duration_text")]
    pub connect_timeout: Duration,
    /// A WebSocket (or another protocol that a connection was switched to) through which nothing came
    /// for this long is closed. While it is open, the server is kept awake.
    #[serde(with = "duration_text")]
    pub tunnel_idle: Duration,
    /// Time that running exchanges get to end when the proxy stops.
    #[serde(with = "duration_text")]
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            // A quarter: one client alone must not keep all others out.
            connections_per_client: 1024,
            requests_per_client: None,
            header_bytes: 64 * 1024,
            headers: 100,
            header_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            // More than the minute that proxies in front keep a connection: theirs end first, and
            // no request meets a connection that is just being closed.
            idle_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_mins(1),
            send_timeout: Duration::from_mins(1),
            body_bytes: 0,
            spool_bytes: 1 << 20,
            spool_total_bytes: 64 << 20,
            hold: Duration::from_mins(2),
            held: 1024,
            // An eighth: some HTTP/2 connections of one client must not take all places.
            held_per_client: 128,
            // Many a long poll is answered after a minute, and a little more.
            origin_timeout: Duration::from_secs(90),
            stream_timeout: Duration::from_hours(1),
            connect_timeout: Duration::from_secs(5),
            tunnel_idle: Duration::from_hours(1),
            drain: Duration::from_secs(30),
        }
    }
}

impl Limits {
    pub(super) fn check(&self) -> Result<(), Wrong> {
        let bounds = [
            ("connections", self.connections, 1, usize::MAX),
            ("header_bytes", self.header_bytes, 8192, usize::MAX),
            ("headers", self.headers, 1, MOST_FIELDS),
            ("held", self.held, 1, usize::MAX),
            ("spool_total_bytes", self.spool_total_bytes, SPOOL_BLOCK, usize::MAX),
        ];
        for (key, value, least, most) in bounds {
            let side = if value < least { ("least", least) } else { ("most", most) };
            if !(least..=most).contains(&value) {
                let message =
                    format!("`{key}` is {value}, but it must be at {} {}", side.0, side.1);
                return wrong(format!("limits.{key}"), message);
            }
        }
        let times = [
            ("header_timeout", self.header_timeout),
            ("handshake_timeout", self.handshake_timeout),
            ("idle_timeout", self.idle_timeout),
            ("body_timeout", self.body_timeout),
            ("send_timeout", self.send_timeout),
            ("origin_timeout", self.origin_timeout),
            ("stream_timeout", self.stream_timeout),
            ("connect_timeout", self.connect_timeout),
            ("tunnel_idle", self.tunnel_idle),
        ];
        check_times(times)
    }

    /// Bytes that a request's body may have.
    pub(crate) fn largest_body(&self) -> u64 {
        if self.body_bytes == 0 { u64::MAX } else { self.body_bytes }
    }

    /// How long a server may be silent within an answer with these fields.
    pub(crate) fn silence(&self, headers: &HeaderMap) -> Duration {
        if is_stream(headers) { self.stream_timeout } else { self.origin_timeout }
    }
}

fn check_times(times: impl IntoIterator<Item = (&'static str, Duration)>) -> Result<(), Wrong> {
    match times.into_iter().find(|(_, time)| time.is_zero()) {
        Some((key, _)) => {
            wrong(format!("limits.{key}"), format!("`{key}` is 0, but it must be longer than 0"))
        }
        None => Ok(()),
    }
}

/// Media types of answers that go on for as long as something happens: events, lines of JSON, calls, logs and
/// terminals of containers, pictures of cameras. A type that ends in `*` stands for all that begin so.
const STREAMS: [&str; 10] = [
    "text/event-stream",
    "multipart/x-mixed-replace",
    "application/grpc*",
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/json-seq",
    "application/x-json-stream",
    "application/stream+json",
    "application/vnd.docker.*",
];

/// Is it an endless answer, which may be silent for long?
fn is_stream(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let (media_type, parameters) = media_type.split_once(';').unwrap_or((media_type, ""));
    let media_type = media_type.trim_ascii().to_ascii_lowercase();
    let is_listed = STREAMS.iter().any(|known| match known.strip_suffix('*') {
        Some(beginning) => media_type.starts_with(beginning),
        None => media_type == *known,
    });
    // Kubernetes says of a watch that it is one in a parameter.
    is_listed
        || parameters.to_ascii_lowercase().split(';').any(|it| it.trim_ascii() == "stream=watch")
}

/// `[site.limits]`: what one site has instead of `[limits]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SiteLimits {
    /// Bytes of a request's body.
    pub body_bytes: Option<u64>,
    /// Time for the server to begin its answer, and between two parts of it: longer for long polls.
    #[serde(deserialize_with = "given")]
    pub origin_timeout: Option<Duration>,
    /// The same within an answer without an end.
    #[serde(deserialize_with = "given")]
    pub stream_timeout: Option<Duration>,
    /// Time for a connection to the server.
    #[serde(deserialize_with = "given")]
    pub connect_timeout: Option<Duration>,
    /// How long nothing may come through a WebSocket.
    #[serde(deserialize_with = "given")]
    pub tunnel_idle: Option<Duration>,
}

impl SiteLimits {
    /// The limits of the site, where these are the file's.
    pub(crate) fn over(&self, file: &Limits) -> Limits {
        Limits {
            body_bytes: self.body_bytes.unwrap_or(file.body_bytes),
            origin_timeout: self.origin_timeout.unwrap_or(file.origin_timeout),
            stream_timeout: self.stream_timeout.unwrap_or(file.stream_timeout),
            connect_timeout: self.connect_timeout.unwrap_or(file.connect_timeout),
            tunnel_idle: self.tunnel_idle.unwrap_or(file.tunnel_idle),
            ..file.clone()
        }
    }

    pub(super) fn check(&self) -> Result<(), Wrong> {
        let times = [
            ("origin_timeout", self.origin_timeout),
            ("stream_timeout", self.stream_timeout),
            ("connect_timeout", self.connect_timeout),
            ("tunnel_idle", self.tunnel_idle),
        ];
        check_times(times.into_iter().filter_map(|(key, time)| Some((key, time?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_has_the_files_limits_but_for_its_own() {
        let own: SiteLimits = toml::from_str("origin_timeout = \"5m\"\nbody_bytes = 10").unwrap();
        let file = Limits { tunnel_idle: Duration::from_secs(7), ..Limits::default() };
        assert_eq!((file.largest_body(), own.over(&file).largest_body()), (u64::MAX, 10));
        let origin_timeout = Duration::from_mins(5);
        assert_eq!(own.over(&file), Limits { origin_timeout, body_bytes: 10, ..file.clone() });
        assert_eq!(SiteLimits::default().over(&file), file);
        let none: SiteLimits = toml::from_str("stream_timeout = \"0\"").unwrap();
        let Wrong { key, text } = none.check().unwrap_err();
        assert!(key == "limits.stream_timeout" && text.contains("`stream_timeout` is 0"), "{text}");
        assert!(toml::from_str::<SiteLimits>("origin_timeout = 5").is_err());
        assert!(toml::from_str::<SiteLimits>("held = 5").is_err());
    }
}
