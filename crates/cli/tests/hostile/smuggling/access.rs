//! A site for one client beside one for all. No case of this suite passes the rule, wakes the server or
//! brings a byte of it to a stranger: neither alone nor around a request for the open site.

use std::io::{BufReader, Write};
use std::net::{Shutdown, TcpStream};

use super::{CONFIG, Case, Fate, SLEEPY, connect, post};
use crate::answer::ResponseHead;
use crate::content::{Pattern, SUM, echo, tag};
use crate::gateway::{Gateway, eventually};
use crate::origin::Origin;
use crate::wire::connect_from;

/// The only client that comes in.
const FRIEND: [u8; 4] = [127, 0, 0, 3];

/// A rule of the site in [`CONFIG`], which has all hosts that no other site has.
const RULE: &str = "access.allow = [\"127.0.0.3\"]\n";

/// A site for all.
const BESIDE: &str = r#"
[[site]]
name = "open"
hosts = ["open.test"]
origin = "http://OPEN"
probe = "controller"
power.simulated = { starts_up = true }
scenario.policy = "always-on"
"#;

const CLOSED_HOST: &[u8] = b"site.test";
/// As long as that.
const OPEN_HOST: &[u8] = b"open.test";

/// A page of the closed site that is stored, with an `ETag`.
const KEPT: &str = "/hit/64/kept";

/// What every client may ask for.
const ALLOWED: &[u8] = b"GET /open HTTP/1.1\r\nHost: open.test\r\n\r\n";

/// A request for the stored page.
fn kept(last: bool) -> Vec<u8> {
    let close = if last { "Connection: close\r\n" } else { "" };
    format!("GET {KEPT} HTTP/1.1\r\nHost: site.test\r\n{close}\r\n").into_bytes()
}

/// Where a case stands.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// At the beginning of the connection.
    Alone,
    /// Behind a request for the open site.
    Behind,
    /// It is for the open site, and before a request for the closed one.
    Across,
}

/// An answer as a client gets it.
#[derive(Debug)]
struct Answer {
    status: u16,
    etag: Option<String>,
    body: Vec<u8>,
}

impl Answer {
    /// Has it anything of the stored page?
    fn is_kept(&self) -> bool {
        let pattern = Pattern::of(KEPT);
        let first: Vec<u8> = (0..8).map(|index| pattern.byte(index)).collect();
        self.etag == Some(tag(KEPT)) || self.body.windows(first.len()).any(|it| it == first)
    }

    fn is_refusal(&self) -> bool {
        matches!(self.status, 400..=499 | 501 | 505)
    }
}

/// What comes until the connection ends, and whether it ends.
fn answers_on(stream: &TcpStream) -> (Vec<Answer>, bool) {
    let mut reading = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut answers = Vec::new();
    loop {
        let answered = ResponseHead::read(&mut reading).and_then(|head| {
            let mut body = Vec::new();
            let whole = head.body(&mut reading, false, &mut |part| body.extend_from_slice(part));
            let etag = head.field("etag").map(str::to_owned);
            answers.push(Answer { status: head.status, etag, body });
            whole
        });
        if let Err(why) = answered {
            return (answers, why.is_end());
        }
    }
}

/// The same requests for the open site.
fn to_open(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let length = CLOSED_HOST.len();
    while let Some(at) = bytes.windows(length).position(|window| window == CLOSED_HOST) {
        bytes[at..at + length].copy_from_slice(OPEN_HOST);
    }
    bytes
}

/// The gateway and the servers of both sites.
struct Sites {
    gateway: Gateway,
    closed: Origin,
    open: Origin,
    /// Of the closed site, before strangers come.
    wakeups: u64,
}

impl Sites {
    /// The server of the closed site sleeps, and a page of it is stored.
    fn set() -> Self {
        let (closed, open) = (Origin::start(true), Origin::start(true));
        let config = CONFIG.replace("ORIGIN", &closed.address.to_string());
        let beside = BESIDE.replace("OPEN", &open.address.to_string());
        let gateway = Gateway::start(&[config.as_str(), RULE, SLEEPY, beside.as_str()].concat());
        eventually("the first look", || gateway.status()["state"] != "unknown");
        let mut sites = Self { gateway, closed, open, wakeups: 0 };
        sites.friend_gets_the_page();
        sites.falls_asleep();
        sites.wakeups = sites.wakeups_so_far();
        // It is stored: no server is needed for it.
        sites.friend_gets_the_page();
        assert_eq!(sites.wakeups_so_far(), sites.wakeups);
        let seen = sites.closed.take_seen();
        assert!(seen.iter().any(|seen| seen.head.target == KEPT), "the page is the server's");
        sites
    }

    fn wakeups_so_far(&self) -> u64 {
        self.gateway.status()["ledger"]["wakeups"].as_u64().expect("a count")
    }

