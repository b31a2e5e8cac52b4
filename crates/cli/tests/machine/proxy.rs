//! `nightwatt serve` in the network of a guest.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nightwatt_clock::Clock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::guest::Guest;

const NIGHTWATT: &str = env!("CARGO_BIN_EXE_nightwatt");

/// The port that clients reach it at.
const PORT: u16 = 8080;

/// The proxy of a guest, killed when dropped.
pub(crate) struct Proxy<'a> {
    guest: &'a Guest,
    child: Child,
}

impl<'a> Proxy<'a> {
    /// Serves the guest's site; `power` are the tables `[site.power...]`.
    pub(crate) fn serve(guest: &'a Guest, power: &str) -> Self {
        let config = format!(
            r#"listen = ["0.0.0.0:{PORT}"]
state_dir = "{state}"
[scenario]
policy = "timeout 2s"
[scenario.server]
min_on = "0"
quiet = "1s"
[scenario.sla]
enabled = false
[scenario.cache]
ttl = "0"
grace_asleep = "0"
[scenario.crawl_window]
opens = "{far}h"
[[site]]
name = "site"
origin = "http://{address}"
probe = "tcp {address}:80"
{power}
"#,
            state = guest.path("state").display(),
            address = guest.text("guest/address"),
            // No test is to run while crawlers are let in.
            far = (Clock::real().now().second_of_day() / 3600 + 12) % 24,
        );
        fs::write(guest.path("nightwatt.toml"), config).unwrap();
        let log = fs::File::create(guest.path("serve.log")).unwrap();
        let mut child = guest
            .beside_proxy(NIGHTWATT)
            .args(["serve", "--json", "--log-format", "json", "-c"])
            .arg(guest.path("nightwatt.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let proxy = Self { guest, child };
        assert!(line.contains("listening"), "{line}: {}", proxy.log());
        proxy
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.guest.path("serve.log")).unwrap()
    }

    /// Asks for a page as a program does, and waits for it: the status, and how long it took.
    pub(crate) fn get(&self, path: &str) -> (u16, Duration) {
        self.get_as(path, "curl/8.0")
    }

    /// The same, as this agent.
    pub(crate) fn get_as(&self, path: &str, agent: &str) -> (u16, Duration) {
        let clock = Clock::real();
        let began = clock.now().mono;
        let mut stream =
            TcpStream::connect((self.guest.text("proxy/uplink_address"), PORT)).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: site\r\nUser-Agent: {agent}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let status = String::from_utf8_lossy(&answer);
        let status = status.split_whitespace().nth(1).and_then(|it| it.parse().ok());
        (status.unwrap_or(0), clock.now().mono.since(began))
    }

    /// Asks for a page and does not wait for it. The connection lives as long as what is given.
    pub(crate) fn ask_and_leave(&self, path: &str) -> TcpStream {
        let mut stream =
            TcpStream::connect((self.guest.text("proxy/uplink_address"), PORT)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: site\r\nAccept: */*\r\n\r\n").unwrap();
        stream
    }

    /// Waits until this process has seen this change `times` times.
    pub(crate) fn until_change(&self, change: &str, times: usize) {
        let clock = Clock::real();
        let began = clock.now().mono;
        let said = format!("\"message\":\"{change}\"");
        while self.log().matches(&said).count() < times {
            let waited = clock.now().mono.since(began);
            assert!(waited < Duration::from_mins(3), "no {change}: {}", self.log());
            std::thread::yield_now();
        }
    }

    /// Waits until the server is in this state, as the proxy knows it.
    pub(crate) fn until(&self, state: &str) {
        let clock = Clock::real();
        let began = clock.now().mono;
        while self.status()["state"] != state {
            let waited = clock.now().mono.since(began);
            assert!(waited < Duration::from_mins(2), "not {state}: {}", self.log());
            std::thread::yield_now();
        }
    }

    /// What `status --json` says of its only site.
    pub(crate) fn status(&self) -> Value {
        self.all()["sites"][0].clone()
    }

    /// What it says of its only service of datagrams.
    pub(crate) fn datagrams(&self) -> Value {
        self.all()["udp"][0].clone()
    }

    fn all(&self) -> Value {
        let output = Command::new(NIGHTWATT)
            .args(["status", "--json", "-c"])
            .arg(self.guest.path("nightwatt.toml"))
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.log()))
    }
}

impl Drop for Proxy<'_> {
    fn drop(&mut self) {
        // `ip netns exec` has become the proxy.
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        let _ = kill_process(pid, Signal::KILL);
        let _ = self.child.wait();
    }
}
