//! A lifecycle that goes on in another process, with another controller, or with other timeouts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Command, Lifecycle, Phase, ProbeTimeouts, Slept};
use nightwatt_energy::time::Mono;

/// Where a server is, for the process that goes on with it. Times are spans before or after the moment at
/// which it is let go, since another process has another clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// Where it is.
    pub phase: Phase,
    /// For how long.
    pub since: Duration,
    /// Failed wake-ups in a row.
    pub failures: u32,
    /// Wake commands given since the last success.
    pub attempt: u32,
    /// How long it is not to be woken (failed) or put to sleep (awake).
    pub blocked_for: Duration,
    /// It is awake because we woke it.
    pub woken_by_us: bool,
    /// The command that the phase began with was carried out, as far as that is known. One that was
    /// broken off is given again.
    pub carried_out: bool,
    /// For how long the operator wants it awake yet.
    pub stay_awake: Duration,
}

impl Lifecycle {
    /// What the next process is to know. `carried_out` says whether no command is under way.
    pub fn hand_over(&self, now: Mono, carried_out: bool) -> Handed {
        Handed {
            phase: self.phase,
            since: now.since(self.since),
            failures: self.failures,
            attempt: self.attempt,
            blocked_for: self.blocked_until.since(now),
            woken_by_us: self.woken_by_us,
            carried_out,
            stay_awake: Duration::ZERO,
        }
    }

    /// Goes on where another process let go: no command is given that it gave already. Only for a
    /// lifecycle that has not begun.
    pub fn take_over(&mut self, now: Mono, handed: &Handed) {
        if self.phase != Phase::Unknown || handed.phase == Phase::Unknown {
            return;
        }
        self.enter(now, handed.phase);
        self.since = Mono(now.0.saturating_sub(handed.since));
        self.failures = handed.failures;
        self.attempt = handed.attempt;
        self.woken_by_us = handed.woken_by_us;
        if !handed.blocked_for.is_zero() {
            self.blocked_until = now + handed.blocked_for;
        }
        let wait = if handed.phase == Phase::Waking {
            self.timeouts.wake_timeout
        } else {
            self.timeouts.sleep_timeout
        };
        match handed.phase {
            Phase::Waking if !handed.carried_out => {
                self.attempt = self.attempt.saturating_sub(1);
                self.deadline = now;
            }
            Phase::Waking | Phase::FallingAsleep => {
                self.told = (handed.phase == Phase::FallingAsleep).then_some(Slept::Done);
                self.deadline = now + wait;
                self.next_probe = now + self.timeouts.probe_every;
            }
            _ => self.watch_again(now),
        }
    }

    /// From now on it is waited for with these timeouts; what is waited for already is not.
    pub fn set_timeouts(&mut self, now: Mono, timeouts: ProbeTimeouts) {
        self.timeouts = timeouts;
        if matches!(self.phase, Phase::Awake | Phase::Asleep | Phase::Failed) && !self.busy {
            self.watch_again(now);
        }
    }

    /// From now on the server is reached in another way, and the command that was under way, if any, was
    /// broken off: it is looked at, or woken once more if it was to wake.
    pub fn controller_changed(&mut self, now: Mono, commands: &mut Vec<Command>) {
        if self.phase == Phase::Waking {
            self.attempt = self.attempt.saturating_sub(1);
            self.start_waking(now, commands);
        } else {
            self.epoch += 1;
            self.probe(commands);
        }
    }
}
