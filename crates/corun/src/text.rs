//! The result for a terminal.

use std::fmt::Write as _;

use nightwatt_compare::{aligned, in_a_line, significant};
use nightwatt_energy::stats::equivalence::Verdict;

use crate::pure::answers::{Advice, GroupAnswer, Grouping, Judged, Mean};
use crate::pure::placement::Placement;
use crate::report::Report;
use crate::runner::words;

/// More are in the report.
const MOST_FAILED: usize = 10;

impl Advice {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Together => "together",
            Self::Apart => "apart",
            Self::NoDifference => "no difference",
            Self::CannotTell => "cannot tell",
        }
    }
}

impl Report {
    /// Groups, slowdowns and advice.
    pub fn text(&self) -> String {
        let mut text = format!("{}\njobs share {}\n", self.title, placed(&self.placement));
        if let Some(energy) = self.energy.line() {
            let _ = writeln!(text, "{energy}");
        }
        let _ = write!(text, "\n{}", aligned(&self.group_rows()));
        let beside = self.beside_rows();
        if beside.len() > 1 {
            let _ = write!(
                text,
                "\ntime for the same work, alone = 100 % (? cannot tell)\n{}",
                aligned(&beside)
            );
        }
        let advice = self.advice();
        if !advice.is_empty() {
            let _ = writeln!(text, "\n{}", advice.join("\n"));
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

    fn group_rows(&self) -> Vec<Vec<String>> {
        let heading =
            ["", "runs", "s", "95 %", "J", "95 %", "time of one after the other", "energy"];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(self.answers.groups.iter().map(|group| self.group_row(group)));
        rows
    }

    fn group_row(&self, group: &GroupAnswer) -> Vec<String> {
        let mut row = vec![self.name_of(&group.jobs), group.runs.to_string()];
        for mean in [group.seconds, group.joules] {
            let number = |value: f64| significant(value);
            row.push(mean.map_or("–".to_owned(), |it| number(it.mean)));
            row.push(mean.and_then(half).map_or("–".to_owned(), |it| format!("± {}", number(it))));
        }
        for judged in [group.time, group.energy] {
            row.push(
                judged
                    .map_or(String::new(), |it| format!("{}: {}", share(&it), it.advice().words())),
            );
        }
        row
    }

    /// A row for each job: beside each other one, and in each larger group.
    fn beside_rows(&self) -> Vec<Vec<String>> {
        let larger: Vec<&GroupAnswer> =
            self.answers.groups.iter().filter(|group| group.jobs.len() > 2).collect();
        let names = self.jobs.iter().map(|job| format!("beside {}", job.name));
        let groups = larger.iter().map(|group| format!("in {}", self.name_of(&group.jobs)));
        let heading = std::iter::once(String::new()).chain(names).chain(groups).collect();
        let mut rows: Vec<Vec<String>> = vec![heading];
        for (job, named) in self.jobs.iter().enumerate() {
            let beside = (0..self.jobs.len()).map(|other| self.beside(job, other));
            let within = larger
                .iter()
                .map(|group| Some(group.slowdowns.iter().find(|it| it.job == job)?.slowdown));
            let cells = beside.chain(within).map(|judged| judged.map_or("–".to_owned(), cell));
            rows.push(std::iter::once(named.name.clone()).chain(cells).collect());
        }
        rows
    }

    /// What to run together, in lines.
    pub(crate) fn advice(&self) -> Vec<String> {
        let best = [
            ("least time", self.answers.least_time.last()),
            ("least energy", self.answers.least_energy.last()),
        ];
        let mut lines = Vec::new();
        for (what, grouping) in best {
            let Some(grouping) = grouping else { continue };
            lines.push(format!("{what:<13} {}", self.grouping_in_words(grouping)));
        }
        lines
    }

    /// `a + b, then c: 71.2 % (70.0 to 72.4 %) of one after the other`.
    pub(crate) fn grouping_in_words(&self, grouping: &Grouping) -> String {
        let groups: Vec<String> = grouping.groups.iter().map(|it| self.name_of(it)).collect();
        let groups = groups.join(", then ");
        match &grouping.saved {
            None => format!("{groups}: one after the other"),
            Some(saved) => {
                let doubt = match saved.advice() {
                    Advice::CannotTell => ": cannot tell whether it is better",
                    Advice::NoDifference => ": no difference",
                    Advice::Together | Advice::Apart => "",
                };
                format!("{groups}: {} of one after the other{doubt}", share(saved))
            }
        }
    }
}

fn half(mean: Mean) -> Option<f64> {
    mean.interval.map(|interval| interval.width() / 2.0)
}

/// `80.0 % (79.0 to 81.0 %)`
pub(crate) fn share(judged: &Judged) -> String {
    let interval = judged.interval.map_or(String::new(), |it| {
        format!(" ({:.1} to {:.1} %)", 100.0 * it.low, 100.0 * it.high)
    });
    format!("{:.1} %{interval}", 100.0 * judged.ratio)
}

fn cell(judged: Judged) -> String {
    let doubt = if judged.verdict == Verdict::CannotTell { " ?" } else { "" };
    format!("{:.1}{doubt}", 100.0 * judged.ratio)
}

/// `a level-3 cache, and no level-2 cache: CPUs 0 | 1`
pub(crate) fn placed(placement: &Placement) -> String {
    let slots: Vec<String> = placement.slots.iter().map(|slot| words(slot)).collect();
    let cpus = if slots.is_empty() { words(&placement.all) } else { slots.join(" | ") };
    format!("{}: CPUs {cpus}", placement.share.words())
}
