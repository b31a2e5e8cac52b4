//! What the power manager does with one server.

use nightwatt_energy::quantity::Joules;
use nightwatt_policy::admission::{Cached, ClientClass, Want};
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::{
    AlwaysOn, BusyTimes, Constraints, Oracle, PolicyChoice, Terms, Timeout, Waking, plan,
};
use proptest::prelude::*;

use super::*;

fn world(min_on: u64) -> World {
    let scenario = Scenario::default();
    let settings =
        Settings { sla: None, min_on: Duration::from_secs(min_on), ..Settings::of(&scenario) };
    World { states: scenario.power_states(), settings, start: Wall::default(), utc_offset: 0 }
}

fn person(at: Mono) -> Demand {
    let request = Request { class: ClientClass::Human, want: Want::Other, cached: Cached::Nothing };
    let number = at.0.as_secs() / 7;
    let visit = Visit { number: number + 1, seat: 0 };
    Demand {
        number: 0,
        at,
        visitor: Visitor(number),
        visit,
        client: number,
        request,
        recognised: true,
    }
}

fn times(gaps: &[u64]) -> Vec<Mono> {
    let mut at = 0;
    let sum = |gap: &u64| {
        at += gap;
        Mono::from_secs(at)
    };
    gaps.iter().map(sum).collect()
}

fn busy(demands: &[Mono]) -> BusyTimes {
    let mut busy = BusyTimes::new(Duration::ZERO);
    for &at in demands {
        busy.push(at);
    }
    busy
}

#[test]
fn always_on_is_billed_as_always_on() {
    let world = world(60);
    let end = Mono::from_secs(86_400);
    let outcome = world.run(AlwaysOn, times(&[100; 50]).into_iter().map(person), end);
    assert_eq!(outcome.bill.server(&world.states), outcome.bill.always_on(&world.states));
    assert_eq!((outcome.admitted, outcome.delayed_requests), (50, 0));
}

#[test]
fn whoever_comes_every_hour_soon_waits_no_more_where_that_pays() {
    let world = world(60);
    let hourly = || {
        (1..=100).map(|hour| {
            let visit = Visit { number: hour, seat: 0 };
            Demand { visit, visitor: Visitor(1), ..person(Mono::from_secs(hour * 3600)) }
        })
    };
    let run = |price: f64| {
        let terms = Terms {
            states: world.states,
            delay_price: Joules(price),
            min_on: world.settings.min_on,
        };
        world.run(PolicyChoice::Learned.build(&terms), hourly(), Mono::from_secs(101 * 3600))
    };
    let (free, dear) = (run(0.0), run(5_000.0));
    assert!(free.delayed_visits >= 99, "nobody pays for it: {free:?}");
    assert!(dear.delayed_visits <= 6, "{dear:?}");
    // Five more seconds or so awake each time, and not one more wake-up.
    let more = dear.bill.server(&world.states) - free.bill.server(&world.states);
    assert!(more < world.states.on * Duration::from_secs(100 * 10), "{more} more");
    assert!(dear.bill.wakeups <= free.bill.wakeups + 1, "{} wake-ups", dear.bill.wakeups);
}

#[test]
fn a_single_request_in_a_day_waits_for_the_wake_up() {
    let world = world(60);
    let policy = Timeout { idle: Duration::from_secs(5) };
    let end = Mono::from_secs(86_400);
    let outcome = world.run(policy, [person(Mono::from_secs(40_000))], end);
    // Awake 0 to 60; asleep until the request, 5 s to wake; awake 60 s; asleep to the end.
    assert_eq!(outcome.bill.on.as_secs(), 120);
    assert_eq!(outcome.bill.off.as_secs(), 86_280);
    assert_eq!((outcome.bill.cycles, outcome.bill.wakeups), (2, 1));
    assert_eq!((outcome.delayed_requests, outcome.delayed_visits), (1, 1));
}

#[test]
fn nothing_happens_while_the_server_sleeps_however_long_that_is() {
    let mut run = world(60).begin(Timeout { idle: Duration::from_secs(5) });
    run.demand(&person(Mono::from_secs(1000)));
    run.until(Mono::from_secs(2000));
    assert!(!run.is_awake());
    assert_eq!(run.due, Mono::NEVER, "no look at it is due: a century takes as long as a minute");
    let century = Mono::from_secs(100 * 365 * 86_400);
    run.demand(&person(century));
    let outcome = run.finish(century + Duration::from_secs(100));
    assert_eq!((outcome.bill.cycles, outcome.bill.wakeups), (3, 2));
    assert_eq!(outcome.bill.on.as_secs(), 60 + 60 + 60);
}

