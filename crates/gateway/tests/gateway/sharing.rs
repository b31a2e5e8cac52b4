//! No client gets an answer that was meant for another, and none changes what others get: by both request
//! paths, by HTTP/1.1 and HTTP/2, from memory and from disk, awake and asleep, in turn and at once.

use http::Request;
use http_body_util::{BodyExt, Full};
use nightwatt_gateway::config::{DiskConfig, FillConfig, SiteKind};

use crate::client::{Ask, ask, get};
use crate::http2;
use crate::origin::{Act, Gate, Says, Seen, ok, status};
use crate::stage::{Setup, Stage, asleep, awake, secs};

/// Fields and cookies by which applications know their users; the last has no list's name.
const IDENTITIES: [(&str, [&str; 2]); 7] = [
    ("X-Emby-Token", ["alice", "bob"]),
    ("PRIVATE-TOKEN", ["alice", "bob"]),
    ("Authorization", ["Bearer alice", "Bearer bob"]),
    ("X-Api-Key", ["alice", "bob"]),
    ("Cookie", ["sid=alice", "sid=bob"]),
    ("Cookie", ["_ga=1; jellyfin=alice", "_ga=1; jellyfin=bob"]),
    ("X-Quite-New", ["alice", "bob"]),
];

/// What servers say that do not think of caches, and of browsers' caches alone.
const CARELESS: [&[(&str, &str)]; 4] = [
    &[],
    &[("ETag", "\"1\""), ("Last-Modified", "Mon, 01 Jun 2026 00:00:00 GMT")],
    &[("Content-Type", "application/json")],
    &[("Cache-Control", "max-age=3600")],
];

fn is_marked(fields: &[(&str, &str)]) -> bool {
    fields.iter().any(|(name, _)| *name == "Cache-Control")
}

/// The cache assumes nothing, as it is shipped. (Other stories are about what happens to stored answers, and so
/// let clients fill it.)
pub(crate) fn as_shipped(setup: Setup) -> Setup {
    of_kind(setup, None)
}

/// As a site of this kind is shipped.
pub(crate) fn of_kind(setup: Setup, kind: Option<SiteKind>) -> Setup {
    setup.site(move |site| {
        site.kind = kind;
        site.cache.fill = FillConfig::default();
    })
}

/// As sites are shipped: without a kind, and of each kind.
pub(crate) fn shipped(setup: fn() -> Setup) -> [Setup; 3] {
    [None, Some(SiteKind::Pages), Some(SiteKind::App)].map(|kind| of_kind(setup(), kind))
}

/// The same request by the fast path and by the slow one: the latter's field reaches no server.
pub(crate) fn by_both_paths(ask: &Ask) -> [Ask; 2] {
    [ask.clone(), ask.clone().field("Connection", "x-nothing")]
}

fn says(body: &str, fields: &[(&str, &str)]) -> Says {
    fields.iter().fold(ok(body), |says, (name, value)| says.field(name, value))
}

/// Who sent a request, as the server understands it.
fn who(seen: &Seen) -> String {
    let names = IDENTITIES.map(|(name, _)| name.to_ascii_lowercase());
    let known = names.iter().find_map(|name| seen.field(name));
    known.filter(|it| it.contains("alice") || it.contains("bob")).unwrap_or("a stranger").to_owned()
}

pub(crate) fn is_ours(seen: &Seen) -> bool {
    seen.field("x-request-id").is_some_and(|id| id.starts_with(nightwatt_gateway::REFRESH_ID))
}

/// What the proxy asked by itself.
pub(crate) fn ours(stage: &Stage) -> Vec<Seen> {
    stage.origin.seen().into_iter().filter(is_ours).collect()
}

pub(crate) async fn sleeps(stage: &Stage) {
    stage.pass(secs(200)).await;
    assert_eq!(stage.state(), "asleep");
}

