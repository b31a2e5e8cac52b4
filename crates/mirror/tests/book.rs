//! A real site, mirrored whole: the book that rustup installs with the documentation of Rust.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use nightwatt_httpcache::{RequestHead, Rules, Times, Timestamp};
use nightwatt_mirror::coding::{Coding, unpack};
use nightwatt_mirror::pure::address::{Address, Site};
use nightwatt_mirror::pure::admit::{AdmitRules, Answer, Ended};
use nightwatt_mirror::pure::plan::{Limits, Next, Order, PassKind, PassReport, PlanRules, Planner};
use nightwatt_mirror::pure::refresh::RefreshRules;
use nightwatt_mirror::pure::refused_addresses::PatternRules;
use nightwatt_mirror::pure::represent::{Question, Represented, Server, StoredBody};
use nightwatt_mirror::pure::traps::TrapRules;
use nightwatt_mirror::store::{Bounds, Store};

const START: Timestamp = Timestamp::from_secs(1_780_000_000);

/// The files of the book, by their paths.
fn book() -> Option<BTreeMap<String, Vec<u8>>> {
    let home = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".rustup")))?;
    let toolchains = std::fs::read_dir(home.join("toolchains")).ok()?.flatten();
    let mut books = toolchains.map(|it| it.path().join("share/doc/rust/html/book"));
    let book = books.find(|it| it.join("index.html").is_file())?;
    let (mut files, mut folders) = (BTreeMap::new(), vec![book.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(&book).unwrap().to_str().unwrap().to_owned();
                files.insert(format!("/{name}"), std::fs::read(path).unwrap());
            }
        }
    }
    let start = files["/index.html"].clone();
    files.insert("/".to_owned(), start);
    Some(files)
}

fn media_of(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") | None => "text/html; charset=utf-8",
        Some("css") => "text/css",
        Some("js") => "application/javascript",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}

/// As a plain file server does.
fn serve(
    files: &BTreeMap<String, Vec<u8>>,
    order: &Order,
    asked: HeaderMap,
    now: Timestamp,
) -> Answer {
    let path = order.address.path();
    let (status, body) = match files.get(path) {
        Some(body) => (StatusCode::OK, body.clone()),
        None => (StatusCode::NOT_FOUND, b"not found".to_vec()),
    };
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(media_of(path)));
    let tag = format!("\"{:x}-{}\"", body.len(), path.len());
    headers.insert("etag", HeaderValue::from_str(&tag).unwrap());
    let is_same = asked.get("if-none-match") == headers.get("etag");
    Answer {
        asked,
        status: if is_same { StatusCode::NOT_MODIFIED } else { status },
        headers,
        body: if is_same { Bytes::new() } else { body.into() },
        ended: Ended::Whole,
        times: Times::at(now),
    }
}

fn rules() -> PlanRules {
    PlanRules {
        limits: Limits::default(),
        patterns: PatternRules::default(),
        traps: TrapRules::default(),
        admit: AdmitRules::new(&Rules::default(), 16 << 20, Vec::new()),
        refresh: RefreshRules::default(),
        seeds: Vec::new(),
        complete: true,
    }
}

/// A whole pass, as the gateway makes it, without a network.
fn pass(
    planner: &mut Planner,
    store: &Store,
    files: &BTreeMap<String, Vec<u8>>,
    from: Timestamp,
) -> PassReport {
    let (mut now, mut orders) = (from, Vec::new());
    planner.begin(PassKind::Whole, now, None);
    loop {
        match planner.next(now) {
            Next::Fetch(order) => orders.push(order),
            Next::WaitUntil(when) => now = when,
            Next::WaitForAnswer => {
                let order = orders.remove(0);
                let before = store.current().find(&order.address).cloned();
                let fields = order.fields(before.as_deref(), planner.rules());
                let answer = serve(files, &order, fields, now);
                let taken = planner.take(&order, &answer, before.as_deref(), now);
                let applied = store.apply(taken.changes).unwrap();
                assert!(applied.full.is_empty() && applied.lost.is_empty());
            }
            Next::Done(report) => return report,
            Next::Idle => panic!("a pass is running"),
        }
    }
}

