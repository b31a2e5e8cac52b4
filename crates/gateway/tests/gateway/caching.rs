//! What is kept of the origin's answers, and for whom.

use std::time::Duration;

use crate::client::{Ask, ask, get, post};
use crate::origin::{Act, Says, ok, raw, status};
use crate::stage::{Stage, awake, timeout};

/// Asks twice; says how often the origin was asked.
async fn asked_twice(stage: &Stage, says: Says, ask: Ask) -> usize {
    let before = stage.origin.seen().len();
    stage.origin.says(says);
    for _ in 0..2 {
        assert_eq!(stage.ask(ask.clone()).await.text(), "mine");
    }
    stage.origin.seen().len() - before
}

fn fresh() -> Says {
    ok("mine").field("Cache-Control", "max-age=3600")
}

#[test]
fn what_is_personal_is_never_kept() {
    awake().play(async |stage| {
        let bearer = |path: &str| get(path).field("Authorization", "Bearer x");
        let control = |value: &str| ok("mine").field("Cache-Control", value);
        let cookie = |path: &str| get(path).field("Cookie", "session=1");
        let cases = [
            ("Authorization", fresh(), bearer("/1")),
            ("Set-Cookie", fresh().field("Set-Cookie", "session=1"), get("/2")),
            (
                "Set-Cookie, public",
                control("public, max-age=9").field("Set-Cookie", "a=1"),
                get("/3"),
            ),
            ("private", control("private, max-age=3600"), get("/4")),
            ("no-store", control("no-store"), get("/5")),
            ("a request with no-store", fresh(), get("/6").field("Cache-Control", "no-store")),
            ("POST", fresh(), post("/7", "x")),
            ("Vary: *", fresh().field("Vary", "*"), get("/8")),
            ("Cookie", fresh(), cookie("/9")),
        ];
        for (what, says, ask) in cases {
            assert_eq!(asked_twice(stage, says, ask).await, 2, "{what}");
        }
        let public = ok("mine").field("Cache-Control", "public, max-age=3600");
        assert_eq!(asked_twice(stage, public.clone(), bearer("/a")).await, 1);
        assert_eq!(asked_twice(stage, public, cookie("/b")).await, 1);
    });
}

#[test]
fn an_answer_to_somebody_with_a_password_is_not_given_to_anybody() {
    awake().play(async |stage| {
        stage.origin.says(fresh());
        stage.ask(get("/a").field("Authorization", "Bearer x")).await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "server"));
    });
}

#[test]
fn each_variant_is_for_those_who_asked_like_that() {
    awake().play(async |stage| {
        stage.origin.script(|seen| {
            let language = seen.field("accept-language").unwrap_or("none");
            ok(language)
                .field("Vary", "Accept-Language")
                .field("Cache-Control", "max-age=60")
                .acts()
        });
        let german = || get("/a").field("Accept-Language", "de");
        let english = || get("/a").field("Accept-Language", "en");
        assert_eq!(stage.ask(german()).await.text(), "de");
        assert_eq!(stage.ask(english()).await.text(), "en");
        assert_eq!(stage.ask(get("/a")).await.text(), "none");
        for (ask, text) in [(german(), "de"), (english(), "en"), (get("/a"), "none")] {
            let got = stage.ask(ask).await;
            assert_eq!((got.how(), got.text()), ((200, "cache"), text));
        }
        assert_eq!(stage.origin.seen().len(), 3);
    });
}

#[test]
fn a_change_makes_the_cache_forget() {
    awake().play(async |stage| {
        stage.origin.says(fresh());
        stage.ask(get("/a")).await;
        stage.origin.says(status(500, "no"));
        stage.ask(ask("PUT", "/a").field("Content-Length", "0")).await;
        assert_eq!(stage.ask(get("/a")).await.answer(), "cache", "nothing has changed");
        stage.origin.says(status(204, ""));
        stage.ask(ask("DELETE", "/a")).await;
        stage.origin.says(fresh());
        assert_eq!(stage.ask(get("/a")).await.answer(), "server");
    });
}

