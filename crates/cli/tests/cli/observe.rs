//! Shadow mode.

use crate::client::get;
use crate::harness::{House, Plan, eventually, told};

#[test]
fn observed_servers_are_left_alone_and_what_sleep_would_save_is_told() {
    let power = "[site.power.command]\nwake = \"echo wake >> DIR/commands\"\n\
                 sleep = \"echo sleep >> DIR/commands\"\n";
    let house = House::build(&Plan { power: power.to_owned(), ..Plan::default() });
    let mut origin = house.start_origin();
    let gateway = house.serve(&["--observe"]);
    let asleep = |sleeps: u64| {
        eventually("the shadow sleeps", || {
            let shadow = gateway.status()["shadow"].clone();
            (shadow["state"] == "asleep" && shadow["ledger"]["sleeps"] == sleeps).then_some(shadow)
        })
    };
    asleep(1);
    let reply = get(gateway.address, "/").unwrap();
    assert_eq!((reply.status, reply.answer()), (200, "server"), "nobody is really delayed");
    let shadow = asleep(2);
    assert_eq!((&shadow["requests"], &shadow["delayed_requests"]), (&1.into(), &1.into()));
    assert_eq!(shadow["ledger"]["wakeups"], 1);
    let status = gateway.status();
    assert_eq!((&status["state"], &status["ledger"]["sleeps"]), (&"awake".into(), &0.into()));
    // Lines are written after the answers.
    eventually("the log says so", || house.read("access.log").contains("would=held").then_some(()));

    let refused = gateway.order(&["sleep"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(told(&refused).contains("shadow mode"), "{}", told(&refused));
    let page = told(&gateway.order(&["status"]));
    assert!(page.contains("had it been let sleep"), "{page}");

    let (ended, report) = gateway.stop();
    assert_eq!(ended.code(), Some(0));
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["sites"][0]["shadow"]["delayed_visits"], 1);
    assert!(origin.runs());
    assert_eq!(house.read("commands"), "", "no command was ever given");
}
