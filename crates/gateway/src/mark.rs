//! Recognises requests that come back to this proxy.

use std::hash::{DefaultHasher, Hash, Hasher};

use http::header::VIA;
use http::{HeaderMap, HeaderValue};
use nightwatt_power::probe::OWN_MARK;

/// What is added to `Via` (RFC 9110, 7.6.3) of requests to one site, to recognise a request that comes back: the
/// comment identifies this process and this site. A server may well send requests to another site.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    own: String,
    /// On the proxy's own probes.
    probes: String,
    /// For a request over HTTP/1.1, and for one over HTTP/2.
    pub(crate) via: [HeaderValue; 2],
}

impl Mark {
    pub(crate) fn of(site: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        site.hash(&mut hasher);
        let own = format!("({}-{:x})", OWN_MARK.as_str(), hasher.finish());
        let via = ["1.1", "2.0"].map(|version| {
            HeaderValue::from_str(&format!("{version} nightwatt {own}"))
                .unwrap_or_else(|_| HeaderValue::from_static("1.1 nightwatt"))
        });
        Self { own, probes: format!("({})", OWN_MARK.as_str()), via }
    }

    /// Whether this process has sent the request to this site before, or it is a probe of its own.
    pub(crate) fn is_on(&self, headers: &HeaderMap) -> bool {
        headers.get_all(VIA).iter().any(|via| self.is_in(via.as_bytes()))
    }

    /// The same for one `Via` field.
    pub(crate) fn is_in(&self, via: &[u8]) -> bool {
        let has = |mark: &str| memchr::memmem::find(via, mark.as_bytes()).is_some();
        has(&self.own) || has(&self.probes)
    }
}
