//! What one client may take: requests in a time, connections at once, wake-ups.

use nightwatt_model::time::Mono;

use crate::client::{Ask, CRAWLER, Client, get, post};
use crate::stage::{Setup, asleep, awake, secs, timeout};

fn limited(setup: Setup, rate: &'static str) -> Setup {
    setup.with(|config| config.limits.requests_per_client = Some(rate.parse().unwrap()))
}

/// Behind a proxy that names its clients.
fn trusting(setup: Setup) -> Setup {
    setup.with(|config| config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()])
}

fn from(client: &str, ask: Ask) -> Ask {
    ask.field("X-Forwarded-For", client)
}

#[test]
fn who_asks_too_often_is_told_when_to_come_back_and_is_served_then() {
    let always = limited(awake(), "2/m").with(|config| config.scenario.policy = timeout(86_400));
    always.play(async |stage| {
        for _ in 0..2 {
            assert_eq!(stage.ask(post("/a", "x")).await.how(), (200, "server"));
        }
        stage.at(10).await;
        let got = stage.ask(post("/a", "x")).await;
        assert_eq!(got.how(), (429, "limited"));
        // One every 30 s: the third is due 30 s after the first.
        assert_eq!(got.seconds("retry-after"), 20);
        assert_eq!(got.field("cache-control"), Some("no-store"));
        assert_eq!(stage.origin.seen().len(), 2);
        stage.at(30).await;
        assert_eq!(stage.ask(post("/a", "x")).await.how(), (200, "server"));
    });
}

#[test]
fn too_many_requests_wake_nobody_and_delay_nobody() {
    limited(asleep(), "1/h burst 3").play(async |stage| {
        for _ in 0..3 {
            assert_eq!(stage.ask(get("/a").agent(CRAWLER)).await.how(), (503, "crawler"));
        }
        for _ in 0..10 {
            assert_eq!(stage.ask(post("/form", "x").by_browser()).await.how(), (429, "limited"));
        }
        assert_eq!((stage.now(), stage.commands()), (Mono::ZERO, (0, 0)));
        let status = stage.status();
        assert_eq!(status.answers["limited"], 10);
        assert_eq!((status.visits, status.delayed_requests), (0, 0));
        let logged = stage.extras();
        assert_eq!(logged.iter().filter(|it| it.answer == "limited").count(), 10);
    });
}

#[test]
fn every_request_of_a_connection_counts() {
    limited(awake(), "1/h burst 2").play(async |stage| {
        let mut client = Client::connect(stage).await;
        for status in [200, 200, 429, 429] {
            client.send(&get("/a")).await;
            assert_eq!(client.answer().await.status, status);
        }
    });
}

#[test]
fn behind_a_trusted_proxy_each_client_has_its_own_rate() {
    trusting(limited(awake(), "1/h")).play(async |stage| {
        let asks = async |client: &str| stage.ask(from(client, get("/a"))).await.status;
        assert_eq!(asks("192.0.2.1").await, 200);
        assert_eq!(asks("192.0.2.1").await, 429);
        assert_eq!(asks("192.0.2.2").await, 200);
        // What the client itself wrote in front is believed by nobody.
        assert_eq!(asks("198.51.100.7, 192.0.2.2").await, 429);
        for _ in 0..3 {
            let own = stage.ask(get("/a")).await;
            assert_eq!(own.status, 200, "the proxy itself is nobody's client");
        }
    });
    limited(awake(), "1/h").play(async |stage| {
        let asks = async |client: &str| stage.ask(from(client, get("/a"))).await.status;
        assert_eq!(asks("192.0.2.1").await, 200);
        assert_eq!(asks("192.0.2.2").await, 429, "a stranger's word about its address");
    });
}

#[test]
fn another_address_of_the_same_ipv6_network_is_the_same_client() {
    trusting(limited(awake(), "1/h")).play(async |stage| {
        let asks = async |client: &str| stage.ask(from(client, get("/a"))).await.status;
        assert_eq!(asks("2001:db8:0:1::1").await, 200);
        assert_eq!(asks("2001:db8:0:1:ffff:ffff:ffff:ffff").await, 429);
        assert_eq!(asks("2001:db8:0:2::1").await, 200);
    });
}

#[test]
fn another_address_of_the_same_ipv6_network_brings_no_new_wake_budget() {
    let setup = trusting(asleep()).site(|site| site.wakes_per_client_and_hour = 2);
    setup.play(async |stage| {
        let asks = async |client: &str| stage.ask(from(client, post("/form", "x"))).await.status;
        assert_eq!(asks("2001:db8:0:1::1").await, 200);
        stage.at(100).await;
        assert_eq!(asks("2001:db8:0:1::2").await, 200);
        stage.at(200).await;
        assert_eq!(stage.state(), "asleep");
        assert_eq!(asks("2001:db8:0:1:a:b:c:d").await, 503);
        assert_eq!(stage.commands(), (2, 2));
        assert_eq!(asks("2001:db8:0:2::1").await, 200, "its neighbour has a budget of its own");
    });
}

#[test]
fn a_connection_too_many_is_closed_and_room_comes_back() {
    let two = awake().with(|config| config.limits.connections_per_client = 2);
    two.play(async |stage| {
        let mut open = Vec::new();
        for _ in 0..2 {
            let mut client = Client::connect(stage).await;
            client.send(&get("/a")).await;
            assert_eq!(client.answer().await.status, 200);
            open.push(client);
        }
        assert!(stage.say(get("/a").bytes()).await.is_none(), "closed without an answer");
        open.pop();
        stage.pass(secs(1)).await;
        assert_eq!(stage.ask(get("/a")).await.status, 200);
    });
}
