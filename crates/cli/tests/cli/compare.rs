//! `compare` and `report`: plans run by real shells on this machine, with a plug that always says 50 W.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{eventually, program, told};

/// A plug that always says 50 W.
pub(crate) fn plug_of_50_w() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let body = r#"{"w": 50}"#;
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length";
            // The client may be gone.
            let _ = write!(stream, "{head}: {}\r\n\r\n{body}", body.len());
        }
    });
    address
}

/// A folder with a plan in it.
struct Bench {
    folder: TempDir,
}

/// Two environments that are the same machine; a command that says what it did. The plug is read at the beginning and
/// at the end of each run: readings between them may come late on a busy machine, and a run without power is made once
/// more.
const PLAN: &str = r#"
meters = ["METER"]
interval = "10s"

[runs]
least = 3
most = 3
warm_ups = 0

[[environment]]
name = "once"
kind = "host"

[[environment]]
name = "twice"
kind = "host"

[[workload]]
name = "work"
tool = "json"
command = '''
echo {environment} >> TRACE
case {environment} in once) pages=1000;; twice) pages=500;; esac
sleep 0.2
echo "{\"pages\": $pages, \"time\": 0.5}"
'''
read = { operations = { from = "/pages", what = "pages" }, duration = { from = "/time", unit = "s" } }
"#;

impl Bench {
    fn new(plan: &str) -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        bench.write(plan);
        bench
    }

    fn write(&self, plan: &str) {
        let meter = format!("http=http://{}/,pointer=/w", plug_of_50_w());
        let plan = plan
            .replace("METER", &meter)
            .replace("TRACE", &self.path("trace").display().to_string());
        fs::write(self.path("plan.toml"), plan).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compare(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = program();
        command.current_dir(self.folder.path()).args(["compare", "plan.toml"]).args(args);
        command
    }

    fn report(&self, args: &[&str]) -> Value {
        let output = self.compare(&[args, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Block, cell and attempt of every run that was written down.
    fn runs(&self) -> Vec<(u64, u64, u64)> {
        let text = fs::read_to_string(self.path("plan.results/runs.jsonl")).unwrap_or_default();
        let number = |run: &Value, name: &str| run[name].as_u64().unwrap();
        // The last line may be half written.
        text.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| serde_json::from_str(line).unwrap())
            .map(|run: Value| {
                (number(&run, "block"), number(&run, "cell"), number(&run, "attempt"))
            })
            .collect()
    }
}

/// The program while it runs; it does not outlive the test.
pub(crate) struct Started(pub(crate) Child);

impl Drop for Started {
    fn drop(&mut self) {
        // It has ended in a test that passes.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn started(mut command: std::process::Command) -> Started {
    Started(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

pub(crate) fn signal(Started(child): &Started, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Folders and cgroups that this process made: they have its number in their names.
pub(crate) fn left_over(process: u32) -> Vec<PathBuf> {
    let places = ["/var/tmp", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let found = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let its = format!("nightwatt-{process}-");
    let is_its = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&its))
    };
    found.map(|entry| entry.path()).filter(is_its).collect()
}

/// Processes whose command line has this text, but for zombies.
pub(crate) fn processes_with(text: &str) -> Vec<String> {
    let of = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("cmdline")).ok();
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(of);
    all.filter(|line| line.contains(text)).collect()
}

#[test]
fn energy_per_operation_is_power_by_rate_and_twice_of_it_is_twice() {
    let bench = Bench::new(PLAN);
    let report = bench.report(&[]);
    let figure = &report["answers"]["figures"]["energy_per_operation"];
    let mean = |cell: usize| figure["cells"][cell]["mean"].as_f64().unwrap();
    // 50 W / (1000 pages / 0.5 s), and by half of the pages.
    assert!((mean(0) - 0.025).abs() < 1e-9 && (mean(1) - 0.05).abs() < 1e-9, "{figure}");
    let ratio = &figure["to_baseline"]["ratios"][0];
    assert!((ratio["ratio"].as_f64().unwrap() - 2.0).abs() < 1e-9, "{ratio}");
    assert_eq!((&ratio["verdict"], &ratio["reference"]), (&"differs".into(), &"once".into()));
    assert_eq!(
        (&report["energy"]["channels"], &report["energy"]["is_modelled"]),
        (&"http/power".into(), &false.into())
    );
    assert_eq!(
        (&report["finished"], &report["comparisons"][0]["main"]),
        (&6.into(), &"energy_per_operation".into())
    );
    let folder = bench.path("plan.results");
    for name in [
        "report.html",
        "report.json",
        "runs.csv",
        "cells.csv",
        "runs/0001/run.out",
        "runs/0001/power.parquet",
    ] {
        assert!(folder.join(name).exists(), "{name}");
    }
    assert!(!folder.join("undo").exists(), "nothing is left to be undone");
    // Again from the folder, in words.
    let output = program().arg("report").arg(&folder).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("Measured: energy and power by `http/power`") && said.contains("200.0"),
        "{said}"
    );
    assert!(said.contains("differs"), "{said}");
}

#[test]
fn what_was_interrupted_goes_on_where_it_was_and_comes_to_the_same_order() {
    // The third run waits until it may end, so that the signal comes before the last.
    let waits = "while [ $(grep -c . TRACE) -gt 2 ] && [ ! -e TRACE.go ]; do sleep 0.05; done";
    let plan = PLAN.replace("sleep 0.2", waits);
    let go = |bench: &Bench| fs::write(bench.path("trace.go"), "").unwrap();
    let whole = Bench::new(&plan);
    go(&whole);
    whole.report(&[]);
    let expected = whole.runs();
    assert_eq!(expected.len(), 6);
    for (how, status) in [(Signal::INT, Some(130)), (Signal::TERM, Some(130)), (Signal::KILL, None)]
    {
        let bench = Bench::new(&plan);
        let mut child = started(bench.command(&[]));
        eventually("two runs", || (bench.runs().len() >= 2).then_some(()));
        let trace = bench.path("trace").display().to_string();
        eventually("a third begins", || (!processes_with(&trace).is_empty()).then_some(()));
        signal(&child, how);
        assert_eq!(child.0.wait().unwrap().code(), status, "{how:?}");
        eventually("all is undone", || processes_with(&trace).is_empty().then_some(()));
        let kept = bench.runs();
        assert!(kept.len() >= 2 && kept.len() < 6, "{kept:?}");
        assert_eq!(kept, expected[..kept.len()]);
        go(&bench);
        let report = bench.report(&[]);
        assert_eq!((bench.runs(), &report["finished"]), (expected.clone(), &6.into()), "{how:?}");
    }
}

#[test]
fn killed_in_the_middle_nothing_is_left_running_or_lying_about() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can change the root folder of a command");
        return;
    }
    // Numbers that no other test's have.
    let of_ours = |number: u32| format!("{number}{}", std::process::id());
    let (command, server) = (of_ours(1), of_ours(2));
    let plan = PLAN.replace("sleep 0.2", &format!("sleep {command}")).replace(
        "[[workload]]",
        &format!("[[environment]]\nname = 'jail'\nkind = 'chroot'\nroot = 'host'\n\n[[workload]]\nserve = 'exec sleep {server}'"),
    );
    let bench = Bench::new(&plan);
    let mut child = started(bench.command(&[]));
    // The command runs, in whichever environment comes first.
    eventually("it runs", || {
        (!processes_with(&format!("sleep\0{command}")).is_empty()).then_some(())
    });
    eventually("the server too", || {
        (!processes_with(&format!("sleep\0{server}")).is_empty()).then_some(())
    });
    assert!(!left_over(child.0.id()).is_empty(), "there is something to be left");
    signal(&child, Signal::KILL);
    child.0.wait().unwrap();
    eventually("its processes end", || {
        let left = [
            processes_with(&format!("sleep\0{command}")),
            processes_with(&format!("sleep\0{server}")),
        ]
        .concat();
        left.is_empty().then_some(())
    });
    let process = child.0.id();
    eventually("its folders and groups are gone", || left_over(process).is_empty().then_some(()));
}

