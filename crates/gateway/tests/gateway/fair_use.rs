//! How long one client alone, or one that may not wake the server, keeps it awake.

use std::net::Ipv6Addr;

use nightwatt_energy::time::Mono;

use crate::client::{CRAWLER, get, post};
use crate::origin::{Act, ok};
use crate::passing::{switches, upgrade};
use crate::stage::{Setup, Stage, asleep, awake, secs, settle};

/// Clients are who a proxy in front says.
fn trusting(setup: Setup) -> Setup {
    setup.with(|config| config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()])
}

/// An hour a day.
fn an_hour(setup: Setup) -> Setup {
    trusting(setup).site(|site| site.awake_per_client_and_day = secs(3600))
}

async fn asks(stage: &Stage, client: &str) -> u16 {
    stage.ask(post("/form", "x").field("X-Forwarded-For", client)).await.status
}

#[test]
fn one_who_asks_all_the_time_keeps_the_server_awake_for_its_budget_and_no_longer() {
    an_hour(asleep()).play(async |stage| {
        let mut refused_at = None;
        assert_eq!(asks(stage, "192.0.2.1").await, 200);
        // Every four seconds, and the server sleeps after five.
        for step in 2..2000 {
            stage.at(4 * step).await;
            if asks(stage, "192.0.2.1").await == 503 {
                refused_at = Some(stage.now());
                break;
            }
        }
        // By hand: one hour, of which 1/24 wears off meanwhile: 3,757 s.
        let refused_at = refused_at.expect("an end");
        assert!(
            (Mono::from_secs(3700)..Mono::from_secs(3900)).contains(&refused_at),
            "{refused_at:?}"
        );
        assert_eq!(stage.commands(), (1, 1));
        // Others are not concerned.
        assert_eq!(asks(stage, "192.0.2.2").await, 200);
        stage.pass(secs(60)).await;
        // An eighth of its budget has come back after three hours.
        stage.pass(secs(3 * 3600 + 300)).await;
        assert_eq!(asks(stage, "192.0.2.1").await, 200);
    });
}

#[test]
fn clients_that_use_the_server_together_are_charged_for_nothing() {
    an_hour(asleep()).play(async |stage| {
        assert_eq!(asks(stage, "192.0.2.1").await, 200);
        for step in 2..3000 {
            stage.at(4 * step).await;
            let client = if step % 2 == 0 { "192.0.2.1" } else { "192.0.2.2" };
            assert_eq!(asks(stage, client).await, 200, "at {step}");
        }
        assert_eq!(stage.commands(), (1, 0));
    });
}

#[test]
fn clients_of_private_networks_are_charged_for_nothing() {
    an_hour(asleep()).play(async |stage| {
        assert_eq!(asks(stage, "192.168.1.7").await, 200);
        for step in 3..2000 {
            stage.at(4 * step).await;
            assert_eq!(asks(stage, "192.168.1.7").await, 200, "at {step}");
        }
        assert_eq!(stage.commands(), (1, 0));
    });
}

#[test]
fn an_idle_websocket_keeps_the_server_awake_for_the_budget_of_its_client_and_is_cut_then() {
    let setup = an_hour(awake()).with(|config| config.limits.tunnel_idle = secs(10 * 3600));
    setup.play(async |stage| {
        stage.origin.script(|_| switches());
        let mut client =
            stage.begin(upgrade("websocket").field("X-Forwarded-For", "192.0.2.1")).await;
        assert_eq!(client.head().await.status, 101);
        assert_eq!(client.part().await, b"welcome");
        stage.at(3500).await;
        assert_eq!(stage.state(), "awake");
        stage.at(3900).await;
        assert_eq!((stage.state().as_str(), stage.commands().1), ("asleep", 1));
        assert!(client.is_closed().await);
        settle(&stage.clock).await;
        assert_eq!(stage.status().in_flight, 0);
    });
}

#[test]
fn an_idle_websocket_is_charged_to_its_client_and_not_to_the_one_who_asked_last() {
    let setup = an_hour(awake()).with(|config| config.limits.tunnel_idle = secs(10 * 3600));
    setup.play(async |stage| {
        stage.origin.script(
            |seen| {
                if seen.target == "/socket" { switches() } else { ok("fine").acts() }
            },
        );
        let mut client =
            stage.begin(upgrade("websocket").field("X-Forwarded-For", "192.0.2.1")).await;
        assert_eq!(client.head().await.status, 101);
        assert_eq!(client.part().await, b"welcome");
        assert_eq!(asks(stage, "192.0.2.2").await, 200);
        // Ten minutes are shared; then an hour, of which 1/24 wears off meanwhile.
        stage.at(600 + 3600).await;
        assert_eq!(stage.state(), "awake");
        stage.at(600 + 3900).await;
        assert_eq!((stage.state().as_str(), stage.commands().1), ("asleep", 1));
        let keeper = get("/b").agent("curl/8").field("X-Forwarded-For", "192.0.2.1");
        assert_eq!(stage.ask(keeper).await.status, 503, "it kept the server awake");
        assert_eq!(asks(stage, "192.0.2.2").await, 200, "it asked once");
    });
}

#[test]
fn a_download_by_somebody_who_may_not_wake_the_server_does_not_keep_it_awake() {
    awake().play(async |stage| {
        // A long answer that trickles.
        stage.origin.script(|_| {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
            let mut acts = vec![Act::Say(head.into())];
            for _ in 0..1000 {
                acts.extend([Act::Take(secs(10)), Act::Say("x".into())]);
            }
            acts
        });
        let mut crawler = stage.begin(get("/long").agent(CRAWLER)).await;
        assert_eq!(crawler.head().await.status, 200);
        // A minute awake at least, thirty seconds for guests to leave.
        stage.at(100).await;
        assert_eq!((stage.state().as_str(), stage.commands().1), ("asleep", 1));
    });
}

#[test]
fn a_short_download_by_a_crawler_is_not_cut() {
    awake().play(async |stage| {
        stage.origin.script(|_| {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
            vec![Act::Say(head.into()), Act::Take(secs(20)), Act::Say("ab".into())]
        });
        // The server would sleep at 60.
        stage.at(50).await;
        let mut crawler = stage.begin(get("/short").agent(CRAWLER)).await;
        assert_eq!(crawler.answer().await.text(), "ab");
        assert_eq!(stage.now(), Mono::from_secs(70));
        stage.pass(secs(1)).await;
        assert_eq!((stage.state().as_str(), stage.commands().1), ("falling-asleep", 1));
    });
}

#[test]
fn a_network_of_48_bits_has_a_wake_budget_too() {
    let setup = trusting(asleep()).site(|site| {
        site.wakes_per_client_and_hour = 2;
        // The budget that strangers share is not what this is about.
        site.clients.unrecognised_wakes_per_hour = 1000;
    });
    setup.play(async |stage| {
        let mut woken = 0;
        for network in 0..20_u16 {
            let client = Ipv6Addr::new(0x2001, 0xdb8, 7, network, 0, 0, 0, 1).to_string();
            stage.at(100 * u64::from(network)).await;
            assert_eq!(stage.state(), "asleep");
            woken += u32::from(asks(stage, &client).await == 200);
        }
        // Eight at once, and the ninth a quarter of half an hour after.
        assert!((8..=13).contains(&woken), "{woken}");
        stage.pass(secs(100)).await;
        assert_eq!(asks(stage, "2001:db8:8::1").await, 200, "its neighbour has one of its own");
    });
}
