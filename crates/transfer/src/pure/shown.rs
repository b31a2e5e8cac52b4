//! Texts of the other machine, for a terminal.

use nightwatt_energy::display;

/// The text in one line: what would begin another, or steer the terminal, is replaced.
pub fn line(text: &str) -> String {
    text.chars().map(display::shown).collect()
}

/// A name or path, which may be no text, in one line.
pub fn name(bytes: &[u8]) -> String {
    line(&String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_and_forges_no_other() {
        assert_eq!(name(b"a\nnot written: 0\x1b[2J"), "a\u{fffd}not written: 0\u{fffd}[2J");
        assert_eq!(line("gr\u{fc}n"), "gr\u{fc}n");
    }
}
