//! Requests that could be read in two ways: each is refused and its connection closed, or passed
//! on as one request that can only be read in one way.
//!
//! Behind each request follows another on the same connection, the [`CANARY`]. It tells where the
//! gateway takes the first one to end, and must not be answered behind one that was refused.

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

use crate::answer::{Answer, NoAnswer};
use crate::gateway::{DEADLINE, Gateway};
use crate::origin::{Origin, Seen};

/// What follows each request.
const CANARY: &[u8] = b"GET /canary HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";

const CONFIG: &str = r#"
listen = ["127.0.0.1:0"]
state_dir = "DIR/state"

[limits]
header_bytes = 8192
headers = 64
body_bytes = 100000

[scenario]
policy = "always-on"

[[site]]
name = "site"
origin = "http://ORIGIN"
probe = "controller"
power.simulated = { starts_up = true }
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
    seen: Vec<Seen>,
}

impl Outcome {
    /// What is wrong with it; nothing if it is as it should be.
    fn fault(&self, fate: &Fate) -> Option<&'static str> {
        if !self.closed {
            return Some("neither answered nor closed");
        }
        let refused = || self.is_refused() && self.seen.is_empty();
        let fine = match fate {
            Fate::Refused => refused(),
            Fate::Dropped => refused() || self.statuses.is_empty() && self.seen.is_empty(),
            Fate::BrokenOff => self.is_broken_off() && self.is_refused(),
            Fate::Endless => self.is_broken_off() && self.statuses.len() < 2,
            Fate::Passed(wanted) => self.is_passed(wanted, true),
            Fate::Either(wanted) => refused() || self.is_passed(wanted, true),
            Fate::EitherBody(wanted) => {
                self.is_broken_off() && self.is_refused() || self.is_passed(wanted, true)
            }
            Fate::EitherLast(wanted) => refused() || self.is_passed(wanted, false),
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
    fn is_passed(&self, wanted: &[Wanted], goes_on: bool) -> bool {
        let got: Vec<Wanted> = self.seen.iter().map(wanted_of).collect();
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

fn wanted_of(seen: &Seen) -> Wanted {
    let Seen { head, body, .. } = seen;
    let host = head.only("host").unwrap_or_default().to_owned();
    Wanted { line: format!("{} {}", head.method, head.target), host, body: body.clone() }
}

/// Sends a case in pieces, and sees what becomes of it.
fn play(case: &Case, gateway: &Gateway, origin: &Origin, pieces: &[&[u8]]) -> Outcome {
    let stream = TcpStream::connect(gateway.address).expect("it accepts connections");
    stream.set_nodelay(true).expect("no delay");
    stream.set_read_timeout(Some(DEADLINE)).expect("a time-out");
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
        let answered = Answer::read(&mut reading).and_then(|answer| {
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
    barrier(gateway);
    let mut seen = origin.take_seen();
    let last = seen.pop().expect("the barrier");
    assert_eq!(last.head.target, "/barrier", "{}: something came behind it", case.name);
    Outcome { statuses, closed, seen }
}

/// Somebody else's request. It goes to the origin on the connection that was used last: what was
/// smuggled there comes before it.
fn barrier(gateway: &Gateway) {
    let stream = TcpStream::connect(gateway.address).expect("it accepts connections");
    stream.set_read_timeout(Some(DEADLINE)).expect("a time-out");
    let request = b"GET /barrier HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";
    (&stream).write_all(request).expect("it reads");
    let mut reading = BufReader::new(stream);
    let mut body = Vec::new();
    let answer = Answer::read(&mut reading).expect("others are answered");
    answer.body(&mut reading, false, &mut |part| body.extend_from_slice(part)).expect("a body");
    assert_eq!(answer.status, 200);
    assert!(body.starts_with(b"GET /barrier "), "somebody else's answer: {}", body.escape_ascii());
}

/// Plays all of them, whole and byte by byte, and tells of all that went wrong.
fn play_all(cases: &[Case]) {
    let origin = Origin::start(true);
    let gateway = Gateway::start(&CONFIG.replace("ORIGIN", &origin.address.to_string()));
    let mut faults = Vec::new();
    for case in cases {
        let all = [&case.bytes, CANARY].concat();
        let mut plays = vec![vec![&all[..]]];
        // In bytes, as they may come over a network. Those that are large only show their size.
        if all.len() < 1000 {
            plays.push(all.chunks(1).collect());
        }
        for pieces in plays {
            let outcome = play(case, &gateway, &origin, &pieces);
            let how = if pieces.len() > 1 { "byte by byte" } else { "at once" };
            let (name, statuses, seen) = (&case.name, &outcome.statuses, outcome.seen.len());
            println!("{statuses:?}, {seen} at the origin, {how}: {name}");
            if let Some(fault) = outcome.fault(&case.fate) {
                faults.push(format!("{name} {how}: {fault}: {outcome}; {:?}", case.fate));
            }
        }
    }
    assert_eq!(origin.complaint(), None, "the origin got what is malformed");
    assert!(faults.is_empty(), "{} of them:\n{}", faults.len(), faults.join("\n"));
    gateway.stop();
}
