//! Connections between two processes.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{nightwatt, program, told};

struct Serving {
    child: Child,
    address: SocketAddr,
}

impl Serving {
    fn start() -> Self {
        let mut child = program()
            .args(["tcp", "serve", "--listen", "127.0.0.1:0", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let address = said["listening"].as_str().unwrap().parse().unwrap();
        Self { child, address }
    }

    fn end(mut self) -> Value {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success());
        serde_json::from_str(&said).unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fetched(serving: &Serving, args: &[&str]) -> Value {
    let address = serving.address.to_string();
    let output = nightwatt(&[&["tcp", "fetch", &address, "--json"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(output.stderr.is_empty(), "no progress under --json: {}", told(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_client_says_what_its_connections_took_at_both_ends() {
    let serving = Serving::start();
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv").display().to_string();
    let said =
        fetched(&serving, &["--connections", "20", "-n", "100", "--verify", "--rows", &rows]);
    assert_eq!((&said["schema"], &said["direction"]), (&1.into(), &"fetch".into()));
    assert_eq!((&said["completed"], &said["failed"]), (&100.into(), &0.into()));
    assert_eq!((&said["segments"], &said["bytes"]), (&10.into(), &1_460_000.into()));
    assert_eq!((&said["ended"], &said["options"]["verify"]), (&"done".into(), &true.into()));
    assert_eq!(said["lifetime_s"]["count"], 100);
    assert_eq!((&said["server"]["completed"], &said["server"]["open"]), (&100.into(), &0.into()));
    // All of one byte and one more at its end, for the sign of it.
    assert_eq!(said["tcp"]["bytes_received"]["sum"], 1_460_100);
    assert_eq!(said["records"].as_array().unwrap().len(), 100);
    assert!(said["records"][0]["server_tcp"]["cwnd_segments"].as_u64() > Some(0));
    assert!(said["cpu"]["s_per_connection"].as_f64() > Some(0.0));
    assert_eq!(fs::read_to_string(&rows).unwrap().lines().count(), 101);

    let sent = fetched(&serving, &["--send", "--connections", "3", "--once"]);
    assert_eq!((&sent["direction"], &sent["completed"]), (&"send".into(), &3.into()));
    let address = serving.address.to_string();
    let text = nightwatt(&["tcp", "fetch", &address, "--seconds", "0.2", "--connections", "2"]);
    assert!(told(&text).contains("lifetime") && text.status.success(), "{}", told(&text));
    let served = serving.end();
    assert_eq!(served["reports"], 3);
    // Those that were under way when the client's time was over: it resets them.
    assert!(served["failed"].as_u64() <= Some(2), "{served}");
}

#[test]
fn ctrl_c_ends_a_client_with_its_figures_and_a_killed_server_is_told_of() {
    let mut serving = Serving::start();
    let address = serving.address.to_string();
    let endless = || {
        let client = program()
            .args(["tcp", "fetch", &address, "--continuous", "-s", "100000000"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut client = client.unwrap();
        // A line of each second.
        let said = BufReader::with_capacity(1, client.stderr.as_mut().unwrap());
        let runs = said.lines().map(Result::unwrap).any(|line| line.contains("1 running"));
        assert!(runs, "it has ended");
        client
    };
    let client = endless();
    kill_process(Pid::from_child(&client), Signal::INT).unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(told(&output).contains("1 = 0 completed + 0 failed + 1 cut"), "{}", told(&output));

    let client = endless();
    serving.child.kill().unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("start `nightwatt tcp serve` there"), "{}", told(&output));
}

#[test]
fn what_cannot_be_done_says_what_would_help() {
    let wrong = |args: &[&str], status: i32| {
        let output = nightwatt(&[&["tcp"], args].concat());
        assert_eq!(output.status.code(), Some(status), "{}", told(&output));
        told(&output)
    };
    let many = wrong(&["fetch", "127.0.0.1", "--connections", "1000000"], 2);
    assert!(many.contains("fewer `--connections`"), "{many}");
    let name = wrong(&["fetch", "no such host"], 2);
    assert!(name.contains("hint: write HOST"), "{name}");
    let control = wrong(&["fetch", "127.0.0.1", "--send", "--congestion", "no-such"], 2);
    assert!(
        control.contains("this kernel offers no congestion control `no-such` here, but:"),
        "{control}"
    );
    let long = wrong(&["fetch", "127.0.0.1", "-s", "18446744073709551615"], 2);
    assert!(long.contains("fewer `--segments`"), "{long}");
    let rate = wrong(&["fetch", "127.0.0.1", "--pacing", "100M"], 2);
    assert!(rate.contains("100Mbit"), "{rate}");
    let taken = Serving::start();
    let listen = wrong(&["serve", "--listen", &taken.address.to_string()], 1);
    assert!(listen.contains("is another one running there?"), "{listen}");
}

#[test]
fn older_rows_outlast_a_run_that_fails_and_figures_outlast_rows_that_cannot_be_written() {
    let serving = Serving::start();
    let address = serving.address.to_string();
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv");
    fs::write(&rows, "older rows").unwrap();
    let path = rows.display().to_string();
    // No server listens on the port of TCP's multiplexer.
    let failed = nightwatt(&["tcp", "fetch", "127.0.0.1:1", "--rows", &path]);
    assert_eq!(failed.status.code(), Some(1), "{}", told(&failed));
    assert_eq!(fs::read_to_string(&rows).unwrap(), "older rows");
    fetched(&serving, &["-n", "2", "--rows", &path]);
    assert_eq!(fs::read_to_string(&rows).unwrap().lines().count(), 3, "the older ones are gone");

    // It can be opened, and never has room.
    let full = nightwatt(&["tcp", "fetch", &address, "--json", "--rows", "/dev/full"]);
    assert_eq!(full.status.code(), Some(1), "{}", told(&full));
    let said: Value = serde_json::from_slice(&full.stdout).unwrap();
    assert_eq!(said["completed"], 1);
    let error = String::from_utf8_lossy(&full.stderr).into_owned();
    assert!(error.contains("cannot write /dev/full") && error.contains("has room"), "{error}");
}

#[test]
fn what_a_laboratory_cannot_do_is_told_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs.jsonl");
    let path = runs.display().to_string();
    let wrong = |command: &str, args: &[&str]| {
        let output = nightwatt(&[&["tcp", command, "--runs", &path], args].concat());
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with("error: "), "nothing before it: {said}");
        said
    };
    for command in ["lab", "helps"] {
        let share = wrong(command, &["--precision", "0"]);
        assert!(share.contains("a share above 0: 0.03 for 3 %"), "{share}");
        let figure = wrong(command, &["--until", "lifetimes"]);
        assert!(figure.contains("no figure `lifetimes`: one of lifetime,"), "{figure}");
    }
    let unfelt = wrong("helps", &["pacing", "-s", "10"]);
    assert!(unfelt.contains("does not pace the first 10 packets"), "{unfelt}");
    assert!(!runs.exists(), "not even a file for the runs");
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root has what the laboratory needs, and gets as far as the meter");
        return;
    }
    let channel = wrong("lab", &["--quick", "--json", "-m", "model", "--energy", "model/wall"]);
    assert!(channel.contains("no channel `model/wall`: the meters here have model/"), "{channel}");
}

/// A pcap file of raw IPv4, little-endian: a segment of four bytes, and again after 300 ms.
fn sent_twice() -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    file.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 101, 0, 0, 0]);
    for micros in [0u32, 300_000] {
        file.extend([1, 0, 0, 0]);
        file.extend(micros.to_le_bytes());
        file.extend([44, 0, 0, 0, 44, 0, 0, 0]);
        file.extend([0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        file.extend([0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        file.extend(*b"data");
    }
    file
}

#[test]
fn a_capture_is_told_and_compared_with_what_the_kernel_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (capture, record) = (path("capture.pcap"), path("fetch.json"));
    fs::write(&capture, sent_twice()).unwrap();
    let text = told(&nightwatt(&["tcp", "check", &capture]));
    assert!(text.contains("payload      4 bytes, 8 sent in 2 segments (2 packets)"), "{text}");
    for (again, succeeds) in [(1, true), (2, false)] {
        let figures = format!("{{\"retransmitted_segments\": {again}, \"delivered\": null}}");
        let json = format!(
            "{{\"direction\": \"send\", \"records\": [{{\"number\": 0, \"port\": 40000, \
             \"tcp\": {figures}, \"server_tcp\": null}}]}}"
        );
        fs::write(&record, json).unwrap();
        let output = nightwatt(&["tcp", "check", &capture, "--beside", &record, "--json"]);
        assert_eq!(output.status.success(), succeeds);
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let one = &said["beside"]["connections"][0];
        assert_eq!(one["retransmitted_segments"]["capture"], 1);
        assert_eq!(one["retransmitted_segments"]["kernel"], again);
        assert_eq!(one["equal"], succeeds);
    }
    // What is no capture.
    let output = nightwatt(&["tcp", "check", &record]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("neither pcap nor pcapng"), "{said}");
}

#[test]
fn a_dry_run_names_what_would_be_measured_and_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran").display().to_string();
    let own = std::process::id().to_string();
    let watched = format!("watch the processes {own}");
    for (args, step) in [
        (&["lab", "--scenario", "d", "--quick"][..], "measure over the links d"),
        (&["helps", "tso+gso+gro,pacing", "--scenario", "d"], "try tso+gso+gro, pacing"),
        (&["where", "--hz", "99", "--", "touch", &ran], "sample each CPU 99 times per second"),
        (&["where", "--for", "10s", "-p", &own], &watched),
    ] {
        // `where` has its own words behind `--`.
        let all = [&["tcp", args[0], "--dry-run", "--json"], &args[1..]].concat();
        let output = nightwatt(&all);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let would = report["would"].as_array().unwrap();
        assert!(would.iter().any(|it| it == step), "{report}");
        // What is missing depends on the machine.
        let lacks = !report["missing"].as_array().unwrap().is_empty();
        assert_eq!(output.status.code(), Some(i32::from(lacks)), "{}", told(&output));
    }
    assert!(!std::path::Path::new(&ran).exists());
    let output = nightwatt(&["tcp", "where", "--dry-run", "--", "no-such-program-here"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("the program `no-such-program-here`"), "{}", told(&output));
}
