//! Lines of a plan as processes: their output in files, their end watched for.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_model::time::Mono;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::error::Error;

/// What is asked to end has so long before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Of an output this much is read: logs of single requests are long.
const MOST_OUTPUT: u64 = 256 << 20;

/// So much of what a command that failed said last is shown.
const TAIL: u64 = 600;

/// A process with its output in files. Dropped, it is ended with all that it started in its group.
pub(crate) struct Process {
    child: Child,
    pub(crate) out: PathBuf,
    pub(crate) err: PathBuf,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Exited(ExitStatus),
    TookTooLong,
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { what, source }
}

impl Process {
    /// Starts it; its output goes to `NAME.out` and `NAME.err` in the folder.
    pub(crate) fn start(mut command: Command, folder: &Path, name: &str) -> Result<Self, Error> {
        let (out, err) = (folder.join(format!("{name}.out")), folder.join(format!("{name}.err")));
        let create = |path: &Path| {
            File::create(path).map_err(|source| Error::Results {
                what: "write",
                path: path.to_owned(),
                source,
            })
        };
        command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&err)?).process_group(0);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|source| Error::Spawn { program, source })?;
        Ok(Self { child, out, err })
    }

    /// Waits for its end. What takes too long is killed.
    pub(crate) fn wait(&mut self, deadline: Mono, stop: &Stop) -> Result<Ending, Error> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(Error::Interrupted)?;
        let watched = pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| system("watch a command")(error.into()))?;
        let woken = stop.readable_until(watched.as_fd(), deadline);
        if woken == Woken::Readable {
            return self.child.wait().map(Ending::Exited).map_err(system("wait for a command"));
        }
        self.end();
        if woken == Woken::Stopped { Err(Error::Interrupted) } else { Ok(Ending::TookTooLong) }
    }

    /// Has it ended?
    pub(crate) fn is_over(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, and sees to it.
    pub(crate) fn end(&mut self) {
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return };
        if !self.is_over() {
            let _ = kill_process_group(pid, Signal::TERM);
            // Not the user's: who has asked us to end waits for this.
            let watched = pidfd_open(pid, PidfdFlags::empty());
            if let (Ok(stop), Ok(watched)) = (Stop::new(), watched) {
                stop.readable_until(watched.as_fd(), monotonic() + PATIENCE);
            }
        }
        // Whoever is left of its group, too.
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// The text of an output.
pub(crate) fn text(path: &Path) -> Result<String, Error> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.take(MOST_OUTPUT).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().map_err(|source| Error::Results { what: "read", path: path.to_owned(), source })
}

/// What a command said last: in its errors, or else in its output.
pub(crate) fn last_words(process: &Process) -> String {
    let tail = |path: &Path| -> io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    let said = [&process.err, &process.out].map(|path| tail(path).unwrap_or_default());
    said.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

/// Runs a line to its end: `None` if all went well, else why not.
pub(crate) fn run(
    command: Command,
    (folder, name): (&Path, &str),
    limit: Duration,
    stop: &Stop,
) -> Result<Option<String>, Error> {
    let mut process = Process::start(command, folder, name)?;
    let ending = process.wait(monotonic() + limit, stop)?;
    Ok(complaint(ending, limit, &process))
}

/// Why a command did not end well.
pub(crate) fn complaint(ending: Ending, limit: Duration, process: &Process) -> Option<String> {
    let why = match ending {
        Ending::Exited(status) if status.success() => return None,
        Ending::Exited(status) => status.to_string(),
        Ending::TookTooLong => format!("it took longer than {} s", limit.as_secs_f64()),
    };
    match last_words(process) {
        words if words.is_empty() => Some(why),
        words => Some(format!("{why}: {words}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    #[test]
    fn a_command_that_fails_tells_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new().unwrap();
        let limit = Duration::from_mins(1);
        let place = (folder.path(), "a");
        let ran = |line| run(shell(line), place, limit, &stop).unwrap();
        assert_eq!(ran("echo fine"), None);
        assert_eq!(text(&folder.path().join("a.out")).unwrap(), "fine\n");
        assert_eq!(ran("echo no >&2; exit 3"), Some("exit status: 3: no".to_owned()));
        assert_eq!(ran("kill -9 $$").unwrap(), "signal: 9 (SIGKILL)");
    }

    #[test]
    fn what_takes_too_long_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new().unwrap();
        let line = "sleep 1000 & echo $!; wait";
        let limit = Duration::from_millis(300);
        let why = run(shell(line), (folder.path(), "a"), limit, &stop).unwrap().unwrap();
        assert!(why.starts_with("it took longer than 0.3 s"), "{why}");
        let pid = text(&folder.path().join("a.out")).unwrap();
        // Gone, or dead and waiting for its parent, which is not us. A signal takes a moment to arrive.
        let is_over = || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            status.map_or(true, |status| status.contains(") Z "))
        };
        let deadline = monotonic() + Duration::from_secs(20);
        while !is_over() && monotonic() < deadline {
            stop.wait_until(monotonic() + Duration::from_millis(10));
        }
        assert!(is_over(), "{pid} still runs");
    }

    #[test]
    fn an_interrupted_command_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new().unwrap();
        stop.stop();
        let result = run(shell("sleep 1000"), (folder.path(), "a"), Duration::from_mins(9), &stop);
        assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    }
}
