//! Where the hours stand, for people: when they end, and when they wake the server.

use std::time::Duration;

use super::{AwakeHours, AwakeRun, DAYS_AHEAD, until};
use crate::hours::{Hours, HoursEnd};
use crate::lifecycle::Phase;
use crate::manager::PowerManager;
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::{Mono, Now};

/// Where the hours stand in which a server is to be awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AwakeHoursReport {
    /// In how long they wake the server, if they do not keep it awake now.
    pub wakes_in: Option<Duration>,
    /// When those of now end, if it is in them.
    pub end: Option<HoursEnd>,
    /// An operator has put the server to sleep in those of now: they do not count before they wake it.
    pub is_suspended: bool,
}

impl AwakeHours {
    /// Where they stand; `sleeps`: the server is asleep.
    fn report(&self, now: Now, wake_time: Duration, sleeps: bool) -> AwakeHoursReport {
        let Some(next) = self.next else { return AwakeHoursReport::default() };
        if self.ends(now.mono).is_none() {
            let wakes_in = until(now.wall, next.begins).saturating_sub(wake_time);
            return AwakeHoursReport { wakes_in: Some(wakes_in), ..AwakeHoursReport::default() };
        }
        let run = self.first(now, |run| run.overlaps(&next)).unwrap_or(next);
        let end = if self.never_ends(now) {
            HoursEnd::Never
        } else {
            HoursEnd::In(until(now.wall, run.ends))
        };
        let is_suspended = self.ordered.is_some();
        let wakes_in =
            if sleeps || is_suspended { self.wakes_again_in(now, run, wake_time) } else { None };
        AwakeHoursReport { wakes_in, end: Some(end), is_suspended }
    }

    /// In how long they wake a server that has gone in them.
    fn wakes_again_in(&self, now: Now, run: AwakeRun, wake_time: Duration) -> Option<Duration> {
        let again = self.again_at.since(now.mono);
        if self.ordered.is_none()
            && self.again_at != Mono::NEVER
            && again < until(now.wall, self.part(run, now).ends)
        {
            return Some(again);
        }
        // Those that begin on the next day count again at once, others from their wake-up on.
        let part = self.part(run, now);
        if part.ends < run.ends {
            return Some(until(now.wall, part.ends));
        }
        let following = self.first(now, |it| run.ends < it.begins)?;
        let ahead = until(now.wall, following.begins).saturating_sub(wake_time);
        Some(ahead.max(until(now.wall, run.ends)))
    }

    /// Whether those of now go on for ever: all hours of every day, and no holiday to come.
    fn never_ends(&self, now: Now) -> bool {
        self.days_off.first_from(self.today(now)).is_none() && Hours::are_endless(&self.hours)
    }

    /// The first hours for which this holds, to their real end: those that go on to the last of the days that are looked
    /// at first may go on after it.
    fn first(&self, now: Now, holds: impl Fn(&AwakeRun) -> bool) -> Option<AwakeRun> {
        let (today, endless) = (self.today(now), self.never_ends(now));
        let [soon, late] = DAYS_AHEAD;
        // Hours without a gap in the week end on the next holiday.
        let day_off = self.days_off.first_from(today).map_or(0, |day| day - today);
        let last = late.max(day_off + 2);
        [soon, late, last].into_iter().find_map(|days| {
            let rest = self.zone.first_at((today + days) * 86_400, now.utc_offset);
            let mut runs = self.runs(now, days).into_iter();
            let run = runs.find(|run| run.begins < run.ends && holds(run))?;
            (endless || days == last || run.ends <= rest).then_some(run)
        })
    }
}

impl<P: SleepPolicy> PowerManager<P> {
    /// Where the hours stand in which the server is to be awake.
    pub fn awake_hours_report(&self, now: Now) -> AwakeHoursReport {
        let sleeps = matches!(self.phase(), Phase::Asleep | Phase::FallingAsleep);
        self.awake_hours.report(now, self.wake_time.expected(), sleeps)
    }

    /// When the hours end in which the server is not put to sleep, if it is in such now.
    pub fn never_sleep_end(&self, now: Now) -> Option<HoursEnd> {
        let HoursEnd::In(left) = Hours::end_of(&self.settings.never_sleep, now)? else {
            return Some(HoursEnd::Never);
        };
        // Clocks may be put forward or back before.
        let local_s = (now.wall + left).secs() + i64::from(now.utc_offset);
        let ends = self.settings.zone.first_at(local_s, now.utc_offset);
        Some(HoursEnd::In(until(now.wall, ends)))
    }
}
