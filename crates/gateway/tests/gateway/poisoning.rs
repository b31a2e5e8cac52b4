//! No stranger changes what others get: not by a port, an error, a 304, a field that only proxies set.

use nightwatt_gateway::config::SiteKind;

use crate::client::{ask, get, post};
use crate::origin::{ok, status};
use crate::sharing::{as_shipped, by_both_paths, is_ours, of_kind, ours, shipped, sleeps};
use crate::stage::{asleep, awake, secs};

#[test]
fn a_port_in_the_host_is_no_way_into_the_answers_of_others() {
    for setup in shipped(asleep) {
        setup.play(async |stage| {
            stage.origin.script(|seen| {
                let location = format!("http://{}/there", seen.field("host").unwrap());
                let moved = status(301, "").field("Location", &location);
                moved.field("Cache-Control", "public, max-age=3600").acts()
            });
            for (host, told) in [
                ("blog:443", "blog:443"),
                ("blog:", "blog"),
                ("BLOG", "blog"),
                ("blog.", "blog"),
                ("blog:80", "blog"),
                ("blog:8080", "blog:8080"),
                ("blog", "blog"),
            ] {
                for ask in by_both_paths(&get("/here").host(host)) {
                    let got = stage.ask(ask).await;
                    let location = format!("http://{told}/there");
                    assert_eq!(got.field("location"), Some(&*location), "{host}");
                }
            }
            sleeps(stage).await;
            let got = stage.ask(get("/here")).await;
            assert_eq!((got.answer(), got.field("location")), ("cache", Some("http://blog/there")));
        });
    }
}

#[test]
fn by_https_the_port_of_http_is_another_place() {
    let trusting = as_shipped(awake()).with(|config| {
        config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    });
    trusting.play(async |stage| {
        stage.origin.script(|seen| {
            let location = format!("https://{}/there", seen.field("host").unwrap());
            let moved = status(301, "").field("Location", &location);
            moved.field("Cache-Control", "public, max-age=3600").acts()
        });
        for (host, told) in
            [("blog", "blog"), ("blog:80", "blog:80"), ("blog:443", "blog"), ("blog:80", "blog:80")]
        {
            for ask in by_both_paths(&get("/here").host(host).field("X-Forwarded-Proto", "https")) {
                let got = stage.ask(ask).await;
                let location = format!("https://{told}/there");
                assert_eq!(got.field("location"), Some(&*location), "{host}");
            }
        }
        assert_eq!(stage.origin.seen().len(), 2, "each place is asked for once");
    });
}

#[test]
fn an_error_of_one_client_never_replaces_a_page() {
    for (code, control) in [
        (404, None),
        (405, None),
        (414, None),
        (410, Some("max-age=60")),
        (404, Some("public, max-age=60")),
        (403, Some("no-store")),
        (500, Some("max-age=60")),
    ] {
        as_shipped(asleep()).play(async |stage| {
            let page = || ok("page").field("Cache-Control", "max-age=10").field("ETag", "\"1\"");
            stage.origin.says(page());
            stage.ask(get("/a")).await;
            stage.pass(secs(11)).await;
            // The server is wrong to this client alone: not to the proxy itself.
            stage.origin.script(move |seen| {
                let wrong = control
                    .into_iter()
                    .fold(status(code, "wrong"), |says, it| says.field("Cache-Control", it));
                if is_ours(seen) { page().acts() } else { wrong.acts() }
            });
            for ask in by_both_paths(&get("/a")) {
                let got = stage.ask(ask).await;
                // A server's failure is covered by what is stored.
                let expected = if code == 500 { "page" } else { "wrong" };
                assert_eq!(got.text(), expected, "{code} {control:?}");
                stage.pass(secs(11)).await;
            }
            sleeps(stage).await;
            let got = stage.ask(get("/a")).await;
            assert_eq!((got.how(), got.text()), ((200, "stale"), "page"), "{code} {control:?}");
        });
    }
}

#[test]
fn a_page_that_is_gone_for_the_proxy_itself_is_gone() {
    for code in [401, 403, 404, 410, 302] {
        as_shipped(asleep()).play(async |stage| {
            stage.origin.says(ok("page").field("Cache-Control", "max-age=10"));
            stage.ask(get("/a")).await;
            stage.pass(secs(11)).await;
            stage.origin.says(status(code, "gone").field("Location", "/login"));
            assert_eq!(stage.ask(get("/a")).await.status, code);
            assert_eq!(ours(stage).len(), 1, "{code}");
            sleeps(stage).await;
            assert_eq!(stage.ask(get("/a")).await.how(), (code, "held"));
        });
    }
}

