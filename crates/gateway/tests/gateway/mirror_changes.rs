//! Content changes while the mirror looks at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use nightwatt_gateway::control::{Order, Reply};
use nightwatt_gateway::mirror::orders::MirrorOrder;

use crate::client::{Client, get, post};
use crate::mirror::{html, mirrored, order, reported};
use crate::origin::{Act, status};
use crate::stage::{Setup, Stage, awake, secs};

const PAGES: [&str; 2] = ["/", "/page/1.html"];
const EXTENSION: u64 = 30;

/// One request a second: a pass takes some seconds.
fn slow() -> Setup {
    mirrored(awake(), |mirror| {
        mirror.rate = 1.0;
        mirror.extension = secs(EXTENSION);
    })
}

/// A site of two pages was crawled, and its server sleeps. Returns the version of both pages.
async fn crawled(stage: &Stage) -> Arc<AtomicU32> {
    let version = Arc::new(AtomicU32::new(1));
    let shown = Arc::clone(&version);
    stage.origin.script(move |seen| {
        let text = format!("version {} <a href=/page/1.html>x</a>", shown.load(Ordering::SeqCst));
        let exists = PAGES.contains(&seen.target.as_str());
        if exists { html(&text).acts() } else { status(404, "no").acts() }
    });
    stage.at(120).await;
    assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 1)));
    version
}

async fn changed(stage: &Stage) {
    order(stage, MirrorOrder::Refresh { places: Vec::new() }).await;
}

/// As `nightwatt purge --refresh`.
async fn purge_and_fetch(stage: &Stage, place: &str) {
    let (places, site) = (vec![place.to_owned()], None);
    let purged = stage.order(Order::Purge { site, places, prefix: false, all: false }).await;
    assert!(matches!(purged, Reply::Purged(_)), "{purged:?}");
    order(stage, MirrorOrder::Fetch).await;
}

/// Waits until the server has got this request once more.
async fn asked(stage: &Stage, line: &str, before: usize) {
    let times = || stage.origin.lines().iter().skip(before).filter(|it| *it == line).count();
    for _ in 0..3000 {
        if times() > 0 {
            return;
        }
        stage.pass(Duration::from_millis(100)).await;
    }
    panic!("no {line} in {:?}", stage.origin.lines());
}

/// Seconds until the server sleeps.
async fn seconds_awake(stage: &Stage, mut each: impl AsyncFnMut(&Stage)) -> u64 {
    stage.order(Order::Wake { site: None }).await;
    stage.pass(secs(1)).await;
    for second in 1..3000 {
        if stage.state() == "asleep" {
            return second;
        }
        each(stage).await;
        stage.pass(secs(1)).await;
    }
    panic!("it does not sleep");
}

#[test]
fn what_changes_during_a_pass_is_confirmed_before_the_server_sleeps() {
    slow().play(async |stage| {
        let version = crawled(stage).await;
        let before = stage.origin.lines().len();
        changed(stage).await;
        stage.order(Order::Wake { site: None }).await;
        asked(stage, "GET /", before).await;
        version.store(2, Ordering::SeqCst);
        changed(stage).await;
        stage.pass(secs(120)).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 2)));
        for address in PAGES {
            let got = stage.ask(get(address)).await;
            assert_eq!(got.how(), (200, "mirror"), "{address}");
            assert!(got.text().starts_with("version 2 "), "{address}: {got:?}");
        }
    });
}

#[test]
fn changes_without_end_keep_no_server_awake() {
    slow().play(async |stage| {
        crawled(stage).await;
        let usual = seconds_awake(stage, async |_| {}).await;
        changed(stage).await;
        let most = usual + EXTENSION + 2;
        let longer = seconds_awake(stage, changed).await;
        assert!((usual + EXTENSION / 2..=most).contains(&longer), "{usual} s, then {longer} s");
        // What was not confirmed is not given.
        assert_eq!(stage.ask(get("/")).await.how(), (200, "held"));
    });
}

