//! TLS to clients, on the page.

use nightwatt_report::exposition::Exposition;

use super::{counter, gauge};
use crate::gateway::Gateway;

/// Nothing for a configuration without it.
pub(super) fn write(page: &mut Exposition, gateway: &Gateway) {
    let Some(tls) = &gateway.tls else { return };
    let succeeded = counter(
        "nightwatt_tls_handshakes_total",
        &[],
        "TLS handshakes with clients that succeeded.",
    );
    page.single(succeeded, tls.tally.successes());
    let failed = counter(
        "nightwatt_tls_handshake_failures_total",
        &["reason"],
        "TLS handshakes with clients that failed: `timeout`, `left` (the client went away), `not-tls`, \
         `nothing-in-common` (versions, ciphers), `refused` (the client did, the certificate mostly), \
         `malformed`.",
    );
    page.family(failed, |samples| {
        for (reason, count) in tls.tally.failures() {
            samples.add(&[reason], count);
        }
    });
    let status = tls.status(gateway.clock.now());
    let until = gauge(
        "nightwatt_certificate_not_after_seconds",
        &["certificate"],
        "The last second in which a certificate that clients get is valid, in seconds since 1970, by its \
         file.",
    );
    page.family(until, |samples| {
        for it in &status.certificates {
            if let Some(not_after) = it.not_after {
                samples.add(&[&it.chain], not_after);
            }
        }
    });
    let faulty = gauge(
        "nightwatt_certificate_faulty",
        &["certificate"],
        "1 if clients will not accept a certificate, or what is in its files now cannot be used; else 0.",
    );
    page.family(faulty, |samples| {
        for it in &status.certificates {
            samples.add(&[&it.chain], u8::from(it.problem.is_some()));
        }
    });
}
