//! `allow` and `deny` of services that are passed through: whose connections wake the server.

use std::io::ErrorKind;
use std::net::SocketAddr;

use nightwatt_gateway::config::Network;
use tokio::net::TcpSocket;

use crate::client::get;
use crate::passthrough::{Caller, echo, hello, outcome, with_echo};
use crate::stage::{Stage, asleep, awake, settle, watched};

/// A client of the service at this address of the loopback network.
async fn from(stage: &Stage, client: &str) -> Caller {
    let _still = stage.clock.owe();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(client.parse().unwrap(), 0)).unwrap();
    let connecting = socket.connect(stage.tcp_addresses()[0]);
    let stream = watched("a connection", connecting).await.unwrap();
    settle(&stage.clock).await;
    Caller(stream)
}

async fn is_reset(stage: &Stage, caller: &mut Caller) {
    assert_eq!(caller.rest(stage).await, Err(ErrorKind::ConnectionReset));
    settle(&stage.clock).await;
}

async fn is_echoed(stage: &Stage, caller: &mut Caller) {
    caller.say(stage, b"a").await;
    assert_eq!(caller.hears(stage, 1).await, b"a");
}

fn network(text: &str) -> Network {
    text.parse().unwrap()
}

#[test]
fn a_client_outside_is_reset_at_once_and_wakes_nothing() {
    let lines = "allow = [\"127.0.0.0/29\"]\ndeny = [\"127.0.0.3\"]";
    let (setup, listener) = with_echo(asleep(), lines);
    setup.play(async |stage| {
        let heard = echo(listener);
        // One is not in `allow`; the other is, and `deny` has the last word.
        for client in ["127.0.0.9", "127.0.0.3"] {
            let mut caller = from(stage, client).await;
            is_reset(stage, &mut caller).await;
            let line = stage.log().pop().unwrap();
            assert!(line.contains("\"TCP echo HTTP/1.1\" 403 "), "{line}");
            assert!(line.ends_with(" rule=access-network outcome=network"), "{line}");
            let it = stage.extras().pop().unwrap();
            let said = (it.client.as_str(), it.answer.as_str(), it.delay_s);
            assert_eq!(said, (client, "denied", 0.0), "at once");
        }
        let it = &stage.services()[0];
        assert_eq!((it.outcomes["network"], it.held, it.waited, it.open), (2, 0, 0, 0));
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
        let page = stage.ask_admin(get("/metrics")).await;
        let line = "nightwatt_tcp_connections_total{service=\"echo\",outcome=\"network\"} 2";
        assert!(page.text().contains(line), "{}", page.text());

        let mut caller = from(stage, "127.0.0.2").await;
        caller.say(stage, b"a").await;
        assert_eq!(stage.state(), "waking");
        stage.at(10).await;
        assert_eq!(caller.hears(stage, 1).await, b"a");
        assert_eq!((stage.commands(), heard.lock().unwrap().len()), ((1, 0), 1));
    });
}

#[test]
fn while_the_server_is_awake_a_client_outside_does_not_reach_the_service_either() {
    let (setup, listener) = with_echo(awake(), "deny = [\"127.0.0.3\"]");
    setup.play(async |stage| {
        let heard = echo(listener);
        let mut outside = from(stage, "127.0.0.3").await;
        is_reset(stage, &mut outside).await;
        assert_eq!((outcome(stage, "network"), heard.lock().unwrap().len()), (1, 0));
        let mut inside = from(stage, "127.0.0.2").await;
        is_echoed(stage, &mut inside).await;
    });
}

#[test]
fn connections_that_are_refused_use_no_wake_budget() {
    let setup = asleep().site(|site| site.wakes_per_client_and_hour = 1);
    let (setup, listener) = with_echo(setup, "deny = [\"127.0.0.3\"]");
    setup.play(async |stage| {
        let _heard = echo(listener);
        for _ in 0..5 {
            let mut caller = from(stage, "127.0.0.3").await;
            is_reset(stage, &mut caller).await;
        }
        assert_eq!((outcome(stage, "network"), stage.commands()), (5, (0, 0)));
        stage.reload(|config| config.tcp[0].deny = vec![]).await.unwrap();
        let _caller = from(stage, "127.0.0.3").await;
        assert_eq!((stage.state().as_str(), outcome(stage, "over-budget")), ("waking", 0));
    });
}

