//! The published comparison, from the command line.

use std::fs;

use serde_json::Value;

use crate::harness::{nightwatt, shared_data, told};

const LOG: &str = r#"192.0.2.1 - - [05/Mar/2012:12:00:00 +0000] "GET / HTTP/1.1" 200 1000 "-" "Mozilla/5.0 (X11) Firefox/10"
192.0.2.1 - - [05/Mar/2012:12:10:00 +0000] "GET /b HTTP/1.1" 404 10 "-" "Mozilla/5.0 (X11) Firefox/10"
192.0.2.2 - - [05/Mar/2012:13:20:00 +0000] "GET /c HTTP/1.1" 200 1000 "-" "Googlebot/2.1"
"#;

#[test]
fn a_log_becomes_a_table_a_page_and_json() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(path("access.log"), LOG).unwrap();
    let (log, csv, html) = (path("access.log"), path("table.csv"), path("report.html"));
    let args = ["published", "--json", "--no-sla", "--table", &csv, "--html", &html, &log];
    let output = nightwatt(&args);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], "published/1");
    assert_eq!((&json["requests"], &json["policy"]), (&3.into(), &"window".into()));
    let survey = &json["configurations"][4];
    assert_eq!(survey["name"], "sleep_bots_survey");
    let counts = ["requests", "served_survey", "replayed_404", "bot_redirection"];
    assert_eq!(counts.map(|count| survey[count].as_u64()), [4, 1, 1, 1].map(Some));
    let table = fs::read_to_string(&csv).unwrap();
    assert!(table.contains("\nrequests,3,3,3,3,4\n"), "{table}");
    assert_eq!(table.lines().count(), 18);
    assert!(fs::read_to_string(&html).unwrap().contains("of another log"));

    let output = nightwatt(&["published", "--no-sla", &log]);
    let text = String::from_utf8(output.stdout).unwrap();
    for told in ["sleep_bots_survey", "bot_redirection", "Energy", "Share of the answers within"] {
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[test]
fn what_cannot_be_read_or_written_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log").display().to_string();
    let output = nightwatt(&["published", &log]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("access.log"), "{}", told(&output));
    fs::write(&log, LOG).unwrap();
    let output = nightwatt(&["published", "--table", "/no/such/folder/t.csv", &log]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("cannot write /no/such/folder/t.csv"), "{}", told(&output));
    assert_eq!(nightwatt(&["published"]).status.code(), Some(2));
}

/// Real logs (`NIGHTWATT_DATA`, default `../shared/data`).
fn over(log: &str, options: &[&str]) -> Option<Value> {
    let data = shared_data()?;
    let log = data.join("logs").join(log).display().to_string();
    let output = nightwatt(&[&[options[0], "--json", &log], &options[1..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn nobody_is_lost_on_real_logs() {
    for log in ["secrepo_2018-12-15.log.gz", "erddap_nginx_2024.log.gz"] {
        for crawlers in ["published", "classifier"] {
            let options = ["published", "--crawlers", crawlers];
            let Some(all) = over(log, &options) else { return };
            let count = |of: &Value, key: &str| of[key].as_u64().unwrap();
            let asked = count(&all, "requests");
            let columns = all["configurations"].as_array().unwrap();
            assert_eq!(columns.len(), 5);
            for it in columns {
                let sum = |keys: &[&str]| keys.iter().map(|key| count(it, key)).sum::<u64>();
                let requests = asked + sum(&["malformed", "served_survey"]);
                assert_eq!(count(it, "requests"), requests, "{it}");
                let served = sum(&["malformed", "served_by_origin", "served_by_proxy"]);
                assert_eq!(served, requests, "{it}");
                let statuses = sum(&["http_200", "http_404", "http_503", "http_other"]);
                let answers = statuses + sum(&["malformed", "bot_redirection", "served_survey"]);
                assert_eq!(answers, requests, "{it}");
                // The SLA: a tenth may wait. Crawlers and the cache only add to the rest.
                assert!(it["within_50ms_share"].as_f64() >= Some(0.9), "{it}");
            }
        }
    }
}

/// Two paths through two implementations of the accounting.
#[test]
fn the_cache_answers_what_analyze_says_it_does() {
    let log = "secrepo_2018-12-15.log.gz";
    let Some(compared) = over(log, &["published"]) else { return };
    let analyzed = over(log, &["analyze"]).unwrap();
    for (place, key) in [(1, "default"), (2, "grace")] {
        let answered = compared["configurations"][place]["served_by_proxy"].as_f64().unwrap();
        let share = answered / compared["requests"].as_f64().unwrap();
        let told = analyzed["cache_share"][key].as_f64().unwrap();
        assert!((share - told).abs() < 1e-12, "{key}: {share}, not {told}");
    }
}
