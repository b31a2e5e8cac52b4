//! Servers that do not wake, or not at once.

use crate::client::{browse, get};
use crate::harness::{House, Plan, eventually, process};
use nightwatt_clock::Clock;
use serde_json::Value;

/// Wake commands that succeed, and a server that never comes; each command leaves a line. The next one, after this
/// time, ends one that still runs.
fn never_wakes(wake_timeout: &str) -> Plan {
    Plan {
        power: "[site.power.command]\nwake = \"echo wake >> DIR/commands\"\n\
                sleep = \"echo sleep >> DIR/commands\"\n"
            .to_owned(),
        site: format!("wake_timeout = \"{wake_timeout}\"\nwatch = \"0\""),
        ..Plan::default()
    }
}

#[test]
fn a_server_that_never_wakes_is_given_up_and_everybody_is_told() {
    // As long as a busy machine may take to run a command.
    let house = House::build(&never_wakes("5s"));
    let gateway = house.serve(&[]);
    gateway.until("asleep");

    let page = browse(gateway.address, "/").unwrap();
    assert_eq!((page.status, page.answer()), (503, "waiting-page"));
    assert!(page.text().contains("/.nightwatt/state"), "{}", page.text());
    let held = get(gateway.address, "/held").unwrap();
    assert!(matches!(held.status, 503 | 504), "{}", held.status);
    assert!(held.header("retry-after").is_some());

    let state = get(gateway.address, "/.nightwatt/state").unwrap();
    let state: Value = serde_json::from_slice(&state.body)
        .unwrap_or_else(|error| panic!("{error}: {} {:?}", state.status, state.text()));
    assert_eq!(state["state"], "failed");
    assert!(state["retry_after_s"].as_u64() > Some(30), "{state}");
    let status = gateway.until("failed");
    assert_eq!(status["failures"], 1);
    assert!(status["retry_after_s"].as_f64() > Some(30.0), "it backs off: {status}");
    let log = house.read("serve.log");
    assert!(log.contains("\"state\":\"failed\""), "{log}");
    assert!(log.contains("\"site\":\"site\""), "{log}");

    let commands = house.read("commands");
    assert_eq!(commands, "wake\nwake\nwake\n");
    for n in 0..20 {
        let refused = get(gateway.address, &format!("/{n}")).unwrap();
        assert_eq!(refused.status, 503);
    }
    assert_eq!(browse(gateway.address, "/").unwrap().status, 503);
    assert_eq!(house.read("commands"), commands, "no loop");
    assert_eq!(gateway.stop().0.code(), Some(0));
}

#[test]
fn a_request_is_not_held_for_ever() {
    let plan = Plan { tables: "[limits]\nhold = \"300ms\"".to_owned(), ..never_wakes("1m") };
    let house = House::build(&plan);
    let gateway = house.serve(&[]);
    let reply = get(gateway.address, "/held").unwrap();
    assert_eq!((reply.status, reply.answer()), (504, "timeout"), "{}", reply.text());
    assert_eq!(gateway.status()["held"], 0);
}

#[test]
fn wake_commands_that_fail_are_named_in_the_log() {
    let power = "[site.power.command]\nwake = \"echo the cable is out >&2; exit 3\"\n\
                 sleep = \"true\"\n";
    // As long as a busy machine may take to run a command.
    let house = House::build(&Plan { power: power.to_owned(), ..never_wakes("5s") });
    let gateway = house.serve(&[]);
    assert_eq!(get(gateway.address, "/").unwrap().status, 503);
    gateway.until("failed");
    let log = house.read("serve.log");
    assert!(log.contains("the cable is out") && log.contains("exit status: 3"), "{log}");
}

/// A server that says 502 for its first second; `probe` decides when it counts as awake.
fn says_502_at_first(probe: &str) {
    let script = "exec NIGHTWATT origin --listen ORIGIN --ttl 0 --bad-gateway-for 1s";
    let site = format!("wake_timeout = \"10s\"\nwatch = \"0\"\n{probe}");
    let house = House::build(&Plan { power: process(script), site, ..Plan::default() });
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    let clock = Clock::real();
    let asked = clock.now().mono;
    let address = gateway.address;
    let others: Vec<_> = (0..3)
        .map(|n| std::thread::spawn(move || get(address, &format!("/{n}")).unwrap().status))
        .collect();
    let reply = get(gateway.address, "/page").unwrap();
    let waited = clock.now().mono.since(asked).as_secs_f64();
    assert_eq!((reply.status, reply.answer()), (200, "held"), "{}", reply.text());
    assert!(waited > 0.9, "it was held for {waited} s");
    for other in others {
        assert_eq!(other.join().unwrap(), 200);
    }
    // All lines are written when it has ended.
    assert_eq!(gateway.stop().0.code(), Some(0));
    assert!(!house.read("access.log").contains("\" 502 "), "{}", house.read("access.log"));
}

#[test]
fn a_server_that_says_502_at_first_is_not_awake_yet() {
    says_502_at_first("");
}

#[test]
fn a_server_that_accepts_connections_but_says_502_at_first_is_not_shown_either() {
    says_502_at_first("probe = \"tcp ORIGIN\"");
}

#[test]
fn a_server_that_dies_is_noticed_and_woken_again() {
    let stay = Plan { policy: "always-on".to_owned(), ..Plan::default() };
    let house = House::build(&stay);
    let gateway = house.serve(&[]);
    assert_eq!(get(gateway.address, "/1").unwrap().status, 200);
    for pid in house.servers() {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    eventually("it is gone", || house.servers().is_empty().then_some(()));
    // A server that dies within 30 s of waking counts as failed: clients get an error at once.
    let reply = get(gateway.address, "/2").unwrap();
    assert!(matches!(reply.status, 200 | 503), "{}", reply.status);
    let status = gateway.status();
    assert!(status["state"] == "failed" || status["state"] == "awake", "{status}");
}

#[test]
fn a_server_that_counts_as_awake_before_it_listens_is_not_put_to_sleep_under_who_waits_for_it() {
    let script = "sleep 1; exec NIGHTWATT origin --listen ORIGIN --ttl 0";
    let site = "wake_timeout = \"10s\"\nwatch = \"0\"\nprobe = \"controller\"".to_owned();
    let house = House::build(&Plan { power: process(script), site, ..Plan::default() });
    let gateway = house.serve(&[]);
    let reply = get(gateway.address, "/").unwrap();
    let ledger = gateway.status()["ledger"].clone();
    assert_eq!(reply.status, 200, "{} {ledger}\n{}", reply.text(), house.read("serve.log"));
    assert_eq!(ledger["wakeups"], 1, "{ledger}\n{}", house.read("serve.log"));
}
