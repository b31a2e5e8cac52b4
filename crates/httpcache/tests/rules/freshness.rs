//! How long and how old (RFC 9111, 4.2).

use crate::harness::{NOW, answer, at, fields, get, hits, later, lenient, stored};
use http::StatusCode;
use nightwatt_httpcache::{
    Filler, Heuristic, Occasion, RequestDirectives, Rules, Source, Stored, Times, Timestamp,
    Usability,
};
use std::time::Duration;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[track_caller]
fn lifetime(lines: &[&str]) -> (u64, Source) {
    let stored = stored(lines);
    (stored.freshness().lifetime.as_secs(), stored.freshness().source)
}

#[test]
fn the_most_specific_lifetime_counts() {
    let all = ["Cache-Control: s-maxage=1, max-age=2", "Expires: @30", "Last-Modified: @-1000"];
    assert_eq!(lifetime(&all), (1, Source::SMaxage));
    let all = ["Cache-Control: max-age=2", "Expires: @30", "Last-Modified: @-1000"];
    assert_eq!(lifetime(&all), (2, Source::MaxAge));
    assert_eq!(lifetime(&["Expires: @30", "Last-Modified: @-1000"]), (30, Source::Expires));
    assert_eq!(lifetime(&["Last-Modified: @-1000"]), (100, Source::Heuristic));
    assert_eq!(lifetime(&["ETag: \"a\""]), (0, Source::Unknown));
}

#[test]
fn a_lifetime_of_the_cdn_hides_the_others() {
    let both = ["CDN-Cache-Control: max-age=50", "Cache-Control: max-age=2, no-store"];
    assert_eq!(lifetime(&both), (50, Source::MaxAge));
    assert!(!hits(&["CDN-Cache-Control: max-age=0", "Expires: @10000", "Date: @0"]));
    assert!(!hits(&["CDN-Cache-Control: no-store", "Cache-Control: max-age=10000"]));
    assert!(!hits(&["CDN-Cache-Control: private", "Cache-Control: max-age=10000"]));
    assert!(!hits(&["CDN-Cache-Control: max-age=\"10000\"", "Cache-Control: no-store"]));
    let deaf = Rules { cdn_cache_control: false, ..lenient() };
    let stored = answer(&get(&[]), 200, &["CDN-Cache-Control: no-store"], &deaf);
    assert!(stored.is_ok());
}

#[test]
fn max_age_is_read_whole_or_not_at_all() {
    for fresh in [
        "max-age=3600",
        "MaX-aGe=3600",
        "foobar, max-age=3600",
        "max-age=\"3600\"",
        "max-age=003600",
        "max-age=2147483648",
        "max-age=99999999999",
        "max-age=3600, max-age=1",
        "max-age=1, s-maxage=3600",
        "extension=\"a, b\\\", max-age=1\", max-age=3600",
    ] {
        assert!(hits(&[&format!("Cache-Control: {fresh}")]), "{fresh}");
    }
    for stale in [
        "max-age=0",
        "max-age=-3600",
        "max-age='3600'",
        "max-age=3600.0",
        "max-age=3600a",
        "max-age=a3600",
        "max-age =3600",
        "max-age= 3600",
        "max-age",
        "max-age=",
        "max-age=\"\"",
        "max-age=1, max-age=3600",
        "max-age=3600, s-maxage=1",
        "extension=\"max-age=3600\", max-age=1",
        "max-age=\"1\", extension=\"max-age=3600\"",
        "extension=\"unfinished, max-age=3600",
        "xmax-age=3600",
    ] {
        assert!(!hits(&[&format!("Cache-Control: {stale}")]), "{stale}");
    }
    assert!(!hits(&["Cache-Control: max-age=3600", "Cache-Control: s-maxage=1"]));
}

