//! The claims for a terminal.

use std::fmt::Write as _;

use super::{Reproduction, Verdict};

/// Columns of a line.
const WIDTH: usize = 100;

impl Reproduction {
    /// Each claim with its answer, and how many there are of each.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for it in &self.claims {
            let verdict = it.verdict.as_str();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:<4} {verdict:<13}  {}", it.id, filled(&it.claim, 20));
            for figure in &it.figures {
                let _ = writeln!(text, "       {}", figure.line());
            }
            let _ = writeln!(text, "       {}\n", filled(&it.why, 7));
        }
        let counts = Verdict::ALL.map(|verdict| {
            let of_it = self.claims.iter().filter(|it| it.verdict == verdict).count();
            format!("{of_it} {}", verdict.as_str())
        });
        let log = self.log.as_ref().map(|log| format!(" Log: {log}.")).unwrap_or_default();
        let _ = writeln!(text, "{} claims: {}.{log}", self.claims.len(), counts.join(", "));
        for note in &self.notes {
            let _ = writeln!(text, "note: {}", filled(note, 6));
        }
        text
    }
}

/// Text in lines, all but the first of them indented.
fn filled(text: &str, indent: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > WIDTH {
            let _ = write!(out, "\n{:indent$}", "");
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}
