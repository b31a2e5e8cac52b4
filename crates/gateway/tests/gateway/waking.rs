//! Requests that wake the server: held, answered once, forgotten when their client goes.

use std::time::Duration;

use nightwatt_energy::time::Mono;

use crate::client::{Client, ask, get, post};
use crate::origin::{Act, ok};
use crate::stage::{asleep, secs, settle};

#[test]
fn a_program_is_held_until_the_server_is_awake_and_answered_once() {
    asleep().play(async |stage| {
        let got = stage.ask(get("/api?x=1").agent("curl/8")).await;
        assert_eq!((got.how(), got.text()), ((200, "held"), "this is /api?x=1"));
        assert_eq!(stage.now(), Mono::from_secs(5), "the wake time, and nothing else");
        assert_eq!(stage.origin.lines(), ["GET /api?x=1"]);
    });
}

#[test]
fn a_held_body_arrives_whole() {
    asleep().play(async |stage| {
        let body = "0123456789".repeat(1000);
        assert_eq!(stage.ask(post("/form", &body)).await.how(), (200, "held"));
        let seen = stage.origin.only();
        assert_eq!((seen.method.as_str(), seen.text()), ("POST", body));
        assert_eq!(seen.field("content-length"), Some("10000"));
    });
}

#[test]
fn a_held_body_larger_than_the_spool_arrives_whole() {
    asleep().with(|config| config.limits.spool_bytes = 4096).play(async |stage| {
        let body = "0123456789".repeat(30_000);
        let mut client = Client::connect(stage).await;
        client.send(&post("/upload", &body)).await;
        assert_eq!(client.answer().await.how(), (200, "held"));
        assert_eq!(stage.origin.only().text(), body);
        assert_eq!(stage.now(), Mono::from_secs(5));
    });
}

#[test]
fn a_held_chunked_body_arrives_whole() {
    for spool in [1 << 20, 16] {
        asleep().with(move |config| config.limits.spool_bytes = spool).play(async |stage| {
            let mut client = Client::connect(stage).await;
            client.send(&ask("POST", "/form").field("Transfer-Encoding", "chunked")).await;
            for _ in 0..50 {
                client.say("a\r\n0123456789\r\n").await;
            }
            client.say("0\r\n\r\n").await;
            assert_eq!(client.answer().await.how(), (200, "held"));
            assert_eq!(stage.origin.only().text(), "0123456789".repeat(50), "spool of {spool}");
        });
    }
}

#[test]
fn a_client_that_expects_100_is_told_to_go_on_while_it_is_held() {
    asleep().play(async |stage| {
        let head = ask("PUT", "/file").field("Content-Length", "4").field("Expect", "100-continue");
        let mut client = Client::connect(stage).await;
        client.send(&head).await;
        let go_on = client.part().await;
        assert!(go_on.starts_with(b"HTTP/1.1 100 "), "{}", String::from_utf8_lossy(&go_on));
        client.say("body").await;
        assert_eq!(client.answer().await.how(), (200, "held"));
        let seen = stage.origin.only();
        assert_eq!((seen.text().as_str(), seen.field("expect")), ("body", None));
    });
}

#[test]
fn who_waits_longer_than_the_limit_is_told_so() {
    asleep()
        .power(|power| power.wake_time = secs(600))
        .with(|config| config.limits.hold = secs(30))
        .play(async |stage| {
            let got = stage.ask(post("/form", "x")).await;
            assert_eq!((got.how(), stage.now()), ((504, "timeout"), Mono::from_secs(30)));
            assert!(!got.text().is_empty());
            assert_eq!(stage.status().held, 0);
            stage.at(700).await;
            assert_eq!(
                stage.origin.seen().len(),
                0,
                "who was told no is not served behind his back"
            );
        });
}

#[test]
fn a_client_may_wake_the_server_only_so_often() {
    asleep().site(|site| site.wakes_per_client_and_hour = 2).play(async |stage| {
        for start in [0, 100] {
            stage.at(start).await;
            assert_eq!(stage.ask(post("/form", "x")).await.how(), (200, "held"));
        }
        stage.at(200).await;
        let got = stage.ask(post("/form", "x")).await;
        assert_eq!(got.how(), (503, "budget"));
        // Two in an hour: one more after half an hour, counted from the first.
        assert_eq!(got.seconds("retry-after"), 1800 - 200);
        assert_eq!(stage.commands(), (2, 2));
        stage.at(200 + 1600).await;
        assert_eq!(stage.ask(post("/form", "x")).await.how(), (200, "held"));
    });
}

#[test]
fn two_held_requests_cause_one_wake_up() {
    asleep().play(async |stage| {
        let mut one = stage.begin(get("/one")).await;
        stage.at(2).await;
        let mut other = stage.begin(post("/other", "x")).await;
        assert_eq!(stage.status().held, 2);
        let (one, other) = tokio::join!(one.answer(), other.answer());
        assert_eq!((one.how(), other.how()), ((200, "held"), (200, "held")));
        assert_eq!((stage.now(), stage.commands()), (Mono::from_secs(5), (1, 0)));
        let mut lines = stage.origin.lines();
        lines.sort();
        assert_eq!(lines, ["GET /one", "POST /other"]);
    });
}

