mod kill;

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use nightwatt_httpcache::{Rules, Times, Timestamp};

use super::*;
use crate::coding::Coding;
use crate::pure::entry::EntryParts;

const SITE: &str = "https://example.org/";

fn rules() -> Rules {
    Rules { assumes: true, ..Rules::default() }
}

fn at(path: &str) -> Address {
    Address::new(path).unwrap()
}

fn put(path: &str, media: &str, body: &[u8]) -> Change {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_str(media).unwrap());
    headers.insert("x-odd", HeaderValue::from_bytes(b"caf\xe9").unwrap());
    let hash = BodyHash::of(body);
    let entry = Entry::new(
        &EntryParts {
            address: &at(path),
            asked: &HeaderMap::new(),
            status: StatusCode::OK,
            headers: &headers,
            times: Times::at(Timestamp::from_secs(1_780_000_000)),
            body: (!body.is_empty()).then_some(BodyRef { hash, length: body.len() as u64 }),
            was_coded: false,
            overridden: false,
            is_page: true,
        },
        &rules(),
    );
    Change::Put { entry: Box::new(entry.unwrap()), body: Bytes::copy_from_slice(body) }
}

fn open(path: &Path) -> (Store, Opened) {
    Store::open(path, SITE, Bounds::default()).unwrap()
}

/// The body that is mirrored under a path, unpacked.
fn body_of(store: &Store, path: &str) -> Option<Vec<u8>> {
    let entry = store.current().find_str(path)?.clone();
    let Some(body) = entry.body else { return Some(Vec::new()) };
    let stored = store.body(&body).ok()?;
    Some(crate::coding::unpack(stored.coding, &stored.bytes, stored.length).unwrap())
}

fn files(path: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(path.join("bodies")).unwrap().flatten();
    let folders = folders.filter(|it| it.path().is_dir());
    folders
        .flat_map(|it| std::fs::read_dir(it.path()).unwrap())
        .map(|it| it.unwrap().path())
        .collect()
}

fn manifest_of(path: &Path) -> PathBuf {
    let mut names = manifest::list_for_tests(path);
    assert_eq!(names.len(), 1, "{names:?}");
    names.remove(0)
}

#[test]
fn what_was_applied_is_there_after_a_restart_and_what_was_removed_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (store, opened) = open(dir.path());
    assert_eq!(opened, Opened::default());
    let text = b"<p>hello</p>".repeat(200);
    store.apply(vec![put("/a", "text/html", b"old"), put("/b", "text/html", b"b")]).unwrap();
    store.apply(vec![put("/a", "text/html", &text), put("/c", "image/png", b"")]).unwrap();
    let applied = store.apply(vec![Change::Remove(at("/b"))]).unwrap();
    assert_eq!(applied.generation, 3);
    let before = store.current();
    drop(store);
    let (store, opened) = open(dir.path());
    assert_eq!(opened, Opened::default());
    let bodies = ["/a", "/b", "/c"].map(|path| body_of(&store, path));
    assert_eq!(bodies, [Some(text), None, Some(Vec::new())]);
    let after = store.current();
    assert_eq!((after.number(), after.len()), (3, 2));
    assert_eq!(after.find_str("/a"), before.find_str("/a"));
    let odd = after.find_str("/a").unwrap().headers();
    assert_eq!(odd["x-odd"].as_bytes(), b"caf\xe9");
}

#[test]
fn identical_bodies_lie_there_once_and_text_is_packed() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    let text = b"<p>the same again and again</p>".repeat(2000);
    let changes = (0..20).map(|it| put(&format!("/{it}"), "text/html", &text)).collect();
    store.apply(changes).unwrap();
    assert_eq!(files(dir.path()).len(), 1);
    assert_eq!(store.bytes(), 4096, "62 kB of repetition fit into one block");
    let body = store.current().find_str("/7").unwrap().body.unwrap();
    let stored = store.body(&body).unwrap();
    assert_eq!((stored.coding, stored.length), (Coding::Brotli, text.len() as u64));
    // A picture stays as it is, whatever it looks like.
    let picture = b"pixels ".repeat(1000);
    store.apply(vec![put("/i", "image/png", &picture)]).unwrap();
    let body = store.current().find_str("/i").unwrap().body.unwrap();
    assert_eq!(store.body(&body).unwrap().coding, Coding::Identity);
    // The file goes with the last address that needs it.
    store.apply((0..19).map(|it| Change::Remove(at(&format!("/{it}")))).collect()).unwrap();
    assert_eq!(body_of(&store, "/19"), Some(text));
    store.apply(vec![put("/19", "text/html", b"new")]).unwrap();
    assert_eq!(files(dir.path()).len(), 2);
}