#[test]
fn expires_is_a_date_in_the_future_or_has_passed() {
    assert!(hits(&["Expires: @100", "Date: @0"]));
    assert!(hits(&["Expires: @10", "Date: foo"]));
    assert!(hits(&["Expires: @10"]));
    assert!(hits(&["Expires: 0", "Cache-Control: max-age=3600"]));
    assert!(hits(&["Expires: Thu Aug  8 02:01:18 2050", "Date: @0"]));
    for lines in [
        &["Expires: @-100", "Date: @0"][..],
        &["Expires: @0", "Date: @0"],
        &["Expires: @300", "Date: @400"],
        &["Expires: 0", "Date: @0"],
        &["Expires: -1", "Date: @0"],
        &["Expires: Thu, 18 Aug 2050 2:01:18 GMT", "Date: @0"],
        &["Expires: @100", "Expires: @100", "Date: @0"],
        &["Expires: @3600", "Cache-Control: max-age=0"],
    ] {
        assert!(!hits(lines), "{lines:?}");
    }
    // An invalid date does not give way to a guess.
    assert!(!hits(&["Expires: 0", "Last-Modified: @-100000"]));
}

#[test]
fn expires_is_measured_from_the_origins_clock() {
    assert!(!hits(&["Date: @-10", "Expires: @10", "Age: 25"]));
    assert!(!hits(&["Date: @10", "Expires: @20", "Age: 15"]));
    assert_eq!(lifetime(&["Date: @1000", "Expires: @1020"]), (20, Source::Expires));
}

#[test]
fn age_is_the_first_number_or_nothing() {
    let initial = |lines: &[&str]| stored(lines).freshness().initial_age.as_secs();
    for (age, expected) in [
        ("7200", 7200),
        (" 30 ", 30),
        ("0, 7200", 0),
        ("7200, 0", 7200),
        ("2147483647", (1 << 31) - 1),
        ("2147483648", 1 << 31),
        ("99999999999999999999999", 1 << 31),
        ("abc", 0),
        ("-7200", 0),
        ("7200.0", 0),
        ("7200;foo=bar", 0),
        ("", 0),
    ] {
        assert_eq!(initial(&["ETag: \"a\"", &format!("Age: {age}")]), expected, "{age}");
    }
    assert_eq!(initial(&["ETag: \"a\"", "Age: 0", "Age: 7200"]), 0);
    assert_eq!(initial(&["ETag: \"a\"", "Age: 3600", "Age: 3600"]), 3600);
}

#[test]
fn the_greatest_age_counts() {
    let times = Times { requested: at(-4), received: NOW };
    let age = |lines: &[&str]| {
        let ask = get(&[]);
        let stored = Stored::new(
            &ask.head(),
            Filler::Client,
            StatusCode::OK,
            &fields(lines),
            times,
            &lenient(),
        );
        stored.unwrap().age(at(10)).as_secs()
    };
    assert_eq!(age(&["Cache-Control: max-age=60"]), 14, "the delay may have come after the making");
    assert_eq!(age(&["Cache-Control: max-age=60", "Age: 30"]), 44);
    assert_eq!(age(&["Cache-Control: max-age=60", "Age: 30", "Date: @-100"]), 110);
    assert_eq!(age(&["Cache-Control: max-age=60", "Date: @100"]), 14, "a clock that is ahead");
}

#[test]
fn parts_of_a_second_do_not_age_a_response() {
    let received = Timestamp::from_millis(NOW.as_millis() + 900);
    let ask = get(&[]);
    let lines = fields(&["Date: @0", "Cache-Control: max-age=1"]);
    let rules = lenient();
    let stored = Stored::new(
        &ask.head(),
        Filler::Client,
        StatusCode::OK,
        &lines,
        Times::at(received),
        &rules,
    )
    .unwrap();
    assert!(stored.is_fresh(received.plus(Duration::from_millis(999))));
    assert!(!stored.is_fresh(received.plus(Duration::from_secs(1))));
}

