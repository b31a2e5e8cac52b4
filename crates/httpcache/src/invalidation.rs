//! What a request that changes something makes obsolete (RFC 9111, 4.4).

use crate::key::{CacheKey, KeyRules, SECURE};
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
/// All variants under a key go, and what was asked for in the other way, by TLS or without: it is the same
/// resource. On other hosts nothing does, or one site could empty another's
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
    let named = |name| {
        let reference = headers.get(name)?.to_str().ok()?;
        reference::resolve(request.authority, request.path_and_query, reference)
    };
    let targets = [LOCATION, CONTENT_LOCATION].into_iter().filter_map(named);
    let plain = request.authority.strip_prefix(SECURE).unwrap_or(request.authority);
    let secure = format!("{SECURE}{plain}");
    let mut keys = Vec::new();
    for target in std::iter::once(request.path_and_query.to_owned()).chain(targets) {
        let both = [plain, &secure].into_iter().filter_map(|it| rules.key(it, &target));
        for key in both {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys
}
