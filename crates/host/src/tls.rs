//! TLS to devices, management controllers and servers. Their certificate is vouched for by the system's
//! authorities or by a certificate that the operator trusts, or it has the fingerprint that the operator wrote
//! down. One of these always, unless the operator says that any certificate will do.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore,
    SignatureScheme, WantsVerifier,
};
use serde::{Deserialize, Deserializer};
use sha2::{Digest, Sha256};

/// No bundle of certificates is longer.
const LONGEST: u64 = 4 << 20;

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of certificates cannot be read.
    #[error("cannot read {}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of certificates holds none.
    #[error("{} is no certificate: the file holds none", .0.display())]
    NoCertificate(PathBuf),
    /// A file holds something else than certificates.
    #[error("{} is no certificate: {why}", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// `rustls` refuses the settings.
    #[error("cannot set up TLS: {0}")]
    Setup(String),
}

/// SHA-256 of a certificate, as `openssl x509 -fingerprint -sha256` prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(Box<[u8]>);

impl From<[u8; 32]> for Fingerprint {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes.into())
    }
}

impl Fingerprint {
    /// That of a certificate.
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).as_slice().into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(&self.0);
        bytes
    }

    fn read(text: &str) -> Option<Self> {
        let digits = text.trim().rsplit('=').next()?.replace(':', "");
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let bytes = (0..64).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok());
        bytes.collect::<Option<_>>().map(Self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::read(&text).ok_or_else(|| {
            serde::de::Error::custom(
                "a fingerprint is 32 bytes as AB:CD:.., as `openssl x509 -fingerprint -sha256` prints it",
            )
        })
    }
}

/// Accepts the certificate with this fingerprint, or else those that `ca` or the system's authorities vouch for.
///
/// # Errors
///
/// If the file cannot be read, or has no certificates in it.
pub fn config(
    ca: Option<&Path>,
    fingerprint: Option<&Fingerprint>,
) -> Result<Arc<ClientConfig>, TlsError> {
    if let Some(fingerprint) = fingerprint {
        return pinned(Some(fingerprint.clone()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = builder(provider)?.with_root_certificates(roots(ca)?).with_no_client_auth();
    Ok(Arc::new(config))
}

/// Accepts any certificate: that the peer is the right one must be known in another way, or not matter.
///
/// # Errors
///
/// Never with the algorithms that are built in.
pub fn unverified() -> Result<Arc<ClientConfig>, TlsError> {
    pinned(None)
}

fn pinned(fingerprint: Option<Fingerprint>) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Pinned { fingerprint, provider: Arc::clone(&provider) });
    let dangerous = builder(provider)?.dangerous();
    Ok(Arc::new(dangerous.with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

fn builder(
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, TlsError> {
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    // *ring* has the suites of both versions.
    builder.map_err(|error| TlsError::Setup(error.to_string()))
}

/// The certificates that vouch for others: those in this file, or else the system's authorities.
pub fn roots(ca: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca else {
        // Those that cannot be read are left out.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let mut pem = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST).read_to_end(&mut pem))
        .map_err(|source| TlsError::File { path: path.to_owned(), source })?;
    let wrong = |why: String| TlsError::Certificate { path: path.to_owned(), why };
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(TlsError::NoCertificate(path.to_owned()));
    }
    Ok(roots)
}

/// Accepts one certificate, whatever else it says; or any.
#[derive(Debug)]
struct Pinned {
    fingerprint: Option<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_it = |fingerprint: &Fingerprint| Fingerprint::of(certificate) == *fingerprint;
        if self.fingerprint.as_ref().is_none_or(is_it) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a certificate was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distrust {
    /// It has another fingerprint than the operator wrote down.
    Fingerprint,
    /// No trusted authority signed it.
    Issuer,
    /// It is for another name.
    Name,
    /// It has expired.
    Expired,
    /// It is that of an authority, which cannot vouch for itself; the words of `rustls`.
    Authority(String),
    /// Another reason, in the words of `rustls`.
    Other(String),
}

impl Distrust {
    /// The reason in an error of a handshake; `None` if it failed for another one.
    pub fn of(error: &io::Error) -> Option<Self> {
        let rustls::Error::InvalidCertificate(why) = error.get_ref()?.downcast_ref()? else {
            return None;
        };
        Some(match why {
            CertificateError::ApplicationVerificationFailure => Self::Fingerprint,
            CertificateError::UnknownIssuer => Self::Issuer,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::Name
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            // `rustls` has no variant for this.
            other if other.to_string().contains("CaUsedAsEndEntity") => {
                Self::Authority(other.to_string())
            }
            other => Self::Other(other.to_string()),
        })
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fingerprint => "its certificate has another fingerprint",
            Self::Issuer => "no trusted authority signed it",
            Self::Name => "its certificate is for another name",
            Self::Expired => "its certificate has expired",
            Self::Authority(_) => {
                "its certificate is that of an authority (CA:TRUE), which cannot vouch for itself by `ca`: \
                 write its `fingerprint` instead"
            }
            Self::Other(why) => why,
        })
    }
}

/// Why a certificate was not accepted, in words, if that is why a handshake failed.
pub fn distrust(error: &io::Error) -> Option<String> {
    Distrust::of(error).map(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_openssl_prints_it() {
        // SHA-256 of nothing, by coreutils.
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let nothing = Fingerprint::of(b"");
        assert_eq!(Fingerprint::read(hex).as_ref(), Some(&nothing));
        let pairs: Vec<_> = (0..64).step_by(2).map(|at| &hex[at..at + 2]).collect();
        let printed = format!("sha256 Fingerprint={}", pairs.join(":").to_uppercase());
        assert_eq!(Fingerprint::read(&printed), Some(nothing));
        for wrong in ["", "e3b0", &hex[1..], &format!("{hex}00"), &hex.replace('e', "é")] {
            assert_eq!(Fingerprint::read(wrong), None, "{wrong}");
        }
    }
}
