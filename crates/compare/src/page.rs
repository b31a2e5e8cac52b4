//! The result as a page.

use std::path::Path;

use nightwatt_energy::stats::equivalence::Verdict;
use nightwatt_report::figures::significant;
use nightwatt_report::{Block, Document, KeyFigure, Note, Origin, Section, Text};

use super::figures::RATE;
use super::result::{Comparison, Failed, Report};
use super::text::{percent, words};

impl Report {
    /// The report for a terminal.
    pub fn text(&self) -> String {
        self.document(String::new(), Path::new("")).to_text()
    }

    /// The report; `generated` says by what and when it was made, `folder` where the runs are.
    pub fn document(&self, generated: String, folder: &Path) -> Document {
        let mut document = Document::new(&self.title);
        let (share, least, most) =
            (percent(self.answers.rule.share), self.answers.rule.min, self.answers.rule.max);
        document.subtitle = Text::from(format!(
            "{} against {}; each run {least} to {most} times, until ± {share} % of the mean; {} runs, {} of \
             them failed",
            self.compared,
            self.baseline,
            self.runs.len(),
            self.failed.len()
        ));
        document.generated = generated;
        document.warnings.clone_from(&self.warnings);
        document
            .sections([self.short_section()])
            .sections(self.comparisons.iter().map(|it| self.comparison_section(it)))
            .sections([
                Section::of_charts("Against what was varied", self.sweeps()),
                self.consolidation_section(),
                Section::of_charts("Quality of service", self.service_curves()),
                Section::of_charts("Power over time", self.power_charts(folder)),
                Failed::section(&self.failed),
                self.data_section().detail(),
            ])
    }

    fn short_section(&self) -> Section {
        let mut figures = Vec::new();
        for comparison in &self.comparisons {
            for cell in self.cells(&comparison.name, &comparison.main) {
                let Some(ratio) = self.ratio(cell, &comparison.main) else { continue };
                let value = match ratio.verdict {
                    Verdict::Differs => format!("{:+.1} %", 100.0 * (ratio.ratio - 1.0)),
                    Verdict::NoDifference => "no difference".to_owned(),
                    Verdict::CannotTell => "cannot tell".to_owned(),
                };
                let interval = ratio.interval.map(|it| {
                    format!(
                        "{:.1} to {:.1} % of {}",
                        100.0 * it.low,
                        100.0 * it.high,
                        ratio.reference
                    )
                });
                let label = format!("{}, {}", comparison.name, cell.environment);
                let note = format!("{}; {}", words(&comparison.main), interval.unwrap_or_default());
                figures.push(KeyFigure::new(label, value).note(note));
            }
        }
        // Too many key figures are unreadable: the tables have all of them.
        figures.truncate(MOST_KEY_FIGURES);
        let mut blocks = Vec::new();
        if !figures.is_empty() {
            blocks.push(Block::Figures(figures));
        }
        blocks.extend([self.energy.note_of(self.finished).into(), self.judged_note().into()]);
        Section::new("In short", blocks)
    }

    fn judged_note(&self) -> Note {
        let judged = self
            .answers
            .figures
            .get(super::plan::MAIN)
            .map_or(0, |figure| figure.to_baseline.ratios.len());
        let margin = percent(self.answers.margin);
        Note::new(Origin::Counted, judged_words(judged, self.answers.rule.factor, margin))
    }

    fn comparison_section(&self, comparison: &Comparison) -> Section {
        let mut blocks = Vec::new();
        blocks.extend(self.bars(comparison, &comparison.main).map(Block::from));
        if comparison.main != RATE {
            blocks.extend(self.bars(comparison, RATE).map(Block::from));
        }
        if comparison.main.is_empty() {
            blocks.push(Text::from("No run came to its end.").into());
        } else {
            blocks.push(self.published_table(comparison, &comparison.main).into());
        }
        blocks.extend(self.service_table(&comparison.name).map(Block::from));
        let others: Vec<Block> = (self.figures.iter())
            .filter(|figure| figure.name != comparison.main)
            .map(|figure| self.published_table(comparison, &figure.name))
            .filter(|table| {
                table.rows.iter().any(|row| row.get(3) != Some(&nightwatt_report::Cell::Empty))
            })
            .map(Block::from)
            .collect();
        if !others.is_empty() {
            blocks.push(Block::Details { summary: "All other figures".to_owned(), blocks: others });
        }
        Section::new(comparison.name.as_str(), blocks)
    }

    fn data_section(&self) -> Section {
        let mut blocks: Vec<Block> = vec![self.settings_table().into()];
        blocks.push(
            Text::from("Beside this page: ")
                .beside("plan.toml")
                .plain(", the plan; ")
                .beside("runs.jsonl")
                .plain(", every run as it was; ")
                .beside("runs.csv")
                .plain(" and ")
                .beside("cells.csv")
                .plain(", tables; ")
                .beside("report.json")
                .plain(", this report as data; ")
                .beside("runs/")
                .plain(", what each command said and its power (Parquet).")
                .into(),
        );
        let folders = self.runs.iter().map(|run| {
            let text = Text::default().beside(format!("runs/{:04}/", run.number));
            text.plain(format!(" {}", self.plan.describe(run.cell)))
        });
        let folders = Block::List(folders.collect());
        blocks.push(Block::Details {
            summary: "Every run".to_owned(),
            blocks: vec![self.runs_table().into(), folders],
        });
        Section::new("Settings and data", blocks)
    }

    /// What a value of a figure says, for labels.
    pub(super) fn labelled(&self, comparison: &str, figure: &str, value: f64) -> String {
        format!("{} {}", significant(value), self.unit(comparison, figure))
    }
}

/// Maximum number of key figures that stay readable.
const MOST_KEY_FIGURES: usize = 12;

/// By what rule intervals hold, where that widens them, and what was judged.
fn judged_words(judged: usize, factor: f64, margin: f64) -> String {
    let rule = if (factor - 1.0).abs() < 5e-4 {
        ".".to_owned()
    } else {
        format!(
            " under the rule by which runs were repeated, for which they are {factor:.3} times as wide as \
             Student's."
        )
    };
    let judged = match judged {
        0 => String::new(),
        1 => " One ratio of main figures was judged.".to_owned(),
        many => format!(" {many} ratios of main figures were judged together (Holm)."),
    };
    format!("Intervals hold 95 %{rule}{judged} Differences within {margin} % count as none.")
}

#[cfg(test)]
mod tests {
    use super::judged_words;

    #[test]
    fn one_ratio_is_no_plural_and_a_factor_of_one_is_not_named() {
        let plain = judged_words(1, 1.0, 3.0);
        assert_eq!(
            plain,
            "Intervals hold 95 %. One ratio of main figures was judged. Differences within 3 % count as none."
        );
        let wide = judged_words(4, 1.083, 3.0);
        assert!(wide.contains("1.083 times") && wide.contains("4 ratios") && wide.contains("Holm"));
    }
}
