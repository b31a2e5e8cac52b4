//! What monitors are told: on the sites, and by the admin listener.

use nightwatt_energy::time::Mono;
use nightwatt_gateway::Config;

use crate::client::{Ask, BROWSER, CRAWLER, get, post};
use crate::machines::on;
use crate::origin::status;
use crate::passthrough::Caller;
use crate::stage::{Stage, asleep, awake, timeout};

const MONITOR: &str = "Mozilla/5.0 (compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)";

fn json(ask: Ask) -> Ask {
    ask.field("Accept", "application/json")
}

async fn admin(stage: &Stage, path: &str) -> (u16, String) {
    let got = stage.ask_admin(get(path)).await;
    (got.status, got.text().to_owned())
}

#[test]
fn a_health_check_of_a_site_is_answered_whoever_asks_and_wakes_nobody() {
    asleep().site(|site| site.clients.api_agents = vec!["ours/1".into()]).play(async |stage| {
        for agent in [MONITOR, BROWSER, CRAWLER, "curl/8", "ours/1", "kube-probe/1.31", ""] {
            for path in ["/healthz", "/livez?verbose", "/readyz"] {
                let got = stage.ask(get(path).agent(agent).field("Accept", "text/html")).await;
                assert_eq!(got.how(), (200, "monitor"), "{agent} {path}");
                assert_eq!(got.text(), "asleep, healthy: wakes on demand\n");
                assert_eq!(got.field("cache-control"), Some("no-store"));
            }
        }
        assert_eq!((stage.now(), stage.commands()), (Mono::ZERO, (0, 0)));
        let status = stage.status();
        assert_eq!((status.visits, status.delayed_requests), (0, 0));
    });
}

#[test]
fn a_health_check_says_the_same_while_the_server_is_awake_and_does_not_keep_it_awake() {
    awake().play(async |stage| {
        // A site without such a page: a monitor must not be told 404 whenever the server is awake.
        stage.origin.says(status(404, "nothing"));
        for second in (0..=56).step_by(4) {
            stage.at(second).await;
            let got = stage.ask(get("/healthz").agent(MONITOR)).await;
            assert_eq!((got.how(), got.text()), ((200, "monitor"), "awake, healthy\n"));
        }
        stage.at(60).await;
        assert_eq!(stage.state(), "falling-asleep", "the minute on is over, and nobody needs it");
        assert!(stage.origin.seen().is_empty());
    });
}

#[test]
fn a_site_that_answers_health_checks_by_itself_is_asked() {
    let own = awake().site(|site| site.clients.monitor_paths = Vec::new());
    own.with(|config| config.scenario.policy = timeout(86_400)).play(async |stage| {
        stage.origin.says(status(404, "mine"));
        let got = stage.ask(get("/healthz")).await;
        assert_eq!((got.how(), got.text()), ((404, "server"), "mine"));
    });
}

#[test]
fn the_admin_listener_says_how_the_service_and_each_site_is() {
    asleep().play(async |stage| {
        let whole = "asleep, healthy\nblog: asleep, healthy: wakes on demand\n".to_owned();
        assert_eq!(admin(stage, "/healthz").await, (200, whole));
        let site = "asleep, healthy: wakes on demand\n".to_owned();
        assert_eq!(admin(stage, "/healthz/blog").await, (200, site));
        let got = stage.ask_admin(json(get("/healthz"))).await;
        assert_eq!(got.field("content-type"), Some("application/json"));
        let value: serde_json::Value = serde_json::from_slice(&got.body).unwrap();
        let expected = serde_json::json!({
            "healthy": true,
            "sites": [{
                "site": "blog",
                "state": "asleep",
                "healthy": true,
                "text": "asleep, healthy: wakes on demand",
                "retry_after_s": 0,
            }],
            "machines": [],
        });
        assert_eq!(value, expected);
        assert_eq!(stage.commands(), (0, 0));
        stage.ask(post("/form", "x")).await;
        assert_eq!(admin(stage, "/healthz/blog").await, (200, "awake, healthy\n".to_owned()));
    });
}

