//! Processes that a job has left without a parent, whatever they have done to their environment and their session.
//!
//! This process adopts them (`PR_SET_CHILD_SUBREAPER`), so that they are found among its children.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_compare::Error;
use nightwatt_host::proc_stat::{self, ProcStat};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

use crate::left_over::{STEP, TIMEOUT};

/// What was killed is gone after this time, unless the kernel waits for a device.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Fields of `/proc/PID/stat`.
const STATE: usize = 3;
const PARENT: usize = 4;
const SESSION: usize = 6;

/// Finds and ends processes that were left to this one.
#[derive(Debug)]
pub(crate) struct Adopted {
    us: Pid,
    guardian: Option<u32>,
}

/// A process in `/proc`.
struct Found {
    pid: Pid,
    name: String,
    has_ended: bool,
}

impl Adopted {
    /// From now on, this process is the parent of all that its descendants leave. The guardian is a child, too, and is
    /// not ended.
    pub(crate) fn begin(guardian: Option<u32>) -> Result<Self, Error> {
        let us = getpid();
        set_child_subreaper(Some(us)).map_err(|error| Error::System {
            what: "become the parent of what jobs leave running",
            source: error.into(),
        })?;
        Ok(Self { us, guardian })
    }

    /// What still runs after a moment, in words.
    pub(crate) fn find(&self, stop: &Stop) -> Option<String> {
        let all = self.find_all(stop);
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Each of these processes, in words.
    pub(crate) fn find_all(&self, stop: &Stop) -> Vec<String> {
        let deadline = monotonic() + TIMEOUT;
        loop {
            let running = self.running();
            if running.is_empty() || monotonic() >= deadline || stop.is_stopped() {
                let words = running
                    .iter()
                    .map(|it| format!("`{}` (process {})", it.name, it.pid.as_raw_nonzero()));
                return words.collect();
            }
            stop.wait_until(monotonic() + STEP);
        }
    }

    /// Ends all of it. A child of what is ended is adopted next.
    pub(crate) fn end(&self) -> Result<(), Error> {
        let deadline = monotonic() + END_WITHIN;
        // Not the user's stop: the user who interrupted waits for this.
        let stop = Stop::new().map_err(|source| Error::System { what: "wait", source })?;
        loop {
            let running = self.running();
            if running.is_empty() {
                return Ok(());
            }
            if monotonic() >= deadline {
                let left: Vec<String> = running
                    .iter()
                    .map(|it| format!("{} ({})", it.name, it.pid.as_raw_nonzero()))
                    .collect();
                tracing::warn!("jobs have left {} running, and it does not end", left.join(", "));
                return Ok(());
            }
            for it in &running {
                // Our child, so its number is its own until we have taken note of its end.
                let _ = kill_process(it.pid, Signal::KILL);
            }
            stop.wait_until(monotonic() + STEP);
        }
    }

    /// Children in sessions that this process did not make: jobs run in sessions of their own. Takes note of the end of
    /// those that have ended.
    fn running(&self) -> Vec<Found> {
        let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
        // Not by getsid: where the session began outside the container, that is 0, which the kernel writes here, too.
        let session =
            |process: &Path| ProcStat::of(&proc_stat::read(process).ok()?)?.field(SESSION);
        let ours: Option<i32> = session(Path::new("/proc/self"));
        let child = |entry: fs::DirEntry| {
            let number: u32 = entry.file_name().to_str()?.parse().ok()?;
            let text = proc_stat::read(&entry.path()).ok()?;
            let stat = ProcStat::of(&text)?;
            let is_adopted = stat.field(PARENT) == Some(self.us.as_raw_nonzero().get())
                && stat.field(SESSION) != ours
                && Some(number) != self.guardian;
            let pid = Pid::from_raw(i32::try_from(number).ok()?)?;
            let has_ended = matches!(stat.field(STATE)?, 'Z' | 'X');
            is_adopted.then(|| Found { pid, name: stat.name.to_owned(), has_ended })
        };
        let (over, running): (Vec<Found>, Vec<Found>) =
            all.flatten().filter_map(child).partition(|it| it.has_ended);
        for it in over {
            let _ = waitpid(Some(it.pid), WaitOptions::NOHANG);
        }
        running
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!("{error}");
        }
        let _ = set_child_subreaper(None);
    }
}

/// Tests that adopt processes, one after the other: in one process, each would end those of the others.
#[cfg(test)]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nightwatt_compare::commands::{Ending, Process};
    use nightwatt_energy::time::Mono;

    use super::*;

    #[test]
    fn a_daemon_that_clears_its_environment_is_found_and_ended_with_its_children() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new().unwrap();
        let adopted = Adopted::begin(None).unwrap();
        assert_eq!(adopted.find(&stop), None);
        // It is there before the job ends, by its own name, and has a child in a session of its own.
        let path = folder.path().join("on").display().to_string();
        let daemon = format!("setsid sh -c \"echo on >{path}; exec sleep 1001\" & exec sleep 1000");
        let line = format!(
            "env -i PATH=\"$PATH\" setsid sh -c '{daemon}' & \
             until [ -s {path} ] && grep -qx sleep /proc/$!/comm || ! kill -0 $!; do sleep 0.01; done"
        );
        let mut command = Command::new("setsid");
        command.args(["--wait", "sh", "-c", &line]);
        let mut job = Process::start(command, folder.path(), "job").unwrap();
        let ending = job.wait(Mono::NEVER, &stop).unwrap();
        assert!(matches!(ending, Ending::Exited(status) if status.success()));
        let left = adopted.find(&stop).unwrap();
        assert!(left.contains("`sleep` (process "), "{left}");
        adopted.end().unwrap();
        assert_eq!(adopted.find(&stop), None);
        // A job that waits for what it starts leaves nothing.
        let mut command = Command::new("setsid");
        command.args(["--wait", "sh", "-c", "sleep 0.01 & wait"]);
        let mut job = Process::start(command, folder.path(), "job").unwrap();
        job.wait(Mono::NEVER, &stop).unwrap();
        assert_eq!(adopted.find(&stop), None);
    }
}
