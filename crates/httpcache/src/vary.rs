//! `Vary`: which requests a stored response answers (RFC 9111, 4.1).

use crate::operator_rules::CookieRules;
use crate::sharing::{FieldClass, counting_cookies, field_rule};
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, ACCEPT_LANGUAGE, COOKIE, HOST, HeaderName, VARY};

/// Fields that the origin gets otherwise than the client sent them: there is no telling which request would
/// be given the same.
const CHANGED_ON_THE_WAY: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-request-id"];

/// Fields that say what the cache key says.
const IN_THE_KEY: [&str; 2] = ["x-forwarded-host", "x-forwarded-proto"];

/// What `Vary` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// The fields it names, in lower case, each once; empty if there is no `Vary`.
    On(Vec<HeaderName>),
    /// `*`, something that is not a field name, or a field that the origin gets otherwise than the client
    /// sent it: no other request matches.
    Any,
}

impl Vary {
    /// Reads all `Vary` fields of a response.
    pub fn parse(headers: &HeaderMap) -> Self {
        let mut names = Vec::new();
        for line in headers.get_all(VARY) {
            for member in line.as_bytes().split(|&b| b == b',').map(<[u8]>::trim_ascii) {
                if member.is_empty() {
                    continue;
                }
                // `*` is a token too, and would pass for a field name.
                match HeaderName::from_bytes(member) {
                    Ok(name) if name == HOST || IN_THE_KEY.contains(&name.as_str()) => {}
                    Ok(name) if CHANGED_ON_THE_WAY.contains(&name.as_str()) => return Self::Any,
                    Ok(name) if member != b"*" => names.push(name),
                    _ => return Self::Any,
                }
            }
        }
        names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        Self::On(names)
    }
}

/// The request fields that a stored response was chosen by, in normal form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selecting(Vec<(HeaderName, Option<Box<[u8]>>)>);

impl Selecting {
    /// Keeps what `names` select of a request's fields. Of cookies only those count that are not harmless.
    pub fn new(names: &[HeaderName], request: &HeaderMap, cookies: &CookieRules) -> Self {
        let fields = names.iter().map(|name| {
            let value = if *name == COOKIE {
                counting_cookies(request, cookies)
            } else {
                request.contains_key(name).then(|| normal_form(name, request))
            };
            (name.clone(), value)
        });
        Self(fields.collect())
    }

    /// Whether a request has the same fields: absent where they were absent, and the same in normal
    /// form elsewhere. `Accept-Language` may differ if what it prefers is the response's `language`
    /// (its `Content-Language`): the origin could do no better. `Accept-Encoding` may differ if the
    /// response is to one of the proxy's own requests, and [`own_encoding`] is the same.
    pub fn matches(
        &self,
        request: &HeaderMap,
        language: Option<&[u8]>,
        cookies: &CookieRules,
    ) -> bool {
        self.0.iter().all(|(name, stored)| {
            if *name == COOKIE {
                return counting_cookies(request, cookies) == *stored;
            }
            let values = || request.get_all(name).iter().map(http::HeaderValue::as_bytes);
            let same = match stored {
                None => !request.contains_key(name),
                Some(stored) => {
                    let mut lines = values();
                    match (lines.next(), lines.next()) {
                        (None, _) => false,
                        // Most requests repeat the stored text to the letter, and then nothing is
                        // allocated: a normal form is its own normal form.
                        (Some(line), None) if line == &**stored => true,
                        _ => normal_form(name, request) == *stored,
                    }
                }
            };
            same || *name == ACCEPT_ENCODING && is_own_encoding(stored.as_deref(), values())
                || *name == ACCEPT_LANGUAGE
                    && language.is_some_and(|language| prefers(request, language))
        })
    }

