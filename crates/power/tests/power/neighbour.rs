//! A server at the other end of a cable, as a neighbour.

use std::process::Command;
use std::time::Duration;

use nightwatt_power::neighbour::Neighbour;
use pnet_datalink::Channel;

use crate::Rig;
use crate::cable::{Cable, ip};

const LIMIT: Duration = Duration::from_secs(10);
const SERVER: &str = "198.51.100.2";
const CARD: [u8; 6] = [0x52, 0x54, 0, 0xab, 0xcd, 0xef];

fn entry() -> String {
    let shown = Command::new("ip").args(["neigh", "show", "to", SERVER]).output().unwrap();
    String::from_utf8(shown.stdout).unwrap()
}

/// A frame as its card would send it: Ethernet head, then this.
fn frame(from: [u8; 6], ethertype: u16, at: &[(usize, u8)]) -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &from, &ethertype.to_be_bytes(), &[0; 60]].concat();
    for &(place, byte) in at {
        frame[place] = byte;
    }
    frame
}

#[test]
fn a_sleeping_neighbour_is_not_asked_for_and_its_waking_is_heard() {
    let Some(cable) = Cable::new("nb", "198.51.100.1/24") else {
        eprintln!("skipped: no pair of interfaces can be made here (needs root)");
        return;
    };
    let card = CARD.map(|byte| format!("{byte:02x}")).join(":");
    assert!(ip(&["neigh", "add", SERVER, "lladdr", &card, "dev", &cable.name, "nud", "stale"]));
    let rig = Rig::new();
    let server = Neighbour::new(SERVER, rig.clock.clone());
    rig.run(server.leave_in_peace());
    assert!(entry().contains(&card) && entry().contains("PERMANENT"), "{}", entry());

    let interfaces = pnet_datalink::interfaces();
    let peer = interfaces.iter().find(|it| it.name == cable.peer()).unwrap();
    let Ok(Channel::Ethernet(mut sender, _)) =
        pnet_datalink::channel(peer, pnet_datalink::Config::default())
    else {
        panic!("nothing can be sent from the peer")
    };
    let near = interfaces.iter().find(|it| it.name == cable.name).unwrap();
    let config = pnet_datalink::Config { read_timeout: Some(LIMIT), ..Default::default() };
    let Ok(Channel::Ethernet(_, mut arrived)) = pnet_datalink::channel(near, config) else {
        panic!("nothing can be read at the near end")
    };
    let other = [0x52, 0x54, 0, 0xab, 0xcd, 0xee];
    let in_its_sleep = [
        ("another card's", frame(other, 0x0806, &[(21, 1)])),
        ("an answer to ARP", frame(CARD, 0x0806, &[(21, 2)])),
        ("a neighbour advertisement", frame(CARD, 0x86dd, &[(20, 58), (54, 136)])),
    ];
    let awake = [
        ("a question by ARP", frame(CARD, 0x0806, &[(21, 1)])),
        ("IPv4", frame(CARD, 0x0800, &[])),
        ("a neighbour solicitation", frame(CARD, 0x86dd, &[(20, 58), (54, 135)])),
        ("UDP over IPv6", frame(CARD, 0x86dd, &[(20, 17), (54, 136)])),
    ];
    rig.run(async {
        let mut sent = 0;
        for (what, wakes) in &awake {
            let stirred = tokio::spawn({
                let server = Neighbour::new(SERVER, rig.clock.clone());
                async move { server.stirred().await }
            });
            // Whenever the listener is ready: what it must not mind comes before what it must.
            while !stirred.is_finished() {
                for (_, frame) in &in_its_sleep {
                    sender.send_to(frame, None).unwrap().unwrap();
                }
                sender.send_to(wakes, None).unwrap().unwrap();
                sent += in_its_sleep.len() + 1;
                rig.clock.sleep(Duration::from_millis(10)).await;
            }
            println!("{what} was heard");
        }
        // A busy kernel delivers late: the last of them must not meet the listener below.
        while sent > 0 {
            let frame = arrived.next().expect("every frame arrives");
            sent -= usize::from(frame[6..12] == CARD || frame[6..12] == other);
        }
        // The frames that come from sleepers are not heard however often they are sent.
        let mut stirred = Box::pin(server.stirred());
        for round in 0..50 {
            for (what, frame) in &in_its_sleep {
                sender.send_to(frame, None).unwrap().unwrap();
                let wait = rig.clock.timeout(Duration::from_millis(4), &mut stirred).await;
                assert!(wait.is_err(), "{what} was minded in round {round}");
            }
        }
        drop(stirred);
        // A proxy that has restarted meanwhile knows the entry for its own.
        Neighbour::new(SERVER, rig.clock.clone()).release().await;
    });
    assert!(entry().contains("STALE"), "{}", entry());
}

#[test]
fn an_entry_that_somebody_made_permanent_stays_so() {
    let Some(cable) = Cable::new("nbp", "203.0.113.1/24") else {
        eprintln!("skipped: no pair of interfaces can be made here (needs root)");
        return;
    };
    let theirs = ["neigh", "add", "203.0.113.2", "lladdr", "52:54:00:00:00:07", "dev", &cable.name];
    assert!(ip(&[&theirs[..], &["nud", "permanent"]].concat()));
    let rig = Rig::new();
    let server = Neighbour::new("203.0.113.2", rig.clock.clone());
    rig.run(async {
        server.leave_in_peace().await;
        server.release().await;
    });
    let shown = Command::new("ip").args(["neigh", "show", "to", "203.0.113.2"]).output().unwrap();
    assert!(String::from_utf8(shown.stdout).unwrap().contains("PERMANENT"));
}
