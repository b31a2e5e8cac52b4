use super::*;
use crate::pure::address::Address;
use crate::pure::entry::{BodyHash, BodyRef, EntryParts};
use http::HeaderName;
use nightwatt_httpcache::{Times, date};
use proptest::prelude::*;

const NOW: Timestamp = Timestamp::from_secs(1_780_000_000);

const TEXT: &[u8] =
    b"<p>The quick brown fox jumps over the lazy dog. </p>\n<p>The quick brown fox jumps.</p>";

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

/// An answer that was mirrored some hours ago, and its body as it lies in the store.
struct Mirrored {
    entry: Entry,
    body: StoredBody,
    rules: Rules,
    refresh: RefreshRules,
}

impl Mirrored {
    fn new(hours_ago: u64, lines: &[(&str, &str)]) -> Self {
        Self::with(hours_ago, 200, lines, |_| {})
    }

    fn with(
        hours_ago: u64,
        status: u16,
        lines: &[(&str, &str)],
        change: impl FnOnce(&mut EntryParts<'_>),
    ) -> Self {
        let rules = Rules { assumes: true, ..Rules::default() };
        let refresh = RefreshRules { max_age: Duration::from_hours(24), ..RefreshRules::default() };
        let received = Timestamp::from_secs(NOW.as_secs() - hours_ago * 3600);
        let (address, asked) = (Address::new("/page").unwrap(), HeaderMap::new());
        let headers = headers(lines);
        let mut parts = EntryParts {
            address: &address,
            asked: &asked,
            status: StatusCode::from_u16(status).unwrap(),
            headers: &headers,
            times: Times::at(received),
            body: Some(BodyRef { hash: BodyHash::of(TEXT), length: TEXT.len() as u64 }),
            was_coded: false,
            overridden: false,
            is_page: true,
        };
        change(&mut parts);
        let entry = Entry::new(&parts, &rules).unwrap();
        let packed = pack(Coding::Brotli, TEXT, Effort::Store).unwrap();
        let body =
            StoredBody { coding: Coding::Brotli, bytes: packed.into(), length: TEXT.len() as u64 };
        Self { entry, body, rules, refresh }
    }

    fn ask(
        &self,
        server: Server,
        method: &Method,
        lines: &[(&str, &str)],
    ) -> Result<Represented, NotGiven> {
        let headers = headers(lines);
        let request = RequestHead {
            method,
            authority: "example.org",
            path_and_query: "/page",
            headers: &headers,
        };
        let question =
            Question { request, server, now: NOW, rules: &self.rules, refresh: &self.refresh };
        let stored = question.may_have(&self.entry)?;
        question.answer(&self.entry, &stored, &self.body)
    }

    fn get(&self, lines: &[(&str, &str)]) -> Represented {
        self.ask(Server::Asleep, &Method::GET, lines).unwrap()
    }

    fn refused(&self, lines: &[(&str, &str)]) -> NotGiven {
        self.ask(Server::Asleep, &Method::GET, lines).unwrap_err()
    }
}

fn field<'a>(answer: &'a Represented, name: &str) -> Option<&'a str> {
    answer.headers.get(name).map(|value| value.to_str().unwrap())
}

#[test]
fn every_coding_gives_the_same_text() {
    let page = Mirrored::new(1, &[("content-type", "text/html"), ("etag", "\"a\"")]);
    for (accepted, coding) in [
        ("br, gzip", Some(Coding::Brotli)),
        ("gzip", Some(Coding::Gzip)),
        ("zstd", Some(Coding::Zstd)),
        ("identity", None),
        ("deflate", None),
    ] {
        let answer = page.get(&[("accept-encoding", accepted)]);
        assert_eq!(field(&answer, "content-encoding"), coding.map(Coding::token), "{accepted}");
        let text = unpack(coding.unwrap_or(Coding::Identity), &answer.body, 10_000).unwrap();
        assert_eq!(text, TEXT);
        assert_eq!(field(&answer, "content-length"), Some(&*answer.body.len().to_string()));
        // Recoded, the strong tag is weak (RFC 9110, 8.8.1).
        let tag = if coding.is_some() { "W/\"a\"" } else { "\"a\"" };
        assert_eq!(field(&answer, "etag"), Some(tag));
        assert_eq!(field(&answer, "vary"), Some("accept-encoding"));
    }
    assert_eq!(page.refused(&[("accept-encoding", "identity;q=0, deflate")]), NotGiven::Coding);
}

