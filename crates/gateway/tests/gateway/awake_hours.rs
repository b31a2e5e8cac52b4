//! Hours in which the server is awake. Every story begins on a Monday at noon, UTC.

use nightwatt_gateway::Config;
use nightwatt_gateway::ledger_file::WakeCause;

use crate::client::get;
use crate::stage::{asleep, timeout};

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
        assert_eq!((status.state.as_str(), status.awake_hours_in_s), ("asleep", Some(1795.0)));
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
        assert_eq!(status.awake_hours_in_s, None);
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
