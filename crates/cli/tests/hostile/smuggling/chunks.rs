//! Bodies in chunks: sizes, extensions, line ends, trailers.

use super::Fate::{BrokenOff, EitherBody, Endless, Passed};
use super::{Case, get, one, play_all, post};

const LINES: &[u8] = b"Transfer-Encoding: chunked";

/// A chunk size as written, its five bytes, and the end.
fn sized(size: &[u8]) -> Vec<u8> {
    [size, b"\r\nhello\r\n0\r\n\r\n"].concat()
}

#[test]
fn a_size_is_hexadecimal_digits_and_nothing_else() {
    let wrong: [&[u8]; 36] = [
        b"+5",
        b"-5",
        b"-0",
        b"+0",
        b"0x5",
        b"0X5",
        b"x5",
        b"5x",
        b"5h",
        b"g",
        b"",
        b" 5",
        b"\t5",
        b"5_0",
        b"0_5",
        b"5 5",
        b"5 0",
        b"5,5",
        b"5.",
        b"\"5\"",
        b"'5'",
        b"{5}",
        b"5\x0b",
        b"\x0b5",
        b"5\x0c",
        b"5\0",
        b"\x005",
        b"5\xa0",
        b"\x855",
        b"\xef\xbc\x95",
        b"5#",
        b"5=x",
        b"\r\n5",
        b"\n5",
        b"\r5",
        b"5%",
    ];
    let cases = wrong.map(|size| Case::new("not a size", &post(LINES, &sized(size)), BrokenOff));
    play_all(&cases);
}

#[test]
fn a_size_that_no_number_holds_is_refused() {
    let wrong: [&[u8]; 6] = [
        b"10000000000000005",
        b"ffffffffffffffff",
        b"fffffffffffffffff",
        b"8000000000000005",
        b"100000000000000000000000000000005",
        b"7fffffffffffffff",
    ];
    let cases = wrong.map(|size| Case::new("a huge size", &post(LINES, &sized(size)), BrokenOff));
    play_all(&cases);
}

