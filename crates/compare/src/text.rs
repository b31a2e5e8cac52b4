//! The result for a terminal.

use std::fmt::Write as _;

use crate::pure::experiment::End;
use crate::pure::experiment::answers::{CellAnswer, RatioAnswer};
use nightwatt_energy::stats::equivalence::Verdict;

use super::result::{Comparison, Report};

impl Report {
    /// Each comparison by its main figure.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        if let Some(energy) = self.energy.line() {
            let _ = writeln!(text, "{energy}");
        }
        for comparison in &self.comparisons {
            self.comparison(&mut text, comparison);
        }
        if !self.consolidation.is_empty() {
            let _ = write!(text, "\n{}", self.consolidation_lines());
        }
        if !self.failed.is_empty() {
            let _ = writeln!(text, "\nfailed runs");
            for failed in self.failed.iter().take(MOST_FAILED) {
                let why = in_a_line(&failed.why);
                let _ = writeln!(text, "  {:>5}  {}: {why}", failed.run, failed.cell);
            }
        }
        text
    }

    fn comparison(&self, text: &mut String, comparison: &Comparison) {
        let main = comparison.main.as_str();
        let end = match comparison.end {
            Some(End::Precise) => "",
            Some(End::Cap) => ", as often as the plan allows",
            Some(End::GivenUp) => ", given up",
            None => ", not done yet",
        };
        if main.is_empty() {
            let _ = writeln!(text, "\n{}: no run came to its end{end}", comparison.name);
            return;
        }
        let unit = self.unit(&comparison.name, main);
        let _ = writeln!(text, "\n{}: {} [{unit}]{end}", comparison.name, words(main));
        let rows = self.cells(&comparison.name, main).map(|cell| self.row(cell, main));
        let rows: Vec<[String; 7]> = std::iter::once(self.heading()).chain(rows).collect();
        let _ = write!(text, "{}", aligned(&rows));
    }

    fn heading(&self) -> [String; 7] {
        let of = format!("of {}", self.baseline);
        [self.compared.as_str(), "runs", "mean", "sd", "95 %", &of, "95 %"].map(str::to_owned)
    }

    fn row(&self, cell: &CellAnswer, figure: &str) -> [String; 7] {
        let failed = self.failed_of(cell);
        let runs = if failed > 0 { format!("{} + {failed}!", cell.n) } else { cell.n.to_string() };
        let number = |value: Option<f64>| value.map_or("–".to_owned(), significant);
        let half = cell.sequential.map(|interval| interval.width() / 2.0);
        let half = half.map_or("–".to_owned(), |half| format!("± {}", significant(half)));
        let ratio = self.ratio(cell, figure);
        let share = match ratio {
            Some(ratio) => format!("{:.1} %", 100.0 * ratio.ratio),
            None if cell.environment == self.baseline => "100 %".to_owned(),
            None => "–".to_owned(),
        };
        let judged = ratio.map(|ratio| self.judged(ratio, cell.n)).unwrap_or_default();
        [cell.environment.clone(), runs, number(cell.mean), number(cell.sd), half, share, judged]
    }

    /// `101.2 to 104.9 %: differs`.
    fn judged(&self, ratio: &RatioAnswer, runs: u64) -> String {
        let interval = ratio.interval.map_or("anything".to_owned(), |it| {
            format!("{:.1} to {:.1} %", 100.0 * it.low, 100.0 * it.high)
        });
        let margin = percent(self.answers.margin);
        let verdict = match ratio.verdict {
            Verdict::Differs => "differs".to_owned(),
            Verdict::NoDifference => format!("no difference beyond {margin} %"),
            Verdict::CannotTell => "cannot tell".to_owned(),
        };
        // Where runs failed, means are of other runs than the ratio.
        let of =
            if ratio.pairs < runs { format!(" (of {} pairs)", ratio.pairs) } else { String::new() };
        format!("{interval}: {verdict}{of}")
    }
}

/// More are in the report.
const MOST_FAILED: usize = 10;

/// Of a reason of many lines how it ended, and what was wrong: the last line that speaks of an error, else
/// the last of all.
pub fn in_a_line(why: &str) -> String {
    // What to try is of no use without what is wrong.
    let says = |line: &&str| !line.is_empty() && !line.starts_with("hint:");
    let mut lines = why.lines().map(str::trim).filter(says);
    let first = lines.next().unwrap_or_default();
    let rest: Vec<&str> = lines.collect();
    let speaks = |line: &&&str| {
        let line = line.to_lowercase();
        ["error", "fatal", "cannot", "failed"].iter().any(|word| line.contains(word))
            && !line.contains("more information")
    };
    let Some(last) = rest.iter().rev().find(speaks).or(rest.last()) else {
        return first.to_owned();
    };
    let ending = ENDINGS.iter().find_map(|ending| {
        let from = first.find(ending)? + ending.len();
        let until = first[from..].find(':').map_or(first.len(), |at| from + at);
        Some(&first[..until])
    });
    ending.map_or_else(|| (*last).to_owned(), |ending| format!("{ending}: {last}"))
}

/// What stands before what is known of a command's end.
const ENDINGS: [&str; 4] = ["exit status: ", "exit status ", "signal: ", "it took longer than "];

/// `energy_per_operation` as people say it.
pub(crate) fn words(figure: &str) -> String {
    figure.replace('_', " ")
}

/// A share in per cent, without the digits that binary fractions add.
pub fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

/// A number with four digits that count.
pub fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if (-4..9).contains(&magnitude) {
        let decimals = usize::try_from(3 - magnitude).unwrap_or(0);
        format!("{value:.decimals$}")
    } else {
        format!("{value:.3e}")
    }
}

/// Rows whose columns are aligned: the first and the last one to the left, all others to the right.
pub fn aligned<R: AsRef<[String]>>(rows: &[R]) -> String {
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row.as_ref()) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (column, (cell, width)) in row.as_ref().iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(line, " {cell:<width$}"),
                _ if column + 1 == columns => write!(line, "  {cell}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_per_cent_are_seven() {
        assert_eq!(percent(0.07).to_string(), "7");
        assert_eq!(percent(0.0125).to_string(), "1.25");
    }

    #[test]
    fn numbers_keep_four_digits_that_count() {
        for (value, text) in [
            (0.0, "0"),
            (0.001_234_56, "0.001235"),
            (1.0, "1.000"),
            (43.25, "43.25"),
            (123_456.0, "123456"),
            (1e-9, "1.000e-9"),
            (-2.5, "-2.500"),
        ] {
            assert_eq!(significant(value), text);
        }
    }
}
