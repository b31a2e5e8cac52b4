//! The sender's side.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use nightwatt_host::tls::{self, Distrust, TlsError};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection};

use super::tls::ends;
use super::{Ends, Ticket, plain, prepare};
use crate::pure::paths;

/// The name that the receiver's certificate is for. Its fingerprint is what counts.
pub(super) const NAME: &str = "nightwatt.invalid";
/// A machine that does not answer within this time is not there.
const CONNECT: Duration = Duration::from_secs(15);

/// Where a receiver listens: `tls://HOST:PORT` or `tcp://HOST:PORT`, and the name of a stream behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `HOST:PORT`.
    pub authority: String,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
    /// The name that a stream gets.
    pub name: Option<String>,
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no address of a receiver: write `tls://HOST:PORT`, or `tls://HOST:PORT/NAME` for a stream"
)]
pub struct NoAddress(String);

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let wrong = || NoAddress(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let is_encrypted = match scheme {
            "tls" => true,
            "tcp" => false,
            _ => return Err(wrong()),
        };
        let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = authority.rsplit_once(':').ok_or_else(wrong)?;
        if host.is_empty() || port.parse::<u16>().is_err() || name.contains('/') {
            return Err(wrong());
        }
        if !name.is_empty() && paths::check(name.as_bytes()).is_err() {
            return Err(wrong());
        }
        let name = (!name.is_empty()).then(|| name.to_owned());
        Ok(Self { authority: authority.to_owned(), is_encrypted, name })
    }
}

impl Address {
    /// Whether a text is meant to be one.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("tls://") || text.starts_with("tcp://")
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing answers there.
    #[error("cannot reach {authority}: {error}")]
    Unreached {
        /// `HOST:PORT`.
        authority: String,
        /// Why.
        error: io::Error,
    },
    /// Another receiver answers, or a machine in between.
    #[error("the receiver at {0} has another key than the ticket names")]
    Stranger(String),
    /// The handshake failed.
    #[error("{authority} speaks no TLS as `nightwatt receive --listen` does: {error}")]
    Handshake {
        /// `HOST:PORT`.
        authority: String,
        /// Why.
        error: io::Error,
    },
    /// TLS could not be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] TlsError),
}

/// Connects; with a ticket by TLS.
pub fn connect(address: &Address, ticket: Option<&Ticket>) -> Result<Ends, ConnectError> {
    let authority = &address.authority;
    let unreached = |error| ConnectError::Unreached { authority: authority.clone(), error };
    let mut socket = reach(authority).map_err(unreached)?;
    prepare(&socket).map_err(unreached)?;
    let Some(ticket) = ticket else { return plain(socket).map_err(unreached) };
    let failed = |error: io::Error| match (Distrust::of(&error), error.kind()) {
        (Some(Distrust::Fingerprint), _) => ConnectError::Stranger(authority.clone()),
        (_, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => unreached(io::Error::new(
            io::ErrorKind::TimedOut,
            "it does not answer within 20 s: is it busy with another sender?",
        )),
        _ => ConnectError::Handshake { authority: authority.clone(), error },
    };
    let config = tls::config(None, Some(&ticket.fingerprint()))?;
    let name = ServerName::try_from(NAME).map_err(|error| failed(io::Error::other(error)))?;
    let client = ClientConnection::new(Arc::clone(&config), name);
    let mut client = client.map_err(|error| failed(io::Error::other(error)))?;
    client.complete_io(&mut socket).map_err(failed)?;
    let mut ends = ends(Connection::Client(client), socket).map_err(unreached)?;
    ends.writer.write_all(ticket.token()).map_err(unreached)?;
    Ok(ends)
}

fn reach(authority: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}
