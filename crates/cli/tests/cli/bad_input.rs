//! What no server should be bothered with, and what no proxy may fall over.

use crate::client::{get, head, post, send};
use crate::harness::{Gateway, House, Plan, told};

fn bounded() -> Plan {
    Plan {
        tables: "[limits]\nbody_bytes = 1000".to_owned(),
        policy: "always-on".to_owned(),
        ..Plan::default()
    }
}

fn still_serves(gateway: &Gateway) {
    let reply = get(gateway.address, "/still").unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[test]
fn heads_that_are_too_long_are_refused() {
    let house = House::build(&bounded());
    let gateway = house.serve(&[]);
    let long = format!("X-Long: {}\r\n", "x".repeat(100_000));
    assert_eq!(send(gateway.address, &head("GET", "/", &long), b"").unwrap().status, 431);
    let many = "X-Many: y\r\n".repeat(5000);
    assert_eq!(send(gateway.address, &head("GET", "/", &many), b"").unwrap().status, 431);
    let target = format!("/{}", "x".repeat(100_000));
    let reply = send(gateway.address, &head("GET", &target, ""), b"").unwrap();
    assert!(matches!(reply.status, 414 | 431), "{}", reply.status);
    still_serves(&gateway);
}

#[test]
fn what_is_not_http_is_refused() {
    let house = House::build(&bounded());
    let gateway = house.serve(&[]);
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is TLS\r\n\r\n"[..],
        b"hello?\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n",
    ] {
        let shown = String::from_utf8_lossy(garbage);
        let closing = shown.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
        let bytes = if shown.contains("Host") { closing.as_bytes() } else { garbage };
        let reply = send(gateway.address, bytes, b"").unwrap_or_else(|it| panic!("{it}: {shown}"));
        let expected = if shown.contains("HTTP/9.9") { 505 } else { 400 };
        assert_eq!(reply.status, expected, "{shown}");
    }
    still_serves(&gateway);
}

#[test]
fn a_body_of_two_lengths_is_refused_or_passed_on_with_one() {
    let house = House::build(&bounded());
    let gateway = house.serve(&[]);
    let head = head("POST", "/two", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n");
    let reply = send(gateway.address, &head, b"3\r\nabc\r\n0\r\n\r\n").unwrap();
    let record = house.read("served.tsv");
    let passed_on = record.lines().find(|line| line.contains("/two"));
    let sound = match passed_on {
        None => reply.status == 400,
        Some(line) => reply.status == 200 && line.ends_with("\t3"),
    };
    assert!(sound, "{} {record}", reply.status);
    still_serves(&gateway);
}

#[test]
fn bodies_over_the_bound_are_refused() {
    let house = House::build(&bounded());
    let gateway = house.serve(&[]);
    let body = vec![b'x'; 5000];
    let asleep = post(gateway.address, "/big", &body).unwrap();
    assert_eq!((asleep.status, asleep.answer()), (413, "refused"));
    assert!(house.servers().is_empty(), "nobody was woken for it");

    let mut chunked = Vec::new();
    for part in body.chunks(500) {
        chunked.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        chunked.extend_from_slice(part);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let head = head("POST", "/chunked", "Transfer-Encoding: chunked\r\n");
    for state in ["asleep", "awake"] {
        let reply = send(gateway.address, &head, &chunked).unwrap();
        assert_eq!(reply.status, 413, "{state}: {}", reply.text());
        still_serves(&gateway);
    }
    assert_eq!(post(gateway.address, "/small", &body[..1000]).unwrap().status, 200);
}

#[test]
fn a_server_that_cannot_be_reached_is_an_error_that_says_so() {
    let power = "[site.power.simulated]\nstarts_up = true\nwake_time = \"0\"\nsleep_time = \"0\"\n";
    let plan = Plan {
        power: power.to_owned(),
        site: "probe = \"controller\"\nwatch = \"0\"".to_owned(),
        policy: "always-on".to_owned(),
        ..Plan::default()
    };
    let house = House::build(&plan);
    let gateway = house.serve(&[]);
    gateway.until("awake");
    for path in ["/1", "/2"] {
        let reply = get(gateway.address, path).unwrap();
        assert!(matches!(reply.status, 502..=504), "{}", reply.status);
        assert!(reply.text().contains("cannot be reached"), "{}", reply.text());
    }
    let origin = house.start_origin();
    still_serves(&gateway);
    drop(origin);
}

#[test]
fn hosts_that_are_not_served_are_refused() {
    let house = House::build(&Plan { site: "hosts = [\"other.test\"]".to_owned(), ..bounded() });
    let gateway = house.serve(&[]);
    let reply = get(gateway.address, "/").unwrap();
    assert_eq!((reply.status, reply.answer()), (421, "refused"), "{}", reply.text());
    let status = gateway.order(&["status"]);
    assert_eq!(status.status.code(), Some(0), "{}", told(&status));
}
