//! Warm-up: while the server is awake, the cache is made to last through the next sleep.

use nightwatt_energy::time::Mono;
use nightwatt_gateway::control::{Order, Reply};

use crate::client::{CRAWLER, get, post};
use crate::origin::{Act, Gate, Says, Seen, ok, status};
use crate::stage::{Setup, Stage, asleep, awake, secs, settle, timeout};

/// With so much grace what has been stale for five minutes is to be renewed.
fn ten_minutes(setup: Setup) -> Setup {
    setup.with(|config| config.scenario.cache.grace_asleep = secs(600))
}

/// Half of it is thirty seconds.
fn one_minute(setup: Setup) -> Setup {
    setup.with(|config| config.scenario.cache.grace_asleep = secs(60))
}

fn fresh_for(seconds: u64) -> Says {
    ok("news").field("Cache-Control", &format!("max-age={seconds}"))
}

/// A server that confirms what it once said, and is asked in vain for nothing.
fn confirms(seen: &Seen) -> Vec<Act> {
    let says =
        if seen.field("if-none-match") == Some("\"1\"") { status(304, "") } else { ok("news") };
    says.field("Cache-Control", "max-age=60").field("ETag", "\"1\"").acts()
}

/// A request that wakes the server. Its answer is not kept.
async fn wake(stage: &Stage) {
    stage.ask(post("/wake", "x")).await;
}

fn is_ours(seen: &Seen) -> bool {
    seen.field("x-request-id").is_some_and(|id| id.starts_with(nightwatt_gateway::REFRESH_ID))
}

/// What the proxy asked by itself, and when.
fn ours(stage: &Stage) -> Vec<(String, Mono)> {
    let seen = stage.origin.seen();
    seen.iter().filter(|seen| is_ours(seen)).map(|seen| (seen.target.clone(), seen.at)).collect()
}

fn our_targets(stage: &Stage) -> Vec<String> {
    ours(stage).into_iter().map(|(target, _)| target).collect()
}

#[test]
fn what_is_half_through_its_grace_is_renewed_and_lasts_through_the_sleep() {
    ten_minutes(asleep()).play(async |stage| {
        stage.origin.script(confirms);
        stage.ask(get("/a")).await;
        // Stored at 5, stale since 65, by half of its grace since 365.
        stage.at(400).await;
        wake(stage).await;
        assert_eq!(stage.now(), Mono::from_secs(405));
        stage.at(464).await;
        assert_eq!(ours(stage), [("/a".to_owned(), Mono::from_secs(406))]);
        let renewal = stage.origin.seen().pop().unwrap();
        assert_eq!(renewal.field("if-none-match"), Some("\"1\""), "asked whether it still holds");
        assert!(renewal.field("user-agent").unwrap().starts_with("nightwatt/"));
        // It had a minute after waking, and gets no second more.
        stage.at(465).await;
        assert_eq!(stage.commands(), (2, 2));
        // Its old grace would have ended at 665; the new one began at 466.
        stage.at(1066).await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "stale"));
        stage.at(1067).await;
        assert_eq!(stage.commands().0, 2, "nobody was woken for it");
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "held"));
    });
}

#[test]
fn without_warm_up_the_grace_ends_as_it_began() {
    let without = ten_minutes(asleep()).with(|config| config.scenario.cache.warm_up = 0);
    without.play(async |stage| {
        stage.origin.script(confirms);
        stage.ask(get("/a")).await;
        stage.at(400).await;
        wake(stage).await;
        stage.at(666).await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "held"));
        assert!(ours(stage).is_empty());
    });
}

#[test]
fn what_comes_due_while_the_server_is_awake_is_renewed_then_and_does_not_keep_it_up() {
    one_minute(awake()).play(async |stage| {
        // Due at 28 + 30, two seconds before the server may sleep.
        stage.origin.says(fresh_for(28));
        stage.ask(get("/a")).await;
        stage.at(57).await;
        assert_eq!(ours(stage), []);
        stage.at(59).await;
        assert_eq!(ours(stage), [("/a".to_owned(), Mono::from_secs(58))]);
        assert_eq!(stage.commands(), (0, 0));
        stage.at(60).await;
        assert_eq!(stage.commands(), (0, 1), "five seconds after it would be 63");
    });
}

#[test]
fn what_is_less_than_half_through_its_grace_is_left_alone() {
    one_minute(awake()).play(async |stage| {
        stage.origin.says(fresh_for(31));
        stage.ask(get("/a")).await;
        stage.at(200).await;
        assert_eq!((ours(stage).len(), stage.commands()), (0, (0, 1)));
    });
}

