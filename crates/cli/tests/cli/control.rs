//! The operator's orders.

use crate::client::get;
use crate::harness::{House, Plan, told};

#[test]
fn the_operator_wakes_it_and_puts_it_to_sleep() {
    let stay = Plan { policy: "always-on".to_owned(), ..Plan::default() };
    let house = House::build(&stay);
    let gateway = house.serve(&[]);
    gateway.until("asleep");

    assert_eq!(gateway.order(&["wake"]).status.code(), Some(0));
    gateway.until("awake");
    assert_eq!(house.servers().len(), 1);
    assert_eq!(get(gateway.address, "/").unwrap().answer(), "server");

    assert_eq!(gateway.order(&["sleep", "site"]).status.code(), Some(0));
    gateway.until("asleep");
    assert!(house.servers().is_empty());
    let records = house.ledger();
    let cause = records.iter().find_map(|record| record.cause.as_ref()).unwrap();
    assert_eq!(serde_json::to_value(cause).unwrap()["by"], "operator");

    let unknown = gateway.order(&["wake", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(told(&unknown).contains("there are: site"), "{}", told(&unknown));
}

#[test]
fn kept_awake_it_stays_awake_until_it_is_told_to_sleep() {
    let house = House::build(&Plan::default());
    let gateway = house.serve(&[]);
    let said = gateway.order(&["stay-awake", "--for", "2h", "--json"]);
    assert_eq!(said.status.code(), Some(0));
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["order"]["seconds"], 7200);
    let status = gateway.until("awake");
    let reason = status["kept_awake_by"].as_str().unwrap();
    assert!(reason.contains("stay-awake"), "{reason}");
    gateway.order(&["sleep"]);
    gateway.until("asleep");
}
