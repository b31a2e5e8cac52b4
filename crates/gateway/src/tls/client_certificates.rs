//! Certificates of clients: asked for where a site needs one, and optional for all others.

use std::sync::Arc;

use nightwatt_energy::time::Wall;
use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use webpki::{EndEntityCert, KeyUsage};

use crate::config::number_of;

/// Asks clients for a certificate if there are authorities that could vouch for one.
pub(super) fn verifier(
    authorities: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    if authorities.is_empty() {
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).map_err(|error| error.to_string())?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
    builder.allow_unauthenticated().build().map_err(|error| error.to_string())
}

/// The numbers of the authorities that vouch for a client; nothing if none does. Several can: a root, and one that it has
/// signed and that the client shows along with its own certificate.
///
/// The handshake has verified the chain against all authorities together, and that the client has the key; a session
/// that was resumed brings its chain along. Which site the client may open depends on which authority it is.
pub(super) fn vouchers(
    chain: &[CertificateDer<'_>],
    authorities: &[CertificateDer<'static>],
    now: Wall,
) -> Option<Arc<[u64]>> {
    let (own, between) = chain.split_first()?;
    let own = EndEntityCert::try_from(own).ok()?;
    let millis = u64::try_from(now.0).ok()?;
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_millis(millis));
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    let vouches = |authority: &&CertificateDer<'static>| {
        webpki::anchor_from_trusted_cert(authority).is_ok_and(|anchor| {
            let usage = KeyUsage::client_auth();
            own.verify_for_usage(algorithms, &[anchor], between, now, usage, None, None).is_ok()
        })
    };
    let numbers: Arc<[u64]> = authorities.iter().filter(vouches).map(number_of).collect();
    (!numbers.is_empty()).then_some(numbers)
}
