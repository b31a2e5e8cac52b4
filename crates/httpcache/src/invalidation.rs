//! What a request that changes something makes obsolete (RFC 9111, 4.4).

use crate::key::{CacheKey, KeyRules};
use crate::reference;
use crate::request::RequestHead;
use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, Method, StatusCode};

/// Registered methods that only read. Whatever else is asked for, known or not, may change things.
const SAFE: [&str; 8] =
    ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY"];

/// Whether a method leaves things as they are.
pub fn is_safe(method: &Method) -> bool {
    SAFE.contains(&method.as_str())
}

/// The keys whose responses are obsolete: the target's, and those that `Location` and
/// `Content-Location` name on the same host. Empty for safe methods and for errors.
///
/// All variants under a key go. On other hosts nothing does, or one site could empty another's
/// cache.
pub fn invalidated(
    request: &RequestHead<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    rules: &KeyRules,
) -> Vec<CacheKey> {
    if is_safe(request.method) || !(status.is_success() || status.is_redirection()) {
        return Vec::new();
    }
    let mut keys: Vec<CacheKey> =
        rules.key(request.authority, request.path_and_query).into_iter().collect();
    for name in [LOCATION, CONTENT_LOCATION] {
        let named = headers.get(name).and_then(|value| value.to_str().ok()).and_then(|reference| {
            reference::resolve(request.authority, request.path_and_query, reference)
        });
        let key = named.and_then(|target| rules.key(request.authority, &target));
        keys.extend(key.filter(|key| !keys.contains(key)));
    }
    keys
}