#[test]
fn head_is_answered_from_a_stored_get() {
    awake().play(async |stage| {
        stage.origin.says(fresh().field("ETag", "\"1\""));
        stage.ask(get("/a")).await;
        let got = stage.ask(ask("HEAD", "/a")).await;
        assert_eq!((got.how(), got.field("content-length")), ((200, "cache"), Some("4")));
        assert_eq!(got.field("etag"), Some("\"1\""));
        assert_eq!(stage.origin.lines(), ["GET /a"]);
    });
}

#[test]
fn head_from_the_origin_is_no_answer_to_get() {
    awake().play(async |stage| {
        stage.origin.script(|seen| match seen.method.as_str() {
            "HEAD" => {
                raw("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=60\r\n\r\n")
            }
            _ => fresh().acts(),
        });
        let got = stage.ask(ask("HEAD", "/a")).await;
        assert_eq!((got.status, got.field("content-length")), (200, Some("4")));
        assert_eq!(stage.ask(get("/a")).await.text(), "mine");
    });
}

#[test]
fn parts_are_cut_from_what_is_stored() {
    awake().play(async |stage| {
        let says = ok("0123456789").field("Cache-Control", "max-age=60").field("ETag", "\"1\"");
        stage.origin.says(says);
        stage.ask(get("/a")).await;
        let range = |range: &str| get("/a").field("Range", range);
        for (asked, part, of) in [
            ("bytes=0-3", "0123", "bytes 0-3/10"),
            ("bytes=7-", "789", "bytes 7-9/10"),
            ("bytes=-2", "89", "bytes 8-9/10"),
            ("bytes=5-100", "56789", "bytes 5-9/10"),
        ] {
            let got = stage.ask(range(asked)).await;
            assert_eq!((got.how(), got.text()), ((206, "cache"), part), "{asked}");
            assert_eq!(got.field("content-range"), Some(of));
            assert_eq!(got.seconds("content-length"), part.len() as u64);
        }
        let beyond = stage.ask(range("bytes=10-")).await;
        assert_eq!((beyond.status, beyond.field("content-range")), (416, Some("bytes */10")));
        let changed = stage.ask(range("bytes=0-3").field("If-Range", "\"2\"")).await;
        assert_eq!((changed.status, changed.text()), (200, "0123456789"));
        assert_eq!(stage.origin.seen().len(), 1);
    });
}

#[test]
fn who_has_it_already_gets_304() {
    awake().play(async |stage| {
        let changed = "Sun, 22 Nov 2026 10:00:00 GMT";
        stage.origin.says(fresh().field("ETag", "\"1\"").field("Last-Modified", changed));
        stage.ask(get("/a")).await;
        for (name, value) in [
            ("If-None-Match", "\"0\", W/\"1\""),
            ("If-None-Match", "*"),
            ("If-Modified-Since", changed),
        ] {
            let got = stage.ask(get("/a").field(name, value)).await;
            assert_eq!(got.how(), (304, "not-modified"), "{name}: {value}");
            assert_eq!(got.field("etag"), Some("\"1\""));
        }
        assert_eq!(stage.ask(get("/a").field("If-None-Match", "\"2\"")).await.status, 200);
        assert_eq!(stage.origin.seen().len(), 1);
    });
}

#[test]
fn a_cut_answer_is_not_kept_and_its_client_notices() {
    let cut = [
        (
            "by length",
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\nhalf",
        ),
        (
            "within a chunk",
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
        ),
        (
            "between chunks",
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        ),
    ];
    for (how, answer) in cut {
        awake().play(async |stage| {
            stage
                .origin
                .script(move |_| vec![Act::Body, Act::Say(answer.as_bytes().to_vec()), Act::Close]);
            let got = stage.ask(get("/a")).await;
            assert_eq!((got.status, got.whole), (200, false), "{how}: {got:?}");
            assert_eq!(stage.status().in_flight, 0);
            stage.origin.says(fresh());
            let got = stage.ask(get("/a")).await;
            assert_eq!((got.how(), got.text()), ((200, "server"), "mine"), "{how}");
        });
    }
}

