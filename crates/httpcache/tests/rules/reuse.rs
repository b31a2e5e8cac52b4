//! Whether a stored response answers a request (RFC 9111, 4; RFC 5861).

use crate::harness::{answer, ask, get, later, lenient, reuse, stored};
use nightwatt_httpcache::{CookieRule, CookieRules, Mismatch, Occasion, Rules, Usability, Wish};
use std::time::Duration;

fn wish(usability: Usability) -> Option<Wish> {
    match usability {
        Usability::Validate { wish, .. } => Some(wish),
        _ => None,
    }
}

fn is_fresh(usability: Usability) -> bool {
    matches!(usability, Usability::Fresh { .. })
}

#[test]
fn only_reading_methods_are_answered() {
    let page = stored(&["Cache-Control: max-age=60"]);
    for (method, usable) in [("GET", true), ("HEAD", true), ("POST", false), ("OPTIONS", false)] {
        let usability = reuse(&page, &ask(method, "/page", &[]), 1, &lenient());
        assert_eq!(is_fresh(usability), usable, "{method}");
    }
}

#[test]
fn a_fresh_response_that_says_no_cache_is_validated() {
    let page = stored(&["Cache-Control: max-age=10000, no-cache", "ETag: \"a\""]);
    let usability = later(&page, 1);
    assert_eq!(wish(usability), Some(Wish::Origin));
    assert!(!usability.allows(Occasion::OriginAsleep) && !usability.allows(Occasion::OriginFails));
}

#[test]
fn clients_may_ask_for_validation() {
    let page = stored(&["Cache-Control: max-age=1500", "Age: 1000"]);
    let asked = |line: &str| reuse(&page, &get(&[line]), 3, &lenient());
    for line in [
        "Cache-Control: no-cache",
        "Cache-Control: max-age=0",
        "Cache-Control: max-age=600",
        "Cache-Control: max-age=x",
        "Cache-Control: min-fresh=1000",
        "Pragma: no-cache",
    ] {
        assert_eq!(wish(asked(line)), Some(Wish::Client), "{line}");
        assert!(asked(line).allows(Occasion::OriginAsleep), "the operator decides: {line}");
    }
    for line in [
        "Cache-Control: max-age=1003",
        "Cache-Control: min-fresh=497",
        "Cache-Control: min-fresh=x",
        "Cache-Control: max-stale",
        "Cache-Control: no-store",
        "Cache-Control: only-if-cached",
        "Pragma: foo",
    ] {
        assert!(is_fresh(asked(line)), "{line}");
    }
    let both = get(&["Pragma: no-cache", "Cache-Control: nothing"]);
    assert!(is_fresh(reuse(&page, &both, 3, &lenient())));
    let deaf = Rules { heed_requests: false, ..lenient() };
    assert!(is_fresh(reuse(&page, &get(&["Cache-Control: no-cache"]), 3, &deaf)));
}

#[test]
fn a_reload_in_the_same_second_is_still_a_reload() {
    let page = stored(&["Cache-Control: max-age=1500"]);
    let reload = get(&["Cache-Control: max-age=0"]);
    assert_eq!(wish(reuse(&page, &reload, 0, &lenient())), Some(Wish::Client));
}

#[test]
fn clients_may_take_it_stale() {
    let page = stored(&["Cache-Control: max-age=2"]);
    let accepts =
        |line: &str| reuse(&page, &get(&[line]), 10, &lenient()).allows(Occasion::ClientAccepts);
    assert!(accepts("Cache-Control: max-stale"));
    assert!(accepts("Cache-Control: max-stale=8"));
    for line in [
        "Cache-Control: max-stale=7",
        "Cache-Control: max-stale=x",
        "Cache-Control: max-stale=8, no-cache",
        "Cache-Control: max-age=100",
    ] {
        assert!(!accepts(line), "{line}");
    }
    let bound = stored(&["Cache-Control: max-age=2, must-revalidate"]);
    let usability = reuse(&bound, &get(&["Cache-Control: max-stale"]), 10, &lenient());
    assert!(!usability.allows(Occasion::ClientAccepts));
}