#[test]
fn the_most_asked_for_is_renewed_first_and_no_more_than_the_bound() {
    let two = ten_minutes(awake()).with(|config| {
        config.scenario.cache.warm_up = 2;
        config.scenario.policy = timeout(86_400);
    });
    two.play(async |stage| {
        stage.origin.says(fresh_for(60));
        for page in ["/once", "/thrice", "/twice", "/thrice", "/twice", "/thrice"] {
            stage.ask(get(page)).await;
        }
        // All due at 360, but looked for at most as often as half the grace / 32 says.
        stage.at(400).await;
        assert_eq!(our_targets(stage), ["/thrice", "/twice"]);
        // The bound is for five minutes of being awake: 1 to 301 to 601.
        stage.at(600).await;
        assert_eq!(our_targets(stage).len(), 2);
        stage.at(602).await;
        assert_eq!(our_targets(stage)[2..], ["/once"]);
    });
}

#[test]
fn each_awake_period_has_its_bound() {
    let one = ten_minutes(asleep()).with(|config| config.scenario.cache.warm_up = 1);
    one.play(async |stage| {
        stage.origin.says(fresh_for(60));
        for page in ["/a", "/b", "/b"] {
            stage.ask(get(page)).await;
        }
        for (second, renewed) in [(400, vec!["/b"]), (500, vec!["/b", "/a"])] {
            stage.at(second).await;
            stage.origin.says(fresh_for(60));
            wake(stage).await;
            stage.at(second + 80).await;
            assert_eq!(stage.state(), "asleep");
            assert_eq!(our_targets(stage), renewed);
        }
    });
}

#[test]
fn what_nobody_asks_for_any_more_is_renewed_28_times() {
    let setup = one_minute(awake()).with(|config| config.scenario.policy = timeout(864_000));
    setup.play(async |stage| {
        stage.origin.says(fresh_for(10));
        stage.ask(get("/a")).await;
        stage.at(10_000).await;
        assert_eq!(our_targets(stage).len(), 28);
    });
}

#[test]
fn a_crawler_that_was_sent_away_finds_its_page_next_time_though_the_server_sleeps() {
    asleep().play(async |stage| {
        stage.origin.says(fresh_for(60));
        let crawler = || get("/deep").agent(CRAWLER).field("From", "googlebot(at)googlebot.com");
        assert_eq!(stage.ask(crawler()).await.how(), (503, "crawler"));
        stage.at(100).await;
        wake(stage).await;
        stage.at(200).await;
        assert_eq!(ours(stage), [("/deep".to_owned(), Mono::from_secs(106))]);
        let seen = stage.origin.seen().pop().unwrap();
        assert!(seen.field("user-agent").unwrap().starts_with("nightwatt/"));
        // Not of the server's own network, where it may show more than to strangers (RFC 5737).
        assert_eq!(seen.field("x-forwarded-for"), Some("192.0.2.1"));
        assert_eq!((seen.field("from"), seen.field("cookie")), (None, None));
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 1)));
        assert_eq!(stage.ask(crawler()).await.how(), (200, "stale"));
        assert_eq!(stage.ask(get("/deep").by_browser()).await.how(), (200, "stale"));
        assert_eq!(stage.commands().0, 1);
    });
}

#[test]
fn nothing_personal_is_wished_for_or_kept_for_a_wish() {
    asleep().play(async |stage| {
        stage.origin.script(|seen| match seen.target.as_str() {
            "/cookie" => fresh_for(60).field("Set-Cookie", "session=1").acts(),
            "/private" => ok("mine").field("Cache-Control", "private, max-age=60").acts(),
            "/nothing" => ok("mine").field("Cache-Control", "no-store").acts(),
            _ => fresh_for(60).acts(),
        });
        let crawler = |path: &str| get(path).agent(CRAWLER);
        let asked = [
            crawler("/mine").field("Cookie", "session=1"),
            crawler("/mine").field("Authorization", "Bearer x"),
            crawler("/mine").field("Range", "bytes=0-1"),
            crawler("/mine").field("Cache-Control", "no-store"),
            crawler("/cookie"),
            crawler("/private"),
            crawler("/nothing"),
        ];
        for ask in asked {
            assert_eq!(stage.ask(ask).await.how(), (503, "crawler"));
        }
        wake(stage).await;
        stage.at(100).await;
        let mut targets = our_targets(stage);
        targets.sort();
        assert_eq!(targets, ["/cookie", "/nothing", "/private"]);
        assert_eq!(stage.status().cache.0, 0);
        for path in ["/cookie", "/private", "/nothing"] {
            assert_eq!(stage.ask(crawler(path)).await.how(), (503, "crawler"), "{path}");
        }
    });
}

