//! Requests leave at their times, whatever becomes of them, and each is accounted for.

use std::collections::HashSet;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_load::{
    Answer, Error, ErrorKind, Options, OriginOptions, Progress, ReplaySummary, RequestKind, Run,
    ServiceTime, Target, replay, speed_for,
};
use nightwatt_traffic::Arrival;

use crate::stage::{
    against_origin, against_stub, answer, at, csv, deserted_address, get, options, virtual_clock,
};

/// A log with everything in it that logs have.
fn mixed_log() -> Vec<Arrival> {
    let mut log = Vec::new();
    for n in 0..300_u64 {
        let mut arrival = get(n / 3 * 20, &format!("/page-{}?n={n}", n % 17));
        arrival.bytes = n * 977 % 200_000;
        arrival.method =
            ["GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "PUT"][n as usize % 7].into();
        arrival.status = [200, 200, 200, 304, 404, 301, 500, 206, 204, 101, 403][n as usize % 11];
        log.push(arrival);
    }
    for target in ["http://x/", "/a#b", "/a b", "*", "example.org:443"] {
        log.push(get(33, target));
    }
    log.push(Arrival { method: "CONNECT".into(), ..get(34, "example.org:443") });
    log.push(Arrival { method: "\u{16}\u{3}".into(), ..get(35, "/") });
    log.push(Arrival { method: "OPTIONS".into(), ..get(36, "*") });
    log
}
const UNSENDABLE: usize = 7;

fn everyone_is_accounted_for(log: &[Arrival], run: &Run, record: &[String]) {
    let traces = run.outcomes.iter().filter(|outcome| outcome.kind == RequestKind::Trace);
    let arrivals: Vec<usize> = traces.map(|outcome| outcome.arrival).collect();
    assert_eq!(arrivals, (0..log.len()).collect::<Vec<_>>(), "one trace outcome per arrival");
    let ids: HashSet<&str> = run.outcomes.iter().map(|outcome| outcome.id.as_str()).collect();
    assert_eq!(ids.len(), run.outcomes.len(), "ids are unique");

    let sent = run.outcomes.iter().filter(|o| o.error != Some(ErrorKind::Unsendable));
    let mut sent: Vec<String> = sent
        .map(|o| {
            let arrival = &log[o.arrival];
            format!("{}\t{}\t{}\t{}", o.id, arrival.method, arrival.target, o.status.unwrap())
        })
        .collect();
    let mut served: Vec<String> =
        record.iter().map(|line| line.rsplit_once('\t').unwrap().0.to_owned()).collect();
    sent.sort();
    served.sort();
    assert_eq!(sent, served, "what was sent is what was served");
    assert_eq!(run.unsendable(), UNSENDABLE);
    assert_eq!(run.unsendable_samples.len(), UNSENDABLE);
}

#[test]
fn the_origin_answers_as_the_log_says_in_virtual_time_and_at_the_logs_times() {
    let log = mixed_log();
    let clock = virtual_clock();
    let (run, record) = against_origin(&clock, &log, &options(), OriginOptions::default());
    everyone_is_accounted_for(&log, &run, &record);
    for outcome in run.outcomes.iter().filter(|o| o.error.is_none()) {
        let arrival = &log[outcome.arrival];
        let time = Duration::from_millis(u64::try_from(arrival.at.0 - log[0].at.0).unwrap());
        assert_eq!((outcome.intended.0, outcome.sent.0), (time, time));
        assert_eq!(outcome.answered, Some(outcome.intended), "answers take no virtual time");
        assert_eq!(outcome.answer, Some(Answer::Origin));
        let (expected, size) = match (arrival.status, arrival.method.as_str()) {
            // Parts and conditions are matters of GET; 101 is no final answer.
            (206, "GET") if arrival.bytes > 0 => (206, arrival.bytes),
            (101 | 206, _) => (200, arrival.bytes),
            (304, "POST" | "PUT" | "OPTIONS") => (200, 4096),
            (status, _) => (status, arrival.bytes),
        };
        assert_eq!(outcome.status, Some(expected), "{arrival:?}");
        let empty = arrival.method == "HEAD" || [204, 304].contains(&expected);
        assert_eq!(outcome.bytes, if empty { 0 } else { size }, "{arrival:?}");
    }
    assert_eq!(run.connections, 1, "one after the other over one connection");
    assert_eq!((run.client_limited, run.lag.max), (0, Duration::ZERO));
}

#[test]
fn the_same_replay_twice_gives_the_same_rows() {
    let log = mixed_log();
    let rows = || {
        let (run, _) = against_origin(&virtual_clock(), &log, &options(), OriginOptions::default());
        csv(&log, &run.outcomes)
    };
    let first = rows();
    assert_eq!(first, rows());
    assert_eq!(first.lines().count(), log.len() + 1);
    let columns = |line: &str| line.split(',').count();
    assert!(first.lines().next().is_some_and(|names| columns(names) == 20));
}

#[test]
fn in_real_time_a_fast_replay_keeps_its_pace_and_its_counts() {
    let log = mixed_log();
    let options = Options {
        speed: speed_for(&log, Duration::from_millis(300)),
        body_limit: Some(5000),
        ..options()
    };
    let clock = Clock::real();
    let (run, record) = against_origin(&clock, &log, &options, OriginOptions::default());
    everyone_is_accounted_for(&log, &run, &record);
    assert!(run.outcomes.iter().all(|outcome| outcome.bytes <= 5000));
    assert!(run.ended.mono.since(run.started.mono) >= Duration::from_millis(299));
    let first = run.outcomes[0].intended;
    let last = run.outcomes[299].intended;
    let time = last.since(first).as_secs_f64();
    assert!((time - 0.3).abs() < 0.002, "{time}");
}

#[test]
fn a_server_that_stalls_delays_nobody_but_those_it_stalls() {
    let log: Vec<Arrival> = (0..30).map(|n| get(n, "/stall")).collect();
    let clock = virtual_clock();
    let (run, seen) = against_stub(&clock, &log, &options(), |clock, _| async move {
        clock.parked(clock.sleep(Duration::from_secs(40))).await;
        answer(200, &[("nightwatt-answer", "held")], "at last")
    });
    for (n, outcome) in run.outcomes.iter().enumerate() {
        let n = n as u64;
        assert_eq!((outcome.intended, outcome.sent), (at(n), at(n)));
        assert_eq!(outcome.answered, Some(at(n + 40)));
        assert_eq!(seen[n as usize].0, at(n), "it left while all those before were held");
    }
    assert_eq!(run.connections, 30);
    assert_eq!(run.ended.mono, at(69));
}

#[test]
fn too_few_connections_are_the_clients_fault_and_it_says_so() {
    let log: Vec<Arrival> = (0..4).map(|n| get(n, "/slow")).collect();
    let options = Options { max_open: Some(2), ..options() };
    let (run, _) = against_stub(&virtual_clock(), &log, &options, |clock, _| async move {
        clock.parked(clock.sleep(Duration::from_secs(10))).await;
        answer(200, &[], "")
    });
    let sent: Vec<_> = run.outcomes.iter().map(|outcome| outcome.sent).collect();
    assert_eq!(sent, [at(0), at(1), at(10), at(11)]);
    let delays: Vec<_> = run.outcomes.iter().map(|o| o.delay().unwrap().as_secs()).collect();
    assert_eq!(delays, [10, 10, 18, 18], "delays count from the intended time");
    assert_eq!((run.client_limited, run.connections), (2, 2));
    assert_eq!(run.lag.max, Duration::from_secs(8));
    assert!(run.client_was_the_bottleneck());
    assert!(run.warnings()[0].starts_with("the client was the bottleneck: 2 requests"));
}

#[test]
fn a_request_is_given_up_after_its_time_and_virtual_time_stays_in_order() {
    // Each is held for ever; the next comes just when the one before is given up.
    let log: Vec<Arrival> = (0..5).map(|n| get(n * 60, "/never")).collect();
    let (run, seen) = against_stub(&virtual_clock(), &log, &options(), |clock, _| async move {
        clock.parked(clock.sleep(Duration::from_hours(1))).await;
        answer(200, &[], "")
    });
    for (n, outcome) in run.outcomes.iter().enumerate() {
        assert_eq!(outcome.error, Some(ErrorKind::Timeout));
        assert_eq!((outcome.answered, outcome.status), (None, None));
        assert_eq!(seen[n].0, at(60 * n as u64));
    }
    assert_eq!(run.ended.mono, at(300));
    let summary = ReplaySummary::of(&run, ServiceTime::default());
    assert_eq!((summary.requests, summary.no_answer, summary.never_got_content), (5, 5, 5));
}

#[test]
fn virtual_time_waits_for_the_answers_of_others_after_somebody_gave_up() {
    let log = [get(0, "/never"), get(61, "/quick"), get(62, "/quick")];
    let (run, _) = against_stub(&virtual_clock(), &log, &options(), |clock, request| async move {
        if request.uri() == "/never" {
            clock.parked(clock.sleep(Duration::from_hours(1))).await;
        }
        // Work, which takes real time and no virtual time.
        Clock::real().sleep(Duration::from_millis(5)).await;
        answer(200, &[], "")
    });
    let answered: Vec<_> = run.outcomes.iter().map(|outcome| outcome.answered).collect();
    assert_eq!(answered, [None, Some(at(61)), Some(at(62))]);
}

#[test]
fn nobody_there_is_an_outcome_too() {
    let clock = virtual_clock();
    let log = [get(0, "/"), get(1, "/")];
    let run = clock.runtime().unwrap().block_on(async {
        let nobody = Target::at(deserted_address());
        replay(&log, &nobody, &options(), &clock, |_| {}).await.unwrap()
    });
    assert!(run.outcomes.iter().all(|o| o.error == Some(ErrorKind::Connect)));
}

#[test]
fn a_kept_connection_that_died_is_replaced_and_nothing_is_sent_twice_that_must_not_be() {
    // The stub closes after each answer without having said so.
    let log = [get(0, "/a"), get(10, "/b"), Arrival { method: "POST".into(), ..get(20, "/c") }];
    let clock = virtual_clock();
    let (run, seen) = {
        let log = log.clone();
        clock.runtime().unwrap().block_on(async {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let target = Target::at(listener.local_addr().unwrap());
            let server = tokio::spawn(async move {
                let mut seen = Vec::new();
                while seen.len() < 3 {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let mut request = [0; 2048];
                    let read = stream.read(&mut request).await.unwrap();
                    let line = String::from_utf8_lossy(&request[..read]);
                    seen.push(line.lines().next().unwrap().to_owned());
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                        .await
                        .unwrap();
                }
                seen
            });
            let run = replay(&log, &target, &options(), &clock, |_| {}).await.unwrap();
            (run, server.await.unwrap())
        })
    };
    assert_eq!(seen, ["GET /a HTTP/1.1", "GET /b HTTP/1.1", "POST /c HTTP/1.1"]);
    assert!(run.outcomes.iter().all(|outcome| outcome.status == Some(200)));
    assert_eq!(run.connections, 3);
}

#[test]
fn progress_reaches_its_end_and_speeds_that_make_no_sense_are_refused() {
    let clock = virtual_clock();
    let log = [get(5, "/later"), get(0, "/first")];
    clock.runtime().unwrap().block_on(async {
        let target = Target::at(deserted_address());
        let mut last = None;
        let run = replay(&log, &target, &options(), &clock, |now| last = Some(now)).await.unwrap();
        let elapsed = Duration::from_secs(5);
        let end = Progress { total: 2, sent: 2, done: 2, follow_ups: 0, elapsed };
        assert_eq!(last, Some(end));
        assert_eq!(run.outcomes[0].intended, at(5), "arrivals may come out of order");
        assert_eq!(run.outcomes[1].intended, at(0));
        for speed in [0.0, -1.0, f64::NAN, 2.0] {
            let options = Options { speed, ..options() };
            let refused = replay(&log, &target, &options, &clock, |_| {}).await;
            assert!(matches!(refused, Err(Error::Speed(_) | Error::SpeedInVirtualTime)), "{speed}");
        }
        let nothing = replay(&[], &target, &options(), &clock, |_| {}).await.unwrap();
        assert!(nothing.outcomes.is_empty());
    });
}

#[test]
fn base_urls_are_understood_or_refused_with_a_hint() {
    let clock = Clock::real();
    clock.runtime().unwrap().block_on(async {
        let at = async |url| Target::resolve(url).await.map(|target| target.address().to_string());
        assert_eq!(at("http://127.0.0.1:8080/").await.unwrap(), "127.0.0.1:8080");
        assert_eq!(at("http://127.0.0.1").await.unwrap(), "127.0.0.1:80");
        assert_eq!(at("http://[::1]:81").await.unwrap(), "[::1]:81");
        for url in ["https://127.0.0.1/", "127.0.0.1:80", "http://127.0.0.1/a", "http://u@h/", ""] {
            assert!(matches!(at(url).await, Err(Error::BaseUrl { .. })), "{url}");
        }
    });
}

#[test]
fn requests_that_a_limit_for_one_client_refused_are_named() {
    let log: Vec<Arrival> = (0..3).map(|n| get(n, "/page")).collect();
    let (run, _) = against_stub(&virtual_clock(), &log, &options(), |_, request| async move {
        let limited = request.headers()["x-request-id"] == "replay-1";
        let (status, how) = if limited { (503, "limited") } else { (200, "server") };
        answer(status, &[("nightwatt-answer", how)], "")
    });
    let warnings = run.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("1 requests") && warnings[0].contains("held_per_client"));
}
