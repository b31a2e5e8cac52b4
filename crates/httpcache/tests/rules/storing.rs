//! What may be stored, and what of it (RFC 9111, 3).

use crate::harness::{answer, ask, get, lenient, stored};
use nightwatt_httpcache::{
    CookieRule, CookieRules, Filler, NotStorable, RequestHead, Rules, Sender, Stored,
};
use std::time::Duration;

fn judged(ask: &crate::harness::Ask, status: u16, lines: &[&str]) -> Option<NotStorable> {
    answer(ask, status, lines, &lenient()).err()
}

fn why_not(lines: &[&str]) -> Option<NotStorable> {
    judged(&get(&[]), 200, lines)
}

#[test]
fn the_origin_can_forbid_it() {
    for line in ["no-store", "No-StOrE", "max-age=10000, no-store", "no-store=1", "x=\"y, no-store"]
    {
        let line = format!("Cache-Control: {line}");
        assert_eq!(why_not(&[&line, "Expires: @1000"]), Some(NotStorable::NoStore), "{line}");
    }
    assert_eq!(why_not(&["Cache-Control: private, max-age=1"]), Some(NotStorable::Private));
    assert_eq!(why_not(&["Cache-Control: private=\"\""]), Some(NotStorable::Private));
    assert_eq!(why_not(&["Cache-Control: private=\"a b\""]), Some(NotStorable::Private));
    assert_eq!(why_not(&["Cache-Control: max-age=9", "Vary: *"]), Some(NotStorable::VaryAny));
}

#[test]
fn the_client_can_forbid_it() {
    let shy = get(&["Cache-Control: no-store"]);
    assert_eq!(judged(&shy, 200, &["Cache-Control: max-age=9"]), Some(NotStorable::RequestNoStore));
}

#[test]
fn must_understand_overrules_no_store_where_the_status_is_known() {
    let line = "Cache-Control: max-age=3600, no-store, must-understand";
    assert_eq!(judged(&get(&[]), 200, &[line]), None);
    assert_eq!(judged(&get(&[]), 599, &[line]), Some(NotStorable::NotUnderstood));
    let line = "Cache-Control: max-age=3600, must-understand";
    assert_eq!(judged(&get(&[]), 299, &[line]), Some(NotStorable::NotUnderstood));
}

#[test]
fn answers_to_authorized_requests_are_personal_unless_marked() {
    let authorized = get(&["Authorization: Basic Zm9v"]);
    let of = |line: &str| judged(&authorized, 200, &[line, "Date: @0"]);
    assert_eq!(of("Expires: @10000"), Some(NotStorable::Authorization));
    assert_eq!(of("Cache-Control: max-age=3600"), Some(NotStorable::Authorization));
    assert_eq!(of("Cache-Control: max-age=3600, public"), None);
    assert_eq!(of("Cache-Control: max-age=3600, must-revalidate"), None);
    assert_eq!(of("Cache-Control: s-maxage=3600"), None);
    assert_eq!(of("Cache-Control: private, s-maxage=3600"), Some(NotStorable::Private));
}

#[test]
fn cookies_set_are_never_stored() {
    let lines = ["Cache-Control: public, max-age=3600", "Set-Cookie: a=b"];
    assert_eq!(why_not(&lines), Some(NotStorable::SetCookie));
    let withheld = ["Cache-Control: max-age=3600, no-cache=\"set-cookie\"", "Set-Cookie: a=b"];
    assert!(!stored(&withheld).headers().contains_key("set-cookie"));
    let allowed = Rules { store_set_cookie: true, ..lenient() };
    let kept = answer(&get(&[]), 200, &lines, &allowed).unwrap();
    assert_eq!(kept.headers()["set-cookie"], "a=b");
}

#[test]
fn answers_to_requests_with_cookies_are_personal_unless_marked() {
    let of = |cookies: &[&str], line: &str, rules: CookieRules| {
        let rules = Rules { cookies: rules, ..lenient() };
        answer(&get(cookies), 200, &[line], &rules).err()
    };
    let plain = "Cache-Control: max-age=3600";
    let known = ["Cookie: session=1"];
    let default = CookieRules::default;
    assert_eq!(of(&known, plain, default()), Some(NotStorable::Cookie));
    assert_eq!(of(&known, "Cache-Control: max-age=3600, public", default()), None);
    assert_eq!(of(&known, "Cache-Control: s-maxage=3600", default()), None);
    let ignored = CookieRules { rule: CookieRule::Ignored, ..default() };
    assert_eq!(of(&known, plain, ignored), None);
    let harmless = CookieRules { harmless: vec!["_ga*".into(), "consent".into()], ..default() };
    assert_eq!(of(&["Cookie: _ga=1; consent=yes;_ga_X=2"], plain, harmless.clone()), None);
    let mixed = ["Cookie: _ga=1; session=2"];
    assert_eq!(of(&mixed, plain, harmless.clone()), Some(NotStorable::Cookie));
    let two_lines = ["Cookie: _ga=1", "Cookie: session=2"];
    assert_eq!(of(&two_lines, plain, harmless), Some(NotStorable::Cookie));
}

