//! A site whose server is a pool of four.

use std::time::Duration;

use nightwatt_gateway::Config;
use nightwatt_gateway::control::{Order, Reply};
use tokio::task::JoinHandle;

use crate::client::{Ask, Got, ask, get, post};
use crate::origin::{Act, ok};
use crate::stage::{Machine, Setup, Stage, asleep, awake, secs};

pub(crate) const FOUR: &[&str] = &["a", "b", "c", "d"];

/// One request at a time each; 5 s to wake, 5 s to fall asleep.
pub(crate) const ONE_EACH: &str = r#"
    policy = "delayed-off 20s"
    line = 3
    wear = "by-number"
    [[site.pool.kind]]
    name = "small"
    service_rate = 1
    places = 1
    idle_w = 10
    busy_w = 30
    off_w = 1
    switch_j = 50
    wake_time = "5s"
"#;

pub(crate) fn four() -> Setup {
    asleep().pool(FOUR, ONE_EACH, "watch = \"10s\"")
}

/// Every server takes so many seconds for an answer.
pub(crate) fn takes(stage: &Stage, seconds: u64) {
    for member in &stage.members {
        member.origin.script(move |seen| {
            let says = ok(&format!("this is {}", seen.target)).bytes();
            vec![Act::Body, Act::Take(secs(seconds)), Act::Say(says)]
        });
    }
}

/// Sends a request, and reads its answer as soon as it comes, whatever the story does meanwhile.
pub(crate) async fn ask_beside(stage: &Stage, request: Ask) -> JoinHandle<Got> {
    let mut client = stage.begin(request).await;
    tokio::spawn(async move { client.answer().await })
}

pub(crate) fn seen(members: &[Machine]) -> Vec<usize> {
    members.iter().map(|it| it.origin.seen().len()).collect()
}

#[test]
fn one_server_is_on_and_the_next_is_started_for_a_request_that_finds_no_place() {
    four().play(async |stage| {
        stage.at(6).await;
        assert_eq!(stage.duties(), ["on", "off", "off", "off"]);
        takes(stage, 3);
        let first = ask_beside(stage, get("/1")).await;
        let second = ask_beside(stage, get("/2")).await;
        assert_eq!(first.await.unwrap().how(), (200, "server"));
        assert_eq!(stage.now().0.as_secs(), 9);
        // `a` is free after 3 s, before `b` has woken.
        assert_eq!(second.await.unwrap().how(), (200, "held"));
        assert_eq!(stage.now().0.as_secs(), 12);
        assert_eq!(stage.duties(), ["on", "on", "off", "off"]);
        // After 20 idle seconds `b` goes.
        stage.at(32).await;
        assert_eq!(stage.duties(), ["on", "off", "off", "off"]);
        assert_eq!(seen(&stage.members), [2, 0, 0, 0]);
        let pool = stage.pool();
        assert_eq!((pool.waited, pool.refused, pool.resent), (1, 0, 0));
    });
}

#[test]
fn what_finds_neither_a_place_nor_room_in_line_is_refused_and_counted() {
    four().play(async |stage| {
        stage.at(6).await;
        takes(stage, 3);
        let mut clients = Vec::new();
        for number in 0..6 {
            clients.push(ask_beside(stage, get(&format!("/{number}"))).await);
        }
        // One at `a`, three in line: two are sent away.
        let mut answers = Vec::new();
        for client in clients {
            answers.push(client.await.unwrap());
        }
        let good = answers.iter().filter(|it| it.status == 200).count();
        assert_eq!(good, 4);
        for refused in &answers[4..] {
            assert_eq!(refused.how(), (503, "unavailable"));
            assert_eq!(refused.seconds("retry-after"), 5, "when the next server is on");
        }
        assert_eq!(stage.pool().refused, 2);
        assert_eq!(stage.pool().waiting, 0);
    });
}

#[test]
fn what_a_killed_server_had_is_answered_by_another_if_it_may_be_sent_again() {
    four().play(async |stage| {
        stage.at(6).await;
        takes(stage, 3);
        let whole = ask_beside(stage, get("/1")).await;
        let unsafe_one = ask_beside(stage, post("/2", "x")).await;
        stage.at(7).await;
        stage.members[0].dies().await;
        // `b` is on at 11, and takes 3 s for each.
        assert_eq!(whole.await.unwrap().how(), (200, "held"));
        assert_eq!(unsafe_one.await.unwrap().status, 200, "it had been in line");
        let pool = stage.pool();
        assert_eq!(pool.servers[0].failed, 1);
        assert!(pool.resent > 0);
        assert_eq!(seen(&stage.members), [1, 2, 0, 0]);
        // It had one that may not be sent again: that is told.
        let lost = ask_beside(stage, post("/3", "x")).await;
        stage.members[1].dies().await;
        assert_eq!(lost.await.unwrap().status, 502);
        assert_eq!(stage.members[2].origin.seen().len() + stage.members[3].origin.seen().len(), 0);
    });
}

