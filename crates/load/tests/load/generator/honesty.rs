//! What a server does must not change when requests are due, nor hide in the figures.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::histogram::RELATIVE_ERROR;
use nightwatt_energy::stats::percentile;
use nightwatt_load::generate::{
    COLUMNS, Mix, Plan, RequestDefaults, Rows, Schedule, Sending, Until, generate,
};
use nightwatt_policy::arrivals::Arrivals;

use super::{Reply, ok, page, plan, rate, run, run_with_progress, serve};

#[test]
fn a_stall_shows_in_every_request_that_was_due_meanwhile() {
    const STALLS: u64 = 20;
    let stall = Duration::from_secs(1);
    let (tell, told) = mpsc::channel();
    let (stalled, told) = (Arc::new(Mutex::new(Duration::ZERO)), Mutex::new(told));
    let theirs = Arc::clone(&stalled);
    let address = serve(move |_, all, _| {
        if all == STALLS {
            let begin = monotonic();
            Stop::new().unwrap().wait_until(begin + stall);
            // And until a second's requests have met it: the client, too, may have waited for a processor.
            let told = told.lock().unwrap();
            while told.recv().unwrap() < STALLS + 200 {}
            *theirs.lock().unwrap() = monotonic().since(begin);
        }
        Reply::Answer(ok("hi"))
    });
    // With one connection a closed loop would send nothing while the server stalls, and would report
    // one slow request.
    let one = Plan { connections: 1, ..plan(address, 200.0, 300) };
    let tell = |sending: Sending| {
        let _ = tell.send(sending.due);
    };
    let (report, samples) = run_with_progress(&one, &Stop::new().unwrap(), tell);
    assert_eq!(report.requests.answered, 300);
    let stalled = *stalled.lock().unwrap();
    let first = &samples[STALLS as usize];
    assert!(first.latency().unwrap() >= stalled && stalled >= stall);
    let due_meanwhile = samples.iter().skip(STALLS as usize + 1);
    let due_meanwhile = due_meanwhile.take_while(|sample| sample.intended < first.end);
    let mut count = 0;
    for sample in due_meanwhile {
        count += 1;
        assert!(sample.end >= first.end, "{sample:?} did not wait for {first:?}");
        assert!(sample.intended + sample.latency().unwrap() >= first.end);
        assert!(sample.sent.unwrap() >= first.end && sample.waited, "{sample:?}");
    }
    // At 200 a second, 199 are due within any second after a request that was.
    assert!(count >= 199, "{count}");
    // Two of three requests at least were due in the stall: the median knows of it.
    assert!(report.latency_s.max.unwrap() >= stall.as_secs_f64());
    assert!(report.latency_s.p50.unwrap() > report.service_s.p50.unwrap());
    assert!(report.client.limits.contains(&"connections"), "{:?}", report.client);
}

#[test]
fn requests_leave_when_due_although_nobody_has_been_answered() {
    let arrived = Arc::new((Mutex::new(0), Condvar::new()));
    // No client is answered before all have come: a client that waits for an answer first would
    // wait for ever.
    let address = serve(move |_, _, _| {
        let (count, all_here) = &*arrived;
        *count.lock().unwrap() += 1;
        all_here.notify_all();
        let _all = all_here.wait_while(count.lock().unwrap(), |count| *count < 40).unwrap();
        Reply::Answer(ok("hi"))
    });
    let (report, samples) = run(&plan(address, 400.0, 40));
    assert_eq!((report.requests.answered, report.connections.most_open), (40, 40));
    let last = samples[39].sent.unwrap();
    assert!(samples.iter().all(|sample| sample.end >= last && !sample.waited));
}

#[test]
fn a_rate_that_nobody_keeps_can_be_stopped_and_what_is_skipped_is_told() {
    let (never, silence) = mpsc::channel::<()>();
    let silence = Mutex::new(silence);
    let address = serve(move |_, _, _| {
        let _ = silence.lock().unwrap().recv();
        Reply::Close
    });
    // More falls due in a second than can be gone through in minutes.
    let hasty = Plan { until: Until::default(), connections: 1, ..plan(address, 1e10, 0) };
    let stop = Stop::new().unwrap();
    let tell = |sending: Sending| {
        if sending.due > 2_000_000 {
            stop.stop();
        }
    };
    let report = generate(&hasty, &stop, None, tell, |_| ()).unwrap();
    drop(never);
    let run = report.run;
    assert!(report.ended_early && run.due > 2_000_000, "{run:?}");
    assert_eq!(run.due, run.answered + run.failed + run.unsent);
    assert_eq!(run.failed, 1, "one was sent, and nobody answered it");
    // A million may wait; as many again are looked at when it is stopped.
    let skipped = report.errors["skipped"];
    assert!(skipped > 0 && run.due - skipped <= 2_000_001, "{run:?}, {skipped} skipped");
    assert!(report.client.limits.contains(&"rate"), "{:?}", report.client);
    assert!(report.warnings.iter().any(|it| it.contains("requests were skipped")));
}

