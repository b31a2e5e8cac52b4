//! What a job of a list is known by: the text of its line, not its place in the list. Lines may be added, moved and
//! removed.

use std::collections::BTreeMap;

/// Facts of a run: the line of its job, which of the lines with this text that is, and where its output is.
pub(crate) const JOB: &str = "job";
const OCCURRENCE: &str = "occurrence";
pub(crate) const OUTPUT: &str = "output";
/// Fact of a run whose warnings are of others of its batch, too: where their outputs are, with commas between them.
pub(crate) const ALSO_OF: &str = "warnings also of";

/// What a job is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct JobKey {
    /// `KIND: COMMAND`
    pub(crate) text: String,
    /// Which of the lines with this text it is, from 1.
    pub(crate) occurrence: u32,
}

impl JobKey {
    /// The facts of a run of this job, whose output is in `output`.
    pub(crate) fn facts(&self, output: &str) -> BTreeMap<String, String> {
        let facts = [
            (JOB, self.text.clone()),
            (OCCURRENCE, self.occurrence.to_string()),
            (OUTPUT, output.to_owned()),
        ];
        facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The job of a run with these facts.
    pub(crate) fn of(facts: &BTreeMap<String, String>) -> Option<Self> {
        let (text, occurrence) = (facts.get(JOB)?.clone(), facts.get(OCCURRENCE)?.parse().ok()?);
        Some(Self { text, occurrence })
    }
}
