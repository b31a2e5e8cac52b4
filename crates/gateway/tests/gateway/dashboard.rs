//! The dashboard's API on the admin address: who may read, who may order, and what is told.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nightwatt_gateway::Config;
use nightwatt_gateway::config::AdminConfig;
use nightwatt_policy::scenario::Scenario;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Ask, Got, ask, get, post};
use crate::stage::{Setup, Stage, asleep, awake, secs, timeout, watched};

const PASSWORD: &str = "correct horse battery";

/// Orders need this password.
fn guarded(setup: Setup) -> (Setup, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file: PathBuf = dir.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let setup = setup.with(move |config| {
        let admin = config.admin.as_mut().unwrap();
        admin.password_file = Some(file);
        admin.hosts = vec!["blog".to_owned()];
    });
    (setup, dir)
}

/// Anybody may look, by the name that the tests' client uses.
fn open(setup: Setup) -> Setup {
    setup.with(|config| config.admin.as_mut().unwrap().hosts = vec!["blog".to_owned()])
}

fn json(got: &Got) -> Value {
    serde_json::from_slice(&got.body).unwrap_or_else(|error| panic!("{error}: {got:?}"))
}

fn order(path: &str) -> Ask {
    post(&format!("/api/v1/sites/{path}"), "")
}

fn with(ask: Ask, token: &str) -> Ask {
    ask.field("Authorization", &format!("Bearer {token}"))
}

async fn sign_in(stage: &Stage, password: &str) -> Got {
    let body = serde_json::json!({ "password": password }).to_string();
    stage.ask_admin(post("/api/v1/sign-in", &body)).await
}

async fn token(stage: &Stage) -> String {
    let got = sign_in(stage, PASSWORD).await;
    assert_eq!(got.status, 200, "{got:?}");
    json(&got)["token"].as_str().unwrap().to_owned()
}