#[test]
fn a_run_that_fails_is_kept_with_its_words_and_what_fails_always_is_given_up() {
    let plan = PLAN
        .replace("twice) pages=500", "twice) echo no pages >&2; exit 3")
        .replace("most = 3", "most = 5")
        .replace("least = 3", "least = 5");
    let bench = Bench::new(&plan);
    let output = bench.compare(&[]);
    let said = told(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("given up") && said.contains("exit status: 3: no pages"), "{said}");
    let runs = bench.runs();
    let failed = runs.iter().filter(|(_, cell, _)| *cell == 1).count();
    // Three blocks, each with one more try.
    assert_eq!((failed, runs.len()), (6, 11));
    let err = fs::read_dir(bench.path("plan.results/runs")).unwrap().flatten();
    let said = err.filter(|run| {
        fs::read_to_string(run.path().join("run.err")).is_ok_and(|text| text == "no pages\n")
    });
    assert_eq!(said.count(), 6);
}

#[test]
fn results_of_another_plan_are_not_mixed_in_and_can_be_forgotten() {
    let bench = Bench::new(PLAN);
    bench.report(&[]);
    bench.write(&PLAN.replace("most = 3", "most = 4"));
    let output = bench.compare(&[]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("--fresh"), "{}", told(&output));
    assert_eq!(bench.runs().len(), 6, "nothing is lost");
    assert_eq!(bench.report(&["--fresh"])["answers"]["rule"]["max"], 4);
}

