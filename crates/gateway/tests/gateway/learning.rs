//! What the default policy has learned outlives the gateway.

use std::path::Path;

use nightwatt_gateway::config::AccessConfig;
use nightwatt_gateway::control::Order;
use nightwatt_policy::sleep::PolicyChoice;

use crate::access::networks;
use crate::client::post;
use crate::stage::{Setup, Stage, asleep, awake, secs, timeout};

/// One new visit an hour, which is what is expected before anything was seen, is worth 10 W, and
/// staying awake costs 41.7 W: only who has learned that more come stays awake.
fn learning(setup: Setup) -> Setup {
    setup.with(|config| {
        config.scenario.policy = PolicyChoice::Learned;
        config.scenario.delay_price_j = 36_000.0;
    })
}

/// A new visitor every minute.
async fn busy(stage: &Stage, minutes: u64) {
    for visitor in 0..minutes {
        let got = stage.ask(post("/order", "x").agent(&format!("reader/{visitor}"))).await;
        assert_eq!(got.status, 200);
        stage.pass(secs(60)).await;
    }
}

/// Stops the gateway, does something, and starts it again `after` seconds later.
async fn restart(stage: &mut Stage, after: u64, meanwhile: impl FnOnce(&Path)) {
    stage.stop().await;
    meanwhile(&stage.lessons());
    stage.clock.sleep(secs(after)).await;
    stage.start();
    stage.looked().await;
}

/// Whether the server is still awake an hour after the start, without a visitor.
async fn stays_awake(stage: &Stage) -> bool {
    stage.pass(secs(3600)).await;
    stage.state() == "awake"
}

#[test]
fn a_restarted_gateway_knows_what_the_last_one_learned() {
    learning(awake()).play(async |stage| {
        assert_eq!(stage.status().learned_from_s, None, "nobody has come yet");
        busy(stage, 180).await;
        restart(stage, 600, |lessons| assert!(lessons.exists())).await;
        assert_eq!(stage.status().learned_from_s, Some(180.0 * 60.0));
        assert!(stays_awake(stage).await, "it knows that somebody comes every minute");
        restart(stage, 600, |_| {}).await;
        assert_eq!(stage.status().learned_from_s, Some(240.0 * 60.0), "stops do not count");
        assert!(stays_awake(stage).await, "what was stored twice is still known");
        restart(stage, 600, |lessons| std::fs::remove_file(lessons).unwrap()).await;
        assert_eq!(stage.status().learned_from_s, None);
        assert!(!stays_awake(stage).await, "without its lessons it knows nothing");
    });
}

#[test]
fn clients_that_may_not_wake_it_are_no_reason_to_expect_more_of_them() {
    let access = AccessConfig { never_wake: networks(&["127.0.0.1"]), ..AccessConfig::default() };
    learning(awake()).site(|site| site.access = Some(access)).play(async |stage| {
        stage.order(Order::StayAwake { site: None, seconds: 180 * 60 }).await;
        busy(stage, 180).await;
        restart(stage, 600, |_| {}).await;
        assert!(
            !stays_awake(stage).await,
            "it would stay awake for them as long as it does for others"
        );
    });
}

#[test]
fn what_was_learned_is_forgotten_over_a_long_stop() {
    learning(awake()).play(async |stage| {
        busy(stage, 180).await;
        restart(stage, 100 * 86_400, |_| {}).await;
        assert!(!stays_awake(stage).await);
    });
}

#[test]
fn a_damaged_file_costs_the_lessons_and_nothing_else() {
    learning(awake()).play(async |stage| {
        busy(stage, 120).await;
        let before = stage.status().ledger;
        restart(stage, 600, |lessons| std::fs::write(lessons, "{\"v\":1").unwrap()).await;
        assert_eq!(stage.status().learned_from_s, None);
        assert!((stage.status().ledger.awake_s - before.awake_s).abs() < 1e-6);
        let bad = stage.lessons().with_extension("json.bad");
        assert_eq!(std::fs::read_to_string(bad).unwrap(), "{\"v\":1");
        busy(stage, 10).await;
        restart(stage, 600, |_| {}).await;
        assert_eq!(stage.status().learned_from_s, Some(600.0), "and it learns and stores again");
    });
}

#[test]
fn what_was_learned_is_stored_every_quarter_of_an_hour() {
    learning(awake()).play(async |stage| {
        busy(stage, 10).await;
        assert!(!stage.lessons().exists());
        busy(stage, 7).await;
        let stored = std::fs::read(stage.lessons()).unwrap();
        let lessons = nightwatt_gateway::lessons::read(&stored, stage.clock.now().wall).unwrap();
        let watched = lessons.watched().as_secs();
        assert!((900..1020).contains(&watched), "{watched} s");
    });
}

#[test]
fn a_policy_that_does_not_learn_stores_nothing_and_leaves_alone_what_another_stored() {
    asleep().with(|config| config.scenario.policy = timeout(5)).play(async |stage| {
        busy(stage, 2).await;
        restart(stage, 10, |lessons| {
            assert!(!lessons.exists());
            std::fs::write(lessons, "of another time").unwrap();
        })
        .await;
        busy(stage, 2).await;
        assert_eq!(stage.status().learned_from_s, None);
        stage.stop().await;
        assert_eq!(std::fs::read_to_string(stage.lessons()).unwrap(), "of another time");
    });
}

#[test]
fn each_site_has_lessons_of_its_own() {
    let two = |config: &mut nightwatt_gateway::Config| {
        let mut other = config.site[0].clone();
        other.name = "shop".to_owned();
        other.hosts = vec!["shop.example".to_owned()];
        config.site.push(other);
    };
    learning(awake()).with(two).play(async |stage| {
        busy(stage, 10).await;
        let other = stage.lessons().with_file_name("shop.lessons.json");
        let got = stage.ask(post("http://shop.example/order", "x")).await;
        assert_eq!(got.status, 200);
        stage.pass(secs(60)).await;
        stage.stop().await;
        let watched = [stage.lessons(), other].map(|path| {
            let text = std::fs::read(path).unwrap();
            let now = stage.clock.now().wall;
            nightwatt_gateway::lessons::read(&text, now).unwrap().watched().as_secs()
        });
        // The second server slept, and takes 5 s to wake.
        assert_eq!(watched, [665, 65]);
    });
}

#[test]
fn shadow_mode_learns_for_the_time_after_it() {
    learning(awake().observing()).play(async |stage| {
        busy(stage, 180).await;
        assert_eq!(stage.status().learned_from_s, Some(180.0 * 60.0));
        stage.stop().await;
        stage.observe(false);
        stage.start();
        stage.looked().await;
        assert_eq!(stage.status().learned_from_s, Some(180.0 * 60.0));
        assert!(stays_awake(stage).await);
    });
}
