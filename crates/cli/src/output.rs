//! Writing to stdout and stderr, whose readers may go away: `nightwatt demo | head` is no error.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;

use crate::errors::Failure;

/// Writes a line, or several, to stdout. A reader that went away has read enough.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{}", printable(text.trim_end_matches('\n')))
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::because("cannot write the result", &error)
                .hint("is the disk full that stdout goes to?"))
        }
        _ => Ok(()),
    }
}

/// Writes one JSON object to stdout, in one line.
pub(crate) fn say_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::because("cannot write the result as JSON", &error))?;
    say(&text)
}

/// Writes a result, as JSON or in words, and what to think twice about to stderr.
pub(crate) fn say_result(
    result: &impl Serialize,
    json: bool,
    words: impl FnOnce() -> String,
    warnings: &[String],
) -> Result<(), Failure> {
    if json {
        say_json(result)?;
    } else {
        say(&words())?;
    }
    for warning in warnings {
        complain(&format!("warning: {warning}"));
    }
    Ok(())
}

/// Writes to stderr. When even that fails, there is nobody left to tell.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(text));
}

/// Names come from files, devices and the command line: none may steer the terminal.
fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|c| if steers(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
