//! Hours for which the server is woken: time zones, holidays, overlaps, a proxy that was off.

use std::collections::BTreeSet;

use nightwatt_energy::zone::OffsetChange;

use super::*;
use crate::hours::DaysOff;

pub(super) const HOUR: u64 = 3600;
pub(super) const DAY: u64 = 86_400;

/// 2026-11-23, a Monday, at midnight UTC.
pub(super) const MONDAY: i64 = 1_795_392_000;

pub(super) fn settings(hours: &[&str]) -> Settings {
    let awake = hours.iter().map(|text| text.parse().unwrap()).collect();
    Settings { sla: None, awake, ..Settings::of(&Scenario::default()) }
}

/// Central European time in 2026: `zdump -v Europe/Berlin`.
fn berlin() -> Zone {
    let change = |at, utc_offset| OffsetChange { at: Wall::from_secs(at), utc_offset };
    Zone::new(vec![
        change(0, 3600),
        change(1_774_746_000, 7200), // 2026-03-29 01:00 UTC
        change(1_792_890_000, 3600), // 2026-10-25 01:00 UTC
    ])
}

impl Story {
    fn from(settings: Settings, start_s: i64) -> Self {
        Self::begin_at(settings, Wall::from_secs(start_s), &Memory::default())
    }

    /// A proxy that starts while its server is off.
    fn off(settings: Settings, start_s: i64, memory: &Memory) -> Self {
        let start = Wall::from_secs(start_s);
        let mut story = Self::begin_at(settings.clone(), start, memory);
        story.up = false;
        let policy = Timeout { idle: Duration::from_secs(5) };
        let now = Now { mono: Mono::ZERO, wall: start, utc_offset: 0 };
        story.manager = PowerManager::new(settings, policy, *memory, now);
        (story.now, story.changes, story.causes) = (now, Vec::new(), Vec::new());
        story
    }

    /// The same proxy, started again while its server is off.
    fn started_again(&self, settings: Settings) -> Self {
        let memory = self.manager.memory(self.now);
        let text = serde_json::to_string(&memory).unwrap();
        Self::off(settings, self.now.wall.secs(), &serde_json::from_str(&text).unwrap())
    }

    fn order(&mut self, order: Order) {
        let mut actions = Vec::new();
        self.manager.order(self.now, order, &mut actions);
        self.obey(&mut actions);
    }

    /// Its server says good-bye, of its own accord.
    fn leaves(&mut self) {
        let mut actions = Vec::new();
        self.up = false;
        self.manager.report(self.now, Report::Leaving, &mut actions);
        self.obey(&mut actions);
    }

    fn so_far(&self) -> (Phase, usize) {
        (self.manager.phase(), self.causes.len())
    }

    /// When it was awake: seconds of civil time since `from` at which it woke and fell asleep.
    fn awake_since(&self, from: i64) -> Vec<(i64, &'static str)> {
        let changed = self.changes.iter().filter_map(|&(second, change)| {
            let name = match change {
                Change::Woke => "woke",
                Change::FellAsleep => "slept",
                _ => return None,
            };
            Some((self.start.secs() + second.cast_signed() - from, name))
        });
        changed.collect()
    }
}

#[test]
fn it_is_woken_ahead_of_its_hours_and_stays_awake_until_they_end() {
    // Waking is expected to last 5 s, until the first wake-up was seen to be immediate.
    let mut story = Story::from(settings(&["mon-fri 07:55-18:00"]), MONDAY);
    story.until(2 * DAY);
    let (opens, ends) = (7 * 3600 + 55 * 60, 18 * 3600);
    assert_eq!(
        story.awake_since(MONDAY)[1..],
        [(opens - 5, "woke"), (ends, "slept"), (86_400 + opens, "woke"), (86_400 + ends, "slept"),]
    );
    assert_eq!(story.causes, [Cause::AwakeHours; 2]);
    // Not at the week-end.
    let woken = story.causes.len();
    story.until(5 * DAY);
    assert_eq!(story.causes.len(), woken + 3);
    story.until(7 * DAY);
    assert_eq!(story.causes.len(), woken + 3);
}

