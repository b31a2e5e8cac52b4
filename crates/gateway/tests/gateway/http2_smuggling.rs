//! Requests by HTTP/2 that another reader might take for something else: each is refused, or reaches the
//! server as exactly one request that can only be read in one way. Frames are written by hand, since no
//! client would write them.
//!
//! Behind each follows another request on the same connection, the canary, which must fare as if nothing
//! had been before it.

use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::http2::{connection, with_tls};
use crate::origin::{Seen, ok};
use crate::stage::{Stage, awake, watched};

pub(crate) type Field = (Vec<u8>, Vec<u8>);

/// What may become of a request.
pub(crate) enum Fate {
    /// It is no request: nothing of it reaches the server.
    Refused,
    /// Its body is not as its head says: the server may see that it breaks off, never the whole.
    BrokenOff,
    /// Its body is longer than its head says: the server may get as much as that says, and no more.
    CutShort(Wanted),
    /// The server gets this.
    Passed(Wanted),
    /// That, or nothing.
    Either(Wanted),
}

/// A request as the server is to get it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    line: String,
    host: String,
    body: String,
}

impl Wanted {
    /// Is that this, or the beginning of it?
    fn holds(&self, other: &Self) -> bool {
        self.line == other.line && self.host == other.host && self.body.starts_with(&other.body)
    }
}

/// Fields and parts of the body, in order.
pub(crate) struct Case {
    pub(crate) name: String,
    fields: Vec<Field>,
    pub(crate) body: Vec<&'static [u8]>,
    pub(crate) trailers: Vec<Field>,
    fate: Fate,
}

/// A request of its own, if a server parsed it as one.
const SECOND: &[u8] = b"GET /second HTTP/1.1\r\nHost: blog\r\n\r\n";