#[test]
fn whoever_a_field_or_cookie_names_alone_gets_the_answer() {
    for fields in CARELESS {
        for setup in shipped(asleep) {
            setup.play(async |stage| {
                stage.origin.script(move |seen| says(&who(seen), fields).acts());
                for (number, (name, values)) in IDENTITIES.into_iter().enumerate() {
                    for (path, by_path) in [("fast", 0), ("slow", 1)] {
                        let asks = |value: Option<&str>| {
                            let plain = get(&format!("/api/{number}/{path}"));
                            let ask = value.map_or(plain.clone(), |value| plain.field(name, value));
                            by_both_paths(&ask)[by_path].clone()
                        };
                        // What its server marked for all is for the first of them too, once it is there.
                        let last = (!is_marked(fields)).then_some(Some(values[0]));
                        let askers =
                            [Some(values[0]), Some(values[1]), None].into_iter().chain(last);
                        for value in askers {
                            let got = stage.ask(asks(value)).await;
                            let expected = value.unwrap_or("a stranger");
                            assert_eq!(
                                got.text(),
                                expected,
                                "{name} by the {path} path, {fields:?}"
                            );
                        }
                    }
                }
                for (number, (name, values)) in IDENTITIES.into_iter().enumerate() {
                    sleeps(stage).await;
                    let ask = get(&format!("/api/{number}/fast")).field(name, values[1]);
                    let got = stage.ask(ask).await;
                    // What its server marked for all may be given as long as it is fresh, as strangers got it.
                    let expected = if is_marked(fields) { "a stranger" } else { values[1] };
                    assert_eq!(got.text(), expected, "{name} asleep, {fields:?}");
                }
            });
        }
    }
}

#[test]
fn at_once_each_sender_is_answered_alone_too() {
    for setup in shipped(awake) {
        setup.play(async |stage| {
            for (number, (name, values)) in IDENTITIES.into_iter().enumerate() {
                let gate = Gate::shut();
                let gates = gate.clone();
                stage.origin.script(move |seen| {
                    vec![Act::Body, Act::Await(gates.clone()), Act::Say(ok(&who(seen)).bytes())]
                });
                let before = stage.origin.seen().len();
                let path = format!("/api/{number}");
                let mut clients = Vec::new();
                for value in values {
                    clients.push((value, stage.begin(get(&path).field(name, value)).await));
                }
                clients.push(("a stranger", stage.begin(get(&path)).await));
                stage.origin.saw(before + 3).await;
                // The proxy's own request may come behind them.
                (0..4).for_each(|_| gate.open());
                for (value, client) in &mut clients {
                    assert_eq!(client.answer().await.text(), *value, "{name}");
                }
            }
        });
    }
}

#[test]
fn content_asks_for_something_else() {
    let query = |body: &str| {
        let length = body.len().to_string();
        ask("GET", "/_search").field("Content-Length", &length).with_body(body)
    };
    for fields in [&[][..], &[("Cache-Control", "public, max-age=3600")]] {
        for setup in shipped(asleep) {
            setup.play(async |stage| {
                stage.origin.script(move |seen| {
                    let length = seen.field("content-length").unwrap_or("none");
                    says(length, fields).acts()
                });
                for (body, length) in [("1", "1"), ("22", "2"), ("1", "1"), ("333", "3")] {
                    for ask in by_both_paths(&query(body)) {
                        assert_eq!(stage.ask(ask).await.text(), length);
                    }
                }
                assert_eq!(stage.ask(get("/_search")).await.text(), "none");
                // In the other direction: what was stored without content is not for one with it.
                for ask in by_both_paths(&query("4444")) {
                    assert_eq!(stage.ask(ask).await.text(), "4");
                }
                // Chunks are content as well, and HEAD may have some.
                let chunked = get("/_search").field("Transfer-Encoding", "chunked");
                let got = stage.ask(chunked.with_body("5\r\n55555\r\n0\r\n\r\n")).await;
                assert_eq!(got.answer(), "server");
                let head = ask("HEAD", "/_search").field("Content-Length", "1").with_body("1");
                let before = stage.origin.seen().len();
                stage.origin.says(ok(""));
                assert_eq!(stage.ask(head).await.answer(), "server");
                assert_eq!(stage.origin.seen().len(), before + 1);
                let sent: Vec<String> = stage.origin.seen()[..2].iter().map(Seen::text).collect();
                assert_eq!(sent, ["1", "1"]);
                sleeps(stage).await;
                stage.origin.says(ok("woken"));
                let got = stage.ask(query("1")).await;
                assert_eq!((got.how(), got.text()), ((200, "held"), "woken"));
            });
        }
    }
}

