//! Requests that are right, and what must come back.

use std::fmt::Write as _;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::content::{Body, Pattern, echo, sum, tag};

/// Targets that many clients ask for. More than the cache has room for.
const SHARED: u32 = 2000;

/// A request, and what must come back.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) bytes: Vec<u8>,
    pub(crate) expected: Expected,
}

/// What must come back.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) head_only: bool,
    pub(crate) status: u16,
    pub(crate) body: Body,
}

/// A right request. `number` is its own.
pub(crate) fn request(random: &mut ChaCha8Rng, number: u64) -> Request {
    match random.random_range(0..10) {
        0..4 => get(random, number),
        4..6 => conditional(random),
        6 => range(random, number),
        _ => post(random, number),
    }
}

fn shared(random: &mut ChaCha8Rng) -> String {
    let which = random.random_range(0..SHARED);
    format!("/hit/{}/{which}", which % 100 * 200)
}

fn get(random: &mut ChaCha8Rng, number: u64) -> Request {
    let size = random.random_range(0..5000);
    let target = match random.random_range(0..4) {
        0 => format!("/chunked/{size}/{number}"),
        1 => format!("/miss/{size}/{number}?q=%20{number}"),
        _ => shared(random),
    };
    let method = if random.random_range(0..6) == 0 { "HEAD" } else { "GET" };
    let size = target.split('/').nth(2).and_then(|it| it.parse().ok()).unwrap_or(0);
    let body = Body::Pattern(Pattern::of(&target), 0..size);
    let head_only = method == "HEAD";
    let mut bytes = head(random, method, &target, number);
    bytes.extend(b"\r\n");
    Request { bytes, expected: Expected { head_only, status: 200, body } }
}

fn conditional(random: &mut ChaCha8Rng) -> Request {
    let target = shared(random);
    let mut bytes = head(random, "GET", &target, 0);
    bytes.extend(format!("If-None-Match: {}\r\n\r\n", tag(&target)).bytes());
    let body = Body::Text(String::new());
    Request { bytes, expected: Expected { head_only: false, status: 304, body } }
}

fn range(random: &mut ChaCha8Rng, number: u64) -> Request {
    let target = format!("/miss/3000/{number}");
    let first = random.random_range(0..3000);
    let last = random.random_range(first..3000);
    let mut bytes = head(random, "GET", &target, number);
    bytes.extend(format!("Range: bytes={first}-{last}\r\n\r\n").bytes());
    let body = Body::Pattern(Pattern::of(&target), first..last + 1);
    Request { bytes, expected: Expected { head_only: false, status: 206, body } }
}

fn post(random: &mut ChaCha8Rng, number: u64) -> Request {
    let target = format!("/echo/{number}");
    let method = ["POST", "POST", "PUT", "PATCH", "DELETE", "GET"][random.random_range(0..6)];
    let length = if random.random_range(0..10) == 0 { 60_000 } else { 300 };
    let length = random.random_range(0..length);
    let pattern = Pattern::of(&target);
    let content: Vec<u8> = (0..length).map(|index| pattern.byte(index)).collect();
    let mut bytes = head(random, method, &target, number);
    if random.random_range(0..2) == 0 {
        bytes.extend(format!("Content-Length: {length}\r\n\r\n").bytes());
        bytes.extend(&content);
    } else {
        bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
        let size = random.random_range(1..=length.max(1));
        for part in content.chunks(size.max(length / 20)) {
            let extension = if random.random_range(0..8) == 0 { ";x=y" } else { "" };
            bytes.extend(format!("{:x}{extension}\r\n", part.len()).bytes());
            bytes.extend(part);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
    }
    let text = echo(method, &target, length as u64, sum(&content));
    let expected = Expected { head_only: false, status: 200, body: Body::Text(text) };
    Request { bytes, expected }
}

/// First line and fields, without the line that ends them.
fn head(random: &mut ChaCha8Rng, method: &str, target: &str, number: u64) -> Vec<u8> {
    let host = if random.random_range(0..4) == 0 { "sleepy.test" } else { "awake.test" };
    let absolute = if random.random_range(0..20) == 0 { "http://other.test" } else { "" };
    let mut head = format!("{method} {absolute}{target} HTTP/1.1\r\nHost: {host}\r\n");
    // Each client is a new one: the gateway must bound what it remembers of clients.
    let _ = write!(head, "User-Agent: client-{}/{number}\r\n", random.random_range(0..1_000_000));
    let fields = [
        "Accept: */*",
        "Accept-Encoding: gzip, br",
        "X-Forwarded-For: 10.1.2.3",
        "Connection: keep-alive",
        "TE: trailers",
        "Referer: http://awake.test/",
        "X-Empty:",
        "Expect: 100-continue",
        "X-Latin: \u{e9}",
    ];
    for field in fields {
        if random.random_range(0..5) == 0 {
            let _ = write!(head, "{field}\r\n");
        }
    }
    if random.random_range(0..20) == 0 {
        let length = random.random_range(0..3000);
        let _ = write!(head, "X-Long: {}\r\n", "l".repeat(length));
    }
    head.into_bytes()
}
