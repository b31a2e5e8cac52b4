//! What is learned survives being stored, and nothing that cannot have been learned is taken up.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::admission::ClientClass;
use crate::scenario::Scenario;
use crate::visit::Visitor;
use nightwatt_energy::quantity::Joules;

/// Dear enough that what was learned decides: 10 J/s for each new visit expected per hour.
const DEAR: Joules = Joules(36_000.0);

fn terms() -> Terms {
    Terms { delay_price: DEAR, ..Scenario::default().terms() }
}

/// One moment on the clocks of two processes: the second began at `other`, in ms of the first.
#[derive(Debug, Clone, Copy)]
struct Moment {
    millis: u64,
    other: u64,
    utc_offset: i32,
}

impl Moment {
    fn now(self) -> Now {
        // Civil time began at some Tuesday.
        let wall = Wall(1_795_500_000_000 + self.millis.cast_signed());
        Now { mono: mono(self.millis), wall, utc_offset: self.utc_offset }
    }

    fn of_other(self) -> Now {
        Now { mono: mono(self.millis - self.other), ..self.now() }
    }
}

fn mono(millis: u64) -> Mono {
    Mono(Duration::from_millis(millis))
}

/// A request, or a question whether to sleep, this many milliseconds after what was before.
#[derive(Debug, Clone, Copy)]
enum Event {
    Request(u64, Observation),
    Ask(u64),
}

fn events(most: usize) -> impl Strategy<Value = Vec<Event>> {
    // Pauses within a visit, between visits, and over days.
    let pause = || prop_oneof![8 => 1_u64..90_000, 4 => 1_u64..4_000_000, 1 => 1_u64..400_000_000];
    let class = prop_oneof![Just(ClientClass::Human), Just(ClientClass::Api)];
    let seen = (0_u64..30, class, prop::bool::weighted(0.8), prop::bool::weighted(0.2)).prop_map(
        |(visitor, class, needs_server, delayed)| Observation {
            visitor: Visitor(visitor),
            class,
            needs_server,
            delayed,
        },
    );
    let event = prop_oneof![
        3 => (pause(), seen).prop_map(|(pause, seen)| Event::Request(pause, seen)),
        2 => pause().prop_map(Event::Ask),
    ];
    prop::collection::vec(event, 0..most)
}

/// The verdict, the time to ask again counted from now.
fn verdict(policy: &mut Learned, now: Now, idle: u64) -> Option<Duration> {
    let wake_time = policy.terms.states.wake_time;
    let since = now.mono - Duration::from_millis(idle);
    let idle = Idle { since, awake_since: since, sla: None, wake_time };
    // What ends the sum early does not change its outcome.
    let awake = (policy.terms.states.on - policy.terms.states.off).get();
    let [early, whole] = [awake, f64::INFINITY].map(|enough| policy.spared(now, None, enough).0);
    assert_eq!(early > awake, whole > awake, "{early} W, {whole} W in all");
    match policy.verdict(now, &idle) {
        Verdict::Sleep => None,
        Verdict::AskAgainAt(then) => Some(then.since(now.mono)),
        Verdict::Stay => panic!("this policy does not"),
    }
}

fn stored(policy: &Learned, now: Now) -> Lessons {
    let text = serde_json::to_string(&policy.lessons(now).expect("it has seen requests")).unwrap();
    assert!(text.len() < 16_000, "{} bytes", text.len());
    serde_json::from_str(&text).unwrap()
}