#[test]
fn at_once_each_content_reaches_the_server() {
    for setup in shipped(awake) {
        setup.play(async |stage| {
            let gate = Gate::shut();
            let gates = gate.clone();
            stage.origin.script(move |_| {
                let says = ok("x").field("Cache-Control", "public, max-age=60");
                vec![Act::Body, Act::Await(gates.clone()), Act::Say(says.bytes())]
            });
            let mut clients = Vec::new();
            for body in ["first", "second"] {
                let length = body.len().to_string();
                let ask = ask("GET", "/_search").field("Content-Length", &length).with_body(body);
                clients.push(stage.begin(ask).await);
            }
            stage.origin.saw(2).await;
            (0..2).for_each(|_| gate.open());
            for client in &mut clients {
                assert_eq!(client.answer().await.answer(), "server");
            }
            let bodies: Vec<String> = stage.origin.seen().iter().map(Seen::text).collect();
            assert_eq!(bodies, ["first", "second"]);
        });
    }
}

#[test]
fn by_http2_it_is_the_same() {
    for setup in shipped(awake) {
        let Some((_dir, chain, setup)) = http2::with_tls(setup) else { return };
        setup.play(async |stage| {
            stage.origin.script(|seen| {
                let length = seen.field("content-length").or(seen.field("transfer-encoding"));
                let body = format!("{} {}", who(seen), length.unwrap_or("none"));
                says(&body, &[("Cache-Control", "max-age=3600")]).acts()
            });
            let mut client = http2::connect(stage, &chain, 65_535).await;
            let mut asked = async |field: (&str, &str), body: &'static str| {
                let request = Request::get("https://blog/api").header(field.0, field.1);
                let request = request.body(Full::from(body).boxed()).unwrap();
                http2::read(http2::answer(&mut client, request).await).await.2
            };
            assert_eq!(asked(("x-emby-token", "alice"), "").await, "alice none");
            assert_eq!(asked(("x-emby-token", "bob"), "").await, "bob none");
            assert_eq!(asked(("cookie", "sid=alice"), "").await, "sid=alice none");
            assert_eq!(asked(("dnt", "1"), "query").await, "a stranger 5");
            assert_eq!(asked(("dnt", "1"), "longer query").await, "a stranger 12");
            assert_eq!(asked(("dnt", "1"), "").await, "a stranger none");
            // That one was for all, as its server says; what asks with content is still asked.
            assert_eq!(asked(("dnt", "1"), "query").await, "a stranger 5");
            let seen = stage.origin.seen();
            assert_eq!(seen.iter().filter(|it| !is_ours(it)).count(), 7);
            // A port that is not the scheme's own is part of the name, and of the key.
            stage.origin.script(|seen| {
                let host = seen.field("host").unwrap().to_owned();
                ok(&host).field("Cache-Control", "public, max-age=60").acts()
            });
            for (host, told) in [("blog:80", "blog:80"), ("blog:443", "blog"), ("BLOG", "blog")] {
                let request =
                    Request::get(format!("https://{host}/k1")).body(Full::default().boxed());
                let got = http2::read(http2::answer(&mut client, request.unwrap()).await).await;
                assert_eq!(got.2, told, "{host}");
            }
        });
    }
}

#[test]
fn without_a_kind_nothing_is_assumed() {
    for kind in [None, Some(SiteKind::App)] {
        of_kind(asleep(), kind).play(async |stage| {
            stage.origin.says(ok("x").field("Last-Modified", "Mon, 01 Jun 2026 00:00:00 GMT"));
            for _ in 0..3 {
                stage.ask(get("/a")).await;
            }
            assert_eq!(stage.origin.seen().len(), 3);
            stage.origin.says(ok("x").field("Cache-Control", "max-age=3600"));
            stage.ask(get("/b")).await;
            assert_eq!(stage.ask(get("/b")).await.answer(), "cache", "its server says so");
        });
    }
}

