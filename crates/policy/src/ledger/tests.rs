use super::*;

const STATES: PowerStates = PowerStates {
    on: Watts(43.3),
    off: Watts(1.6),
    switch: Joules(170.7),
    wake_time: Duration::from_secs(5),
    sleep_time: Duration::from_secs(5),
};

#[test]
fn an_hour_with_one_sleep_of_half_an_hour() {
    let mut ledger = Ledger::resume(Bill::default(), Billing::On, Mono::ZERO);
    ledger.fell_asleep(Mono::from_secs(900));
    ledger.woke(Mono::from_secs(2700));
    let bill = ledger.bill(Mono::from_secs(3600));
    assert_eq!((bill.on.as_secs(), bill.off.as_secs()), (1800, 1800));
    assert_eq!((bill.cycles, bill.wakeups), (1, 1));
    // By hand: 43.3 * 1800 + 1.6 * 1800 + 170.7 = 80,990.7 J.
    assert!((bill.server(&STATES).get() - 80_990.7).abs() < 1e-9);
    assert!((bill.always_on(&STATES).get() - 155_880.0).abs() < 1e-9);
    assert!((bill.proxy(Watts(5.0)).get() - 18_000.0).abs() < 1e-9);
    // By hand: 1 - (80,990.7 + 18,000) / 155,880.
    let saving = bill.saving(&STATES, Watts(5.0));
    assert!((saving - (1.0 - 98_990.7 / 155_880.0)).abs() < 1e-12);
}

#[test]
fn nobody_can_save_more_than_what_proxy_and_sleep_leave() {
    // 00-system: with 5 W of proxy and this server, 1 - 6.6 / 43.3 = 85 %.
    let asleep = Bill { off: Duration::from_secs(1_000_000), ..Bill::default() };
    let saving = asleep.saving(&STATES, Watts(5.0));
    assert!((saving - (1.0 - 6.6 / 43.3)).abs() < 1e-12);
}

#[test]
fn a_saving_says_something_after_a_sleep_a_wake_up_and_ten_sleeps_that_pay() {
    let bill = |seconds, cycles, wakeups| Bill {
        off: Duration::from_secs(seconds),
        cycles,
        wakeups,
        ..Bill::default()
    };
    // A sleep pays after 4.09 s.
    assert!(bill(40, 1, 1).is_too_early(&STATES));
    assert!(!bill(41, 1, 1).is_too_early(&STATES));
    assert!(bill(41, 0, 1).is_too_early(&STATES), "no sleep is charged yet");
    assert!(bill(86_399, 3, 0).is_too_early(&STATES));
    assert!(!bill(86_400, 0, 0).is_too_early(&STATES), "a day without a sleep says something");
    let useless = PowerStates { off: STATES.on, ..STATES };
    assert!(bill(86_399, 9, 9).is_too_early(&useless));
    assert!(!bill(86_400, 9, 9).is_too_early(&useless));
}

#[test]
fn a_sleep_that_came_to_nothing_is_billed_as_awake() {
    let mut ledger = Ledger::resume(Bill::default(), Billing::On, Mono::ZERO);
    ledger.fell_asleep(Mono::from_secs(10));
    ledger.stayed_awake(Mono::from_secs(40));
    let bill = ledger.bill(Mono::from_secs(60));
    assert_eq!(bill, Bill { on: Duration::from_mins(1), ..Bill::default() });
}

#[test]
fn unobserved_time_claims_no_saving() {
    let dead = Bill { unobserved: Duration::from_secs(100), ..Bill::default() };
    assert!(dead.saving(&STATES, Watts::ZERO).abs() < 1e-12);
}

/// A plug says this power from one second to another, every ten seconds.
fn plug(ledger: &mut Ledger, part: Part, (from, to): (u64, u64), watts: f64) {
    for second in (from..to).step_by(10) {
        let end = (second + 10).min(to);
        let joules = Joules(watts * (end - second) as f64);
        let (from, to) = (Mono::from_secs(second), Mono::from_secs(end));
        ledger.measured(part, Measure { from, to, joules, uncertainty: joules * 0.01 });
    }
}

