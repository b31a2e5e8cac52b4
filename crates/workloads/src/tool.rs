//! A tool whose output can be read.

use std::borrow::Cow;

use crate::error::ReadError;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::text;

/// A tool whose output can be read.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// What plans call it.
    pub name: &'static str,
    /// What it measures, in a line.
    pub about: &'static str,
    /// A command whose output is read best.
    pub example: &'static str,
    /// The figure that says most.
    pub main: &'static str,
    /// How its output is read; it sees the output cleaned.
    pub(crate) reader: fn(&Output<'_>) -> Result<Outcome, ReadError>,
}

impl Tool {
    /// Reads an output.
    pub fn read(&self, output: &Output<'_>) -> Result<Outcome, ReadError> {
        read_clean(output, |clean| {
            let files: Vec<&str> = clean.files.iter().map(|file| text::whole(file)).collect();
            let (stdout, stderr) = (text::whole(clean.stdout), text::whole(clean.stderr));
            (self.reader)(&Output { stdout, stderr, files: &files })
        })
    }
}

/// Shows a reader the output without colours and with plain ends of lines, and lets only finite
/// figures out.
pub(crate) fn read_clean(
    output: &Output<'_>,
    reader: impl FnOnce(&Output<'_>) -> Result<Outcome, ReadError>,
) -> Result<Outcome, ReadError> {
    let (stdout, stderr) = (text::clean(output.stdout), text::clean(output.stderr));
    let files: Vec<Cow<'_, str>> = output.files.iter().map(|file| text::clean(file)).collect();
    let files: Vec<&str> = files.iter().map(AsRef::as_ref).collect();
    let outcome = reader(&Output { stdout: &stdout, stderr: &stderr, files: &files })?;
    // A product of two finite numbers need not be one.
    match outcome.figures.iter().find(|figure| !figure.value.is_finite()) {
        Some(figure) => Err(ReadError::number(&figure.name, &figure.value.to_string())),
        None => Ok(outcome),
    }
}
