//! What an operator wants forgotten.

use crate::key::{CacheKey, KeyRules, SECURE, normal_authority};

/// Some or all responses of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// All of them.
    All,
    /// Those of one resource.
    Exact(Place),
    /// Those whose path and query begin so: text, not folders; `/a` is the beginning of `/ab` too.
    Prefix(Place),
}

/// A path with its query, on one host or on all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// As in a [`CacheKey`]: lower case, without a default port.
    host: Option<Box<str>>,
    path_and_query: Box<str>,
}

/// A text that names nothing to be purged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no place: write a URL, as in `http://example.org/a?b`, or a path that begins with `/`"
)]
pub struct BadPlace(String);

impl Place {
    /// Reads `http://host/path?query`, or `/path?query`, which is meant on every host.
    pub fn parse(text: &str) -> Result<Self, BadPlace> {
        let bad = || BadPlace(text.to_owned());
        if text.starts_with('/') {
            let place = Self { host: None, path_and_query: text.into() };
            // The host does not matter to whether there is a key.
            return KeyRules::default().key("host", text).map(|_| place).ok_or_else(bad);
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(bad());
        }
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        // Each scheme has a default port of its own.
        let secure = scheme.eq_ignore_ascii_case("https");
        let scheme = if secure { SECURE } else { "" };
        let base = format!("{scheme}{}", normal_authority(secure, authority));
        let key = KeyRules::default().key(&base, &target).ok_or_else(bad)?;
        let (host, path_and_query) = split(&key);
        Ok(Self { host: Some(host.into()), path_and_query: path_and_query.into() })
    }

    /// The host, if one is named.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    fn is_on(&self, host: &str) -> bool {
        self.host.as_deref().is_none_or(|own| own == host)
    }
}

impl Purge {
    /// As the keys of a site are made: what they leave out or sort is left out and sorted here too.
    /// Of a beginning only the text is known, and it stays as it is.
    #[must_use]
    pub fn under(self, rules: &KeyRules) -> Self {
        let Self::Exact(place) = self else { return self };
        let host = place.host.as_deref().unwrap_or("host");
        let path_and_query = match rules.key(host, &place.path_and_query) {
            Some(key) => split(&key).1.into(),
            None => place.path_and_query,
        };
        Self::Exact(Place { host: place.host, path_and_query })
    }

    /// Whether a response with this key is to go.
    pub fn covers(&self, key: &CacheKey) -> bool {
        let (host, path_and_query) = split(key);
        match self {
            Self::All => true,
            Self::Exact(place) => place.is_on(host) && *place.path_and_query == *path_and_query,
            Self::Prefix(place) => {
                place.is_on(host) && path_and_query.starts_with(&*place.path_and_query)
            }
        }
    }
}

/// Host, and path with query: by TLS or not.
fn split(key: &CacheKey) -> (&str, &str) {
    let (_, host, path_and_query) = key.parts();
    (host, path_and_query)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(purge: &Purge, keys: &[(&str, &str)]) -> Vec<String> {
        let keys = keys.iter().map(|(host, target)| KeyRules::default().key(host, target).unwrap());
        keys.filter(|key| purge.covers(key)).map(|key| key.to_string()).collect()
    }

    #[test]
    fn a_dot_behind_the_host_makes_no_difference() {
        let purge = Purge::Exact(Place::parse("http://A.example.:80/blog").unwrap());
        assert_eq!(covered(&purge, &[("a.example", "/blog")]), ["a.example/blog"]);
    }

    #[test]
    fn what_came_by_tls_is_forgotten_with_the_rest() {
        let keys = [("https://a.example", "/blog"), ("a.example", "/blog")];
        let purge = Purge::Exact(Place::parse("http://a.example/blog").unwrap());
        assert_eq!(covered(&purge, &keys), ["https://a.example/blog", "a.example/blog"]);
    }

    const KEYS: [(&str, &str); 6] = [
        ("a.example", "/"),
        ("a.example", "/blog"),
        ("a.example", "/blog/1?page=2"),
        ("a.example", "/blogroll"),
        ("b.example", "/blog"),
        ("b.example:8080", "/blog"),
    ];

    #[test]
    fn a_place_is_a_url_or_a_path() {
        let place = Place::parse("HTTPS://A.example:443/x?Y").unwrap();
        assert_eq!((place.host(), &*place.path_and_query), (Some("a.example"), "/x?Y"));
        assert_eq!(&*Place::parse("http://a").unwrap().path_and_query, "/");
        assert_eq!(&*Place::parse("http://a?b").unwrap().path_and_query, "/?b");
        for bad in
            ["", "a.example/x", "ftp://a/x", "http:///x", "http://a b/", "/x#y", "http://u@a/"]
        {
            assert!(Place::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn exactly_one_resource_or_all_that_begin_so() {
        let exact = |text: &str| covered(&Purge::Exact(Place::parse(text).unwrap()), &KEYS);
        assert_eq!(exact("http://a.example/blog"), ["a.example/blog"]);
        assert_eq!(exact("/blog"), ["a.example/blog", "b.example/blog", "b.example:8080/blog"]);
        assert_eq!(exact("http://a.example/blo"), [""; 0]);
        let prefix = |text: &str| covered(&Purge::Prefix(Place::parse(text).unwrap()), &KEYS);
        assert_eq!(
            prefix("http://a.example/blog"),
            ["a.example/blog", "a.example/blog/1?page=2", "a.example/blogroll"]
        );
        assert_eq!(prefix("/blog/"), ["a.example/blog/1?page=2"]);
        assert_eq!(covered(&Purge::All, &KEYS).len(), KEYS.len());
    }

    #[test]
    fn what_keys_leave_out_need_not_be_written() {
        let rules = KeyRules { ignore_query: vec!["utm_*".into()], sort_query: true };
        let key = rules.key("a", "/x?b=1&a=2").unwrap();
        for text in ["/x?b=1&a=2", "http://A/x?b=1&utm_source=y&a=2"] {
            let purge = Purge::Exact(Place::parse(text).unwrap());
            assert!(purge.clone().under(&rules).covers(&key), "{text}");
            assert!(!purge.covers(&key), "{text}");
        }
    }
}
