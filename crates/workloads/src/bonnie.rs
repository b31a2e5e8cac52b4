//! Bonnie++ 1.96 to 2.00: its line of CSV, or else its table.
//!
//! `+++++` stands for what was too fast to measure. K is 1024 bytes; files are counted by 1024.

mod csv;
mod dates;
mod table;

use crate::error::ReadError;
use crate::number::{BINARY, amount, count, sized, time};
use crate::outcome::Better::{Higher, Lower, Neither};
use crate::outcome::{Outcome, unit};
use crate::output::Output;
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "bonnie++",
    about: "a file system: bytes in a row, seeks, files made and deleted",
    example: "bonnie++ -q -d /var/tmp -u nobody -s 16G -n 400",
    main: "block_output",
    reader: read,
};

/// How many of [`TESTS`] are of bytes or seeks; the others are of whole files.
const IO: usize = 6;

/// All tests, in the order of the CSV.
const TESTS: [&str; 12] = [
    "char_output",
    "block_output",
    "rewrite",
    "char_input",
    "block_input",
    "seeks",
    "create_sequential",
    "stat_sequential",
    "delete_sequential",
    "create_random",
    "stat_random",
    "delete_random",
];

/// The figures printed for a test; empty where it was left out.
#[derive(Debug, Default, Clone, Copy)]
struct TestFigures<'a> {
    rate: &'a str,
    cpu: &'a str,
    latency: &'a str,
}

/// The figures printed for a run.
#[derive(Debug, Default)]
struct Run<'a> {
    tests: [TestFigures<'a>; TESTS.len()],
    concurrency: &'a str,
    size: &'a str,
    files: &'a str,
}

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let lines = csv::lines(output);
    let mut outcome = match &lines[..] {
        [] => outcome(&table::read(output)?, output)?,
        [.., last] => outcome(&csv::read(last)?, output)?,
    };
    if lines.len() > 1 {
        outcome.warn(format!("of {} runs the last one is read", lines.len()));
    }
    dates::duration(output.stdout, &mut outcome)?;
    Ok(outcome)
}

fn outcome(run: &Run<'_>, output: &Output<'_>) -> Result<Outcome, ReadError> {
    let mut outcome = Outcome::default();
    let mut too_fast = Vec::new();
    for (index, (name, told)) in TESTS.iter().zip(&run.tests).enumerate() {
        let is_too_fast = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte == b'+');
        if is_too_fast(told.rate) {
            too_fast.push(*name);
        } else if !told.rate.is_empty() && index < IO - 1 {
            outcome.add(*name, bytes(name, told.rate)?, unit::BYTES_PER_SECOND, Higher);
        } else if !told.rate.is_empty() {
            outcome.add(*name, amount(name, told.rate)?, unit::PER_SECOND, Higher);
        }
        if !told.cpu.is_empty() && !is_too_fast(told.cpu) {
            outcome.add(format!("{name}_cpu"), amount(name, told.cpu)?, unit::PERCENT, Neither);
        }
        if !told.latency.is_empty() {
            let latency = time(name, told.latency)?;
            outcome.add(format!("{name}_latency_max"), latency, unit::SECONDS, Lower);
        }
    }
    if outcome.figures.is_empty() && too_fast.is_empty() {
        return Err(ReadError::no_operations("test", output));
    }
    if !too_fast.is_empty() {
        outcome.warn(format!(
            "{} were too fast to be measured (`+++++`): larger files (-s, twice the memory) and more \
             of them (-n)",
            too_fast.join(", ")
        ));
    } else if outcome.figure(TOOL.main).is_none() {
        outcome.warn("bytes in a row were not measured (-s 0)");
    }
    if !run.concurrency.is_empty() {
        let number = count("concurrency", run.concurrency)?;
        outcome.add("concurrency", number as f64, unit::COUNT, Neither);
    }
    if !run.size.is_empty() {
        // `4G`, or with the size of a block, `4G:8k`.
        let size = run.size.split(':').next().unwrap_or_default();
        let size = sized("size", size, &[""], BINARY)?;
        outcome.add("file_size", size, unit::BYTES, Neither);
    }
    if !run.files.is_empty() {
        let files = run.files.split(':').next().unwrap_or_default();
        outcome.add("files", amount("files", files)? * BINARY, unit::COUNT, Neither);
    }
    Ok(outcome)
}

/// Kilobytes, or in tables since 2.00 with a letter: `2024k`, `305m`, `1.0g`.
fn bytes(what: &str, text: &str) -> Result<f64, ReadError> {
    let (number, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], BINARY),
        Some(b'm') => (&text[..text.len() - 1], BINARY * BINARY),
        Some(b'g') => (&text[..text.len() - 1], BINARY * BINARY * BINARY),
        _ => (text, BINARY),
    };
    Ok(amount(what, number)? * factor)
}
