//! Text on terminals: of unknown origin, and byte counts.

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

/// A byte count in a unit that fits: `12.3 MB`.
pub fn bytes(count: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut scaled = count as f64;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < units.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && scaled < 99.95);
    format!("{scaled:.decimals$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_a_unit_that_fits() {
        let counts = [0, 999, 1000, 12_345, 999_600, 123_456_789, 5_000_000_000_000_000];
        let shown = ["0 B", "999 B", "1.0 kB", "12.3 kB", "1.0 MB", "123 MB", "5000 TB"];
        assert_eq!(counts.map(bytes), shown);
    }

    #[test]
    fn controls_separators_and_marks_of_direction_are_replaced() {
        let text = "a\u{1b}[2J\u{85}\u{9b}b\u{2028}\u{2029}\u{202e}\u{2066}\u{200f}\u{feff}\u{e0041}c\u{e9}\u{1f600}";
        let shown: String = text.chars().map(shown).collect();
        let r = char::REPLACEMENT_CHARACTER;
        assert_eq!(shown, format!("a{r}[2J{r}{r}b{r}{r}{r}{r}{r}{r}{r}c\u{e9}\u{1f600}"));
    }
}
