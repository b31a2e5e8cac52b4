//! Stories of one server, told against a clock of our own.

mod awake_hours;
mod budgets;
mod holds;
mod hours_report;
mod in_use;
mod kept_awake;
mod refresh;
mod sla;

use super::*;
use crate::admission::Want;
use crate::lifecycle::Slept;
use crate::scenario::Scenario;
use crate::sleep::Timeout;
use nightwatt_energy::time::Wall;
use nightwatt_energy::zone::Zone;

/// A server that obeys at once, and the manager that tells it what to do.
struct Story {
    manager: PowerManager<Timeout>,
    now: Now,
    /// The civil time at the start.
    start: Wall,
    zone: Zone,
    up: bool,
    /// It does not wake, whatever it is told.
    is_broken: bool,
    changes: Vec<(u64, Change)>,
    causes: Vec<Cause>,
    next_id: u64,
}

impl Story {
    fn begin(settings: Settings) -> Self {
        Self::begin_at(settings, Wall(0), &Memory::default())
    }

    fn begin_at(settings: Settings, start: Wall, memory: &Memory) -> Self {
        let policy = Timeout { idle: Duration::from_secs(5) };
        let zone = settings.zone.clone();
        let now = Now { mono: Mono::ZERO, wall: start, utc_offset: zone.offset_at(start, 0) };
        let manager = PowerManager::new(settings, policy, *memory, now);
        let mut story = Self {
            manager,
            now,
            start,
            zone,
            up: true,
            is_broken: false,
            changes: Vec::new(),
            causes: Vec::new(),
            next_id: 0,
        };
        story.until(0);
        story
    }

    fn without_sla() -> Self {
        Self::begin(Settings { sla: None, ..Settings::of(&Scenario::default()) })
    }

    /// Lets time pass; the server obeys in no time.
    fn until(&mut self, second: u64) {
        let end = Mono::from_secs(second);
        let mut actions = Vec::new();
        loop {
            let due = self.manager.next_timer();
            if due > end {
                break;
            }
            self.go_to(due.max(self.now.mono));
            self.manager.tick(self.now, &mut actions);
            self.obey(&mut actions);
        }
        self.go_to(end);
    }

    fn go_to(&mut self, mono: Mono) {
        let wall = self.start + mono.0;
        self.now = Now { mono, wall, utc_offset: self.zone.offset_at(wall, 0) };
    }

    fn obey(&mut self, actions: &mut Vec<Action>) {
        while !actions.is_empty() {
            for action in std::mem::take(actions) {
                let report = match action {
                    Action::Changed(change, cause) => {
                        self.changes.push((self.now.mono.0.as_secs(), change));
                        self.causes.extend(cause);
                        continue;
                    }
                    Action::Do(Command::Wake(epoch)) => {
                        self.up = !self.is_broken;
                        Report::WakeDone(epoch, self.up)
                    }
                    Action::Do(Command::Sleep(epoch)) => {
                        self.up = false;
                        Report::SleepDone(epoch, Slept::Done)
                    }
                    Action::Do(Command::Probe(epoch)) => Report::Probed(epoch, self.up),
                };
                self.manager.report(self.now, report, actions);
            }
        }
    }

    fn admit(&mut self, second: u64, class: ClientClass, cached: Cached) -> Route {
        self.until(second);
        self.next_id += 1;
        let request = Request { class, want: Want::Other, cached };
        let asked = AdmissionRequest {
            id: self.next_id,
            visitor: Visitor(1),
            client: 1,
            network: 1,
            request,
            recognised: true,
            may_wake: true,
        };
        let mut actions = Vec::new();
        let route = self.manager.admit(self.now, &asked, &mut actions);
        self.obey(&mut actions);
        if route == Route::Hold {
            self.manager.begin(self.now, 1);
        }
        if matches!(route, Route::Forward | Route::Hold) {
            if class.is_admitted() {
                self.manager.end(self.now, 1);
            } else {
                self.manager.end_as_guest(self.now);
            }
        }
        route
    }

