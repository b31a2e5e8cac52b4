//! One request to an external web server, on a connection of its own.

use std::io;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use nightwatt_clock::Clock;
use nightwatt_clock::connect::connect;
use nightwatt_power::tls;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use tokio_rustls::TlsConnector;

use crate::origin::Stream;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    #[error("no host in its address")]
    NoHost,
    #[error("its name: {0}")]
    Name(#[from] InvalidDnsNameError),
    #[error("cannot connect to {0}: {1}")]
    Unreachable(String, io::Error),
    #[error("TLS with {0}: {1}")]
    Distrusted(String, String),
    #[error("{0}")]
    Broken(#[from] hyper::Error),
}

/// Asks, by TLS if there is a connector for it. The request's address is whole: scheme, host, path.
pub(crate) async fn ask<B>(
    tls: Option<&TlsConnector>,
    mut request: Request<B>,
) -> Result<Response<Incoming>, Unanswered>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let uri = std::mem::take(request.uri_mut());
    let authority = uri.authority().ok_or(Unanswered::NoHost)?.as_str();
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
    let stream = connect(&Clock::real(), (host, port)).await;
    let stream = stream.map_err(|error| Unanswered::Unreachable(authority.to_owned(), error))?;
    let stream = match tls {
        None => Stream::Plain(stream),
        Some(connector) => {
            let name = ServerName::try_from(host.to_owned())?;
            let secured = connector.connect(name, stream).await.map_err(|error| {
                let why = tls::distrust(&error).unwrap_or_else(|| error.to_string());
                Unanswered::Distrusted(authority.to_owned(), why)
            })?;
            Stream::Tls(Box::new(secured))
        }
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    if let Ok(host) = HeaderValue::from_str(authority) {
        request.headers_mut().insert(HOST, host);
    }
    *request.uri_mut() = uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
    Ok(sender.send_request(request).await?)
}
