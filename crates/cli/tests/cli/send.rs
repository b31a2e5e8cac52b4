//! Files to another machine: a shell script stands in for ssh.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{House, NIGHTWATT, Plan, nightwatt, program, told};

/// A program that runs its command here, whatever the host.
pub(crate) fn shell(folder: &Path) -> PathBuf {
    let (source, path) = (folder.join("rsh.source"), folder.join("rsh"));
    fs::write(&source, "#!/bin/sh\nshift\nexec sh -c \"$*\"\n").unwrap();
    // By another process: a file that a child of another test has inherited for writing cannot be executed.
    let made = Command::new("install").args(["-m", "755"]).arg(&source).arg(&path).status();
    assert!(made.unwrap().success());
    path
}

/// Sends it to the folder `to`, as another machine.
pub(crate) fn arguments(folder: &Path, from: &Path) -> Vec<String> {
    let rsh = shell(folder).display().to_string();
    let to = format!("nas:{}", folder.join("to").display());
    ["send", "-e", &rsh, "--remote-program", NIGHTWATT, "--json"]
        .map(str::to_owned)
        .into_iter()
        .chain([from.display().to_string(), to])
        .collect()
}

pub(crate) fn text(folder: &Path) -> PathBuf {
    let path = folder.join("text");
    let lines: Vec<String> = (0..60_000).map(|number| format!("line {number}")).collect();
    fs::write(&path, lines.join("\n")).unwrap();
    path
}

#[test]
fn a_file_arrives_with_a_bill_and_is_not_sent_twice() {
    let folder = tempfile::tempdir().unwrap();
    let from = text(folder.path());
    let arguments = arguments(folder.path(), &from);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = nightwatt(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let there = folder.path().join("to/text");
    assert_eq!(fs::read(&there).unwrap(), fs::read(&from).unwrap());
    let bill: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let sent = &bill["sent"];
    assert_eq!(sent["acknowledged_bytes"], fs::metadata(&from).unwrap().len());
    assert!(sent["wire_bytes"].as_u64() < sent["total_bytes"].as_u64(), "{sent}");
    assert!(bill["energy"]["joules"].as_f64().unwrap() > 0.0, "{bill}");

    let again = nightwatt(&arguments);
    let bill: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&bill["sent"]["wire_bytes"], &bill["entries"]), (&0.into(), &1.into()));
}

/// The fault of a review: only packing counted, so that sending without a codec took no CPU time.
#[test]
fn all_cpu_time_of_the_program_counts() {
    let folder = tempfile::tempdir().unwrap();
    let from = text(folder.path());
    let arguments = arguments(folder.path(), &from);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(["--codec", "none"]);
    let output = nightwatt(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let bill: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let sent = &bill["sent"];
    assert_eq!(sent["cpu_seconds"].as_f64(), Some(0.0), "{sent}");
    assert!(sent["process_seconds"].as_f64().unwrap() > 0.0, "{sent}");
}

#[test]
fn what_cannot_be_sent_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let from = text(folder.path());
    let nothing = nightwatt(&["send", "/nonexistent/file", "nas:/backup"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(told(&nothing).contains("cannot read /nonexistent/file"), "{}", told(&nothing));
    let path = from.display().to_string();
    let alone = nightwatt(&["send", &path]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(told(&alone).contains("HOST:PATH"), "{}", told(&alone));
    let mut arguments = arguments(folder.path(), &from);
    arguments[4] = "/nonexistent/nightwatt".to_owned();
    let run = |arguments: &[String]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        nightwatt(&arguments)
    };
    let missing = run(&arguments);
    assert_eq!(missing.status.code(), Some(1));
    assert!(told(&missing).contains("--remote-program"), "{}", told(&missing));
    arguments[4] = "false".to_owned();
    let other = run(&arguments);
    assert_eq!(other.status.code(), Some(1));
    assert!(told(&other).contains("`false` on nas ended with status 1"), "{}", told(&other));
}

#[test]
fn a_trace_of_nothing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [trace, empty] = ["trace", "empty"].map(|name| folder.path().join(name));
    fs::create_dir(&empty).unwrap();
    let [to, from] = [&trace, &empty].map(|path| path.display().to_string());
    let output = nightwatt(&["send", "--record-trace", &to, &from]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("nothing to record") && !trace.exists(), "{}", told(&output));
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    for arguments in [
        &["receive", "--stdio", "--json", "/nonexistent/to"][..],
        &["receive", "--stdio", "--insecure", "/nonexistent/to"],
        &["receive", "--stdio", "--for", "1h", "/nonexistent/to"],
        &["receive", "--stdio", "--ticket-file", "/nonexistent/ticket", "/nonexistent/to"],
        &["send", "--rate", "1e6", "/etc/hostname", "nas:to"],
        &["send", "--socket", "/nonexistent/socket", "/etc/hostname", "nas:to"],
    ] {
        let output = nightwatt(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", told(&output));
    }
}

/// The faults of a review: a folder whose name is no UTF-8 became another one, and a pattern that was taken for a name
/// kept nothing.
#[test]
fn what_would_be_taken_for_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let from = text(folder.path());
    let rsh = shell(folder.path());
    let to = [folder.path().as_os_str().as_bytes(), b"/b\xffckup"].concat();
    let mut command = program();
    command.arg("send").arg("-e").arg(&rsh).args(["--remote-program", NIGHTWATT]).arg(&from);
    command.arg(OsStr::from_bytes(&[b"nas:".as_slice(), &to].concat()));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("is no UTF-8"), "{}", told(&output));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "the text, and two of the shell");

    let arguments = arguments(folder.path(), &from);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for pattern in ["*.[ch", r"*.c\"] {
        let output = nightwatt(&[&arguments[..], &["--exclude", pattern]].concat());
        assert_eq!(output.status.code(), Some(2), "{pattern}: {}", told(&output));
        assert!(told(&output).contains("for the character itself"), "{pattern}: {}", told(&output));
    }
}