pub(crate) fn field(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Field {
    (name.as_ref().to_vec(), value.as_ref().to_vec())
}

pub(crate) fn head(method: &str, path: &str) -> Vec<Field> {
    [(":method", method), (":scheme", "https"), (":authority", "blog"), (":path", path)]
        .map(|(name, value)| field(name, value))
        .to_vec()
}

fn wanted(line: &str, body: &[u8]) -> Wanted {
    let body = String::from_utf8(body.to_vec()).unwrap();
    Wanted { line: line.to_owned(), host: "blog".to_owned(), body }
}

impl Case {
    pub(crate) fn new(name: impl Into<String>, fields: Vec<Field>, fate: Fate) -> Self {
        Self { name: name.into(), fields, body: Vec::new(), trailers: Vec::new(), fate }
    }

    /// `GET /case` with one more field.
    pub(crate) fn with(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>, fate: Fate) -> Self {
        let added = field(name, value);
        let shown = format!("{}: {}", added.0.escape_ascii(), added.1.escape_ascii());
        Self::new(shown, [head("GET", "/case"), vec![added]].concat(), fate)
    }

    /// `GET /case` in which a field of the first four is this.
    pub(crate) fn changed(name: &str, value: impl AsRef<[u8]>, fate: Fate) -> Self {
        let mut fields = head("GET", "/case");
        let of_name = fields.iter_mut().find(|it| it.0 == name.as_bytes()).unwrap();
        value.as_ref().clone_into(&mut of_name.1);
        Self::new(format!("{name} {}", value.as_ref().escape_ascii()), fields, fate)
    }

    /// `POST /case` with these fields and this body.
    fn post(fields: &[(&str, &str)], body: &[&'static [u8]], fate: Fate) -> Self {
        let added = fields.iter().map(|(name, value)| field(name, value));
        let whole = head("POST", "/case").into_iter().chain(added).collect();
        let name = format!("POST {fields:?} {}", body.concat().escape_ascii());
        Self { body: body.to_vec(), ..Self::new(name, whole, fate) }
    }
}

fn got(path: &str) -> Fate {
    Fate::Passed(wanted(&format!("GET {path}"), b""))
}

/// Fields that belong to a connection (RFC 9113, 8.2.2), and characters that no field has (8.2.1).
fn fields() -> Vec<Case> {
    let mut cases: Vec<Case> = [
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "identity"),
        ("connection", "close"),
        ("connection", "transfer-encoding"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
    ]
    .map(|(name, value)| Case::with(name, value, Fate::Refused))
    .into();
    for bad in ["\r\n", "\n", "\r", "\0"] {
        let second = format!("1{bad}transfer-encoding: chunked{bad}{bad}GET /second HTTP/1.1{bad}");
        cases.push(Case::with("x-value", &second, Fate::Refused));
        cases.push(Case::with(
            format!("x-name: 1{bad}transfer-encoding"),
            "chunked",
            Fate::Refused,
        ));
        cases.push(Case::with("cookie", format!("a=1{bad}host: evil"), Fate::Refused));
    }
    for name in
        ["X-Upper", "Transfer-Encoding", "x name", "x-name:", "transfer-encoding ", "", "x\u{e9}"]
    {
        cases.push(Case::with(name, "chunked", Fate::Refused));
    }
    cases.push(Case::with("te", "trailers", got("/case")));
    cases.push(Case::with("x-plain", "as it should be", got("/case")));
    cases
}

/// What stands in the first line, and whom it is for (8.3.1).
fn lines() -> Vec<Case> {
    let second = std::str::from_utf8(SECOND).unwrap();
    let split = |before: &str| format!("{before} HTTP/1.1\r\nHost: blog\r\n\r\n{second}");
    let mut cases = Vec::new();
    for path in
        [&*split("/case"), "/case HTTP/1.1", "/ca\nse", "/ca\rse", "/ca\0se", "", "case", "*"]
    {
        cases.push(Case::changed(":path", path, Fate::Refused));
    }
    for method in [&*split("GET /case"), "GET /second", "GET\n", "G\0ET", "", "CONNECT", "TRACE"] {
        cases.push(Case::changed(":method", method, Fate::Refused));
    }
    for authority in
        ["blog\r\nx-evil: 1", "blog evil", "blog, evil", "me@blog", "blog/second?", "blog\0", ""]
    {
        cases.push(Case::changed(":authority", authority, Fate::Refused));
    }
    for scheme in ["https\r\nx-evil: 1", "https://evil/second?"] {
        cases.push(Case::changed(":scheme", scheme, Fate::Refused));
    }
    let either = Fate::Either(wanted("GET /case", b""));
    cases.push(Case::changed(":scheme", "http", either));
    for name in [":method", ":path", ":authority", ":scheme"] {
        let twice = [head("GET", "/case"), vec![field(name, "/second")]].concat();
        cases.push(Case::new(format!("two of {name}"), twice, Fate::Refused));
    }
    for name in [":method", ":path", ":scheme"] {
        let mut without = head("GET", "/case");
        without.retain(|it| it.0 != name.as_bytes());
        cases.push(Case::new(format!("without {name}"), without, Fate::Refused));
    }
    for (name, value) in [(":evil", "1"), (":status", "200"), (":protocol", "websocket")] {
        let unknown = [vec![field(name, value)], head("GET", "/case")].concat();
        cases.push(Case::new(format!("{name} among them"), unknown, Fate::Refused));
    }
    let mut late = head("GET", "/case");
    late.insert(3, field("x-first", "1"));
    cases.push(Case::new("a field before :path", late, Fate::Refused));
    cases
}

fn hosts() -> Vec<Case> {
    let named = |fields: &[(&str, &str)]| {
        let mut head = head("GET", "/case");
        head.retain(|it| it.0 != b":authority");
        head.extend(fields.iter().map(|(name, value)| field(name, value)));
        head
    };
    vec![
        Case::with("host", "evil", Fate::Refused),
        Case::with("host", "blog", got("/case")),
        Case::new("host alone", named(&[("host", "blog")]), got("/case")),
        Case::new("two hosts", named(&[("host", "blog"), ("host", "evil")]), Fate::Refused),
        Case::new("nobody's", named(&[]), Fate::Refused),
    ]
}

/// Where a body ends (8.1.1), and what is in it.
fn bodies() -> Vec<Case> {
    use Fate::{BrokenOff, CutShort, Either, Passed, Refused};
    const CHUNKS: &[u8] = b"0\r\n\r\nGET /second HTTP/1.1\r\nHost: blog\r\n\r\n";
    let posted = |body: &[u8]| Passed(wanted("POST /case", body));
    let mut cases = vec![
        Case::post(&[], &[SECOND], posted(SECOND)),
        Case::post(&[], &[CHUNKS], posted(CHUNKS)),
        Case::post(&[], &[b"on", b"", b"e"], posted(b"one")),
        Case::post(&[("content-length", "3")], &[b"one"], posted(b"one")),
        Case::post(&[("content-length", "3")], &[b"on", b"e"], posted(b"one")),
        Case::post(&[("content-length", "0")], &[SECOND], CutShort(wanted("POST /case", b""))),
        Case::post(
            &[("content-length", "3")],
            &[b"one", SECOND],
            CutShort(wanted("POST /case", b"one")),
        ),
        Case::post(&[("content-length", "3")], &[b"one two"], BrokenOff),
        Case::post(&[("content-length", "300")], &[b"one"], BrokenOff),
        Case::post(&[("content-length", "300")], &[], BrokenOff),
        Case::post(&[("expect", "100-continue")], &[b"one"], posted(b"one")),
        Case::post(&[("transfer-encoding", "chunked")], &[CHUNKS], Refused),
        Case::post(
            &[("transfer-encoding", "chunked"), ("content-length", "3")],
            &[b"one"],
            Refused,
        ),
        Case::post(&[("content-length", "3"), ("content-length", "5")], &[b"one"], Refused),
        Case::post(
            &[("content-length", "3"), ("content-length", "3")],
            &[b"one"],
            Either(wanted("POST /case", b"one")),
        ),
        Case::post(&[("content-length", "3, 3")], &[b"one"], Either(wanted("POST /case", b"one"))),
    ];
    for length in ["+3", "-3", "3x", "0x3", " 3", "3 ", "", "3.0", "99999999999999999999999"] {
        cases.push(Case::post(&[("content-length", length)], &[b"one"], Refused));
    }
    // The library drops it (8.1 would have the request refused): it must not come to the server.
    let mut pseudo =
        Case::post(&[("trailer", "x-sum")], &[b"one"], Either(wanted("POST /case", b"one")));
    "trailer :path: /second".clone_into(&mut pseudo.name);
    pseudo.trailers = vec![field(":path", "/second")];
    cases.push(pseudo);
    for (name, value) in [
        (&b"x-sum"[..], &b"1\r\n\r\nGET /second HTTP/1.1\r\nHost: blog\r\n\r\n"[..]),
        (b"x-sum: 1\r\nx-evil", b"1"),
        (b"X-Sum", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"connection", b"close"),
    ] {
        let mut case = Case::post(&[("trailer", "x-sum")], &[b"one"], BrokenOff);
        case.name = format!("trailer {}: {}", name.escape_ascii(), value.escape_ascii());
        case.trailers = vec![field(name, value)];
        cases.push(case);
    }
    cases
}

/// All of them.
pub(crate) fn cases() -> Vec<Case> {
    [fields(), lines(), hosts(), bodies()].into_iter().flatten().collect()
}

/// A number of HPACK (RFC 7541, 5.1) in seven bits and what follows.
fn number(block: &mut Vec<u8>, value: usize) {
    if value < 127 {
        block.push(value as u8);
        return;
    }
    block.push(127);
    let mut rest = value - 127;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
}

/// Fields as they are, without table and without Huffman's code (6.2.2).
fn block(fields: &[Field]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            number(&mut block, text.len());
            block.extend_from_slice(text);
        }
    }
    block
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// The case on stream 1, the canary on stream 3.
pub(crate) fn bytes(case: &Case) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    let ends = |last: bool| if last { END_STREAM } else { 0 };
    let (parts, has_trailers) = (case.body.len(), !case.trailers.is_empty());
    let flags = END_HEADERS | ends(parts == 0 && !has_trailers);
    bytes.extend(frame(HEADERS, flags, 1, &block(&case.fields)));
    for (place, part) in case.body.iter().enumerate() {
        bytes.extend(frame(DATA, ends(place + 1 == parts && !has_trailers), 1, part));
    }
    if has_trailers {
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&case.trailers)));
    }
    bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, 3, &block(&head("GET", "/canary"))));
    bytes
}

