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

/// Bytes in a unit that fits.
pub fn bytes(count: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut count = count;
    let mut place = 0;
    while count >= 999.5 && place + 1 < units.len() {
        count /= 1000.0;
        place += 1;
    }
    let digits = usize::from(place > 0 && count < 99.95);
    format!("{count:.digits$} {}", units[place])
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

    #[test]
    fn bytes_are_shown_in_a_unit_that_fits() {
        let shown = [0.0, 999.0, 1000.0, 12_345.0, 999_600.0, 123_456_789.0, 5e15].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "12.3 kB", "1.0 MB", "123 MB", "5000 TB"]);
    }
}
