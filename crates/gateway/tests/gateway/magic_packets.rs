//! Magic packets of another machine in the local network, which wake a server through the proxy.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use nightwatt_gateway::Config;
use nightwatt_gateway::ledger_file::WakeCause;
use nightwatt_needs::command;
use nightwatt_policy::lifecycle::Change;

use crate::datagrams_namespaces::{Other, ip, within_at};
use crate::passthrough_programs::{run, succeeded};
use crate::stage::{Setup, Stage, asleep};

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

/// A server that sleeps and whose magic packets are heard, in real time.
fn hearing() -> Setup {
    asleep().real().with(|config| {
        config.site[0].power = Some(toml::from_str(POWER).unwrap());
        config.magic_packets = Some(toml::from_str("").unwrap());
    })
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
    hearing().play(async |stage| {
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
        assert_eq!(cause(stage), Some(WakeCause::MagicPacket));
    });
}

/// Of the first wake-up.
fn cause(stage: &Stage) -> Option<WakeCause> {
    let journal = stage.journal();
    let waking = journal.iter().find(|it| it.change == Some(Change::Waking)).unwrap();
    waking.cause.clone()
}

/// Waits until both usual ports are open.
async fn open(stage: &Stage) {
    let mut tries = 0;
    while listening(stage).0.len() < 2 {
        tries += 1;
        assert!(tries < 1200, "{:?}", listening(stage));
        stage.clock.sleep(Duration::from_millis(50)).await;
    }
}

/// Sends a magic packet for the server, or for another one, by a program.
async fn send(mut program: Command, args: &[&str], is_ours: bool) {
    program.args(args).arg(if is_ours { "52:54:00:12:34:56" } else { "52:54:00:00:00:01" });
    succeeded(&run(program).await);
}

/// Whether `wakeonlan` knows its usual port. Prints why the test is skipped if not.
fn has_services() -> bool {
    let has = std::path::Path::new("/etc/services").exists();
    if !has {
        println!("skipped: there is no /etc/services (Debian: netbase)");
    }
    has
}

#[test]
fn wakeonlan_on_another_machine_wakes_a_server_and_on_this_one_does_not() {
    let test = "wakeonlan_on_another_machine_wakes_a_server_and_on_this_one_does_not";
    if !within_at(&format!("magic_packets::{test}"), &["wakeonlan"]) || !has_services() {
        return;
    }
    ip("link set lo up");
    let other = Other::new("client", 1);
    // Without `-i` it sends to 255.255.255.255, by the way that all packets go.
    other.ip_at(true, "route add default via 10.7.1.1");
    for how in [&["-i", "10.7.1.255"][..], &[]] {
        hearing().play(async |stage| {
            open(stage).await;
            send(command("wakeonlan"), &["-i", "10.7.1.255"], true).await;
            heard(stage, "own", 1).await;
            send(other.at("wakeonlan"), how, false).await;
            heard(stage, "unknown", 1).await;
            assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
            send(other.at("wakeonlan"), how, true).await;
            heard(stage, "woke", 1).await;
            stage.until("the server to be awake", |it| it.state == "awake").await;
            assert_eq!(stage.commands().0, 1);
            assert_eq!(["own", "unknown", "woke"].map(|it| count(stage, it)), [1; 3]);
            assert_eq!(cause(stage), Some(WakeCause::MagicPacket));
        });
    }
}

#[test]
fn a_bare_frame_of_etherwake_is_not_heard() {
    let test = "a_bare_frame_of_etherwake_is_not_heard";
    if !within_at(&format!("magic_packets::{test}"), &["etherwake", "wakeonlan"]) {
        return;
    }
    ip("link set lo up");
    let other = Other::new("client", 1);
    hearing().play(async |stage| {
        open(stage).await;
        for how in [&["-i", "eth0"][..], &["-b", "-i", "eth0"]] {
            send(other.at("etherwake"), how, true).await;
        }
        // It comes by the same cable, after the frames.
        send(other.at("wakeonlan"), &["-i", "10.7.1.255", "-p", "9"], false).await;
        heard(stage, "unknown", 1).await;
        assert_eq!(outcomes(stage).values().sum::<u64>(), 1, "{:?}", outcomes(stage));
        assert_eq!((stage.state().as_str(), stage.commands()), ("asleep", (0, 0)));
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