#[test]
fn stale_windows_close() {
    let page = stored(&["Cache-Control: max-age=1, stale-while-revalidate=4, stale-if-error=6"]);
    let allowed = |secs, occasion| later(&page, secs).allows(occasion);
    assert!(allowed(3, Occasion::Revalidating) && !allowed(6, Occasion::Revalidating));
    assert!(allowed(6, Occasion::OriginFails) && !allowed(7, Occasion::OriginFails));
    let silent = stored(&["Cache-Control: max-age=1"]);
    assert!(!later(&silent, 3).allows(Occasion::Revalidating));
    assert!(later(&silent, 3).allows(Occasion::OriginFails));
    assert!(!later(&silent, 3601).allows(Occasion::OriginFails));
    let never = stored(&["Cache-Control: max-age=1, stale-if-error=0"]);
    assert!(!later(&never, 3).allows(Occasion::OriginFails));
}

#[test]
fn grace_is_for_a_sleeping_origin() {
    let page = stored(&["Cache-Control: max-age=60"]);
    let rules = Rules { grace_while_asleep: Duration::from_mins(1), ..lenient() };
    let allowed = |secs| reuse(&page, &get(&[]), secs, &rules).allows(Occasion::OriginAsleep);
    assert!(allowed(30) && allowed(60) && allowed(120) && !allowed(121));
    let Usability::Stale(stale) = reuse(&page, &get(&[]), 100, &rules) else { panic!() };
    assert_eq!((stale.age.as_secs(), stale.by.as_secs()), (100, 40));
    assert!(!stale.must_revalidate);
}

#[test]
fn a_failure_is_not_served_past_its_lifetime() {
    let lines = ["Cache-Control: max-age=5, stale-if-error=60, stale-while-revalidate=60"];
    let failure = answer(&get(&[]), 503, &lines, &lenient()).unwrap();
    assert!(is_fresh(later(&failure, 4)));
    let Usability::Stale(stale) = later(&failure, 6) else { panic!() };
    assert!(stale.allowed.is_empty());
}

#[test]
fn what_must_be_validated_is_not_served_stale() {
    let loose = Rules { respect_must_revalidate: false, ..lenient() };
    for directive in ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=2"] {
        let line = format!("Cache-Control: max-age=2, stale-if-error=60, {directive}");
        let page = stored(&[&line, "ETag: \"a\""]);
        let usability = later(&page, 10);
        let Usability::Stale(stale) = usability else { panic!("{usability:?}") };
        assert!(stale.must_revalidate && stale.allowed.is_empty(), "{directive}");
        let usability = reuse(&page, &get(&[]), 10, &loose);
        assert!(usability.allows(Occasion::OriginAsleep), "{directive}");
        assert!(!usability.allows(Occasion::OriginFails), "{directive}");
    }
}

#[test]
fn what_may_never_be_served_stale_need_not_be_renewed_before_a_sleep() {
    let (rules, loose) = (lenient(), Rules { respect_must_revalidate: false, ..lenient() });
    let none = Rules { grace_while_asleep: Duration::ZERO, ..lenient() };
    let page = stored(&["Cache-Control: max-age=2"]);
    assert!(page.serves_asleep(&rules) && !page.serves_asleep(&none));
    let bound = stored(&["Cache-Control: max-age=2, must-revalidate"]);
    assert!(!bound.serves_asleep(&rules) && bound.serves_asleep(&loose));
    let failure = answer(&get(&[]), 503, &["Cache-Control: max-age=2"], &rules).unwrap();
    assert!(!failure.serves_asleep(&rules));
}

