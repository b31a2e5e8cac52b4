//! Errors of certificates.

use std::io;
use std::path::PathBuf;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadCertificate {
    /// A file cannot be read.
    #[error("`tls.certificate.{key}`: cannot read {path}: {source}")]
    Unreadable {
        /// The key that names it.
        key: &'static str,
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has no certificate in it.
    #[error("there is no certificate in {path}{}", .swapped.then_some(", but a private key").unwrap_or_default())]
    NoCertificate {
        /// Which one.
        path: PathBuf,
        /// There is a key instead.
        swapped: bool,
    },
    /// A file has no key in it.
    #[error("there is no private key in {path}{}", .locked.then_some(" that could be read without a passphrase").unwrap_or_default())]
    NoKey {
        /// Which one.
        path: PathBuf,
        /// It is encrypted with a passphrase.
        locked: bool,
    },
    /// Key and certificate do not belong together.
    #[error("the key in {key} does not belong to the first certificate in {chain}")]
    Mismatch {
        /// The certificate's file.
        chain: PathBuf,
        /// The key's.
        key: PathBuf,
    },
    /// The content of a file is not valid.
    #[error("what is in {path} cannot be used: {why}")]
    Broken {
        /// Which one.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl BadCertificate {
    /// There is no such file.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// What to try next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "look for it where the program put it that got the certificate, and set `chain` and `key` in \
                 `[[tls.certificate]]` to the whole paths"
            }
            Self::Unreadable { .. } => {
                "let the user that nightwatt runs as read it, and pass through the folders above: \
                 `setfacl -m u:nightwatt:r FILE`, `setfacl -m u:nightwatt:x FOLDER`"
            }
            Self::NoCertificate { swapped: true, .. } => {
                "`chain` and `key` of this `[[tls.certificate]]` may be swapped"
            }
            Self::NoCertificate { .. } => {
                "it must be PEM, `-----BEGIN CERTIFICATE-----`: `openssl x509 -inform DER -in FILE` makes it \
                 of DER"
            }
            Self::NoKey { locked: true, .. } => {
                "it cannot be typed when the proxy starts: `(umask 077; openssl pkey -in FILE -out PLAIN)` \
                 removes it"
            }
            Self::NoKey { .. } => {
                "it must be PEM, `-----BEGIN PRIVATE KEY-----`: `openssl pkey -inform DER -in FILE` makes it of \
                 DER"
            }
            Self::Mismatch { .. } => {
                "the site's own certificate comes first in the chain; `openssl x509 -noout -pubkey -in CHAIN` \
                 and `openssl pkey -pubout -in KEY` must print the same"
            }
            Self::Broken { .. } => "`openssl x509 -noout -text -in FILE` shows what is in it",
        }
    }
}
