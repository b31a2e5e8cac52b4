//! Stories of one server that obeys, fails or is moved by others.

mod handover;

use super::*;

/// A lifecycle with its clock and the commands it gave.
struct Story {
    server: Lifecycle,
    now: Mono,
    commands: Vec<Command>,
}

impl Story {
    fn begin() -> Self {
        let server = Lifecycle::new(ProbeTimeouts::default(), Mono::ZERO);
        Self { server, now: Mono::ZERO, commands: Vec::new() }
    }

    fn awake() -> Self {
        let mut story = Self::begin();
        assert_eq!(story.tick(), None);
        assert_eq!(story.probed(true), Some(Change::FoundAwake));
        story
    }

    fn asleep() -> Self {
        let mut story = Self::begin();
        story.tick();
        assert_eq!(story.probed(false), Some(Change::FoundAsleep));
        story
    }

    fn later(&mut self, seconds: u64) -> &mut Self {
        self.now = self.now + Duration::from_secs(seconds);
        self
    }

    /// Lets time run to the next timer.
    fn tick(&mut self) -> Option<Change> {
        self.now = self.now.max(self.server.next_timer());
        assert_ne!(self.now, Mono::NEVER, "nothing would ever happen");
        self.server.tick(self.now, &mut self.commands)
    }

    fn wake(&mut self) -> Option<Change> {
        self.server.wake(self.now, &mut self.commands)
    }

    fn sleep(&mut self) -> Option<Change> {
        self.server.sleep(self.now, &mut self.commands)
    }

    fn report(&mut self, report: impl FnOnce(Epoch) -> Report) -> Option<Change> {
        let epoch = match self.commands.pop().expect("a command under way") {
            Command::Wake(epoch) | Command::Sleep(epoch) | Command::Probe(epoch) => epoch,
        };
        self.server.report(self.now, report(epoch), &mut self.commands)
    }

    /// An unsolicited report from the server.
    fn hear(&mut self, report: Report) -> Option<Change> {
        self.server.report(self.now, report, &mut self.commands)
    }

    fn probed(&mut self, up: bool) -> Option<Change> {
        assert!(matches!(self.commands.last(), Some(Command::Probe(_))), "{:?}", self.commands);
        self.report(|epoch| Report::Probed(epoch, up))
    }

    fn woke(&mut self, done: bool) -> Option<Change> {
        assert!(matches!(self.commands.last(), Some(Command::Wake(_))), "{:?}", self.commands);
        self.report(|epoch| Report::WakeDone(epoch, done))
    }
}

#[test]
fn a_server_that_was_put_to_sleep_is_left_in_peace_and_one_that_went_away_is_looked_for() {
    let timeouts = ProbeTimeouts { watch_asleep_every: Duration::ZERO, ..ProbeTimeouts::default() };
    let mut story = Story::awake();
    story.server.timeouts = timeouts;
    story.later(100).sleep();
    story.report(|epoch| Report::SleepDone(epoch, Slept::Done));
    assert_eq!(story.probed(false), Some(Change::FellAsleep));
    assert_eq!(story.server.next_timer(), Mono::NEVER);
    // It was woken from elsewhere meanwhile: the next request finds out.
    assert_eq!(story.later(500).wake(), Some(Change::Waking));
    assert_eq!(story.woke(true), None);
    assert_eq!(story.probed(true), Some(Change::Woke));
    // Out of reach for a while, long after it woke: looked for ever less often, it may sleep after all.
    story.later(3600).tick();
    assert_eq!(story.probed(false), Some(Change::WentAway));
    let mut minutes = Vec::new();
    for _ in 0..8 {
        let before = story.now;
        story.tick();
        minutes.push(story.now.since(before).as_secs() / 60);
        assert_eq!(story.probed(false), None);
    }
    assert_eq!(minutes, [1, 2, 4, 8, 16, 32, 60, 60]);
    story.tick();
    assert_eq!(story.probed(true), Some(Change::WokenByOthers));
}