#[test]
fn readers_keep_the_generation_that_they_have() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.apply(vec![put("/a", "text/html", b"1"), put("/b", "text/html", b"1")]).unwrap();
    let before = store.current();
    store.apply(vec![put("/a", "text/html", b"2"), Change::Remove(at("/b"))]).unwrap();
    let hash = |generation: &Generation, path: &str| {
        generation.find_str(path).and_then(|it| it.body).map(|it| it.hash)
    };
    let one = Some(BodyHash::of(b"1"));
    assert_eq!((hash(&before, "/a"), hash(&before, "/b")), (one, one));
    let now = store.current();
    assert_eq!((hash(&now, "/a"), hash(&now, "/b")), (Some(BodyHash::of(b"2")), None));
}

#[test]
fn the_bounds_hold_and_what_has_no_room_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let bounds = Bounds { bytes: 10 * 4096, entries: 8 };
    let (store, _) = Store::open(dir.path(), SITE, bounds).unwrap();
    let large = |seed: u8| -> Vec<u8> { (0..9000_u32).map(|it| seed ^ (it % 251) as u8).collect() };
    let changes = (0..5).map(|it| put(&format!("/{it}"), "image/png", &large(it))).collect();
    let applied = store.apply(changes).unwrap();
    assert_eq!(applied.full, [at("/3"), at("/4")], "three blocks each");
    assert!(store.bytes() <= bounds.bytes);
    // What does not fit any more takes the old one with it: it is not what the server has.
    let huge = b"0123456789".repeat(5000);
    assert_eq!(store.apply(vec![put("/0", "image/png", &huge)]).unwrap().full, [at("/0")]);
    assert_eq!(body_of(&store, "/0"), None);
    let many = (10..20).map(|it| put(&format!("/{it}"), "image/png", b"")).collect();
    assert_eq!(store.apply(many).unwrap().full.len(), 4);
    assert_eq!(store.current().len(), 8);
}

#[test]
fn files_of_removed_bodies_may_go_later_and_serve_until_then() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.sync_no_bodies();
    let page = |number: usize| (format!("/{number}"), format!("body {number}"));
    let puts = (0..300).map(page).map(|(path, body)| put(&path, "text/plain", body.as_bytes()));
    store.apply(puts.collect()).unwrap();
    let all: Vec<Address> = (0..300).map(page).map(|(path, _)| at(&path)).collect();
    store.remove(all).unwrap();
    assert!(store.current().is_empty());
    assert_eq!(files(dir.path()).len(), 300, "removals are on the disk before the files go");
    // What comes back meanwhile has its body already.
    store.apply(vec![put("/7", "text/plain", b"body 7")]).unwrap();
    let left = files(dir.path()).len();
    assert!((1..300).contains(&left), "{left}");
    while store.remove_unused_bodies() {}
    assert_eq!((files(dir.path()).len(), store.bytes()), (1, 4096));
    assert_eq!(body_of(&store, "/7").unwrap(), b"body 7");
}

#[test]
fn files_that_were_to_go_later_go_when_their_room_is_needed_and_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let bounds = Bounds { bytes: 8 * 4096, entries: 100 };
    let (store, _) = Store::open(dir.path(), SITE, bounds).unwrap();
    let filled = |letter: char| -> Vec<Change> {
        let page = |number: usize| {
            put(&format!("/{number}"), "text/plain", format!("{letter}{number}").as_bytes())
        };
        (0..8).map(page).collect()
    };
    let all = || -> Vec<Address> { (0..8).map(|number| at(&format!("/{number}"))).collect() };
    assert!(store.apply(filled('a')).unwrap().full.is_empty());
    store.remove(all()).unwrap();
    assert_eq!(files(dir.path()).len(), 8);
    assert!(store.apply(filled('b')).unwrap().full.is_empty(), "there is room for all of them");
    assert_eq!(body_of(&store, "/7").unwrap(), b"b7");
    store.remove(all()).unwrap();
    drop(store);
    let (store, opened) = Store::open(dir.path(), SITE, bounds).unwrap();
    assert!(opened.garbage == 8 && !opened.dropped_all, "{opened:?}");
    assert!(store.current().is_empty() && files(dir.path()).is_empty());
}

