//! Ten thousand requests while it is reloaded ten times and replaced three times.

use std::collections::HashMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;

use crate::client::{connect, receive_from};
use crate::harness::{Gateway, House, Plan, eventually, told};

const CLIENTS: usize = 8;
const EACH: usize = 1250;
const RELOADS: usize = 10;
const RESTARTS: usize = 3;

/// A client that keeps its connection as long as the proxy allows.
struct Keeper {
    to: SocketAddr,
    stream: Option<TcpStream>,
    connections: usize,
}

impl Keeper {
    /// Asks once; whatever goes wrong is a lost request.
    fn ask(&mut self, path: &str) -> Result<(), String> {
        let mut stream = if let Some(stream) = self.stream.take() {
            stream
        } else {
            self.connections += 1;
            connect(self.to).map_err(|error| format!("{path}: cannot connect: {error}"))?
        };
        let head = format!("GET {path} HTTP/1.1\r\nHost: site.test\r\nUser-Agent: test/1\r\n\r\n");
        stream.write_all(head.as_bytes()).map_err(|error| format!("{path}: {error}"))?;
        let reply = receive_from(&mut stream).map_err(|error| format!("{path}: {error}"))?;
        if reply.status != 200 {
            return Err(format!("{path}: {} {}", reply.status, reply.text()));
        }
        if !reply.header("connection").is_some_and(|it| it.eq_ignore_ascii_case("close")) {
            self.stream = Some(stream);
        }
        Ok(())
    }
}

fn reload(house: &House, gateway: &Gateway, number: usize) {
    // Each is another configuration: of the site, of all, with a site more or less.
    let (from, to) = match number % 5 {
        0 => ("policy = \"timeout 100ms\"", "policy = \"timeout 150ms\""),
        1 => ("[[site]]\nname = \"site\"", "[limits]\nhold = \"90s\"\n\n[[site]]\nname = \"site\""),
        2 => ("wake_timeout = \"10s\"", "wake_timeout = \"12s\"\nwaiting_page = false"),
        3 => ("[limits]\nhold = \"90s\"\n", ""),
        _ => ("policy = \"timeout 150ms\"", "policy = \"timeout 100ms\""),
    };
    if number % 5 == 2 && !house.read("nightwatt.toml").contains(from) {
        house.reconfigure("wake_timeout = \"12s\"\nwaiting_page = false", "wake_timeout = \"10s\"");
    } else {
        house.reconfigure(from, to);
    }
    if number % 3 == 2 {
        let before = house.read("serve.log").matches("was read again").count();
        gateway.signal(Signal::HUP);
        eventually("it is reloaded", || {
            (house.read("serve.log").matches("was read again").count() > before).then_some(())
        });
    } else {
        let done = gateway.order(&["reload"]);
        assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    }
}

#[test]
fn ten_thousand_requests_during_ten_reloads_and_three_restarts_are_all_answered() {
    // Clients that a busy machine keeps waiting let it sleep, and wake it again.
    let site = "wake_timeout = \"10s\"\nwatch = \"500ms\"\nclients.api_agents = [\"test/\"]\n\
                wakes_per_client_and_hour = 4000000000"
        .to_owned();
    let house = House::build(&Plan { site, ..Plan::default() });
    let mut gateway = house.serve(&[]);
    let (address, answered) = (gateway.address, AtomicUsize::new(0));
    let lost: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let answered = &answered;
                scope.spawn(move || {
                    let mut keeper = Keeper { to: address, stream: None, connections: 0 };
                    let ask = |number| {
                        let lost = keeper.ask(&format!("/{client}-{number}")).err();
                        answered.fetch_add(1, Ordering::Relaxed);
                        lost
                    };
                    (0..EACH).filter_map(ask).collect::<Vec<String>>()
                })
            })
            .collect();
        let (mut reloads, mut restarts) = (0, 0);
        for step in 1..=RELOADS + RESTARTS {
            let due = step * CLIENTS * EACH / (RELOADS + RESTARTS + 1);
            eventually("requests are answered", || {
                (answered.load(Ordering::Relaxed) >= due).then_some(())
            });
            if step % 4 == 0 {
                let next = house.serve(&["--replace"]);
                let mut old = std::mem::replace(&mut gateway, next);
                assert_eq!(old.wait().0.code(), Some(0), "{}", house.read("serve.log"));
                restarts += 1;
            } else {
                reload(&house, &gateway, reloads);
                reloads += 1;
            }
        }
        assert_eq!((reloads, restarts), (RELOADS, RESTARTS));
        let now = answered.load(Ordering::Relaxed);
        println!("{now} requests were answered when the last of them was done");
        clients.into_iter().flat_map(|it| it.join().expect("a client")).collect()
    });
    assert_eq!(answered.into_inner(), CLIENTS * EACH);
    assert!(
        lost.is_empty(),
        "{} lost, as {:?}; log: {}",
        lost.len(),
        &lost[0],
        house.read("serve.log")
    );

    let mut served: HashMap<String, usize> = HashMap::new();
    for path in house.served() {
        *served.entry(path).or_default() += 1;
    }
    assert_eq!(served.len(), CLIENTS * EACH, "the server saw each of them");
    let twice: Vec<_> = served.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    // Totals never fell, no line is torn, and nothing else was written in between.
    house.ledger();
}
