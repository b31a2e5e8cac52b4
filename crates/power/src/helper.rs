//! Programs of others that do something for a driver: started, bounded in time, and killed with all
//! they started when nobody waits for them any more.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nightwatt_clock::{Clock, Elapsed};
use rustix::process::{Pid, Signal};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use crate::Error;
use crate::real_work::within;
use crate::said;

/// So much of the end of a program's output goes into the error message.
const OUTPUT_KEPT: usize = 4096;

/// As much as a pipe holds: what a program had written before it ended, and no more.
const PIPE_SIZE: usize = 65_536;

/// Runs a program to its end; `told` is how errors call it.
pub(crate) async fn run(
    clock: &Clock,
    limit: Duration,
    mut command: Command,
    told: &str,
) -> Result<(ExitStatus, Tail), Error> {
    let mut started = Started::new(&mut command).map_err(|source| {
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        Error::Start { program, source }
    })?;
    let mut output = Tail::default();
    match within(clock, limit, started.finish(&mut output)).await {
        Ok(Ok(status)) => Ok((status, output)),
        Ok(Err(source)) => Err(Error::System { attempt: format!("wait for `{told}`"), source }),
        Err(Elapsed) => {
            let (command, output) = (told.to_owned(), output.text());
            Err(Error::TimedOut { command, limit, output })
        }
    }
}

/// A command that runs. Dropped before it ended, it is killed with all it started.
struct Started {
    child: Child,
    output: pipe::Receiver,
    /// Its process group, as long as that is certainly its own.
    group: Option<Pid>,
}

impl Started {
    fn new(command: &mut Command) -> io::Result<Self> {
        // One pipe for both, so that their order is kept.
        let (output, writer) = io::pipe()?;
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(output))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self { child, output, group })
    }

    /// Waits for the program itself: what it left in the background may hold the pipe open for ever.
    async fn finish(&mut self, tail: &mut Tail) -> io::Result<ExitStatus> {
        let mut buffer = [0; OUTPUT_KEPT];
        let mut open = true;
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status?,
                read = self.output.read(&mut buffer), if open => {
                    let count = read?;
                    open = count > 0;
                    tail.push(&buffer[..count]);
                }
            }
        };
        self.group = None;
        let mut left = PIPE_SIZE;
        while let Ok(count @ 1..) = self.output.try_read(&mut buffer)
            && left > 0
        {
            left = left.saturating_sub(count);
            tail.push(&buffer[..count]);
        }
        Ok(status)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // The program is not yet waited for (tokio does that after us), so the id is still its.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

/// The end of an output.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let surplus = self.0.len().saturating_sub(OUTPUT_KEPT);
        self.0.drain(..surplus);
    }

    pub(crate) fn text(&self) -> String {
        said::clean(&self.0)
    }
}
