//! Cache keys: what makes two requests the same.

use std::fmt;

/// How requests become cache keys.
///
/// By default nothing is changed but the case of the host and its default port: two addresses that
/// differ in anything else may be two resources (RFC 9110, 4.2.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRules {
    /// Query parameters that change nothing (`utm_source`); a `*` at the end stands for any ending,
    /// so a lone `*` drops the whole query.
    pub ignore_query: Vec<String>,
    /// Whether the order of query parameters is immaterial.
    pub sort_query: bool,
}

/// What a key, and the authority that one is made of, begins with if the request came by TLS.
pub const SECURE: &str = "https://";

/// Identifies what a request asks for: host, path and query, and whether by TLS.
///
/// Servers that know how a client speaks answer differently: what they answer to plain HTTP, such as a
/// redirect to TLS, must not reach a client that speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey(Box<str>);

impl CacheKey {
    /// The key whose text [`KeyRules::write`] has written.
    pub fn of_written(text: &str) -> Self {
        Self(text.into())
    }

    /// The key as text, such as `example.org/a?b=c`, or `https://example.org/a?b=c`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it was asked for by TLS, host (perhaps with a port), and path with query.
    pub fn parts(&self) -> (bool, &str, &str) {
        let secure = self.0.strip_prefix(SECURE);
        let rest = secure.unwrap_or(&self.0);
        // No host has a slash in it.
        let (host, path_and_query) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        (secure.is_some(), host, path_and_query)
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for CacheKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl KeyRules {
    /// The key of a request for `path_and_query` at `authority` (host and perhaps port, after
    /// [`SECURE`] if it came by TLS); `None` if either is not what it should be, and the request must not
    /// touch the cache.
    pub fn key(&self, authority: &str, path_and_query: &str) -> Option<CacheKey> {
        let mut key = String::with_capacity(authority.len() + path_and_query.len());
        let (secure, authority) = match authority.strip_prefix(SECURE) {
            Some(authority) => (true, authority),
            None => (false, authority),
        };
        let is_written = self.write(&mut key, secure, authority, path_and_query);
        is_written.then(|| CacheKey(key.into_boxed_str()))
    }

    /// As [`KeyRules::key`], appended to `out`, which a caller can use again and again; look the
    /// text up by `CacheKey: Borrow<str>`. The authority has no scheme; `secure` means `https`. False, and `out`
    /// unchanged, where there is no key.
    pub fn write(
        &self,
        out: &mut String,
        secure: bool,
        authority: &str,
        path_and_query: &str,
    ) -> bool {
        let authority = without_default_port(secure, authority);
        // A slash in the host would let one site's key equal another's.
        if !is_host(authority) || !path_and_query.starts_with('/') || path_and_query.contains('#') {
            return false;
        }
        if secure {
            out.push_str(SECURE);
        }
        let host = out.len();
        out.push_str(authority);
        out[host..].make_ascii_lowercase();
        let Some((path, query)) = path_and_query.split_once('?') else {
            out.push_str(path_and_query);
            return true;
        };
        out.push_str(path);
        if self.ignore_query.is_empty() && !self.sort_query {
            out.push('?');
            out.push_str(query);
        } else {
            self.write_query(out, query);
        }
        true
    }

    fn write_query(&self, out: &mut String, query: &str) {
        let mut kept: Vec<&str> =
            query.split('&').filter(|parameter| !self.ignores(parameter)).collect();
        if self.sort_query {
            // By name only, and stable: the order of values under one name may matter.
            kept.sort_by_cached_key(|parameter| variable_of(name_of(parameter)));
        }
        let mut separator = '?';
        for parameter in kept {
            out.push(separator);
            out.push_str(parameter);
            separator = '&';
        }
    }

    /// A semicolon separates parameters too where servers are old enough: what follows it may count.
    fn ignores(&self, parameter: &str) -> bool {
        if parameter.contains(';') {
            return false;
        }
        let name = name_of(parameter);
        self.ignore_query.iter().any(|pattern| matches_name(pattern, name))
    }
}

/// Whether a name is meant by a pattern: the same, or the same up to a `*` at the pattern's end.
pub(crate) fn matches_name(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

fn name_of(parameter: &str) -> &str {
    parameter.split_once('=').map_or(parameter, |(name, _)| name)
}

/// The variable that a parameter's name means to servers that unescape names, nest them (`a[]`, `a.b`) or write
/// dots and blanks as underscores.
fn variable_of(name: &str) -> String {
    let plain = without_escapes(name).replace(['.', '+', ' '], "_");
    plain.split(['[', '_']).next().unwrap_or_default().to_owned()
}

/// Text with its percent-escapes decoded; a malformed escape stays as it is.
pub(crate) fn without_escapes(text: &str) -> String {
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.as_bytes().get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| byte == b'%');
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An authority as origins are told it and as keys have it: in lower case, without the scheme's own port,
/// and without the dot that ends a fully qualified name. The port of the other scheme stays: it is another
/// place, and servers repeat it in redirects.
pub fn normal_authority(secure: bool, authority: &str) -> String {
    let bare = without_default_port(secure, authority);
    let (host, port) = match bare.rfind(':') {
        Some(colon) if !bare.ends_with(']') => bare.split_at(colon),
        _ => (bare, ""),
    };
    let host = host.strip_suffix('.').filter(|host| !host.is_empty()).unwrap_or(host);
    let mut normal = host.to_ascii_lowercase();
    normal.push_str(port);
    normal
}

fn without_default_port(secure: bool, authority: &str) -> &str {
    let bare = authority.strip_suffix(if secure { ":443" } else { ":80" });
    bare.or_else(|| authority.strip_suffix(':')).unwrap_or(authority)
}

fn is_host(authority: &str) -> bool {
    // A pattern compiles to a test of one bit, and this runs for each request.
    let is_mark = |b| {
        matches!(
            b,
            b'!' | b'$'..=b'+' | b'-' | b'.' | b':' | b';' | b'=' | b'[' | b']' | b'_' | b'~'
        )
    };
    let allowed = |b: u8| b.is_ascii_alphanumeric() || is_mark(b);
    // Without a colon at its end no host can pose as a scheme.
    !authority.is_empty() && !authority.ends_with(':') && authority.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(rules: &KeyRules, authority: &str, target: &str) -> Option<String> {
        rules.key(authority, target).map(|key| key.to_string())
    }

    #[test]
    fn host_case_and_default_port_do_not_matter() {
        let rules = KeyRules::default();
        let plain = key(&rules, "example.org", "/A?b=C");
        assert_eq!(plain.as_deref(), Some("example.org/A?b=C"));
        for same in ["EXAMPLE.org", "example.org:80", "example.org:"] {
            assert_eq!(key(&rules, same, "/A?b=C"), plain, "{same}");
        }
        // The port of the other scheme is another place: a server repeats it in redirects.
        assert_eq!(
            key(&rules, "example.org:443", "/A?b=C").as_deref(),
            Some("example.org:443/A?b=C")
        );
        assert_eq!(
            key(&rules, "https://example.org:80", "/").as_deref(),
            Some("https://example.org:80/")
        );
        assert_eq!(key(&rules, "[::1]:80", "/").as_deref(), Some("[::1]/"));
        assert_ne!(key(&rules, "example.org:8080", "/A?b=C"), plain);
        assert_ne!(key(&rules, "example.org", "/A?b=c"), plain);
    }

    #[test]
    fn what_came_by_tls_has_a_key_of_its_own_that_nothing_else_can_have() {
        let rules = KeyRules::default();
        let secure = rules.key("https://Example.org:443", "/a?b").unwrap();
        assert_eq!(secure.as_str(), "https://example.org/a?b");
        assert_eq!(secure.parts(), (true, "example.org", "/a?b"));
        let plain = rules.key("example.org", "/a?b").unwrap();
        assert_eq!(plain.parts(), (false, "example.org", "/a?b"));
        for host in ["https:", "https::", "https"] {
            let key = key(&rules, host, "//example.org/a?b");
            assert_ne!(key.as_deref(), Some("https://example.org/a?b"), "{host}");
        }
    }

    #[test]
    fn a_host_cannot_pose_as_a_path() {
        let rules = KeyRules::default();
        for (authority, target) in
            [("a/b", "/c"), ("", "/c"), ("a", "c"), ("a b", "/c"), ("u@a", "/c"), ("a", "/b#c")]
        {
            assert_eq!(key(&rules, authority, target), None, "{authority} {target}");
        }
    }

    #[test]
    fn ignored_parameters_leave_no_trace() {
        let rules =
            KeyRules { ignore_query: vec!["utm_*".into(), "fbclid".into()], ..KeyRules::default() };
        let of = |query: &str| key(&rules, "h", &format!("/p{query}")).unwrap();
        assert_eq!(of("?utm_source=x&a=1&fbclid=2&b"), "h/p?a=1&b");
        assert_eq!(of("?utm_source=x"), "h/p");
        assert_eq!(of("?fbclids=1"), "h/p?fbclids=1");
        let all = KeyRules { ignore_query: vec!["*".into()], ..KeyRules::default() };
        assert_eq!(key(&all, "h", "/p?a&b").as_deref(), Some("h/p"));
        // Some servers read `;` as `&`.
        assert_eq!(of("?utm_content=x;lang=evil"), "h/p?utm_content=x;lang=evil");
        assert_eq!(key(&all, "h", "/p?a;b&c").as_deref(), Some("h/p?a;b"));
    }

    /// PHP and Rails nest `a[]`, PHP reads `a.b` as `a_b`, and every server unescapes names.
    #[test]
    fn sorting_keeps_the_order_of_what_may_be_one_variable() {
        let rules = KeyRules { sort_query: true, ..KeyRules::default() };
        let of = |query: &str| key(&rules, "h", &format!("/p?{query}")).unwrap();
        assert_eq!(of("b=1&a=2"), of("a=2&b=1"));
        for (one, other) in [
            ("a=1&a=2", "a=2&a=1"),
            ("a[]=2&a=1", "a=1&a[]=2"),
            ("%6cang=de&lang=en", "lang=en&%6cang=de"),
            ("a.b=1&a_b=2", "a_b=2&a.b=1"),
            ("a%5b%5d=2&a[]=1", "a[]=1&a%5b%5d=2"),
        ] {
            assert_ne!(of(one), of(other), "{one}");
        }
    }

    #[test]
    fn an_authority_has_one_normal_form() {
        for (secure, text, normal) in [
            (false, "Example.ORG:80", "example.org"),
            (false, "example.org:443", "example.org:443"),
            (true, "example.org:443", "example.org"),
            (true, "example.org:80", "example.org:80"),
            (false, "example.org.", "example.org"),
            (false, "example.org.:8080", "example.org:8080"),
            (false, "example.org:", "example.org"),
            (false, "[::1]:80", "[::1]"),
            (true, "[2001:DB8::1]", "[2001:db8::1]"),
            (false, ".", "."),
            (false, "", ""),
        ] {
            assert_eq!(normal_authority(secure, text), normal, "{text}");
            assert_eq!(normal_authority(secure, normal), normal, "{text}: twice");
        }
    }

    #[test]
    fn sorting_keeps_the_order_under_one_name() {
        let rules = KeyRules { sort_query: true, ..KeyRules::default() };
        assert_eq!(key(&rules, "h", "/?b=2&a=9&b=1").as_deref(), Some("h/?a=9&b=2&b=1"));
        assert_eq!(KeyRules::default().key("h", "/?b&a").unwrap().as_str(), "h/?b&a");
    }

    proptest! {
        #[test]
        fn keys_never_panic_and_are_stable(
            authority in ".{0,20}",
            target in ".{0,30}",
            secure: bool,
            sort: bool,
        ) {
            let rules = KeyRules { ignore_query: vec!["a*".into()], sort_query: sort };
            let mut out = String::from("before");
            let wrote = rules.write(&mut out, secure, &authority, &target);
            let base = if secure { format!("{SECURE}{authority}") } else { authority };
            let key = rules.key(&base, &target);
            prop_assert_eq!(key.as_ref().map(CacheKey::as_str), wrote.then(|| &out["before".len()..]));
            prop_assert_eq!(out == "before", !wrote);
        }
    }
}
