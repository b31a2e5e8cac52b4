//! robots.txt (RFC 9309).
//!
//! A group for `nightwatt` is absolute. Without one, the rules for `*` limit which addresses are *discovered*
//! by links: home sites often forbid everything to crawlers, and their operator has asked for a mirror.

use serde::{Deserialize, Serialize};

/// Lines behind this many bytes do not count (RFC 9309, 2.5, asks for 500 KiB at least).
pub const LONGEST_ROBOTS: usize = 512 << 10;

/// More rules or sitemaps than this do not count.
const MOST_RULES: usize = 10_000;

/// Our name in robots.txt.
const OWN_TOKEN: &str = "nightwatt";

/// What a robots.txt says to us.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Robots {
    /// The rules of all groups for `nightwatt`, if there is one.
    #[serde(default)]
    own: Option<Vec<Rule>>,
    /// The rules of all groups for `*`.
    #[serde(default)]
    any: Vec<Rule>,
    /// `Sitemap` lines, as they stand there.
    #[serde(default)]
    pub sitemaps: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Rule {
    allows: bool,
    /// In normal form, which is ASCII.
    pattern: String,
}

/// What robots.txt says about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Fetch it.
    Fetch,
    /// Do not fetch it because of a link. Other reasons to fetch it remain.
    DoNotDiscover,
    /// Never fetch it.
    Never,
}

/// To whom the group speaks whose lines are being read.
#[derive(Clone, Copy, Default)]
struct Group {
    is_own: bool,
    is_any: bool,
    /// Whether a rule has been read: the next `User-agent` begins another group.
    has_rules: bool,
}

impl Robots {
    /// Reads a robots.txt. There is no wrong one: lines that are not understood do not count.
    pub fn parse(text: &[u8]) -> Self {
        let text = &text[..text.len().min(LONGEST_ROBOTS)];
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut robots = Self::default();
        let mut group = Group::default();
        for line in text.split(|byte| matches!(byte, b'\n' | b'\r')) {
            let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let key = line[..colon].trim_ascii().to_ascii_lowercase();
            robots.take(&key, line[colon + 1..].trim_ascii(), &mut group);
        }
        robots
    }

    fn take(&mut self, key: &[u8], value: &[u8], group: &mut Group) {
        match key {
            b"user-agent" | b"useragent" | b"user agent" => {
                if group.has_rules {
                    *group = Group::default();
                }
                group.is_any |= value == b"*" || value.starts_with(b"* ");
                if product_token(value).eq_ignore_ascii_case(OWN_TOKEN.as_bytes()) {
                    group.is_own = true;
                    self.own.get_or_insert_default();
                }
            }
            b"allow" | b"disallow" => {
                group.has_rules = true;
                // An empty pattern forbids nothing.
                if value.is_empty() {
                    return;
                }
                let pattern = String::from_utf8_lossy(&normal(value)).into_owned();
                let rule = Rule { allows: key == b"allow", pattern };
                if group.is_own
                    && let Some(own) = &mut self.own
                    && own.len() < MOST_RULES
                {
                    own.push(rule.clone());
                }
                if group.is_any && self.any.len() < MOST_RULES {
                    self.any.push(rule);
                }
            }
            b"sitemap" if self.sitemaps.len() < MOST_RULES => {
                self.sitemaps.extend(std::str::from_utf8(value).ok().map(str::to_owned));
            }
            _ => {}
        }
    }

    /// What it says about a path with an optional query.
    pub fn permission(&self, path_and_query: &str) -> Permission {
        // Always allowed (RFC 9309, 2.2.2).
        if path_and_query == "/robots.txt" {
            return Permission::Fetch;
        }
        let path = normal(path_and_query.as_bytes());
        match &self.own {
            Some(own) if !allows(own, &path) => Permission::Never,
            None if !allows(&self.any, &path) => Permission::DoNotDiscover,
            _ => Permission::Fetch,
        }
    }

    /// Whether it has a group for `nightwatt`.
    pub fn speaks_to_us(&self) -> bool {
        self.own.is_some()
    }
}

/// The letters, hyphens and underscores at the start: `nightwatt/1.0` names `nightwatt`.
fn product_token(value: &[u8]) -> &[u8] {
    let is_of_token = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
    let end = value.iter().position(|byte| !is_of_token(byte)).unwrap_or(value.len());
    &value[..end]
}

/// The longest pattern decides; of two that are as long, the one that allows (RFC 9309, 2.2.2).
fn allows(rules: &[Rule], path: &[u8]) -> bool {
    let matching = rules.iter().filter(|rule| matches(rule.pattern.as_bytes(), path));
    let longest = matching.max_by_key(|rule| (rule.pattern.len(), rule.allows));
    longest.is_none_or(|rule| rule.allows)
}

/// Whether a path begins as the pattern says; `*` stands for any text, `$` at the end for the end.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let (pattern, to_the_end) = match pattern.strip_suffix(b"$") {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return !to_the_end || rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() && to_the_end {
            return rest.ends_with(part);
        }
        let Some(at) = find(rest, part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    text.windows(part.len()).position(|window| window == part)
}

