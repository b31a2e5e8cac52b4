//! Connections with servers that are dead, refuse uploads, fall silent, suspend, or are careless; and what one site
//! allows its server and its clients.

use crate::client::{Client, ask, get, post};
use crate::origin::{Act, Gate, ok, raw, status};
use crate::stage::{asleep, awake, secs, timeout};

/// All kept connections are dead, and the gateway hasn't noticed: requests sent on them are lost.
#[test]
fn one_dead_connection_is_enough_to_leave_all_that_waited_beside_it() {
    awake().play(async |stage| {
        // Four at once, so that four connections wait afterwards.
        let gate = Gate::shut();
        let shut = gate.clone();
        stage.origin.script(move |_| {
            vec![
                Act::Await(shut.clone()),
                Act::Say(ok("one").field("Cache-Control", "no-store").bytes()),
            ]
        });
        let mut clients = Vec::new();
        for number in 0..4 {
            clients.push(stage.begin(get(&format!("/{number}"))).await);
        }
        stage.origin.saw(4).await;
        (0..4).for_each(|_| gate.open());
        for client in &mut clients {
            assert_eq!(client.answer().await.status, 200);
        }
        // From now on only new ones are answered.
        stage.origin.script(|seen| match seen.connection {
            ..=4 => vec![Act::Body, Act::Close],
            _ => ok("fine").acts(),
        });
        let got = stage.ask(get("/b")).await;
        assert_eq!((got.how(), got.text()), ((200, "server"), "fine"));
        let connections: Vec<_> = stage.origin.seen().iter().map(|seen| seen.connection).collect();
        assert_eq!(connections[4..], [4, 5], "the second attempt is on a new connection");
        assert_eq!(stage.ask(post("/c", "once")).await.status, 200);
        assert_eq!(stage.origin.seen().pop().unwrap().connection, 5);
    });
}

#[test]
fn a_connection_that_waited_for_long_is_not_used_again() {
    awake().with(|config| config.scenario.policy = timeout(86_400)).play(async |stage| {
        for second in [0, 30, 89, 150] {
            stage.at(second).await;
            assert_eq!(stage.ask(get("/a").field("Cache-Control", "no-cache")).await.status, 200);
        }
        let connections: Vec<_> = stage.origin.seen().iter().map(|seen| seen.connection).collect();
        assert_eq!(connections, [1, 1, 1, 2]);
    });
}

#[test]
fn a_server_that_suspended_by_itself_is_woken_for_the_request_that_it_does_not_answer() {
    for control in ["no-store", "max-age=0"] {
        awake().play(async |stage| {
            stage.origin.says(ok("before").field("Cache-Control", control));
            assert_eq!(stage.ask(get("/a")).await.status, 200);
            // Its connections stay as they are, and nothing comes through them.
            stage.origin.script(|seen| match seen.connection {
                1 => vec![Act::Body, Act::Hang],
                _ => ok("after").acts(),
            });
            stage.power.go_down();
            let mut client = stage.begin(get("/b")).await;
            client.lets_time_pass();
            stage.at(11).await;
            let got = client.answer().await;
            assert_eq!((got.how(), got.text()), ((200, "held"), "after"), "{control}");
            assert_eq!(stage.commands(), (1, 0));
        });
    }
}

#[test]
fn a_server_that_takes_its_time_is_not_asked_twice_for_the_same() {
    awake().play(async |stage| {
        stage.origin.says(ok("before"));
        assert_eq!(stage.ask(get("/a")).await.status, 200);
        stage.origin.script(|_| {
            let late = ok("late").acts().pop().unwrap();
            vec![Act::Body, Act::Take(secs(40)), late]
        });
        let mut client = stage.begin(get("/b")).await;
        client.lets_time_pass();
        stage.at(50).await;
        assert_eq!(client.answer().await.text(), "late");
        assert_eq!(stage.origin.seen().len(), 2);
    });
}

#[test]
fn what_a_server_writes_carelessly_reaches_the_client_well_formed() {
    let said = "HTTP/1.1 200\r\nX-Spaced : a\r\nX-Folded: b\r\n\tc\r\nCache-Control : no-store\r\n\
                Transfer-Encoding : chunked\r\n\r\n4  \r\nwiki\r\n5 \r\npedia\r\n0 \r\n\r\n";
    awake().probed_by_http().play(async |stage| {
        stage.origin.script(|_| raw(said));
        // Also on the idle connection that the fast path tries first.
        for _ in 0..2 {
            let got = stage.ask(get("/a")).await;
            assert_eq!((got.status, got.text()), (200, "wikipedia"));
            assert_eq!((got.field("x-spaced"), got.field("x-folded")), (Some("a"), Some("b  \tc")));
        }
        let seen = stage.origin.seen();
        assert_eq!(seen[0].connection, seen[1].connection, "it can be used again");
        for careless in ["Content-Length : 0", "A : b", "A: b\r\n c", "A: b\n"] {
            let got =
                stage.say(format!("POST / HTTP/1.1\r\nHost: blog\r\n{careless}\r\n\r\n")).await;
            assert_eq!(got.unwrap().status, 400, "{careless:?}: from clients it is refused");
        }
    });
}

/// A server that refuses an upload: it answers before it has read it, and closes.
pub(crate) fn refuses(stage: &crate::stage::Stage) {
    stage.origin.script(|_| {
        let says = status(413, "too large").field("Connection", "close");
        vec![Act::Say(says.bytes()), Act::Close]
    });
}

