//! The fast path for requests that only the server can answer: the same request, answer and
//! accounting as on the slow path.

use nightwatt_gateway::control::Order;

use crate::client::{Ask, BROWSER, CRAWLER, Client, get};
use crate::origin::{Act, Gate, ok, raw, status};
use crate::stage::{Setup, Stage, awake, secs, timeout};

/// The same request, with a field that isn't passed on and that the fast path does not accept.
fn the_long_way(ask: &Ask) -> Ask {
    ask.clone().field("Connection", "x-nothing")
}

/// Head, sorted, and body.
async fn answer(stage: &Stage, ask: &Ask) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let got = stage.ask(ask.clone()).await;
    let mut fields = got.fields.0.clone();
    fields.sort();
    (got.status, fields, got.body)
}

/// What the server was asked last, sorted; the id without its value.
fn asked(stage: &Stage) -> (String, String, Vec<(String, String)>) {
    let seen = stage.origin.seen().pop().unwrap();
    let mut fields = seen.fields.0.clone();
    for (name, value) in &mut fields {
        if name == "x-request-id" {
            assert!(value.contains('-'), "{value}");
            value.clear();
        }
    }
    fields.sort();
    (seen.method, seen.target, fields)
}

/// A server that is awake, and known to listen.
fn listening() -> Setup {
    awake().probed_by_http()
}

/// Makes a request, for the connection that it leaves behind.
async fn with_a_connection(stage: &Stage) {
    stage.origin.says(ok("").field("Cache-Control", "no-store"));
    assert_eq!(stage.ask(get("/first")).await.answer(), "server");
}

async fn forget_all(stage: &Stage) {
    stage.order(Order::Purge { site: None, places: Vec::new(), prefix: false, all: true }).await;
}

#[test]
fn both_ways_ask_the_same_and_give_the_same() {
    let asks = [
        get("/"),
        get("/a/b?c=d&e=%20f").agent("curl/8"),
        get("/").by_browser(),
        get("/").agent(BROWSER).field("Cookie", "a=b; c=d").field("Accept", "application/json"),
        get("/").agent(CRAWLER),
        get("/").field("Referer", "http://blog/x").field("X-Odd", "1").field("X-Odd", "2"),
        get("/").field("Cache-Control", "no-cache"),
        get("/").field("X-Forwarded-For", "203.0.113.9").field("Forwarded", "for=a"),
        get("/").field("Via", "1.1 other").field("X-Request-Id", "mine"),
        get("/").field("TE", "trailers").field("Max-Forwards", "3"),
        get("/").field("X-Forwarded-Ssl", "on").field("Front-End-Https", "on"),
        get("/\"quoted\""),
        get("/[brackets]|{braces}"),
    ];
    let answers = [
        ok("hello").field("Cache-Control", "no-store"),
        ok("").field("Cache-Control", "private, max-age=60"),
        status(404, "gone").field("Cache-Control", "max-age=0, No-Store"),
        status(500, "broken").field("Cache-Control", "no-store"),
        ok("x")
            .field("Cache-Control", "no-store")
            .field("Keep-Alive", "timeout=9")
            .field("Via", "1.0 back"),
        ok("x").field("Cache-Control", "no-store").field("Date", "Mon, 23 Nov 2026 11:59:00 GMT"),
        ok("x")
            .field("Cache-Control", "no-store")
            .field("Proxy-Authenticate", "x")
            .field("Trailer", "y"),
        ok("x").field("Cache-Control", "no-store").field("Connection", "x-own").field("X-Own", "1"),
        ok("x").field("Cache-Control", "no-store").field("Nightwatt-Answer", "forged"),
        ok("x").field("Cache-Control", "no-store, must-understand"),
        ok("x").field("Cache-Control", "no-store").field("CDN-Cache-Control", "max-age=0"),
        ok("x"),
    ];
    listening().play(async |stage| {
        for says in &answers {
            for ask in &asks {
                with_a_connection(stage).await;
                stage.origin.says(says.clone());
                let short = (answer(stage, ask).await, asked(stage));
                forget_all(stage).await;
                let long = (answer(stage, &the_long_way(ask)).await, asked(stage));
                assert_eq!(short, long, "{ask:?} {says:?}");
                forget_all(stage).await;
            }
        }
    });
}

