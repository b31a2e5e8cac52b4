//! A table on a terminal that is shown again and again, as `caliper` and `disk` do.

use std::borrow::Cow;
use std::io::{self, Write};

use rustix::termios::tcgetwinsize;

use crate::output::printable;

/// Moves to the top of the terminal and clears it.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows a table on stderr in place of the previous one, if that is a terminal; else below it. Changes no terminal
/// setting that would have to be restored.
pub(crate) fn renew(table: &str) {
    let mut stderr = io::stderr().lock();
    let (clear, table) = match tcgetwinsize(&stderr) {
        Ok(size) => (CLEAR, fitted(table, size.ws_row.into(), size.ws_col.into())),
        Err(_) => ("", Cow::Borrowed(table)),
    };
    let _ = writeln!(stderr, "{clear}{}", printable(&table));
}

/// The part of a table that fits on a terminal of `rows` and `columns` without scrolling. A terminal that does not
/// report its size reports 0.
fn fitted(table: &str, rows: usize, columns: usize) -> Cow<'_, str> {
    if rows < 4 || columns < 4 {
        return Cow::Borrowed(table);
    }
    let lines: Vec<&str> = table.trim_end_matches('\n').lines().collect();
    let cut = |line: &&str| line.chars().take(columns).collect::<String>();
    // The newline after the last line needs one row.
    let room = rows - 1;
    let mut shown: Vec<String> = lines.iter().take(room).map(cut).collect();
    if lines.len() > room {
        shown[room - 1] = cut(&format!(" ... and {} more lines", lines.len() - room + 1).as_str());
    }
    Cow::Owned(shown.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_cut_to_what_a_terminal_shows() {
        let table = "one\ntwo two two two two\nthree\nfour\nfive\n";
        assert_eq!(fitted(table, 24, 80), "one\ntwo two two two two\nthree\nfour\nfive");
        assert_eq!(fitted(table, 4, 12), "one\ntwo two two \n ... and 3 m");
        assert_eq!(fitted(table, 6, 8), "one\ntwo two \nthree\nfour\nfive");
        assert_eq!(fitted(table, 0, 0), table, "its size is not known");
    }
}
