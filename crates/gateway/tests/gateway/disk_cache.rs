//! What is stored survives restarts, and what was forgotten does not come back.

use std::path::Path;

use nightwatt_gateway::config::DiskConfig;
use nightwatt_gateway::control::{Order, Reply};
use nightwatt_gateway::{Config, ReloadError};

use crate::client::{ask, get};
use crate::origin::{Says, ok, status};
use crate::stage::{Setup, Stage, asleep, awake, secs, timeout};

pub(crate) fn with_disk(setup: Setup) -> Setup {
    setup.with(|config| config.cache.disk = Some(DiskConfig::default()))
}

fn fresh(text: &str) -> Says {
    ok(text).field("Cache-Control", "max-age=3600")
}

/// Two people ask: that is worth being written.
pub(crate) async fn twice(stage: &Stage, path: &str) {
    for _ in 0..2 {
        stage.ask(get(path)).await;
    }
}

pub(crate) async fn restart(stage: &mut Stage) {
    stage.stop().await;
    stage.start();
    stage.looked().await;
}

/// A gateway whose disk has `paths`, and that has just been started.
async fn with_stored(stage: &mut Stage, paths: &[&str]) {
    stage.origin.says(fresh("old"));
    for path in paths {
        twice(stage, path).await;
    }
    restart(stage).await;
    stage.origin.says(fresh("new"));
}

/// All files of a folder.
fn files(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    entries.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

/// Ends the gateway so that its disk is left as it is now: as if it had been killed.
async fn killed(stage: &mut Stage) {
    let folder = stage.disk_cache();
    let now = files(&folder);
    stage.stop().await;
    for (path, _) in files(&folder) {
        std::fs::remove_file(path).unwrap();
    }
    for (path, bytes) in now {
        std::fs::write(path, bytes).unwrap();
    }
    stage.start();
    stage.looked().await;
}

#[test]
fn what_two_have_asked_for_wakes_nobody_after_a_restart() {
    with_disk(asleep()).play(async |stage| {
        stage.origin.says(fresh("kept"));
        twice(stage, "/a").await;
        stage.ask(get("/once")).await;
        stage.at(200).await;
        assert_eq!(stage.state(), "asleep");
        restart(stage).await;
        let wakes = stage.commands().0;
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((200, "cache"), "kept"));
        assert_eq!(got.field("age"), Some("195"), "it is as old as it would have been");
        let status = stage.disk_status();
        assert_eq!((status.answers, status.read, status.spoilt), (1, 1, 0));
        // From now on it is in memory.
        stage.ask(get("/a")).await;
        assert_eq!((stage.disk_status().read, stage.commands().0), (1, wakes));
        assert_eq!(stage.ask(get("/once")).await.how(), (200, "held"), "worth no write");
    });
}

#[test]
fn without_a_stop_what_was_looked_at_in_time_is_there_too() {
    with_disk(awake()).play(async |stage| {
        stage.origin.says(fresh("kept"));
        twice(stage, "/a").await;
        assert_eq!(stage.disk_status().answers, 0, "nothing is written at once");
        stage.pass(secs(301)).await;
        assert_eq!(stage.disk_status().answers, 1);
        killed(stage).await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "cache"));
    });
}

#[test]
fn what_is_purged_never_comes_back_though_nobody_had_looked_at_it() {
    with_disk(awake()).play(async |stage| {
        with_stored(stage, &["/a", "/a/b", "/c"]).await;
        let purge =
            Order::Purge { site: None, places: vec!["/a".to_owned()], prefix: true, all: false };
        assert!(matches!(stage.order(purge).await, Reply::Purged(2)));
        killed(stage).await;
        for (path, how, text) in
            [("/a", "server", "new"), ("/a/b", "server", "new"), ("/c", "cache", "old")]
        {
            let got = stage.ask(get(path)).await;
            assert_eq!((got.how(), got.text()), ((200, how), text), "{path}");
        }
        let all = Order::Purge { site: None, places: Vec::new(), prefix: false, all: true };
        assert!(matches!(stage.order(all).await, Reply::Purged(3)));
        killed(stage).await;
        assert_eq!(stage.ask(get("/c")).await.how(), (200, "server"));
    });
}