/// The folder of a disk that is not mounted is empty.
#[test]
fn a_dry_run_changes_nothing_and_an_empty_folder_deletes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("file"), "x").unwrap();
    let mut arguments = arguments(folder.path(), &top);
    let run = |more: &[&str]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        nightwatt(&[&arguments[..], more].concat())
    };
    let trial = run(&["--dry-run"]);
    assert_eq!(trial.status.code(), Some(0), "{}", told(&trial));
    let forecast: serde_json::Value = serde_json::from_slice(&trial.stdout).unwrap();
    assert_eq!(forecast["write"], serde_json::json!(["top", "top/file"]));
    let there = folder.path().join("to/top/file");
    assert!(!there.exists());
    assert_eq!(run(&[]).status.code(), Some(0));

    fs::remove_file(top.join("file")).unwrap();
    let refused = run(&["--delete"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(told(&refused).contains("--allow-empty"), "{}", told(&refused));
    assert!(there.exists());
    let trial = run(&["--delete", "--allow-empty", "--dry-run"]);
    let forecast: serde_json::Value = serde_json::from_slice(&trial.stdout).unwrap();
    assert_eq!(forecast["delete"], serde_json::json!(["top/file"]));
    assert!(there.exists());
    assert_eq!(run(&["--delete", "--allow-empty"]).status.code(), Some(0));
    assert!(!there.exists());

    // The target is a file.
    let last = arguments.len() - 1;
    arguments[last] = format!("nas:{}", folder.path().join("rsh").display());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let no_folder = nightwatt(&arguments);
    assert_eq!(no_folder.status.code(), Some(1));
    assert!(told(&no_folder).contains("it is a file: name a folder"), "{}", told(&no_folder));
}

/// The gateway wakes its server for it, and the server sleeps again afterwards.
#[test]
fn a_site_is_woken_and_sleeps_again() {
    let house = House::build(&Plan { policy: "always-on".to_owned(), ..Plan::default() });
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    let from = text(house.dir.path());
    let arguments = arguments(house.dir.path(), &from);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(["--to-site", "site"]);
    let output = gateway.order(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(fs::read(house.path("to/text")).unwrap(), fs::read(&from).unwrap());
    let causes: Vec<_> = house.ledger().into_iter().filter_map(|it| it.cause).collect();
    let cause = serde_json::to_value(causes.first().expect("it was woken")).unwrap();
    assert_eq!(cause["by"], "operator");
    gateway.until("asleep");

    arguments.pop();
    let unknown = gateway.order(&[&arguments[..], &["nobody"]].concat());
    assert_eq!(unknown.status.code(), Some(2));
    assert!(told(&unknown).contains("there are: site"), "{}", told(&unknown));
}