    fn ask(&mut self, second: u64) -> Route {
        self.admit(second, ClientClass::Human, Cached::Nothing)
    }
}

#[test]
fn it_sleeps_after_the_minimum_on_time_and_wakes_for_whoever_needs_it() {
    let mut story = Story::without_sla();
    assert_eq!(story.ask(58), Route::Forward);
    story.until(1000);
    // Awake since 0 with 60 s minimum; the last request was at 58 with 5 s of quiet.
    assert_eq!(story.changes[1..], [(63, Change::FallingAsleep), (63, Change::FellAsleep)]);
    assert_eq!(story.ask(1000), Route::Hold);
    assert_eq!(story.changes[3..], [(1000, Change::Waking), (1000, Change::Woke)]);
    assert_eq!(story.causes, [Cause::Request(2)]);
    story.until(1059);
    assert_eq!(story.manager.phase(), Phase::Awake);
    story.until(1060);
    assert_eq!(story.manager.phase(), Phase::Asleep);
}

#[test]
fn crawlers_scanners_and_monitors_do_not_wake_it() {
    let mut story = Story::without_sla();
    story.until(100);
    assert!(matches!(story.admit(101, ClientClass::Crawler, Cached::Nothing), Route::Later(_)));
    assert_eq!(story.admit(102, ClientClass::Scanner, Cached::Nothing), Route::Refuse);
    assert_eq!(story.admit(103, ClientClass::Monitor, Cached::Nothing), Route::State);
    assert_eq!(story.admit(104, ClientClass::Human, Cached::Stale), Route::Stale);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    assert_eq!(story.causes, []);
}

#[test]
fn a_crawler_that_comes_back_when_told_is_served() {
    let mut story = Story::without_sla();
    let Route::Later(wait) = story.admit(4 * 3600, ClientClass::Crawler, Cached::Nothing) else {
        panic!("the server should sleep")
    };
    assert!(wait <= Duration::from_hours(24));
    let back = 4 * 3600 + wait.as_secs();
    assert_eq!(story.admit(back, ClientClass::Crawler, Cached::Nothing), Route::Forward);
    assert_eq!(story.causes, [Cause::CrawlWindow]);
    // 03:00 the next day to 03:10, and no longer.
    story.until(86_400 + 3 * 3600 + 599);
    assert_eq!(story.manager.phase(), Phase::Awake);
    story.until(86_400 + 3 * 3600 + 601);
    assert_eq!(story.manager.phase(), Phase::Asleep);
}

#[test]
fn in_hours_in_which_it_is_not_to_sleep_it_stays_awake_and_is_not_woken_for_them() {
    // The story begins at midnight of a Thursday, UTC.
    let settings = Settings {
        sla: None,
        never_sleep: vec!["thu 02:00-04:00".parse().unwrap(), "thu 04:00-04:30".parse().unwrap()],
        ..Settings::of(&Scenario::default())
    };
    let mut story = Story::begin(settings);
    story.until(2 * 3600 + 600);
    assert_eq!(story.manager.phase(), Phase::Asleep, "nobody wakes it");
    story.ask(3 * 3600);
    story.until(3 * 3600 + 1800);
    let ends = Mono::from_secs(4 * 3600);
    assert_eq!(story.manager.sleep_blocker(story.now), Some(SleepBlocker::Hours(ends)));
    story.until(4 * 3600 + 1799);
    assert_eq!(story.manager.phase(), Phase::Awake);
    story.until(4 * 3600 + 1800);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    // The operator has the last word.
    story.ask(7 * 86_400 + 2 * 3600);
    story.until(7 * 86_400 + 2 * 3600 + 1000);
    assert_eq!(story.manager.phase(), Phase::Awake);
    let mut actions = Vec::new();
    story.manager.order(story.now, Order::Sleep, &mut actions);
    assert_eq!(story.manager.phase(), Phase::FallingAsleep);
}

