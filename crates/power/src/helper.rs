//! Programs that do something for a driver.

use std::process::ExitStatus;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_host::text;
use nightwatt_host::tool::{self, Capture, Failed};
use tokio::process::Command;

use crate::Error;

/// Bytes of the end of a program's output that go into the error message.
const OUTPUT_KEPT: usize = 4096;

/// Runs a program to its end: its status, and the end of what it printed. Errors call it `told`.
pub(crate) async fn run(
    clock: &Clock,
    limit: Duration,
    command: Command,
    told: &str,
) -> Result<(ExitStatus, String), Error> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    match tool::run(clock, limit, command, Capture::EndOfBoth(OUTPUT_KEPT)).await {
        Ok(ended) => Ok((ended.status, text::clean(&ended.stdout))),
        Err(Failed::Start(source)) => Err(Error::Start { program, source }),
        Err(Failed::Wait(source)) => {
            Err(Error::System { attempt: format!("wait for `{told}`"), source })
        }
        Err(Failed::TimedOut(output)) => {
            let (command, output) = (told.to_owned(), text::clean(&output));
            Err(Error::TimedOut { command, limit, output })
        }
    }
}
