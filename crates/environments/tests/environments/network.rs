//! Networks of their own.

use std::process::Command;

use crate::rig::{Rig, inside, program, root};

#[test]
fn a_network_of_its_own_comes_and_goes() {
    if program("ip", "iproute2").and(root()).is_none() {
        return;
    }
    let rig = Rig::new();
    rig.try_all("kind = \"netns\"");
    let guard = rig.guard();
    let first = rig.start("kind = \"netns\"\nrate = \"20mbit\"", &guard);
    let second = rig.config("kind = \"netns\"").start(1, None, &guard, &rig.stop).unwrap();
    // Both have their port 80 for themselves.
    rig.serves(&first, 80, "from the first");
    rig.serves(&second, 80, "from the second");
    let qdisc = inside(&first, "tc qdisc show dev eth0");
    assert!(qdisc.contains("tbf") && qdisc.contains("rate 20Mbit"), "{qdisc}");
}

#[test]
fn packets_are_lost_as_often_as_wanted() {
    if program("nft", "nftables").and(program("ping", "iputils-ping")).and(root()).is_none() {
        return;
    }
    let rig = Rig::new();
    let guard = rig.guard();
    let started = rig.start("kind = \"netns\"\nloss = 1.0", &guard);
    let reached = |address: &str| {
        Command::new("ping")
            .args(["-c", "1", "-W", "1", address])
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(!reached(&started.address()));
    let whole =
        rig.config("kind = \"netns\"\nloss = 0.0").start(1, None, &guard, &rig.stop).unwrap();
    assert!(reached(&whole.address()));
    let error =
        rig.config("kind = \"netns\"\nloss = 7.0").start(0, None, &guard, &rig.stop).unwrap_err();
    assert!(error.to_string().contains("from 0 to 1"), "{error}");
}
