//! What is reported of hours: when they end, and when they wake the server again.

use std::collections::BTreeSet;

use super::awake_hours::{DAY, HOUR, MONDAY, settings};
use super::*;
use crate::hours::{DaysOff, HoursEnd};

/// It begins on Monday at midnight, with these whole-day holidays, counted from that day.
fn story(hours: &[&str], holidays: &[i64]) -> Story {
    let days: BTreeSet<i64> = holidays.iter().map(|day| MONDAY / 86_400 + day).collect();
    let settings = Settings { days_off: DaysOff::new(days), ..settings(hours) };
    Story::begin_at(settings, Wall::from_secs(MONDAY), &Memory::default())
}

const fn after(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Story {
    /// In how long its hours wake it, when they end, and whether an order has suspended them.
    fn hours(&self) -> (Option<Duration>, Option<HoursEnd>, bool) {
        let it = self.manager.awake_hours_report(self.now);
        (it.wakes_in, it.end, it.is_suspended)
    }

    /// In how long its hours end.
    fn hours_left(&self) -> Option<Duration> {
        self.hours().1.and_then(HoursEnd::left)
    }

    fn put_to_sleep(&mut self) {
        let mut actions = Vec::new();
        self.manager.order(self.now, Order::Sleep, &mut actions);
        self.obey(&mut actions);
        assert_eq!(self.manager.phase(), Phase::Asleep);
    }
}

#[test]
fn hours_have_an_end_and_an_order_to_sleep_suspends_them_until_the_next_ones() {
    let mut story = story(&["08:00-12:00", "11:00-13:00", "15:00-16:00"], &[]);
    story.until(9 * HOUR);
    assert_eq!(story.hours(), (None, Some(HoursEnd::In(after(4 * HOUR))), false));
    story.put_to_sleep();
    // At 09:00: the hours of now end at 13:00, and the next ones begin at 15:00. The server woke at once when it was
    // woken for those of 08:00, so that the next wake-up is expected to take no time.
    let now = story.hours();
    assert_eq!(now, (Some(after(6 * HOUR)), Some(HoursEnd::In(after(4 * HOUR))), true));
    story.until(14 * HOUR);
    assert_eq!(story.hours(), (Some(after(HOUR)), None, false), "the order went with its hours");
    story.until(15 * HOUR + 60);
    assert_eq!(story.hours(), (None, Some(HoursEnd::In(after(HOUR - 60))), false));
    // The last of this day: until tomorrow, 08:00.
    story.put_to_sleep();
    assert_eq!(story.hours().0, Some(after(17 * HOUR - 60)));
    // A client lifts the order.
    story.ask(15 * HOUR + 120);
    assert_eq!(story.hours(), (None, Some(HoursEnd::In(after(HOUR - 120))), false));
}

#[test]
fn an_order_to_sleep_before_a_week_end_or_a_holiday_lasts_over_it() {
    // Friday, 27 November 2026, 12:00. Monday is a holiday: until Tuesday, 08:00.
    let mut story = story(&["mon-fri 08:00-18:00"], &[7]);
    story.until(4 * DAY + 12 * HOUR);
    story.put_to_sleep();
    let end = Some(HoursEnd::In(after(6 * HOUR)));
    assert_eq!(story.hours(), (Some(after(3 * DAY + 20 * HOUR)), end, true));
}

#[test]
fn without_further_hours_an_order_to_sleep_has_no_known_end() {
    // Every day after the first is a holiday.
    let holidays: Vec<i64> = (1..800).collect();
    let mut story = story(&["08:00-18:00"], &holidays);
    story.until(9 * HOUR);
    story.put_to_sleep();
    assert_eq!(story.hours(), (None, Some(HoursEnd::In(after(9 * HOUR))), true));
}

#[test]
fn hours_around_the_clock_never_end_and_an_order_to_sleep_suspends_them_until_midnight() {
    for hours in [&["00:00-24:00"][..], &["mon-fri 00:00-24:00", "sat,sun 00:00-24:00"]] {
        let mut story = story(hours, &[-1]);
        story.until(30 * DAY + 10 * HOUR);
        assert_eq!(story.hours(), (None, Some(HoursEnd::Never), false), "{hours:?}");
        story.put_to_sleep();
        let suspended = (Some(after(14 * HOUR)), Some(HoursEnd::Never), true);
        assert_eq!(story.hours(), suspended, "{hours:?}");
    }
    // All but one hour of the week.
    let mut story = story(&["mon-sat 00:00-24:00", "sun 01:00-24:00"], &[]);
    story.until(10 * HOUR);
    assert_eq!(story.hours_left(), Some(after(5 * DAY + 14 * HOUR)), "Sunday, 00:00");
    story.until(6 * DAY + 2 * HOUR);
    assert_eq!(story.hours_left(), Some(after(6 * DAY + 22 * HOUR)), "the next one");
}

#[test]
fn hours_around_the_clock_end_on_the_next_holiday_however_far_away() {
    for day in [1_i64, 7, 8, 9, 30, 399, 400, 401, 900] {
        // One that is over does not matter.
        let mut story = story(&["00:00-24:00"], &[-3, day, day + 1]);
        story.until(10 * HOUR);
        let ends = day.cast_unsigned() * DAY - 10 * HOUR;
        assert_eq!(story.hours(), (None, Some(HoursEnd::In(after(ends))), false), "{day}");
    }
    // Put to sleep at 10:00 on the day before two holidays: until these are over.
    let mut story = story(&["00:00-24:00"], &[1, 2]);
    story.until(10 * HOUR);
    story.put_to_sleep();
    let (wakes_in, _, is_suspended) = story.hours();
    assert!(is_suspended);
    let wake_time = story.manager.expected_wake_time();
    assert_eq!(wakes_in.map(|it| it + wake_time), Some(after(3 * DAY - 10 * HOUR)));
}

#[test]
fn a_server_that_went_away_in_its_hours_is_woken_again_after_two_minutes_then_on_the_next_day() {
    let mut story = story(&["08:00-18:00"], &[]);
    let leaves = |story: &mut Story| {
        let mut actions = Vec::new();
        story.up = false;
        story.manager.report(story.now, Report::Leaving, &mut actions);
        story.obey(&mut actions);
    };
    story.until(9 * HOUR);
    leaves(&mut story);
    story.until(9 * HOUR + 30);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    assert_eq!(story.hours(), (Some(after(90)), Some(HoursEnd::In(after(9 * HOUR - 30))), false));
    story.until(10 * HOUR);
    assert_eq!((story.manager.phase(), story.hours().0), (Phase::Awake, None));
    leaves(&mut story);
    story.until(12 * HOUR);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    assert_eq!(story.hours(), (Some(after(20 * HOUR)), Some(HoursEnd::In(after(6 * HOUR))), false));
    // Two minutes later the hours are over.
    let mut story = self::story(&["08:00-18:00"], &[]);
    story.until(18 * HOUR - 60);
    leaves(&mut story);
    story.until(18 * HOUR - 30);
    assert_eq!(story.hours(), (Some(after(14 * HOUR + 30)), Some(HoursEnd::In(after(30))), false));
}

#[test]
fn hours_in_which_it_is_not_to_sleep_end_together_or_never() {
    let end = |texts: &[&str], second: u64| {
        let never_sleep = texts.iter().map(|text| text.parse().unwrap()).collect();
        let settings = Settings { never_sleep, ..settings(&[]) };
        let mut story = Story::begin_at(settings, Wall::from_secs(MONDAY), &Memory::default());
        story.until(second);
        story.manager.never_sleep_end(story.now)
    };
    assert_eq!(end(&["00:00-24:00"], 10 * HOUR), Some(HoursEnd::Never));
    assert_eq!(end(&[], 10 * HOUR), None);
    assert_eq!(end(&["12:00-14:00"], 10 * HOUR), None);
    let night = ["22:00-24:00", "00:00-06:00"];
    assert_eq!(end(&night, 23 * HOUR), Some(HoursEnd::In(after(7 * HOUR))), "over midnight");
}