#[test]
fn who_has_changed_something_never_sees_the_old_again() {
    with_disk(awake()).play(async |stage| {
        with_stored(stage, &["/a", "/b"]).await;
        stage.origin.says(status(204, ""));
        stage.ask(ask("DELETE", "/a")).await;
        killed(stage).await;
        stage.origin.says(fresh("new"));
        assert_eq!(stage.ask(get("/a")).await.text(), "new");
        assert_eq!(stage.ask(get("/b")).await.text(), "old");
    });
}

#[test]
fn what_the_server_says_is_private_now_is_not_on_the_disk_any_more() {
    with_disk(awake()).play(async |stage| {
        with_stored(stage, &["/a"]).await;
        stage.origin.says(ok("mine").field("Cache-Control", "private"));
        let reload = || get("/a").field("Cache-Control", "no-cache");
        assert_eq!(stage.ask(reload()).await.text(), "mine");
        restart(stage).await;
        stage.origin.says(fresh("new"));
        assert_eq!(stage.ask(get("/a")).await.text(), "new");
    });
}

#[test]
fn a_newer_answer_takes_the_place_of_the_older_one() {
    with_disk(awake()).play(async |stage| {
        with_stored(stage, &["/a"]).await;
        // Asked for once: what the disk has is older, so this is written all the same.
        stage.ask(get("/a").field("Cache-Control", "no-cache")).await;
        restart(stage).await;
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((200, "cache"), "new"));
    });
}

#[test]
fn what_is_too_large_for_the_disk_leaves_nothing_older_there() {
    with_disk(awake()).play(async |stage| {
        with_stored(stage, &["/a"]).await;
        let large = "x".repeat(5 << 20);
        stage.origin.says(fresh(&large));
        stage.ask(get("/a").field("Cache-Control", "no-cache")).await;
        restart(stage).await;
        stage.origin.says(fresh("new"));
        assert_eq!(stage.ask(get("/a")).await.text(), "new");
    });
}

#[test]
fn what_was_confirmed_is_as_fresh_after_a_restart() {
    let stays_up = |config: &mut Config| config.scenario.policy = timeout(86_400);
    with_disk(awake().with(stays_up)).play(async |stage| {
        stage.origin.script(|seen| {
            let first = seen.field("if-none-match").is_none();
            let says = if first { ok("text") } else { status(304, "").field("X-Round", "2") };
            says.field("Cache-Control", "max-age=100").field("ETag", "\"1\"").acts()
        });
        twice(stage, "/a").await;
        stage.pass(secs(350)).await;
        let written = stage.disk_status().bytes;
        // Stale by now, and confirmed.
        assert_eq!(stage.ask(get("/a")).await.text(), "text");
        restart(stage).await;
        let got = stage.ask(get("/a")).await;
        assert_eq!(
            (got.how(), got.text(), got.field("x-round")),
            ((200, "cache"), "text", Some("2"))
        );
        assert!(stage.disk_status().bytes > written);
    });
}

#[test]
fn each_variant_comes_back_for_those_who_ask_like_that() {
    with_disk(awake()).play(async |stage| {
        stage.origin.script(|seen| {
            let language = seen.field("accept-language").unwrap_or("none");
            fresh(language).field("Vary", "Accept-Language").acts()
        });
        let in_language = |language: &str| get("/a").field("Accept-Language", language);
        for language in ["de", "en", "de", "en"] {
            stage.ask(in_language(language)).await;
        }
        restart(stage).await;
        for language in ["de", "en"] {
            let got = stage.ask(in_language(language)).await;
            assert_eq!((got.how(), got.text()), ((200, "cache"), language));
        }
        assert_eq!(stage.ask(in_language("fr")).await.how(), (200, "server"));
    });
}

