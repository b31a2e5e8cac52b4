//! The civil clock is set while the proxy runs.

use nightwatt_gateway::Config;

use crate::client::{BROWSER, get};
use crate::disk_cache::{restart, twice, with_disk};
use crate::origin::{ok, status};
use crate::stage::{Setup, asleep, awake, secs, timeout};

const HOUR_MS: i64 = 3_600_000;
const YEAR_MS: i64 = 365 * 24 * HOUR_MS;

fn stays_up(setup: Setup) -> Setup {
    setup.with(|config: &mut Config| config.scenario.policy = timeout(1_000_000))
}

/// F11: on either path, for pages and for errors.
#[test]
fn what_was_stored_while_the_clock_was_ahead_is_stale_once_it_is_set_back() {
    for slow in [false, true] {
        stays_up(awake()).play(async |stage| {
            stage.allow_fast_path(!slow);
            stage.origin.script(|seen| {
                let code = if seen.target == "/gone" { 404 } else { 200 };
                status(code, "text").field("Cache-Control", "max-age=600").acts()
            });
            stage.clock.set_wall(YEAR_MS);
            for target in ["/a", "/gone"] {
                assert_eq!(stage.ask(get(target)).await.answer(), "server");
                assert_eq!(stage.ask(get(target)).await.answer(), "cache");
            }
            stage.clock.set_wall(-YEAR_MS);
            for target in ["/a", "/gone"] {
                let got = stage.ask(get(target)).await;
                assert_eq!(got.answer(), "server", "{target}");
                // What came in now takes its place.
                let got = stage.ask(get(target)).await;
                assert_eq!((got.answer(), got.field("age")), ("cache", Some("0")), "{target}");
                let status = got.field("cache-status").unwrap();
                assert!(status.contains("ttl=600"), "{status}");
            }
        });
    }
}

/// A clock that is corrected by little, or forward, loses nothing of what is younger than its lifetime.
#[test]
fn a_corrected_clock_expires_nothing_that_is_young() {
    stays_up(awake()).play(async |stage| {
        stage.origin.says(ok("text").field("Cache-Control", "max-age=600"));
        stage.ask(get("/a")).await;
        for by in [-900, 900, 300_000, -299_000] {
            stage.clock.set_wall(by);
            assert_eq!(stage.ask(get("/a")).await.answer(), "cache", "set by {by} ms");
        }
        // A clock that was wrong for a while has deleted nothing: set right, what is stored is fresh again.
        stage.clock.set_wall(HOUR_MS);
        assert_eq!(stage.ask(get("/b")).await.answer(), "server");
        stage.clock.set_wall(-HOUR_MS);
        assert_eq!(stage.ask(get("/a")).await.answer(), "cache");
    });
}

/// A sleeping server is not woken for what is stale by less than its grace.
#[test]
fn a_clock_set_back_by_an_hour_wakes_no_server_and_by_a_year_it_does() {
    for (by, answer) in [(HOUR_MS, "stale"), (YEAR_MS, "held")] {
        asleep().play(async |stage| {
            stage.origin.says(ok("text").field("Cache-Control", "max-age=600"));
            stage.clock.set_wall(by);
            stage.ask(get("/a")).await;
            stage.pass(secs(100)).await;
            assert_eq!(stage.state(), "asleep");
            stage.clock.set_wall(-by);
            let mut client = stage.begin(get("/a").agent("curl/8")).await;
            client.lets_time_pass();
            assert_eq!(client.answer().await.answer(), answer, "set back by {by} ms");
        });
    }
}

/// The disk too: an answer of the future is stale after a restart, and keeps no other from being used.
#[test]
fn the_disk_cache_is_used_after_a_clock_was_ahead_for_a_while() {
    let stays = |config: &mut Config| config.scenario.policy = timeout(1_000_000);
    with_disk(awake().with(stays)).play(async |stage| {
        stage.origin.says(ok("text").field("Cache-Control", "max-age=86400"));
        stage.clock.set_wall(YEAR_MS);
        twice(stage, "/ahead").await;
        stage.clock.set_wall(-YEAR_MS);
        restart(stage).await;
        twice(stage, "/now").await;
        restart(stage).await;
        assert_eq!(stage.ask(get("/now").agent(BROWSER)).await.answer(), "cache");
        assert_eq!(stage.ask(get("/ahead").agent(BROWSER)).await.answer(), "server");
    });
}
