//! A process that writes is killed, or its machine is, at any moment: what it leaves is whole, nothing
//! forgotten is back, and what was on the disk is there.

use std::io::{BufRead, BufReader};
use std::iter;
use std::process::{Command, Stdio};

use super::super::storage::Folder;
use super::protocol::{BOUNDS, Known, PATHS, Tally, all_whole, at_risk, body, there, whole};
use super::*;

/// Says to the child where to write.
const FOLDER: &str = "NIGHTWATT_TEST_DISK_CACHE";

/// Which of those that write there it is, counted from 1.
const LIFE: &str = "NIGHTWATT_TEST_LIFE";

/// A file with all that those have said that have written to one disk.
const SAID: &str = "NIGHTWATT_TEST_SAID";

fn report(verb: &str, numbers: &[u64]) {
    let numbers = numbers.iter().map(u64::to_string);
    println!("said {}", iter::once(verb.to_owned()).chain(numbers).collect::<Vec<_>>().join(" "));
    // Over a serial line: what is said first is heard before what comes next is done.
    let _ = rustix::termios::tcdrain(std::io::stdout());
}

/// Not a test of its own: what is cut off. It writes until then.
#[test]
fn the_process_that_is_cut_off() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let life: u64 = std::env::var(LIFE).unwrap().parse().unwrap();
    let folder = Folder::open(folder.as_ref()).unwrap();
    let mut dice = Dice(life);
    let (mut log, found) = Log::open(folder, BOUNDS, dice.next(), &|| false).unwrap();
    report("found", &[&[found.torn][..], &all_whole(&log)].concat());
    for round in life << 20.. {
        let (path, before) = (dice.below(PATHS), there(&log));
        match dice.below(500) {
            0 => {
                // All of them at once.
                report("forget", &[&[path][..], &(0..PATHS).collect::<Vec<_>>()].concat());
                log.clear_but(NO_DAY).unwrap();
            }
            1..100 => {
                report("forget", &[&[path][..], &at_risk(&log)].concat());
                forget(&mut log, &path.to_string());
            }
            chance => {
                // One in five is confirmed, if it is there.
                let known = (chance < 200).then(|| whole(&log, path)).flatten();
                let (round, body) = known.unwrap_or_else(|| (round, body(path, round)));
                report("write", &[&[path, round][..], &at_risk(&log)].concat());
                put(&mut log, path, &body);
            }
        }
        let after = there(&log);
        let gone = before.into_iter().filter(|it| *it != path && !after.contains(it));
        report("done", &gone.collect::<Vec<_>>());
    }
}

fn put(log: &mut Log<Folder>, path: u64, body: &[u8]) {
    let path = path.to_string();
    let id = new("", b"", None).meta.variant();
    let place = log.shared().index().outdate(&name(&path), id);
    let written = log.write(vec![new(&path, body, place)], u64::MAX, NO_DAY).unwrap();
    assert_eq!(written.records, 1, "{path}");
}

fn killed(times: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Dice(11);
    let mut known = Known::default();
    for life in 1..=times {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "disk_cache::tests::kill::the_process_that_is_cut_off"])
            .arg("--nocapture")
            .env(FOLDER, dir.path())
            .env(LIFE, life.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Killed after some of its words, wherever that is in its writing.
        let mut left = dice.below(40);
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            if !known.hear(&line) {
                continue;
            }
            if left == 0 {
                for _ in 0..dice.below(200_000) {
                    std::hint::spin_loop();
                }
                child.kill().unwrap();
            }
            left = left.wrapping_sub(1);
        }
        child.wait().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let (log, found) = Log::open(folder, BOUNDS, 3, &|| false).unwrap();
        known.check(found.torn, &all_whole(&log));
    }
    let Tally { cuts, in_the_middle, torn, found, kept } = known.tally;
    println!(
        "{cuts} times killed, {in_the_middle} in the middle of a write, {torn} records torn; \
         {found} answers were whole, {kept} of them had to be there"
    );
    assert_eq!(cuts, times);
    assert!(found > times * 10 && in_the_middle > times / 4, "the test shows little");
}

#[test]
fn killed_at_any_moment_of_its_writing_it_leaves_what_is_whole() {
    killed(25);
}

#[test]
#[ignore = "minutes: `make soak-cache` runs it"]
fn killed_a_thousand_times_it_leaves_what_is_whole() {
    killed(1000);
}

/// Not a test of its own: `tools/vm/cut-off` has it check what guests have said.
#[test]
fn what_was_said_of_a_disk_holds() {
    let Some(said) = std::env::var_os(SAID) else { return };
    let mut known = Known::default();
    for line in std::fs::read_to_string(said).unwrap().lines() {
        known.hear(line);
    }
    let Tally { cuts, in_the_middle, torn, found, kept } = known.tally;
    println!("tally {cuts} {in_the_middle} {torn} {found} {kept}");
}
