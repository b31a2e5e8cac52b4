//! A server that sleeps and wakes: its states, and how failures are retried without a loop.

mod change;
mod handover;
mod heard;
mod probe_timeouts;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::change::Change;
pub use self::handover::Handed;
pub use self::probe_timeouts::ProbeTimeouts;
use nightwatt_energy::time::Mono;

/// Where the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Not yet looked: the proxy has just started.
    Unknown,
    /// It answers.
    Awake,
    /// The sleep command was given.
    FallingAsleep,
    /// It does not answer, and is not meant to.
    Asleep,
    /// The wake command was given.
    Waking,
    /// It failed to wake. Further attempts wait for the back-off to pass and for a request.
    Failed,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 6] =
        [Self::Unknown, Self::Awake, Self::FallingAsleep, Self::Asleep, Self::Waking, Self::Failed];

    /// The name used in logs, metrics and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Awake => "awake",
            Self::FallingAsleep => "falling-asleep",
            Self::Asleep => "asleep",
            Self::Waking => "waking",
            Self::Failed => "failed",
        }
    }
}

/// A number that tells the answer to a present question from the answer to an old one.
pub type Epoch = u64;

/// What the driver is to do. It reports back with the same epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Wake the server, then report [`Report::WakeDone`].
    Wake(Epoch),
    /// Put it to sleep, then report [`Report::SleepDone`].
    Sleep(Epoch),
    /// See whether it answers, then report [`Report::Probed`].
    Probe(Epoch),
}

/// What the driver found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The wake command ended, well or not.
    WakeDone(Epoch, bool),
    /// The sleep command ended, in one way or another.
    SleepDone(Epoch, Slept),
    /// The server answered the probe, or did not.
    Probed(Epoch, bool),
    /// A request could not reach a server believed awake.
    Unreachable,
    /// The server said, and it was certainly the server, that it goes to sleep at this moment.
    Leaving,
    /// The server is gone for certain: what it runs on sleeps.
    Gone,
    /// The server said that it is up.
    Back,
    /// The server said that it is up, and did not fall asleep after it said that it would.
    Stayed,
    /// Something came from the server: it may be up.
    Stirred,
}

/// How a sleep command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slept {
    /// It was carried out or accepted.
    Done,
    /// It was accepted, and the server will say when it goes.
    Going,
    /// It failed.
    Failed,
    /// The server answered that it has reasons of its own to stay awake.
    Declined,
}

/// The state machine of one server.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts beside the phase")]
pub struct Lifecycle {
    timeouts: ProbeTimeouts,
    phase: Phase,
    since: Mono,
    epoch: Epoch,
    /// A wake-up was requested when it was not possible yet.
    wake_wanted: bool,
    /// Wake commands given since the last success.
    attempt: u32,
    /// Failures in a row: wake-ups that led to nothing or to a server that went away at once.
    failures: u32,
    /// Sleep commands in a row that led to nothing.
    sleep_failures: u32,
    /// Sleep commands in a row that it declined.
    declined: u32,
    /// Before then no sleep command (awake) or no wake command (failed).
    blocked_until: Mono,
    /// Command or probe under way: no other is given until it reports.
    busy: bool,
    next_probe: Mono,
    deadline: Mono,
    /// It is awake because we woke it.
    woken_by_us: bool,
    /// How the present sleep command ended.
    told: Option<Slept>,
    /// It fell asleep without a command: how many probes have failed since.
    lost: Option<u32>,
    /// It is awake, and was only out of reach, or went and came by itself.
    came_back: bool,
    /// It was told to sleep or said that it goes, and then that it is up.
    turned_round: bool,
    /// When it said good-bye, as long as nothing shows that it is gone: until then it still answers.
    left: Option<Mono>,
    /// It counts as asleep, and said good-bye once more: it was awake unnoticed.
    left_again: bool,
    /// It counts as asleep, and said that it is up: its service may need until then to answer.
    starts_until: Mono,
}

/// A server that goes away this soon after waking has not really woken.
const SETTLED: Duration = Duration::from_secs(30);

/// A server that said that it will say good-bye is not asked before: what is sent to it as it falls asleep
/// may wake it. Then its good-bye may be lost.
const GOOD_BYE_LOST: Duration = Duration::from_secs(15);