#[test]
fn a_server_that_takes_no_connections_is_replaced_and_comes_back_when_it_answers() {
    let setup = awake().pool(FOUR, ONE_EACH, "watch = \"10s\"");
    setup.play(async |stage| {
        stage.at(1).await;
        // All were awake; after 20 idle seconds one stays.
        assert_eq!(stage.duties(), ["on", "on", "on", "on"]);
        stage.at(30).await;
        assert_eq!(stage.duties(), ["off", "off", "off", "on"]);
        stage.members[3].dies().await;
        let got = stage.ask(post("/1", "x")).await;
        assert_eq!(got.how(), (200, "held"), "it was not sent, so it may be sent to another");
        assert_eq!(stage.now().0.as_secs(), 35);
        assert_eq!(stage.duties(), ["on", "off", "off", "failed"]);
        // An operator turns it on again.
        stage.members[3].power.come_up();
        stage.members[3].origin.up();
        stage.pass(secs(40)).await;
        assert_ne!(stage.duties()[3], "failed");
        assert_eq!(stage.ask(get("/2")).await.status, 200);
    });
}

#[test]
fn what_a_server_had_that_froze_goes_to_another_as_soon_as_a_look_tells() {
    four().play(async |stage| {
        stage.at(6).await;
        takes(stage, 1);
        stage.members[0].origin.script(|_| vec![Act::Body, Act::Take(secs(1000))]);
        let put = |body: &str| ask("PUT", "/1").field("Content-Length", "1").with_body(body);
        let got = ask_beside(stage, get("/1")).await;
        let body = ask_beside(stage, put("x")).await;
        // It keeps its connections, and answers no request: the probe after 10 s finds out.
        stage.members[0].power.go_down();
        assert_eq!(got.await.unwrap().status, 200);
        assert!(stage.now().0.as_secs() < 30, "no time-out was waited for: {:?}", stage.now());
        assert_eq!(body.await.unwrap().status, 200);
        let others = stage.members[1..].iter().flat_map(|it| it.origin.seen());
        let mut bodies: Vec<String> = others.map(|seen| seen.text()).collect();
        bodies.sort();
        assert_eq!(bodies, ["", "x"], "each reached another server once");
    });
}

#[test]
fn in_shadow_mode_all_servers_that_answer_serve_and_none_is_switched() {
    let setup = awake().observing().pool(FOUR, ONE_EACH, "watch = \"0\"");
    setup.play(async |stage| {
        stage.at(200).await;
        assert_eq!(stage.duties(), ["on", "on", "on", "on"]);
        takes(stage, 2);
        let first = ask_beside(stage, get("/1")).await;
        let second = ask_beside(stage, get("/2")).await;
        assert_eq!(first.await.unwrap().status, 200);
        assert_eq!(second.await.unwrap().status, 200);
        stage.order(Order::Sleep { site: Some("b".to_owned()) }).await;
        stage.at(400).await;
        let calls = stage.members.iter().map(|it| it.power.calls());
        assert!(calls.into_iter().all(|it| (it.wakes, it.sleeps) == (0, 0)));
    });
}

#[test]
fn the_last_server_that_is_left_is_started_anew_at_once() {
    let setup = asleep().pool(&["a"], ONE_EACH, "watch = \"0\"");
    setup.play(async |stage| {
        stage.at(60).await;
        assert_eq!(stage.duties(), ["on"]);
        stage.members[0].dies().await;
        assert_eq!(stage.ask(get("/1")).await.how(), (200, "held"));
        assert_eq!(stage.now().0.as_secs(), 65);
    });
}

#[test]
fn a_pool_of_which_no_server_wakes_is_one_server_that_does_not_wake() {
    let setup = asleep().power(|power| power.never_wakes = true);
    setup.pool(&["a", "b"], ONE_EACH, "watch = \"0\"").play(async |stage| {
        let got = stage.ask(get("/1")).await;
        assert!(matches!(got.status, 503 | 504), "{got:?}");
        stage.at(600).await;
        assert_eq!(stage.duties(), ["failed", "failed"]);
        // A server comes up: the site is there again.
        stage.members[1].power.come_up();
        stage.members[1].origin.up();
        assert_eq!(stage.order(Order::Wake { site: Some("b".to_owned()) }).await.done(), "done");
        stage.pass(secs(10)).await;
        assert_eq!(stage.ask(get("/2")).await.status, 200);
    });
}

