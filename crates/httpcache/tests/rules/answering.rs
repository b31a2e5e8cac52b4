//! Answers made from a stored response: 304, 206, 416 (RFC 9110, 13 and 14).

use crate::harness::{answer, ask, at, fields, get, lenient, stored};
use nightwatt_httpcache::conditional::{is_in_if_match, is_in_if_none_match};
use nightwatt_httpcache::range::{answer as range_of, partial_headers, unsatisfiable_headers};
use nightwatt_httpcache::{ByteRange, Precondition, RangeAnswer};

const FRESH: &str = "Cache-Control: max-age=1000";

fn matches(tag: &str, condition: &str) -> bool {
    let page = stored(&[FRESH, &format!("ETag: {tag}")]);
    let asked = get(&[&format!("If-None-Match: {condition}")]);
    page.precondition(&asked.head()) == Precondition::NotModified
}

#[test]
fn tags_are_compared_weakly() {
    for (tag, condition) in [
        ("\"a\"", "\"a\""),
        ("W/\"a\"", "W/\"a\""),
        ("W/\"a\"", "\"a\""),
        ("\"a\"", "W/\"a\""),
        ("\"a\"", "\"1\", \"a\" , \"2\""),
        ("\"a\"", "\"1\",, W/\"a\""),
        ("\"a,b\"", "\"1\", \"a,b\""),
        ("\"\u{fc}\"", "\"\u{fc}\""),
        ("\"a\"", "*"),
        ("a", "a"),
    ] {
        assert!(matches(tag, condition), "{tag} {condition}");
    }
    for (tag, condition) in [
        ("\"a\"", "\"A\""),
        ("\"a\"", "\"ab\""),
        ("\"a\"", "a"),
        ("\"a\"", "\"a, b\""),
        ("\"a\"", ""),
    ] {
        assert!(!matches(tag, condition), "{tag} {condition}");
    }
}

#[test]
fn if_match_compares_strongly_and_if_none_match_weakly() {
    for (tag, condition, strongly, weakly) in [
        ("\"a\"", "\"a\"", true, true),
        ("\"a\"", "\"1\", \"a\" , \"2\"", true, true),
        ("\"a,b\"", "\"1\", \"a,b\"", true, true),
        ("\"a\"", "*", true, true),
        ("\"a\"", "W/\"a\"", false, true),
        ("W/\"a\"", "\"a\"", false, true),
        ("W/\"a\"", "W/\"a\"", false, true),
        ("W/\"a\"", "*", true, true),
        ("\"a\"", "\"b\"", false, false),
        ("\"a\"", "\"1, \"a\"", false, false),
        ("\"a\"", "", false, false),
    ] {
        let own = Some(tag.as_bytes());
        let if_match = fields(&[&format!("If-Match: {condition}")]);
        let if_none_match = fields(&[&format!("If-None-Match: {condition}")]);
        assert_eq!(is_in_if_match(&if_match, own), strongly, "{tag} {condition}");
        assert_eq!(is_in_if_none_match(&if_none_match, own), weakly, "{tag} {condition}");
        assert!(!is_in_if_match(&if_none_match, own), "the other field");
    }
    let untagged = fields(&["If-Match: \"a\"", "If-None-Match: \"a\""]);
    assert!(!is_in_if_match(&untagged, None) && !is_in_if_none_match(&untagged, None));
}

#[test]
fn dates_count_only_without_tags() {
    let of = |response: &[&str], request: &[&str]| {
        stored(&[&[FRESH], response].concat()).precondition(&get(request).head())
    };
    let changed = ["Last-Modified: @-3000", "Date: @0"];
    assert_eq!(of(&changed, &["If-Modified-Since: @-3000"]), Precondition::NotModified);
    assert_eq!(of(&changed, &["If-Modified-Since: @-2000"]), Precondition::NotModified);
    assert_eq!(of(&changed, &["If-Modified-Since: @-3001"]), Precondition::Proceed);
    assert_eq!(of(&changed, &["If-Modified-Since: yesterday"]), Precondition::Proceed);
    assert_eq!(of(&["Date: @-5"], &["If-Modified-Since: @-5"]), Precondition::NotModified);
    assert_eq!(of(&["Date: @-5"], &["If-Modified-Since: @-6"]), Precondition::Proceed);
    let tagged = ["Last-Modified: @-3000", "ETag: \"a\""];
    let both = |tag: &str, since: &str| of(&tagged, &[tag, since]);
    assert_eq!(
        both("If-None-Match: \"a\"", "If-Modified-Since: @-9000"),
        Precondition::NotModified
    );
    assert_eq!(both("If-None-Match: \"b\"", "If-Modified-Since: @0"), Precondition::Proceed);
}

#[test]
fn some_conditions_are_the_origins() {
    let page = stored(&[FRESH, "ETag: \"a\""]);
    for line in ["If-Match: \"a\"", "If-Unmodified-Since: @0"] {
        assert_eq!(page.precondition(&get(&[line]).head()), Precondition::Forward);
    }
    let missing = answer(&get(&[]), 404, &[FRESH, "ETag: \"a\""], &lenient()).unwrap();
    let asked = get(&["If-None-Match: \"a\""]);
    assert_eq!(missing.precondition(&asked.head()), Precondition::Proceed);
    let head = ask("HEAD", "/page", &["If-None-Match: \"a\""]);
    assert_eq!(page.precondition(&head.head()), Precondition::NotModified);
}

