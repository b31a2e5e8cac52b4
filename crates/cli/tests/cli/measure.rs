//! `meters`, `run`, `record` and `export` on whatever machine this is: on one without a meter they
//! say `modelled`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{eventually, nightwatt, program, told};

fn model(args: &[&str]) -> Vec<String> {
    let (command, rest) = args.split_first().unwrap();
    [&[*command, "-m", "model"], rest].concat().iter().map(ToString::to_string).collect()
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Starts the program with its output in pipes.
fn started(args: &[String]) -> Child {
    program().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn without_a_meter_a_command_has_a_modelled_energy_and_an_uncertainty() {
    let output =
        program().args(model(&["run", "--json", "-r", "3", "--", "sleep", "0.05"])).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(output.stdout, b"", "that is the command's");
    let report: Value = serde_json::from_slice(&output.stderr).unwrap();
    let channel = &report["channels"][0];
    assert_eq!(channel["provenance"]["kind"], "modelled");
    let figure = |value: &Value| value.as_f64().unwrap();
    let joules = figure(&channel["joules"]["mean"]);
    assert!(joules > 0.0 && figure(&channel["uncertainty_j"]) > 0.1 * joules, "{channel}");
    // Energy is mean power times mean time, of the very same runs.
    let product = figure(&channel["watts"]) * figure(&report["elapsed_s"]["mean"]);
    assert!((product - joules).abs() < 1e-7 * joules, "{product} {joules}");
    let runs = report["runs"].as_array().unwrap();
    let mean = runs.iter().map(|run| figure(&run["joules"][0])).sum::<f64>() / 3.0;
    assert!((mean - joules).abs() < 1e-9 * joules, "{mean} {joules}");
    assert!(runs.iter().all(|run| figure(&run["elapsed_s"]) >= 0.05), "{runs:?}");
    assert!(report["warnings"][0].as_str().unwrap().contains("no meter"), "{report}");
    // Nothing is covered that was not run.
    assert!(figure(&channel["coverage"]) <= 1.0 + 1e-9, "{channel}");
}

#[test]
fn a_command_that_hardly_ran_has_no_share_of_the_machine() {
    let output = program().args(model(&["run", "--json", "--", "true"])).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert!(report["share"]["of_busy_cpu"].is_null(), "{report}");
    assert!(report["channels"][0]["attributed_j"].is_null(), "{report}");
    assert!(report["channels"][0]["joules"]["mean"].as_f64() > Some(0.0), "{report}");
    let text = told(&program().args(model(&["run", "--", "true"])).output().unwrap());
    assert!(text.contains("– %  of the machine's busy CPU time (too short to tell"), "{text}");
    assert!(!text.contains("by share of CPU time"), "{text}");
}

#[test]
fn a_meter_that_is_not_here_is_refused_with_the_next_step() {
    for meter in ["battery", "hwmon", "nvml", "rapl"] {
        let output = nightwatt(&["run", "-m", meter, "--", "true"]);
        let text = told(&output);
        if output.status.success() || text.contains("may not be read") {
            println!("skipped: this machine has the meter {meter}");
            continue;
        }
        assert_eq!(output.status.code(), Some(125), "{text}");
        assert!(text.contains("hint: `nightwatt meters` lists what is there"), "{text}");
        assert!(text.contains("`-m model` estimates"), "{text}");
    }
}

#[test]
fn the_commands_own_output_and_exit_status_are_left_alone() {
    let script = "echo out; echo err >&2; exit 7";
    let output = program().args(model(&["run", "--", "sh", "-c", script])).output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(7), &b"out\n"[..]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("err\n") && said.contains("modelled"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json").display().to_string();
    let args = model(&["run", "--json", "-o", &file, "--", "sh", "-c", script]);
    let output = program().args(args).output().unwrap();
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    let report: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!((&report["exit_status"], &report["schema"]), (&7.into(), &1.into()));
}

#[test]
fn what_cannot_be_run_has_the_exit_status_that_shells_give_it() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain").display().to_string();
    fs::write(&plain, "no program").unwrap();
    for (args, status) in [
        (["-m", "model", "--", "/no/such/program"], 127),
        (["-m", "model", "--", &plain], 126),
        (["-m", "sundial", "--", "true"], 125),
        (["-o", "/no/such/folder/x", "--", "true"], 125),
    ] {
        let output = nightwatt(&[&["run"], &args[..]].concat());
        assert_eq!(output.status.code(), Some(status), "{}", told(&output));
        assert!(output.stderr.starts_with(b"error: "), "{}", told(&output));
    }
    assert_eq!(nightwatt(&["run"]).status.code(), Some(2));
}

#[test]
fn a_signal_that_is_meant_for_the_command_gets_there_and_the_figures_come_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let up = folder.path().join("up").display().to_string();
    let script = format!("touch {up}; exec sleep 600");
    let run = started(&model(&["run", "-r", "5", "--", "sh", "-c", &script]));
    eventually("the command runs", || fs::metadata(&up).ok());
    signal(&run, Signal::TERM);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 15), "{}", told(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("J  model/machine") && said.contains("interrupted after 1 of 5"),
        "{said}"
    );
}