#[test]
fn a_damaged_body_is_never_given() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    let text = b"<p>hello</p>".repeat(100);
    store.apply(vec![put("/a", "text/html", &text), put("/b", "text/html", &text)]).unwrap();
    store.apply(vec![put("/c", "text/html", b"c")]).unwrap();
    let body = store.current().find_str("/a").unwrap().body.unwrap();
    let file = files(dir.path()).into_iter().max_by_key(|it| it.metadata().unwrap().len()).unwrap();
    let whole = std::fs::read(&file).unwrap();
    for place in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[place] ^= 4;
        std::fs::write(&file, &damaged).unwrap();
        assert!(matches!(store.body(&body), Err(Unreadable::Damaged)), "byte {place}");
    }
    for length in [0, 8, 31, 32, whole.len() - 1] {
        std::fs::write(&file, &whole[..length]).unwrap();
        assert!(matches!(store.body(&body), Err(Unreadable::Damaged)), "{length} bytes");
    }
    std::fs::write(&file, &whole).unwrap();
    assert!(store.body(&body).is_ok());
    let mut lost = store.forget_body(&body.hash).unwrap();
    lost.sort();
    assert_eq!(lost, [at("/a"), at("/b")]);
    assert!(matches!(store.body(&body), Err(Unreadable::Missing)));
    drop(store);
    let (store, opened) = open(dir.path());
    assert_eq!((store.current().len(), opened.lost), (1, 0));
    store.apply(vec![put("/a", "text/html", &text)]).unwrap();
    assert_eq!(body_of(&store, "/a"), Some(text));
}

#[test]
fn a_body_that_is_missing_at_the_start_is_not_mirrored() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.apply(vec![put("/a", "text/html", b"a"), put("/b", "text/html", b"b")]).unwrap();
    drop(store);
    std::fs::remove_file(&files(dir.path())[0]).unwrap();
    std::fs::write(dir.path().join("bodies/new-3"), b"half").unwrap();
    let (store, opened) = open(dir.path());
    assert_eq!((opened.lost, store.current().len()), (1, 1));
    assert!(!dir.path().join("bodies/new-3").exists());
}

#[test]
fn a_batch_that_was_cut_off_did_not_happen() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.apply(vec![put("/a", "text/html", b"1")]).unwrap();
    let manifest = manifest_of(dir.path());
    let before = std::fs::metadata(&manifest).unwrap().len() as usize;
    store.apply(vec![put("/a", "text/html", b"2"), put("/b", "text/html", b"2")]).unwrap();
    drop(store);
    let whole = std::fs::read(&manifest).unwrap();
    let bodies: Vec<(PathBuf, Vec<u8>)> =
        files(dir.path()).into_iter().map(|it| (it.clone(), std::fs::read(it).unwrap())).collect();
    for length in (before..whole.len()).step_by(7).chain([before + 1, whole.len() - 1]) {
        std::fs::write(&manifest, &whole[..length]).unwrap();
        // The body of the first batch was removed by the second.
        let one = super::blobs::file_for_tests(b"1");
        std::fs::create_dir_all(one.folder(dir.path())).unwrap();
        std::fs::write(one.path(dir.path()), &one.bytes).unwrap();
        let (store, opened) = open(dir.path());
        assert_eq!(opened.was_torn, length > before, "{length}");
        assert_eq!(body_of(&store, "/a"), Some(b"1".to_vec()), "{length}");
        assert_eq!(body_of(&store, "/b"), None);
        // What comes next is read again.
        store.apply(vec![put("/c", "text/html", b"3")]).unwrap();
        drop(store);
        assert_eq!(body_of(&open(dir.path()).0, "/c"), Some(b"3".to_vec()));
        for (path, bytes) in &bodies {
            std::fs::write(path, bytes).unwrap();
        }
    }
}

#[test]
fn behind_damage_in_the_middle_nothing_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.apply(vec![put("/secret", "text/html", b"s")]).unwrap();
    let manifest = manifest_of(dir.path());
    let before = std::fs::metadata(&manifest).unwrap().len() as usize;
    store.apply(vec![Change::Remove(at("/secret"))]).unwrap();
    store.apply(vec![put("/a", "text/html", b"a")]).unwrap();
    drop(store);
    let whole = std::fs::read(&manifest).unwrap();
    for place in [before, before + 9, before + 15, before + 30] {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        std::fs::write(&manifest, &damaged).unwrap();
        let (store, opened) = open(dir.path());
        assert!(opened.dropped_all, "byte {place}");
        assert!(store.current().is_empty(), "what was removed must not be back");
        drop(store);
        for name in manifest::list_for_tests(dir.path()) {
            std::fs::remove_file(name).unwrap();
        }
    }
}

