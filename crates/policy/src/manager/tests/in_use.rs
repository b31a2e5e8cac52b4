//! Use of the server that goes past the proxy.

use super::*;
use crate::in_use::{Found, ProbeTimes, Standing, Use};

const DAY: u64 = 86_400;

fn settings() -> Settings {
    let [every, timeout, unknown_for] = [60, 5, 600].map(Duration::from_secs);
    let in_use = vec![ProbeTimes { every, timeout, unknown_for }];
    Settings { sla: None, in_use, ..Settings::of(&Scenario::default()) }
}

impl Story {
    /// Lets time pass, and asks the probe when it is due. Returns when it was asked.
    fn watch(&mut self, second: u64, found: impl Fn(u64) -> Found) -> Vec<u64> {
        let mut asked = Vec::new();
        loop {
            let due = self.manager.probes_due_at(self.now);
            let next = self.manager.next_timer().min(due).max(self.now.mono);
            if next > Mono::from_secs(second) {
                self.go_to(Mono::from_secs(second));
                return asked;
            }
            self.until(next.0.as_secs());
            for probe in self.manager.probes_due(self.now) {
                asked.push(next.0.as_secs());
                let mut actions = Vec::new();
                self.manager.found_in_use(self.now, probe, found(next.0.as_secs()));
                self.manager.tick(self.now, &mut actions);
                self.obey(&mut actions);
            }
        }
    }

    fn fell_asleep(&self) -> Vec<u64> {
        let falls = self.changes.iter().filter(|(_, it)| *it == Change::FellAsleep);
        falls.map(|(second, _)| *second).collect()
    }
}

#[test]
fn it_sleeps_as_without_a_probe_if_the_probe_finds_nothing() {
    let mut story = Story::begin(settings());
    let asked = story.watch(1000, |_| Found::Idle);
    // After 10 s without a client. At 60 s (minimum on) that answer is not a minute old.
    assert_eq!((asked, story.fell_asleep()), (vec![10], vec![60]));
    // It is asleep: nothing is asked until a client has woken it.
    assert_eq!(story.watch(DAY, |_| panic!("it would wake")), [0_u64; 0]);
    assert_eq!(story.ask(DAY), Route::Hold);
    assert_eq!(story.watch(DAY + 1000, |_| Found::Idle), [DAY + 10]);
    assert_eq!(story.fell_asleep(), [60, DAY + 60]);
}

#[test]
fn a_film_keeps_it_awake_to_its_end_and_the_idle_time_begins_there() {
    let mut story = Story::begin(settings());
    let film = |second| if second < 7200 { Found::InUse } else { Found::Idle };
    story.watch(7000, film);
    assert_eq!(story.manager.phase(), Phase::Awake);
    let Some(SleepBlocker::InUse(Use { probe: 0, standing: Standing::InUse, .. })) =
        story.manager.sleep_blocker(story.now)
    else {
        panic!("{:?}", story.manager.sleep_blocker(story.now));
    };
    let asked = story.watch(DAY, film);
    // It was asked every minute from 10 s on; 7150 s is the last answer with use, and 7210 s the first without.
    assert_eq!(asked.last(), Some(&7210));
    assert_eq!(story.fell_asleep(), [7210]);
}

#[test]
fn clients_of_the_proxy_make_questions_superfluous() {
    let mut story = Story::begin(settings());
    story.manager.begin(story.now, 1);
    assert_eq!(story.watch(3600, |_| panic!("it is in use anyway")), [0_u64; 0]);
    story.manager.end(story.now, 1);
    assert_eq!(story.watch(3700, |_| Found::Idle), [3610]);
    assert_eq!(story.fell_asleep(), [3610], "the answer from before says nothing of now");
}

#[test]
fn a_connection_that_is_left_open_hides_no_film_when_its_awake_time_is_used_up() {
    let awake_budget = Some(Duration::from_hours(8));
    let mut story = Story::begin(Settings { awake_budget, ..settings() });
    story.manager.begin(story.now, 1);
    let film = |second| if second < 50_000 { Found::InUse } else { Found::Idle };
    let asked = story.watch(DAY, film);
    // 8 h are used up after 12 h, since a third wears off meanwhile. Ten seconds later it is asked, then every minute.
    assert_eq!((asked.first(), asked.last()), (Some(&43_210), Some(&50_050)));
    // With an exchange under way, whether it may sleep is looked at a second later.
    assert_eq!(story.fell_asleep(), [50_051]);
    // Without an answer it counts as in use from then on, and not from the last exchange.
    let mut story = Story::begin(Settings { awake_budget, ..settings() });
    story.manager.begin(story.now, 1);
    story.watch(DAY, |_| Found::Unknown);
    assert_eq!(story.fell_asleep(), [43_800]);
}

#[test]
fn what_old_probes_found_says_nothing_of_new_ones() {
    let mut story = Story::begin(settings());
    story.watch(50, |_| Found::Idle);
    story.manager.probes_changed(story.now);
    assert_eq!(story.manager.standings(story.now), [Standing::NotAsked]);
    assert_eq!(story.watch(300, |_| Found::InUse), [60, 120, 180, 240, 300]);
    assert_eq!(story.fell_asleep(), [0_u64; 0]);
}

#[test]
fn a_probe_that_fails_delays_a_sleep_by_ten_minutes_and_no_more() {
    let mut story = Story::begin(settings());
    let asked = story.watch(DAY, |_| Found::Unknown);
    assert_eq!((asked.len(), story.fell_asleep()), (10, vec![600]));
}

#[test]
fn an_order_to_sleep_does_not_wait_for_what_a_probe_says() {
    let mut story = Story::begin(settings());
    story.watch(3600, |_| Found::InUse);
    let mut actions = Vec::new();
    story.manager.order(story.now, Order::Sleep, &mut actions);
    story.obey(&mut actions);
    assert_eq!(story.fell_asleep(), [3600]);
    // What comes late says nothing of the server as it is now.
    story.manager.found_in_use(story.now, 0, Found::InUse);
    assert_eq!(
        (story.manager.phase(), story.manager.standings(story.now)),
        (Phase::Asleep, vec![])
    );
}

#[test]
fn one_that_was_woken_by_others_and_is_used_directly_is_in_no_wake_loop() {
    let mut story = Story::begin(settings());
    for round in 1..=6 {
        story.watch(round * 600, |_| Found::Idle);
        assert_eq!(story.manager.phase(), Phase::Asleep);
        story.up = true;
        let mut actions = Vec::new();
        story.manager.report(story.now, Report::Stirred, &mut actions);
        story.obey(&mut actions);
        let used = round * 600 + 30;
        story.watch(used + 300, |second| if second < used { Found::InUse } else { Found::Idle });
    }
    assert_eq!(story.manager.wake_loops(), 0);
}