#[test]
fn while_something_is_in_flight_it_never_sleeps() {
    let mut story = Story::without_sla();
    story.manager.begin(story.now, 1);
    story.until(100_000);
    assert_eq!(story.manager.phase(), Phase::Awake);
    story.manager.end(story.now, 1);
    story.until(100_004);
    assert_eq!(story.manager.phase(), Phase::Awake);
    story.until(100_005);
    assert_eq!(story.manager.phase(), Phase::Asleep);
}

#[test]
fn the_operator_has_the_last_word() {
    let mut story = Story::without_sla();
    let mut actions = Vec::new();
    story.until(10);
    story.manager.order(story.now, Order::Sleep, &mut actions);
    story.obey(&mut actions);
    assert_eq!(story.manager.phase(), Phase::Asleep, "before the minimum on time");
    story.manager.order(story.now, Order::StayAwake(Duration::from_hours(2)), &mut actions);
    story.obey(&mut actions);
    assert_eq!(story.causes, [Cause::Operator]);
    story.until(7209);
    assert_eq!(story.manager.phase(), Phase::Awake);
    story.until(7210);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    story.manager.order(story.now, Order::WakeForJob, &mut actions);
    story.obey(&mut actions);
    assert_eq!(story.causes, [Cause::Operator, Cause::Job]);
}

#[test]
fn an_order_to_sleep_does_not_outlive_the_sleep_that_it_finds() {
    let mut story = Story::without_sla();
    story.until(200);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    let mut actions = Vec::new();
    story.manager.order(story.now, Order::Sleep, &mut actions);
    story.obey(&mut actions);
    assert_eq!(story.ask(1000), Route::Hold);
    story.until(1059);
    assert_eq!(story.manager.phase(), Phase::Awake, "for its minimum on time");
}

#[test]
fn one_client_cannot_wear_the_server_out() {
    let settings = Settings {
        sla: None,
        wake_budget: (3, Duration::from_hours(24)),
        ..Settings::of(&Scenario::default())
    };
    let mut story = Story::begin(settings);
    let routes: Vec<Route> = (1..=5).map(|n| story.ask(n * 1000)).collect();
    assert_eq!(routes[..3], [Route::Hold; 3]);
    assert!(matches!(routes[3], Route::OverBudget { .. }));
    assert_eq!(story.causes.len(), 3);
}

#[test]
fn the_bill_of_a_day_follows_from_its_changes() {
    let mut story = Story::without_sla();
    for hour in 1..24 {
        story.ask(hour * 3600);
    }
    story.until(86_400);
    // Awake 60 s at first and after each of 23 wake-ups.
    let bill = story.manager.bill(story.now);
    assert_eq!(bill.on.as_secs(), 24 * 60);
    assert_eq!(bill.span().as_secs(), 86_400);
    assert_eq!((bill.cycles, bill.wakeups), (24, 23));
}

#[test]
fn the_settled_bill_never_falls_even_when_a_sleep_comes_to_nothing() {
    let mut story = Story::without_sla();
    let timeouts = story.manager.settings.timeouts;
    story.until(59);
    let mut seen = story.manager.settled_bill(story.now);
    let mut rises = |manager: &PowerManager<Timeout>, now| {
        let bill = manager.settled_bill(now);
        let fell = bill.on < seen.on || bill.off < seen.off || bill.cycles < seen.cycles;
        assert!(!fell, "{seen:?}, then {bill:?}");
        seen = bill;
        bill
    };
    // The server ignores the sleep command that is given at 60.
    let mut actions = Vec::new();
    story.go_to(Mono::from_secs(60));
    story.manager.tick(story.now, &mut actions);
    assert_eq!(story.manager.phase(), Phase::FallingAsleep);
    story.go_to(Mono::from_secs(60) + timeouts.sleep_timeout);
    assert_eq!(story.manager.bill(story.now).cycles, 1, "the bill itself does fall");
    let bill = rises(&story.manager, story.now);
    assert_eq!((bill.on, bill.off, bill.cycles), (Duration::from_mins(1), Duration::ZERO, 0));
    story.manager.tick(story.now, &mut actions);
    assert_eq!(story.manager.phase(), Phase::Awake);
    let bill = rises(&story.manager, story.now);
    assert_eq!((bill.on, bill.cycles), (Duration::from_mins(2), 0));
    // The next time it obeys.
    story.until(1000);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    let bill = rises(&story.manager, story.now);
    assert_eq!((bill.on + bill.off, bill.cycles), (Duration::from_secs(1000), 1));
    assert_eq!(bill, story.manager.bill(story.now));
}

