//! Programs of others: started, bounded in time and in what is kept of their output, and killed with all
//! that they started when their time is over.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nightwatt_clock::{Clock, Elapsed};
use rustix::process::{Pid, Signal};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

/// Nobody lists more timers than that.
const OUTPUT_KEPT: u64 = 1 << 20;

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// What it wrote to its standard output, and then to its standard error.
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The first line that says something, of either output.
    pub(crate) fn first_line(&self) -> Option<&str> {
        let mut lines = self.stdout.lines().chain(self.stderr.lines()).map(str::trim);
        lines.find(|line| !line.is_empty())
    }
}

/// Why there is no such end.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// There is no such program.
    Absent,
    /// It cannot be run.
    Cannot(io::Error),
    /// It took too long and was killed.
    TimedOut,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent => f.write_str("there is no such program"),
            Self::Cannot(error) => write!(f, "{error}"),
            Self::TimedOut => f.write_str("it took too long and was killed"),
        }
    }
}

/// Killed with its process group when dropped before its end.
struct Running {
    child: Child,
    group: Option<Pid>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

/// A command line for the shell.
pub(crate) fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

/// Runs it to its end.
pub(crate) async fn run(mut command: Command, limit: Duration) -> Result<Ended, Trouble> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Trouble::Absent,
        _ => Trouble::Cannot(error),
    })?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let mut running = Running { child, group };
    let ended = Clock::real().timeout(limit, finish(&mut running.child)).await;
    match ended {
        Ok(ended) => {
            running.group = None;
            ended.map_err(Trouble::Cannot)
        }
        Err(Elapsed) => Err(Trouble::TimedOut),
    }
}

async fn finish(child: &mut Child) -> io::Result<Ended> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut texts = [Vec::new(), Vec::new()];
    let [out, err] = &mut texts;
    let status = {
        let reading = async {
            let read_out = async {
                if let Some(stdout) = stdout {
                    let _ = stdout.take(OUTPUT_KEPT).read_to_end(out).await;
                }
            };
            let read_err = async {
                if let Some(stderr) = stderr {
                    let _ = stderr.take(OUTPUT_KEPT).read_to_end(err).await;
                }
            };
            tokio::join!(read_out, read_err);
        };
        tokio::pin!(reading);
        let mut read = false;
        loop {
            tokio::select! {
                biased;
                () = &mut reading, if !read => read = true,
                // What it left in the background may hold its output open for ever.
                status = child.wait() => break status?,
            }
        }
    };
    let [stdout, stderr] = texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Ended { status, stdout, stderr })
}
