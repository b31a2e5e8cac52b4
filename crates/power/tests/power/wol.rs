//! Magic packets, as they arrive.

use std::net::UdpSocket;
use std::time::Duration;

use nightwatt_power::wol::Config;
use nightwatt_power::{Controller, Observed};
use pnet_datalink::Channel;

use crate::Rig;
use crate::cable::Cable;

fn config(text: &str) -> Config {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// By the definition: six times ff, the address sixteen times, the password.
fn is_magic(packet: &[u8], mac: [u8; 6], password: &[u8]) -> bool {
    packet.len() == 102 + password.len()
        && packet[..6] == [0xff; 6]
        && (0..16).all(|place| packet[6 + 6 * place..][..6] == mac)
        && packet[102..] == *password
}

#[test]
fn every_card_gets_its_packet_twice_and_then_again_when_it_is_time() {
    let rig = Rig::in_virtual_time();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let to = socket.local_addr().unwrap();
    let text = format!(
        "mac = [\"52:54:00:12:34:56\", \"AA-BB-CC-DD-EE-FF\"]\nto = \"{to}\"\npassword = \"01:02:03:04:05:06\""
    );
    let wol = config(&text).build(&rig.context()).unwrap();
    // Waits for that many, and takes what there is besides.
    let received = |expected: usize| {
        let mut buffer = [0; 2000];
        let mut packets = Vec::new();
        loop {
            socket.set_nonblocking(packets.len() >= expected).unwrap();
            let Ok(length) = socket.recv(&mut buffer) else { return packets };
            packets.push(buffer[..length].to_vec());
        }
    };
    let first = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
    let second = [0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
    rig.run(async {
        wol.remind().await.unwrap();
        assert_eq!(received(0).len(), 0, "nobody is to be woken");
        wol.wake().await.unwrap();
        let packets = received(4);
        assert_eq!(packets.len(), 4);
        for (packet, mac) in packets.iter().zip([first, second, first, second]) {
            assert!(is_magic(packet, mac, &[1, 2, 3, 4, 5, 6]), "{packet:?}");
        }
        wol.remind().await.unwrap();
        assert_eq!(received(0).len(), 0, "too soon");
        rig.clock.sleep(Duration::from_secs(1)).await;
        wol.remind().await.unwrap();
        assert_eq!(received(2).len(), 2);
        assert_eq!(wol.state().await.unwrap(), Observed::Unknown);
    });
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let rig = Rig::new();
    for raw in [false, true] {
        let text = format!("mac = \"52:54:00:12:34:56\"\ninterface = \"nowhere7\"\nraw = {raw}");
        let wol = config(&text).build(&rig.context()).unwrap();
        let error = rig.run(wol.wake()).unwrap_err();
        assert!(error.to_string().contains("nowhere7"), "{error}");
    }
}

#[test]
fn a_frame_and_a_broadcast_reach_the_other_end_of_the_cable() {
    let Some(cable) = Cable::new("wol", "192.0.2.1/24") else {
        eprintln!("skipped: no pair of interfaces can be made here (needs root)");
        return;
    };
    let rig = Rig::new();
    let interfaces = pnet_datalink::interfaces();
    let peer = interfaces.iter().find(|it| it.name == format!("{}p", cable.name)).unwrap();
    let settings = pnet_datalink::Config {
        read_timeout: Some(Duration::from_secs(10)),
        ..pnet_datalink::Config::default()
    };
    let Ok(Channel::Ethernet(_, mut listener)) = pnet_datalink::channel(peer, settings) else {
        panic!("the peer cannot be listened to")
    };
    let mac = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
    let mut heard = |what: &str, found: &dyn Fn(&[u8]) -> bool| {
        // Others (IPv6, say) may speak on the cable too.
        for _ in 0..100 {
            if found(listener.next().unwrap_or_else(|error| panic!("{what}: {error}"))) {
                return;
            }
        }
        panic!("{what} did not come");
    };
    for (text, head, what) in [
        ("raw = true", 14, "a frame"),
        // Ethernet, IPv4 and UDP before it.
        ("raw = false", 14 + 20 + 8, "a broadcast"),
    ] {
        let text = format!("mac = \"52:54:00:12:34:56\"\ninterface = \"{}\"\n{text}", cable.name);
        let wol = config(&text).build(&rig.context()).unwrap();
        rig.run(wol.wake()).unwrap();
        heard(what, &|frame| frame.len() > head && is_magic(&frame[head..], mac, &[]));
    }
    // Without a name it goes out of all that have an address, this one among them.
    let wol = config("mac = \"52:54:00:12:34:56\"").build(&rig.context()).unwrap();
    rig.run(wol.wake()).unwrap();
    heard("a broadcast everywhere", &|frame| frame.len() > 42 && is_magic(&frame[42..], mac, &[]));
}