#[test]
fn in_its_hours_it_reports_them_and_until_then_when_they_begin() {
    let mut story = Story::from(settings(&["10:00-12:00"]), MONDAY);
    story.until(9 * HOUR);
    let begins_in = story.manager.awake_hours_report(story.now).wakes_in;
    assert_eq!(begins_in, Some(Duration::from_secs(HOUR - 5)));
    story.until(11 * HOUR);
    let ends = Mono::from_secs(12 * HOUR);
    assert_eq!(story.manager.sleep_blocker(story.now), Some(SleepBlocker::AwakeHours(ends)));
    assert_eq!(story.manager.awake_hours_report(story.now).wakes_in, None);
    // Hours that last longer for another reason have that one's name.
    let never_sleep = vec!["00:00-24:00".parse().unwrap()];
    let both = Settings { never_sleep, ..settings(&["10:00-12:00"]) };
    let mut story = Story::from(both, MONDAY + 11 * 3600);
    story.until(600);
    assert!(matches!(story.manager.sleep_blocker(story.now), Some(SleepBlocker::Hours(_))));
}

#[test]
fn hours_that_overlap_or_meet_are_one_and_wake_once() {
    let hours = ["08:00-12:00", "11:00-13:00", "13:00-14:30", "mon 22:00-02:00"];
    let mut story = Story::from(settings(&hours), MONDAY);
    story.until(DAY + 6 * HOUR);
    let changed = story.awake_since(MONDAY);
    let slept: Vec<_> = changed.iter().filter(|it| it.1 == "slept").map(|it| it.0).collect();
    assert_eq!(slept[1..], [14 * 3600 + 1800, 26 * 3600]);
    assert_eq!(story.causes.len(), 2);
}

#[test]
fn an_operator_puts_it_to_sleep_for_the_rest_of_its_hours() {
    let hours = || settings(&["08:00-12:00", "11:00-13:00"]);
    let mut story = Story::from(hours(), MONDAY);
    story.until(9 * HOUR);
    story.order(Order::Sleep);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    story.until(12 * HOUR);
    assert_eq!(story.manager.phase(), Phase::Asleep, "the second begins within the first");
    // A proxy that is restarted meanwhile does not wake it either.
    let mut again = story.started_again(hours());
    again.until(600);
    assert_eq!(again.so_far(), (Phase::Asleep, 0));
    again.until(21 * HOUR);
    assert_eq!(again.so_far(), (Phase::Awake, 1), "the next day it does");
    story.until(21 * HOUR);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    story.until(DAY + 9 * HOUR);
    assert_eq!(story.manager.phase(), Phase::Awake);
}

#[test]
fn an_order_during_the_wake_up_ahead_of_hours_holds_through_them() {
    let mut story = Story::from(settings(&["08:00-12:00", "15:00-16:00"]), MONDAY);
    // Waking is expected to last 5 s.
    story.until(8 * HOUR - 1);
    assert_eq!(story.so_far(), (Phase::Awake, 1), "ahead of its hours");
    story.order(Order::Sleep);
    story.until(12 * HOUR);
    assert_eq!(story.so_far(), (Phase::Asleep, 1));
    story.until(15 * HOUR + 60);
    assert_eq!(story.so_far(), (Phase::Awake, 2), "other hours of this day");
}

#[test]
fn an_order_to_sleep_ends_when_others_wake_it() {
    let mut story = Story::from(settings(&["08:00-18:00"]), MONDAY);
    story.until(9 * HOUR);
    story.order(Order::Sleep);
    story.order(Order::Wake);
    story.until(10 * HOUR);
    assert_eq!(story.manager.phase(), Phase::Awake);
    story.leaves();
    story.until(11 * HOUR);
    assert_eq!(story.manager.phase(), Phase::Awake, "the order is over");
}

#[test]
fn hours_around_the_clock_wake_it_each_day_and_an_order_to_sleep_holds_until_the_next() {
    // Begins at 01:00.
    let mut story = Story::from(settings(&["00:00-24:00"]), MONDAY + 3600);
    story.until(10 * DAY);
    assert_eq!(story.so_far(), (Phase::Awake, 0));
    story.order(Order::Sleep);
    story.until(10 * DAY + 23 * HOUR - 10);
    assert_eq!(story.so_far(), (Phase::Asleep, 0));
    story.until(10 * DAY + 23 * HOUR + 10);
    assert_eq!(story.so_far(), (Phase::Awake, 1));
    // Hours over midnight are those of the day on which they begin.
    let mut story = Story::from(settings(&["20:00-06:00", "05:00-07:00"]), MONDAY);
    story.until(21 * HOUR);
    let woken = story.causes.len();
    story.order(Order::Sleep);
    story.until(DAY + 5 * HOUR - 10);
    assert_eq!(story.so_far(), (Phase::Asleep, woken));
    story.until(DAY + 5 * HOUR + 10);
    assert_eq!(story.so_far(), (Phase::Awake, woken + 1));
}

