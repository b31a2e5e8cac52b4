//! Load, against a stand-in for a server.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::harness::{House, Plan, nightwatt, program, told};

fn sent(args: &[&str]) -> Value {
    let output = nightwatt(&[&["load", "--json"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(output.stderr.is_empty(), "no progress under --json: {}", told(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn requests_are_sent_counted_and_written_down() {
    let house = House::build(&Plan::default());
    let origin = house.start_origin();
    let url = format!("http://{}/{{page}}", house.origin);
    let rows = house.path("rows.csv").display().to_string();
    let pid = std::process::id().to_string();
    let mix = ["--pages", "20", "--zipf", "1", "--arrivals", "bursts", "--burst-length", "50ms"];
    let long = ["--rate", "500", "--requests", "200", "--rows", &rows, "--pid", &pid];
    let said = sent(&[&[url.as_str()][..], &mix, &long].concat());
    assert_eq!((&said["schema"], &said["urls"]), (&1.into(), &20.into()));
    assert_eq!(said["arrivals"]["kind"], "bursts");
    let requests = &said["requests"];
    assert_eq!((&requests["due"], &requests["answered"]), (&200.into(), &200.into()));
    assert_eq!(said["statuses"]["2xx"], 200);
    assert!(said["server"]["memory_bytes"].as_u64() > Some(0), "{}", said["server"]);
    assert_eq!(fs::read_to_string(&rows).unwrap().lines().count(), 201);
    assert_eq!(house.served().len(), 200);
    drop(origin);

    // The seed determines the times: they are the same again, whatever server answers.
    let columns = |text: &str| {
        let mut times: Vec<String> =
            text.lines().map(|line| line.split(',').nth(2).unwrap().into()).collect();
        times.sort();
        times
    };
    let first = columns(&fs::read_to_string(&rows).unwrap());
    let refused = nightwatt(&[&["load", url.as_str()][..], &mix, &long].concat());
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    assert!(told(&refused).contains("no request was answered: 200 refused"), "{}", told(&refused));
    assert_eq!(columns(&fs::read_to_string(&rows).unwrap()), first);
}

#[test]
fn a_trace_is_sent_at_its_times_from_a_log_with_its_targets() {
    let house = House::build(&Plan::default());
    let _origin = house.start_origin();
    let path = |name| house.path(name).display().to_string();
    let url = format!("http://{}/", house.origin);
    fs::write(house.path("times"), "# s\n100\n100.2\n100.1\n").unwrap();
    let timed = sent(&[&url, "--trace", &path("times"), "--rows", &path("rows.csv")]);
    assert_eq!(timed["requests"]["answered"], 3);
    let rows = house.read("rows.csv");
    let mut intended: Vec<f64> =
        rows.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse().unwrap()).collect();
    intended.sort_by(f64::total_cmp);
    assert!(intended.iter().zip([0.0, 0.1, 0.2]).all(|(a, b)| (a - b).abs() < 1e-6), "{rows}");

    let line = |second: u32, request: &str| {
        format!(
            "10.0.0.1 - - [03/Mar/2012:06:26:{second:02} -0800] \"{request} HTTP/1.1\" 200 9 \"-\" \"-\"\n"
        )
    };
    let log = [line(1, "GET /a"), line(1, "POST /b"), line(2, "HEAD /c"), line(2, "GET /a")];
    fs::write(house.path("a.log"), log.concat()).unwrap();
    let logged = sent(&[&url, "--trace", &path("a.log"), "--speed", "20"]);
    assert_eq!((&logged["requests"]["answered"], &logged["urls"]), (&3.into(), &2.into()));
}

#[test]
fn ctrl_c_ends_it_early_with_its_figures() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let load = program()
        .args(["load", &url, "--rate", "200", "--for", "1h", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    head(&mut stream);
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").unwrap();
    // The same connection is used again once the answer has been read.
    head(&mut stream);
    rustix::process::kill_process(Pid::from_child(&load), Signal::INT).unwrap();
    let output = load.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["ended_early"], &said["run"]["answered"]), (&true.into(), &1.into()));
    let run = |key: &str| said["run"][key].as_u64().unwrap();
    assert_eq!(run("due"), run("answered") + run("failed") + run("unsent"));
}

/// Reads a request's head.
fn head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
}

#[test]
fn what_cannot_be_sent_says_what_would_help() {
    let wrong = |args: &[&str]| {
        let output = nightwatt(&[&["load"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        told(&output)
    };
    assert!(wrong(&["https://127.0.0.1/"]).contains("https is not spoken"));
    assert!(wrong(&["http://127.0.0.1/{page}"]).contains("`--pages N` and `{page}`"));
    assert!(
        wrong(&["http://127.0.0.1/", "--burst-factor", "20", "--arrivals", "bursts"])
            .contains("the share must lie")
    );
    assert!(wrong(&["http://127.0.0.1/", "--pid", "4194305"]).contains("there is no process"));
    let many = wrong(&["http://127.0.0.1/", "--connections", "4000000000"]);
    assert!(many.contains("fewer `--connections`"), "{many}");
    let text = wrong(&["http://127.0.0.1/", "--trace", "/no/such/file"]);
    assert!(text.contains("cannot read /no/such/file"), "{text}");
}
