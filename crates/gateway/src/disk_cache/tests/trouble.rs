//! Disks that are full, that cannot be read, or have something else than was written.

use super::*;

/// A disk in trouble.
#[derive(Debug, Clone, Default)]
struct Troubled {
    files: Memory,
    is_full: Arc<Mutex<bool>>,
    /// This segment cannot be read.
    unreadable: Arc<Mutex<Option<u64>>>,
    /// Bytes that were read.
    read: Arc<Mutex<u64>>,
}

impl Troubled {
    fn room(&self) -> io::Result<()> {
        if *self.is_full.lock().unwrap() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Storage for Troubled {
    fn list(&self) -> io::Result<Vec<(u64, u64)>> {
        self.files.list()
    }

    fn create(&self, segment: u64) -> io::Result<()> {
        // An empty file needs no room.
        self.files.create(segment)
    }

    fn write(&self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.room()?;
        self.files.write(segment, at, bytes)
    }

    fn read(&self, segment: u64, at: u64, into: &mut [u8]) -> io::Result<()> {
        if *self.unreadable.lock().unwrap() == Some(segment) {
            return Err(io::Error::from_raw_os_error(5));
        }
        *self.read.lock().unwrap() += into.len() as u64;
        self.files.read(segment, at, into)
    }

    fn sync(&self, segment: u64) -> io::Result<()> {
        self.files.sync(segment)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.files.sync_names()
    }

    fn cut(&self, segment: u64, length: u64) -> io::Result<()> {
        self.files.cut(segment, length)
    }

    fn remove(&self, segment: u64) -> io::Result<()> {
        self.files.remove(segment)
    }
}

#[test]
fn a_full_disk_forgets_all_rather_than_bring_something_back() {
    let disk = Troubled::default();
    let mut log = open(disk.clone(), SMALL);
    write(&mut log, "a", b"a");
    *disk.is_full.lock().unwrap() = true;
    assert!(log.write(vec![new("b", b"b", None)], u64::MAX, NO_DAY).is_err());
    forget(&mut log, "a");
    *disk.is_full.lock().unwrap() = false;
    let mut log = open(disk, SMALL);
    assert_eq!(read(&log, "a"), None);
    write(&mut log, "b", b"b");
    assert!(read(&log, "b").is_some());
}

#[test]
fn what_was_there_before_the_disk_was_full_stays() {
    let disk = Troubled::default();
    let mut log = open(disk.clone(), SMALL);
    write(&mut log, "a", b"a");
    *disk.is_full.lock().unwrap() = true;
    for _ in 0..3 {
        assert!(log.write(vec![new("b", b"b", None)], u64::MAX, NO_DAY).is_err());
    }
    *disk.is_full.lock().unwrap() = false;
    assert_eq!(disk.list().unwrap().len(), 1, "nothing empty is left");
    // As if it had been killed before it could clean up.
    for number in [7, 8] {
        disk.create(number).unwrap();
    }
    disk.write(7, 0, b"torn").unwrap();
    let log = open(disk.clone(), SMALL);
    assert_eq!((read(&log, "a"), disk.list().unwrap().len()), (Some(b"a".to_vec()), 1));
}

#[test]
fn what_could_not_be_read_for_a_moment_does_not_come_back_once_it_is_purged() {
    let disk = Troubled::default();
    let mut log = open(disk.clone(), SMALL);
    write(&mut log, "a", b"a");
    *disk.unreadable.lock().unwrap() = Some(1);
    assert_eq!(log.shared().fetch(&name("a")).1, 1, "it is counted");
    *disk.unreadable.lock().unwrap() = None;
    assert_eq!(read(&log, "a"), None, "nor is it used again");
    forget(&mut log, "a");
    assert_eq!(read(&open(disk, SMALL), "a"), None);
}

#[test]
fn a_segment_that_cannot_be_read_is_dropped_with_what_is_older_and_the_rest_is_used() {
    let disk = Troubled::default();
    for path in ["a", "b", "c"] {
        write(&mut open(disk.clone(), SMALL), path, b"x");
    }
    *disk.unreadable.lock().unwrap() = Some(2);
    let (log, found) = Log::open(disk.clone(), SMALL, 1, &|| false).unwrap();
    assert_eq!((found.dropped, disk.list().unwrap().len()), (2, 1));
    let there = ["a", "b", "c"].map(|path| read(&log, path).is_some());
    assert_eq!(there, [false, false, true]);
}

#[test]
fn where_something_is_lost_that_was_on_the_disk_nothing_older_is_trusted() {
    let disk = Memory::default();
    write(&mut open(disk.clone(), SMALL), "older", b"x");
    let mut log = open(disk.clone(), SMALL);
    for path in ["a", "b"] {
        write(&mut log, path, b"x");
    }
    let place = log.shared().index().segments.values().next_back().unwrap().length;
    for path in ["older", "a"] {
        forget(&mut log, path);
    }
    write(&mut log, "c", b"x");
    drop(log);
    // What says that `older` is forgotten: one bit of it, or all its page.
    for damage in [1, PAGE] {
        let disk = Memory(Arc::new(Mutex::new(disk.0.lock().unwrap().clone())));
        let file = &mut disk.0.lock().unwrap().remove(&2).unwrap();
        file[place as usize..][..damage as usize].fill(0);
        disk.0.lock().unwrap().insert(2, file.clone());
        for _ in 0..2 {
            let log = open(disk.clone(), SMALL);
            let there = ["older", "a", "b", "c"].map(|path| read(&log, path).is_some());
            assert_eq!(there, [false, false, false, true], "{damage} bytes");
        }
    }
}

#[test]
fn a_body_that_looks_like_records_keeps_nobody_busy() {
    let disk = Troubled::default();
    let bounds = Bounds { bytes: 64 << 20, segment: 16 << 20, records: 100 };
    let mut log = open(disk.clone(), bounds);
    write(&mut log, "a", &b"nwr1".repeat((1 << 20) - 1000));
    write(&mut log, "b", b"x");
    let place = log.shared().index().get(&name("a"))[0].record;
    disk.files.damage(place.segment, place.at + 9);
    *disk.read.lock().unwrap() = 0;
    let log = open(disk.clone(), bounds);
    let bytes = *disk.read.lock().unwrap();
    assert!(bytes < 70 << 20, "{bytes} bytes were read");
    assert_eq!((read(&log, "a"), read(&log, "b")), (None, None), "what is there cannot be known");
}

#[test]
fn looking_behind_a_gap_ends_when_it_is_late() {
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    write(&mut log, "a", &b"nwr1".repeat(1 << 10));
    let place = log.shared().index().get(&name("a"))[0].record;
    disk.damage(place.segment, place.at + 9);
    let asked = Mutex::new(0);
    let is_late = || {
        *asked.lock().unwrap() += 1;
        *asked.lock().unwrap() > 3
    };
    let (_, found) = Log::open(disk, SMALL, 1, &is_late).unwrap();
    assert_eq!((found.dropped, *asked.lock().unwrap()), (1, 4));
}

#[test]
fn an_answer_from_the_future_counts_until_it_has_gone() {
    let mut log = open(Memory::default(), SMALL);
    write(&mut log, "a", b"x");
    let now = log.shared().index().last_received;
    let future = Timestamp::from_secs(9_000_000_000);
    let ahead = |path| {
        let mut ahead = new(path, b"x", None);
        ahead.meta.times = Times::at(future);
        ahead
    };
    log.write(vec![ahead("b"), ahead("c")], u64::MAX, NO_DAY).unwrap();
    assert_eq!(log.shared().index().last_received, future);
    forget(&mut log, "b");
    assert_eq!(log.shared().index().last_received, future, "there is another one");
    forget(&mut log, "c");
    assert_eq!(log.shared().index().last_received, now);
    // What is stored after the clock was set back shows that.
    log.write(vec![ahead("b")], u64::MAX, NO_DAY).unwrap();
    write(&mut log, "d", b"x");
    assert_eq!(log.shared().index().last_received, now);
    forget(&mut log, "d");
    assert_eq!(log.shared().index().last_received, future);
    log.write(vec![ahead("b")], u64::MAX, NO_DAY).unwrap();
    log.shared().index().forget_all(|_| true);
    assert_eq!(log.shared().index().last_received, Timestamp::default());
}

#[test]
fn of_too_many_variants_the_oldest_goes_also_after_a_restart() {
    let variant = |number: u8| {
        let mut variant = new("a", &[number], None);
        let language = http::header::ACCEPT_LANGUAGE;
        variant.meta.selecting = vec![(language, Some(vec![number]))];
        variant
    };
    let bodies = |log: &Log<Memory>| {
        let mut all: Vec<u8> =
            log.shared().fetch(&name("a")).0.iter().map(|(_, body, _)| body[0]).collect();
        all.sort_unstable();
        all
    };
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    for number in 1..=9 {
        log.write(vec![variant(number)], u64::MAX, NO_DAY).unwrap();
    }
    assert_eq!(bodies(&log), (2..=9).collect::<Vec<_>>());
    let mut log = open(disk, SMALL);
    assert_eq!(bodies(&log), (2..=9).collect::<Vec<_>>());
    log.write(vec![variant(10)], u64::MAX, NO_DAY).unwrap();
    assert_eq!(bodies(&log), (3..=10).collect::<Vec<_>>());
}

#[test]
fn what_is_confirmed_when_its_body_has_to_go_gets_it_again() {
    let body = [b'a'; 7000];
    for others in 0..60 {
        let mut log = open(Memory::default(), SMALL);
        write(&mut log, "a", &body);
        for number in 0..others {
            write(&mut log, &number.to_string(), &[b'x'; 7000]);
        }
        let known = log.shared().index().outdate(&name("a"), new("a", b"", None).meta.variant());
        log.write(vec![new("a", &body, known)], u64::MAX, NO_DAY).unwrap();
        assert_eq!(read(&log, "a").as_deref(), Some(&body[..]), "after {others}");
    }
}

#[test]
fn when_all_is_removed_only_the_day_is_known() {
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    assert_eq!(log.clear_but(NO_DAY).unwrap(), 0, "nothing was there");
    for number in 0..100 {
        write(&mut log, &number.to_string(), &[b'x'; 1000]);
    }
    log.shared().index().forget_all(|_| true);
    let day = Day { day: 20_780, cache: 100, other: 7 };
    assert_eq!(log.clear_but(day).unwrap(), 2 * PAGE);
    assert_eq!(disk.list().unwrap().len(), 1);
    let (log, found) = Log::open(disk, SMALL, 1, &|| false).unwrap();
    assert_eq!((log.shared().index().count(), found.day), (0, Some(day)));
}

#[test]
fn what_others_write_is_noted_without_an_answer_and_the_last_note_holds() {
    let disk = Memory::default();
    let mut log = open(disk.clone(), SMALL);
    for other in [7, 5000] {
        let bytes = log.note(Day { day: 20_780, cache: 100, other }).unwrap();
        assert_eq!(bytes % PAGE, 0, "whole pages");
    }
    let (_, found) = Log::open(disk, SMALL, 1, &|| false).unwrap();
    assert_eq!(found.day, Some(Day { day: 20_780, cache: 100, other: 5000 }));
}
