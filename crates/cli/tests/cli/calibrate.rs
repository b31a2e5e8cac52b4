//! `calibrate`: known truths are found again.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
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
    if told(&output).contains("stop what else runs here") {
        eprintln!("skipped: something else keeps this machine busy");
        return;
    }
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

/// Two ends of a serial line.
fn serial_line() -> (File, PathBuf) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    (master.into(), name.into())
}

/// Starts a generator and waits until it has toggled `toggles` times. Returns its process, the serial
/// line, and the bytes that came through it.
fn generator(stamps: &Path, toggles: usize, json: bool) -> (std::process::Child, File, Vec<u8>) {
    let (mut master, port) = serial_line();
    let line = format!("bytes={}", port.display());
    let mut command = program();
    command.args(["calibrate", "sync", "generate", "-l", &line, "-o"]).arg(stamps);
    command.args(if json { &["--json"][..] } else { &[] });
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Low from the start, then the toggles.
    let mut came = vec![0; 1 + toggles];
    master.read_exact(&mut came).unwrap();
    (child, master, came)
}

/// What came after the first low, when the generator has ended: the toggles, of which there may be more than were
/// waited for.
fn toggled(mut came: Vec<u8>, mut master: File) -> String {
    // At the end of the other side reading fails.
    let _ = master.read_to_end(&mut came);
    let levels = String::from_utf8(came).unwrap();
    levels.strip_prefix('0').unwrap_or_else(|| panic!("{levels}")).to_owned()
}

/// Levels in a file of stamps, and whether their times rise.
fn levels(stamps: &Path) -> String {
    let file = BufReader::new(File::open(stamps).unwrap());
    let rows: Vec<String> = file.lines().map(Result::unwrap).skip(2).collect();
    let cell = |row: &String, place: usize| row.split(',').nth(place).unwrap().to_owned();
    let times: Vec<u64> = rows.iter().map(|row| cell(row, 0).parse().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{rows:?}");
    rows.iter().map(|row| cell(row, 1)).collect()
}

#[test]
fn a_sync_signal_that_is_ended_ends_low_with_a_stamp_for_each_toggle() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = tempfile::tempdir().unwrap();
        let stamps = folder.path().join("stamps.csv");
        let (child, master, came) = generator(&stamps, 3, true);
        assert_eq!(came, b"0101");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        let toggled = toggled(came, master);
        assert!(toggled.len() >= 4 && toggled == "10".repeat(toggled.len() / 2), "{toggled}");
        assert_eq!(levels(&stamps), toggled);
        let generated: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(generated["toggles"], toggled.len());
    }
}

#[test]
fn a_sync_signal_that_is_killed_keeps_its_stamps() {
    let folder = tempfile::tempdir().unwrap();
    let stamps = folder.path().join("stamps.csv");
    let (mut child, master, came) = generator(&stamps, 4, false);
    child.kill().unwrap();
    child.wait().unwrap();
    // The last may have been killed between the toggle and its stamp.
    let (levels, toggled) = (levels(&stamps), toggled(came, master));
    assert!(levels == toggled || levels == toggled[..toggled.len() - 1], "{levels} of {toggled}");
    assert!(toggled.len() >= 4 && "10".repeat(toggled.len()).starts_with(&toggled), "{toggled}");
    // They are not written over by the next attempt.
    let (_other, port) = serial_line();
    let line = format!("bytes={}", port.display());
    let path = stamps.display().to_string();
    let again = nightwatt(&["calibrate", "sync", "generate", "-l", &line, "-o", &path]);
    assert_eq!(again.status.code(), Some(1), "{}", told(&again));
    assert!(told(&again).contains("nothing is written over"), "{}", told(&again));
}

#[test]
fn a_line_that_is_not_there_is_told_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let stamps = folder.path().join("stamps.csv");
    let path = stamps.display().to_string();
    for (line, status, word) in [
        ("rts=/nowhere/ttyS0", 1, "rts=/nowhere/ttyS0 cannot be opened"),
        ("gpio=/nowhere/gpiochip0:3", 1, "gpioinfo"),
        ("cts=/dev/ttyS0", 2, "write `rts=/dev/ttyS0`"),
    ] {
        let output = nightwatt(&["calibrate", "sync", "generate", "-l", line, "-o", &path]);
        assert_eq!(output.status.code(), Some(status), "{}", told(&output));
        assert!(told(&output).contains(word), "{}", told(&output));
        assert!(!stamps.exists());
    }
}