#[test]
fn the_fields_are_the_servers_and_the_age_is_honest() {
    let made = date::format(Timestamp::from_secs(NOW.as_secs() - 3600));
    let made = made.to_str().unwrap();
    let page =
        Mirrored::new(1, &[("date", made), ("x-own", "1"), ("vary", "Accept-Encoding, Cookie")]);
    let answer = page.get(&[]);
    assert_eq!((field(&answer, "date"), field(&answer, "age")), (Some(made), Some("3600")));
    assert_eq!(field(&answer, "x-own"), Some("1"));
    assert_eq!(field(&answer, "vary"), Some("Accept-Encoding, Cookie"));
    assert_eq!(field(&answer, "cache-control"), Some("max-age=3660"), "a minute from now");
    let status = field(&answer, "cache-status").unwrap();
    assert!(
        status.starts_with("nightwatt; hit; ttl=-") && status.ends_with("; detail=mirror"),
        "{status}"
    );
    // A server that speaks for itself is not overruled.
    for own in [("cache-control", "max-age=5"), ("expires", "0"), ("pragma", "x")] {
        let answer = Mirrored::new(1, &[own]).get(&[]);
        assert_ne!(field(&answer, "cache-control"), Some("max-age=3660"), "{own:?}");
        assert_eq!(field(&answer, own.0), Some(own.1));
    }
}

#[test]
fn ranges_are_of_the_body_that_the_server_sent() {
    let page = Mirrored::new(1, &[("etag", "\"a\""), ("accept-ranges", "bytes")]);
    let part = page.get(&[("range", "bytes=3-11"), ("accept-encoding", "gzip, br")]);
    assert_eq!((part.status.as_u16(), &part.body[..]), (206, &b"The quick"[..]));
    assert_eq!(field(&part, "content-encoding"), None);
    assert_eq!(field(&part, "etag"), Some("\"a\""));
    let range = format!("bytes 3-11/{}", TEXT.len());
    assert_eq!(field(&part, "content-range"), Some(range.as_str()));
    let same = page.get(&[("range", "bytes=3-11"), ("if-range", "\"a\"")]);
    assert_eq!(same.status.as_u16(), 206);
    for other in ["\"b\"", "W/\"a\"", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        let whole = page.get(&[("range", "bytes=3-11"), ("if-range", other)]);
        assert_eq!((whole.status.as_u16(), &whole.body[..]), (200, TEXT), "{other}");
    }
    let beyond = page.get(&[("range", "bytes=5000-")]);
    assert_eq!(beyond.status.as_u16(), 416);
    assert_eq!(field(&beyond, "content-range"), Some(&*format!("bytes */{}", TEXT.len())));
    // Without a strong tag there are no ranges.
    for tag in
        [&[("etag", "W/\"a\"")][..], &[], &[("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")]]
    {
        let whole = Mirrored::new(1, tag).get(&[("range", "bytes=3-11")]);
        assert_eq!(whole.status.as_u16(), 200, "{tag:?}");
    }
    let recoded = Mirrored::with(1, 200, &[("etag", "\"a\"")], |it| it.was_coded = true);
    let whole = recoded.get(&[("range", "bytes=3-11")]);
    assert_eq!((whole.status.as_u16(), field(&whole, "etag")), (200, Some("W/\"a\"")));
    // To `HEAD`, a range means nothing (RFC 9110, 14.2).
    let head = page.ask(Server::Asleep, &Method::HEAD, &[("range", "bytes=3-11")]).unwrap();
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    assert_eq!(field(&head, "content-length"), Some(&*TEXT.len().to_string()));
}

