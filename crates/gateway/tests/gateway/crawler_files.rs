//! `/robots.txt` and sitemaps: fetched when the server wakes, and kept.

use nightwatt_gateway::config::{FillConfig, SiteKind};

use crate::client::{CRAWLER, get, post};
use crate::origin::{Act, Says, Seen, ok, status};
use crate::stage::{Setup, Stage, asleep, secs};

/// A request that wakes the server. Its answer is not kept.
async fn wake(stage: &Stage) {
    stage.ask(post("/wake", "x")).await;
}

/// What the proxy asked by itself.
fn our_targets(stage: &Stage) -> Vec<String> {
    let is_ours = |seen: &Seen| {
        let id = seen.field("x-request-id");
        id.is_some_and(|id| id.starts_with(nightwatt_gateway::REFRESH_ID))
    };
    stage.origin.seen().into_iter().filter(is_ours).map(|seen| seen.target).collect()
}

fn robots() -> Says {
    ok("User-agent: *\nSitemap: http://blog/wp-sitemap.xml\n")
}

/// A server that marks nothing as cacheable.
fn unmarked(seen: &Seen) -> Vec<Act> {
    match seen.target.as_str() {
        "/robots.txt" => robots().acts(),
        "/wp-sitemap.xml" => ok("<urlset/>").acts(),
        "/sitemap.xml" => status(404, "").acts(),
        _ => ok("a page").acts(),
    }
}

/// Only the proxy's own requests fill the cache.
fn with_kind(kind: SiteKind) -> Setup {
    asleep().site(move |site| {
        site.kind = Some(kind);
        site.cache.crawler_files = true;
        site.cache.fill = FillConfig::OwnRequests;
    })
}

#[test]
fn whenever_the_server_wakes_what_crawlers_look_for_first_is_fetched_and_kept() {
    for kind in [SiteKind::Pages, SiteKind::App] {
        with_kind(kind).play(async |stage| {
            stage.origin.script(unmarked);
            wake(stage).await;
            stage.at(100).await;
            assert_eq!(stage.state(), "asleep");
            let mut targets = our_targets(stage);
            // For clients with and without gzip, if that makes a difference.
            targets.dedup();
            assert_eq!(targets, ["/robots.txt", "/wp-sitemap.xml"]);
            let wakes = stage.commands().0;
            // A month later it is still there.
            stage.at(30 * 86_400).await;
            for target in ["/robots.txt", "/wp-sitemap.xml"] {
                let got = stage.ask(get(target).agent(CRAWLER)).await;
                assert_eq!(got.how(), (200, "stale"), "{target}");
            }
            let with_gzip = get("/robots.txt").agent(CRAWLER).field("Accept-Encoding", "gzip, br");
            assert_eq!(stage.ask(with_gzip).await.status, 200);
            assert_eq!(stage.commands().0, wakes, "no wake-up for it");
            // What is not for crawlers is not kept for them.
            assert_eq!(stage.ask(get("/page").agent(CRAWLER)).await.how(), (503, "crawler"));
            // The next wake-up brings it again.
            let before = our_targets(stage).len();
            wake(stage).await;
            stage.pass(secs(30)).await;
            assert!(our_targets(stage)[before..].contains(&"/robots.txt".to_owned()));
        });
    }
}

/// As Yoast and `WordPress` itself divide a sitemap.
#[test]
fn sitemaps_of_an_index_are_kept_too() {
    const INDEX: &str = "<sitemapindex><sitemap><loc>http://blog/post-sitemap.xml</loc></sitemap>\
                         <sitemap><loc>http://elsewhere/x-sitemap.xml</loc></sitemap></sitemapindex>";
    with_kind(SiteKind::App).play(async |stage| {
        stage.origin.script(|seen| match seen.target.as_str() {
            "/wp-sitemap.xml" => ok(INDEX).field("Content-Type", "text/xml").acts(),
            "/post-sitemap.xml" => ok("<urlset/>").field("Content-Type", "text/xml").acts(),
            _ => unmarked(seen),
        });
        wake(stage).await;
        stage.at(100).await;
        let mut targets = our_targets(stage);
        targets.dedup();
        assert_eq!(targets, ["/robots.txt", "/wp-sitemap.xml", "/post-sitemap.xml"]);
        let got = stage.ask(get("/post-sitemap.xml").agent(CRAWLER)).await;
        assert_eq!((got.how(), stage.state().as_str()), ((200, "stale"), "asleep"));
    });
}

#[test]
fn what_the_server_keeps_from_caches_is_not_kept_for_crawlers_either() {
    with_kind(SiteKind::App).play(async |stage| {
        stage.origin.script(|_| robots().field("Cache-Control", "private").acts());
        wake(stage).await;
        stage.at(100).await;
        assert!(!our_targets(stage).is_empty());
        // It is cold: it wakes once.
        let got = stage.ask(get("/robots.txt").agent(CRAWLER)).await;
        assert_eq!((got.how(), stage.commands().0), ((200, "held"), 2));
        stage.at(200).await;
        let got = stage.ask(get("/robots.txt").agent(CRAWLER)).await;
        assert_eq!((got.how(), stage.commands().0), ((503, "crawler"), 2));
    });
}

#[test]
fn without_a_kind_a_cold_robots_txt_wakes_the_server_once_a_day_and_within_the_budget() {
    let none = asleep().site(|site| {
        site.kind = None;
        site.wakes_per_client_and_hour = 1;
    });
    none.play(async |stage| {
        stage.origin.script(unmarked);
        let asks = async |target: &str| stage.ask(get(target).agent(CRAWLER)).await;
        assert_eq!(asks("/robots.txt").await.how(), (200, "held"));
        assert_eq!(our_targets(stage), [""; 0]);
        stage.at(100).await;
        let again = asks("/robots.txt").await;
        assert_eq!(again.how(), (503, "crawler"));
        assert!(again.seconds("retry-after") > 0);
        stage.at(86_500).await;
        assert_eq!(asks("/robots.txt").await.how(), (200, "held"));
        // A client that has used up its budget does not wake the server for it.
        stage.at(3 * 86_400).await;
        stage.ask(post("/wake", "x")).await;
        stage.pass(secs(100)).await;
        let wakes = stage.commands().0;
        assert_eq!(asks("/robots.txt").await.how(), (503, "crawler"));
        assert_eq!((stage.state().as_str(), stage.commands().0), ("asleep", wakes));
    });
}
