//! Unsolicited reports of a server, and what they say of its phase.

use std::time::Duration;

use super::{Change, Command, Lifecycle, Phase, Report, Slept};
use nightwatt_energy::time::Mono;

/// What comes from a server this soon after it fell asleep, it may have sent before: a kernel answers
/// until its network card is off.
const STILL: Duration = Duration::from_secs(5);

/// A server that says later than this that it did not fall asleep speaks of another time than the one that
/// it counts as asleep since.
const STAYED_WITHIN: Duration = Duration::from_mins(10);

impl Lifecycle {
    /// The server said something, or something came from it.
    pub(super) fn hears(
        &mut self,
        now: Mono,
        heard: Report,
        commands: &mut Vec<Command>,
    ) -> Option<Change> {
        match heard {
            Report::Leaving => {
                self.left = Some(now);
                return self.leaves(now, commands);
            }
            Report::Gone => return self.leaves(now, commands),
            // If it was on its way, it turned round, it seems; an answer will tell.
            Report::Back => self.is_back(now, self.phase == Phase::FallingAsleep, commands),
            Report::Stayed => self.is_back(now, self.has_not_slept(now), commands),
            Report::Stirred => {
                let may_be_old = matches!(self.phase, Phase::Awake | Phase::FallingAsleep)
                    || self.phase == Phase::Asleep && now.since(self.since) < STILL;
                if !may_be_old {
                    self.look(commands);
                }
            }
            Report::WakeDone(..)
            | Report::SleepDone(..)
            | Report::Probed(..)
            | Report::Unreachable => {}
        }
        None
    }

    /// It says that it did not fall asleep. Does it speak of the time that it counts as asleep?
    fn has_not_slept(&self, now: Mono) -> bool {
        match self.phase {
            Phase::Awake => false,
            Phase::FallingAsleep => true,
            Phase::Asleep | Phase::Waking | Phase::Unknown | Phase::Failed => {
                !self.left_again && now.since(self.since) < STAYED_WITHIN
            }
        }
    }

    /// It goes to sleep at this moment. To see for ourselves could wake it again.
    fn leaves(&mut self, now: Mono, commands: &mut Vec<Command>) -> Option<Change> {
        match self.phase {
            Phase::FallingAsleep => {
                self.told = Some(Slept::Done);
                self.turned_round = false;
                // Whether it really goes is not yet seen.
                let failures = self.sleep_failures;
                let slept = self.fell_asleep(now, commands);
                self.sleep_failures = failures;
                Some(slept)
            }
            Phase::Awake => {
                self.forget_failures();
                Some(self.come_to(now, Phase::Asleep, Change::SleptByOthers))
            }
            Phase::Asleep => {
                self.left_again = true;
                self.starts_until = Mono::ZERO;
                None
            }
            // The wake command met it on its way down, and is given again until it answers.
            Phase::Waking | Phase::Unknown | Phase::Failed => None,
        }
    }

    /// It says that it is up.
    fn is_back(&mut self, now: Mono, turned_round: bool, commands: &mut Vec<Command>) {
        self.turned_round = turned_round;
        self.left = None;
        if matches!(self.phase, Phase::Asleep | Phase::Failed) {
            self.starts_until = now + self.timeouts.wake_timeout;
        }
        self.look(commands);
    }

    /// Sees whether it answers, if that is not known and nothing is under way.
    fn look(&mut self, commands: &mut Vec<Command>) {
        if self.phase != Phase::Awake && !self.busy {
            self.probe(commands);
        }
    }

    /// Did it say that it does not sleep, in one way or the other?
    pub(super) fn refused(&self) -> bool {
        self.turned_round || self.told == Some(Slept::Failed)
    }

    /// Has it said good-bye, and may not be gone yet?
    pub(super) fn still_goes(&self, now: Mono) -> bool {
        self.left.is_some_and(|left| now.since(left) < self.timeouts.good_bye)
    }
}
