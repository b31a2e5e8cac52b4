//! The dead man's switch: a proxy that is dead must not leave a site that sleeps for ever. Pure.
//!
//! ```text
//!            armed: the alarm is set before each sleep
//!   ┌──────────────────────────────────────────────────────────────┐
//!   ▼                                                              │
//! asleep ── woken earlier ──────────────────────────► at ease ─────┤
//!   │                                                   ▲          │
//!   └── woken by the switch ──► waits (grace) ── heard ─┘          │
//!                                   │                   ▲          │
//!                                   └── grace over ► alone ── heard┘
//! ```
//!
//! An agent puts its machine to sleep only when a proxy orders it, so a machine that is alone stays awake
//! and serves. When a proxy is heard again (an order or an acknowledgement, neither of which can be
//! replayed), the state is "at ease" again. Every sleep sets the alarm again, so this repeats for as long
//! as there are sleeps.

use std::time::Duration;

use nightwatt_energy::time::Mono;
use serde::{Deserialize, Serialize};

/// An RTC counts whole seconds, and the wall clock is set by it on resume: a wake-up this much before
/// the alarm is still its work.
const EARLY: Duration = Duration::from_secs(2);

/// For what an alarm is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The dead man's switch.
    DeadMan,
    /// Work is due: the name of a timer, or the command of a cron job.
    Work(String),
}

/// An alarm that is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// When it rings, in seconds since 1970 by the wall clock.
    pub at_s: i64,
    /// For what.
    pub purpose: Purpose,
}

/// Work that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// When, in seconds since 1970 by the wall clock.
    pub at_s: i64,
    /// The name of a timer, or the command of a cron job.
    pub name: String,
}

/// The alarm for a sleep that begins now: the next work, `lead` earlier, or the dead man's switch,
/// whichever comes first. No alarm if there is neither.
pub fn plan(now_s: i64, limit: Duration, work: Option<Work>, lead: Duration) -> Option<Alarm> {
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let switch = (!limit.is_zero()).then(|| Alarm {
        at_s: now_s.saturating_add(seconds(limit).max(1)),
        purpose: Purpose::DeadMan,
    });
    let work = work.map(|Work { at_s, name }| Alarm {
        // One that is due at once rings at once: it is no reason to sleep through it.
        at_s: at_s.saturating_sub(seconds(lead)).max(now_s.saturating_add(1)),
        purpose: Purpose::Work(name),
    });
    match (switch, work) {
        (Some(switch), Some(work)) => Some(if work.at_s <= switch.at_s { work } else { switch }),
        (switch, work) => switch.or(work),
    }
}

/// What is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The switch has woken the machine.
    Fired,
    /// No proxy was heard: it stays awake.
    Alone,
    /// A proxy was heard again.
    Found,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    AtEase,
    Waits(Mono),
    Alone,
}

/// The switch.
#[derive(Debug)]
pub struct DeadMan {
    grace: Duration,
    armed: Option<Alarm>,
    phase: Phase,
}

impl DeadMan {
    /// A switch that waits `grace` for a proxy after it has woken the machine.
    pub const fn new(grace: Duration) -> Self {
        Self { grace, armed: None, phase: Phase::AtEase }
    }

    /// This alarm was set, or none.
    pub fn arm(&mut self, alarm: Option<Alarm>) {
        self.armed = alarm;
    }

    /// The alarm that is set.
    pub const fn armed(&self) -> Option<&Alarm> {
        self.armed.as_ref()
    }

    /// The machine is up again at wall-clock time `wall_s`. Returns the alarm that rang, if one did.
    pub fn woke(&mut self, now: Mono, wall_s: i64) -> (Option<Alarm>, Option<Turn>) {
        let early = EARLY.as_secs().cast_signed();
        let rang = self.armed.take().filter(|alarm| wall_s >= alarm.at_s - early);
        let fired = rang.as_ref().is_some_and(|alarm| alarm.purpose == Purpose::DeadMan);
        if fired {
            self.phase = Phase::Waits(now + self.grace);
        }
        (rang, fired.then_some(Turn::Fired))
    }