impl Lifecycle {
    /// A server that has not been probed yet.
    pub const fn new(timeouts: ProbeTimeouts, now: Mono) -> Self {
        Self {
            timeouts,
            phase: Phase::Unknown,
            since: now,
            epoch: 0,
            wake_wanted: false,
            attempt: 0,
            failures: 0,
            sleep_failures: 0,
            declined: 0,
            blocked_until: Mono::ZERO,
            busy: false,
            next_probe: now,
            deadline: Mono::NEVER,
            woken_by_us: false,
            told: None,
            lost: None,
            came_back: false,
            turned_round: false,
            left: None,
            left_again: false,
            starts_until: Mono::ZERO,
        }
    }

    /// Where the server is.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Since when.
    pub const fn since(&self) -> Mono {
        self.since
    }

    /// Failed wake-ups in a row.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether it is awake after not answering for an unknown reason: that may not have been a sleep.
    pub const fn came_back(&self) -> bool {
        self.came_back
    }

    /// It does not answer, and nothing says that it sleeps: only what is probed may be down, and all else
    /// on it up.
    pub const fn may_be_up(&self) -> bool {
        match self.phase {
            Phase::Asleep => self.lost.is_some(),
            Phase::Waking => self.lost.is_some() || self.failures > 0,
            Phase::Failed => true,
            Phase::Unknown | Phase::Awake | Phase::FallingAsleep => false,
        }
    }

    /// Sleep commands in a row that the server declined, for reasons of its own.
    pub const fn declined(&self) -> u32 {
        self.declined
    }

    /// A failed server is not woken, and one that would not sleep is not put to sleep, before then.
    pub const fn blocked_until(&self) -> Mono {
        self.blocked_until
    }

    /// When [`tick`](Self::tick) wants to be called next; [`Mono::NEVER`] if only events matter.
    pub fn next_timer(&self) -> Mono {
        let probe = if self.busy { Mono::NEVER } else { self.next_probe };
        probe.min(self.deadline)
    }

    /// Requests that the server be awake. Gives no command when one is under way or blocked.
    pub fn wake(&mut self, now: Mono, commands: &mut Vec<Command>) -> Option<Change> {
        match self.phase {
            Phase::Asleep => Some(self.start_waking(now, commands)),
            Phase::Failed if now >= self.blocked_until => {
                self.attempt = 0;
                Some(self.start_waking(now, commands))
            }
            Phase::Unknown | Phase::FallingAsleep => {
                self.wake_wanted = true;
                None
            }
            Phase::Awake | Phase::Waking | Phase::Failed => None,
        }
    }

    /// Ends the pause after failures: the operator wants the server awake now.
    pub fn end_pause(&mut self, now: Mono) {
        if self.phase == Phase::Failed {
            self.blocked_until = now;
        }
    }

    /// The policy wants the server asleep. Only a server that is awake and did not just refuse to sleep gets
    /// the command.
    pub fn sleep(&mut self, now: Mono, commands: &mut Vec<Command>) -> Option<Change> {
        if self.phase != Phase::Awake || now < self.blocked_until {
            return None;
        }
        self.enter(now, Phase::FallingAsleep);
        self.deadline = now + self.timeouts.sleep_timeout;
        self.busy = true;
        commands.push(Command::Sleep(self.epoch));
        Some(Change::FallingAsleep)
    }

    /// A timer came due.
    pub fn tick(&mut self, now: Mono, commands: &mut Vec<Command>) -> Option<Change> {
        if now >= self.deadline {
            return self.gave_up_waiting(now, commands);
        }
        if now >= self.next_probe && !self.busy {
            self.probe(commands);
        }
        None
    }

