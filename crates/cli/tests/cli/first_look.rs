//! What a new user sees who has set nothing yet, or has made a slip.

use std::fmt::Write;
use std::fs;

use crate::analyze::{BARE, Desk, THREE, json};
use crate::harness::{nightwatt, told};

/// A request each hour for a day and a half.
fn day_and_a_half() -> String {
    let mut log = String::new();
    for hour in 0..37 {
        let (day, hour) = (4 + hour / 24, hour % 24);
        let agent = "Mozilla/5.0 (X11) Firefox/115.0";
        let _ = writeln!(
            log,
            "198.51.100.{hour} - - [{day:02}/Mar/2024:{hour:02}:00:00 +0000] \"GET /{hour} HTTP/1.1\" 200 500 \"-\" \
             \"{agent}\""
        );
    }
    log
}

fn flowing(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn an_assumed_server_is_not_taken_for_the_users() {
    let desk = Desk::new();
    let (log, page) = (desk.write("a.log", day_and_a_half()), desk.path("a.html"));
    let output = nightwatt(&["analyze", &log, "--no-sla", "--html", &page]);
    let text = String::from_utf8(output.stdout).unwrap();
    let (first, rest) = text.split_once("\n\n").unwrap();
    let verdict = flowing(first);
    let (share, rest_of_verdict) = verdict.split_once(" % of the energy of a server").unwrap();
    assert!(share.starts_with("With `learned` you would save "), "{verdict}");
    let assumed = "if yours draws 43.3 W awake and 1.6 W asleep (assumed; set yours: `--scenario`)";
    assert!(rest_of_verdict.contains(assumed), "{verdict}");
    assert!(verdict.ends_with("Careful: 1.5 days of log: a year is a rough guess"), "{verdict}");
    let rest = flowing(rest);
    assert!(
        rest.contains("Assumed: the server draws 43.3 W awake and 1.6 W asleep, and the proxy 5 W"),
        "{rest}"
    );
    assert!(rest.contains("each sleep, all assumed;"), "{rest}");
    assert!(!rest.contains("± 5.0 %") && !rest.contains("known within"), "{rest}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("(assumed; set yours:") && page.contains("a year is a rough guess"));
    assert_eq!(json(&[&log])["watts_assumed"], true);

    let own = desk.write("own.toml", BARE);
    let text = flowing(&desk.said(&[&log, "--scenario", &own]));
    assert!(!text.contains("assumed;") && text.contains("± 5.0 % (95 %)"), "{text}");
    assert!(text.contains("known within 5 %") && !text.contains("the server draws"), "{text}");
    assert_eq!(json(&[&log, "--scenario", &own])["watts_assumed"], false);
}

#[test]
fn a_log_that_is_empty_or_not_there_is_named() {
    let desk = Desk::new();
    let (good, empty) = (desk.write("good.log", THREE), desk.write("empty.log", ""));
    let output = nightwatt(&["analyze", &good, &empty]);
    assert_eq!(output.status.code(), Some(0));
    assert!(told(&output).contains(&format!("warning: {empty}: no request")), "{}", told(&output));
    let missing = desk.path("nosuch.log");
    let output = nightwatt(&["analyze", &good, &missing]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let said = told(&output);
    assert!(said.contains("3 lines: 3 requests"), "the other is analysed: {said}");
    assert!(said.contains(&format!("cannot open log {missing}")), "{said}");
    assert!(!said.contains("no request"), "one warning for one log: {said}");
    let output = nightwatt(&["fleet", "size", &empty]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains(&format!("{empty} holds no request")), "{}", told(&output));
}

#[test]
fn a_pool_names_the_watts_that_are_assumed() {
    let desk = Desk::new();
    let log = desk.write("a.log", day_and_a_half());
    let output = nightwatt(&["fleet", "size", &log, "--busy", "90"]);
    let text = flowing(&told(&output));
    let assumed =
        "Assumed: 0 W off (`--off`), 1.8 W idle (`--idle`), 10 J for each start (`--switch-j`).";
    assert!(text.contains(assumed), "{text}");
}

#[test]
fn an_option_that_is_not_there_is_no_program() {
    let output = nightwatt(&["run", "--repeats", "3", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    let wanted = "error: there is no option `--repeats`; similar: `--repeat`\n\
                  hint: a program whose name begins with - goes after --";
    assert!(told(&output).contains(wanted), "{}", told(&output));
    let output = nightwatt(&["run", "-m", "model", "--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(127));
    let hint = "hint: it is not in PATH: give its path, such as ./prog";
    assert!(told(&output).contains(hint), "{}", told(&output));
}

#[test]
fn a_modelled_power_is_a_rough_figure() {
    let output = nightwatt(&["meters", "-m", "model"]);
    let text = told(&output);
    let line = text.lines().find(|line| line.contains("modelled")).unwrap();
    let (_, after) = line.split_once("about ").unwrap();
    let digits = after.split_whitespace().next().unwrap();
    let significant = digits.trim_start_matches(['0', '.']).trim_end_matches('0');
    // The default model is known within a factor.
    assert!(!line.contains("factor of") || significant.len() <= 1, "{line}");
}
