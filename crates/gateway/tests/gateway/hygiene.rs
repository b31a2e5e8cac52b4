//! What passes between client and origin, and what never does.

use nightwatt_power::probe::OWN_MARK;

use crate::client::{Client, ask, get, post};
use crate::origin::{Act, ok, raw};
use crate::stage::{Setup, asleep, awake, settle};

fn trusting() -> Setup {
    awake().with(|config| config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()])
}

#[test]
fn what_belongs_to_one_connection_goes_no_further() {
    awake().play(async |stage| {
        stage.origin.says(
            ok("x")
                .field("Connection", "X-Mine, keep-alive")
                .field("X-Mine", "1")
                .field("Keep-Alive", "timeout=5")
                .field("Proxy-Authenticate", "Basic")
                .field("X-Kept", "1"),
        );
        let ask = get("/a")
            .field("Connection", "X-Secret, TE")
            .field("Connection", "X-Other-Secret")
            .field("X-Secret", "1")
            .field("X-Other-Secret", "1")
            .field("TE", "gzip")
            .field("Keep-Alive", "timeout=5")
            .field("Proxy-Connection", "keep-alive")
            .field("Proxy-Authorization", "Basic eDp5")
            .field("Upgrade", "h2c")
            .field("X-Kept", "1");
        let got = stage.ask(ask).await;
        let seen = stage.origin.only();
        for gone in [
            "connection",
            "x-secret",
            "x-other-secret",
            "te",
            "keep-alive",
            "proxy-connection",
            "proxy-authorization",
            "upgrade",
        ] {
            assert_eq!(seen.fields.all(gone), Vec::<&str>::new(), "{gone}");
        }
        assert_eq!(seen.field("x-kept"), Some("1"));
        for gone in ["x-mine", "keep-alive", "proxy-authenticate"] {
            assert_eq!(got.fields.all(gone), Vec::<&str>::new(), "{gone}");
        }
        assert_eq!(got.field("x-kept"), Some("1"));
    });
}

