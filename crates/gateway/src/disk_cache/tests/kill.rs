//! A process that writes is killed, at any moment: what it leaves is whole.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::super::storage::Folder;
use super::*;

/// Says to the child where to write.
const FOLDER: &str = "NIGHTWATT_TEST_DISK_CACHE";

const BOUNDS: Bounds = Bounds { bytes: 2 << 20, segment: 256 << 10, records: 1000 };

/// What is written under a path the `round`th time: it says which it is, to its last byte.
fn body(path: u64, round: u64) -> Vec<u8> {
    let mut dice = Dice((path << 32) | round);
    let length = dice.below(20_000) as usize;
    let mut body = format!("{path} {round} ").into_bytes();
    body.extend((0..length).map(|_| dice.next() as u8));
    body
}

/// Not a test of its own: what is killed. It writes until then, and says what is on the disk: a number for
/// a path that was forgotten, two for one that was written.
#[test]
fn the_process_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Folder::open(folder.as_ref()).unwrap();
    let (mut log, _) = Log::open(folder, BOUNDS, 3, &|| false).unwrap();
    let mut dice = Dice(u64::from(std::process::id()));
    for round in u64::from(std::process::id()) << 20.. {
        let path = dice.below(60);
        if dice.below(5) == 0 {
            forget(&mut log, &path.to_string());
            println!("said {path}");
        } else {
            println!("said {path} {round}");
            let id = new("", b"", None).meta.variant();
            log.shared().index().outdate(&name(&path.to_string()), id);
            log.write(vec![new(&path.to_string(), &body(path, round), None)], u64::MAX, NO_DAY)
                .unwrap();
        }
    }
}

fn killed(times: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Dice(11);
    let mut versions: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut whole = 0;
    for _ in 0..times {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "disk_cache::tests::kill::the_process_that_is_killed", "--nocapture"])
            .env(FOLDER, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said = lines.filter_map(|line| {
            let said = line.split_once("said ")?.1.to_owned();
            said.split(' ').map(|it| it.parse().ok()).collect::<Option<Vec<u64>>>()
        });
        // Killed between two of its words, wherever that is in its writing.
        let last = dice.below(40) as usize;
        for (at, said) in said.enumerate() {
            match said[..] {
                [path] => drop(versions.remove(&path)),
                [path, round] => versions.entry(path).or_default().push(round),
                _ => panic!("{said:?}"),
            }
            if at == last {
                for _ in 0..dice.below(200_000) {
                    std::hint::spin_loop();
                }
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let (log, _) = Log::open(folder, BOUNDS, 3, &|| false).unwrap();
        for path in 0..60 {
            let Some(found) = read(&log, &path.to_string()) else { continue };
            let rounds = versions.get(&path).map_or(&[][..], Vec::as_slice);
            let is_one = rounds.iter().any(|round| body(path, *round) == found);
            assert!(is_one, "{path} has what was forgotten or never written");
            whole += 1;
        }
    }
    println!("{times} times killed, {whole} answers were whole");
    assert!(whole > times * 10, "only {whole} answers came back: the test shows little");
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
