//! Requests that could be read in two ways: each is refused and its connection closed, or passed
//! on as one request that can only be read in one way.
//!
//! Behind each request follows another on the same connection, the [`CANARY`]. It tells where the
//! gateway takes the first one to end, and must not be answered behind one that was refused.

mod access;
mod chunks;
mod codings;
mod heads;
mod hosts;
mod lengths;
mod lines;
mod sizes;

use std::fmt;
use std::io::{BufReader, Write};
use std::net::{Shutdown, TcpStream};

use crate::answer::{NoAnswer, ResponseHead};
use crate::gateway::{DEADLINE, Gateway, eventually};
use crate::origin::{Origin, ReceivedRequest};

/// What follows each request.
const CANARY: &[u8] = b"GET /canary HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";

const CONFIG: &str = r#"
listen = ["127.0.0.1:0"]
state_dir = "DIR/state"

[limits]
header_bytes = 8192
headers = 64
body_bytes = 100000

[[site]]
name = "site"
origin = "http://ORIGIN"
probe = "controller"
"#;

/// The server is awake and stays so.
const AWAKE: &str = r#"
power.simulated = { starts_up = true }
scenario.policy = "always-on"
"#;

/// The server sleeps whenever there are no requests: requests are held until it has woken.
const SLEEPY: &str = r#"
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

/// Bytes to be sent, and what may become of them.
#[derive(Debug)]
struct Case {
    name: String,
    bytes: Vec<u8>,
    fate: Fate,
}

#[derive(Debug)]
enum Fate {
    /// An error and the end of the connection. Nothing reaches the origin.
    Refused,
    /// As [`Fate::Refused`]; or the end of the connection without a word, where it is doubtful
    /// that the client speaks HTTP.
    Dropped,
    /// Its head was fine, its body is not: the origin may have got a part of it, never the whole.
    BrokenOff,
    /// It never ends. The client gives up: the origin may have got a part of it.
    Endless,
    /// The origin gets this, and the connection may go on.
    Passed(Vec<Wanted>),
    /// That or [`Fate::Refused`] (RFC 9112 leaves the choice).
    Either(Vec<Wanted>),
    /// That or [`Fate::BrokenOff`].
    EitherBody(Vec<Wanted>),
    /// That or [`Fate::Refused`], and then the connection is closed.
    EitherLast(Vec<Wanted>),
}

/// A request as the origin should get it.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    line: String,
    host: String,
    body: Vec<u8>,
}

impl Wanted {
    /// For `site.test`.
    fn new(line: &str, body: &[u8]) -> Self {
        Self { line: line.to_owned(), host: "site.test".to_owned(), body: body.to_vec() }
    }

    fn to(self, host: &str) -> Self {
        Self { host: host.to_owned(), ..self }
    }
}

/// One request.
fn one(line: &str, body: &[u8]) -> Vec<Wanted> {
    vec![Wanted::new(line, body)]
}

impl Case {
    fn new(name: &str, bytes: &[u8], fate: Fate) -> Self {
        let shown = &bytes[..bytes.len().min(160)];
        Self { name: format!("{name} \"{}\"", shown.escape_ascii()), bytes: bytes.to_vec(), fate }
    }
}

/// `POST /case` with these lines and this body.
fn post(lines: &[u8], body: &[u8]) -> Vec<u8> {
    [b"POST /case HTTP/1.1\r\nHost: site.test\r\n", lines, b"\r\n\r\n", body].concat()
}

/// `GET /case` with these lines.
fn get(lines: &[u8]) -> Vec<u8> {
    [b"GET /case HTTP/1.1\r\nHost: site.test\r\n", lines, b"\r\n\r\n"].concat()
}

/// What became of a request.
#[derive(Debug)]
struct Outcome {
    /// Statuses of the answers.
    statuses: Vec<u16>,
    /// The connection ended as it should.
    closed: bool,
    /// What the origin got.
    seen: Vec<ReceivedRequest>,
}

