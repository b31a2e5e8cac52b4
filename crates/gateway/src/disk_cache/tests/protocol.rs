//! What a process reports that writes until it is cut off, and what the disk may have after that: the same
//! for one that is killed and for one whose machine is.
//!
//! ```text
//! said found TORN [PATH ROUND].. the first words: bytes that were torn, and every answer that is there
//! said write PATH ROUND [PATH]..  this is written from now on; those may have to go to make room
//! said forget PATH [PATH]..       this is forgotten from now on
//! said done [PATH]..              the last of these is on the disk; those had to go
//! ```

use std::collections::{HashMap, HashSet};

use super::super::index::Variant;
use super::*;

pub(super) const BOUNDS: Bounds = Bounds { bytes: 2 << 20, segment: 256 << 10, records: 1000 };

/// Answers that are written are of as many paths.
pub(super) const PATHS: u64 = 60;

/// No record of these is longer, with the head of a segment before it.
const ROOM: u64 = 32 << 10;

/// What is written under a path the `round`th time: it says which it is, to its last byte.
pub(super) fn body(path: u64, round: u64) -> Vec<u8> {
    let mut dice = Dice((path << 32) ^ round);
    let words = dice.below(2500);
    let mut body = format!("{path} {round} ").into_bytes();
    body.extend((0..words).flat_map(|_| dice.next().to_le_bytes()));
    body
}

/// The answer under a path, and which time it was written: it is whole.
pub(super) fn whole<S: Storage>(log: &Log<S>, path: u64) -> Option<(u64, Vec<u8>)> {
    let found = read(log, &path.to_string())?;
    let mut words = found.split(|it| *it == b' ');
    let mut number = || str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
    let (of, round) = (number().unwrap(), number().unwrap());
    assert!(of == path && found == body(path, round), "{path} has {} other bytes", found.len());
    Some((round, found))
}

/// The number of each path and of the time it was written.
pub(super) fn all_whole<S: Storage>(log: &Log<S>) -> Vec<u64> {
    let all = (0..PATHS).filter_map(|path| Some([path, whole(log, path)?.0]));
    all.flatten().collect()
}

/// Paths with an answer that is meant.
fn paths<S: Storage>(log: &Log<S>, is_meant: impl Fn(&Variant) -> bool) -> Vec<u64> {
    let index = log.shared().index();
    let has = |path: &u64| index.get(&name(&path.to_string())).iter().any(&is_meant);
    (0..PATHS).filter(has).collect()
}

/// Paths with an answer.
pub(super) fn there<S: Storage>(log: &Log<S>) -> HashSet<u64> {
    paths(log, |_| true).into_iter().collect()
}

/// Paths whose answers may have to go when the next record is written: those of the oldest segments.
pub(super) fn at_risk<S: Storage>(log: &Log<S>) -> Vec<u64> {
    // What was used of them is rewritten, for which more may have to go.
    const MOST: u64 = 2 * (ROOM + BOUNDS.segment);
    let (taken, lengths) = {
        let index = log.shared().index();
        let lengths = index.segments.iter().map(|(number, it)| (*number, it.length));
        (index.bytes(), lengths.collect::<Vec<_>>())
    };
    if taken + ROOM <= BOUNDS.bytes {
        return Vec::new();
    }
    let mut passed = 0;
    let goes = lengths.iter().take_while(|(_, length)| {
        passed += length;
        passed - length < MOST
    });
    let oldest: HashSet<u64> = goes.map(|(number, _)| *number).collect();
    paths(log, |it| oldest.contains(&it.record.segment) || oldest.contains(&it.body.segment))
}

/// What has been begun, and may be on the disk or not.
#[derive(Debug)]
struct Begun {
    path: u64,
    /// None: it is forgotten.
    round: Option<u64>,
    at_risk: Vec<u64>,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// How often it was cut off after it had said something.
    pub(super) cuts: u64,
    /// When something was begun that was not done.
    pub(super) in_the_middle: u64,
    /// After which the disk had a record that was torn.
    pub(super) torn: u64,
    /// Answers that were there, each of them whole and the latest.
    pub(super) found: u64,
    /// Those that had to be there, and were.
    pub(super) kept: u64,
}