#[test]
fn copies_run_at_once_with_ports_of_their_own_and_their_rates_add_up() {
    let plan = PLAN
        .replace("[[environment]]\nname = \"twice\"\nkind = \"host\"\n", "")
        .replace("kind = \"host\"\n", "kind = \"host\"\ncopies = 3\n")
        .replace("sleep 0.2", "echo {copy} {port:7000} {port:7004} >> TRACE");
    let bench = Bench::new(&plan);
    let report = bench.report(&[]);
    let figures = &report["answers"]["figures"];
    let mean = |name: &str| figures[name]["cells"][0]["mean"].as_f64().unwrap();
    assert!((mean("operations_per_second") - 6000.0).abs() < 1e-9);
    assert!((mean("energy_per_operation") - 50.0 / 6000.0).abs() < 1e-9);
    let trace = fs::read_to_string(bench.path("trace")).unwrap();
    // No port of one is a port of another.
    for line in ["0 7000 7004", "1 7005 7009", "2 7010 7014"] {
        assert_eq!(trace.lines().filter(|it| *it == line).count(), 3, "{line}: {trace}");
    }
}

#[test]
fn a_plan_is_looked_at_before_it_is_done_and_its_mistakes_are_told() {
    let bench = Bench::new(PLAN);
    let output = bench.compare(&["--dry-run"]);
    let said = told(&output);
    assert!(said.contains("2 combinations, 6 to 6 runs") && said.contains("once: work"), "{said}");
    assert!(!bench.path("plan.results").exists() && !bench.path("trace").exists());
    fs::write(bench.path("plan.toml"), "[[environment]]\nkind = 'host'\n").unwrap();
    let output = bench.compare(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("[[workload]]"), "{}", told(&output));
    let nothing = program().args(["report", "/no/such/folder"]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(2), "{}", told(&nothing));
    for list in ["--tools", "--environments"] {
        let output = program().args(["compare", list]).output().unwrap();
        let said = told(&output);
        assert!(said.contains(if list == "--tools" { "pgbench" } else { "podman" }), "{said}");
    }
}

#[test]
fn what_was_begun_is_finished_also_when_it_was_interrupted_or_failed() {
    let lines =
        "finish = ['echo finished {copy} >> TRACE']\nprepare = ['echo begun {copy} >> TRACE']";
    let plan = PLAN
        .replace("kind = \"host\"\n", "kind = \"host\"\ncopies = 2\n")
        .replace("[[workload]]", &format!("[[workload]]\n{lines}"))
        .replace("sleep 0.2", &format!("sleep 3{}", std::process::id()));
    let bench = Bench::new(&plan);
    let lines = |bench: &Bench| fs::read_to_string(bench.path("trace")).unwrap_or_default();
    let mut child = started(bench.command(&[]));
    let name = format!("sleep\03{}", std::process::id());
    eventually("both run", || (processes_with(&name).len() >= 2).then_some(()));
    signal(&child, Signal::INT);
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    let trace = lines(&bench);
    assert!(trace.contains("finished 0") && trace.contains("finished 1"), "{trace}");

    let bench = Bench::new(&plan.replace(
        "prepare = ['echo begun {copy} >> TRACE']",
        "prepare = ['echo begun {copy} >> TRACE; exit 1']",
    ));
    assert_eq!(bench.compare(&[]).status.code(), Some(1));
    assert!(lines(&bench).contains("finished 0"), "{}", lines(&bench));
}

#[test]
fn what_a_client_leaves_running_does_not_load_later_runs() {
    if nightwatt_needs::program("pgrep").is_none() {
        return;
    }
    let name = format!("4{}", std::process::id());
    let plan = PLAN.replace("[[workload]]", "[[workload]]\nat = 'client'").replace(
        "sleep 0.2",
        &format!("pgrep -cx -f 'sleep {name}' >> TRACE; setsid sleep {name} &"),
    );
    let bench = Bench::new(&plan);
    bench.report(&[]);
    let trace = fs::read_to_string(bench.path("trace")).unwrap();
    let counts: Vec<&str> = trace.lines().filter(|line| line.parse::<u32>().is_ok()).collect();
    assert_eq!(counts, ["0"; 6], "{trace}");
    assert_eq!(processes_with(&format!("sleep\0{name}")), [""; 0]);
}

#[test]
fn a_server_is_not_mistaken_for_another_that_has_its_port() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let serve = format!("[[workload]]\nserve = 'exec sleep 1000 # {{port:{port}}}'");
    let bench = Bench::new(&PLAN.replace("[[workload]]", &serve));
    let said = told(&bench.compare(&[]));
    assert!(said.contains(&format!("something else listens at port {port}")), "{said}");
    assert!(!bench.path("trace").exists(), "nothing was asked of it");
}