#[test]
fn pages_are_fetched_by_the_proxy_itself_and_given_to_strangers() {
    of_kind(asleep(), Some(SiteKind::Pages)).play(async |stage| {
        stage.origin.script(|seen| ok(&who(seen)).field("Content-Type", "text/html").acts());
        let visitor = || {
            let ask = get("/page?x=1").by_browser().field("Accept-Encoding", "gzip, br");
            ask.field("Accept-Language", "de")
                .field("Cookie", "_ga=1")
                .field("Referer", "http://x/")
        };
        // The first request wakes the server; its address is not one to be asked for twice.
        assert_eq!(stage.ask(get("/logout")).await.answer(), "held");
        assert_eq!(stage.ask(visitor()).await.answer(), "server");
        let own = ours(stage);
        assert_eq!(own.len(), 1, "{own:?}");
        // Nothing of the visitor's is in it but the class of its codings.
        for name in ["cookie", "referer", "accept-language", "accept", "if-none-match"] {
            assert_eq!(own[0].field(name), None, "{name}");
        }
        assert_eq!(own[0].field("accept-encoding"), Some("gzip"));
        assert_eq!((own[0].field("host"), own[0].target.as_str()), (Some("blog"), "/page?x=1"));
        assert_eq!(own[0].field("x-forwarded-for"), Some("192.0.2.1"));
        for ask in by_both_paths(&visitor()) {
            assert_eq!(stage.ask(ask).await.answer(), "cache");
        }
        let alice = visitor().field("X-Emby-Token", "alice");
        for ask in by_both_paths(&alice) {
            let got = stage.ask(ask).await;
            assert_eq!((got.answer(), got.text()), ("server", "alice"));
        }
        assert_eq!(ours(stage).len(), 1);
        sleeps(stage).await;
        assert_eq!(stage.ask(visitor()).await.how(), (200, "stale"));
        let alice = get("/page?x=1").field("X-Emby-Token", "alice");
        assert_eq!(stage.ask(alice).await.how(), (200, "held"), "what was assumed is not hers");
    });
}

#[test]
fn an_own_ttl_is_consent_too() {
    as_shipped(awake()).site(|site| site.cache.ttl = Some(secs(60))).play(async |stage| {
        stage.ask(get("/a")).await;
        assert_eq!(ours(stage).len(), 1);
        assert_eq!(stage.ask(get("/a")).await.answer(), "cache");
    });
    as_shipped(awake()).site(|site| site.cache.ttl = Some(secs(0))).play(async |stage| {
        stage.ask(get("/a")).await;
        assert_eq!((ours(stage).len(), stage.ask(get("/a")).await.answer()), (0, "server"));
    });
}

#[test]
fn what_the_proxy_is_told_otherwise_than_its_client_is_not_kept() {
    let pages = || of_kind(awake(), Some(SiteKind::Pages));
    pages().play(async |stage| {
        // A server that goes by `Accept`, and does not say so.
        stage.origin.script(|seen| {
            let json = seen.field("accept") == Some("application/json");
            let kind = if json { "application/json" } else { "text/html" };
            ok(kind).field("Content-Type", kind).acts()
        });
        let json = || get("/a").field("Accept", "application/json");
        stage.ask(json()).await;
        assert_eq!(ours(stage).len(), 1);
        assert_eq!(
            stage.ask(get("/a")).await.how(),
            (200, "server"),
            "it was not what the client got"
        );
    });
    pages().play(async |stage| {
        // Refused to the proxy alone: the client's answer stands for nothing, and it is not asked for ever.
        stage.origin.script(|seen| {
            if is_ours(seen) { status(404, "no robots").acts() } else { ok("page").acts() }
        });
        for _ in 0..5 {
            assert_eq!(stage.ask(get("/a")).await.how(), (200, "server"));
        }
        assert_eq!(ours(stage).len(), 1);
    });
    pages().play(async |stage| {
        stage.origin.script(|seen| match seen.field("range") {
            Some(_) => status(206, "part").field("Content-Range", "bytes 0-3/4").acts(),
            None => ok("part").acts(),
        });
        assert_eq!(stage.ask(get("/film").field("Range", "bytes=0-")).await.status, 206);
        assert_eq!(stage.ask(get("/film")).await.how(), (200, "cache"));
    });
    for target in ["/reset?token=1", "/unsubscribe", "/share?sig=1", "/oauth?code=1&state=2"] {
        pages().play(async |stage| {
            stage.ask(get(target)).await;
            assert_eq!(ours(stage).len(), 0, "{target} is asked for once");
        });
    }
    pages().play(async |stage| {
        for control in ["private", "no-store"] {
            stage.origin.says(ok("x").field("Cache-Control", control));
            stage.ask(get("/b")).await;
        }
        stage.origin.says(ok("x").field("Set-Cookie", "sid=1"));
        stage.ask(get("/c")).await;
        stage.origin.says(ok("x"));
        stage.ask(ask("HEAD", "/d")).await;
        stage.ask(get("/e").field("Cookie", "sid=1")).await;
        assert_eq!(ours(stage).len(), 0);
    });
}

