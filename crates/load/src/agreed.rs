//! What client and log-backed origin agree on without having met.

use http::HeaderName;

/// The header that tells the log-backed origin what to answer.
pub const REPLAY_HEADER: HeaderName = HeaderName::from_static("nightwatt-replay");

/// The strong entity tag of a target: a function of its path only, so that client and origin agree
/// on it without having met.
pub fn etag_of(target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or(target);
    format!("\"{:016x}\"", fingerprint(path))
}

/// FNV-1a: stable over versions and machines, which the hashers of `std` do not promise.
pub(crate) fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
