//! Sends any bytes to the gateway's listener. The origin behind it is strict: all requests that the
//! gateway passes on must be well formed. The gateway answers or closes, never hangs, and still
//! serves all other clients.
//!
//! There are two sites: `awake`, whose server is always awake, and `sleepy`, whose server sleeps as
//! soon as no client sends requests, so that the gateway holds requests and lets them through
//! later.

#[path = "http_front/origin.rs"]
mod origin;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_gateway::{Config, Gateway, Options};

/// An answer that takes longer will never come.
const TIMEOUT: Duration = Duration::from_secs(10);
/// If no byte arrives within this time, the gateway may be waiting for more input.
const LULL: Duration = Duration::from_millis(20);
/// Asks for the end of the connection.
const LAST: &[u8] = b"GET /last HTTP/1.1\r\nHost: awake\r\nConnection: close\r\n\r\n";
/// More than the origin ever sends to one input.
const MOST: usize = 4 << 20;
/// Inputs between two requests of a well-behaved client.
const INNOCENT_EVERY: u64 = 64;

static GATEWAY: LazyLock<SocketAddr> = LazyLock::new(start);
static INPUTS: AtomicU64 = AtomicU64::new(0);

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let answer = exchange(bytes);
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1."),
        "an answer that is no HTTP: {}",
        answer.escape_ascii()
    );
    well_formed();
    let count = INPUTS.fetch_add(1, Ordering::Relaxed);
    if count.is_multiple_of(INNOCENT_EVERY) {
        innocent(count);
    }
}

fn well_formed() {
    if let Some(complaint) = origin::complaint() {
        panic!("the origin got what is not well formed: {complaint}");
    }
}

/// Sends, and reads all that comes.
///
/// The gateway takes a connection that is closed in one direction for one that is given up. So most
/// inputs stay open until they are answered: behind them goes a request that ends the connection.
/// Where that becomes part of a body, closing helps. Some inputs are closed at once.
fn exchange(bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(*GATEWAY).expect("the gateway accepts connections");
    stream.set_nodelay(true).expect("no delay");
    stream.set_write_timeout(Some(TIMEOUT)).expect("a time-out");
    let mut answer = Vec::new();
    if bytes.len() % 4 == 3 {
        fail_if_hung(stream.write_all(bytes));
    } else {
        // The gateway may have heard enough before all was sent.
        fail_if_hung(stream.write_all(&[bytes, LAST].concat()));
        if read(&mut stream, LULL, &mut answer).is_ok() {
            return answer;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    fail_if_hung(read(&mut stream, TIMEOUT, &mut answer));
    answer
}

/// Reads until the other side closes, or for that long nothing comes.
fn read(stream: &mut TcpStream, lull: Duration, answer: &mut Vec<u8>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(lull))?;
    let mut part = [0; 16 * 1024];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return Ok(()),
            Ok(length) => answer.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // What it does not want to hear any more, it resets.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        }
        assert!(answer.len() < MOST, "an answer without end");
    }
}

fn fail_if_hung(result: std::io::Result<()>) {
    if let Err(error) = result
        && matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
    {
        panic!("the gateway neither answered nor closed within {TIMEOUT:?}");
    }
}

/// A well-behaved client asks both sites for a new path: the input must not affect it.
fn innocent(count: u64) {
    let [_, a, b, c] = u32::try_from(count / INNOCENT_EVERY).unwrap_or(0).to_be_bytes();
    for host in ["awake", "sleepy"] {
        let request = format!(
            "GET /innocent/{count} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             X-Forwarded-For: 10.{a}.{b}.{c}\r\nUser-Agent: Mozilla/5.0 (X11) Firefox/140.0\r\n\r\n"
        );
        let mut stream = TcpStream::connect(*GATEWAY).expect("the gateway accepts connections");
        stream.write_all(request.as_bytes()).expect("the gateway listens");
        let mut answer = Vec::new();
        fail_if_hung(read(&mut stream, TIMEOUT, &mut answer));
        well_formed();
        assert!(
            answer.starts_with(b"HTTP/1.1 200 "),
            "{host} does not serve others any more: {}",
            answer.escape_ascii()
        );
    }
}

/// Starts origin and gateway in threads of their own, for as long as the process lives.
fn start() -> SocketAddr {
    let origin = origin::start();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let clock = Clock::real();
        let runtime = clock.runtime().expect("a runtime");
        runtime.block_on(async {
            // Remove the folder once the gateway has opened its files: nothing else would remove
            // it.
            let dir = tempfile::tempdir().expect("a folder");
            let text = CONFIG
                .replace("DIR", &dir.path().display().to_string())
                .replace("ORIGIN", &origin.to_string());
            let config = Config::parse(&text, "fuzz.toml").expect("a configuration");
            let options = Options { durable: false, ..Options::default() };
            let running = Gateway::start(config, clock.clone(), options).expect("a gateway");
            drop(dir);
            sender.send(running.addresses[0].port()).expect("somebody waits");
            std::future::pending::<()>().await;
        });
    });
    let port = receiver.recv_timeout(TIMEOUT).expect("the gateway starts");
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

const CONFIG: &str = r#"
listen = ["127.0.0.1:0"]
state_dir = "DIR"
access_log = "/dev/null"
trusted_proxies = ["127.0.0.1"]

[limits]
connections = 64
header_bytes = 8192
headers = 32
header_timeout = "2s"
body_bytes = 4096
spool_bytes = 1024
hold = "5s"
held = 16
origin_timeout = "2s"
connect_timeout = "2s"
drain = "1s"

[[site]]
name = "awake"
origin = "http://ORIGIN"
probe = "controller"
power.simulated = { starts_up = true, wake_time = "0s", sleep_time = "0s" }
scenario.policy = "always-on"

[[site]]
name = "sleepy"
hosts = ["sleepy"]
origin = "http://ORIGIN"
probe = "controller"
power.simulated = { starts_up = true, wake_time = "0s", sleep_time = "0s" }
wakes_per_client_and_hour = 4000000000

[site.scenario]
policy = "timeout 0s"
sla.enabled = false

[site.scenario.server]
wake_time = "0s"
sleep_time = "0s"
min_on = "0s"
quiet = "0s"
"#;
