//! The command: started, waited for, and what it used.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_model::time::Mono;
use nix::sys::resource::{UsageWho, getrusage};
use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;

/// How others reach the command while it runs; clones share it.
#[derive(Debug, Clone)]
pub struct Running(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// 0 while nothing runs.
    pid: AtomicI32,
    interrupted: AtomicBool,
    stop: Stop,
}

impl Running {
    /// Nothing runs yet.
    pub fn new() -> std::io::Result<Self> {
        let (pid, interrupted) = (AtomicI32::new(0), AtomicBool::new(false));
        Ok(Self(Arc::new(Shared { pid, interrupted, stop: Stop::new()? })))
    }

    /// The user wants it to end: there is no further run. A command that runs is sent `signal`, unless
    /// it has had it from the terminal already (`None`).
    pub fn interrupt(&self, signal: Option<Signal>) {
        self.0.interrupted.store(true, Ordering::Release);
        self.0.stop.stop();
        let pid = Pid::from_raw(self.0.pid.load(Ordering::Acquire));
        if let (Some(pid), Some(signal)) = (pid, signal) {
            // It may have ended just now.
            let _ = kill_process(pid, signal);
        }
    }

    /// Does the user want it to end?
    pub fn is_interrupted(&self) -> bool {
        self.0.interrupted.load(Ordering::Acquire)
    }

    /// An error if the user wants it to end.
    pub(super) fn go_on(&self) -> Result<(), Error> {
        if self.is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Waits, unless interrupted.
    pub(super) fn rest(&self, time: Duration) {
        self.0.stop.wait_until(monotonic() + time);
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended(ExitStatus);

impl Ended {
    /// As a shell has it: its exit status, or 128 and the number of the signal that ended it.
    pub fn code(self) -> u8 {
        let code = self.0.code().unwrap_or_else(|| 128 + self.0.signal().unwrap_or(0));
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }
}

/// A command that has run.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) ended: Ended,
    pub(super) begin: Mono,
    pub(super) end: Mono,
    /// CPU time of the command and of its children that it waited for.
    pub(super) user: Duration,
    pub(super) system: Duration,
    /// CPU time that all of the machine was busy meanwhile; `None` where the kernel does not say.
    pub(super) machine_busy: Option<Duration>,
}

/// Runs the command with our own input, output and errors. `begins` is told the moment just before.
pub(super) fn run(
    command: &[OsString],
    running: &Running,
    begins: impl FnOnce(Mono),
) -> Result<Finished, Error> {
    let (program, arguments) = command.split_first().ok_or(Error::NoCommand)?;
    let (busy_before, used_before) = (machine_busy(), used_by_children());
    let begin = monotonic();
    begins(begin);
    let mut child = Command::new(program).args(arguments).spawn().map_err(|source| {
        Error::Spawn { program: program.to_string_lossy().into_owned(), source }
    })?;
    running.0.pid.store(i32::try_from(child.id()).unwrap_or(0), Ordering::Release);
    let status = child.wait();
    let end = monotonic();
    running.0.pid.store(0, Ordering::Release);
    let status = status.map_err(|source| Error::System { what: "wait for the command", source })?;
    let (used, busy) = (used_by_children(), machine_busy());
    Ok(Finished {
        ended: Ended(status),
        begin,
        end,
        user: used.0.saturating_sub(used_before.0),
        system: used.1.saturating_sub(used_before.1),
        machine_busy: busy.zip(busy_before).map(|(after, before)| after.saturating_sub(before)),
    })
}

/// User and system time of children that have been waited for, and of theirs.
fn used_by_children() -> (Duration, Duration) {
    let time = |value: nix::sys::time::TimeVal| {
        Duration::new(value.tv_sec().unsigned_abs(), value.tv_usec() as u32 * 1000)
    };
    getrusage(UsageWho::RUSAGE_CHILDREN)
        .map(|usage| (time(usage.user_time()), time(usage.system_time())))
        .unwrap_or_default()
}

/// Time that the machine's CPUs were busy since boot, summed over them.
fn machine_busy() -> Option<Duration> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq; guests are in user already, and what was stolen
    // somebody else used.
    let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|&place| ticks.get(place)).sum();
    Some(Duration::from_millis(busy * 1000 / rustix::param::clock_ticks_per_second()))
}
