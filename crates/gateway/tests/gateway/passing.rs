//! What passes through besides questions and answers: interim answers, trailers, events, other
//! protocols.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::client::{Ask, Client, ask, get};
use crate::origin::{Act, Gate, ok, raw};
use crate::stage::{asleep, awake, secs, timeout};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: x\r\nX: 1\r\n\r\n";

#[test]
fn interim_answers_go_ahead_of_the_answer_and_are_never_kept() {
    awake().play(async |stage| {
        let answer = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok";
        stage
            .origin
            .script(move |_| raw(&format!("{HINTS}HTTP/1.1 102 Processing\r\n\r\n{answer}")));
        let mut client = stage.begin(get("/")).await;
        let mut seen = String::new();
        while !seen.ends_with("ok") {
            seen.push_str(&text(&client.part().await));
        }
        let heads: Vec<&str> = seen.split("\r\n\r\n").collect();
        assert_eq!(heads.len(), 4, "{seen}");
        assert_eq!(heads[0], "HTTP/1.1 103 Early Hints\r\nlink: </a.css>", "no hop-by-hop fields");
        assert!(heads[1].starts_with("HTTP/1.1 102 "), "{seen}");
        assert!(
            heads[2].starts_with("HTTP/1.1 200 OK\r\n") && !heads[2].contains("link"),
            "{seen}"
        );
        let mut client = stage.begin(get("/")).await;
        let hit = text(&client.part().await);
        assert!(hit.starts_with("HTTP/1.1 200 OK\r\n") && !hit.contains("link"), "{hit}");
    });
}

#[test]
fn clients_of_http_1_0_get_no_interim_answers() {
    awake().play(async |stage| {
        stage
            .origin
            .script(|_| raw(&format!("{HINTS}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")));
        let mut client = Client::connect(stage).await;
        client.say("GET / HTTP/1.0\r\nHost: blog\r\n\r\n").await;
        let seen = text(&client.part().await);
        assert!(seen.starts_with("HTTP/1.1 200 OK\r\n"), "{seen}");
    });
}

const CHUNKS: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
                      5\r\nhello\r\n0\r\nX-Sum: 9\r\n\r\n";

#[test]
fn trailers_reach_clients_that_take_them() {
    for (takes, end) in [("trailers", "5\r\nhello\r\n0\r\nx-sum: 9\r\n\r\n"), ("", "0\r\n\r\n")] {
        awake().play(async |stage| {
            stage.origin.script(|_| raw(CHUNKS));
            let ask = get("/").field("TE", takes).field("Connection", "TE");
            let mut client = stage.begin(ask).await;
            let mut seen = String::new();
            while !seen.ends_with("0\r\n\r\n") && !seen.ends_with("9\r\n\r\n") {
                seen.push_str(&text(&client.part().await));
            }
            assert!(seen.ends_with(end), "TE: {takes}: {seen}");
            let told = stage.origin.only().field("te").map(str::to_owned);
            assert_eq!(told.as_deref(), (takes == "trailers").then_some("trailers"));
        });
    }
}

#[test]
fn trailers_of_requests_reach_the_server() {
    awake().play(async |stage| {
        let bytes = "POST / HTTP/1.1\r\nHost: blog\r\nTransfer-Encoding: chunked\r\n\
                     Trailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 9\r\n\r\n";
        assert_eq!(stage.say(bytes).await.unwrap().status, 200);
        let seen = stage.origin.only();
        assert_eq!(
            (seen.text().as_str(), seen.trailers.join("|").to_lowercase().as_str()),
            ("hello", "x-sum: 9")
        );
    });
}

#[test]
fn a_body_is_asked_for_once_somebody_takes_it() {
    // The server sleeps: the proxy takes the body while it wakes.
    for setup in [awake(), asleep()] {
        setup.play(async |stage| {
            let head =
                ask("POST", "/").field("Content-Length", "5").field("Expect", "100-continue");
            let mut client = stage.begin(head).await;
            assert_eq!(text(&client.part().await), "HTTP/1.1 100 Continue\r\n\r\n");
            client.say("hello").await;
            assert_eq!(client.answer().await.status, 200);
            assert_eq!(stage.origin.only().text(), "hello");
            assert_eq!(stage.origin.only().field("expect"), None);
        });
    }
}

#[test]
fn a_body_that_is_refused_is_not_asked_for() {
    awake().with(|config| config.limits.body_bytes = 4).play(async |stage| {
        let head = ask("POST", "/").field("Content-Length", "5").field("Expect", "100-continue");
        let mut client = stage.begin(head).await;
        let mut seen = String::new();
        while !seen.contains("\r\n\r\n") {
            seen.push_str(&text(&client.part().await));
        }
        assert!(seen.starts_with("HTTP/1.1 413 ") && seen.contains("connection: close"), "{seen}");
    });
}