#[test]
fn a_server_that_refused_to_sleep_and_is_out_of_reach_is_looked_for() {
    let mut story = Story::awake();
    story.server.timeouts.watch_asleep_every = Duration::ZERO;
    story.later(100).sleep();
    story.report(|epoch| Report::SleepDone(epoch, Slept::Failed));
    assert_eq!(story.probed(false), Some(Change::FellAsleep));
    story.tick();
    assert_eq!(story.probed(true), Some(Change::WokenByOthers));
}

#[test]
fn it_sleeps_and_wakes() {
    let mut story = Story::awake();
    assert_eq!(story.later(100).sleep(), Some(Change::FallingAsleep));
    assert_eq!(story.report(|epoch| Report::SleepDone(epoch, Slept::Done)), None);
    assert_eq!(story.probed(false), Some(Change::FellAsleep));
    assert_eq!(story.later(100).wake(), Some(Change::Waking));
    assert_eq!(story.woke(true), None);
    assert_eq!(story.probed(false), None, "not yet up");
    story.tick();
    assert_eq!(story.probed(true), Some(Change::Woke));
    assert_eq!(story.server.phase(), Phase::Awake);
}

#[test]
fn a_second_wish_gives_no_second_command() {
    let mut story = Story::asleep();
    assert_eq!(story.wake(), Some(Change::Waking));
    assert_eq!(story.wake(), None);
    assert_eq!(story.commands.len(), 1);
}

#[test]
fn who_comes_while_it_falls_asleep_wakes_it_as_soon_as_it_sleeps() {
    let mut story = Story::awake();
    story.later(100).sleep();
    assert_eq!(story.wake(), None);
    story.report(|epoch| Report::SleepDone(epoch, Slept::Done));
    assert_eq!(story.probed(false), Some(Change::Waking));
}

#[test]
fn a_server_that_never_wakes_fails_after_three_attempts_and_backs_off() {
    let mut story = Story::asleep();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        assert_eq!(story.wake(), Some(Change::Waking));
        let mut attempts = 1;
        loop {
            story.woke(true);
            // It does not answer, however often it is probed.
            while story.server.phase() == Phase::Waking && !story.commands.is_empty() {
                if matches!(story.commands.last(), Some(Command::Wake(_))) {
                    break;
                }
                story.probed(false);
                story.tick();
            }
            if story.server.phase() == Phase::Failed {
                break;
            }
            attempts += 1;
        }
        assert_eq!(attempts, 3);
        pauses.push(story.server.blocked_until().since(story.now).as_secs());
        assert_eq!(story.wake(), None, "not before the pause is over");
        story.now = story.server.blocked_until();
        story.commands.clear();
    }
    assert_eq!(pauses, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
}

#[test]
fn a_failing_wake_command_is_given_again_and_then_no_more() {
    let mut story = Story::asleep();
    story.wake();
    assert_eq!(story.woke(false), None);
    assert_eq!(story.tick(), None);
    assert_eq!(story.woke(false), None);
    assert_eq!(story.tick(), None);
    assert_eq!(story.woke(false), Some(Change::Failed));
    assert!(story.commands.is_empty());
}

#[test]
fn a_server_that_dies_right_after_waking_is_no_wake_loop() {
    let mut story = Story::asleep();
    story.wake();
    story.woke(true);
    assert_eq!(story.probed(true), Some(Change::Woke));
    story.later(1);
    story.hear(Report::Unreachable);
    assert_eq!(story.probed(false), Some(Change::Failed));
    assert_eq!(story.wake(), None);
}

#[test]
fn a_server_woken_or_stopped_by_others_is_noticed() {
    let mut story = Story::asleep();
    story.tick();
    assert_eq!(story.probed(true), Some(Change::WokenByOthers));
    story.later(1000).tick();
    assert_eq!(story.probed(false), Some(Change::WentAway));
    assert_eq!(story.server.phase(), Phase::Asleep);
}