#[test]
fn a_right_body_is_kept() {
    let hello = || one("POST /case", b"hello");
    let with = |name: &str, body: &[u8]| Case::new(name, &post(LINES, body), Passed(hello()));
    let maybe = |name: &str, body: &[u8]| Case::new(name, &post(LINES, body), EitherBody(hello()));
    let zeros = [&[b'0'; 40][..], b"5\r\nhello\r\n0\r\n\r\n"].concat();
    let cases = [
        with("one chunk", b"5\r\nhello\r\n0\r\n\r\n"),
        with("two chunks", b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
        Case::new(
            "capitals",
            &post(LINES, b"A\r\nhellohello\r\n0\r\n\r\n"),
            Passed(one("POST /case", b"hellohello")),
        ),
        Case::new(
            "with GET",
            &[get(LINES), sized(b"5")].concat(),
            Passed(one("GET /case", b"hello")),
        ),
        Case::new("nothing", &post(LINES, b"0\r\n\r\n"), Passed(one("POST /case", b""))),
        maybe("zeros before it", b"0005\r\nhello\r\n0\r\n\r\n"),
        maybe("many zeros before it", &zeros),
        maybe("two zeros at the end", b"5\r\nhello\r\n00\r\n\r\n"),
        maybe("a space behind it", b"5 \r\nhello\r\n0\r\n\r\n"),
        maybe("a tab behind it", b"5\t\r\nhello\r\n0\r\n\r\n"),
        Case::new("no end", &post(LINES, b"5\r\nhello\r\n5000\r\n"), Endless),
        Case::new("hardly begun", &post(LINES, b"5"), BrokenOff),
    ];
    play_all(&cases);
}

/// Extensions are dropped: none has ever meant anything (RFC 9112, 7.1.1).
#[test]
fn extensions_are_dropped_or_refused() {
    let harmless: [&[u8]; 9] = [
        b"5;x",
        b"5;x=y",
        b"5;x=y;z",
        b"5;x=\"y\"",
        b"5;x=\"y;\\\"z\"",
        b"5 ; x = y",
        b"5;",
        b"5;;",
        b"5;a=\"GET /smuggled HTTP/1.1\"",
    ];
    let harmful: [&[u8]; 11] = [
        b"5;\n",
        b"5;x\nhello\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nX: y",
        b"5;x\r",
        b"5;x\ry",
        b"5;x\r\r",
        b"5;x\0",
        b"5;\x0b\n",
        b"5;x=\"\n\"",
        b"5;x=\"\r\n\"",
        b"5;x\x7f\n",
        b"5;\rX",
    ];
    let harmless = harmless.iter().map(|size| {
        Case::new("extension", &post(LINES, &sized(size)), EitherBody(one("POST /case", b"hello")))
    });
    let harmful =
        harmful.iter().map(|size| Case::new("extension", &post(LINES, &sized(size)), BrokenOff));
    let last: [&[u8]; 2] = [b"5\r\nhello\r\n0;x\r\n\r\n", b"5\r\nhello\r\n0;x=y\r\n\r\n"];
    let last = last.map(|body| {
        Case::new("extension", &post(LINES, body), EitherBody(one("POST /case", b"hello")))
    });
    play_all(&harmless.chain(harmful).chain(last).collect::<Vec<Case>>());
}

#[test]
fn lines_among_chunks_end_in_cr_lf() {
    let wrong: [&[u8]; 22] = [
        b"5\nhello\r\n0\r\n\r\n",
        b"5\rhello\r\n0\r\n\r\n",
        b"5\r\rhello\r\n0\r\n\r\n",
        b"5\rXhello\r\n0\r\n\r\n",
        b"5\n\rhello\r\n0\r\n\r\n",
        b"5hello\r\n0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhello\r0\r\n\r\n",
        b"5\r\nhello\r\r0\r\n\r\n",
        b"5\r\nhello\rX0\r\n\r\n",
        b"5\r\nhelloXX0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n",
        b"5\r\nhello\n\n0\r\n\r\n",
        b"5\r\nhello\r\n\r\n0\r\n\r\n",
        b"5\r\nhello!\r\n0\r\n\r\n",
        b"5\r\nhell\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\n\r\n",
        b"5\r\nhello\r\n0\r\r\n",
        b"5\r\nhello\r\n0\r\n\n",
        b"5\r\nhello\r\n0\r\n\rX",
        b"5\r\nhello\r\n0\n\n",
        b"5\r\nhello\r\n\r\n",
    ];
    play_all(&wrong.map(|body| Case::new("line end", &post(LINES, body), BrokenOff)));
}

/// They are passed on where they say nothing about the request itself, dropped or refused.
#[test]
fn trailers_change_nothing() {
    let lines: [&[u8]; 14] = [
        b"X-Checksum: 1",
        b"Content-Length: 50",
        b"Transfer-Encoding: chunked",
        b"Host: other.test",
        b"X-Forwarded-For: 6.6.6.6",
        b"X-Request-Id: forged",
        b"Authorization: Basic eDp5",
        b"Cookie: a=b",
        b"Connection: close",
        b"Trailer: X",
        b"TE: trailers",
        b"Expect: 100-continue",
        b"X: 1\r\nX: 2",
        b"GET: x",
    ];
    let announced: &[u8] =
        b"Transfer-Encoding: chunked\r\nTE: trailers\r\nTrailer: X, X-Checksum, \
        Content-Length, Transfer-Encoding, Host, X-Forwarded-For, X-Request-Id, Authorization, \
        Cookie, Connection, Trailer, TE, Expect, GET";
    let with = |head: &[u8], line: &[u8]| {
        let body = [b"5\r\nhello\r\n0\r\n", line, b"\r\n\r\n"].concat();
        Case::new("trailer", &post(head, &body), EitherBody(one("POST /case", b"hello")))
    };
    let cases: Vec<Case> =
        lines.iter().flat_map(|line| [with(LINES, line), with(announced, line)]).collect();
    play_all(&cases);
}

#[test]
fn trailers_that_are_none_are_refused() {
    let lines: [&[u8]; 12] = [
        b"no colon",
        b": no name",
        b" folded: x",
        b"X: y\r\n folded",
        b"X : y",
        b"X: y\0z",
        b"X: y\rz",
        b"X: y\nZ: 1",
        b"X Y: z",
        b"X\0: y",
        b"\x0bX: y",
        b"GET /smuggled HTTP/1.1",
    ];
    let cases = lines.map(|line| {
        let body = [b"5\r\nhello\r\n0\r\n", line, b"\r\n\r\n"].concat();
        Case::new("no trailer", &post(LINES, &body), BrokenOff)
    });
    play_all(&cases);
}
