//! Whom a request is for.

use super::Fate::{Either, Passed, Refused};
use super::{Case, Wanted, one, play_all};

fn with(line: &str, fields: &[u8]) -> Vec<u8> {
    [line.as_bytes(), b" HTTP/1.1\r\n", fields, b"\r\n\r\n"].concat()
}

/// RFC 9112, 3.2.
#[test]
fn a_request_names_one_host_or_is_refused() {
    let wrong: [&[u8]; 44] = [
        b"X: y",
        b"Host: site.test\r\nHost: site.test",
        b"Host: site.test\r\nHost: other.test",
        b"Host: other.test\r\nX: y\r\nhost: site.test",
        b"Host:\r\nHost: site.test",
        b"Host: site.test\r\nHost:",
        b"Host: site.test, other.test",
        b"Host: site.test,site.test",
        b"Host: site.test other.test",
        b"Host: site.test\tother.test",
        b"Host: site.test/",
        b"Host: site.test/path",
        b"Host: site.test?x",
        b"Host: site.test#x",
        b"Host: user@site.test",
        b"Host: user:word@site.test",
        b"Host: site.test@",
        b"Host: http://site.test",
        b"Host: //site.test",
        b"Host: site.test:port",
        b"Host: site.test:80:80",
        b"Host: site.test:+80",
        b"Host: site.test:-80",
        b"Host: site.test: 80",
        b"Host: site.test:99999",
        b"Host: site.test:80\x0b",
        b"Host: site.test\0",
        b"Host: \0site.test",
        b"Host: site.test\x0b",
        b"Host: \xa0site.test",
        b"Host: site.test\x85",
        b"Host: s\xc3\xafte.test",
        b"Host: site%2etest",
        b"Host: site.test%00",
        b"Host: \"site.test\"",
        b"Host: site.test;x",
        b"Host: [::1",
        b"Host: ::1",
        b"Host: [site.test]",
        b"Host: [::1]x",
        b"Host: site.test\\other.test",
        b"Host : site.test",
        b"Host\t: site.test",
        b"Host site.test",
    ];
    play_all(&wrong.map(|fields| Case::new("no host", &with("GET /case", fields), Refused)));
}

#[test]
fn a_host_may_look_like_this() {
    let right = |field: &str, host: &str| {
        let wanted = vec![Wanted::new("GET /case", b"").to(host)];
        Case::new("host", &with("GET /case", field.as_bytes()), Passed(wanted))
    };
    let cases = [
        right("Host: site.test", "site.test"),
        right("host:site.test", "site.test"),
        right("HOST: \t site.test \t", "site.test"),
        // As the cache's key has it: in lower case, without the scheme's own port.
        right("Host: SITE.test:8080", "site.test:8080"),
        right("Host: [::1]:80", "[::1]"),
        right("Host: 127.0.0.1", "127.0.0.1"),
        right("Host: site.test\r\nX-Host: other.test", "site.test"),
        right("Host: site.test\r\nX-Forwarded-Host: other.test", "site.test"),
    ];
    play_all(&cases);
}

#[test]
fn an_odd_host_is_made_right_or_refused() {
    let either = |fields: &[u8], host: &str| {
        let wanted = vec![Wanted::new("GET /case", b"").to(host)];
        Case::new("odd host", &with("GET /case", fields), Either(wanted))
    };
    let cases = [
        either(b"Host: site.test:", "site.test"),
        either(b"Host: site.test.", "site.test"),
        either(b"Host: -site_test-", "-site_test-"),
        either(b"Host:\r\n site.test", "site.test"),
        either(b"Host: site.test\r\n other.test", "site.test other.test"),
        either(b"Host: site.test\nX: y", "site.test"),
        either(b"X: y\nHost: site.test", "site.test"),
    ];
    play_all(&cases);
}

/// RFC 9112, 3.2.2: the host in the target wins, and the field is replaced.
#[test]
fn the_absolute_form_names_the_host() {
    let either = |target: &str, host: &str, line: &str| {
        let bytes = with(&format!("GET {target}"), b"Host: site.test");
        Case::new("absolute", &bytes, Either(vec![Wanted::new(line, b"").to(host)]))
    };
    let refused = |target: &[u8]| {
        let line = [b"GET ", target, b" HTTP/1.1\r\nHost: site.test\r\n\r\n"].concat();
        Case::new("absolute", &line, Refused)
    };
    let cases = [
        either("http://site.test/case", "site.test", "GET /case"),
        either("http://other.test/case", "other.test", "GET /case"),
        either("http://other.test:81/case?x", "other.test:81", "GET /case?x"),
        either("HTTP://other.test/case", "other.test", "GET /case"),
        either("http://OTHER.test/case", "other.test", "GET /case"),
        either("https://other.test/case", "other.test", "GET /case"),
        either("ftp://other.test/case", "other.test", "GET /case"),
        either("http://other.test", "other.test", "GET /"),
        either("http://other.test?x", "other.test", "GET /?x"),
        either("http://[::1]/case", "[::1]", "GET /case"),
        either("http://other.test//case", "other.test", "GET //case"),
        refused(b"http://user@other.test/case"),
        refused(b"http://user:word@other.test/case"),
        refused(b"http://site.test@other.test/case"),
        refused(b"http://other.test:99999/case"),
        refused(b"http://other.test:80:80/case"),
        refused(b"http://other.test:x/case"),
        refused(b"http://other.test\\@site.test/case"),
        refused(b"http://other.test,site.test/case"),
        refused(b"http://other%2etest/case"),
        refused(b"http://oth\xc3\xa9r.test/case"),
        refused(b"http://[::1/case"),
        refused(b"http://other.test\0/case"),
        refused(b"http://other.test\t/case"),
        refused(b"http://:80/case"),
    ];
    play_all(&cases);
}

#[test]
fn the_absolute_form_excuses_no_wrong_host() {
    let target = "GET http://other.test/case";
    let cases = [
        Case::new("no Host", &with(target, b"X: y"), Refused),
        Case::new("two", &with(target, b"Host: other.test\r\nHost: other.test"), Refused),
        Case::new("wrong", &with(target, b"Host: a b"), Refused),
        Case::new(
            "1.0 with two",
            b"GET /case HTTP/1.0\r\nHost: site.test\r\nHost: other.test\r\n\r\n",
            Refused,
        ),
        Case::new("a wrong one in 1.0", b"GET /case HTTP/1.0\r\nHost: a b\r\n\r\n", Refused),
    ];
    play_all(&cases);
}

#[test]
fn no_tunnel_is_opened() {
    let asked: [&[u8]; 4] = [
        b"CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n",
        b"CONNECT site.test HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"CONNECT /case HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"CONNECT http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n",
    ];
    let mut cases: Vec<Case> =
        asked.iter().map(|bytes| Case::new("a tunnel", bytes, Refused)).collect();
    let get = b"GET /case HTTP/1.1\r\nHost: site.test\r\n\r\n";
    cases.push(Case::new("and this is none", get, Passed(one("GET /case", b""))));
    play_all(&cases);
}
