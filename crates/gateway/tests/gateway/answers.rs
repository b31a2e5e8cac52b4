//! In which order answers are looked for: cache, server, what needs no server, wake-up.

use nightwatt_energy::time::Mono;
use nightwatt_gateway::config::SiteConfig;

use crate::client::{CRAWLER, Client, ask, get, post};
use crate::origin::{ok, status};
use crate::stage::{asleep, awake, secs, timeout};

/// The request wakes the server, which answers; then the server sleeps again.
const CYCLE: u64 = 70;

#[test]
fn a_fresh_answer_is_given_while_the_server_sleeps_and_goes_on_sleeping() {
    asleep().play(async |stage| {
        stage.origin.says(ok("news").field("Cache-Control", "max-age=3600"));
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "held"));
        stage.at(CYCLE).await;
        assert_eq!(stage.state(), "asleep");
        stage.at(605).await;
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((200, "cache"), "news"));
        // RFC 9111, 5.1: stored at second 5.
        assert_eq!(got.seconds("age"), 600);
        assert_eq!(got.field("cache-status"), Some("nightwatt; hit; ttl=3000"));
        assert_eq!(stage.now(), Mono::from_secs(605));
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 1)));
        assert_eq!(stage.origin.lines(), ["GET /a"]);
    });
}

#[test]
fn a_stale_answer_within_grace_is_given_while_the_server_sleeps() {
    asleep().play(async |stage| {
        stage.origin.says(ok("news").field("Cache-Control", "max-age=60"));
        stage.ask(get("/a")).await;
        stage.at(3605).await;
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((200, "stale"), "news"));
        assert_eq!(got.seconds("age"), 3600);
        // RFC 9211, 2.2: a negative ttl says that it was stale.
        assert_eq!(got.field("cache-status"), Some("nightwatt; hit; ttl=-3540"));
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 1)));
    });
}

#[test]
fn beyond_grace_the_server_is_woken() {
    asleep().with(|config| config.scenario.cache.grace_asleep = secs(600)).play(async |stage| {
        stage.origin.says(ok("news").field("Cache-Control", "max-age=60").field("ETag", "\"1\""));
        stage.ask(get("/a")).await;
        stage.at(5 + 60 + 600).await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "stale"), "the last second of grace");
        stage.at(5 + 60 + 601).await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "held"));
        assert_eq!(stage.now(), Mono::from_secs(666 + 5));
        assert_eq!(stage.commands().0, 2);
    });
}

#[test]
fn an_awake_server_confirms_a_stale_answer_and_its_new_fields_are_served() {
    awake().with(|config| config.scenario.policy = timeout(86_400)).play(async |stage| {
        stage.origin.script(|seen| {
            let now = seen.field("if-none-match").map(str::to_owned);
            let says = match now.as_deref() {
                Some("\"1\"") => status(304, "").field("X-Version", "2"),
                _ => ok("news").field("X-Version", "1"),
            };
            says.field("Cache-Control", "max-age=60").field("ETag", "\"1\"").acts()
        });
        assert_eq!(stage.ask(get("/a")).await.field("x-version"), Some("1"));
        stage.at(61).await;
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((200, "server"), "news"));
        assert_eq!(got.field("x-version"), Some("2"));
        let why = got.field("cache-status").unwrap();
        assert!(why.contains("fwd=stale") && why.contains("fwd-status=304"), "{why}");
        stage.at(120).await;
        let again = stage.ask(get("/a")).await;
        assert_eq!((again.how(), again.field("x-version")), ((200, "cache"), Some("2")));
        assert_eq!(again.seconds("age"), 59);
        assert_eq!(stage.origin.seen().len(), 2);
    });
}