#[test]
fn what_follows_from_a_page_comes_once_the_page_is_open() {
    let mut world = world(60);
    world.settings.waiting_page = true;
    let second = |it: u64| Mono::from_secs(10_000 + it);
    let page = person(second(0));
    let page = Demand { request: Request { want: Want::Page, ..page.request }, ..page };
    let image = |at: u64| Demand { at: second(at), number: at, ..person(second(0)) };
    let other = Demand { number: 9, visitor: Visitor(0), ..person(second(3)) };
    // Awake 5 s after it is asked to be.
    let run = |follows: bool| {
        let mut run = world.begin(Timeout { idle: Duration::from_mins(1) });
        assert_eq!(run.demand(&page), Route::WaitingPage);
        assert!(run.waits_for_page(page.visitor) && !run.waits_for_page(other.visitor));
        for at in [1, 2] {
            if follows {
                run.follow(&image(at));
            } else {
                assert_eq!(run.demand(&image(at)), Route::Hold);
            }
        }
        assert_eq!(run.demand(&other), Route::Hold);
        run.until(second(6));
        assert!(run.is_awake() && !run.waits_for_page(page.visitor));
        run.finish(second(20))
    };
    let (open, held) = (run(true), run(false));
    assert_eq!((open.admitted, open.delayed_requests, open.delayed_visits), (4, 2, 2));
    assert_eq!((open.answers.by_server, open.answers.after_waking), (2, 2));
    assert_eq!((held.admitted, held.delayed_requests, held.delayed_visits), (4, 4, 2));
    assert_eq!(open.bill, held.bill, "the server wakes at the same time");
}

#[test]
fn a_server_that_wakes_slowly_wakes_and_what_follows_comes_then() {
    let mut world = world(60);
    world.settings.waiting_page = true;
    world.states.wake_time = Duration::from_mins(3);
    let at = |second: u64| Mono::from_secs(10_000 + second);
    let page = person(at(0));
    let page = Demand { request: Request { want: Want::Page, ..page.request }, ..page };
    let mut run = world.begin(Timeout { idle: Duration::from_mins(1) });
    run.demand(&page);
    run.follow(&Demand { at: at(1), ..page });
    run.until(at(181));
    assert!(run.is_awake() && !run.waits_for_page(page.visitor));
    let outcome = run.finish(at(200));
    assert_eq!((outcome.admitted, outcome.delayed_requests), (2, 1));
}

#[test]
fn what_still_waits_at_the_end_is_counted() {
    let mut world = world(60);
    world.settings.waiting_page = true;
    let at = Mono::from_secs(10_000);
    let page = person(at);
    let page = Demand { request: Request { want: Want::Page, ..page.request }, ..page };
    let mut run = world.begin(Timeout { idle: Duration::from_mins(1) });
    run.demand(&page);
    run.follow(&person(at));
    let outcome = run.finish(at + Duration::from_secs(1));
    assert_eq!((outcome.admitted, outcome.delayed_requests, outcome.visits), (2, 2, 1));
}

#[test]
fn what_is_slept_is_saved_in_its_hour_of_local_time() {
    // Thursday 1970-01-01 00:00. Asleep from 60 s on; a request comes at 2:30, awake until 2:31:05.
    let world = world(60);
    let mut run = world.begin(Timeout { idle: Duration::from_secs(5) }).with_hours();
    run.demand(&person(Mono::from_secs(9000)));
    // Then clocks are an hour ahead: 3:00 is 4:00.
    let change = Mono::from_secs(10_800);
    run.local_time(change, 3600);
    let saved = run.saved_by_hour(Mono::from_secs(14_400)).unwrap();
    let mut expected = EnergyByHour::default();
    let watts = 43.3 - 1.6;
    let thursday = 3 * 24;
    for (hour, asleep, sleeps) in [
        (0, 3540.0, 1.0),
        (1, 3600.0, 0.0),
        // 30 minutes and the wake-up; then a minute awake.
        (2, 1805.0 + 1800.0 - 65.0, 1.0),
        (4, 3600.0, 0.0),
    ] {
        let joules = watts * asleep - sleeps * world.states.switch.get();
        expected.add(thursday + hour, nightwatt_energy::quantity::Joules(joules));
    }
    let off = saved.less(&expected);
    assert!(off.joules().all(|joules| joules.get().abs() < 1e-6), "{off:?}");
}

#[test]
fn a_day_begins_at_midnight_of_local_time_as_it_is_then() {
    let mut run = world(60).begin(AlwaysOn);
    run.demand(&person(Mono::from_secs(86_400 - 1800)));
    run.local_time(Mono::from_secs(86_400 - 900), 3600);
    run.demand(&person(Mono::from_secs(86_400 - 900)));
    let days: Vec<(i64, u64)> = run.days().iter().map(|(day, of)| (day, of.admitted)).collect();
    assert_eq!(days, [(0, 1), (1, 1)], "23:30, and 00:45 an hour further east");
}