/// F11: the clock was ahead when it came in, and has been set back since.
#[test]
fn what_came_in_later_than_now_is_stale() {
    let stored = stored(&["Cache-Control: max-age=600", "ETag: \"a\""]);
    let received = stored.times().received;
    assert_eq!(received, NOW);
    for (ahead_s, fresh) in [(0, true), (1, true), (2, false), (3600, false), (31_536_000, false)] {
        let now = Timestamp::from_secs(received.as_secs() - ahead_s);
        assert_eq!(stored.is_fresh(now), fresh, "{ahead_s} s ahead");
        assert_eq!(
            stored.answers_plainly(nightwatt_httpcache::Sender::ANONYMOUS, now, &lenient()),
            fresh
        );
        if !fresh {
            assert_eq!(stored.ttl(now), -i64::try_from(ahead_s).unwrap());
            assert_eq!(stored.age(now), secs(600 + ahead_s));
            assert_eq!(stored.freshness().staleness(now), secs(ahead_s));
        }
    }
    // By an hour it is within the grace of a sleeping server, by a year it is not.
    let rules = Rules { grace_while_asleep: Duration::from_hours(24), ..lenient() };
    for (ahead_s, asleep) in [(3600, true), (31_536_000, false)] {
        let now = Timestamp::from_secs(received.as_secs() - ahead_s);
        let ask = get(&[]);
        let usability = stored.usability(&ask.head(), &RequestDirectives::default(), now, &rules);
        assert_eq!(usability.allows(Occasion::OriginAsleep), asleep, "{ahead_s} s ahead");
        assert!(!usability.allows(Occasion::ClientAccepts), "{usability:?}");
    }
}

#[test]
fn guesses_have_a_bound_and_can_be_switched_off() {
    assert_eq!(lifetime(&["Last-Modified: @-100000000"]), (24 * 3600, Source::Heuristic));
    assert_eq!(lifetime(&["Last-Modified: @1000"]), (0, Source::Heuristic));
    let with = |rules: Rules, status: u16| {
        let lines = ["Last-Modified: @-1000", "Date: @0"];
        let stored = answer(&get(&[]), status, &lines, &rules).unwrap();
        (stored.freshness().lifetime.as_secs(), stored.freshness().source)
    };
    let off = Rules { heuristic: None, default_ttl: Some(secs(7)), ..lenient() };
    assert_eq!(with(off.clone(), 200), (7, Source::Operator));
    assert_eq!(with(off, 404), (0, Source::Unknown), "a default lifetime is not for errors");
    let bold = Heuristic { percent: 50, longest: secs(400) };
    assert_eq!(with(Rules { heuristic: Some(bold), ..lenient() }, 200).0, 400);
    let negative = Rules { negative_ttl: Some(secs(9)), ..lenient() };
    assert_eq!(with(negative.clone(), 404), (9, Source::Operator));
    assert_eq!(with(negative, 200), (100, Source::Heuristic));
}

#[test]
fn guessing_is_for_known_statuses_or_public_responses() {
    let fresh = |status: u16, extra: &[&str]| {
        let lines = [&["Last-Modified: @-86400", "Date: @0"], extra].concat();
        let stored = answer(&get(&[]), status, &lines, &lenient());
        stored.is_ok_and(|stored| matches!(later(&stored, 3), Usability::Fresh { .. }))
    };
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
        assert!(fresh(status, &[]), "{status}");
    }
    for status in [201, 202, 302, 303, 307, 400, 403, 500, 502, 503, 504, 599] {
        assert!(!fresh(status, &[]), "{status}");
    }
    assert!(fresh(599, &["Cache-Control: public"]));
}

#[test]
fn pragma_in_a_response_asks_for_validation_unless_cache_control_speaks() {
    assert!(hits(&["Cache-Control: max-age=3600", "Pragma: no-cache"]));
    assert!(!hits(&["Last-Modified: @-10000", "Pragma: no-cache"]));
    assert!(hits(&["Last-Modified: @-10000", "Pragma: other"]));
}

#[test]
fn ttl_counts_down_through_zero() {
    let stored = stored(&["Cache-Control: max-age=10", "Age: 4"]);
    assert_eq!(stored.ttl(NOW), 6);
    assert_eq!(stored.ttl(at(6)), 0);
    assert_eq!(stored.ttl(at(9)), -3);
    assert_eq!(stored.age_value(at(9)), "13");
    assert_eq!(stored.expiry(), at(6));
}
