//! TLS to management controllers and servers: their certificate is vouched for by the system's authorities,
//! by a certificate that the operator trusts, or is the very one whose fingerprint the operator has written
//! down. One of these always, unless the operator says that it may be anyone's.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
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

use crate::ConfigError;

/// No bundle of certificates is longer.
const LONGEST: u64 = 4 << 20;

/// What helps against a certificate that is not trusted.
pub(crate) const HINT: &str = "compare `openssl s_client -connect HOST:443 </dev/null | openssl x509 -noout -fingerprint -sha256` \
     with what the controller's own page shows, and set `fingerprint` to it; or set `ca` to the \
     certificate (PEM) that vouches for it";

/// SHA-256 of a certificate, as `openssl x509 -fingerprint -sha256` prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(Box<[u8]>);

impl Fingerprint {
    fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).as_slice().into())
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

/// Whom to believe: the owner of the certificate with this fingerprint, else whoever these vouch for.
///
/// # Errors
///
/// If the file cannot be read, or has no certificates in it.
pub fn config(
    ca: Option<&Path>,
    fingerprint: Option<&Fingerprint>,
) -> Result<Arc<ClientConfig>, ConfigError> {
    if let Some(fingerprint) = fingerprint {
        return believing(Some(fingerprint.clone()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = builder(provider)?.with_root_certificates(roots(ca)?).with_no_client_auth();
    Ok(Arc::new(config))
}

/// Believes whoever answers: that it is the right one must be known in another way, or not matter.
///
/// # Errors
///
/// Never with the algorithms that are built in.
pub fn unverified() -> Result<Arc<ClientConfig>, ConfigError> {
    believing(None)
}

fn believing(fingerprint: Option<Fingerprint>) -> Result<Arc<ClientConfig>, ConfigError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Pinned { fingerprint, provider: Arc::clone(&provider) });
    let dangerous = builder(provider)?.dangerous();
    Ok(Arc::new(dangerous.with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

fn builder(
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, ConfigError> {
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    // *ring* has the suites of both versions.
    builder.map_err(|error| ConfigError::Tls(error.to_string()))
}

/// Who vouches for certificates: those in this file, else the system's authorities.
pub(crate) fn roots(ca: Option<&Path>) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca else {
        // Those that cannot be read vouch for nobody.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let mut pem = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST).read_to_end(&mut pem))
        .map_err(|source| ConfigError::File { path: path.to_owned(), source })?;
    let wrong = |why: String| ConfigError::Certificate { path: path.to_owned(), why };
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("the file holds none".to_owned()));
    }
    Ok(roots)
}

/// Believes the owner of one certificate, whatever else that says; or of any.
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

/// Why a certificate was not believed, if that was it.
pub fn distrust(error: &io::Error) -> Option<String> {
    let rustls::Error::InvalidCertificate(why) = error.get_ref()?.downcast_ref()? else {
        return None;
    };
    Some(match why {
        CertificateError::ApplicationVerificationFailure => {
            "its certificate has another fingerprint".to_owned()
        }
        CertificateError::UnknownIssuer => "no trusted authority signed it".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        // Words of rustls's own it has none for this.
        other if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is that of an authority (CA:TRUE), which cannot vouch for itself by `ca`: write \
             its `fingerprint` instead"
                .to_owned()
        }
        other => other.to_string(),
    })
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