/// Which of the two requests were answered with 200.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    pub(crate) case: bool,
    pub(crate) canary: bool,
}

/// Sends it, and reads until both are over or the connection is.
async fn answered(stage: &Stage, chain: &Path, case: &Case) -> Answered {
    let mut stream = Box::pin(connection(stage, chain)).await;
    answered_on(&mut stream, case).await
}

/// The same on a connection that there is.
pub(crate) async fn answered_on(stream: &mut TlsStream<TcpStream>, case: &Case) -> Answered {
    stream.write_all(&bytes(case)).await.unwrap();
    let (mut answered, mut over) = (Answered::default(), [false; 2]);
    while over != [true; 2] {
        let mut head = [0; 9];
        // The connection may end at once, and by an error of TLS: it was cut.
        if stream.read_exact(&mut head).await.is_err() {
            break;
        }
        let [high, middle, low, kind, flags, .., stream_id] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        if stream.read_exact(&mut payload).await.is_err() {
            break;
        }
        match kind {
            GOAWAY => break,
            SETTINGS if flags & ACK == 0 => {
                let _ = stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await;
            }
            HEADERS | DATA | RST_STREAM if [1, 3].contains(&stream_id) => {
                // 200 has a number of its own in HPACK's table, and stands first; a change of the table's
                // size may be before it.
                let status = payload.iter().find(|byte| **byte & 0xe0 != 0x20);
                let is_well = kind == HEADERS && status == Some(&0x88);
                let which = if stream_id == 1 { &mut answered.case } else { &mut answered.canary };
                *which |= is_well;
                over[usize::from(stream_id == 3)] |= kind == RST_STREAM || flags & END_STREAM != 0;
            }
            _ => {}
        }
    }
    answered
}

