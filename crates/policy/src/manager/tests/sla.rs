//! What the SLA forbids, in each of its forms.

use super::*;
use crate::sla::{Broken, DelayedToday, Sla};

#[test]
fn the_sla_forbids_sleep_until_enough_were_served_at_once() {
    let settings = Settings::of(&Scenario::default());
    let mut story = Story::begin(settings);
    story.until(3600);
    assert_eq!(story.manager.phase(), Phase::Awake, "(0 + 1) / (0 + 1) > 10 %");
    for n in 0..9 {
        story.ask(3600 + n);
    }
    story.until(4000);
    assert_eq!(story.manager.phase(), Phase::Asleep, "(0 + 1) / (9 + 1) = 10 %");
}

fn settings(sla: Sla) -> Settings {
    Settings { sla: Some(sla), ..Settings::of(&Scenario::default()) }
}

/// At most two visits a day wait.
fn two_a_day() -> Settings {
    settings(Sla { visits_per_day: Some(2), ..Sla::default() })
}

/// A visitor opens a page; asleep, the server wakes, and they are shown the waiting page.
fn opens(story: &mut Story, second: u64, visitor: u64) -> Route {
    story.until(second);
    let request = Request { class: ClientClass::Human, want: Want::Page, cached: Cached::Nothing };
    let admission_request = AdmissionRequest {
        id: visitor,
        visitor: Visitor(visitor),
        client: visitor,
        network: visitor,
        request,
        recognised: true,
        may_wake: true,
    };
    let mut actions = Vec::new();
    let route = story.manager.admit(story.now, &admission_request, &mut actions);
    story.obey(&mut actions);
    if route == Route::Forward {
        story.manager.end(story.now, visitor);
    }
    route
}

#[test]
fn two_visits_a_day_may_wait_and_then_the_server_stays_awake_until_midnight() {
    let mut story = Story::begin(two_a_day());
    for hour in 1..3 {
        assert_eq!(opens(&mut story, hour * 3600, hour), Route::WaitingPage, "{hour}");
    }
    story.until(20 * 3600);
    let kept = Broken::Visits { today: 2, most: 2 };
    assert_eq!(story.manager.sleep_blocker(story.now), Some(SleepBlocker::Sla(kept)));
    assert_eq!(opens(&mut story, 20 * 3600, 9), Route::Forward);
    story.until(86_399);
    assert_eq!(story.manager.phase(), Phase::Awake);
    story.until(86_400);
    assert_eq!(story.manager.phase(), Phase::Asleep, "without any request");
}

#[test]
fn a_visitor_who_waits_a_second_time_in_a_visit_is_no_further_one() {
    let mut story = Story::begin(two_a_day());
    for minute in [60, 80, 100, 120] {
        assert_eq!(opens(&mut story, minute * 60, 1), Route::WaitingPage, "{minute}");
        assert_eq!(opens(&mut story, minute * 60 + 5, 1), Route::Forward);
    }
    assert_eq!(story.manager.sla_use(story.now).visits_today, Some(1));
    assert_eq!(story.manager.sla_use(story.now).requests, None, "no share is given");
}

#[test]
fn todays_delayed_visits_outlive_a_restart() {
    let mut story = Story::begin(two_a_day());
    opens(&mut story, 3600, 1);
    opens(&mut story, 7200, 2);
    let memory = story.manager.memory(story.now);
    assert_eq!(memory.delayed_visits, Some(DelayedToday { day: 0, visits: 2 }));
    let json = serde_json::to_string(&memory).unwrap();
    let memory: Memory = serde_json::from_str(&json).unwrap();
    let restarted = |hour: i64| {
        let mut story = Story::begin_at(two_a_day(), Wall::from_secs(hour * 3600), &memory);
        story.until(3600);
        story.manager.phase()
    };
    assert_eq!(restarted(3), Phase::Awake);
    assert_eq!(restarted(24), Phase::Asleep, "the next day");
}

#[test]
fn a_reload_that_allows_more_visits_keeps_those_of_today() {
    let mut story = Story::begin(two_a_day());
    opens(&mut story, 3600, 1);
    opens(&mut story, 7200, 2);
    let three = settings(Sla { visits_per_day: Some(3), ..Sla::default() });
    story.manager.retune(story.now, three, None);
    story.until(10_000);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    opens(&mut story, 10_000, 3);
    story.until(20_000);
    assert_eq!(story.manager.phase(), Phase::Awake);
}

#[test]
fn a_server_sleeps_only_while_it_is_expected_to_wake_within_the_longest_wait() {
    let most = Duration::from_secs(10);
    let slow = |wake_time| Settings {
        wake_time,
        ..settings(Sla { longest_wait: Some(most), ..Sla::default() })
    };
    let mut story = Story::begin(slow(most));
    story.until(3600);
    assert_eq!(story.manager.phase(), Phase::Asleep, "as long as that");
    let expected = Duration::from_secs(11);
    let mut story = Story::begin(slow(expected));
    story.until(86_400);
    assert_eq!(story.manager.phase(), Phase::Awake);
    let kept = SleepBlocker::Sla(Broken::LongestWait { expected, most });
    assert_eq!(story.manager.sleep_blocker(story.now), Some(kept));
    // Seen once, by order, it wakes faster: in 4 s.
    let mut actions = Vec::new();
    story.manager.order(story.now, Order::Sleep, &mut actions);
    story.obey(&mut actions);
    story.until(86_400 + 60);
    story.manager.order(story.now, Order::Wake, &mut actions);
    story.until(86_400 + 64);
    story.obey(&mut actions);
    assert_eq!(story.manager.expected_wake_time(), Duration::from_secs(4));
    assert_eq!(story.manager.too_slow(), None);
    story.until(86_400 + 3600);
    assert_eq!(story.manager.phase(), Phase::Asleep);
}

#[test]
fn one_order_shows_that_a_server_is_fast_again_whatever_was_seen_before() {
    let most = Duration::from_secs(30);
    let sla = Sla { longest_wait: Some(most), ..Sla::default() };
    let mut story = Story::begin(settings(sla));
    let mut actions = Vec::new();
    // The mean of 12 and 100 s, of which the second counts a quarter, is 34 s.
    for (took, expected) in [(12, 12), (100, 34), (13, 13)] {
        let asleep = story.now.mono.0.as_secs() + 70;
        story.manager.order(story.now, Order::Sleep, &mut actions);
        story.obey(&mut actions);
        story.until(asleep);
        story.manager.order(story.now, Order::Wake, &mut actions);
        story.until(asleep + took);
        story.obey(&mut actions);
        assert_eq!(story.manager.expected_wake_time(), Duration::from_secs(expected));
    }
    assert_eq!(story.manager.too_slow(), None);
}

#[test]
fn lost_wake_commands_belong_to_the_wake_up_that_they_lengthen() {
    let mut story = Story::begin(settings(Sla::default()));
    let mut actions = Vec::new();
    story.manager.order(story.now, Order::Sleep, &mut actions);
    story.obey(&mut actions);
    story.until(100);
    story.manager.order(story.now, Order::Wake, &mut actions);
    // It is lost; given again after the time-out of two minutes, it works.
    actions.clear();
    story.until(100 + 125);
    assert_eq!(story.manager.phase(), Phase::Awake);
    assert_eq!(story.manager.expected_wake_time(), Duration::from_mins(2));
}
