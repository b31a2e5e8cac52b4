//! TLS to clients, on the page.

use std::fmt::Display;

use nightwatt_report::exposition::{Exposition, Family};

use super::{counter, gauge};
use crate::gateway::Gateway;
use crate::status::CertificateStatus;

/// Nothing for a configuration without it.
pub(super) fn write(page: &mut Exposition, gateway: &Gateway) {
    let Some(tls) = &gateway.front.tls else { return };
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
    write_certificates(page, &tls.status(gateway.serving.clock.now()).certificates);
}

fn write_certificates(page: &mut Exposition, all: &[CertificateStatus]) {
    let until = gauge(
        "nightwatt_certificate_not_after_seconds",
        &["certificate"],
        "The last second in which a certificate that clients get is valid, in seconds since 1970, by its \
         file.",
    );
    per_certificate(page, until, all, |it| it.not_after);
    let lifetime = gauge(
        "nightwatt_certificate_lifetime_seconds",
        &["certificate"],
        "For how long a certificate that clients get is valid in all, from its first second to its last.",
    );
    per_certificate(page, lifetime, all, |it| Some(it.not_after?.saturating_sub(it.not_before?)));
    write_renewals(page, all);
    let faulty = gauge(
        "nightwatt_certificate_faulty",
        &["certificate"],
        "1 if clients do not accept what they get: it is over, not valid yet, without names, or stands in \
         for one that its authority has not given; else 0.",
    );
    per_certificate(page, faulty, all, |it| Some(u8::from(it.is_faulty)));
    let failed = gauge(
        "nightwatt_certificate_renewal_failed",
        &["certificate"],
        "1 if the next certificate was not given by its authority, or what is in the files now cannot be \
         used: what clients got before they get still; else 0.",
    );
    per_certificate(page, failed, all, |it| Some(u8::from(it.renewal_failed)));
}

/// Nothing if no certificate is from an authority.
fn write_renewals(page: &mut Exposition, all: &[CertificateStatus]) {
    if all.iter().all(|it| it.renewal.is_none()) {
        return;
    }
    let renewal = gauge(
        "nightwatt_certificate_renewal_seconds",
        &["certificate", "moment"],
        "When a certificate by ACME will be renewed, in seconds since 1970: `at`; and if its authority suggests a \
         time (ARI), `from` and `until` of that, in which `at` is a random moment.",
    );
    page.family(renewal, |samples| {
        for (certificate, it) in all.iter().filter_map(|it| Some((&it.chain, it.renewal.as_ref()?)))
        {
            let moments = [("at", Some(it.at)), ("from", it.from), ("until", it.until)];
            for (moment, seconds) in moments {
                if let Some(seconds) = seconds {
                    samples.add(&[certificate, moment], seconds);
                }
            }
        }
    });
}

/// A family with a sample for each certificate that has such a value.
fn per_certificate<V: Display>(
    page: &mut Exposition,
    family: Family,
    all: &[CertificateStatus],
    value: impl Fn(&CertificateStatus) -> Option<V>,
) {
    page.family(family, |samples| {
        for it in all {
            if let Some(value) = value(it) {
                samples.add(&[&it.chain], value);
            }
        }
    });
}