#[test]
fn a_request_that_comes_while_it_falls_asleep_wakes_it_again() {
    asleep().play(async |stage| {
        stage.ask(get("/a")).await;
        stage.at(67).await;
        assert_eq!(stage.state(), "falling-asleep");
        assert_eq!(stage.ask(get("/b")).await.how(), (200, "held"));
        // Falling asleep cannot be broken off: 3 s more, then 5 s to wake.
        assert_eq!((stage.now(), stage.commands()), (Mono::from_secs(75), (2, 1)));
        assert_eq!(stage.origin.lines(), ["GET /a", "GET /b"]);
    });
}

#[test]
fn a_client_that_leaves_while_it_is_held_is_forgotten() {
    asleep().play(async |stage| {
        let client = stage.begin(post("/form", "x")).await;
        assert_eq!(stage.status().held, 1);
        client.leave().await;
        assert_eq!(stage.status().held, 0);
        stage.at(60).await;
        assert_eq!(stage.origin.seen().len(), 0);
    });
}

#[test]
fn a_client_that_leaves_in_real_time_is_forgotten_too() {
    asleep().real().power(|power| power.never_wakes = true).play(async |stage| {
        let client = stage.begin(post("/form", "x")).await;
        stage.until("the request to be held", |status| status.held == 1).await;
        // Who closes at once may only have nothing more to ask.
        stage.clock.sleep(secs(2)).await;
        client.leave().await;
        stage.until("the request to be forgotten", |status| status.held == 0).await;
    });
}

#[test]
fn a_client_that_leaves_amid_its_body_is_forgotten() {
    asleep().play(async |stage| {
        let half = ask("POST", "/form").field("Content-Length", "100").with_body("only this");
        let client = stage.begin(half).await;
        client.leave().await;
        stage.at(60).await;
        assert_eq!(stage.status().held, 0);
        assert_eq!(stage.origin.lines(), Vec::<String>::new(), "half a request is no request");
    });
}

#[test]
fn a_client_that_left_is_in_the_log_all_the_same() {
    asleep().play(async |stage| {
        stage.begin(get("/gone")).await.leave().await;
        stage.at(10).await;
        let lines = stage.log();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("GET /gone"), "{}", lines[0]);
    });
}

#[test]
fn held_requests_are_bounded_in_number() {
    asleep().with(|config| config.limits.held = 2).play(async |stage| {
        let mut first = stage.begin(get("/1")).await;
        let mut second = stage.begin(get("/2")).await;
        let third = stage.ask(get("/3")).await;
        assert_eq!(third.how(), (503, "unavailable"));
        assert_eq!(third.seconds("retry-after"), 5);
        let (first, second) = tokio::join!(first.answer(), second.answer());
        assert_eq!((first.how(), second.how()), ((200, "held"), (200, "held")));
        assert_eq!(stage.origin.seen().len(), 2);
    });
}

#[test]
fn a_pipelined_request_behind_a_held_one_is_answered_after_it() {
    asleep().play(async |stage| {
        let mut client = Client::connect(stage).await;
        let both = [get("/first").bytes(), get("/second").bytes()].concat();
        client.say(both).await;
        assert_eq!(client.answer().await.text(), "this is /first");
        assert_eq!(client.answer().await.text(), "this is /second");
        assert_eq!(stage.origin.lines(), ["GET /first", "GET /second"]);
    });
}

#[test]
fn a_request_before_the_first_look_at_the_server_is_served_and_named() {
    // The first probe is answered when the test says so.
    asleep().probed_by_http().play_from_the_start(async |stage| {
        let mut client = stage.begin(get("/early")).await;
        assert_eq!(client.answer().await.how(), (200, "held"));
        assert_eq!(stage.origin.lines(), ["GET /early"]);
    });
}

#[test]
fn an_upload_may_take_longer_than_an_answer() {
    asleep().power(|power| power.starts_up = true).play(async |stage| {
        let mut client = Client::connect(stage).await;
        client.send(&ask("POST", "/upload").field("Content-Length", "20")).await;
        stage.origin.saw(1).await;
        for _ in 0..20 {
            // The client is slow, the proxy owes nothing.
            stage.clock.parked(stage.pass(Duration::from_mins(1))).await;
            client.say("x").await;
            settle(&stage.clock).await;
        }
        let got = client.answer().await;
        assert_eq!(got.how(), (200, "server"), "{}", String::from_utf8_lossy(&got.body));
        assert_eq!(stage.origin.only().text(), "x".repeat(20));
        assert_eq!(stage.commands(), (0, 0), "an upload keeps the server awake");
    });
}

#[test]
fn an_answer_before_the_end_of_the_upload_is_passed_on() {
    asleep().power(|power| power.starts_up = true).play(async |stage| {
        stage.origin.script(|seen| match seen.method.as_str() {
            "POST" => vec![Act::Say(crate::origin::status(403, "no").bytes())],
            _ => ok("fine").acts(),
        });
        let mut client = Client::connect(stage).await;
        client.send(&ask("POST", "/upload").field("Content-Length", "100")).await;
        client.say("the beginning").await;
        assert_eq!(client.answer().await.status, 403);
        // Its client says no more, and everybody else is served.
        let got = stage.ask(get("/other")).await;
        assert_eq!(got.how(), (200, "server"));
    });
}