#[test]
fn a_daq_log_gets_its_times_by_a_file_of_stamps() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    // Intervals between 0.75 and 1.25 s; the DAQ began 2.5 s earlier, at 100 Hz sharp.
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    let (mut stamps, mut toggles, mut time) = (String::new(), Vec::new(), 50_000_u64);
    stamps.push_str("# {\"schema\":1,\"nightwatt\":\"0\",\"line\":\"rts=x\",\"seed\":1,");
    stamps.push_str("\"mono_ns\":0,\"wall_ns\":0}\nmono_ns,level,uncertainty_ns\n");
    for toggle in 0..60_u64 {
        time += rng.random_range(750..1250_u64);
        toggles.push(time);
        writeln!(stamps, "{},{},500", time * 1_000_000, (toggle + 1) % 2).unwrap();
    }
    fs::write(path("stamps.csv"), stamps).unwrap();
    let mut log = String::from("CPU Sync\n");
    for sample in 0..8000_u64 {
        let time = 47_500 + sample * 10;
        let high = toggles.iter().filter(|at| **at <= time).count() % 2 == 1;
        writeln!(log, "{sample} {}", if high { "3.1" } else { "0.2" }).unwrap();
    }
    fs::write(path("daq.txt"), log).unwrap();
    let (daq, stamps, out) = (path("daq.txt"), path("stamps.csv"), path("out.csv"));
    let args = ["calibrate", "sync", "align", &daq, &stamps, "--rate", "100", "-o", &out];
    let output = nightwatt(&args);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let said = told(&output);
    assert!(said.contains("60 toggles between 0.200 and 3.100"), "{said}");
    assert!(said.contains("each within 10.0 ms"), "{said}");
    let result = fs::read_to_string(&out).unwrap();
    let mut claimed = 0_u64;
    for (sample, row) in result.lines().skip(1).enumerate() {
        let cells: Vec<&str> = row.split(',').collect();
        assert_eq!(cells[2], sample.to_string());
        if let Ok(mono) = cells[1].parse::<f64>() {
            let truth = (47_500 + sample * 10) as f64;
            assert!((mono * 1e-6 - truth).abs() <= 10.0, "{row}");
            claimed += 1;
        }
    }
    // A pin whose neighbours lie unluckily is left out, and at the ends that costs its interval.
    let between = (toggles[59] - toggles[0]) / 10;
    assert!(claimed <= between + 1 && claimed * 100 > between * 93, "{claimed} {between}");
    let json = nightwatt(&["calibrate", "sync", "align", &daq, &stamps, "--rate", "100", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["stamps"], &json["synchronised"]), (&60.into(), &claimed.into()));
    assert!((56..=60).contains(&json["pins"].as_u64().unwrap()), "{json}");
}

/// A plug that tells 43 W while a file is there, and 2 W while it is not.
fn plug_of(machine: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let body = if machine.exists() { "{\"w\":43}" } else { "{\"w\":2.0}" };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

/// A configuration whose server is awake while the file `up` is there; falling asleep ends in a command.
fn drivable(folder: &Path, and_then: &str) -> String {
    let up = folder.join("up").display().to_string();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nstate_dir = \"{}\"\n[[site]]\nname = \"s\"\n\
         origin = \"http://127.0.0.1:9\"\nprobe = \"controller\"\n[site.power.command]\n\
         wake = \"touch {up}\"\nsleep = \"rm -f {up}{and_then}\"\nprobe = \"test -e {up}\"\n",
        folder.display()
    );
    let path = folder.join("nightwatt.toml");
    fs::write(&path, config).unwrap();
    path.display().to_string()
}

