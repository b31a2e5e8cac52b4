//! `certificate_ca`: the authorities whose certificates open a site.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

use super::named_file;

/// The certificates of authorities that vouch for clients.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Vouchers(Arc<Vec<CertificateDer<'static>>>);

impl std::fmt::Debug for Vouchers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} authorities", self.0.len())
    }
}

impl Vouchers {
    /// Reads a file in PEM.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let pem = named_file::read(path, "Copy the certificate of the authority there, in PEM")?;
        Self::parse(&pem)
    }

    /// Reads the content of such a file.
    pub fn parse(pem: &[u8]) -> Result<Self, String> {
        let mut all = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("it is not PEM: {error}"))?;
            if let Err(error) = webpki::anchor_from_trusted_cert(&certificate) {
                return Err(format!("certificate {} in it is damaged: {error}", all.len() + 1));
            }
            all.push(certificate.into_owned());
        }
        if all.is_empty() {
            return Err("it has no certificate in it (`-----BEGIN CERTIFICATE-----`)".to_owned());
        }
        Ok(Self(Arc::new(all)))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The certificates.
    pub(crate) fn all(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.0.iter()
    }

    /// Whether the authority with this number is one of them.
    pub(crate) fn have(&self, number: u64) -> bool {
        self.0.iter().any(|it| number_of(it) == number)
    }
}

/// Tells authorities apart, across reloads. Only the operator writes them, so 64 bits are enough.
pub(crate) fn number_of(authority: &CertificateDer<'_>) -> u64 {
    let hash: [u8; 32] = Sha256::digest(authority.as_ref()).into();
    let first: [u8; 8] = [hash[0], hash[1], hash[2], hash[3], hash[4], hash[5], hash[6], hash[7]];
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_certificate_or_a_damaged_one_is_refused() {
        for (pem, why) in [
            ("", "no certificate"),
            ("hello", "no certificate"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "damaged"),
            ("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n", "not PEM"),
        ] {
            let said = Vouchers::parse(pem.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{pem}: {said}");
        }
    }
}
