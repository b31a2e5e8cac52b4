//! Asking the origin, and taking in its answer (RFC 9111, 4.3).

use crate::harness::{NOW, answer, ask, at, fields, get, later, lenient, stored};
use http::{HeaderMap, StatusCode};
use nightwatt_httpcache::update::{HeadEffect, add_validators, answered, merged};
use nightwatt_httpcache::{Filler, NotStorable, Rules, Stored, Times, Usability};

fn freshened(page: &Stored, lines: &[&str]) -> Result<Stored, NotStorable> {
    let times = Times::at(at(100));
    page.freshened(&get(&[]).head(), Filler::Client, &fields(lines), times, &lenient())
}

fn conditions(client: &[&str], candidates: &[&Stored]) -> Option<HeaderMap> {
    let mut headers = fields(client);
    add_validators(&mut headers, candidates).then_some(headers)
}

#[test]
fn the_cache_asks_by_what_it_has() {
    let both = stored(&["ETag: W/\"a\"", "Last-Modified: @-10"]);
    let client = [
        "If-None-Match: \"b\"",
        "If-Modified-Since: @-50",
        "If-Range: \"b\"",
        "Range: bytes=0-1",
        "Foo: 1",
    ];
    let asked = conditions(&client, &[&both]).unwrap();
    assert_eq!(asked["if-none-match"], "W/\"a\"");
    assert_eq!(asked["if-modified-since"], both.headers()["last-modified"]);
    assert_eq!(asked["foo"], "1");
    assert!(!asked.contains_key("range") && !asked.contains_key("if-range"));
    let neither = stored(&["Cache-Control: max-age=1"]);
    assert_eq!(conditions(&client, &[&neither]), None);
    let tagged = stored(&["ETag: \"c\"", "Last-Modified: @-10"]);
    let asked = conditions(&[], &[&both, &neither, &tagged]).unwrap();
    assert_eq!(asked["if-none-match"], "W/\"a\", \"c\"");
    assert!(!asked.contains_key("if-modified-since"), "which of them it is about is not said");
}

#[test]
fn a_304_names_the_one_it_confirms() {
    let a = stored(&["ETag: \"a\"", "Date: @-9"]);
    let b = stored(&["ETag: W/\"b\"", "Date: @-9"]);
    let later_b = stored(&["ETag: W/\"b\"", "Date: @-5"]);
    let all = [&a, &b, &later_b];
    assert_eq!(answered(&all, &fields(&["ETag: \"a\""])), Some(0));
    assert_eq!(answered(&all, &fields(&["ETag: W/\"a\""])), Some(0));
    assert_eq!(answered(&all, &fields(&["ETag: W/\"b\""])), Some(2));
    assert_eq!(answered(&all, &fields(&["ETag: \"b\""])), None, "strong fits only strong");
    assert_eq!(answered(&all, &fields(&["ETag: \"c\""])), None);
    assert_eq!(answered(&all, &fields(&[])), None);
    assert_eq!(answered(&[&a], &fields(&[])), Some(0));
    assert_eq!(answered(&[&a], &fields(&["Last-Modified: @-10"])), Some(0));
    let dated = stored(&["Last-Modified: @-10"]);
    assert_eq!(answered(&[&dated], &fields(&["Last-Modified: @-10"])), Some(0));
    assert_eq!(answered(&[&dated], &fields(&["Last-Modified: @-11"])), None);
    assert_eq!(answered(&[], &fields(&[])), None);
}

#[test]
fn a_confirmed_response_is_fresh_again_with_new_fields() {
    let page = stored(&[
        "Cache-Control: max-age=2",
        "ETag: \"a\"",
        "Age: 1",
        "Test: old",
        "Test: older",
        "Kept: yes",
        "Content-Type: text/plain",
        "Content-Length: 36",
        "Content-Encoding: gzip",
    ]);
    let new = freshened(
        &page,
        &[
            "Cache-Control: max-age=50",
            "ETag: \"a\"",
            "Test: new",
            "Content-Type: text/html",
            "Content-Length: 10",
            "Content-Encoding: br",
            "Content-Range: bytes 0-1/2",
            "Content-MD5: x",
            "Transfer-Encoding: chunked",
            "Connection: hop",
            "Hop: 1",
        ],
    );
    let new = new.unwrap();
    let headers = new.headers();
    for (name, value) in [
        ("cache-control", "max-age=50"),
        ("test", "new"),
        ("kept", "yes"),
        ("content-type", "text/html"),
        ("content-length", "36"),
        ("content-encoding", "gzip"),
    ] {
        assert_eq!(headers.get_all(name).iter().collect::<Vec<_>>(), [value], "{name}");
    }
    for name in ["content-range", "content-md5", "transfer-encoding", "hop", "age"] {
        assert!(!headers.contains_key(name), "{name}");
    }
    assert!(matches!(later(&new, 149), Usability::Fresh { .. }));
    assert!(matches!(later(&new, 150), Usability::Stale(_)));
    assert_eq!(new.status(), StatusCode::OK);
}

