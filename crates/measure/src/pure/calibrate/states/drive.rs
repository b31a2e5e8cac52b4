//! Puts a machine to sleep and wakes it, for times of different lengths, and decides what to do when. The
//! caller gives the commands, queries the probe, and reports the results: there is no clock in here.
//!
//! ```text
//!          up                   time over              down and command done
//! Waking ─────► Awake ────────────────────► FallingAsleep ─────► Asleep
//!    ▲            │ last one: finished             │ too slow        │ time over
//!    └────────────┼────────────────────────────────┴─────────────────┘
//!                 └── stopped: from anywhere, once it is awake
//! ```

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Serialize;

use super::SleepCycle;
use nightwatt_energy::time::Mono;

/// Lengths of the cycles, and the timeouts of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrivePlan {
    /// Time awake, then time from the sleep command to the wake command, of each cycle.
    pub cycles: Vec<(Duration, Duration)>,
    /// Time awake after the last.
    pub last_on: Duration,
    /// Time between two probes.
    pub probe_every: Duration,
    /// It is asleep within this, or never.
    pub sleep_limit: Duration,
    /// After this the wake command is given again.
    pub wake_limit: Duration,
    /// Wake commands before the drive gives up.
    pub wake_attempts: u32,
}

impl DrivePlan {
    /// So many cycles (one at least), whose times lie between a shortest and a longest one, evenly on
    /// a logarithmic scale. Long and short sleeps take turns, so that a slow change of the room's
    /// temperature does not look like the length of a sleep.
    pub fn new(count: u32, on: &RangeInclusive<Duration>, off: &RangeInclusive<Duration>) -> Self {
        let count = count.max(1);
        let length = |range: &RangeInclusive<Duration>, place: u32| {
            let (least, most) = (*range.start(), *range.end());
            let share = if count == 1 { 0.0 } else { f64::from(place) / f64::from(count - 1) };
            let ratio = most.as_secs_f64() / least.as_secs_f64().max(1e-3);
            least.mul_f64(ratio.max(1.0).powf(share))
        };
        let turns = |index: u32| {
            if index.is_multiple_of(2) { index / 2 } else { count - 1 - index / 2 }
        };
        let cycles = (0..count).map(|index| (length(on, index), length(off, turns(index))));
        Self {
            cycles: cycles.collect(),
            last_on: *on.start(),
            probe_every: Duration::from_millis(100),
            sleep_limit: Duration::from_mins(2),
            wake_limit: Duration::from_mins(2),
            wake_attempts: 3,
        }
    }

    /// Duration of all cycles, without the times to wake.
    pub fn lasts(&self) -> Duration {
        self.cycles.iter().map(|(on, off)| *on + *off).sum::<Duration>() + self.last_on
    }
}

/// A command to the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Wake the machine; waking what is awake succeeds.
    Wake,
    /// Put it to sleep.
    Sleep,
}

/// What the caller has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Give this command, and tell [`Drive::command_done`] when it is done.
    Give(Command),
    /// Ask the probe, and tell [`Drive::probed`].
    Probe,
    /// Nothing before this moment, unless the command is done before.
    Wait(Mono),
    /// It is over.
    Finished(Ending),
}

/// How a drive ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All cycles were driven; the machine is awake.
    Complete,
    /// It was stopped; the machine is awake.
    Stopped,
    /// The machine did not fall asleep within the limit, or the command failed; it is awake.
    NeverSleeps,
    /// It does not wake: an operator has to look at it.
    NeverWakes,
}

/// What a drive is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Told to wake, and does not answer yet.
    Waking,
    /// Awake.
    Awake,
    /// Told to sleep, and still answers.
    FallingAsleep,
    /// Asleep.
    Asleep,
}

/// A cycle that is under way.
#[derive(Debug, Clone, Copy)]
struct Sleep {
    commanded: Mono,
    /// When it was down, with the command done.
    down: Option<Mono>,
    wake_commanded: Option<Mono>,
}

