//! A mirror that is confirmed again and again keeps no memory. In a process of its own, since everything in it is
//! counted.

use std::alloc::System;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use nightwatt_httpcache::{Rules, Times, Timestamp};
use nightwatt_mirror::pure::address::Site;
use nightwatt_mirror::pure::admit::{AdmitRules, Answer, Ended};
use nightwatt_mirror::pure::plan::{Limits, Next, Order, PassKind, PassReport, PlanRules, Planner};
use nightwatt_mirror::pure::refresh::RefreshRules;
use nightwatt_mirror::pure::refused_addresses::PatternRules;
use nightwatt_mirror::pure::traps::TrapRules;
use nightwatt_mirror::store::{Bounds, Store};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PAGES: usize = 3000;

/// Changes that the proxy writes together.
const BATCH: usize = 64;

/// Bytes that are allocated now.
fn live() -> usize {
    let stats = COUNTED.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Three letters for each number.
fn word(number: usize) -> String {
    let letter = |place: u32| char::from(b"aeioulmnrstvwxyz"[number / 16_usize.pow(place) % 16]);
    (0..3).map(letter).collect()
}

/// A start page with links to all pages, each of which has a tag.
fn serve(order: &Order, asked: HeaderMap, now: Timestamp) -> Answer {
    let path = order.address.as_str();
    let links = || {
        let links: Vec<String> =
            (0..PAGES).map(|it| format!("<a href=\"/{}.html\">", word(it))).collect();
        links.concat()
    };
    let body: String = if path == "/" { links() } else { path.to_owned() };
    let status = match path {
        _ if asked.contains_key("if-none-match") => StatusCode::NOT_MODIFIED,
        _ if path == "/" || path.strip_suffix(".html").is_some() => StatusCode::OK,
        _ => StatusCode::NOT_FOUND,
    };
    let body = if status == StatusCode::OK { Bytes::from(body) } else { Bytes::new() };
    let mut headers = HeaderMap::new();
    if status != StatusCode::NOT_FOUND {
        headers.insert("content-type", HeaderValue::from_static("text/html"));
        headers.insert("etag", HeaderValue::from_static("\"1\""));
    }
    Answer { asked, status, headers, body, ended: Ended::Whole, times: Times::at(now) }
}

/// A whole pass, as the proxy makes it.
fn pass(plan: &mut Planner, store: &Store, now: &mut Timestamp) -> PassReport {
    plan.begin(PassKind::Whole, *now, None);
    let mut batch = Vec::new();
    loop {
        match plan.next(*now) {
            Next::Fetch(order) => {
                let before = store.current().find(&order.address).cloned();
                let asked = order.fields(before.as_deref(), plan.rules());
                let answer = serve(&order, asked, *now);
                batch.extend(plan.take(&order, &answer, before.as_deref(), *now).changes);
                if batch.len() >= BATCH {
                    store.apply(std::mem::take(&mut batch)).unwrap();
                }
            }
            Next::WaitUntil(then) => *now = then,
            Next::Done(report) => {
                store.apply(batch).unwrap();
                store.save_plan(&plan.saved()).unwrap();
                return report;
            }
            Next::WaitForAnswer | Next::Idle => panic!("nothing is under way"),
        }
    }
}

#[test]
fn passes_over_unchanged_pages_keep_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(dir.path(), "http://example.org/", Bounds::default()).unwrap();
    store.sync_no_bodies();
    let rules = PlanRules {
        limits: Limits { rate: 1000.0, ..Limits::default() },
        patterns: PatternRules::default(),
        traps: TrapRules::default(),
        admit: AdmitRules::new(&Rules::default(), 1_000_000, Vec::new()),
        refresh: RefreshRules::default(),
        seeds: Vec::new(),
        complete: true,
    };
    let mut plan = Planner::new(Site::new("http://example.org").unwrap(), rules);
    let mut now = Timestamp::from_secs(1_780_000_000);
    let mut memory = Vec::with_capacity(8);
    for number in 0..8 {
        let report = pass(&mut plan, &store, &mut now);
        let answers = if number == 0 { report.kept } else { report.confirmed };
        assert!(answers as usize > PAGES, "{report:?}");
        memory.push(live());
        now = now.plus(Duration::from_hours(25));
    }
    // After the first confirmation, not one byte for each page in six passes.
    assert!(memory[7] < memory[1] + PAGES, "bytes after each pass: {memory:?}");
    let each = memory[7] / PAGES;
    assert!(each < 2000, "{each} bytes for each page");
    println!("bytes after each pass: {memory:?}");
}