#[test]
fn a_crawler_is_sent_away_with_a_time_at_which_it_is_answered() {
    asleep().play(async |stage| {
        let got = stage.ask(get("/deep").agent(CRAWLER)).await;
        assert_eq!(got.how(), (503, "crawler"));
        let after = got.seconds("retry-after");
        assert!(after <= 86_400, "{after}");
        // Noon to 03:00, and somewhere in the ten minutes that the window is open.
        assert!((54_000..54_600).contains(&after), "{after}");
        assert_eq!(stage.commands(), (0, 0));
        stage.at(53_994).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
        stage.at(54_000).await;
        assert_eq!(stage.state(), "awake", "woken for the window, without anybody asking");
        stage.at(after).await;
        assert_eq!(stage.ask(get("/deep").agent(CRAWLER)).await.how(), (200, "server"));
        stage.at(54_599).await;
        assert_eq!(stage.state(), "awake", "kept up to the end of the window");
        stage.at(54_610).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 1)));
        stage.at(54_000 + 86_400).await;
        assert_eq!(stage.commands(), (1, 1), "the next night nobody was invited");
    });
}

#[test]
fn many_crawlers_are_all_answered_in_one_window() {
    asleep().play(async |stage| {
        let mut due = Vec::new();
        for hour in 0..10 {
            stage.at(hour * 3600).await;
            let page = format!("/{hour}");
            let after = stage.ask(get(&page).agent(CRAWLER)).await.seconds("retry-after");
            due.push((hour * 3600 + after, page));
        }
        due.sort();
        for (second, page) in due {
            stage.at(second).await;
            let got = stage.ask(get(&page).agent(CRAWLER)).await;
            // The proxy fetched it as soon as the window opened; it may be stale by now.
            assert!(matches!(got.how(), (200, "cache" | "server")), "{got:?}");
        }
        assert_eq!(stage.commands(), (1, 0));
    });
}

#[test]
fn a_crawler_gets_what_is_stale_and_304_for_what_it_has() {
    asleep().play(async |stage| {
        stage.origin.says(ok("news").field("Cache-Control", "max-age=60").field("ETag", "\"1\""));
        stage.ask(get("/a")).await;
        stage.at(1000).await;
        assert_eq!(stage.ask(get("/a").agent(CRAWLER)).await.how(), (200, "stale"));
        let has = get("/a").agent(CRAWLER).field("If-None-Match", "\"1\"");
        assert_eq!(stage.ask(has).await.how(), (304, "not-modified"));
        assert_eq!(stage.commands(), (1, 1));
    });
}

#[test]
fn scanners_monitors_and_icons_wake_nobody() {
    asleep().play(async |stage| {
        let refused = stage.ask(get("/wp-login.php")).await;
        assert_eq!((refused.how(), refused.seconds("retry-after")), ((503, "scanner"), 3600));
        assert_eq!(stage.ask(get("/.env")).await.how(), (503, "scanner"));
        assert_eq!(stage.ask(get("/healthz")).await.how(), (200, "monitor"));
        let robot = get("/").agent("Mozilla/5.0+(compatible; UptimeRobot/2.0)");
        assert_eq!(stage.ask(robot).await.how(), (200, "monitor"));
        let icon = stage.ask(get("/favicon.ico").by_browser()).await;
        assert_eq!((icon.how(), icon.body.len()), ((204, "monitor"), 0));
        stage.at(86_000).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
        assert_eq!(stage.origin.seen().len(), 0);
    });
}

#[test]
fn who_keeps_asking_for_what_is_not_there_loses_the_right_to_wake() {
    // For a day after the last miss; for a program that asks for nothing that scanners do, a quarter of an hour.
    for (agent, lasts) in
        [("Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", 86_400), ("curl/8", 900)]
    {
        awake().play(async |stage| {
            stage.origin.says(status(404, "no"));
            for n in 0..10 {
                let got = stage.ask(get(&format!("/guess/{n}")).agent(agent)).await;
                assert_eq!(got.status, 404);
            }
            stage.at(200).await;
            assert_eq!(stage.state(), "asleep");
            // Whether it is there is not looked up.
            let refused = stage.ask(get("/one/more").agent(agent)).await;
            let waits = refused.seconds("retry-after");
            assert_eq!((refused.how(), waits), ((503, "scanner"), lasts - 200), "{agent}");
            assert_eq!(stage.commands().0, 0);
        });
    }
}

