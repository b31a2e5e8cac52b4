//! Magic packets of another machine in the local network, which wake a server through the proxy.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use nightwatt_gateway::Config;
use nightwatt_gateway::ledger_file::WakeCause;
use nightwatt_policy::lifecycle::Change;

use crate::datagrams_namespaces::{Other, ip, within_at};
use crate::stage::{Stage, asleep};

const MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

/// Power by Wake-on-LAN. (The stage wakes the server itself.)
const POWER: &str =
    "wake.wol.mac = \"52:54:00:12:34:56\"\nsleep.ssh = { host = \"box\", sleep = \"true\" }";

fn packet(mac: [u8; 6]) -> Vec<u8> {
    [&[0xff; 6][..], &mac.repeat(16)].concat()
}

fn outcomes(stage: &Stage) -> BTreeMap<String, u64> {
    stage.running().gateway.status().magic_packets.unwrap().outcomes
}

fn count(stage: &Stage, outcome: &str) -> u64 {
    outcomes(stage).get(outcome).copied().unwrap_or(0)
}

/// Waits until there are so many, no longer than a minute.
async fn heard(stage: &Stage, outcome: &str, least: u64) {
    for _ in 0..1200 {
        if count(stage, outcome) >= least {
            return;
        }
        stage.clock.sleep(Duration::from_millis(50)).await;
    }
    panic!("{least} times {outcome}: {:?}", stage.running().gateway.status().magic_packets);
}

/// To all machines of the network, as `wakeonlan -i 10.7.1.255` sends it.
fn broadcast(socket: &UdpSocket, packet: &[u8]) {
    socket.set_broadcast(true).unwrap();
    socket.send_to(packet, "10.7.1.255:9").unwrap();
}

#[test]
fn a_thousand_magic_packets_of_another_machine_wake_a_server_once_and_own_ones_do_not() {
    let test = "a_thousand_magic_packets_of_another_machine_wake_a_server_once_and_own_ones_do_not";
    if !within_at(&format!("magic_packets::{test}"), &[]) {
        return;
    }
    ip("link set lo up");
    // As keepalived sets it: every address can be bound to.
    std::fs::write("/proc/sys/net/ipv4/ip_nonlocal_bind", "1").unwrap();
    let other = Other::new("client", 1);
    let setup = asleep().real().with(|config| {
        config.site[0].power = Some(toml::from_str(POWER).unwrap());
        config.magic_packets = Some(toml::from_str("").unwrap());
    });
    setup.play(async |stage| {
        let (ours, theirs) = (UdpSocket::bind("10.7.1.1:0").unwrap(), other.socket("10.7.1.2"));
        // Its socket is bound when a first one is heard.
        for _ in 0..1200 {
            broadcast(&ours, &packet(MAC));
            if count(stage, "own") > 0 {
                break;
            }
            stage.clock.sleep(Duration::from_millis(50)).await;
        }
        heard(stage, "own", 1).await;
        broadcast(&theirs, &packet([0x52, 0x54, 0, 0, 0, 1]));
        broadcast(&theirs, b"no magic");
        heard(stage, "unknown", 1).await;
        heard(stage, "malformed", 1).await;
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
        for number in 0..1000 {
            broadcast(&theirs, &packet(MAC));
            if number % 10 == 9 {
                let before = (number + 1) / 4;
                heard(stage, "awake", before).await;
            }
        }
        // The kernel may drop some.
        heard(stage, "awake", 500).await;
        assert_eq!((count(stage, "woke"), stage.commands().0), (1, 1), "{:?}", outcomes(stage));
        let journal = stage.journal();
        let waking = journal.iter().find(|it| it.change == Some(Change::Waking)).unwrap();
        assert_eq!(waking.cause, Some(WakeCause::MagicPacket));
    });
}

/// Sends datagrams to a port of this machine until one more is counted: none of them is from a network that is heard.
async fn is_heard(stage: &Stage, at: SocketAddr) {
    let (socket, before) = (UdpSocket::bind("127.0.0.1:0").unwrap(), count(stage, "network"));
    for _ in 0..1200 {
        socket.send_to(&packet(MAC), at).unwrap();
        stage.clock.sleep(Duration::from_millis(50)).await;
        if count(stage, "network") > before {
            return;
        }
    }
    panic!("nothing is heard at {at}: {:?}", stage.running().gateway.status().magic_packets);
}

fn listening(stage: &Stage) -> (Vec<String>, Option<String>) {
    let it = stage.running().gateway.status().magic_packets.unwrap();
    (it.listen, it.problem)
}

#[test]
fn after_each_of_five_reloads_magic_packets_are_heard_at_the_same_address() {
    let port = nightwatt_needs::free_udp_address();
    let setup = asleep().real().with(move |config| {
        config.site[0].power = Some(toml::from_str(POWER).unwrap());
        config.magic_packets = Some(toml::from_str(&format!("listen = [\"{port}\"]")).unwrap());
    });
    setup.play(async |stage| {
        is_heard(stage, port).await;
        for number in 0..5 {
            stage.reload(|_| ()).await.unwrap();
            is_heard(stage, port).await;
            assert_eq!(listening(stage), (vec![port.to_string()], None), "reload {number}");
        }
        let other = "127.0.0.1:0".parse().unwrap();
        let change =
            |config: &mut Config| config.magic_packets.as_mut().unwrap().listen = vec![other];
        stage.reload(change).await.unwrap();
        let mut tries = 0;
        while listening(stage).0 == [port.to_string()] {
            tries += 1;
            assert!(tries < 1200, "{:?}", listening(stage));
            stage.clock.sleep(Duration::from_millis(50)).await;
        }
        assert!(UdpSocket::bind(port).is_ok(), "it is closed");
        is_heard(stage, listening(stage).0[0].parse().unwrap()).await;
    });
}

#[test]
fn every_address_that_another_program_has_is_named_and_opened_once_it_is_free() {
    let own = nightwatt_needs::own_address();
    let taken = [(); 2].map(|()| UdpSocket::bind((own, 0)).unwrap());
    let [first, second] = [0, 1].map(|it: usize| taken[it].local_addr().unwrap());
    let setup = asleep().real().with(move |config| {
        config.site[0].power = Some(toml::from_str(POWER).unwrap());
        let listen = format!("listen = [\"{first}\", \"{second}\"]");
        config.magic_packets = Some(toml::from_str(&listen).unwrap());
    });
    setup.play(async |stage| {
        let mut tries = 0;
        while listening(stage).1.is_none() {
            tries += 1;
            assert!(tries < 1200, "{:?}", listening(stage));
            stage.clock.sleep(Duration::from_millis(50)).await;
        }
        let (open, problem) = listening(stage);
        let problem = problem.unwrap();
        assert!([first, second].iter().all(|it| problem.contains(&it.to_string())), "{problem}");
        assert_eq!(open, [""; 0], "status lists what is open");
        drop(taken);
        is_heard(stage, second).await;
        assert_eq!(listening(stage), (vec![first.to_string(), second.to_string()], None));
    });
}