fn busy(hours: u64) -> (Learned, Moment) {
    let mut policy = Learned::new(terms());
    let mut moment = Moment { millis: 0, other: 0, utc_offset: 0 };
    for minute in 0..hours * 60 {
        moment.millis = minute * 60_000;
        let (class, needs_server) = (ClientClass::Human, true);
        let visitor = Visitor(minute);
        let seen = Observation { visitor, class, needs_server, delayed: false };
        policy.observe(moment.now(), &seen);
    }
    (policy, moment)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A policy that is stored, stopped and resumed decides as one that ran on without requests, whatever
    /// comes later, on a clock that started again at 0.
    #[test]
    fn a_stop_changes_no_decision(
        past in events(300),
        stop in 1_800_000_u64..2_500_000_000,
        rest in 0_u64..1_000_000,
        future in events(100),
        utc_offset in -43_200_i32..50_400,
    ) {
        let mut steady = Learned::new(terms());
        let mut moment = Moment { millis: 0, other: 0, utc_offset };
        for event in past {
            match event {
                Event::Request(pause, seen) => {
                    moment.millis += pause;
                    steady.observe(moment.now(), &seen);
                }
                Event::Ask(pause) => {
                    moment.millis += pause;
                    verdict(&mut steady, moment.now(), pause);
                }
            }
        }
        prop_assume!(steady.watching.is_some());
        moment.millis += rest;
        let lessons = stored(&steady, moment.now());
        moment.millis += stop;
        moment.other = moment.millis - 3;
        let mut resumed = Learned::resume(terms(), lessons, moment.of_other());
        // When visits that are over are counted as such depends on when the table is swept.
        steady.visits.take_leave(moment.now().mono);
        // Visitors are not stored, so those that came like clockwork have to be met again.
        steady.regulars = Regulars::default();
        for event in future {
            match event {
                Event::Request(pause, seen) => {
                    moment.millis += pause;
                    steady.observe(moment.now(), &seen);
                    resumed.observe(moment.of_other(), &seen);
                }
                Event::Ask(pause) => {
                    moment.millis += pause;
                    let expected = verdict(&mut steady, moment.now(), pause.min(3));
                    let decided = verdict(&mut resumed, moment.of_other(), pause.min(3));
                    prop_assert_eq!(decided, expected, "at {:?}", moment);
                }
            }
        }
        let again = resumed.lessons(moment.of_other()).unwrap();
        let expected = steady.lessons(moment.now()).unwrap();
        prop_assert_eq!(expected.watched, again.watched + Duration::from_millis(stop));
    }

    /// A policy that is stored at any moment and resumed at once differs only in the visits in progress.
    #[test]
    fn storing_twice_stores_the_same(hours in 1_u64..100, later in 0_u64..1_700_000) {
        let (policy, mut moment) = busy(hours);
        moment.millis += later;
        let lessons = policy.lessons(moment.now()).unwrap();
        let resumed = Learned::resume(terms(), lessons.clone(), moment.now());
        let without_visits = |lessons: &Lessons| {
            let mut text = serde_json::to_value(lessons).unwrap();
            text["pauses"]["open"].take();
            text
        };
        let again = resumed.lessons(moment.now()).unwrap();
        prop_assert_eq!(without_visits(&again), without_visits(&lessons));
    }
}

#[test]
fn what_was_learned_keeps_awake_whom_a_new_policy_lets_sleep_and_fades_over_a_long_stop() {
    let (policy, mut moment) = busy(48);
    let lessons = stored(&policy, moment.now());
    let stopped_at = moment.millis;
    let mut after = |days: u64, hours: u64| {
        moment.millis = stopped_at + (days * 24 + hours) * 3_600_000;
        moment.other = moment.millis;
        let mut resumed = Learned::resume(terms(), lessons.clone(), moment.of_other());
        verdict(&mut resumed, moment.of_other(), 0)
    };
    // 60 new visits an hour are worth 600 W, staying awake costs 41.7 W.
    assert!(after(0, 1).is_some(), "an hour later they are still expected");
    assert!(after(1, 0).is_some(), "and at the same time of the next day");
    assert_eq!(after(120, 0), None, "after four months nobody is");
    let fresh = verdict(&mut Learned::new(terms()), moment.of_other(), 0);
    assert_eq!(fresh, None, "as before anybody came: one an hour is worth 10 W");
}

#[test]
fn whoever_comes_like_clockwork_is_woken_for_as_long_ahead_as_waking_takes() {
    let wakes_at = |wake_time: u64| {
        let mut policy = Learned::new(terms());
        let mut moment = Moment { millis: 0, other: 0, utc_offset: 0 };
        for hour in 0..10 {
            moment.millis = hour * 3_600_000;
            let (class, needs_server) = (ClientClass::Api, true);
            let visitor = Visitor(1);
            let seen = Observation { visitor, class, needs_server, delayed: false };
            policy.observe(moment.now(), &seen);
        }
        moment.millis += 600_000;
        let since = moment.now().mono;
        let wake_time = Duration::from_secs(wake_time);
        let idle = Idle { since, awake_since: since, sla: None, wake_time };
        assert_eq!(policy.verdict(moment.now(), &idle), Verdict::Sleep);
        policy.wake_at().expect("they are expected at ten").0
    };
    assert_eq!(wakes_at(5), wakes_at(90) + Duration::from_secs(85));
    assert!(wakes_at(5) + Duration::from_secs(5) < Duration::from_hours(10));
}

