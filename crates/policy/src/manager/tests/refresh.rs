//! Wake-ups for copies of the site.

use super::*;
use crate::sla::Broken;

const DAYS: u64 = 3 * 86_400;

/// Asleep for three days, after fifty requests within a minute that the cache answered.
fn quiet_site() -> Story {
    let mut story = Story::begin(Settings::of(&Scenario::default()));
    for second in 0..50 {
        assert_eq!(story.admit(second, ClientClass::Human, Cached::Fresh), Route::Cache);
    }
    story.until(DAYS);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    story
}

fn wake_to_refresh(story: &mut Story) {
    let mut actions = Vec::new();
    story.manager.wake_to_refresh(story.now, &mut actions);
    story.obey(&mut actions);
    assert_eq!(story.manager.phase(), Phase::Awake);
    assert_eq!(story.causes, [Cause::Refresh]);
}

#[test]
fn woken_for_copies_it_goes_on_sleeping_without_a_request() {
    let mut story = quiet_site();
    wake_to_refresh(&mut story);
    story.until(DAYS + 59);
    assert_eq!(story.manager.phase(), Phase::Awake, "a minute at least");
    story.until(DAYS + 60);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    let mut story = quiet_site();
    let mut actions = Vec::new();
    story.manager.order(story.now, Order::Wake, &mut actions);
    story.obey(&mut actions);
    story.until(DAYS + 86_400);
    assert_eq!(story.manager.phase(), Phase::Awake, "the SLA allows no new sleep");
}

#[test]
fn used_in_between_it_needs_a_new_sleep_that_the_sla_allows() {
    let mut story = quiet_site();
    wake_to_refresh(&mut story);
    assert_eq!(story.ask(DAYS + 10), Route::Forward);
    story.until(DAYS + 3600);
    assert_eq!(story.manager.phase(), Phase::Awake);
    assert_eq!(story.manager.sleep_blocker(story.now), Some(SleepBlocker::Sla(Broken::Share)));
}

#[test]
fn a_server_that_is_awake_is_not_woken_for_copies() {
    let mut story = Story::without_sla();
    let mut actions = Vec::new();
    story.manager.wake_to_refresh(story.now, &mut actions);
    assert_eq!(actions, []);
    story.until(3600);
    assert_eq!((story.manager.phase(), story.causes), (Phase::Asleep, vec![]));
}
