//! The line of CSV, of formats 1.96 to 1.98.

use super::{IO, Run, TESTS, TestFigures};
use crate::error::ReadError;
use crate::output::Output;
use crate::quote;

/// Where things are in a format.
struct Format {
    name: &'static str,
    fields: usize,
    /// Of the first test of bytes; each has a rate and a share of the processor.
    io: usize,
}

/// The last one has two fields more: how many seeks, by how many processes.
const FORMATS: [Format; 3] = [
    Format { name: "1.96", fields: 48, io: 7 },
    Format { name: "1.97", fields: 48, io: 7 },
    Format { name: "1.98", fields: 50, io: 9 },
];

/// Between the tests of bytes and those of files: number, largest, smallest, folders, chunk.
const FILES: usize = 5;

fn format_of(line: &str) -> Option<&'static Format> {
    let first = line.trim().split(',').next()?;
    FORMATS.iter().find(|format| format.name == first)
}

fn fields(line: &str) -> usize {
    line.split(',').count()
}

/// All such lines, each whole again if it was wrapped at a comma.
pub(super) fn lines(output: &Output<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = output.texts().flat_map(str::lines).peekable();
    while let Some(line) = rest.next() {
        let Some(format) = format_of(line) else { continue };
        let mut whole = line.trim().to_owned();
        while whole.ends_with(',') && fields(&whole) < format.fields {
            let Some(next) = rest.next_if(|next| format_of(next).is_none()) else { break };
            whole.push_str(next.trim());
        }
        found.push(whole);
    }
    found
}

pub(super) fn read(line: &str) -> Result<Run<'_>, ReadError> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let format = format_of(line).filter(|format| format.fields == fields.len());
    let Some(format) = format else {
        let line = quote::short(line);
        let what = format!("the line `{line}` has {} fields (48, or 50 since 1.98)", fields.len());
        return Err(ReadError::Contradiction { what });
    };
    let files = format.io + 2 * IO;
    let latencies = fields.len() - TESTS.len();
    let mut tests = [TestFigures::default(); TESTS.len()];
    for (index, told) in tests.iter_mut().enumerate() {
        let at = if index < IO { format.io } else { files + FILES - 2 * IO } + 2 * index;
        *told = TestFigures {
            rate: fields[at],
            cpu: fields[at + 1],
            latency: fields[latencies + index],
        };
    }
    Ok(Run { tests, concurrency: fields[3], size: fields[5], files: fields[files] })
}
