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
        let ends = (1..path.len()).filter(|at| !self.is_whole_path && path[at - 1] == b'/');
        std::iter::once(0).chain(ends).any(|start| matches(self.pattern.as_bytes(), &path[start..]))
    }
}

fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', b'*', rest @ ..] => (0..=text.len()).any(|at| matches(rest, &text[at..])),
        [b'*', rest @ ..] => {
            let end = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
            (0..=end).any(|at| matches(rest, &text[at..]))
        }
        [wanted, rest @ ..] => text.split_first().is_some_and(|(byte, text)| {
            (byte == wanted || (*wanted == b'?' && *byte != b'/')) && matches(rest, text)
        }),
    }
}

#[cfg(test)]
mod tests {
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
}