#[test]
fn a_server_that_does_not_wake_is_reported_with_the_time_of_the_next_attempt() {
    asleep().power(|power| power.never_wakes = true).play(async |stage| {
        stage.ask(post("/form", "x")).await;
        // Three attempts of two minutes each, then a minute's pause.
        stage.at(370).await;
        assert_eq!(stage.state(), "failed");
        for path in ["/healthz", "/healthz/blog"] {
            let got = stage.ask_admin(get(path)).await;
            assert_eq!((got.status, got.seconds("retry-after")), (503, 50));
            assert!(got.text().contains("does not wake"), "{}", got.text());
        }
        let got = stage.ask_admin(json(get("/healthz/blog"))).await;
        assert_eq!(got.status, 503);
        let value: serde_json::Value = serde_json::from_slice(&got.body).unwrap();
        assert_eq!((&value["healthy"], &value["state"]), (&false.into(), &"failed".into()));
    });
}

#[test]
fn a_machine_that_only_services_use_is_told_of_as_a_site_is() {
    let text = "[[machine]]\nname = \"metal\"\nprobe = \"controller\"\npower.simulated = {}\n\
                [[tcp]]\nname = \"ssh\"\nlisten = [\"127.0.0.1:0\"]\non = \"metal\"\n\
                origin = \"127.0.0.1:1\"\n";
    let setup = on(&["metal"], "never_wakes = true", asleep()).with(move |config| {
        config.tcp = Config::parse(text, "test").unwrap().tcp;
        config.site.clear();
    });
    setup.play_from_the_start(async |stage| {
        stage.at(1).await;
        let whole = "asleep, healthy\nmetal: asleep, healthy: wakes on demand\n".to_owned();
        assert_eq!(admin(stage, "/healthz").await, (200, whole));
        let alone = "asleep, healthy: wakes on demand\n".to_owned();
        assert_eq!(admin(stage, "/healthz/metal").await, (200, alone));
        assert_eq!(admin(stage, "/healthz/ssh").await.0, 404);
        let mut caller = Caller::connect(stage).await;
        caller.say(stage, b"a").await;
        // Three attempts of two minutes each.
        stage.at(370).await;
        assert_eq!(stage.machines()[0].state, "failed");
        let text = "failed: the machine does not wake. It will be tried again.";
        let (whole, alone) = (format!("not healthy: metal\nmetal: {text}\n"), format!("{text}\n"));
        for (path, said) in [("/healthz", whole), ("/healthz/metal", alone)] {
            let got = stage.ask_admin(get(path)).await;
            assert_eq!((got.status, got.text()), (503, &*said));
            assert!((1..=60).contains(&got.seconds("retry-after")), "{got:?}");
        }
        let got = stage.ask_admin(json(get("/healthz"))).await;
        let expected = serde_json::json!({
            "healthy": false,
            "sites": [],
            "machines": [{
                "machine": "metal",
                "state": "failed",
                "healthy": false,
                "text": text,
                "retry_after_s": got.seconds("retry-after"),
            }],
        });
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&got.body).unwrap(), expected);
    });
}

#[test]
fn in_shadow_mode_a_server_that_is_away_is_not_called_healthy() {
    let away = awake().observing().probed_by_http();
    away.site(|site| site.watch = crate::stage::secs(10)).play(async |stage| {
        assert_eq!(admin(stage, "/healthz").await.0, 200);
        stage.origin.down().await;
        stage.power.go_down();
        stage.pass(crate::stage::secs(30)).await;
        let (status, text) = admin(stage, "/healthz").await;
        assert_eq!(status, 503, "{text}");
        assert!(text.contains("shadow mode"), "{text}");
    });
}

#[test]
fn the_admin_listener_takes_no_orders_and_serves_no_site() {
    awake().play(async |stage| {
        for (path, status) in [
            ("/", 200),
            ("/metrics", 200),
            ("/healthz?a=b", 200),
            ("/healthz/", 404),
            ("/healthz/shop", 404),
            ("/healthz/blog/x", 404),
            ("/metrics/", 404),
            ("/blog", 404),
            ("/../metrics", 404),
        ] {
            assert_eq!(stage.ask_admin(get(path)).await.status, status, "{path}");
        }
        let got = stage.ask_admin(post("/metrics", "x")).await;
        assert_eq!((got.status, got.field("allow")), (405, Some("GET, HEAD")));
        let head = stage.ask_admin(crate::client::ask("HEAD", "/metrics")).await;
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert!(stage.origin.seen().is_empty());
        assert!(stage.log().is_empty(), "who asks here is no client of a site");
        assert_eq!(stage.ask(get("/metrics")).await.how(), (200, "server"), "a site has its own");
    });
}

#[test]
fn without_an_admin_address_nobody_listens() {
    awake().with(|config| config.admin = None).play(async |stage| {
        assert_eq!(stage.admin_address(), None);
    });
}