/// Puts a server on the verge of sleep at second 60.
fn idle() -> Story {
    let mut story = Story::without_sla();
    story.ask(50);
    story
}

#[test]
fn what_nobody_asked_for_does_not_restart_the_quiet_time() {
    let mut story = idle();
    story.until(58);
    assert!(story.manager.begin_background());
    assert_eq!((story.manager.in_flight(), story.manager.is_free()), (1, true));
    story.until(59);
    story.manager.end_background(story.now);
    story.until(60);
    assert_eq!(story.changes[1..], [(60, Change::FallingAsleep), (60, Change::FellAsleep)]);
}

#[test]
fn the_server_does_not_sleep_in_the_middle_of_it_and_no_more_of_it_begins() {
    let mut story = idle();
    story.until(58);
    assert!(story.manager.begin_background() && story.manager.begin_background());
    story.until(100);
    assert_eq!(story.manager.phase(), Phase::Awake);
    assert_eq!(story.manager.kept_awake_by(story.now), Some(SleepBlocker::InFlight(2)));
    assert!(!story.manager.is_free() && !story.manager.begin_background());
    story.manager.end_background(story.now);
    story.until(110);
    assert!(!story.manager.begin_background());
    story.manager.end_background(story.now);
    story.until(111);
    assert_eq!(story.changes[1..], [(110, Change::FallingAsleep), (110, Change::FellAsleep)]);
}

#[test]
fn a_request_that_comes_before_the_sleep_makes_room_for_it_again() {
    let mut story = idle();
    story.until(58);
    assert!(story.manager.begin_background());
    story.until(60);
    assert!(!story.manager.begin_background());
    assert_eq!(story.ask(61), Route::Forward);
    assert!(story.manager.is_free() && story.manager.begin_background());
    for _ in 0..2 {
        story.manager.end_background(story.now);
    }
    story.until(1000);
    assert_eq!(story.changes[1], (66, Change::FallingAsleep), "five seconds after the request");
}

#[test]
fn an_order_to_sleep_waits_for_what_nobody_asked_for() {
    let mut story = idle();
    assert!(story.manager.begin_background());
    let mut actions = Vec::new();
    story.manager.order(story.now, Order::Sleep, &mut actions);
    assert!(actions.is_empty() && !story.manager.begin_background());
    story.until(55);
    story.manager.end_background(story.now);
    story.until(56);
    assert_eq!(story.changes[1], (55, Change::FallingAsleep));
}

proptest::proptest! {
    /// Whatever is asked and whenever: background exchanges wake nothing, and change nothing unless one is
    /// under way just when the server is to sleep.
    #[test]
    fn what_nobody_asked_for_changes_nothing(
        gaps in proptest::collection::vec((0_u64..90, 0_usize..5, proptest::bool::ANY), 1..60),
    ) {
        let play = |background: bool| {
            let mut story = Story::without_sla();
            let mut second = 0;
            for (gap, class, cached) in &gaps {
                second += gap;
                let cached = if *cached { Cached::Stale } else { Cached::Nothing };
                story.admit(second, ClientClass::ALL[*class], cached);
                if background {
                    let awake = story.manager.phase() == Phase::Awake;
                    assert_eq!(story.manager.begin_background(), awake);
                    if awake {
                        story.manager.end_background(story.now);
                    }
                }
            }
            story.until(second + 1000);
            (story.changes, story.causes)
        };
        proptest::prop_assert_eq!(play(true), play(false));
    }
}

