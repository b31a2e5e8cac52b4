//! Servers that do not wake, die, break off, keep silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nightwatt_energy::time::Mono;

use crate::client::{CRAWLER, Client, get, post};
use crate::origin::{Act, Gate, ok, raw, status};
use crate::stage::{asleep, awake, secs, timeout};

fn state_of(got: &crate::client::Got) -> (String, u64) {
    let json: serde_json::Value = serde_json::from_str(got.text()).unwrap();
    (json["state"].as_str().unwrap().to_owned(), json["retry_after_s"].as_u64().unwrap())
}

#[test]
fn a_server_that_never_wakes_is_tried_less_and_less_often() {
    asleep().power(|power| power.never_wakes = true).play(async |stage| {
        assert_eq!(stage.ask(get("/").by_browser()).await.how(), (503, "waiting-page"));
        stage.at(359).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("waking", (3, 0)));
        stage.at(360).await;
        assert_eq!(stage.state(), "failed", "three commands of two minutes each");
        stage.at(370).await;
        let look = stage.ask(get("/.nightwatt/state")).await;
        assert_eq!(state_of(&look), ("failed".to_owned(), 50));
        for ask in [get("/"), get("/").by_browser(), post("/", "x")] {
            let got = stage.ask(ask).await;
            assert_eq!((got.how(), got.seconds("retry-after")), ((503, "unavailable"), 50));
        }
        let page = stage.ask(get("/").by_browser()).await;
        assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
        assert!(page.text().contains("<main data-state=\"failed\""), "{}", page.text());
        assert!(page.text().contains("tried again in 1 min"), "{}", page.text());
        assert_eq!(stage.commands(), (3, 0), "no attempt before the pause is over");
        assert_eq!(stage.status().failures, 1);

        stage.at(420).await;
        assert_eq!(stage.ask(get("/").by_browser()).await.how(), (503, "waiting-page"));
        stage.at(780).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("failed", (6, 0)));
        let got = stage.ask(get("/")).await;
        assert_eq!(got.seconds("retry-after"), 120, "the pause has doubled");
        stage.at(86_400).await;
        assert_eq!(stage.commands(), (6, 0), "nobody asks: no loop");
    });
}

#[test]
fn a_failed_server_that_comes_up_after_all_is_noticed() {
    let never = asleep().power(|power| power.never_wakes = true);
    never.site(|site| site.watch = secs(60)).play(async |stage| {
        stage.ask(get("/").by_browser()).await;
        stage.at(365).await;
        assert_eq!(stage.state(), "failed");
        stage.power.come_up();
        stage.at(421).await;
        assert_eq!(stage.state(), "awake");
        assert_eq!(stage.ask(get("/")).await.how(), (200, "server"));
        assert_eq!(stage.status().failures, 0);
    });
}

#[test]
fn a_wake_command_that_fails_is_given_again() {
    asleep().power(|power| power.fail_wakes = 2).play(async |stage| {
        assert_eq!(stage.ask(get("/")).await.how(), (200, "held"));
        // 5 s each; pauses of 1 s and 2 s between them.
        assert_eq!((stage.now(), stage.commands()), (Mono::from_secs(18), (3, 0)));
    });
}

#[test]
fn three_wake_commands_that_fail_are_enough() {
    asleep().power(|power| power.fail_wakes = 3).play(async |stage| {
        let got = stage.ask(get("/")).await;
        assert_eq!((got.how(), got.seconds("retry-after")), ((503, "unavailable"), 60));
        assert_eq!((stage.now(), stage.commands()), (Mono::from_secs(18), (3, 0)));
        assert_eq!(stage.status().held, 0);
    });
}

#[test]
fn a_server_that_refuses_to_sleep_goes_on_serving() {
    asleep().power(|power| power.fail_sleeps = 1).play(async |stage| {
        stage.ask(get("/a")).await;
        stage.at(66).await;
        assert_eq!(stage.commands(), (1, 1));
        assert_eq!(stage.ask(get("/b")).await.status, 200);
        assert_eq!(stage.now(), Mono::from_secs(66), "nobody waits for a server that is awake");
        stage.at(1000).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (1, 2)));
    });
}

