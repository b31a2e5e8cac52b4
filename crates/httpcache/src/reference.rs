//! URI references in `Location` and `Content-Location`, resolved against the request's target
//! (RFC 3986, 5.2), as far as they stay on the same host.

use crate::key::SECURE;

/// Path and query of the resource that `reference` names; `None` if it lies on another host or is no
/// reference at all.
///
/// The scheme may differ: behind a proxy that ends TLS an origin often writes `http:` where the
/// client sees `https:`, and means what the client asked for.
pub(crate) fn resolve(authority: &str, path_and_query: &str, reference: &str) -> Option<String> {
    let authority = authority.strip_prefix(SECURE).unwrap_or(authority);
    let reference = reference.trim().split('#').next().unwrap_or_default();
    let (base_path, base_query) = split_query(path_and_query);
    if let Some((scheme, rest)) = split_scheme(reference) {
        let known = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        let with_host = rest.strip_prefix("//").filter(|_| known)?;
        return on_host(authority, with_host);
    }
    if let Some(with_host) = reference.strip_prefix("//") {
        return on_host(authority, with_host);
    }
    let (path, query) = split_query(reference);
    if path.is_empty() {
        return Some(join(base_path, query.or(base_query)));
    }
    if path.starts_with('/') {
        return Some(join(&without_dots(path), query));
    }
    let folder = base_path.rfind('/').map_or("/", |slash| &base_path[..=slash]);
    Some(join(&without_dots(&format!("{folder}{path}")), query))
}

/// The scheme, and what follows its colon.
fn split_scheme(reference: &str) -> Option<(&str, &str)> {
    let end = reference.find([':', '/', '?'])?;
    let (scheme, rest) = reference.split_at(end);
    Some((scheme, rest.strip_prefix(':')?))
}

/// Path and query of `host/path?query`, if the host is `authority`.
fn on_host(authority: &str, rest: &str) -> Option<String> {
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path_and_query) = rest.split_at(end);
    let bare = |host: &str| {
        let host = host.to_ascii_lowercase();
        let bare = host.strip_suffix(":80").or_else(|| host.strip_suffix(":443"));
        bare.map_or(host.clone(), str::to_owned)
    };
    if bare(host) != bare(authority) {
        return None;
    }
    let (path, query) = split_query(path_and_query);
    Some(join(&without_dots(path), query))
}

fn split_query(text: &str) -> (&str, Option<&str>) {
    text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)))
}

fn join(path: &str, query: Option<&str>) -> String {
    query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
}

/// An absolute path with its `.` and `..` segments worked out.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(reference: &str) -> Option<String> {
        resolve("example.org", "/a/b?q=1", reference)
    }

    #[test]
    fn references_are_resolved_as_in_rfc_3986() {
        for (reference, path) in [
            ("", "/a/b?q=1"),
            ("#part", "/a/b?q=1"),
            ("?x", "/a/b?x"),
            ("c", "/a/c"),
            ("./c?y", "/a/c?y"),
            ("../c", "/c"),
            ("../../../c", "/c"),
            ("..", "/"),
            (".", "/a/"),
            ("/x/./y/../z", "/x/z"),
            ("c/d:e", "/a/c/d:e"),
            ("//example.org/x", "/x"),
            ("http://EXAMPLE.org:80/x?y", "/x?y"),
            ("https://example.org", "/"),
            ("https://example.org?y", "/?y"),
        ] {
            assert_eq!(of(reference).as_deref(), Some(path), "{reference}");
        }
    }

    #[test]
    fn other_hosts_and_schemes_are_out_of_reach() {
        for foreign in [
            "http://example.com/x",
            "http://example.org:8080/x",
            "//evil/x",
            "mailto:me",
            "http:x",
            "http://example.org@evil/x",
        ] {
            assert_eq!(of(foreign), None, "{foreign}");
        }
    }

    proptest! {
        #[test]
        fn resolving_never_panics(base in "/.{0,10}", reference in ".{0,30}") {
            if let Some(found) = resolve("h", &base, &reference) {
                prop_assert!(found.starts_with('/'));
            }
        }
    }
}
