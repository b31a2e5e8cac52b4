//! The mirror and the caches beside it: what the mirror would not give, no cache gives either.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nightwatt_gateway::config::FillConfig;
use nightwatt_gateway::control::Order;
use nightwatt_gateway::mirror::orders::MirrorOrder;

use crate::client::{ask, get, post};
use crate::disk_cache::{restart, twice, with_disk};
use crate::mirror::{from, html, mirrored, order, told_by_proxies};
use crate::origin::{Says, ok, status};
use crate::stage::{Setup, Stage, awake, secs};

const READER: &str = "203.0.113.1";
const WRITER: &str = "203.0.113.2";

const HOUR: u64 = 3600;

/// Clients' answers fill the cache, which nothing else renews.
fn cached(setup: Setup) -> Setup {
    mirrored(setup, |_| {})
        .site(|site| site.cache.fill = FillConfig::Clients)
        .with(|config| config.scenario.cache.warm_up = 0)
}

/// What the site has before and after a change.
fn page(target: &str, version: u8) -> Says {
    match target {
        "/" => {
            html("<a href=/young>a</a><a href=/nonce>b</a><a href=/s.css>c</a><a href=/p.css>d</a>")
        }
        // It is not mirrored.
        "/nonce" => html(&format!("version {version}"))
            .field("Content-Security-Policy", "script-src 'nonce-abc'"),
        "/s.css" => ok(&format!("/* version {version} */"))
            .field("Content-Type", "text/css")
            .field("Cache-Control", "max-age=3600"),
        "/p.css" => ok(&format!("/* version {version} */")).field("Content-Type", "text/css"),
        "/young" | "/other" => html(&format!("version {version}")),
        _ => status(404, "not here").field("Content-Type", "text/html"),
    }
}

/// The site, which changes by a `POST`.
fn changes_by_post(stage: &Stage) {
    let is_changed = AtomicBool::new(false);
    stage.origin.script(move |seen| {
        if seen.method == "POST" {
            is_changed.store(true, Ordering::Relaxed);
            return status(204, "").acts();
        }
        let is_changed = is_changed.load(Ordering::Relaxed);
        match seen.target.as_str() {
            "/new" if is_changed => html("new").acts(),
            target => page(target, if is_changed { 2 } else { 1 }).acts(),
        }
    });
}

/// What was assumed to be fresh is stale then.
async fn sleeps(stage: &Stage) {
    stage.pass(secs(150)).await;
    assert_eq!(stage.state(), "asleep");
}

/// For visitors who have not logged in there is no page.
fn closed(code: u16) -> Says {
    let says = status(code, "no").field("Content-Type", "text/html");
    if code == 302 { says.field("Location", "/login?next=/young") } else { says }
}

#[test]
fn what_a_pass_has_found_closed_no_cache_gives() {
    // The mirror remembers that there is no page.
    for (code, how) in [(403, "held"), (302, "held"), (404, "mirror")] {
        cached(awake()).play(async |stage| {
            let is_closed = Arc::new(AtomicBool::new(false));
            let closes = Arc::clone(&is_closed);
            stage.origin.script(move |seen| match seen.target.as_str() {
                "/young" if closes.load(Ordering::Relaxed) => closed(code).acts(),
                target => page(target, 1).acts(),
            });
            for address in ["/young", "/nonce"] {
                assert_eq!(stage.ask(get(address)).await.how(), (200, "server"));
                assert_eq!(stage.ask(get(address)).await.how(), (200, "cache"));
            }
            sleeps(stage).await;
            is_closed.store(true, Ordering::Relaxed);
            // More than half as old as it may be: it is confirmed before the server sleeps again.
            stage.at(13 * HOUR).await;
            assert_eq!(stage.ask(get("/young")).await.how(), (200, "mirror"), "not known yet");
            stage.order(Order::Wake { site: None }).await;
            sleeps(stage).await;
            assert_eq!(stage.ask(get("/nonce")).await.how(), (200, "stale"), "it is as it was");
            assert_eq!(stage.ask(get("/young")).await.how(), (code, how));
        });
    }
}

#[test]
fn who_changes_something_gets_the_servers_own_answers_for_ten_minutes() {
    told_by_proxies(cached(awake())).play(async |stage| {
        changes_by_post(stage);
        for address in ["/young", "/nonce", "/s.css", "/p.css", "/other"] {
            assert_eq!(stage.ask(from(get(address), READER)).await.how(), (200, "server"));
        }
        assert_eq!(stage.ask(from(post("/edit", "x"), WRITER)).await.how(), (204, "server"));
        // What is only assumed to be fresh.
        for ask in [get("/young"), ask("HEAD", "/nonce"), get("/p.css").field("Range", "bytes=0-3")]
        {
            let got = stage.ask(from(ask, WRITER)).await;
            assert_eq!(got.answer(), "server", "{got:?}");
        }
        let got = stage.ask(from(get("/young"), WRITER)).await;
        assert_eq!((got.how(), got.text()), ((200, "server"), "version 2"));
        // What its server marks as fresh is its own answer.
        assert_eq!(stage.ask(from(get("/s.css"), WRITER)).await.how(), (200, "cache"));
        stage.pass(secs(240)).await;
        assert_eq!(stage.state(), "asleep");
        let read = stage.ask(from(get("/young"), READER)).await;
        assert_eq!((read.how(), read.text()), ((200, "mirror"), "version 2"));
        let own = stage.ask(from(get("/p.css"), WRITER)).await;
        assert_eq!((own.how(), own.text()), ((200, "held"), "/* version 2 */"));
        stage.pass(secs(700)).await;
        assert_eq!(stage.ask(from(get("/young"), WRITER)).await.how(), (200, "mirror"));
    });
}

