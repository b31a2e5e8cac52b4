//! What a flood of datagrams costs: look-ups, sockets, and what the figures count.

use nightwatt_policy::sleep::PolicyChoice;
use tokio::net::UdpSocket;

use crate::datagrams::{Peer, dropped, echo, outcome, status, with_echo};
use crate::passthrough_programs::services;
use crate::stage::{asleep, awake, settle};

/// Datagrams of the flood.
const FLOOD: usize = 100_000;

#[test]
fn a_hundred_thousand_sources_cause_one_look_up_in_thirty_seconds() {
    let socket = std::net::UdpSocket::bind("localhost:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let port = socket.local_addr().unwrap().port();
    let table = format!(
        "[[udp]]\nname = \"echo\"\non = \"blog\"\norigin = \"localhost:{port}\"\nlisten = [\"127.0.0.1:0\"]\n\
         sessions_per_client = 1024\nkeep_awake = \"datagrams\"\n"
    );
    // What sleeps meanwhile must be woken, for which time has to pass.
    let setup = awake().with(|config| config.scenario.policy = PolicyChoice::AlwaysOn);
    services(setup, table).play(async |stage| {
        let heard = echo(socket);
        let port = stage.running().udp_addresses[0].port();
        let mut sources = std::collections::HashSet::new();
        for number in 0..FLOOD {
            let [_, b, c, d] = u32::try_from(number / 16 + 1).unwrap().to_be_bytes();
            let source = UdpSocket::bind((std::net::Ipv4Addr::new(127, b, c, d), 0)).await.unwrap();
            sources.insert(source.local_addr().unwrap());
            source.send_to(b"-flood", ("127.0.0.1", port)).await.unwrap();
            if number % 100 == 99 {
                settle(&stage.clock).await;
            }
        }
        assert!(sources.len() > FLOOD / 2, "{} sources", sources.len());
        let it = status(stage);
        let all: u64 = it.outcomes.values().chain(it.dropped.values()).sum();
        assert!(all + it.sessions > FLOOD as u64 / 2, "{it:?}");
        let begun: u64 = it.outcomes.values().sum();
        assert!(begun > FLOOD as u64 / 4, "sessions that each need the address: {it:?}");
        assert!(it.sessions <= 1024 && !heard.lock().unwrap().is_empty(), "{it:?}");
        let seconds = stage.clock.now().mono.0.as_secs();
        assert!(it.look_ups <= 1 + seconds / 30, "{} in {seconds} s", it.look_ups);
        assert_eq!(it.look_ups_failed, 0);
        stage.at(seconds + 31).await;
        // A look-up that was still in progress after the flood has ended by now.
        let before = status(stage).look_ups;
        let peer = Peer::new(stage).await;
        assert_eq!(peer.asks(stage, b"hello").await, b"hello");
        assert_eq!(status(stage).look_ups, before + 1, "the last answer is too old");
    });
}

#[test]
fn a_datagram_that_is_sent_again_counts_once_as_received() {
    let (setup, socket) = with_echo(asleep(), "");
    let at = socket.local_addr().unwrap();
    drop(socket);
    setup.play(async |stage| {
        let peer = Peer::new(stage).await;
        peer.say(stage, b"early").await;
        peer.say(stage, b"next").await;
        // Awake at 5 s; the service begins to listen two seconds later.
        stage.at(7).await;
        let before = status(stage);
        assert!(before.resent >= 2, "{before:?}");
        let socket = std::net::UdpSocket::bind(at).unwrap();
        socket.set_nonblocking(true).unwrap();
        let heard = echo(socket);
        stage.at(9).await;
        assert_eq!(peer.hears(stage).await, b"early");
        assert_eq!(peer.hears(stage).await, b"next");
        assert_eq!(heard.lock().unwrap().len(), 2);
        let it = status(stage);
        assert_eq!((it.received, it.received_bytes, dropped(stage, "unsent")), (2, 9, 0));
        assert!(it.resent > before.resent, "{it:?}");
        assert_eq!((it.sent, outcome(stage, "idle")), (2, 0));
    });
}