/// A path or a pattern in the form in which they are compared: escapes of letters, digits and `-._~` are
/// undone, other octets beyond ASCII are escaped, and hexadecimal digits are in upper case (RFC 9309, 2.2.2).
fn normal(text: &[u8]) -> Vec<u8> {
    let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let escape = |out: &mut Vec<u8>, byte: u8| out.extend(format!("%{byte:02X}").as_bytes());
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        let escaped = match (byte, text.get(at + 1..at + 3)) {
            (b'%', Some(&[high, low])) => hex(high).zip(hex(low)).map(|(h, l)| h * 16 + l),
            _ => None,
        };
        at += if escaped.is_some() { 3 } else { 1 };
        match escaped {
            Some(plain) if plain.is_ascii_alphanumeric() || b"-._~".contains(&plain) => {
                out.push(plain);
            }
            Some(plain) => escape(&mut out, plain),
            None if byte.is_ascii_graphic() => out.push(byte),
            None => escape(&mut out, byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What robots.txt says to a crawler whose rules are those of the group for `nightwatt`.
    fn own(rules: &str, path: &str) -> bool {
        let robots = Robots::parse(format!("User-agent: nightwatt\n{rules}").as_bytes());
        robots.permission(path) == Permission::Fetch
    }

    #[test]
    fn the_simple_example_of_the_rfc() {
        // RFC 9309, 5.1, with `foobot` renamed to our token.
        let text = "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\
                    User-Agent: nightwatt\nDisallow:/\nAllow:/example/page.html\n\
                    Allow:/example/allowed.gif\n\nUser-Agent: barbot\nUser-Agent: bazbot\n\
                    Disallow: /example/page.html\n\nUser-Agent: quxbot\n\nEOF\n";
        let robots = Robots::parse(text.as_bytes());
        assert_eq!(robots.permission("/example/page.html"), Permission::Fetch);
        assert_eq!(robots.permission("/example/allowed.gif"), Permission::Fetch);
        assert_eq!(robots.permission("/publications/"), Permission::Never);
        let theirs = text.replace("nightwatt", "foobot");
        let robots = Robots::parse(theirs.as_bytes());
        assert_eq!(robots.permission("/a.gif"), Permission::DoNotDiscover);
        assert_eq!(robots.permission("/a.gifs"), Permission::Fetch);
        assert_eq!(robots.permission("/example/x"), Permission::DoNotDiscover);
        assert_eq!(robots.permission("/publications/"), Permission::Fetch);
    }

    #[test]
    fn the_longest_match_of_the_rfc() {
        // RFC 9309, 5.2.
        let rules = "Allow: /example/page/\nDisallow: /example/page/disallowed.gif\n";
        assert!(!own(rules, "/example/page/disallowed.gif"));
        assert!(own(rules, "/example/page/allowed.gif"));
        assert!(own("Allow: /p\nDisallow: /p\n", "/p"), "of two as long, allow counts");
    }

    #[test]
    fn encoded_paths_are_compared_as_in_the_table_of_the_rfc() {
        // RFC 9309, 2.2.2: path of the file, and path to match.
        for (pattern, path) in [
            ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
            ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar"),
            ("/foo/bar/\u{30c4}", "/foo/bar/%E3%83%84"),
            ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
            ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
        ] {
            assert!(!own(&format!("Disallow: {pattern}\n"), path), "{pattern}");
        }
    }

    #[test]
    fn special_characters_are_as_in_the_rfc() {
        // RFC 9309, 2.2.3.
        assert!(own("Allow: /this/path/exactly$\nDisallow: /\n", "/this/path/exactly"));
        assert!(!own("Allow: /this/path/exactly$\nDisallow: /\n", "/this/path/exactly/not"));
        assert!(!own("Disallow: /this/*/exactly\n", "/this/path/exactly"));
        assert!(!own("Disallow: /path/file-with-a-%2A.html\n", "/path/file-with-a-%2A.html"));
        assert!(own("Disallow: /path/file-with-a-%2A.html\n", "/path/file-with-a-b.html"));
        assert!(own("Disallow: /x # all of it\n", "/y") && !own("Disallow: /x # all\n", "/x"));
    }

    #[test]
    fn groups_are_joined_and_found_in_any_case() {
        let text = "user-agent: a\nUSER-AGENT: NightWatt/2.0\nDisallow: /a\n\r\n\
                    User-agent: b\rDisallow: /b\r\nUser-agent: nightwatt\nDisallow: /c\n\
                    Sitemap: https://example.org/s.xml\n";
        let robots = Robots::parse(text.as_bytes());
        let never = |path| robots.permission(path) == Permission::Never;
        assert!(never("/a") && !never("/b") && never("/c"));
        assert_eq!(robots.sitemaps, ["https://example.org/s.xml"]);
        let empty =
            Robots::parse(b"User-agent: nightwatt\nDisallow:\n\nUser-agent: *\nDisallow: /");
        assert!(empty.speaks_to_us());
        assert_eq!(empty.permission("/"), Permission::Fetch);
    }

    #[test]
    fn all_forbidden_to_all_forbids_discovery_alone() {
        let robots = Robots::parse(b"User-agent: *\nDisallow: /\n");
        assert_eq!(robots.permission("/x"), Permission::DoNotDiscover);
        assert_eq!(robots.permission("/robots.txt"), Permission::Fetch);
        assert_eq!(Robots::parse(b"").permission("/x"), Permission::Fetch);
    }

    proptest! {
        #[test]
        fn a_pattern_made_from_a_path_matches_it(
            path in "/[a-z0-9/._~%ä-]{0,20}",
            cut in 0_usize..20,
        ) {
            let cut = (0..=cut.min(path.len())).rev().find(|at| path.is_char_boundary(*at));
            let start = &path[..cut.unwrap_or(0)];
            // A cut within an escape is another text.
            if start.is_empty() || normal(path.as_bytes()).starts_with(&normal(start.as_bytes())) {
                let starred = format!("Disallow: {}*\n", start.replace('*', ""));
                prop_assert!(!own(&starred, &path) || start.is_empty() && !starred.contains("/*"));
            }
        }

        #[test]
        fn reading_never_panics(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let robots = Robots::parse(&text);
            let _ = robots.permission("/a%2");
        }
    }
}
