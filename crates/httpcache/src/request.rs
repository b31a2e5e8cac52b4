//! The part of a request that the rules look at.

use http::{HeaderMap, Method, request};

/// Borrowed method, target and fields of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// Host and perhaps port, from the `Host` field or the target; after [`SECURE`](crate::SECURE) if
    /// the request came by TLS.
    pub authority: &'a str,
    /// Path and query.
    pub path_and_query: &'a str,
    /// The fields that the origin gets.
    pub headers: &'a HeaderMap,
}

impl<'a> RequestHead<'a> {
    /// From the parts of a request; a target in absolute form goes before `Host`
    /// (RFC 9112, 3.2.2). Without either the authority is empty, and there is no cache key.
    pub fn of(parts: &'a request::Parts) -> Self {
        let host = || parts.headers.get(http::header::HOST)?.to_str().ok();
        let authority = parts.uri.authority().map(http::uri::Authority::as_str).or_else(host);
        Self {
            method: &parts.method,
            authority: authority.unwrap_or_default(),
            path_and_query: parts.uri.path_and_query().map_or("/", |target| target.as_str()),
            headers: &parts.headers,
        }
    }
}
