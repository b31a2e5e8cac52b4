//! The load generator against servers made by hand.

mod faults;
mod honesty;
mod plans;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_load::generate::{
    LoadReport, Mix, MixEntry, Plan, RequestDefaults, Sample, Sending, Until, generate,
};
use nightwatt_policy::arrivals::{Arrivals, Rate};

/// What a server does with a request: what it writes, and whether the connection lives on.
enum Reply {
    Answer(String),
    Last(String),
    /// Closed without a word, or with a reset.
    Close,
    Reset,
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Listens; every connection has a thread. `reply` is given the number of the request on its
/// connection, the number over all connections, and the request's head.
fn serve(reply: impl Fn(u64, u64, &str) -> Reply + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (reply, all) = (Arc::new(reply), Arc::new(AtomicU64::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (reply, all) = (Arc::clone(&reply), Arc::clone(&all));
            std::thread::spawn(move || converse(stream, &*reply, &all));
        }
    });
    address
}

fn converse(mut stream: TcpStream, reply: &dyn Fn(u64, u64, &str) -> Reply, all: &AtomicU64) {
    for number in 0.. {
        let Some(head) = head(&mut stream) else { return };
        match reply(number, all.fetch_add(1, Ordering::SeqCst), &head) {
            Reply::Answer(answer) => {
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
            Reply::Last(answer) => {
                let _ = stream.write_all(answer.as_bytes());
                return;
            }
            Reply::Close => return,
            Reply::Reset => {
                let stream = socket2::Socket::from(stream);
                stream.set_linger(Some(Duration::ZERO)).unwrap();
                return;
            }
        }
    }
}

/// A request's head; none when the client is gone.
fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

fn page(address: SocketAddr, path: &str) -> MixEntry {
    MixEntry::page(format!("http://{address}{path}"))
}

fn rate(per_second: f64) -> Rate {
    Rate::new(per_second).unwrap()
}

/// `requests` evenly spaced requests for `/` of this server.
fn plan(address: SocketAddr, per_second: f64, requests: u64) -> Plan {
    Plan {
        arrivals: Arrivals::Constant(rate(per_second)),
        mix: Mix::weighted(&[page(address, "/")], &RequestDefaults::default()).unwrap(),
        seed: 1,
        until: Until { time: None, requests: Some(requests) },
        warm_up: Duration::ZERO,
        cool_down: Duration::ZERO,
        // Long: a test that hangs is to be told from a request that times out.
        timeout: Duration::from_mins(2),
        connections: 64,
        keep_alive: true,
        threads: None,
        lag_limit: Duration::from_millis(1),
    }
}

/// Runs it to its end; samples by number.
fn run(plan: &Plan) -> (LoadReport, Vec<Sample>) {
    run_until(plan, &Stop::new().unwrap())
}

fn run_until(plan: &Plan, stop: &Stop) -> (LoadReport, Vec<Sample>) {
    run_with_progress(plan, stop, |_| ())
}

/// The same, and tells meanwhile how far it is.
fn run_with_progress(
    plan: &Plan,
    stop: &Stop,
    on_progress: impl FnMut(Sending),
) -> (LoadReport, Vec<Sample>) {
    // Room for more batches than any test makes: they are read afterwards.
    let (sender, inbox) = mpsc::sync_channel(10_000);
    let report = generate(plan, stop, Some(&sender), on_progress, |_| ()).unwrap();
    drop(sender);
    let mut samples: Vec<Sample> = inbox.iter().flatten().collect();
    samples.sort_by_key(|sample| sample.number);
    let numbers: Vec<u64> = samples.iter().map(|sample| sample.number).collect();
    assert_eq!(numbers, (0..report.run.due).collect::<Vec<_>>(), "each is told of once");
    (report, samples)
}