#[test]
fn a_server_that_died_is_woken_for_the_request_that_finds_out() {
    for by_http in [false, true] {
        let setup = if by_http { awake().probed_by_http() } else { awake() };
        setup.play(async |stage| {
            assert_eq!(stage.ask(get("/a")).await.how(), (200, "server"));
            stage.at(20).await;
            stage.power.go_down();
            stage.origin.down().await;
            let got = stage.ask(post("/b", "once")).await;
            assert_eq!(got.how(), (200, "held"));
            assert_eq!((stage.now(), stage.commands()), (Mono::from_secs(25), (1, 0)));
            assert_eq!(stage.origin.lines(), ["GET /a", "POST /b"]);
            assert_eq!(stage.origin.seen()[1].text(), "once");
        });
    }
}

#[test]
fn a_crawler_that_finds_a_dead_server_gets_an_appointment_and_does_not_wake_it() {
    awake().play(async |stage| {
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "server"));
        stage.at(20).await;
        stage.power.go_down();
        stage.origin.down().await;
        let got = stage.ask(get("/b").agent(CRAWLER)).await;
        assert_eq!(got.how(), (503, "crawler"));
        // Noon to 03:00, and somewhere in the ten minutes that the window is open.
        let after = got.seconds("retry-after");
        assert!((53_970..54_600).contains(&after), "{after}");
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
        stage.at(54_000).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("awake", (1, 0)));
    });
}

/// Search engines take a 503 for "do not crawl".
#[test]
fn a_crawler_that_finds_a_dead_server_gets_its_robots_txt() {
    awake().play(async |stage| {
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "server"));
        stage.at(20).await;
        stage.power.go_down();
        stage.origin.down().await;
        let got = stage.ask(get("/robots.txt").agent(CRAWLER)).await;
        assert_eq!((got.how(), stage.commands()), ((200, "held"), (1, 0)));
    });
}

#[test]
fn a_server_that_dies_right_after_waking_is_not_woken_in_a_loop() {
    asleep().play(async |stage| {
        stage.ask(get("/a")).await;
        stage.at(20).await;
        stage.power.go_down();
        stage.origin.down().await;
        let got = stage.ask(get("/b")).await;
        assert_eq!((got.how(), got.seconds("retry-after")), ((503, "unavailable"), 60));
        assert_eq!((stage.state().as_str(), stage.commands()), ("failed", (1, 0)));
    });
}

#[test]
fn a_server_that_dies_amid_an_exchange_is_woken_and_the_get_repeated() {
    awake().play(async |stage| {
        let gate = Gate::shut();
        let shut = gate.clone();
        stage.origin.script(move |_| vec![Act::Body, Act::Await(shut.clone()), Act::Close]);
        let mut client = stage.begin(get("/a")).await;
        stage.origin.saw(1).await;
        stage.power.go_down();
        stage.origin.down().await;
        stage.origin.says(ok("after all"));
        let got = client.answer().await;
        assert_eq!((got.how(), got.text()), ((200, "held"), "after all"));
        assert_eq!((stage.now(), stage.origin.seen().len()), (Mono::from_secs(5), 2));
    });
}

/// Breaks off the first exchange without an answer.
fn breaks_once(stage: &crate::stage::Stage) {
    let count = Arc::new(AtomicU32::new(0));
    stage.origin.script(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => vec![Act::Body, Act::Close],
        _ => ok("fine").acts(),
    });
}

#[test]
fn a_get_that_broke_off_is_repeated_at_once() {
    awake().play(async |stage| {
        breaks_once(stage);
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.status, got.text()), (200, "fine"));
        assert_eq!(stage.origin.lines(), ["GET /a", "GET /a"]);
        assert_eq!(stage.now(), Mono::ZERO, "the server is awake: there is nothing to wait for");
        assert_eq!(got.answer(), "server", "no sleep delayed it");
    });
}

#[test]
fn a_post_that_broke_off_is_not_repeated() {
    awake().play(async |stage| {
        breaks_once(stage);
        let got = stage.ask(post("/pay", "100")).await;
        assert_eq!(got.how(), (502, "unavailable"));
        assert!(!got.text().is_empty());
        assert_eq!(stage.origin.lines(), ["POST /pay"]);
    });
}

