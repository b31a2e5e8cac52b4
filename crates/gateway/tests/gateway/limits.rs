//! What one client may take: requests in a time, connections at once, wake-ups.

use nightwatt_energy::time::Mono;
use nightwatt_gateway::Config;

use crate::client::{Ask, CRAWLER, Client, get, post};
use crate::origin::ok;
use crate::stage::{Setup, Stage, asleep, awake, secs, settle, timeout};

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

/// The fast path looks at these, and leaves them to the slow path.
#[test]
fn a_request_counts_once_on_whichever_path_it_ends() {
    for (path, cache_control) in [("/robots.txt", "max-age=600"), ("/robots.txt", "no-store")] {
        limited(awake(), "1/h burst 3").play(async |stage| {
            stage.origin.says(ok("all").field("Cache-Control", cache_control));
            let mut client = Client::connect(stage).await;
            for status in [200, 200, 200, 429] {
                client.send(&get(path)).await;
                assert_eq!(client.answer().await.status, status, "{path}, {cache_control}");
            }
        });
    }
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
        // The gateway ignores addresses that the client itself wrote in front.
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

#[test]
fn one_client_takes_its_share_of_the_held_places_and_no_more() {
    trusting(asleep()).play(async |stage| {
        // By default, 128 of 1,024.
        let mut waiting = Vec::new();
        for number in 0..128 {
            let ask = from("192.0.2.1", get(&format!("/{number}")));
            waiting.push(stage.begin(ask).await);
        }
        let too_many = stage.ask(from("192.0.2.1", get("/more"))).await;
        assert_eq!(too_many.how(), (503, "limited"));
        assert!(too_many.seconds("retry-after") >= 1, "{too_many:?}");
        assert_eq!(stage.status().held, 128);
        waiting.push(stage.begin(from("192.0.2.2", get("/other"))).await);
        are_held_and_answered(waiting).await;
        assert_eq!(stage.origin.seen().len(), 129);
    });
}

#[test]
fn proxies_that_are_believed_have_no_share_of_the_held_places() {
    let one = |setup: Setup| setup.with(|config| config.limits.held_per_client = 1);
    trusting(one(asleep())).play(async |stage| {
        let both = vec![stage.begin(get("/1")).await, stage.begin(get("/2")).await];
        are_held_and_answered(both).await;
    });
    one(asleep()).play(async |stage| {
        let mut first = stage.begin(get("/1")).await;
        assert_eq!(stage.ask(get("/2")).await.how(), (503, "limited"));
        assert_eq!(first.answer().await.how(), (200, "held"));
        // Once it is answered, its place is free.
        stage.at(100).await;
        assert_eq!(stage.ask(get("/3")).await.how(), (200, "held"));
    });
}

/// All at once, since time stands still while a client has not read its answer.
async fn are_held_and_answered(clients: Vec<Client>) {
    let answers = clients.into_iter().map(|mut client| {
        tokio::spawn(async move { client.answer().await.how() == (200, "held") })
    });
    for answered in answers.collect::<Vec<_>>() {
        assert!(answered.await.unwrap());
    }
}

async fn spooled(stage: &Stage) -> usize {
    let page = stage.ask_admin(get("/metrics")).await;
    let line = page.text().lines().find(|line| line.starts_with("nightwatt_spool_bytes ")).unwrap();
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn bodies_that_are_held_have_a_bound_together_and_all_of_them_arrive() {
    let body = "0123456789".repeat(10_000);
    let few = |config: &mut Config| config.limits.spool_total_bytes = 256 * 1024;
    asleep().with(few).play(async |stage| {
        let mut waiting = Vec::new();
        for number in 0..8 {
            waiting.push(stage.begin(post(&format!("/{number}"), &body)).await);
        }
        assert_eq!((stage.status().held, spooled(stage).await), (8, 256 * 1024));
        are_held_and_answered(waiting).await;
        let whole = stage.origin.seen().iter().filter(|seen| seen.text() == body).count();
        assert_eq!((whole, spooled(stage).await), (8, 0));
    });
}

#[test]
fn a_body_of_single_bytes_counts_for_the_memory_that_it_takes() {
    let body = "1\r\nx\r\n".repeat(4000);
    asleep().play(async |stage| {
        let mut client = Client::connect(stage).await;
        let head = "POST /slowly HTTP/1.1\r\nHost: blog\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.say(format!("{head}{body}0\r\n\r\n")).await;
        settle(&stage.clock).await;
        assert_eq!(stage.status().held, 1);
        // 4,000 bytes in 4,000 parts of 65 bytes.
        assert_eq!(spooled(stage).await, 4 * 64 * 1024);
        assert_eq!(client.answer().await.how(), (200, "held"));
        assert_eq!(stage.origin.only().text(), "x".repeat(4000));
    });
}
