//! Cards as ethtool tells them, real ones of namespaces, and one that is a script.

use std::path::Path;

use nightwatt_clock::meter::Stop;
use nightwatt_environments::guard::{self, Guard};

use super::*;
use crate::ends::{CARD, EndsConfig};
use crate::link::Link;
use crate::scenario::Scenario;

/// What ethtool 6.1 prints of a veth on Linux 6.18, some lines left out.
const VETH: &str = "driver: veth\nversion: 1.0\n--\nFeatures for link0:\nrx-checksumming: on\n\
    tx-checksumming: on\n\ttx-checksum-ipv4: off [fixed]\nscatter-gather: on\n\
    tcp-segmentation-offload: on\n\ttx-tcp-segmentation: on\ngeneric-segmentation-offload: on\n\
    generic-receive-offload: off\n--\nnetlink error: Operation not supported\n";

/// And of an e1000e, from its manual's example of `-c`.
const E1000E: &str = "driver: e1000e\n--\nrx-checksumming: on\ntx-checksumming: on\n\
    tcp-segmentation-offload: off\n\ttx-tcp-segmentation: off [fixed]\n--\nCoalesce parameters for eth0:\n\
    Adaptive RX: on  TX: off\nstats-block-usecs: 0\nrx-usecs: 3\nrx-frames: 0\n";

#[test]
fn a_virtual_card_says_what_it_does_and_that_it_does_not_coalesce() {
    let card = Card::parse(VETH);
    assert_eq!(card.driver, "veth");
    let features: Vec<bool> = card.features.values().copied().collect();
    assert_eq!(features, [true, true, true, true, false]);
    assert_eq!(card.rx_usecs, None);
    let why = card.coalescing_refused.as_deref();
    assert_eq!(why, Some("netlink error: Operation not supported"));
    assert!(card.joins());
    let line = card.restoring("link0");
    assert!(!line.contains("ethtool -C"), "{line}");
    assert_eq!(
        card.switchable,
        [
            "rx-checksumming: on",
            "scatter-gather: on",
            "tx-tcp-segmentation: on",
            "generic-segmentation-offload: on",
            "generic-receive-offload: off",
        ],
        "no sum of others, and nothing that is fixed"
    );
}

#[test]
fn a_card_that_computes_no_checksums_does_not_cut_whatever_the_sum_of_its_flags_says() {
    // ethtool 6.1 after `ethtool -K link0 tx off`.
    let said = VETH
        .replace("tx-checksumming: on", "tx-checksumming: off")
        .replace("tx-tcp-segmentation: on", "tx-tcp-segmentation: off [requested on]");
    let card = Card::parse(&said);
    assert!(!card.features[&Feature::Tso]);
    assert!(!card.fixed.contains(&Feature::Tso), "it can be switched, with checksums");
}

#[test]
fn what_a_real_card_waits_is_put_back_and_what_is_fixed_is_left_alone() {
    let card = Card::parse(E1000E);
    assert_eq!((card.rx_usecs, card.is_adaptive), (Some(3), Some(true)));
    let line = card.restoring("link0");
    assert!(line.contains("ethtool -C link0 adaptive-rx off rx-usecs 3 "), "{line}");
    assert!(line.contains("ethtool -C link0 adaptive-rx on 2>&1"), "{line}");
    assert!(!line.contains("segmentation"), "{line}");
    let fixed = E1000E.replace("Adaptive RX: on  TX: off", "Adaptive RX: n/a  TX: n/a");
    let line = Card::parse(&fixed).restoring("link0");
    assert!(!line.contains("adaptive-rx"), "it has no choice to be switched: {line}");
    assert_eq!(why_not(&card, Feature::Tso, ""), "e1000e: its driver has it fixed");
    let said = "Actual changes:\ntx-tcp-segmentation: off [requested on]\n";
    let told = why_not(&Card::parse(VETH), Feature::Gro, said);
    assert_eq!(told, "veth: its driver does not take it, and it stays off");
    let told = why_not(&Card::parse(VETH), Feature::Gro, "Could not change any device features\n");
    assert_eq!(told, "veth: Could not change any device features");
}

/// Lines as ethtool 6.1 prints them of a card that joins what comes by itself, as mlx5 and bnxt do.
fn joining_by_itself() -> Card {
    let more = "generic-receive-offload: on\nlarge-receive-offload: on\nrx-gro-hw: on\n--";
    Card::parse(&VETH.replace("generic-receive-offload: off\n--", more))
}

