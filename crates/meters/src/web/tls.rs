//! TLS to devices: verified by the system's authorities, or by what the user trusts.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use rustls::CertificateError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::error::MeterError;
use crate::spec::MeterSpec;

/// What to do about a certificate that is not trusted.
pub(super) const HINT: &str = "`ca=FILE` names the certificate (PEM) that vouches for the device: \
                               its own if it is self-signed (and does not call itself an \
                               authority, `CA:TRUE`, as well); `insecure=true` checks none, and then \
                               anyone on the way can read the password";

/// No bundle of certificates is longer.
const LONGEST: u64 = 4 << 20;

/// The certificates that vouch for a device: those of `ca=`, else the system's.
pub(crate) fn roots(spec: &MeterSpec) -> Result<Vec<CertificateDer<'static>>, MeterError> {
    let Some(path) = spec.text("ca") else {
        // Those that cannot be read vouch for nobody.
        return Ok(rustls_native_certs::load_native_certs().certs);
    };
    let mut pem = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut pem));
    read.map_err(|error| MeterError::reading(path, error))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(spec.wrong(format!("there is no certificate in {path}: PEM is expected"))),
        Err(error) => Err(spec.wrong(format!("{path} is no certificate: {error}"))),
    }
}

/// How a device's certificate is checked.
pub(super) fn config(spec: &MeterSpec, scheme: &str) -> Result<TlsConfig, MeterError> {
    let insecure = spec.truth("insecure")?.unwrap_or(false);
    if scheme == "http" {
        if insecure || spec.text("ca").is_some() {
            return Err(spec.wrong("`ca` and `insecure` are for addresses with `https://`"));
        }
        return Ok(TlsConfig::default());
    }
    if insecure && spec.text("ca").is_some() {
        return Err(spec.wrong("`ca` says whom to trust, `insecure` to trust everybody: drop one"));
    }
    let builder = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
    if insecure {
        tracing::warn!(
            meter = spec.name(),
            "`insecure=true`: the certificate is not checked; anyone on the network path can \
             read the password and forge the figures"
        );
        return Ok(builder.disable_verification(true).build());
    }
    let roots: Vec<_> =
        roots(spec)?.iter().map(|root| Certificate::from_der(root.as_ref()).to_owned()).collect();
    Ok(builder.root_certs(RootCerts::new_with_certs(&roots)).build())
}

/// Why a device's certificate was not trusted, if that was it.
pub(super) fn distrust(error: &ureq::Error) -> Option<String> {
    let error = match error {
        ureq::Error::Rustls(error) => error,
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref()?,
        _ => return None,
    };
    let rustls::Error::InvalidCertificate(why) = error else { return None };
    Some(match why {
        CertificateError::UnknownIssuer => "no trusted authority signed it".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".to_owned()
        }
        // CaUsedAsEndEntity is one of these.
        other => other.to_string(),
    })
}
