//! The story that all of this is for.

use crate::client::{connect, get, head, receive};
use crate::harness::{House, Plan, eventually, process, told};
use nightwatt_gateway::ledger_file::Record;
use nightwatt_policy::lifecycle::Change;
use rustix::process::Signal;
use std::io::Write;

#[test]
fn a_server_sleeps_when_nobody_asks_and_wakes_for_whoever_does() {
    let house = House::build(&Plan::default());
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    assert!(house.servers().is_empty());

    let first = get(gateway.address, "/first").unwrap();
    assert_eq!((first.status, first.answer()), (200, "held"), "{}", first.text());
    let asleep = gateway.until("asleep");
    assert!(house.servers().is_empty(), "the process is really gone");
    assert_eq!(asleep["ledger"]["wakeups"], 1);
    assert_eq!(asleep["ledger"]["sleeps"], 1);

    let second = get(gateway.address, "/second").unwrap();
    assert_eq!((second.status, second.answer()), (200, "held"), "{}", second.text());
    let length = second.header("content-length").unwrap();
    assert_eq!(length, second.body.len().to_string(), "the answer is complete");
    assert_eq!(house.served(), ["/first", "/second"], "nothing lost, nothing doubled");

    let status = gateway.until("asleep");
    assert_eq!(status["answers"]["held"], 2);
    assert_eq!(status["ledger"]["wakeups"], 2);
    let ledger = &status["ledger"];
    for figure in ["span_s", "awake_s", "asleep_s"] {
        assert!(ledger[figure].as_f64().unwrap() > 0.0, "{figure}: {ledger}");
    }
    assert_eq!(ledger["server"]["provenance"]["kind"], "modelled");

    let (ended, _) = gateway.stop();
    assert_eq!(ended.code(), Some(0), "{}", house.read("serve.log"));
    assert!(!house.path("state/control.sock").exists());

    let log = house.read("access.log");
    assert_eq!(log.lines().count(), 2, "{log}");
    let causes: Vec<_> = house.ledger().into_iter().filter_map(|it| it.cause).collect();
    assert_eq!(causes.len(), 2, "every wake-up has its cause: {causes:?}");
    for (cause, line) in causes.iter().zip(log.lines()) {
        let cause = serde_json::to_value(cause).unwrap();
        let id = cause["id"].as_str().unwrap();
        assert!(line.contains(&format!(" id={id} ")), "{cause} is the request of {line}");
    }
}

#[test]
fn requests_that_come_together_wake_it_once_and_are_all_answered() {
    // It starts once all of them wait: one that comes later could find it asleep again.
    let script = "while [ ! -e DIR/go ]; do sleep 0.05; done; \
                  exec NIGHTWATT origin --listen ORIGIN --ttl 0 --record DIR/served.tsv";
    let site = "wake_timeout = \"60s\"\nwatch = \"500ms\"".to_owned();
    let house = House::build(&Plan { power: process(script), site, ..Plan::default() });
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    let address = gateway.address;
    let askers: Vec<_> = (0..8)
        .map(|n| std::thread::spawn(move || get(address, &format!("/{n}")).unwrap().status))
        .collect();
    eventually("all of them wait", || (gateway.status()["held"] == 8).then_some(()));
    std::fs::write(house.path("go"), "").unwrap();
    for asker in askers {
        assert_eq!(asker.join().unwrap(), 200);
    }
    assert_eq!(gateway.until("asleep")["ledger"]["wakeups"], 1);
    let mut served = house.served();
    served.sort();
    assert_eq!(served, ["/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7"]);
}

#[test]
fn what_is_under_way_is_finished_before_it_stops() {
    let house = House::build(&Plan::by_file());
    let answers = house.held_answers();
    let mut gateway = house.serve(&[]);
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(&head("GET", "/slow", "")).unwrap();
    eventually("the server works on it", || {
        (gateway.status()["in_flight"].as_u64() > Some(0)).then_some(())
    });
    gateway.signal(Signal::TERM);
    eventually("it is stopping", || house.read("serve.log").contains("stopping").then_some(()));
    answers.send(()).unwrap();
    let reply = receive(stream).unwrap();
    assert_eq!(reply.status, 200);
    assert_eq!(gateway.wait().0.code(), Some(0));
}

#[test]
fn who_cannot_wait_for_the_end_signals_twice() {
    let house = House::build(&Plan::by_file());
    let _never = house.held_answers();
    let mut gateway = house.serve(&[]);
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(&head("GET", "/slow", "")).unwrap();
    eventually("the server works on it", || {
        (gateway.status()["in_flight"].as_u64() > Some(0)).then_some(())
    });
    gateway.signal(Signal::TERM);
    eventually("it is stopping", || house.read("serve.log").contains("stopping").then_some(()));
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait().0.code(), Some(1));
    assert!(receive(stream).is_err());
    let changes: Vec<_> = house.ledger().into_iter().filter_map(|it| it.change).collect();
    assert_eq!(changes.last(), Some(&Change::Woke), "the ledger was written all the same");
}

#[test]
fn the_page_for_people_says_what_the_json_says() {
    let house = House::build(&Plan::default());
    let gateway = house.serve(&[]);
    get(gateway.address, "/").unwrap();
    gateway.until("asleep");
    let page = told(&gateway.order(&["status"]));
    for part in ["site: asleep for", "1 request: 1 held", "1 sleep, 1 wake-up", "modelled by"] {
        let is_there = page.split_whitespace().collect::<Vec<_>>().join(" ").contains(part);
        assert!(is_there, "{part:?} is not in {page}");
    }
    assert_eq!(gateway.order(&["status", "nobody"]).status.code(), Some(2));
}

#[test]
fn who_comes_before_the_first_look_at_the_server_is_named_as_the_cause_too() {
    let power = "[site.power.command]\nwake = \"touch DIR/up\"\nsleep = \"rm -f DIR/up\"\n\
                 probe = \"while [ ! -e DIR/look ]; do sleep 0.05; done; test -e DIR/up\"\n";
    let site = "probe = \"controller\"\nwatch = \"0\"".to_owned();
    let plan = Plan { power: power.to_owned(), site, ..Plan::default() };
    let house = House::build(&plan);
    let _origin = house.start_origin();
    let gateway = house.serve(&[]);
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(&head("GET", "/early", "")).unwrap();
    let status = eventually("the request waits", || {
        Some(gateway.status()).filter(|status| status["held"] == 1)
    });
    assert_eq!(status["state"], "unknown");
    std::fs::write(house.path("look"), "").unwrap();
    let reply = receive(stream).unwrap();
    assert_eq!((reply.status, reply.answer()), (200, "held"), "{}", reply.text());
    let waking = |record: &Record| record.change == Some(Change::Waking);
    let record = house.ledger().into_iter().find(waking).unwrap();
    let cause = serde_json::to_value(record.cause).unwrap();
    assert_eq!(cause["line"], "GET /early", "{cause}");
}
