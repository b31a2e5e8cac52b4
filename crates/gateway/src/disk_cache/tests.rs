//! The log on a disk whose power is cut, and under a process that is killed.

mod kill;
mod power_cut;
mod protocol;
mod trouble;

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use nightwatt_httpcache::{Basis, Times, Timestamp};

use super::for_tests::Memory;
use super::log::{Bounds, Log, New};
use super::record::{Body, Day, Meta, Name, PAGE};
use super::storage::Storage;

const NO_DAY: Day = Day { day: 0, cache: 0, other: 0 };

const SMALL: Bounds = Bounds { bytes: 256 << 10, segment: 32 << 10, records: 100 };

/// Numbers that look random and are the same each time (splitmix64).
#[derive(Debug, Clone)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn name(path: &str) -> Name {
    Name::new("blog", &format!("example.org/{path}"))
}

fn new(path: &str, body: &[u8], known: Option<Body>) -> New {
    let mut headers = HeaderMap::new();
    headers.insert("cache-control", HeaderValue::from_static("max-age=60"));
    let meta = Meta {
        name: name(path),
        popularity: 1,
        times: Times::at(Timestamp::from_secs(1_767_225_600)),
        status: StatusCode::OK,
        basis: Basis::Marked,
        rules: 0,
        selecting: Vec::new(),
        headers,
    };
    New { meta, body: Bytes::copy_from_slice(body), known, is_meant: Box::new(|| true) }
}

impl Memory {
    fn damage(&self, segment: u64, at: u64) {
        self.0.lock().unwrap().get_mut(&segment).unwrap()[at as usize] ^= 1;
    }
}

fn open<S: Storage>(storage: S, bounds: Bounds) -> Log<S> {
    Log::open(storage, bounds, 99, &|| false).unwrap().0
}

fn write<S: Storage>(log: &mut Log<S>, path: &str, body: &[u8]) {
    let written = log.write(vec![new(path, body, None)], u64::MAX, NO_DAY).unwrap();
    assert_eq!(written.records, 1, "{path}");
}

/// The body of what is there under a path.
fn read<S: Storage>(log: &Log<S>, path: &str) -> Option<Vec<u8>> {
    let (mut all, _) = log.shared().fetch(&name(path));
    assert!(all.len() <= 1, "{path} has one variant");
    all.pop().map(|(_, body, _)| body.to_vec())
}

fn forget<S: Storage>(log: &mut Log<S>, path: &str) {
    if log.shared().index().forget(&name(path)) {
        log.forget(&[name(path)]).unwrap();
    }
}

#[test]
fn what_was_written_is_there_after_a_restart_and_what_was_forgotten_is_not() {
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    for (path, body) in [("a", "old"), ("b", "b"), ("a", "new"), ("c", "")] {
        write(&mut log, path, body.as_bytes());
    }
    forget(&mut log, "b");
    let log = open(disk, SMALL);
    let texts = ["a", "b", "c"].map(|path| read(&log, path));
    assert_eq!(texts, [Some(b"new".to_vec()), None, Some(Vec::new())]);
    assert_eq!(log.shared().index().count(), 2);
}

#[test]
fn what_is_confirmed_has_new_fields_and_its_old_body() {
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    let body = vec![b'x'; 7000];
    write(&mut log, "a", &body);
    let known = log.shared().index().outdate(&name("a"), new("a", b"", None).meta.variant());
    assert!(known.is_some());
    let mut confirmed = new("a", &body, known);
    confirmed.meta.headers.insert("x-new", HeaderValue::from_static("1"));
    let before = log.shared().index().bytes();
    log.write(vec![confirmed], u64::MAX, NO_DAY).unwrap();
    assert_eq!(log.shared().index().bytes() - before, PAGE, "the body was not written again");
    let log = open(disk, SMALL);
    let (all, spoilt) = log.shared().fetch(&name("a"));
    assert_eq!((all.len(), spoilt), (1, 0));
    assert_eq!((&all[0].1[..], all[0].0.headers.contains_key("x-new")), (&body[..], true));
}

#[test]
fn the_bound_holds_and_what_is_used_stays() {
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    write(&mut log, "used", &[b'u'; 1000]);
    for number in 0..500 {
        write(&mut log, &format!("scan/{number}"), &[b'x'; 1500]);
        let files: u64 = disk.list().unwrap().iter().map(|it| it.1).sum();
        assert!(files <= SMALL.bytes, "{files} bytes");
        assert!(read(&log, "used").is_some(), "after {number}");
    }
    assert!(read(&log, "scan/0").is_none() && read(&log, "scan/499").is_some());
    assert!(log.shared().index().count() <= 64, "of a page each in 256 KiB");
    let log = open(disk, SMALL);
    assert!(read(&log, "used").is_some());
}