#[test]
fn methods_and_statuses_that_are_not_kept() {
    let fresh = ["Cache-Control: max-age=3600"];
    for method in ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND", "M-SEARCH"] {
        let asked = ask(method, "/page", &[]);
        assert_eq!(judged(&asked, 200, &fresh), Some(NotStorable::Method), "{method}");
    }
    assert_eq!(judged(&get(&[]), 103, &fresh), Some(NotStorable::Interim));
    assert_eq!(judged(&get(&[]), 206, &fresh), Some(NotStorable::Partial));
    assert_eq!(judged(&get(&[]), 304, &fresh), Some(NotStorable::NotModified));
    for status in [200, 203, 204, 299, 302, 400, 404, 499, 500, 503, 599] {
        assert_eq!(judged(&get(&[]), status, &fresh), None, "{status}");
    }
    assert_eq!(judged(&get(&[]), 302, &["ETag: \"a\""]), Some(NotStorable::NoLifetime));
    assert_eq!(judged(&get(&[]), 500, &[]), Some(NotStorable::NoLifetime));
}

#[test]
fn a_post_is_kept_if_it_stands_for_its_target() {
    let post = ask("POST", "/page?x=1", &[]);
    let of = |lines: &[&str]| judged(&post, 200, lines);
    let fresh = "Cache-Control: max-age=3600";
    assert_eq!(of(&[fresh, "Content-Location: /page?x=1"]), None);
    assert_eq!(of(&[fresh, "Content-Location: http://example.org/page?x=1"]), None);
    assert_eq!(of(&[fresh, "Content-Location: ?x=1"]), None);
    for other in ["/page", "/other", "http://example.com/page?x=1"] {
        let location = format!("Content-Location: {other}");
        assert_eq!(of(&[fresh, &location]), Some(NotStorable::Method), "{other}");
    }
    let guessed = ["Last-Modified: @-1000", "Content-Location: /page?x=1"];
    assert_eq!(of(&guessed), Some(NotStorable::Method));
}

#[test]
fn a_body_in_an_unknown_coding_is_not_kept() {
    let fresh = "Cache-Control: max-age=3600";
    assert_eq!(why_not(&[fresh, "Transfer-Encoding: chunked"]), None);
    let coded = [fresh, "Transfer-Encoding: gzip, chunked"];
    assert_eq!(why_not(&coded), Some(NotStorable::TransferCoding));
}

#[test]
fn what_could_never_be_used_is_not_kept() {
    let strict =
        Rules { grace_while_asleep: Duration::ZERO, stale_if_error: Duration::ZERO, ..lenient() };
    let of = |line: &str, rules: &Rules| answer(&get(&[]), 200, &[line], rules).err();
    assert_eq!(of("Date: @0", &strict), Some(NotStorable::Useless));
    assert_eq!(of("Cache-Control: no-cache, max-age=9", &strict), Some(NotStorable::Useless));
    assert_eq!(of("ETag: \"a\"", &strict), None);
    assert_eq!(of("Cache-Control: max-age=1", &strict), None);
    assert_eq!(of("Cache-Control: stale-while-revalidate=9", &strict), None);
    assert_eq!(of("Date: @0", &lenient()), None, "for while the origin sleeps");
    assert_eq!(of("Cache-Control: no-cache", &lenient()), Some(NotStorable::Useless));
}

#[test]
fn fields_of_the_connection_and_withheld_ones_are_dropped() {
    let kept = stored(&[
        "Connection: a, B",
        "A: 1",
        "b: 2",
        "c: 3",
        "d: 4",
        "Keep-Alive: x",
        "Proxy-Authenticate: x",
        "Proxy-Authentication-Info: x",
        "Proxy-Authorization: x",
        "Proxy-Connection: x",
        "TE: x",
        "Trailer: x",
        "Upgrade: x",
        "Cache-Control: no-cache=\"d\"",
        "Cache-Control: max-age=3600",
        "Content-Length: 36",
    ]);
    let mut names: Vec<&str> = kept.headers().keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["c", "cache-control", "content-length", "date"]);
}

