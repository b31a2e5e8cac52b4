//! When the server may sleep, and what keeps it awake.

use std::time::Duration;

use nightwatt_gateway::Config;

use crate::client::{CRAWLER, ask, get, post};
use crate::origin::{Act, Gate};
use crate::stage::{asleep, awake, secs, settle, timeout};

#[test]
fn it_stays_awake_for_a_minute_after_waking() {
    asleep().play(async |stage| {
        stage.ask(get("/a")).await;
        stage.at(64).await;
        let status = stage.status();
        assert_eq!((status.state.as_str(), stage.commands()), ("awake", (1, 0)));
        let why = status.kept_awake_by.unwrap();
        assert!(why.contains("`min_on`") && why.ends_with("another 1s"), "{why}");
        stage.at(65).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("falling-asleep", (1, 1)));
        stage.at(70).await;
        assert_eq!(stage.state(), "asleep");
        assert_eq!(stage.status().kept_awake_by, None);
    });
}

#[test]
fn within_its_hours_it_does_not_sleep_and_a_reload_without_them_lets_it() {
    let all_day = |config: &mut Config| {
        config.scenario.never_sleep = vec!["00:00-24:00".parse().unwrap()];
    };
    asleep().with(all_day).play(async |stage| {
        stage.at(600).await;
        assert_eq!(stage.commands(), (0, 0), "it is not woken for them");
        stage.ask(get("/a")).await;
        stage.at(3000).await;
        let status = stage.status();
        assert_eq!((status.state.as_str(), stage.commands()), ("awake", (1, 0)));
        let why = status.kept_awake_by.unwrap();
        assert!(why.contains("`never_sleep`"), "{why}");
        stage.reload(|config| config.scenario.never_sleep.clear()).await.unwrap();
        stage.at(3100).await;
        assert_eq!(stage.commands(), (1, 1));
    });
}

#[test]
fn it_stays_awake_for_five_seconds_after_a_request() {
    awake().with(|config| config.scenario.policy = timeout(0)).play(async |stage| {
        stage.at(58).await;
        stage.ask(post("/a", "x")).await;
        stage.at(62).await;
        assert_eq!(stage.commands(), (0, 0));
        stage.at(63).await;
        assert_eq!(stage.commands(), (0, 1));
    });
}

#[test]
fn what_the_cache_answers_does_not_keep_it_awake() {
    awake().play(async |stage| {
        stage.ask(get("/a")).await;
        for second in 50..60 {
            stage.at(second).await;
            assert_eq!(stage.ask(get("/a")).await.how(), (200, "cache"));
        }
        stage.at(60).await;
        assert_eq!(stage.commands(), (0, 1));
    });
}

#[test]
fn a_long_download_keeps_it_awake_to_its_end() {
    awake().play(async |stage| {
        let gate = Gate::shut();
        let minute = gate.clone();
        stage.origin.script(move |_| {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let mut acts = vec![Act::Body, Act::Say(head.as_bytes().to_vec())];
            for _ in 0..20 {
                acts.push(Act::Await(minute.clone()));
                acts.push(Act::Say(b"5\r\nchunk\r\n".to_vec()));
            }
            acts.push(Act::Say(b"0\r\n\r\n".to_vec()));
            acts
        });
        let mut client = stage.begin(get("/film")).await;
        assert_eq!(client.head().await.status, 200);
        for minute in 1..=20 {
            stage.at(minute * 60).await;
            let status = stage.status();
            assert_eq!((status.state.as_str(), status.in_flight), ("awake", 1));
            assert_eq!(status.kept_awake_by.as_deref(), Some("1 request under way"));
            gate.open();
            let part = String::from_utf8(client.part().await).unwrap();
            assert!(part.contains("chunk"), "{part:?}");
        }
        assert_eq!(stage.status().in_flight, 0);
        stage.at(1204).await;
        assert_eq!(stage.commands(), (0, 0));
        stage.at(1205).await;
        assert_eq!(stage.commands(), (0, 1));
    });
}

#[test]
fn a_long_upload_keeps_it_awake_to_its_end() {
    // As it is, and held until the server it wakes is there.
    for (setup, begins) in [(awake(), 0), (asleep(), 5)] {
        setup.play(async |stage| {
            let upload = ask("POST", "/film").field("Transfer-Encoding", "chunked");
            let mut client = stage.begin(upload).await;
            client.lets_time_pass();
            // A part every half minute: a minute of silence is too much for the origin.
            for part in 1..=40 {
                stage.at(begins + part * 30).await;
                let status = stage.status();
                assert_eq!((status.state.as_str(), status.in_flight), ("awake", 1), "{part}");
                assert_eq!(status.kept_awake_by.as_deref(), Some("1 request under way"));
                client.say("5\r\nchunk\r\n").await;
                settle(&stage.clock).await;
                client.lets_time_pass();
            }
            client.say("0\r\n\r\n").await;
            assert_eq!(client.answer().await.status, 200);
            assert_eq!(stage.origin.only().text(), "chunk".repeat(40));
            assert_eq!(stage.status().in_flight, 0);
            let sleeps = stage.commands().1;
            stage.at(begins + 1204).await;
            assert_eq!(stage.commands().1, sleeps, "not before it has been idle for five seconds");
            stage.at(begins + 1205).await;
            assert_eq!(stage.commands().1, sleeps + 1);
        });
    }
}