#[test]
fn a_server_that_will_not_sleep_is_left_alone_for_longer_and_longer() {
    let mut story = Story::awake();
    for pause in [60, 120, 240] {
        assert_eq!(story.later(100).sleep(), Some(Change::FallingAsleep));
        story.report(|epoch| Report::SleepDone(epoch, Slept::Done));
        let stayed = loop {
            story.probed(true);
            if let Some(change) = story.tick() {
                break change;
            }
        };
        assert_eq!(stayed, Change::StayedAwake);
        assert_eq!(story.sleep(), None);
        assert_eq!(story.server.blocked_until().since(story.now).as_secs(), pause);
        story.now = story.server.blocked_until();
    }
}

#[test]
fn a_server_that_refuses_to_sleep_is_awake_again_at_once() {
    let mut story = Story::awake();
    story.later(100).sleep();
    story.report(|epoch| Report::SleepDone(epoch, Slept::Failed));
    assert_eq!(story.probed(true), Some(Change::StayedAwake));
    assert_eq!(story.server.blocked_until().since(story.now).as_secs(), 60);
}

#[test]
fn a_server_with_reasons_to_stay_awake_is_asked_again_and_not_ever_more_rarely() {
    let mut story = Story::awake();
    let mut pauses = Vec::new();
    for _ in 0..6 {
        assert_eq!(story.later(100).sleep(), Some(Change::FallingAsleep));
        let declined = story.report(|epoch| Report::SleepDone(epoch, Slept::Declined));
        assert_eq!(declined, Some(Change::Declined));
        assert!(story.commands.is_empty(), "it has just spoken to us: no probe");
        assert_eq!(story.server.phase(), Phase::Awake);
        pauses.push(story.server.blocked_until().since(story.now).as_secs());
        story.now = story.server.blocked_until();
    }
    assert_eq!(pauses, [60, 120, 240, 480, 480, 480]);
    // Once it has slept, all that is forgotten.
    story.sleep();
    story.report(|epoch| Report::SleepDone(epoch, Slept::Done));
    assert_eq!(story.probed(false), Some(Change::FellAsleep));
    assert_eq!(story.server.declined(), 0);
}

#[test]
fn a_server_that_says_good_bye_is_believed_and_not_probed() {
    let mut story = Story::awake();
    story.server.timeouts.watch_asleep_every = Duration::ZERO;
    story.later(100).sleep();
    // Whichever comes first, its answer to the order or its good-bye.
    let left = story.hear(Report::Leaving);
    assert_eq!(left, Some(Change::FellAsleep));
    assert_eq!(story.report(|epoch| Report::SleepDone(epoch, Slept::Done)), None);
    assert!(story.commands.is_empty());
    assert_eq!(story.server.next_timer(), Mono::NEVER);
    assert_eq!(story.server.phase(), Phase::Asleep);
}

#[test]
fn a_server_that_will_say_good_bye_is_not_asked_until_that_must_be_lost() {
    let mut story = Story::awake();
    story.later(100).sleep();
    assert_eq!(story.report(|epoch| Report::SleepDone(epoch, Slept::Going)), None);
    assert!(story.commands.is_empty());
    let timeout = story.server.next_timer().since(story.now);
    assert_eq!(timeout.as_secs(), 15);
    story.tick();
    assert_eq!(story.probed(false), Some(Change::FellAsleep));
}

#[test]
fn a_server_that_was_put_to_sleep_by_others_is_left_in_peace_too() {
    let mut story = Story::awake();
    story.server.timeouts.watch_asleep_every = Duration::ZERO;
    story.later(100);
    let left = story.hear(Report::Leaving);
    assert_eq!(left, Some(Change::SleptByOthers));
    assert_eq!(story.server.next_timer(), Mono::NEVER);
    assert_eq!(story.wake(), Some(Change::Waking));
}

#[test]
fn a_good_bye_that_crosses_the_wake_command_does_not_end_the_waking() {
    let mut story = Story::asleep();
    story.wake();
    assert_eq!(story.woke(true), None);
    assert_eq!(story.hear(Report::Leaving), None);
    assert_eq!(story.server.phase(), Phase::Waking);
    assert_eq!(story.probed(true), None, "it still goes");
    story.tick();
    assert_eq!(story.probed(false), None);
    assert_eq!(story.woke(true), None);
    assert_eq!(story.probed(true), Some(Change::Woke));
}

