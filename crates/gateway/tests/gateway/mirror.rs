//! The mirror: a site that was crawled while its server was awake is browsed while the server sleeps.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nightwatt_energy::time::Mono;
use nightwatt_gateway::config::{FillConfig, MirrorConfig};
use nightwatt_gateway::control::{Order, Reply};
use nightwatt_gateway::mirror::orders::{MirrorOrder, MirrorReply};

use crate::client::{Ask, BROWSER, CRAWLER, ask, get, post};
use crate::origin::{Act, Says, Seen, ok, status};
use crate::stage::{Setup, Stage, asleep, awake, secs};

/// Pages of the site beside its start.
const PAGES: usize = 120;

/// A site with a mirror, which only nightwatt's own requests fill.
pub(crate) fn mirrored(setup: Setup, change: impl FnOnce(&mut MirrorConfig) + 'static) -> Setup {
    setup.site(|site| {
        site.cache.fill = FillConfig::OwnRequests;
        site.mirror.enabled = None;
        site.mirror.url = Some("http://blog".to_owned());
        site.mirror.rate = 1000.0;
        change(&mut site.mirror);
    })
}

/// A mirrored site, of which programs report changes with the token `let-me-tell-you`.
pub(crate) fn reported(folder: &Path) -> Setup {
    let file = folder.join("token");
    std::fs::write(&file, "let-me-tell-you\n").unwrap();
    let setup = mirrored(awake(), move |mirror| mirror.token_file = Some(file));
    setup.with(|config| config.admin.as_mut().unwrap().hosts = vec!["blog".to_owned()])
}

pub(crate) fn html(body: &str) -> Says {
    ok(body).field("Content-Type", "text/html")
}

/// The start links to every tenth page, and each page to the next two and to the style sheet, which has a picture.
fn page(number: usize) -> String {
    let is_linked = |next: &usize| match number {
        0 => next % 10 == 1,
        _ => (number + 1..=number + 2).contains(next),
    };
    let link = |next: usize| format!("<a href=\"/page/{next}.html\">{next}</a>");
    let links: String = (1..=PAGES).filter(is_linked).map(link).collect();
    let text = "What it says is of no matter here. ".repeat(30);
    format!("<link rel=stylesheet href=/style.css><h1>Page {number}</h1><p>{text}</p>{links}")
}

fn says(target: &str) -> Says {
    let number = target.strip_prefix("/page/").and_then(|it| it.strip_suffix(".html"));
    let number = number.and_then(|it| it.parse().ok()).filter(|it| (1..=PAGES).contains(it));
    match (target, number) {
        ("/", _) => html(&page(0)),
        (_, Some(number)) => html(&page(number)).field("ETag", &format!("\"{number}\"")),
        ("/style.css", _) => {
            ok("body { background: url(i.svg) }").field("Content-Type", "text/css")
        }
        ("/i.svg", _) => ok("<svg/>").field("Content-Type", "image/svg+xml"),
        _ => status(404, "not here").field("Content-Type", "text/html"),
    }
}

/// A plain static server: it confirms what it has said by its tag.
pub(crate) fn site(seen: &Seen) -> Vec<Act> {
    let says = says(&seen.target);
    let tag = seen.field("if-none-match");
    let is_known = tag.is_some_and(|tag| {
        String::from_utf8_lossy(&says.bytes()).contains(&format!("ETag: {tag}\r\n"))
    });
    if is_known {
        status(304, "").field("ETag", tag.unwrap_or_default()).acts()
    } else {
        says.acts()
    }
}

fn addresses() -> Vec<String> {
    let pages = (1..=PAGES).map(|number| format!("/page/{number}.html"));
    ["/", "/style.css", "/i.svg"].map(str::to_owned).into_iter().chain(pages).collect()
}

/// The server has been awake, the site was crawled, and it sleeps again.
pub(crate) async fn crawled(stage: &Stage) {
    stage.origin.script(site);
    stage.at(120).await;
    assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 1)));
}

/// A client with an address of its own.
pub(crate) fn from(ask: Ask, client: &str) -> Ask {
    ask.field("X-Forwarded-For", client)
}

pub(crate) fn told_by_proxies(setup: Setup) -> Setup {
    setup.with(|config| config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()])
}

