//! Every kind of fault, by a server that really misbehaves so.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_load::generate::{Carrier, LoadReport, Mix, MixEntry, Plan, RequestDefaults, Until};
use socket2::{Domain, Socket, Type};

use super::{Reply, ok, page, plan, run, run_until, serve};
use crate::stage::deserted_address;

/// The kinds of faults of a few requests, and how many.
fn faults(plan: &Plan) -> BTreeMap<&'static str, u64> {
    let (report, _) = run(plan);
    let found = report.requests;
    assert_eq!(found.due, found.answered + found.failed + found.unsent);
    let faults: u64 = report.errors.values().sum();
    assert_eq!(faults, found.failed + found.unsent);
    report.errors
}

fn all_are(kind: &'static str, reply: impl Fn(u64, u64, &str) -> Reply + Send + Sync + 'static) {
    let address = serve(reply);
    assert_eq!(faults(&plan(address, 1000.0, 3)), BTreeMap::from([(kind, 3)]));
}

#[test]
fn an_answer_that_is_none_or_not_whole_is_told_by_its_kind() {
    all_are("closed", |_, _, _| Reply::Close);
    all_are("reset", |_, _, _| Reply::Reset);
    all_are("short", |_, _, _| {
        Reply::Last("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc".into())
    });
    all_are("short", |_, _, _| Reply::Last("HTTP/1.1 200 O".into()));
    all_are("bad_answer", |_, _, _| Reply::Last("SSH-2.0-OpenSSH_9.2\r\n".into()));
}

#[test]
fn nobody_there_is_refused_and_no_way_there_is_unreachable() {
    assert_eq!(faults(&plan(deserted_address(), 1000.0, 3)), BTreeMap::from([("refused", 3)]));
    let nowhere = SocketAddr::from((Ipv4Addr::BROADCAST, 80));
    assert_eq!(faults(&plan(nowhere, 1000.0, 3)), BTreeMap::from([("unreachable", 3)]));
}

#[test]
fn a_server_that_says_nothing_times_out() {
    let (never, silence) = mpsc::channel::<()>();
    let silence = std::sync::Mutex::new(silence);
    let address = serve(move |_, _, _| {
        let _ = silence.lock().unwrap().recv();
        Reply::Close
    });
    // All three are due within 2 ns, so that their time is over at once.
    let impatient = Plan { timeout: Duration::from_millis(500), ..plan(address, 1e9, 3) };
    assert_eq!(faults(&impatient), BTreeMap::from([("timeout", 3)]));
    // With one connection, the others never get to be sent.
    let (report, samples) = run(&Plan { connections: 1, ..impatient });
    assert_eq!(report.requests.unsent, 2);
    assert_eq!(report.errors, BTreeMap::from([("timeout", 1), ("unsent", 2)]));
    assert!(samples[1].sent.is_none() && samples[1].waited);
    assert!(report.client.limits.contains(&"connections"), "{:?}", report.client);
    drop(never);
}

#[test]
fn a_server_that_accepts_nobody_times_out_before_the_request_is_sent() {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    // The kernel takes one more than the backlog, and drops who comes after.
    let _first = TcpStream::connect(address).unwrap();
    let impatient = Plan { timeout: Duration::from_millis(50), ..plan(address, 1000.0, 2) };
    assert_eq!(faults(&impatient), BTreeMap::from([("connect_timeout", 2)]));
}

#[test]
fn statuses_are_counted_by_class_and_are_answers() {
    let address = serve(|_, _, head| {
        let status = head.split('/').nth(1).and_then(|path| path.split(' ').next()).unwrap();
        Reply::Answer(format!("HTTP/1.1 {status} x\r\nContent-Length: 2\r\n\r\nhi"))
    });
    let wanted = ["200", "404", "503"].map(|status| page(address, &format!("/{status}")));
    let order = vec![0, 1, 1, 2, 0, 0];
    let mix = Mix::in_order(&wanted, order, &RequestDefaults::default()).unwrap();
    let (report, samples) = run(&Plan { mix, ..plan(address, 1000.0, 100) });
    let classes = [("2xx", 3), ("4xx", 2), ("5xx", 1)].map(|(class, n)| (class.to_owned(), n));
    assert_eq!(report.statuses, BTreeMap::from(classes));
    assert_eq!((report.requests.due, report.requests.answered, report.body_bytes), (6, 6, 12));
    assert_eq!(
        samples.iter().map(|it| it.status).collect::<Vec<_>>(),
        [200, 404, 404, 503, 200, 200]
    );
}

/// A server that answers the first request of each connection, and closes on the second.
fn fickle() -> SocketAddr {
    serve(|number, _, _| if number == 0 { Reply::Answer(ok("hi")) } else { Reply::Close })
}

#[test]
fn a_kept_connection_that_dies_under_a_request_is_replaced_once() {
    // One connection, so that each second request meets the one that is about to die.
    let one = Plan { connections: 1, ..plan(fickle(), 500.0, 20) };
    let (report, samples) = run(&one);
    assert_eq!((report.requests.answered, &report.errors), (20, &BTreeMap::new()));
    let again = samples.iter().filter(|sample| sample.carrier == Carrier::Again).count();
    assert_eq!((again as u64, report.connections.resent), (19, 19));
    assert_eq!(samples[0].carrier, Carrier::Opened);
}

#[test]
fn what_may_not_be_done_twice_is_not_sent_again() {
    let address = fickle();
    let post = MixEntry { method: "POST".into(), ..page(address, "/") };
    let mix = Mix::weighted(&[post], &RequestDefaults::default()).unwrap();
    let (report, _) = run(&Plan { mix, connections: 1, ..plan(address, 500.0, 20) });
    assert_eq!((report.requests.answered, &report.errors), (10, &BTreeMap::from([("closed", 10)])));
}

#[test]
fn without_keep_alive_every_request_has_a_connection_and_says_that_it_ends() {
    let address = serve(|number, _, head| {
        assert!(number == 0 && head.contains("\r\nConnection: close\r\n"), "{head}");
        Reply::Last(ok("hi"))
    });
    let dress = RequestDefaults { close: true, ..RequestDefaults::default() };
    let mix = Mix::weighted(&[page(address, "/")], &dress).unwrap();
    let (report, _) = run(&Plan { mix, keep_alive: false, ..plan(address, 1000.0, 10) });
    assert_eq!((report.requests.answered, report.connections.opened), (10, 10));
}

#[test]
fn who_stops_it_gets_the_figures_of_what_was_done() {
    let stop = Stop::new().unwrap();
    let (never, silence) = mpsc::channel::<()>();
    let (theirs, silence) = (stop.clone(), Arc::new(std::sync::Mutex::new(silence)));
    let address = serve(move |_, all, _| {
        if all < 10 {
            return Reply::Answer(ok("hi"));
        }
        theirs.stop();
        let _ = silence.lock().unwrap().recv();
        Reply::Close
    });
    // One connection: the eleventh request leaves when the tenth answer has been read.
    let long = Plan { until: Until::default(), connections: 1, ..plan(address, 200.0, 0) };
    let (report, samples): (LoadReport, _) = run_until(&long, &stop);
    drop(never);
    assert!(report.ended_early && report.run.due >= 11, "{:?}", report.run);
    assert_eq!(report.run.answered, 10);
    assert_eq!(report.run.due, samples.len() as u64);
    let interrupted = report.errors["interrupted"];
    assert_eq!(interrupted + report.errors.get("unsent").unwrap_or(&0), report.run.due - 10);
    assert!(interrupted >= 1);
}
