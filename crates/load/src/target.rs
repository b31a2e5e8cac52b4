//! Where requests go.

use std::net::SocketAddr;

use http::{HeaderValue, Uri};

use crate::error::Error;

/// A server to replay against: its address, and the name it is asked by.
#[derive(Debug, Clone)]
pub struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) host: HeaderValue,
}

impl Target {
    /// The server at this address, asked by it.
    pub fn at(address: SocketAddr) -> Self {
        let host = HeaderValue::try_from(address.to_string());
        Self { address, host: host.unwrap_or_else(|_| HeaderValue::from_static("localhost")) }
    }

    /// The server behind `http://host[:port]/`.
    pub async fn resolve(url: &str) -> Result<Self, Error> {
        let refuse = |why| Error::BaseUrl { url: url.into(), why };
        let uri: Uri = url.parse().map_err(|_| refuse("it is not a URL; try http://host:port/"))?;
        if uri.scheme_str() != Some("http") {
            return Err(refuse("only http:// is spoken; replay against a plain-HTTP listener"));
        }
        if uri.path() != "/" || uri.query().is_some() {
            return Err(refuse("paths come from the log; leave out what follows the host"));
        }
        let authority = uri.authority().ok_or_else(|| refuse("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("a user name in it would not be sent; leave it out"));
        }
        let host = HeaderValue::try_from(authority.as_str())
            .map_err(|_| refuse("its host cannot be sent"))?;
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = authority.port_u16().unwrap_or(80);
        let unknown = |source| Error::Resolve { host: name.into(), source };
        let mut found = tokio::net::lookup_host((name, port)).await.map_err(unknown)?;
        let address = found.next().ok_or_else(|| unknown(std::io::ErrorKind::NotFound.into()))?;
        Ok(Self { address, host })
    }

    /// Asks by this name (`Host`) instead.
    pub fn with_host(mut self, host: &str) -> Result<Self, Error> {
        let refused = |_| Error::BaseUrl { url: host.into(), why: "it cannot be a Host header" };
        self.host = HeaderValue::try_from(host).map_err(refused)?;
        Ok(self)
    }

    /// Where connections go.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}
