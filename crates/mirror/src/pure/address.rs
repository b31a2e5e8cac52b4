//! Addresses of one site: path and query, in the form that browsers send.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use url::Url;

/// An address that is longer is not mirrored: nothing that people link to is.
pub const LONGEST_ADDRESS: usize = 2048;

/// The site that is mirrored: one scheme, host and port.
#[derive(Clone, Debug)]
pub struct Site {
    base: Url,
}

/// Why a text does not name a site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no http or https URL of a host: write it like https://example.org")]
pub struct NoSite(String);

/// Why a reference leads to no address of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outside {
    /// Another host or port.
    OtherSite,
    /// Not `http` or `https`: `mailto:`, `data:`, `javascript:`.
    OtherScheme,
    /// Longer than [`LONGEST_ADDRESS`].
    TooLong,
    /// No URL at all, or one with a user name or a password.
    Unreadable,
}

impl Site {
    /// The site with this URL, of which only scheme, host and port count.
    pub fn new(base: &str) -> Result<Self, NoSite> {
        let wrong = || NoSite(base.to_owned());
        let mut url = Url::parse(base).map_err(|_| wrong())?;
        let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
        if !is_web || !url.username().is_empty() || url.password().is_some() {
            return Err(wrong());
        }
        url.set_path("/");
        url.set_query(None);
        url.set_fragment(None);
        Ok(Self { base: url })
    }

    /// Scheme, host and port, with `/` behind them.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// The whole URL of an address.
    pub fn url(&self, address: &Address) -> Url {
        let mut url = self.base.clone();
        // Not `join`: for that, `//x` is another host.
        url.set_path(address.path());
        url.set_query(address.query());
        url
    }

    /// The address that `reference` names on a page whose base is `base`.
    ///
    /// The scheme may differ between `http` and `https`: behind a proxy that ends TLS, a server often
    /// writes one and means the other.
    pub fn resolve(&self, base: &Url, reference: &str) -> Result<Address, Outside> {
        // A reference of some megabytes would be copied by every step below.
        if reference.len() > 4 * LONGEST_ADDRESS {
            return Err(Outside::TooLong);
        }
        let url = base.join(reference).map_err(|_| Outside::Unreadable)?;
        self.address_of(&url)
    }

    /// The address of a URL of this site.
    pub fn address_of(&self, url: &Url) -> Result<Address, Outside> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Outside::OtherScheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Outside::Unreadable);
        }
        if !self.is_own(url) {
            return Err(Outside::OtherSite);
        }
        let path_and_query = &url[url::Position::BeforePath..url::Position::AfterQuery];
        Address::new(path_and_query).ok_or_else(|| {
            let is_long = path_and_query.len() > LONGEST_ADDRESS;
            if is_long { Outside::TooLong } else { Outside::Unreadable }
        })
    }

    fn is_own(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let is_own_host = self.base.host_str() == Some(host);
        let is_same_place = self.base.port_or_known_default() == url.port_or_known_default();
        // Without a port in either, `http` and `https` are the same site.
        let is_default_port = self.base.port().is_none() && url.port().is_none();
        is_own_host && (is_same_place || is_default_port)
    }
}

/// Path and query of a resource of the site, without a fragment.
///
/// Two spellings of one resource (`%7E` and `~`) are two addresses, as two they may be on the server.
///
/// Copies share one text: plan, store and pass have each address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address(Arc<str>);

impl Address {
    /// An address from a path with an optional query, as requests have it; `None` if it could not be sent.
    pub fn new(path_and_query: &str) -> Option<Self> {
        let is_sendable = path_and_query.starts_with('/')
            && path_and_query.len() <= LONGEST_ADDRESS
            && path_and_query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        is_sendable.then(|| Self(path_and_query.into()))
    }

    /// Path and query.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path.
    pub fn path(&self) -> &str {
        self.0.split('?').next().unwrap_or_default()
    }

    /// The query without its question mark.
    pub fn query(&self) -> Option<&str> {
        self.0.split_once('?').map(|(_, query)| query)
    }

    /// The segments of the path, without empty ones.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.path().split('/').filter(|segment| !segment.is_empty())
    }

    /// Names and values of the query, as they stand there.
    pub fn parameters(&self) -> impl Iterator<Item = Parameter<'_>> {
        let pairs = self.query().unwrap_or_default().split(['&', ';']);
        pairs.filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Parameter { name, value }
        })
    }
}

/// One parameter of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Before the equals sign.
    pub name: &'a str,
    /// Behind it.
    pub value: &'a str,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for Address {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        (*address.0).into()
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text).ok_or_else(|| format!("{text:?} is no path with an optional query"))
    }
}

/// Path and query in the form in which a server may take them for another: escapes are undone, but those of `*`, `?`
/// and `#`; doubled slashes are one, and `.` and `..` steps are taken. For comparing, never for asking.
pub(crate) fn unescaped(text: &str) -> String {
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    let path = without_escapes(path, b"*?#");
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            ".." => {
                steps.pop();
            }
            "." | "" => {}
            step => steps.push(step),
        }
    }
    let is_folder = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    // Of a pattern, the beginning may be missing.
    let start = if path.starts_with('/') { "/" } else { "" };
    let end = if is_folder && !steps.is_empty() { "/" } else { "" };
    let path = format!("{start}{}{end}", steps.join("/"));
    match query {
        Some(query) => format!("{path}?{}", without_escapes(query, b"*#")),
        None => path,
    }
}