/// Half past ten in the morning, and this many seconds.
fn at(second: u64) -> Now {
    let wall = Wall::from_secs(1_795_429_800) + Duration::from_secs(second);
    Now { mono: Mono::from_secs(second), wall, utc_offset: 0 }
}

fn metered() -> Ledger {
    let mut ledger = Ledger::resume(Bill::default(), Billing::On, Mono::ZERO);
    ledger.expect_meter(Part::Server);
    ledger
}

#[test]
fn a_server_with_a_plug_is_billed_what_the_plug_says_awake_and_asleep() {
    // It draws half more than the scenario says, and its cycles cost nothing.
    let mut ledger = metered();
    plug(&mut ledger, Part::Server, (0, 905), 65.0);
    ledger.fell_asleep(Mono::from_secs(905));
    plug(&mut ledger, Part::Server, (905, 2705), 2.4);
    ledger.woke(Mono::from_secs(2705));
    plug(&mut ledger, Part::Server, (2705, 3600), 65.0);
    ledger.settle(at(3600), false);
    let bill = ledger.bill(Mono::from_secs(3600));
    let said = 65.0 * 1800.0 + 2.4 * 1800.0;
    assert!((bill.server(&STATES).get() - said).abs() < 1e-6, "{bill:?}");
    assert!(bill.server_modelled(&STATES).get().abs() < 1e-9, "nothing is left to the model");
    assert_eq!((bill.server_metered.on.as_secs(), bill.server_metered.off.as_secs()), (1800, 1800));
    assert_eq!((bill.cycles, bill.server_metered.cycles), (1, 1));
    assert!((bill.server_metered.uncertainty.get() - 0.01 * said).abs() < 1e-6);
    assert_eq!(bill, ledger.settled(Mono::from_secs(3600)));
}

#[test]
fn an_hour_without_the_plug_is_modelled_and_is_an_hour_of_its_own() {
    let mut ledger = metered();
    let mut hours = Vec::new();
    // From 10:30 to 14:30; the plug is away from 11:00 to 12:00 and on 11:20 the server is put to
    // sleep for half an hour.
    for (from, to) in [(0, 1800), (5400, 14_400)] {
        plug(&mut ledger, Part::Server, (from, to), 65.0);
        if from == 0 {
            hours.extend(ledger.settle(at(1800), false));
            ledger.fell_asleep(Mono::from_secs(3000));
            ledger.woke(Mono::from_secs(4800));
        }
    }
    hours.extend(ledger.settle(at(14_400), false));
    let bill = ledger.bill(Mono::from_secs(14_400));
    // By hand: 65 W for 3 h, and 43.3 x 1800 + 1.6 x 1800 + 170.7 = 80,990.7 J of the model.
    assert!((bill.server_modelled(&STATES).get() - 80_990.7).abs() < 1e-6, "{bill:?}");
    assert!((bill.server(&STATES).get() - (65.0 * 10_800.0 + 80_990.7)).abs() < 1e-6);
    let told: Vec<_> = hours
        .iter()
        .map(|hour| {
            let began = (hour.began.secs() - 1_795_429_800, hour.bill.span().as_secs());
            (began, hour.bill.server_metered.time().as_secs(), hour.bill.cycles)
        })
        .collect();
    assert_eq!(
        told,
        [
            ((0, 1800), 1800, 0),
            ((1800, 3600), 0, 1),
            ((5400, 3600), 3600, 0),
            ((9000, 3600), 3600, 0),
        ]
    );
    let last = ledger.end(at(14_400), false);
    assert_eq!(last.len(), 1, "the one that goes on");
    let sum: f64 = hours.iter().chain(&last).map(|hour| hour.bill.server(&STATES).get()).sum();
    assert!((sum - bill.server(&STATES).get()).abs() < 1e-6, "hours add up to the bill");
}

