//! The table for people. A test that was left out is a blank in it, which makes its columns ambiguous: such a
//! table is an error, and its CSV has to be read instead.

use super::{IO, Run, TestFigures};
use crate::error::ReadError;
use crate::output::Output;
use crate::text::{after, between};

pub(super) fn read<'a>(output: &Output<'a>) -> Result<Run<'a>, ReadError> {
    // `-q` writes it among the errors.
    let text = output.texts().find(|text| text.lines().any(|line| line.starts_with("Version ")));
    let text = text.ok_or_else(|| ReadError::missing("table or line of CSV", output))?;
    let mut run = Run::default();
    let mut lines = text.lines();
    let mut found = false;
    while let Some(line) = lines.next() {
        let is_io = line.contains("%CP") && line.contains("Size");
        let is_files = line.contains("%CP") && line.contains("files");
        if !is_io && !is_files {
            continue;
        }
        let row: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
        let latency = lines.next().unwrap_or_default();
        let latency: Vec<&str> =
            after(latency, "Latency").unwrap_or_default().split_whitespace().collect();
        let begin = row.len().saturating_sub(2 * IO);
        let is_whole = begin == if is_io { 2 } else { 1 } && latency.len() == IO;
        if !is_whole {
            return Err(ReadError::missing("whole table (or a line of CSV)", output));
        }
        let first = if is_io { 0 } else { IO };
        for (index, told) in run.tests.iter_mut().skip(first).take(IO).enumerate() {
            let at = begin + 2 * index;
            *told = TestFigures { rate: row[at], cpu: row[at + 1], latency: latency[index] };
        }
        if is_io {
            run.size = row[1];
        } else {
            run.files = row[0];
        }
        found = true;
    }
    run.concurrency = between(text, "Concurrency ", "-").unwrap_or_default();
    if found { Ok(run) } else { Err(ReadError::missing("table or line of CSV", output)) }
}