#[test]
fn who_has_it_already_gets_304() {
    let changed = "Sun, 06 Nov 1994 08:49:37 GMT";
    let page = Mirrored::new(
        1,
        &[("etag", "\"a\""), ("last-modified", changed), ("content-type", "text/html")],
    );
    for condition in [
        ("if-none-match", "\"a\""),
        ("if-none-match", "W/\"a\""),
        ("if-none-match", "\"b\", \"a\""),
        ("if-modified-since", changed),
    ] {
        let answer = page.get(&[condition, ("accept-encoding", "gzip")]);
        assert_eq!((answer.status.as_u16(), answer.body.len()), (304, 0), "{condition:?}");
        assert_eq!(field(&answer, "etag"), Some("W/\"a\""), "as the 200 would have had it");
        assert_eq!(
            (field(&answer, "content-type"), field(&answer, "content-encoding")),
            (None, None)
        );
        assert_eq!(field(&answer, "vary"), Some("accept-encoding"));
        assert!(field(&answer, "cache-status").unwrap().contains("detail=mirror"));
    }
    let other = page.get(&[("if-none-match", "\"b\""), ("if-modified-since", changed)]);
    assert_eq!(other.status.as_u16(), 200, "If-None-Match goes first (RFC 9110, 13.2.2)");
    assert_eq!(page.refused(&[("if-match", "\"a\"")]), NotGiven::Condition);
}

#[test]
fn what_must_not_be_changed_is_not() {
    let page = Mirrored::new(1, &[("etag", "\"a\""), ("cache-control", "public, No-Transform")]);
    let answer = page.get(&[("accept-encoding", "br, gzip")]);
    assert_eq!((&answer.body[..], field(&answer, "content-encoding")), (TEXT, None));
    assert_eq!((field(&answer, "etag"), field(&answer, "vary")), (Some("\"a\""), None));
    let coded =
        Mirrored::new(1, &[("cache-control", "no-transform"), ("content-encoding", "gzip")]);
    assert_eq!(coded.refused(&[]), NotGiven::Coding);
    let answer = coded.get(&[("accept-encoding", "gzip")]);
    assert_eq!((&answer.body[..], field(&answer, "content-encoding")), (TEXT, Some("gzip")));
}

#[test]
fn only_anonymous_visitors_get_what_nobody_marked() {
    let page = Mirrored::new(1, &[]);
    for personal in [("cookie", "session=1"), ("authorization", "Basic x"), ("x-unknown", "1")] {
        assert_eq!(page.refused(&[personal]), NotGiven::Sender, "{personal:?}");
    }
    assert_eq!(page.refused(&[("content-length", "3")]), NotGiven::Sender);
    page.get(&[("cookie", "_ga=1"), ("user-agent", "x"), ("sec-fetch-mode", "navigate")]);
    let post = page.ask(Server::Asleep, &Method::POST, &[]).unwrap_err();
    assert_eq!(post, NotGiven::Method);
    // By `Vary: Cookie` it is the page for those without cookies.
    let varying = Mirrored::new(1, &[("vary", "Cookie")]);
    assert_eq!(varying.get(&[]).status.as_u16(), 200);
    let by_language = Mirrored::new(1, &[("vary", "Accept-Language"), ("content-language", "de")]);
    assert_eq!(by_language.refused(&[("accept-language", "en")]), NotGiven::Variant);
    assert_eq!(by_language.get(&[("accept-language", "de, en;q=0.5")]).status.as_u16(), 200);
}

#[test]
fn nothing_is_older_than_it_may_be() {
    let is_given = |hours, server, lines: &[(&str, &str)]| {
        Mirrored::new(hours, lines).ask(server, &Method::GET, &[]).is_ok()
    };
    assert!(is_given(24, Server::Asleep, &[]) && !is_given(25, Server::Asleep, &[]));
    // Fresh by RFC 9111 is fresh, whatever `max_age` is; and that alone counts while the server is awake.
    let week = [("cache-control", "max-age=604800")];
    assert!(is_given(100, Server::Asleep, &week) && is_given(100, Server::Awake, &week));
    assert!(!is_given(1, Server::Awake, &[]));
    // Past its lifetime, what must be validated is not given.
    let bound = [("cache-control", "max-age=7200, must-revalidate"), ("etag", "\"a\"")];
    assert!(is_given(1, Server::Asleep, &bound) && !is_given(3, Server::Asleep, &bound));
    let overridden = Mirrored::with(3, 200, &bound, |it| it.overridden = true);
    let answer = overridden.get(&[]);
    assert_eq!(
        field(&answer, "cache-control"),
        Some(bound[0].1),
        "the client is told all the same"
    );
    assert_eq!(overridden.refused(&[("cookie", "session=1")]), NotGiven::Sender);
    // A reload doesn't wake the server.
    let reload =
        Mirrored::new(1, &[]).get(&[("cache-control", "no-cache"), ("pragma", "no-cache")]);
    assert_eq!(reload.status.as_u16(), 200);
}

