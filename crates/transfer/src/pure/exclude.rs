//! Patterns of what is left out, as rsync has them: `*` stands for any bytes of a name, `**` also for `/`, `?` for one
//! byte, and `[a-z]` or `[!a-z]` for one of some. In a pattern with any of these, `\` makes the next byte stand for
//! itself. A pattern matches the end of a path; one that begins with `/` matches the whole path, and one that ends with
//! `/` matches only folders. `folder/***` is the folder and all in it.

use std::fmt;
use std::str::FromStr;

/// One pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exclude {
    pattern: String,
    is_whole_path: bool,
    is_of_folders: bool,
}

/// A text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPattern {
    /// It has no name.
    #[error(
        "`{0}` names nothing to leave out: write for example `*.tmp`, `cache/` or `/photos/raw`"
    )]
    Empty(String),
    /// A `[` is not closed.
    #[error("`{0}` has a `[` without its `]`: write `\\[` for the character itself")]
    Unclosed(String),
    /// Classes have names in rsync, and not here.
    #[error("`{0}` has a class with a name, as `[:digit:]`: write a range, as `[0-9]`")]
    Named(String),
    /// Nothing is behind a backslash.
    #[error("`{0}` ends with a backslash: write `[\\\\]` for the character itself")]
    Backslash(String),
}

impl FromStr for Exclude {
    type Err = NoPattern;

    fn from_str(text: &str) -> Result<Self, NoPattern> {
        let pattern = text.strip_prefix('/').unwrap_or(text);
        let pattern = pattern.strip_suffix('/').unwrap_or(pattern);
        if pattern.is_empty() {
            return Err(NoPattern::Empty(text.to_owned()));
        }
        if let Some(wrong) = fault(pattern.as_bytes()) {
            return Err(wrong(text.to_owned()));
        }
        Ok(Self {
            pattern: pattern.to_owned(),
            is_whole_path: text.starts_with('/'),
            is_of_folders: text.ends_with('/'),
        })
    }
}

impl fmt::Display for Exclude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |is_set: bool| if is_set { "/" } else { "" };
        write!(f, "{}{}{}", mark(self.is_whole_path), self.pattern, mark(self.is_of_folders))
    }
}

impl Exclude {
    /// Whether it leaves out what has this path.
    pub fn matches(&self, path: &[u8], is_folder: bool) -> bool {
        let pattern = self.pattern.as_bytes();
        let reached = places(pattern, path, self.is_whole_path);
        let is_whole = reached[pattern.len()] && (is_folder || !self.is_of_folders);
        let is_with_all = pattern.ends_with(ALL) && reached[pattern.len() - ALL.len()];
        is_whole || (is_folder && is_with_all)
    }
}

/// At the end of a pattern: the folder, and all in it.
const ALL: &[u8] = b"/***";

/// What is wrong with a pattern, if anything is.
fn fault(pattern: &[u8]) -> Option<fn(String) -> NoPattern> {
    let mut at = 0;
    while at < pattern.len() {
        at = match pattern[at] {
            b'\\' if at + 1 == pattern.len() => return Some(NoPattern::Backslash),
            b'\\' => at + 2,
            b'[' => match class(pattern, at, b'/') {
                Some((end, _)) if pattern[at + 1..end].windows(2).any(|it| it == b"[:") => {
                    return Some(NoPattern::Named);
                }
                Some((end, _)) => end,
                None => return Some(NoPattern::Unclosed),
            },
            _ => at + 1,
        };
    }
    None
}

/// Of a class, as `[a-z]`, that begins here: where it ends, and whether it has the byte. Nothing if it is not closed.
fn class(pattern: &[u8], begin: usize, byte: u8) -> Option<(usize, bool)> {
    let member = |at: usize| match pattern.get(at)? {
        b'\\' => Some((*pattern.get(at + 1)?, at + 2)),
        plain => Some((*plain, at + 1)),
    };
    let is_not = matches!(pattern.get(begin + 1), Some(b'!' | b'^'));
    let first = begin + 1 + usize::from(is_not);
    let (mut at, mut has) = (first, false);
    // Where it comes first, the bracket is a member.
    while at == first || *pattern.get(at)? != b']' {
        let (low, next) = member(at)?;
        let is_range = pattern.get(next) == Some(&b'-')
            && pattern.get(next + 1).is_some_and(|end| *end != b']');
        let (high, next) = if is_range { member(next + 1)? } else { (low, next) };
        has |= (low..=high).contains(&byte);
        at = next;
    }
    Some((at + 1, has != is_not && byte != b'/'))
}