#[test]
fn a_site_that_was_crawled_is_browsed_whole_while_its_server_sleeps() {
    mirrored(awake(), |_| {}).play(async |stage| {
        crawled(stage).await;
        let asked = stage.origin.seen();
        let agents = asked.iter().filter_map(|seen| seen.field("user-agent"));
        assert!(agents.into_iter().all(|it| it.starts_with("nightwatt/")));
        assert!(asked.iter().all(|seen| seen.method == "GET" && seen.field("cookie").is_none()));
        for address in addresses() {
            let got = stage.ask(get(&address).by_browser()).await;
            assert_eq!(got.how(), (200, "mirror"), "{address}");
            let bytes = says(&address).bytes();
            assert!(bytes.ends_with(&got.body) && !got.body.is_empty(), "{address}");
            assert!(got.field("cache-status").unwrap().contains("detail=mirror"), "{got:?}");
            assert!(got.field("age").is_some(), "{got:?}");
        }
        assert_eq!(stage.commands(), (0, 1), "nobody woke it");
        assert_eq!(stage.origin.seen().len(), asked.len());
        assert_eq!(stage.ask(get("/elsewhere")).await.how(), (404, "held"), "nobody links to it");
    });
}

#[test]
fn an_answer_comes_in_the_form_that_is_asked_for() {
    mirrored(awake(), |_| {}).play(async |stage| {
        crawled(stage).await;
        let address = "/page/7.html";
        let head = stage.ask(ask("HEAD", address)).await;
        assert_eq!(head.how(), (200, "mirror"));
        assert_eq!(head.field("content-length").unwrap(), page(7).len().to_string());
        let known = stage.ask(get(address).field("If-None-Match", "\"7\"")).await;
        assert_eq!(known.how(), (304, "not-modified"));
        let part = stage.ask(get(address).field("Range", "bytes=0-4")).await;
        assert_eq!((part.status, part.text()), (206, &page(7)[..5]));
        let packed = stage.ask(get(address).field("Accept-Encoding", "gzip")).await;
        assert_eq!((packed.status, packed.field("content-encoding")), (200, Some("gzip")));
        assert_eq!(packed.field("etag"), Some("W/\"7\""), "other bytes");
        assert_eq!(packed.field("vary"), Some("accept-encoding"));
        assert_eq!(stage.commands(), (0, 1));
    });
}

#[test]
fn a_session_gets_the_servers_own_answer() {
    mirrored(awake(), |_| {}).play(async |stage| {
        crawled(stage).await;
        let statistics = stage.ask(get("/").field("Cookie", "_ga=GA1.2.3")).await;
        assert_eq!(statistics.how(), (200, "mirror"));
        let session = stage.ask(get("/").field("Cookie", "session=1")).await;
        assert_eq!(session.how(), (200, "held"));
        stage.pass(secs(120)).await;
        let key = stage.ask(get("/").field("Authorization", "Bearer x")).await;
        assert_eq!(key.how(), (200, "held"));
        stage.pass(secs(120)).await;
        let app = stage.ask(get("/").field("X-App-User", "me")).await;
        assert_eq!(app.how(), (200, "held"));
        assert_eq!(stage.commands().0, 3);
    });
}

#[test]
fn nothing_personal_is_mirrored() {
    mirrored(awake(), |_| {}).play(async |stage| {
        let count = Arc::new(AtomicU32::new(0));
        stage.origin.script(move |seen| match seen.target.as_str() {
            "/" => html(
                "<a href=/mine>1</a><a href=/private>2</a><a href=/nothing>3</a><a href=/form>4</a>\
                 <a href=/same>5</a>",
            )
            .acts(),
            "/mine" => {
                let number = count.fetch_add(1, Ordering::Relaxed);
                html(&format!("you are {number}")).field("Set-Cookie", "id=1").acts()
            }
            "/same" => html("the same").field("Set-Cookie", "id=2").acts(),
            "/private" => html("mine").field("Cache-Control", "private").acts(),
            "/nothing" => html("mine").field("Cache-Control", "no-store").acts(),
            "/form" => html("<form><input type=hidden name=csrf_token value=x></form>").acts(),
            _ => site(seen),
        });
        stage.at(120).await;
        let same = stage.ask(get("/same")).await;
        assert_eq!((same.how(), same.field("set-cookie")), ((200, "mirror"), None));
        for address in ["/mine", "/private", "/nothing", "/form"] {
            assert_eq!(stage.ask(get(address)).await.how(), (200, "held"), "{address}");
            stage.pass(secs(120)).await;
            assert_eq!(stage.state(), "asleep");
        }
    });
}