impl Outcome {
    /// What is wrong with it; nothing if it is as it should be.
    fn fault(&self, fate: &Fate, mark: &str) -> Option<&'static str> {
        if !self.closed {
            return Some("neither answered nor closed");
        }
        let refused = || self.is_refused() && self.seen.is_empty();
        let fine = match fate {
            Fate::Refused => refused(),
            Fate::Dropped => refused() || self.statuses.is_empty() && self.seen.is_empty(),
            Fate::BrokenOff => self.is_broken_off() && self.is_refused(),
            Fate::Endless => self.is_broken_off() && self.statuses.len() < 2,
            Fate::Passed(wanted) => self.is_passed(wanted, mark, true),
            Fate::Either(wanted) => refused() || self.is_passed(wanted, mark, true),
            Fate::EitherBody(wanted) => {
                self.is_broken_off() && self.is_refused() || self.is_passed(wanted, mark, true)
            }
            Fate::EitherLast(wanted) => refused() || self.is_passed(wanted, mark, false),
        };
        (!fine).then_some("not what may become of it")
    }

    /// One error, and nothing behind it.
    fn is_refused(&self) -> bool {
        matches!(self.statuses[..], [400..=499 | 501 | 505])
    }

    fn is_broken_off(&self) -> bool {
        self.seen.len() < 2 && self.seen.iter().all(|seen| !seen.whole)
    }

    /// All of it came, and nothing else but the canary, if the connection `goes_on`.
    fn is_passed(&self, wanted: &[Wanted], mark: &str, goes_on: bool) -> bool {
        let unmarked = |it: Wanted| Wanted { line: it.line.replace(mark, "/case"), ..it };
        let got: Vec<Wanted> = self.seen.iter().map(wanted_of).map(unmarked).collect();
        let answered = self.statuses.iter().all(|status| *status == 200)
            && self.statuses.len() == self.seen.len()
            && self.seen.iter().all(|seen| seen.whole);
        let (own, rest) = got.split_at(wanted.len().min(got.len()));
        let canary = [Wanted::new("GET /canary", b"")];
        answered && own == wanted && (rest.is_empty() || goes_on && rest == canary)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "answered {:?}", self.statuses)?;
        for seen in &self.seen {
            let Wanted { line, host, body } = wanted_of(seen);
            let whole = if seen.whole { "" } else { ", cut" };
            write!(f, ", the origin got `{line}` for `{host}`, {} bytes{whole}", body.len())?;
        }
        Ok(())
    }
}

fn wanted_of(seen: &ReceivedRequest) -> Wanted {
    let ReceivedRequest { head, body, .. } = seen;
    let host = head.only("host").unwrap_or_default().to_owned();
    Wanted { line: format!("{} {}", head.method, head.target), host, body: body.clone() }
}

/// The stage of one test.
struct Stage {
    gateway: Gateway,
    origin: Origin,
    /// What the origin got late, and was not whole: by the marks of the cases.
    late: Vec<String>,
}

/// Stands in the bytes of a case wherever its own path is named, and is as long as that: tells what
/// the origin gets of one case from what it gets late of another.
fn mark(number: usize) -> String {
    assert!(number < 10_000, "marks have four digits");
    format!("/{number:04}")
}

const PATH: &[u8] = b"/case";

fn marked(bytes: &[u8], mark: &str) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    while let Some(at) = bytes.windows(PATH.len()).position(|window| window == PATH) {
        bytes[at..at + PATH.len()].copy_from_slice(mark.as_bytes());
    }
    bytes
}

impl Stage {
    fn set(server: &str) -> Self {
        let origin = Origin::start(true);
        let config = CONFIG.replace("ORIGIN", &origin.address.to_string());
        let gateway = Gateway::start(&(config + server));
        // Its first look at the server is over.
        eventually("the first look", || gateway.status()["state"] != "unknown");
        Self { gateway, origin, late: Vec::new() }
    }

