//! The scheme and host of a mirror's pages.

use nightwatt_httpcache::{SECURE, normal_authority};
use nightwatt_mirror::pure::address::Site;

use crate::facts;

/// The scheme and host of the pages. Under another name the server may show other pages, so only requests for this
/// one are answered from the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Base {
    pub(super) secure: bool,
    pub(super) authority: String,
}

impl Base {
    /// From a URL.
    pub(super) fn of_url(url: &str) -> Option<Self> {
        let site = Site::new(url).ok()?;
        let url = site.base();
        let secure = url.scheme() == "https";
        let host = url.host_str()?;
        let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Some(Self { secure, authority: normal_authority(secure, &authority) })
    }

    /// From the base of cache keys.
    pub(super) fn of_key(key: &str) -> Option<Self> {
        let url = if key.starts_with(SECURE) { key.to_owned() } else { format!("http://{key}") };
        Self::of_url(&url)
    }

    /// As a URL.
    pub(super) fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// The base of cache keys.
    pub(super) fn key(&self) -> String {
        facts::base(self.secure, &self.authority)
    }

    /// Whether this is the base of a request's cache key.
    pub(super) fn is_of(&self, key: &str) -> bool {
        match key.strip_prefix(SECURE) {
            Some(authority) => self.is(true, authority),
            None => self.is(false, key),
        }
    }

    /// Whether it has this scheme, and this host in normal form.
    pub(crate) fn is(&self, secure: bool, authority: &str) -> bool {
        self.secure == secure && self.authority == authority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_the_same_as_url_and_as_key() {
        for (url, key) in [
            ("http://blog.example", "blog.example"),
            ("https://blog.example", "https://blog.example"),
            ("http://10.0.0.1:8080", "10.0.0.1:8080"),
            ("https://[::1]:8443", "https://[::1]:8443"),
        ] {
            let base = Base::of_url(url).unwrap();
            assert_eq!((base.url().as_str(), base.key().as_str()), (url, key));
            assert_eq!(Base::of_key(key).as_ref(), Some(&base));
            assert!(base.is_of(key));
            assert!(!base.is_of("other.example"));
        }
        let base = Base::of_url("HTTPS://Blog.Example:443/x").unwrap();
        assert_eq!(base.url(), "https://blog.example");
        assert!(!base.is_of("blog.example"), "by TLS it may be another page");
    }
}