#[test]
fn a_server_that_said_good_bye_and_still_answers_has_not_woken() {
    let mut story = Story::awake();
    story.later(100).sleep();
    story.report(|epoch| Report::SleepDone(epoch, Slept::Going));
    story.hear(Report::Leaving);
    // A request comes while it is on its way down: it answers for two more seconds.
    assert_eq!(story.later(1).wake(), Some(Change::Waking));
    assert_eq!(story.woke(true), None);
    assert_eq!(story.probed(true), None);
    story.tick();
    assert_eq!(story.probed(false), None, "now it is gone");
    // What was done to wake it was in vain, and is done again.
    assert_eq!(story.woke(true), None);
    assert_eq!(story.probed(true), Some(Change::Woke));

    // Or it turns round, and says so.
    let mut story = Story::awake();
    story.later(100).sleep();
    story.hear(Report::Leaving);
    story.commands.clear();
    story.wake();
    assert_eq!(story.woke(true), None);
    assert_eq!(story.probed(true), None);
    story.hear(Report::Back);
    assert_eq!(story.probed(true), Some(Change::Woke));

    // Or its good-bye was followed by nothing at all.
    let mut story = Story::awake();
    story.later(100).sleep();
    story.hear(Report::Leaving);
    story.commands.clear();
    story.wake();
    assert_eq!(story.woke(true), None);
    let begun = story.now;
    let woke = loop {
        if let Some(change) = story.probed(true) {
            break change;
        }
        story.tick();
    };
    assert_eq!((woke, story.now.since(begun).as_secs()), (Change::Woke, 30));
}

#[test]
fn a_server_that_is_back_before_its_answer_to_the_order_is_looked_at_with_that() {
    let mut story = Story::awake();
    story.later(100).sleep();
    story.hear(Report::Back);
    assert_eq!(story.report(|epoch| Report::SleepDone(epoch, Slept::Going)), None);
    assert_eq!(story.probed(true), Some(Change::StayedAwake));
}

#[test]
fn a_server_that_leaves_while_the_proxy_starts_is_not_taken_for_awake() {
    let mut story = Story::begin();
    story.hear(Report::Leaving);
    story.tick();
    assert_eq!(story.probed(true), None, "it still answers");
    story.tick();
    assert_eq!(story.probed(false), Some(Change::FoundAsleep));
}

#[test]
fn a_server_that_turns_round_on_its_way_to_sleep_is_awake_at_once() {
    let mut story = Story::awake();
    story.later(100).sleep();
    story.report(|epoch| Report::SleepDone(epoch, Slept::Done));
    assert_eq!(story.probed(true), None, "not yet asleep");
    story.hear(Report::Back);
    assert_eq!(story.probed(true), Some(Change::StayedAwake));
}

#[test]
fn a_server_that_said_good_bye_and_stayed_has_not_slept() {
    // It says so while it counts as asleep …
    let mut story = Story::awake();
    story.later(100).sleep();
    assert_eq!(story.hear(Report::Leaving), Some(Change::FellAsleep));
    story.later(5);
    assert_eq!(story.hear(Report::Stayed), None);
    assert_eq!(story.probed(true), Some(Change::StayedAwake));
    assert!(story.server.blocked_until() > story.now, "it is not asked again at once");
    // … or while a request has it woken …
    let mut story = Story::awake();
    story.later(100).sleep();
    story.hear(Report::Leaving);
    story.commands.clear();
    story.wake();
    assert_eq!(story.hear(Report::Stayed), None);
    story.woke(true);
    assert_eq!(story.probed(true), Some(Change::StayedAwake));
    // … or before anything is known of its good-bye.
    let mut story = Story::awake();
    story.later(100).sleep();
    story.hear(Report::Stayed);
    story.report(|epoch| Report::SleepDone(epoch, Slept::Going));
    assert_eq!(story.probed(true), Some(Change::StayedAwake));
}

