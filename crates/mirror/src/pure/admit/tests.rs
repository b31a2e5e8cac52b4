use super::*;
use crate::coding::{Effort, pack};
use http::HeaderName;

const NOW: Timestamp = Timestamp::from_secs(1_780_000_000);

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn rules() -> AdmitRules {
    AdmitRules::new(&Rules::default(), 10_000, vec!["/wiki/*".to_owned()])
}

fn page() -> Address {
    Address::new("/page").unwrap()
}

fn answer(status: u16, lines: &[(&str, &str)], body: &str) -> Answer {
    Answer {
        asked: headers(&[("accept-encoding", "identity")]),
        status: StatusCode::from_u16(status).unwrap(),
        headers: headers(lines),
        body: Bytes::copy_from_slice(body.as_bytes()),
        ended: Ended::Whole,
        times: Times::at(NOW),
    }
}

fn verdict(status: u16, lines: &[(&str, &str)], body: &str) -> Verdict {
    admit(&page(), &answer(status, lines, body), &Before::default(), &rules())
}

/// Why it is not kept; `None` if it is.
fn refused(status: u16, lines: &[(&str, &str)]) -> Option<Reason> {
    match verdict(status, lines, "body") {
        Verdict::Keep(_) => None,
        Verdict::Refused { reason, .. } => Some(reason),
        other => panic!("{other:?}"),
    }
}