fn wanted_of(seen: &Seen) -> Wanted {
    let body = seen.body.clone().map_or(Vec::new(), |(body, _)| body);
    Wanted {
        line: format!("{} {}", seen.method, seen.target),
        host: seen.fields.all("host").join(" and "),
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

fn is_whole(seen: &Seen) -> bool {
    seen.body.as_ref().is_some_and(|(_, whole)| *whole)
}

/// What is wrong with what became of it.
fn fault(fate: &Fate, is_answered: bool, seen: &[Seen]) -> Option<&'static str> {
    let refused = !is_answered && seen.is_empty();
    let passed = |wanted: &Wanted| {
        let is_it = |seen: &Seen| is_whole(seen) && wanted_of(seen) == *wanted;
        is_answered && matches!(seen, [one] if is_it(one) && one.trailers.is_empty())
    };
    let no_more = |wanted: &Wanted| {
        matches!(seen, [] | [_]) && seen.iter().map(wanted_of).all(|it| wanted.holds(&it))
    };
    let fine = match fate {
        Fate::Refused => refused,
        Fate::BrokenOff => !is_answered && seen.len() < 2 && !seen.iter().any(is_whole),
        Fate::CutShort(wanted) => !is_answered && no_more(wanted),
        Fate::Passed(wanted) => passed(wanted),
        Fate::Either(wanted) => refused || passed(wanted),
    };
    (!fine).then_some("not what may become of it")
}

/// Plays a case; says what is wrong.
async fn play(stage: &Stage, chain: &Path, case: &Case) -> Option<String> {
    let before = stage.origin.seen().len();
    let answered = watched(&case.name, answered(stage, chain, case)).await;
    // What is still on its way to the server is there before this one, which comes later.
    let last = Case::new("the last", head("GET", "/last"), Fate::Refused);
    let after = watched("the last", self::answered(stage, chain, &last)).await;
    let seen = stage.origin.seen().split_off(before);
    let is_canary = |it: &Seen| ["/canary", "/last"].contains(&&*it.target);
    let (canaries, seen): (Vec<Seen>, Vec<Seen>) = seen.into_iter().partition(is_canary);
    // Two of the last connection. That of the case's may have come and not been answered, where the case has
    // ended the connection.
    let canaries = canaries.len();
    let is_right = if answered.canary { canaries == 3 } else { [2, 3].contains(&canaries) };
    let why = if !after.case || !after.canary {
        Some("the server is not reached any more")
    } else if !is_right {
        Some("the canary did not come as one request")
    } else {
        fault(&case.fate, answered.case, &seen)
    };
    why.map(|why| {
        let seen: Vec<Wanted> = seen.iter().map(wanted_of).collect();
        format!("{}: {why}: {answered:?}, the server got {seen:?}", case.name)
    })
}

#[test]
fn what_could_be_read_in_two_ways_by_http2_is_refused_or_reaches_the_server_as_one_request() {
    let Some((_dir, chain, setup)) = with_tls(awake()) else { return };
    setup.play(async |stage| {
        // The server sees all that it is to see.
        stage.origin.says(ok("fine").field("Cache-Control", "no-store"));
        let mut faults = Vec::new();
        let cases = cases();
        for case in &cases {
            faults.extend(play(stage, &chain, case).await);
        }
        assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.join("\n"));
    });
}