#[test]
fn a_later_format_and_another_site_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.apply(vec![put("/a", "text/html", b"a")]).unwrap();
    drop(store);
    let (store, opened) =
        Store::open(dir.path(), "https://other.example/", Bounds::default()).unwrap();
    assert!(opened.dropped_all && store.current().is_empty());
    assert!(files(dir.path()).is_empty());
    drop(store);
    manifest::write_for_tests(dir.path(), r#"{"format":2,"site":"https://example.org/"}"#);
    let (store, opened) = open(dir.path());
    assert!(opened.dropped_all);
    store.apply(vec![put("/a", "text/html", b"a")]).unwrap();
    drop(store);
    // Fields that a later version adds are not known, and do no harm.
    manifest::write_for_tests(
        dir.path(),
        r#"{"format":1,"site":"https://example.org/","new":[1]}"#,
    );
    assert!(!open(dir.path()).1.dropped_all);
}

#[test]
fn the_manifest_does_not_grow_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    let pages = |round: u32| -> Vec<Change> {
        let body = round.to_string();
        (0..100).map(|it| put(&format!("/{it}"), "text/html", body.as_bytes())).collect()
    };
    for round in 0..120 {
        store.apply(pages(round)).unwrap();
        let length = std::fs::metadata(manifest_of(dir.path())).unwrap().len();
        assert!(length < (1 << 20) + (64 << 10), "{length} bytes");
    }
    assert_eq!(files(dir.path()).len(), 1, "only the last body is needed");
    drop(store);
    let (store, opened) = open(dir.path());
    assert_eq!(opened, Opened::default());
    assert_eq!(body_of(&store, "/42"), Some(b"119".to_vec()));
    assert_eq!((store.current().len(), store.current().number()), (100, 120));
}

#[test]
fn a_large_manifest_is_rewritten_in_small_parts() {
    const PAGES: usize = 6000;
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    store.sync_no_bodies();
    let apply_all = |store: &Store| {
        for first in (0..PAGES).step_by(500) {
            let pages = (first..first + 500).map(|it| put(&format!("/{it}"), "text/html", b"x"));
            store.apply(pages.collect()).unwrap();
        }
    };
    apply_all(&store);
    let first = manifest_of(dir.path());
    while manifest_of(dir.path()) == first {
        store.apply(vec![put("/0", "text/html", b"x")]).unwrap();
        apply_all(&store);
    }
    // The last batches may stand behind what was rewritten.
    drop(store);
    let (store, opened) = open(dir.path());
    assert_eq!((opened, store.current().len()), (Opened::default(), PAGES));
    let rewritten = manifest_of(dir.path());
    let mut counts = manifest::entries_of_frames_for_tests(&rewritten);
    counts.truncate(PAGES.div_ceil(256));
    assert_eq!(counts.iter().sum::<usize>(), PAGES, "{counts:?}");
    assert!(counts.iter().all(|count| *count <= 256), "{counts:?}");
    // What was read is known to be the base: one batch more is no reason to rewrite it.
    store.apply(vec![Change::Remove(at("/7"))]).unwrap();
    assert_eq!(manifest_of(dir.path()), rewritten);
    drop(store);
    assert_eq!(open(dir.path()).0.current().len(), PAGES - 1);
}

#[test]
fn a_plan_is_kept_and_a_damaged_one_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path());
    let plan: SavedPlan = serde_json::from_str(
        r#"{"site": "https://example.org/", "last_whole_ms": 5, "complete": {"hindrance": null,
            "refuted_by": "/x"}, "pages": [{"address": "/a", "depth": 1, "popularity":
            {"value": 1.0, "at": 7}, "state": {"refused": {"reason": "one-time", "at_ms": 3}}}],
            "of a later version": true}"#,
    )
    .unwrap();
    store.save_plan(&plan).unwrap();
    store.apply(vec![put("/a", "text/html", b"a")]).unwrap();
    drop(store);
    let (store, opened) = open(dir.path());
    assert_eq!(opened.plan, plan);
    drop(store);
    std::fs::write(dir.path().join("plan.json"), b"{\"site\": 3").unwrap();
    assert_eq!(open(dir.path()).1.plan, SavedPlan::default());
}

#[test]
fn it_is_for_one_process_and_one_user() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror");
    let (store, _) = open(&path);
    store.apply(vec![put("/a", "text/html", b"a")]).unwrap();
    let second = Store::open(&path, SITE, Bounds::default()).unwrap_err();
    assert!(second.to_string().contains("another process"), "{second}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let modes: HashSet<u32> = files(&path).iter().map(|it| mode(it)).collect();
    assert_eq!((mode(&path), modes), (0o700, HashSet::from([0o600])));
    assert_eq!(mode(&manifest_of(&path)), 0o600);
    store.clear();
    assert!(store.current().is_empty() && files(&path).is_empty());
    store.apply(vec![put("/b", "text/html", b"b")]).unwrap();
    drop(store);
    assert_eq!(open(&path).0.current().len(), 1);
}
