//! What goes well, and that all counts agree.

use std::time::Duration;

use nightwatt_tcp::info::{Figure, TcpInfos};
use nightwatt_tcp::{Direction, Ended, FetchReport, Until};

use crate::harness::{Serving, fetched};

/// Bytes that a kernel sent for the first time.
fn sent_once(tcp: &TcpInfos) -> u64 {
    tcp.get(Figure::BytesSent).sum - tcp.get(Figure::RetransmittedBytes).sum
}

/// All that one side has counted must be what the other has, and what their kernels have.
fn everything_agrees(report: &FetchReport, wanted: u64, bytes: u64) {
    assert_eq!(
        (report.started, report.completed, report.failed),
        (wanted, wanted, 0),
        "{report:?}"
    );
    assert_eq!((report.bytes, report.ended), (wanted * bytes, Ended::Done));
    let server =
        report.server.as_ref().unwrap_or_else(|| panic!("the server said nothing: {report:?}"));
    let session = &server.session;
    assert_eq!((session.completed, session.failed, session.open), (wanted, 0, 0));
    assert_eq!(session.bytes, wanted * bytes);
    let (sender, receiver) = match report.direction {
        "fetch" => (&session.tcp, &report.tcp),
        _ => (&report.tcp, &session.tcp),
    };
    assert_eq!(sent_once(sender), wanted * bytes, "the sender's kernel");
    // The sign of the end takes a place in the stream, too.
    let arrived = receiver.get(Figure::BytesReceived).sum;
    assert_eq!(arrived, wanted * (bytes + 1), "the receiver's kernel");
    assert_eq!(report.lifetime_s.unwrap().count, wanted);
    assert_eq!(report.lifetimes.iter().map(|(_, count)| count).sum::<u64>(), wanted);
    let seconds = |count: fn(&nightwatt_tcp::Second) -> u64| -> u64 {
        report.seconds.iter().map(count).sum()
    };
    assert_eq!(seconds(|second| second.completed), wanted);
    assert_eq!(seconds(|second| second.started), wanted);
    assert_eq!(seconds(|second| second.bytes), wanted * bytes);
    for record in &report.records {
        let moments = [record.handshake_s, record.first_byte_s, record.lifetime_s, record.closed_s];
        let moments: Vec<f64> = moments.into_iter().map(Option::unwrap).collect();
        assert!(moments.is_sorted() && moments[0] > 0.0, "{record:?}");
        assert_eq!((record.bytes, record.fault), (bytes, None));
        // Of more, the first to end at one side need not be the first at the other.
        let all_are_kept = report.records.len() as u64 == wanted;
        assert!(!all_are_kept || record.server_tcp.is_some(), "it is in the server's ring");
    }
}

#[test]
fn any_number_of_connections_brings_every_byte_in_both_directions() {
    for connections in [1, 10, 100, 3000] {
        for direction in [Direction::Fetch, Direction::Send] {
            let serving = Serving::usual();
            let plan = serving.plan(connections, 10);
            let records = connections as usize;
            let plan = nightwatt_tcp::Plan { direction, records, verify: true, ..plan };
            let report = fetched(&plan);
            assert_eq!(report.records.len(), records);
            everything_agrees(&report, u64::from(connections), 14_600);
            let served = serving.end();
            assert_eq!((served.completed, served.failed), (u64::from(connections), 0));
            assert_eq!(served.reports, 1);
        }
    }
}

#[test]
fn long_connections_bring_every_byte_in_both_directions() {
    for (connections, segments) in [(1, 10_000), (10, 10_000), (100, 100)] {
        for direction in [Direction::Fetch, Direction::Send] {
            let serving = Serving::usual();
            let plan = serving.plan(connections, segments);
            let plan = nightwatt_tcp::Plan { direction, verify: true, ..plan };
            everything_agrees(&fetched(&plan), u64::from(connections), segments * 1460);
        }
    }
}

#[test]
fn the_shortest_connections_are_nothing_but_the_headers() {
    for (direction, bytes) in [(Direction::Fetch, 16), (Direction::Send, 64)] {
        let serving = Serving::usual();
        let plan = nightwatt_tcp::Plan { direction, bytes, verify: true, ..serving.plan(5, 1) };
        everything_agrees(&fetched(&plan), 5, bytes);
        let short = nightwatt_tcp::Plan { bytes: bytes - 1, ..plan };
        let refused = crate::harness::try_fetch(&short).unwrap_err().to_string();
        assert!(refused.contains("use more `--segments`"), "{refused}");
    }
}

#[test]
fn what_is_discarded_in_the_kernel_is_counted_all_the_same() {
    for direction in [Direction::Fetch, Direction::Send] {
        let serving = Serving::usual();
        let plan = serving.plan(10, 1000);
        let plan = nightwatt_tcp::Plan { direction, discard: true, ..plan };
        everything_agrees(&fetched(&plan), 10, 1_460_000);
    }
}