#[test]
fn nothing_personal_is_on_the_disk_and_nobody_else_may_read_it() {
    with_disk(awake()).play(async |stage| {
        let says = |control: &str| ok("secret").field("Cache-Control", control);
        let cookie = |path: &str| get(path).field("Cookie", "session=secret");
        for (says, ask) in [
            (says("private, max-age=60"), get("/1")),
            (says("no-store"), get("/2")),
            (says("max-age=60"), cookie("/3")),
            (says("public, max-age=60").field("Vary", "Cookie"), cookie("/4")),
            (says("max-age=60").field("Set-Cookie", "a=secret"), get("/5")),
        ] {
            stage.origin.says(says);
            for _ in 0..3 {
                stage.ask(ask.clone()).await;
            }
        }
        stage.origin.says(fresh("for all"));
        twice(stage, "/6").await;
        stage.stop().await;
        let has =
            |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|it| it == text.as_bytes());
        let all = files(&stage.disk_cache());
        assert!(all.iter().any(|(_, bytes)| has(bytes, "for all")));
        assert!(!all.iter().any(|(_, bytes)| has(bytes, "secret")));
        for (path, _) in &all {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
    });
}

#[test]
fn a_damaged_answer_is_fetched_again() {
    with_disk(awake()).play(async |stage| {
        stage.origin.says(fresh(&"old ".repeat(1000)));
        twice(stage, "/a").await;
        stage.stop().await;
        for (path, mut bytes) in files(&stage.disk_cache()) {
            if let Some(at) = bytes.windows(8).position(|it| it == b"old old ") {
                bytes[at + 2000] ^= 1;
                std::fs::write(path, bytes).unwrap();
            }
        }
        stage.start();
        stage.looked().await;
        stage.origin.says(fresh("new"));
        assert_eq!(stage.ask(get("/a")).await.text(), "new");
        assert_eq!(stage.disk_status().spoilt, 1);
    });
}

#[test]
fn what_is_pinned_is_written_though_one_alone_has_asked() {
    with_disk(awake()).play(async |stage| {
        stage.origin.says(fresh("User-agent: *"));
        stage.ask(get("/robots.txt")).await;
        restart(stage).await;
        assert_eq!(stage.ask(get("/robots.txt")).await.how(), (200, "cache"));
    });
}

#[test]
fn when_the_day_is_spent_nothing_more_is_stored() {
    let poor = |setup: Setup| {
        setup.with(|config| {
            config.cache.disk = Some(DiskConfig { write_mb_per_day: 1, ..DiskConfig::default() });
        })
    };
    poor(awake()).play(async |stage| {
        for number in 0..4 {
            stage.origin.says(fresh(&"x".repeat(400 << 10)));
            twice(stage, &format!("/{number}")).await;
        }
        stage.pass(secs(301)).await;
        let status = stage.disk_status();
        // What other tests of this process write counts too.
        assert!(status.answers <= 2, "{status:?}");
        assert_eq!(status.answers + status.waiting, 4);
        assert!(status.written_today_bytes <= 1 << 20);
    });
}

#[test]
fn what_others_wrote_today_is_known_after_a_restart() {
    with_disk(awake()).play(async |stage| {
        let ledgers = stage.control_socket().with_file_name("ledgers");
        std::fs::write(ledgers, vec![b'x'; 8 << 20]).unwrap();
        let before = stage.disk_status();
        restart(stage).await;
        let after = stage.disk_status();
        // Other tests of this process write as well: it may be more.
        assert!(after.others_today_bytes >= before.others_today_bytes, "{before:?} {after:?}");
        assert!(after.left_today_bytes <= before.left_today_bytes, "{before:?} {after:?}");
    });
}

#[test]
fn what_is_on_the_disk_alone_is_renewed_while_the_server_is_awake() {
    let minute = |setup: Setup| setup.with(|config| config.scenario.cache.grace_asleep = secs(60));
    minute(with_disk(awake())).play(async |stage| {
        stage.origin.says(ok("news").field("Cache-Control", "max-age=28"));
        twice(stage, "/a").await;
        restart(stage).await;
        let before = stage.origin.seen().len();
        stage.pass(secs(59)).await;
        let asked: Vec<String> =
            stage.origin.seen()[before..].iter().map(|seen| seen.target.clone()).collect();
        assert_eq!(asked, ["/a"], "by nobody's asking");
    });
}

