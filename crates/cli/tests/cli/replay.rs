//! A log, replayed against its stand-in.

use std::fmt::Write;
use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::harness::{House, NIGHTWATT, Plan, eventually, nightwatt, told};
use serde_json::Value;

/// Thirty requests within 29 s, and two lines that are none.
fn log() -> String {
    let mut log = String::from("this is no log line\n");
    for n in 0..30 {
        let status = if n % 10 == 9 { 404 } else { 200 };
        let _ = writeln!(
            log,
            "10.0.0.{n} - - [03/Mar/2012:06:26:{n:02} -0800] \"GET /{n} HTTP/1.1\" {status} {} \"-\" \"curl/8\"",
            100 + n
        );
    }
    log.push_str("10.0.0.1 - - [03/Mar/2012:06:26:29 -0800] \"\\x16\\x03\" 400 0 \"-\" \"-\"\n");
    log
}

#[test]
fn a_log_is_replayed_and_every_request_accounted_for() {
    let house = House::build(&Plan::default());
    let _origin = house.start_origin();
    let path = |name| house.path(name).display().to_string();
    fs::write(house.path("a.log"), log()).unwrap();
    let url = format!("http://{}/", house.origin);
    let files = ["--rows", &path("a.csv"), "--table", &path("table.csv")];
    let replay = ["replay", &path("a.log"), &url, "--minutes", "0.01"];
    let output = nightwatt(&[&replay[..], &["--json"], &files].concat());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    // The line that could not be read, and no progress.
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.starts_with("warning: 1 of 32 lines could not be read"), "{errors}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["log"]["malformed"], &said["log"]["bad_requests"]), (&1.into(), &1.into()));
    let summary = &said["replay"];
    assert_eq!((&summary["requests"], &summary["served_by_origin"]), (&30.into(), &30.into()));
    assert_eq!((&summary["http_200"], &summary["http_404"]), (&27.into(), &3.into()));
    assert_eq!(house.read("a.csv").lines().count(), 31);
    assert!(house.read("table.csv").starts_with("metric,replay\nrequests,30\n"));
    let served = house.served();
    assert_eq!(served.len(), 30);

    let page = told(&nightwatt(&replay));
    for part in [
        "32 lines, 30 requests, 1 without one, 1 unreadable",
        "this is no log line",
        "served_by_origin",
        "100.0 %",
    ] {
        assert!(page.contains(part), "{part:?} is not in {page}");
    }
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let house = House::build(&Plan::default());
    let path = |name| house.path(name).display().to_string();
    let said = |args: &[&str]| {
        told(&nightwatt(args))
            .replace(&house.dir.path().display().to_string(), "DIR")
            .replace(&house.origin.to_string(), "ORIGIN")
    };
    fs::write(house.path("a.log"), log()).unwrap();
    fs::write(house.path("rubbish"), "rubbish\n").unwrap();
    let url = format!("http://{}/", house.origin);
    insta::assert_snapshot!("replay_no_log", said(&["replay", &path("none"), &url]));
    insta::assert_snapshot!("replay_rubbish", said(&["replay", &path("rubbish"), &url]));
    insta::assert_snapshot!("replay_bad_url", said(&["replay", &path("a.log"), "https://x/"]));
    let nobody = said(&["replay", &path("a.log"), &url, "--minutes", "0.01", "--json"]);
    assert!(nobody.starts_with("exit status: 1\n"), "{nobody}");
    assert!(nobody.contains("error: no request was answered: 30 connect\nhint: "), "{nobody}");
    let unwritable = ["--rows", "/no/such/folder/a.csv"];
    let replay = ["replay", &path("a.log"), &url];
    insta::assert_snapshot!("replay_bad_csv", said(&[&replay[..], &unwritable].concat()));
}

#[test]
fn an_origin_that_is_to_die_with_its_parent_does() {
    let house = House::build(&Plan::default());
    // The shell is the parent: it ends when it has read a line.
    let script =
        format!("{NIGHTWATT} origin --listen {} --die-with-parent $$ & read line", house.origin);
    let mut shell = Command::new("/bin/sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it listens", || TcpStream::connect(house.origin).ok());
    drop(shell.stdin.take());
    shell.wait().unwrap();
    eventually("it is gone", || TcpStream::connect(house.origin).err());
}
