//! Advice and places in words.

use crate::pure::answers::{Advice, GroupAnswer, Grouping, Judged};
use crate::pure::placement::Placement;
use crate::report::Report;
use crate::runner::words;

impl Advice {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Together => "together",
            Self::Apart => "apart",
            Self::NoDifference => "no difference",
            Self::CannotTell => "cannot tell",
            Self::CannotTellByModel => "cannot tell (modelled)",
        }
    }
}

impl Report {
    /// What is best, in a word, and in a line: `a + b, then c: 71.2 % (70.0 to 72.4 %) of one after the other`.
    /// `None` where jobs are not compared at all.
    pub(crate) fn best(
        &self,
        groupings: &[Grouping],
        judged: fn(&GroupAnswer) -> Option<&Judged>,
    ) -> Option<Best> {
        let cannot_tell = |why| Some(Best { value: Advice::CannotTell.words().to_owned(), why });
        if !self.answers.unknown_alone.is_empty() {
            return cannot_tell(self.unknown_in_words());
        }
        let best = groupings.last()?;
        let groups: Vec<String> = best.groups.iter().map(|it| self.name_of(it)).collect();
        let groups = groups.join(", then ");
        let is_compared = |group: &GroupAnswer| {
            group.jobs.len() > 1 && group.seconds.is_some_and(|it| it.interval.is_some())
        };
        if !self.answers.groups.iter().any(is_compared) {
            return cannot_tell("there are not two runs of any jobs together".to_owned());
        }
        if best.is_one_after_the_other() {
            // The means say so; together may be as good.
            let is_apart = |it: &GroupAnswer| {
                it.jobs.len() < 2 || judged(it).is_some_and(|it| it.advice() == Advice::Apart)
            };
            if !self.answers.groups.iter().all(is_apart) {
                return cannot_tell(format!("{groups}, by the means alone"));
            }
            let value = "one after the other".to_owned();
            return Some(Best { value, why: groups });
        }
        let Some(saved) = &best.saved else {
            return cannot_tell(format!(
                "{groups}: no two blocks have all runs of these and of each job alone"
            ));
        };
        let advice = saved.advice();
        let why = format!("{groups}: {} of one after the other", share(saved));
        Some(match advice {
            Advice::Together | Advice::Apart => {
                Best { value: format!("{:+.1} %", 100.0 * (saved.ratio - 1.0)), why }
            }
            Advice::NoDifference | Advice::CannotTell | Advice::CannotTellByModel => {
                Best { value: advice.words().to_owned(), why }
            }
        })
    }

    /// `no runs of xz alone`.
    fn unknown_in_words(&self) -> String {
        let of_it = |job: &usize| {
            let runs = match self.answers.groups[*job].runs {
                0 => "no runs",
                _ => "only one run",
            };
            format!("{runs} of {} alone", self.jobs[*job].name)
        };
        self.answers.unknown_alone.iter().map(of_it).collect::<Vec<_>>().join(", ")
    }
}

/// What is best for a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Best {
    /// `-28.8 %`, or that it is not known.
    pub(crate) value: String,
    /// Which jobs run together, or why that is not known.
    pub(crate) why: String,
}

/// `80.0 % (79.0 to 81.0 %)`
fn share(judged: &Judged) -> String {
    let interval = judged.interval.map_or(String::new(), |it| {
        format!(" ({:.1} to {:.1} %)", 100.0 * it.low, 100.0 * it.high)
    });
    format!("{:.1} %{interval}", 100.0 * judged.ratio)
}

/// `a level-3 cache, and no level-2 cache: CPUs 0 | 1`
pub(crate) fn placed(placement: &Placement) -> String {
    let slots: Vec<String> = placement.slots.iter().map(|slot| words(slot)).collect();
    let cpus = if slots.is_empty() { words(&placement.all) } else { slots.join(" | ") };
    format!("{}: CPUs {cpus}", placement.share.words())
}
