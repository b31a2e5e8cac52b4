//! The command: started, waited for, and what it used.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::time::Mono;
use rustix::process::{Pid, Signal, kill_process};
use wait4::Wait4;

use super::counting::Counting;
use super::cpu_time::{CpuTime, Used};
use crate::error::Error;

/// Control of the command while it runs; clones share it.
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

    /// Whether the user has asked to end it.
    pub fn is_interrupted(&self) -> bool {
        self.0.interrupted.load(Ordering::Acquire)
    }

    /// The command's process, while it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        u32::try_from(self.0.pid.load(Ordering::Acquire)).ok().filter(|pid| *pid > 0)
    }

    /// An error if the user wants it to end.
    pub fn go_on(&self) -> Result<(), Error> {
        if self.is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Waits, unless interrupted.
    pub fn rest(&self, time: Duration) {
        self.0.stop.wait_until(monotonic() + time);
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended(ExitStatus);

impl Ended {
    /// The exit status as a shell has it: that of the command, or 128 and the number of the signal that ended it.
    pub fn code(self) -> u8 {
        let code = self.0.code().unwrap_or_else(|| 128 + self.0.signal().unwrap_or(0));
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }
}

/// A command that has run.
#[derive(Debug)]
pub struct Finished {
    /// How.
    pub ended: Ended,
    /// Just before it was started.
    pub begin: Mono,
    /// Just after it ended.
    pub end: Mono,
    pub(crate) used: Used,
}

/// Runs the command with our own input, output and errors. `begins` is told the moment just before.
pub fn run(
    command: &[OsString],
    running: &Running,
    begins: impl FnOnce(Mono),
) -> Result<Finished, Error> {
    run_with(command, &[], running, begins)
}

/// Runs a command as [`run`] does, with additional environment variables.
pub fn run_with(
    command: &[OsString],
    environment: &[(&str, String)],
    running: &Running,
    begins: impl FnOnce(Mono),
) -> Result<Finished, Error> {
    let mut prepared = prepared(command)?;
    prepared.envs(environment.iter().map(|(name, value)| (name, value)));
    follow(prepared, Counting::start(false), running, begins)
}

/// Runs a command as [`run`] does, and counts what leaves its cgroup and what other processes use meanwhile.
pub(super) fn run_counted(
    command: &[OsString],
    running: &Running,
    begins: impl FnOnce(Mono),
) -> Result<Finished, Error> {
    follow(prepared(command)?, Counting::start(true), running, begins)
}

fn prepared(command: &[OsString]) -> Result<Command, Error> {
    let (program, arguments) = command.split_first().ok_or(Error::NoCommand)?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Starts it and waits for its end.
fn follow(
    mut command: Command,
    counting: Counting,
    running: &Running,
    begins: impl FnOnce(Mono),
) -> Result<Finished, Error> {
    let begin = monotonic();
    begins(begin);
    running.go_on()?;
    let spawned = counting.around(|| command.spawn());
    let child = spawned.map_err(|source| Error::Spawn {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })?;
    running.0.pid.store(i32::try_from(child.id()).unwrap_or(0), Ordering::Release);
    if running.is_interrupted() {
        // An interrupt that arrived just now did not know the child's process id yet.
        running.interrupt(Some(Signal::TERM));
    }
    let waited = child.wait4();
    let end = monotonic();
    running.0.pid.store(0, Ordering::Release);
    let waited = waited.map_err(|source| Error::System { what: "wait for the command", source })?;
    let used = counting.finish(CpuTime { user: waited.rusage.utime, system: waited.rusage.stime });
    Ok(Finished { ended: Ended(waited.status), begin, end, used })
}
