//! `CDN-Cache-Control`: directives for this cache and no other (RFC 9213).
//!
//! The field is a structured dictionary (RFC 9651) and read as strictly as those are: one wrong
//! character, or a directive with a value of the wrong type, and the whole field is as if absent.

use crate::directives::{LONGEST_DELTA, ResponseDirectives};
use http::HeaderMap;
use http::header::HeaderName;
use std::time::Duration;

/// The name of the field.
pub const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// The directives of `CDN-Cache-Control`; `None` if it is absent, empty or invalid, and
/// `Cache-Control` counts.
pub fn parse(headers: &HeaderMap) -> Option<ResponseDirectives> {
    let mut lines = headers.get_all(CDN_CACHE_CONTROL).iter();
    let mut text = lines.next()?.as_bytes().to_vec();
    for line in lines {
        text.extend_from_slice(b", ");
        text.extend_from_slice(line.as_bytes());
    }
    let members = Reader { rest: &text }.dictionary()?;
    if members.is_empty() {
        return None;
    }
    let mut found = ResponseDirectives::default();
    // Of several members under one key the last counts (RFC 9651, 4.2.2).
    let mut seen: Vec<&[u8]> = Vec::new();
    for (key, value) in members.iter().rev().filter(|(key, _)| KNOWN.contains(key)) {
        if !seen.contains(key) {
            seen.push(key);
            take(&mut found, key, value)?;
        }
    }
    Some(found)
}

/// The directives that [`take`] applies; others are ignored.
const KNOWN: [&[u8]; 11] = [
    b"max-age",
    b"must-revalidate",
    b"must-understand",
    b"no-cache",
    b"no-store",
    b"private",
    b"proxy-revalidate",
    b"public",
    b"s-maxage",
    b"stale-if-error",
    b"stale-while-revalidate",
];

/// Applies one member; `None` if its value is of the wrong type.
fn take(found: &mut ResponseDirectives, key: &[u8], value: &Value) -> Option<()> {
    match key {
        b"no-store" => found.no_store = value.flag()?,
        b"must-revalidate" => found.must_revalidate = value.flag()?,
        b"proxy-revalidate" => found.proxy_revalidate = value.flag()?,
        b"must-understand" => found.must_understand = value.flag()?,
        b"public" => found.public = value.flag()?,
        b"no-cache" => found.no_cache = value.covers_all(&mut found.withheld)?,
        b"private" => found.private = value.covers_all(&mut found.withheld)?,
        b"max-age" => found.max_age = Some(value.delta()?),
        b"s-maxage" => found.s_maxage = Some(value.delta()?),
        b"stale-while-revalidate" => found.stale_while_revalidate = Some(value.delta()?),
        b"stale-if-error" => found.stale_if_error = Some(value.delta()?),
        _ => {}
    }
    Some(())
}

/// A value, as far as directives need to know it.
#[derive(Debug, PartialEq, Eq)]
enum Value {
    Flag(bool),
    Integer(i64),
    Text(Vec<u8>),
    Other,
}

impl Value {
    fn flag(&self) -> Option<bool> {
        if let Self::Flag(set) = self { Some(*set) } else { None }
    }

    fn delta(&self) -> Option<Duration> {
        let Self::Integer(secs) = self else { return None };
        Some(Duration::from_secs(secs.max(&0).unsigned_abs()).min(LONGEST_DELTA))
    }

    /// For `no-cache` and `private`: whether they cover the whole response; the fields they name
    /// instead are added to `withheld`.
    fn covers_all(&self, withheld: &mut Vec<HeaderName>) -> Option<bool> {
        match self {
            Self::Flag(set) => Some(*set),
            Self::Text(list) => {
                let names: Option<Vec<HeaderName>> = list
                    .split(|&b| b == b',')
                    .map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
                    .collect();
                let covers_all = names.is_none();
                withheld.extend(names.unwrap_or_default());
                Some(covers_all)
            }
            Self::Integer(_) | Self::Other => None,
        }
    }
}

