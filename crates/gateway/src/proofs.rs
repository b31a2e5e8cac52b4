//! The proofs that an authority requests to verify that a name is ours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use nightwatt_host::lock;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use crate::config::CHALLENGE_PATH;

/// The protocol of the authority's handshake (RFC 8737, 4).
pub(crate) const PROTOCOL: &[u8] = b"acme-tls/1";

/// Proofs that may be requested at the moment.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    by_token: Mutex<HashMap<String, String>>,
    by_name: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

/// A proof, as long as it may be requested.
pub(crate) struct Given<'a> {
    proofs: &'a Proofs,
    key: String,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        lock(&self.proofs.by_token).remove(&self.key);
        lock(&self.proofs.by_name).remove(&self.key);
    }
}

impl Proofs {
    /// The answer at a path, if that is one of ours.
    pub(crate) fn at_path(&self, path: &str) -> Option<String> {
        let token = path.strip_prefix(CHALLENGE_PATH)?;
        lock(&self.by_token).get(token).cloned()
    }

    /// The certificate for a client that requests this name by [`PROTOCOL`].
    pub(crate) fn shown_for(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        lock(&self.by_name).get(&name.to_ascii_lowercase()).cloned()
    }

    /// Serves this text for the token.
    pub(crate) fn publish(&self, token: &str, text: &str) -> Given<'_> {
        lock(&self.by_token).insert(token.to_owned(), text.to_owned());
        Given { proofs: self, key: token.to_owned() }
    }

    /// Serves a certificate of this name that contains the digest.
    pub(crate) fn show(&self, name: &str, digest: &[u8]) -> Result<Given<'_>, rcgen::Error> {
        let name = name.to_ascii_lowercase();
        let mut params = rcgen::CertificateParams::new(vec![name.clone()])?;
        params.custom_extensions = vec![rcgen::CustomExtension::new_acme_identifier(digest)];
        let key = rcgen::KeyPair::generate()?;
        let shown = certified(&params, &key, &rustls::crypto::ring::default_provider())?;
        lock(&self.by_name).insert(name.clone(), Arc::new(shown));
        Ok(Given { proofs: self, key: name })
    }
}

/// A self-signed certificate.
pub(crate) fn certified(
    params: &rcgen::CertificateParams,
    key: &rcgen::KeyPair,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, rcgen::Error> {
    let certificate = params.self_signed(key)?.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    // The certificate was made just now and is well-formed. (`from_der` would parse it, and reject the extension that
    // the authority needs.)
    let key = provider.key_provider.load_private_key(key);
    Ok(CertifiedKey::new(vec![certificate], key.map_err(|_| rcgen::Error::CouldNotParseKeyPair)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_there_as_long_as_it_is_given() {
        let proofs = Proofs::default();
        let path = format!("{CHALLENGE_PATH}token");
        assert_eq!(proofs.at_path(&path), None);
        let given = proofs.publish("token", "token.thumb");
        assert_eq!(proofs.at_path(&path).as_deref(), Some("token.thumb"));
        for other in [
            "/token",
            &format!("{CHALLENGE_PATH}toke"),
            &format!("{CHALLENGE_PATH}token/"),
            CHALLENGE_PATH,
        ] {
            assert_eq!(proofs.at_path(other), None, "{other}");
        }
        drop(given);
        assert_eq!(proofs.at_path(&path), None);
        let given = proofs.show("Blog.example", &[7; 32]).unwrap();
        assert!(proofs.shown_for("bLog.example").is_some());
        drop(given);
        assert!(proofs.shown_for("blog.example").is_none());
    }
}
