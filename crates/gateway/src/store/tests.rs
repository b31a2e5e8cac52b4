use http::{HeaderMap, HeaderValue, Method, StatusCode};
use nightwatt_httpcache::{Filler, KeyRules, Sender, Times, purge::Place};
use nightwatt_policy::admission::ClientClass;
use proptest::prelude::*;

use super::*;

const MB: u64 = 1 << 20;

const REQUESTER: Requester = Requester::Of(ClientClass::Human);

fn key(path: &str) -> CacheKey {
    KeyRules::default().key("example.org", path).unwrap()
}

/// A response to `GET path` with these fields, received at the start of 2026.
fn stored(path: &str, fields: &[(&'static str, &str)]) -> Stored {
    let mut headers = HeaderMap::new();
    headers.insert("cache-control", HeaderValue::from_static("max-age=60"));
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let asked = HeaderMap::new();
    let request = RequestHead {
        method: &Method::GET,
        authority: "example.org",
        path_and_query: path,
        headers: &asked,
    };
    let times = Times::at(Timestamp::from_secs(1_767_225_600));
    Stored::new(&request, Filler::Client, StatusCode::OK, &headers, times, &Rules::default())
        .unwrap()
}

fn object(path: &str, bytes: usize) -> Object {
    Object::new(stored(path, &[]), Bytes::from(vec![b'x'; bytes]))
}

/// Fetches a resource, as a miss does.
fn fetch(store: &Arc<Store>, path: &str, bytes: usize) {
    store.ask(key(path), REQUESTER).store(object(path, bytes));
}

/// Looks a resource up, as a hit does.
fn hits(store: &Store, path: &str) -> bool {
    let now = Timestamp::from_secs(1_767_225_601);
    let rules = Rules::default();
    let values = |_: &http::HeaderName| std::iter::empty();
    store.find_plain(key(path).as_str(), Sender::ANONYMOUS, now, &rules, values).is_some()
}

fn purge(store: &Store, text: &str) -> usize {
    store.purge(&Purge::Prefix(Place::parse(text).unwrap())).0
}

#[test]
fn a_scan_of_what_nobody_asks_for_again_leaves_what_people_read() {
    // 4 MB hold some 400 of these; the scan is of 20 times as many.
    let store = Arc::new(Store::new(4 * MB, None));
    let hot: Vec<String> = (0..100).map(|number| format!("/hot/{number}")).collect();
    let read = |store: &Arc<Store>| {
        hot.iter()
            .filter(|path| !hits(store, path))
            .inspect(|path| fetch(store, path, 8 << 10))
            .count()
    };
    for _ in 0..3 {
        read(&store);
    }
    for number in 0..8000 {
        fetch(&store, &format!("/scan/{number}"), 8 << 10);
        assert!(store.size().1 <= 4 * MB);
    }
    let lost = hot.iter().filter(|path| !hits(&store, path)).count();
    assert!(lost <= 10, "the scan flushed {lost} of {}", hot.len());
    // And what is read while it is scanned stays too.
    let mut missed = 0;
    for number in 0..8000 {
        fetch(&store, &format!("/again/{number}"), 8 << 10);
        if number % 80 == 0 {
            missed += read(&store);
        }
    }
    assert!(missed <= 100, "{missed} of {} reads missed", 100 * hot.len());
}

#[test]
fn fields_weigh_as_well() {
    let store = Arc::new(Store::new(MB, None));
    let long = "v".repeat(60_000);
    let heavy = Object::new(stored("/a", &[("x-long", &long)]), Bytes::new());
    assert!(heavy.weight > 60_000, "{}", heavy.weight);
    let many: Vec<_> = (0..100).map(|_| ("x-many", "v")).collect();
    assert!(Object::new(stored("/a", &many), Bytes::new()).weight > 100 * FIELD);
    store.ask(key("/a"), REQUESTER).store(heavy);
    assert!(store.size().1 > 60_000);
}

#[test]
fn what_is_too_large_takes_the_place_of_nothing() {
    let store = Arc::new(Store::new(MB, None));
    fetch(&store, "/a", 1000);
    fetch(&store, "/b", (MB / LARGEST) as usize);
    assert_eq!(store.size().0, 1);
    // Older than what was just seen, `/a` must not be served any more.
    fetch(&store, "/a", (MB / LARGEST) as usize);
    assert_eq!(store.size().0, 0);
    // The largest that fits is kept, and stays beside others.
    fetch(&store, "/c", (MB / LARGEST) as usize - 4096);
    assert!(hits(&store, "/c"));
}

#[test]
fn variants_together_are_bounded() {
    let store = Arc::new(Store::new(MB, None));
    for number in 0..20 {
        let mut asked = HeaderMap::new();
        asked.insert("foo", HeaderValue::from(number));
        let mut headers = HeaderMap::new();
        headers.insert("cache-control", HeaderValue::from_static("max-age=60"));
        headers.insert("vary", HeaderValue::from_static("foo"));
        let request = RequestHead {
            method: &Method::GET,
            authority: "example.org",
            path_and_query: "/a",
            headers: &asked,
        };
        let times = Times::at(Timestamp::from_secs(1_767_225_600));
        let rules = Rules::default();
        let stored =
            Stored::new(&request, Filler::Client, StatusCode::OK, &headers, times, &rules).unwrap();
        store.ask(key("/a"), REQUESTER).store(Object::new(stored, Bytes::from(vec![b'x'; 40_000])));
        assert!(store.size().1 <= MB / LARGEST + 100);
    }
    let entry = store.objects.peek(&key("/a")).unwrap();
    assert_eq!(entry.variants.len(), 3, "of 40,000 bytes each");
}

#[test]
fn what_is_pinned_outlives_every_scan() {
    let store = Arc::new(Store::new(MB, None));
    let scan = |name: &str| {
        for number in 0..2000 {
            fetch(&store, &format!("/{name}/{number}"), 10_000);
        }
    };
    scan("before");
    // One like those of the scan: a smaller one might fit into what they left.
    for (path, bytes) in [("/plain", 10_000), ("/robots.txt", 2000), ("/sitemap-1.xml", 50_000)] {
        fetch(&store, path, bytes);
    }
    // Together they would take more than their part: this one is as mortal as the rest.
    fetch(&store, "/sitemap-2.xml", 90_000);
    scan("after");
    let left = |path: &&&str| hits(&store, path);
    let all = ["/plain", "/robots.txt", "/sitemap-1.xml", "/sitemap-2.xml"];
    assert_eq!(all.iter().filter(left).count(), 2);
    assert!(hits(&store, "/robots.txt") && hits(&store, "/sitemap-1.xml"));
    // Room that is free again can be taken.
    assert_eq!(purge(&store, "/sitemap-1"), 1);
    fetch(&store, "/sitemap-2.xml", 90_000);
    scan("again");
    assert!(hits(&store, "/robots.txt") && hits(&store, "/sitemap-2.xml"));
}

#[test]
fn what_is_forgotten_is_not_brought_back_by_an_older_answer() {
    let store = Arc::new(Store::new(MB, None));
    let (before, other) = (store.ask(key("/a"), REQUESTER), store.ask(key("/b"), REQUESTER));
    let _ = store.forget(&[key("/a")], None);
    let after = store.ask(key("/a"), REQUESTER);
    before.store(object("/a", 1));
    assert!(!hits(&store, "/a"), "asked for before");
    after.store(object("/a", 1));
    other.store(object("/b", 1));
    assert!(hits(&store, "/a") && hits(&store, "/b"));

    // The answer by which the change is known is itself newer than the change.
    let (old, change) = (store.ask(key("/a"), REQUESTER), store.ask(key("/a"), REQUESTER));
    let _ = store.forget(&[key("/a")], Some(&change));
    old.store(object("/a", 1));
    assert!(!hits(&store, "/a"));
    change.store(object("/a", 1));
    assert!(hits(&store, "/a"));
    drop((before, other, after, old, change));
    assert!(store.state().in_flight.is_empty());
}

#[test]
fn a_purge_counts_what_it_removes_and_outdates_what_is_on_its_way() {
    let store = Arc::new(Store::new(MB, None));
    for path in ["/a", "/a/1", "/a/2", "/b"] {
        fetch(&store, path, 1);
    }
    let late = store.ask(key("/a/3"), REQUESTER);
    let kept = late.collect(stored("/a/3", &[]), 4).unwrap();
    assert_eq!(purge(&store, "http://example.org/a/"), 2);
    assert_eq!(purge(&store, "http://example.org/a/"), 0);
    assert_eq!(purge(&store, "http://other.example/"), 0);
    kept.finish();
    assert!(!hits(&store, "/a/3"));
    assert!(hits(&store, "/a") && hits(&store, "/b"));
    assert_eq!(store.purge(&Purge::All).0, 2);
    assert_eq!(store.size(), (0, 0));
}

#[test]
fn answers_on_their_way_are_bounded_together() {
    let store = Arc::new(Store::new(8 * MB, None));
    let part = vec![b'x'; 100_000];
    let mut all: Vec<Option<Collecting>> = (0..64)
        .map(|number| {
            let path = format!("/{number}");
            store.ask(key(&path), REQUESTER).collect(stored(&path, &[]), 0)
        })
        .collect();
    for _ in 0..9 {
        for one in &mut all {
            if one.as_mut().is_some_and(|it| !it.take(&part)) {
                *one = None;
            }
            assert!(store.collected.load(Ordering::Relaxed) <= 8 * MB / COLLECTED);
        }
        let held = all_bytes(&all);
        assert!(held as u64 <= 8 * MB / COLLECTED, "{held} bytes are held");
    }
    let left = all.iter().flatten().count();
    assert!((1..=2).contains(&left), "{left} of 900,000 bytes fit in 2 MB");
    for one in all.into_iter().flatten() {
        one.finish();
    }
    assert_eq!(store.collected.load(Ordering::Relaxed), 0);
    assert_eq!(store.size().0, left);
}

fn all_bytes(all: &[Option<Collecting>]) -> usize {
    all.iter().flatten().map(Collecting::room).sum()
}

#[test]
fn a_body_of_another_length_than_announced_is_not_kept() {
    let store = Arc::new(Store::new(MB, None));
    for (bytes, kept) in [(3, false), (5, false), (4, true)] {
        let length = stored("/a", &[("content-length", "4")]);
        let mut body = store.ask(key("/a"), REQUESTER).collect(length, 0).unwrap();
        assert!(body.take(&vec![b'x'; bytes]));
        body.finish();
        assert_eq!(hits(&store, "/a"), kept, "{bytes} of 4 bytes");
    }
}

proptest! {
    #[test]
    fn never_over_the_bound(
        sizes in proptest::collection::vec((0_u32..40, 0_usize..200_000), 1..300),
    ) {
        let store = Arc::new(Store::new(MB, None));
        for (number, bytes) in sizes {
            let pinned = if number % 4 == 0 { "/sitemap" } else { "/" };
            fetch(&store, &format!("{pinned}{number}"), bytes);
            let (_, weight) = store.size();
            prop_assert!(weight <= MB, "{} bytes", weight);
            let pinned: u64 = store.state().pinned.values().sum();
            prop_assert!(pinned <= MB / PINNED);
        }
    }

    #[test]
    fn a_body_is_kept_as_it_came(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9000), 0..9),
        known: bool,
    ) {
        let store = Arc::new(Store::new(MB, None));
        let whole = parts.concat();
        let length = if known { whole.len() as u64 } else { 0 };
        let mut body = store.ask(key("/a"), REQUESTER).collect(stored("/a", &[]), length).unwrap();
        for part in &parts {
            prop_assert!(body.take(part));
            let taken = store.collected.load(Ordering::Relaxed);
            prop_assert!(taken >= body.room() as u64);
            prop_assert!(!known || taken <= length.max(1), "{taken} for {length}");
        }
        body.finish();
        let entry = store.objects.peek(&key("/a")).unwrap();
        prop_assert_eq!(&entry.variants[0].body[..], &whole[..]);
    }
}
