//! Requests and responses from a few lines of text.

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use nightwatt_httpcache::{
    Fill, Filler, NotStorable, RequestDirectives, RequestHead, Rules, Stored, Times, Timestamp,
    Usability, date,
};

/// When the origin answers in these tests.
pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_780_000_000);

/// `NOW`, moved by some seconds.
pub(crate) fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(NOW.as_secs().checked_add_signed(secs).unwrap())
}

/// Fields from lines like `Name: value`; a value `@-10` is the HTTP date ten seconds before `NOW`.
pub(crate) fn fields(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        let value = value.strip_prefix(' ').unwrap_or(value);
        let value = match value.strip_prefix('@').and_then(|secs| secs.parse().ok()) {
            Some(secs) => date::format(at(secs)),
            None => HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        };
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
    }
    headers
}

/// Rules by which answers are stored that their origin did not mark, as clients get them: what RFC 9111
/// allows. The defaults are stricter: see the tests of sharing.
pub(crate) fn lenient() -> Rules {
    Rules { assumes: true, fill: Fill::Clients, ..Rules::default() }
}

/// A request.
pub(crate) struct Ask {
    method: Method,
    target: &'static str,
    headers: HeaderMap,
}

impl Ask {
    /// As the rules see it.
    pub(crate) fn head(&self) -> RequestHead<'_> {
        RequestHead {
            method: &self.method,
            authority: "example.org",
            path_and_query: self.target,
            headers: &self.headers,
        }
    }
}

/// A `GET` of `/page` with some fields.
pub(crate) fn get(lines: &[&str]) -> Ask {
    ask("GET", "/page", lines)
}

/// Any request.
pub(crate) fn ask(method: &str, target: &'static str, lines: &[&str]) -> Ask {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    Ask { method, target, headers: fields(lines) }
}

/// A response that comes in at `NOW`, without delay.
pub(crate) fn answer(
    ask: &Ask,
    status: u16,
    lines: &[&str],
    rules: &Rules,
) -> Result<Stored, NotStorable> {
    let status = StatusCode::from_u16(status).unwrap();
    Stored::new(&ask.head(), Filler::Client, status, &fields(lines), Times::at(NOW), rules)
}

/// A 200 to a plain `GET`, which must be storable.
pub(crate) fn stored(lines: &[&str]) -> Stored {
    answer(&get(&[]), 200, lines, &lenient()).unwrap()
}

/// How a plain `GET` some seconds later may use what is stored.
pub(crate) fn later(stored: &Stored, secs: i64) -> Usability {
    reuse(stored, &get(&[]), secs, &lenient())
}

/// How a request some seconds later may use what is stored.
pub(crate) fn reuse(stored: &Stored, ask: &Ask, secs: i64, rules: &Rules) -> Usability {
    let asked = RequestDirectives::parse(ask.head().headers);
    stored.usability(&ask.head(), &asked, at(secs), rules)
}

/// Whether a response is a hit for a plain `GET` three seconds later, as in the public suite.
pub(crate) fn hits(lines: &[&str]) -> bool {
    answer(&get(&[]), 200, lines, &lenient())
        .is_ok_and(|stored| matches!(later(&stored, 3), Usability::Fresh { .. }))
}