#[test]
fn a_server_that_goes_away_in_its_hours_is_woken_again_once_a_day() {
    for hours in ["08:00-18:00", "00:00-24:00"] {
        let mut story = Story::from(settings(&[hours]), MONDAY);
        story.until(9 * HOUR);
        let woken = story.causes.len();
        story.up = false;
        story.until(9 * HOUR + 600);
        assert!(story.changes.iter().any(|it| it.1 == Change::WentAway), "{hours}");
        assert_eq!(story.so_far(), (Phase::Awake, woken + 1), "{hours}");
        // Something else is not the same.
        story.until(10 * HOUR);
        story.leaves();
        assert_eq!(story.so_far(), (Phase::Asleep, woken + 1), "{hours}");
        story.until(10 * HOUR + 600);
        assert_eq!(story.so_far(), (Phase::Awake, woken + 2), "{hours}");
        // A server that is broken is left alone, and so is one that is meant to be off.
        story.until(11 * HOUR);
        story.leaves();
        story.until(12 * HOUR);
        assert_eq!(story.so_far(), (Phase::Asleep, woken + 2), "{hours}");
        story.until(DAY + 9 * HOUR);
        assert_eq!(story.so_far(), (Phase::Awake, woken + 3), "{hours}");
        story.leaves();
        story.until(DAY + 10 * HOUR);
        assert_eq!(story.so_far(), (Phase::Awake, woken + 4), "{hours}");
    }
}

#[test]
fn a_server_that_goes_away_outside_of_its_hours_sleeps() {
    let mut story = Story::from(settings(&["08:00-10:00"]), MONDAY);
    story.until(10 * HOUR - 60);
    story.leaves();
    story.until(20 * HOUR);
    assert_eq!(story.so_far(), (Phase::Asleep, 1), "the hours ended meanwhile");
    story.ask(20 * HOUR);
    story.leaves();
    story.until(23 * HOUR);
    assert_eq!(story.manager.phase(), Phase::Asleep);
}

#[test]
fn a_proxy_that_was_off_when_they_began_or_when_the_power_failed_wakes_it_when_it_starts() {
    let hours = || settings(&["08:00-18:00"]);
    for (hour, awake) in [(7, false), (9, true), (17, true), (19, false)] {
        let mut story = Story::off(hours(), MONDAY + hour * 3600, &Memory::default());
        story.until(120);
        assert_eq!(story.manager.phase() == Phase::Awake, awake, "{hour}:00");
        // It has been woken for these hours before.
        let mut again = story.started_again(hours());
        again.until(120);
        assert_eq!(again.manager.phase() == Phase::Awake, awake, "{hour}:00");
    }
}

#[test]
fn a_server_that_did_not_wake_is_tried_again_in_its_hours_only() {
    let mut story = Story::from(settings(&["08:00-12:00"]), MONDAY);
    story.until(HOUR);
    story.is_broken = true;
    story.until(10 * HOUR);
    assert_eq!(story.manager.phase(), Phase::Failed);
    let tried = story.causes.len();
    assert!(tried > 1, "{tried}");
    story.until(13 * HOUR);
    let tried = story.causes.len();
    story.until(20 * HOUR);
    assert_eq!(story.causes.len(), tried);
    story.is_broken = false;
    story.until(DAY + 9 * HOUR);
    assert_eq!(story.manager.phase(), Phase::Awake);
}

#[test]
fn on_holidays_there_are_none_but_what_began_before_ends_as_usual() {
    let tuesday = MONDAY / 86_400 + 1;
    let days_off = DaysOff::new(BTreeSet::from([tuesday]));
    let hours = Settings { days_off, ..settings(&["08:00-18:00", "22:00-02:00"]) };
    let mut story = Story::from(hours, MONDAY + 3 * 3600);
    story.until(3 * DAY - 3 * HOUR - 1);
    let woke = story.awake_since(MONDAY).into_iter().filter(|it| it.1 == "woke");
    let woke: Vec<_> = woke.map(|(second, _)| (second + 10) / 3600).collect();
    assert_eq!(woke, [8, 22, 48 + 8, 48 + 22], "not on the 24th, after two in the night");
    // Longer than is looked ahead at first.
    let days_off = DaysOff::new((tuesday..tuesday + 20).collect());
    let mut story = Story::from(Settings { days_off, ..settings(&["08:00-18:00"]) }, MONDAY);
    story.until(20 * DAY);
    assert_eq!(story.causes.len(), 1);
    story.until(22 * DAY);
    assert_eq!(story.causes.len(), 2);
}

