//! Programs that keep the server awake while they run.

use super::*;

const MINUTE: u64 = 60;

impl Story {
    fn ordered(&mut self, second: u64, order: Order) {
        self.until(second);
        let mut actions = Vec::new();
        self.manager.order(self.now, order, &mut actions);
        self.obey(&mut actions);
    }

    fn hold(&mut self, second: u64, number: u64) {
        self.ordered(second, Order::Hold(Holder(number), Duration::from_secs(3 * MINUTE)));
    }

    fn release(&mut self, second: u64, number: u64) -> Phase {
        self.ordered(second, Order::Release(Holder(number)));
        self.manager.phase()
    }

    fn asleep() -> Self {
        let mut story = Self::without_sla();
        story.until(1000);
        assert_eq!(story.manager.phase(), Phase::Asleep);
        story
    }
}

#[test]
fn a_server_that_slept_is_held_while_the_program_renews_and_sleeps_after_it() {
    let mut story = Story::asleep();
    for second in [1000, 1100, 1200, 1300] {
        story.hold(second, 1);
    }
    story.until(1479);
    let held = SleepBlocker::StayAwake(Mono::from_secs(1480));
    assert_eq!(story.manager.sleep_blocker(story.now), Some(held));
    assert_eq!(story.causes, [Cause::Operator]);
    assert_eq!(story.release(1479, 1), Phase::Asleep, "at once");
}

/// The fault of a review: the end of a transfer dropped the operator's order, and another transfer's.
#[test]
fn the_end_of_a_program_takes_nothing_from_others() {
    let mut story = Story::asleep();
    story.hold(1000, 1);
    story.ordered(1010, Order::StayAwake(Duration::from_secs(1000)));
    assert_eq!(story.release(1020, 1), Phase::Awake);
    let ordered = SleepBlocker::StayAwake(Mono::from_secs(2010));
    assert_eq!(story.manager.sleep_blocker(story.now), Some(ordered));
    story.until(2009);
    assert_eq!(story.manager.phase(), Phase::Awake);

    let mut story = Story::asleep();
    story.hold(1000, 1);
    story.hold(1010, 2);
    assert_eq!(story.release(1020, 1), Phase::Awake);
    assert_eq!(story.release(1030, 2), Phase::Asleep, "it slept before the first");

    let mut story = Story::asleep();
    story.hold(1000, 1);
    story.manager.begin(story.now, 1);
    assert_eq!(story.release(1020, 1), Phase::Awake, "it has a client");
}

#[test]
fn a_server_that_was_awake_or_that_the_operator_woke_is_left_to_its_policy() {
    let mut story = Story::without_sla();
    story.hold(10, 1);
    assert_eq!(story.release(40, 1), Phase::Awake);
    story.until(59);
    assert_eq!(story.manager.phase(), Phase::Awake);
    // It is awake for the minimum of 60 s, which the hold does not lengthen.
    story.until(60);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    story.hold(1000, 1);
    story.ordered(1010, Order::Wake);
    assert_eq!(story.release(1020, 1), Phase::Awake);
}

#[test]
fn a_program_that_was_killed_holds_it_no_longer_than_its_time() {
    let mut story = Story::asleep();
    story.hold(1000, 1);
    story.until(1179);
    assert_eq!(story.manager.phase(), Phase::Awake);
    story.until(1180);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    // What it had is over: a late end of it changes nothing.
    story.ask(2000);
    assert_eq!(story.release(2010, 1), Phase::Awake);
    // Nor does the sleep before it count for the next one.
    story.hold(2020, 2);
    assert_eq!(story.release(2030, 2), Phase::Awake);
}
