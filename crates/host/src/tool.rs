//! Other programs: with a time limit, and killed with all that they started if they are not done by then.

pub mod blocking;

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nightwatt_clock::{Clock, Elapsed};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use crate::within;

/// As much as a pipe holds: what a program had written before it ended, and no more.
const PIPE_SIZE: usize = 65_536;

/// Bytes that are read at once.
const PIECE: usize = 4096;

/// What is kept of a program's output.
#[derive(Debug, Clone, Copy)]
pub enum Capture {
    /// The last bytes of both outputs, in the order in which they were written.
    EndOfBoth(usize),
    /// The first bytes of each output. A program that writes more is not read any further.
    BeginningOfEach(usize),
}

/// How a program ended, and what it printed.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output, or both outputs with [`Capture::EndOfBoth`].
    pub stdout: Vec<u8>,
    /// Its standard error, if that is kept apart.
    pub stderr: Vec<u8>,
}

/// Why a program did not end by itself.
#[derive(Debug)]
pub enum Failed {
    /// It cannot be started.
    Start(io::Error),
    /// It cannot be waited for, or its output cannot be read.
    Wait(io::Error),
    /// It was not done in time and was killed. This is what it had printed to its standard output.
    TimedOut(Vec<u8>),
}

/// Runs a program to its end, for at most `limit` of real time. Its input is empty.
pub async fn run(
    clock: &Clock,
    limit: Duration,
    mut command: Command,
    capture: Capture,
) -> Result<Ended, Failed> {
    let mut running = Running::start(&mut command, capture).map_err(Failed::Start)?;
    // Our ends of the pipes that the program writes to.
    drop(command);
    match within(clock, limit, running.finish()).await {
        Ok(Ok(status)) => Ok(Ended {
            status,
            stdout: std::mem::take(&mut running.stdout.kept),
            stderr: std::mem::take(&mut running.stderr.kept),
        }),
        Ok(Err(error)) => Err(Failed::Wait(error)),
        Err(Elapsed) => Err(Failed::TimedOut(std::mem::take(&mut running.stdout.kept))),
    }
}

/// A program that runs. Dropped before it ended, it is killed with all it started.
struct Running {
    child: Child,
    stdout: Output,
    stderr: Output,
    /// Its process group, while the number certainly belongs to it.
    group: Option<Pid>,
}