#[test]
fn local_time_decides_also_when_clocks_are_put_forward_or_back() {
    for (start, utc_hours) in [
        // Saturday 2026-03-28 00:00 UTC: 08:00 is 07:00 UTC, and 06:00 from Sunday on.
        (1_774_656_000, [(7, 17), (24 + 6, 24 + 16), (48 + 6, 48 + 16)]),
        // Saturday 2026-10-24 00:00 UTC: the reverse.
        (1_792_800_000, [(6, 16), (24 + 7, 24 + 17), (48 + 7, 48 + 17)]),
    ] {
        let mut story =
            Story::from(Settings { zone: berlin(), ..settings(&["08:00-18:00"]) }, start);
        story.until(3 * DAY);
        let expected = utc_hours.map(|(from, to)| [from, to]);
        let changed = story.awake_since(start);
        let hours: Vec<_> = changed[1..].iter().map(|it| (it.0 + 10) / 3600).collect();
        assert_eq!(hours, expected.as_flattened());
    }
}

#[test]
fn a_time_that_is_skipped_is_when_it_is_skipped_and_a_repeated_one_lasts_twice() {
    let night = || Settings { zone: berlin(), ..settings(&["sun 02:15-02:45"]) };
    // Skipped as a whole: no hours at all. 2026-03-29 00:00 UTC.
    let mut story = Story::from(night(), 1_774_742_400);
    story.until(DAY);
    assert_eq!(story.causes, []);
    // From the first 02:15 to the second 02:45: 00:15 to 01:45 UTC. 2026-10-25 00:00 UTC is 02:00.
    let mut story = Story::from(night(), 1_792_886_400);
    story.until(DAY);
    assert_eq!(story.awake_since(1_792_886_400)[1..], [(15 * 60 - 5, "woke"), (105 * 60, "slept")]);
    // Begins in the skipped hour: 03:00 summer time, when it is skipped.
    let partly = Settings { zone: berlin(), ..settings(&["sun 02:30-04:00"]) };
    let mut story = Story::from(partly, 1_774_742_400);
    story.until(DAY);
    assert_eq!(story.awake_since(1_774_742_400)[1..], [(3600 - 5, "woke"), (2 * 3600, "slept")]);
}

#[test]
fn a_clock_that_is_set_is_noticed_within_an_hour() {
    // A board without a clock starts in 1970, and gets the time a minute later.
    let mut story = Story::from(settings(&["mon 08:00-18:00"]), 0);
    story.until(120);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    story.start = Wall::from_secs(MONDAY + 9 * 3600);
    story.until(HOUR);
    assert_eq!(story.manager.phase(), Phase::Awake);
    // A run of hours far in the future, from a wrong clock, does not hinder those of now.
    let mut story =
        Story::from(settings(&["mon 08:00-18:00"]), MONDAY + 520 * 7 * 86_400 + 9 * 3600);
    story.until(60);
    story.order(Order::Sleep);
    story.start = Wall::from_secs(MONDAY + 9 * 3600);
    story.until(2 * HOUR);
    assert_eq!(story.causes.last(), Some(&Cause::AwakeHours));
}

#[test]
fn a_reload_applies_other_hours_at_once() {
    let mut story = Story::from(settings(&["20:00-21:00"]), MONDAY);
    story.until(9 * HOUR);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    story.manager.retune(story.now, settings(&["08:00-10:00"]), None);
    story.until(9 * HOUR + 1);
    assert_eq!(story.manager.phase(), Phase::Awake);
    story.manager.retune(story.now, settings(&[]), None);
    story.until(9 * HOUR + 120);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    assert_eq!(story.manager.awake_hours.next_timer(), Mono::NEVER, "nothing to look up");
}

#[test]
fn hours_that_were_not_used_leave_the_sla_alone() {
    // One request in the window: a sleep would delay another one, and the SLA forbids that.
    let settings = Settings { sla: Scenario::default().sla(), ..settings(&["10:00-12:00"]) };
    let mut story = Story::from(settings, MONDAY);
    for second in 0..9 {
        story.ask(second);
    }
    story.until(HOUR);
    assert_eq!(story.manager.phase(), Phase::Asleep, "(0 + 1) / (9 + 1) = 10 %");
    story.until(3 * DAY);
    assert_eq!(story.manager.phase(), Phase::Asleep, "without requests, after each day's hours");
    assert_eq!(story.causes.len(), 3);
}
