//! What happens to the origin's process: it is killed, stopped, frozen for a while.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_model::time::Mono;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};

use super::origin;
use crate::gateway::{Gateway, pause};

/// Trouble and calm take turns.
const TROUBLE: Duration = Duration::from_secs(12);
const CALM: Duration = Duration::from_secs(12);

/// So long after trouble its consequences may still show: the time that the gateway waits for an
/// answer, a wake-up, and what is under way on a busy machine.
const AFTERMATH: Duration = Duration::from_secs(6);

/// Now and then nobody asks for anything, so that the origin sleeps by policy.
const ASK: Duration = Duration::from_millis(2500);
const REST: Duration = Duration::from_millis(1500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Killed,
    Stopped,
    /// Killed, and there again before anybody has noticed.
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
/// until somebody else has started it: that is done here.
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
            start_again(gateway);
            if let Some(event) = events.last_mut() {
                event.ended = clock.now().mono;
            }
        }
        pause(Duration::from_millis(50));
    }
    unreachable!("there are more looks than anybody waits for")
}

fn strike(random: &mut ChaCha8Rng, clock: &Clock, gateway: &Gateway) -> Option<Event> {
    let origin = *origins(&gateway.dir.path().join("state")).first()?;
    let begun = clock.now().mono;
    let what = match random.random_range(0..5) {
        0 => What::Stopped,
        1 => What::Killed,
        2 | 3 => What::Restarted,
        _ => What::Frozen,
    };
    match what {
        What::Killed => kill_process(origin, Signal::KILL).ok()?,
        What::Restarted => {
            kill_process(origin, Signal::KILL).ok()?;
            start_again(gateway);
        }
        What::Stopped => kill_process(origin, Signal::TERM).ok()?,
        What::Frozen => {
            kill_process(origin, Signal::STOP).ok()?;
            pause(Duration::from_millis(random.random_range(100..3500)));
            // The gateway may have given it up and killed it meanwhile.
            let _ = kill_process(origin, Signal::CONT);
        }
    }
    Some(Event { what, begun, ended: clock.now().mono })
}

/// Starts the origin as the gateway's controller would have; so it takes it for its own.
fn start_again(gateway: &Gateway) {
    let (program, args) = origin::command();
    let dir = gateway.dir.path();
    let started = Command::new(program)
        .args(args)
        .env(origin::LISTEN, gateway.read("origin.address"))
        .env(origin::RECORD, dir.join("served.log"))
        .env(MARK, mark(&dir.join("state")))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let mut started = started.expect("this program runs");
    // Or its remains would stay as long as this process.
    std::thread::spawn(move || started.wait());
}

/// The variable by which the controller knows its processes, and what it says.
const MARK: &str = "NIGHTWATT_CHILD_OF";

fn mark(state_dir: &Path) -> String {
    let state: PathBuf = state_dir.canonicalize().unwrap_or_default();
    format!("{}/site", state.display())
}

/// The processes that the gateway's controller started and that still run.
pub(super) fn origins(state_dir: &Path) -> Vec<Pid> {
    let mark = format!("{MARK}={}", mark(state_dir));
    let is_ours = |pid: &Pid| {
        let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
        environment.is_ok_and(|it| it.split(|byte| *byte == 0).any(|it| it == mark.as_bytes()))
    };
    let names = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(Pid::from_raw).filter(is_ours).collect()
}