#[test]
fn after_a_change_nobody_gets_what_was_there_before() {
    let setup = told_by_proxies(mirrored(awake(), |_| {}));
    setup.play(async |stage| {
        let comments = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&comments);
        stage.origin.script(move |seen| match (seen.method.as_str(), seen.target.as_str()) {
            ("POST", _) => {
                counted.fetch_add(1, Ordering::Relaxed);
                status(302, "").field("Location", "/").acts()
            }
            (_, "/") => {
                let count = counted.load(Ordering::Relaxed);
                html(&format!("{count} comments <a href=/missing>x</a><a href=/i.svg>y</a>")).acts()
            }
            _ => site(seen),
        });
        stage.at(120).await;
        let reader = || from(get("/"), "203.0.113.1");
        assert_eq!(
            stage.ask(reader()).await.text(),
            "0 comments <a href=/missing>x</a><a href=/i.svg>y</a>"
        );
        assert_eq!(stage.ask(from(get("/missing"), "203.0.113.1")).await.how(), (404, "mirror"));
        let writer = "203.0.113.2";
        assert_eq!(stage.ask(from(post("/comment", "x"), writer)).await.how(), (302, "held"));
        stage.pass(secs(90)).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 2)));
        let got = stage.ask(reader()).await;
        assert_eq!(got.how(), (200, "mirror"), "it was confirmed before sleep");
        assert!(got.text().starts_with("1 comments"));
        assert_eq!(stage.ask(from(get("/i.svg"), writer)).await.how(), (200, "held"), "a bypass");
        stage.pass(secs(700)).await;
        assert_eq!(stage.ask(from(get("/"), writer)).await.how(), (200, "mirror"));
    });
}

#[test]
fn a_restart_keeps_the_mirror() {
    mirrored(awake(), |_| {}).play(async |stage| {
        crawled(stage).await;
        stage.stop().await;
        stage.start();
        stage.looked().await;
        stage.pass(secs(5)).await;
        assert_eq!(stage.state(), "asleep");
        for address in addresses() {
            assert_eq!(stage.ask(get(&address)).await.how(), (200, "mirror"), "{address}");
        }
        assert_eq!(stage.commands(), (0, 1));
    });
}

#[test]
fn the_bounds_of_the_store_hold() {
    let small = mirrored(awake(), |mirror| {
        mirror.size_mb = 1;
        mirror.page_size_mb = 1;
    });
    small.play(async |stage| {
        stage.origin.script(|seen| match seen.target.as_str() {
            "/" => {
                html("<img src=/1.png><img src=/2.png><img src=/3.png><img src=/huge.png>").acts()
            }
            "/huge.png" => {
                let body = "x".repeat(2 << 20);
                ok(&body).field("Content-Type", "image/png").acts()
            }
            picture @ ("/1.png" | "/2.png" | "/3.png") => {
                let body = picture.repeat(100_000);
                ok(&body).field("Content-Type", "image/png").acts()
            }
            _ => site(seen),
        });
        stage.at(120).await;
        assert_eq!(stage.state(), "asleep");
        let mut answers = Vec::new();
        for picture in ["/1.png", "/2.png", "/3.png", "/huge.png"] {
            answers.push(stage.ask(get(picture)).await.answer().to_owned());
            stage.pass(secs(120)).await;
        }
        let mirrored = answers.iter().filter(|it| *it == "mirror").count();
        assert_eq!((mirrored, answers[3].as_str()), (1, "held"), "{answers:?}");
    });
}

#[test]
fn a_complete_mirror_knows_what_is_not_there() {
    mirrored(awake(), |mirror| mirror.complete = true).play(async |stage| {
        crawled(stage).await;
        let absent = stage.ask(get("/wp-content/x.php").by_browser()).await;
        assert_eq!(absent.how(), (404, "mirror"));
        assert_eq!(absent.field("cache-control"), Some("no-store"));
        let crawler = stage.ask(get("/wp-content/y.php").agent(CRAWLER)).await;
        assert_eq!(crawler.how(), (503, "crawler"));
        assert_eq!(stage.commands().0, 0);
        let session = get("/wp-content/z.php").field("Cookie", "session=1");
        assert_eq!(stage.ask(session).await.how(), (404, "held"));
        // While the server is awake, it is asked whether that was right.
        stage.pass(secs(30)).await;
        assert!(stage.origin.lines().contains(&"GET /wp-content/x.php".to_owned()));
    });
}