fn ask(store: &Store, path: &str, coding: &'static str, now: Timestamp) -> Option<Represented> {
    let entry = store.current().find_str(path)?.clone();
    let body = entry.body.map_or(StoredBody::EMPTY, |body| store.body(&body).unwrap());
    let mut headers = HeaderMap::new();
    headers.insert("accept-encoding", HeaderValue::from_static(coding));
    let (rules, refresh) = (rules().admit.cache, RefreshRules::default());
    let request = RequestHead {
        method: &Method::GET,
        authority: "book.example",
        path_and_query: path,
        headers: &headers,
    };
    let question =
        Question { request, server: Server::Asleep, now, rules: &rules, refresh: &refresh };
    let stored = question.may_have(&entry).unwrap();
    Some(question.answer(&entry, &stored, &body).unwrap())
}

/// mdBook writes links of its text in one form: what a search for that finds in the pages that are mirrored. (The
/// book has pages of older editions, to which nothing links.)
fn links_by_text(files: &BTreeMap<String, Vec<u8>>, store: &Store) -> BTreeSet<String> {
    let site = Site::new("http://book.example").unwrap();
    let mut linked = BTreeSet::new();
    let is_page = |path: &str| {
        media_of(path).starts_with("text/html") && store.current().find_str(path).is_some()
    };
    for (path, body) in files.iter().filter(|(path, _)| is_page(path)) {
        let text = String::from_utf8_lossy(body);
        let base = site.base().join(path).unwrap();
        for part in text.split("<a href=\"").skip(1) {
            let reference = part.split('"').next().unwrap().replace("&amp;", "&");
            linked.extend(site.resolve(&base, &reference).ok().map(String::from));
        }
    }
    linked
}

#[test]
fn the_book_is_mirrored_whole_and_every_page_is_the_servers_own_byte_for_byte() {
    let Some(files) = book() else {
        println!("skipped: rustup has not installed the documentation of Rust (rust-docs)");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let site = || Site::new("http://book.example").unwrap();
    let bounds = Bounds::default();
    let (store, _) = Store::open(dir.path(), site().base().as_str(), bounds).unwrap();
    let mut planner = Planner::new(site(), rules());
    let report = pass(&mut planner, &store, &files, START);
    assert_eq!((report.failed, report.was_cut, report.reached_bound), (0, false, false));
    let now = report.ended;

    let mut pages = 0;
    for path in links_by_text(&files, &store) {
        // What is not there is known not to be there.
        let there = files.get(Address::new(&path).unwrap().path());
        let answer =
            ask(&store, &path, "identity", now).unwrap_or_else(|| panic!("{path} is linked"));
        assert_eq!(answer.status.as_u16(), if there.is_some() { 200 } else { 404 }, "{path}");
        let Some(body) = there else { continue };
        assert_eq!(answer.body, body, "{path}");
        for (asked, coding) in [("gzip", Coding::Gzip), ("br, gzip", Coding::Brotli)] {
            let answer = ask(&store, &path, asked, now).unwrap();
            assert_eq!(Coding::of_answer(&answer.headers), Some(coding), "{path}");
            assert_eq!(unpack(coding, &answer.body, 1 << 30).unwrap(), *body, "{path}");
        }
        pages += 1;
    }
    assert!(pages > 100, "{pages} pages");
    let sent: usize =
        store.current().iter().filter_map(|it| it.body).map(|it| it.length as usize).sum();
    assert!((store.bytes() as usize) < sent / 2, "{} of {sent} bytes", store.bytes());

    // Complete, by its own check: a path that no page links to is not there.
    assert_eq!(planner.completeness().not_complete(), None);
    assert!(planner.is_absent(&Address::new("/wp-content/x").unwrap()));
    assert!(!planner.is_absent(&Address::new("/ch01-00-getting-started").unwrap()));

    // A day later nothing has changed: all is confirmed, and no body is written.
    store.save_plan(&planner.saved()).unwrap();
    drop(store);
    let (store, opened) = Store::open(dir.path(), site().base().as_str(), bounds).unwrap();
    let mut planner = Planner::new(site(), rules());
    let unwanted = planner.restore(opened.plan, store.current().iter().map(AsRef::as_ref), now);
    assert_eq!(unwanted, []);
    let day = Timestamp::from_secs(START.as_secs() + 86_400);
    let (bytes, length) = (store.bytes(), store.current().len());
    let report = pass(&mut planner, &store, &files, day);
    assert_eq!((report.kept, report.confirmed + 1), (1, report.requests), "all but robots.txt");
    assert_eq!((store.bytes(), store.current().len()), (bytes, length));
}