#[test]
fn a_finished_connection_is_followed_by_a_new_one_until_there_were_enough() {
    let serving = Serving::usual();
    let mut plan = serving.plan(7, 10);
    plan.until = Until { count: Some(500), time: None };
    plan.records = 20;
    let report = fetched(&plan);
    everything_agrees(&report, 500, 14_600);
    assert_eq!(report.records.len(), 20, "no more were wanted");
    let served = serving.end();
    assert!(served.most <= 7 + 7, "those that end and those that begin overlap: {}", served.most);
}

#[test]
fn at_the_end_of_its_time_what_is_under_way_is_cut_and_counted_apart() {
    // Long enough for either side to wait for a processor, and paced, so that it takes little of one.
    let until = Until { count: None, time: Some(Duration::from_secs(5)) };
    let pacing = 1_000_000;
    let serving = Serving::usual();
    let mut plan = nightwatt_tcp::Plan { until, ..serving.plan(4, 1_000_000_000) };
    plan.options.pacing = pacing;
    let report = fetched(&plan);
    assert_eq!((report.ended, report.completed, report.failed, report.cut), (Ended::Time, 0, 0, 4));
    assert!(report.bytes > 0 && report.lifetime_s.is_none());
    let served = serving.end();
    assert_eq!((served.failed, served.completed), (4, 0), "{served:?}");
    assert_eq!(served.faults.get("reset"), Some(&4), "{served:?}");

    let serving = Serving::usual();
    let mut plan = nightwatt_tcp::Plan { until, ..serving.plan(4, 100) };
    plan.options.pacing = pacing;
    let report = fetched(&plan);
    assert!(report.completed > 0, "{report:?}");
    assert_eq!(report.completed + report.cut, report.started);
    // Both sides go by their own bytes.
    let per = |cpu: Duration, bytes: u64| cpu.as_secs_f64() / (bytes as f64 / 146_000.0);
    let expected = per(report.cpu.usage.cpu(), report.bytes);
    assert!((report.cpu.s_per_connection.unwrap() / expected - 1.0).abs() < 1e-9);
    let other_side = report.server.unwrap();
    let expected = per(other_side.session.cpu.cpu(), other_side.session.bytes);
    assert!((other_side.cpu_per.s_per_connection.unwrap() / expected - 1.0).abs() < 1e-9);
}

#[test]
fn it_ends_when_it_is_told_to() {
    let serving = Serving::usual();
    let mut plan = serving.plan(2, 10);
    plan.until = Until::default();
    let stop = nightwatt_clock::meter::Stop::new().unwrap();
    let mut seconds = 0;
    let theirs = stop.clone();
    let mut on_progress = |_: &nightwatt_tcp::Second| {
        seconds += 1;
        theirs.stop();
    };
    let report = nightwatt_tcp::fetch(&plan, &stop, Some(&mut on_progress)).unwrap();
    assert_eq!((report.ended, seconds), (Ended::Stopped, 1));
    assert_eq!(report.seconds[0].second, 0);
}

#[test]
fn two_clients_at_once_are_two_sessions() {
    let serving = Serving::usual();
    let plans = [serving.plan(20, 100), serving.plan(30, 10)];
    let reports: Vec<FetchReport> = std::thread::scope(|scope| {
        let clients = plans.each_ref().map(|plan| scope.spawn(|| fetched(plan)));
        clients.map(|client| client.join().unwrap()).into()
    });
    everything_agrees(&reports[0], 20, 146_000);
    everything_agrees(&reports[1], 30, 14_600);
}

#[test]
fn ipv6_does_as_well() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        println!("skipped: this machine has no ::1");
        return;
    }
    let serving = Serving::by(|plan| plan.listen = "[::1]:0".parse().unwrap());
    everything_agrees(&fetched(&serving.plan(10, 10)), 10, 14_600);
    // `[::]` is every address, those of IPv4 with them.
    let serving = Serving::by(|plan| plan.listen = "[::]:0".parse().unwrap());
    let mut plan = serving.plan(10, 10);
    plan.server = format!("127.0.0.1:{}", serving.address.port()).parse().unwrap();
    everything_agrees(&fetched(&plan), 10, 14_600);
}

#[test]
fn rows_of_a_file_are_the_records() {
    let serving = Serving::usual();
    let report = fetched(&serving.plan(3, 10));
    let rows = nightwatt_tcp::csv(&report);
    let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), 4);
    let column = |name: &str| rows[0].iter().position(|column| *column == name).unwrap();
    for row in &rows[1..] {
        assert_eq!(row.len(), rows[0].len());
        assert_eq!(row[column("client_bytes_received")], "14601", "with the sign of the end");
        assert_eq!((row[column("bytes")], row[column("fault")]), ("14600", ""));
    }
    let text = nightwatt_tcp::text(&report);
    assert!(text.contains("connections  3 = 3 completed + 0 failed + 0 cut"), "{text}");
    assert!(text.contains("lifetime") && text.contains("server CPU"), "{text}");
    assert!(text.lines().all(|line| line.len() < 120), "{text}");
}
