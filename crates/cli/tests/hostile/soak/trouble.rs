//! What happens to the origin's process: it is killed, stopped, frozen for a while.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_host::proc_stat::{self, ProcStat};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::gateway::{Gateway, pause};

/// Trouble and calm take turns.
const TROUBLE: Duration = Duration::from_secs(12);
const CALM: Duration = Duration::from_secs(12);

/// For this time after trouble its consequences may still show: the time that the gateway waits for
/// an answer, a wake-up, and what is under way on a busy machine.
const AFTERMATH: Duration = Duration::from_secs(6);

/// Now and then no client sends requests, so that the origin sleeps by policy.
const ASK: Duration = Duration::from_millis(2500);
const REST: Duration = Duration::from_millis(1500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Killed,
    Stopped,
    /// Its parent starts it again at once.
    Restarted,
    Frozen,
}

/// Something that happened to the origin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) what: What,
    begun: Mono,
    ended: Mono,
}

impl Event {
    /// May it be why something between these moments went wrong?
    pub(super) fn explains(&self, begun: Mono, ended: Mono) -> bool {
        self.begun <= ended && begun <= self.ended + AFTERMATH
    }
}

/// Makes trouble until `until`, and lets clients rest by `resting`.
///
/// A server that dies soon after it was woken counts as failed, and is left alone for a minute, or
/// until its operator has it woken: that is done here.
pub(super) fn make(
    random: &mut ChaCha8Rng,
    clock: &Clock,
    gateway: &Gateway,
    until: Mono,
    resting: &AtomicBool,
) -> Vec<Event> {
    let start = clock.now().mono;
    let mut events: Vec<Event> = Vec::new();
    for look in 0_u32.. {
        let now = clock.now().mono;
        if now >= until {
            resting.store(false, Ordering::Relaxed);
            return events;
        }
        let passed = now.since(start).as_millis();
        let rests = passed % (ASK + REST).as_millis() >= ASK.as_millis();
        resting.store(rests, Ordering::Relaxed);
        let troubled = passed % (TROUBLE + CALM).as_millis() < TROUBLE.as_millis();
        if troubled && random.random_range(0..10) == 0 {
            events.extend(strike(random, clock, gateway));
        }
        if look % 10 == 0 && gateway.status()["state"] == "failed" {
            gateway.order("wake");
            if let Some(event) = events.last_mut() {
                event.ended = clock.now().mono;
            }
        }
        pause(Duration::from_millis(50));
    }
    unreachable!("there are more looks than anybody waits for")
}

fn leads_its_group(pid: Pid) -> Option<bool> {
    let number = pid.as_raw_nonzero();
    let text = proc_stat::read(Path::new(&format!("/proc/{number}"))).ok()?;
    Some(ProcStat::of(&text)?.field(5) == Some(number))
}

fn strike(random: &mut ChaCha8Rng, clock: &Clock, gateway: &Gateway) -> Option<Event> {
    let origins = origins(&gateway.dir.path().join("state"));
    let leads = |pid: &&Pid| leads_its_group(**pid).unwrap_or(false);
    let group = *origins.iter().find(leads)?;
    let begun = clock.now().mono;
    let what = match random.random_range(0..5) {
        0 => What::Stopped,
        1 => What::Killed,
        2 | 3 => What::Restarted,
        _ => What::Frozen,
    };
    match what {
        What::Killed => kill_process_group(group, Signal::KILL).ok()?,
        What::Stopped => kill_process_group(group, Signal::TERM).ok()?,
        What::Restarted => {
            let server = origins.iter().find(|pid| **pid != group)?;
            kill_process(*server, Signal::KILL).ok()?;
        }
        What::Frozen => {
            kill_process_group(group, Signal::STOP).ok()?;
            pause(Duration::from_millis(random.random_range(100..3500)));
            // The gateway may have given it up and killed it meanwhile.
            let _ = kill_process_group(group, Signal::CONT);
        }
    }
    Some(Event { what, begun, ended: clock.now().mono })
}

/// The processes that the gateway's controller started, and theirs: all that still run.
pub(super) fn origins(state_dir: &Path) -> Vec<Pid> {
    let state: PathBuf = state_dir.canonicalize().unwrap_or_default();
    let mark = format!("NIGHTWATT_CHILD_OF={}/site", state.display());
    let is_ours = |pid: &Pid| {
        let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
        environment.is_ok_and(|it| it.split(|byte| *byte == 0).any(|it| it == mark.as_bytes()))
    };
    let names = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(Pid::from_raw).filter(is_ours).collect()
}