#[test]
fn a_plug_that_dies_for_good_leaves_all_to_the_model_after_a_while() {
    let mut ledger = metered();
    plug(&mut ledger, Part::Server, (0, 100), 65.0);
    ledger.settle(at(500), false);
    assert_eq!(ledger.settled(Mono::from_secs(500)).span().as_secs(), 100, "it may yet speak");
    let now = READING_TIMEOUT.as_secs() + 700;
    ledger.settle(at(now), false);
    let settled = ledger.settled(Mono::from_secs(now));
    assert_eq!((settled.span().as_secs(), settled.server_metered.time().as_secs()), (700, 100));
    // What it says now of a time that is settled is too late.
    plug(&mut ledger, Part::Server, (600, 800), 65.0);
    ledger.settle(at(now), false);
    let settled = ledger.settled(Mono::from_secs(now));
    assert_eq!((settled.span().as_secs(), settled.server_metered.time().as_secs()), (800, 200));
    let all = ledger.bill(Mono::from_secs(now)).server(&STATES).get();
    assert!((all - (65.0 * 200.0 + 43.3 * (now - 200) as f64)).abs() < 1e-6);
}

#[test]
fn what_no_meter_can_mean_is_not_booked() {
    let mut ledger = metered();
    let (from, to) = (Mono::from_secs(10), Mono::from_secs(20));
    for joules in [f64::NAN, f64::INFINITY, -1.0, 1e9] {
        let measure = Measure { from, to, joules: Joules(joules), uncertainty: Joules(1.0) };
        ledger.measured(Part::Server, measure);
    }
    let backwards = Measure { from: to, to: from, joules: Joules(1.0), uncertainty: Joules(0.1) };
    ledger.measured(Part::Server, backwards);
    ledger.measured(Part::Proxy, Measure { from, to, ..backwards });
    ledger.end(at(100), false);
    let bill = ledger.bill(Mono::from_secs(100));
    assert_eq!(bill, Bill { on: Duration::from_secs(100), ..Bill::default() });
}

#[test]
fn a_sleep_that_comes_to_nothing_was_measured_awake() {
    let mut ledger = metered();
    plug(&mut ledger, Part::Server, (0, 100), 65.0);
    ledger.fell_asleep(Mono::from_secs(50));
    ledger.settle(at(100), true);
    assert_eq!(ledger.settled(Mono::from_secs(100)).span().as_secs(), 50, "no further");
    ledger.stayed_awake(Mono::from_secs(90));
    ledger.settle(at(100), false);
    let bill = ledger.bill(Mono::from_secs(100));
    assert_eq!((bill.on.as_secs(), bill.cycles), (100, 0));
    assert_eq!((bill.server_metered.on.as_secs(), bill.server_metered.cycles), (100, 0));
}

#[test]
fn the_proxy_has_a_meter_of_its_own_and_the_slower_of_two_settles_the_bill() {
    let mut ledger = metered();
    ledger.expect_meter(Part::Proxy);
    plug(&mut ledger, Part::Server, (0, 100), 65.0);
    plug(&mut ledger, Part::Proxy, (0, 60), 3.0);
    ledger.settle(at(100), false);
    let settled = ledger.settled(Mono::from_secs(100));
    assert_eq!(settled.span().as_secs(), 60);
    assert!((settled.server(&STATES).get() - 65.0 * 60.0).abs() < 1e-9);
    assert!((settled.proxy(Watts(5.0)).get() - 180.0).abs() < 1e-9);
    let bill = ledger.bill(Mono::from_secs(100));
    assert!((bill.proxy(Watts(5.0)).get() - (180.0 + 200.0)).abs() < 1e-9, "{bill:?}");
}

