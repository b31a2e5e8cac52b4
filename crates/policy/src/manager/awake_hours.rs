//! Hours in which the server is awake whether a request comes or not: it is woken ahead of them.

mod report;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::report::AwakeHoursReport;
use super::{Action, Cause, PowerManager, Settings};
use crate::hours::{DaysOff, Hours};
use crate::lifecycle::{Change, Phase};
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_energy::zone::Zone;

/// The clock of a machine may be set, so the hours are looked up at least this often.
const LOOK_EVERY: Duration = Duration::from_hours(1);

/// Hours that began this many days ago may last until now, over midnight each time.
const DAYS_BACK: i64 = 2;

/// Days to look ahead for the next hours, first and at most: after a long holiday they may be far away.
const DAYS_AHEAD: [i64; 2] = [8, 400];

/// Days to look ahead for where the hours of one day end and those of the next begin.
const NEXT_DAYS: i64 = 2;

/// A server that went away in its hours may only be starting again: they wake it after this time.
const COMES_BACK: Duration = Duration::from_mins(2);

/// Hours without a break: of several that overlap or meet, from the first beginning to the last end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwakeRun {
    begins: Wall,
    ends: Wall,
}

impl AwakeRun {
    const fn overlaps(&self, other: &Self) -> bool {
        self.begins.0 < other.ends.0 && other.begins.0 < self.ends.0
    }

    const fn has(&self, time: Wall) -> bool {
        self.begins.0 <= time.0 && time.0 < self.ends.0
    }
}

/// When the server is to be awake, and whether it was woken for that.
#[derive(Debug, Clone)]
pub(super) struct AwakeHours {
    hours: Vec<Hours>,
    days_off: DaysOff,
    zone: Zone,
    /// The hours of now, or else the next ones.
    next: Option<AwakeRun>,
    /// They have begun, or the wake-up ahead of them is due: until then.
    open_until: Option<Mono>,
    look_at: Mono,
    /// The last for which it was woken: those that begin on one day.
    woken_for: Option<AwakeRun>,
    /// How it went away in them. It is woken again once for each way, so that a broken server is left alone.
    went_away: Vec<Change>,
    /// When it is woken again.
    again_at: Mono,
    /// An operator has put it to sleep: within this time its hours do not wake it.
    ordered: Option<AwakeRun>,
}

impl AwakeHours {
    pub(super) fn new(settings: &Settings, ordered: Option<AwakeRun>) -> Self {
        let Settings { awake, days_off, zone, .. } = settings;
        Self {
            hours: awake.clone(),
            days_off: days_off.clone(),
            zone: zone.clone(),
            next: None,
            open_until: None,
            look_at: if awake.is_empty() { Mono::NEVER } else { Mono::ZERO },
            woken_for: None,
            went_away: Vec::new(),
            again_at: Mono::NEVER,
            ordered,
        }
    }

    /// When to [`look`](Self::look) again.
    pub(super) fn next_timer(&self) -> Mono {
        self.look_at.min(self.again_at)
    }

    /// The hours in which it stays asleep, since an operator has put it to sleep.
    pub(super) const fn ordered(&self) -> Option<AwakeRun> {
        self.ordered
    }

    /// An operator puts it to sleep: it stays so until the hours of the next day begin, or others of this one.
    pub(super) fn put_to_sleep(&mut self, now: Now) {
        let run = self.next.filter(|_| self.ends(now.mono).is_some());
        self.ordered = run.map(|run| {
            let part = self.part(run, now);
            AwakeRun { begins: part.begins.min(now.wall), ..part }
        });
    }

    /// It is awake: the order to sleep is over.
    pub(super) fn is_awake(&mut self) {
        self.ordered = None;
    }

    /// It went away by itself.
    pub(super) fn lost(&mut self, now: Mono, how: Change) {
        if self.ends(now).is_some() && !self.went_away.contains(&how) {
            self.went_away.push(how);
            self.again_at = now + COMES_BACK;
        }
    }

    /// Whether its hours wake it, if it is in them.
    fn wake(&self, now: Mono) -> bool {
        self.ends(now).is_some() && self.ordered.is_none()
    }

    /// Until then the server stays awake, if it is in its hours.
    pub(super) fn ends(&self, now: Mono) -> Option<Mono> {
        self.open_until.filter(|ends| now < *ends)
    }