    /// A command or probe reported back.
    pub fn report(
        &mut self,
        now: Mono,
        report: Report,
        commands: &mut Vec<Command>,
    ) -> Option<Change> {
        match report {
            Report::WakeDone(epoch, _) | Report::SleepDone(epoch, _) | Report::Probed(epoch, _)
                if epoch != self.epoch =>
            {
                None
            }
            Report::WakeDone(_, done) => self.wake_done(now, done, commands),
            // It spoke to us: no need to probe.
            Report::SleepDone(_, Slept::Declined) => Some(self.decline(now)),
            Report::SleepDone(_, Slept::Going) if !self.turned_round => {
                self.told = Some(Slept::Going);
                self.busy = false;
                self.next_probe = now + GOOD_BYE_LOST;
                None
            }
            Report::SleepDone(_, slept) => {
                // Whether it said yes or no: what counts is whether the server still answers.
                self.told = Some(slept);
                self.probe(commands);
                None
            }
            Report::Probed(_, up) => {
                self.busy = false;
                self.probed(now, up, commands)
            }
            Report::Unreachable => {
                if self.phase == Phase::Awake && !self.busy {
                    self.probe(commands);
                }
                None
            }
            Report::Leaving | Report::Gone | Report::Back | Report::Stayed | Report::Stirred => {
                self.hears(now, report, commands)
            }
        }
    }

    fn forget_failures(&mut self) {
        self.failures = 0;
        self.sleep_failures = 0;
        self.declined = 0;
    }

    fn wake_done(&mut self, now: Mono, done: bool, commands: &mut Vec<Command>) -> Option<Change> {
        if done {
            self.probe(commands);
            None
        } else if self.attempt >= self.timeouts.wake_attempts {
            Some(self.fail(now))
        } else {
            // The command itself failed: give it again, after as long as the attempts so far.
            self.busy = true;
            self.deadline = now + self.timeouts.probe_every * (1 << self.attempt.min(6));
            None
        }
    }

    fn probed(&mut self, now: Mono, up: bool, commands: &mut Vec<Command>) -> Option<Change> {
        let still_goes = self.still_goes(now);
        let went = !up && self.left.take().is_some();
        match (self.phase, up) {
            (Phase::Unknown | Phase::Waking, true) if still_goes => {
                self.next_probe = now + self.timeouts.probe_every;
                None
            }
            // What was done to wake it met a server that was still up.
            (Phase::Waking, false) if went => {
                self.attempt = self.attempt.saturating_sub(1);
                self.start_waking(now, commands);
                None
            }
            (Phase::Unknown, true) => {
                self.wake_wanted = false;
                Some(self.come_to(now, Phase::Awake, Change::FoundAwake))
            }
            (Phase::Unknown, false) => {
                let found = self.come_to(now, Phase::Asleep, Change::FoundAsleep);
                Some(self.wake_if_wanted(now, commands).unwrap_or(found))
            }
            (Phase::Awake, true) | (Phase::Asleep | Phase::Failed, false) => {
                self.lost = self.lost.map(|looks| looks.saturating_add(1));
                self.watch_again(now);
                None
            }
            (Phase::Awake, false) => Some(self.went_away(now)),
            (Phase::FallingAsleep, false) => Some(self.fell_asleep(now, commands)),
            // It said that it would not sleep, and it did not: there is no point in waiting for it to change
            // its mind.
            (Phase::FallingAsleep, true) if self.refused() => Some(self.stayed_awake(now)),
            (Phase::Asleep | Phase::Waking, true) if self.turned_round => {
                Some(self.stayed_awake(now))
            }
            (Phase::Asleep, true) if still_goes => {
                self.watch_again(now);
                None
            }
            (Phase::FallingAsleep, true) | (Phase::Waking, false) => {
                self.next_probe = now + self.timeouts.probe_every;
                None
            }
            (Phase::Waking, true) => {
                self.attempt = 0;
                let woke = self.come_to(now, Phase::Awake, Change::Woke);
                self.woken_by_us = true;
                Some(woke)
            }
            (Phase::Asleep | Phase::Failed, true) => {
                self.failures = 0;
                Some(self.come_to(now, Phase::Awake, Change::WokenByOthers))
            }
        }
    }

    fn fell_asleep(&mut self, now: Mono, commands: &mut Vec<Command>) -> Change {
        self.forget_failures();
        let refused = self.refused();
        let slept = self.come_to(now, Phase::Asleep, Change::FellAsleep);
        if refused {
            // It said that it would not sleep: perhaps it is only out of reach.
            self.lost = Some(0);
            self.watch_again(now);
        }
        // A request came meanwhile. `FellAsleep` is skipped: it makes no difference to the bill.
        self.wake_if_wanted(now, commands).unwrap_or(slept)
    }

