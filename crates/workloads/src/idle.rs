//! Nothing: `sleep 600`. There are no operations; energy is compared over time. What is read is only
//! what `time` says, if the command ran under it.

use crate::error::ReadError;
use crate::number::{amount, seconds};
use crate::outcome::Better::Neither;
use crate::outcome::{Outcome, unit};
use crate::output::Output;
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "idle",
    about: "nothing: the power of a machine that waits",
    example: "sleep 600",
    main: "time",
    reader: read,
};

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let mut outcome = Outcome::default();
    for line in output.texts().flat_map(str::lines) {
        let mut words = line.split_whitespace();
        let (Some("real"), Some(told), None) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let told = match told.strip_suffix('s').and_then(|it| it.split_once('m')) {
            // `0m0.003s` of shells, and `0.00` of POSIX.
            Some((minutes, rest)) => amount("time", minutes)? * 60.0 + amount("time", rest)?,
            None => amount("time", told)?,
        };
        outcome.duration = Some(seconds("time", told)?);
        outcome.add("time", told, unit::SECONDS, Neither);
        break;
    }
    Ok(outcome)
}
