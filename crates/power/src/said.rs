//! What others say, made fit for errors and logs.

/// Of what another machine says, an error repeats no more characters than these.
const REPEATED: usize = 300;

/// The text without control characters, but for line breaks.
pub(crate) fn clean(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let kept = text.chars().filter(|c| *c != '\r').map(|c| match c {
        '\n' => c,
        '\t' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    });
    kept.collect::<String>().trim().to_owned()
}

/// The beginning of it, in one line.
pub(crate) fn brief(said: &[u8]) -> String {
    let text = clean(&said[..said.len().min(4 * REPEATED)]);
    let words: Vec<_> = text.split_whitespace().collect();
    let words = words.join(" ");
    match words.char_indices().nth(REPEATED) {
        Some((end, _)) => format!("{}..", &words[..end]),
        None => words,
    }
}

/// What helps against the first complaint that the output holds.
pub(crate) fn cure(cures: &[(&str, &'static str)], output: &str) -> Option<&'static str> {
    cures.iter().find(|(complaint, _)| output.contains(complaint)).map(|(_, cure)| *cure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_comes_through() {
        assert_eq!(clean(b" a\tb\r\nc \x1b[31m\x07\xff\n"), "a b\nc \u{fffd}[31m\u{fffd}\u{fffd}");
        assert_eq!(clean("\u{9b}31m".as_bytes()), "\u{fffd}31m", "C1 too");
    }

    #[test]
    fn what_is_long_is_cut_between_characters() {
        assert_eq!(brief(b"no\n such  domain"), "no such domain");
        let long = brief("é".repeat(1000).as_bytes());
        assert_eq!(long.chars().count(), REPEATED + 2);
        assert!(long.ends_with("é.."), "{long}");
    }
}