#[test]
fn crawlers_wishes_can_be_left_alone() {
    asleep().with(|config| config.scenario.cache.warm_up_crawlers = false).play(async |stage| {
        stage.ask(get("/deep").agent(CRAWLER)).await;
        wake(stage).await;
        stage.at(100).await;
        assert_eq!(ours(stage), []);
    });
}

#[test]
fn whoever_wishes_for_everything_gets_no_more_than_the_bound() {
    asleep().with(|config| config.scenario.cache.warm_up = 5).play(async |stage| {
        stage.origin.says(fresh_for(60));
        stage.ask(get("/wanted").agent(CRAWLER)).await;
        stage.ask(get("/wanted").agent(CRAWLER)).await;
        for number in 0..50 {
            stage.ask(get(&format!("/{number}")).agent(CRAWLER)).await;
        }
        wake(stage).await;
        stage.at(100).await;
        let mut targets = our_targets(stage);
        assert_eq!(targets.remove(0), "/wanted", "asked for twice");
        assert_eq!(targets, ["/49", "/48", "/47", "/46"], "the newest first");
    });
}

#[test]
fn a_wish_too_large_for_the_cache_is_not_read() {
    asleep().with(|config| config.scenario.cache.size_mb = 1).play(async |stage| {
        stage.origin.script(|_| {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 4000000000\r\n\r\nsome";
            vec![Act::Body, Act::Say(head.as_bytes().to_vec()), Act::Hang]
        });
        stage.ask(get("/film").agent(CRAWLER)).await;
        stage.order(Order::Wake { site: None }).await;
        // Time passes, so no client waits for the rest of it; and the server may sleep.
        stage.at(100).await;
        assert_eq!((our_targets(stage), stage.commands()), (vec!["/film".to_owned()], (1, 1)));
    });
}

#[test]
fn a_variant_is_renewed_for_those_who_asked_like_that() {
    ten_minutes(asleep()).play(async |stage| {
        stage.origin.script(|seen| {
            let language = seen.field("accept-language").unwrap_or("none");
            let vary = if seen.target == "/key" { "X-Api-Key" } else { "Accept-Language" };
            ok(language).field("Vary", vary).field("Cache-Control", "public, max-age=60").acts()
        });
        for language in ["de", "en"] {
            stage.ask(get("/a").field("Accept-Language", language)).await;
        }
        stage.ask(get("/key").field("X-Api-Key", "secret")).await;
        stage.at(400).await;
        wake(stage).await;
        stage.at(500).await;
        let seen = stage.origin.seen();
        let renewed = seen.iter().filter(|seen| is_ours(seen));
        let mut languages: Vec<_> =
            renewed.map(|seen| (seen.target.as_str(), seen.field("accept-language"))).collect();
        languages.sort_unstable();
        assert_eq!(languages, [("/a", Some("de")), ("/a", Some("en"))], "and nobody's key is used");
        stage.at(1066).await;
        for language in ["de", "en"] {
            let got = stage.ask(get("/a").field("Accept-Language", language)).await;
            assert_eq!((got.how(), got.text()), ((200, "stale"), language));
        }
    });
}

#[test]
fn a_renewal_that_fails_leaves_what_is_stored_and_is_not_tried_again_at_once() {
    let setup = ten_minutes(awake()).with(|config| config.scenario.policy = timeout(3000));
    setup.play(async |stage| {
        stage.origin.says(fresh_for(60));
        stage.ask(get("/a")).await;
        stage.origin.says(status(500, "no"));
        stage.at(370).await;
        assert_eq!(our_targets(stage).len(), 1);
        // An eighth of the grace later: 75 s.
        stage.at(434).await;
        assert_eq!(our_targets(stage).len(), 1);
        stage.at(454).await;
        assert_eq!(our_targets(stage).len(), 2);
        stage.order(Order::Sleep { site: None }).await;
        stage.at(660).await;
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((200, "stale"), "news"));
    });
}

#[test]
fn a_renewal_tells_that_a_page_is_gone_or_nobodys_any_more() {
    let gone = status(404, "gone");
    let mine = ok("mine").field("Cache-Control", "private");
    let secret = ok("mine").field("Cache-Control", "no-store");
    for (now, answer) in [(gone, (404, "stale")), (mine, (200, "held")), (secret, (200, "held"))] {
        ten_minutes(asleep()).play(async |stage| {
            stage.origin.says(fresh_for(60));
            stage.ask(get("/a")).await;
            stage.at(400).await;
            stage.origin.says(now.clone());
            wake(stage).await;
            stage.at(500).await;
            assert_eq!((our_targets(stage).len(), stage.state().as_str()), (1, "asleep"));
            assert_eq!(stage.ask(get("/a")).await.how(), answer);
        });
    }
}

