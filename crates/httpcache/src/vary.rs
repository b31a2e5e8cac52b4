//! `Vary`: which requests a stored response answers (RFC 9111, 4.1).

use http::HeaderMap;
use http::header::{ACCEPT_LANGUAGE, HeaderName, VARY};

/// What `Vary` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// The fields it names, in lower case, each once; empty if there is no `Vary`.
    On(Vec<HeaderName>),
    /// `*`, or something that is not a field name: no other request matches.
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
    /// Keeps what `names` select of a request's fields.
    pub fn new(names: &[HeaderName], request: &HeaderMap) -> Self {
        let fields = names.iter().map(|name| {
            let value = request.contains_key(name).then(|| normal_form(name, request));
            (name.clone(), value)
        });
        Self(fields.collect())
    }

    /// Whether a request has the same fields: absent where they were absent, and the same in normal
    /// form elsewhere. `Accept-Language` may differ if what it prefers is the response's `language`
    /// (its `Content-Language`): the origin could do no better.
    pub fn matches(&self, request: &HeaderMap, language: Option<&[u8]>) -> bool {
        self.0.iter().all(|(name, stored)| {
            let same = match stored {
                None => !request.contains_key(name),
                Some(stored) => {
                    let mut lines = request.get_all(name).iter();
                    match (lines.next(), lines.next()) {
                        (None, _) => false,
                        // Most requests repeat the stored text to the letter, and then nothing is
                        // allocated: a normal form is its own normal form.
                        (Some(line), None) if line.as_bytes() == &**stored => true,
                        _ => normal_form(name, request) == *stored,
                    }
                }
            };
            same || *name == ACCEPT_LANGUAGE
                && language.is_some_and(|language| prefers(request, language))
        })
    }

    /// Whether the response answers every request for its key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields and their values in normal form; none where the field was absent. For caches that
    /// write responses to disk.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, Option<&[u8]>)> {
        self.0.iter().map(|(name, value)| (name, value.as_deref()))
    }
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

/// A language range and its weight in thousandths; nothing if it is not well-formed.
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
        let names = [HeaderName::from_static(name)];
        Selecting::new(&names, &lines(stored)).matches(&lines(asked), None)
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