/// The slow path groups the fields of one name, the fast path leaves them where they were.
#[test]
fn what_is_plain_does_take_the_fast_path() {
    let in_order = |fields: &[(String, String)], name: &str| {
        let named = fields.iter().filter(|(it, _)| it.starts_with(name));
        named.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let ask = get("/").field("X-A", "1").field("X-B", "2").field("X-A", "3");
    listening().play(async |stage| {
        with_a_connection(stage).await;
        for (control, ask, expected) in [
            ("no-store", ask.clone(), ["1", "2", "3"]),
            ("private", ask.clone(), ["1", "2", "3"]),
            ("no-store", ask.clone().field("Cookie", "a=b"), ["1", "2", "3"]),
            ("no-store", the_long_way(&ask), ["1", "3", "2"]),
        ] {
            let says = ok("hello").field("X-C", "1").field("X-D", "2").field("X-C", "3");
            stage.origin.says(says.field("Cache-Control", control));
            let got = stage.ask(ask.clone()).await;
            assert_eq!((got.how(), got.text()), ((200, "server"), "hello"));
            let asked = &stage.origin.seen().pop().unwrap().fields.0;
            assert_eq!(in_order(asked, "x-a").len(), 2);
            let both = asked.iter().filter(|(name, _)| name == "x-a" || name == "x-b");
            let both: Vec<_> = both.map(|(_, value)| value.as_str()).collect();
            assert_eq!(both, expected, "{control}");
            let given = got.fields.0.iter().filter(|(name, _)| name == "x-c" || name == "x-d");
            let given: Vec<_> = given.map(|(_, value)| value.as_str()).collect();
            assert_eq!(given, expected, "{control}");
        }
        let connections: Vec<_> = stage.origin.seen().iter().map(|seen| seen.connection).collect();
        assert_eq!(connections, [2; 5], "all of them by the same connection, behind the probe's");
    });
}

/// The accounting of a story: the status, and the request log without the ids.
fn books(stage: &Stage) -> (String, Vec<String>) {
    let without_id = |line: String| {
        let (before, after) = line.split_once(" id=").unwrap();
        let (_, after) = after.split_once(' ').unwrap();
        format!("{before} {after}")
    };
    (format!("{:?}", stage.status()), stage.log().into_iter().map(without_id).collect())
}

#[test]
fn both_ways_lead_to_the_same_books() {
    let mut seen = Vec::new();
    for way in [|ask: &Ask| ask.clone(), the_long_way as fn(&Ask) -> Ask] {
        listening().play(async |stage| {
            with_a_connection(stage).await;
            for (code, ask) in [
                (200, get("/").by_browser()),
                (200, get("/a").agent(CRAWLER)),
                (404, get("/b").agent("odd \"one\"\\")),
                (500, get("/c").agent("curl/8").field("Referer", "http://blog/")),
            ] {
                stage.pass(secs(2)).await;
                let says = status(code, "hello").field("Cache-Control", "no-store");
                stage
                    .origin
                    .script(move |_| vec![Act::Body, Act::Take(secs(1)), Act::Say(says.bytes())]);
                let mut client = stage.begin(way(&ask)).await;
                client.lets_time_pass();
                assert_eq!(client.answer().await.how(), (code, "server"));
            }
            seen.push(books(stage));
        });
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].1.iter().skip(1).all(|line| line.contains(" delay=1.00")), "{:?}", seen[0].1);
}

#[test]
fn an_answer_that_is_for_the_cache_after_all_is_stored() {
    listening().play(async |stage| {
        with_a_connection(stage).await;
        stage.origin.says(ok("old").field("Cache-Control", "no-store"));
        for _ in 0..3 {
            assert_eq!(stage.ask(get("/")).await.how(), (200, "server"));
        }
        stage.origin.says(ok("new").field("Cache-Control", "max-age=60"));
        assert_eq!(stage.ask(get("/")).await.how(), (200, "server"));
        let got = stage.ask(get("/")).await;
        assert_eq!((got.how(), got.text()), ((200, "cache"), "new"));
    });
}

/// The same for a client whose request took the slow path: other clients need not wait for an
/// answer that will not be stored.
#[test]
fn nobody_waits_for_answers_that_are_not_for_the_cache() {
    listening().play(async |stage| {
        with_a_connection(stage).await;
        let gate = Gate::shut();
        let says = ok("hello").field("Cache-Control", "no-store").bytes();
        assert_eq!(stage.ask(get("/")).await.how(), (200, "server"));
        let (slow, says) = (gate.clone(), says.clone());
        stage.origin.script(move |_| vec![Act::Await(slow.clone()), Act::Say(says.clone())]);
        let before = stage.origin.seen().len();
        let mut clients = Vec::new();
        for ask in [get("/"), get("/"), the_long_way(&get("/"))] {
            clients.push(stage.begin(ask).await);
        }
        stage.origin.saw(before + 3).await;
        for client in &mut clients {
            gate.open();
            assert_eq!(client.answer().await.how(), (200, "server"));
        }
    });
}