#[test]
fn an_error_without_a_lifetime_is_not_served_while_the_server_sleeps() {
    for code in [404, 405, 410, 414, 501] {
        as_shipped(asleep()).play(async |stage| {
            stage.origin.says(status(code, "not yet").field("Cache-Control", "public"));
            assert_eq!(stage.ask(get("/soon")).await.status, code);
            stage.origin.says(ok("published"));
            sleeps(stage).await;
            assert_eq!(stage.ask(get("/soon")).await.text(), "published", "{code}");
        });
    }
}

#[test]
fn what_one_client_is_told_with_304_is_not_told_to_others() {
    for (field, value) in [
        ("Cookie", "session=alice"),
        ("X-Emby-Token", "alice"),
        ("Authorization", "Bearer alice"),
        ("Cache-Control", "no-cache"),
        ("Cache-Control", "max-age=0"),
        ("Pragma", "no-cache"),
    ] {
        for control in ["max-age=10", "public, max-age=10"] {
            for method in ["GET", "HEAD"] {
                as_shipped(asleep()).play(async |stage| {
                    let page = ok("page").field("Cache-Control", control).field("ETag", "\"1\"");
                    stage.origin.says(page.field("X-Csrf", "none"));
                    stage.ask(get("/a")).await;
                    stage.pass(secs(11)).await;
                    let confirmed = status(if method == "GET" { 304 } else { 200 }, "");
                    let confirmed = confirmed
                        .field("ETag", "\"1\"")
                        .field("X-User", "session=alice")
                        .field("X-Csrf", "alice's")
                        .field("Cache-Control", "public, max-age=3600");
                    let own = ok("page").field("Cache-Control", control).field("ETag", "\"1\"");
                    stage.origin.script(
                        move |seen| {
                            if is_ours(seen) { own.acts() } else { confirmed.acts() }
                        },
                    );
                    for ask in by_both_paths(&ask(method, "/a").field(field, value)) {
                        stage.ask(ask).await;
                    }
                    stage.origin.says(ok("page").field("ETag", "\"1\""));
                    sleeps(stage).await;
                    for ask in by_both_paths(&get("/a")) {
                        let got = stage.ask(ask).await;
                        assert_eq!(got.text(), "page");
                        assert_eq!(
                            got.field("x-user"),
                            None,
                            "{field}: {value}, {control}, {method}"
                        );
                        assert_ne!(got.field("x-csrf"), Some("alice's"), "{field}: {value}");
                    }
                });
            }
        }
    }
}

#[test]
fn what_the_server_gets_otherwise_than_it_was_sent_selects_nothing() {
    let trusting = || {
        as_shipped(awake()).with(|config| {
            config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
        })
    };
    for name in ["X-Forwarded-For", "Forwarded", "Via", "X-Request-Id"] {
        for setup in [trusting(), as_shipped(awake())] {
            setup.play(async |stage| {
                stage.origin.script(move |seen| {
                    let value = seen.fields.all(&name.to_ascii_lowercase()).join(", ");
                    ok(&value)
                        .field("Vary", name)
                        .field("Cache-Control", "public, max-age=60")
                        .acts()
                });
                for ask in by_both_paths(&get("/a").field(name, "203.0.113.9")) {
                    assert_eq!(stage.ask(ask).await.answer(), "server", "{name}");
                }
                assert_eq!(stage.ask(get("/a")).await.answer(), "server", "{name}");
            });
        }
    }
}