/// What an order came to.
pub(crate) trait Done {
    fn done(&self) -> &'static str;
}

impl Done for Reply {
    fn done(&self) -> &'static str {
        if matches!(self, Self::Done) { "done" } else { "refused" }
    }
}

#[test]
fn a_restart_keeps_the_ledger_of_each_server_and_their_sum() {
    four().play(async |stage| {
        stage.at(6).await;
        takes(stage, 3);
        let first = ask_beside(stage, get("/1")).await;
        let second = ask_beside(stage, get("/2")).await;
        first.await.unwrap();
        second.await.unwrap();
        stage.at(50).await;
        let before = stage.status();
        let of = |name: usize| before.pool.as_ref().unwrap().servers[name].ledger.clone();
        // `a`: off for 5 s, on since, busy for 6 s of it.
        let a = 5.0 * 1.0 + 39.0 * 10.0 + 6.0 * 30.0;
        assert!((of(0).server.joules.get() - a).abs() < 0.5, "{:?}", of(0));
        // `b`: on from 11 to 31, then asleep.
        let b = 30.0 * 1.0 + 20.0 * 10.0 + 50.0;
        assert!((of(1).server.joules.get() - b).abs() < 0.5, "{:?}", of(1));
        let sum: f64 = (0..4).map(|it| of(it).server.joules.get()).sum();
        assert!((before.ledger.server.joules.get() - sum).abs() < 1e-6);
        assert_eq!((before.ledger.sleeps, before.ledger.wakeups), (1, 2));
        stage.stop().await;
        stage.start();
        stage.looked().await;
        let after = stage.status();
        assert!((after.ledger.server.joules.get() - sum).abs() < 0.5);
        assert!((after.ledger.busy_s - 6.0).abs() < 0.1, "{:?}", after.ledger);
        // What was awake goes on, and nothing else is woken.
        assert_eq!(stage.duties(), ["on", "off", "off", "off"]);
    });
}

#[test]
fn wear_is_spread_over_all_servers() {
    let pool = r#"
        policy = "baseline"
        line = 10
        [[site.pool.kind]]
        name = "small"
        service_rate = 1
        places = 1
        wake_time = "5s"
    "#;
    asleep().pool(FOUR, pool, "watch = \"0\"").play(async |stage| {
        stage.at(6).await;
        takes(stage, 6);
        for round in 0..12 {
            let first = ask_beside(stage, get(&format!("/{round}/1"))).await;
            let second = ask_beside(stage, get(&format!("/{round}/2"))).await;
            assert_eq!(first.await.unwrap().status, 200);
            assert_eq!(second.await.unwrap().status, 200);
            stage.pass(secs(30)).await;
        }
        let wakes: Vec<u32> = stage.members.iter().map(|it| it.power.calls().wakes).collect();
        assert!(wakes.iter().all(|it| (2..=5).contains(it)), "{wakes:?}");
        assert_eq!(stage.pool().refused, 0);
    });
}

#[test]
fn a_pool_may_sleep_as_a_whole_and_is_woken_by_a_request() {
    let pool = r#"
        policy = "baseline"
        sleeps = true
        [[site.pool.kind]]
        name = "small"
        service_rate = 1
        places = 1
        wake_time = "5s"
    "#;
    asleep().pool(FOUR, pool, "watch = \"0\"").play(async |stage| {
        assert_eq!(stage.ask(get("/1")).await.status, 200);
        // The site's policy: 5 s after the last request, and a minute awake at least.
        stage.at(120).await;
        assert_eq!(stage.duties(), ["off", "off", "off", "off"]);
        assert_eq!(stage.state(), "asleep");
        let got = stage.ask(get("/2")).await;
        assert_eq!((got.how(), stage.now().0.as_secs()), ((200, "held"), 125));
        assert_eq!(stage.pool().on, 1);
    });
}

#[test]
fn a_server_that_will_not_sleep_serves_on_and_is_told_again() {
    let setup = asleep().power(|power| power.fail_sleeps = 1);
    setup.pool(FOUR, ONE_EACH, "watch = \"0\"").play(async |stage| {
        stage.at(6).await;
        stage.order(Order::Wake { site: Some("c".to_owned()) }).await;
        // On at 11; told to sleep 20 s later, and it refuses.
        stage.at(33).await;
        let c = stage.pool().servers[2].clone();
        assert_eq!((c.duty.as_str(), c.state.as_str()), ("on", "awake"));
        stage.at(200).await;
        assert_eq!(stage.pool().servers[2].state, "asleep");
        assert_eq!(stage.members[2].power.calls().sleeps, 2);
    });
}

