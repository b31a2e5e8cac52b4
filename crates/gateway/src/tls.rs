//! TLS to clients: rustls implements it, between `listen`, which accepts, and `http1`, which reads.
//!
//! ```text
//! listen -> client_limits -> handshake (tally) -> Secured -> http1 | http2
//!                              \-> certificates (by name; read again when their files change)
//! ```

mod certificates;
mod client_certificates;
pub mod identity;
mod stream;
mod tally;
pub mod validity;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use nightwatt_clock::Clock;
use nightwatt_energy::time::Now;
use rustls::ServerConfig;
use rustls::crypto::ring;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use self::certificates::Certificates;
pub use self::certificates::look_over;
use self::identity::Identity;
pub(crate) use self::stream::Secured;
use self::tally::{Failure, Tally};
use self::validity::Validity;
use crate::config::{CertificateConfig, TlsConfig};
pub use crate::error::BadCertificate;
use crate::origin::{HTTP1, HTTP2};
use crate::proofs::{PROTOCOL, Proofs};
use crate::status::{RenewalStatus, TlsStatus};

/// TLS at all addresses of `[tls]`.
pub(crate) struct Tls {
    config: TlsConfig,
    /// The addresses where it listens.
    addresses: Vec<SocketAddr>,
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
    pub(crate) tally: Arc<Tally>,
    /// The proofs that authorities request at the moment.
    pub(crate) proofs: Arc<Proofs>,
}

/// A connection after its handshake.
pub(crate) struct Accepted {
    pub(crate) stream: Secured,
    /// Whether the client chose HTTP/2.
    pub(crate) is_http2: bool,
    /// The authority that vouches for the client's certificate, if it has shown one.
    pub(crate) vouchers: Option<Arc<[u64]>>,
}