#[test]
fn whoever_may_not_wake_the_server_does_not_keep_it_awake_either() {
    let mut story = Story::without_sla();
    story.ask(50);
    // A crawler asks every three seconds: each gets its answer, until the server sleeps at 60.
    for second in (51..60).step_by(3) {
        let crawler =
            Request { class: ClientClass::Crawler, want: Want::Other, cached: Cached::Nothing };
        let asked = AdmissionRequest {
            id: 0,
            visitor: Visitor(2),
            client: 2,
            network: 2,
            request: crawler,
            recognised: true,
            may_wake: true,
        };
        story.until(second);
        assert_eq!(story.manager.admit(story.now, &asked, &mut Vec::new()), Route::Forward);
        story.manager.end_as_guest(story.now);
    }
    story.until(60);
    assert_eq!(story.manager.phase(), Phase::Asleep);
}

#[test]
fn the_server_waits_half_a_minute_for_a_guests_answer_and_no_longer() {
    // It would sleep at 60.
    for (ends, sleeps) in [(70, 70), (1000, 90)] {
        let mut story = idle();
        story.manager.begin_as_guest();
        story.until(ends.min(89));
        assert_eq!(story.manager.phase(), Phase::Awake);
        story.until(ends);
        story.manager.end_as_guest(story.now);
        story.until(ends + 1);
        let slept = [(sleeps, Change::FallingAsleep), (sleeps, Change::FellAsleep)];
        assert_eq!(story.changes[1..], slept);
    }
}

#[test]
fn one_client_alone_keeps_it_awake_for_its_budget_and_no_longer_whatever_by() {
    for exchange in [false, true] {
        let settings = Settings::of(&Scenario::default());
        let awake_budget = Some(Duration::from_hours(1));
        let mut story = Story::begin(Settings { sla: None, awake_budget, ..settings });
        story.ask(0);
        if exchange {
            // One that never ends.
            story.manager.begin(story.now, 1);
        }
        for second in 1..7200 {
            story.until(second);
            if !exchange && story.manager.phase() == Phase::Awake {
                story.ask(second);
            }
        }
        // An hour, of which a 24th wears off meanwhile: 3,757 s.
        let slept = story.changes.iter().find(|it| it.1 == Change::FallingAsleep).unwrap().0;
        assert!((3750..3800).contains(&slept), "{slept}: {:?}", story.changes);
    }
}

#[test]
fn a_page_that_is_opened_again_is_no_further_request() {
    let mut story = Story::begin(Settings::of(&Scenario::default()));
    for n in 0..9 {
        story.ask(n);
    }
    story.until(100);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    let page = Request { class: ClientClass::Human, want: Want::Page, cached: Cached::Nothing };
    let asked = AdmissionRequest {
        id: 7,
        visitor: Visitor(7),
        client: 7,
        network: 7,
        request: page,
        recognised: true,
        may_wake: true,
    };
    let mut actions = Vec::new();
    assert_eq!(story.manager.admit(story.now, &asked, &mut actions), Route::WaitingPage);
    story.obey(&mut actions);
    assert_eq!(story.manager.sla_use(story.now).requests, Some((10, 1)));
    // Opened again, and once more later: the first is the page that waited, the second is new.
    for (second, seen) in [(101, 10), (102, 11)] {
        story.until(second);
        assert_eq!(story.manager.admit(story.now, &asked, &mut actions), Route::Forward);
        story.manager.end(story.now, 7);
        assert_eq!(story.manager.sla_use(story.now).requests, Some((seen, 1)));
    }
}

