//! What `serve` has learned outlives it: its end, its death, and a bad disk.

use std::fs;

use serde_json::Value;

use crate::client::get;
use crate::harness::{Gateway, House, Plan, eventually, told};

const LESSONS: &str = "state/site.lessons.json";

fn learning() -> House {
    House::build(&Plan { policy: "learned".to_owned(), ..Plan::default() })
}

fn learned_from(gateway: &Gateway) -> Option<f64> {
    gateway.status()["learned_from_s"].as_f64()
}

fn stop(gateway: Gateway) {
    assert_eq!(gateway.stop().0.code(), Some(0));
}

/// The line of the log that speaks of stored lessons.
fn said(house: &House, of: &str) -> Value {
    let log = house.read("serve.log");
    let line = log.lines().rfind(|line| line.contains(of));
    serde_json::from_str(line.unwrap_or_else(|| panic!("{of:?} is not in {log}"))).unwrap()
}

#[test]
fn a_second_run_goes_on_with_what_the_first_has_learned() {
    let house = learning();
    let gateway = house.serve(&[]);
    assert_eq!(learned_from(&gateway), None, "before the first request there is nothing");
    get(gateway.address, "/").unwrap();
    let first = eventually("it has watched", || learned_from(&gateway).filter(|&time| time > 0.0));
    stop(gateway);
    assert!(!house.path("state/site.lessons.json.new").exists());
    let gateway = house.serve(&[]);
    let second = learned_from(&gateway).expect("it learns");
    assert!(second >= first, "{second} s after {first} s");
    let page = told(&gateway.order(&["status"]));
    assert!(page.contains("learned from") && page.contains(" of requests"), "{page}");
    said(&house, "goes on with what it has learned");
    stop(gateway);
}

#[test]
fn what_was_stored_before_kinds_of_day_were_distinguished_is_used() {
    let house = learning();
    fs::create_dir_all(house.path("state")).unwrap();
    // Written by the program of 28 November 2026 (7b4d34ed), which had watched for 20.9 s.
    fs::write(house.path(LESSONS), include_str!("lessons_without_kinds_of_day.json")).unwrap();
    let gateway = house.serve(&[]);
    let watched = learned_from(&gateway).expect("it has lessons");
    assert!((20.8..60.0).contains(&watched), "{watched} s");
    said(&house, "goes on with what it has learned");
    stop(gateway);
    assert!(house.read(LESSONS).contains("hours_of_kind"), "it stores what it knows now");
}

#[test]
fn lessons_of_no_use_are_named_in_one_line_and_kept_aside() {
    let house = learning();
    let gateway = house.serve(&[]);
    get(gateway.address, "/").unwrap();
    stop(gateway);
    assert!(
        !house.read("serve.log").contains("learns from scratch"),
        "{}",
        house.read("serve.log")
    );
    let good = house.read(LESSONS);
    let cases = [
        ("\0\0\0\0".to_owned(), "it is damaged"),
        (good[..good.len() / 2].to_owned(), "it is damaged"),
        (good.replacen("\"v\":1", "\"v\":2", 1), "its form is version 2"),
        (good.replacen("\"at\":", "\"at\":9", 1), "from now"),
    ];
    for (text, why) in cases {
        fs::write(house.path(LESSONS), &text).unwrap();
        let gateway = house.serve(&[]);
        assert_eq!(learned_from(&gateway), None, "{why}");
        assert_eq!(get(gateway.address, "/").unwrap().status, 200);
        let line = said(&house, "learns from scratch");
        let told = line.to_string();
        assert!(told.contains(why) && told.contains("hint"), "{told}");
        assert_eq!(house.read("state/site.lessons.json.bad"), text);
        stop(gateway);
        assert!(house.read(LESSONS).starts_with("{\"v\":1,"), "it has stored new ones");
    }
}