#[test]
fn an_answer_that_comes_in_parts_goes_on_in_parts() {
    listening().play(async |stage| {
        for head in ["Content-Length: 10\r\n", "Transfer-Encoding: chunked\r\n"] {
            with_a_connection(stage).await;
            let gate = Gate::shut();
            let chunked = head.starts_with('T');
            let (first, second) = if chunked {
                ("5\r\nhello\r\n", "5\r\nworld\r\n0\r\n\r\n")
            } else {
                ("hello", "world")
            };
            let first = format!("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n{head}\r\n{first}");
            let shut = gate.clone();
            stage.origin.script(move |_| {
                let say = |text: &str| Act::Say(text.as_bytes().to_vec());
                vec![say(&first), Act::Await(shut.clone()), say(second)]
            });
            let mut client = stage.begin(get("/")).await;
            assert_eq!(client.head().await.status, 200);
            let part = String::from_utf8(client.part().await).unwrap();
            assert!(part.contains("hello") && !part.contains("world"), "{part}");
            gate.open();
            let part = String::from_utf8(client.part().await).unwrap();
            assert!(part.contains("world"), "{part}");
            client.leave().await;
        }
    });
}

#[test]
fn a_connection_that_breaks_under_a_request_costs_nothing_but_time() {
    listening().play(async |stage| {
        with_a_connection(stage).await;
        let says = ok("hello").field("Cache-Control", "no-store").bytes();
        stage.origin.script(move |seen| match seen.connection {
            2 => vec![Act::Close],
            _ => vec![Act::Say(says.clone())],
        });
        let got = stage.ask(get("/")).await;
        assert_eq!((got.how(), got.text()), ((200, "server"), "hello"));
        let seen: Vec<_> = stage.origin.seen().iter().map(|it| it.connection).collect();
        assert_eq!(seen, [2, 2, 3], "the first one is the probe's");
        assert_eq!(stage.log().len(), 2);
        assert_eq!(stage.status().in_flight, 0);
    });
}

#[test]
fn what_is_no_answer_is_refused_as_ever() {
    listening().play(async |stage| {
        for nonsense in [
            "HTTP/1.1 OK\r\n\r\n",
            "hello there\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nx",
        ] {
            with_a_connection(stage).await;
            stage.origin.script(move |_| raw(nonsense));
            assert_eq!(stage.ask(get("/")).await.status, 502, "{nonsense:?}");
            assert_eq!(stage.status().in_flight, 0);
        }
    });
}

#[test]
fn a_server_that_says_nothing_is_given_up_in_time() {
    let long_timeout =
        |config: &mut nightwatt_gateway::Config| config.limits.origin_timeout = secs(20);
    listening().with(long_timeout).play(async |stage| {
        with_a_connection(stage).await;
        stage.origin.script(|_| vec![Act::Hang]);
        let mut client = stage.begin(get("/")).await;
        client.lets_time_pass();
        stage.pass(secs(19)).await;
        assert_eq!((stage.status().in_flight, stage.log().len()), (1, 1));
        stage.pass(secs(2)).await;
        assert_eq!(client.answer().await.status, 504);
        assert_eq!(stage.status().in_flight, 0);
        let line = stage.log().pop().unwrap();
        assert!(line.contains(" answer=unavailable delay=20.00"), "{line}");
    });
}

#[test]
fn who_leaves_is_in_the_books_and_the_server_is_free() {
    listening().play(async |stage| {
        with_a_connection(stage).await;
        stage.origin.script(|_| vec![Act::Hang]);
        let client = stage.begin(get("/").agent("curl/8")).await;
        stage.origin.saw(2).await;
        assert_eq!(stage.status().in_flight, 1);
        client.leave().await;
        assert_eq!(stage.status().in_flight, 0);
        let line = stage.log().pop().unwrap();
        assert!(line.contains("\"GET / HTTP/1.1\" 499 0 \"-\" \"curl/8\""), "{line}");
        assert!(line.contains(" answer=gone "), "{line}");
    });
}