#[test]
fn whoever_wakes_it_by_hand_may_use_it_for_a_while() {
    let mut story = Story::without_sla();
    story.until(100);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    story.up = true;
    // Noticed by the look that comes once a minute, 60 s after it fell asleep at 60 s.
    story.until(120);
    assert_eq!(story.changes.last(), Some(&(120, Change::WokenByOthers)));
    story.until(419);
    assert_eq!(story.manager.phase(), Phase::Awake);
    story.until(420);
    assert_eq!(story.manager.phase(), Phase::Asleep, "after five minutes of grace");
}

#[test]
fn a_server_that_is_woken_for_nothing_again_and_again_is_left_awake_for_an_hour() {
    let grace = Duration::ZERO;
    let mut story =
        Story::begin(Settings { sla: None, grace, ..Settings::of(&Scenario::default()) });
    for _ in 0..3 {
        assert_eq!(story.manager.wake_loops(), 0);
        let asleep = story.now.mono.0.as_secs() + 70;
        story.until(asleep);
        assert_eq!(story.manager.phase(), Phase::Asleep);
        story.up = true;
        story.until(asleep + 60);
        assert_eq!(story.manager.phase(), Phase::Awake);
    }
    assert_eq!(story.manager.wake_loops(), 1);
    let woke = story.changes.last().unwrap().0;
    assert!(
        matches!(story.manager.sleep_blocker(story.now), Some(SleepBlocker::WakeLoop(until)) if until == Mono::from_secs(woke + 3600))
    );
    story.until(woke + 3599);
    assert_eq!(story.manager.phase(), Phase::Awake);
    story.until(woke + 3600);
    assert_eq!(story.manager.phase(), Phase::Asleep);
}

#[test]
fn wake_ups_that_served_somebody_are_no_loop() {
    let mut story = Story::without_sla();
    for round in 1..=10 {
        assert_eq!(story.ask(round * 80), Route::Hold);
        story.until(round * 80 + 70);
        assert_eq!(story.manager.phase(), Phase::Asleep);
    }
    assert_eq!(story.manager.wake_loops(), 0);
}

#[test]
fn what_the_server_took_to_wake_is_what_is_expected_of_it_and_outlives_a_restart() {
    let settings = Settings { sla: None, ..Settings::of(&Scenario::default()) };
    let mut story = Story::begin(settings.clone());
    let configured = Scenario::default().server.wake_time;
    assert_eq!(story.manager.expected_wake_time(), configured);
    let mut actions = Vec::new();
    for took in [8, 12] {
        let asleep = story.now.mono.0.as_secs() + 70;
        story.until(asleep);
        story.manager.order(story.now, Order::Wake, &mut actions);
        story.until(asleep + took);
        story.obey(&mut actions);
    }
    // The first as it was, of each further one a quarter: 8 + (12 - 8) / 4.
    assert_eq!(story.manager.expected_wake_time(), Duration::from_secs(9));
    let memory = story.manager.memory(story.now);
    let policy = Timeout { idle: Duration::from_secs(5) };
    let again = PowerManager::new(settings, policy, memory, story.now);
    assert_eq!(again.expected_wake_time(), Duration::from_secs(9));
}

#[test]
fn an_order_to_sleep_while_it_wakes_is_carried_out_when_it_is_up() {
    let mut story = Story::without_sla();
    story.until(70);
    let mut actions = Vec::new();
    story.manager.order(story.now, Order::Wake, &mut actions);
    assert_eq!(story.manager.phase(), Phase::Waking);
    story.manager.order(story.now, Order::Sleep, &mut actions);
    story.until(75);
    story.obey(&mut actions);
    story.until(75);
    assert_eq!(story.changes.last(), Some(&(75, Change::FellAsleep)), "not after 60 s");
}