    /// Whether a request has the same fields, as far as its letters tell. `values` gives its fields of a name.
    pub fn compare_plainly<'a, V: Iterator<Item = &'a [u8]>>(
        &self,
        values: impl Fn(&HeaderName) -> V,
    ) -> PlainMatch {
        let fields = self.0.iter().map(|(name, stored)| {
            let mut lines = values(name);
            let (first, second) = (lines.next(), lines.next());
            let is_own = || is_own_encoding(stored.as_deref(), values(name));
            match (stored.as_deref(), first) {
                (stored, first) if stored == first && second.is_none() => PlainMatch::Exact,
                (Some(own), _) if *name == ACCEPT_ENCODING && is_own_word(own) => {
                    if is_own() {
                        PlainMatch::ByEncoding
                    } else {
                        PlainMatch::None
                    }
                }
                (Some(_), None) => PlainMatch::None,
                (None, Some(_)) if *name != ACCEPT_LANGUAGE => PlainMatch::None,
                _ => PlainMatch::Unknown,
            }
        });
        fields.max().unwrap_or(PlainMatch::Exact)
    }

    /// Whether no field that it was chosen by names its sender, whatever an operator says of it.
    pub fn is_anonymous(&self) -> bool {
        self.0.iter().all(|(name, value)| {
            let rule = field_rule(name.as_str().as_bytes()).map(|rule| rule.class);
            value.is_none() || matches!(rule, Some(FieldClass::Neutral | FieldClass::Selecting))
        })
    }

    /// Whether the response answers every request for its key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields and their values in normal form; `None` where the field was absent. For caches that
    /// write responses to disk.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, Option<&[u8]>)> {
        self.0.iter().map(|(name, value)| (name, value.as_deref()))
    }
}

/// How the letters of a request's fields compare with those of a stored response. Of several fields the last
/// of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlainMatch {
    /// They are the same.
    Exact,
    /// The same [`own_encoding`] does for both.
    ByEncoding,
    /// They differ, and their normal forms may be the same.
    Unknown,
    /// They differ.
    None,
}

/// The codings that the proxy asks for by itself: a request that accepts gzip is answered as the first,
/// any other as the second.
pub const OWN_ENCODINGS: [&str; 2] = ["gzip", "identity"];

/// Which of [`OWN_ENCODINGS`] does for a request with these lines of `Accept-Encoding`; `None` if it
/// refuses an answer without a coding, or cannot be read.
pub fn own_encoding<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<&'static str> {
    let [mut gzip, mut identity, mut any] = [None; 3];
    for member in lines.flat_map(|line| line.split(|&b| b == b',')).map(<[u8]>::trim_ascii) {
        if member.is_empty() {
            continue;
        }
        let (coding, weight) = weighed(member)?;
        let is = |name: &[u8]| coding.eq_ignore_ascii_case(name);
        let accepted = Some(weight > 0);
        match () {
            () if is(b"gzip") || is(b"x-gzip") => gzip = accepted,
            () if is(b"identity") => identity = accepted,
            () if is(b"*") => any = accepted,
            () => {}
        }
    }
    if !identity.or(any).unwrap_or(true) {
        return None;
    }
    let [with_gzip, without] = OWN_ENCODINGS;
    Some(if gzip.or(any).unwrap_or(false) { with_gzip } else { without })
}

fn is_own_word(stored: &[u8]) -> bool {
    OWN_ENCODINGS.iter().any(|own| own.as_bytes() == stored)
}

fn is_own_encoding<'a>(stored: Option<&[u8]>, lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let stored = stored.filter(|it| is_own_word(it));
    stored.is_some_and(|stored| own_encoding(lines).is_some_and(|own| own.as_bytes() == stored))
}

