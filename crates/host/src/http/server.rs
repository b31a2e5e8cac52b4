//! Where a server is, and connections to it.

use std::sync::Arc;

use http::Uri;
use http::uri::Authority;
use nightwatt_clock::Clock;
use nightwatt_clock::connect::connect_any;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::lookup_host;
use tokio_rustls::TlsConnector;

use super::HttpError;

/// What bytes go through both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// A connection, with TLS or without.
pub type Stream = Box<dyn Duplex>;

/// A web server, and the settings of TLS if it is asked by that.
#[derive(Debug, Clone)]
pub struct Server {
    authority: Authority,
    tls: Option<Arc<ClientConfig>>,
}

impl Server {
    /// The server at `HOST` or `HOST:PORT`.
    pub fn new(authority: Authority, tls: Option<Arc<ClientConfig>>) -> Self {
        Self { authority, tls }
    }

    /// `HOST` or `HOST:PORT`, as given.
    pub fn authority(&self) -> &str {
        self.authority.as_str()
    }

    /// `https` or `http`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Path and query of a link, if it stays on this server.
    pub fn path_of(&self, link: &str) -> Option<String> {
        let uri: Uri = link.parse().ok()?;
        let here = match (uri.scheme_str(), uri.authority()) {
            (None, None) => link.starts_with('/') && !link.starts_with("//"),
            (Some(scheme), Some(authority)) => {
                scheme == self.scheme() && *authority == self.authority
            }
            _ => false,
        };
        here.then(|| uri.path_and_query().map(|path| path.as_str().to_owned()))?
    }

    /// Connects to the first address that answers.
    pub async fn connect(&self) -> Result<Stream, HttpError> {
        let host = self.authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = self.authority.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let authority = || self.authority.to_string();
        let addresses = lookup_host((host, port)).await;
        let addresses =
            addresses.map_err(|source| HttpError::Lookup { authority: authority(), source })?;
        let stream = connect_any(&Clock::real(), addresses).await;
        let stream =
            stream.map_err(|source| HttpError::Connect { authority: authority(), source })?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host.to_owned())?;
        // A handshake is large.
        let secured = Box::pin(TlsConnector::from(Arc::clone(tls)).connect(name, stream));
        match secured.await {
            Ok(secured) => Ok(Box::new(secured)),
            Err(source) => Err(HttpError::Tls { authority: authority(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_within_the_server_have_a_path() {
        let server = Server::new(Authority::from_static("10.0.0.9:8000"), None);
        assert_eq!(server.path_of("/a?b").as_deref(), Some("/a?b"));
        assert_eq!(server.path_of("http://10.0.0.9:8000/a").as_deref(), Some("/a"));
        for elsewhere in
            ["https://10.0.0.9:8000/a", "http://10.0.0.9/a", "//evil/a", "http://evil/a", "a", ""]
        {
            assert_eq!(server.path_of(elsewhere), None, "{elsewhere}");
        }
    }
}