#[test]
fn variants_by_coding_are_fetched_and_told_apart() {
    of_kind(awake(), Some(SiteKind::Pages)).play(async |stage| {
        stage.origin.script(|seen| {
            let gzip = seen.field("accept-encoding").is_some_and(|it| it.contains("gzip"));
            let says = ok(if gzip { "zipped" } else { "plain" }).field("Vary", "Accept-Encoding");
            if gzip { says.field("Content-Encoding", "gzip") } else { says }.acts()
        });
        let with = |codings: &str| get("/a").field("Accept-Encoding", codings);
        stage.ask(with("gzip, deflate, br, zstd")).await;
        stage.ask(get("/a")).await;
        assert_eq!(ours(stage).len(), 2);
        for (ask, text) in [
            (with("gzip, deflate, br, zstd"), "zipped"),
            (with("gzip"), "zipped"),
            (with("br, gzip;q=0.5"), "zipped"),
            (with("br"), "plain"),
            (with("gzip;q=0"), "plain"),
            (get("/a"), "plain"),
        ] {
            for ask in by_both_paths(&ask) {
                let got = stage.ask(ask.clone()).await;
                assert_eq!((got.answer(), got.text()), ("cache", text), "{ask:?}");
            }
        }
        assert_eq!(stage.ask(with("br, identity;q=0")).await.answer(), "server");
    });
}

#[test]
fn who_come_at_once_wait_for_the_proxys_own_request() {
    of_kind(awake(), Some(SiteKind::Pages)).play(async |stage| {
        let gate = Gate::shut();
        let gates = gate.clone();
        stage.origin.script(move |_| {
            vec![Act::Body, Act::Await(gates.clone()), Act::Say(ok("page").bytes())]
        });
        let mut clients = Vec::new();
        for _ in 0..5 {
            clients.push(stage.begin(get("/a")).await);
        }
        stage.origin.saw(1).await;
        gate.open();
        assert_eq!(clients[0].answer().await.answer(), "server");
        stage.origin.saw(2).await;
        gate.open();
        for client in &mut clients[1..] {
            assert_eq!(client.answer().await.how(), (200, "cache"));
        }
        assert_eq!(stage.origin.seen().len(), 2);
    });
}

#[test]
fn a_stale_answer_is_renewed_without_the_fields_of_who_got_it() {
    as_shipped(asleep()).play(async |stage| {
        stage.origin.says(ok("page").field("Cache-Control", "public, max-age=10"));
        stage.ask(get("/a")).await;
        sleeps(stage).await;
        let alice = get("/a").field("X-Emby-Token", "alice").field("Cookie", "sid=alice");
        assert_eq!(stage.ask(alice).await.how(), (200, "stale"));
        stage.ask(get("/wake")).await;
        let own = ours(stage);
        assert_eq!(own.len(), 1);
        assert_eq!((own[0].field("x-emby-token"), own[0].field("cookie")), (None, None));
    });
}

#[test]
fn past_its_lifetime_only_what_is_public_is_for_those_who_are_known() {
    for (control, how) in [("max-age=10", "held"), ("public, max-age=10", "stale")] {
        for known in [("Cookie", "sid=1"), ("X-Emby-Token", "t")] {
            as_shipped(asleep()).play(async |stage| {
                stage.origin.says(ok("page").field("Cache-Control", control));
                stage.ask(get("/a")).await;
                sleeps(stage).await;
                assert_eq!(stage.ask(get("/a")).await.how(), (200, "stale"));
                let got = stage.ask(get("/a").field(known.0, known.1)).await;
                assert_eq!(got.how(), (200, how), "{control} {known:?}");
            });
        }
    }
}

fn with_disk(setup: Setup) -> Setup {
    setup.with(|config| config.cache.disk = Some(DiskConfig::default()))
}

