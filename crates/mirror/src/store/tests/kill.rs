//! A process that writes is killed at any moment: what it leaves is whole, nothing that was removed is back,
//! and what was applied is there.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::*;

/// Says to the child where to write.
const FOLDER: &str = "NIGHTWATT_TEST_MIRROR";

/// Which of those that write there it is, counted from 1.
const LIFE: &str = "NIGHTWATT_TEST_LIFE";

const PATHS: u64 = 20;

/// Numbers that look random and are the same each time (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// The body of a round: it says which one, and is packed or not.
fn body(round: u64) -> Vec<u8> {
    let text = format!("round {round}; ");
    text.repeat(1 + usize::try_from(round % 700).unwrap()).into_bytes()
}

fn round_of(body: &[u8]) -> u64 {
    let text = std::str::from_utf8(body).unwrap();
    let number = text.strip_prefix("round ").unwrap().split(';').next().unwrap();
    let round = number.parse().unwrap();
    assert_eq!(body, super::kill::body(round), "a body is whole");
    round
}

/// What is mirrored: the round of each path.
fn there(store: &Store) -> BTreeMap<u64, u64> {
    let of = |path: u64| body_of(store, &format!("/{path}")).map(|it| (path, round_of(&it)));
    let found: BTreeMap<u64, u64> = (0..PATHS).filter_map(of).collect();
    assert_eq!(found.len(), store.current().len(), "no entry is without its body");
    found
}

/// A batch: paths that are put and removed.
#[derive(Default)]
struct TestBatch {
    put: Vec<u64>,
    removed: Vec<u64>,
}

fn batch(round: u64) -> TestBatch {
    let mut dice = Dice(round);
    let mut batch = TestBatch::default();
    for _ in 0..=dice.below(6) {
        let path = dice.below(PATHS);
        if batch.put.contains(&path) || batch.removed.contains(&path) {
            continue;
        }
        if dice.below(4) == 0 { batch.removed.push(path) } else { batch.put.push(path) }
    }
    batch
}

/// Not a test of its own: what is killed. It writes until then.
#[test]
fn the_process_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let life: u64 = std::env::var(LIFE).unwrap().parse().unwrap();
    let (store, _) = open(Path::new(&folder));
    for round in (life << 20)..((life + 1) << 20) {
        println!("said begin {round}");
        let batch = batch(round);
        let puts = batch.put.iter().map(|it| put(&format!("/{it}"), "text/html", &body(round)));
        let removals = batch.removed.iter().map(|it| Change::Remove(at(&format!("/{it}"))));
        store.apply(puts.chain(removals).collect()).unwrap();
        println!("said done {round}");
    }
}

/// What must be there: the state after all batches that are done; and the one that was begun.
#[derive(Default)]
struct Known {
    state: BTreeMap<u64, u64>,
    begun: Option<u64>,
    batches: u64,
}

impl Known {
    fn hear(&mut self, line: &str) -> bool {
        // The harness may print on the same line before.
        let Some((_, said)) = line.split_once("said ") else { return false };
        let (verb, round) = said.split_once(' ').unwrap();
        let round = round.parse().unwrap();
        if verb == "begin" {
            self.begun = Some(round);
        } else {
            self.state = self.after(round);
            self.begun = None;
            self.batches += 1;
        }
        true
    }

    fn after(&self, round: u64) -> BTreeMap<u64, u64> {
        let (batch, mut state) = (batch(round), self.state.clone());
        state.extend(batch.put.iter().map(|path| (*path, round)));
        state.retain(|path, _| !batch.removed.contains(path));
        state
    }

    /// All of the batch that was begun has happened, or nothing of it. Returns whether it has.
    fn check(&mut self, found: BTreeMap<u64, u64>) -> bool {
        let after = self.begun.take().map(|round| self.after(round));
        let has_happened = after.as_ref() == Some(&found);
        assert!(has_happened || found == self.state, "{found:?}\n{:?}\n{after:?}", self.state);
        self.state = found;
        has_happened
    }
}

fn killed(times: u64) {
    let dir = tempfile::tempdir().unwrap();
    let (mut dice, mut known) = (Dice(11), Known::default());
    let (mut in_the_middle, mut happened) = (0, 0);
    for life in 1..=times {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::kill::the_process_that_is_killed", "--nocapture"])
            .env(FOLDER, dir.path())
            .env(LIFE, life.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Killed after some of its words, wherever that is in its writing.
        let mut left = dice.below(30);
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            if !known.hear(&line) {
                continue;
            }
            if left == 0 {
                for _ in 0..dice.below(300_000) {
                    std::hint::spin_loop();
                }
                child.kill().unwrap();
            }
            left = left.wrapping_sub(1);
        }
        child.wait().unwrap();
        in_the_middle += u64::from(known.begun.is_some());
        let (store, opened) = open(dir.path());
        assert!(!opened.dropped_all && opened.lost == 0, "{opened:?}");
        happened += u64::from(known.check(there(&store)));
        let bodies: HashSet<_> =
            store.current().iter().filter_map(|it| it.body).map(|it| it.hash).collect();
        assert_eq!(files(dir.path()).len(), bodies.len(), "no file is left over");
    }
    println!(
        "{times} times killed after {} batches, {in_the_middle} in the middle of one; {happened} of those \
         had happened",
        known.batches
    );
    assert!(known.batches > times && in_the_middle > times / 4, "the test shows little");
}

#[test]
fn killed_at_any_moment_of_its_writing_it_leaves_what_is_whole() {
    killed(25);
}

#[test]
#[ignore = "minutes: `make soak-mirror`"]
fn killed_a_thousand_times_it_leaves_what_is_whole() {
    killed(1000);
}
