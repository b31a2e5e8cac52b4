//! Names of fields that a configuration may use for its own ends.

use nightwatt_httpcache::sharing::is_passed_on;

/// Fields that frame, route or authorize a request, name its client, or belong to the connection.
const TAKEN: [&str; 27] = [
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-request-id",
];

/// Whether a field of this name means nothing to nightwatt, and servers may get it.
pub(crate) fn is_free(name: &str) -> bool {
    !TAKEN.iter().any(|it| name.eq_ignore_ascii_case(it)) && is_passed_on(name.as_bytes(), true)
}