#[test]
fn servers_on_a_machine_are_woken_after_it_and_it_sleeps_when_the_last_does() {
    let setup = asleep().pool(&["a", "b"], ONE_EACH, "watch = \"0\"").with(|config| {
        let text = r#"
            listen = ["127.0.0.1:0"]
            [[machine]]
            name = "metal"
            power.simulated = { wake_time = "10s", sleep_time = "5s" }
            probe = "controller"
            linger = "30s"
            watch = "0"
            server.min_on = "0"
            [[site]]
            name = "x"
            origin = "http://a"
            power.simulated = {}
        "#;
        config.machine = Config::parse(text, "test").unwrap().machine;
        for server in &mut config.site[0].server {
            server.on = Some("metal".to_owned());
        }
    });
    setup.play(async |stage| {
        stage.at(9).await;
        assert_eq!(
            (stage.machines()[0].state.as_str(), stage.duties()[0].as_str()),
            ("waking", "starting")
        );
        stage.at(16).await;
        assert_eq!(stage.duties(), ["on", "off"]);
        // The whole pool: the machine follows 30 s after it.
        stage.order(Order::Sleep { site: Some("blog".to_owned()) }).await;
        stage.at(40).await;
        assert_eq!(
            (stage.machines()[0].state.as_str(), stage.duties()),
            ("awake", vec!["off".to_owned(); 2])
        );
        stage.at(70).await;
        assert_eq!(stage.machines()[0].state, "asleep");
        assert_eq!(stage.ask(get("/1")).await.how(), (200, "held"));
        assert_eq!(stage.now().0.as_secs(), 85);
    });
}

#[test]
fn what_the_policy_has_learned_survives_a_restart() {
    let pool =
        "policy = \"predictive\"\n[[site.pool.kind]]\nname = \"x\"\nplaces = 1\nwake_time = \"2s\"";
    asleep().pool(FOUR, pool, "watch = \"0\"").play(async |stage| {
        stage.at(10).await;
        for number in 0..20 {
            stage.ask(get(&format!("/{number}"))).await;
            stage.pass(secs(3)).await;
        }
        stage.stop().await;
        let path = stage.lessons().with_file_name("blog.pool-lessons.json");
        let first = std::fs::read_to_string(&path).unwrap();
        assert!(first.contains("\"servers\":4"), "{first}");
        stage.start();
        stage.looked().await;
        stage.stop().await;
        // How many bins the forecast rests on: none, if it had started again from nothing.
        let bins = |text: &str| {
            let rest = text.split("\"bins\":").nth(1).unwrap();
            rest.split(',').next().unwrap().parse::<u64>().unwrap()
        };
        let second = std::fs::read_to_string(&path).unwrap();
        assert!(bins(&first) > 20 && bins(&second) >= bins(&first), "{second}");
    });
}

/// A random walk: requests of all kinds, and servers that die and come back.
#[test]
fn every_request_is_answered_once_whatever_happens_to_the_servers() {
    for seed in 1..=6_u64 {
        let pool = r#"
            policy = "hybrid 2 7s"
            line = 20
            [[site.pool.kind]]
            name = "small"
            service_rate = 1
            places = 2
            wake_time = "5s"
        "#;
        asleep().pool(FOUR, pool, "watch = \"2s\"\nretry = \"5s\"").play(async move |stage| {
            stage.at(6).await;
            takes(stage, 1);
            let mut dice = seed;
            let mut next = |below: u64| {
                // xorshift64
                dice ^= dice << 13;
                dice ^= dice >> 7;
                dice ^= dice << 17;
                dice % below
            };
            let (mut clients, mut kills) = (Vec::new(), 0);
            for number in 0..150 {
                let path = format!("/{number}");
                let gets = next(10) < 7;
                let request = if gets { get(&path) } else { post(&path, "x") };
                clients.push((gets, ask_beside(stage, request).await));
                stage.pass(Duration::from_millis(next(700))).await;
                if next(20) == 0 {
                    kills += 1;
                    stage.members[usize::try_from(next(4)).unwrap()].dies().await;
                }
            }
            let (mut good, mut told) = (0, 0);
            for (gets, client) in clients {
                let got = client.await.unwrap();
                match got.status {
                    200 => good += 1,
                    503 => told += 1,
                    502 if !gets => told += 1,
                    other => panic!("seed {seed}: {other} {got:?}"),
                }
            }
            assert_eq!(good + told, 150);
            assert!(good > 100 && kills > 2, "seed {seed}: {good} good, {kills} killed");
            let pool = stage.pool();
            assert_eq!(pool.waiting, 0);
            assert!(pool.servers.iter().all(|it| it.in_flight == 0));
            // What may not be sent again was never sent twice.
            let all = stage.members.iter().flat_map(|it| it.origin.lines());
            let mut posts: Vec<String> = all.filter(|it| it.starts_with("POST")).collect();
            let sent = posts.len();
            posts.sort();
            posts.dedup();
            assert_eq!(posts.len(), sent, "seed {seed}");
            stage.pass(secs(120)).await;
            assert_eq!(stage.ask(ask("GET", "/end")).await.status, 200);
        });
    }
}

