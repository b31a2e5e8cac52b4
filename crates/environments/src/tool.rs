//! Programs of others that do something for us: bounded in time, and killed with all they started.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_host::tool::blocking::{Finished, Limits, Running};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::Error;

/// Bytes of the end of a program's output that go into the error message.
const OUTPUT_KEPT: usize = 2000;

/// What a program printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The end of all it printed, errors last.
    pub(crate) fn output_tail(&self) -> String {
        tail(&format!("{}{}", self.stdout, self.stderr))
    }
}

/// An exit status in words.
pub(crate) fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "no exit status".to_owned(),
    }
}

/// Runs a program until it has ended and all that holds its output has closed it; `what` is what it is
/// to do. Interrupts from the terminal do not reach it: it is `stop` that ends it.
pub(crate) fn run(argv: &[String], what: &str, limit: Duration, stop: &Stop) -> Result<Ran, Error> {
    start_and_wait(argv, what, limit, stop, None::<fn(u32)>)
}

/// Like [`run`]. The program begins only after `announce` got the number of its process group; what `announce`
/// returns is dropped when the program has ended.
pub(crate) fn run_announced<T>(
    argv: &[String],
    what: &str,
    limit: Duration,
    stop: &Stop,
    announce: impl FnOnce(u32) -> T,
) -> Result<Ran, Error> {
    let mut words = ["/bin/sh", "-c", "read -r go && exec \"$@\" </dev/null", "nightwatt"]
        .map(str::to_owned)
        .to_vec();
    words.extend_from_slice(argv);
    start_and_wait(&words, what, limit, stop, Some(announce))
}

fn start_and_wait<T>(
    argv: &[String],
    what: &str,
    limit: Duration,
    stop: &Stop,
    announce: Option<impl FnOnce(u32) -> T>,
) -> Result<Ran, Error> {
    let deadline = monotonic() + limit;
    let system = |source| Error::System { attempt: what.to_owned(), source };
    let (program, arguments) =
        argv.split_first().ok_or_else(|| system(io::ErrorKind::InvalidInput.into()))?;
    // A file takes whatever comes, so one pipe is all there is to wait for.
    let mut errors = File::from(
        memfd_create("errors", MemfdFlags::CLOEXEC).map_err(|error| system(error.into()))?,
    );
    let (mut output, writer) = io::pipe().map_err(system)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(if announce.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(writer)
        .stderr(errors.try_clone().map_err(system)?);
    let mut running = Running::start(&mut command).map_err(|source| Error::Start {
        what: what.to_owned(),
        program: program.clone(),
        source,
    })?;
    // Our end of the pipe that the program writes to.
    drop(command);
    let _announced = announce.map(|announce| announce(running.child().id()));
    if let Some(mut begin) = running.child().stdin.take() {
        begin.write_all(b"go\n").map_err(system)?;
    }
    let mut stdout = Vec::new();
    let limits = Limits { stop, until: deadline, longest: usize::MAX };
    let finished = running.finish(&mut output, &mut stdout, limits).map_err(system)?;
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    let mut bytes = Vec::new();
    errors.seek(SeekFrom::Start(0)).and_then(|_| errors.read_to_end(&mut bytes)).map_err(system)?;
    let stderr = String::from_utf8_lossy(&bytes).into_owned();
    match finished {
        Finished::Ended(status) => Ok(Ran { status, stdout, stderr }),
        Finished::Stopped => Err(Error::Stopped(what.to_owned())),
        Finished::TimedOut | Finished::TooLong => Err(Error::TimedOut {
            what: what.to_owned(),
            limit,
            output: tail(&format!("{stdout}{stderr}")),
        }),
    }
}

/// Like [`run`], and it must succeed; gives what it printed.
pub(crate) fn succeed(
    argv: &[String],
    what: &str,
    limit: Duration,
    stop: &Stop,
) -> Result<String, Error> {
    successful(argv, what, run(argv, what, limit, stop)?)
}

/// What it printed, if it succeeded.
pub(crate) fn successful(argv: &[String], what: &str, ran: Ran) -> Result<String, Error> {
    if ran.status.success() {
        return Ok(ran.stdout);
    }
    Err(Error::Failed {
        what: what.to_owned(),
        command: shortened(&crate::shell::join(argv)),
        status: in_words(ran.status),
        output: ran.output_tail(),
    })
}

fn tail(text: &str) -> String {
    let text = text.trim();
    let start = text.len().saturating_sub(OUTPUT_KEPT);
    let start = (start..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    text[start..].to_owned()
}

/// Scripts are long, and their first line says enough.
fn shortened(line: &str) -> String {
    let mut short: String = line.chars().take(300).collect();
    if short.len() < line.len() {
        short.push_str(" ..");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(line: &str, limit: Duration) -> Result<Ran, Error> {
        let argv = ["/bin/sh", "-c", line].map(str::to_owned);
        run(&argv, "try it", limit, &Stop::new().unwrap())
    }

    #[test]
    fn output_errors_and_status_are_told_apart() {
        let ran = sh("echo out; echo err >&2; exit 3", Duration::from_mins(1)).unwrap();
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(in_words(ran.status), "exit status 3");
        let much =
            sh("head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero", Duration::from_mins(1));
        assert_eq!(much.unwrap().stdout.len(), 1_000_000, "neither pipe blocks the other");
    }

    #[test]
    fn what_hangs_is_killed_with_all_it_started() {
        let said = |limit| {
            let error = sh("echo so far; sleep 1000 & sleep 1000", limit).unwrap_err();
            error.to_string()
        };
        // On a busy machine it takes longer until it hangs.
        let mut limits = (0..12).map(|doublings| Duration::from_millis(50) * 2_u32.pow(doublings));
        assert!(limits.any(|limit| said(limit).contains("so far")));
        let stop = Stop::new().unwrap();
        stop.stop();
        let argv = ["/bin/sleep", "1000"].map(str::to_owned);
        let error = run(&argv, "wait", Duration::from_mins(1), &stop).unwrap_err();
        assert!(matches!(error, Error::Stopped(_)), "{error}");
    }
}