#[test]
fn a_path_that_exists_after_all_suspends_complete() {
    mirrored(awake(), |mirror| mirror.complete = true).play(async |stage| {
        stage.origin.script(|seen| match seen.target.as_str() {
            "/hidden" => html("here").acts(),
            _ => site(seen),
        });
        stage.at(120).await;
        assert_eq!(stage.ask(get("/hidden")).await.how(), (404, "mirror"));
        stage.order(Order::Wake { site: None }).await;
        stage.pass(secs(180)).await;
        assert_eq!(stage.state(), "asleep");
        assert_eq!(stage.ask(get("/hidden")).await.how(), (200, "held"));
    });
}

#[test]
fn what_is_purged_is_not_given_and_comes_back() {
    mirrored(awake(), |_| {}).play(async |stage| {
        crawled(stage).await;
        let (places, site) = (vec!["/page/3.html".to_owned()], None);
        let purge = Order::Purge { site, places, prefix: false, all: false };
        assert!(matches!(stage.order(purge).await, Reply::Purged(1)));
        assert_eq!(stage.ask(get("/page/4.html")).await.how(), (200, "mirror"));
        assert_eq!(stage.ask(get("/page/3.html")).await.how(), (200, "held"));
        stage.pass(secs(120)).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 2)));
        assert_eq!(stage.ask(get("/page/3.html")).await.how(), (200, "mirror"));
    });
}

#[test]
fn the_server_is_woken_once_in_max_age_if_nobody_did_and_nothing_becomes_too_old() {
    mirrored(awake(), |mirror| mirror.max_age = secs(3600)).play(async |stage| {
        crawled(stage).await;
        stage.at(3000).await;
        assert_eq!(stage.commands().0, 0);
        for hour in 1..=3 {
            stage.at(hour * 3600 + 120).await;
            assert_eq!((stage.state().as_str(), stage.commands().0), ("asleep", hour as u32));
            assert_eq!(stage.ask(get("/page/9.html")).await.how(), (200, "mirror"));
        }
        let confirmed = stage.origin.seen();
        let asked = confirmed.iter().filter(|seen| seen.target == "/page/9.html");
        let tags: Vec<Option<&str>> = asked.map(|seen| seen.field("if-none-match")).collect();
        assert_eq!(tags, [None, Some("\"9\""), Some("\"9\""), Some("\"9\"")]);
    });
}

#[test]
fn a_pass_does_not_keep_the_server_awake_for_longer_than_the_extension() {
    let slow = mirrored(awake(), |mirror| {
        mirror.rate = 0.5;
        mirror.extension = secs(20);
    });
    slow.play(async |stage| {
        stage.origin.script(site);
        // It may sleep at 60, and waits until 80.
        stage.at(79).await;
        assert_eq!(stage.state(), "awake");
        stage.at(90).await;
        assert_eq!(stage.state(), "asleep");
        let before = stage.origin.seen().len();
        assert!((30..60).contains(&before), "{before}");
        // The next time it goes on where it was.
        stage.order(Order::Wake { site: None }).await;
        stage.pass(secs(60)).await;
        let mut targets: Vec<String> =
            stage.origin.seen().into_iter().map(|seen| seen.target).collect();
        let all = targets.len();
        assert!(all > before + 10, "{all}");
        targets.sort();
        targets.dedup();
        assert_eq!(targets.len(), all, "nothing twice");
    });
}