/// What the disk may have, by what was said.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The round that is on the disk.
    on_disk: HashMap<u64, u64>,
    begun: Vec<Begun>,
    /// Something was begun since what is there was checked.
    is_cut: bool,
    pub(super) tally: Tally,
}

impl Known {
    /// Hears a line; says whether something has been begun.
    pub(super) fn hear(&mut self, line: &str) -> bool {
        let Some((_, said)) = line.split_once("said ") else { return false };
        let mut words = said.split(' ');
        let verb = words.next().unwrap();
        let numbers: Vec<u64> = words.map(|it| it.parse().expect(said)).collect();
        match (verb, &numbers[..]) {
            ("found", [torn, found @ ..]) => self.check(*torn, found),
            ("write", [path, round, at_risk @ ..]) => self.begin(*path, Some(*round), at_risk),
            ("forget", [path, at_risk @ ..]) => self.begin(*path, None, at_risk),
            ("done", gone) => self.done(gone),
            _ => panic!("{line}"),
        }
        matches!(verb, "write" | "forget")
    }

    fn begin(&mut self, path: u64, round: Option<u64>, at_risk: &[u64]) {
        self.is_cut = true;
        self.begun.push(Begun { path, round, at_risk: at_risk.to_vec() });
    }

    fn done(&mut self, gone: &[u64]) {
        let Begun { path, round, .. } = self.begun.pop().expect("something was begun");
        assert!(self.begun.is_empty(), "one after the other");
        match round {
            Some(round) => drop(self.on_disk.insert(path, round)),
            None => drop(self.on_disk.remove(&path)),
        }
        for path in gone {
            self.on_disk.remove(path);
        }
    }

    /// Checks what is there after a cut, which is then what is on the disk.
    pub(super) fn check(&mut self, torn: u64, found: &[u64]) {
        let found: HashMap<u64, u64> = found.chunks(2).map(|it| (it[0], it[1])).collect();
        for (path, round) in &found {
            let is_begun = |it: &Begun| it.path == *path && it.round == Some(*round);
            let may = self.on_disk.get(path) == Some(round) || self.begun.iter().any(is_begun);
            assert!(may, "{path} has {round}, forgotten, superseded or never written: {self:?}");
        }
        for (path, round) in &self.on_disk {
            let may_go = |it: &Begun| it.path == *path || it.at_risk.contains(path);
            if !self.begun.iter().any(may_go) {
                assert_eq!(found.get(path), Some(round), "{path} was on the disk: {self:?}");
                self.tally.kept += u64::from(self.is_cut);
            }
        }
        if self.is_cut {
            self.tally.cuts += 1;
            self.tally.in_the_middle += u64::from(!self.begun.is_empty());
            self.tally.torn += u64::from(torn > 0);
            self.tally.found += found.len() as u64;
        }
        self.on_disk = found;
        self.begun.clear();
        self.is_cut = false;
    }
}

/// What is said, in order; then what is there.
fn heard(said: &[&str]) -> Known {
    let mut known = Known::default();
    for line in said {
        known.hear(&format!("said {line}"));
    }
    known
}

#[test]
fn what_was_being_written_may_be_there_or_not_and_the_rest_must() {
    let said = ["found 0", "write 1 10", "done", "write 2 20", "done", "write 3 30 2"];
    for there in ["found 0 1 10", "found 7 1 10 2 20", "found 0 1 10 2 20 3 30"] {
        let Tally { cuts, in_the_middle, kept, .. } = heard(&[&said[..], &[there]].concat()).tally;
        assert_eq!((cuts, in_the_middle, kept), (1, 1, 1), "{there}");
    }
}

#[test]
#[should_panic(expected = "1 was on the disk")]
fn it_shows_that_something_is_lost() {
    heard(&["write 1 10", "done", "write 2 20", "found 0 2 20"]);
}

#[test]
#[should_panic(expected = "1 has 10, forgotten")]
fn it_shows_that_something_forgotten_is_back() {
    heard(&["write 1 10", "done", "forget 1", "done", "found 0 1 10"]);
}

#[test]
#[should_panic(expected = "1 has 10, forgotten, superseded")]
fn it_shows_that_something_superseded_is_back() {
    heard(&["write 1 10", "done", "write 1 11", "done", "write 2 20", "found 0 1 10"]);
}
