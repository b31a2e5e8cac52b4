//! TLS to devices: verified by the system's authorities, or by what the user trusts.

use std::path::Path;
use std::sync::Arc;

use nightwatt_host::tls::{self, Distrust, TlsError};
use rustls::ClientConfig;

use crate::error::MeterError;
use crate::spec::MeterSpec;

/// What to do about a certificate that is not trusted.
pub(super) const HINT: &str = "`ca=FILE` names the certificate (PEM) that vouches for the device: \
                               its own if it is self-signed (and does not call itself an \
                               authority, `CA:TRUE`, as well); `insecure=true` checks none, and then \
                               anyone on the way can read the password";

/// Verifies by the certificates that vouch for a device: those of `ca=`, else the system's.
pub(crate) fn trust(spec: &MeterSpec) -> Result<Arc<ClientConfig>, MeterError> {
    tls::config(spec.text("ca").map(Path::new), None).map_err(|error| match error {
        TlsError::File { path, source } => {
            let what = format!("read {}, which `ca` names", path.display());
            MeterError::Io { what, error: source }
        }
        TlsError::NoCertificate(path) => {
            let path = path.display();
            spec.wrong(format!("there is no certificate in {path}: PEM is expected"))
        }
        error => spec.wrong(error.to_string()),
    })
}

/// How a device's certificate is checked.
pub(super) fn config(
    spec: &MeterSpec,
    scheme: &str,
) -> Result<Option<Arc<ClientConfig>>, MeterError> {
    let insecure = spec.truth("insecure")?.unwrap_or(false);
    if scheme == "http" {
        if insecure || spec.text("ca").is_some() {
            return Err(spec.wrong("`ca` and `insecure` are for addresses with `https://`"));
        }
        return Ok(None);
    }
    if insecure && spec.text("ca").is_some() {
        return Err(spec.wrong("`ca` says whom to trust, `insecure` to trust everybody: drop one"));
    }
    if insecure {
        tracing::warn!(
            meter = spec.name(),
            "`insecure=true`: the certificate is not checked; anyone on the network path can \
             read the password and forge the figures"
        );
        let config = tls::unverified().map_err(|error| spec.wrong(error.to_string()))?;
        return Ok(Some(config));
    }
    trust(spec).map(Some)
}

/// Why a device's certificate was not trusted.
pub(super) fn words(why: &Distrust) -> String {
    match why {
        Distrust::Name => "it is for another name".to_owned(),
        Distrust::Expired => "it has expired".to_owned(),
        Distrust::Authority(why) => why.clone(),
        why => why.to_string(),
    }
}
