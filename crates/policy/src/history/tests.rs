use proptest::prelude::*;

use super::*;
use crate::electricity::Tariff;
use nightwatt_energy::time::Mono;

/// Monday, 23 November 2026, 00:00 UTC: day 20,780 (`date -d 2026-11-23 +%s` / 86,400).
const MONDAY: i64 = 1_795_392_000;
const MONDAYS_DAY: i64 = 20_780;

/// 100 W awake, 10 W asleep, nothing for a cycle; a proxy of 2 W; 0.10 from 06:00, else 0.50.
fn rates() -> Rates {
    let prices = (0..24).map(|hour| if hour >= 6 { 0.1 } else { 0.5 }).collect();
    Rates {
        states: PowerStates {
            on: Watts(100.0),
            off: Watts(10.0),
            switch: Joules(360.0),
            wake_time: Duration::ZERO,
            sleep_time: Duration::ZERO,
        },
        busy: Watts::ZERO,
        proxy: Watts(2.0),
        unsaid_proxy: true,
        electricity: Electricity { price_per_kwh: Tariff::ByHour(prices), ..Default::default() },
    }
}

fn at(second: i64, utc_offset: i32) -> Now {
    Now { mono: Mono::ZERO, wall: Wall::from_secs(second), utc_offset }
}

fn hours(on: u64, off: u64) -> Bill {
    Bill { on: Duration::from_hours(on), off: Duration::from_hours(off), ..Bill::default() }
}

#[test]
fn a_night_asleep_is_shared_out_at_local_midnight() {
    let mut history = History::new(rates(), []);
    // An hour east of Greenwich it is Sunday 22:00 an hour before it is there.
    let sunday = MONDAY - 3 * 3600;
    assert_eq!(history.note(at(sunday, 3600), &Bill::default())[0].day, MONDAYS_DAY - 1);
    // Asleep from 22:00 to 08:00 local: two hours of Sunday, eight of Monday.
    let marks = history.note(at(sunday + 10 * 3600, 3600), &hours(0, 10));
    assert_eq!(marks.len(), 1);
    assert_eq!((marks[0].day, marks[0].bill), (MONDAYS_DAY, hours(0, 2)));
    let days = history.days();
    let wh = |joules: Joules| (joules.get() / 3600.0).round();
    let figures: Vec<_> =
        days.iter().map(|it| (it.day, wh(it.used.server), wh(it.used.saved()))).collect();
    // 10 W x 2 h and 8 h; saved 100 - 10 - 2 = 88 W.
    assert_eq!(figures, [(MONDAYS_DAY - 1, 20.0, 176.0), (MONDAYS_DAY, 80.0, 704.0)]);
    // 88 W x 2 h at 0.10; then 6 h at 0.50 and 2 h at 0.10.
    assert!((days[0].money.saved() - 0.0176).abs() < 1e-12, "{:?}", days[0].money);
    assert!((days[1].money.saved() - (0.264 + 0.0176)).abs() < 1e-12, "{:?}", days[1].money);
}

#[test]
fn a_minute_knows_how_much_of_it_was_seen_and_measured() {
    let mut history = History::new(rates(), []);
    history.note(at(MONDAY + 30, 0), &Bill::default());
    let on = Duration::from_secs(90);
    let server_metered = Metered { joules: Joules(4500.0), on: on / 2, ..Metered::default() };
    history.note(at(MONDAY + 120, 0), &Bill { on, server_metered, ..Bill::default() });
    // 45 s measured at 100 W and 45 s modelled at 100 W: 3,000 J in the half minute, 6,000 J after it.
    let minutes = history.minutes(Wall::from_secs(MONDAY + 120));
    let seen: Vec<_> = minutes
        .iter()
        .map(|it| (it.seconds, it.measured_s, it.server.get(), it.proxy.get()))
        .collect();
    assert_eq!(seen, [(30.0, 15.0, 3000.0, 60.0), (60.0, 30.0, 6000.0, 120.0)]);
    assert!(history.minutes(Wall::from_secs(MONDAY + 86_520)).is_empty(), "a day later it is gone");
}

#[test]
fn a_day_that_begins_with_an_event_gets_it() {
    let mut history = History::new(rates(), []);
    history.note(at(MONDAY - 10, 0), &Bill::default());
    let ten = Bill { on: Duration::from_secs(10), ..Bill::default() };
    history.note(at(MONDAY, 0), &ten);
    assert_eq!(history.note(at(MONDAY, 0), &Bill { cycles: 1, ..ten })[0].bill, ten);
    let days = history.days();
    assert_eq!((days[0].bill.cycles, days[1].bill.cycles), (0, 1));
    assert_eq!(days[1].used.server, Joules(360.0), "the energy of one cycle");
}

#[test]
fn a_sleep_that_came_to_nothing_is_taken_back() {
    let mut history = History::new(rates(), []);
    history.note(at(MONDAY, 0), &Bill::default());
    let minute = |on, off, cycles| Bill {
        on: Duration::from_mins(on),
        off: Duration::from_mins(off),
        cycles,
        ..Bill::default()
    };
    history.note(at(MONDAY + 60, 0), &minute(0, 1, 1));
    history.note(at(MONDAY + 120, 0), &minute(2, 0, 0));
    let minutes = history.minutes(Wall::from_secs(MONDAY + 120));
    let server: f64 = minutes.iter().map(|it| it.server.get()).sum();
    assert!((server - 12_000.0).abs() < 1e-9, "100 W for two minutes, not {server}");
}