#[test]
fn the_operator_names_the_host_and_the_proxies_in_front_report_the_scheme() {
    let setup = mirrored(asleep(), |mirror| mirror.url = None);
    let setup = setup.site(|site| site.hosts = vec!["blog".to_owned(), "other".to_owned()]);
    told_by_proxies(setup).play(async |stage| {
        stage.origin.script(site);
        let by_tls = |ask: Ask| ask.field("X-Forwarded-Proto", "https");
        assert_eq!(stage.ask(get("/").host("evil")).await.how(), (421, "refused"));
        assert_eq!(stage.ask(get("/").host("other")).await.how(), (200, "held"));
        assert_eq!(stage.ask(by_tls(get("/page/9.html"))).await.how(), (200, "server"));
        stage.pass(secs(120)).await;
        assert_eq!(stage.state(), "asleep");
        let status = stage.running_status().sites[0].mirror.clone().unwrap();
        assert_eq!(status.url.as_deref(), Some("https://blog"));
        assert_eq!(stage.ask(by_tls(get("/page/8.html"))).await.how(), (200, "mirror"));
        for ask in [get("/page/8.html"), by_tls(get("/page/8.html").host("other"))] {
            assert_eq!(
                stage.ask(ask).await.how(),
                (200, "held"),
                "the server may show other pages"
            );
            stage.pass(secs(120)).await;
        }
    });
}

#[test]
fn without_a_host_in_the_configuration_there_is_no_mirror() {
    mirrored(asleep(), |mirror| mirror.url = None).play(async |stage| {
        stage.origin.script(site);
        assert_eq!(stage.ask(get("/").host("evil.example")).await.how(), (200, "held"));
        stage.pass(secs(120)).await;
        assert_eq!(stage.state(), "asleep");
        assert!(stage.running_status().sites[0].mirror.is_none());
        let own = stage.origin.seen().into_iter().filter(|it| it.target == "/robots.txt");
        assert_eq!(own.count(), 0);
    });
}

/// Asks something about the only mirror.
pub(crate) async fn order(stage: &Stage, ask: MirrorOrder) -> MirrorReply {
    match stage.order(Order::Mirror { site: None, ask }).await {
        Reply::Mirror(reply) => *reply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_operator_sees_what_is_mirrored_and_why_not_and_has_it_confirmed() {
    let setup = mirrored(awake(), |mirror| mirror.exclude = vec!["/page/5.html".to_owned()]);
    setup.play(async |stage| {
        crawled(stage).await;
        let MirrorReply::Status(all) = order(stage, MirrorOrder::Status).await else { panic!() };
        let [it] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((it.site.as_str(), it.url.as_deref()), ("blog", Some("http://blog")));
        assert!(it.pages > PAGES && it.bytes > 0 && it.last_pass_s_ago.is_some(), "{it:?}");
        assert_eq!(it.not_mirrored.get("operator"), Some(&1));
        for (address, reason, words) in [
            ("/page/5.html", Some("operator"), "excluded"),
            ("/page/6.html", None, "it is mirrored"),
            ("/cart", Some("action"), "changes something"),
            ("/elsewhere", None, "no page"),
        ] {
            let ask = MirrorOrder::Explain { address: address.to_owned() };
            let MirrorReply::Explained(it) = order(stage, ask).await else { panic!() };
            assert_eq!(it.reason.as_deref(), reason, "{address}");
            assert!(it.why.contains(words), "{it:?}");
            assert_eq!(it.is_mirrored, address == "/page/6.html");
        }
        let places = vec!["/page/7".to_owned()];
        let outdated = order(stage, MirrorOrder::Refresh { places }).await;
        assert_eq!(outdated, MirrorReply::Outdated { pages: 1 + 10 }, "7, and 70 to 79");
        assert_eq!(stage.ask(get("/page/8.html")).await.how(), (200, "mirror"));
        assert_eq!(stage.ask(get("/page/7.html")).await.how(), (200, "held"));
        stage.pass(secs(120)).await;
        assert_eq!(stage.ask(get("/page/70.html")).await.how(), (200, "mirror"), "confirmed");
    });
}

#[test]
fn what_was_said_to_have_changed_is_not_given_after_a_restart_either() {
    mirrored(awake(), |_| {}).play(async |stage| {
        crawled(stage).await;
        let places = vec!["/page/7.html".to_owned()];
        order(stage, MirrorOrder::Refresh { places }).await;
        stage.stop().await;
        stage.start();
        stage.looked().await;
        stage.pass(secs(5)).await;
        assert_eq!(stage.ask(get("/page/8.html")).await.how(), (200, "mirror"));
        assert_eq!(stage.ask(get("/page/7.html")).await.how(), (200, "held"));
    });
}

#[test]
fn a_site_without_a_mirror_is_not_crawled() {
    awake().play(async |stage| {
        stage.origin.script(site);
        stage.at(120).await;
        assert!(stage.origin.seen().is_empty());
        assert!(stage.now() >= Mono::from_secs(120));
    });
}

#[test]
fn what_is_purged_to_be_refreshed_is_fetched_at_once() {
    mirrored(awake(), |_| {}).play(async |stage| {
        crawled(stage).await;
        let places = vec!["/page/3".to_owned()];
        let purge = Order::Purge { site: None, places, prefix: true, all: false };
        assert!(matches!(stage.order(purge).await, Reply::Purged(11)), "3, and 30 to 39");
        stage.pass(secs(30)).await;
        assert_eq!(stage.commands(), (0, 1), "a purge alone wakes no server");
        assert_eq!(order(stage, MirrorOrder::Fetch).await, MirrorReply::Done);
        stage.pass(secs(120)).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 2)));
        assert_eq!(stage.ask(get("/page/33.html")).await.how(), (200, "mirror"));
        order(stage, MirrorOrder::Fetch).await;
        stage.pass(secs(30)).await;
        assert_eq!(stage.commands(), (1, 2), "nothing is due");
    });
}