/// A field's value with its lines joined, and without white space around commas outside of quotes.
///
/// In `Accept-Language` neither case nor order of the languages matters: preferences stand in `q`,
/// and order only breaks ties (RFC 9110, 12.5.4, gives it no meaning at all).
fn normal_form(name: &HeaderName, headers: &HeaderMap) -> Box<[u8]> {
    let mut members = Vec::new();
    for line in headers.get_all(name) {
        let mut rest = line.as_bytes();
        loop {
            let (member, tail, whole) = crate::directives::next_member(rest);
            // Where a quote never ends nothing is known of the text: it stays as it is.
            if !whole {
                members.push(rest);
                break;
            }
            members.push(member.trim_ascii());
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
    }
    if *name != ACCEPT_LANGUAGE {
        return members.join(&b","[..]).into_boxed_slice();
    }
    let mut languages: Vec<Vec<u8>> = members
        .into_iter()
        .filter(|language| !language.is_empty())
        .map(|language| {
            let letters = language.iter().filter(|b| !b.is_ascii_whitespace());
            letters.map(u8::to_ascii_lowercase).collect()
        })
        .collect();
    languages.sort_unstable();
    languages.join(&b","[..]).into_boxed_slice()
}

/// Whether a request's `Accept-Language` likes this one language better than every other.
///
/// Among languages that it likes equally the origin may choose as it pleases, and there is no telling
/// what it would have chosen.
fn prefers(request: &HeaderMap, language: &[u8]) -> bool {
    let language = language.trim_ascii();
    let mut best: Option<(&[u8], u16)> = None;
    let mut alone = false;
    let lines = request.get_all(ACCEPT_LANGUAGE).iter();
    for range in lines.flat_map(|line| line.as_bytes().split(|&b| b == b',')) {
        let range = range.trim_ascii();
        if range.is_empty() {
            continue;
        }
        let Some((tag, weight)) = weighed(range) else { return false };
        match best {
            Some((_, most)) if weight < most => {}
            Some((_, most)) if weight == most => alone = false,
            _ => (best, alone) = (Some((tag, weight)), true),
        }
    }
    alone && best.is_some_and(|(tag, weight)| weight > 0 && tag.eq_ignore_ascii_case(language))
}

/// A language range and its weight in thousandths; `None` if it is not well-formed.
fn weighed(range: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = range.split(|&b| b == b';').map(<[u8]>::trim_ascii);
    let tag = parts.next()?;
    let Some(parameter) = parts.next() else { return Some((tag, 1000)) };
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    if parts.next().is_some() {
        return None;
    }
    let (whole, decimals) = match value {
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        [whole] => (whole, &[][..]),
        _ => return None,
    };
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u16::from(byte - b'0'));
    let mut weight = digit(*whole)? * 1000;
    for (byte, worth) in decimals.iter().zip([100, 10, 1]) {
        weight += digit(*byte)? * worth;
    }
    (weight <= 1000).then_some((tag, weight))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    fn same(name: &'static str, stored: &[&str], asked: &[&str]) -> bool {
        let lines = |values: &[&str]| {
            headers(&values.iter().map(|value| (name, *value)).collect::<Vec<_>>())
        };
        let (names, cookies) = ([HeaderName::from_static(name)], CookieRules::default());
        Selecting::new(&names, &lines(stored), &cookies).matches(&lines(asked), None, &cookies)
    }

    #[test]
    fn a_star_anywhere_matches_nothing() {
        for lines in [&["*"][..], &["*, *"], &["", "*"], &[", *"], &["*, foo"], &["foo, *"]] {
            let fields: Vec<_> = lines.iter().map(|line| ("vary", *line)).collect();
            assert_eq!(Vary::parse(&headers(&fields)), Vary::Any, "{lines:?}");
        }
        assert_eq!(Vary::parse(&headers(&[("vary", "a b")])), Vary::Any);
    }

    #[test]
    fn names_are_collected_from_all_lines() {
        let found = Vary::parse(&headers(&[("vary", "Foo,, bar "), ("vary", "FOO")]));
        let Vary::On(names) = found else { panic!("{found:?}") };
        assert_eq!(names, ["bar", "foo"]);
        assert_eq!(Vary::parse(&HeaderMap::new()), Vary::On(Vec::new()));
    }

    #[test]
    fn absent_matches_only_absent() {
        assert!(same("foo", &[], &[]));
        assert!(!same("foo", &[], &["1"]));
        assert!(!same("foo", &["1"], &[]));
        assert!(!same("foo", &[], &[""]));
        assert!(!same("foo", &["1"], &["2"]));
    }

    #[test]
    fn white_space_and_lines_do_not_matter() {
        assert!(same("foo", &["1, 2"], &["1", "2"]));
        assert!(same("foo", &["1,2"], &[" 1 ,\t2 "]));
        assert!(!same("foo", &["1,2"], &["2,1"]));
        assert!(!same("foo", &["a"], &["A"]));
        assert!(!same("foo", &["\"a, b\""], &["\"a,b\""]));
    }

    #[test]
    fn languages_are_a_set() {
        assert!(same("accept-language", &["en, de"], &["De ,  eN"]));
        assert!(same("accept-language", &["en;q=0.5, de"], &["de,en; q=0.5"]));
        assert!(!same("accept-language", &["en;q=0.5, de"], &["en, de"]));
        assert!(!same("accept-language", &["en"], &["en, de"]));
    }

    #[test]
    fn what_is_liked_best_is_recognised() {
        let likes = |asked: &str, language: &str| {
            prefers(&headers(&[("accept-language", asked)]), language.as_bytes())
        };
        for (asked, language) in [
            ("fr;q=0.5, de;q=1.0", "de"),
            ("de", "DE"),
            ("de-AT, de;q=0.9, *;q=0.1", "de-at"),
            ("en;q=0.2,, de ; q=0.201", "de"),
        ] {
            assert!(likes(asked, language), "{asked}: {language}");
        }
        for (asked, language) in [
            ("en, de", "de"),
            ("en;q=0.5, de;q=0.4", "de"),
            ("de-AT, de;q=0.9", "de"),
            ("de;q=0", "de"),
            ("de, en;q=x", "de"),
            ("de, en;q=1.1", "de"),
            ("de;q=0.1234", "de"),
            ("*", "de"),
            ("", "de"),
            ("de", "de, en"),
        ] {
            assert!(!likes(asked, language), "{asked}: {language}");
        }
        // A first of several lines counts as well.
        let two = headers(&[("accept-language", "en"), ("accept-language", "de")]);
        assert!(!prefers(&two, b"de"));
    }

    #[test]
    fn what_the_origin_gets_otherwise_selects_nothing() {
        for name in ["X-Forwarded-For", "Forwarded", "via", "X-Request-Id"] {
            let value = format!("Accept-Encoding, {name}");
            assert_eq!(Vary::parse(&headers(&[("vary", &value)])), Vary::Any, "{name}");
        }
        let keyed = headers(&[("vary", "Host, X-Forwarded-Proto, X-Forwarded-Host, Foo")]);
        assert_eq!(Vary::parse(&keyed), Vary::On(vec![HeaderName::from_static("foo")]));
    }

    #[test]
    fn harmless_cookies_select_nothing() {
        assert!(same("cookie", &[], &["_ga=GA1.2.3"]));
        assert!(same("cookie", &["_ga=1; a=2"], &["a=2; _ga=3"]));
        assert!(!same("cookie", &[], &["session=1"]));
        assert!(!same("cookie", &["session=1"], &["session=2"]));
    }

    #[test]
    fn what_the_proxy_asked_for_does_for_all_who_accept_it() {
        for (asked, own) in [
            (&[][..], Some("identity")),
            (&[""], Some("identity")),
            (&["gzip, deflate, br, zstd"], Some("gzip")),
            (&["br", "x-gzip;q=0.5"], Some("gzip")),
            (&["*"], Some("gzip")),
            (&["gzip;q=0, *"], Some("identity")),
            (&["br"], Some("identity")),
            (&["gzip, identity;q=0"], None),
            (&["gzip, *;q=0"], None),
            (&["identity, *;q=0"], Some("identity")),
            (&["gzip;level=9"], None),
        ] {
            assert_eq!(own_encoding(asked.iter().map(|it| it.as_bytes())), own, "{asked:?}");
        }
        assert!(same("accept-encoding", &["gzip"], &["gzip, br"]));
        assert!(same("accept-encoding", &["identity"], &[]));
        // A client's own words stand for nothing but themselves.
        assert!(!same("accept-encoding", &["gzip, br"], &["gzip"]));
        assert!(!same("accept-encoding", &["gzip"], &["br"]));
    }

    proptest! {
        #[test]
        fn a_request_matches_itself(
            values in proptest::collection::vec("[ -~\\t]{0,20}", 0..4),
            language: bool,
        ) {
            let name = if language { "accept-language" } else { "foo" };
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            prop_assert!(same(name, &values, &values));
        }

        #[test]
        fn a_normal_form_is_its_own(value in "[ -~]{0,30}", language: bool) {
            let name = if language { ACCEPT_LANGUAGE } else { HeaderName::from_static("foo") };
            let mut given = HeaderMap::new();
            given.insert(&name, HeaderValue::from_str(&value).unwrap());
            let once = normal_form(&name, &given);
            given.insert(&name, HeaderValue::from_bytes(&once).unwrap());
            prop_assert_eq!(normal_form(&name, &given), once);
        }
    }
}
