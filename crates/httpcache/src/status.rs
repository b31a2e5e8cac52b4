//! `Cache-Status`: what this cache did with a request (RFC 9211).

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, StatusCode};
use std::fmt;

/// The name of the field.
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// The name under which this cache reports.
const CACHE: &str = "nightwatt";

/// Why a request went to the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forward {
    /// The cache was told to let it pass.
    Bypass,
    /// The method's semantics.
    Method,
    /// Nothing was stored under its key.
    UriMiss,
    /// Something was, but for other values of the fields in `Vary`.
    VaryMiss,
    /// No response that could be used, for either reason.
    Miss,
    /// A fresh response was there, and the request wanted it validated.
    Request,
    /// A stale response was there.
    Stale,
    /// Only a part was there.
    Partial,
}

impl Forward {
    fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

/// One member of `Cache-Status`. [`fmt::Display`] writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    forward: Option<Forward>,
    origin_status: Option<StatusCode>,
    ttl: Option<i64>,
    stored: bool,
    collapsed: bool,
    detail: Option<&'static str>,
}

impl CacheStatus {
    /// Answered from the cache.
    pub const fn hit() -> Self {
        Self {
            forward: None,
            origin_status: None,
            ttl: None,
            stored: false,
            collapsed: false,
            detail: None,
        }
    }

    /// Passed on to the origin.
    pub const fn forwarded(why: Forward) -> Self {
        Self { forward: Some(why), ..Self::hit() }
    }

    /// The origin's status, where it differs from what the client gets.
    #[must_use]
    pub const fn origin_status(mut self, status: StatusCode) -> Self {
        self.origin_status = Some(status);
        self
    }

    /// Seconds for which the response is still fresh; negative if it is stale.
    #[must_use]
    pub const fn ttl(mut self, secs: i64) -> Self {
        self.ttl = Some(secs);
        self
    }

    /// Whether the response is being stored: it is said before the body's end is known, so of one that
    /// breaks off, or turns out too large, nothing is kept. Only of a request that was passed on.
    #[must_use]
    pub const fn stored(mut self, stored: bool) -> Self {
        self.stored = stored;
        self
    }

    /// Whether it waited for another request's answer. Only of a request that was passed on.
    #[must_use]
    pub const fn collapsed(mut self, collapsed: bool) -> Self {
        self.collapsed = collapsed;
        self
    }

    /// One word more: a token (RFC 9110, 5.6.2) that begins with a letter, such as
    /// [`NotStorable::token`](crate::NotStorable::token).
    #[must_use]
    pub const fn detail(mut self, token: &'static str) -> Self {
        self.detail = Some(token);
        self
    }

    /// As a field value.
    pub fn value(&self) -> HeaderValue {
        HeaderValue::try_from(self.to_string()).expect("tokens and digits are ASCII")
    }

    /// Adds it to a response, after the members of caches nearer to the origin.
    pub fn append_to(&self, headers: &mut HeaderMap) {
        headers.append(CACHE_STATUS, self.value());
    }
}

impl fmt::Display for CacheStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CACHE)?;
        match self.forward {
            None => f.write_str("; hit")?,
            Some(why) => write!(f, "; fwd={}", why.token())?,
        }
        if let Some(status) = self.origin_status {
            write!(f, "; fwd-status={}", status.as_u16())?;
        }
        if let Some(ttl) = self.ttl {
            write!(f, "; ttl={ttl}")?;
        }
        // Of a hit neither may be said (RFC 9211, 2.4 and 2.6).
        if self.forward.is_some() && self.stored {
            f.write_str("; stored")?;
        }
        if self.forward.is_some() && self.collapsed {
            f.write_str("; collapsed")?;
        }
        if let Some(detail) = self.detail {
            write!(f, "; detail={detail}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_read_as_in_the_rfc() {
        let hit = CacheStatus::hit().ttl(30).stored(true);
        assert_eq!(hit.to_string(), "nightwatt; hit; ttl=30");
        let miss = CacheStatus::forwarded(Forward::UriMiss).stored(true).collapsed(true);
        assert_eq!(miss.to_string(), "nightwatt; fwd=uri-miss; stored; collapsed");
        let validated = CacheStatus::forwarded(Forward::Stale)
            .origin_status(StatusCode::NOT_MODIFIED)
            .ttl(-412)
            .detail("set-cookie");
        assert_eq!(
            validated.to_string(),
            "nightwatt; fwd=stale; fwd-status=304; ttl=-412; detail=set-cookie"
        );
    }

    #[test]
    fn members_of_other_caches_stay_in_front() {
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_STATUS, HeaderValue::from_static("origin; hit"));
        CacheStatus::hit().append_to(&mut headers);
        let members: Vec<_> = headers.get_all(CACHE_STATUS).iter().collect();
        assert_eq!(members, ["origin; hit", "nightwatt; hit"]);
    }
}
