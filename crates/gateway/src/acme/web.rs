//! HTTP to an authority: a connection for each question, of which an order has a dozen.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Asks whoever is believed.
pub(super) struct Web(pub(super) Arc<ClientConfig>);

impl HttpClient for Web {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let connector = TlsConnector::from(Arc::clone(&self.0));
        Box::pin(ask(connector, request))
    }
}

async fn ask(
    connector: TlsConnector,
    mut request: Request<BodyWrapper<Bytes>>,
) -> Result<BytesResponse, Error> {
    let other = |error: io::Error| Error::Other(Box::new(error));
    let uri = std::mem::take(request.uri_mut());
    let authority = uri.authority().ok_or(Error::Str("a host in its address"))?.clone();
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = authority.port_u16().unwrap_or(443);
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|error| {
        other(io::Error::new(error.kind(), format!("cannot connect to {authority}: {error}")))
    })?;
    let name = ServerName::try_from(host).map_err(|error| other(io::Error::other(error)))?;
    let stream = connector.connect(name, stream).await.map_err(|error| {
        let why = nightwatt_power::tls::distrust(&error).unwrap_or_else(|| error.to_string());
        other(io::Error::new(error.kind(), format!("TLS with {authority}: {why}")))
    })?;
    let broken = |error: hyper::Error| Error::Other(Box::new(error));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection);
    let value = HeaderValue::from_str(authority.as_str());
    request.headers_mut().insert(HOST, value.map_err(http::Error::from)?);
    *request.uri_mut() =
        uri.path_and_query().cloned().map_or_else(Uri::default, |it: PathAndQuery| it.into());
    let response = sender.send_request(request).await.map_err(broken)?;
    Ok(BytesResponse::from(response))
}