#[test]
fn events_pass_one_by_one_and_nobody_waits_for_the_end_of_somebody_elses() {
    awake().play(async |stage| {
        let (gate, count) = (Gate::shut(), AtomicU32::new(0));
        let opened = gate.clone();
        stage.origin.script(move |_| {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";
            vec![
                Act::Say(format!("{head}data: first {number}\n\n").into_bytes()),
                Act::Await(gate.clone()),
                Act::Say(b"data: second\n\n".to_vec()),
                Act::Close,
            ]
        });
        let mut first = stage.begin(get("/events")).await;
        assert_eq!(first.head().await.status, 200);
        assert!(text(&first.part().await).contains("data: first 0"));
        let began = stage.now();
        let mut second = stage.begin(get("/events")).await;
        assert_eq!(second.head().await.status, 200);
        assert!(text(&second.part().await).contains("data: first 1"), "a stream of its own");
        assert_eq!(stage.now(), began, "it did not wait for the first one");
        opened.open();
        assert!(text(&first.part().await).contains("data: second"));
    });
}

pub(crate) fn upgrade(to: &str) -> Ask {
    get("/socket").field("Connection", "keep-alive, Upgrade").field("Upgrade", to)
}

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                        Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";

pub(crate) fn switches() -> Vec<Act> {
    // What it says at once must not be lost with the head.
    vec![Act::Say(format!("{SWITCHED}welcome").into_bytes()), Act::Echo]
}

#[test]
fn a_websocket_of_20_minutes_is_never_slept_upon() {
    let setup = awake().with(|config| config.scenario.policy = timeout(5));
    setup.play(async |stage| {
        stage.origin.script(|_| switches());
        let mut client = stage.begin(upgrade("websocket")).await;
        let head = client.head().await;
        assert_eq!(head.status, 101);
        assert_eq!(head.field("connection"), Some("upgrade"));
        assert_eq!(head.field("upgrade"), Some("websocket"));
        assert_eq!(head.field("sec-websocket-accept"), Some("x"));
        assert_eq!(text(&client.part().await), "welcome");
        let seen = stage.origin.only();
        assert_eq!(seen.field("connection"), Some("upgrade"));
        assert_eq!(seen.field("upgrade"), Some("websocket"));
        for minute in 0..20 {
            client.say(format!("ping {minute}")).await;
            assert_eq!(text(&client.part().await), format!("ping {minute}"));
            client.lets_time_pass();
            stage.pass(secs(60)).await;
            assert_eq!(stage.state(), "awake", "minute {minute}");
        }
        assert_eq!(stage.commands().1, 0, "no sleep was ordered");
        client.leave().await;
        stage.pass(secs(60)).await;
        assert_eq!(stage.state(), "asleep", "and afterwards it may");
    });
}

#[test]
fn a_websocket_wakes_the_server() {
    asleep().play(async |stage| {
        stage.origin.script(|_| switches());
        let mut client = stage.begin(upgrade("websocket")).await;
        assert_eq!(client.head().await.status, 101);
        assert_eq!(text(&client.part().await), "welcome");
    });
}

#[test]
fn a_tunnel_in_which_nothing_happens_is_closed() {
    awake().with(|config| config.limits.tunnel_idle = secs(600)).play(async |stage| {
        stage.origin.script(|_| switches());
        let mut client = stage.begin(upgrade("websocket")).await;
        assert_eq!(client.head().await.status, 101);
        assert_eq!(text(&client.part().await), "welcome");
        stage.pass(secs(500)).await;
        client.say("ping").await;
        assert_eq!(text(&client.part().await), "ping");
        client.lets_time_pass();
        stage.pass(secs(500)).await;
        assert_eq!(stage.state(), "awake");
        stage.pass(secs(200)).await;
        assert!(client.is_closed().await);
        stage.pass(secs(60)).await;
        assert_eq!(stage.state(), "asleep");
    });
}

#[test]
fn a_server_that_does_not_switch_gives_an_answer_like_any_other() {
    awake().play(async |stage| {
        stage
            .origin
            .script(|_| raw("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno"));
        let mut client = stage.begin(upgrade("websocket")).await;
        assert_eq!(client.answer().await.status, 426);
        stage.origin.says(ok("next"));
        client.send(&get("/next")).await;
        assert_eq!(client.answer().await.text(), "next", "the connection still speaks HTTP");
    });
}

#[test]
fn nobody_gets_past_the_proxy_by_switching() {
    for ask in [
        upgrade("h2c"),
        upgrade("H2C"),
        upgrade("HTTP/2.0, h3"),
        upgrade("TLS/1.2"),
        get("/").field("Upgrade", "websocket"),
        get("/").field("Upgrade", "websocket").field("Connection", "upgrades, x-upgrade"),
    ] {
        awake().play(async |stage| {
            stage.origin.script(|_| {
                let mut acts = vec![Act::Body];
                acts.extend(switches());
                acts
            });
            let got = stage.ask(ask.clone()).await;
            assert_eq!(got.status, 502, "{ask:?}: switched though nobody had asked: {got:?}");
            let seen = stage.origin.only();
            assert_eq!((seen.field("upgrade"), seen.field("connection")), (None, None), "{ask:?}");
        });
    }
}

