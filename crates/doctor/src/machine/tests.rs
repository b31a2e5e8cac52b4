//! Machines made of files, and what is found of them.

use std::fs;

use tempfile::TempDir;

use super::super::Verdict;
use super::*;

/// A home server as it should be.
const GOOD: &[(&str, &str)] = &[
    ("sys/class/dmi/id/sys_vendor", "FUJITSU\n"),
    ("sys/class/dmi/id/product_name", "FUTRO S740\n"),
    ("sys/power/state", "freeze mem disk\n"),
    ("sys/power/mem_sleep", "s2idle [deep]\n"),
    ("sys/power/suspend_stats/success", "12\n"),
    ("sys/power/suspend_stats/fail", "0\n"),
    ("sys/class/net/lo/address", "00:00:00:00:00:00\n"),
    ("sys/class/net/enp1s0/address", "90:1b:0e:aa:bb:cc\n"),
    ("sys/class/net/enp1s0/device/power/wakeup", "enabled\n"),
    ("sys/class/rtc/rtc0/wakealarm", ""),
    ("sys/class/rtc/rtc0/since_epoch", "1795500000\n"),
];

struct Machine {
    dir: TempDir,
    ethtool: &'static str,
    date: &'static str,
    synchronized: &'static str,
}

impl Machine {
    fn good() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ethtool = "\tSupports Wake-on: pumbg\n\tWake-on: g\n";
        let machine = Self { dir, ethtool, date: "1795500001\n", synchronized: "yes\n" };
        for (path, text) in GOOD {
            machine.write(path, text);
        }
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn findings(&self) -> Vec<Finding> {
        let (ethtool, date, synchronized) = (self.ethtool, self.date, self.synchronized);
        let place = HostView::new(self.dir.path().to_owned(), move |program, arguments| {
            let printed = match program {
                "ethtool" => {
                    assert_eq!(arguments, ["enp1s0"]);
                    ethtool
                }
                "date" => date,
                "timedatectl" => synchronized,
                "systemctl" => "active\n",
                _ => return None,
            };
            (!printed.is_empty()).then(|| printed.to_owned())
        });
        examine(&place)
    }

    /// The finding about something.
    fn of(&self, about: &str) -> Finding {
        let found = self.findings().into_iter().find(|it| it.about == about);
        found.unwrap_or_else(|| panic!("nothing about {about}: {:#?}", self.findings()))
    }
}

#[test]
fn a_machine_as_it_should_be_has_nothing_bad() {
    let findings = Machine::good().findings();
    let worse: Vec<_> = findings.iter().filter(|it| it.verdict != Verdict::Good).collect();
    let about: Vec<&str> = worse.iter().map(|it| it.about.as_str()).collect();
    assert_eq!(about, ["firmware"], "{worse:#?}");
}

#[test]
fn a_card_that_wakes_for_anything_or_nothing_is_bad() {
    for (ethtool, words) in [
        ("\tSupports Wake-on: pumbg\n\tWake-on: d\n", "is not set to"),
        ("\tSupports Wake-on: pumbg\n\tWake-on: ug\n", "any frame to its address"),
        ("\tSupports Wake-on: pumbg\n\tWake-on: gba\n", "broadcasts, ARP"),
        ("\tSupports Wake-on: d\n\tWake-on: d\n", "cannot wake"),
    ] {
        let machine = Machine { ethtool, ..Machine::good() };
        let card = machine.of("network card enp1s0");
        assert_eq!(card.verdict, Verdict::Bad, "{ethtool}");
        assert!(card.found.contains(words), "{}", card.found);
        assert!(card.cure.is_some());
    }
    let blind = Machine { ethtool: "", ..Machine::good() };
    assert_eq!(blind.of("network card enp1s0").verdict, Verdict::Unknown);
    let sealed = Machine::good();
    sealed.write("sys/class/net/enp1s0/device/power/wakeup", "disabled\n");
    assert_eq!(sealed.of("network card enp1s0").verdict, Verdict::Bad);
}

#[test]
fn shallow_sleep_and_failed_suspends_are_told() {
    let machine = Machine::good();
    machine.write("sys/power/mem_sleep", "[s2idle] deep\n");
    machine.write("sys/power/suspend_stats/fail", "3\n");
    machine.write("sys/power/suspend_stats/last_failed_dev", "0000:00:14.0\n");
    let depth = machine.of("depth of sleep");
    assert_eq!(depth.verdict, Verdict::Note);
    assert!(depth.cure.unwrap().contains("mem_sleep_default=deep"));
    let past = machine.of("past suspends");
    assert_eq!(past.verdict, Verdict::Bad);
    assert!(past.cure.unwrap().contains("0000:00:14.0"));
    machine.write("sys/power/state", "freeze\n");
    assert_eq!(machine.of("sleep states").verdict, Verdict::Bad);
}

#[test]
fn a_hardware_clock_in_local_time_is_told_from_a_wrong_one() {
    // Berlin, in winter; seven minutes slow; right.
    for (date, verdict) in [
        ("1795496400\n", Verdict::Note),
        ("1795500420\n", Verdict::Bad),
        ("1795499998\n", Verdict::Good),
    ] {
        let machine = Machine { date, ..Machine::good() };
        assert_eq!(machine.of("hardware clock").verdict, verdict, "{date}");
    }
    let adrift = Machine { synchronized: "no\n", ..Machine::good() };
    assert_eq!(adrift.of("system clock").verdict, Verdict::Note);
}

#[test]
fn guests_and_containers_are_told_who_wakes_them() {
    let guest = Machine::good();
    guest.write("sys/class/dmi/id/sys_vendor", "QEMU\n");
    let kind = guest.of("machine");
    assert_eq!(kind.verdict, Verdict::Note);
    assert!(kind.cure.unwrap().contains("libvirt"));
    let container = Machine::good();
    container.write("run/.containerenv", "");
    assert_eq!(container.of("machine").verdict, Verdict::Bad);
}
