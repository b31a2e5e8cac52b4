//! Advice and places in words.

use crate::pure::answers::{Advice, Grouping, Judged};
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
        }
    }
}

impl Report {
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
