//! Complaints of programs, and what helps.

/// What a program may complain of, and what helps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Complaints {
    /// It is not there.
    pub(crate) missing: &'static str,
    /// It was not done in time.
    pub(crate) slow: &'static str,
    /// Its words.
    pub(crate) known: &'static [(&'static str, &'static str)],
    /// Others.
    pub(crate) others: &'static str,
}

/// The remedy for the first complaint that is in the output.
pub(crate) fn cure(cures: &[(&str, &'static str)], output: &str) -> Option<&'static str> {
    cures.iter().find(|(complaint, _)| output.contains(complaint)).map(|(_, cure)| *cure)
}