/// What stands for one byte and begins at this place of the pattern: where it ends, and whether it stands for this one.
fn one(pattern: &[u8], at: usize, byte: u8, is_wild: bool) -> (usize, bool) {
    match pattern[at] {
        b'?' => (at + 1, byte != b'/'),
        b'[' => class(pattern, at, byte).unwrap_or((pattern.len(), false)),
        b'\\' if is_wild => (at + 2, pattern.get(at + 1) == Some(&byte)),
        plain => (at + 1, plain == byte),
    }
}

/// The places of the pattern that the path reaches, or, unless the pattern is of whole paths, its end after a `/`. All
/// places are carried on together: no pattern makes it try all ways one after the other.
fn places(pattern: &[u8], path: &[u8], is_whole: bool) -> Vec<bool> {
    let is_wild = pattern.iter().any(|byte| b"*?[".contains(byte));
    let mut reached = vec![false; pattern.len() + 1];
    let mut next = reached.clone();
    reach(&mut reached, pattern, 0);
    for byte in path {
        next.fill(false);
        for at in (0..pattern.len()).filter(|at| reached[*at]) {
            match pattern[at] {
                b'*' if pattern.get(at + 1) == Some(&b'*') => reach(&mut next, pattern, at),
                b'*' if *byte != b'/' => reach(&mut next, pattern, at),
                b'*' => {}
                _ => {
                    if let (end, true) = one(pattern, at, *byte, is_wild) {
                        reach(&mut next, pattern, end);
                    }
                }
            }
        }
        if !is_whole && *byte == b'/' {
            reach(&mut next, pattern, 0);
        }
        std::mem::swap(&mut reached, &mut next);
    }
    reached
}