#[test]
fn after_a_change_no_client_gets_pages_that_were_only_assumed_to_be_fresh() {
    for is_restarted in [false, true] {
        told_by_proxies(with_disk(cached(awake()))).play(async move |stage| {
            changes_by_post(stage);
            for address in ["/young", "/nonce", "/s.css", "/p.css", "/new"] {
                stage.ask(from(get(address), READER)).await;
                let again = stage.ask(from(get(address), READER)).await;
                assert_eq!(again.answer() == "cache", address != "/new", "{again:?}");
            }
            assert_eq!(stage.ask(from(post("/edit", "x"), WRITER)).await.status, 204);
            if is_restarted {
                restart(stage).await;
            }
            // What is requested at the time of the change may be from before it.
            stage.pass(secs(5)).await;
            // Far within their two minutes.
            for (address, text) in
                [("/young", "version 2"), ("/nonce", "version 2"), ("/new", "new")]
            {
                let got = stage.ask(from(get(address), READER)).await;
                assert_eq!((got.status, got.text()), (200, text), "{got:?}");
                assert!(matches!(got.answer(), "server" | "held"), "{got:?}");
                let again = stage.ask(from(get(address), READER)).await;
                assert_eq!(
                    (again.how(), again.text()),
                    ((200, "cache"), text),
                    "it fills the cache again"
                );
            }
            // What its server marks is fresh, and what pages refer to has another address if it changes.
            for address in ["/s.css", "/p.css"] {
                let got = stage.ask(from(get(address), READER)).await;
                assert_eq!(
                    (got.how(), got.text()),
                    ((200, "cache"), "/* version 1 */"),
                    "{address}"
                );
            }
        });
    }
}

#[test]
fn after_a_change_no_cache_gives_pages_and_errors_from_before() {
    // nightwatt's own requests fill the cache: then it knows a 404.
    let setup = cached(awake()).site(|site| site.cache.fill = FillConfig::OwnRequests);
    told_by_proxies(setup).play(async |stage| {
        changes_by_post(stage);
        for address in ["/new", "/nonce", "/other"] {
            stage.ask(from(get(address), READER)).await;
        }
        sleeps(stage).await;
        assert_eq!(stage.ask(from(get("/new"), READER)).await.how(), (404, "stale"));
        assert_eq!(stage.ask(from(get("/other"), READER)).await.how(), (200, "stale"));
        assert_eq!(stage.ask(from(post("/edit", "x"), WRITER)).await.how(), (204, "held"));
        sleeps(stage).await;
        for (address, text) in [("/new", "new"), ("/other", "version 2"), ("/nonce", "version 2")] {
            let got = stage.ask(from(get(address), READER)).await;
            assert_eq!((got.how(), got.text()), ((200, "held"), text), "{address}");
            sleeps(stage).await;
        }
    });
}

#[test]
fn no_cache_gives_what_is_older_than_max_age() {
    let setup = cached(awake()).site(|site| site.mirror.max_age = secs(HOUR));
    setup.play(async |stage| {
        stage.origin.script(|seen| page(&seen.target, 1).acts());
        assert_eq!(stage.ask(get("/nonce")).await.how(), (200, "server"));
        stage.at(3000).await;
        assert_eq!(stage.ask(get("/nonce")).await.how(), (200, "stale"));
        // Its lifetime, of two minutes, is over for less than an hour.
        stage.at(3690).await;
        assert_eq!((stage.state().as_str(), stage.commands().0), ("asleep", 1));
        assert_eq!(stage.ask(get("/nonce")).await.how(), (200, "held"));
    });
}

#[test]
fn what_was_said_to_have_changed_is_not_given_by_the_disk_after_a_restart() {
    with_disk(cached(awake())).play(async |stage| {
        stage.origin.script(|seen| page(&seen.target, 1).acts());
        for address in ["/young", "/p.css"] {
            twice(stage, address).await;
        }
        sleeps(stage).await;
        order(stage, MirrorOrder::Refresh { places: vec!["/young".to_owned()] }).await;
        restart(stage).await;
        stage.pass(secs(5)).await;
        assert_eq!(stage.state(), "asleep");
        assert_eq!(stage.ask(get("/p.css")).await.how(), (200, "mirror"));
        assert_eq!(stage.ask(get("/young")).await.how(), (200, "held"));
    });
}