/// What is left of the text of a structured field.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn dictionary(mut self) -> Option<Vec<(&'a [u8], Value)>> {
        let mut members = Vec::new();
        self.skip(b" ");
        while !self.rest.is_empty() {
            let key = self.key()?;
            let value = if self.eat(b'=') { self.member_value()? } else { Value::Flag(true) };
            self.parameters()?;
            members.push((key, value));
            self.skip(b" \t");
            if self.rest.is_empty() {
                break;
            }
            if !self.eat(b',') {
                return None;
            }
            self.skip(b" \t");
            if self.rest.is_empty() {
                return None;
            }
        }
        Some(members)
    }

    fn member_value(&mut self) -> Option<Value> {
        if !self.eat(b'(') {
            return self.bare_item();
        }
        loop {
            self.skip(b" ");
            if self.eat(b')') {
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.rest.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.eat(b';') {
            self.skip(b" ");
            self.key()?;
            if self.eat(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let starts = matches!(self.rest.first()?, b'a'..=b'z' | b'*');
        let key =
            self.take_while(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'));
        starts.then_some(key)
    }

    fn bare_item(&mut self) -> Option<Value> {
        match *self.rest.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => {
                self.take_while(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b));
                Some(Value::Other)
            }
            b':' => self.between_colons(),
            b'?' => {
                self.eat(b'?');
                let set = self.eat(b'1');
                (set || self.eat(b'0')).then_some(Value::Flag(set))
            }
            b'@' => {
                self.eat(b'@');
                matches!(self.number()?, Value::Integer(_)).then_some(Value::Other)
            }
            b'%' => {
                self.eat(b'%');
                self.string().map(|_| Value::Other)
            }
            _ => None,
        }
    }

    /// An integer of at most 15 digits, or a decimal of 12 digits, a point and at most three.
    fn number(&mut self) -> Option<Value> {
        let negative = self.eat(b'-');
        let whole = self.take_while(|b| b.is_ascii_digit());
        if whole.is_empty() || whole.len() > 15 {
            return None;
        }
        if self.eat(b'.') {
            let part = self.take_while(|b| b.is_ascii_digit());
            let valid = whole.len() <= 12 && (1..=3).contains(&part.len());
            return valid.then_some(Value::Other);
        }
        let size = whole.iter().fold(0, |n: i64, b| n * 10 + i64::from(b - b'0'));
        Some(Value::Integer(if negative { -size } else { size }))
    }

    fn string(&mut self) -> Option<Value> {
        if !self.eat(b'"') {
            return None;
        }
        let mut text = Vec::new();
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => return Some(Value::Text(text)),
                b'\\' => {
                    let (&escaped, rest) = self.rest.split_first()?;
                    if !matches!(escaped, b'"' | b'\\') {
                        return None;
                    }
                    self.rest = rest;
                    text.push(escaped);
                }
                0x20..=0x7e => text.push(byte),
                _ => return None,
            }
        }
    }

    /// A byte sequence in Base64; its content is of no interest here.
    fn between_colons(&mut self) -> Option<Value> {
        self.eat(b':');
        self.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
        self.eat(b':').then_some(Value::Other)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.take_while(|b| bytes.contains(&b));
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|&b| !wanted(b)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn of(lines: &[&str]) -> Option<ResponseDirectives> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(CDN_CACHE_CONTROL, HeaderValue::from_str(line).unwrap());
        }
        parse(&headers)
    }

    fn max_age(line: &str) -> Option<u64> {
        Some(of(&[line])?.max_age?.as_secs())
    }

    #[test]
    fn directives_are_dictionary_members() {
        let found = of(&["foobar, max-age=600;note=\"x\"", "no-store, must-revalidate"]).unwrap();
        assert_eq!(found.max_age, Some(Duration::from_mins(10)));
        assert!(found.no_store && found.must_revalidate && !found.no_cache);
        assert_eq!(max_age("max-age=1, max-age=2"), Some(2));
        assert_eq!(max_age("a=(1 \"b\";c d), b=?0, c=:YQ==:, d=1.5, max-age=3"), Some(3));
        assert_eq!(max_age("max-age=99999999999"), Some(LONGEST_DELTA.as_secs()));
        assert_eq!(max_age("max-age=-5"), Some(0));
    }

    #[test]
    fn anything_wrong_makes_the_field_vanish() {
        for wrong in [
            "",
            "max-age=10000, &&&&&",
            "max-age=\"10000\"",
            "max-age",
            "max-age=1.5",
            "MaX-aGe=3600",
            "max-age =100",
            "max-age= 100",
            "max-age=100,",
            "max-age=100 no-store",
            "max-age=1234567890123456",
            "no-store=1",
            "x=\"unfinished",
            "x=(1 2",
            "x=:a",
            "x=?2",
        ] {
            assert_eq!(of(&[wrong]), None, "{wrong}");
        }
        assert_eq!(parse(&HeaderMap::new()), None);
    }

    #[test]
    fn named_fields_are_withheld() {
        let found = of(&["no-cache=\"set-cookie, x-a\", private"]).unwrap();
        assert!(!found.no_cache && found.private);
        assert_eq!(found.withheld, ["set-cookie", "x-a"]);
        assert!(of(&["no-cache=\"\""]).unwrap().no_cache);
    }

    proptest! {
        #[test]
        fn reading_never_panics(line in "[ -~]{0,40}") {
            let _ = of(&[&line]);
        }

        #[test]
        fn reading_something_like_a_dictionary_never_panics(
            line in "([a-z*]{1,3}(=([0-9.-]{1,4}|\"[a-z\\\\\"]{0,3}\"?|\\([a-z ]{0,4}\\)?|[:?@%][a-z0-9:]{0,3}))?[;, ]{0,2}){0,5}"
        ) {
            let _ = of(&[&line]);
        }
    }
}
