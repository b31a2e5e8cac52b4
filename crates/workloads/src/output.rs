//! What a tool printed.

/// What a tool printed and wrote, to its last newline: a last line without one counts as cut off.
#[derive(Debug, Clone, Copy, Default)]
pub struct Output<'a> {
    /// Its standard output.
    pub stdout: &'a str,
    /// Its standard error.
    pub stderr: &'a str,
    /// Files that it wrote: pgbench's log of transactions, YAML of stress-ng, JSON of any.
    pub files: &'a [&'a str],
}

impl<'a> Output<'a> {
    /// An output without errors and files.
    pub fn of(stdout: &'a str) -> Self {
        Self { stdout, ..Self::default() }
    }

    /// All texts: standard output, files, standard error.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        std::iter::once(self.stdout).chain(self.files.iter().copied()).chain([self.stderr])
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.texts().all(|text| text.trim().is_empty())
    }
}