/// What the server is offered, and what it says that it speaks now.
#[test]
fn every_protocol_that_both_agree_on_is_tunnelled() {
    for (ask, offered) in [
        (upgrade("websocket").field("Content-Length", "0"), "websocket"),
        (upgrade("WebSocket"), "WebSocket"),
        (get("/").field("Connection", "UPGRADE").field("Upgrade", "websocket"), "websocket"),
        (
            get("/")
                .field("Connection", "keep-alive")
                .field("Connection", "upgrade")
                .field("Upgrade", "websocket"),
            "websocket",
        ),
        // Of a list what is HTTP in disguise is left out.
        (upgrade("h2c, websocket, TLS/1.0 ,SPDY/3.1"), "websocket, SPDY/3.1"),
        (upgrade("websocket").field("Upgrade", "h2c"), "websocket"),
        (upgrade("proto_1+x, websocket/13"), "proto_1+x, websocket/13"),
    ] {
        awake().play(async |stage| {
            stage.origin.script(|_| switches());
            let mut client = stage.begin(ask.clone()).await;
            assert_eq!(client.head().await.status, 101, "{ask:?}");
            assert_eq!(text(&client.part().await), "welcome");
            client.say("ping").await;
            assert_eq!(text(&client.part().await), "ping");
            let seen = stage.origin.only();
            assert_eq!(seen.field("upgrade"), Some(offered));
            assert_eq!(
                (seen.field("connection"), seen.field("content-length")),
                (Some("upgrade"), None)
            );
        });
    }
    // A protocol that the client didn't offer is not one that both agree on.
    awake().play(async |stage| {
        stage.origin.script(|_| switches());
        assert_eq!(stage.ask(upgrade("SPDY/3.1, h2c")).await.status, 502);
    });
}

#[test]
fn the_body_goes_first_and_then_the_tunnel() {
    let tcp = "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nwelcome";
    let head = ask("POST", "/exec/1/start").field("Connection", "Upgrade").field("Upgrade", "tcp");
    for (framing, body) in [
        (("Content-Length", "2"), "{}"),
        (("Content-Length", "0"), ""),
        (("Transfer-Encoding", "chunked"), "2\r\n{}\r\n0\r\n\r\n"),
    ] {
        for setup in [awake(), asleep()] {
            let head = head.clone().field(framing.0, framing.1);
            setup.play(async |stage| {
                stage.origin.script(move |_| vec![Act::Body, Act::Say(tcp.into()), Act::Echo]);
                let mut client = stage.begin(head).await;
                client.say(format!("{body}ahead")).await;
                assert_eq!(client.head().await.status, 101, "{framing:?}");
                let mut received = String::new();
                while received.len() < "welcomeahead".len() {
                    received += &text(&client.part().await);
                }
                assert_eq!(received, "welcomeahead", "what came behind the body is not lost");
                client.say("ping").await;
                assert_eq!(text(&client.part().await), "ping");
                let seen = stage.origin.only();
                assert_eq!(
                    (seen.text().as_str(), seen.field("upgrade")),
                    (if body.is_empty() { "" } else { "{}" }, Some("tcp"))
                );
            });
        }
    }
}

#[test]
fn a_handshake_is_not_answered_from_the_cache() {
    awake().play(async |stage| {
        stage.origin.says(ok("a page").field("Cache-Control", "max-age=600"));
        assert_eq!(stage.ask(get("/socket")).await.text(), "a page");
        stage.origin.script(|_| switches());
        let mut client = stage.begin(upgrade("websocket")).await;
        assert_eq!(client.head().await.status, 101);
    });
}

#[test]
fn trailers_wait_with_the_body_that_they_are_behind() {
    asleep().play(async |stage| {
        let bytes = "POST / HTTP/1.1\r\nHost: blog\r\nTransfer-Encoding: chunked\r\n\
                     Trailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 9\r\n\r\n";
        assert_eq!(stage.say(bytes).await.unwrap().how(), (200, "held"));
        let seen = stage.origin.only();
        assert_eq!(seen.text(), "hello");
        assert_eq!(seen.trailers.join("|").to_lowercase(), "x-sum: 9");
    });
}

#[test]
fn a_body_that_stalls_is_told_so() {
    let limits = awake().real();
    let limits = limits.with(|config| {
        config.limits.body_timeout = std::time::Duration::from_millis(50);
    });
    limits.play(async |stage| {
        let got =
            stage.say("POST / HTTP/1.1\r\nHost: blog\r\nContent-Length: 9\r\n\r\nhello").await;
        assert_eq!(got.unwrap().status, 408);
    });
}
