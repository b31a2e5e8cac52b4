//! Who answered, and how.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use http::HeaderMap;
use serde::Serialize;

/// The header in which nightwatt's proxy says how it answered.
pub const ANSWER_HEADER: &str = "nightwatt-answer";

/// How a request was answered: the one list of these names, which the proxy sends in
/// `Nightwatt-Answer` and the client reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// From the cache, fresh.
    Cache,
    /// From the cache beyond its freshness: within grace.
    Stale,
    /// 304 from the cache.
    NotModified,
    /// From the mirror of the site.
    Mirror,
    /// Passed on to the server, which was awake.
    Server,
    /// Held until the server was awake, then answered by it.
    Held,
    /// The waiting page.
    WaitingPage,
    /// 503 with `Retry-After`, to a crawler.
    Crawler,
    /// Refused: a scanner.
    Scanner,
    /// A health check, answered from the server's state.
    Monitor,
    /// The waiting page's poll.
    State,
    /// 504: held up to the limit in vain.
    Timeout,
    /// The client has used up its wake budget.
    Budget,
    /// The server failed: 502 or 503.
    Unavailable,
    /// 4xx by the proxy itself.
    Refused,
    /// 401 or 403: the client has no access.
    Denied,
    /// 429: the client asks too often.
    Limited,
    /// 308: the same by TLS.
    Redirect,
    /// By a rule for its path, without the server.
    Path,
    /// No proxy of ours in between, or none that says so: the server.
    Origin,
    /// A name this version does not know; a proxy answered.
    Other(Box<str>),
}

/// Every name but `Other`'s.
const NAMES: [(&str, Answer); 20] = [
    ("cache", Answer::Cache),
    ("stale", Answer::Stale),
    ("not-modified", Answer::NotModified),
    ("mirror", Answer::Mirror),
    ("server", Answer::Server),
    ("held", Answer::Held),
    ("waiting-page", Answer::WaitingPage),
    ("crawler", Answer::Crawler),
    ("scanner", Answer::Scanner),
    ("monitor", Answer::Monitor),
    ("state", Answer::State),
    ("timeout", Answer::Timeout),
    ("budget", Answer::Budget),
    ("unavailable", Answer::Unavailable),
    ("refused", Answer::Refused),
    ("denied", Answer::Denied),
    ("limited", Answer::Limited),
    ("redirect", Answer::Redirect),
    ("path", Answer::Path),
    ("origin", Answer::Origin),
];

impl Answer {
    /// Its name on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(name) => name,
            known => NAMES.iter().find(|(_, a)| a == known).map_or("other", |(name, _)| *name),
        }
    }

    /// Did the server produce (or fail to produce) this answer, rather than the proxy alone?
    pub const fn is_from_server(&self) -> bool {
        matches!(self, Self::Server | Self::Held | Self::Unavailable | Self::Origin)
    }

    /// Who answered, by the headers: ours first, else what other caches say of themselves
    /// (`Cache-Status` of RFC 9211, `X-Cache`, `Age`).
    pub fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(name) = text(ANSWER_HEADER) {
            let Ok(answer) = name.trim().parse();
            return answer;
        }
        // The cache nearest to the client comes last in the list.
        if let Some(last) = text("cache-status").and_then(|list| list.rsplit(',').next()) {
            let mut parameters = last.split(';').skip(1).map(str::trim);
            if parameters.any(|p| p.eq_ignore_ascii_case("hit")) {
                let stale = last.split(';').any(|p| p.trim().starts_with("ttl=-"));
                return if stale { Self::Stale } else { Self::Cache };
            }
            return Self::Origin;
        }
        if let Some(verdict) = text("x-cache").or_else(|| text("x-cache-status")) {
            let verdict = verdict.to_ascii_lowercase();
            if verdict.contains("stale") || verdict.contains("updating") {
                return Self::Stale;
            }
            return if verdict.contains("hit") { Self::Cache } else { Self::Origin };
        }
        match text("age").and_then(|age| age.trim().parse::<u64>().ok()) {
            Some(1..) => Self::Cache,
            _ => Self::Origin,
        }
    }
}

impl FromStr for Answer {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        let known =
            NAMES.iter().find(|(known, _)| *known == name).map(|(_, answer)| answer.clone());
        Ok(known.unwrap_or_else(|| Self::Other(name.into())))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Answer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back_and_unknown_ones_are_kept() {
        for (name, answer) in &NAMES {
            assert_eq!(name.parse::<Answer>().as_ref(), Ok(answer));
            assert_eq!(answer.as_str(), *name);
        }
        let Ok(unknown) = "brand-new".parse::<Answer>();
        assert_eq!(unknown.as_str(), "brand-new");
        assert!(!unknown.is_from_server());
    }

    #[test]
    fn caches_of_others_are_recognised_by_what_they_say() {
        let seen = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            Answer::of(&headers)
        };
        assert_eq!(seen("nightwatt-answer", "held"), Answer::Held);
        assert_eq!(seen("cache-status", "origin; hit, edge; fwd=miss; stored"), Answer::Origin);
        assert_eq!(seen("cache-status", "Nginx; hit; ttl=17"), Answer::Cache);
        assert_eq!(seen("cache-status", "Nginx; hit; ttl=-17"), Answer::Stale);
        assert_eq!(seen("x-cache", "HIT from squid"), Answer::Cache);
        assert_eq!(seen("x-cache-status", "STALE"), Answer::Stale);
        assert_eq!(seen("x-cache", "MISS"), Answer::Origin);
        assert_eq!(seen("age", "3"), Answer::Cache);
        assert_eq!(seen("age", "0"), Answer::Origin);
        assert_eq!(Answer::of(&HeaderMap::new()), Answer::Origin);
    }
}