/// Undoes percent-escapes, but those of the bytes of `kept`.
fn without_escapes(text: &str, kept: &[u8]) -> String {
    let (bytes, mut plain, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| byte == b'%');
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let escaped = escaped.filter(|byte| !kept.contains(byte));
        plain.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Undoes percent-escapes and the case of letters: for comparing words, never for asking.
pub(crate) fn plain(text: &str) -> String {
    without_escapes(text, b"").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn site() -> Site {
        Site::new("https://example.org").unwrap()
    }

    fn resolved(base: &str, reference: &str) -> Result<String, Outside> {
        let base = site().base().join(base).unwrap();
        site().resolve(&base, reference).map(|address| address.to_string())
    }

    #[test]
    fn references_are_resolved_as_in_rfc_3986() {
        // RFC 3986, 5.4.1 and 5.4.2, with their base, on this site.
        for (reference, address) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q"),
            ("g#s", "/b/c/g"),
            ("g?y#s", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("..", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            ("..g", "/b/c/..g"),
            ("./g/.", "/b/c/g/"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/../x", "/b/c/g?y/../x"),
        ] {
            assert_eq!(resolved("/b/c/d;p?q", reference).as_deref(), Ok(address), "{reference}");
        }
    }

    #[test]
    fn browsers_forgive_and_so_do_we() {
        // WHATWG URL, 4.4: tabs and ends of lines go, backslashes are slashes, spaces are escaped.
        assert_eq!(resolved("/a/b", " /x\n y ").as_deref(), Ok("/x%20y"));
        assert_eq!(resolved("/a/b", "\\c\\d").as_deref(), Ok("/c/d"));
        assert_eq!(resolved("/a/b", "/ä?ö").as_deref(), Ok("/%C3%A4?%C3%B6"));
    }

    #[test]
    fn the_same_site_is_the_same_host_by_either_scheme() {
        for own in ["http://example.org/x", "//EXAMPLE.org/x", "https://example.org:443/x"] {
            assert_eq!(resolved("/", own).as_deref(), Ok("/x"), "{own}");
        }
        for (foreign, why) in [
            ("https://example.com/x", Outside::OtherSite),
            ("https://www.example.org/x", Outside::OtherSite),
            ("https://example.org:8443/x", Outside::OtherSite),
            ("https://example.org.evil.test/", Outside::OtherSite),
            ("https://me:secret@example.org/", Outside::Unreadable),
            ("mailto:me@example.org", Outside::OtherScheme),
            ("javascript:alert(1)", Outside::OtherScheme),
            ("data:text/plain,x", Outside::OtherScheme),
            ("https://[", Outside::Unreadable),
            // This one broke an assertion within a library.
            ("//exampB\u{fffd}.org/", Outside::Unreadable),
            ("//EX\u{c4}MPLE.org/", Outside::OtherSite),
        ] {
            assert_eq!(resolved("/", foreign), Err(why), "{foreign}");
        }
        let long = format!("/{}", "x".repeat(LONGEST_ADDRESS));
        assert_eq!(resolved("/", &long), Err(Outside::TooLong));
    }

    #[test]
    fn only_a_host_by_http_is_a_site() {
        for wrong in ["example.org", "ftp://example.org", "https://me@example.org", "data:x", ""] {
            assert_eq!(Site::new(wrong).unwrap_err(), NoSite(wrong.to_owned()));
        }
        let site = Site::new("http://192.168.1.2:8080/path?x#y").unwrap();
        assert_eq!(site.base().as_str(), "http://192.168.1.2:8080/");
    }

    #[test]
    fn an_address_can_be_sent_as_it_is() {
        assert!(Address::new("/a?b=c&d").is_some());
        for wrong in ["", "a", "/a b", "/a#b", "/ä", "/a\n", "http://x/"] {
            assert_eq!(Address::new(wrong), None, "{wrong}");
        }
        let address = Address::new("/a//b?c=d&&e").unwrap();
        assert_eq!(address.segments().collect::<Vec<_>>(), ["a", "b"]);
        let parameters: Vec<_> = address.parameters().map(|it| (it.name, it.value)).collect();
        assert_eq!(parameters, [("c", "d"), ("e", "")]);
        assert_eq!(plain("/Log%2DOut%"), "/log-out%");
    }

    proptest! {
        #[test]
        fn an_address_resolves_to_itself(reference in "[ -~äö\\t\\n]{0,40}") {
            let site = site();
            if let Ok(address) = site.resolve(site.base(), &reference) {
                prop_assert_eq!(Address::new(address.as_str()), Some(address.clone()));
                prop_assert_eq!(site.address_of(&site.url(&address)), Ok(address));
            }
        }
    }
}