#[test]
fn a_bill_goes_through_the_journal_unchanged_and_old_ones_are_read() {
    let mut ledger = metered();
    plug(&mut ledger, Part::Server, (0, 100), 65.0);
    ledger.end(at(150), false);
    let bill = ledger.bill(Mono::from_secs(150));
    let text = serde_json::to_string(&bill).unwrap();
    assert_eq!(serde_json::from_str::<Bill>(&text).unwrap(), bill);
    // As nightwatt wrote it before it knew meters.
    let old = r#"{"on":{"secs":7,"nanos":0},"off":{"secs":0,"nanos":0},
        "unobserved":{"secs":2,"nanos":0},"cycles":1,"wakeups":1}"#;
    let read: Bill = serde_json::from_str(old).unwrap();
    assert_eq!((read.span().as_secs(), read.server_metered.is_nothing()), (9, true));
    assert!(!serde_json::to_string(&read).unwrap().contains("metered"), "and is written as before");
}

proptest::proptest! {
    /// Whatever the meter covered and whenever it is settled: no figure of the settled bill falls,
    /// time is neither lost nor counted twice, and measured and modelled make the whole.
    #[test]
    fn the_settled_bill_never_falls(
        steps in proptest::collection::vec((0_u8..6, 1_u64..1500), 1..60),
    ) {
        let mut ledger = metered();
        let (mut now, mut said, mut asleep) = (0, 0.0, false);
        let mut before = Bill::default();
        for (what, seconds) in steps {
            let then = now;
            now += seconds;
            match what {
                0 if asleep => ledger.woke(Mono::from_secs(now)),
                0 => ledger.fell_asleep(Mono::from_secs(now)),
                1 | 2 => {
                    ledger.settle(at(now), false);
                }
                _ => {
                    plug(&mut ledger, Part::Server, (then, now), 50.0);
                    said += 50.0 * seconds as f64;
                }
            }
            asleep ^= what == 0;
            let bill = ledger.bill(Mono::from_secs(now));
            proptest::prop_assert_eq!(bill.span().as_secs(), now);
            let settled = ledger.settled(Mono::from_secs(now));
            let grew = settled.since(&before);
            proptest::prop_assert!(settled.span() >= before.span());
            proptest::prop_assert!(settled.cycles >= before.cycles);
            proptest::prop_assert!(grew.server_metered.joules.get() >= 0.0);
            let modelled = settled.server_modelled(&STATES) - before.server_modelled(&STATES);
            proptest::prop_assert!(modelled.get() >= -1e-6, "{} {}", modelled, now);
            proptest::prop_assert!(settled.server_metered.time() <= settled.span());
            before = settled;
        }
        // What began this very moment counts with the time after it.
        now += 1;
        ledger.end(at(now), false);
        let bill = ledger.bill(Mono::from_secs(now));
        proptest::prop_assert_eq!(bill, ledger.settled(Mono::from_secs(now)));
        proptest::prop_assert!(bill.server_metered.joules.get() <= said + 1e-6);
        let covered = bill.server_metered.time().as_secs_f64();
        proptest::prop_assert!((bill.server_metered.joules.get() - 50.0 * covered).abs() < 1e-6);
    }
}

#[test]
fn the_bill_tells_how_long_the_server_had_requests() {
    let mut ledger = Ledger::resume(Bill::default(), Billing::On, Mono::ZERO);
    ledger.works(Mono::from_secs(10), true);
    assert_eq!(ledger.bill(Mono::from_secs(15)).busy, Duration::from_secs(5));
    ledger.works(Mono::from_secs(20), false);
    ledger.works(Mono::from_secs(50), true);
    ledger.works(Mono::from_secs(53), false);
    let bill = ledger.bill(Mono::from_secs(60));
    assert_eq!((bill.on, bill.busy), (Duration::from_mins(1), Duration::from_secs(13)));
    let resumed = Ledger::resume(bill, Billing::On, Mono::ZERO).bill(Mono::from_secs(1));
    assert_eq!(resumed.busy, Duration::from_secs(13));
}

