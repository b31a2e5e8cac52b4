//! OpenMP MFLOPS of Roy Longbottom's collection: nine rows of work of different size.
//!
//! Its operations are words x operations per word x passes, summed up over the rows.

use crate::error::ReadError;
use crate::longbottom;
use crate::number::{amount, count, seconds};
use crate::outcome::Better::{Higher, Neither};
use crate::outcome::{Outcome, unit};
use crate::output::Output;
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "openmp-mflops",
    about: "floating-point operations of all processors together",
    example: "./openmpMFLOPS64",
    main: "speed",
    reader: read,
};

/// All that there are: with some of them cut off, the mean would be another one.
const ROWS: usize = 9;

/// `Data in & out  100000  2  2500  0.084233  5936  0.929538  Yes`
struct Row {
    words: u64,
    per_word: u64,
    passes: u64,
    seconds: f64,
    mflops: f64,
    first: f64,
    all_same: bool,
}

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let mut rows = Vec::new();
    for line in output.stdout.lines() {
        rows.extend(row(line)?);
    }
    if rows.len() < ROWS {
        return Err(ReadError::missing(format!("{ROWS} lines `Data in & out ..`"), output));
    }
    if rows.len() > ROWS {
        return Err(ReadError::Several);
    }
    let mut outcome = Outcome::default();
    let done = rows.iter().try_fold(0_u64, |sum, row| sum.checked_add(row.operations()?));
    let time: f64 = rows.iter().map(|row| row.seconds).sum();
    let (Some(done), true) = (done, time > 0.0) else {
        let what = format!("the rows are of no operations, or of too many, in {time} s");
        return Err(ReadError::Contradiction { what });
    };
    outcome.operations(done, "FLOP");
    outcome.duration = Some(seconds("the time of all rows", time)?);
    outcome.add("speed", done as f64 / time, unit::FLOPS, Higher);
    for row in &rows {
        let name = format!("{}_words_{}_operations", row.words, row.per_word);
        outcome.add(format!("speed_{name}"), row.mflops * 1e6, unit::FLOPS, Higher);
        outcome.add(format!("time_{name}"), row.seconds, unit::SECONDS, Neither);
        outcome.add(format!("passes_{name}"), row.passes as f64, unit::COUNT, Neither);
        outcome.add(format!("result_{name}"), row.first, unit::COUNT, Neither);
    }
    let wrong = rows.iter().filter(|row| !row.all_same).count();
    if wrong > 0 {
        outcome.warn(format!("in {wrong} rows not all results are the same: it computes wrongly"));
    }
    longbottom::machine(output.stdout, &mut outcome)?;
    Ok(outcome)
}

impl Row {
    fn operations(&self) -> Option<u64> {
        self.words.checked_mul(self.per_word)?.checked_mul(self.passes)
    }
}

fn row(line: &str) -> Result<Option<Row>, ReadError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name @ .., words, per_word, passes, seconds, mflops, first, same] = &words[..] else {
        return Ok(None);
    };
    if name.first() != Some(&"Data") || !matches!(*same, "Yes" | "No") {
        return if line.starts_with("Data in & out") {
            Err(ReadError::Contradiction { what: format!("the row `{line}` is not whole") })
        } else {
            Ok(None)
        };
    }
    let row = Row {
        words: count("words", words)?,
        per_word: count("operations per word", per_word)?,
        passes: count("passes", passes)?,
        seconds: amount("seconds", seconds)?,
        mflops: amount("MFLOPS", mflops)?,
        first: amount("first result", first)?,
        all_same: *same == "Yes",
    };
    let wanted = row.operations().map_or(f64::NAN, |it| it as f64 / row.seconds / 1e6);
    // Both are rounded: seconds to a microsecond, MFLOPS to one.
    if (row.mflops - wanted).abs() <= 1.0 + wanted * 1e-3 {
        return Ok(Some(row));
    }
    let what = format!("`{}` is told as {} MFLOPS, and is {wanted:.0}", line.trim(), row.mflops);
    Err(ReadError::Contradiction { what })
}