fn kept(verdict: Verdict) -> Kept {
    match verdict {
        Verdict::Keep(kept) => *kept,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_server_forbids_is_not_mirrored() {
    for (value, reason) in [
        ("no-store", Some(Reason::NoStore)),
        ("private", Some(Reason::Private)),
        ("private, max-age=600", Some(Reason::Private)),
        ("no-cache", Some(Reason::Revalidate)),
        ("max-age=0, must-revalidate", Some(Reason::Revalidate)),
        ("max-age=600, must-revalidate", None),
        ("max-age=0", None),
        ("public", None),
        ("private=\"x-user\"", None),
    ] {
        assert_eq!(refused(200, &[("cache-control", value)]), reason, "{value}");
    }
    let with_tag = [("cache-control", "no-cache"), ("etag", "\"a\"")];
    assert_eq!(refused(200, &with_tag), Some(Reason::Revalidate));
    assert_eq!(refused(200, &[("vary", "*")]), Some(Reason::Varies));
    assert_eq!(refused(200, &[("content-type", "text/event-stream")]), Some(Reason::Stream));
    assert_eq!(refused(200, &[]), None);
    assert_eq!(refused(200, &[("vary", "Cookie, Accept-Encoding")]), None);
}

#[test]
fn the_operator_may_override_all_but_no_store() {
    let wiki = Address::new("/wiki/Start").unwrap();
    // What MediaWiki sends to visitors without a session.
    let lines = [
        ("cache-control", "private, must-revalidate, max-age=0"),
        ("expires", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("vary", "Accept-Encoding, Cookie"),
    ];
    let given = admit(&wiki, &answer(200, &lines, "wiki"), &Before::default(), &rules());
    let entry = kept(given).entry;
    assert!(entry.overridden);
    assert_eq!(entry.headers()["cache-control"], lines[0].1);
    assert_eq!(refused(200, &lines), Some(Reason::Private), "on other paths it holds");
    let forbidden = answer(200, &[("cache-control", "private, no-store")], "wiki");
    let verdict = admit(&wiki, &forbidden, &Before::default(), &rules());
    assert!(matches!(verdict, Verdict::Refused { reason: Reason::NoStore, .. }));
}

#[test]
fn statuses_that_say_something_of_the_page_are_kept() {
    let to = |target| refused(302, &[("location", target)]);
    for (status, reason) in [
        (200, None),
        (404, None),
        (410, None),
        (204, Some(Reason::Status)),
        (206, Some(Reason::Status)),
        (405, Some(Reason::Status)),
        (401, Some(Reason::Refused)),
        (403, Some(Reason::Refused)),
        (429, Some(Reason::ServerError)),
        (500, Some(Reason::ServerError)),
        (503, Some(Reason::ServerError)),
        // Without a target a redirect says nothing.
        (301, Some(Reason::Status)),
    ] {
        assert_eq!(refused(status, &[]), reason, "{status}");
    }
    assert_eq!(to("/elsewhere"), None);
    assert_eq!(to("/wp-login.php?redirect_to=%2Fpage"), Some(Reason::Refused));
    for status in [301, 302, 303, 307, 308] {
        assert_eq!(refused(status, &[("location", "https://example.org/x")]), None, "{status}");
    }
}

#[test]
fn a_page_with_a_cookie_is_kept_without_it_if_two_fetches_agree() {
    let lines = [("set-cookie", "PHPSESSID=1"), ("content-type", "text/html")];
    let Verdict::Again(first) = verdict(200, &lines, "the same") else { panic!("a second fetch") };
    let before = Before { first: Some(first), entry: None };
    let second = answer(200, &[("set-cookie", "PHPSESSID=2")], "the same");
    let entry = kept(admit(&page(), &second, &before, &rules())).entry;
    assert!(!entry.headers().contains_key("set-cookie"));
    let other = answer(200, &[("set-cookie", "PHPSESSID=2")], "hello, visitor 2");
    let verdict = admit(&page(), &other, &before, &rules());
    assert!(matches!(verdict, Verdict::Refused { reason: Reason::Differs, .. }));
    // What is mirrored already is the first of the two; something new is fetched twice again.
    let before = Before { first: None, entry: Some(&entry) };
    assert!(matches!(admit(&page(), &second, &before, &rules()), Verdict::Keep(_)));
    assert!(matches!(admit(&page(), &other, &before, &rules()), Verdict::Again(_)));
    // A redirect that differs is not the same either.
    let to = |target| answer(302, &[("set-cookie", "a=1"), ("location", target)], "");
    let Verdict::Again(first) = admit(&page(), &to("/a"), &Before::default(), &rules()) else {
        panic!("a second fetch")
    };
    let before = Before { first: Some(first), entry: None };
    let verdict = admit(&page(), &to("/b"), &before, &rules());
    assert!(matches!(verdict, Verdict::Refused { reason: Reason::Differs, .. }));
}

#[test]
fn what_must_be_new_each_time_is_not_mirrored() {
    let html = [("content-type", "text/html")];
    let reason = |lines: &[(&str, &str)], body| match verdict(200, lines, body) {
        Verdict::Refused { reason, found } => {
            assert_eq!(found.unwrap().links.len(), 1, "its links are followed nevertheless");
            reason
        }
        other => panic!("{other:?}"),
    };
    let policy = [html[0], ("content-security-policy", "script-src 'nonce-R4nd0m'")];
    assert_eq!(reason(&policy, "<a href=/x>"), Reason::Nonce);
    assert_eq!(reason(&html, "<a href=/x><script nonce=a></script>"), Reason::Nonce);
    let form = "<a href=/x><input name=_token value=a>";
    assert_eq!(reason(&html, form), Reason::FormToken);
    let fixed = [html[0], ("content-security-policy", "default-src 'self'")];
    kept(verdict(200, &fixed, "<a href=/x>"));
}

#[test]
fn codings_are_undone_and_broken_bodies_are_not_kept() {
    let text = "<a href=/x>x</a>".repeat(10);
    let packed = pack(Coding::Gzip, text.as_bytes(), Effort::Store).unwrap();
    let mut gzipped =
        answer(200, &[("content-type", "text/html"), ("content-encoding", "gzip")], "");
    gzipped.body = packed.clone().into();
    let given = kept(admit(&page(), &gzipped, &Before::default(), &rules()));
    assert_eq!((&given.body[..], given.found.links.len()), (text.as_bytes(), 1));
    assert!(given.entry.was_coded && !given.entry.headers().contains_key("content-encoding"));
    // It must not be changed: then it stays as it is.
    gzipped.headers.insert("cache-control", HeaderValue::from_static("no-transform"));
    let given = kept(admit(&page(), &gzipped, &Before::default(), &rules()));
    assert_eq!((given.body, given.entry.was_coded), (packed.into(), false));

    let reason = |answer: &Answer| match admit(&page(), answer, &Before::default(), &rules()) {
        Verdict::Refused { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(&answer(200, &[("content-encoding", "gzip")], "no gzip")), Reason::Coding);
    assert_eq!(reason(&answer(200, &[("content-encoding", "x-own")], "x")), Reason::Coding);
    let mut bomb = answer(200, &[("content-encoding", "br")], "");
    bomb.body = pack(Coding::Brotli, &vec![0; 100_000], Effort::Store).unwrap().into();
    assert_eq!(reason(&bomb), Reason::TooLarge);
    assert_eq!(reason(&answer(200, &[], &"x".repeat(10_001))), Reason::TooLarge);
    let ended = |ended| Answer { ended, ..answer(200, &[], "x") };
    assert_eq!(reason(&ended(Ended::Torn)), Reason::Torn);
    assert_eq!(reason(&ended(Ended::TooLong)), Reason::TooLarge);
}

#[test]
fn a_confirmed_page_is_young_again_with_the_new_fields() {
    let lines = [("etag", "\"a\""), ("x-old", "1"), ("vary", "Accept-Encoding"), ("age", "50")];
    let entry = kept(verdict(200, &lines, "body")).entry;
    let later = Timestamp::from_secs(NOW.as_secs() + 3600);
    let confirmed = |lines: &[(&str, &str)]| {
        let answer = Answer { times: Times::at(later), ..answer(304, lines, "") };
        let before = Before { entry: Some(&entry), first: None };
        admit(&page(), &answer, &before, &rules())
    };
    let Verdict::Confirmed(new) = confirmed(&[("etag", "\"a\""), ("x-new", "2")]) else {
        panic!("confirmed")
    };
    assert_eq!((new.confirmed(), new.body), (later, entry.body));
    let fields = new.headers();
    assert_eq!(
        (&fields["x-old"], &fields["x-new"], &fields["vary"]),
        (
            &HeaderValue::from_static("1"),
            &HeaderValue::from_static("2"),
            &HeaderValue::from_static("Accept-Encoding")
        )
    );
    assert!(!fields.contains_key("age"));
    let refused = |lines: &[(&str, &str)]| match confirmed(lines) {
        Verdict::Refused { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&[("etag", "\"b\"")]), Reason::Status, "it confirms something else");
    assert_eq!(refused(&[("cache-control", "no-store")]), Reason::NoStore);
    let unasked = admit(&page(), &answer(304, &[], ""), &Before::default(), &rules());
    assert!(matches!(unasked, Verdict::Refused { reason: Reason::Status, .. }));
}

#[test]
fn a_confirmed_override_stays_one() {
    let wiki = Address::new("/wiki/Start").unwrap();
    let lines = [
        ("cache-control", "private, max-age=0"),
        ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ];
    let entry = kept(admit(&wiki, &answer(200, &lines, "w"), &Before::default(), &rules())).entry;
    let before = Before { entry: Some(&entry), first: None };
    let Verdict::Confirmed(new) = admit(&wiki, &answer(304, &[], ""), &before, &rules()) else {
        panic!("confirmed")
    };
    assert!(new.overridden);
    assert_eq!(new.headers()["cache-control"], lines[0].1);
}

#[test]
fn pages_redirects_and_missing_pages_are_kept() {
    let of = |kind| (100..600).filter(|&it| StatusKind::of(it) == kind).collect::<Vec<u16>>();
    assert_eq!(of(StatusKind::Page), [200, 203]);
    assert_eq!(of(StatusKind::Redirect), [301, 302, 303, 307, 308]);
    assert_eq!(of(StatusKind::Gone), [404, 410]);
    assert_eq!(of(StatusKind::Refused(Reason::Refused)), [401, 403, 407]);
}
