//! What the mirror keeps, and what nightwatt never requests by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nightwatt_gateway::control::{Order, Reply};
use nightwatt_gateway::mirror::orders::{MirrorOrder, MirrorReply};
use nightwatt_gateway::mirror::status::Explained;

use crate::client::{BROWSER, get};
use crate::mirror::{crawled, html, mirrored, order, site};
use crate::origin::status;
use crate::stage::{Stage, awake, secs};

const HOUR: u64 = 3600;

async fn explained(stage: &Stage, address: &str) -> Explained {
    match order(stage, MirrorOrder::Explain { address: address.to_owned() }).await {
        MirrorReply::Explained(explained) => explained,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_knows_no_page_while_it_starts_loses_none() {
    mirrored(awake(), |_| {}).play(async |stage| {
        crawled(stage).await;
        let is_starting = Arc::new(AtomicBool::new(true));
        let starting = Arc::clone(&is_starting);
        stage.origin.script(move |seen| {
            let is_ready = !starting.load(Ordering::SeqCst);
            if is_ready { site(seen) } else { status(404, "starting").acts() }
        });
        // Half of `max_age` is over: pages are confirmed before the server sleeps.
        stage.at(13 * HOUR).await;
        let before = stage.origin.seen().len();
        stage.order(Order::Wake { site: None }).await;
        stage.pass(secs(300)).await;
        let asked = stage.origin.seen().split_off(before);
        assert!(asked.iter().any(|it| it.target == "/"), "a pass has begun: {asked:?}");
        assert_eq!((stage.state().as_str(), stage.commands().0), ("asleep", 1));
        for address in ["/", "/page/1.html", "/page/99.html", "/style.css"] {
            assert_eq!(stage.ask(get(address)).await.how(), (200, "mirror"), "{address}");
        }
        is_starting.store(false, Ordering::SeqCst);
        stage.order(Order::Wake { site: None }).await;
        stage.pass(secs(300)).await;
        assert_eq!(stage.state(), "asleep");
        let it = explained(stage, "/page/99.html").await;
        assert!(it.is_mirrored && it.confirmed_s_ago.unwrap() < 300.0, "{it:?}");
    });
}

/// A server that answers 404 for everything until this is false.
fn starting(stage: &Stage) -> Arc<AtomicBool> {
    let is_starting = Arc::new(AtomicBool::new(true));
    let starting = Arc::clone(&is_starting);
    stage.origin.script(move |seen| {
        let is_ready = !starting.load(Ordering::SeqCst);
        if is_ready { site(seen) } else { status(404, "starting").acts() }
    });
    is_starting
}

/// The server has started: visitors get pages, and after them the mirror.
async fn has_started(stage: &Stage, is_starting: &AtomicBool) {
    assert_eq!(stage.state(), "asleep");
    let it = stage.running_status().sites[0].mirror.clone().unwrap();
    assert_eq!(it.pages, 0, "it believes nothing: {it:?}");
    is_starting.store(false, Ordering::SeqCst);
    assert_eq!(stage.ask(get("/")).await.how(), (200, "held"));
    stage.pass(secs(180)).await;
    assert_eq!(stage.state(), "asleep");
    for address in ["/", "/page/99.html"] {
        assert_eq!(stage.ask(get(address)).await.how(), (200, "mirror"), "{address}");
    }
}

#[test]
fn a_first_pass_over_a_server_that_starts_denies_no_page() {
    mirrored(awake(), |mirror| mirror.complete = true).play(async |stage| {
        let is_starting = starting(stage);
        stage.at(120).await;
        let it = stage.running_status().sites[0].mirror.clone().unwrap();
        assert!(it.not_complete.is_some(), "{it:?}");
        has_started(stage, &is_starting).await;
        assert_eq!(stage.ask(get("/nothing").by_browser()).await.how(), (404, "mirror"));
    });
}

#[test]
fn a_purge_while_the_server_starts_denies_no_page() {
    mirrored(awake(), |mirror| mirror.complete = true).play(async |stage| {
        crawled(stage).await;
        let is_starting = starting(stage);
        let purge = Order::Purge { site: None, places: Vec::new(), prefix: false, all: true };
        assert!(matches!(stage.order(purge).await, Reply::Purged(_)));
        let before = stage.origin.seen().len();
        assert_eq!(order(stage, MirrorOrder::Fetch).await, MirrorReply::Done);
        stage.pass(secs(180)).await;
        let asked = stage.origin.seen().split_off(before);
        assert!(asked.iter().any(|it| it.target == "/"), "a pass has begun: {asked:?}");
        has_started(stage, &is_starting).await;
    });
}

#[test]
fn a_page_that_a_client_got_is_not_denied_afterwards() {
    mirrored(awake(), |_| {}).play(async |stage| {
        let is_there = Arc::new(AtomicBool::new(false));
        let there = Arc::clone(&is_there);
        stage.origin.script(move |seen| match seen.target.as_str() {
            "/" => html("<a href=/late>l</a>").acts(),
            "/late" if there.load(Ordering::SeqCst) => html("here").acts(),
            _ => status(404, "no").acts(),
        });
        stage.at(120).await;
        assert_eq!(stage.state(), "asleep");
        assert_eq!(stage.ask(get("/late")).await.how(), (404, "mirror"));
        is_there.store(true, Ordering::SeqCst);
        stage.order(Order::Wake { site: None }).await;
        stage.pass(secs(5)).await;
        assert_eq!(stage.ask(get("/late")).await.status, 200);
        let it = explained(stage, "/late").await;
        assert!(!it.is_mirrored && it.why.contains("may have changed"), "{it:?}");
        stage.pass(secs(180)).await;
        assert_eq!(stage.state(), "asleep");
        let it = explained(stage, "/late").await;
        assert_eq!((it.is_mirrored, it.status), (true, Some(200)), "{it:?}");
        assert_eq!(stage.ask(get("/late")).await.status, 200);
    });
}

#[test]
fn what_is_excluded_is_not_requested_for_the_cache_either() {
    let setup = mirrored(awake(), |mirror| mirror.exclude = vec!["/page/5.html".to_owned()]);
    setup.play(async |stage| {
        stage.origin.script(site);
        stage.at(10).await;
        for address in ["/page/5.html", "/page/6.html"] {
            assert_eq!(stage.ask(get(address)).await.status, 200, "{address}");
        }
        stage.at(120).await;
        let own = |address: &str| {
            let asked = stage.origin.seen().into_iter().filter(|it| it.target == address);
            asked
                .filter(|it| it.field("user-agent").is_some_and(|it| it.starts_with("nightwatt/")))
                .count()
        };
        assert_eq!(own("/page/5.html"), 0);
        assert!(own("/page/6.html") > 0);
    });
}

#[test]
fn a_page_that_browsers_do_not_get_is_not_called_mirrored() {
    mirrored(awake(), |_| {}).play(async |stage| {
        stage.origin.script(|seen| match seen.target.as_str() {
            "/" => html("<a href=/lang>l</a><a href=/plain>p</a>").acts(),
            "/lang" => html("language").field("Vary", "Accept-Language").acts(),
            "/plain" => html("plain").acts(),
            _ => status(404, "no").acts(),
        });
        stage.at(120).await;
        assert_eq!(stage.state(), "asleep");
        for address in ["/plain", "http://blog/plain", "https://blog/plain"] {
            let it = explained(stage, address).await;
            assert_eq!((it.address.as_str(), it.is_mirrored), ("/plain", true), "{it:?}");
        }
        let it = explained(stage, "/lang").await;
        assert!(!it.is_mirrored && it.why.contains("Vary"), "{it:?}");
        for wrong in ["http://elsewhere/plain", "plain"] {
            let ask = MirrorOrder::Explain { address: wrong.to_owned() };
            let reply = stage.order(Order::Mirror { site: None, ask }).await;
            assert!(matches!(reply, Reply::Error(why) if why.contains(wrong)), "{wrong}");
        }
        // A script's requests: a person who opens a page would get the waiting page.
        let english = |address: &str| get(address).agent(BROWSER).field("Accept-Language", "en");
        assert_eq!(stage.ask(english("/plain")).await.how(), (200, "mirror"));
        assert_eq!(stage.ask(english("/lang")).await.how(), (200, "held"));
        let it = stage.running_status().sites[0].mirror.clone().unwrap();
        assert_eq!((it.coverage, it.requests), (Some(0.5), 2));
    });
}

#[test]
fn errors_and_redirects_are_no_pages_and_are_called_by_their_names() {
    mirrored(awake(), |_| {}).play(async |stage| {
        stage.origin.script(|seen| match seen.target.as_str() {
            "/" => html("<a href=/old>o</a><a href=/gone>g</a><a href=/closed>c</a>").acts(),
            "/old" => status(301, "").field("Location", "/new").acts(),
            "/new" => html("new").acts(),
            "/closed" => status(403, "no").acts(),
            _ => status(404, "no").acts(),
        });
        stage.at(120).await;
        assert_eq!(stage.state(), "asleep");
        let it = stage.running_status().sites[0].mirror.clone().unwrap();
        // Nothing is at `/gone`, `/favicon.ico`, `/robots.txt` and `/sitemap.xml`.
        assert_eq!((it.pages, it.redirects, it.errors), (2, 1, 4), "{it:?}");
        for (address, is_mirrored, words) in [
            ("/new", true, "it is mirrored"),
            ("/old", true, "redirect"),
            ("/gone", true, "no such page"),
            ("/closed", false, "403"),
        ] {
            let it = explained(stage, address).await;
            assert_eq!(it.is_mirrored, is_mirrored, "{it:?}");
            assert!(it.why.contains(words), "{it:?}");
        }
        let refresh = |places: &[&str]| MirrorOrder::Refresh {
            places: places.iter().map(|it| (*it).to_owned()).collect(),
        };
        for (places, pages) in [
            (&["/nonexistent"][..], 0),
            (&["/new", "/ne"][..], 1),
            (&["/old", "/gone"][..], 2),
            (&[][..], 7),
        ] {
            let outdated = order(stage, refresh(places)).await;
            assert_eq!(outdated, MirrorReply::Outdated { pages }, "{places:?}");
        }
    });
}

#[test]
fn no_answer_is_older_than_a_max_age_that_is_shorter_than_ttl() {
    let setup = mirrored(awake(), |mirror| mirror.max_age = secs(70));
    setup.site(|site| site.cache.ttl = Some(secs(600))).play(async |stage| {
        stage.origin.script(site);
        stage.at(120).await;
        for _ in 0..30 {
            let got = stage.ask(get("/page/1.html")).await;
            let age = got.field("age").map_or(0, |age| age.parse::<u64>().unwrap());
            assert!(got.status == 200 && age <= 70, "{:?}: {age} s old", got.how());
            stage.pass(secs(7)).await;
        }
    });
}

#[test]
fn the_files_of_what_was_purged_go_after_the_answer() {
    mirrored(awake(), |_| {}).play(async |stage| {
        crawled(stage).await;
        let bytes = |stage: &Stage| stage.running_status().sites[0].mirror.clone().unwrap().bytes;
        assert!(bytes(stage) > 0);
        let purge = Order::Purge { site: None, places: Vec::new(), prefix: false, all: true };
        assert!(matches!(stage.order(purge).await, Reply::Purged(count) if count > 120));
        stage.pass(secs(5)).await;
        assert_eq!((bytes(stage), stage.state().as_str()), (0, "asleep"));
    });
}

#[test]
fn a_page_that_could_not_be_mirrored_is_tried_again_after_a_purge() {
    mirrored(awake(), |_| {}).play(async |stage| {
        let is_fixed = Arc::new(AtomicBool::new(false));
        let fixed = Arc::clone(&is_fixed);
        stage.origin.script(move |seen| match seen.target.as_str() {
            "/" => html("<a href=/form>f</a>").acts(),
            "/form" if fixed.load(Ordering::SeqCst) => html("fixed").acts(),
            "/form" => html("<form><input name='contact[_token]' value=a></form>").acts(),
            _ => status(404, "no").acts(),
        });
        stage.at(120).await;
        assert_eq!(explained(stage, "/form").await.reason.as_deref(), Some("form-token"));
        is_fixed.store(true, Ordering::SeqCst);
        let purge = Order::Purge { site: None, places: Vec::new(), prefix: false, all: true };
        assert!(matches!(stage.order(purge).await, Reply::Purged(_)));
        assert_eq!(order(stage, MirrorOrder::Fetch).await, MirrorReply::Done);
        stage.pass(secs(120)).await;
        assert_eq!(stage.state(), "asleep");
        assert_eq!(stage.ask(get("/form")).await.how(), (200, "mirror"));
    });
}
