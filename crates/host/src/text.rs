//! The output of others, made safe for errors and logs; and bytes as text.

use std::fmt::Write;

/// Characters of another machine's answer that an error repeats at most.
const REPEATED: usize = 300;

/// The text without control characters except line breaks.
pub fn clean(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let kept = text.chars().filter(|c| *c != '\r').map(|c| match c {
        '\n' => c,
        '\t' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    });
    kept.collect::<String>().trim().to_owned()
}

/// The beginning of the text, in one line.
pub fn brief(output: &[u8]) -> String {
    let text = clean(&output[..output.len().min(4 * REPEATED)]);
    let words: Vec<_> = text.split_whitespace().collect();
    let words = words.join(" ");
    match words.char_indices().nth(REPEATED) {
        Some((end, _)) => format!("{}..", &words[..end]),
        None => words,
    }
}

/// The beginning of the text between backticks, with escapes for all that is not printable ASCII.
pub fn quote(text: &[u8]) -> String {
    let text = text.trim_ascii();
    let shown = &text[..text.len().min(60)];
    let more = if shown.len() < text.len() { ".." } else { "" };
    format!("`{}{more}`", shown.escape_ascii())
}

/// Two hexadecimal digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
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
    fn each_byte_has_two_digits() {
        assert_eq!(hex(&[0, 0x0f, 0xa0, 0xff]), "000fa0ff");
    }

    #[test]
    fn what_is_long_is_cut_between_characters() {
        assert_eq!(brief(b"no\n such  domain"), "no such domain");
        let long = brief("é".repeat(1000).as_bytes());
        assert_eq!(long.chars().count(), REPEATED + 2);
        assert!(long.ends_with("é.."), "{long}");
    }
}