#[test]
fn a_sleep_that_was_one_stays_one_when_a_later_one_fails() {
    let mut story = Story::awake();
    story.server.timeouts.watch_asleep_every = Duration::ZERO;
    story.later(100).sleep();
    story.hear(Report::Leaving);
    // It slept, and was woken from elsewhere unnoticed. Then it is to sleep again, and does not.
    story.later(300);
    assert_eq!(story.hear(Report::Leaving), None);
    story.hear(Report::Stayed);
    assert_eq!(story.probed(true), Some(Change::WokenByOthers));
    // The same, with its good-bye lost.
    let mut story = Story::awake();
    story.later(100).sleep();
    story.hear(Report::Leaving);
    story.later(3600);
    story.hear(Report::Stayed);
    assert_eq!(story.probed(true), Some(Change::WokenByOthers));
}

#[test]
fn a_sleeper_that_says_it_is_back_is_looked_at_until_its_service_answers() {
    let mut story = Story::awake();
    story.server.timeouts.watch_asleep_every = Duration::ZERO;
    story.later(100).sleep();
    story.hear(Report::Leaving);
    story.later(100).hear(Report::Back);
    let began = story.now;
    for _ in 0..10 {
        assert_eq!(story.probed(false), None, "its service starts");
        story.tick();
    }
    assert_eq!(story.now.since(began), Duration::from_secs(5));
    assert_eq!(story.probed(true), Some(Change::WokenByOthers));
    // One that never answers is left in peace again.
    story.later(100).sleep();
    story.hear(Report::Leaving);
    story.later(100).hear(Report::Back);
    let began = story.now;
    while story.probed(false).is_none() && story.server.next_timer() != Mono::NEVER {
        story.tick();
    }
    assert_eq!(story.now.since(began), Duration::from_mins(2));
}

#[test]
fn a_sleeper_that_says_it_is_back_is_looked_at_and_what_it_sent_before_is_not_minded() {
    let mut story = Story::awake();
    story.server.timeouts.watch_asleep_every = Duration::ZERO;
    story.later(100).sleep();
    story.report(|epoch| Report::SleepDone(epoch, Slept::Done));
    story.probed(false);
    let stirred = |story: &mut Story| story.hear(Report::Stirred);
    stirred(story.later(4));
    assert!(story.commands.is_empty(), "its last words");
    stirred(story.later(1));
    assert_eq!(story.probed(false), None, "a card that answers for a machine that sleeps");
    story.hear(Report::Back);
    assert_eq!(story.probed(true), Some(Change::WokenByOthers));
}

#[test]
fn answers_to_old_questions_are_ignored() {
    let mut story = Story::asleep();
    story.tick();
    let Some(Command::Probe(old)) = story.commands.pop() else { panic!("no probe") };
    story.wake();
    let late = Report::Probed(old, true);
    assert_eq!(story.server.report(story.now, late, &mut Vec::new()), None);
    assert_eq!(story.server.phase(), Phase::Waking);
}

#[test]
fn what_does_not_answer_may_be_up_unless_it_was_told_to_sleep_or_said_so() {
    assert!(!Story::begin().server.may_be_up(), "nobody has looked");
    let mut story = Story::awake();
    assert!(!story.server.may_be_up());
    story.hear(Report::Unreachable);
    assert_eq!(story.probed(false), Some(Change::WentAway));
    assert!(story.server.may_be_up());
    let mut commands = Vec::new();
    assert_eq!(story.server.wake(story.now, &mut commands), Some(Change::Waking));
    assert!(story.server.may_be_up(), "that it is woken says nothing of it");
    assert!(!Story::asleep().server.may_be_up());
    let mut left = Story::awake();
    left.hear(Report::Leaving);
    assert_eq!(left.server.phase(), Phase::Asleep);
    assert!(!left.server.may_be_up(), "it said that it sleeps");
}
