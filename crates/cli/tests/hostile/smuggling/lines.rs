//! The request line, and whatever stands before it.

use super::Fate::{BrokenOff, Dropped, Either, EitherLast, Passed, Refused};
use super::{Case, Wanted, one, play_all};

/// A request with this line and a right Host.
fn with(line: &[u8]) -> Vec<u8> {
    [line, b"\r\nHost: site.test\r\n\r\n"].concat()
}

#[test]
fn a_method_is_a_token() {
    let wrong: [&[u8]; 16] = [
        b"", b"G\0T", b"G(T", b"GET,", b"G\"T", b"G/T", b"G:T", b"G[T", b"G{T", b"G@T", b"G\xe9T",
        b"\xffGET", b"G\x0bT", b"G\x7fT", b"G\rT", b"<GET>",
    ];
    let cases = wrong.map(|method| {
        Case::new("no method", &with(&[method, b" /case HTTP/1.1"].concat()), Refused)
    });
    play_all(&cases);
}

#[test]
fn methods_are_told_apart_by_case_and_passed_on_as_they_are() {
    let cases =
        ["get", "Get", "DELETE", "PATCH", "PROPFIND", "SMUGGET", "X-1.2_3~"].map(|method| {
            let line = format!("{method} /case HTTP/1.1");
            let wanted = one(&format!("{method} /case"), b"");
            Case::new("a method", &with(line.as_bytes()), Either(wanted))
        });
    play_all(&cases);
}

#[test]
fn one_space_stands_between_the_words_of_the_first_line() {
    let refused: [&[u8]; 22] = [
        b"GET\t/case\tHTTP/1.1",
        b"GET\x0b/case HTTP/1.1",
        b"GET\x0c/case HTTP/1.1",
        b"GET\xa0/case HTTP/1.1",
        b"GET\0/case HTTP/1.1",
        b"GET\r/case HTTP/1.1",
        b"GET /case\tHTTP/1.1",
        b"GET /case\x0bHTTP/1.1",
        b"GET /case\rHTTP/1.1",
        b"GET /ca se HTTP/1.1",
        b"GET /case HTTP/1.1 HTTP/1.1",
        b"GET /case HTTP/1.1 x",
        b"GET /case HTTP /1.1",
        b"GET /case HTTP/1.1\x0b",
        b"GET /case HTTP/1.1\0",
        b"GET /case HTTP/1.1\r",
        b"GET /case HTTP/1.1,",
        b"\tGET /case HTTP/1.1",
        b"\x0bGET /case HTTP/1.1",
        b"\0GET /case HTTP/1.1",
        b"GET/case HTTP/1.1",
        b"GET /caseHTTP/1.1",
    ];
    let either: [&[u8]; 5] = [
        b"GET  /case HTTP/1.1",
        b"GET /case  HTTP/1.1",
        b"GET /case HTTP/1.1 ",
        b" GET /case HTTP/1.1",
        b"GET /case HTTP/1.1\t",
    ];
    let refused = refused.iter().map(|line| Case::new("no line", &with(line), Refused));
    let either =
        either.iter().map(|line| Case::new("spaces", &with(line), Either(one("GET /case", b""))));
    play_all(&refused.chain(either).collect::<Vec<Case>>());
}

#[test]
fn the_first_line_is_whole() {
    let lines: [&[u8]; 8] = [
        b"GET",
        b"GET ",
        b"GET /case",
        b"GET /case ",
        b"GET /case HTTP",
        b"GET /case HTTP/",
        b"/case HTTP/1.1",
        b"GET /case\r\nHTTP/1.1",
    ];
    let mut cases: Vec<Case> =
        lines.iter().map(|line| Case::new("half a line", &with(line), Dropped)).collect();
    // A line that ends in LF alone may be one, but this is two.
    cases.push(Case::new("split", &with(b"GET /case\nHTTP/1.1"), Dropped));
    cases.push(Case::new("split", &with(b"GET\n/case HTTP/1.1"), Dropped));
    play_all(&cases);
}

/// RFC 9110, 2.5: of a higher minor version, as if it were 1.1; of another major one, refused.
#[test]
fn versions_that_are_unheard_of_are_refused() {
    let wrong: [&[u8]; 27] = [
        b"HTTP/0.9",
        b"HTTP/2.0",
        b"HTTP/2",
        b"HTTP/3.7",
        b"HTTP/0.0",
        b"HTTP/9.9",
        b"http/1.1",
        b"Http/1.1",
        b"HTTP/1.1x",
        b"HTTP/11",
        b"HTTP/1",
        b"HTTP/1.",
        b"HTTP/.1",
        b"HTTP/01.1",
        b"HTTP/1.01",
        b"HTTP/1.10",
        b"HTTP/1,1",
        b"HTTP/1.1.1",
        b"HTTP/-1.1",
        b"HTTP/+1.1",
        b"HTTP/1.\xd9\xa1",
        b"HTTP/1.a",
        b"HTTP/0x1.1",
        b"XTTP/1.1",
        b"HTTP\\1.1",
        b"HTTPS/1.1",
        b"SIP/2.0",
    ];
    let mut cases: Vec<Case> = wrong
        .iter()
        .map(|version| Case::new("version", &with(&[b"GET /case ", *version].concat()), Dropped))
        .collect();
    let later = with(b"GET /case HTTP/1.2");
    cases.push(Case::new("a later version", &later, Either(one("GET /case", b""))));
    let earlier = with(b"GET /case HTTP/1.0");
    cases.push(Case::new("an earlier version", &earlier, EitherLast(one("GET /case", b""))));
    play_all(&cases);
}

