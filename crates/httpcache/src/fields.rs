//! Fields that belong to one connection and go no further (RFC 9110, 7.6.1; RFC 9111, 3.1).

use bytes::Bytes;
use http::header::{
    CONNECTION, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue};

/// Fields between two neighbours, whether `Connection` lists them or not.
const HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-authentication-info"),
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Is it one of those, in whatever letters?
pub fn is_hop_by_hop(name: &str) -> bool {
    HOP_BY_HOP.iter().any(|it| it.as_str().eq_ignore_ascii_case(name))
}

/// The fields that `Connection` lists.
pub fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|&b| b == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect()
}

/// Removes hop-by-hop fields and those that `Connection` lists: for requests and responses alike,
/// before they are forwarded or stored.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    for name in named_by_connection(headers).iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Removes hop-by-hop fields, but none that `Connection` lists.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// The same fields in memory of their own. As they come in, each value is a piece of the buffer that
/// the whole message was read into, and keeps all of that.
pub(crate) fn compact(headers: &HeaderMap) -> HeaderMap {
    let text: Vec<u8> = headers.values().flat_map(HeaderValue::as_bytes).copied().collect();
    let mut text = Bytes::from(text.into_boxed_slice());
    let mut compact = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let own = HeaderValue::from_maybe_shared(text.split_to(value.len()));
        // What was a value is one, whatever it lies in.
        compact.append(name, own.unwrap_or_else(|_| value.clone()));
    }
    compact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connection_lists_goes_with_it() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "A, close ,, \u{e9}"),
            ("connection", "b"),
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
        ] {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(HeaderName::from_static(name), value);
        }
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn compact_fields_are_the_same_and_lie_elsewhere() {
        let message = Bytes::from(b"first, second \xfc and much more".to_vec());
        let mut headers = HeaderMap::new();
        for (name, from, to) in [("a", 0, 5), ("b", 7, 15), ("a", 7, 13), ("c", 0, 0)] {
            let value = HeaderValue::from_maybe_shared(message.slice(from..to)).unwrap();
            headers.append(HeaderName::from_static(name), value);
        }
        let own = compact(&headers);
        assert_eq!(own, headers);
        let span = message.as_ptr_range();
        assert!(own.values().all(|value| !span.contains(&value.as_bytes().as_ptr())));
        assert_eq!(compact(&HeaderMap::new()), HeaderMap::new());
    }
}