#[test]
fn the_number_of_answers_is_bounded_too() {
    let bounds = Bounds { records: 20, ..SMALL };
    let mut log = open(Memory::default(), bounds);
    for number in 0..200 {
        write(&mut log, &number.to_string(), b"x");
        assert!(log.shared().index().count() <= 20);
    }
    assert!(read(&log, "199").is_some());
}

#[test]
fn no_more_is_written_than_is_allowed_but_what_is_forgotten_always_is() {
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    write(&mut log, "a", b"x");
    let batch = || (0..5).map(|it| new(&format!("b{it}"), &[1; 1500], None)).collect();
    let written = log.write(batch(), 6000, NO_DAY).unwrap();
    assert_eq!((written.records, written.left_out), (2, 3));
    let written = log.write(batch(), 0, NO_DAY).unwrap();
    assert_eq!((written.records, written.left_out), (0, 5));
    let too_long = vec![new("long", &[1; 9000], None)];
    assert_eq!(log.write(too_long, u64::MAX, NO_DAY).unwrap().too_long, [name("long")]);
    forget(&mut log, "a");
    assert_eq!(read(&open(disk, SMALL), "a"), None);
}

#[test]
fn what_is_forgotten_while_it_is_written_is_not_used() {
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    let shared = Arc::clone(log.shared());
    let forgets = Box::new(move || {
        // Too late to be left out: the disk has to be told.
        assert!(shared.index().forget(&name("a")));
        true
    });
    let late = New { is_meant: forgets, ..new("a", b"x", None) };
    log.write(vec![late], u64::MAX, NO_DAY).unwrap();
    assert_eq!(read(&log, "a"), None);
    log.forget(&[name("a")]).unwrap();
    assert_eq!(read(&open(disk, SMALL), "a"), None);
}

#[test]
fn a_damaged_body_is_a_miss_and_its_neighbours_are_not() {
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    for path in ["a", "b", "c"] {
        write(&mut log, path, &[path.as_bytes()[0]; 700]);
    }
    let place = log.shared().index().get(&name("b"))[0].body;
    disk.damage(place.segment, place.at + 350);
    let log = open(disk, SMALL);
    assert_eq!(log.shared().fetch(&name("b")).1, 1, "it is counted");
    assert!(read(&log, "b").is_none() && read(&log, "a").is_some() && read(&log, "c").is_some());
}

#[test]
fn behind_a_damaged_head_what_was_forgotten_is_still_known() {
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    for path in ["a", "b", "c"] {
        write(&mut log, path, path.as_bytes());
    }
    forget(&mut log, "a");
    let place = log.shared().index().get(&name("b"))[0].record;
    disk.damage(place.segment, place.at + 9);
    let log = open(disk, SMALL);
    let there = ["a", "b", "c"].map(|path| read(&log, path).is_some());
    assert_eq!(there, [false, false, true]);
}

#[test]
fn when_a_segment_cannot_be_read_nothing_older_is_trusted() {
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    write(&mut log, "a", b"a");
    let mut log = open(disk.clone(), SMALL);
    forget(&mut log, "a");
    let mut log = open(disk.clone(), SMALL);
    write(&mut log, "b", b"b");
    drop(log);
    // The second segment, in which `a` is forgotten.
    disk.damage(2, 20);
    let log = open(disk.clone(), SMALL);
    assert_eq!((read(&log, "a"), read(&log, "b")), (None, Some(b"b".to_vec())));
    assert_eq!(disk.list().unwrap().len(), 1);
}

#[test]
fn what_there_is_no_time_to_look_at_is_dropped_the_oldest() {
    let disk = Memory::default();
    for path in ["a", "b", "c"] {
        write(&mut open(disk.clone(), SMALL), path, b"x");
    }
    let looks = Mutex::new(0);
    let is_late = || {
        *looks.lock().unwrap() += 1;
        *looks.lock().unwrap() > 1
    };
    let (log, found) = Log::open(disk.clone(), SMALL, 1, &is_late).unwrap();
    assert_eq!((found.dropped, disk.list().unwrap().len()), (2, 1));
    let there = ["a", "b", "c"].map(|path| read(&log, path).is_some());
    assert_eq!(there, [false, false, true]);
}

#[test]
fn the_day_is_known_after_a_restart() {
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    let day = Day { day: 20_780, cache: 100, other: 7 };
    let written = log.write(vec![new("a", b"x", None)], u64::MAX, day).unwrap();
    let (_, found) = Log::open(disk, SMALL, 1, &|| false).unwrap();
    let known = found.day.unwrap();
    assert_eq!((known.day, known.other), (20_780, 7));
    assert!(known.cache > 100 && known.cache <= 100 + written.bytes, "{known:?} {written:?}");
}