    /// Looks whether the hours have come. Returns whether the server has to be woken for them.
    fn look(&mut self, now: Now, wake_time: Duration) -> bool {
        self.next = self.run_after(now);
        self.ordered = self.ordered.filter(|ordered| ordered.has(now.wall));
        let latest = now.mono + LOOK_EVERY;
        let is_again = self.again_at <= now.mono;
        if is_again {
            self.again_at = Mono::NEVER;
        }
        let Some(run) = self.next else {
            (self.open_until, self.look_at) = (None, latest);
            return false;
        };
        let opens_in = until(now.wall, run.begins).saturating_sub(wake_time);
        if !opens_in.is_zero() {
            (self.open_until, self.look_at) = (None, latest.min(now.mono + opens_in));
            return false;
        }
        let part = self.part(run, now);
        let at = |wall| now.mono + until(now.wall, wall);
        (self.open_until, self.look_at) = (Some(at(run.ends)), latest.min(at(part.ends)));
        let is_new = self.woken_for.is_none_or(|woken| !woken.overlaps(&part));
        if is_new {
            self.went_away.clear();
            self.again_at = Mono::NEVER;
        }
        self.woken_for = Some(part);
        is_new || is_again
    }

    /// The part of a run that begins on the day of now: up to the first hours of the next day.
    fn part(&self, run: AwakeRun, now: Now) -> AwakeRun {
        let firsts =
            self.days(now, NEXT_DAYS).filter_map(|day| day.into_iter().map(|it| it.begins).min());
        let cuts: Vec<Wall> = firsts.filter(|it| run.begins < *it && *it < run.ends).collect();
        let before = cuts.iter().copied().filter(|it| *it <= now.wall).max();
        let after = cuts.iter().copied().filter(|it| *it > now.wall).min();
        AwakeRun { begins: before.unwrap_or(run.begins), ends: after.unwrap_or(run.ends) }
    }

    /// The hours of now or, if there are none, the next ones.
    fn run_after(&self, now: Now) -> Option<AwakeRun> {
        DAYS_AHEAD.into_iter().find_map(|days| {
            let runs = self.runs(now, days);
            runs.into_iter().find(|run| now.wall < run.ends && run.begins < run.ends)
        })
    }

    /// Days since 1970 in local time.
    fn today(&self, now: Now) -> i64 {
        let offset = self.zone.offset_at(now.wall, now.utc_offset);
        (now.wall.secs() + i64::from(offset)).div_euclid(86_400)
    }

    /// The hours that begin on each of these days.
    fn days(&self, now: Now, days_ahead: i64) -> impl Iterator<Item = Vec<AwakeRun>> {
        let today = self.today(now);
        let days = (today - DAYS_BACK..=today + days_ahead).filter(|day| !self.days_off.has(*day));
        days.map(move |day| {
            let on_day = self.hours.iter().filter_map(|hours| hours.on_day(day));
            let runs = on_day.map(|local| AwakeRun {
                begins: self.zone.first_at(local.start, now.utc_offset),
                ends: self.zone.last_at(local.end, now.utc_offset),
            });
            runs.collect()
        })
    }

    /// All hours of these days, in order, joined where they overlap or meet.
    fn runs(&self, now: Now, days_ahead: i64) -> Vec<AwakeRun> {
        let mut runs: Vec<AwakeRun> = self.days(now, days_ahead).flatten().collect();
        runs.sort_by_key(|run| run.begins);
        let mut joined: Vec<AwakeRun> = Vec::with_capacity(runs.len());
        for run in runs {
            match joined.last_mut().filter(|last| run.begins <= last.ends) {
                Some(last) => last.ends = last.ends.max(run.ends),
                None => joined.push(run),
            }
        }
        joined
    }
}

fn until(from: Wall, to: Wall) -> Duration {
    Duration::from_millis(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0))
}

impl<P: SleepPolicy> PowerManager<P> {
    /// When [`open_for_hours`](Self::open_for_hours) wants to be called: also to try a server again that did not wake.
    pub(super) fn hours_timer(&self) -> Mono {
        let blocked_until = self.lifecycle.blocked_until();
        let retries =
            self.lifecycle.phase() == Phase::Failed && self.awake_hours.wake(blocked_until);
        let retry = if retries { blocked_until } else { Mono::NEVER };
        self.awake_hours.next_timer().min(retry)
    }

    /// Wakes the server for its hours, if they have come.
    pub(super) fn open_for_hours(&mut self, now: Now, actions: &mut Vec<Action>) {
        let mut wakes = self.lifecycle.phase() == Phase::Failed;
        if self.awake_hours.next_timer() <= now.mono {
            wakes |= self.awake_hours.look(now, self.wake_time.expected());
            self.reconsider(now);
        }
        if wakes && self.awake_hours.wake(now.mono) {
            let sleeps = matches!(self.lifecycle.phase(), Phase::Asleep | Phase::FallingAsleep);
            self.wake(now, Cause::AwakeHours, actions);
            // As long as no request uses it, the sleep that they interrupted goes on after them.
            self.resumes_sleep |= sleeps && self.wake_cause == Some(Cause::AwakeHours);
        }
    }
}
