//! The operator's orders.

use crate::client::get;
use crate::harness::{House, Plan, process, told, unfolded};

#[test]
fn the_operator_wakes_it_and_puts_it_to_sleep() {
    let stay = Plan { policy: "always-on".to_owned(), ..Plan::default() };
    let house = House::build(&stay);
    let gateway = house.serve(&[]);
    gateway.until("asleep");

    let already = told(&gateway.order(&["sleep"]));
    assert!(already.contains("site is asleep already"), "{already}");
    let woken = gateway.order(&["wake"]);
    assert_eq!(woken.status.code(), Some(0));
    assert!(told(&woken).contains("the server is being woken\n"), "{}", told(&woken));
    gateway.until("awake");
    let already = told(&gateway.order(&["wake"]));
    assert!(already.contains("site is awake already"), "{already}");
    assert_eq!(house.servers().len(), 1);
    assert_eq!(get(gateway.address, "/").unwrap().answer(), "server");

    assert_eq!(gateway.order(&["sleep", "site"]).status.code(), Some(0));
    gateway.until("asleep");
    assert!(house.servers().is_empty());
    let records = house.ledger();
    let cause = records.iter().find_map(|record| record.cause.as_ref()).unwrap();
    assert_eq!(serde_json::to_value(cause).unwrap()["by"], "operator");

    let unknown = gateway.order(&["wake", "nobody"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(told(&unknown).contains("there are: site"), "{}", told(&unknown));
}

#[test]
fn an_order_can_wait_until_the_server_is_in_that_state() {
    let stay = Plan { policy: "always-on".to_owned(), ..Plan::default() };
    let house = House::build(&stay);
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    let woken = gateway.order(&["wake", "--wait", "--json"]);
    assert_eq!(woken.status.code(), Some(0), "{}", told(&woken));
    let said: serde_json::Value = serde_json::from_slice(&woken.stdout).unwrap();
    assert_eq!((&said["state"], &said["done"]), (&"awake".into(), &true.into()));
    assert_eq!(house.servers().len(), 1);
    let again = told(&gateway.order(&["wake", "--wait"]));
    assert!(again.contains("site is awake already"), "{again}");
    let slept = gateway.order(&["sleep", "site", "--wait"]);
    assert_eq!(slept.status.code(), Some(0), "{}", told(&slept));
    assert!(told(&slept).contains("site is asleep after"), "{}", told(&slept));
    assert!(house.servers().is_empty());
}

#[test]
fn what_another_started_is_awake_and_the_order_to_sleep_says_why() {
    let stay = Plan { policy: "always-on".to_owned(), ..Plan::default() };
    let house = House::build(&stay);
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    let theirs = house.start_origin();
    gateway.until("awake");
    assert!(house.servers().is_empty(), "nothing was started in vain");
    // As long as a busy machine may take to refuse it: the reason is told when this is over.
    let refused = gateway.order(&["sleep", "--wait", "--timeout", "10s"]);
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    assert!(told(&refused).contains("did not start answers"), "{}", told(&refused));
    let check = unfolded(&told(&gateway.order(&["check"])));
    assert!(check.contains("did not start what listens there"), "{check}");
    drop(theirs);
    gateway.until("asleep");
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
    let too_long = gateway.order(&["stay-awake", "--for", "8d"]);
    assert_eq!(too_long.status.code(), Some(2));
    assert!(told(&too_long).contains("for a week at most"), "{}", told(&too_long));
}

#[test]
fn the_operator_asks_why_a_client_is_refused_and_forgives_it() {
    let house = House::build(&Plan::default());
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    let never_seen = gateway.order(&["why", "203.0.113.9"]);
    let told_of_it = told(&never_seen);
    assert!(
        told_of_it.contains("site site: this client may wake it 20 times more this hour"),
        "{told_of_it}"
    );
    assert!(
        told_of_it.contains(
            "clients that are not recognised: 12 times more together, 3 of them from here"
        ),
        "{told_of_it}"
    );
    assert!(told_of_it.contains("keep the server awake alone for 12h more"), "{told_of_it}");
    assert!(told_of_it.contains("no client was seen from this address"), "{told_of_it}");

    let robot = gateway.order(&["why", "203.0.113.9", "--agent", "Googlebot/2.1", "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&robot.stdout).unwrap();
    let client = &said["sites"][0]["clients"][0];
    assert_eq!(
        (client["class"].as_str(), client["rule"].as_str()),
        (Some("crawler"), Some("crawler-table"))
    );

    let forgiven = gateway.order(&["forgive", "203.0.113.9"]);
    assert_eq!(forgiven.status.code(), Some(0));
    assert!(
        told(&forgiven).contains("forgave 0 clients; its budgets are full"),
        "{}",
        told(&forgiven)
    );
    for written in ["203.0.113.9:51008", "[2001:db8::1]", "[2001:db8::1]:443"] {
        assert_eq!(gateway.order(&["why", written]).status.code(), Some(0), "{written}");
    }
    let robot =
        gateway.order(&["why", "203.0.113.9", "--agent", "Stripe/1.0 (+https://a.example)"]);
    let told_of_it = told(&robot).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told_of_it.contains("by POST and the like wakes the server"), "{told_of_it}");
    assert_eq!(gateway.order(&["why", "host.example"]).status.code(), Some(2));
    assert_eq!(gateway.order(&["why", "203.0.113.9", "--site", "shop"]).status.code(), Some(2));
    for order in [
        &["wake", "shop"][..],
        &["sleep", "shop"],
        &["stay-awake", "shop"],
        &["status", "shop"],
        &["forgive", "203.0.113.9", "--site", "shop"],
        &["purge", "--all", "--site", "shop"],
        &["mirror", "status", "shop"],
        &["mirror", "refresh", "--site", "shop"],
        &["doctor", "shop"],
    ] {
        let refused = gateway.order(order);
        assert_eq!(refused.status.code(), Some(2), "{order:?}: {}", told(&refused));
        assert!(told(&refused).contains("`shop`"), "{order:?}: {}", told(&refused));
        assert!(told(&refused).contains("there are: site"), "{order:?}: {}", told(&refused));
    }
}

#[test]
fn the_operator_purges_the_cache() {
    let power = process("exec NIGHTWATT origin --listen ORIGIN --ttl 1h");
    let stay = Plan { power, policy: "always-on".to_owned(), ..Plan::default() };
    let house = House::build(&stay);
    let gateway = house.serve(&[]);
    gateway.order(&["wake"]);
    gateway.until("awake");
    let fetch = |paths: &[&str]| {
        paths.iter().map(|path| get(gateway.address, path).unwrap().answer().to_owned()).collect()
    };
    let first: Vec<String> = fetch(&["/a", "/a/1", "/a/2", "/b"]);
    assert_eq!(first, ["server"; 4]);
    let second: Vec<String> = fetch(&["/a", "/a/1", "/a/2", "/b"]);
    assert_eq!(second, ["cache"; 4]);

    let one = gateway.order(&["purge", "/a"]);
    assert_eq!((one.status.code(), told(&one).contains("purged 1 object")), (Some(0), true));
    let url = "http://site.test/a/";
    let some = gateway.order(&["purge", "--prefix", url, "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&some.stdout).unwrap();
    assert_eq!(said["purged"], 2, "{}", told(&some));
    let third: Vec<String> = fetch(&["/a", "/a/1", "/b"]);
    assert_eq!(third, ["server", "server", "cache"]);
    let all = gateway.order(&["purge", "--all", "--site", "site"]);
    assert!(told(&all).contains("purged 3 objects"), "{}", told(&all));
    assert_eq!(gateway.status()["cache"][0], 0);

    let bad = gateway.order(&["purge", "site/a"]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(told(&bad).contains("names no place"), "{}", told(&bad));
    assert!(!told(&bad).contains("nightwatt status"), "{}", told(&bad));
    // More than one order can hold.
    let many: Vec<String> = (0..3000).map(|number| format!("/{number:040}")).collect();
    let many: Vec<&str> = ["purge"].into_iter().chain(many.iter().map(String::as_str)).collect();
    let none = gateway.order(&many);
    assert!(told(&none).contains("purged 0 objects"), "{}", told(&none));
}

#[test]
fn status_gives_the_reason_of_the_last_failure() {
    let power =
        "[site.power.command]\nwake = \"echo no such relay >&2; exit 3\"\nsleep = \"true\"\n";
    let house = House::build(&Plan { power: power.to_owned(), ..Plan::default() });
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    gateway.order(&["wake"]);
    let status = gateway.until("failed");
    let reason = status["failure"].as_str().unwrap_or_default();
    assert!(reason.contains("no such relay"), "{status}");
    let page = told(&gateway.order(&["status"]));
    assert!(page.contains("1 failure in a row") && page.contains("  last failure"), "{page}");
}