#[test]
fn a_run_at_a_rate_that_nobody_keeps_ends_when_nothing_could_be_answered_in_time_any_more() {
    let address = serve(|_, _, _| Reply::Answer(ok("hi")));
    let short = Duration::from_millis(10);
    // A hundred million are due within it.
    let until = Until { time: Some(short), requests: None };
    let hasty = Plan { until, timeout: short, ..plan(address, 1e10, 0) };
    let report = generate(&hasty, &Stop::new().unwrap(), None, |_| (), |_| ()).unwrap();
    assert!(!report.ended_early && report.run.due < 100_000_000, "{:?}", report.run);
    assert!(report.client.limits.contains(&"rate"), "{:?}", report.client);
    assert!(
        report
            .warnings
            .iter()
            .any(|it| it.contains("more was due than could even be gone through"))
    );
}

#[test]
fn the_report_says_what_the_rows_say() {
    let address = serve(|_, all, head| match all % 7 {
        3 => Reply::Close,
        5 => Reply::Answer("HTTP/1.1 404 x\r\nContent-Length: 3\r\n\r\n404".into()),
        _ => Reply::Answer(ok(if head.contains("/long") { "a longer body" } else { "hi" })),
    });
    let wanted = [page(address, "/a,b"), page(address, "/long")];
    let plan = Plan {
        arrivals: Arrivals::Poisson(rate(1500.0)),
        mix: Mix::weighted(&wanted, &RequestDefaults::default()).unwrap(),
        seed: 11,
        until: Until { time: Some(Duration::from_millis(400)), requests: None },
        warm_up: Duration::from_millis(100),
        cool_down: Duration::from_millis(50),
        threads: Some(2),
        ..plan(address, 1.0, 1)
    };
    let (report, samples) = run(&plan);
    // The schedule is what the plan says, to the nanosecond, on however many threads.
    let schedule = Schedule::new(&plan.arrivals, &plan.mix, plan.seed, plan.until);
    let due: Vec<_> = schedule.map(|due| (due.number, due.at, due.wanted)).collect();
    let sent: Vec<_> =
        samples.iter().map(|sample| (sample.number, sample.intended, sample.wanted)).collect();
    assert_eq!(sent, due);

    let mut rows = Rows::new(Vec::new()).unwrap();
    for sample in &samples {
        rows.write(sample, &plan.mix).unwrap();
    }
    let text = String::from_utf8(rows.finish().unwrap()).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(names, COLUMNS.map(|(name, _)| name));
    let column = |name| names.iter().position(|own| *own == name).unwrap();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len() as u64, report.run.due);
    let counted = || rows.iter().filter(|row| row[column("counted")] == "1");
    let (mut statuses, mut errors) = (BTreeMap::new(), BTreeMap::new());
    let (mut latencies, mut lags, mut bytes) = (Vec::new(), Vec::new(), 0);
    let seconds = |text: &str| text.parse::<f64>().unwrap();
    for row in counted() {
        let intended = seconds(row[column("intended_s")]);
        assert!((0.1..0.35).contains(&intended), "{row:?}");
        bytes += row[column("bytes")].parse::<u64>().unwrap();
        lags.push(seconds(row[column("sent_s")]) - intended);
        match row[column("error")] {
            "" => {
                *statuses.entry(format!("{}xx", &row[column("status")][..1])).or_insert(0) += 1;
                latencies.push(seconds(row[column("end_s")]) - intended);
            }
            error => *errors.entry(error).or_insert(0) += 1,
        }
    }
    assert_eq!((report.statuses, report.errors, report.body_bytes), (statuses, errors, bytes));
    assert_eq!(report.requests.due, counted().count() as u64);
    let found = report.requests;
    assert_eq!(found.due, found.answered + found.failed + found.unsent);
    for (told, mut exact) in [(report.latency_s, latencies), (report.send_lag_s, lags)] {
        exact.sort_by(f64::total_cmp);
        assert_eq!(told.count, exact.len() as u64);
        for (told, p) in [(told.p50, 50.0), (told.p90, 90.0), (told.p99, 99.0), (told.max, 100.0)] {
            let (told, exact) = (told.unwrap(), percentile(&exact, p));
            // Rows are to the nanosecond, sums of floats a little less.
            let (least, most) = (exact - 1e-9, exact * (1.0 + RELATIVE_ERROR) + 1e-9);
            assert!((least..=most).contains(&told), "p{p}: {told} for {exact}");
        }
    }
    assert!(text.lines().any(|line| line.ends_with("/a,b\"")), "a comma is quoted");
}
