//! Stories that go on in another process, or after a reload.

use super::*;

impl Story {
    /// The next process, as much later as it needs.
    fn next_process(&self, carried_out: bool) -> Self {
        let handed = self.server.hand_over(self.now, carried_out);
        let written = serde_json::to_string(&handed).unwrap();
        let handed: Handed = serde_json::from_str(&written).unwrap();
        // Its clock began at another time.
        let now = Mono::from_secs(7000);
        let mut server = Lifecycle::new(ProbeTimeouts::default(), now);
        server.take_over(now, &handed);
        Self { server, now, commands: Vec::new() }
    }
}

#[test]
fn a_wake_up_goes_on_in_the_next_process_and_is_not_commanded_again() {
    let mut story = Story::asleep();
    story.wake();
    story.report(|epoch| Report::WakeDone(epoch, true));
    story.later(3);
    let mut next = story.next_process(true);
    assert_eq!(next.server.phase(), Phase::Waking);
    assert_eq!(next.now.since(next.server.since()), Duration::from_secs(3));
    assert_eq!(next.wake(), None, "who asks joins it");
    assert!(next.commands.is_empty());
    assert_eq!(next.tick(), None);
    assert!(matches!(next.commands[..], [Command::Probe(_)]), "{:?}", next.commands);
    assert_eq!(next.probed(true), Some(Change::Woke));
}

#[test]
fn a_wake_command_that_was_broken_off_is_given_again_at_once() {
    let mut story = Story::asleep();
    story.wake();
    let mut next = story.next_process(false);
    let begun = next.now;
    assert_eq!(next.tick(), None);
    assert_eq!(next.now, begun);
    assert!(matches!(next.commands[..], [Command::Wake(_)]), "{:?}", next.commands);
}

#[test]
fn a_server_that_is_awake_or_asleep_need_not_be_looked_at_by_the_next_process() {
    for (story, phase) in [(Story::awake(), Phase::Awake), (Story::asleep(), Phase::Asleep)] {
        let next = story.next_process(true);
        assert_eq!(next.server.phase(), phase);
        assert!(next.server.next_timer() >= next.now + Duration::from_mins(1));
    }
}

#[test]
fn a_sleep_goes_on_in_the_next_process() {
    let mut story = Story::awake();
    assert_eq!(story.sleep(), Some(Change::FallingAsleep));
    let mut next = story.next_process(true);
    assert_eq!(next.server.phase(), Phase::FallingAsleep);
    assert_eq!(next.tick(), None);
    assert_eq!(next.probed(false), Some(Change::FellAsleep));
}

#[test]
fn who_failed_before_is_not_tried_sooner_by_the_next_process() {
    let mut story = Story::asleep();
    story.wake();
    for _ in 0..ProbeTimeouts::default().wake_attempts {
        story.commands.clear();
        story.now = story.now + ProbeTimeouts::default().wake_timeout;
        story.server.tick(story.now, &mut story.commands);
    }
    assert_eq!(story.server.phase(), Phase::Failed);
    story.later(20);
    let next = story.next_process(true);
    assert_eq!(next.server.failures(), 1);
    assert_eq!(next.server.blocked_until().since(next.now), Duration::from_secs(40));
}

#[test]
fn a_server_that_is_reached_in_another_way_is_looked_at_or_woken_that_way() {
    let mut story = Story::awake();
    story.server.controller_changed(story.now, &mut story.commands);
    assert!(matches!(story.commands[..], [Command::Probe(_)]), "{:?}", story.commands);
    assert_eq!(story.probed(true), None);

    let mut story = Story::asleep();
    story.wake();
    let Command::Wake(old) = story.commands[0] else { panic!("{:?}", story.commands) };
    story.commands.clear();
    story.server.controller_changed(story.now, &mut story.commands);
    assert!(matches!(story.commands[..], [Command::Wake(new)] if new != old));
    let stale = story.server.report(story.now, Report::WakeDone(old, false), &mut Vec::new());
    assert_eq!(stale, None, "what the old way says counts no more");
    assert_eq!(story.server.phase(), Phase::Waking);
}

#[test]
fn other_timeouts_hold_from_the_next_look_on() {
    let mut story = Story::awake();
    let timeout = ProbeTimeouts { watch_every: Duration::from_secs(5), ..ProbeTimeouts::default() };
    story.server.set_timeouts(story.now, timeout);
    assert_eq!(story.server.next_timer(), story.now + Duration::from_secs(5));
}
