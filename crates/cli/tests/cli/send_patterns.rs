//! What `send --exclude` leaves out, beside rsync.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{NIGHTWATT, nightwatt, told};
use crate::send::shell;

const NAMES: [&str; 12] =
    ["a", "b", "ab", "a.o", "b.a", "Cache", "cache", "x[1]", "st*r", "a-b", "]q", "c\\d"];

const PATTERNS: [&str; 35] = [
    "*.o",
    "[Cc]ache/",
    "[Cc]ache",
    "*.[oa]",
    "st\\*r",
    "cache/***",
    "/tree/a/***",
    "a/**",
    "**/b",
    "/a",
    "/tree/a",
    "a/b",
    "?",
    "[!a]",
    "[^a]*",
    "[a-c]",
    "x[[]1]",
    "[]]q",
    "[a\\-]*",
    "a-b",
    "*/a",
    "/*/a",
    "**a",
    "Cache/*",
    "x\\[1\\]",
    "x[1]",
    "c\\\\d",
    "c\\d",
    "/**/b/",
    "[!-~]",
    "[b-]*",
    "a**b",
    "***",
    "**/",
    "*/***",
];

/// Folders and files with all the names, each folder with fewer of them than the one around it.
fn grow(folder: &Path, names: &[&str], depth: usize) {
    fs::create_dir_all(folder).unwrap();
    for (place, name) in names.iter().enumerate() {
        let path = folder.join(name);
        if depth > 0 && place % 2 == 0 {
            grow(&path, &names[(place + depth) % 3..], depth - 1);
        } else {
            fs::write(path, "x").unwrap();
        }
    }
}

fn paths(folder: &Path) -> BTreeSet<String> {
    let listed = Command::new("find").arg(".").current_dir(folder).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn patterns_leave_out_what_rsync_leaves_out() {
    if nightwatt_needs::program("rsync").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    grow(&place("tree"), &NAMES, 2);
    let (all, rsh) = (paths(&place("tree")).len(), shell(folder.path()).display().to_string());
    assert!(all > 100, "{all}");
    for pattern in PATTERNS {
        for made in ["theirs", "ours"] {
            let _ = fs::remove_dir_all(place(made));
            fs::create_dir(place(made)).unwrap();
        }
        let tree = place("tree").display().to_string();
        let theirs = format!("{}/", place("theirs").display());
        let copied = nightwatt_needs::command("rsync")
            .args(["-a", "--exclude", pattern, &tree, &theirs])
            .status();
        assert!(copied.unwrap().success());
        let ours = format!("nas:{}", place("ours").display());
        let exclude = ["--exclude", pattern];
        let from = ["send", "-q", "-e", &rsh, "--remote-program", NIGHTWATT];
        let sent = nightwatt(&[&from[..], &exclude, &[&tree, &ours]].concat());
        assert_eq!(sent.status.code(), Some(0), "{pattern}: {}", told(&sent));
        assert_eq!(paths(&place("ours")), paths(&place("theirs")), "{pattern}");
    }
}