#[test]
fn a_304_carries_what_updates_the_clients_copy() {
    let page = stored(&[
        FRESH,
        "ETag: \"a\"",
        "Last-Modified: @-10",
        "Vary: Foo",
        "Expires: @50",
        "Content-Location: /x",
        "Content-Type: text/plain",
        "Content-Length: 5",
    ]);
    let mut sent: Vec<String> =
        page.not_modified_headers(at(7)).keys().map(ToString::to_string).collect();
    sent.sort_unstable();
    let expected = ["age", "cache-control", "content-location", "date", "etag", "expires", "vary"];
    assert_eq!(sent, expected);
    assert_eq!(page.not_modified_headers(at(7))["age"], "7");
    let undated = stored(&[FRESH, "Last-Modified: @-10"]);
    assert!(undated.not_modified_headers(at(7)).contains_key("last-modified"));
}

#[test]
fn one_range_is_cut_out() {
    let part = |first, last| RangeAnswer::Part(ByteRange { first, last });
    for (range, expected) in [
        ("bytes=0-1", part(0, 1)),
        ("BYTES = 0-1", part(0, 1)),
        ("bytes=1-", part(1, 10)),
        ("bytes=-1", part(10, 10)),
        ("bytes=-99999999999999999999999", part(0, 10)),
        ("bytes=5-99999999999999999999999", part(5, 10)),
        ("bytes=,5-5,", part(5, 5)),
        ("bytes=11-", RangeAnswer::NotSatisfiable),
        ("bytes=-0", RangeAnswer::NotSatisfiable),
        ("bytes=5-4", RangeAnswer::Whole),
        ("bytes=0-1,3-4", RangeAnswer::Whole),
        ("bytes=", RangeAnswer::Whole),
        ("bytes=-", RangeAnswer::Whole),
        ("bytes=+1-2", RangeAnswer::Whole),
        ("bytes=a-b", RangeAnswer::Whole),
        ("lines=0-1", RangeAnswer::Whole),
        ("0-1", RangeAnswer::Whole),
    ] {
        assert_eq!(range_of(range.as_bytes(), 11), expected, "{range}");
    }
    assert_eq!(range_of(b"bytes=0-", 0), RangeAnswer::NotSatisfiable);
    assert_eq!(range_of(b"bytes=-5", 0), RangeAnswer::Whole);
}

#[test]
fn ranges_are_for_whole_pages_and_get() {
    let page = stored(&[FRESH]);
    let part = RangeAnswer::Part(ByteRange { first: 0, last: 1 });
    assert_eq!(page.range(&get(&["Range: bytes=0-1"]).head(), 11), part);
    assert_eq!(page.range(&get(&[]).head(), 11), RangeAnswer::Whole);
    let head = ask("HEAD", "/page", &["Range: bytes=0-1"]);
    assert_eq!(page.range(&head.head(), 11), RangeAnswer::Whole);
    let twice = get(&["Range: bytes=0-1", "Range: bytes=2-3"]);
    assert_eq!(page.range(&twice.head(), 11), RangeAnswer::Whole);
    let missing = answer(&get(&[]), 404, &[FRESH], &lenient()).unwrap();
    assert_eq!(missing.range(&get(&["Range: bytes=0-1"]).head(), 11), RangeAnswer::Whole);
}

#[test]
fn a_part_is_added_only_to_the_same_whole() {
    let of = |response: &[&str], condition: &str| {
        let page = stored(&[&[FRESH], response].concat());
        page.range(&get(&["Range: bytes=0-1", &format!("If-Range: {condition}")]).head(), 11)
            != RangeAnswer::Whole
    };
    assert!(of(&["ETag: \"a\""], "\"a\""));
    assert!(!of(&["ETag: \"a\""], "\"b\""));
    assert!(!of(&["ETag: W/\"a\""], "W/\"a\""));
    assert!(!of(&[], "\"a\""));
    assert!(of(&["Last-Modified: @-100"], "@-100"));
    assert!(!of(&["Last-Modified: @-100"], "@-99"));
    assert!(!of(&["Last-Modified: @0", "Date: @0"], "@0"), "it may change within the second");
    assert!(!of(&["Last-Modified: @-100"], "nonsense"));
}

#[test]
fn partial_answers_say_where_they_belong() {
    let page = stored(&[FRESH, "Content-Length: 11", "A: 1"]);
    let mut headers = page.response_headers(at(1));
    partial_headers(&mut headers, ByteRange { first: 2, last: 4 }, 11);
    assert_eq!(headers["content-range"], "bytes 2-4/11");
    assert_eq!(headers["content-length"], "3");
    assert_eq!(headers["a"], "1");
    assert_eq!(unsatisfiable_headers(11)["content-range"], "bytes */11");
}