#[test]
fn a_card_that_joins_what_comes_by_itself_is_told_to_leave_it_and_set_so_again() {
    let card = joining_by_itself();
    let off: Features = Feature::JOINING_ANY.iter().map(|it| (*it, false)).collect();
    let other = card.other(&off);
    assert_eq!(card.switching(&other), "tso off gso off gro off lro off rx-gro-hw off");
    let line = card.restoring("link0");
    for flag in ["'large-receive-offload: on'", "'rx-gro-hw: on'"] {
        assert!(line.contains(flag), "{flag}: {line}");
    }
    let alone = VETH.replace(": on", ": off").replace("--\nnetlink", "rx-gro-hw: on\n--\nnetlink");
    assert!(Card::parse(&alone).joins(), "by the card alone");
    // Where the kernel is to join, the card still is not to.
    let on: Features = Feature::JOINING.iter().map(|it| (*it, true)).collect();
    assert!(!on.contains_key(&Feature::Lro) && !on.contains_key(&Feature::GroHardware));
}

#[test]
fn what_ethtool_does_not_know_is_off_and_keeps_nothing_else_from_being_switched() {
    // VETH has no line of LRO, of GRO by the card, or of UDP: `ethtool -K link0 rx-gro-hw off` would be refused.
    let card = Card::parse(VETH);
    let off: Features = Feature::ALL.iter().map(|it| (*it, false)).collect();
    assert_eq!(card.switching(&card.other(&off)), "rx off tx off tso off gso off");
    let other = card.other(&[(Feature::Lro, true), (Feature::Gro, true)].into());
    assert_eq!(other, [(Feature::Gro, true), (Feature::Lro, true)], "what is wanted on is refused");
    assert_eq!(card.switching(&other), "gro on");
    assert_eq!(why_not(&card, Feature::Lro, ""), "veth: ethtool does not know it");
}

/// An ethtool of a card that does as Intel's ice: it takes no time while it is to choose itself. Where there
/// is a file `stuck` it takes nothing.
const ICE: &str = r#"#!/bin/sh
cd "${0%/*}" || exit 1
echo "$*" >>said
case $1 in
-i) echo "driver: ice" ;;
-k) printf 'rx-checksumming: on\ngeneric-receive-offload: %s\n' "$(cat gro)" ;;
-c) printf 'Adaptive RX: %s  TX: off\nrx-usecs:\t%s\n' "$(cat adaptive)" "$(cat usecs)" ;;
-K|-C)
    test -e stuck && { echo "netlink error: Device or resource busy" >&2; exit 1; }
    shift 2
    usecs=$(cat usecs) adaptive=$(cat adaptive) gro=$(cat gro) wanted=$(cat usecs)
    while test $# -gt 0; do
        case $1 in adaptive-rx) adaptive=$2 ;; rx-usecs) wanted=$2 ;; generic-receive-offload) gro=$2 ;; esac
        shift 2
    done
    if test "$adaptive" = on && test "$wanted" != "$usecs"; then
        echo "netlink error: Invalid argument" >&2
        exit 1
    fi
    echo "$wanted" >usecs; echo "$adaptive" >adaptive; echo "$gro" >gro ;;
esac
"#;

/// A folder with that ethtool, and what its card is set to.
struct Ice(tempfile::TempDir);

impl Ice {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ethtool"), ICE).unwrap();
        Self(folder)
    }

    fn set(&self, card: [&str; 3]) {
        for (name, value) in ["adaptive", "usecs", "gro"].into_iter().zip(card) {
            std::fs::write(self.0.path().join(name), value).unwrap();
        }
    }

    fn is(&self) -> [String; 3] {
        let read = |name| std::fs::read_to_string(self.0.path().join(name)).unwrap();
        ["adaptive", "usecs", "gro"].map(|name| read(name).trim().to_owned())
    }

    /// The card as it is now, and the line that sets it so again.
    fn restoring(&self) -> String {
        // Read by the shell, and not executed: who writes a program at the same time as others fork may
        // find it busy.
        let ethtool = self.0.path().join("ethtool");
        let with_its = |line: &str| {
            format!("ethtool() {{ sh {} \"$@\"; }}; ip() {{ :; }}; {line}", ethtool.display())
        };
        let line = "ethtool -i x; echo --; ethtool -k x; echo --; ethtool -c x";
        let mut shell = std::process::Command::new("sh");
        let read = shell.args(["-c", &with_its(line)]).output().unwrap();
        let card = Card::parse(&String::from_utf8(read.stdout).unwrap());
        assert_eq!(card.driver, "ice");
        with_its(&card.restoring("x"))
    }
}

fn guarded(folder: &Path, line: &str) -> (Guard, Undo) {
    let guard = Guard::start(&folder.join("journal")).unwrap();
    let undo = guard.protect(line).unwrap();
    (guard, undo)
}

