//! Patterns of what is left out, as rsync has them: `*` stands for any bytes of a name, `**` also for `/`, and `?` for
//! one byte. A pattern matches the end of a path; one that begins with `/` matches the whole path, and one that ends
//! with `/` matches only folders.

use std::fmt;
use std::str::FromStr;

/// One pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exclude {
    pattern: String,
    is_whole_path: bool,
    is_of_folders: bool,
}

/// A pattern without a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names nothing to leave out: write for example `*.tmp`, `cache/` or `/photos/raw`")]
pub struct EmptyPattern(String);

impl FromStr for Exclude {
    type Err = EmptyPattern;

    fn from_str(text: &str) -> Result<Self, EmptyPattern> {
        let pattern = text.strip_prefix('/').unwrap_or(text);
        let pattern = pattern.strip_suffix('/').unwrap_or(pattern);
        if pattern.is_empty() {
            return Err(EmptyPattern(text.to_owned()));
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
        if self.is_of_folders && !is_folder {
            return false;
        }
        matches(self.pattern.as_bytes(), path, self.is_whole_path)
    }
}

/// Whether the pattern matches the path, or, unless it must be all of it, its end after a `/`. All places of the pattern
/// that the path may have reached are carried on together: no pattern makes it try all ways one after the other.
fn matches(pattern: &[u8], path: &[u8], is_whole: bool) -> bool {
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
                b'?' if *byte != b'/' => reach(&mut next, pattern, at + 1),
                wanted if wanted == *byte => reach(&mut next, pattern, at + 1),
                _ => {}
            }
        }
        if !is_whole && *byte == b'/' {
            reach(&mut next, pattern, 0);
        }
        std::mem::swap(&mut reached, &mut next);
    }
    reached[pattern.len()]
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
