//! What holds for all responses, whatever they say.

use crate::harness::{Ask, NOW, answer, fields, get, lenient, reuse};
use http::HeaderMap;
use nightwatt_httpcache::range::answer as range_of;
use nightwatt_httpcache::{
    Filler, RangeAnswer, RequestDirectives, ResponseDirectives, Rules, Stored, Times, Timestamp,
    Usability,
};
use proptest::prelude::*;
use std::time::Duration;

/// Lines that responses are made of, some of them wrong.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..5000_i64).prop_map(|n| format!("Cache-Control: max-age={n}")),
        (0..5000_i64).prop_map(|n| format!("Cache-Control: s-maxage={n}, public")),
        (0..5000_i64).prop_map(|n| format!("Cache-Control: stale-while-revalidate={n}")),
        (0..5000_i64).prop_map(|n| format!("CDN-Cache-Control: max-age={n}")),
        (-5000..5000_i64).prop_map(|n| format!("Expires: @{n}")),
        (-5000..5000_i64).prop_map(|n| format!("Date: @{n}")),
        (-50000..5000_i64).prop_map(|n| format!("Last-Modified: @{n}")),
        (0..5000_i64).prop_map(|n| format!("Age: {n}")),
        "Cache-Control: [a-z=\", -]{0,30}",
        "CDN-Cache-Control: [a-z0-9=\"?, -]{0,20}",
        "Expires: [ -~]{0,30}",
        "ETag: (W/)?\"[a-c]\"",
        Just("Cache-Control: must-revalidate".to_owned()),
        Just("Cache-Control: no-cache".to_owned()),
        Just("Vary: Foo".to_owned()),
        Just("Test: 1".to_owned()),
    ]
}

fn lines() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(line(), 0..6)
}

fn borrowed(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

fn stored(lines: &[String]) -> Option<Stored> {
    answer(&get(&["Foo: 1"]), 200, &borrowed(lines), &lenient()).ok()
}

fn same_request() -> Ask {
    get(&["Foo: 1"])
}

proptest! {
    #[test]
    fn reading_directives_never_panics(line in "[ -~]{0,60}") {
        let headers: HeaderMap = fields(&[&format!("Cache-Control: {line}")]);
        let _ = ResponseDirectives::parse(&headers);
        let _ = RequestDirectives::parse(&headers);
    }

    #[test]
    fn what_is_stale_stays_stale_and_age_only_grows(
        lines in lines(),
        first in 0..10_000_i64,
        more in 0..10_000_i64,
    ) {
        if let Some(stored) = stored(&lines) {
            let now = |secs: i64| Timestamp::from_secs(NOW.as_secs() + secs.unsigned_abs());
            prop_assert!(stored.age(now(first)) <= stored.age(now(first + more)));
            prop_assert!(stored.ttl(now(first)) >= stored.ttl(now(first + more)));
            prop_assert!(stored.is_fresh(now(first)) || !stored.is_fresh(now(first + more)));
            // The moment kept for the fast answer is the one that age and lifetime give.
            let by_figures = stored.age(now(first)) < stored.freshness().lifetime;
            prop_assert_eq!(stored.is_fresh(now(first)), by_figures);
        }
    }

    #[test]
    fn no_store_never_makes_anything_storable(lines in lines(), at in 0..6_usize) {
        let mut forbidden = lines.clone();
        forbidden.insert(at.min(lines.len()), "Cache-Control: no-store".to_owned());
        forbidden.retain(|line| !line.starts_with("CDN-") && !line.contains("must-understand"));
        prop_assert!(stored(&forbidden).is_none());
    }

    #[test]
    fn the_request_that_stored_it_finds_it(lines in lines()) {
        if let Some(stored) = stored(&lines) {
            let usability = reuse(&stored, &same_request(), 1, &lenient());
            prop_assert!(!matches!(usability, Usability::Unusable(_)));
        }
    }

    #[test]
    fn grace_never_shrinks_by_growing(lines in lines(), secs in 0..10_000_i64, grace in 0..9000_u64) {
        use nightwatt_httpcache::Occasion::OriginAsleep;
        if let Some(stored) = stored(&lines) {
            let with = |grace| {
                let grace_while_asleep = Duration::from_secs(grace);
                let rules = Rules { grace_while_asleep, ..lenient() };
                reuse(&stored, &same_request(), secs, &rules).allows(OriginAsleep)
            };
            prop_assert!(!with(grace) || with(grace + 500));
            prop_assert!(!stored.must_revalidate() || stored.is_fresh(crate::harness::at(secs)) || !with(grace));
        }
    }

    #[test]
    fn a_304_taken_twice_is_a_304_taken_once(first in lines(), second in lines()) {
        if let Some(stored) = stored(&first) {
            let (rules, request) = (lenient(), same_request());
            let times = Times::at(NOW.plus(Duration::from_secs(50)));
            let update = fields(&borrowed(&second));
            if let Ok(once) = stored.freshened(&request.head(), Filler::Client, &update, times, &rules) {
                let twice = once.freshened(&request.head(), Filler::Client, &update, times, &rules);
                prop_assert_eq!(twice, Ok(once));
            }
        }
    }

    #[test]
    fn what_is_sent_fits_what_is_there(range in "bytes=[0-9]{0,3}-[0-9]{0,3}", length in 0..500_u64) {
        if let RangeAnswer::Part(part) = range_of(range.as_bytes(), length) {
            prop_assert!(part.first <= part.last && part.last < length);
            prop_assert!((1..=length).contains(&part.len()));
        }
    }

    #[test]
    fn reading_ranges_never_panics(range in "[ -~]{0,30}", length: u64) {
        let _ = range_of(range.as_bytes(), length);
    }
}
