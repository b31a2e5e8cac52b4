//! Datagrams that are passed through: what wakes the server, what keeps it awake, what is dropped.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use nightwatt_clock::Clock;
use nightwatt_gateway::status::UdpStatus;
use tokio::net::UdpSocket;

use crate::passthrough_programs::services;
use crate::stage::{Setup, Stage, asleep, awake, secs, settle, watched};

/// What a service got: each datagram with its source.
pub(crate) type Heard = Arc<Mutex<Vec<(SocketAddr, Vec<u8>)>>>;

/// A socket for a service. No other program gets its port, also after it was closed.
fn port() -> (std::net::UdpSocket, SocketAddr) {
    let socket = std::net::UdpSocket::bind((nightwatt_needs::own_address(), 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// A service that sends back each datagram that does not begin with `-`.
pub(crate) fn echo(socket: std::net::UdpSocket) -> Heard {
    let socket = UdpSocket::from_std(socket).unwrap();
    let heard = Heard::default();
    let all = Arc::clone(&heard);
    tokio::spawn(async move {
        let mut part = vec![0; 65_535];
        while let Ok((length, from)) = socket.recv_from(&mut part).await {
            all.lock().unwrap().push((from, part[..length].to_vec()));
            if part[0] != b'-' {
                let _ = socket.send_to(&part[..length], from).await;
            }
        }
    });
    heard
}

/// A service called `echo` with these lines besides, and its socket.
pub(crate) fn with_echo(setup: Setup, lines: &str) -> (Setup, std::net::UdpSocket) {
    let (socket, origin) = port();
    let lines = if lines.contains("listen") {
        lines.to_owned()
    } else {
        format!("listen = [\"127.0.0.1:0\"]\n{lines}")
    };
    let table =
        format!("[[udp]]\nname = \"echo\"\non = \"blog\"\norigin = \"{origin}\"\n{lines}\n");
    (services(setup, table), socket)
}

/// A client of a service.
pub(crate) struct Peer(pub(crate) UdpSocket);

impl Peer {
    pub(crate) async fn new(stage: &Stage) -> Self {
        Self::at(stage, "127.0.0.1").await
    }

    /// A client with this address.
    async fn at(stage: &Stage, address: &str) -> Self {
        let socket = UdpSocket::bind((address, 0)).await.unwrap();
        let port = stage.running().udp_addresses[0].port();
        socket.connect(("127.0.0.1", port)).await.unwrap();
        Self(socket)
    }

    pub(crate) async fn say(&self, stage: &Stage, bytes: &[u8]) {
        let _still = stage.clock.owe();
        watched("a datagram to be sent", self.0.send(bytes)).await.unwrap();
        settle(&stage.clock).await;
    }

    /// The answer. It asks again after a second: a kernel under load drops datagrams, also on loopback.
    pub(crate) async fn asks(&self, stage: &Stage, bytes: &[u8]) -> Vec<u8> {
        let _still = stage.clock.owe();
        for _ in 0..120 {
            self.say(stage, bytes).await;
            if let Ok(answer) = Clock::real().timeout(secs(1), self.hears(stage)).await {
                return answer;
            }
        }
        panic!("standstill: no answer, {:?}", status(stage));
    }

    pub(crate) async fn hears(&self, stage: &Stage) -> Vec<u8> {
        let _still = stage.clock.owe();
        let mut bytes = vec![0; 65_535];
        let length = watched("a datagram of the service", self.0.recv(&mut bytes)).await.unwrap();
        settle(&stage.clock).await;
        bytes.truncate(length);
        bytes
    }
}

/// The only service.
pub(crate) fn status(stage: &Stage) -> UdpStatus {
    stage.running().gateway.status().udp.remove(0)
}

pub(crate) fn dropped(stage: &Stage, why: &str) -> u64 {
    status(stage).dropped.get(why).copied().unwrap_or(0)
}

pub(crate) fn outcome(stage: &Stage, outcome: &str) -> u64 {
    status(stage).outcomes.get(outcome).copied().unwrap_or(0)
}

#[test]
fn the_first_datagram_wakes_the_server_and_all_arrive_whole_and_in_order() {
    let (setup, socket) = with_echo(asleep(), "");
    setup.play(async |stage| {
        let heard = echo(socket);
        let peer = Peer::new(stage).await;
        let all: [Vec<u8>; 4] = [vec![1], vec![2; 1400], Vec::new(), vec![4; 60_000]];
        for datagram in &all {
            peer.say(stage, datagram).await;
        }
        let it = status(stage);
        assert_eq!((it.sessions, it.held, stage.state().as_str()), (1, 1, "waking"));
        // The server takes 5 s to wake. The service leaves the empty one unanswered, as its first byte is what it looks at.
        stage.at(5).await;
        for datagram in &all {
            assert_eq!(&peer.hears(stage).await, datagram);
        }
        let heard: Vec<Vec<u8>> = heard.lock().unwrap().iter().map(|it| it.1.clone()).collect();
        assert_eq!(heard, all);
        assert_eq!(stage.commands(), (1, 0));
        let it = status(stage);
        assert_eq!(
            (it.received, it.sent, it.received_bytes, it.sent_bytes),
            (4, 4, 61_401, 61_401)
        );
        assert_eq!((it.active, it.waited), (1, 1));
        // Ten minutes after the last datagram, of which five keep it awake.
        stage.at(5 + 600).await;
        assert_eq!((outcome(stage, "idle"), status(stage).sessions), (1, 0));
        let line = stage.log().pop().unwrap();
        assert!(line.contains("\"UDP echo HTTP/1.1\" 200 61401 "), "{line}");
        let extras = stage.extras().pop().unwrap();
        assert_eq!((extras.answer.as_str(), extras.delay_s), ("held", 5.0));
    });
}

#[test]
fn a_quiet_session_lets_the_server_sleep_and_goes_on_from_the_same_port() {
    let (setup, socket) = with_echo(awake(), "quiet = \"1m\"");
    setup.play(async |stage| {
        let heard = echo(socket);
        let peer = Peer::new(stage).await;
        peer.say(stage, b"one").await;
        assert_eq!(peer.hears(stage).await, b"one");
        stage.at(59).await;
        assert_eq!((stage.state().as_str(), status(stage).active), ("awake", 1));
        // Quiet after 60 s; the policy waits 5 s more, and falling asleep takes 5 s.
        stage.at(72).await;
        assert_eq!((stage.state().as_str(), status(stage).active), ("asleep", 0));
        assert_eq!(status(stage).sessions, 1);
        peer.say(stage, b"two").await;
        assert_eq!(stage.state(), "waking");
        stage.at(80).await;
        assert_eq!(peer.hears(stage).await, b"two");
        let heard = heard.lock().unwrap();
        assert_eq!(heard[0].0, heard[1].0, "for the service it is the same client");
        assert_eq!(status(stage).active, 1);
    });
}

#[test]
fn a_stream_that_the_service_does_not_answer_keeps_no_server_awake() {
    let (setup, socket) = with_echo(awake(), "strangers = \"2/h\"");
    setup.play(async |stage| {
        let heard = echo(socket);
        let peer = Peer::new(stage).await;
        for second in 1..600 {
            peer.say(stage, b"-").await;
            stage.at(second).await;
        }
        // Awake at first; then woken by two of the datagrams, each time for the minute that a server stays awake at least.
        assert_eq!((stage.commands().0, stage.state().as_str()), (2, "asleep"));
        let heard = heard.lock().unwrap().len() as u64;
        assert!(heard < 220 && dropped(stage, "strangers") > 350, "{heard} forwarded");
        assert_eq!(status(stage).sessions, 1);
    });
}

/// A datagram that the service does not answer, from each of a hundred addresses.
async fn flood(stage: &Stage) {
    for number in 0..100 {
        let stranger = Peer::at(stage, &format!("127.1.0.{number}")).await;
        stranger.say(stage, b"-flood").await;
    }
    let it = status(stage);
    assert!(it.sessions <= 8 && it.held <= 8, "{it:?}");
}

/// All addresses of the loopback interface are one client, a stranger until the service has answered one of them.
#[test]
fn a_flood_from_invented_addresses_wakes_seldom_and_leaves_room_for_known_clients() {
    let (setup, socket) = with_echo(awake(), "strangers = \"1/h\"\nsessions = 8\nheld = 8");
    setup.play(async |stage| {
        let _heard = echo(socket);
        for (begins, refused) in [(400, 0), (900, 100)] {
            stage.at(begins).await;
            assert_eq!(stage.state(), "asleep");
            flood(stage).await;
            assert_eq!((stage.commands().0, dropped(stage, "strangers")), (1, refused));
        }
        assert_eq!(stage.state(), "asleep");
        let known = Peer::at(stage, "127.0.0.9").await;
        stage.at(4_100).await;
        known.say(stage, b"hello").await;
        stage.at(4_106).await;
        assert_eq!(known.hears(stage).await, b"hello");
        flood(stage).await;
        assert!(outcome(stage, "displaced") > 80, "{:?}", status(stage));
        known.say(stage, b"in the flood").await;
        assert_eq!(known.hears(stage).await, b"in the flood");
        stage.at(4_700).await;
        assert_eq!(stage.state(), "asleep");
        known.say(stage, b"still known").await;
        assert_eq!(stage.state(), "waking", "less than an hour after the last stranger");
    });
}

#[test]
fn only_networks_that_are_allowed_come_through() {
    let (setup, socket) = with_echo(asleep(), "allow = [\"127.0.0.0/24\"]\ndeny = [\"127.0.0.3\"]");
    setup.play(async |stage| {
        let _heard = echo(socket);
        for stranger in ["127.0.1.1", "127.0.0.3"] {
            Peer::at(stage, stranger).await.say(stage, b"x").await;
        }
        assert_eq!((dropped(stage, "network"), status(stage).sessions), (2, 0));
        assert_eq!(stage.state(), "asleep");
        Peer::at(stage, "127.0.0.2").await.say(stage, b"x").await;
        assert_eq!(stage.state(), "waking");
    });
}

#[test]
fn with_wireguard_only_the_first_message_of_a_handshake_wakes() {
    let (setup, socket) = with_echo(asleep(), "wake_on = \"wireguard\"");
    setup.play(async |stage| {
        let heard = echo(socket);
        let peer = Peer::new(stage).await;
        let initiation = [[1, 0, 0, 0].as_slice(), &[7; 144]].concat();
        let keepalive = [[4, 0, 0, 0].as_slice(), &[7; 28]].concat();
        for other in [&keepalive[..], &initiation[1..], b"", b"hello"] {
            peer.say(stage, other).await;
        }
        assert_eq!((dropped(stage, "no-wake"), stage.state().as_str()), (4, "asleep"));
        peer.say(stage, &initiation).await;
        assert_eq!(stage.state(), "waking");
        stage.at(5).await;
        assert_eq!(peer.hears(stage).await, initiation);
        peer.say(stage, &keepalive).await;
        assert_eq!(peer.hears(stage).await, keepalive, "while it is awake all come through");
        assert_eq!(heard.lock().unwrap().len(), 2);
    });
}

#[test]
fn a_client_is_answered_from_the_address_that_it_asked() {
    let (setup, socket) = with_echo(awake(), "listen = [\"0.0.0.0:0\"]");
    setup.play(async |stage| {
        let _heard = echo(socket);
        let port = stage.running().udp_addresses[0].port();
        let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let peer = Peer(peer);
        for asked in ["127.0.0.7", "127.0.0.8"] {
            // A connected socket takes no datagrams from other addresses.
            peer.0.connect((asked, port)).await.unwrap();
            peer.say(stage, asked.as_bytes()).await;
            assert_eq!(peer.hears(stage).await, asked.as_bytes());
        }
        assert_eq!(status(stage).sessions, 1);
    });
}

#[test]
fn memory_for_what_waits_is_bounded() {
    let (setup, socket) = with_echo(asleep(), "held = 20\nheld_bytes = 1000");
    setup.play(async |stage| {
        let heard = echo(socket);
        let peer = Peer::new(stage).await;
        for _ in 0..6 {
            peer.say(stage, &[7; 300]).await;
        }
        assert_eq!(dropped(stage, "held"), 3, "1000 bytes have room for three");
        for _ in 0..6 {
            peer.say(stage, b"short").await;
        }
        assert_eq!(dropped(stage, "held"), 7, "one session has a quarter of the places");
        stage.at(5).await;
        assert_eq!(heard.lock().unwrap().len(), 5);
        peer.say(stage, &[7; 300]).await;
        assert_eq!(heard.lock().unwrap().len(), 6, "there is room again");
    });
}

#[test]
fn a_service_that_starts_late_gets_the_first_datagrams_all_the_same() {
    let (setup, socket) = with_echo(asleep(), "");
    let at = socket.local_addr().unwrap();
    drop(socket);
    setup.play(async |stage| {
        let peer = Peer::new(stage).await;
        peer.say(stage, b"early").await;
        stage.at(7).await;
        let socket = std::net::UdpSocket::bind(at).unwrap();
        socket.set_nonblocking(true).unwrap();
        let heard = echo(socket);
        stage.at(9).await;
        assert_eq!(peer.hears(stage).await, b"early");
        assert_eq!(heard.lock().unwrap().len(), 1);
    });
}

#[test]
fn a_server_that_does_not_wake_and_one_that_is_stopped_end_their_sessions() {
    let (setup, socket) = with_echo(asleep().power(|power| power.never_wakes = true), "");
    setup.play(async |stage| {
        let _heard = echo(socket);
        Peer::new(stage).await.say(stage, b"x").await;
        stage.at(300).await;
        assert_eq!(status(stage).sessions, 0);
        let ended = outcome(stage, "wake-failed") + outcome(stage, "held-too-long");
        assert_eq!(ended, 1, "{:?}", status(stage));
        assert!(stage.log().pop().unwrap().contains("\"UDP echo HTTP/1.1\" 50"));
    });
}

#[test]
fn a_reload_keeps_sessions_and_closes_what_is_removed() {
    let (setup, socket) = with_echo(awake(), "");
    setup.play(async |stage| {
        let _heard = echo(socket);
        let peer = Peer::new(stage).await;
        peer.say(stage, b"one").await;
        assert_eq!(peer.hears(stage).await, b"one");
        let address = stage.running().udp_addresses[0];
        stage
            .reload(|config| config.udp[0].deny = vec!["127.0.0.3".parse().unwrap()])
            .await
            .unwrap();
        assert_eq!((stage.running().udp_addresses[0], status(stage).sessions), (address, 1));
        peer.say(stage, b"two").await;
        assert_eq!(peer.hears(stage).await, b"two");
        Peer::at(stage, "127.0.0.3").await.say(stage, b"x").await;
        assert_eq!(dropped(stage, "network"), 1, "by the new configuration");
        stage.reload(|config| config.udp.clear()).await.unwrap();
        assert!(stage.running().udp_addresses.is_empty());
        let free = std::net::UdpSocket::bind(address);
        assert!(free.is_ok(), "{address} is closed: {free:?}");
        stage.stop().await;
    });
}

#[test]
fn what_an_awake_server_leaves_unanswered_takes_no_room_from_known_clients() {
    let (setup, socket) = with_echo(awake(), "sessions = 8\nheld = 8");
    setup.play(async |stage| {
        let _heard = echo(socket);
        let known = Peer::at(stage, "127.0.0.9").await;
        // Within the time after a wake-up in which the first datagrams may be sent again, and later.
        for begins in [1, 100] {
            stage.at(begins).await;
            for number in 0..20 {
                known.say(stage, b"in the flood").await;
                assert_eq!(known.hears(stage).await, b"in the flood");
                let stranger = Peer::at(stage, &format!("127.1.0.{number}")).await;
                stranger.say(stage, b"-one").await;
                stranger.say(stage, b"-two").await;
            }
        }
        assert_eq!((dropped(stage, "held"), status(stage).sessions), (0, 8));
    });
}

#[test]
fn strangers_that_wait_leave_half_of_the_room() {
    let (setup, socket) = with_echo(asleep(), "held = 8");
    setup.play(async |stage| {
        let heard = echo(socket);
        let (wakes, waits) = (Peer::new(stage).await, Peer::new(stage).await);
        wakes.say(stage, b"-").await;
        for _ in 0..4 {
            waits.say(stage, b"-").await;
        }
        assert_eq!(dropped(stage, "held"), 1, "four of eight are taken");
        for _ in 0..3 {
            wakes.say(stage, b"-").await;
        }
        assert_eq!(dropped(stage, "held"), 1, "the session that woke it has more room");
        stage.at(5).await;
        assert_eq!(heard.lock().unwrap().len(), 7);
        for _ in 0..4 {
            waits.say(stage, b"-").await;
        }
        assert_eq!(heard.lock().unwrap().len(), 11, "it waits no longer");
    });
}

#[test]
fn a_datagram_without_room_does_not_use_the_rate_of_strangers() {
    let (setup, socket) = with_echo(asleep(), "strangers = \"1/h\"\nheld_bytes = 1000");
    setup.play(async |stage| {
        let _heard = echo(socket);
        let peer = Peer::new(stage).await;
        peer.say(stage, &[7; 1001]).await;
        assert_eq!((dropped(stage, "held"), stage.state().as_str()), (1, "asleep"));
        peer.say(stage, b"short").await;
        assert_eq!((dropped(stage, "strangers"), stage.state().as_str()), (0, "waking"));
    });
}

#[test]
fn a_reload_ends_sessions_of_another_service_and_of_clients_that_may_not_use_it() {
    let (setup, socket) = with_echo(awake(), "");
    setup.play(async |stage| {
        let _heard = echo(socket);
        let peer = Peer::new(stage).await;
        peer.say(stage, b"one").await;
        assert_eq!(peer.hears(stage).await, b"one");
        let (socket, at) = port();
        let heard = echo(socket);
        stage.reload(|config| config.udp[0].origin.port = at.port()).await.unwrap();
        settle(&stage.clock).await;
        assert_eq!(status(stage).sessions, 0);
        peer.say(stage, b"two").await;
        assert_eq!(peer.hears(stage).await, b"two");
        assert_eq!(heard.lock().unwrap().len(), 1);
        let denied = vec!["127.0.0.1".parse().unwrap()];
        stage.reload(|config| config.udp[0].deny = denied).await.unwrap();
        settle(&stage.clock).await;
        assert_eq!(status(stage).sessions, 0);
        peer.say(stage, b"three").await;
        assert_eq!((dropped(stage, "network"), heard.lock().unwrap().len()), (1, 1));
    });
}

/// Two sockets with the same port at these addresses.
fn with_one_port(hosts: [&str; 2]) -> [std::net::UdpSocket; 2] {
    let bound = (0..100).find_map(|_| {
        let first = std::net::UdpSocket::bind((hosts[0], 0)).unwrap();
        // Another test may have that one.
        let second = std::net::UdpSocket::bind((hosts[1], first.local_addr().unwrap().port()));
        Some([first, second.ok()?])
    });
    let sockets = bound.expect("a port that is free at both");
    for socket in &sockets {
        socket.set_nonblocking(true).unwrap();
    }
    sockets
}

#[test]
fn a_reload_ends_sessions_to_the_host_of_a_site_that_has_moved_and_those_of_other_rules() {
    // The stage's site is at 127.0.0.2.
    let [first, second] = with_one_port(["127.0.0.2", "127.0.0.1"]);
    let port = first.local_addr().unwrap().port();
    let table = format!(
        "[[udp]]\nname = \"echo\"\non = \"blog\"\norigin = \":{port}\"\nlisten = [\"127.0.0.1:0\"]\n"
    );
    services(awake(), table).play(async |stage| {
        let (_first, heard) = (echo(first), echo(second));
        let peer = Peer::new(stage).await;
        peer.say(stage, b"one").await;
        assert_eq!(peer.hears(stage).await, b"one");
        let moves = |config: &mut nightwatt_gateway::Config| {
            let origin = &mut config.site[0].origin.authority;
            *origin = origin.replace("127.0.0.2", "127.0.0.1");
        };
        stage.reload(moves).await.unwrap();
        settle(&stage.clock).await;
        assert_eq!(status(stage).sessions, 0);
        peer.say(stage, b"two").await;
        assert_eq!(peer.hears(stage).await, b"two");
        assert_eq!(heard.lock().unwrap().len(), 1, "the new host has it");
        assert_eq!(status(stage).sessions, 1);
        stage.reload(|config| config.udp[0].quiet = secs(7)).await.unwrap();
        settle(&stage.clock).await;
        assert_eq!(status(stage).sessions, 0, "it would be quiet after five minutes");
    });
}
