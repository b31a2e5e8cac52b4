//! SIGKILL at the worst moments: the next gateway finds the true state of the server, the ledger
//! is intact, requests are served.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;

use nightwatt_policy::lifecycle::Change;

use crate::client::{connect, get, head, post, receive};
use crate::harness::{House, Plan, eventually, process};

/// A server that starts when the test lets it [`go`].
const SLOW_TO_START: &str = "while [ ! -e DIR/go ]; do sleep 0.05; done; \
     exec NIGHTWATT origin --listen ORIGIN --ttl 0 --record DIR/served.tsv";

/// A server that stops serving when told to, which it says, and is gone when the test lets it [`go`].
const SLOW_TO_STOP: &str = "trap 'echo told > DIR/told; \
     while [ ! -e DIR/go ]; do sleep 0.05; done; exit 0' TERM; \
     NIGHTWATT origin --listen ORIGIN --ttl 0 --record DIR/served.tsv & \
     while true; do wait; done";

fn plan(script: &str, wake_timeout: &str) -> Plan {
    let site = format!("wake_timeout = \"{wake_timeout}\"\nwatch = \"300ms\"");
    Plan { power: process(script), site, ..Plan::default() }
}

fn go(house: &House) {
    std::fs::write(house.path("go"), "").unwrap();
}

/// Everything that must hold after a crash and a restart, which finds a server that is on its way.
fn serves_again(house: &House, records_before: usize) {
    let gateway = house.serve(&[]);
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(&head("GET", "/after", "")).unwrap();
    eventually("the request waits", || (gateway.status()["held"] == 1).then_some(()));
    go(house);
    let reply = receive(stream).unwrap();
    assert_eq!(reply.status, 200, "{}\n{}", reply.text(), house.read("serve.log"));
    assert_eq!(house.served().iter().filter(|it| *it == "/after").count(), 1);
    let asleep = gateway.until("asleep");
    assert!(asleep["ledger"]["unobserved_s"].as_f64() > Some(0.0), "{}", asleep["ledger"]);
    assert!(house.servers().is_empty(), "no server was forgotten");
    assert_eq!(gateway.stop().0.code(), Some(0));
    let records = house.ledger();
    assert!(records.len() > records_before, "{} -> {}", records_before, records.len());
}

#[test]
fn killed_in_the_middle_of_a_wake_up() {
    let house = House::build(&plan(SLOW_TO_START, "60s"));
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(&head("GET", "/before", "")).unwrap();
    gateway.until("waking");
    eventually("the process was started", || (!house.servers().is_empty()).then_some(()));
    let records = house.ledger().len();
    gateway.kill();
    receive(stream).unwrap_err();
    assert_eq!(house.ledger().len(), records);
    serves_again(&house, records);
}

#[test]
fn killed_in_the_middle_of_a_wake_up_it_takes_over_the_server_that_came_up_meanwhile() {
    // The policy must not put the server to sleep before the order to stay awake arrives.
    let plan = Plan { policy: "timeout 1h".to_owned(), ..plan(SLOW_TO_START, "60s") };
    let house = House::build(&plan);
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    gateway.order(&["wake"]);
    gateway.until("waking");
    // The state is told before the process is started.
    eventually("the process was started", || (!house.servers().is_empty()).then_some(()));
    gateway.kill();
    go(&house);
    eventually("the server is up", || get(house.origin, "/up").ok());
    let servers = house.servers();
    let gateway = house.serve(&[]);
    gateway.order(&["stay-awake"]);
    let awake = gateway.until("awake");
    assert_eq!(house.servers(), servers, "the same process");
    assert_eq!(awake["ledger"]["wakeups"], 0, "it was found awake: {}", awake["ledger"]);
    assert_eq!(get(gateway.address, "/after").unwrap().answer(), "server");
}

#[test]
fn killed_in_the_middle_of_a_sleep() {
    let house = House::build(&plan(SLOW_TO_STOP, "60s"));
    let gateway = house.serve(&[]);
    let reply = get(gateway.address, "/before").unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    gateway.until("falling-asleep");
    // The state is told before it is on the ledger, and before the server is told to stop.
    eventually("the server was told to stop", || house.path("told").exists().then_some(()));
    eventually("it serves no more", || TcpStream::connect(house.origin).err());
    assert_eq!(house.ledger().last().unwrap().change, Some(Change::FallingAsleep));
    let records = house.ledger().len();
    gateway.kill();
    assert_eq!(house.ledger().len(), records);
    serves_again(&house, records);
}

#[test]
fn killed_with_an_upload_in_its_spool() {
    let house = House::build(&plan(SLOW_TO_START, "60s"));
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    let mut stream = connect(gateway.address).unwrap();
    let body = vec![b'x'; 200_000];
    let fields = format!("Content-Length: {}\r\n", body.len());
    stream.write_all(&head("POST", "/upload", &fields)).unwrap();
    stream.write_all(&body[..100_000]).unwrap();
    gateway.until("waking");
    let records = house.ledger().len();
    gateway.kill();
    let error = receive(stream).unwrap_err();
    assert_ne!(error.kind(), ErrorKind::WouldBlock, "the client learns of it at once");
    go(&house);
    let gateway = house.serve(&[]);
    let reply = post(gateway.address, "/upload", &body).unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    let record = house.read("served.tsv");
    let uploads: Vec<&str> = record.lines().filter(|line| line.contains("/upload")).collect();
    assert_eq!(uploads.len(), 1, "the half upload never reached the server: {record}");
    assert!(uploads[0].ends_with("\t200000"), "{}", uploads[0]);
    assert_eq!(gateway.stop().0.code(), Some(0));
    assert!(house.ledger().len() > records);
}