    /// A proxy was heard.
    pub fn heard(&mut self) -> Option<Turn> {
        let before = std::mem::replace(&mut self.phase, Phase::AtEase);
        (before == Phase::Alone).then_some(Turn::Found)
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Mono) -> Option<Turn> {
        match self.phase {
            Phase::Waits(until) if now >= until => {
                self.phase = Phase::Alone;
                Some(Turn::Alone)
            }
            _ => None,
        }
    }

    /// When [`DeadMan::tick`] is to be asked next.
    pub const fn next(&self) -> Mono {
        match self.phase {
            Phase::Waits(until) => until,
            _ => Mono::NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;

    fn switch(at_s: i64) -> Alarm {
        Alarm { at_s, purpose: Purpose::DeadMan }
    }

    #[test]
    fn the_alarm_is_for_whatever_comes_first() {
        let (day, lead) = (Duration::from_hours(24), Duration::from_mins(2));
        assert_eq!(plan(1000, day, None, lead), Some(switch(1000 + 24 * HOUR)));
        let backup = |at_s| Some(Work { at_s, name: "backup.timer".to_owned() });
        let for_backup =
            |at_s| Some(Alarm { at_s, purpose: Purpose::Work("backup.timer".to_owned()) });
        assert_eq!(plan(1000, day, backup(1000 + HOUR), lead), for_backup(1000 + HOUR - 120));
        assert_eq!(plan(1000, day, backup(1000 + 30 * HOUR), lead), Some(switch(1000 + 24 * HOUR)));
        assert_eq!(plan(1000, day, backup(1060), lead), for_backup(1001), "never in the past");
        assert_eq!(plan(1000, Duration::ZERO, None, lead), None, "switched off");
        assert_eq!(plan(1000, Duration::ZERO, backup(5000), lead), for_backup(4880));
    }

    #[test]
    fn a_machine_without_a_proxy_says_so_after_the_grace_and_goes_on_when_one_is_back() {
        let mut switch_ = DeadMan::new(Duration::from_mins(10));
        switch_.arm(Some(switch(100_000)));
        let (rang, turn) = switch_.woke(Mono::from_secs(50), 99_999);
        assert_eq!((rang, turn), (Some(switch(100_000)), Some(Turn::Fired)));
        assert_eq!(switch_.next(), Mono::from_secs(650));
        assert_eq!(switch_.tick(Mono::from_secs(649)), None);
        assert_eq!(switch_.tick(Mono::from_secs(650)), Some(Turn::Alone));
        assert_eq!(switch_.tick(Mono::from_secs(9999)), None, "told once");
        assert_eq!(switch_.next(), Mono::NEVER);
        assert_eq!(switch_.heard(), Some(Turn::Found));
        assert_eq!(switch_.heard(), None);
        // A proxy that is heard in time is nothing to tell of, and the next sleep has its own alarm.
        switch_.arm(Some(switch(200_000)));
        assert_eq!(switch_.woke(Mono::from_secs(700), 200_500).1, Some(Turn::Fired));
        assert_eq!(switch_.heard(), None);
        assert_eq!(switch_.tick(Mono::from_secs(99_999)), None);
    }

    #[test]
    fn whoever_is_woken_before_the_alarm_was_woken_by_somebody_else() {
        let mut switch_ = DeadMan::new(Duration::from_mins(10));
        switch_.arm(Some(switch(100_000)));
        assert_eq!(switch_.woke(Mono::from_secs(50), 99_000), (None, None));
        assert_eq!(switch_.armed(), None);
        assert_eq!(switch_.next(), Mono::NEVER);
        assert_eq!(switch_.woke(Mono::from_secs(60), 100_001), (None, None), "none was set");
    }
}