    /// Sends a case in pieces, and sees what becomes of it.
    fn play(&mut self, case: &Case, mark: &str, pieces: &[&[u8]]) -> Outcome {
        let stream = connect(&self.gateway);
        let mut reading = BufReader::new(stream.try_clone().expect("a second handle"));
        for piece in pieces {
            // Who refuses early does not read on.
            if (&stream).write_all(piece).is_err() {
                break;
            }
        }
        if matches!(case.fate, Fate::Endless) {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let mut statuses = Vec::new();
        let closed = loop {
            let answered = ResponseHead::read(&mut reading).and_then(|answer| {
                statuses.push(answer.status);
                answer.body(&mut reading, false, &mut |_| {})
            });
            match answered {
                Ok(()) => {}
                Err(NoAnswer::Closed) => break true,
                Err(NoAnswer::Cut) if matches!(case.fate, Fate::Endless) => break true,
                Err(_) => break false,
            }
        };
        drop((stream, reading));
        self.barrier();
        Outcome { statuses, closed, seen: self.seen(mark) }
    }

    /// A request of another client. It goes to the origin on the connection that was used last: a
    /// smuggled request there comes before it.
    fn barrier(&self) {
        let stream = connect(&self.gateway);
        let request = b"GET /barrier HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";
        (&stream).write_all(request).expect("it reads");
        let mut reading = BufReader::new(stream);
        let mut body = Vec::new();
        let answer = ResponseHead::read(&mut reading).expect("others are answered");
        let sink = &mut |part: &[u8]| body.extend_from_slice(part);
        answer.body(&mut reading, false, sink).expect("a body");
        assert_eq!(answer.status, 200);
        let own = body.starts_with(b"GET /barrier ");
        assert!(own, "somebody else's answer: {}", body.escape_ascii());
    }

    /// What the origin got of the case with this mark, in the order in which it came.
    fn seen(&mut self, mark: &str) -> Vec<ReceivedRequest> {
        let mut seen = self.origin.take_seen();
        let barrier = seen.iter().position(|seen| seen.head.target == "/barrier");
        seen.remove(barrier.expect("the barrier"));
        // A head on a connection that was given up may be read after the barrier, and even after
        // the next case.
        let is_late = |seen: &mut ReceivedRequest| {
            let digits = seen.head.target.get(1..).unwrap_or_default();
            let is_mark = digits.len() == 4 && digits.bytes().all(|it| it.is_ascii_digit());
            is_mark && !seen.whole && seen.head.target != mark
        };
        let late = seen.extract_if(.., is_late).map(|seen| seen.head.target);
        self.late.extend(late);
        seen
    }
}

fn connect(gateway: &Gateway) -> TcpStream {
    let stream = TcpStream::connect(gateway.address).expect("it accepts connections");
    stream.set_nodelay(true).expect("no delay");
    stream.set_read_timeout(Some(DEADLINE)).expect("a time-out");
    stream
}

/// How a case comes: as a program sends it, and as a network may bring it.
const WAYS: [&str; 2] = ["at once", "byte by byte"];

/// Plays all of them, whole and byte by byte, with a server that is awake and one that sleeps, and
/// tells of all that went wrong. Then strangers send them to a site that is closed to them.
fn play_all(cases: &[Case]) {
    let mut faults = Vec::new();
    for server in [AWAKE, SLEEPY] {
        let mut stage = Stage::set(server);
        let mut may_be_late = Vec::new();
        for (number, case) in cases.iter().enumerate() {
            for (way, how) in WAYS.iter().enumerate() {
                let mark = mark(number * WAYS.len() + way);
                let all = [marked(&case.bytes, &mark), CANARY.to_vec()].concat();
                // Large ones only show their size.
                if *how == "byte by byte" && all.len() > 1000 {
                    continue;
                }
                let piece = if *how == "byte by byte" { 1 } else { all.len() };
                let pieces: Vec<&[u8]> = all.chunks(piece).collect();
                let outcome = stage.play(case, &mark, &pieces);
                let asleep = if server == SLEEPY { ", held" } else { "" };
                println!("{outcome}: {} ({how}{asleep})", case.name);
                if let Some(fault) = outcome.fault(&case.fate, &mark) {
                    let (name, fate) = (&case.name, &case.fate);
                    faults.push(format!("{name} {how}{asleep}: {fault}: {outcome}; {fate:?}"));
                }
                if matches!(case.fate, Fate::BrokenOff | Fate::Endless | Fate::EitherBody(_)) {
                    may_be_late.push(mark);
                }
            }
        }
        stage.late.retain(|mark| !may_be_late.contains(mark));
        assert!(stage.late.is_empty(), "the origin got a part of these: {:?}", stage.late);
        let complaint = stage.origin.complaint();
        assert_eq!(complaint, None, "the origin got what is malformed");
        stage.gateway.stop();
    }
    assert!(faults.is_empty(), "{} of them:\n{}", faults.len(), faults.join("\n"));
    access::none_passes(cases);
}