#[test]
fn behind_a_balancer_the_client_of_the_header_counts() {
    let (setup, listener) = with_echo(asleep(), "allow = [\"192.0.2.0/24\"]");
    let setup = setup.with(|config| config.proxy_protocol = vec![network("127.0.0.0/8")]);
    setup.play(async |stage| {
        let heard = echo(listener);
        let mut outside = Caller::connect(stage).await;
        outside.say(stage, b"PROXY TCP4 198.51.100.7 127.0.0.1 4711 443\r\n").await;
        is_reset(stage, &mut outside).await;
        assert_eq!(stage.extras().pop().unwrap().client, "198.51.100.7");
        assert_eq!((outcome(stage, "network"), stage.commands()), (1, (0, 0)));

        let mut inside = Caller::connect(stage).await;
        inside.say(stage, b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 443\r\na").await;
        assert_eq!(stage.state(), "waking");
        stage.at(10).await;
        assert_eq!(inside.hears(stage, 1).await, b"a");
        assert_eq!(heard.lock().unwrap().len(), 1);
    });
}

#[test]
fn the_service_that_a_name_selects_decides_and_refuses_by_an_alert() {
    let lines = "sni = [\"*.example.org\"]\nallow = [\"10.0.0.0/8\"]";
    let (setup, listener) = with_echo(asleep(), lines);
    setup.play(async |stage| {
        let _heard = echo(listener);
        let mut outside = Caller::connect(stage).await;
        outside.say(stage, &hello()).await;
        // `access_denied` (RFC 8446, 6.2), and the end.
        assert_eq!(outside.rest(stage).await, Ok(vec![21, 3, 3, 0, 2, 2, 49]));
        settle(&stage.clock).await;
        assert_eq!((outcome(stage, "network"), stage.commands()), (1, (0, 0)));
        let line = stage.log().pop().unwrap();
        assert!(line.contains("\"TCP echo/git.example.org HTTP/1.1\" 403 "), "{line}");

        let allowed = Some(vec![network("127.0.0.0/8")]);
        stage.reload(|config| config.tcp[0].allow = allowed).await.unwrap();
        let mut inside = Caller::connect(stage).await;
        inside.say(stage, &hello()).await;
        assert_eq!(stage.state(), "waking");
    });
}

#[test]
fn a_client_that_a_reload_shuts_out_before_its_name_is_known_wakes_nothing() {
    let (setup, listener) = with_echo(asleep(), "sni = [\"*.example.org\"]");
    setup.play(async |stage| {
        let _heard = echo(listener);
        let hello = hello();
        let (first, rest) = hello.split_at(20);
        let mut outside = Caller::connect(stage).await;
        outside.say(stage, first).await;
        stage.reload(|config| config.tcp[0].deny = vec![network("127.0.0.0/8")]).await.unwrap();
        outside.say(stage, rest).await;
        assert_eq!(outside.rest(stage).await, Ok(vec![21, 3, 3, 0, 2, 2, 49]));
        settle(&stage.clock).await;
        assert_eq!((outcome(stage, "network"), stage.commands()), (1, (0, 0)));
        assert_eq!(stage.state(), "asleep");
    });
}

#[test]
fn a_reload_ends_connections_of_clients_that_it_shuts_out_and_no_others() {
    // Once they are put through, once they are held.
    for setup in [awake(), asleep()] {
        let (setup, listener) = with_echo(setup, "");
        setup.play(async |stage| {
            let _heard = echo(listener);
            let mut stays = from(stage, "127.0.0.2").await;
            let mut goes = from(stage, "127.0.0.3").await;
            let is_held = stage.state() == "waking";
            if !is_held {
                is_echoed(stage, &mut stays).await;
                is_echoed(stage, &mut goes).await;
            }
            let now = |stage: &Stage| {
                let it = &stage.services()[0];
                (it.open, it.held)
            };
            assert_eq!(now(stage), if is_held { (0, 2) } else { (2, 0) });
            stage.reload(|config| config.tcp[0].deny = vec![network("127.0.0.3")]).await.unwrap();
            is_reset(stage, &mut goes).await;
            assert_eq!(now(stage), if is_held { (0, 1) } else { (1, 0) });
            assert_eq!(outcome(stage, "network"), 1);
            if is_held {
                stage.at(10).await;
            }
            is_echoed(stage, &mut stays).await;
        });
    }
}
