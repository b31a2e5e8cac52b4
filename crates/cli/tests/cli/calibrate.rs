//! `calibrate`: known truths are found again.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::thread;

use serde_json::Value;

use crate::harness::{nightwatt, program, told};

#[test]
fn power_states_are_found_from_a_table_on_stdin() {
    let mut child = program()
        .args(["calibrate", "states", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // 43.3 W, 1.6 W, 170.7 J, by hand, each 0.5 J off in turn.
    let table = "on_s,off_s,cycles,joules\n600,3000,4,31463.3\n1000,0,0,43299.5\n\
                 0,10000,1,16171.2\n100,50,9,5945.8\n500,500,2,22791.9\n";
    child.stdin.take().unwrap().write_all(table.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let fit: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (name, truth) in [("on", 43.3), ("off", 1.6), ("switch", 170.7)] {
        let estimate = &fit["fit"][name];
        let end = |end: usize| estimate["interval"][end].as_f64().unwrap();
        assert!(end(0) <= truth && truth <= end(1), "{name}: {estimate}");
    }
}

#[test]
fn a_table_that_does_not_say_it_is_refused_with_what_to_measure_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv").display().to_string();
    fs::write(&path, "on_s,off_s,cycles,joules\n10,0,0,433\n20,0,0,866\n30,0,0,1299\n").unwrap();
    let output = nightwatt(&["calibrate", "states", &path]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("cannot be determined"), "{}", told(&output));
    assert!(told(&output).contains("hint:"), "{}", told(&output));
}

/// Busy and all ticks of the machine.
fn ticks() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let line = stat.lines().next().unwrap();
    let ticks: Vec<f64> =
        line.split_whitespace().skip(1).take(8).map(|word| word.parse().unwrap()).collect();
    let idle = ticks[3] + ticks[4] + ticks[7];
    let all: f64 = ticks.iter().sum();
    (all - idle, all)
}

/// A plug that tells 40 W and 60 W times how busy the machine was since it was last asked.
fn plug() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut last = ticks();
        let mut watts = 40.0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let now = ticks();
            if now.1 - last.1 >= 4.0 {
                watts = 40.0 + 60.0 * (now.0 - last.0) / (now.1 - last.1);
                last = now;
            }
            let body = format!("{{\"w\":{watts}}}");
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

#[test]
fn power_against_load_is_found_with_a_plug_and_becomes_a_model_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.json").display().to_string();
    let meter = format!("http=http://{}/,pointer=/w", plug());
    let args = ["calibrate", "utilisation", "-m", &meter, "--step", "2s", "-o", &model, "--json"];
    let output = nightwatt(&args);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let calibration: Value = serde_json::from_slice(&output.stdout).unwrap();
    let line = &calibration["fit"]["line"];
    let figure = |name: &str| line[name]["value"].as_f64().unwrap();
    let at_half = figure("idle") + figure("slope") / 2.0;
    assert!((at_half - 70.0).abs() < 5.0, "{line}");
    assert!((figure("slope") - 60.0).abs() < 12.0, "{line}");
    // The model is used, and what it says is modelled all the same.
    let fitted = format!("model,fitted={model}");
    let output = nightwatt(&["run", "-m", &fitted, "--json", "-o", "-", "--", "true"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let channel = &report["channels"][0];
    assert_eq!(channel["provenance"]["kind"], "modelled");
    let watts = channel["watts"].as_f64().unwrap();
    assert!((30.0..110.0).contains(&watts), "{channel}");
    let of_a_model = nightwatt(&["calibrate", "utilisation", "-m", "model"]);
    assert!(told(&of_a_model).contains("a model cannot be fitted"), "{}", told(&of_a_model));
}