/// The state machine.
#[derive(Debug, Clone)]
pub struct Drive {
    plan: DrivePlan,
    phase: Phase,
    /// The phase ends, or its time limit is reached.
    until: Mono,
    probe_at: Mono,
    /// A command is to be given as soon as none is under way.
    due: Option<Command>,
    busy: bool,
    /// Since when it answers, while it is waking.
    up: Option<Mono>,
    attempts: u32,
    sleep: Option<Sleep>,
    begun: Option<Mono>,
    cycles: Vec<DrivenCycle>,
    /// How it ends once it is awake.
    ending: Option<Ending>,
    over: bool,
}

/// A cycle that was driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrivenCycle {
    /// From the sleep command to the first answer.
    pub cycle: SleepCycle,
    /// From the sleep command until the probe said down and the command was done.
    pub time_to_sleep: Duration,
    /// From the wake command to the first answer.
    pub time_to_wake: Duration,
}

impl Drive {
    /// Begins by waking the machine.
    pub fn new(plan: DrivePlan, now: Mono) -> Self {
        Self {
            until: now,
            probe_at: now,
            plan,
            phase: Phase::Waking,
            due: Some(Command::Wake),
            busy: false,
            up: None,
            attempts: 0,
            sleep: None,
            begun: None,
            cycles: Vec::new(),
            ending: None,
            over: false,
        }
    }

    /// What is to be done at this moment. To be asked again after each thing that was done.
    pub fn next(&mut self, now: Mono) -> Next {
        if self.over {
            return Next::Finished(self.ending.unwrap_or(Ending::Complete));
        }
        if !self.busy
            && let Some(command) = self.due.take()
        {
            return self.give(command, now);
        }
        match self.phase {
            Phase::Waking if now >= self.until && !self.busy => self.try_again(now),
            Phase::Awake if now >= self.until => self.awake_is_over(now),
            Phase::FallingAsleep if now >= self.until && !self.busy => {
                self.fail(Ending::NeverSleeps);
                self.next(now)
            }
            Phase::Asleep if now >= self.until => {
                self.due = Some(Command::Wake);
                self.next(now)
            }
            Phase::Waking | Phase::FallingAsleep if now >= self.probe_at => Next::Probe,
            Phase::Waking | Phase::FallingAsleep if self.busy => Next::Wait(self.probe_at),
            Phase::Waking | Phase::FallingAsleep => Next::Wait(self.probe_at.min(self.until)),
            Phase::Awake | Phase::Asleep => Next::Wait(self.until),
        }
    }

    fn give(&mut self, command: Command, now: Mono) -> Next {
        self.busy = true;
        self.probe_at = now + self.plan.probe_every;
        match command {
            Command::Wake => {
                self.phase = Phase::Waking;
                self.until = now + self.plan.wake_limit;
                self.attempts += 1;
                if let Some(sleep) = &mut self.sleep {
                    sleep.wake_commanded.get_or_insert(now);
                }
            }
            Command::Sleep => {
                self.phase = Phase::FallingAsleep;
                self.until = now + self.plan.sleep_limit;
                self.sleep = Some(Sleep { commanded: now, down: None, wake_commanded: None });
            }
        }
        Next::Give(command)
    }

    fn try_again(&mut self, now: Mono) -> Next {
        if self.attempts >= self.plan.wake_attempts {
            (self.ending, self.over) = (Some(Ending::NeverWakes), true);
        } else {
            self.due = Some(Command::Wake);
        }
        self.next(now)
    }

    fn awake_is_over(&mut self, now: Mono) -> Next {
        if self.ending.is_some() || self.cycles.len() >= self.plan.cycles.len() {
            self.over = true;
        } else {
            self.due = Some(Command::Sleep);
        }
        self.next(now)
    }

    /// Wakes the machine, and ends so.
    fn fail(&mut self, ending: Ending) {
        self.ending = Some(ending);
        // The figures of this cycle are invalid.
        self.sleep = None;
        match self.phase {
            Phase::Awake => self.until = Mono::ZERO,
            Phase::Waking => {}
            Phase::FallingAsleep | Phase::Asleep => {
                self.attempts = 0;
                self.up = None;
                self.due = Some(Command::Wake);
            }
        }
    }

