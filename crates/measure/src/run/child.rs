//! The command: started, waited for, and what it used.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::time::Mono;
use nightwatt_meters::Host;
use nightwatt_meters::machine::others::{self, Processes};
use rustix::process::{Pid, Signal, kill_process};
use wait4::Wait4;

use super::cgroup::Cgroup;
use super::cpu_time::{self, CountedBy, CpuTime, Used};
use super::descendants::Descendants;
use super::instructions::InstructionCounters;
use crate::error::Error;

/// Probes that count so much more CPU time than the command's cgroup have seen what went into another.
const SURELY_MORE: f64 = 0.01;
const A_LITTLE: Duration = Duration::from_millis(5);

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
    let (program, arguments) = command.split_first().ok_or(Error::NoCommand)?;
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    let cgroup = Cgroup::make();
    let descendants = Descendants::start();
    let counters = InstructionCounters::start();
    let others_before = Processes::read(&Host::default());
    let busy_before = cpu_time::machine();
    let begin = monotonic();
    begins(begin);
    running.go_on()?;
    let spawned = match &cgroup {
        Some(cgroup) => cgroup.around(|| command.spawn()),
        None => command.spawn(),
    };
    let child = spawned.map_err(|source| Error::Spawn {
        program: program.to_string_lossy().into_owned(),
        source,
    })?;
    running.0.pid.store(i32::try_from(child.id()).unwrap_or(0), Ordering::Release);
    if running.is_interrupted() {
        // An interrupt that arrived just now did not know the child's process id yet.
        running.interrupt(Some(Signal::TERM));
    }
    let waited = child.wait4();
    let end = monotonic();
    let machine = cpu_time::machine();
    running.0.pid.store(0, Ordering::Release);
    let waited = waited.map_err(|source| Error::System { what: "wait for the command", source })?;
    let of_tree = CpuTime { user: waited.rusage.utime, system: waited.rusage.stime };
    let of_group = cgroup.as_ref().and_then(Cgroup::used);
    // A group that counts less than the processes that were waited for has missed some: they went into
    // another. The two are counted by different clocks, so a little less is no less.
    let of_group = of_group.filter(|group| group.all() * 20 > of_tree.all() * 19);
    let host = Host::default();
    let (time, by) = match of_group {
        Some(time) => (time, CountedBy::Cgroup),
        None => (of_tree, CountedBy::ProcessTree),
    };
    // Containers and scopes have cgroups of their own.
    let escaped = descendants.and_then(|it| it.used(&host));
    let escaped = escaped.filter(|all| all.all() > time.all().mul_f64(1.0 + SURELY_MORE) + A_LITTLE);
    let mut used = Used {
        time: escaped.unwrap_or(time),
        by: escaped.map_or(by, |_| CountedBy::Descendants),
        left_running: cgroup.as_ref().map_or(0, Cgroup::processes),
        instructions: counters.and_then(InstructionCounters::read),
        machine: machine.zip(busy_before).map(|(after, before)| after.saturating_sub(before)),
        others: Processes::read(&host).since(&others_before, std::process::id()),
    };
    let others = std::mem::take(&mut used.others);
    used.others = others::with_ended(others, used.beside().unwrap_or_default());
    Ok(Finished { ended: Ended(waited.status), begin, end, used })
}
