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

/// What lies between two amounts, without a unit; a single figure if they look the same.
pub fn between(low: f64, high: f64) -> String {
    let [low, high] = [low, high].map(|amount| format!("{amount:.1}"));
    if low == high { low } else { format!("{low} to {high}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_and_forges_no_other() {
        assert_eq!(name(b"a\nnot written: 0\x1b[2J"), "a\u{fffd}not written: 0\u{fffd}[2J");
        assert_eq!(line("gr\u{fc}n"), "gr\u{fc}n");
    }

    #[test]
    fn an_interval_with_ends_that_look_the_same_is_one_figure() {
        assert_eq!(between(15.91, 15.94), "15.9");
        assert_eq!(between(15.91, 15.96), "15.9 to 16.0");
    }
}