    /// Stops as soon as the machine is awake.
    pub fn stop(&mut self) {
        if self.ending.is_none() {
            self.fail(Ending::Stopped);
        }
    }

    /// A command is done, or has failed.
    pub fn command_done(&mut self, succeeded: bool, now: Mono) {
        self.busy = false;
        match (self.phase, succeeded) {
            (Phase::FallingAsleep, false) if self.ending.is_none() => {
                self.fail(Ending::NeverSleeps);
            }
            // Again, after a while.
            (Phase::Waking, false) if self.up.is_none() => {
                self.until = self.until.min(now + 10 * self.plan.probe_every);
            }
            (Phase::Waking, _) => self.awake_if_up(now),
            _ => {}
        }
    }

    /// What the probe said; `asked` is when it was asked. An answer of a machine that sleeps, or is
    /// awake, changes nothing.
    pub fn probed(&mut self, is_up: bool, asked: Mono, now: Mono) {
        self.probe_at = (asked + self.plan.probe_every).max(now);
        match self.phase {
            Phase::Waking if is_up && self.due.is_none() => {
                self.up.get_or_insert(now);
                self.awake_if_up(now);
            }
            Phase::FallingAsleep if !is_up && !self.busy && self.due.is_none() => {
                let Some(sleep) = &mut self.sleep else { return };
                sleep.down = Some(now);
                let off = self.plan.cycles.get(self.cycles.len()).map_or(Duration::ZERO, |it| it.1);
                // Not before it sleeps.
                self.until = (sleep.commanded + off).max(now);
                self.phase = Phase::Asleep;
                (self.attempts, self.up) = (0, None);
            }
            _ => {}
        }
    }

    fn awake_if_up(&mut self, now: Mono) {
        let Some(up) = self.up.filter(|_| !self.busy) else { return };
        self.begun.get_or_insert(up);
        if let Some(sleep) = self.sleep.take()
            && let (Some(down), Some(woken)) = (sleep.down, sleep.wake_commanded)
        {
            self.cycles.push(DrivenCycle {
                cycle: SleepCycle {
                    sleep_commanded: sleep.commanded,
                    still: None,
                    wake_answered: up,
                },
                time_to_sleep: down.since(sleep.commanded),
                time_to_wake: up.since(woken),
            });
        }
        let on = self.plan.cycles.get(self.cycles.len()).map_or(self.plan.last_on, |it| it.0);
        self.phase = Phase::Awake;
        self.until = if self.ending.is_some() { now } else { up + on };
    }

    /// What the drive is doing.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Cycles that were driven so far.
    pub fn cycles(&self) -> &[DrivenCycle] {
        &self.cycles
    }

    /// When the machine first answered: readings from then on count.
    pub const fn begun(&self) -> Option<Mono> {
        self.begun
    }

    /// How long it will still take, about: the times to wake are not known.
    pub fn left(&self, now: Mono) -> Duration {
        let done = self.cycles.len();
        let later = |from: usize| -> Duration {
            self.plan.cycles.iter().skip(from).map(|(on, off)| *on + *off).sum()
        };
        let off = self.plan.cycles.get(done).map_or(Duration::ZERO, |it| it.1);
        let slept = self.sleep.map_or(Duration::ZERO, |sleep| now.since(sleep.commanded));
        self.plan.last_on
            + match self.phase {
                _ if self.over || self.ending.is_some() => return Duration::ZERO,
                Phase::Waking if self.sleep.is_none() => later(done),
                Phase::Waking => later(done + 1),
                Phase::Awake if done < self.plan.cycles.len() => {
                    self.until.since(now) + off + later(done + 1)
                }
                Phase::Awake => return self.until.since(now),
                Phase::FallingAsleep | Phase::Asleep => off.saturating_sub(slept) + later(done + 1),
            }
    }
}

#[cfg(test)]
mod tests;