#[test]
fn what_a_client_broke_off_is_not_kept() {
    awake().play(async |stage| {
        let half = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 8\r\n\r\nhalf";
        stage.origin.script(move |_| vec![Act::Body, Act::Say(half.to_vec()), Act::Hang]);
        let mut client = stage.begin(get("/a")).await;
        client.head().await;
        client.leave().await;
        stage.origin.says(fresh());
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "server"));
    });
}

#[test]
fn a_chunked_answer_is_kept_whole() {
    awake().play(async |stage| {
        stage.origin.script(|_| {
            raw(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n\
                 3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n",
            )
        });
        assert_eq!(stage.ask(get("/a")).await.text(), "abcdefg");
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((200, "cache"), "abcdefg"));
        assert_eq!(got.field("content-length"), Some("7"));
    });
}

#[test]
fn an_answer_with_a_trailer_is_kept_whole_and_its_connection_too() {
    awake().play(async |stage| {
        stage.origin.script(|_| {
            raw(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n\
                 3\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n",
            )
        });
        assert_eq!(stage.ask(get("/a")).await.text(), "abc");
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.how(), got.text()), ((200, "cache"), "abc"));
        stage.ask(get("/b")).await;
        assert!(stage.origin.seen().iter().all(|seen| seen.connection == 1));
    });
}

#[test]
fn what_is_too_large_for_the_cache_passes_whole() {
    awake().with(|config| config.scenario.cache.size_mb = 1).play(async |stage| {
        let large = "0123456789".repeat(20_000);
        let says = ok(&large).field("Cache-Control", "max-age=60");
        stage.origin.says(says);
        for _ in 0..2 {
            let got = stage.ask(get("/a")).await;
            assert_eq!((got.how(), got.text() == large), ((200, "server"), true));
        }
        assert_eq!(stage.status().cache.0, 0);
    });
}

#[test]
fn what_says_nothing_of_its_freshness_is_kept_for_the_configured_time() {
    let setup = awake().with(|config| {
        config.scenario.cache.ttl = Duration::from_mins(2);
        config.scenario.policy = timeout(86_400);
    });
    setup.play(async |stage| {
        stage.origin.says(ok("mine"));
        stage.ask(get("/a")).await;
        stage.at(119).await;
        assert_eq!(stage.ask(get("/a")).await.answer(), "cache");
        stage.at(121).await;
        assert_eq!(stage.ask(get("/a")).await.answer(), "server");
    });
}

#[test]
fn an_answer_that_was_old_when_it_came_stays_old() {
    awake().play(async |stage| {
        stage.origin.says(fresh().field("Age", "3000"));
        stage.ask(get("/a")).await;
        stage.at(50).await;
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.answer(), got.seconds("age")), ("cache", 3050));
    });
}

#[test]
fn a_field_that_connection_names_chooses_nothing() {
    for (field, vary) in
        [("X-Foo", "X-Foo"), ("Cookie", "Cookie"), ("Accept-Language", "Accept-Language")]
    {
        awake().play(async |stage| {
            stage.origin.script(move |seen| {
                let with = seen.field(&field.to_ascii_lowercase()).unwrap_or("nothing");
                ok(&format!("with {with}"))
                    .field("Cache-Control", "public, max-age=60")
                    .field("Vary", vary)
                    .acts()
            });
            // The server does not see the field: what it says then is not for those who send it.
            let poison = get("/").field(field, "a=1").field("Connection", field);
            assert_eq!(stage.ask(poison.clone()).await.text(), "with nothing");
            assert_eq!(stage.ask(get("/").field(field, "a=1")).await.text(), "with a=1", "{field}");
            assert_eq!(stage.ask(poison).await.text(), "with nothing");
            assert_eq!(stage.ask(get("/")).await.how(), (200, "cache"));
        });
    }
}

#[test]
fn an_answer_to_somebody_with_a_key_is_theirs_alone() {
    awake().play(async |stage| {
        stage.origin.script(|seen| {
            ok(&format!("for {}", seen.field("x-api-key").unwrap_or("nobody"))).acts()
        });
        assert_eq!(stage.ask(get("/").field("X-Api-Key", "me")).await.text(), "for me");
        assert_eq!(stage.ask(get("/")).await.text(), "for nobody");
    });
}
