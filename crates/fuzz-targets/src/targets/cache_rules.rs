//! The rules of the cache, under headers of any kind.
//!
//! An input is a request and its response, as in `seeds/cache_rules`: a line with method and target,
//! fields, an empty line, a line with a status, fields. What is no field is left out.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use nightwatt_httpcache::{
    Basis, CookieRule, CookieRules, Fill, Filler, KeyRules, RangeAnswer, RequestDirectives,
    RequestHead, Rules, Sender, Stored, Times, Timestamp, Usability, invalidation, range, update,
};

/// When the response comes in, and how long after its request.
const RECEIVED: Timestamp = Timestamp::from_secs(1_780_000_000);
const REQUESTED: Timestamp = Timestamp::from_secs(1_779_999_998);

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let mut lines = input.split(|&byte| byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let mut words = first.splitn(2, |&byte| byte == b' ');
    let method = Method::from_bytes(words.next().unwrap_or_default()).unwrap_or_default();
    let target = String::from_utf8_lossy(words.next().unwrap_or(b"/")).into_owned();
    let asked = fields(lines.by_ref().take_while(|line| !line.is_empty()));
    let status = lines.next().and_then(|line| StatusCode::from_bytes(line).ok());
    let answered = fields(lines);
    let request = RequestHead {
        method: &method,
        authority: "example.org",
        path_and_query: &target,
        headers: &asked,
    };
    let assuming = Rules { assumes: true, ..Rules::default() };
    for rules in [Rules::default(), assuming, lax()] {
        exchange(&request, status.unwrap_or_default(), &answered, &rules);
    }
}

fn fields<'a>(lines: impl Iterator<Item = &'a [u8]>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// The other end of each switch.
fn lax() -> Rules {
    Rules {
        assumes: true,
        fill: Fill::Clients,
        harmless_headers: vec!["x-a*".to_owned()],
        default_ttl: Some(Duration::from_mins(2)),
        negative_ttl: Some(Duration::from_secs(10)),
        heuristic: None,
        respect_must_revalidate: false,
        heed_requests: false,
        store_set_cookie: true,
        cdn_cache_control: false,
        cookies: CookieRules { rule: CookieRule::Bypass, harmless: vec!["_ga*".to_owned()] },
        key: KeyRules { sort_query: true, ignore_query: vec!["utm_*".to_owned()] },
        ..Rules::default()
    }
}

fn exchange(request: &RequestHead<'_>, status: StatusCode, answered: &HeaderMap, rules: &Rules) {
    let _ = rules.key.key(request.authority, request.path_and_query);
    let _ = invalidation::invalidated(request, status, answered, &rules.key);
    for line in request.headers.get_all(http::header::RANGE) {
        for length in [0, 1, 1000, u64::MAX] {
            within(range::answer(line.as_bytes(), length), length);
        }
    }
    let times = Times { requested: REQUESTED, received: RECEIVED };
    for filler in [Filler::Client, Filler::Proxy] {
        match Stored::new(request, filler, status, answered, times, rules) {
            Ok(stored) => {
                is_shared_by_the_rule(&stored, request, filler, rules);
                grows_old(&stored, request, rules);
                is_validated(&stored, request, filler, answered, rules);
            }
            Err(reason) => assert!(!reason.token().is_empty()),
        }
    }
}

/// What no server marked is kept only where it may be assumed, and never as one client's.
fn is_shared_by_the_rule(
    stored: &Stored,
    request: &RequestHead<'_>,
    filler: Filler,
    rules: &Rules,
) {
    let sender = Sender::of(request, rules);
    assert!(stored.basis().is_allowed(rules), "{stored:?}");
    let is_posted = *request.method == Method::POST;
    assert!(!sender.bypasses_cache() || is_posted, "{stored:?}");
    if stored.basis() != Basis::Marked && filler == Filler::Client {
        assert!(sender.is_anonymous(), "{stored:?}");
    }
    let known = "x-unknown-field".parse::<HeaderName>().unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(known, HeaderValue::from_static("alice"));
    let stranger = RequestHead { method: &Method::GET, headers: &headers, ..*request };
    let asked = RequestDirectives::default();
    let usability = stored.usability(&stranger, &asked, RECEIVED, rules);
    let is_given = !matches!(usability, Usability::Unusable(_));
    assert!(!is_given || stored.basis() == Basis::Marked, "{stored:?}");
}

fn within(answer: RangeAnswer, length: u64) {
    if let RangeAnswer::Part(part) = answer {
        assert!(part.first <= part.last && part.last < length, "{part:?} of {length} bytes");
    }
}

/// Age only grows once the clock has passed the time of receipt, and what has stopped being fresh stays so.
fn grows_old(stored: &Stored, request: &RequestHead<'_>, rules: &Rules) {
    let directives = RequestDirectives::parse(request.headers);
    let (mut was_fresh, mut was_usable, mut was_old) = (true, true, Duration::ZERO);
    // Before it, the clock was set back.
    let from = stored.times().received.max(RECEIVED);
    for after in (0..40).map(|power| 1_u64 << power) {
        let now = from.plus(Duration::from_millis(after));
        let (is_fresh, age) = (stored.is_fresh(now), stored.age(now));
        assert!(was_fresh || !is_fresh, "fresh again after {after} ms: {stored:?}");
        assert!(was_old <= age, "younger after {after} ms: {stored:?}");
        assert_eq!(is_fresh, age < stored.freshness().lifetime, "after {after} ms: {stored:?}");
        let usability = stored.usability(request, &directives, now, rules);
        let is_usable = matches!(usability, Usability::Fresh { .. });
        assert!(was_usable || !is_usable, "usable again after {after} ms: {stored:?}");
        assert!(is_fresh || !is_usable, "used after {after} ms: {stored:?}");
        let _ = (stored.ttl(now), stored.response_headers(now), stored.not_modified_headers(now));
        (was_fresh, was_usable, was_old) = (is_fresh, is_usable, age);
    }
    let _ = stored.precondition(request);
    for length in [0, 1, 1000] {
        within(stored.range(request, length), length);
    }
}

/// The origin says the same once more: in a 304 and to a HEAD.
fn is_validated(
    stored: &Stored,
    request: &RequestHead<'_>,
    filler: Filler,
    answered: &HeaderMap,
    rules: &Rules,
) {
    let mut question = request.headers.clone();
    update::add_validators(&mut question, &[stored]);
    let _ = update::answered(&[stored], answered);
    let times = Times::at(RECEIVED.plus(Duration::from_mins(1)));
    if let Ok(again) = stored.freshened(request, filler, answered, times, rules) {
        assert_eq!(again.status(), stored.status());
        grows_old(&again, request, rules);
    }
    let _ = stored.after_head(request, stored.status(), answered, times, rules);
}
