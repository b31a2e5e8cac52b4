//! Tests that need a network of their own. Each starts itself again in a network namespace; every change to
//! that network is gone with it.

use std::process::Command;

use nightwatt_needs::programs;

const WITHIN: &str = "NIGHTWATT_TCP_NAMESPACE";

/// Are we within? If not, the test is run there, and it is over here.
pub(crate) fn within(test: &str, tools: &[&str]) -> bool {
    if std::env::var_os(WITHIN).is_some() {
        return true;
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a network namespace needs root");
        return false;
    }
    if !programs(tools) || !programs(&["ip"]) {
        return false;
    }
    let output = Command::new("unshare")
        .args(["--net", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(WITHIN, "1")
        .env("PATH", nightwatt_needs::path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if said.contains("skipped:") {
        print!("{said}");
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    false
}

/// A counter of this namespace: `/proc/net/snmp` has a line of names and one of numbers.
pub(crate) fn kernel_count(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/net/snmp").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, numbers) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split(' ').position(|column| column == name).unwrap();
    numbers.split(' ').nth(place).unwrap().parse().unwrap()
}