#[test]
fn under_another_name_or_path_nothing_is_cached() {
    let trusting = |kind| {
        let setup = of_kind(asleep(), kind);
        setup.with(|config| config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()])
    };
    for kind in [None, Some(SiteKind::Pages)] {
        trusting(kind).play(async |stage| {
            stage.origin.script(|seen| {
                let names = ["x-forwarded-prefix", "forwarded", "x-forwarded-host"];
                let told = names.iter().find_map(|name| seen.field(name)).unwrap_or("none");
                ok(told).field("Cache-Control", "public, max-age=3600").acts()
            });
            for (name, value) in [
                ("X-Forwarded-Host", "evil.test"),
                ("X-Forwarded-Prefix", "/evil"),
                ("Forwarded", "for=1.2.3.4;host=evil.test"),
                ("X-Forwarded-Port", "8443"),
            ] {
                for ask in by_both_paths(&get("/a").field(name, value)) {
                    assert_ne!(stage.ask(ask).await.answer(), "cache", "{name}");
                }
            }
            // The first that asks for what it is called fills the cache, and that is for the likes of it.
            assert_eq!(stage.ask(get("/a")).await.text(), "blog");
            assert_eq!(
                stage.ask(get("/a").field("X-Forwarded-Host", "BLOG:80")).await.answer(),
                "cache"
            );
            let evil = get("/a").field("X-Forwarded-Host", "evil.test");
            assert_eq!(stage.ask(evil.clone()).await.text(), "evil.test");
            sleeps(stage).await;
            assert_eq!(stage.ask(get("/a")).await.text(), "blog");
            assert_eq!(stage.ask(evil).await.how(), (200, "held"));
        });
    }
    // Who means another method gets and leaves nothing either.
    as_shipped(awake()).play(async |stage| {
        stage.origin.script(|seen| {
            let method = seen.field("x-http-method-override").unwrap_or("GET");
            ok(method).field("Cache-Control", "public, max-age=60").acts()
        });
        for (method, ask) in [
            ("DELETE", get("/a").field("X-HTTP-Method-Override", "DELETE")),
            ("GET", get("/a")),
            ("DELETE", get("/a").field("X-HTTP-Method-Override", "DELETE")),
        ] {
            for ask in by_both_paths(&ask) {
                assert_eq!(stage.ask(ask).await.text(), method);
            }
        }
    });
}

#[test]
fn strangers_do_not_speak_for_proxies() {
    const FORGED: [&str; 18] = [
        "X-Forwarded-User",
        "X-Forwarded-Email",
        "X-Forwarded-Groups",
        "X-Forwarded-Client-Cert",
        "X-Forwarded-Made-Up",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-Client-IP",
        "CF-Connecting-IP",
        "Remote-User",
        "Remote_User",
        "X_Forwarded_User",
        "Proxy",
        "X-Auth-Request-User",
        "Tailscale-User-Login",
        "X-Authentik-Username",
        "Cf-Access-Jwt-Assertion",
        "X-Webauth-User",
    ];
    as_shipped(awake()).play(async |stage| {
        for name in FORGED {
            for ask in by_both_paths(&get("/").field(name, "forged")) {
                stage.ask(ask).await;
                let seen = stage.origin.seen().pop().unwrap();
                let forged: Vec<_> =
                    seen.fields.0.iter().filter(|(_, value)| value == "forged").collect();
                assert!(forged.is_empty(), "{name}: {forged:?}");
            }
            // Nor in trailers.
            let chunked =
                ask("POST", "/").field("Transfer-Encoding", "chunked").field("Trailer", name);
            stage.ask(chunked.with_body(&format!("1\r\nx\r\n0\r\n{name}: forged\r\n\r\n"))).await;
            let seen = stage.origin.seen().pop().unwrap();
            assert!(
                !seen.trailers.iter().any(|it| it.contains("forged")),
                "{name}: {:?}",
                seen.trailers
            );
        }
    });
    let trusting = as_shipped(awake()).with(|config| {
        config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    });
    trusting.play(async |stage| {
        let ask =
            get("/").field("Remote-User", "alice").field("X-Forwarded-Email", "a@example.org");
        for ask in by_both_paths(&ask) {
            stage.ask(ask).await;
            let seen = stage.origin.seen().pop().unwrap();
            assert_eq!(seen.field("remote-user"), Some("alice"), "from a trusted proxy it counts");
            assert_eq!(seen.field("x-forwarded-email"), Some("a@example.org"));
        }
        for name in ["Remote_User", "Proxy", "X-Forwarded-Ssl"] {
            stage.ask(get("/").field(name, "forged")).await;
            let seen = stage.origin.seen().pop().unwrap();
            assert!(!seen.fields.0.iter().any(|(_, value)| value == "forged"), "{name}");
        }
    });
}