impl Tls {
    /// Reads the certificates. Counters continue.
    pub(crate) fn open(
        config: &TlsConfig,
        clock: &Clock,
        before: Option<&Self>,
    ) -> Result<Self, BadCertificate> {
        let provider = Arc::new(ring::default_provider());
        let proofs = before.map(|it| Arc::clone(&it.proofs)).unwrap_or_default();
        let certificates = Certificates::load(&config.certificate, &provider, clock.now())?;
        let mut certificates = certificates.with_proofs(&proofs);
        if let Some(before) = before {
            certificates = certificates.with_notes_of(&before.certificates);
        }
        let certificates = Arc::new(certificates);
        let unusable = |error: rustls::Error| BadCertificate::Broken {
            path: "[tls]".into(),
            why: error.to_string(),
        };
        let clients = client_certificates::verifier(&config.client_authorities, &provider);
        let clients = clients.map_err(|why| BadCertificate::Broken {
            path: "site.access.certificate_ca".into(),
            why,
        })?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::<Certificates>::clone(&certificates));
        let spoken: &[&[u8]] = if config.http2 { &[HTTP2, HTTP1] } else { &[HTTP1] };
        server.alpn_protocols = spoken.iter().map(|it| it.to_vec()).collect();
        if config.acme.is_some() {
            server.alpn_protocols.push(PROTOCOL.to_vec());
        }
        // Clients that resume a session need no certificate, and nothing is stored per client.
        server.ticketer = ring::Ticketer::new().map_err(unusable)?;
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let tally = before.map(|it| Arc::clone(&it.tally)).unwrap_or_default();
        let (config, addresses) = (config.clone(), Vec::new());
        Ok(Self { config, addresses, acceptor, certificates, tally, proofs })
    }

    /// The same, listening at these addresses.
    pub(crate) fn listening_at(self, addresses: Vec<SocketAddr>) -> Self {
        Self { addresses, ..self }
    }

    /// The handshake with a client, of which some bytes may have been read already; none if it failed.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        read_ahead: BytesMut,
        clock: &Clock,
        limit: Duration,
    ) -> Option<Accepted> {
        self.certificates.look(clock.now());
        let mut ahead = Ok(());
        let handshake = self.acceptor.accept_with(stream, |session| {
            let mut rest = read_ahead.reader();
            while ahead.is_ok() && !rest.get_ref().is_empty() {
                ahead = match session.read_tls(&mut rest) {
                    // The handshake reports any error in it.
                    Ok(_) => session.process_new_packets().map(drop).or(Ok(())),
                    Err(error) => Err(error),
                };
            }
        });
        let done = match ahead {
            Ok(()) => clock.timeout(limit, handshake).await,
            Err(error) => Ok(Err(error)),
        };
        let failure = match done {
            Ok(Ok(stream)) => {
                self.tally.succeeded();
                // An authority has seen its proof, and sends no request.
                let session = stream.get_ref().1;
                let chosen = session.alpn_protocol();
                let (is_look, is_http2) = (chosen == Some(PROTOCOL), chosen == Some(HTTP2));
                let chain = session.peer_certificates().unwrap_or_default();
                let authorities = &self.config.client_authorities;
                let vouchers = client_certificates::vouchers(chain, authorities, clock.now().wall);
                return (!is_look).then(|| Accepted {
                    stream: Secured::new(stream),
                    is_http2,
                    vouchers,
                });
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                failure(&error)
            }
            Err(_) => Failure::Timeout,
        };
        self.tally.failed(failure);
        None
    }

    /// The validity of the certificate of this entry, if there is one.
    pub(crate) fn validity_of(&self, config: &CertificateConfig) -> Option<Validity> {
        self.certificates.validity_of(config)
    }

    /// What the certificate of this entry is known by at its authority, if there is one.
    pub(crate) fn identity_of(&self, config: &CertificateConfig) -> Option<Identity> {
        self.certificates.identity_of(config)
    }

    /// Notes when an authority wants the certificate renewed, for `status`.
    pub(crate) fn note_renewal(&self, config: &CertificateConfig, at: Option<RenewalStatus>) {
        self.certificates.note_renewal(config, at);
    }

    /// Reads changed files again.
    pub(crate) fn look_now(&self, now: Now) {
        self.certificates.look_now(now);
    }

    /// Notes why an authority issued no other certificate, for `status`; nothing once it has.
    pub(crate) fn note(&self, config: &CertificateConfig, refused: Option<String>) {
        self.certificates.note(config, refused);
    }

    /// The status of TLS, after checking the files of its certificates.
    pub(crate) fn status(&self, now: Now) -> TlsStatus {
        self.certificates.look(now);
        let failures = self.tally.failures().filter(|(_, count)| *count > 0);
        TlsStatus {
            listen: self.addresses.iter().map(ToString::to_string).collect(),
            handshakes: self.tally.successes(),
            failures: failures.map(|(why, count)| (why.to_owned(), count)).collect(),
            certificates: self.certificates.status(now.wall),
        }
    }
}

fn failure(error: &io::Error) -> Failure {
    use rustls::{Error, InvalidMessage};
    let Some(error) = error.get_ref().and_then(|it| it.downcast_ref::<Error>()) else {
        return Failure::Left;
    };
    match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => Failure::NotTls,
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Failure::NothingInCommon,
        Error::AlertReceived(_) => Failure::Refused,
        _ => Failure::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart_by_who_is_to_blame() {
        use rustls::{AlertDescription, Error, InvalidMessage, PeerIncompatible};
        let of = |error: Error| failure(&io::Error::new(io::ErrorKind::InvalidData, error));
        let not_tls = Error::InvalidMessage(InvalidMessage::InvalidContentType);
        assert_eq!(of(not_tls), Failure::NotTls);
        let old = PeerIncompatible::Tls12NotOfferedOrEnabled;
        assert_eq!(of(Error::PeerIncompatible(old)), Failure::NothingInCommon);
        assert_eq!(of(Error::AlertReceived(AlertDescription::UnknownCA)), Failure::Refused);
        assert_eq!(of(Error::DecryptError), Failure::Malformed);
        assert_eq!(failure(&io::ErrorKind::UnexpectedEof.into()), Failure::Left);
    }
}
