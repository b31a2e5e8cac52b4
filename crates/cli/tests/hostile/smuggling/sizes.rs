//! Too long, too many. The bounds are those of `CONFIG`: 8 KiB and 64 fields for a head, 100,000
//! bytes for a body.

use super::Fate::{BrokenOff, EitherBody, Passed, Refused};
use super::{Case, get, one, play_all, post};

const LINES: &[u8] = b"Transfer-Encoding: chunked";

fn long(length: usize) -> String {
    "x".repeat(length)
}

/// Many short fields.
fn many() -> String {
    let fields: Vec<String> = (0..5000).map(|n| format!("X{n}: y\r\n")).collect();
    fields.concat()
}

fn named(name: &str, bytes: &[u8], fate: super::Fate) -> Case {
    Case { name: name.to_owned(), bytes: bytes.to_vec(), fate }
}

#[test]
fn heads_have_bounds() {
    let huge = long(100_000);
    let rest = "HTTP/1.1\r\nHost: site.test\r\n\r\n";
    let many = many();
    let cases = [
        named("a target", format!("GET /{huge} {rest}").as_bytes(), Refused),
        named("a query", format!("GET /?{huge} {rest}").as_bytes(), Refused),
        named("a method", format!("{huge} / {rest}").as_bytes(), Refused),
        named("a version", format!("GET / HTTP/1.{huge}\r\n\r\n").as_bytes(), Refused),
        named("a host", format!("GET http://{huge}/ {rest}").as_bytes(), Refused),
        named("a value", &get(format!("X: {huge}").as_bytes()), Refused),
        named("a name", &get(format!("{huge}: x").as_bytes()), Refused),
        named("spaces", &get(format!("X:{}y", " ".repeat(100_000)).as_bytes()), Refused),
        named("fields", &get(many.trim_end().as_bytes()), Refused),
        named("one field more", &get(&b"X: y\r\n".repeat(64)[..382]), Refused),
        named("no end", format!("GET /{huge}").as_bytes(), Refused),
        named("line ends", &[b"\r\n".repeat(50_000), get(b"X: y")].concat(), Refused),
    ];
    play_all(&cases);
}

#[test]
fn heads_within_the_bounds_are_read() {
    let target = format!("GET /{}", long(7000));
    let line = format!("{target} HTTP/1.1\r\nHost: site.test\r\n\r\n");
    let fields = b"X: y\r\n".repeat(60);
    let cases = [
        named("a target", line.as_bytes(), Passed(one(&target, b""))),
        named(
            "a value",
            &get(format!("X: {}", long(7000)).as_bytes()),
            Passed(one("GET /case", b"")),
        ),
        named("fields", &get(&fields[..fields.len() - 2]), Passed(one("GET /case", b""))),
    ];
    play_all(&cases);
}

#[test]
fn bodies_have_bounds() {
    let body = long(100_000);
    let much = format!("{body}!");
    let length = |body: &str| format!("Content-Length: {}", body.len()).into_bytes();
    let chunks = |body: &str, size: usize| {
        let parts = body.as_bytes().chunks(size);
        let chunks: Vec<u8> = parts
            .flat_map(|it| [format!("{:x}\r\n", it.len()).as_bytes(), it, b"\r\n"].concat())
            .collect();
        [chunks, b"0\r\n\r\n".to_vec()].concat()
    };
    let cases = [
        named("a length", &post(&length(&much), much.as_bytes()), Refused),
        named("one chunk", &post(LINES, &chunks(&much, 100_001)), BrokenOff),
        named("many chunks", &post(LINES, &chunks(&much, 100)), BrokenOff),
        named(
            "just not a length",
            &post(&length(&body[..4000]), &body.as_bytes()[..4000]),
            Passed(one("POST /case", &body.as_bytes()[..4000])),
        ),
        named(
            "small chunks",
            &post(LINES, &chunks(&body[..4000], 1)),
            Passed(one("POST /case", &body.as_bytes()[..4000])),
        ),
    ];
    play_all(&cases);
}

/// Bytes between the chunks of a body are bounded as well: no counter of the body's bytes has them.
#[test]
fn chunk_lines_and_trailers_have_bounds() {
    let huge = long(100_000);
    let with = |between: &str| format!("5{between}\r\nhello\r\n0\r\n\r\n").into_bytes();
    let behind = |trailers: &str| format!("5\r\nhello\r\n0\r\n{trailers}\r\n").into_bytes();
    let extended = format!("1;{}\r\nx\r\n", long(100)).repeat(5000);
    let many = many();
    let cases = [
        named("an extension", &post(LINES, &with(&format!(";{huge}"))), BrokenOff),
        named(
            "zeros",
            &post(LINES, format!("{}5\r\nhello\r\n0\r\n\r\n", "0".repeat(100_000)).as_bytes()),
            BrokenOff,
        ),
        named("spaces", &post(LINES, &with(&" ".repeat(100_000))), BrokenOff),
        named("extensions", &post(LINES, format!("{extended}0\r\n\r\n").as_bytes()), BrokenOff),
        named("a trailer", &post(LINES, &behind(&format!("X: {huge}\r\n"))), BrokenOff),
        named("trailers", &post(LINES, &behind(&many)), BrokenOff),
        named(
            "a few trailers",
            &post(LINES, &behind(&many[..56])),
            EitherBody(one("POST /case", b"hello")),
        ),
    ];
    play_all(&cases);
}
