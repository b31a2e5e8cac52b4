//! Header fields: their form, the lines they are on, and those that speak of the connection.

use super::Fate::{Either, Passed, Refused};
use super::{Case, get, one, play_all, post};

fn as_get() -> super::Fate {
    Passed(one("GET /case", b""))
}

#[test]
fn a_field_is_a_name_a_colon_and_a_value() {
    let wrong: [&[u8]; 33] = [
        b": value",
        b":",
        b" ",
        b"name",
        b"na me: x",
        b"name : x",
        b"name\t: x",
        b"\tname: x",
        b"na\0me: x",
        b"na\x01me: x",
        b"na\x0bme: x",
        b"na\x7fme: x",
        b"na\xc3\xa9me: x",
        b"\xff: x",
        b"na(me: x",
        b"na)me: x",
        b"na,me: x",
        b"na/me: x",
        b"na;me: x",
        b"na<me: x",
        b"na=me: x",
        b"na?me: x",
        b"na@me: x",
        b"na[me: x",
        b"na\\me: x",
        b"na{me: x",
        b"na\"me: x",
        b"na\rme: x",
        b"\x00",
        b"\x0b",
        b"=x",
        b"GET /smuggled HTTP/1.1",
        b"X: y\r\nno field at all",
    ];
    // A line of a space alone is no field; the rest of a folded one it may be.
    let cases = wrong.map(|line| {
        let fate =
            if line[0].is_ascii_whitespace() { Either(one("GET /case", b"")) } else { Refused };
        Case::new("no field", &get(&[b"A: b\r\n", line].concat()), fate)
    });
    play_all(&cases);
}

#[test]
fn a_value_has_no_controls() {
    let wrong: [&[u8]; 12] = [
        b"a\0b", b"\0", b"a\rb", b"a\r", b"\ra", b"a\x01b", b"a\x08b", b"a\x0bb", b"a\x0cb",
        b"a\x1bb", b"a\x1fb", b"a\x7fb",
    ];
    play_all(&wrong.map(|value| Case::new("control", &get(&[b"X: ", value].concat()), Refused)));
}

#[test]
fn values_may_be_empty_or_odd() {
    let right: [&[u8]; 9] = [
        b"X:",
        b"X: ",
        b"X: \t ",
        b"X:y",
        b"X: a\tb",
        b"X: \xe9\xff",
        b"X: a  b",
        b"X: ::;,=\"",
        b"!#$%&'*+-.^_`|~09aZ: x",
    ];
    play_all(&right.map(|line| Case::new("value", &get(line), as_get())));
}

/// RFC 9112, 2.2: LF alone may end a line. Then it must end it wherever it stands.
#[test]
fn lf_alone_ends_a_line_or_is_refused() {
    let heads: [&[u8]; 7] = [
        b"GET /case HTTP/1.1\nHost: site.test\n\n",
        b"GET /case HTTP/1.1\nHost: site.test\r\n\r\n",
        b"GET /case HTTP/1.1\r\nHost: site.test\n\r\n",
        b"GET /case HTTP/1.1\r\nHost: site.test\r\n\n",
        b"GET /case HTTP/1.1\r\nHost: site.test\n\n",
        b"GET /case HTTP/1.1\r\nX: y\nHost: site.test\r\n\r\n",
        b"GET /case HTTP/1.1\r\nHost: site.test\nX: y\r\n\r\n",
    ];
    let cases = heads.map(|head| Case::new("LF", head, Either(one("GET /case", b""))));
    play_all(&cases);
}

#[test]
fn cr_alone_ends_nothing() {
    let heads: [&[u8]; 7] = [
        b"GET /case HTTP/1.1\rHost: site.test\r\r",
        b"GET /case HTTP/1.1\r\nHost: site.test\r\r\n\r\n",
        b"GET /case HTTP/1.1\r\nHost: site.test\r\n\r\r\n",
        b"GET /case HTTP/1.1\r\nHost: site.test\n\rX: y\r\n\r\n",
        b"GET /case HTTP/1.1\r\n\rHost: site.test\r\n\r\n",
        b"GET /case HTTP/1.1\r\r\nHost: site.test\r\n\r\n",
        b"GET /case HTTP/1.1\r\nHost: site.test\rX: y\r\n\r\n",
    ];
    play_all(&heads.map(|head| Case::new("CR", head, Refused)));
}