#[test]
fn variants_answer_only_their_own() {
    let page = answer(
        &get(&["Foo: 1", "DNT: 1"]),
        200,
        &["Cache-Control: max-age=60", "Vary: Foo, Bar"],
        &lenient(),
    );
    let page = page.unwrap();
    let of = |lines: &[&str]| reuse(&page, &get(lines), 1, &lenient());
    assert!(is_fresh(of(&["Foo: 1"])));
    assert!(is_fresh(of(&["Foo: 1", "Other: 3"])), "a marked answer is for everyone");
    assert_eq!(of(&["Foo: 2"]), Usability::Unusable(Mismatch::Vary));
    assert_eq!(of(&[]), Usability::Unusable(Mismatch::Vary));
    assert_eq!(of(&["Foo: 1", "Bar: 1"]), Usability::Unusable(Mismatch::Vary));
}

#[test]
fn what_anyone_may_see_is_served_to_visitors_with_cookies_unless_they_pass_by() {
    let page = stored(&["Cache-Control: max-age=60"]);
    let known = get(&["Cookie: a=b"]);
    assert!(is_fresh(reuse(&page, &known, 1, &lenient())));
    let cookies = CookieRules { rule: CookieRule::Bypass, harmless: vec!["a".into()] };
    let bypass = Rules { cookies, ..lenient() };
    assert!(is_fresh(reuse(&page, &known, 1, &bypass)));
    let other = get(&["Cookie: c=d"]);
    assert_eq!(reuse(&page, &other, 1, &bypass), Usability::Unusable(Mismatch::Sender));
}

#[test]
fn occasions_are_written_by_name() {
    let page = stored(&["Cache-Control: max-age=1, stale-while-revalidate=9"]);
    let Usability::Stale(stale) = later(&page, 3) else { panic!() };
    assert_eq!(format!("{:?}", stale.allowed), "{Revalidating, OriginFails, OriginAsleep}");
}

#[test]
fn a_response_in_the_language_that_is_liked_best_will_do() {
    let lines = ["Cache-Control: max-age=60", "Vary: Accept-Language, Foo", "Content-Language: de"];
    let rules = lenient();
    let page = answer(&get(&["Accept-Language: en, de"]), 200, &lines, &rules).unwrap();
    let of = |lines: &[&str]| reuse(&page, &get(lines), 1, &rules);
    assert!(is_fresh(of(&["Accept-Language: fr;q=0.5, de;q=1.0"])));
    assert_eq!(of(&["Accept-Language: fr, de"]), Usability::Unusable(Mismatch::Vary));
    // The other fields must be the same all the same.
    let other = of(&["Accept-Language: de", "Foo: 1"]);
    assert_eq!(other, Usability::Unusable(Mismatch::Vary));
    let silent = ["Cache-Control: max-age=60", "Vary: Accept-Language"];
    let page = answer(&get(&["Accept-Language: en, de"]), 200, &silent, &rules).unwrap();
    let asked = get(&["Accept-Language: de"]);
    assert_eq!(reuse(&page, &asked, 1, &rules), Usability::Unusable(Mismatch::Vary));
}

#[test]
fn what_is_pinned_is_never_too_old_for_a_sleeping_origin() {
    let rules = Rules { grace_while_asleep: Duration::from_secs(10), ..lenient() };
    let asleep = |path: &'static str, lines: &[&str], rules: &Rules| {
        let asked = ask("GET", path, &[]);
        let page = answer(&asked, 200, lines, rules).unwrap();
        reuse(&page, &asked, 100_000, rules).allows(Occasion::OriginAsleep)
    };
    let fresh = ["Cache-Control: max-age=60"];
    assert!(asleep("/robots.txt", &fresh, &rules));
    assert!(asleep("/sitemap_index.xml?page=2", &fresh, &rules));
    assert!(!asleep("/page", &fresh, &rules));
    assert!(!asleep("/robots.txt", &["Cache-Control: max-age=60, must-revalidate"], &rules));
    let none = Rules { pinned: Vec::new(), ..rules.clone() };
    assert!(!asleep("/robots.txt", &fresh, &none));
    // Without grace and validator nothing else could ever be used again.
    let bare =
        Rules { grace_while_asleep: Duration::ZERO, stale_if_error: Duration::ZERO, ..rules };
    assert!(asleep("/robots.txt", &["X: y"], &bare));
}
