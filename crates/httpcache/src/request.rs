//! The part of a request that the rules look at.

use crate::key::matches_name;
use crate::rules::{CookieRule, Rules};
use http::header::COOKIE;
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
    /// The fields, as the client sent them.
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

    /// Whether the request carries a cookie that may say who the visitor is.
    pub fn is_personal(&self, rules: &Rules) -> bool {
        rules.cookies.rule != CookieRule::Ignored
            && self.headers.get_all(COOKIE).iter().any(|line| {
                let mut cookies = line.as_bytes().split(|&b| b == b';').map(<[u8]>::trim_ascii);
                cookies.any(|cookie| !cookie.is_empty() && !is_harmless(cookie, rules))
            })
    }
}

fn is_harmless(cookie: &[u8], rules: &Rules) -> bool {
    let name = cookie.split(|&b| b == b'=').next().unwrap_or_default().trim_ascii_end();
    let Ok(name) = std::str::from_utf8(name) else { return false };
    rules.cookies.harmless.iter().any(|pattern| matches_name(pattern, name))
}