/// A chain of three pages: the last one is fetched when nothing else is left.
fn chained(target: &str) -> Vec<Act> {
    let says = match target {
        "/" => html("<a href=/a>a</a>"),
        "/a" => html("<a href=/slow>s</a>"),
        "/slow" => html("at last"),
        _ => status(404, "no"),
    };
    says.acts()
}

#[test]
fn a_page_that_does_not_end_holds_up_sleep_once_and_no_longer_than_the_extension() {
    let setup = mirrored(awake(), |mirror| mirror.extension = secs(10));
    setup.play(async |stage| {
        let is_slow = Arc::new(AtomicBool::new(false));
        let slow = Arc::clone(&is_slow);
        stage.origin.script(move |seen| {
            let mut acts = chained(&seen.target);
            if seen.target == "/slow" && slow.load(Ordering::SeqCst) {
                // A little longer than sleep waits: the server knows nothing of a request that was given up, and
                // keeps time going.
                acts.insert(1, Act::Take(secs(12)));
            }
            acts
        });
        stage.at(120).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 1)));
        let usual = seconds_awake(stage, async |_| {}).await;
        is_slow.store(true, Ordering::SeqCst);
        changed(stage).await;
        let longer = seconds_awake(stage, async |_| {}).await;
        assert!((usual + 5..=usual + 14).contains(&longer), "{usual} s, then {longer} s");
        stage.pass(secs(120)).await;
        let again = seconds_awake(stage, async |_| {}).await;
        assert!(again <= usual + 2, "{usual} s, then {again} s");
        let asked = stage.origin.lines().into_iter().filter(|it| it == "GET /slow").count();
        assert_eq!(asked, 2, "by the first pass, and once after the change");
        is_slow.store(false, Ordering::SeqCst);
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "mirror"));
        assert_eq!(stage.ask(get("/slow")).await.how(), (200, "held"), "it was not confirmed");
    });
}

#[test]
fn what_a_pass_has_fetched_wakes_no_server_after_it() {
    slow().play(async |stage| {
        crawled(stage).await;
        let before = stage.origin.lines().len();
        purge_and_fetch(stage, "/page/1.html").await;
        asked(stage, "GET /robots.txt", before).await;
        purge_and_fetch(stage, "/page/1.html").await;
        stage.pass(secs(900)).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 2)));
        assert_eq!(stage.ask(get("/page/1.html")).await.how(), (200, "mirror"));
    });
}

/// WordPress closes the connection before the answer has come (`'blocking' => false`).
#[test]
fn an_order_is_carried_out_whole_though_its_client_does_not_wait() {
    let dir = tempfile::tempdir().unwrap();
    reported(dir.path()).play(async |stage| {
        crawled(stage).await;
        let admin = stage.admin_address().expect("an admin listener");
        for _ in 0..5 {
            let before = stage.origin.lines().len();
            let mut client = Client::connect_to(stage, admin).await;
            let report = post("/api/v1/sites/blog/changed", "");
            client.send(&report.field("Authorization", "Bearer let-me-tell-you")).await;
            drop(client);
            asked(stage, "GET /page/1.html", before).await;
            stage.pass(secs(120)).await;
            assert_eq!(stage.state(), "asleep");
            assert_eq!(stage.ask(get("/page/1.html")).await.how(), (200, "mirror"));
        }
    });
}

/// No client has asked for anything: what keeps the server awake is the mirror.
#[test]
fn pages_that_are_due_are_not_requests_under_way() {
    slow().play(async |stage| {
        crawled(stage).await;
        changed(stage).await;
        let mut for_copies = 0;
        seconds_awake(stage, async |stage| {
            let status = stage.status();
            assert_eq!(status.in_flight, 0, "{:?}", status.kept_awake_by);
            let reason = status.kept_awake_by.unwrap_or_default();
            assert!(!reason.contains("under way"), "{reason}");
            for_copies += u32::from(reason.starts_with("copies of pages"));
        })
        .await;
        assert!(for_copies > 0, "the server waits for the pages that are due");
    });
}