#[test]
fn a_target_has_a_form() {
    let refused: [&[u8]; 22] = [
        b"case",
        b"?case",
        b"*",
        b"#case",
        b"\\case",
        b"/ca\0se",
        b"/ca\x01se",
        b"/ca\x0bse",
        b"/ca\x7fse",
        b"/ca\tse",
        b"/ca\rse",
        b"//\0",
        b"http:",
        b"http:/case",
        b"http://",
        b"http:///case",
        b"http://?case",
        b"://site.test/case",
        b"//site.test:x@/\x02",
        b"site.test:80",
        b"http:\\\\site.test\\case",
        b"\xa0/case",
    ];
    let as_it_is: [&str; 10] = [
        "//case",
        "/../../case",
        "/%00",
        "/%2e%2e/%0d%0aX:%20y",
        "/case?a=b&c=d?e/f",
        "/case;x=y",
        "/case:80@other",
        "/?",
        "/http://other.test/",
        "//other.test/case",
    ];
    let refused = refused.iter().map(|target| {
        Case::new("no target", &with(&[b"GET ", *target, b" HTTP/1.1"].concat()), Refused)
    });
    let as_it_is = as_it_is.iter().map(|target| {
        let line = format!("GET {target}");
        Case::new("target", &with(format!("{line} HTTP/1.1").as_bytes()), Passed(one(&line, b"")))
    });
    let odd: [(&[u8], &str); 5] = [
        (b"GET /case#part", "GET /case"),
        (b"GET /case?x#y", "GET /case?x"),
        (b"OPTIONS *", "OPTIONS *"),
        (b"GET /ca%zzse", "GET /ca%zzse"),
        // What cannot be passed on as it is is escaped.
        (b"GET /\"<>\\^`{|}", "GET /%22%3C%3E\\^%60{|}"),
    ];
    let odd = odd.iter().map(|(line, wanted)| {
        Case::new("odd", &with(&[line, &b" HTTP/1.1"[..]].concat()), Either(one(wanted, b"")))
    });
    // Passed on, these bytes must be the same.
    let high = Either(one("GET /ca\u{c3}\u{a9}se", b""));
    let high = [Case::new("high", &with(b"GET /ca\xc3\xa9se HTTP/1.1"), high)];
    play_all(&refused.chain(as_it_is).chain(odd).chain(high).collect::<Vec<Case>>());
}

/// RFC 9112, 2.2: an empty line before a request may be overlooked.
#[test]
fn what_stands_before_a_request_is_nothing_or_wrong() {
    let get = || with(b"GET /case HTTP/1.1");
    let either: [&[u8]; 4] = [b"\r\n", b"\r\n\r\n", b"\n", b"\n\n"];
    let dropped: [&[u8]; 11] = [
        b"\r",
        b"\r\r\n",
        b"\r\n\r",
        b" \r\n",
        b"\0",
        b"\xef\xbb\xbf",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01\0\x01\0\x02",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ];
    let either = either.iter().map(|before| {
        let bytes = [before, &get()[..]].concat();
        Case::new("before", &bytes, Either(one("GET /case", b"")))
    });
    let dropped =
        dropped.iter().map(|before| Case::new("before", &[before, &get()[..]].concat(), Dropped));
    play_all(&either.chain(dropped).collect::<Vec<Case>>());
}

#[test]
fn what_comes_behind_a_refused_request_is_not_answered() {
    let two = || vec![Wanted::new("GET /first", b""), Wanted::new("GET /second", b"")];
    let first = with(b"GET /first HTTP/1.1");
    let second = with(b"GET /second HTTP/1.1");
    let bad = b"GET /bad HTTP/1.1\r\nHost: site.test\r\nBad Name: x\r\n\r\n";
    let cut = b"POST /case HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    let connect = b"CONNECT site.test:80 HTTP/1.1\r\nHost: site.test:80\r\n\r\n";
    let cases = [
        Case::new("both right", &[&first[..], &second].concat(), Passed(two())),
        Case::new("a bad head", &[&bad[..], &first, &second].concat(), Refused),
        Case::new("a bad body", &[&cut[..], &first, &second].concat(), BrokenOff),
        Case::new("a tunnel", &[&connect[..], &first, &second].concat(), Refused),
        Case::new(
            "TRACE with a body",
            b"TRACE / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 5\r\n\r\nhello",
            Either(one("TRACE /", b"hello")),
        ),
    ];
    play_all(&cases);
}
