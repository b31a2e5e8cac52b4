//! Networks of their own.

use std::fs;

use nightwatt_environments::netns::NAMESPACE;

use crate::rig::{Rig, inside, program, root};

#[test]
fn a_network_of_its_own_comes_and_goes() {
    if program("ip").and(root()).is_none() {
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
    if program("ip").and(program("nft")).and(program("ping")).and(root()).is_none() {
        return;
    }
    let rig = Rig::new();
    let guard = rig.guard();
    let started = rig.start("kind = \"netns\"\nloss = 1.0", &guard);
    let reached = |address: &str, seconds: &str| {
        nightwatt_needs::command("ping")
            .args(["-c", "1", "-W", seconds, address])
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(!reached(&started.address(), "1"));
    let whole =
        rig.config("kind = \"netns\"\nloss = 0.0").start(1, None, &guard, &rig.stop).unwrap();
    assert!(reached(&whole.address(), "60"));
    let error =
        rig.config("kind = \"netns\"\nloss = 7.0").start(0, None, &guard, &rig.stop).unwrap_err();
    assert!(error.to_string().contains("from 0 to 1"), "{error}");
}

#[test]
fn a_network_that_nothing_ties_to_the_host_has_no_way_out_and_says_where_it_is() {
    if program("ip").is_none() || root().is_none() {
        return;
    }
    let rig = Rig::new();
    rig.try_all("kind = \"netns\"\ntied = false");
    let guard = rig.guard();
    let started = rig.start("kind = \"netns\"\ntied = false", &guard);
    assert_eq!(inside(&started, "ls /proc/self/net/dev_snmp6"), "lo");
    let facts = started.facts();
    let (_, path) = facts.iter().find(|(name, _)| name == NAMESPACE).unwrap();
    let is = fs::read_link(path).unwrap().display().to_string();
    assert_eq!(inside(&started, "readlink /proc/self/ns/net"), is);
    started.stop().unwrap_or_else(|error| panic!("{error}"));
    let told = rig.config("kind = \"netns\"\ntied = false\nloss = 0.1");
    let error = told.start(0, None, &guard, &rig.stop).unwrap_err().to_string();
    assert!(error.contains("of the tie"), "{error}");
    guard.finish().unwrap_or_else(|error| panic!("{error}"));
    rig.left("after stop");
}
