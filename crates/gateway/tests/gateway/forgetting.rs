//! What is forgotten stays forgotten: changes and purges win against answers that are on their way.

use nightwatt_gateway::control::{Order, Reply};

use crate::client::{ask, get, post};
use crate::origin::{Act, Gate, Says, ok, status};
use crate::stage::{Stage, asleep, awake};

fn fresh(text: &str) -> Says {
    ok(text).field("Cache-Control", "max-age=3600")
}

/// The origin gives its answers to `GET` when the gate is opened, and others at once.
fn slow(stage: &Stage, text: &'static str) -> Gate {
    let gate = Gate::shut();
    let shut = gate.clone();
    stage.origin.script(move |seen| {
        if seen.method != "GET" {
            return status(204, "").acts();
        }
        vec![Act::Body, Act::Await(shut.clone()), Act::Say(fresh(text).bytes())]
    });
    gate
}

#[test]
fn a_change_is_not_undone_by_an_older_answer() {
    awake().play(async |stage| {
        let gate = slow(stage, "old");
        let mut reader = stage.begin(get("/a")).await;
        stage.origin.saw(1).await;
        stage.ask(ask("DELETE", "/a")).await;
        gate.open();
        assert_eq!(reader.answer().await.text(), "old", "it had asked before");
        stage.origin.says(fresh("new"));
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((200, "server"), "new"));
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "cache"));
    });
}

#[test]
fn a_change_elsewhere_leaves_an_answer_on_its_way_alone() {
    awake().play(async |stage| {
        let gate = slow(stage, "old");
        let mut reader = stage.begin(get("/a")).await;
        stage.origin.saw(1).await;
        stage.ask(ask("DELETE", "/b")).await;
        gate.open();
        reader.answer().await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "cache"));
    });
}

#[test]
fn a_confirmation_does_not_bring_back_what_was_forgotten_meanwhile() {
    awake().play(async |stage| {
        stage.origin.says(ok("old").field("Cache-Control", "max-age=0").field("ETag", "\"1\""));
        stage.ask(get("/a")).await;
        let gate = Gate::shut();
        let shut = gate.clone();
        stage.origin.script(move |seen| match seen.method.as_str() {
            "GET" => {
                let confirms = status(304, "").field("Cache-Control", "max-age=3600");
                vec![Act::Await(shut.clone()), Act::Say(confirms.bytes())]
            }
            _ => status(204, "").acts(),
        });
        let mut reader = stage.begin(get("/a")).await;
        stage.origin.saw(2).await;
        stage.ask(ask("PUT", "/a").field("Content-Length", "0")).await;
        gate.open();
        assert_eq!(reader.answer().await.text(), "old");
        stage.origin.says(fresh("new"));
        assert_eq!(stage.ask(get("/a")).await.text(), "new");
    });
}

#[test]
fn the_answer_to_a_post_may_be_what_a_get_would_get() {
    awake().play(async |stage| {
        stage.origin.says(fresh("old"));
        stage.ask(get("/a")).await;
        stage.origin.says(fresh("new").field("Content-Location", "/a"));
        assert_eq!(stage.ask(post("/a", "x")).await.text(), "new");
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((200, "cache"), "new"));
        // A form is not asked twice by that.
        stage.ask(post("/a", "x")).await;
        assert_eq!(stage.origin.lines(), ["GET /a", "POST /a", "POST /a"]);
        let mine = fresh("mine").field("Content-Location", "/b");
        stage.origin.says(mine);
        stage.ask(post("/b", "x").field("Cookie", "session=1")).await;
        assert_eq!(stage.ask(get("/b")).await.how(), (200, "server"), "personal");
    });
}

