//! The demo over real logs (`NIGHTWATT_DATA`, default `../shared/data`).

use serde_json::Value;

use crate::harness::{nightwatt, shared_data, told};

fn played(log: &str, options: &[&str]) -> Option<Value> {
    let log = shared_data()?.join("logs").join(log).display().to_string();
    let output = nightwatt(&[&["demo", "--json", "--log", &log], options].concat());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// What must hold whatever the policy.
fn is_sound(week: &Value) {
    let answers = week["answers"].as_object().unwrap().values();
    let answered: u64 = answers.map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(week["requests"], answered);
    assert_eq!((&week["lost"], &week["doubled"]), (&0.into(), &0.into()));
    for class in ["crawler", "monitor", "scanner"] {
        assert_eq!(week["wakeups_by_class"][class], 0, "{class}");
    }
    let crawlers = &week["crawlers"];
    assert!(crawlers["sent_away"].as_u64() > Some(0));
    assert_eq!(crawlers["sent_away"], crawlers["served_within_24_h"], "{crawlers}");
    assert_eq!(week["human_refused"], 0);
    let energy = |key: &str| week["energy_j"][key].as_f64().unwrap();
    let saving = 1.0 - (energy("server") + energy("proxy")) / energy("always_on");
    assert!((week["saving"].as_f64().unwrap() - saving).abs() < 1e-9);
    // 43.3 W and 5 W all the time; the server never draws less than asleep.
    let seconds = week["span_s"].as_f64().unwrap();
    assert!((energy("always_on") / (43.3 * seconds) - 1.0).abs() < 1e-6);
    assert!((energy("proxy") / (5.0 * seconds) - 1.0).abs() < 1e-6);
    assert!(energy("server") > 1.6 * seconds && energy("oracle") > 1.6 * seconds);
}

#[test]
#[ignore = "a minute of computing: `make nightly LANE=soak`"]
fn a_week_of_march_without_an_sla_saves_more_than_six_tenths() {
    let options = ["--days", "7", "--policy", "timeout 5s", "--no-sla"];
    let Some(week) = played("yuvi_in_nginx_2012-03.log.gz", &options) else { return };
    is_sound(&week);
    assert!(week["saving"].as_f64() > Some(0.6), "{}", week["saving"]);
    // All lines are accounted for: played, or held no HTTP request, or could not be read.
    let log = &week["log"];
    let count = |value: &Value| value.as_u64().unwrap();
    let others = count(&log["bad_requests"]) + count(&log["malformed"]);
    assert!(count(&week["requests"]) + others <= count(&log["lines"]));
}

#[test]
#[ignore = "a minute of computing: `make nightly LANE=soak`"]
fn other_logs_are_played_soundly_too() {
    for log in ["secrepo_2018-12-15.log.gz", "erddap_nginx_2024.log.gz"] {
        let Some(days) = played(log, &["--policy", "ski-rental", "--no-sla"]) else { return };
        is_sound(&days);
    }
}

/// Plays the first days of March, and compares them with what `analyze` says of them.
fn agrees(policy: &str, days: &str) -> Option<Value> {
    let options = ["--days", days, "--policy", policy];
    let week = played("yuvi_in_nginx_2012-03.log.gz", &options)?;
    is_sound(&week);
    let log = shared_data()?.join("logs/yuvi_in_nginx_2012-03.log.gz").display().to_string();
    let output = nightwatt(&[&["analyze", "--json", &log], &options[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let analysis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let promised = &analysis["policies"][policy];
    let number = |value: &Value| value.as_f64().unwrap();
    let energy = &week["energy_j"];
    let (played, said) =
        (number(&energy["server"]) + number(&energy["proxy"]), number(&promised["energy_j"]));
    assert!((said / played - 1.0).abs() <= 0.03, "{said} J, played {played} J");
    let days = number(&analysis["span_s"]) / 86_400.0;
    let (played, said) = (number(&week["wakeups"]), days * number(&promised["wakeups_per_day"]));
    assert!((said / played - 1.0).abs() <= 0.05, "{said} wake-ups, played {played}");
    Some(week)
}

/// Over days of the default policy the SLA is kept, and something is saved.
fn the_default_policy_keeps_the_sla(days: &str) {
    let Some(week) = agrees("learned", days) else { return };
    let count = |key: &str| week[key].as_f64().unwrap();
    let share = count("delayed_requests") / count("admitted");
    assert!(share <= 0.10, "{share}");
    assert!(count("saving") > 0.0);
}

#[test]
fn analyze_and_demo_agree_on_three_days_of_the_published_policy() {
    agrees("window", "3");
}

#[test]
fn analyze_and_demo_agree_on_three_days_of_the_default_policy() {
    the_default_policy_keeps_the_sla("3");
}

#[test]
#[ignore = "a minute of computing: `make nightly LANE=soak`"]
fn analyze_and_demo_agree_on_the_published_policy() {
    agrees("window", "7");
}

#[test]
#[ignore = "a minute of computing: `make nightly LANE=soak`"]
fn a_week_of_march_with_the_default_policy_keeps_the_sla_and_analyze_agrees() {
    the_default_policy_keeps_the_sla("7");
}
