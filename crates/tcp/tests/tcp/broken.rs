//! What goes wrong, at either end.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_tcp::wire::{ANSWER, Name, RequestKind, ServerAnswer, Status};
use nightwatt_tcp::{Direction, Ended, Plan, Until, fetch};
use rustix::event::{PollFd, PollFlags, poll};
use socket2::{Domain, Socket, Type};

use crate::harness::{LONG, Serving, fetched, request, try_fetch};

/// All that the server says until it closes; `None` if it cut the connection instead.
fn answered(mut stream: TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok().map(|_| bytes)
}

fn refusal(bytes: &[u8]) -> (Status, String) {
    let answer = ServerAnswer::from_bytes(&bytes[..ANSWER].try_into().unwrap()).unwrap();
    assert_eq!(answer.length as usize, bytes.len() - ANSWER);
    (answer.status, String::from_utf8(bytes[ANSWER..].to_vec()).unwrap())
}

#[test]
fn a_client_that_is_gone_in_the_middle_is_counted_and_the_server_goes_on() {
    let serving = Serving::usual();
    for kind in [RequestKind::Fetch, RequestKind::Send] {
        let mut stream = serving.stranger();
        stream.write_all(&request(kind, 1 << 40).to_bytes()).unwrap();
        if kind == RequestKind::Fetch {
            // Once some of it is here, the server is in the middle of it.
            stream.read_exact(&mut [0; 5000]).unwrap();
        }
        drop(stream);
    }
    assert_eq!(fetched(&serving.plan(10, 10)).completed, 10);
    let served = serving.end();
    assert_eq!((served.completed, served.failed), (10, 2), "{served:?}");
}

#[test]
fn strangers_get_no_answer_and_those_of_another_version_one_that_says_so() {
    let serving = Serving::usual();
    let said = |bytes: &[u8]| {
        let mut stream = serving.stranger();
        stream.write_all(bytes).unwrap();
        answered(stream)
    };
    assert!(said(b"GET / HTTP/1.1\r\n\r\n").unwrap_or_default().is_empty());
    assert!(said(b"X").unwrap_or_default().is_empty());
    let mut other = request(RequestKind::Fetch, 100).to_bytes();
    other[8..10].copy_from_slice(&[0, 9]);
    assert_eq!(
        refusal(&said(&other).unwrap()),
        (Status::Version, "this server speaks version 2".to_owned())
    );
    other = request(RequestKind::Fetch, 100).to_bytes();
    other[10] = 77;
    assert_eq!(refusal(&said(&other).unwrap()), (Status::Malformed, "field `kind`".to_owned()));
    let report = request(RequestKind::Report, 10).to_bytes();
    assert_eq!(refusal(&said(&report).unwrap()).0, Status::Session);
    assert_eq!(fetched(&serving.plan(1, 10)).completed, 1);
    let served = serving.end();
    assert_eq!((served.completed, served.faults.get("not-nightwatt")), (1, Some(&2)));
}

#[test]
fn who_says_nothing_or_stands_still_is_not_waited_for_for_ever() {
    let serving = Serving::by(|plan| {
        plan.request_timeout = Duration::from_millis(20);
        plan.idle_timeout = Duration::from_millis(40);
    });
    // A client that is kept waiting for a CPU is cut before it writes: that is a stall, too.
    let writes = |bytes: &[u8]| {
        let mut stream = serving.stranger();
        let _ = stream.write_all(bytes);
        stream
    };
    let silent = serving.stranger();
    let slow = writes(&request(RequestKind::Fetch, 100).to_bytes()[..40]);
    let stuck = writes(&request(RequestKind::Send, 1 << 30).to_bytes());
    for stream in [silent, slow, stuck] {
        assert!(answered(stream).unwrap_or_default().is_empty());
    }
    // One that does not read what it asked for.
    let deaf = writes(&request(RequestKind::Fetch, 1 << 40).to_bytes());
    // Nothing is read, which would let the server go on: only the end is waited for.
    let mut ends = [PollFd::new(&deaf, PollFlags::empty())];
    assert_eq!(poll(&mut ends, Some(&LONG.try_into().unwrap())), Ok(1));
    let served = serving.end();
    assert_eq!(served.faults.get("stalled"), Some(&4), "{served:?}");
}

#[test]
fn more_clients_than_there_is_room_for_are_told_so() {
    let serving = Serving::by(|plan| plan.max_connections = 2);
    let mut held: Vec<TcpStream> = (0..2).map(|_| serving.stranger()).collect();
    for stream in &mut held {
        stream.write_all(&request(RequestKind::Send, 1000).to_bytes()).unwrap();
    }
    // The server accepts the earlier connections first.
    let failed = try_fetch(&serving.plan(1, 10)).unwrap_err().to_string();
    assert!(failed.contains("it has as many connections as it may"), "{failed}");
    assert!(failed.contains("use fewer `--connections`"), "{failed}");
    held.clear();
    loop {
        // It sees in its own time that they are gone.
        if try_fetch(&serving.plan(1, 10)).is_ok() {
            break;
        }
    }
    let served = serving.end();
    assert!(served.refused > 0 && served.completed == 1, "{served:?}");
}

#[test]
fn a_server_that_ends_in_the_middle_is_told_of() {
    for direction in [Direction::Fetch, Direction::Send] {
        let serving = Serving::alone();
        let mut plan = Plan { direction, ..serving.plan(3, 1_000_000_000) };
        plan.until = Until::default();
        let (go, going) = std::sync::mpsc::channel();
        let client = std::thread::spawn(move || {
            let mut tell = |second: &nightwatt_tcp::Second| {
                if second.bytes > 0 {
                    let _ = go.send(());
                }
            };
            fetch(&plan, &Stop::new().unwrap(), Some(&mut tell))
        });
        going.recv_timeout(LONG).unwrap();
        let served = serving.end();
        assert_eq!(served.faults.get("cut"), Some(&3), "{served:?}");
        let failed = client.join().unwrap().unwrap_err().to_string();
        // First the connections are cut, and then no server listens any more. A cut may arrive late; the
        // message is that of the connection started last.
        assert!(failed.contains("start `nightwatt tcp serve` there"), "{failed}");
    }
}