/// Orders a purge; says how many went.
async fn purge(stage: &Stage, places: &[&str], prefix: bool, all: bool) -> usize {
    let places = places.iter().map(|it| (*it).to_owned()).collect();
    match stage.order(Order::Purge { site: None, places, prefix, all }).await {
        Reply::Purged(count) => count,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_operator_purges_one_some_or_all() {
    awake().play(async |stage| {
        stage.origin.says(fresh("old"));
        for path in ["/", "/a", "/a/1", "/a/2?b", "/c"] {
            stage.ask(get(path)).await;
        }
        assert_eq!(stage.status().cache.0, 5);
        assert_eq!(purge(stage, &["http://blog/a"], false, false).await, 1);
        assert_eq!(purge(stage, &["http://blog/a", "/nothing"], false, false).await, 0);
        stage.origin.says(fresh("new"));
        assert_eq!(stage.ask(get("/a")).await.text(), "new");
        assert_eq!(stage.ask(get("/a/1")).await.text(), "old");
        assert_eq!(purge(stage, &["/a/"], true, false).await, 2);
        assert_eq!(stage.ask(get("/a/2?b")).await.text(), "new");
        assert_eq!(purge(stage, &[], false, true).await, 4);
        assert_eq!(stage.status().cache.0, 0);
    });
}

#[test]
fn a_purge_wins_against_an_answer_on_its_way() {
    awake().play(async |stage| {
        let gate = slow(stage, "old");
        let mut reader = stage.begin(get("/a/1")).await;
        stage.origin.saw(1).await;
        assert_eq!(purge(stage, &["/a"], true, false).await, 0);
        gate.open();
        assert_eq!(reader.answer().await.text(), "old");
        stage.origin.says(fresh("new"));
        assert_eq!(stage.ask(get("/a/1")).await.text(), "new");
    });
}

#[test]
fn a_purge_that_names_nothing_is_refused() {
    awake().play(async |stage| {
        let order = |site: Option<&str>, places: &[&str], all| Order::Purge {
            site: site.map(str::to_owned),
            places: places.iter().map(|it| (*it).to_owned()).collect(),
            prefix: false,
            all,
        };
        for (order, says) in [
            (order(None, &["blog/a"], false), "names no place"),
            (order(Some("shop"), &["/a"], false), "there is no site `shop`"),
            (order(None, &[], false), "say what"),
        ] {
            match stage.order(order).await {
                Reply::Error(text) => assert!(text.contains(says), "{text}"),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn robots_txt_is_served_while_the_server_sleeps_however_old_it_is() {
    let setup = awake().with(|config| {
        config.scenario.cache.grace_asleep = std::time::Duration::from_mins(1);
    });
    setup.play(async |stage| {
        stage.origin.says(ok("old").field("Cache-Control", "max-age=1"));
        for path in ["/robots.txt", "/page"] {
            stage.ask(get(path)).await;
        }
        stage.at(86_400).await;
        assert_eq!(stage.state(), "asleep");
        assert_eq!(stage.ask(get("/robots.txt")).await.how(), (200, "stale"));
        assert_eq!(stage.commands().0, 0, "nobody was woken");
        assert_ne!(stage.ask(get("/page")).await.how(), (200, "stale"));
    });
    // By no means before it was seen once.
    asleep().play(async |stage| assert_eq!(stage.status().cache.0, 0));
}

#[test]
fn a_whole_film_asked_for_as_a_range_is_kept() {
    awake().play(async |stage| {
        let whole = status(206, "0123456789").field("Cache-Control", "max-age=3600");
        stage.origin.says(whole.field("Content-Range", "bytes 0-9/10"));
        let film = |range: &str| get("/film").field("Range", range);
        let got = stage.ask(film("bytes=0-")).await;
        assert_eq!(
            (got.how(), got.field("content-range")),
            ((206, "server"), Some("bytes 0-9/10"))
        );
        let got = stage.ask(film("bytes=3-5")).await;
        assert_eq!((got.how(), got.text()), ((206, "cache"), "345"));
        let got = stage.ask(get("/film")).await;
        assert_eq!((got.how(), got.text()), ((200, "cache"), "0123456789"));
        assert_eq!(stage.origin.seen().len(), 1);
    });
}