#[test]
fn the_example_of_the_documentation_is_a_pool_of_two_kinds() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut blocks = text.split("```toml\n").skip(1).filter_map(|it| it.split("```").next());
    let example = blocks.find(|it| it.contains("[[site.server]]")).expect("an example");
    let config = Config::parse(example, "fleet.md").unwrap_or_else(|error| panic!("{error}"));
    let settings = config.site[0].fleet_settings(&config.scenario.server);
    let counts: Vec<u32> = settings.kinds.iter().map(|kind| kind.servers).collect();
    assert_eq!(counts, [1, 1]);
    // 100 ms at 50 and at 400 requests/s.
    let places: Vec<u32> = settings.kinds.iter().map(|kind| kind.places).collect();
    assert_eq!(places, [5, 40]);
}

#[test]
fn mistakes_in_a_pool_point_at_their_line() {
    let wrong = |text: &str| {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"shop\"\n{text}\n[[site.server]]\n\
             name = \"one\"\norigin = \"http://10.0.0.1\"\npower.simulated = {{}}\n"
        );
        Config::parse(&text, "f").unwrap_err().to_string()
    };
    let policy = wrong("pool.policy = \"hybrid 3 10s\"");
    assert!(policy.contains("f:4:") && policy.contains("keeps 3 servers on"), "{policy}");
    let unknown = wrong("pool.policy = \"best\"");
    assert!(unknown.contains("f:4:") && unknown.contains("not a fleet policy"), "{unknown}");
    let origin = wrong("origin = \"http://10.0.0.9\"");
    assert!(origin.contains("f:4:") && origin.contains("no `origin` of its own"), "{origin}");
    let twice =
        wrong("[[site.server]]\nname = \"one\"\norigin = \"http://a\"\npower.simulated = {}");
    assert!(twice.contains("f:9:") && twice.contains("two are called `one`"), "{twice}");
    let kind = wrong(
        "[[site.server]]\nname = \"two\"\norigin = \"http://a\"\npower.simulated = {}\nkind = \"x\"",
    );
    assert!(kind.contains("f:8:") && kind.contains("the pool has none"), "{kind}");
    let slow = wrong("[site.pool]\nresponse_time = \"1ms\"");
    assert!(slow.contains("f:5:") && slow.contains("response_time"), "{slow}");
    let unused = wrong(
        "[[site.pool.kind]]\nname = \"x\"\n[[site.pool.kind]]\nname = \"y\"\n[[site.server]]\n\
         name = \"two\"\norigin = \"http://a\"\npower.simulated = {}\nkind = \"x\"",
    );
    assert!(unused.contains("`site.server.kind` is missing"), "{unused}");
    let of_x = Config::parse(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"a\"\n[[site.pool.kind]]\nname = \"x\"\n\
         [[site.pool.kind]]\nname = \"y\"\n[[site.server]]\nname = \"two\"\norigin = \"http://a\"\n\
         power.simulated = {}\nkind = \"x\"",
        "f",
    );
    let of_x = of_x.unwrap_err().to_string();
    assert!(of_x.contains("f:7:") && of_x.contains("of the kind `y`"), "{of_x}");
    let share = wrong("pool.overflow_share = 2");
    assert!(share.contains("f:4:") && share.contains("between 0 and 1"), "{share}");
    let lonely = Config::parse(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"a\"\norigin = \"http://b\"\npower.simulated = {}\npool.line = 3",
        "f",
    );
    let lonely = lonely.unwrap_err().to_string();
    assert!(lonely.contains("f:6:") && lonely.contains("[[site.server]]"), "{lonely}");
}