/// Asked for by two each, and written.
async fn on_disk(stage: &Stage, paths: &[&str]) {
    for path in paths {
        for _ in 0..2 {
            stage.ask(get(path)).await;
        }
    }
}

#[test]
fn the_disk_keeps_why_an_answer_may_be_shared() {
    with_disk(of_kind(asleep(), Some(SiteKind::Pages))).play(async |stage| {
        stage.origin.script(|seen| {
            let control = match seen.target.as_str() {
                "/public" => "public, max-age=86400",
                "/marked" => "max-age=86400",
                _ => "x",
            };
            ok("kept").field("Cache-Control", control).acts()
        });
        on_disk(stage, &["/assumed", "/marked", "/public"]).await;
        stage.stop().await;
        stage.start();
        stage.looked().await;
        sleeps(stage).await;
        let alice = |path: &str| get(path).field("X-Emby-Token", "alice");
        assert_eq!(stage.ask(get("/assumed")).await.how(), (200, "stale"));
        assert_eq!(stage.ask(get("/marked")).await.how(), (200, "cache"));
        assert_eq!(stage.ask(alice("/assumed")).await.how(), (200, "held"), "never hers");
        // The operator thinks otherwise now: what was assumed is given to no one.
        stage.stop().await;
        stage.config.site[0].kind = Some(SiteKind::App);
        stage.start();
        stage.looked().await;
        sleeps(stage).await;
        assert_eq!(stage.ask(get("/marked")).await.how(), (200, "cache"));
        assert_eq!(stage.ask(get("/assumed")).await.how(), (200, "held"));
    });
}

#[test]
fn what_was_stored_under_other_names_is_trusted_only_if_it_is_public() {
    let setup = with_disk(as_shipped(asleep()));
    let setup = setup.site(|site| site.cache.harmless_headers = vec!["x-user".into()]);
    setup.play(async |stage| {
        stage.origin.script(|seen| {
            let control =
                if seen.target == "/public" { "public, max-age=86400" } else { "max-age=86400" };
            ok(seen.field("x-user").unwrap_or("none")).field("Cache-Control", control).acts()
        });
        for path in ["/public", "/hers"] {
            for _ in 0..2 {
                assert_eq!(stage.ask(get(path).field("X-User", "alice")).await.text(), "alice");
            }
        }
        stage.stop().await;
        // It was not harmless after all.
        stage.config.site[0].cache.harmless_headers.clear();
        stage.start();
        stage.looked().await;
        sleeps(stage).await;
        assert_eq!(
            stage.ask(get("/public")).await.text(),
            "alice",
            "its server said that it is for all"
        );
        assert_eq!(stage.ask(get("/hers")).await.text(), "none");
    });
}

#[test]
fn a_reload_under_other_rules_forgets() {
    as_shipped(awake()).site(|site| site.cache.harmless_headers = vec!["x-user".into()]).play(
        async |stage| {
            stage.origin.says(ok("alice's").field("Cache-Control", "max-age=86400"));
            stage.ask(get("/a").field("X-User", "alice")).await;
            assert_eq!(stage.ask(get("/a")).await.answer(), "cache");
            stage.origin.says(ok("everyone's").field("Cache-Control", "max-age=86400"));
            stage.reload(|config| config.site[0].cache.harmless_headers.clear()).await.unwrap();
            assert_eq!(stage.ask(get("/a")).await.text(), "everyone's");
        },
    );
}

#[test]
fn what_an_earlier_version_left_on_the_disk_is_dropped() {
    with_disk(as_shipped(asleep())).play(async |stage| {
        stage.origin.says(ok("old").field("Cache-Control", "public, max-age=86400"));
        on_disk(stage, &["/a"]).await;
        stage.stop().await;
        let mut segments = 0;
        for entry in std::fs::read_dir(stage.disk_cache()).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            if bytes.starts_with(b"nightwatt cache2") {
                bytes[15] = b'1';
                std::fs::write(&path, bytes).unwrap();
                segments += 1;
            }
        }
        assert_eq!(segments, 1);
        stage.start();
        stage.looked().await;
        assert_eq!(stage.disk_status().answers, 0);
        stage.origin.says(ok("new").field("Cache-Control", "public, max-age=86400"));
        assert_eq!(stage.ask(get("/a")).await.text(), "new");
    });
}
