//! Notifies a receiver: a POST of JSON, retried until the receiver accepts it.

use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderName, Request, StatusCode, Uri};
use http_body_util::Full;
use nightwatt_clock::Clock;
use nightwatt_host::http as web;
use nightwatt_host::tls;
use rustls::ClientConfig;
use serde::Serialize;
use sha2::Sha256;
use tokio::sync::mpsc;

use super::watch::Event;
use crate::config::WebhookConfig;
use crate::error::UnusableWebhook;

const SIGNATURE: HeaderName = HeaderName::from_static("nightwatt-signature");

/// Timeout for a receiver's answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Pauses between attempts; after the last one the event is lost, and that is logged.
const PAUSES: [Duration; 5] = [
    Duration::from_secs(2),
    Duration::from_secs(15),
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(15),
];

/// Why an event was not accepted.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("it was answered with {0}")]
    Status(StatusCode),
    #[error("{0}")]
    Broken(String),
    #[error("nothing was answered within {} s", TIMEOUT.as_secs())]
    Silent,
}

impl Refused {
    /// Whether a retry would be useless.
    fn is_final(&self) -> bool {
        let again =
            [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
        matches!(self, Self::Status(status) if !status.is_server_error() && !again.contains(status))
    }
}

/// The connection to a receiver.
pub(super) struct Post {
    shown: String,
    target: Uri,
    /// Read for each event: it may have changed.
    secret_file: Option<PathBuf>,
    /// None for plain HTTP.
    tls: Option<Arc<ClientConfig>>,
    clock: Clock,
}

/// The content of a notification. Chat services show `text`.
#[derive(Serialize)]
struct Letter<'a> {
    /// The same for every attempt.
    id: String,
    event: &'static str,
    of: &'a str,
    /// Milliseconds since 1970, UTC.
    at_ms: i64,
    text: &'a str,
}

impl Post {
    pub(super) fn open(config: &WebhookConfig, clock: &Clock) -> Result<Self, UnusableWebhook> {
        let target = config.target().unwrap_or_default();
        let by_tls = target.scheme_str() == Some("https");
        let trust = by_tls.then(|| tls::config(config.ca.as_deref(), None)).transpose();
        let trust =
            trust.map_err(|source| UnusableWebhook::Trust { webhook: config.shown(), source })?;
        let post = Self {
            shown: config.shown(),
            target,
            secret_file: config.secret_file.clone(),
            tls: trust,
            clock: clock.clone(),
        };
        post.signature(b"").map(|_| post)
    }

    /// Sends all events, one after the other.
    pub(super) async fn carry(self, mut mail: mpsc::Receiver<Event>) {
        while let Some(event) = mail.recv().await {
            let letter = Letter {
                id: format!("{:x}-{}-{}", event.at.0, event.kind.as_str(), event.of),
                event: event.kind.as_str(),
                of: &event.of,
                at_ms: event.at.0,
                text: &event.text,
            };
            // Strings and numbers can always be serialised.
            let body = Bytes::from(serde_json::to_vec(&letter).unwrap_or_default());
            self.deliver(&event, body).await;
        }
    }

    async fn deliver(&self, event: &Event, body: Bytes) {
        let mut pauses = PAUSES.into_iter();
        loop {
            let debt = self.clock.owe();
            let refused = match self.clock.timeout(TIMEOUT, self.send(body.clone())).await {
                Ok(Ok(())) => return,
                Ok(Err(refused)) => refused,
                Err(_) => Refused::Silent,
            };
            drop(debt);
            let pause = pauses.next().filter(|_| !refused.is_final());
            let (webhook, event) = (&self.shown, &event.text);
            let Some(pause) = pause else {
                tracing::error!(webhook, event, why = %refused, "a webhook was not delivered");
                return;
            };
            tracing::warn!(webhook, event, why = %refused, again_in = ?pause, "a webhook was not delivered yet");
            self.clock.sleep(pause).await;
        }
    }

    async fn send(&self, body: Bytes) -> Result<(), Refused> {
        let signature =
            self.signature(&body).map_err(|error| Refused::Broken(error.to_string()))?;
        let answer = web::send(self.tls.as_ref(), self.request(body, signature.as_deref())).await;
        let status = answer.map_err(|error| Refused::Broken(error.to_string()))?.status();
        if status.is_success() { Ok(()) } else { Err(Refused::Status(status)) }
    }

    /// The signature that proves to the receiver that an event is ours; none without a shared secret.
    fn signature(&self, body: &[u8]) -> Result<Option<String>, UnusableWebhook> {
        let Some(path) = &self.secret_file else { return Ok(None) };
        let unreadable = |source| {
            let webhook = self.shown.clone();
            UnusableWebhook::Secret { webhook, path: path.clone(), source }
        };
        let text = std::fs::read(path).map_err(unreadable)?;
        let text = text.trim_ascii();
        if text.is_empty() {
            return Err(unreadable(io::Error::other("it is empty")));
        }
        // HMAC takes keys of any length.
        let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(text);
        let mut mac = mac.map_err(|error| unreadable(io::Error::other(error)))?;
        mac.update(body);
        let mut signature = "sha256=".to_owned();
        for byte in mac.finalize().into_bytes() {
            // Writing to a String cannot fail.
            let _ = write!(signature, "{byte:02x}");
        }
        Ok(Some(signature))
    }

    fn request(&self, body: Bytes, signature: Option<&str>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.target.clone();
        let told = [(USER_AGENT, web::USER_AGENT), (CONTENT_TYPE, "application/json")];
        let told = told.into_iter().chain(signature.map(|it| (SIGNATURE, it)));
        let told = told.filter_map(|(name, value)| Some((name, value.parse().ok()?)));
        request.headers_mut().extend(told);
        request
    }
}