#[test]
fn a_server_that_ends_after_some_were_completed_leaves_their_figures() {
    let serving = Serving::alone();
    let mut plan = serving.plan(3, 10);
    plan.until = Until::default();
    let (go, going) = std::sync::mpsc::channel();
    let client = std::thread::spawn(move || {
        let mut tell = |second: &nightwatt_tcp::Second| {
            if second.completed > 0 {
                let _ = go.send(());
            }
        };
        fetch(&plan, &Stop::new().unwrap(), Some(&mut tell))
    });
    going.recv_timeout(LONG).unwrap();
    serving.end();
    let report = client.join().unwrap().unwrap();
    assert_eq!(report.ended, Ended::GaveUp);
    assert!(report.completed > 0 && report.failed >= 10, "{report:?}");
    assert!(report.faults.contains_key("refused"), "{:?}", report.faults);
    assert_eq!(report.server, None, "nobody is there to be asked");
}

#[test]
fn where_nobody_listens_the_message_says_what_to_start() {
    // Bound, so that no other program gets the port, and not listening.
    let bound = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    bound.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let free = bound.local_addr().unwrap().as_socket().unwrap();
    let failed = try_fetch(&Plan::new(free)).unwrap_err().to_string();
    let expected = format!(
        "the connection to {free} failed: no program listens there (connection refused); start \
         `nightwatt tcp serve` there, or give its port (HOST:PORT)"
    );
    assert_eq!(failed, expected);
}

/// No connection is left then whose end could wake the client, and no time at which it would give up.
#[test]
fn where_all_fail_as_they_are_started_the_run_ends() {
    // TCP can't connect to a broadcast address: the kernel says so at once.
    let mut plan = Plan::new("255.255.255.255:9".parse().unwrap());
    (plan.connections, plan.until) = (10, Until { count: Some(10), ..Until::default() });
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(try_fetch(&plan).map(drop)));
    assert!(told.recv_timeout(LONG).expect("it ends").is_err());
}

/// Answers one connection with this and closes it.
fn impostor(says: &'static [u8]) -> Plan {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = Plan { bytes: 1_000_000, ..Plan::new(listener.local_addr().unwrap()) };
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 64];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(says).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    plan
}

#[test]
fn other_servers_and_other_versions_are_told_apart_from_broken_ones() {
    let failed = |says| try_fetch(&impostor(says)).unwrap_err().to_string();
    let http = failed(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert!(http.contains("no `nightwatt tcp serve`; is this its port?"), "{http}");
    let other = failed(b"nwtcp\r\n\x1a\x00\x09\x00\x00\x00\x00\x00\x00");
    assert!(other.contains("another version of the protocol"), "{other}");
    let early = failed(b"nwtcp\r\n\x1a\x00\x02\x00\x00\x00\x00\x00\x00 and that is all");
    assert!(early.contains("went away before the end"), "{early}");
    let silent = failed(b"");
    assert!(silent.contains("went away before the end"), "{silent}");
    let steering = failed(b"nwtcp\r\n\x1a\x00\x02\x05\x00\x00\x00\x00\x04\x1b[2J");
    assert!(steering.contains("the server refused (\u{fffd}[2J)"), "{steering}");
}

#[test]
fn a_payload_that_was_changed_on_its_way_is_found_by_who_verifies() {
    let says = b"nwtcp\r\n\x1a\x00\x02\x00\x00\x00\x00\x00\x00 this is not the pattern";
    let plan = Plan { verify: true, ..impostor(says) };
    let failed = try_fetch(&plan).unwrap_err().to_string();
    assert!(failed.contains("what came is not what was sent"), "{failed}");
    // The same at the server.
    let serving = Serving::usual();
    let mut stream = serving.stranger();
    let asked = nightwatt_tcp::wire::Request { verify: true, ..request(RequestKind::Send, 100) };
    stream.write_all(&[&asked.to_bytes()[..], &[0; 36]].concat()).unwrap();
    assert!(answered(stream).unwrap_or_default().is_empty());
    assert_eq!(serving.end().faults.get("corrupt"), Some(&1));
}

#[test]
fn a_congestion_control_that_a_kernel_has_not_is_refused_with_those_that_it_has() {
    // Those that are not allowed to all are for root.
    let which = if rustix::process::geteuid().is_root() { "available" } else { "allowed" };
    let Ok(offered) =
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control"))
    else {
        println!("skipped: this kernel does not list its congestion controls");
        return;
    };
    let serving = Serving::usual();
    for direction in [Direction::Fetch, Direction::Send] {
        let mut plan = Plan { direction, ..serving.plan(2, 10) };
        plan.options.congestion = Name::new("no-such-control").unwrap();
        let failed = try_fetch(&plan).unwrap_err().to_string();
        assert!(failed.contains(offered.trim()), "{failed}");
    }
    assert_eq!(serving.end().completed, 0);
}

#[test]
fn a_server_that_stands_still_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut plan = Plan::new(listener.local_addr().unwrap());
    plan.timeout = Duration::from_millis(20);
    // The kernel accepts the connection; no program ever answers.
    let failed = try_fetch(&plan).unwrap_err().to_string();
    assert!(failed.contains("a slower link needs a longer `--timeout`"), "{failed}");
}