#[test]
fn requests_behind_it_keep_their_place() {
    listening().play(async |stage| {
        with_a_connection(stage).await;
        stage.origin.script(|seen| ok(&seen.target).field("Cache-Control", "no-store").acts());
        let mut client = Client::connect(stage).await;
        let asks = ["/1", "/2", "/3", "/4"];
        for target in asks {
            client.send(&get(target)).await;
        }
        for target in asks {
            assert_eq!(client.answer().await.text(), target);
        }
    });
}

/// A server that has just woken and may still be starting is asked again: the slow path does that.
#[test]
fn the_first_seconds_of_a_server_are_left_to_the_long_way() {
    awake().play(async |stage| {
        with_a_connection(stage).await;
        stage.origin.says(status(503, "starting").field("Cache-Control", "no-store"));
        let before = stage.origin.seen().len();
        let mut client = stage.begin(get("/")).await;
        client.lets_time_pass();
        stage.pass(secs(2)).await;
        assert!(stage.origin.seen().len() > before + 1, "it was asked again");
        client.leave().await;
    });
}

/// What one request has brought upon itself says nothing of others.
#[test]
fn a_304_to_one_client_does_not_make_all_others_ask_the_server() {
    listening().play(async |stage| {
        with_a_connection(stage).await;
        let gate = Gate::shut();
        let (slow, says) = (gate.clone(), ok("hello").field("Cache-Control", "max-age=60").bytes());
        stage.origin.script(move |seen| {
            if seen.field("if-none-match").is_some() {
                return status(304, "").field("ETag", "\"a\"").acts();
            }
            vec![Act::Await(slow.clone()), Act::Say(says.clone())]
        });
        let got = stage.ask(get("/").field("If-None-Match", "\"a\"")).await;
        assert_eq!(got.status, 304);
        let before = stage.origin.seen().len();
        let mut first = stage.begin(get("/")).await;
        stage.origin.saw(before + 1).await;
        let mut second = stage.begin(get("/")).await;
        gate.open();
        assert_eq!(first.answer().await.how(), (200, "server"));
        assert_eq!(second.answer().await.how(), (200, "cache"));
        assert_eq!(stage.origin.seen().len(), before + 1, "the second has waited for the first");
    });
}

/// The server's latest word counts: what was asked for before it and comes later is not stored.
#[test]
fn an_answer_that_is_older_than_a_no_store_is_not_stored() {
    for way in [|ask: &Ask| ask.clone(), the_long_way as fn(&Ask) -> Ask] {
        listening().play(async |stage| {
            with_a_connection(stage).await;
            let gate = Gate::shut();
            let slow = gate.clone();
            stage.origin.script(move |seen| {
                if seen.field("cookie").is_none() {
                    return ok("mine").field("Cache-Control", "no-store").acts();
                }
                let head = "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=600\r\nContent-Length: 4\r\n\r\nol";
                vec![Act::Say(head.into()), Act::Await(slow.clone()), Act::Say(b"d!".to_vec())]
            });
            let mut older = stage.begin(get("/").field("Cookie", "a=b")).await;
            stage.origin.saw(2).await;
            // Another connection, for the next client.
            stage.ask(get("/other")).await;
            assert_eq!(stage.ask(way(&get("/"))).await.text(), "mine");
            gate.open();
            assert_eq!(older.answer().await.text(), "old!");
            assert_eq!(stage.ask(get("/")).await.how(), (200, "server"));
        });
    }
}

/// Who is sent away for asking too often takes nothing with him: a connection waits on as long as its server keeps it.
#[test]
fn a_connection_that_was_only_looked_at_is_as_old_as_before() {
    let limited = |config: &mut nightwatt_gateway::Config| {
        config.limits.requests_per_client = Some("2/m burst 2".parse().unwrap());
        config.scenario.policy = timeout(3600);
    };
    listening().with(limited).play(async |stage| {
        stage
            .origin
            .says(ok("").field("Cache-Control", "no-store").field("Keep-Alive", "timeout=5"));
        stage.ask(get("/first")).await;
        stage.ask(get("/second")).await;
        for _ in 0..3 {
            stage.pass(secs(1)).await;
            assert_eq!(stage.ask(get("/third")).await.status, 429);
        }
        stage.pass(secs(58)).await;
        assert_eq!(stage.ask(get("/fourth")).await.how(), (200, "server"));
        let connections: Vec<_> = stage.origin.seen().iter().map(|it| it.connection).collect();
        assert_eq!(connections, [2, 2, 3], "the server would have closed the other one");
    });
}
