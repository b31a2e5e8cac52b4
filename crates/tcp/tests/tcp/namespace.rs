//! Tests that need a network of their own: with planted loss, or few ports. Each starts itself again in a
//! network namespace; every change to that network is gone with it.

use std::net::TcpStream;
use std::process::Command;

use nightwatt_tcp::info::Figure;
use nightwatt_tcp::{Direction, Plan, Until};

use crate::harness::{Serving, fetched, try_fetch};
use crate::own_network::{kernel_count, within};

fn run(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn planted_loss_is_found_and_retransmits_are_those_that_the_kernel_counts() {
    const NAME: &str =
        "namespace::planted_loss_is_found_and_retransmits_are_those_that_the_kernel_counts";
    if !within(NAME, &["nft"]) {
        return;
    }
    run("ip link set lo up");
    for direction in [Direction::Fetch, Direction::Send] {
        let serving = Serving::usual();
        let port = serving.address.port();
        let from = if direction == Direction::Fetch { "sport" } else { "dport" };
        // Data only: a lost FIN is sent again when the test no longer looks.
        let planted = Command::new("nft")
            .arg(format!(
                "table inet lossy {{ chain in {{ type filter hook input priority 0; \
                 tcp {from} {port} meta length > 500 numgen random mod 40 == 0 counter drop; }}; }}"
            ))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&planted.stderr);
        if said.contains("Operation not supported") {
            println!("skipped: this kernel has no nft: {said}");
            return;
        }
        assert!(planted.status.success(), "{said}");
        let before = kernel_count("RetransSegs");
        let mut plan = Plan { direction, ..serving.plan(20, 3000) };
        plan.verify = true;
        // Its connection would be subject to loss as well, and not counted.
        plan.wants_server_report = false;
        plan.options.congestion = nightwatt_tcp::wire::Name::new("reno").unwrap();
        let report = fetched(&plan);
        assert_eq!((report.completed, report.failed), (20, 0), "{report:?}");
        let served = serving.end();
        let counted = kernel_count("RetransSegs") - before;
        let told = report.tcp.get(Figure::RetransmittedSegments).sum
            + served.tcp.get(Figure::RetransmittedSegments).sum;
        let listed = run("nft list table inet lossy");
        let dropped = listed.split("counter packets ").nth(1).unwrap().split(' ').next().unwrap();
        let dropped: u64 = dropped.parse().unwrap();
        assert!(dropped > 0, "{listed}");
        assert_eq!(told, counted, "what both ends tell, and what the kernel has counted");
        assert!(told >= dropped, "{told} {dropped}");
        let sender = if direction == Direction::Fetch { &served.tcp } else { &report.tcp };
        assert_eq!(sender.get(Figure::RetransmittedSegments).sum, told, "the receiver has none");
        assert!(sender.get(Figure::RetransmittedBytes).sum > 0);
        run("nft delete table inet lossy");
    }
}

#[test]
fn short_connections_do_not_use_up_the_ports_and_too_many_at_once_are_told_so() {
    const NAME: &str =
        "namespace::short_connections_do_not_use_up_the_ports_and_too_many_at_once_are_told_so";
    if !within(NAME, &["sysctl"]) {
        return;
    }
    run("ip link set lo up && sysctl -qw net.ipv4.ip_local_port_range='40000 40099'");
    for direction in [Direction::Fetch, Direction::Send] {
        let serving = Serving::usual();
        let mut plan = Plan { direction, ..serving.plan(10, 1) };
        // Twenty times as many as there are ports, well within the minute of TIME_WAIT.
        plan.until = Until { count: Some(2000), time: None };
        plan.wants_server_report = false;
        let report = fetched(&plan);
        assert_eq!((report.completed, report.failed), (2000, 0), "{:?}", report.faults);
    }
    // Known beforehand.
    let serving = Serving::usual();
    let failed = try_fetch(&serving.plan(101, 10)).unwrap_err().to_string();
    assert!(failed.contains("this system has 100 for them; widen"), "{failed}");
    // Not known beforehand: others have them.
    let others: Vec<TcpStream> = (0..95).map(|_| serving.stranger()).collect();
    let failed = try_fetch(&serving.plan(10, 1_000_000)).unwrap_err().to_string();
    assert!(failed.contains("no local port was free; widen"), "{failed}");
    drop(others);
}