#[test]
fn an_ignored_parameter_hides_no_other() {
    let setup = as_shipped(awake()).site(|site| site.cache.ignore_query = vec!["utm_*".into()]);
    setup.play(async |stage| {
        stage.origin.script(|seen| {
            let says = ok(&seen.target).field("Cache-Control", "public, max-age=60");
            says.acts()
        });
        for target in ["/?utm_content=x;lang=evil", "/"] {
            for ask in by_both_paths(&get(target)) {
                assert_eq!(stage.ask(ask).await.text(), target);
            }
        }
    });
}

#[test]
fn trailers_and_ranges_leave_nothing_for_others() {
    as_shipped(awake()).play(async |stage| {
        // A part that is no whole, and what a client's own condition brought.
        let part = status(206, "0123").field("Content-Range", "bytes 0-3/10");
        stage.origin.says(part.field("Cache-Control", "public, max-age=60"));
        assert_eq!(stage.ask(get("/a").field("Range", "bytes=0-3")).await.status, 206);
        stage.origin.says(status(304, "").field("Cache-Control", "public, max-age=60"));
        assert_eq!(stage.ask(get("/a").field("If-None-Match", "\"x\"")).await.status, 304);
        stage.origin.says(ok("0123456789").field("Cache-Control", "public, max-age=60"));
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.answer(), got.text()), ("server", "0123456789"));
    });
}

#[test]
fn what_a_request_brings_upon_itself_is_not_for_others() {
    for (code, ask) in [
        (416, get("/a").field("Range", "bytes=999-")),
        (412, get("/a").field("If-Unmodified-Since", "Mon, 01 Jan 2001 00:00:00 GMT")),
        (406, get("/a").field("Accept", "x/x")),
        (431, get("/a").field("Referer", "http://a.test/")),
        (400, get("/a").field("Max-Forwards", "-1")),
    ] {
        as_shipped(asleep()).play(async |stage| {
            stage.origin.says(status(code, "no").field("Cache-Control", "max-age=86400"));
            assert_eq!(stage.ask(ask.clone()).await.status, code);
            stage.origin.says(ok("page").field("Cache-Control", "max-age=86400"));
            assert_eq!(stage.ask(get("/a")).await.text(), "page", "{code}");
        });
    }
}

#[test]
fn a_lifetime_of_nothing_is_no_leave_to_share() {
    for (name, value) in [("Cache-Control", "max-age=0"), ("Expires", "0")] {
        as_shipped(asleep()).play(async |stage| {
            stage.origin.says(ok("for this address").field(name, value));
            stage.ask(get("/a")).await;
            stage.origin.says(ok("for another"));
            sleeps(stage).await;
            let got = stage.ask(get("/a")).await;
            assert_eq!((got.how(), got.text()), ((200, "held"), "for another"), "{name}: {value}");
        });
    }
}

#[test]
fn a_host_in_another_spelling_reaches_the_server_in_one() {
    let trusting = as_shipped(awake())
        .with(|config| config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()]);
    trusting.play(async |stage| {
        stage.origin.script(|seen| {
            let told = seen.field("x-forwarded-host").unwrap().to_owned();
            ok(&told).field("Cache-Control", "public, max-age=60").acts()
        });
        for told in ["BLOG", "blog.", "blog:", "blog:80"] {
            assert_eq!(stage.ask(get("/a").field("X-Forwarded-Host", told)).await.text(), "blog");
        }
        assert_eq!(stage.origin.seen().len(), 1, "they are one name");
    });
}

#[test]
fn a_head_of_a_stranger_takes_no_page_away_and_changes_none() {
    as_shipped(asleep()).play(async |stage| {
        let page = || ok("page").field("Cache-Control", "max-age=86400").field("X-A", "1");
        stage.origin.says(page());
        stage.ask(get("/a")).await;
        stage.origin.script(move |seen| match (seen.method.as_str(), is_ours(seen)) {
            (_, true) => page().acts(),
            _ => status(404, "").field("X-A", "evil").acts(),
        });
        let head = ask("HEAD", "/a").field("Cache-Control", "no-cache");
        assert_eq!(stage.ask(head.clone()).await.status, 404);
        assert_eq!(ours(stage).len(), 1, "the proxy looks for itself");
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "cache"));
        stage.origin.says(ok("page").field("X-A", "evil"));
        stage.ask(head.field("Accept", "application/json")).await;
        let got = stage.ask(get("/a")).await;
        assert_eq!((got.answer(), got.field("x-a")), ("cache", Some("1")));
    });
}