impl Running {
    fn start(command: &mut Command, capture: Capture) -> io::Result<Self> {
        let (stdout, writer) = Output::pipe(capture)?;
        let (stderr, error_writer) = match capture {
            Capture::EndOfBoth(_) => (Output::none(capture), writer.try_clone()?),
            Capture::BeginningOfEach(_) => Output::pipe(capture)?,
        };
        command.stdin(Stdio::null()).stdout(writer).stderr(error_writer).process_group(0);
        let child = command.spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self { child, stdout, stderr, group })
    }

    /// Waits for the program itself: what it left in the background may hold the pipes open for ever.
    async fn finish(&mut self) -> io::Result<ExitStatus> {
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status?,
                read = self.stdout.read(), if self.stdout.is_open() => read?,
                read = self.stderr.read(), if self.stderr.is_open() => read?,
            }
        };
        self.group = None;
        self.stdout.read_rest();
        self.stderr.read_rest();
        Ok(status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // The program is not yet waited for (tokio does that after us), so the number is still its own.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Our end of an output.
struct Output {
    pipe: Option<pipe::Receiver>,
    capture: Capture,
    kept: Vec<u8>,
}

impl Output {
    fn none(capture: Capture) -> Self {
        Self { pipe: None, capture, kept: Vec::new() }
    }

    fn pipe(capture: Capture) -> io::Result<(Self, io::PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
        Ok((Self { pipe: Some(reader), ..Self::none(capture) }, writer))
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    async fn read(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        self.kept.reserve(PIECE);
        let count = pipe.read_buf(&mut self.kept).await?;
        self.trim(count);
        Ok(())
    }

    /// What is in the pipe when the program has ended.
    fn read_rest(&mut self) {
        let mut left = PIPE_SIZE;
        while left > 0
            && let Some(pipe) = &self.pipe
        {
            self.kept.reserve(PIECE);
            let Ok(count @ 1..) = pipe.try_read_buf(&mut self.kept) else { return };
            left = left.saturating_sub(count);
            self.trim(count);
        }
    }

    /// Keeps what the capture wants after so many bytes have come. The pipe is closed at its end, or when
    /// there is enough.
    fn trim(&mut self, count: usize) {
        let is_over = match self.capture {
            Capture::EndOfBoth(most) => {
                self.kept.drain(..self.kept.len().saturating_sub(most));
                false
            }
            Capture::BeginningOfEach(most) => {
                self.kept.truncate(most);
                self.kept.len() == most
            }
        };
        if count == 0 || is_over {
            self.pipe = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn sh(line: &str, limit: Duration, capture: Capture) -> Result<Ended, Failed> {
        let clock = Clock::real();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]);
        clock.runtime().unwrap().block_on(run(&clock, limit, command, capture))
    }

    #[test]
    fn outputs_are_kept_apart_or_in_their_order() {
        let line = "echo out; echo err >&2; echo out again; exit 3";
        let apart = sh(line, LONG, Capture::BeginningOfEach(1000)).unwrap();
        assert_eq!(apart.status.code(), Some(3));
        assert_eq!(
            (&apart.stdout[..], &apart.stderr[..]),
            (&b"out\nout again\n"[..], &b"err\n"[..])
        );
        let both = sh(line, LONG, Capture::EndOfBoth(1000)).unwrap();
        assert_eq!(both.stdout, b"out\nerr\nout again\n");
        assert!(both.stderr.is_empty());
    }

    #[test]
    fn only_so_much_is_kept_of_what_is_long() {
        let line = "printf begin; head -c 1000000 /dev/zero; printf end";
        let end = sh(line, LONG, Capture::EndOfBoth(5)).unwrap();
        assert_eq!(end.stdout, b"\0\0end");
        let line = "echo begin; exec cat /dev/zero";
        let begin = sh(line, LONG, Capture::BeginningOfEach(5)).unwrap();
        assert_eq!(begin.stdout, b"begin");
        assert!(!begin.status.success(), "nothing reads the rest");
    }

    #[test]
    fn what_hangs_is_killed_with_all_it_started() {
        let line = "echo so far; sleep 1000 & echo $!; sleep 1000";
        let printed = |limit| {
            let failed = sh(line, limit, Capture::EndOfBoth(1000)).unwrap_err();
            let Failed::TimedOut(output) = failed else { panic!("{failed:?}") };
            String::from_utf8(output).unwrap()
        };
        // On a busy machine it takes longer until it hangs.
        let limits = (0..10).map(|doublings| Duration::from_millis(200) * 2_u32.pow(doublings));
        let output = limits.map(printed).find(|it| it.lines().count() == 2).unwrap();
        let (first, child) = output.trim().split_once('\n').unwrap();
        assert_eq!(first, "so far");
        let stat = format!("/proc/{child}/stat");
        let is_gone = || std::fs::read_to_string(&stat).map_or(true, |it| it.contains(") Z "));
        while !is_gone() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_left_in_the_background_is_not_waited_for() {
        let ended = sh("echo done; sleep 1000 & exit 0", LONG, Capture::BeginningOfEach(100));
        assert_eq!(ended.unwrap().stdout, b"done\n");
        let clock = Clock::real();
        let absent = run(&clock, LONG, Command::new("/no/sleep"), Capture::EndOfBoth(1));
        let failed = clock.runtime().unwrap().block_on(absent).unwrap_err();
        assert!(matches!(failed, Failed::Start(error) if error.kind() == io::ErrorKind::NotFound));
    }
}
