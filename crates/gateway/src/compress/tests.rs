//! What is compressed, and what never is.

use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::HeaderName;
use http_body::Frame;
use nightwatt_http1::BodyError;

use super::*;
use crate::config::Config;

fn compressor(site: &str) -> Arc<Compressor> {
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
         power.simulated = {{}}\n{site}\n"
    );
    let config = Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    Compressor::of(&config.site[0], None).unwrap()
}

fn fields(lines: &[(&str, &str)]) -> HeaderMap {
    let pairs = lines.iter().map(|(name, value)| {
        (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
    });
    pairs.collect()
}

/// A case of the table: the target, whether the client is anonymous, and the fields of the answer.
type Case = (&'static str, Sender, &'static [(&'static str, &'static str)], Option<WhyNot>);

const HTML: (&str, &str) = ("content-type", "text/html; charset=utf-8");
const SCRIPT: (&str, &str) = ("content-type", "text/javascript");
const NAMED: Sender = Sender::COOKIE;
const STRANGER: Sender = Sender::ANONYMOUS;

const OPEN: [Case; 24] = [
    ("/", STRANGER, &[HTML], None),
    ("/?q=x", STRANGER, &[HTML], None),
    ("/", STRANGER, &[HTML, ("cache-control", "no-cache")], None),
    ("/", NAMED, &[HTML], Some(WhyNot::Secret)),
    ("/", Sender::FIELD, &[HTML], Some(WhyNot::Secret)),
    ("/api", NAMED, &[("content-type", "application/json")], Some(WhyNot::Secret)),
    ("/", NAMED, &[HTML, ("cache-control", "public, max-age=60")], None),
    ("/", NAMED, &[HTML, ("cache-control", "public, private")], Some(WhyNot::Secret)),
    ("/", STRANGER, &[HTML, ("set-cookie", "a=b")], Some(WhyNot::Secret)),
    ("/a.js", NAMED, &[SCRIPT], None),
    ("/a.js", NAMED, &[SCRIPT, ("set-cookie", "a=b")], Some(WhyNot::Secret)),
    ("/a.js", NAMED, &[SCRIPT, ("cache-control", "private")], Some(WhyNot::Secret)),
    ("/a.js", NAMED, &[SCRIPT, ("cache-control", "no-store")], Some(WhyNot::Secret)),
    ("/a.js", STRANGER, &[SCRIPT, ("cache-control", "no-store")], None),
    ("/a.js?callback=x", NAMED, &[SCRIPT], Some(WhyNot::Secret)),
    ("/a.js?v=1", NAMED, &[SCRIPT, ("cache-control", "max-age=1, immutable")], None),
    ("/a.css", NAMED, &[("content-type", "TEXT/CSS")], None),
    ("/", STRANGER, &[HTML, ("cache-control", "No-Transform")], Some(WhyNot::Fixed)),
    ("/", STRANGER, &[HTML, ("content-encoding", "gzip")], Some(WhyNot::Fixed)),
    ("/", STRANGER, &[HTML, ("content-digest", "sha-256=:x:")], Some(WhyNot::Fixed)),
    ("/", STRANGER, &[HTML, ("content-range", "bytes 0-1/2")], Some(WhyNot::Status)),
    ("/", STRANGER, &[("content-type", "image/jpeg")], Some(WhyNot::Kind)),
    ("/", STRANGER, &[("content-type", "text/event-stream")], Some(WhyNot::Kind)),
    ("/", STRANGER, &[], Some(WhyNot::Kind)),
];

#[test]
fn what_may_hold_a_secret_beside_what_a_stranger_chose_is_not_compressed() {
    let open = compressor("[site.compression]\nenabled = true");
    for (target, sender, lines, why) in OPEN {
        let request = CompressionRequest { method: &Method::GET, target, sender };
        let said = open.why_not(&request, StatusCode::OK, &fields(lines), Some(5000));
        assert_eq!(said, why, "{target} {sender:?} {lines:?}");
    }
}

#[test]
fn behind_rules_of_access_only_the_parts_of_pages_are_compressed() {
    let closed = "[site.compression]\nenabled = true\n[site.access]\nallow = [\"10.0.0.0/8\"]";
    let closed = compressor(closed);
    for (target, lines, why) in [
        ("/", &[HTML][..], Some(WhyNot::Secret)),
        ("/", &[HTML, ("cache-control", "public")], Some(WhyNot::Secret)),
        ("/a.js", &[SCRIPT], None),
        ("/a.js", &[SCRIPT, ("cache-control", "private")], Some(WhyNot::Secret)),
        ("/a.js?x", &[SCRIPT, ("cache-control", "public")], Some(WhyNot::Secret)),
    ] {
        let request = CompressionRequest { method: &Method::GET, target, sender: STRANGER };
        let said = closed.why_not(&request, StatusCode::OK, &fields(lines), None);
        assert_eq!(said, why, "{target} {lines:?}");
    }
}

#[test]
fn a_post_a_short_answer_and_one_without_body_are_left_alone() {
    let open = compressor("[site.compression]\nenabled = true");
    let of = |method: &Method, sender, status: u16, length| {
        let request = CompressionRequest { method, target: "/a.js", sender };
        let status = StatusCode::from_u16(status).unwrap();
        open.why_not(&request, status, &fields(&[SCRIPT]), length)
    };
    let content = Sender::CONTENT.with(NAMED);
    assert_eq!(of(&Method::GET, NAMED, 200, Some(1024)), None);
    assert_eq!(of(&Method::GET, NAMED, 404, None), None);
    assert_eq!(of(&Method::GET, NAMED, 200, Some(1023)), Some(WhyNot::Short));
    assert_eq!(of(&Method::POST, content, 200, None), Some(WhyNot::Secret));
    assert_eq!(of(&Method::HEAD, NAMED, 200, None), Some(WhyNot::Status));
    for status in [101, 204, 205, 206, 304] {
        assert_eq!(of(&Method::GET, NAMED, status, None), Some(WhyNot::Status), "{status}");
    }
}

#[test]
fn an_answer_varies_if_the_whole_one_is_compressed_for_others() {
    let open = compressor("[site.compression]\nenabled = true");
    let closed = "[site.compression]\nenabled = true\n[site.access]\nallow = [\"10.0.0.0/8\"]";
    let closed = compressor(closed);
    let of = |compressor: &Compressor, target, status: u16, lines: &[(&str, &str)]| {
        compressor.varies(target, StatusCode::from_u16(status).unwrap(), &fields(lines))
    };
    let (long, short) = (("content-length", "1024"), ("content-length", "1023"));
    for (status, lines, expected) in [
        (200, &[HTML, long][..], true),
        (200, &[HTML], true),
        (200, &[HTML, short], false),
        (200, &[("content-type", "image/png"), long], false),
        (404, &[HTML, long], true),
        (206, &[HTML, ("content-range", "bytes 0-9/1024"), ("content-length", "10")], true),
        (206, &[HTML, ("content-range", "bytes 0-9/1023"), ("content-length", "10")], false),
        (206, &[HTML, ("content-range", "bytes 0-9/*")], true),
        (416, &[HTML, ("content-range", "bytes */1024")], false),
        (204, &[HTML], false),
        (304, &[], true),
        (304, &[("content-encoding", "gzip")], false),
    ] {
        assert_eq!(of(&open, "/a", status, lines), expected, "{status} {lines:?}");
    }
    assert!(!of(&closed, "/a", 200, &[HTML]) && of(&closed, "/a.js", 200, &[SCRIPT]));
    assert!(!of(&closed, "/a.js?x", 200, &[SCRIPT]));
    for (there, vary) in [
        ("cookie", &["cookie", "accept-encoding"][..]),
        ("cookie, Accept-Encoding", &["cookie, Accept-Encoding"]),
        ("*", &["*"]),
    ] {
        let mut headers = fields(&[("vary", there)]);
        add_vary(&mut headers);
        assert_eq!(headers.get_all("vary").iter().collect::<Vec<_>>(), vary);
    }
}

#[test]
fn types_and_personal_pages_are_as_the_operator_says() {
    let all = compressor("compression = { enabled = true, personal = true, types = [\"Text/*\"] }");
    let request = CompressionRequest { method: &Method::GET, target: "/", sender: NAMED };
    for (kind, why) in [
        ("text/x-anything", None),
        ("application/json", Some(WhyNot::Kind)),
        ("te", Some(WhyNot::Kind)),
    ] {
        let lines = fields(&[("content-type", kind), ("set-cookie", "a=b")]);
        assert_eq!(all.why_not(&request, StatusCode::OK, &lines, None), why, "{kind}");
    }
}

#[test]
fn a_strong_tag_becomes_weak_and_a_weak_one_stays() {
    for (tag, weak) in [("\"a\"", "W/\"a\""), ("W/\"a\"", "W/\"a\""), ("a", "a")] {
        let mut headers = fields(&[("etag", tag)]);
        weaken(&mut headers);
        assert_eq!(headers["etag"], weak);
    }
    let strong = fields(&[("etag", "\"a\"")]);
    for (asks, is_weak) in
        [("W/\"a\"", true), ("\"x\", W/\"a\"", true), ("\"a\"", false), ("*", false)]
    {
        assert_eq!(asks_weakly(&fields(&[("if-none-match", asks)]), &strong), is_weak, "{asks}");
    }
}

/// A body that does not know that its last part was the last. The last part comes first here.
struct Chunks(Vec<&'static str>);

impl Body for Chunks {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let part = self.0.pop();
        Poll::Ready(part.map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))))
    }
}

#[test]
fn a_body_that_does_not_know_its_last_part_ends_all_the_same() {
    let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let coding = accepted::Coding::Gzip;
    let encoder = Encoder::new(coding).unwrap();
    let plain = Answer::other(Chunks(vec!["world", "hello "]));
    let tally = Arc::new(Tally::default());
    let mut body = Compressing::new(plain, coding, encoder, Arc::clone(&tally), place);
    let (mut bytes, mut has_ended) = (Vec::<u8>::new(), false);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..4 {
        match Pin::new(&mut body).poll_frame(&mut cx) {
            Poll::Ready(Some(part)) => bytes.extend(part.unwrap().into_data().unwrap()),
            Poll::Ready(None) => has_ended = true,
            Poll::Pending => panic!("all parts are there"),
        }
    }
    assert!(has_ended);
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello world");
    let counted = tally.status().bytes;
    let of = |coding: &str| (counted[coding].before, counted[coding].after);
    assert_eq!(of("gzip"), (text.len() as u64, bytes.len() as u64));
    assert_eq!((of("zstd"), of("br")), ((0, 0), (0, 0)));
}