#[test]
fn a_purge_wins_against_a_renewal_on_its_way() {
    one_minute(awake()).play(async |stage| {
        stage.origin.says(fresh_for(20));
        stage.ask(get("/a")).await;
        let gate = Gate::shut();
        let shut = gate.clone();
        stage.origin.script(move |_| {
            let mut acts = vec![Act::Await(shut.clone())];
            acts.extend(fresh_for(3600).acts());
            acts
        });
        stage.origin.saw(2).await;
        let everything = Order::Purge { site: None, places: vec![], prefix: false, all: true };
        let reply = stage.order(everything).await;
        assert!(matches!(reply, Reply::Purged(1)), "{reply:?}");
        gate.open();
        stage.at(80).await;
        assert_eq!((stage.state().as_str(), stage.status().cache.0), ("asleep", 0));
    });
}

#[test]
fn a_server_told_to_sleep_ends_what_it_has_begun_and_begins_nothing() {
    one_minute(awake()).play(async |stage| {
        stage.origin.says(fresh_for(20));
        for page in ["/a", "/b", "/c", "/d"] {
            stage.ask(get(page)).await;
        }
        let gate = Gate::shut();
        let shut = gate.clone();
        stage.origin.script(move |_| {
            let mut acts = vec![Act::Await(shut.clone())];
            acts.extend(fresh_for(3600).acts());
            acts
        });
        stage.origin.saw(6).await;
        stage.order(Order::Sleep { site: None }).await;
        settle(&stage.clock).await;
        let status = stage.status();
        assert_eq!((status.state.as_str(), status.in_flight), ("awake", 0));
        assert_eq!(
            status.kept_awake_by.as_deref(),
            Some("copies of pages that are confirmed before it sleeps")
        );
        assert_eq!(stage.commands(), (0, 0));
        gate.open();
        gate.open();
        stage.at(70).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 1)));
        assert_eq!(ours(stage).len(), 2, "two at a time, and then no more");
        // Days pass: two answers are far beyond their grace, and no server is woken for them.
        stage.at(86_400 * 3).await;
        assert_eq!((ours(stage).len(), stage.commands()), (2, (0, 1)));
    });
}

#[test]
fn those_who_wait_go_first() {
    asleep().play(async |stage| {
        let gate = Gate::shut();
        let shut = gate.clone();
        stage.origin.script(move |seen| {
            let mut acts = vec![Act::Body];
            if seen.method == "POST" {
                acts.push(Act::Await(shut.clone()));
            }
            acts.push(Act::Say(fresh_for(60).bytes()));
            acts
        });
        stage.ask(get("/deep").agent(CRAWLER)).await;
        let mut client = stage.begin(post("/slow", "x")).await;
        client.lets_time_pass();
        stage.at(40).await;
        assert_eq!(stage.origin.lines(), ["POST /slow"]);
        gate.open();
        assert_eq!(client.answer().await.how(), (200, "held"));
        stage.at(41).await;
        assert_eq!(stage.origin.lines(), ["POST /slow", "GET /deep"]);
    });
}

#[test]
fn what_was_renewed_for_its_reader_is_not_renewed_twice() {
    ten_minutes(asleep()).play(async |stage| {
        stage.origin.says(ok("news").field("Cache-Control", "max-age=0"));
        stage.ask(get("/a")).await;
        stage.at(400).await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "stale"));
        wake(stage).await;
        stage.at(500).await;
        let mut lines = stage.origin.lines();
        lines.sort();
        assert_eq!(lines, ["GET /a", "GET /a", "POST /wake"]);
    });
}

#[test]
fn a_server_that_is_gone_is_not_asked_after_by_warm_up() {
    one_minute(awake()).play(async |stage| {
        stage.origin.says(fresh_for(20));
        stage.ask(get("/a")).await;
        stage.origin.down().await;
        stage.at(59).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("awake", (0, 0)));
        stage.at(60).await;
        assert_eq!(stage.commands(), (0, 1));
    });
}

#[test]
fn shadow_mode_leaves_the_server_alone() {
    one_minute(awake()).observing().play(async |stage| {
        stage.origin.says(fresh_for(20));
        stage.ask(get("/a")).await;
        stage.at(1000).await;
        assert_eq!(ours(stage), []);
    });
}