#[test]
fn two_at_once_do_not_write_into_one_folder() {
    let bench = Bench::new(&PLAN.replace("sleep 0.2", "sleep 4713"));
    let mut child = started(bench.command(&[]));
    eventually("it runs", || Path::new(&bench.path("trace")).exists().then_some(()));
    let output = bench.compare(&[]);
    assert!(told(&output).contains("in use"), "{}", told(&output));
    signal(&child, Signal::INT);
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
}

#[test]
fn results_of_a_plan_stand_beside_the_claim_that_it_is_about() {
    let bench = Bench::new(&format!("title = \"Turbo\"\n{PLAN}"));
    let done = bench.compare(&[]);
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let reproduce = |id: &str, folder: &str| {
        let args = ["reproduce", id, "--results", folder, "--json"];
        program().current_dir(bench.folder.path()).args(args).output().unwrap()
    };
    let asked = |id: &str| {
        let found = reproduce(id, "plan.results");
        assert_eq!(found.status.code(), Some(0), "{}", told(&found));
        let said: Value = serde_json::from_slice(&found.stdout).unwrap();
        said["claims"][0].clone()
    };
    let claim = asked("H2");
    assert_eq!(claim["verdict"], "not-checkable", "theirs is of other hardware: {claim}");
    // The same time at the same 50 W for half the pages: twice the energy of a page.
    let ratio = claim["figures"].as_array().unwrap().last().unwrap()["ours"].as_f64().unwrap();
    assert!((ratio - 200.0).abs() < 20.0, "{claim}");
    assert_eq!(asked("O7")["figures"].as_array().unwrap().len(), 0, "of another plan");
    let said: Value = serde_json::from_slice(&reproduce("O7", "plan.results").stdout).unwrap();
    assert!(said["notes"][0].as_str().unwrap().contains("plan.results"), "{said}");
    // What they print as a share is held against ours, where a meter measured both.
    let plan = PLAN.replace("\"twice\"", "\"guest\"").replace("twice)", "guest)");
    let idle = Bench::new(&format!("title = \"Idle: host, containers, guests\"\n{plan}"));
    let done = idle.compare(&[]);
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let folder = idle.path("plan.results").display().to_string();
    let said: Value = serde_json::from_slice(&reproduce("H2", &folder).stdout).unwrap();
    let claim = &said["claims"][0];
    assert_eq!((&claim["verdict"], &said["notes"]), (&"differs".into(), &serde_json::json!([])));
    let mut figures = claim["figures"].as_array().unwrap().iter();
    let here = figures.find(|it| it["what"].as_str().unwrap().contains("over the host, here"));
    let here = here.unwrap();
    assert_eq!(here["accepted"], serde_json::json!([100.0, 109.0]), "{here}");
    assert!((here["ours"].as_f64().unwrap() - 200.0).abs() < 20.0, "{here}");
    let none = reproduce("H2", "nowhere");
    assert_eq!(none.status.code(), Some(2), "{}", told(&none));
}

#[test]
fn plain_commands_are_compared_by_the_energy_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let meter = format!("http=http://{}/,pointer=/w", plug_of_50_w());
    let compare = |args: &[&str]| {
        let mut command = program();
        command.current_dir(folder.path()).args(["compare", "--json", "-m", &meter]).args(args);
        command.output().unwrap()
    };
    let done = compare(&["-r", "3", "--", "sleep 0.2", "--", "sleep 3; echo '{x}'"]);
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let comparison = &report["comparisons"][0];
    assert_eq!(comparison["main"], "energy_per_operation", "{comparison}");
    assert_eq!(
        (&report["compared"], &report["baseline"]),
        (&"command".into(), &"command sleep 0.2".into())
    );
    let figure = |name: &str| &report["answers"]["figures"][name];
    let mean = |name: &str, cell: usize| figure(name)["cells"][cell]["mean"].as_f64().unwrap();
    for cell in 0..2 {
        // 50 W for as long as it ran, whatever it printed.
        let energy = mean("energy_per_operation", cell);
        assert!((energy - 50.0 * mean("elapsed", cell)).abs() < 1e-6 * energy, "{report}");
        assert!((energy - mean("energy", cell)).abs() < 1e-9, "{report}");
    }
    assert!(mean("elapsed", 1) > mean("elapsed", 0));
    // It starts from the beginning each time: earlier results are of other commands.
    let again = compare(&["-r", "3", "--", "true", "--", "sleep 0.1"]);
    assert_eq!(again.status.code(), Some(0), "{}", told(&again));
    let alone = compare(&["--", "true"]);
    assert_eq!(alone.status.code(), Some(2), "{}", told(&alone));
}
