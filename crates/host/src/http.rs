//! HTTP/1.1 to devices, daemons, management controllers and web servers.
//!
//! They are asked directly, never through a proxy that the environment names. [`Client`] asks one server
//! and follows redirects within it only. [`send`] is for a single request whose answer is read as it
//! comes. The length of answers is limited, and the caller limits the time: see [`within`](crate::within),
//! or [`Blocking`] in a thread that may block.

mod blocking;
mod client;
mod connection;
mod login;
mod server;

use std::io;
use std::sync::Arc;

use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body::Body;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;

pub use blocking::Blocking;
pub use client::{Ask, Client};
pub use connection::{Connection, HttpResponse};
pub use login::{Challenge, Login};
pub use server::{Server, Stream};

use crate::tls;

/// How we call ourselves.
pub const USER_AGENT: &str = concat!("nightwatt/", env!("CARGO_PKG_VERSION"));

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address names no host.
    #[error("no host in its address")]
    NoHost,
    /// TLS cannot verify a certificate for this name.
    #[error("its name: {0}")]
    Name(#[from] rustls::pki_types::InvalidDnsNameError),
    /// The host's name has no address.
    #[error("cannot connect to {authority}: {source}")]
    Lookup {
        /// `HOST` or `HOST:PORT`.
        authority: String,
        /// Why not.
        source: io::Error,
    },
    /// Nothing answers there.
    #[error("cannot connect to {authority}: {source}")]
    Connect {
        /// `HOST` or `HOST:PORT`.
        authority: String,
        /// Why not.
        source: io::Error,
    },
    /// The handshake failed; see [`tls::Distrust::of`].
    #[error("TLS with {authority}: {}", tls::distrust(.source).unwrap_or_else(|| .source.to_string()))]
    Tls {
        /// `HOST` or `HOST:PORT`.
        authority: String,
        /// Why.
        source: io::Error,
    },
    /// The request cannot be written.
    #[error("{0}")]
    Request(#[from] http::Error),
    /// The connection broke, or the answer is not HTTP/1.
    #[error("{0}")]
    Exchange(#[from] hyper::Error),
    /// The answer is longer than this many bytes.
    #[error("more than {} KiB", .0 >> 10)]
    TooLong(usize),
    /// The answer to a request for a stream has another status than 200.
    #[error("status {0}")]
    Status(http::StatusCode),
    /// It redirects to another server.
    #[error("it redirects to another server: {0}")]
    Elsewhere(String),
}

impl HttpError {
    /// Whether the connection broke, in contrast to an answer that makes no sense.
    pub fn is_disconnect(&self) -> bool {
        let Self::Exchange(error) = self else { return false };
        let source = std::error::Error::source(error);
        error.is_incomplete_message()
            || error.is_canceled()
            || error.is_closed()
            || source.is_some_and(<dyn std::error::Error>::is::<io::Error>)
    }
}

/// Sends a request on a stream of bytes, and returns the body of the answer as it comes.
///
/// # Errors
///
/// If there is no answer, or it has another status than 200.
pub async fn stream(
    stream: Stream,
    request: Request<http_body_util::Full<Bytes>>,
) -> Result<Incoming, HttpError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let answer = sender.send_request(request).await?;
    match answer.status() {
        http::StatusCode::OK => Ok(answer.into_body()),
        status => Err(HttpError::Status(status)),
    }
}

/// Sends one request on a connection of its own, by TLS if there are settings for it. The request's URI is
/// whole: scheme, host, path.
pub async fn send<B>(
    tls: Option<&Arc<ClientConfig>>,
    mut request: Request<B>,
) -> Result<Response<Incoming>, HttpError>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let uri = std::mem::take(request.uri_mut());
    let authority = uri.authority().ok_or(HttpError::NoHost)?;
    let stream = Server::new(authority.clone(), tls.cloned()).connect().await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        request.headers_mut().insert(HOST, host);
    }
    *request.uri_mut() = uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
    Ok(sender.send_request(request).await?)
}