    fn falls_asleep(&self) {
        eventually("it sleeps", || self.gateway.status()["state"] == "asleep");
    }

    fn friend_gets(&self, target: &str) -> Answer {
        let stream = connect_from(FRIEND, self.gateway.address).expect("it accepts connections");
        let fields = "Host: site.test\r\nConnection: close";
        let request = format!("GET {target} HTTP/1.1\r\n{fields}\r\n\r\n");
        (&stream).write_all(request.as_bytes()).expect("it reads");
        let (mut answers, _) = answers_on(&stream);
        answers.pop().expect("friends are answered")
    }

    fn friend_gets_the_page(&self) {
        let answer = self.friend_gets(KEPT);
        assert!(answer.status == 200 && answer.is_kept(), "{answer:?}");
        assert_eq!((answer.etag, answer.body.len()), (Some(tag(KEPT)), 64));
    }

    /// Sends the bytes of a stranger, and returns what comes back.
    fn stranger_sends(&self, bytes: &[u8], is_endless: bool) -> (Vec<Answer>, bool) {
        let stream = connect(&self.gateway);
        // A proxy that refuses early does not read on.
        let _ = (&stream).write_all(bytes);
        if is_endless {
            let _ = stream.shutdown(Shutdown::Write);
        }
        answers_on(&stream)
    }

    /// Plays a case, and returns what is wrong.
    fn play(&self, case: &Case, way: Way) -> Option<String> {
        let last = kept(true);
        let bytes = match way {
            Way::Alone => [case.bytes.as_slice(), last.as_slice()].concat(),
            Way::Behind => [ALLOWED, case.bytes.as_slice(), last.as_slice()].concat(),
            Way::Across => [to_open(&case.bytes), last].concat(),
        };
        let is_endless = matches!(case.fate, Fate::Endless);
        let (answers, ends) = self.stranger_sends(&bytes, is_endless);
        let served: Vec<&Answer> = answers.iter().filter(|it| !it.is_refusal()).collect();
        let allowed = echo("GET", "/open", 0, SUM);
        let is_right = match way {
            Way::Alone => served.is_empty(),
            Way::Behind => {
                let is_it = |it: &Answer| it.status == 200 && it.body == allowed.as_bytes();
                // A client that ends its direction at once may count as gone.
                matches!(served[..], [one] if is_it(one)) || is_endless && served.is_empty()
            }
            Way::Across => served.iter().all(|it| it.status == 200),
        };
        let reached = self.closed.take_seen();
        let why = if answers.iter().any(Answer::is_kept) {
            "the stored page came"
        } else if !reached.is_empty() {
            "it reached the server"
        } else if !self.only_open_hosts() {
            "it reached the server of the open site under another name"
        } else if !is_right {
            "not what every client may get"
        } else if !ends {
            "neither answered nor closed"
        } else {
            return None;
        };
        Some(format!("{} {way:?}: {why}: {answers:?}, {reached:?}", case.name))
    }

    /// What the server of the open site got since the last time was for that.
    fn only_open_hosts(&self) -> bool {
        let of_open = |host: &str| host == "open.test" || host.starts_with("open.test:");
        self.open.take_seen().iter().all(|seen| seen.head.only("host").is_some_and(of_open))
    }

    /// Nothing has reached the server of the closed site or woken it. It still wakes for a friend.
    fn end(mut self) {
        assert_eq!(self.gateway.status()["state"], "asleep");
        assert_eq!(self.wakeups_so_far(), self.wakeups, "a stranger has woken it");
        assert_eq!(self.friend_gets("/last").status, 200);
        self.falls_asleep();
        assert_eq!(self.wakeups_so_far(), self.wakeups + 1);
        let seen = self.closed.take_seen();
        let targets: Vec<&str> = seen.iter().map(|seen| seen.head.target.as_str()).collect();
        // What is stored may be renewed while it is awake.
        assert!(targets.contains(&"/last"), "{targets:?}");
        assert!(targets.iter().all(|target| ["/last", KEPT].contains(target)), "{targets:?}");
        for origin in [&self.closed, &self.open] {
            assert_eq!(origin.complaint(), None, "the origin got what is malformed");
        }
        self.gateway.stop();
    }
}

/// Plays all of them in each way, and reports all that went wrong.
pub(super) fn none_passes(cases: &[Case]) {
    let sites = Sites::set();
    let mut faults = Vec::new();
    for case in cases {
        for way in [Way::Alone, Way::Behind, Way::Across] {
            faults.extend(sites.play(case, way));
        }
    }
    assert!(faults.is_empty(), "{} of them:\n{}", faults.len(), faults.join("\n"));
    sites.end();
}