#[test]
fn a_server_that_refuses_an_upload_is_heard_by_its_client() {
    awake().real().play(async |stage| {
        refuses(stage);
        for (bytes, times) in [(200_000, 20), (30_000_000, 3)] {
            let body = vec![b'x'; bytes];
            for chunked in [false, true] {
                let (framing, sent) = if chunked {
                    let head = format!("{bytes:x}\r\n").into_bytes();
                    (
                        ("Transfer-Encoding", "chunked".to_owned()),
                        [&head, &body[..], b"\r\n0\r\n\r\n"].concat(),
                    )
                } else {
                    (("Content-Length", bytes.to_string()), body.clone())
                };
                for attempt in 0..times {
                    let mut client = Client::connect(stage).await;
                    client.send(&ask("POST", "/up").field(framing.0, &framing.1)).await;
                    // All of it, before anything is read.
                    client.say(&sent).await;
                    let got = client.answer().await;
                    assert_eq!(
                        (got.status, got.text()),
                        (413, "too large"),
                        "{bytes} {chunked} {attempt}"
                    );
                }
            }
        }
    });
}

#[test]
fn an_upload_that_we_refuse_is_told_so_however_much_of_it_comes() {
    let limited = awake().real().site(|site| site.limits.body_bytes = Some(100_000));
    limited.play(async |stage| {
        let body = vec![b'x'; 30_000_000];
        let chunks = [&b"1c9c380\r\n"[..], &body, b"\r\n0\r\n\r\n"].concat();
        for (framing, sent) in
            [(("Content-Length", "30000000"), &body), (("Transfer-Encoding", "chunked"), &chunks)]
        {
            let mut client = Client::connect(stage).await;
            client.send(&ask("POST", "/up").field(framing.0, framing.1)).await;
            client.say(sent).await;
            assert_eq!(client.answer().await.status, 413, "{framing:?}");
        }
    });
}

/// Begins an answer of this kind, and says no more.
fn begins(kind: &str) -> Vec<Act> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 999\r\n\r\ndata: 1\n\n"
    );
    vec![Act::Body, Act::Say(head.into_bytes()), Act::Hang]
}

#[test]
fn an_answer_without_an_end_may_be_silent_for_longer() {
    for kind in [
        "text/event-stream",
        "Text/Event-Stream;charset=utf-8",
        "multipart/x-mixed-replace; boundary=frame",
        "application/grpc+proto",
        "application/grpc-web-text",
        "application/x-ndjson",
        "application/vnd.docker.raw-stream",
        "application/json;stream=watch",
    ] {
        let setup = awake().site(|site| site.limits.stream_timeout = Some(secs(600)));
        setup.play(async |stage| {
            stage.origin.script(move |_| begins(kind));
            let mut client = stage.begin(get("/a")).await;
            assert_eq!(client.head().await.status, 200);
            client.part().await;
            stage.at(590).await;
            assert_eq!((stage.status().in_flight, &*stage.state()), (1, "awake"), "{kind}");
            stage.at(601).await;
            assert_eq!(stage.status().in_flight, 0, "{kind}");
            assert!(client.is_closed().await);
        });
    }
}

#[test]
fn a_site_has_limits_of_its_own() {
    let setup = awake().site(|site| site.limits.origin_timeout = Some(secs(300)));
    let setup = setup.with(|config| config.scenario.policy = timeout(86_400));
    setup.play(async |stage| {
        // Once on a new connection, once on one that waits.
        for (start, slow) in [(0, "first"), (400, "second")] {
            stage.at(start).await;
            stage.origin.script(move |_| {
                let late = ok(slow).field("Cache-Control", "no-store").acts().pop().unwrap();
                vec![Act::Body, Act::Take(secs(250)), late]
            });
            let mut client = stage.begin(get("/poll")).await;
            client.lets_time_pass();
            stage.at(start + 260).await;
            assert_eq!(client.answer().await.text(), slow);
            stage.origin.says(ok("quick").field("Cache-Control", "no-store"));
            stage.at(start + 399).await;
            assert_eq!(stage.ask(get("/b")).await.status, 200);
        }
        stage.origin.script(|_| vec![Act::Body, Act::Hang]);
        let mut client = stage.begin(get("/never")).await;
        client.lets_time_pass();
        stage.at(1200).await;
        assert_eq!(client.answer().await.status, 504);
    });
}

#[test]
fn who_only_has_nothing_more_to_ask_still_gets_the_answer() {
    for setup in [awake().real(), asleep().real()] {
        setup.play(async |stage| {
            stage.origin.says(ok("fine").field("Cache-Control", "no-store"));
            for _ in 0..2 {
                let mut client = Client::connect(stage).await;
                client.send(&get("/a")).await;
                client.finish().await;
                let got = client.answer().await;
                assert_eq!((got.status, got.text()), (200, "fine"));
                assert!(client.is_closed().await);
            }
        });
    }
}

/// The server closes connections that wait, and says so just when a request comes.
#[test]
fn a_kept_connection_that_the_server_gives_up_costs_no_request() {
    for (method, body) in [("GET", ""), ("POST", "x")] {
        awake().real().play(async |stage| {
            let served = std::sync::Mutex::new(std::collections::HashSet::new());
            stage.origin.script(move |seen| {
                if served.lock().unwrap().insert(seen.connection) {
                    return ok("fine").field("Cache-Control", "no-store").acts();
                }
                status(408, "").field("Connection", "close").acts()
            });
            for number in 0..4 {
                let got = stage.ask(ask(method, &format!("/{number}")).with_body(body)).await;
                assert_eq!((got.status, got.text()), (200, "fine"), "{method} {number}");
            }
        });
    }
}