    /// It stopped answering although it should be awake.
    fn went_away(&mut self, now: Mono) -> Change {
        if self.woken_by_us && now.since(self.since) < SETTLED {
            // It never really came up: the next request must not wake it again at once.
            return self.fail(now);
        }
        self.failures = 0;
        self.come_to(now, Phase::Asleep, Change::WentAway)
    }

    fn gave_up_waiting(&mut self, now: Mono, commands: &mut Vec<Command>) -> Option<Change> {
        self.deadline = Mono::NEVER;
        match self.phase {
            Phase::FallingAsleep => Some(self.stayed_awake(now)),
            Phase::Waking if self.attempt >= self.timeouts.wake_attempts => Some(self.fail(now)),
            Phase::Waking => {
                self.start_waking(now, commands);
                None
            }
            _ => None,
        }
    }

    fn stayed_awake(&mut self, now: Mono) -> Change {
        self.wake_wanted = false;
        self.sleep_failures += 1;
        let pause = self.back_off(self.sleep_failures);
        self.stays(now, Change::StayedAwake, pause)
    }

    fn decline(&mut self, now: Mono) -> Change {
        self.wake_wanted = false;
        self.declined += 1;
        let ProbeTimeouts { ask_again, longest_ask_again, .. } = self.timeouts;
        let pause = doubled(ask_again, self.declined).min(longest_ask_again);
        self.stays(now, Change::Declined, pause)
    }

    fn stays(&mut self, now: Mono, change: Change, pause: Duration) -> Change {
        let change = self.come_to(now, Phase::Awake, change);
        self.blocked_until = now + pause;
        change
    }

    fn wake_if_wanted(&mut self, now: Mono, commands: &mut Vec<Command>) -> Option<Change> {
        std::mem::take(&mut self.wake_wanted).then(|| self.start_waking(now, commands))
    }

    fn start_waking(&mut self, now: Mono, commands: &mut Vec<Command>) -> Change {
        let since = if self.phase == Phase::Waking { self.since } else { now };
        self.enter(now, Phase::Waking);
        self.since = since;
        self.attempt += 1;
        self.deadline = now + self.timeouts.wake_timeout;
        self.busy = true;
        commands.push(Command::Wake(self.epoch));
        Change::Waking
    }

    fn fail(&mut self, now: Mono) -> Change {
        self.attempt = 0;
        self.failures += 1;
        let pause = self.back_off(self.failures);
        let change = self.come_to(now, Phase::Failed, Change::Failed);
        self.blocked_until = now + pause;
        change
    }

    fn back_off(&self, failures: u32) -> Duration {
        doubled(self.timeouts.back_off, failures).min(self.timeouts.longest_back_off)
    }

    fn come_to(&mut self, now: Mono, phase: Phase, change: Change) -> Change {
        self.enter(now, phase);
        self.came_back = self.lost.is_some() && change == Change::WokenByOthers;
        self.lost = (change == Change::WentAway).then_some(0);
        self.watch_again(now);
        change
    }

    /// A new phase: whatever is still under way concerns the old one.
    fn enter(&mut self, now: Mono, phase: Phase) {
        self.phase = phase;
        self.since = now;
        self.epoch += 1;
        self.busy = false;
        self.next_probe = Mono::NEVER;
        self.deadline = Mono::NEVER;
        self.blocked_until = Mono::ZERO;
        self.woken_by_us = false;
        self.told = None;
        self.turned_round = false;
        self.left_again = false;
        self.starts_until = Mono::ZERO;
    }

    /// A server that went away by itself may only have been out of reach: without a probe its return would go
    /// unnoticed. But it may also sleep, so it is probed ever less often.
    fn watch_again(&mut self, now: Mono) {
        let every = match (self.phase, self.lost) {
            (Phase::Asleep, None) => self.timeouts.watch_asleep_every,
            (Phase::Asleep, Some(looks)) => {
                doubled(self.timeouts.watch_every, looks.saturating_add(1))
                    .min(self.timeouts.longest_back_off)
            }
            _ => self.timeouts.watch_every,
        };
        self.next_probe = if now < self.starts_until {
            now + self.timeouts.probe_every
        } else if every.is_zero() {
            Mono::NEVER
        } else {
            now + every
        };
    }

    fn probe(&mut self, commands: &mut Vec<Command>) {
        self.busy = true;
        commands.push(Command::Probe(self.epoch));
    }
}

/// A time that doubles with each time after the first.
fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
