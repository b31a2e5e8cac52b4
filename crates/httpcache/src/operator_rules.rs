//! What the operator decides.

use crate::key::{KeyRules, matches_name};
use std::time::Duration;

/// Settings of one site.
///
/// The defaults follow RFC 9111 and are stricter in one point: what one client gets is never shared on
/// an assumption. See [`crate::sharing`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct Rules {
    /// Whether responses are kept that their origin did not mark as cacheable, on the assumption that
    /// every anonymous client gets the same. The four settings below then give them a lifetime.
    pub assumes: bool,
    /// Whether what crawlers look for first ([`is_for_crawlers`]) is kept, though its origin did not mark
    /// it and [`assumes`](Self::assumes) is false: it is meant for clients of whom nothing is known.
    pub crawler_files: bool,
    /// Whose requests fill the cache with responses on that assumption.
    pub fill: Fill,
    /// Request fields that make no difference, beside those that are listed; lower case, a `*` at the end
    /// stands for any ending.
    pub harmless_headers: Vec<String>,
    /// Lifetime of responses that say nothing and for which there is no heuristic.
    pub default_ttl: Option<Duration>,
    /// Lifetime of errors (404, 405, 410, 414, 501) that say nothing; `None`: as other responses,
    /// except that `default_ttl` never applies to an error.
    pub negative_ttl: Option<Duration>,
    /// How to guess a lifetime from `Last-Modified`; `None`: do not.
    pub heuristic: Option<Heuristic>,
    /// How long past its lifetime a response may be served while the origin sleeps.
    pub grace_while_asleep: Duration,
    /// How long past its lifetime a response that does not speak of `stale-if-error` may be served
    /// when the origin fails or cannot be reached.
    pub stale_if_error: Duration,
    /// Whether `must-revalidate`, `proxy-revalidate`, `s-maxage` and `no-cache` are kept while the
    /// origin sleeps. If not, such responses too are served within `grace_while_asleep`: against
    /// RFC 9111, and right only for an operator who knows what the origin means by them. They are
    /// always kept when the origin is awake, or should be.
    pub respect_must_revalidate: bool,
    /// Whether a client's `no-cache`, `max-age`, `min-fresh`, `max-stale` and `Pragma` count.
    /// They are advice (RFC 9111, 5.2.1), and each reload that is heeded may wake a server.
    pub heed_requests: bool,
    /// Whether a response with `Set-Cookie` may be stored, cookie and all. Wrong for nearly every
    /// site: every visitor then gets the first one's cookie.
    pub store_set_cookie: bool,
    /// Whether `CDN-Cache-Control` takes the place of `Cache-Control` (RFC 9213).
    pub cdn_cache_control: bool,
    /// Paths whose responses are never too old while the origin sleeps; a `*` at the end stands for
    /// any ending.
    pub pinned: Vec<String>,
    /// What a cookie in a request means.
    pub cookies: CookieRules,
    /// How requests become cache keys.
    pub key: KeyRules,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            assumes: false,
            crawler_files: false,
            fill: Fill::default(),
            harmless_headers: Vec::new(),
            default_ttl: None,
            negative_ttl: None,
            heuristic: Some(Heuristic::default()),
            grace_while_asleep: Duration::from_hours(24),
            stale_if_error: Duration::from_hours(1),
            respect_must_revalidate: true,
            heed_requests: true,
            store_set_cookie: false,
            cdn_cache_control: true,
            pinned: ["/robots.txt", "/sitemap*"].map(str::to_owned).to_vec(),
            cookies: CookieRules::default(),
            key: KeyRules::default(),
        }
    }
}

impl Rules {
    /// Whether the operator says of a request field that it makes no difference.
    pub fn is_harmless_header(&self, name: &[u8]) -> bool {
        if self.harmless_headers.is_empty() {
            return false;
        }
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        self.harmless_headers.iter().any(|pattern| matches_name(pattern, &name))
    }

    /// Whether the responses of this path (with or without a query) are pinned.
    pub fn is_pinned(&self, path_and_query: &str) -> bool {
        let path = path_and_query.split('?').next().unwrap_or_default();
        self.pinned.iter().any(|pattern| matches_name(pattern, path))
            || self.crawler_files && is_for_crawlers(path_and_query)
    }
}

/// Whether a path is one of those that crawlers look for first: `/robots.txt` (RFC 9309) and sitemaps.
pub fn is_for_crawlers(path_and_query: &str) -> bool {
    if path_and_query == "/robots.txt" {
        return true;
    }
    let path = path_and_query.split('?').next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(name);
    name.contains("sitemap") && name.rsplit_once('.').is_some_and(|(_, kind)| kind == "xml")
}

/// A lifetime guessed from how long ago the content changed (RFC 9111, 4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heuristic {
    /// Share of the time since the last change, in percent.
    pub percent: u32,
    /// Never longer than this.
    pub longest: Duration,
}

impl Default for Heuristic {
    fn default() -> Self {
        Self { percent: 10, longest: Duration::from_hours(24) }
    }
}

/// Whose requests fill the cache with responses that are assumed to be the same for everyone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fill {
    /// The proxy's own: anonymous, without any field of a client.
    #[default]
    OwnRequests,
    /// Those of anonymous clients too. Whatever the origin makes of a field that is thought neutral is
    /// then shared: for test suites.
    Clients,
}

/// What a cookie in a request means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CookieRules {
    /// For cookies that are not harmless.
    pub rule: CookieRule,
    /// Names of cookies that make no difference, beside those that are listed (analytics, consent); a `*`
    /// at the end stands for any ending. A request with these alone counts as one without cookies.
    pub harmless: Vec<String>,
}

/// What a cookie in a request means for the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CookieRule {
    /// The response is personal unless it carries `public` or `s-maxage`, and is not stored. What
    /// was stored from other requests is still served, as RFC 9111 has it.
    #[default]
    Personal,
    /// As [`CookieRule::Personal`], and such requests get nothing from the cache either: for sites that show
    /// logged-in visitors another page under the same address.
    Bypass,
    /// Cookies mean nothing.
    Ignored,
}
