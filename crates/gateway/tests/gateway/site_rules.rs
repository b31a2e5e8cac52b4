//! What one site's operator decides about its cache.

use std::time::Duration;

use nightwatt_gateway::config::{CacheConfig, Cookies};

use crate::client::{Ask, get};
use crate::origin::{Says, ok, status};
use crate::stage::{Setup, Stage, awake, timeout};

/// A site whose cache is configured like that, and whose server stays awake.
fn site(change: impl FnOnce(&mut CacheConfig) + 'static) -> Setup {
    awake().with(|config| {
        config.scenario.policy = timeout(1_000_000);
        config.scenario.cache.ttl = Duration::ZERO;
        change(&mut config.site[0].cache);
    })
}

fn fresh() -> Says {
    ok("mine").field("Cache-Control", "max-age=3600")
}

/// Sends these one after the other; says whether each was answered from the cache.
async fn from_cache<const N: usize>(stage: &Stage, asks: [Ask; N]) -> [bool; N] {
    let mut answers = [false; N];
    for (ask, answer) in asks.into_iter().zip(&mut answers) {
        *answer = stage.ask(ask).await.answer() == "cache";
    }
    answers
}

fn with_cookie(path: &str, cookie: &str) -> Ask {
    get(path).field("Cookie", cookie)
}

#[test]
fn a_cookie_makes_an_answer_personal_unless_it_is_harmless() {
    let setup = site(|cache| cache.harmless_cookies = vec!["_ga*".into(), "seen".into()]);
    setup.play(async |stage| {
        stage.origin.says(fresh());
        let harmless = || with_cookie("/a", "_ga=1; seen=yes; _ga_X=2");
        assert_eq!(
            from_cache(stage, [harmless(), harmless(), get("/a")]).await,
            [false, true, true]
        );
        let personal = || with_cookie("/b", "seen=yes; session=1");
        assert_eq!(from_cache(stage, [personal(), personal()]).await, [false, false]);
        // An answer to a client without a cookie is for all clients.
        assert_eq!(from_cache(stage, [get("/b"), personal()]).await, [false, true]);
    });
}

#[test]
fn visitors_with_cookies_may_be_sent_past_the_cache() {
    site(|cache| cache.cookies = Cookies::Bypass).play(async |stage| {
        stage.origin.says(fresh());
        let known = || with_cookie("/a", "session=1");
        let asks = [get("/a"), get("/a"), known(), get("/a")];
        assert_eq!(from_cache(stage, asks).await, [false, true, false, true]);
    });
}

#[test]
fn cookies_may_mean_nothing_at_all() {
    site(|cache| cache.cookies = Cookies::Ignored).play(async |stage| {
        stage.origin.says(fresh());
        let asks = [with_cookie("/a", "session=1"), with_cookie("/a", "session=2"), get("/a")];
        assert_eq!(from_cache(stage, asks).await, [false, true, true]);
    });
}

#[test]
fn an_answer_that_sets_a_cookie_is_kept_only_where_that_is_wanted() {
    let says = || fresh().field("Set-Cookie", "a=1");
    site(|_| ()).play(async |stage| {
        stage.origin.says(says());
        assert_eq!(from_cache(stage, [get("/a"), get("/a")]).await, [false, false]);
    });
    site(|cache| cache.store_set_cookie = true).play(async |stage| {
        stage.origin.says(says());
        assert_eq!(from_cache(stage, [get("/a")]).await, [false]);
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.answer(), got.field("set-cookie")), ("cache", Some("a=1")));
    });
}

#[test]
fn query_parameters_may_be_ignored_or_sorted() {
    let setup = site(|cache| {
        cache.ignore_query = vec!["utm_*".into(), "fbclid".into()];
        cache.sort_query = true;
    });
    setup.play(async |stage| {
        stage.origin.says(fresh());
        let asks = [
            get("/a?x=1&y=2"),
            get("/a?y=2&utm_source=z&x=1&fbclid=4"),
            get("/a?x=1"),
            get("/a?x=1&fbclids=4"),
        ];
        assert_eq!(from_cache(stage, asks).await, [false, true, false, false]);
        // The server gets what was asked for, as it was.
        let lines = stage.origin.lines();
        assert_eq!(lines[0], "GET /a?x=1&y=2");
    });
    site(|_| ()).play(async |stage| {
        stage.origin.says(fresh());
        let asks = [get("/a?x=1&y=2"), get("/a?y=2&x=1"), get("/a?x=1&y=2&utm_source=z")];
        assert_eq!(from_cache(stage, asks).await, [false, false, false]);
    });
}