#[test]
fn a_browser_gets_a_page_that_waits_and_finds_the_server_awake() {
    asleep().play(async |stage| {
        let page = stage.ask(get("/blog").by_browser()).await;
        assert_eq!(page.how(), (503, "waiting-page"));
        assert_eq!(page.field("cache-control"), Some("no-store"));
        assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(page.seconds("retry-after"), 5);
        assert!(page.text().contains("/.nightwatt/state"), "{}", page.text());
        assert!(!page.text().contains("{{"), "everything is filled in");
        let state = |got: crate::client::Got| {
            assert_eq!((got.status, got.field("cache-control")), (200, Some("no-store")));
            let json: serde_json::Value = serde_json::from_str(got.text()).unwrap();
            json["state"].as_str().unwrap().to_owned()
        };
        let look = || get("/.nightwatt/state").by_browser();
        assert_eq!(state(stage.ask(look()).await), "waking");
        stage.at(6).await;
        assert_eq!(state(stage.ask(look()).await), "awake");
        assert_eq!(stage.ask(get("/blog").by_browser()).await.how(), (200, "server"));
        assert_eq!((stage.origin.lines(), stage.commands()), (vec!["GET /blog".into()], (1, 0)));
    });
}

#[test]
fn the_state_is_not_for_the_cache_nor_for_the_server() {
    awake().play(async |stage| {
        assert_eq!(stage.ask(get("/.nightwatt/state")).await.how(), (200, "state"));
        assert_eq!(stage.origin.seen().len(), 0);
    });
}

#[test]
fn where_the_waiting_page_is_switched_off_browsers_are_held() {
    asleep().site(|site| site.waiting_page = false).play(async |stage| {
        assert_eq!(stage.ask(get("/").by_browser()).await.how(), (200, "held"));
        assert_eq!(stage.now(), Mono::from_secs(5));
    });
}

#[test]
fn the_waiting_page_is_about_this_moment_and_says_what_it_is_told_to() {
    let german = |site: &mut SiteConfig| {
        site.waiting_texts.heading = "Einen <Moment>".to_owned();
        site.waiting_texts.lang = "de".to_owned();
    };
    asleep().site(german).play(async |stage| {
        let got = stage.ask(get("/a?b=c").by_browser()).await;
        assert_eq!(got.how(), (503, "waiting-page"));
        assert_eq!((got.field("cache-control"), got.seconds("retry-after")), (Some("no-store"), 5));
        let page = got.text();
        assert!(
            page.contains("<html lang=\"de\">") && page.contains("Einen &lt;Moment&gt;"),
            "{page}"
        );
        // Without JavaScript it asks again after as long as waking takes; the address is the page's own.
        assert!(page.contains("<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>"));
        // What changes something is never sent again by a page.
        assert_eq!(stage.ask(post("/a", "x").by_browser()).await.how(), (200, "held"));
    });
}

#[test]
fn programs_that_read_json_get_problems_as_json() {
    let broke = |site: &mut SiteConfig| site.wakes_per_client_and_hour = 0;
    asleep().site(broke).play(async |stage| {
        let asked = get("/api").field("Accept", "application/json");
        let got = stage.ask(asked).await;
        assert_eq!(got.how(), (503, "budget"));
        assert_eq!(got.field("content-type"), Some("application/problem+json"));
        assert_eq!(got.field("cache-control"), Some("no-store"));
        assert!(got.seconds("retry-after") > 0);
        // RFC 9457, 3.1: these members, and the status that was sent.
        let problem: serde_json::Value = serde_json::from_str(got.text()).unwrap();
        assert_eq!(problem["status"], 503);
        assert_eq!(problem["title"], "Service Unavailable");
        assert_eq!(problem["type"], "about:blank");
        assert!(problem["detail"].as_str().unwrap().contains("woken the server too often"));
        // A browser that takes JSON, too, is no program; nor is who does not say.
        for accept in ["text/html,application/json", "*/*", "application/json;q=0"] {
            let got = stage.ask(get("/api").field("Accept", accept)).await;
            assert_eq!(got.field("content-type"), Some("text/plain; charset=utf-8"), "{accept}");
        }
    });
}

#[test]
fn a_script_that_fetches_a_fragment_is_held_and_shown_no_page() {
    asleep().play(async |stage| {
        let fetch = get("/part").by_browser().field("Sec-Fetch-Dest", "empty");
        assert_eq!(stage.ask(fetch).await.how(), (200, "held"));
    });
}