proptest::proptest! {
    /// However sites come and go: all bills together have the proxy once, measured or modelled.
    #[test]
    fn a_proxy_that_several_share_is_paid_for_once(
        turns in proptest::collection::vec((proptest::collection::vec(0.1_f64..1.0, 3), 1_u64..900), 1..9),
        is_metered in proptest::bool::ANY,
        slept in 0_u64..900,
    ) {
        let mut ledgers: Vec<Ledger> = (0..3)
            .map(|_| Ledger::resume(Bill::default(), Billing::On, Mono::ZERO))
            .collect();
        if is_metered {
            for ledger in &mut ledgers {
                ledger.expect_meter(Part::Proxy);
            }
        }
        let mut now = 0;
        for (weights, seconds) in &turns {
            let all: f64 = weights.iter().sum();
            for (ledger, weight) in ledgers.iter_mut().zip(weights) {
                ledger.share_proxy(Mono::from_secs(now), weight / all);
                if is_metered {
                    plug(ledger, Part::Proxy, (now, now + seconds / 2), 3.0);
                }
            }
            now += seconds;
            ledgers[0].settle(at(now), false);
        }
        ledgers[1].fell_asleep(Mono::from_secs(now + slept));
        now += 2 * slept;
        let bills: Vec<Bill> = ledgers.iter().map(|it| it.bill(Mono::from_secs(now))).collect();
        let open: f64 = bills.iter().map(|it| it.proxy(Watts(5.0)).get()).sum();
        for ledger in &mut ledgers {
            ledger.end(at(now), false);
        }
        let bills: Vec<Bill> = ledgers.iter().map(|it| it.bill(Mono::from_secs(now))).collect();
        let measured: u64 = turns.iter().map(|it| it.1 / 2).sum();
        let measured = if is_metered { measured } else { 0 };
        let expected = 3.0 * measured as f64 + 5.0 * (now - measured) as f64;
        let all: f64 = bills.iter().map(|it| it.proxy(Watts(5.0)).get()).sum();
        proptest::prop_assert!((all - expected).abs() < 1e-3, "{all} J, not {expected}");
        let modelled = 5.0 * now as f64;
        proptest::prop_assert!(open <= modelled + 1e-3 && open >= expected - 1e-3, "{open} J");
        for bill in bills {
            proptest::prop_assert!(bill.proxy_time() <= bill.span());
            // Times are kept in nanoseconds, each stretch rounded.
            let covered = bill.proxy_metered.time();
            proptest::prop_assert!(covered <= bill.proxy_time() + Duration::from_micros(10));
        }
    }
}

#[test]
fn what_was_on_the_bill_before_others_came_stays_on_it() {
    // Alone for 100 s of which it slept 40, then one of two, over a restart, then one of four.
    let mut ledger = Ledger::resume(Bill::default(), Billing::On, Mono::ZERO);
    ledger.share_proxy(Mono::ZERO, 1.0);
    ledger.fell_asleep(Mono::from_secs(60));
    ledger.share_proxy(Mono::from_secs(100), 0.5);
    let bill = ledger.bill(Mono::from_secs(200));
    assert_eq!((bill.span().as_secs(), bill.proxy_time().as_secs()), (200, 150));
    let text = serde_json::to_string(&bill).unwrap();
    let mut ledger = Ledger::resume(serde_json::from_str(&text).unwrap(), Billing::On, Mono::ZERO);
    ledger.share_proxy(Mono::ZERO, 0.25);
    let later = ledger.bill(Mono::from_secs(400));
    assert_eq!((later.span().as_secs(), later.proxy_time().as_secs()), (600, 250));
    assert!((later.since(&bill).proxy(Watts(5.0)).get() - 500.0).abs() < 1e-9);
    // One that said nothing had all of it.
    let old = Bill { on: Duration::from_secs(1000), ..Bill::default() };
    assert_eq!(old.proxy_time().as_secs(), 1000);
    let mut ledger = Ledger::resume(old, Billing::On, Mono::ZERO);
    ledger.share_proxy(Mono::ZERO, 0.1);
    assert_eq!(ledger.bill(Mono::from_secs(50)).proxy_time().as_secs(), 1005);
}