#[test]
fn an_upload_that_its_client_breaks_off_keeps_nobody_awake() {
    awake().play(async |stage| {
        let upload = ask("POST", "/film").field("Content-Length", "100").with_body("some");
        let client = stage.begin(upload).await;
        stage.origin.saw(1).await;
        assert_eq!(stage.status().in_flight, 1);
        client.leave().await;
        assert_eq!(stage.status().in_flight, 0);
        stage.at(60).await;
        assert_eq!(stage.commands(), (0, 1));
    });
}

#[test]
fn a_download_that_its_client_breaks_off_keeps_nobody_awake() {
    awake().play(async |stage| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome".to_vec();
        stage.origin.script(move |_| vec![Act::Body, Act::Say(head.clone()), Act::Hang]);
        let mut client = stage.begin(get("/film")).await;
        assert_eq!(client.head().await.status, 200);
        assert_eq!(stage.status().in_flight, 1);
        client.leave().await;
        assert_eq!(stage.status().in_flight, 0);
        stage.at(60).await;
        assert_eq!(stage.commands(), (0, 1));
    });
}

#[test]
fn the_sla_keeps_it_awake_until_enough_were_not_delayed() {
    let promised = awake().with(|config| config.scenario.sla.enabled = true);
    promised.play(async |stage| {
        for n in 0..8 {
            stage.at(n).await;
            stage.ask(post("/a", "x")).await;
        }
        stage.at(3600).await;
        let status = stage.status();
        assert_eq!((status.state.as_str(), status.sla), ("awake", Some((8, 0))));
        let why = status.kept_awake_by.unwrap();
        assert!(why.contains("SLA"), "{why}");
        stage.ask(post("/a", "x")).await;
        // (0 + 1) / (9 + 1) = 10 %.
        stage.at(3605).await;
        assert_eq!(stage.commands(), (0, 1));
        stage.at(3700).await;
        assert_eq!(stage.ask(post("/a", "x")).await.how(), (200, "held"));
        assert_eq!(stage.status().sla, Some((10, 1)));
        stage.at(8000).await;
        assert_eq!(stage.state(), "awake", "(1 + 1) / (10 + 1) is more than 10 %");
        stage.at(86_400 + 4500).await;
        assert_eq!(stage.state(), "awake", "a day later nothing is left to promise from");
    });
}

#[test]
fn so_many_visits_a_day_wait_and_status_names_the_form() {
    let promised = awake().with(|config| {
        config.scenario.sla = config.scenario.sla.with_visits_per_day(1);
    });
    promised.play(async |stage| {
        stage.at(3600).await;
        assert_eq!(stage.state(), "asleep", "without any request");
        assert_eq!(stage.ask(post("/a", "x")).await.how(), (200, "held"));
        stage.at(3700).await;
        let status = stage.status();
        assert_eq!(
            (status.state.as_str(), status.sla, status.sla_visits_today),
            ("awake", None, Some((1, 1)))
        );
        assert_eq!(status.sla_forms, ["at most 1 visit a day waits"]);
        let why = status.kept_awake_by.unwrap();
        assert!(why.contains("1 of the 1 visits that may wait today"), "{why}");
    });
}

#[test]
fn a_server_that_wakes_too_slowly_for_the_longest_wait_does_not_sleep() {
    let promised = awake().with(|config| {
        config.scenario.sla = toml::from_str("longest_wait = \"1s\"").unwrap();
        config.scenario.server.wake_time = Duration::from_secs(2);
    });
    promised.play(async |stage| {
        stage.at(3600).await;
        let status = stage.status();
        assert_eq!(status.state, "awake");
        let why = status.kept_awake_by.unwrap();
        assert!(why.contains("expected to last 2s, and `longest_wait` is 1s"), "{why}");
    });
}

#[test]
fn crawlers_do_not_count_for_the_sla() {
    let promised = awake().with(|config| config.scenario.sla.enabled = true);
    promised.play(async |stage| {
        for n in 0..20 {
            stage.ask(get(&format!("/{n}")).agent(CRAWLER)).await;
        }
        assert_eq!(stage.status().sla, Some((0, 0)));
    });
}

#[test]
fn always_on_never_sleeps() {
    let always = nightwatt_policy::sleep::PolicyChoice::AlwaysOn;
    awake().with(|config| config.scenario.policy = always).play(async |stage| {
        stage.ask(get("/a")).await;
        stage.pass(Duration::from_hours(24)).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("awake", (0, 0)));
    });
}

#[test]
fn a_gateway_that_stops_leaves_the_server_as_it_is() {
    for setup in [awake(), asleep()] {
        setup.play(async |stage| {
            stage.at(10).await;
            let was = stage.power.is_up();
            stage.stop().await;
            assert_eq!((stage.power.is_up(), stage.commands()), (was, (0, 0)));
        });
    }
}

#[test]
fn a_gateway_that_stops_lets_running_exchanges_end() {
    awake().play(async |stage| {
        let gate = Gate::shut();
        let end = gate.clone();
        stage.origin.script(move |_| {
            vec![
                Act::Say(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf".to_vec()),
                Act::Await(end.clone()),
                Act::Say(b"half".to_vec()),
            ]
        });
        let mut client = stage.begin(get("/a")).await;
        stage.origin.saw(1).await;
        let ((), got) = tokio::join!(stage.stop(), async {
            gate.open();
            client.answer().await
        });
        assert_eq!((got.status, got.text()), (200, "halfhalf"));
    });
}

#[test]
fn a_gateway_that_is_full_can_stop() {
    let full =
        awake().with(|config| (config.limits.connections, config.limits.drain) = (1, secs(1)));
    full.play(async |stage| {
        let mut idle = stage.begin(get("/a")).await;
        idle.answer().await;
        stage.stop().await;
    });
}