#[test]
fn connection_cannot_strip_what_the_proxy_says() {
    awake().play(async |stage| {
        let ask = post("/a", "body")
            .field("Connection", "Host, Content-Length, X-Forwarded-For, X-Request-Id, Via");
        stage.ask(ask).await;
        let seen = stage.origin.only();
        assert_eq!(seen.field("host"), Some("blog"));
        assert_eq!(seen.field("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(seen.text(), "body");
        assert!(seen.field("x-request-id").is_some());
    });
}

#[test]
fn a_request_that_comes_back_to_the_proxy_goes_round_no_further() {
    awake().play(async |stage| {
        stage.ask(get("/a")).await;
        let via = stage.origin.only().fields.all("via").join(", ");
        let behind = format!("{via}, 1.1 another");
        // By default the server is probed by a request, which comes back as well.
        let probe = format!("1.1 nightwatt ({})", OWN_MARK.as_str());
        for via in [via.as_str(), behind.as_str(), probe.as_str()] {
            let got = stage.ask(get("/b").field("Via", via)).await;
            assert_eq!((got.status, got.how().1), (508, "refused"), "{via}");
            assert!(got.text().contains("`origin`"), "{}", got.text());
        }
        // Another proxy of the same kind is no loop, and neither is the server of another site that asks this
        // one for something.
        let other = format!("{}-1)", &via[..via.rfind('-').unwrap()]);
        assert_eq!(stage.ask(get("/b").field("Via", &other)).await.status, 200);
        let other = get("/c").field("Via", "1.1 nightwatt (1), 1.1 nightwatt");
        assert_eq!(stage.ask(other).await.status, 200);
        assert_eq!(stage.origin.seen().len(), 3);
    });
}

#[test]
fn strangers_are_not_believed() {
    awake().play(async |stage| {
        let ask = get("/a")
            .field("X-Forwarded-For", "1.2.3.4")
            .field("X-Forwarded-Host", "evil")
            .field("X-Forwarded-Proto", "https")
            .field("Forwarded", "for=1.2.3.4;proto=https")
            .field("X-Request-Id", "forged")
            .field("Via", "1.0 before");
        stage.ask(ask).await;
        let seen = stage.origin.only();
        assert_eq!(seen.field("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(seen.field("x-forwarded-host"), Some("blog"));
        assert_eq!(seen.field("x-forwarded-proto"), Some("http"));
        assert_eq!(seen.field("forwarded"), None);
        let id = seen.field("x-request-id").unwrap();
        assert_ne!(id, "forged");
        let via = seen.fields.all("via").join(", ");
        assert!(via.starts_with("1.0 before, 1.1 nightwatt ("), "{via}");
        let logged = stage.extras();
        assert_eq!((logged[0].id.as_str(), logged[0].client.as_str()), (id, "127.0.0.1"));
    });
}

#[test]
fn proxies_that_are_trusted_are_believed() {
    trusting().play(async |stage| {
        let ask = get("/a")
            .field("X-Forwarded-For", "6.6.6.6, 203.0.113.9")
            .field("X-Forwarded-Proto", "https")
            .field("X-Request-Id", "trace-7");
        stage.ask(ask).await;
        let seen = stage.origin.only();
        assert_eq!(seen.field("x-forwarded-for"), Some("6.6.6.6, 203.0.113.9, 127.0.0.1"));
        assert_eq!(seen.field("x-forwarded-proto"), Some("https"));
        assert_eq!(seen.field("x-request-id"), Some("trace-7"));
        let logged = stage.extras();
        // The last address that no trusted proxy has.
        assert_eq!((logged[0].id.as_str(), logged[0].client.as_str()), ("trace-7", "203.0.113.9"));
    });
}

#[test]
fn an_id_that_would_break_the_log_is_replaced() {
    trusting().play(async |stage| {
        for bad in ["a b", "a\" class=human", &"x".repeat(129), ""] {
            stage.ask(get("/a").field("X-Request-Id", bad)).await;
        }
        for seen in stage.origin.seen() {
            let id = seen.field("x-request-id").unwrap();
            assert!(id.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-'), "{id}");
        }
    });
}

#[test]
fn a_request_without_one_clear_host_is_refused() {
    asleep().play(async |stage| {
        let mut accepted = Vec::new();
        for head in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: blog\r\nHost: blog\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: blog\r\nHost: shop\r\n\r\n",
            // RFC 9112, 3.2: "a Host header field with an invalid field value": 400.
            "GET / HTTP/1.1\r\nHost: blog/../x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: blog shop\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: user@blog\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: blog:port\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: blog,shop\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: bl\u{f6}g\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: blog shop\r\n\r\n",
            "GET http://blog/ HTTP/1.1\r\n\r\n",
            "GET http://blog/ HTTP/1.1\r\nHost: blog shop\r\n\r\n",
            "GET http://user@blog/ HTTP/1.1\r\nHost: blog\r\n\r\n",
            "GET http://blog:99999/ HTTP/1.1\r\nHost: blog\r\n\r\n",
        ] {
            let mut client = Client::connect(stage).await;
            client.say(head).await;
            let got = client.answer().await;
            if got.status != 400 {
                accepted.push((head, got.status));
            }
        }
        assert_eq!(accepted, []);
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn the_absolute_form_names_the_host() {
    awake().play(async |stage| {
        // RFC 9112, 3.2.2: the Host field is ignored, and replaced.
        let got = stage.say("GET http://shop:81/a?b HTTP/1.1\r\nHost: blog\r\n\r\n").await.unwrap();
        assert_eq!(got.text(), "this is /a?b");
        let seen = stage.origin.only();
        assert_eq!((seen.target.as_str(), seen.field("host")), ("/a?b", Some("shop:81")));
    });
}

#[test]
fn a_host_that_is_not_ours_is_misdirected() {
    asleep().site(|site| site.hosts = vec!["blog".into(), "www.blog".into()]).play(async |stage| {
        let got = stage.say("GET / HTTP/1.1\r\nHost: other\r\n\r\n").await.unwrap();
        assert_eq!(got.status, 421);
        assert_eq!(stage.commands(), (0, 0));
        let got = stage.say("GET / HTTP/1.1\r\nHost: WWW.Blog:8080\r\n\r\n").await.unwrap();
        assert_eq!(got.how(), (200, "held"));
        // The server is told what the cache's key says.
        assert_eq!(stage.origin.only().field("host"), Some("www.blog:8080"));
    });
}

/// Heads that a server must refuse, each with its reason.
const REFUSED: [(&str, &str); 21] = [
    ("negative length", "POST / HTTP/1.1\r\nHost: blog\r\nContent-Length: -1\r\n\r\n"),
    ("signed length", "POST / HTTP/1.1\r\nHost: blog\r\nContent-Length: +5\r\n\r\nhello"),
    ("length of words", "POST / HTTP/1.1\r\nHost: blog\r\nContent-Length: five\r\n\r\nhello"),
    ("empty length", "POST / HTTP/1.1\r\nHost: blog\r\nContent-Length:\r\n\r\nhello"),
    ("hexadecimal length", "POST / HTTP/1.1\r\nHost: blog\r\nContent-Length: 0x5\r\n\r\nhello"),
    (
        "two lengths",
        "POST / HTTP/1.1\r\nHost: blog\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    ),
    ("a list of lengths", "POST / HTTP/1.1\r\nHost: blog\r\nContent-Length: 5, 6\r\n\r\nhello!"),
    (
        "huge length",
        "POST / HTTP/1.1\r\nHost: blog\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    ),
    ("not chunked", "POST / HTTP/1.1\r\nHost: blog\r\nTransfer-Encoding: identity\r\n\r\nhello"),
    (
        "hardly chunked",
        "POST / HTTP/1.1\r\nHost: blog\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "chunked, but not last",
        "POST / HTTP/1.1\r\nHost: blog\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ),
    (
        "chunked in 1.0",
        "POST / HTTP/1.0\r\nHost: blog\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "space before the colon",
        "POST / HTTP/1.1\r\nHost: blog\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    ),
    ("folded line", "GET / HTTP/1.1\r\nHost: blog\r\nX-Long: a\r\n b\r\n\r\n"),
    ("NUL in a value", "GET / HTTP/1.1\r\nHost: blog\r\nX-Nul: a\0b\r\n\r\n"),
    ("NUL in a target", "GET /a\0b HTTP/1.1\r\nHost: blog\r\n\r\n"),
    ("bare CR", "GET / HTTP/1.1\r\nHost: blog\r\nX-Cr: a\rTransfer-Encoding: chunked\r\n\r\n"),
    ("no colon", "GET / HTTP/1.1\r\nHost: blog\r\nnonsense\r\n\r\n"),
    ("space in a name", "GET / HTTP/1.1\r\nHost: blog\r\nX Y: 1\r\n\r\n"),
    ("space in a target", "GET /a b HTTP/1.1\r\nHost: blog\r\n\r\n"),
    ("version unheard of", "GET / HTTP/3.7\r\nHost: blog\r\n\r\n"),
];

#[test]
fn what_can_be_understood_in_two_ways_is_refused() {
    awake().play(async |stage| {
        for (what, bytes) in REFUSED {
            let mut client = Client::connect(stage).await;
            client.say(bytes).await;
            client.finish().await;
            let got =
                client.next().await.unwrap_or_else(|| panic!("{what}: closed without a word"));
            assert!((400..=505).contains(&got.status), "{what}: {got:?}");
            assert!(client.is_closed().await, "{what}: what follows cannot be told apart");
        }
        assert_eq!(stage.origin.lines(), Vec::<String>::new());
        assert_eq!(stage.ask(get("/")).await.status, 200, "and others are served");
    });
}

#[test]
fn lengths_are_refused_even_if_they_agree() {
    awake().play(async |stage| {
        for lengths in ["Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5, 5"] {
            let head = format!("POST / HTTP/1.1\r\nHost: blog\r\n{lengths}\r\n\r\nhello");
            assert_eq!(stage.say(&head).await.unwrap().status, 400, "{lengths}");
        }
        assert_eq!(stage.origin.lines(), Vec::<String>::new());
    });
}

#[test]
fn two_framings_are_refused_or_made_one() {
    let framings = [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
    ];
    for framing in framings {
        awake().play(async |stage| {
            let mut client = Client::connect(stage).await;
            let smuggled = "GET /smuggled HTTP/1.1\r\nHost: blog\r\n\r\n";
            client
                .say(format!(
                    "POST /a HTTP/1.1\r\nHost: blog\r\n{framing}\r\n\r\n5\r\nhello\r\n0\r\n\r\n{smuggled}"
                ))
                .await;
            client.answer().await;
            // RFC 9112, 6.1: the connection is closed in any case.
            assert!(client.is_closed().await, "{framing}");
            for seen in stage.origin.seen() {
                assert_eq!(seen.target, "/a", "{framing}");
                assert_eq!(seen.text(), "hello");
                assert!(seen.fields.all("content-length").len() + seen.fields.all("transfer-encoding").len() == 1);
            }
        });
    }
}

#[test]
fn a_coding_that_the_proxy_does_not_know_is_not_lost() {
    awake().play(async |stage| {
        // RFC 9112, 6.1: what is not understood is answered with 501; to forward it without saying
        // that it is compressed would change what it means.
        let saying = |coding: &str| format!("POST /a HTTP/1.1\r\nHost: blog\r\nTransfer-Encoding: {coding}\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
        for coding in
            ["gzip, chunked", "gzip\r\nTransfer-Encoding: chunked", "chunked, chunked"]
        {
            let got = stage.say(saying(coding)).await.unwrap();
            assert!(matches!(got.status, 400 | 501), "{coding}: {got:?}");
        }
        assert_eq!(stage.origin.seen().len(), 0);
        assert_eq!(stage.say(saying("Chunked")).await.unwrap().status, 200);
        assert_eq!(stage.origin.only().text(), "abc");
    });
}

#[test]
fn a_chunk_that_is_none_ends_the_request() {
    awake().play(async |stage| {
        for chunk in
            ["xyz\r\nhello\r\n", "-5\r\nhello\r\n", "fffffffffffffffff\r\nhello\r\n", "5hello"]
        {
            let mut client = Client::connect(stage).await;
            let head = "POST /a HTTP/1.1\r\nHost: blog\r\nTransfer-Encoding: chunked\r\n\r\n";
            client.say(format!("{head}{chunk}")).await;
            client.finish().await;
            if let Some(got) = client.next().await {
                assert!(got.status >= 400, "{chunk:?}: {got:?}");
            }
            settle(&stage.clock).await;
        }
        for seen in stage.origin.seen() {
            assert!(
                seen.body.is_none_or(|(_, whole)| !whole),
                "the origin took it for a whole one"
            );
        }
        assert_eq!(stage.status().in_flight, 0);
    });
}

#[test]
fn heads_have_bounds() {
    asleep().play(async |stage| {
        let huge = get("/").field("X-Huge", &"x".repeat(100_000));
        let many = (0..200).fold(get("/"), |ask, n| ask.field(&format!("X-{n}"), "1"));
        let long = get(&format!("/{}", "x".repeat(70_000)));
        for (what, ask) in [("huge", huge), ("many", many), ("long", long)] {
            let got = stage.ask(ask).await;
            assert!(matches!(got.status, 414 | 431), "{what}: {got:?}");
        }
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn bodies_have_bounds() {
    asleep().with(|config| config.limits.body_bytes = 1000).play(async |stage| {
        let got = stage.ask(post("/a", &"x".repeat(1001))).await;
        assert_eq!((got.how(), stage.commands()), ((413, "refused"), (0, 0)));
        let chunked = ask("POST", "/a").field("Transfer-Encoding", "chunked");
        let body = format!("{:x}\r\n{}\r\n0\r\n\r\n", 1001, "x".repeat(1001));
        let got = stage.ask(chunked.with_body(&body)).await;
        assert_eq!(got.how(), (413, "refused"));
        for seen in stage.origin.seen() {
            assert!(
                seen.body.is_none_or(|(_, whole)| !whole),
                "the origin took it for a whole one"
            );
        }
        let got = stage.ask(post("/a", &"x".repeat(1000))).await;
        assert_eq!(got.status, 200);
        assert_eq!(stage.status().in_flight, 0);
    });
}

#[test]
fn garbage_is_refused_and_harms_nobody() {
    asleep().play(async |stage| {
        let garbage: [&[u8]; 6] = [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\0\0\0\0\0\0\0\0\r\n\r\n",
            b"\xff\xfe\xfd\r\n\r\n",
            b"GET /\r\n\r\n",
            b"\r\n\r\n\r\n\r\n",
        ];
        for bytes in garbage {
            let mut client = Client::connect(stage).await;
            client.say(bytes).await;
            client.finish().await;
            if let Some(got) = client.next().await {
                assert!((400..=505).contains(&got.status), "{bytes:?}: {got:?}");
            }
        }
        assert_eq!(stage.commands(), (0, 0));
        assert_eq!(stage.ask(get("/")).await.status, 200);
    });
}

#[test]
fn it_is_no_forward_proxy() {
    asleep().play(async |stage| {
        let got = stage.say("CONNECT blog:443 HTTP/1.1\r\nHost: blog:443\r\n\r\n").await.unwrap();
        assert_eq!((got.status, stage.commands()), (405, (0, 0)));
    });
}

#[test]
fn http_1_0_is_answered_in_its_own_way() {
    awake().play(async |stage| {
        stage.origin.script(|_| {
            raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n")
        });
        let mut client = Client::connect(stage).await;
        client.say("GET /a HTTP/1.0\r\n\r\n").await;
        let got = client.answer().await;
        // RFC 9112, 6.1: no transfer coding to a client of 1.0; the end of the connection ends it.
        assert_eq!((got.status, got.field("transfer-encoding"), got.text()), (200, None, "abcdef"));
        assert!(client.is_closed().await);
        assert!(stage.origin.only().field("host").is_some());
    });
}

#[test]
fn many_requests_share_a_connection() {
    awake().play(async |stage| {
        let mut client = Client::connect(stage).await;
        let all: Vec<u8> = (0..5).flat_map(|n| get(&format!("/{n}")).bytes()).collect();
        client.say(all).await;
        for n in 0..5 {
            assert_eq!(client.answer().await.text(), format!("this is /{n}"));
        }
        client.send(&get("/last").field("Connection", "close")).await;
        assert_eq!(client.answer().await.text(), "this is /last");
        assert!(client.is_closed().await);
    });
}

#[test]
fn a_get_with_a_body_is_passed_on_with_it() {
    awake().play(async |stage| {
        let search = get("/search").field("Content-Length", "5").with_body("query");
        assert_eq!(stage.ask(search).await.status, 200);
        assert_eq!(stage.origin.only().text(), "query");
    });
}

#[test]
fn an_answer_with_two_framings_is_made_one() {
    awake().play(async |stage| {
        stage.origin.script(|_| {
            raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\
                 Cache-Control: max-age=60\r\n\r\nb\r\nhello world\r\n0\r\n\r\n")
        });
        for _ in 0..2 {
            let mut client = Client::connect(stage).await;
            client.send(&get("/a")).await;
            let got = client.answer().await;
            if got.status == 200 {
                // RFC 9112, 6.3: Transfer-Encoding overrides, and Content-Length is removed.
                assert_eq!(got.text(), "hello world");
            } else {
                assert_eq!(got.status, 502);
            }
            client.send(&get("/.nightwatt/state")).await;
            assert_eq!(client.answer().await.how(), (200, "state"), "the connection is in step");
        }
    });
}

#[test]
fn answers_that_cannot_be_told_apart_are_not_passed_on() {
    let answers = [
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nX-Nul: a\0b\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 20 OK\r\nContent-Length: 3\r\n\r\nabc",
    ];
    for answer in answers {
        awake().play(async |stage| {
            stage.origin.script(move |_| raw(answer));
            let got = stage.ask(post("/a", "x")).await;
            assert_eq!(got.status, 502, "{answer:?}");
        });
    }
}

#[test]
fn early_hints_do_not_take_the_place_of_the_answer() {
    awake().play(async |stage| {
        stage.origin.script(|_| {
            let mut acts = raw("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
            acts.push(Act::Say(ok("page").bytes()));
            acts
        });
        assert_eq!(stage.ask(get("/a")).await.text(), "page");
    });
}

#[test]
fn a_head_that_comes_too_slowly_ends_the_connection() {
    let slow = awake().real();
    slow.with(|config| config.limits.header_timeout = std::time::Duration::from_millis(50)).play(
        async |stage| {
            let mut client = Client::connect(stage).await;
            client.say("GET / HTTP/1.1\r\nHost: bl").await;
            // 408 or nothing; but an end.
            let _ = client.next().await;
            assert!(client.is_closed().await);
        },
    );
}