/// The place is reached, and those behind it to which nothing is needed: a star also stands for nothing.
fn reach(reached: &mut [bool], pattern: &[u8], mut at: usize) {
    while !std::mem::replace(&mut reached[at], true) && pattern.get(at) == Some(&b'*') {
        at += if pattern.get(at + 1) == Some(&b'*') { 2 } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &[u8], path: &[u8], is_whole: bool) -> bool {
        places(pattern, path, is_whole)[pattern.len()]
    }

    /// The examples of rsync(1), "FILTER RULES".
    #[test]
    fn patterns_mean_what_they_mean_to_rsync() {
        let is_out = |pattern: &str, path: &str, is_folder: bool| {
            pattern.parse::<Exclude>().unwrap().matches(path.as_bytes(), is_folder)
        };
        assert!(is_out("*.o", "tree/deep/main.o", false) && !is_out("*.o", "tree/main.c", false));
        assert!(is_out("/tree/foo", "tree/foo", false) && !is_out("/foo", "tree/foo", false));
        assert!(is_out("foo/", "tree/foo", true) && !is_out("foo/", "tree/foo", false));
        assert!(is_out("foo/*/bar", "t/foo/x/bar", false) && !is_out("foo/*/bar", "foo/bar", true));
        assert!(
            !is_out("foo/*/bar", "foo/x/y/bar", false)
                && is_out("foo/**/bar", "foo/x/y/bar", false)
        );
        assert!(is_out("ba?", "tree/bar", false) && !is_out("ba?", "tree/ba", false));
        assert!(!is_out("oo", "tree/foo", false), "names match as a whole");
        for shown in ["*.o", "/tree/foo", "foo/", "//a//", "/a/"] {
            assert_eq!(shown.parse::<Exclude>().unwrap().to_string(), shown);
        }
        assert!("/".parse::<Exclude>().is_err() && "".parse::<Exclude>().is_err());
    }

    /// The fault of a review: these were taken for names, and `--delete` removed what they should have kept. Expected
    /// values are those of rsync 3.2.7's `wildmatch`, read by hand.
    #[test]
    fn classes_backslashes_and_three_stars_mean_what_they_mean_to_rsync() {
        let is_out = |pattern: &str, path: &str, is_folder: bool| {
            pattern.parse::<Exclude>().unwrap().matches(path.as_bytes(), is_folder)
        };
        for (pattern, path, expected) in [
            ("file[0-9]", "top/file7", true),
            ("file[0-9]", "top/filex", false),
            ("file[!0-9]", "top/filex", true),
            ("file[^0-9]", "top/file7", false),
            ("*.[ch]", "top/main.c", true),
            ("*.[ch]", "top/main.o", false),
            ("[]a]x", "]x", true),
            ("[!]a]x", "]x", false),
            ("[a-]x", "-x", true),
            ("[z-a]x", "mx", false),
            (r"[\]]x", "]x", true),
            ("a[!b]c", "a/c", false),
            ("a[/]c", "a/c", false),
            (r"a\*", "top/a*", true),
            (r"a\*", "top/ab", false),
            (r"\[x]*", "[x]y", true),
            (r"\[x]*", "xy", false),
            (r"a\b", r"top/a\b", true),
            (r"a\b", "top/ab", false),
            (r"a\b*", "top/abc", true),
            ("a***c", "a/b/c", true),
        ] {
            assert_eq!(is_out(pattern, path, false), expected, "{pattern} and {path}");
        }
        assert!(is_out("keep/***", "top/keep", true) && is_out("keep/***", "top/keep/a/b", false));
        assert!(!is_out("keep/***", "top/keep", false), "a file of that name");
        assert!(!is_out("keep/***", "top/keeper", true) && !is_out("/keep/***", "a/keep", true));
        let fault = |pattern: &str| pattern.parse::<Exclude>().unwrap_err().to_string();
        for unclosed in ["[", "a[b", "[]", "[!]", r"[a\]", "[a-"] {
            assert!(fault(unclosed).contains("has a `[` without its `]`"), "{unclosed}");
        }
        assert!(fault(r"a*\").contains("ends with a backslash"));
        assert!(fault("a[[:digit:]]").contains("write a range"));
        for shown in [r"\[a]*", "[!a-z]/", "/keep/***"] {
            assert_eq!(shown.parse::<Exclude>().unwrap().to_string(), shown);
        }
    }

    /// What the pattern means, tried out one way after the other.
    fn tried(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', b'*', rest @ ..] => (0..=text.len()).any(|at| tried(rest, &text[at..])),
            [b'*', rest @ ..] => {
                let end = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
                (0..=end).any(|at| tried(rest, &text[at..]))
            }
            [wanted, rest @ ..] => text.split_first().is_some_and(|(byte, text)| {
                (byte == wanted || (*wanted == b'?' && *byte != b'/')) && tried(rest, text)
            }),
        }
    }

    proptest! {
        #[test]
        fn all_ways_together_find_what_each_finds_alone(
            pattern in "[ab?*/]{1,8}", path in "[ab]{0,3}(/[ab]{0,3}){0,3}",
        ) {
            let (pattern, path) = (pattern.as_bytes(), path.as_bytes());
            prop_assert_eq!(matches(pattern, path, true), tried(pattern, path));
            let mut starts = (0..=path.len()).filter(|at| *at == 0 || path[at - 1] == b'/');
            let is_end = starts.any(|start| tried(pattern, &path[start..]));
            prop_assert_eq!(matches(pattern, path, false), is_end);
        }
    }

    /// One way after the other, this does not end before the machine is scrapped.
    #[test]
    fn no_pattern_takes_forever() {
        let pattern: Exclude = format!("{}b", "*a".repeat(30)).parse().unwrap();
        assert!(!pattern.matches(&[b'a'; 200], false));
        assert!(pattern.matches(&[&[b'a'; 200][..], b"b"].concat(), false));
    }
}