#[test]
fn a_get_that_breaks_off_every_time_ends() {
    awake().play(async |stage| {
        stage.origin.script(|_| vec![Act::Body, Act::Close]);
        let got = stage.ask(get("/a")).await;
        assert_eq!(got.status, 503, "{got:?}");
        assert!(got.text().contains("The server is up, but closes"), "{}", got.text());
        assert!(stage.origin.seen().len() <= 3, "{:?}", stage.origin.lines());
        assert_eq!(stage.status().in_flight, 0);
    });
}

#[test]
fn garbage_from_the_origin_is_a_bad_gateway() {
    awake().play(async |stage| {
        stage.origin.script(|_| raw("SSH-2.0-OpenSSH_9.2p1\r\n\r\n"));
        for (count, ask) in [post("/a", "x"), get("/a")].into_iter().enumerate() {
            let got = stage.ask(ask).await;
            assert_eq!(got.status, 502);
            assert!(got.text().contains("not well-formed"), "{}", got.text());
            assert_eq!(stage.origin.seen().len(), count + 1, "it is not asked again");
        }
        assert_eq!(stage.state(), "awake");
    });
}

#[test]
fn a_server_that_says_502_while_it_starts_is_not_shown() {
    // The port is open at second 5; the application behind it is there at second 8.
    asleep().probed_by_tcp().play(async |stage| {
        stage.origin.script(|seen| {
            if seen.at < Mono::from_secs(8) { status(502, "") } else { ok("ready") }.acts()
        });
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((200, "held"), "ready"));
        assert_eq!(stage.now(), Mono::from_secs(8));
    });
}

#[test]
fn a_probe_by_http_waits_until_the_application_is_there() {
    asleep().probed_by_http().play(async |stage| {
        stage.origin.probed(|seen| {
            if seen.at < Mono::from_secs(8) { status(502, "") } else { status(404, "") }.acts()
        });
        assert_eq!(stage.ask(post("/a", "x")).await.how(), (200, "held"));
        assert_eq!((stage.now(), stage.origin.seen().len()), (Mono::from_secs(8), 1));
    });
}

#[test]
fn one_that_speaks_another_protocol_is_awake_and_what_is_wrong_is_said() {
    asleep().probed_by_http().play(async |stage| {
        let ssh = "SSH-2.0-OpenSSH_9.2p1\r\n\r\n";
        stage.origin.probed(move |_| raw(ssh));
        stage.origin.script(move |_| raw(ssh));
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.status, &*stage.state()), (502, "awake"));
        assert!(got.text().contains("not well-formed"), "{}", got.text());
    });
}

#[test]
fn an_error_of_a_server_that_is_long_awake_is_shown() {
    awake().probed_by_tcp().play(async |stage| {
        stage.at(40).await;
        stage.origin.says(status(503, "busy").field("Retry-After", "7"));
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.seconds("retry-after")), ((503, "server"), 7));
        assert_eq!(stage.origin.seen().len(), 1);
    });
}

#[test]
fn a_kept_connection_that_the_origin_closed_is_not_an_error() {
    awake().play(async |stage| {
        stage.ask(get("/a")).await;
        for n in 0..3 {
            stage.origin.hang_up().await;
            stage.pass(secs(1)).await;
            let got = stage.ask(post(&format!("/{n}"), "x")).await;
            assert_eq!(got.how(), (200, "server"));
        }
        assert_eq!(stage.origin.lines(), ["GET /a", "POST /0", "POST /1", "POST /2"]);
    });
}

#[test]
fn a_kept_connection_is_used_again() {
    awake().play(async |stage| {
        for page in ["/a", "/b", "/c"] {
            stage.ask(get(page)).await;
        }
        let connections: Vec<_> = stage.origin.seen().iter().map(|seen| seen.connection).collect();
        assert_eq!(connections, [1, 1, 1]);
    });
}

#[test]
fn no_connection_outlives_a_sleep() {
    asleep().play(async |stage| {
        stage.ask(post("/a", "x")).await;
        stage.at(100).await;
        assert_eq!(stage.state(), "asleep");
        assert_eq!(stage.ask(post("/b", "x")).await.how(), (200, "held"));
        let connections: Vec<_> = stage.origin.seen().iter().map(|seen| seen.connection).collect();
        assert_eq!(connections, [1, 2]);
    });
}