proptest! {
    /// No policy is asked before these times are over.
    #[test]
    fn all_timeouts_within_the_quiet_and_the_minimum_on_time_do_the_same(
        gaps in proptest::collection::vec(prop_oneof![0_u64..12, 0_u64..200, 0_u64..3000], 0..200),
        idle in 0_u64..=5_000,
        min_on in 5_u64..90,
        promised in any::<bool>(),
    ) {
        let mut world = world(min_on);
        world.settings.sla = promised.then(|| Scenario::default().sla()).flatten();
        let times = times(&gaps);
        let end = times.last().map_or(Mono::from_secs(60), |last| *last + Duration::from_hours(1));
        let run = |idle| {
            let demands = times.iter().map(|at| person(*at));
            world.run(Timeout { idle: Duration::from_millis(idle) }, demands, end)
        };
        prop_assert_eq!(run(0), run(idle));
    }

    /// The plan's saving is what the same world bills when the plan is played.
    #[test]
    fn the_oracle_saves_what_it_planned_and_delays_nobody_who_need_not_wait(
        gaps in proptest::collection::vec(0_u64..900, 0..200),
        min_on in 0_u64..120,
        waking in prop_oneof![Just(Waking::Ahead), Just(Waking::OnDemand)],
    ) {
        let world = world(min_on);
        let demands = times(&gaps);
        let end = demands.last().copied().unwrap_or_default() + Duration::from_secs(500);
        let rules = Constraints {
            states: world.states,
            min_on: world.settings.min_on,
            quiet: world.settings.quiet,
        };
        let plan = plan(busy(&demands).times(), Mono::ZERO, end, waking, &rules);
        let planned = plan.saved;
        let oracle = Oracle::new(plan, world.states.wake_time);
        let outcome = world.run(oracle, demands.into_iter().map(person), end);
        let saved = outcome.bill.always_on(&world.states) - outcome.bill.server(&world.states);
        prop_assert!((saved - planned).get().abs() < 1e-3, "{} J, planned {}", saved, planned);
        prop_assert!(waking == Waking::OnDemand || outcome.delayed_requests == 0);
    }

    /// Whatever the traffic: all time is billed, no request is forgotten, cycles and wakes alternate.
    #[test]
    fn the_books_balance(
        gaps in proptest::collection::vec(0_u64..300, 0..200),
        idle in 0_u64..100,
    ) {
        let world = world(60);
        let demands = times(&gaps);
        let end = demands.last().copied().unwrap_or_default() + Duration::from_secs(7);
        let policy = Timeout { idle: Duration::from_secs(idle) };
        let outcome = world.run(policy, demands.iter().copied().map(person), end);
        prop_assert_eq!(outcome.bill.span(), end.0);
        prop_assert_eq!(outcome.admitted, demands.len() as u64);
        prop_assert!(outcome.bill.cycles - outcome.bill.wakeups <= 1);
        prop_assert!(outcome.delayed_visits <= outcome.delayed_requests);
    }

    /// What is saved hour by hour is what the bill says, whatever the traffic and the clocks.
    #[test]
    fn the_hours_add_up_to_the_bill(
        gaps in proptest::collection::vec(0_u64..30_000, 0..60),
        idle in 0_u64..100,
        changes in proptest::collection::vec(0_u64..400_000, 0..4),
    ) {
        let world = world(60);
        let mut run = world.begin(Timeout { idle: Duration::from_secs(idle) }).with_hours();
        let mut plain = world.begin(Timeout { idle: Duration::from_secs(idle) });
        let demands = times(&gaps);
        for &at in &demands {
            let changes = changes.iter().filter(|&&change| change <= at.0.as_secs()).count();
            run.local_time(at, 3600 * i32::try_from(changes).unwrap());
            run.demand(&person(at));
            plain.demand(&person(at));
        }
        let end = demands.last().copied().unwrap_or_default() + Duration::from_mins(15);
        let saved = run.saved_by_hour(end).unwrap().total();
        let outcome = run.finish(end);
        prop_assert_eq!(plain.saved_by_hour(end), None);
        prop_assert_eq!(outcome.bill, plain.finish(end).bill);
        let always_on = outcome.bill.always_on(&world.states);
        let expected = always_on - outcome.bill.server(&world.states);
        prop_assert!((saved - expected).get().abs() <= 1e-9 * always_on.get());
    }

    /// Ski rental uses at most twice the energy (beyond the unavoidable) of whatever plan.
    #[test]
    fn ski_rental_is_within_twice_the_optimum(
        gaps in proptest::collection::vec(1_u64..600, 1..100),
    ) {
        // The classical setting: no minimum on time, no quiet time, sleeping and waking at once.
        let mut world = world(0);
        world.settings.quiet = Duration::ZERO;
        world.states.wake_time = Duration::ZERO;
        world.states.sleep_time = Duration::ZERO;
        let demands = times(&gaps);
        let end = demands.last().copied().unwrap_or_default();
        let rules = Constraints {
            states: world.states, min_on: Duration::ZERO, quiet: Duration::ZERO,
        };
        let saved = plan(busy(&demands).times(), Mono::ZERO, end, Waking::Ahead, &rules).saved;
        let policy = Timeout { idle: world.states.break_even() };
        let bill = world.run(policy, demands.into_iter().map(person), end).bill;
        let unavoidable = world.states.off * bill.span();
        let optimum = bill.always_on(&world.states) - saved - unavoidable;
        let ours = bill.server(&world.states) - unavoidable;
        prop_assert!(ours.get() <= 2.0 * optimum.get() + 1e-6, "{} > 2 x {}", ours, optimum);
    }
}