#[test]
fn a_clock_that_leaps_makes_no_days_in_which_nobody_watched() {
    let mut history = History::new(rates(), []);
    history.note(at(0, 0), &Bill::default());
    // A board without a battery: 1970, until its clock is set.
    let marks = history.note(at(MONDAY + 3600, 0), &hours(1, 0));
    assert_eq!(marks.iter().map(|it| it.day).collect::<Vec<_>>(), [MONDAYS_DAY]);
    // Set back by two days: it all belongs to Monday until Tuesday comes.
    assert!(history.note(at(MONDAY - 172_800, 0), &hours(2, 0)).is_empty());
    let days: Vec<_> = history.days().iter().map(|it| (it.day, it.bill)).collect();
    assert_eq!(days, [(MONDAYS_DAY, hours(2, 0))], "no day of 1970");
}

#[test]
fn what_was_billed_in_1970_is_on_the_day_that_the_clock_was_set_also_after_a_restart() {
    let mut history = History::new(rates(), []);
    let minutes = |on| Bill { on: Duration::from_mins(on), ..Bill::default() };
    let mut stored = history.note(at(5, 0), &Bill::default());
    stored.extend(history.note(at(305, 0), &minutes(5)));
    // The clock is set to Monday, 10:00, and the next day begins.
    stored.extend(history.note(at(MONDAY + 36_000, 0), &minutes(6)));
    stored.extend(history.note(at(MONDAY + 90_000, 0), &minutes(6 + 900)));
    let seen = |history: &History| -> Vec<_> {
        history.days().iter().map(|it| (it.day, it.bill.on)).collect()
    };
    // 14 hours of Monday after 10:00, and one of Tuesday.
    let expected = [(MONDAYS_DAY, 6 + 840), (MONDAYS_DAY + 1, 60)]
        .map(|(day, minutes)| (day, Duration::from_mins(minutes)));
    assert_eq!(seen(&history), expected);
    let mut resumed = History::new(rates(), stored);
    resumed.note(at(MONDAY + 90_000, 0), &minutes(6 + 900));
    assert_eq!(seen(&resumed), expected);
}

#[test]
fn what_was_saved_before_anybody_counted_is_priced_in_the_mean() {
    let mut history = History::new(rates(), []);
    history.note(at(MONDAY, 0), &hours(0, 1000));
    // 88 kWh at (6 x 0.50 + 18 x 0.10) / 24 = 0.20; none of it on any day.
    assert!((history.total().1.saved() - 17.6).abs() < 1e-9);
    assert!(history.days()[0].money.saved().abs() < 1e-12);
}

/// A stretch of time: how long, how it is billed, whether a sleep began at its end.
fn stretch() -> impl Strategy<Value = (u64, u8, bool, f64)> {
    (0_u64..200_000_000, 0_u8..3, any::<bool>(), 0.0..1.0)
}

proptest! {
    #[test]
    fn days_and_minutes_add_up_to_the_bill_over_any_restart(
        stretches in prop::collection::vec(stretch(), 1..40),
        start in 0_i64..100_000_000_000,
        offset in -43_200_i32..50_400,
        restart in 0_usize..40,
    ) {
        let mut history = History::new(rates(), []);
        let (mut bill, mut wall) = (Bill::default(), Wall(start));
        let now = |wall| Now { mono: Mono::ZERO, wall, utc_offset: offset };
        let mut stored = history.note(now(wall), &bill);
        let mut seen_lately = 0;
        for (at, (ms, kind, cycle, metered)) in stretches.iter().enumerate() {
            let time = Duration::from_millis(*ms);
            *[&mut bill.on, &mut bill.off, &mut bill.unobserved][usize::from(*kind)] += time;
            bill.cycles += u64::from(*cycle);
            if *kind == 0 {
                let covered = time.mul_f64(*metered);
                bill.server_metered.on += covered;
                bill.server_metered.joules += Watts(77.0) * covered;
            }
            wall = wall + time;
            seen_lately += ms;
            stored.extend(history.note(now(wall), &bill));
            if at == restart {
                // What the last mark does not know, the ledger's last record tells.
                history = History::new(rates(), stored.clone());
                history.note(now(wall), &bill);
                seen_lately = 0;
            }
        }
        let all = rates().used(&bill);
        let days = history.days();
        let close = |one: f64, other: f64| (one - other).abs() <= 1e-9 * all.always_on.get().max(1.0);
        let sum = |of: fn(&Day) -> f64| days.iter().map(of).sum::<f64>();
        prop_assert!(close(sum(|day| day.used.saved().get()), all.saved().get()));
        prop_assert!(close(sum(|day| day.used.server.get()), all.server.get()));
        prop_assert!((sum(|day| day.money.saved()) - history.total().1.saved()).abs() < 1e-6);
        prop_assert_eq!(days.iter().map(|day| day.bill.cycles).sum::<u64>(), bill.cycles);
        let span: Duration = days.iter().map(|day| day.bill.span()).sum();
        let off = span.abs_diff(bill.span());
        prop_assert!(off < Duration::from_micros(1), "{off:?} is more than is lost in rounding");
        prop_assert!(days.windows(2).all(|pair| pair[0].day < pair[1].day));
        if seen_lately < 80_000_000 && restart >= stretches.len() {
            let minutes = history.minutes(wall);
            let server: f64 = minutes.iter().map(|it| it.server.get()).sum();
            let seconds: f64 = minutes.iter().map(|it| it.seconds).sum();
            prop_assert!(close(server, all.server.get()));
            prop_assert!((seconds - bill.span().as_secs_f64()).abs() < 1e-6);
        }
    }
}
