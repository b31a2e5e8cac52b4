//! What the proxy asks for by itself, and what hides a sender.

use super::*;

/// `Vary: Cookie` is honoured by leaving out harmless cookies: a cookie that may hide another one is not
/// harmless. (Python's `SimpleCookie` ends a value at white space, older servers at commas, others at
/// quotes.)
#[test]
fn no_cookie_hides_behind_a_harmless_one() {
    let rules = CookieRules::default();
    for harmless in ["_ga=GA1.2.3", "_ga=1; _gid=2", "_pk_id.1.1fff=%5B%22a%22%5D"] {
        assert!(Sender::of_cookies(harmless.as_bytes(), &rules).is_anonymous(), "{harmless}");
    }
    for hiding in [
        "_ga=1 session=mallory",
        "_ga=1\tsession=mallory",
        "_ga=1  session=mallory",
        "_ga=1,session=mallory",
        "_ga=\"1\"session=mallory",
        "_ga=\"1; session=mallory\"",
        "_ga=1\\session=mallory",
        "_ga session=mallory",
        "_gat x=1",
        "_ga=\u{a0}session=mallory",
    ] {
        assert!(!Sender::of_cookies(hiding.as_bytes(), &rules).is_anonymous(), "{hiding}");
        let cookies = headers(&[("cookie", hiding)]);
        assert!(counting_cookies(&cookies, &rules).is_some(), "{hiding}");
    }
}

/// What is kept for crawlers has no lifetime: while the server is awake, it answers by itself.
#[test]
fn what_is_kept_for_crawlers_is_never_fresh_and_is_restored() {
    let rules = Rules {
        crawler_files: true,
        default_ttl: Some(Duration::from_mins(2)),
        ..Rules::default()
    };
    let nothing = HeaderMap::new();
    let robots = RequestHead { path_and_query: "/robots.txt", ..at("h", &nothing) };
    let says = headers(&[("last-modified", "Mon, 01 Jan 2024 00:00:00 GMT")]);
    let (status, times) = (StatusCode::OK, Times::at(NOW));
    let stored = Stored::new(&robots, Filler::Proxy, status, &says, times, &rules).unwrap();
    assert_eq!((stored.basis(), stored.is_fresh(NOW)), (Basis::ForCrawlers, false));
    for trusted in [true, false] {
        let restored =
            Stored::restored(&robots, Basis::ForCrawlers, trusted, status, &says, times, &rules);
        assert_eq!(restored.is_ok(), trusted);
        assert!(restored.is_ok_and(|it| it == stored) || !trusted);
    }
}

#[test]
fn vary_excuses_nothing_that_bypasses_the_cache() {
    let [_, own] = assuming();
    for (name, value) in [("content-length", "3"), ("x-http-method-override", "DELETE")] {
        let asked = headers(&[(name, value)]);
        let says = headers(&[("vary", name), ("cache-control", "public, max-age=60")]);
        let stored = Stored::new(
            &at("h", &asked),
            Filler::Client,
            StatusCode::OK,
            &says,
            Times::at(NOW),
            &own,
        );
        assert_eq!(stored.err(), Some(NotStorable::Bypass), "{name}");
    }
}

#[test]
fn addresses_that_are_one_persons_are_not_asked_for_twice() {
    for target in [
        "/reset?token=1",
        "/a?api_key=1",
        "/a?X-Amz-Signature=1",
        "/cb?code=1&state=2",
        "/unsubscribe",
        "/unsubscribe/4711",
        "/account/delete",
        "/wp-login.php?action=logout",
        "/user/logout",
        "/log-out",
        "/a/token/1",
        "/accesstoken/x",
        "/%74oken/x",
        "/a?tok%65n=x",
        "/a;jsessionid=1",
        "/verify/1",
        "/activate/1",
        "/invite/1",
        "/poll/vote/1",
        "/cart/add/1",
        "/news?Confirm=1",
        "/magic/4711",
        "/m/login-link/x",
        "/s/onetime/x",
        "/approve?id=5",
        "/like/5",
        "/unsub/4711",
        "/checkout",
        "/admin/reboot",
        "/logoff",
        "/a?pw=x",
        "/a?b&access=x",
        "/a?hash=x",
        "/%256cogout",
        "/%25256cogout",
        "/add-to-cart/5",
        "/relay/0?turn=on",
        "/logout.html",
        "/?id=5&del=1",
    ] {
        assert!(!may_be_prefetched(target), "{target}");
    }
    for target in [
        "/",
        "/blog/keyboards",
        "/a?page=2",
        "/?p=123",
        "/?s=tea",
        "/united-states",
        "/blog/what-i-like-about-tea",
        "/2026/11/a-first-rate-key",
        "/access/map",
        "/a?rehashed=1",
        "/100%",
        "/%zz",
        "/caf%C3%A9",
    ] {
        assert!(may_be_prefetched(target), "{target}");
    }
}