#[test]
fn a_304_may_forbid_keeping_what_it_confirms() {
    let page = stored(&["Cache-Control: max-age=2", "ETag: \"a\""]);
    assert_eq!(freshened(&page, &["Cache-Control: no-store"]), Err(NotStorable::NoStore));
    assert_eq!(freshened(&page, &["Cache-Control: private"]), Err(NotStorable::Private));
    assert_eq!(freshened(&page, &["Vary: *"]), Err(NotStorable::VaryAny));
    let times = Times::at(at(100));
    let shown = merged(&page, &fields(&["Cache-Control: no-store", "B: 1"]), times, &lenient());
    assert_eq!(shown["b"], "1");
}

#[test]
fn one_visitor_can_confirm_but_not_colour_what_all_see() {
    let times = Times::at(at(100));
    let public = stored(&["Cache-Control: public, max-age=60", "ETag: \"a\"", "A: 1"]);
    let plain = stored(&["Cache-Control: max-age=60", "ETag: \"a\"", "A: 1"]);
    let says = fields(&["Cache-Control: max-age=900, public", "A: alice", "X-User: alice"]);
    for line in ["Cookie: session=1", "X-Emby-Token: t", "Cache-Control: no-cache"] {
        let asked = get(&[line]);
        let new =
            public.freshened(&asked.head(), Filler::Client, &says, times, &lenient()).unwrap();
        assert!(new.is_fresh(at(159)) && !new.is_fresh(at(160)), "{line}: its own lifetime");
        assert_eq!(new.headers()["a"], "1", "{line}");
        assert!(!new.headers().contains_key("x-user"), "{line}");
    }
    // Without `public`, an answer to a client that may get something else doesn't even confirm a stored
    // response.
    let quiet = fields(&["X-User: alice"]);
    for (line, why) in [
        ("Cookie: session=1", NotStorable::Cookie),
        ("Authorization: x", NotStorable::Authorization),
        ("X-Emby-Token: t", NotStorable::Authorization),
    ] {
        let refused =
            plain.freshened(&get(&[line]).head(), Filler::Client, &quiet, times, &lenient());
        assert_eq!(refused, Err(why), "{line}");
    }
    let anonymous = plain.freshened(&get(&[]).head(), Filler::Client, &says, times, &lenient());
    assert_eq!(anonymous.unwrap().headers()["a"], "alice");
}

#[test]
fn only_the_proxys_own_request_changes_what_it_filled() {
    let rules = Rules { assumes: true, ..Rules::default() };
    let page = Stored::new(
        &get(&[]).head(),
        Filler::Proxy,
        StatusCode::OK,
        &fields(&["ETag: \"a\"", "A: 1", "Last-Modified: @-100000"]),
        Times::at(NOW),
        &rules,
    );
    let page = page.unwrap();
    let says = fields(&["ETag: \"a\"", "A: 2"]);
    let by = |filler| page.freshened(&get(&[]).head(), filler, &says, Times::at(at(50)), &rules);
    assert_eq!(by(Filler::Client).unwrap().headers()["a"], "1");
    assert_eq!(by(Filler::Proxy).unwrap().headers()["a"], "2");
    assert_eq!(by(Filler::Client).unwrap().times().received, at(50));
}

#[test]
fn a_head_of_one_visitor_changes_nothing() {
    let page = stored(&["Cache-Control: max-age=2", "ETag: \"a\""]);
    for line in ["Cookie: session=1", "X-Emby-Token: t", "Content-Length: 3"] {
        let head = ask("HEAD", "/page", &[line]);
        for lines in [&["ETag: \"b\""][..], &["ETag: \"a\"", "X-User: alice"]] {
            let effect = page.after_head(
                &head.head(),
                StatusCode::OK,
                &fields(lines),
                Times::at(at(10)),
                &lenient(),
            );
            assert_eq!(effect, HeadEffect::None, "{line} {lines:?}");
        }
    }
}

#[test]
fn a_head_confirms_or_outdates() {
    let page = stored(&["Cache-Control: max-age=2", "ETag: \"a\"", "A: 1", "Content-Length: 9"]);
    let head = ask("HEAD", "/page", &[]);
    let effect = |status: u16, lines: &[&str]| {
        let status = StatusCode::from_u16(status).unwrap();
        let times = Times::at(at(10));
        page.after_head(&head.head(), status, &fields(lines), times, &lenient())
    };
    let HeadEffect::Updated(new) = effect(200, &["Cache-Control: max-age=60", "A: 2"]) else {
        panic!()
    };
    assert!(new.is_fresh(at(60)));
    assert_eq!(
        (&new.headers()["a"], &new.headers()["content-length"]),
        (&"2".parse().unwrap(), &"9".parse().unwrap())
    );
    for lines in [&["ETag: \"b\""][..], &["Content-Length: 10"], &["Last-Modified: @0"]] {
        assert_eq!(effect(200, lines), HeadEffect::Outdated, "{lines:?}");
    }
    assert_eq!(effect(200, &["Cache-Control: no-store"]), HeadEffect::Outdated);
    assert_eq!(effect(410, &[]), HeadEffect::Outdated);
    for status in [304, 401, 429, 500, 503] {
        assert_eq!(effect(status, &[]), HeadEffect::None, "{status}");
    }
    let missing = answer(&get(&[]), 404, &["Cache-Control: max-age=60"], &lenient()).unwrap();
    let found =
        missing.after_head(&head.head(), StatusCode::OK, &fields(&[]), Times::at(NOW), &lenient());
    assert_eq!(found, HeadEffect::Outdated);
}