#[test]
fn there_is_nothing_to_store_before_the_first_request() {
    let (policy, moment) = busy(0);
    assert_eq!(policy.lessons(moment.now()), None);
    let (policy, moment) = busy(1);
    assert_eq!(policy.lessons(moment.now()).unwrap().watched(), Duration::from_mins(59));
}

#[test]
fn a_clock_set_back_makes_no_time_pass() {
    let (policy, moment) = busy(10);
    let lessons = policy.lessons(moment.now()).unwrap();
    let earlier = Moment { millis: moment.millis - 3_600_000, ..moment };
    assert_eq!(lessons.age(earlier.now().wall), Duration::ZERO);
    let mut resumed = Learned::resume(terms(), lessons, earlier.now());
    assert!(verdict(&mut resumed, earlier.now(), 0).is_some());
}

#[test]
fn what_was_learned_before_the_clock_was_set_is_not_old() {
    let (policy, moment) = busy(10);
    let mut lessons = policy.lessons(moment.now()).unwrap();
    let set = Wall::from_secs(1_795_435_200);
    lessons.at = Wall::from_secs(300);
    assert_eq!(lessons.age(set), Duration::ZERO);
    lessons.at = Wall::from_secs(1_795_435_200 - 60);
    assert_eq!(lessons.age(set), Duration::from_mins(1));
}

#[test]
fn times_out_of_this_world_do_no_harm() {
    let (policy, moment) = busy(1);
    let text = serde_json::to_value(policy.lessons(moment.now()).unwrap()).unwrap();
    let endless = json!({ "secs": u64::MAX, "nanos": 999_999_999 });
    let changes: [(&str, Value); 5] = [
        ("/at", json!(i64::MIN)),
        ("/at", json!(i64::MAX)),
        ("/watched", endless.clone()),
        ("/arrivals/unpassed", endless.clone()),
        ("/pauses/unfaded", endless),
    ];
    for (place, value) in changes {
        let mut other = text.clone();
        *other.pointer_mut(place).unwrap() = value;
        let lessons: Lessons = serde_json::from_value(other).unwrap();
        let mut resumed = Learned::resume(terms(), lessons, moment.now());
        let (class, needs_server) = (ClientClass::Human, true);
        let visitor = Visitor(1);
        let seen = Observation { visitor, class, needs_server, delayed: false };
        resumed.observe(moment.now(), &seen);
        verdict(&mut resumed, moment.now(), 0);
        assert!(resumed.lessons(moment.now()).is_some());
    }
}

#[test]
fn figures_that_cannot_have_been_learned_are_refused() {
    let (policy, moment) = busy(30);
    let text = serde_json::to_value(policy.lessons(moment.now()).unwrap()).unwrap();
    let changes: [(&str, Value); 16] = [
        ("/arrivals/means/0/count", json!(-1.0)),
        ("/arrivals/means/0/count", json!(1e300)),
        ("/arrivals/means/0/time", json!(4_000.0)),
        ("/arrivals/means/0/time", json!(-1e-9)),
        ("/arrivals/hours/23/time", json!(1e9)),
        ("/arrivals/long/count", json!(null)),
        ("/arrivals/weights/5", json!(0.1)),
        ("/arrivals/weights/5", json!(-6.1)),
        ("/arrivals/weights", json!([0.0, 0.0])),
        ("/arrivals/hours", json!([])),
        ("/pauses/bands/3/22/returns", json!(0.0)),
        ("/pauses/bands/3/22/time", json!(1e-300)),
        ("/pauses/bands/3/22/time", json!(1e300)),
        ("/pauses/bands/0", json!([])),
        ("/pauses/open/0", json!(5_000)),
        ("/watched", json!(-1)),
    ];
    assert!(serde_json::from_value::<Lessons>(text.clone()).is_ok());
    for (place, value) in changes {
        let mut other = text.clone();
        *other.pointer_mut(place).expect(place) = value.clone();
        assert!(serde_json::from_value::<Lessons>(other).is_err(), "{place} = {value}");
    }
}