#[test]
fn a_reload_keeps_the_disk_and_a_cache_that_begins_empty_finds_there_what_it_had() {
    with_disk(awake()).play(async |stage| {
        stage.origin.says(fresh("kept"));
        twice(stage, "/a").await;
        stage.pass(secs(301)).await;
        stage.reload(|config| config.scenario.cache.size_mb = 1).await.unwrap();
        assert_eq!(stage.status().cache.0, 0);
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((200, "cache"), "kept"));
        assert_eq!(stage.disk_status().read, 1);
        twice(stage, "/b").await;
        stage.pass(secs(301)).await;
        assert_eq!(stage.disk_status().answers, 2, "it is looked on for what is worth it");
        let elsewhere = stage.reload(|config| config.cache.disk = None).await.unwrap_err();
        assert!(
            matches!(&elsewhere, ReloadError::Fixed { what, .. } if *what == ["`cache.disk`"]),
            "{elsewhere}"
        );
    });
}

#[test]
fn what_is_newer_than_the_disk_is_written_though_it_is_more_than_one_batch() {
    with_disk(awake()).play(async |stage| {
        let paths: Vec<String> = (0..8).map(|number| format!("/{number}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        with_stored(stage, &paths).await;
        stage.origin.says(fresh(&"new ".repeat(750 << 10)));
        for path in &paths {
            // 24 MiB in all.
            stage.ask(get(path).field("Cache-Control", "no-cache")).await;
        }
        restart(stage).await;
        for path in &paths {
            let got = stage.ask(get(path)).await;
            assert_eq!((got.how(), got.body.len()), ((200, "cache"), 3000 << 10), "{path}");
        }
    });
}

#[test]
fn what_was_confirmed_twice_before_it_was_looked_at_has_its_body_on_the_disk_still() {
    let stays_up = |config: &mut Config| config.scenario.policy = timeout(86_400);
    with_disk(awake().with(stays_up)).play(async |stage| {
        let text = "x".repeat(100_000);
        stage.origin.script(move |seen| {
            let first = seen.field("if-none-match").is_none();
            let says = if first { ok(&text) } else { status(304, "") };
            says.field("Cache-Control", "max-age=3600").field("ETag", "\"1\"").acts()
        });
        twice(stage, "/a").await;
        stage.pass(secs(301)).await;
        let before = stage.disk_status().bytes;
        for _ in 0..2 {
            stage.ask(get("/a").field("Cache-Control", "no-cache")).await;
        }
        stage.pass(secs(301)).await;
        let status = stage.disk_status();
        assert!(status.answers == 1 && status.bytes > before, "{status:?}");
        assert!(status.bytes - before < 20_000, "{} bytes more", status.bytes - before);
    });
}

#[test]
fn when_everything_is_purged_its_bytes_are_gone_too() {
    with_disk(awake()).play(async |stage| {
        let paths: Vec<String> = (0..100).map(|number| format!("/{number}")).collect();
        stage.origin.says(fresh(&"x".repeat(10_000)));
        for path in &paths {
            twice(stage, path).await;
        }
        stage.pass(secs(301)).await;
        assert!(stage.disk_status().bytes > 1_000_000);
        let all = Order::Purge { site: None, places: Vec::new(), prefix: false, all: true };
        assert!(matches!(stage.order(all).await, Reply::Purged(100)));
        let left: usize = files(&stage.disk_cache()).iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(left < 10_000, "{left} bytes");
        killed(stage).await;
        assert_eq!(stage.disk_status().answers, 0);
    });
}

#[test]
fn the_disk_cache_may_lie_in_the_state_directory_itself() {
    let there = |config: &mut Config| {
        let directory = Some(config.state_dir.clone());
        config.cache.disk = Some(DiskConfig { directory, ..DiskConfig::default() });
    };
    awake().with(there).play(async |stage| {
        stage.origin.says(fresh("kept"));
        twice(stage, "/a").await;
        restart(stage).await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "cache"));
    });
}
