//! What the kernel was told, by other witnesses than ourselves.

use std::process::Command;

use nightwatt_clock::meter::Stop;
use nightwatt_tcp::wire::Name;
use nightwatt_tcp::{Direction, Plan, Until, fetch};

use crate::harness::{LONG, Serving, fetched, try_fetch};

/// What `ss -tinmO` says of the sockets whose own port is this; `None` without `ss`.
fn ss(filter: &str) -> Option<String> {
    let mut ss = Command::new(nightwatt_needs::program("ss")?);
    let output = ss.args(["-tinmOH", "state", "established", filter]).output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a plan until each connection has sent something, has `ss` look at the side that sends, and ends it.
fn looked_at(plan: &Plan) -> Option<String> {
    ss("sport = 1")?;
    let port = plan.server.port();
    let side = if plan.direction == Direction::Fetch { "sport" } else { "dport" };
    let stop = Stop::new().unwrap();
    let theirs = stop.clone();
    let mut seen = String::new();
    let mut on_progress = |second: &nightwatt_tcp::Second| {
        seen = ss(&format!("{side} = {port}")).unwrap();
        // All options are set by then.
        let sending = seen.lines().filter(|line| line.contains(" bytes_sent:")).count();
        if sending == plan.connections as usize || second.second >= LONG.as_secs() {
            theirs.stop();
        }
    };
    fetch(plan, &stop, Some(&mut on_progress)).unwrap();
    Some(seen)
}

#[test]
fn over_loopback_there_is_no_card_to_be_polled_and_that_is_told() {
    let serving = Serving::usual();
    for direction in [Direction::Fetch, Direction::Send] {
        let mut plan = Plan { direction, ..serving.plan(2, 10) };
        assert_eq!(fetched(&plan).busy_polled, None, "nobody has asked for it");
        plan.options.busy_poll = 50;
        match try_fetch(&plan) {
            Ok(report) => assert_eq!((report.failed, report.busy_polled), (0, Some(0))),
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        }
    }
}

#[test]
fn the_side_that_sends_has_the_congestion_control_and_pacing_that_were_asked_for() {
    // Others are for root.
    let Ok(offered) = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
    else {
        println!("skipped: this kernel does not list its congestion controls");
        return;
    };
    for name in offered.split_whitespace() {
        for direction in [Direction::Fetch, Direction::Send] {
            let serving = Serving::usual();
            let mut plan = Plan { direction, ..serving.plan(1, 10) };
            plan.options.congestion = Name::new(name).unwrap();
            let report = fetched(&plan);
            assert_eq!(report.congestion.as_deref(), Some(name));
        }
    }
    for direction in [Direction::Fetch, Direction::Send] {
        let serving = Serving::usual();
        let mut plan = Plan { direction, ..serving.plan(2, 1_000_000_000) };
        plan.until = Until::default();
        plan.options.congestion = Name::new("reno").unwrap();
        plan.options.pacing = 12_500_000;
        plan.options.send_buffer = 100_000;
        let Some(seen) = looked_at(&plan) else { return };
        assert_eq!(seen.lines().count(), 2, "{seen}");
        for line in seen.lines() {
            assert!(line.contains(" reno "), "{direction:?}: {line}");
            // 12.5 MB/s; ss prints bits.
            assert!(line.contains("/100000000bps") || line.contains("/100Mbps"), "{line}");
            // socket(7): the kernel doubles it.
            assert!(line.contains("tb200000"), "{line}");
        }
    }
}

#[test]
fn segments_are_no_longer_than_was_asked_for_in_both_directions() {
    for direction in [Direction::Fetch, Direction::Send] {
        let serving = Serving::usual();
        let mut plan = Plan { direction, ..serving.plan(1, 10) };
        plan.options.mss = 536;
        plan.options.nodelay = true;
        let report = fetched(&plan);
        let session = report.server.unwrap().session;
        let sender = if direction == Direction::Fetch { &session.tcp } else { &report.tcp };
        let mss = sender.get(nightwatt_tcp::info::Figure::SendMss);
        assert!(mss.count == 1 && mss.most <= 536, "{mss:?}");
        // 14,600 bytes in at most 536 each.
        let segments = sender.get(nightwatt_tcp::info::Figure::DataSegmentsOut).sum;
        assert!(segments >= 28, "{segments}");
    }
}

#[test]
fn cpu_time_of_the_server_is_what_its_process_used() {
    let serving = Serving::usual();
    let report = fetched(&serving.plan(50, 1000));
    // Client and server are one process here: each counts the work of both, the server's a part of it.
    let (client, server) = (report.cpu.usage.cpu(), report.server.unwrap().session.cpu.cpu());
    assert!(server <= client + LONG / 60, "{server:?} {client:?}");
    assert!(report.cpu.s_per_gib.unwrap() > 0.0);
    let expected = client.as_secs_f64() / 50.0;
    assert!((report.cpu.s_per_connection.unwrap() - expected).abs() < 1e-12);
}
