//! Writing to stdout and stderr, whose readers may go away: `nightwatt demo | head` is no error.

use std::io::{self, Write};

use serde::Serialize;

use crate::errors::Failure;

/// Writes a line, or several, to stdout. A reader that went away has read enough.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{}", text.trim_end_matches('\n')).and_then(|()| stdout.flush()) {
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

/// Writes to stderr. When even that fails, there is nobody left to tell.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