/// CPU time of what a command leaves behind is its own, if a cgroup may be made to count it.
#[test]
fn what_a_command_leaves_running_is_counted_and_told() {
    // The loop outlives its parent, and no process waits for it.
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let script = format!(
        "cat /proc/self/cgroup
         setsid sh -c '{busy}; echo done >$0; exec sleep 60' $0 </dev/null >/dev/null 2>&1 & \
         until [ -s $0 ]; do sleep 0.05; done"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done").display().to_string();
    let args = model(&["run", "--json", "--", "sh", "-c", &script, &file]);
    let run = started(&args);
    let id = run.id();
    let output = run.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stderr).unwrap();
    if report["share"]["by"] != "cgroup" {
        eprintln!("skipped: this user may not make a cgroup here");
        return;
    }
    let tree = program().args(model(&["run", "--json", "--", "sh", "-c", busy])).output().unwrap();
    let tree: Value = serde_json::from_slice(&tree.stderr).unwrap();
    let cpu = |report: &Value| report["share"]["cpu_s"].as_f64().unwrap();
    assert!(cpu(&report) > 0.5 * cpu(&tree), "{} {}", cpu(&report), cpu(&tree));
    assert!(report["runs"][0]["left_running"].as_u64() >= Some(1), "{report}");
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("still ran when it ended"), "{warnings}");
    // The group is gone, and what ran in it was not harmed.
    let groups = String::from_utf8(output.stdout).unwrap();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
    assert!(group.ends_with(&format!("nightwatt-run-{id}")), "{groups}");
    for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
        let folder = Path::new(mount).join(group);
        assert!(!folder.exists(), "{} is left", folder.display());
    }
}

#[test]
fn a_signal_to_nightwatt_alone_gets_to_the_command_whichever_it_is() {
    for (sent, number) in [(Signal::INT, 2), (Signal::HUP, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let up = folder.path().join("up").display().to_string();
        let script = format!("touch {up}; exec sleep 600");
        // In a group of its own, as no terminal's Ctrl-C reaches it.
        let run = program()
            .args(model(&["run", "--", "sh", "-c", &script]))
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        eventually("the command runs", || fs::metadata(&up).ok());
        signal(&run, sent);
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128 + number), "{}", told(&output));
    }
}

#[test]
fn figures_that_cannot_be_written_are_not_lost() {
    let args = model(&["run", "-o", "/dev/full", "--", "printf", "\\033[31m"]);
    let output = program().args(args).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("J  model/machine") && said.contains("cannot write /dev/full"), "{said}");
}