#[test]
fn a_card_that_takes_no_time_while_it_chooses_itself_is_put_back_in_two_calls() {
    let ice = Ice::new();
    for found in [["on", "50", "on"], ["off", "50", "off"]] {
        ice.set(found);
        let line = ice.restoring();
        ice.set(["off", "0", "off"]);
        let (guard, undo) = guarded(ice.0.path(), &line);
        undo.now().unwrap();
        assert_eq!(ice.is(), found);
        guard.finish().unwrap();
    }
    // One that is as it was is asked, and not switched.
    ice.set(["on", "50", "on"]);
    let line = ice.restoring();
    let (guard, undo) = guarded(ice.0.path(), &line);
    std::fs::remove_file(ice.0.path().join("said")).unwrap();
    undo.now().unwrap();
    let said = std::fs::read_to_string(ice.0.path().join("said")).unwrap();
    assert!(!said.contains("-C") && !said.contains("-K"), "{said}");
    guard.finish().unwrap();
}

#[test]
fn a_card_that_is_not_as_it_was_is_told_and_stays_in_the_journal_until_it_is() {
    let ice = Ice::new();
    ice.set(["on", "50", "on"]);
    let line = ice.restoring();
    let now = ["off", "0", "off"];
    ice.set(now);
    let stuck = ice.0.path().join("stuck");
    std::fs::write(&stuck, "").unwrap();
    let (guard, undo) = guarded(ice.0.path(), &line);
    let told = undo.now().unwrap_err().to_string();
    for what in ["generic-receive-offload is not on", "rx-usecs is not 50", "adaptive-rx is not on"]
    {
        assert!(told.contains(what), "{what}: {told}");
    }
    assert_eq!(ice.is(), now);
    assert!(guard.finish().is_err(), "its guardian could not do it either");
    std::fs::remove_file(stuck).unwrap();
    assert_eq!(guard::clean(&ice.0.path().join("journal")).unwrap(), 1);
    assert_eq!(ice.is(), ["on", "50", "on"]);
}

/// On real namespaces; the guard's part, when we are killed, is that of all environments.
#[test]
fn what_was_switched_is_as_it_was_when_the_cards_are_given_back_or_dropped() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root may switch cards");
        return;
    }
    if !nightwatt_needs::programs(&["ethtool", "ip", "tc"]) {
        return;
    }
    let stop = Stop::new().unwrap();
    let ends = Ends::start(&EndsConfig::Namespaces, Path::new("none"), &stop).unwrap();
    let link = Link::make(&ends, &Scenario::bare(), Path::new("none"), &stop).unwrap();
    // Some flags of groups are off beforehand, and others wait for these.
    for line in ["tx-tcp-mangleid-segmentation off", "tx-checksum-ip-generic off"] {
        ends.receiver.run("switch a flag", &format!("ethtool -K {CARD} {line}")).unwrap();
    }
    let read = || ends.both().map(|end| Card::read(end).unwrap());
    let whole = || ends.both().map(|end| end.run("see", &format!("ethtool -k {CARD}")).unwrap());
    let (found, found_whole) = (read(), whole());
    assert!(found_whole[1].contains("tx-tcp-segmentation: off [requested on]"), "{found_whole:?}");
    // Virtual cards join nothing by themselves.
    let own = [Feature::Lro, Feature::GroHardware];
    let mutable: Vec<Feature> = Feature::ALL.into_iter().filter(|it| !own.contains(it)).collect();
    assert_eq!(found[0].fixed, own);
    for is_dropped in [false, true] {
        let mut cards = Cards::take(&ends).unwrap();
        for on in [false, true] {
            let wanted: Features = mutable.iter().map(|it| (*it, on)).collect();
            assert_eq!(cards.switch(&ends, &wanted).unwrap(), []);
            for card in read() {
                let now = card.features.into_iter().filter(|it| mutable.contains(&it.0));
                assert_eq!(now.collect::<Features>(), wanted);
            }
        }
        let refused = cards.coalesce(&ends, Some(50)).unwrap();
        assert_eq!(refused.len(), 2);
        assert!(refused[0].why.contains("not supported"), "{refused:?}");
        cards.switch(&ends, &[(Feature::Tso, false)].into()).unwrap();
        assert_ne!(read(), found);
        if is_dropped {
            drop(cards);
        } else {
            cards.put_back(&ends).unwrap();
        }
        assert_eq!(read(), found);
        assert_eq!(whole(), found_whole);
    }
    link.end(&ends, &stop).unwrap();
    ends.finish().unwrap();
}
