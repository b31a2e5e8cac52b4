//! Fields behind a body.

use http::{HeaderMap, HeaderName};

/// Leaves of trailers only those with these names.
pub fn only_named(trailers: &mut HeaderMap, named: &[HeaderName]) {
    let others = trailers.keys().filter(|name| !named.contains(name));
    for name in others.cloned().collect::<Vec<_>>() {
        trailers.remove(name);
    }
}