#[test]
fn what_is_not_there_or_elsewhere_is_remembered_too() {
    let gone = Mirrored::with(1, 404, &[], |_| {}).get(&[]);
    assert_eq!((gone.status.as_u16(), &gone.body[..]), (404, TEXT));
    for status in [301, 302, 303, 307, 308] {
        let moved = Mirrored::with(20, status, &[("location", "/there")], |it| it.body = None);
        let question = Mirrored { body: StoredBody::EMPTY, ..moved };
        let answer = question.get(&[("accept-encoding", "br")]);
        assert_eq!((answer.status.as_u16(), field(&answer, "location")), (status, Some("/there")));
        assert_eq!(field(&answer, "content-length"), Some("0"));
    }
    let absent = absent();
    assert_eq!((absent.status.as_u16(), field(&absent, "cache-control")), (404, Some("no-store")));
    let crawler = absent_for_crawlers(3600);
    assert_eq!((crawler.status.as_u16(), field(&crawler, "retry-after")), (503, Some("3600")));
}

#[test]
fn a_body_that_does_not_unpack_is_not_given() {
    let mut page = Mirrored::new(1, &[("etag", "\"a\"")]);
    page.body.bytes = Bytes::from_static(b"\x1b\xff\xff\xff\xff");
    assert_eq!(page.refused(&[]), NotGiven::Damaged);
    assert_eq!(page.refused(&[("range", "bytes=0-1")]), NotGiven::Damaged);
}

proptest! {
    #[test]
    fn an_answer_is_whole_in_whatever_form(
        accept in "(gzip|br|zstd|identity|\\*|;q=0|;q=0\\.5|, ){0,8}",
        range in "(bytes=)?[0-9]{0,3}-?[0-9]{0,3}",
        tag in "(\"a\"|W/\"a\"|)",
    ) {
        let own: Vec<(&str, &str)> = if tag.is_empty() { vec![] } else { vec![("etag", &tag)] };
        let page = Mirrored::new(1, &own);
        let asked = [("accept-encoding", accept.as_str()), ("range", range.as_str())];
        match page.ask(Server::Asleep, &Method::GET, &asked) {
            Ok(answer) if answer.status == StatusCode::OK => {
                let coding = Coding::of_answer(&answer.headers).unwrap();
                prop_assert_eq!(unpack(coding, &answer.body, 10_000).unwrap(), TEXT);
                prop_assert!(Accepted::of(&headers(&asked)).accepts(coding));
            }
            Ok(answer) if answer.status == StatusCode::PARTIAL_CONTENT => {
                prop_assert!(TEXT.windows(answer.body.len()).any(|it| it == answer.body));
            }
            Ok(answer) => prop_assert_eq!(answer.status, StatusCode::RANGE_NOT_SATISFIABLE),
            Err(why) => prop_assert_eq!(why, NotGiven::Coding),
        }
    }
}

#[test]
fn a_digest_of_other_bytes_is_not_passed_on() {
    let digests = [("content-digest", "sha-256=:AAAA:"), ("content-md5", "AAAA")];
    let lines: Vec<_> = digests.into_iter().chain([("etag", "\"a\"")]).collect();
    let page = Mirrored::new(1, &lines);
    let (packed, whole) = (page.get(&[("accept-encoding", "gzip")]), page.get(&[]));
    let part = page.get(&[("range", "bytes=0-3")]);
    assert_eq!(part.status, StatusCode::PARTIAL_CONTENT);
    for (name, value) in digests {
        assert_eq!(field(&whole, name), Some(value), "these are the server's bytes");
        assert_eq!((field(&packed, name), field(&part, name)), (None, None), "{name}");
    }
}

#[test]
fn the_clock_of_a_server_that_says_nothing_of_freshness_does_not_count() {
    let slow = date::format(Timestamp::from_secs(NOW.as_secs() - 49 * 3600));
    let slow = slow.to_str().unwrap();
    let page = Mirrored::new(1, &[("date", slow)]).get(&[]);
    assert_eq!((field(&page, "age"), field(&page, "date")), (Some("3600"), Some(slow)));
    let marked = Mirrored::new(1, &[("date", slow), ("cache-control", "max-age=60")]);
    assert_eq!(marked.refused(&[]), NotGiven::TooOld, "RFC 9111, 4.2.3");
}
