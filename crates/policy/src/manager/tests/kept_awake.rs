//! What keeps a server awake is named.

use super::*;

#[test]
fn the_time_that_ends_last_is_named() {
    let secs = Duration::from_secs;
    for (min_on, quiet, wanted) in [
        (60, 5, SleepBlocker::MinOn(Mono::from_secs(60))),
        (1, 5, SleepBlocker::Quiet(Mono::from_secs(5))),
    ] {
        let times = Settings { sla: None, ..Settings::of(&Scenario::default()) };
        let times = Settings { min_on: secs(min_on), quiet: secs(quiet), ..times };
        let mut story = Story::begin(times);
        assert_eq!(story.manager.sleep_blocker(story.now), Some(wanted));
        let mut actions = Vec::new();
        story.manager.order(story.now, Order::StayAwake(secs(3600)), &mut actions);
        let ordered = SleepBlocker::StayAwake(Mono::from_secs(3600));
        assert_eq!(story.manager.sleep_blocker(story.now), Some(ordered));
    }
}