#[test]
fn a_date_is_added_or_mended_but_never_moved() {
    let fresh = "Cache-Control: max-age=3600";
    let added = stored(&[fresh]);
    assert_eq!(stored(&[fresh, "Date: foo"]).headers()["date"], added.headers()["date"]);
    let given = stored(&[fresh, "Date: @-30"]);
    let sent = given.response_headers(crate::harness::at(100));
    assert_eq!(sent["date"], given.headers()["date"]);
    assert_ne!(sent["date"], added.headers()["date"]);
    assert_eq!(sent["age"], "130");
}

#[test]
fn private_answers_condemn_only_where_nobody_is_logged_in() {
    let condemns = |why: NotStorable, lines: &[&str], status| {
        let sender = Sender::of(&get(lines).head(), &lenient());
        why.condemns_stored(sender, http::StatusCode::from_u16(status).unwrap())
    };
    assert!(condemns(NotStorable::Private, &[], 200));
    assert!(!condemns(NotStorable::Private, &["Cookie: a=b"], 200));
    assert!(!condemns(NotStorable::NoStore, &["Authorization: x"], 200));
    assert!(!condemns(NotStorable::NoStore, &["X-Emby-Token: x"], 200));
    assert!(!condemns(NotStorable::SetCookie, &[], 200));
    // An error says nothing of the resource.
    assert!(!condemns(NotStorable::NoStore, &[], 404));
    assert!(!condemns(NotStorable::NoStore, &[], 500));
}

#[test]
fn what_is_stored_can_be_restored() {
    let lines = ["Cache-Control: max-age=60", "Age: 5", "Vary: Foo, Bar", "Date: @-2"];
    let first = answer(&get(&["Foo: 1,  2", "DNT: 1"]), 200, &lines, &lenient());
    let first = first.unwrap();
    let mut selecting = http::HeaderMap::new();
    for (name, value) in first.selecting().iter() {
        if let Some(value) = value {
            selecting.insert(name, http::HeaderValue::from_bytes(value).unwrap());
        }
    }
    let plain = get(&[]);
    let head = RequestHead { headers: &selecting, ..plain.head() };
    let again = Stored::new(
        &head,
        Filler::Client,
        first.status(),
        first.headers(),
        first.times(),
        &lenient(),
    );
    assert_eq!(again, Ok(first));
}

#[test]
fn a_part_that_is_the_whole_is_kept_as_the_whole() {
    let rules = lenient();
    let asked = get(&["Range: bytes=0-"]);
    let part = |range: &str| {
        let lines = ["Cache-Control: max-age=60", "ETag: \"1\"", range];
        answer(&asked, 206, &lines, &rules)
    };
    for range in ["Content-Range: bytes 0-9/10", "Content-Range: Bytes 0-9/10"] {
        let page = part(range).unwrap();
        assert_eq!(page.status(), 200);
        assert_eq!(page.headers()["content-length"], "10");
        assert!(!page.headers().contains_key("content-range"));
        assert!(page.is_whole_with(10) && !page.is_whole_with(9));
    }
    for range in [
        "Content-Range: bytes 0-8/10",
        "Content-Range: bytes 1-9/10",
        "Content-Range: bytes 0-9/*",
        "Content-Range: bytes */10",
        "Content-Range: bytes 0-9",
        "Content-Range: bytes /",
        "Content-Range: bytes 0/1-0",
        "Content-Range: lines 0-9/10",
        "Content-Range: b",
        "Content-Range: bytes 0-18446744073709551615/18446744073709551615",
        "X: y",
    ] {
        assert_eq!(part(range), Err(NotStorable::Partial), "{range}");
    }
    let two =
        ["Cache-Control: max-age=60", "Content-Range: bytes 0-9/10", "Content-Range: bytes 0-9/10"];
    assert_eq!(answer(&asked, 206, &two, &rules), Err(NotStorable::Partial));
}

/// Slips that are seen in the field: a restriction counts however badly it is written.
#[test]
fn a_restriction_that_is_misspelled_restricts() {
    let why_not = |line: &str| why_not(&[&format!("Cache-Control: {line}")]);
    for line in [
        "no-store; max-age=60",
        "no-cache; no-store; must-revalidate",
        "no-store no-cache",
        "max-age=60, no-store;",
        "max-age=60; no-store",
        "no_store",
        "No_Store, max-age=60",
    ] {
        assert_eq!(why_not(line), Some(NotStorable::NoStore), "{line}");
    }
    for line in
        ["private; max-age=60", "private;", "max-age=60, private;", "max-age=60, no-cache; private"]
    {
        assert_eq!(why_not(line), Some(NotStorable::Private), "{line}");
    }
    for line in [
        "max-age=60",
        "max-age=60, x=\"a; private\"",
        "max-age=60, not-private; x",
        "public, max-age=60;",
    ] {
        assert_eq!(why_not(line), None, "{line}");
    }
}
