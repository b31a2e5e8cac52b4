//! Lines and words of outputs.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

use crate::error::ReadError;

/// The text without the signs that terminals swallow: colours and the like, ends of lines of other
/// systems, and lines that write themselves over (each of them becomes a line).
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(['\r', '\x1b']) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(sign) = rest.next() {
        match sign {
            '\r' => {
                if rest.peek() != Some(&'\n') {
                    clean.push('\n');
                }
            }
            '\x1b' => escape(&mut rest, &mut clean),
            other => clean.push(other),
        }
    }
    Cow::Owned(clean)
}

/// What follows an escape. Never beyond the end of its line: what is damaged must not join two.
fn escape(rest: &mut Peekable<Chars<'_>>, clean: &mut String) {
    match rest.next() {
        // Parameters, and a letter (or `@`, or `~`).
        Some('[') => {
            while rest.next_if(|sign| matches!(sign, ' '..='?')).is_some() {}
            let _ = rest.next_if(|sign| matches!(sign, '@'..='~'));
        }
        // A title or a link, ended by a bell or by another escape.
        Some(']') => {
            while let Some(sign) = rest.next_if(|sign| *sign != '\n') {
                match (sign, rest.peek()) {
                    ('\x07', _) => break,
                    ('\x1b', Some('\\')) => {
                        rest.next();
                        break;
                    }
                    _ => (),
                }
            }
        }
        Some('\n') => clean.push('\n'),
        // Everything else is of two characters.
        _ => (),
    }
}

/// The text without a last line that has no end: all tools end their lines, so it was cut off, and a
/// number in it may be another one. Only JSON says itself where it ends.
pub(crate) fn whole(text: &str) -> &str {
    let end = text.rfind('\n').map_or(0, |at| at + 1);
    let last = text[end..].trim();
    let is_json = last.starts_with('{') || last.trim_matches(['}', ']']).is_empty();
    if is_json { text } else { &text[..end] }
}

/// The rest of the first line that begins so, blanks aside.
pub(crate) fn after<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim_start().strip_prefix(start)).map(str::trim)
}

/// As [`after`], of the line that each report has once: two of them are two reports.
pub(crate) fn after_only<'a>(text: &'a str, start: &str) -> Result<Option<&'a str>, ReadError> {
    let is_it = |line: &&str| line.trim_start().starts_with(start);
    if text.lines().filter(is_it).nth(1).is_some() {
        return Err(ReadError::Several);
    }
    Ok(after(text, start))
}

/// The line with these words in it that each report has once.
pub(crate) fn line_only<'a>(text: &'a str, words: &str) -> Result<Option<&'a str>, ReadError> {
    let mut found = text.lines().filter(|line| line.contains(words));
    let line = found.next();
    if found.next().is_some() { Err(ReadError::Several) } else { Ok(line) }
}

/// The word after this one.
pub(crate) fn word_after<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let mut words = line.split_whitespace().map(bare);
    words.find(|it| *it == word)?;
    words.next()
}

/// A word without the brackets and commas around it.
pub(crate) fn bare(word: &str) -> &str {
    word.trim_matches(['(', ')', ',', ';', ':', '[', ']', '"', '<', '='])
}

/// What is between two marks.
pub(crate) fn between<'a>(line: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(from)?;
    rest.split_once(to).map(|(inner, _)| inner.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_terminals_swallow_is_gone() {
        assert_eq!(clean("a\r\nb\n"), "a\nb\n");
        assert_eq!(clean("10 %\r20 %\rdone\n"), "10 %\n20 %\ndone\n");
        assert_eq!(clean("\x1b[1;32mtps\x1b[0m = \x1b[K5"), "tps = 5");
        assert_eq!(clean("\x1b]0;title\x07a \x1b]8;;http://x\x1b\\b"), "a b");
        assert_eq!(clean("a\x1b"), "a");
        assert_eq!(clean("a\x1b[1"), "a");
        for broken in ["a\x1b\nb", "a\x1b[\nb", "a\x1b[1;\nb", "a\x1b]title\nb"] {
            assert_eq!(clean(broken), "a\nb");
        }
    }

    #[test]
    fn a_line_without_an_end_may_be_half_a_line() {
        assert_eq!(whole("a = 1\nb = 2\n"), "a = 1\nb = 2\n");
        assert_eq!(whole("a = 1\nb = 2"), "a = 1\n");
        assert_eq!(whole("a\n  [8]"), "a\n");
        assert_eq!(whole("b = 2"), "");
        assert_eq!(whole("{\n\"a\": 1\n}"), "{\n\"a\": 1\n}");
    }
}
