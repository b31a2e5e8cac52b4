//! Text of unknown origin on terminals.

/// Whether a character commands a terminal, or makes it show other characters in another order, on another line or
/// not at all: controls (Cc), line and paragraph separators, and what Unicode calls format characters (bidirectional
/// marks and overrides, zero-width and invisible ones, tags).
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// The character, or a replacement for one that steers.
pub fn shown(c: char) -> char {
    if steers(c) { char::REPLACEMENT_CHARACTER } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_separators_and_marks_of_direction_are_replaced() {
        let text = "a\u{1b}[2J\u{85}\u{9b}b\u{2028}\u{2029}\u{202e}\u{2066}\u{200f}\u{feff}\u{e0041}c\u{e9}\u{1f600}";
        let shown: String = text.chars().map(shown).collect();
        let r = char::REPLACEMENT_CHARACTER;
        assert_eq!(shown, format!("a{r}[2J{r}{r}b{r}{r}{r}{r}{r}{r}{r}c\u{e9}\u{1f600}"));
    }
}