#[test]
fn what_does_not_exist_is_remembered_for_a_while() {
    site(|cache| cache.negative_ttl = Some(Duration::from_secs(10))).play(async |stage| {
        stage.origin.says(status(404, "nothing"));
        assert_eq!(from_cache(stage, [get("/a"), get("/a")]).await, [false, true]);
        stage.at(9).await;
        assert_eq!(from_cache(stage, [get("/a")]).await, [true]);
        stage.at(11).await;
        assert_eq!(from_cache(stage, [get("/a")]).await, [false]);
        // The server's own word counts before that, and a failure is no absence.
        stage.origin.says(status(410, "gone").field("Cache-Control", "max-age=60"));
        from_cache(stage, [get("/b")]).await;
        stage.origin.says(status(500, "broken"));
        from_cache(stage, [get("/c")]).await;
        stage.at(30).await;
        assert_eq!(from_cache(stage, [get("/b"), get("/c")]).await, [true, false]);
    });
    site(|cache| cache.ttl = Some(Duration::from_mins(2))).play(async |stage| {
        stage.origin.says(status(404, "nothing"));
        assert_eq!(from_cache(stage, [get("/a"), get("/a")]).await, [false, false]);
    });
}

#[test]
fn lifetimes_are_guessed_as_the_operator_wishes() {
    // A hundred minutes old: a tenth of that is ten minutes.
    let says = || ok("mine").field("Last-Modified", "Mon, 23 Nov 2026 10:20:00 GMT");
    let kept = |change: fn(&mut CacheConfig)| {
        let mut kept = Vec::new();
        let seconds = &mut kept;
        let stage = site(change);
        stage.play(async move |stage| {
            stage.origin.says(says());
            stage.ask(get("/a")).await;
            for at in [59, 61, 599, 601] {
                stage.at(at).await;
                seconds.push(stage.ask(get("/a")).await.answer() == "cache");
                if !seconds[seconds.len() - 1] {
                    break;
                }
            }
        });
        kept
    };
    assert_eq!(kept(|_| ()), [true, true, true, false]);
    assert_eq!(kept(|it| it.heuristic_longest = Duration::from_mins(1)), [true, false]);
    assert_eq!(kept(|it| it.heuristic_percent = 1), [true, false]);
    assert_eq!(kept(|it| it.heuristic_percent = 0), [false]);
}

#[test]
fn a_site_has_its_own_lifetime_and_grace() {
    let setup = site(|cache| {
        cache.ttl = Some(Duration::from_secs(10));
        cache.grace_asleep = Some(Duration::from_mins(10));
    });
    let setup = setup.with(|config| config.scenario.policy = timeout(30));
    setup.play(async |stage| {
        stage.origin.says(ok("mine"));
        assert_eq!(from_cache(stage, [get("/a"), get("/a")]).await, [false, true]);
        stage.at(600).await;
        assert_eq!(stage.state(), "asleep");
        assert_eq!(stage.ask(get("/a")).await.answer(), "stale");
        stage.at(611).await;
        assert_ne!(stage.ask(get("/a")).await.answer(), "stale");
    });
}

#[test]
fn a_reload_counts_or_not() {
    let reload = || get("/a").field("Cache-Control", "no-cache");
    site(|_| ()).play(async |stage| {
        stage.origin.says(fresh());
        assert_eq!(from_cache(stage, [get("/a"), reload()]).await, [false, false]);
    });
    site(|cache| cache.heed_requests = false).play(async |stage| {
        stage.origin.says(fresh());
        assert_eq!(from_cache(stage, [get("/a"), reload()]).await, [false, true]);
    });
}