#[test]
fn the_status_is_the_one_that_nightwatt_status_shows_and_wakes_nobody() {
    open(asleep()).play(async |stage| {
        let got = stage.ask_admin(get("/api/v1/status")).await;
        assert_eq!((got.status, got.field("content-type")), (200, Some("application/json")));
        assert_eq!(got.field("cache-control"), Some("no-store"));
        let whole = json(&got);
        let site = serde_json::to_value(stage.status()).unwrap();
        assert_eq!(whole["sites"][0], site);
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn a_token_gives_orders_until_it_is_given_back() {
    let (setup, _dir) = guarded(asleep());
    setup.play(async |stage| {
        let token = token(stage).await;
        let got = stage.ask_admin(with(order("blog/wake"), &token)).await;
        assert_eq!((got.status, &json(&got)["done"]), (200, &Value::Bool(true)));
        stage.at(30).await;
        assert_eq!(stage.state(), "awake");
        let got = stage.ask_admin(with(order("blog/keep-awake?for=2h"), &token)).await;
        assert_eq!(got.status, 200);
        stage.at(3600).await;
        assert_eq!(stage.state(), "awake");
        assert_eq!(stage.ask_admin(with(order("blog/sleep"), &token)).await.status, 200);
        stage.at(3700).await;
        assert_eq!(stage.state(), "asleep");
        assert_eq!(stage.ask_admin(with(post("/api/v1/sign-out", ""), &token)).await.status, 200);
        assert_eq!(stage.ask_admin(with(order("blog/wake"), &token)).await.status, 401);
        assert_eq!(stage.state(), "asleep");
    });
}

#[test]
fn wrong_passwords_are_refused_and_too_many_of_them_make_the_next_one_wait() {
    let (setup, _dir) = guarded(asleep());
    setup.play(async |stage| {
        for _ in 0..10 {
            assert_eq!(sign_in(stage, "wrong").await.status, 401);
        }
        let got = sign_in(stage, PASSWORD).await;
        assert_eq!((got.status, got.seconds("retry-after")), (429, 10));
        assert_eq!(got.field("content-type"), Some("application/problem+json"));
        // By the header too.
        assert_eq!(stage.ask_admin(with(order("blog/wake"), PASSWORD)).await.status, 429);
        stage.at(10).await;
        assert_eq!(stage.ask_admin(with(order("blog/wake"), PASSWORD)).await.status, 200);
        for body in ["", "{}", "[]", "{\"password\":1}", &"x".repeat(5000)] {
            let got = stage.ask_admin(post("/api/v1/sign-in", body)).await;
            assert_eq!(got.status, 400, "{got:?}");
        }
    });
}

#[test]
fn a_password_that_was_changed_holds_after_a_reload_and_the_old_one_opens_nothing() {
    let (setup, dir) = guarded(asleep());
    let file = dir.path().join("password");
    setup.play(async |stage| {
        let old = token(stage).await;
        stage.reload(|_| {}).await.unwrap();
        let kept = stage.ask_admin(with(order("blog/sleep"), &old)).await;
        assert_eq!(kept.status, 200, "the same password ends nothing");
        std::fs::write(&file, "another horse battery\n").unwrap();
        let early = stage.ask_admin(with(order("blog/sleep"), &old)).await;
        assert_eq!(early.status, 200, "a file alone changes nothing");
        stage.reload(|_| {}).await.unwrap();
        for shown in [&*old, PASSWORD] {
            let got = stage.ask_admin(with(order("blog/wake"), shown)).await;
            assert_eq!(got.status, 401, "{got:?}");
        }
        assert_eq!(sign_in(stage, PASSWORD).await.status, 401);
        assert_eq!(stage.state(), "asleep");
        assert_eq!(sign_in(stage, "another horse battery").await.status, 200);
    });
}

#[test]
fn a_password_that_cannot_be_used_refuses_the_reload_and_changes_nothing() {
    let (setup, dir) = guarded(asleep());
    let file = dir.path().join("password");
    setup.play(async |stage| {
        let token = token(stage).await;
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        let spoil: [(&dyn Fn(), &str); 3] = [
            (&|| std::fs::write(&file, "short\n").unwrap(), "at least 12 characters"),
            (
                &|| std::fs::set_permissions(&file, mode(0o604)).unwrap(),
                "everybody on this machine",
            ),
            (&|| std::fs::remove_file(&file).unwrap(), "No such file"),
        ];
        for (spoil, why) in spoil {
            spoil();
            let change = |config: &mut Config| config.site[0].hosts = vec!["other".to_owned()];
            let error = stage.reload(change).await.unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert!(error.hint().contains("openssl rand"), "{}", error.hint());
            let refused = stage.running_status().reload.unwrap().refused.unwrap();
            assert!(refused.contains(why), "{refused}");
            let got = stage.ask_admin(with(order("blog/sleep"), &token)).await;
            assert_eq!(got.status, 200, "{got:?}");
            assert_eq!(sign_in(stage, PASSWORD).await.status, 200);
            assert!(stage.config.site[0].hosts.is_empty());
        }
        assert_eq!(stage.ask(get("/").by_browser()).await.how(), (503, "waiting-page"));
    });
}

#[test]
fn without_a_password_no_order_is_taken_and_it_is_said_why() {
    open(asleep()).play(async |stage| {
        for what in ["wake", "sleep", "keep-awake?for=1h"] {
            let got = stage.ask_admin(order(&format!("blog/{what}"))).await;
            assert_eq!(got.status, 403);
            let why = json(&got)["detail"].as_str().unwrap().to_owned();
            assert!(why.contains("admin.password_file"), "{why}");
        }
        assert_eq!(sign_in(stage, "anything at all").await.status, 403);
        let history = json(&stage.ask_admin(get("/api/v1/history")).await);
        assert_eq!(history["takes_orders"], Value::Bool(false));
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn pages_of_others_give_no_orders_whatever_they_know() {
    let (setup, _dir) = guarded(asleep());
    setup.play(async |stage| {
        let token = token(stage).await;
        let wake = || with(order("blog/wake"), &token);
        for foreign in [
            wake().field("Origin", "http://evil.example"),
            wake().field("Origin", "http://blog:81"),
            wake().field("Origin", "null"),
            wake().field("Sec-Fetch-Site", "cross-site"),
            wake().field("Sec-Fetch-Site", "same-site"),
        ] {
            assert_eq!(stage.ask_admin(foreign).await.status, 403);
        }
        assert_eq!(stage.commands(), (0, 0));
        let own = wake().field("Origin", "http://blog").field("Sec-Fetch-Site", "same-origin");
        let got = stage.ask_admin(own).await;
        assert_eq!(got.status, 200);
        assert_eq!(got.field("access-control-allow-origin"), None);
        assert_eq!(got.field("set-cookie"), None, "what no page holds by itself, none can misuse");
    });
}

#[test]
fn by_a_name_that_somebody_else_may_have_made_nothing_is_shown() {
    let (setup, _dir) = guarded(asleep());
    let setup = setup.with(|config| config.admin.as_mut().unwrap().hosts.clear());
    setup.play(async |stage| {
        // The tests' client asks for `blog`.
        for path in ["/api/v1/status", "/api/v1/history", "/dashboard/app.js"] {
            assert_eq!(stage.ask_admin(get(path)).await.status, 421, "{path}");
        }
        assert_eq!(stage.ask_admin(with(order("blog/wake"), PASSWORD)).await.status, 421);
        assert_eq!(stage.ask_admin(get("/").by_browser()).await.status, 421);
        // What Prometheus and monitors ask for, they ask for by any name.
        assert_eq!(stage.ask_admin(get("/metrics")).await.status, 200);
        assert_eq!(stage.ask_admin(get("/healthz")).await.status, 200);
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn whoever_asks_wrongly_is_told_how_to() {
    let (setup, _dir) = guarded(asleep());
    setup.play(async |stage| {
        let all = [
            (order("shop/wake"), 404),
            (order("blog/explode"), 404),
            (order("blog/keep-awake?for=soon"), 400),
            (order("blog/keep-awake?for=0"), 400),
            (order("blog/keep-awake?for=8d"), 400),
            (get("/api/v1/history?days=-1"), 400),
            (get("/api/v1/history?days=0"), 400),
            (get("/api/v1/history?days=many"), 400),
            (get("/api/v1/sites/blog/wake"), 405),
            (post("/api/v1/status", ""), 405),
            (get("/api/v1/nothing"), 404),
            (get("/api/v1/"), 404),
        ];
        for (ask, status) in all {
            let got = stage.ask_admin(with(ask.clone(), PASSWORD)).await;
            assert_eq!((got.status, &json(&got)["status"]), (status, &status.into()), "{ask:?}");
            assert!(!json(&got)["detail"].as_str().unwrap().is_empty());
        }
        assert_eq!(stage.commands(), (0, 0));
    });
}

#[test]
fn in_shadow_mode_an_order_is_refused_with_the_reason() {
    let (setup, _dir) = guarded(awake().observing());
    setup.play(async |stage| {
        let got = stage.ask_admin(with(order("blog/sleep"), PASSWORD)).await;
        assert_eq!(got.status, 409);
        assert!(json(&got)["detail"].as_str().unwrap().contains("--observe"));
    });
}

#[test]
fn the_page_comes_with_its_policy_and_only_to_browsers() {
    open(asleep()).play(async |stage| {
        let page = stage.ask_admin(get("/").by_browser()).await;
        assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
        let policy = page.field("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"));
        assert_eq!(page.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(
            stage.ask_admin(get("/")).await.field("content-type"),
            Some("text/plain; charset=utf-8")
        );
        let tag = page.field("etag").unwrap();
        let known = stage.ask_admin(get("/").by_browser().field("If-None-Match", tag)).await;
        assert_eq!((known.status, known.body.len()), (304, 0));
        assert_eq!(stage.ask_admin(ask("HEAD", "/").by_browser()).await.status, 200);
        assert_eq!(stage.ask_admin(get("/dashboard/../../etc/passwd")).await.status, 404);
    });
}

#[test]
fn the_history_tells_states_days_and_who_woke_it_also_after_a_restart() {
    let (setup, _dir) = guarded(asleep().power(|power| power.wake_time = secs(5)));
    setup.play(async |stage| {
        stage.at(600).await;
        stage.ask(post("/form?secret=1", "x")).await;
        stage.at(3600).await;
        assert_eq!(stage.state(), "asleep");
        let shown = |history: &Value| {
            let site = &history["sites"][0];
            let states: Vec<String> = site["servers"][0]["states"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it["state"].as_str().unwrap().to_owned())
                .collect();
            (states, site["days"].as_array().unwrap().len(), site["wakeups"].clone())
        };
        let history = json(&stage.ask_admin(get("/api/v1/history")).await);
        let (states, days, wakeups) = shown(&history);
        assert_eq!(states, ["asleep", "waking", "awake", "falling-asleep", "asleep"]);
        assert_eq!(days, 1);
        assert_eq!((&wakeups[0]["by"], &wakeups[0]["took_s"]), (&"request".into(), &5.0.into()));
        let text = history.to_string();
        assert!(!text.contains("secret") && !text.contains("127.0.0.1"), "for everybody: {text}");
        let token = token(stage).await;
        let open = json(&stage.ask_admin(with(get("/api/v1/history"), &token)).await);
        assert_eq!(open["sites"][0]["wakeups"][0]["line"], "POST /form?secret=1");
        // The figures of the day are those of the ledger.
        let day = &history["sites"][0]["days"][0];
        let ledger = stage.status().ledger;
        for (name, joules) in [
            ("server_j", ledger.server.joules),
            ("proxy_j", ledger.proxy.joules),
            ("always_on_j", ledger.always_on.joules),
        ] {
            let told = day[name].as_f64().unwrap();
            assert!((told - joules.get()).abs() < 1e-6 * joules.get(), "{name}: {told} {joules:?}");
        }
        let watts = &history["sites"][0]["power"]["watts"];
        let minutes: f64 = watts.as_array().unwrap().iter().filter_map(Value::as_f64).sum();
        // An hour of whole minutes (noon is one): their mean is the energy's; each is rounded to 0.01 W.
        assert!(
            (minutes * 60.0 - ledger.server.joules.get()).abs() < 60.0 * 0.3 + 50.0,
            "{minutes}"
        );

        stage.stop().await;
        stage.start();
        stage.at(3601).await;
        let again = json(&stage.ask_admin(get("/api/v1/history")).await);
        let (states_again, days_again, wakeups_again) = shown(&again);
        assert_eq!(states_again[..5], states[..]);
        assert_eq!((days_again, wakeups_again), (days, wakeups));
        let told = |it: &Value, name: &str| it["sites"][0]["total"][name].as_f64().unwrap();
        assert!((told(&again, "saved_j") - told(&history, "saved_j")).abs() < 100.0);
    });
}

#[test]
fn the_history_says_that_it_is_too_early_as_long_as_the_status_has_no_saving() {
    open(awake()).play(async |stage| {
        for (at, is_too_early) in [(600, true), (3600, false)] {
            stage.at(at).await;
            assert_eq!(stage.state(), "asleep");
            let history = json(&stage.ask_admin(get("/api/v1/history")).await);
            assert_eq!(history["sites"][0]["is_too_early"], Value::Bool(is_too_early), "{at} s");
            assert_eq!(history["sites"][0]["frontier"].is_null(), is_too_early, "{at} s");
            let status = json(&stage.ask_admin(get("/api/v1/status")).await);
            let saving = &status["sites"][0]["ledger"]["saving"];
            assert_eq!(saving.is_null(), is_too_early, "{at} s: {saving}");
            stage.ask(post("/form", "x")).await;
        }
    });
}

/// The policy of the stage is one of the frontier's time-outs: that point is where the policy stands.
#[test]
fn the_frontier_has_the_policys_own_time_out_where_the_policy_is() {
    for observing in [false, true] {
        let server = Scenario::default().server;
        let setup = open(awake()).power(move |power| {
            (power.wake_time, power.sleep_time) = (server.wake_time, server.sleep_time);
        });
        let setup = setup.with(|config| config.scenario.policy = timeout(120));
        let setup = if observing { setup.observing() } else { setup };
        setup.play(async move |stage| {
            for at in [600, 660, 1_000, 5_000, 9_000] {
                stage.at(at).await;
                stage.ask(post("/form", "x")).await;
            }
            stage.at(20_000).await;
            let history = json(&stage.ask_admin(get("/api/v1/history")).await);
            let frontier = &history["sites"][0]["frontier"];
            let own = &frontier["policy"];
            let timeouts = frontier["timeouts"].as_array().unwrap();
            let same = timeouts.iter().find(|it| it["idle_s"] == 120.0).unwrap();
            let saving = |point: &Value| point["saving"].as_f64().unwrap();
            // Of 20,000 s a second is the policy's own reckoning with what is under way.
            assert!((saving(own) - saving(same)).abs() < 1e-4, "{own} {same}");
            assert!(saving(own) > 0.5, "{own}");
            for count in ["delayed_requests", "delayed_visits"] {
                assert_eq!(own[count], same[count], "{count}");
            }
            assert_eq!((&own["delayed_requests"], &own["delayed_visits"]), (&4.into(), &3.into()));
            assert_eq!((&frontier["requests"], &frontier["visits"]), (&5.into(), &3.into()));
            assert_eq!(frontier["span_s"], 20_000.0);
            // No request came within six hours: a longer timeout never sleeps, and the proxy costs energy.
            assert!(
                timeouts
                    .iter()
                    .all(|it| it["idle_s"].as_f64() < Some(12_000.0) || saving(it) < 0.0)
            );
        });
    }
}

#[test]
fn a_pool_is_told_of_as_the_sum_of_its_servers() {
    open(awake().pool(&["one", "two"], "policy = \"always-on 1\"", "")).play(async |stage| {
        stage.at(1800).await;
        let history = json(&stage.ask_admin(get("/api/v1/history")).await);
        let story = &history["sites"][0];
        assert_eq!(story["servers"].as_array().unwrap().len(), 2);
        let ledger = stage.status().ledger;
        let told = story["total"]["server_j"].as_f64().unwrap();
        assert!((told - ledger.server.joules.get()).abs() < 1.0, "{told} {ledger:?}");
        let proxy = story["total"]["proxy_j"].as_f64().unwrap();
        assert!((proxy - ledger.proxy.joules.get()).abs() < 1.0, "{proxy} {ledger:?}");
    });
}

#[test]
fn an_address_alone_is_a_whole_configuration_of_it() {
    let parse = |text: &str| toml_admin(text).map_err(|error| error.to_string());
    let plain = parse("admin = \"127.0.0.1:9180\"").unwrap();
    assert_eq!(plain, AdminConfig::from("127.0.0.1:9180".parse::<std::net::SocketAddr>().unwrap()));
    let table = parse(
        "[admin]\nlisten = \"[::1]:9180\"\npassword_file = \"/etc/nightwatt/dashboard\"\nhosts = [\"nightwatt.lan\"]",
    )
    .unwrap();
    assert_eq!(table.hosts, ["nightwatt.lan"]);
    for (wrong, why) in [
        ("admin = \"localhost\"", "127.0.0.1:9180"),
        ("admin = 9180", "an address"),
        ("[admin]\nlisten = \"127.0.0.1:1\"\npassword = \"x\"", "unknown key `admin.password`"),
        ("[admin]\nhosts = []", "`admin.listen` is missing"),
        ("[admin]\nlisten = \"127.0.0.1:1\"\nhosts = [\"http://a\"]", "is not a host name"),
    ] {
        let error = parse(wrong).unwrap_err();
        assert!(error.contains(why), "{wrong}: {error}");
    }
}

fn toml_admin(text: &str) -> Result<AdminConfig, nightwatt_gateway::ConfigError> {
    // A table has to come behind the keys of the whole file.
    let (before, after) = if text.starts_with('[') { ("", text) } else { (text, "") };
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n{before}\n{after}\n[[site]]\nname = \"a\"\norigin = \"http://127.0.0.1:1\"\n\
         power.simulated = {{}}\n"
    );
    nightwatt_gateway::Config::parse(&text, "test").map(|config| config.admin.unwrap())
}

#[test]
fn readers_that_stall_keep_no_monitor_out() {
    asleep().real().play(async |stage| {
        let admin = stage.admin_address().unwrap();
        let mut stalled = Vec::new();
        for _ in 0..200 {
            let mut stream = watched("a connection", TcpStream::connect(admin)).await.unwrap();
            // It asks and never reads.
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await;
            stalled.push(stream);
        }
        for silent in [false, true] {
            if silent {
                for _ in 0..100 {
                    stalled.push(TcpStream::connect(admin).await.unwrap());
                }
            }
            assert_eq!(stage.ask_admin(get("/healthz")).await.status, 200);
        }
        // The oldest of them has given way.
        let mut told = Vec::new();
        let _ = watched("the end of the oldest", stalled[0].read_to_end(&mut told)).await;
    });
}