#[test]
fn the_latest_of_the_variants_is_given_by_both_paths() {
    as_shipped(awake()).play(async |stage| {
        let says = |text: &str, date: &str| {
            let says = ok(text).field("Vary", "Accept-Encoding").field("Date", date);
            says.field("Cache-Control", "max-age=600").field("Content-Encoding", "gzip")
        };
        stage.origin.says(says("old", "Mon, 23 Nov 2026 11:59:00 GMT"));
        stage.ask(get("/a").field("Accept-Encoding", "gzip")).await;
        stage.origin.says(says("new", "Mon, 23 Nov 2026 12:00:00 GMT"));
        let browser = get("/a").field("Accept-Encoding", "gzip, deflate, br");
        stage.ask(browser.clone().field("Cache-Control", "no-cache")).await;
        for ask in by_both_paths(&browser) {
            let got = stage.ask(ask).await;
            assert_eq!((got.answer(), got.text()), ("cache", "new"));
        }
    });
}

/// The server redirects one client only, and forgets to say by what (`Vary`).
#[test]
fn a_redirect_of_one_client_never_replaces_a_page() {
    for code in [301, 302, 303, 308] {
        for kind in [SiteKind::Pages, SiteKind::App] {
            of_kind(awake(), Some(kind)).play(async |stage| {
                stage.origin.script(move |seen| {
                    let is_phone = seen.field("user-agent").is_some_and(|it| it.contains("iPhone"));
                    let elsewhere =
                        || status(code, "elsewhere").field("Location", "http://m.blog/a");
                    let says = if is_phone { elsewhere() } else { ok("page") };
                    says.field("Cache-Control", "max-age=600").acts()
                });
                assert_eq!(stage.ask(get("/a")).await.text(), "page");
                let phone = get("/a").agent("Mozilla/5.0 (iPhone)");
                for ask in by_both_paths(&phone.field("Cache-Control", "no-cache")) {
                    assert_eq!(stage.ask(ask).await.status, code);
                    let got = stage.ask(get("/a")).await;
                    assert_eq!((got.status, got.text()), (200, "page"), "{code} {kind:?}");
                }
            });
        }
    }
}

/// What one client gets in its own form says nothing of what others get.
#[test]
fn one_client_with_another_form_does_not_keep_a_page_out_of_the_cache() {
    of_kind(asleep(), Some(SiteKind::Pages)).play(async |stage| {
        stage.origin.script(|seen| {
            let wants_json = seen.field("accept").is_some_and(|it| it.contains("json"));
            let kind = if wants_json { "application/json" } else { "text/html" };
            ok("a form").field("Content-Type", kind).acts()
        });
        stage.ask(get("/a").field("Accept", "application/activity+json")).await;
        assert_eq!(ours(stage).len(), 1);
        stage.ask(get("/a")).await;
        assert_eq!(ours(stage).len(), 2, "asked for again, since the answer was of another kind");
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "cache"));
        sleeps(stage).await;
        assert_eq!(stage.ask(get("/a")).await.how(), (200, "stale"));
    });
}

/// Such servers take all that follows on a connection for the same user's, against RFC 9110, 3.3.
#[test]
fn a_connection_that_a_user_has_logged_in_serves_nobody_else() {
    for scheme in ["NTLM", "Negotiate", "negotiate", "Kerberos"] {
        for kind in [None, Some(SiteKind::Pages), Some(SiteKind::App)] {
            of_kind(awake(), kind).play(async |stage| {
                stage.origin.script(|_| ok("a page").acts());
                let user = get("/me").field("Authorization", &format!("{scheme} YWxpY2U="));
                for ask in by_both_paths(&user) {
                    // A connection that waits for the next request of any client.
                    stage.ask(post("/warm", "x")).await;
                    let before = stage.origin.seen().len();
                    stage.ask(ask).await;
                    stage.ask(post("/other", "x")).await;
                    let seen = stage.origin.seen().split_off(before);
                    let user = seen.iter().position(|it| it.field("authorization").is_some());
                    let (user, others) = (user.expect("it was asked"), &seen);
                    let connection = seen[user].connection;
                    let with_it = others.iter().filter(|it| it.connection == connection);
                    assert_eq!(with_it.count(), 1, "{scheme} {kind:?}");
                }
            });
        }
    }
}