/// One chunk with these bytes, and the end.
fn in_chunks(bytes: &[u8]) -> Vec<u8> {
    let size = format!("{:x}\r\n", bytes.len());
    [size.as_bytes(), bytes, b"\r\n0\r\n\r\n"].concat()
}

/// As a request it would be answered with 200: that does not come.
#[test]
fn what_is_in_the_body_of_a_refused_request_is_no_request() {
    let length = format!("Content-Length: {}", ALLOWED.len());
    let chunked = "Transfer-Encoding: chunked";
    let behind_the_end = [b"0\r\n\r\n", ALLOWED].concat();
    let of_all = format!("Content-Length: {}\r\n{chunked}", behind_the_end.len());
    let bodies: [(String, Vec<u8>); 11] = [
        (length.clone(), ALLOWED.to_vec()),
        (format!("{length}\r\nExpect: 100-continue"), ALLOWED.to_vec()),
        (format!("{length}\r\nConnection: keep-alive"), ALLOWED.to_vec()),
        (format!("{length}\r\nX-Forwarded-For: 127.0.0.3"), ALLOWED.to_vec()),
        (chunked.to_owned(), in_chunks(ALLOWED)),
        (format!("{chunked}\r\nExpect: 100-continue"), in_chunks(ALLOWED)),
        (of_all, behind_the_end.clone()),
        (format!("{chunked}\r\nContent-Length: 5"), behind_the_end.clone()),
        (format!("Content-Length: 0\r\n{chunked}"), behind_the_end.clone()),
        (format!("Content-Length: 4\r\n{chunked}"), in_chunks(ALLOWED)),
        (format!("Content-Length: 0\r\n{length}"), ALLOWED.to_vec()),
    ];
    let mut cases = Vec::new();
    for (lines, body) in &bodies {
        let posted = post(lines.as_bytes(), body);
        for method in ["POST", "GET", "PUT", "OPTIONS"] {
            let rest = posted.strip_prefix(b"POST").expect("it is posted");
            let bytes = [method.as_bytes(), rest].concat();
            cases.push(Case::new("in a body", &bytes, Fate::Refused));
        }
    }
    none_passes(&cases);
}

/// A client that was let in to one site is still a stranger to the other, and the other way round.
#[test]
fn each_request_of_a_connection_is_judged_for_itself() {
    let sites = Sites::set();
    let shut = kept(false);
    let by_target = format!("GET http://site.test{KEPT} HTTP/1.1\r\nHost: open.test\r\n\r\n");
    let to_target = "GET http://open.test/open HTTP/1.1\r\nHost: site.test\r\n\r\n";
    let hello = post(b"Content-Length: 5", b"hello");
    let chunk = post(b"Transfer-Encoding: chunked", &in_chunks(b"hello"));
    let (shut, by_target, to_target) = (&shut[..], by_target.as_bytes(), to_target.as_bytes());
    let (hello, chunk) = (&hello[..], &chunk[..]);
    // Behind all of them comes the stored page.
    let without_bodies: [(Vec<&[u8]>, &[u16]); 5] = [
        (vec![ALLOWED], &[200, 403]),
        (vec![ALLOWED, shut, ALLOWED, shut], &[200, 403, 200, 403, 403]),
        (vec![shut, shut, ALLOWED], &[403, 403, 200, 403]),
        (vec![ALLOWED, by_target, ALLOWED], &[200, 403, 200, 403]),
        (vec![shut, to_target], &[403, 200, 403]),
    ];
    // A refusal may end the connection while a body is under way.
    let with_bodies: [(Vec<&[u8]>, &[u16]); 3] = [
        (vec![hello, ALLOWED, shut], &[403, 200, 403, 403]),
        (vec![chunk, ALLOWED, shut], &[403, 200, 403, 403]),
        (vec![ALLOWED, hello, hello, chunk], &[200, 403, 403, 403, 403]),
    ];
    let has_bodies = [vec![false; without_bodies.len()], vec![true; with_bodies.len()]].concat();
    let all = without_bodies.into_iter().chain(with_bodies).zip(has_bodies);
    for ((requests, expected), has_body) in all {
        let bytes = [requests.concat(), kept(true)].concat();
        let (answers, ends) = sites.stranger_sends(&bytes, false);
        let statuses: Vec<u16> = answers.iter().map(|it| it.status).collect();
        let sent = bytes.escape_ascii();
        assert!(ends, "neither answered nor closed: {answers:?} to {sent}");
        assert!(!answers.iter().any(Answer::is_kept), "{answers:?} to {sent}");
        if has_body {
            let is_beginning = !statuses.is_empty() && expected.starts_with(&statuses);
            assert!(is_beginning, "{statuses:?} to {sent}");
        } else {
            assert_eq!(statuses, expected, "{sent}");
        }
        assert!(sites.only_open_hosts(), "{sent}");
    }
    sites.end();
}
