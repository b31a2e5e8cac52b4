//! The destination of figures that must not mix with a command's own output.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::errors::Failure;
use crate::output;

/// The destination of the figures.
pub(crate) enum Output<'a> {
    Stderr,
    Stdout,
    File(&'a Path, File),
}

impl<'a> Output<'a> {
    /// No path: stderr. `-`: stdout.
    pub(crate) fn open(path: Option<&'a Path>) -> Result<Self, Failure> {
        match path {
            None => Ok(Self::Stderr),
            Some(path) if path == Path::new("-") => Ok(Self::Stdout),
            Some(path) => match File::create(path) {
                Ok(file) => Ok(Self::File(path, file)),
                Err(error) => Err(cannot_write(path, &error)),
            },
        }
    }

    /// Writes a report: as JSON, or in words followed by its warnings.
    pub(crate) fn write_report(
        &mut self,
        report: &impl Serialize,
        json: bool,
        words: &str,
        warnings: &[String],
    ) -> Result<(), Failure> {
        let text = if json {
            serde_json::to_string(report)
                .map_err(|error| Failure::because("cannot write the result as JSON", &error))?
        } else {
            let warnings =
                warnings.iter().map(|warning| output::folded(&format!("\n warning: {warning}")));
            words.to_owned() + &warnings.collect::<String>()
        };
        self.write(text)
    }

    /// Writes the text and a newline.
    pub(crate) fn write(&mut self, mut text: String) -> Result<(), Failure> {
        text.push('\n');
        match self {
            Self::Stderr => output::complain(text.trim_end_matches('\n')),
            Self::Stdout => output::print(&text)?,
            Self::File(path, file) => {
                if let Err(error) = file.write_all(text.as_bytes()) {
                    // The figures cost a whole run: print them if they cannot be written to the file.
                    output::complain(text.trim_end_matches('\n'));
                    return Err(cannot_write(path, &error));
                }
            }
        }
        Ok(())
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::because(format!("cannot write {}", path.display()), error)
        .hint("`-o` names a file in a folder that is there and can be written to")
}
