//! What earlier releases left behind: their configuration, ledger and cache are read by this one.
//!
//! `releases/VERSION` is what [`record_a_release`] wrote when that version was built: its files, and what it said of
//! itself in the end. A release adds its own, and none is ever changed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::client::get;
use crate::harness::{House, NIGHTWATT, Plan, free_address, process};

const RELEASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/releases");

/// Kept for ten years, so that it is fresh when a later release reads it.
const ORIGIN: &str = "exec NIGHTWATT origin --listen ORIGIN --ttl 3650d --record DIR/served.tsv";

/// What is of a running process, and not left behind.
const PASSING: [&str; 4] = ["cache.lock", "control.sock", "lock", "site.process.log"];

#[test]
#[ignore = "writes what this release leaves behind: cargo test -p nightwatt-cli --test cli record_a_release -- --ignored"]
fn record_a_release() {
    let tables = "[cache.disk]\nsize_mb = 8\n".to_owned();
    let house = House::build(&Plan { tables, power: process(ORIGIN), ..Plan::default() });
    let gateway = house.serve(&[]);
    for path in ["/", "/one", "/two", "/one", "/two", "/one"] {
        assert_eq!(get(gateway.address, path).unwrap().status, 200);
    }
    let said = gateway.until("asleep");
    assert!(gateway.stop().0.success());
    let to = Path::new(RELEASES).join(env!("CARGO_PKG_VERSION"));
    let texts = [
        (house.dir.path().display().to_string(), "DIR"),
        (house.origin.to_string(), "ORIGIN"),
        (NIGHTWATT.to_owned(), "NIGHTWATT"),
    ];
    let mut config = house.read("nightwatt.toml");
    for (text, name) in &texts {
        config = config.replace(text, name);
    }
    copy(&house.path("state"), &to.join("state"));
    fs::write(to.join("nightwatt.toml"), config).unwrap();
    fs::write(to.join("said.json"), format!("{said:#}\n")).unwrap();
}

/// Copies a folder with what is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else if path.is_file() && !PASSING.iter().any(|it| name == *it) {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// What that release left behind, in a folder of ours, and what it said in the end.
fn left_behind(release: &Path) -> (House, Value) {
    let house = House { dir: tempfile::tempdir().unwrap(), origin: free_address() };
    copy(&release.join("state"), &house.path("state"));
    let config = fs::read_to_string(release.join("nightwatt.toml")).unwrap();
    let config = config
        .replace("DIR", &house.dir.path().display().to_string())
        .replace("ORIGIN", &house.origin.to_string())
        .replace("NIGHTWATT", NIGHTWATT);
    fs::write(house.path("nightwatt.toml"), config).unwrap();
    let said = fs::read_to_string(release.join("said.json")).unwrap();
    (house, serde_json::from_str(&said).unwrap())
}

fn releases() -> Vec<PathBuf> {
    let releases = fs::read_dir(RELEASES).unwrap().map(|it| it.unwrap().path());
    releases.filter(|it| it.is_dir()).collect()
}

#[test]
fn what_each_release_left_behind_is_read_by_this_one() {
    let releases = releases();
    assert!(!releases.is_empty(), "nothing in {RELEASES}");
    for release in releases {
        let (house, said) = left_behind(&release);
        let gateway = house.serve(&[]);
        let status = gateway.until("asleep");
        let (then, now) = (&said["ledger"], &status["ledger"]);
        let what = release.display();
        for count in ["wakeups", "sleeps"] {
            assert!(then[count].as_u64() > Some(0), "{what}: {count}");
            assert_eq!(then[count], now[count], "{what}: {count}");
        }
        let joules = |ledger: &Value| ledger["server"]["joules"].as_f64().unwrap();
        assert!(joules(now) >= joules(then), "{what}: {} J and {} J", joules(then), joules(now));
        // Its disk cache did not know who had asked for what it kept: two answers, which are dropped, and
        // counted for `init --upgrade`.
        let reply = get(gateway.address, "/one").unwrap();
        assert_eq!((reply.status, reply.answer()), (200, "held"), "{what}");
        assert_eq!(reply.header("content-length"), Some(&*reply.text().len().to_string()));
        assert_eq!(house.served().len(), 1, "its server was asked");
        let kept = house.path("state/cache/earlier-version.json");
        let kept: Value = serde_json::from_str(&fs::read_to_string(kept).unwrap()).unwrap();
        assert_eq!(kept["site"]["pages"].as_u64(), Some(2), "{what}: {kept}");
        assert_eq!(kept["site"]["marked"].as_u64(), Some(2), "{what}: {kept}");
        let log = house.read("serve.log");
        let warnings: Vec<&str> =
            log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
        let expected = ["`kind` is not set", "an earlier version of nightwatt wrote this segment"];
        let is_expected = |line: &&str| expected.iter().any(|words| line.contains(words));
        assert!(warnings.iter().all(is_expected), "{what}: {warnings:#?}");
        assert_eq!(warnings.len(), 2, "{what}: {warnings:#?}");
        assert!(gateway.stop().0.success());
    }
}