#[test]
fn power_states_are_found_by_driving_a_machine_which_is_left_awake() {
    let folder = tempfile::tempdir().unwrap();
    let config = drivable(folder.path(), "");
    let up = folder.path().join("up");
    let meter = format!("http=http://{}/,pointer=/w", plug_of(up.clone()));
    // Stretches in which a busy machine misses readings of the plug are left out: enough others are left.
    let args = ["calibrate", "states", "--drive", &config, "-m", &meter, "--cycles", "5"];
    let args = [&args[..], &["--on", "3s,5s", "--off", "3s,8s", "--json"]].concat();
    let output = nightwatt(&args);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(up.exists(), "it is awake");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let value = |name: &str| found["fit"][name]["value"].as_f64().unwrap();
    // The plug is read about once a second: a step between two readings is off by half of it.
    assert!((value("on") - 43.0).abs() < 8.0 && value("off").abs() < 12.0, "{found}");
    assert_eq!(found["cycles"], 5);
    assert!(found["time_to_wake_s"]["most"].as_f64().is_some_and(|it| it > 0.0), "{found}");
}

#[test]
fn ctrl_c_while_the_machine_sleeps_wakes_it() {
    let folder = tempfile::tempdir().unwrap();
    let (up, says) = (folder.path().join("up"), folder.path().join("says"));
    mknodat(CWD, &says, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let config = drivable(folder.path(), &format!("; echo asleep > {}", says.display()));
    let meter = format!("http=http://{}/,pointer=/w", plug_of(up.clone()));
    let args = ["calibrate", "states", "--drive", &config, "-m", &meter, "--cycles", "2"];
    let child = program()
        .args([&args[..], &["--on", "1s,1s", "--off", "10m,10m"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Woken at first, then put to sleep: which it says.
    assert_eq!(fs::read_to_string(says).unwrap(), "asleep\n");
    assert!(!up.exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(up.exists(), "it is awake: {}", told(&output));
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("interrupted"), "{}", told(&output));
}

#[test]
fn power_states_are_found_from_a_recording_and_the_times_of_its_sleeps() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    // 50 W awake, 2 W asleep, and 10 s at 60 W in each waking: 580 J.
    let mut log = String::from("time,watts\n");
    for second in 1..=1200 {
        let watts = match second {
            191..=200 | 791..=800 | 991..=1000 => 60,
            101..=200 | 401..=800 | 901..=1000 => 2,
            _ => 50,
        };
        writeln!(log, "{second},{watts}").unwrap();
    }
    fs::write(path("log.csv"), log).unwrap();
    fs::write(path("times.csv"), "sleep,awake\n100,200\n400,800\n900,1000\n").unwrap();
    let (log, times) = (format!("{},mean=1s", path("log.csv")), path("times.csv"));
    let output = nightwatt(&["calibrate", "states", "--log", &log, "--times", &times]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    for line in ["[scenario.server]", "on_w = 50.00", "off_w = 2.00", "switch_j = 580.0"] {
        assert!(told(&output).contains(line), "{line} in {}", told(&output));
    }
    let nothing = nightwatt(&["calibrate", "states"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", told(&nothing));
}

/// A disk that draws 5 W idle and 7.5 W at work: 0.4 s for each write and 0.01 s for each megabyte, some
/// seconds after it was issued; so w0 = 1 J and w1 = 25 mJ/MB. A meter says its mean power every 100 ms,
/// with noise of a known size.
fn disk_at_work(writes: &[(f64, u64)], noise_w: f64) -> String {
    let mut log = String::from("time,watts\n");
    let (end, mut state) = (writes.last().unwrap().0 + 60.0, 7_u64);
    for tick in 1..=(end * 10.0) as u32 {
        let (from, to) = (f64::from(tick - 1) / 10.0, f64::from(tick) / 10.0);
        let busy: f64 = writes
            .iter()
            .map(|&(at, bytes)| {
                let begin = at + 5.03;
                let finish = begin + 0.4 + 0.01 * bytes as f64 / 1e6;
                (to.min(finish) - from.max(begin)).max(0.0)
            })
            .sum();
        // A sum of twelve uniform numbers less six is nearly normal, of deviation 1.
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let normal: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        writeln!(log, "{to:.1},{:.4}", 5.0 + 2.5 * busy / (to - from) + noise_w * normal).unwrap();
    }
    log
}

#[test]
fn what_a_disk_takes_for_writes_is_found_from_a_recording_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let sizes = [10_000_000, 50_000_000, 200_000_000, 400_000_000_u64];
    let writes: Vec<(f64, u64)> =
        (0..24).map(|n| (20.0 + 40.0 * f64::from(n), sizes[n as usize % 4])).collect();
    fs::write(path("log.csv"), disk_at_work(&writes, 0.05)).unwrap();
    let mut table = String::from("issued,bytes\n");
    for (at, bytes) in &writes {
        writeln!(table, "{at},{bytes}").unwrap();
    }
    fs::write(path("writes.csv"), table).unwrap();
    let (log, writes, model) =
        (format!("{},mean=100ms", path("log.csv")), path("writes.csv"), path("model"));
    let output = nightwatt(&[
        "calibrate",
        "storage",
        "--log",
        &log,
        "--writes",
        &writes,
        "-o",
        &model,
        "--json",
    ]);
    assert!(output.status.success(), "{}", told(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (name, truth, within) in [("per_write", 1.0, 0.1), ("per_byte", 25e-9, 0.5e-9)] {
        let it = &found["fit"][name];
        let [low, high] = [0, 1].map(|end| it["interval"][end].as_f64().unwrap());
        // A quarter wider than stated: a true interval would miss one time in twenty.
        let slack = (high - low) / 8.0;
        assert!(low - slack < truth && truth < high + slack, "{name}: {it}");
        assert!((it["value"].as_f64().unwrap() - truth).abs() < within, "{name}: {it}");
    }
    assert_eq!(found["writes"].as_array().unwrap().len(), 24);
    // Other sizes than those that were fitted, by the model in the file: within 6 %.
    let model: Value = serde_json::from_str(&fs::read_to_string(model).unwrap()).unwrap();
    let figure = |name: &str| model[name].as_f64().unwrap();
    for bytes in [5e6, 30e6, 120e6, 350e6] {
        let (says, truth) = (figure("burst") + figure("byte") * bytes, 1.0 + 25e-9 * bytes);
        assert!((says / truth - 1.0).abs() < 0.06, "{bytes}: {says} of {truth} J");
    }
}

#[test]
fn writes_that_left_no_mark_are_told_and_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let writes: Vec<(f64, u64)> =
        (0..6).map(|n| (20.0 + 40.0 * f64::from(n), 100_000_000 * (n as u64 % 2 + 1))).collect();
    fs::write(path("log.csv"), disk_at_work(&writes, 0.01)).unwrap();
    // One more that was never written: deleted before.
    let mut table = String::new();
    let lost = (265.0, 1000);
    for (at, bytes) in writes.iter().chain([&lost]) {
        writeln!(table, "{at},{bytes}").unwrap();
    }
    fs::write(path("writes.csv"), table).unwrap();
    let (log, writes) = (format!("{},mean=100ms", path("log.csv")), path("writes.csv"));
    let options = ["calibrate", "storage", "--log", &log, "--writes", &writes, "--timeout", "10s"];
    let output = nightwatt(&options);
    let text = told(&output);
    assert!(text.contains("1 of 7 writes are left out") && text.contains("did not rise"), "{text}");
}

#[test]
fn a_table_of_writes_gives_the_line_through_them() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.csv").display().to_string();
    // 0.5 J and 10 mJ/MB, on the line but for 10 mJ up and down.
    fs::write(&table, "bytes,joules\n1000000,0.52\n1000000,0.50\n100000000,1.51\n100000000,1.49\n")
        .unwrap();
    let output = nightwatt(&["calibrate", "storage", &table, "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let value = |name: &str| found["fit"][name]["value"].as_f64().unwrap();
    assert!((value("per_byte") - 0.99 / 99e6).abs() < 1e-12, "{found}");
    assert!((value("per_write") - 0.50).abs() < 1e-9, "{found}");
    fs::write(&table, "bytes,joules\nmany,1\n").unwrap();
    let text = told(&nightwatt(&["calibrate", "storage", &table]));
    assert!(text.contains("line 2") && text.contains("bytes"), "{text}");
}