#[test]
fn names_do_not_steer_the_terminal() {
    let output = nightwatt(&["run", "-m", "model", "--", "sh", "-c", ":", "\u{1b}[31mred"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("\u{fffd}[31mred") && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn every_kind_of_meter_is_listed_and_those_that_are_absent_say_why() {
    let output = nightwatt(&["meters", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let meters = found["meters"].as_array().unwrap();
    for name in ["rapl", "hwmon", "battery", "model"] {
        assert!(meters.iter().any(|meter| meter["name"] == name), "{name}");
    }
    for meter in meters {
        let silent = meter["why"].is_null() && meter["hint"].is_null();
        assert_eq!(meter["state"] == "available", silent, "{meter}");
    }
    let model = meters.iter().find(|meter| meter["name"] == "model").unwrap();
    assert_eq!(model["channels"][0]["kind"], "modelled");
    assert!(model["channels"][0]["watts"].as_f64().unwrap() > 0.0);
    let unknown = nightwatt(&["meters", "-m", "sundial"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(told(&unknown).contains("there is no meter `sundial`"), "{}", told(&unknown));
}

#[test]
fn a_recording_adds_up_to_what_the_recorder_says_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.jsonl").display().to_string();
    let args = ["record", "-o", &path, "--for", "600ms", "-I", "100ms", "--json"];
    let output = program().args(model(&args)).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let recorded: Value = serde_json::from_slice(&output.stdout).unwrap();
    let total = &recorded["channels"][0];
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["meta"]["meters"][0]["name"], "model");
    let sum =
        |column: &str| -> f64 { lines[1..].iter().filter_map(|row| row[column].as_f64()).sum() };
    for (column, total) in [("joules", &total["joules"]), ("covers_s", &total["covered_s"])] {
        let (sum, total) = (sum(column), total.as_f64().unwrap());
        assert!(total > 0.0 && (sum - total).abs() <= 1e-9 * total, "{column}: {sum} {total}");
    }
    // By hand: means times the times between them, and no time is counted twice.
    let rows = &lines[1..];
    let figure = |row: &Value, name: &str| row[name].as_f64().unwrap();
    for (row, before) in rows[1..].iter().zip(rows) {
        let time = figure(row, "covers_s");
        let product = figure(row, "watts") * time;
        assert!((product - figure(row, "joules")).abs() <= 1e-9 * product, "{row}");
        let between = row["mono_ns"].as_i64().unwrap() - before["mono_ns"].as_i64().unwrap();
        assert!(time <= between as f64 / 1e9 + 1e-9, "{row} {before}");
    }
    let again = program().args(model(&args)).output().unwrap();
    assert_eq!(again.status.code(), Some(1), "nothing is written over: {}", told(&again));
}

#[test]
fn a_recorder_that_is_killed_loses_the_open_part_and_a_command_joins_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.parquet");
    let name = path.display().to_string();
    let args = model(&["record", "-o", &name, "-I", "100ms", "--part", "100ms"]);
    let mut recorder = started(&args);
    let parts = folder.path().join("r.parquet.parts");
    eventually("there is a whole part", || {
        let entries = fs::read_dir(&parts).ok()?;
        let whole = entries.flatten().filter(|it| it.path().extension().unwrap() == "parquet");
        (whole.count() >= 1).then_some(())
    });
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let refused = program().args(&args).output().unwrap();
    assert!(told(&refused).contains("--recover"), "{}", told(&refused));
    let joined = nightwatt(&["record", "-o", &name, "--recover", "--json"]);
    assert_eq!(joined.status.code(), Some(0), "{}", told(&joined));
    assert!(path.exists() && !parts.exists());
    let bytes = fs::read(&path).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn a_recording_ends_well_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.csv");
    let name = path.display().to_string();
    let recorder = started(&model(&["record", "-o", &name, "-I", "100ms"]));
    eventually("there are rows", || {
        let text = fs::read_to_string(&path).ok()?;
        (text.lines().count() > 3).then_some(())
    });
    signal(&recorder, Signal::INT);
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(told(&output).contains("modelled"), "{}", told(&output));
}

#[test]
fn prometheus_is_told_and_promtool_finds_nothing_wrong() {
    let mut export = started(&model(&["export", "-l", "127.0.0.1:0", "-I", "100ms", "--json"]));
    let mut line = String::new();
    BufReader::new(export.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let address = said["listen"].as_str().unwrap().to_owned();
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let page = eventually("energy is told", || {
        let answer = get("/metrics");
        let (_, page) = answer.split_once("\r\n\r\n")?;
        let energy =
            page.lines().find(|line| line.starts_with("nightwatt_energy_joules_total{"))?;
        (!energy.ends_with(" 0")).then(|| page.to_owned())
    });
    assert!(page.contains(r#"channel="machine",scope="wall",provenance="modelled""#), "{page}");
    assert!(get("/other").starts_with("HTTP/1.1 404"));
    signal(&export, Signal::TERM);
    assert!(export.wait().unwrap().success());
    find_nothing_wrong(&page);
}

fn find_nothing_wrong(page: &str) {
    let Ok(promtool) = std::env::var("PROMTOOL") else {
        println!("skipped: no PROMTOOL (`tools/promtool` fetches it)");
        return;
    };
    let mut check = Command::new(promtool);
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut check = check.stderr(Stdio::piped()).spawn().unwrap();
    check.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{}", told(&output));
}

/// A collector that keeps what it is sent.
fn collector() -> (std::net::SocketAddr, std::sync::mpsc::Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
                head += &line;
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
            stream.get_mut().write_all(answer).unwrap();
            if send.send((head, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    (address, receive)
}

#[test]
fn a_collector_of_opentelemetry_gets_the_same_and_processes_are_told_by_name() {
    let (address, messages) = collector();
    let url = format!("http://{address}");
    let args = model(&["export", "-l", "127.0.0.1:0", "--json", "-I", "50ms"]);
    let mut export = program()
        .args(args)
        .args(["--processes", "3", "--otlp", &url, "--otlp-every", "100ms"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(export.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let listen: Value = serde_json::from_str(&line).unwrap();
    let listen = listen["listen"].as_str().unwrap().to_owned();
    let metric = |message: &Value, name: &str| {
        let metrics = &message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        metrics.as_array().unwrap().iter().find(|it| it["name"] == name).cloned()
    };
    let joules = |message: &Value| {
        let energy = metric(message, "nightwatt.energy").unwrap();
        assert_eq!((&energy["unit"], &energy["sum"]["isMonotonic"]), (&"J".into(), &true.into()));
        energy["sum"]["dataPoints"][0]["asDouble"].as_f64().unwrap()
    };
    let (head, first) = messages.recv().unwrap();
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/json"), "{head}");
    // The meter may be read later than the next message is sent.
    let mut last = joules(&first);
    let grows = messages.iter().take(100).any(|(_, later)| {
        assert!(joules(&later) >= last, "sums are since the start: {first} {later}");
        last = joules(&later);
        last > joules(&first)
    });
    assert!(grows, "{first}");
    let page = eventually("processes are told", || {
        let mut stream = TcpStream::connect(&listen).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, page) = answer.split_once("\r\n\r\n")?;
        page.contains("nightwatt_unnamed_process_energy_joules_total{").then(|| page.to_owned())
    });
    signal(&export, Signal::TERM);
    assert!(export.wait().unwrap().success());
    find_nothing_wrong(&page);
}
