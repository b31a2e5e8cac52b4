//! Hours in which the server is awake. Every story begins on a Monday at noon, UTC.

use nightwatt_gateway::Config;
use nightwatt_gateway::ledger_file::WakeCause;

use crate::client::get;
use crate::stage::{asleep, awake, timeout};

const HOUR: u64 = 3600;

fn hours(texts: &'static [&'static str]) -> impl FnOnce(&mut Config) {
    move |config| {
        config.scenario.awake = texts.iter().map(|text| text.parse().unwrap()).collect();
        config.scenario.policy = timeout(60);
    }
}

#[test]
fn it_is_woken_ahead_of_its_hours_and_sleeps_after_them() {
    asleep().with(hours(&["mon 13:00-14:00"])).play(async |stage| {
        stage.at(1800).await;
        let status = stage.status();
        let begins_in_s = status.opening_hours.awake_hours_in_s;
        assert_eq!((status.state.as_str(), begins_in_s), ("asleep", Some(1795.0)));
        let zone = status.time_zone.expect("its hours are by a clock");
        assert_eq!(zone.to_string(), "now UTC+00:00");
        stage.at(HOUR - 6).await;
        assert_eq!(stage.commands(), (0, 0));
        stage.at(HOUR).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("awake", (1, 0)));
        assert_eq!(stage.ask(get("/a")).await.answer(), "server");
        stage.at(HOUR + 1800).await;
        let status = stage.status();
        let why = status.kept_awake_by.unwrap();
        assert!(why.contains("`awake`") && why.contains("another 30m"), "{why}");
        let hours = status.opening_hours;
        assert_eq!((hours.awake_hours_in_s, hours.awake_hours_end_in_s), (None, Some(1800.0)));
        stage.at(2 * HOUR + 120).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 1)));
        let causes: Vec<_> = stage.journal().into_iter().filter_map(|it| it.cause).collect();
        assert_eq!(causes, [WakeCause::AwakeHours]);
        let metrics = stage.ask_admin(get("/metrics")).await;
        let line = "nightwatt_wakeups_total{site=\"blog\",cause=\"awake-hours\"} 1";
        let other = "nightwatt_wakeups_total{cause=\"awake-hours\",site=\"blog\"} 1";
        assert!(metrics.text().contains(line) || metrics.text().contains(other));
    });
}

#[test]
fn a_gateway_that_starts_in_its_hours_wakes_it_unless_it_was_put_to_sleep_in_them() {
    asleep().with(hours(&["08:00-18:00"])).play(async |stage| {
        stage.at(60).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("awake", (1, 0)));
        stage.order(nightwatt_gateway::control::Order::Sleep { site: None }).await;
        stage.at(120).await;
        assert_eq!(stage.state(), "asleep");
        stage.stop().await;
        stage.start();
        stage.looked().await;
        stage.at(600).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 1)));
    });
}

#[test]
fn an_order_to_sleep_shows_when_the_hours_count_again() {
    asleep().with(hours(&["08:00-18:00"])).play(async |stage| {
        stage.at(60).await;
        let hours = stage.status().opening_hours;
        // It is 12:01.
        let left_s = Some((6 * HOUR - 60) as f64);
        assert_eq!((hours.awake_hours_in_s, hours.awake_hours_end_in_s), (None, left_s));
        assert!(!hours.awake_hours_suspended && !hours.awake_hours_endless);
        stage.order(nightwatt_gateway::control::Order::Sleep { site: None }).await;
        stage.at(120).await;
        let status = stage.status();
        assert_eq!(status.state, "asleep");
        let hours = status.opening_hours;
        assert!(hours.awake_hours_suspended && !hours.awake_hours_endless);
        assert_eq!(hours.awake_hours_end_in_s, Some((6 * HOUR - 120) as f64));
        // From 12:02 to 08:00 on the next day, less the time that a wake-up is expected to take.
        let wakes_in_s = hours.awake_hours_in_s.unwrap() + status.wake_time_s;
        assert!((wakes_in_s - (20 * HOUR - 120) as f64).abs() < 1e-3, "{wakes_in_s}");
    });
}

#[test]
fn hours_around_the_clock_are_always_and_have_no_end() {
    asleep().with(hours(&["00:00-12:00", "12:00-24:00"])).play(async |stage| {
        stage.at(HOUR).await;
        let status = stage.status();
        let why = status.kept_awake_by.unwrap();
        assert_eq!(why, "hours in which it must be awake (`awake`), always");
        let hours = status.opening_hours;
        assert_eq!((hours.awake_hours_in_s, hours.awake_hours_end_in_s), (None, None));
        assert!(hours.awake_hours_endless && !hours.never_sleep_endless);
        // Until midnight: those of another day count again.
        stage.order(nightwatt_gateway::control::Order::Sleep { site: None }).await;
        stage.at(HOUR + 60).await;
        let hours = stage.status().opening_hours;
        assert_eq!(hours.awake_hours_in_s, Some((11 * HOUR - 60) as f64));
        assert!(hours.awake_hours_endless && hours.awake_hours_suspended);
    });
}

#[test]
fn hours_in_which_it_never_sleeps_are_always_or_end_together() {
    fn never_sleep(texts: &'static [&'static str]) -> impl FnOnce(&mut Config) {
        move |config| {
            config.scenario.never_sleep = texts.iter().map(|text| text.parse().unwrap()).collect();
            config.scenario.policy = timeout(60);
        }
    }
    awake().with(never_sleep(&["00:00-24:00"])).play(async |stage| {
        stage.at(HOUR).await;
        let status = stage.status();
        let why = status.kept_awake_by.unwrap();
        assert_eq!(why, "hours in which it must not sleep (`never_sleep`), always");
        let hours = status.opening_hours;
        assert_eq!((hours.never_sleep_endless, hours.never_sleep_end_in_s), (true, None));
    });
    awake().with(never_sleep(&["08:00-14:00", "14:00-16:00"])).play(async |stage| {
        stage.at(HOUR).await;
        let status = stage.status();
        let why = status.kept_awake_by.unwrap();
        assert_eq!(why, "hours in which it must not sleep (`never_sleep`), for another 3h");
        let hours = status.opening_hours;
        let three_hours_s = Some((3 * HOUR) as f64);
        assert_eq!((hours.never_sleep_endless, hours.never_sleep_end_in_s), (false, three_hours_s));
    });
}

#[test]
fn a_reload_brings_other_hours_and_takes_them_away() {
    asleep().with(hours(&["20:00-21:00"])).play(async |stage| {
        stage.at(60).await;
        assert_eq!(stage.commands(), (0, 0));
        stage.reload(hours(&["12:00-13:00"])).await.unwrap();
        stage.at(120).await;
        assert_eq!(stage.commands(), (1, 0));
        stage.reload(hours(&[])).await.unwrap();
        stage.at(300).await;
        assert_eq!(stage.commands(), (1, 1));
    });
}