/// RFC 9112, 2.2: refused, or each such line is overlooked.
#[test]
fn space_before_the_first_field_hides_nothing() {
    let head = |line: &[u8]| {
        let rest = b"\r\nHost: site.test\r\n\r\n";
        [b"GET /case HTTP/1.1\r\n", line, rest].concat()
    };
    let lines: [&[u8]; 4] = [b" X: y", b"\tX: y", b" Host: other.test", b" "];
    let cases = lines.map(|line| Case::new("space", &head(line), Either(one("GET /case", b""))));
    play_all(&cases);
}

/// The gateway removes any field that a client names in `Connection` (RFC 9110, 7.6.1). The fields
/// that the gateway itself relies on must survive that.
#[test]
fn connection_removes_no_field_that_counts() {
    let names = [
        "Host",
        "Content-Length",
        "content-length",
        "Transfer-Encoding",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Request-Id",
        "Via",
        "Cookie",
        "Authorization",
        "Cache-Control",
        "Content-Type",
        "Connection",
        "Expect",
        "Date",
        "keep-alive, Host, Content-Length",
        "X\r\nConnection: Host",
        ", ,Host,",
        "\"Host\"",
        "Host;x=y",
        "Ho st",
    ];
    let mut cases: Vec<Case> = names
        .iter()
        .map(|name| {
            let lines = format!("Content-Length: 5\r\nCookie: a=b\r\nConnection: {name}");
            let wanted = Either(one("POST /case", b"hello"));
            Case::new("connection", &post(lines.as_bytes(), b"hello"), wanted)
        })
        .collect();
    let chunked = b"Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding";
    let body = b"5\r\nhello\r\n0\r\n\r\n";
    let wanted = Either(one("POST /case", b"hello"));
    cases.push(Case::new("connection", &post(chunked, body), wanted));
    play_all(&cases);
}

#[test]
fn fields_of_a_connection_go_no_further() {
    let lines: [&[u8]; 9] = [
        b"Keep-Alive: timeout=5",
        b"Proxy-Connection: keep-alive",
        b"TE: trailers",
        b"TE: chunked",
        b"Trailer: X",
        b"X-Forwarded-For: 6.6.6.6",
        b"X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7",
        b"Forwarded: for=6.6.6.6",
        b"X-Request-Id: forged",
    ];
    play_all(&lines.map(|line| Case::new("hop", &get(line), as_get())));
}

/// The gateway speaks HTTP/1.1 and goes on to: the answer to an upgrade is an answer.
#[test]
fn no_upgrade_is_smuggled() {
    let lines: [&[u8]; 8] = [
        b"Connection: Upgrade\r\nUpgrade: HTTP/2.0",
        b"Connection: Upgrade\r\nUpgrade: h2",
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
        b"Connection: Upgrade\r\nUpgrade: h2c",
        b"Upgrade: h2c",
        b"Connection: Upgrade\r\nUpgrade: TLS/1.0, HTTP/2.0",
        b"Connection: Upgrade\r\nUpgrade: websocket, h2c",
        b"Connection: HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
    ];
    let mut cases: Vec<Case> = lines
        .iter()
        .map(|line| Case::new("upgrade", &get(line), Either(one("GET /case", b""))))
        .collect();
    let lines = b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5";
    let wanted = Either(one("POST /case", b"hello"));
    cases.push(Case::new("upgrade with a body", &post(lines, b"hello"), wanted));
    play_all(&cases);
}

#[test]
fn expectations_are_met_or_refused_and_go_no_further() {
    let values =
        ["100-continue", "100-Continue", "200-ok", "", "100-continue, 100-continue", "x=y"];
    let mut cases: Vec<Case> = values
        .iter()
        .map(|value| {
            let lines = format!("Content-Length: 5\r\nExpect: {value}");
            let wanted = Either(one("POST /case", b"hello"));
            Case::new("expectation", &post(lines.as_bytes(), b"hello"), wanted)
        })
        .collect();
    let wanted = || Either(one("GET /case", b""));
    cases.push(Case::new("without a body", &get(b"Expect: 100-continue"), wanted()));
    let twice = b"Expect: 100-continue\r\nExpect: 100-continue";
    cases.push(Case::new("twice", &get(twice), wanted()));
    let chunked = b"Transfer-Encoding: chunked\r\nExpect: 100-continue";
    let wanted = Either(one("POST /case", b"hello"));
    let body = b"5\r\nhello\r\n0\r\n\r\n";
    cases.push(Case::new("in chunks", &post(chunked, body), wanted));
    play_all(&cases);
}