#[test]
fn an_origin_that_keeps_silent_is_given_up() {
    awake().play(async |stage| {
        stage.origin.script(|_| vec![Act::Body, Act::Hang]);
        let mut client = stage.begin(get("/a")).await;
        client.lets_time_pass();
        stage.at(91).await;
        assert_eq!(client.answer().await.status, 504);
        assert_eq!((stage.origin.seen().len(), stage.status().in_flight), (1, 0));
    });
}

#[test]
fn an_origin_that_falls_silent_amid_its_answer_is_given_up() {
    awake().play(async |stage| {
        let part = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nthe beginning";
        stage
            .origin
            .script(move |_| vec![Act::Body, Act::Say(part.as_bytes().to_vec()), Act::Hang]);
        let mut client = stage.begin(get("/a")).await;
        assert_eq!(client.head().await.status, 200);
        client.part().await;
        stage.at(91).await;
        assert_eq!(stage.status().in_flight, 0, "`origin_timeout` is also between two parts");
        assert!(client.is_closed().await);
    });
}

#[test]
fn a_client_that_falls_silent_amid_its_upload_does_not_keep_the_server_awake() {
    awake().play(async |stage| {
        let mut client = Client::connect(stage).await;
        client.send(&crate::client::ask("POST", "/up").field("Content-Length", "100")).await;
        client.say("the beginning").await;
        stage.origin.saw(1).await;
        client.lets_time_pass();
        stage.at(3600).await;
        assert_eq!(stage.status().in_flight, 0);
        assert_eq!(stage.state(), "asleep");
    });
}

#[test]
fn a_stale_answer_is_better_than_an_error() {
    awake().with(|config| config.scenario.policy = timeout(86_400)).play(async |stage| {
        stage.origin.says(ok("news").field("Cache-Control", "max-age=60"));
        stage.ask(get("/a")).await;
        stage.at(100).await;
        for code in [500, 502, 503, 504] {
            stage.origin.says(status(code, "oops"));
            let got = stage.ask(get("/a")).await;
            assert_eq!((got.status, got.text()), (200, "news"), "instead of {code}");
            assert_eq!(got.seconds("age"), 100);
        }
    });
}

#[test]
fn a_stale_answer_is_better_than_a_dead_server() {
    let setup = awake().power(|power| power.never_wakes = true);
    setup.with(|config| config.scenario.policy = timeout(86_400)).play(async |stage| {
        stage.origin.says(ok("news").field("Cache-Control", "max-age=60"));
        stage.ask(get("/a")).await;
        stage.at(100).await;
        stage.power.go_down();
        stage.origin.down().await;
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.status, got.text()), (200, "news"));
        assert_eq!(stage.now(), Mono::from_secs(100), "it was there all the time");
    });
}

#[test]
fn who_waits_too_long_for_a_server_that_died_is_told_as_everybody_is() {
    let setup = awake().power(|power| power.never_wakes = true);
    setup.with(|config| config.limits.hold = secs(30)).play(async |stage| {
        stage.at(20).await;
        stage.power.go_down();
        stage.origin.down().await;
        let got = stage.ask(post("/a", "x")).await;
        assert_eq!((got.how(), stage.now()), ((504, "timeout"), Mono::from_secs(50)));
        assert_eq!(stage.status().held, 0);
    });
}

#[test]
fn a_server_woken_by_somebody_else_is_noticed() {
    asleep().site(|site| site.watch = secs(60)).play(async |stage| {
        stage.at(30).await;
        stage.power.come_up();
        stage.at(60).await;
        assert_eq!(stage.state(), "awake");
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "server"));
        assert_eq!(stage.commands().0, 0);
    });
}

#[test]
fn a_server_that_died_unnoticed_is_found_by_the_watch() {
    awake().site(|site| site.watch = secs(30)).play(async |stage| {
        stage.at(10).await;
        stage.power.go_down();
        stage.origin.down().await;
        stage.at(30).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
    });
}