#[test]
fn a_program_with_the_token_reports_changes_and_may_do_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    reported(dir.path()).play(async |stage| {
        crawled(stage).await;
        let report = |path: &str, token: &str| {
            let ask = post(&format!("/api/v1/sites/blog/{path}"), "");
            ask.field("Authorization", &format!("Bearer {token}"))
        };
        for (path, token, status) in [
            ("changed", "let-me-in", 401),
            ("wake", "let-me-tell-you", 403),
            ("changed?paths=/page/3.html", "let-me-tell-you", 400),
            ("changed?path=/page/3.html&path=%2Fpage%2F4.html", "let-me-tell-you", 200),
        ] {
            let got = stage.ask_admin(report(path, token)).await;
            assert_eq!(got.status, status, "{path} {token}: {}", got.text());
            let is_about_token = got.text().contains("`token_file`");
            assert_eq!(is_about_token, status == 401, "{path} {token}: {}", got.text());
        }
        let without = stage.ask_admin(post("/api/v1/sites/blog/changed", "")).await;
        assert_eq!(without.status, 401, "{}", without.text());
        assert!(without.text().contains("Bearer TOKEN"), "{}", without.text());
        stage.pass(secs(120)).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 2)));
        let asked = stage.origin.seen().into_iter().filter(|it| it.target == "/page/4.html");
        assert_eq!(asked.count(), 2);
        assert_eq!(stage.ask(get("/page/4.html")).await.how(), (200, "mirror"));
    });
}

#[test]
fn coverage_counts_people_and_the_ledger_what_the_mirror_costs() {
    mirrored(awake(), |mirror| mirror.max_age = secs(3600)).play(async |stage| {
        crawled(stage).await;
        let status = |stage: &Stage| stage.running_status().sites[0].mirror.clone().unwrap();
        assert_eq!((status(stage).coverage, status(stage).requests), (None, 0));
        for address in ["/", "/page/1.html", "/page/2.html"] {
            stage.ask(get(address).by_browser()).await;
        }
        stage.ask(get("/page/1.html").agent(CRAWLER)).await;
        stage.ask(get("/elsewhere").agent(BROWSER)).await;
        stage.ask(get("/page/1.html").by_browser().field("Cookie", "session=1")).await;
        let it = status(stage);
        assert_eq!((it.coverage, it.requests), (Some(0.75), 4), "{it:?}");
        assert_eq!((it.own_wakeups, it.own_energy.joules.get()), (0, 0.0));
        stage.at(5400).await;
        assert_eq!(stage.state(), "asleep");
        let it = status(stage);
        assert_eq!(it.own_wakeups, 1);
        // Awake for `min_on`, for nothing but the mirror; 43.3 W instead of 1.6 W, and one cycle of 170.7 J.
        assert!((58.0..70.0).contains(&it.own_awake_s), "{}", it.own_awake_s);
        let modelled = 41.7 * it.own_awake_s + 170.7;
        assert!((it.own_energy.joules.get() - modelled).abs() < 0.1, "{it:?}");
    });
}