#[test]
fn only_if_cached_never_wakes() {
    asleep().play(async |stage| {
        // RFC 9111, 5.2.1.7: a stored response, or 504.
        let got = stage.ask(get("/a").field("Cache-Control", "only-if-cached")).await;
        assert_eq!(got.status, 504);
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn a_reload_while_the_server_sleeps_is_answered_from_the_cache() {
    asleep().play(async |stage| {
        stage.origin.says(ok("news").field("Cache-Control", "max-age=3600"));
        stage.ask(get("/a")).await;
        stage.at(100).await;
        let reload = get("/a").field("Cache-Control", "no-cache").field("Pragma", "no-cache");
        assert_eq!(stage.ask(reload).await.how(), (200, "stale"));
        assert_eq!(stage.commands().0, 1);
    });
}

#[test]
fn what_the_origin_wants_validated_is_not_served_stale() {
    asleep().play(async |stage| {
        let says = ok("account").field("Cache-Control", "max-age=10, must-revalidate");
        stage.origin.says(says);
        stage.ask(get("/a")).await;
        stage.at(100).await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "held"));
        assert_eq!(stage.commands().0, 2);
    });
}

#[test]
fn a_failed_server_is_not_called_healthy() {
    asleep().power(|power| power.never_wakes = true).play(async |stage| {
        assert_eq!(stage.ask(get("/")).await.status, 504, "held for two minutes");
        stage.at(400).await;
        assert_eq!(stage.state(), "failed");
        let got = stage.ask(get("/healthz")).await;
        assert_eq!(got.status, 503, "{}", got.text());
    });
}

#[test]
fn two_that_ask_for_the_same_share_one_request_to_the_server() {
    awake().play(async |stage| {
        let gate = crate::origin::Gate::shut();
        let waits = gate.clone();
        stage.origin.script(move |_| {
            let says = ok("news").field("Cache-Control", "max-age=60").bytes();
            vec![crate::origin::Act::Await(waits.clone()), crate::origin::Act::Say(says)]
        });
        let mut one = stage.begin(get("/a")).await;
        let mut other = stage.begin(get("/a")).await;
        gate.open();
        gate.open();
        assert_eq!(one.answer().await.text(), "news");
        assert_eq!(other.answer().await.text(), "news");
        assert_eq!(stage.origin.lines(), ["GET /a"]);
    });
}

#[test]
fn stale_while_revalidate_revalidates() {
    awake().with(|config| config.scenario.policy = timeout(86_400)).play(async |stage| {
        let says = ok("news").field("Cache-Control", "max-age=60, stale-while-revalidate=600");
        stage.origin.says(says);
        stage.ask(get("/a")).await;
        stage.at(100).await;
        let got = stage.ask(get("/a")).await;
        // RFC 5861, 3: served stale, and revalidated in the background.
        assert_eq!((got.status, got.seconds("age")), (200, 100));
        stage.at(110).await;
        assert_eq!(stage.origin.seen().len(), 2, "asked for in the background");
        assert_eq!(stage.ask(get("/a")).await.seconds("age"), 10);
    });
}

#[test]
fn what_was_served_stale_is_refreshed_when_the_server_is_awake_anyway() {
    asleep().play(async |stage| {
        stage.origin.says(ok("news").field("Cache-Control", "max-age=60"));
        stage.ask(get("/a")).await;
        stage.at(1000).await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "stale"));
        stage.ask(post("/other", "x")).await;
        stage.at(1010).await;
        let got = stage.ask(get("/a")).await;
        assert_eq!(got.how(), (200, "cache"));
        let mut lines = stage.origin.lines();
        lines.sort();
        assert_eq!(lines, ["GET /a", "GET /a", "POST /other"]);
    });
}

#[test]
fn a_head_request_needs_no_page() {
    asleep().play(async |stage| {
        let mut client = Client::connect(stage).await;
        client.send(&ask("HEAD", "/").by_browser()).await;
        assert_eq!(client.answer().await.how(), (200, "held"));
    });
}
