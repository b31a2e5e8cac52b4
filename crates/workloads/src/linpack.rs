//! Linpack of 100 equations, as of Roy Longbottom's collection. It does not say how many operations
//! it did, nor in which time: only how many a second.

use crate::error::ReadError;
use crate::longbottom;
use crate::number::{amount, count};
use crate::outcome::Better::{Higher, Neither};
use crate::outcome::{Outcome, unit};
use crate::output::Output;
use crate::quote::last_words;
use crate::text::after_only;
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "linpack",
    about: "floating-point operations of a processor: linear equations",
    example: "./linpack",
    main: "speed",
    reader: read,
};

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let text = output.stdout;
    let speed = after_only(text, "Speed ")?
        .ok_or_else(|| ReadError::missing("line `Speed .. MFLOPS`", output))?;
    let mut words = speed.split_whitespace();
    let value = amount("speed", words.next().unwrap_or_default())?;
    let factor = match words.next() {
        Some("MFLOPS") => 1e6,
        Some("GFLOPS") => 1e9,
        other => return Err(ReadError::unit("speed", other.unwrap_or_default())),
    };
    if value <= 0.0 {
        return Err(ReadError::NoOperations { what: "operation", last: last_words(output) });
    }
    let mut outcome = Outcome::default();
    outcome.add("speed", value * factor, unit::FLOPS, Higher);
    let order = text.lines().find_map(|line| line.split_once(" n @ "));
    if let Some((_, order)) = order {
        outcome.add("equations", count("equations", order)? as f64, unit::COUNT, Neither);
    }
    if !text.contains("Numeric results were as expected") {
        outcome.warn("it does not say that its numeric results were as expected");
    }
    longbottom::machine(text, &mut outcome)?;
    Ok(outcome)
}
