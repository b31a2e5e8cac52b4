//! What a kind of environment needs where it is made.

/// What a kind needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// It is made by root.
    pub(crate) root: bool,
    /// Its programs, and how to get them.
    pub(crate) programs: &'static [(&'static str, &'static str)],
}

impl Needs {
    pub(crate) const NOTHING: Self = Self { root: false, programs: &[] };
}
