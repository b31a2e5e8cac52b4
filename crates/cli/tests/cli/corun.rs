//! `corun`: jobs run by real shells on this machine, with a plug that always says 50 W.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::compare::{left_over, plug_of_50_w, processes_with, signal, started};
use crate::harness::{eventually, program, told};

struct Bench {
    folder: TempDir,
}

/// Two jobs that exclude each other, and one that excludes none. The plug is read at the beginning and at the end of
/// each run: readings between them may come late on a busy machine, and a run without power is made once more.
const PLAN: &str = "
share = 'any'
meters = ['METER']
interval = '10s'
[runs]
least = 3
most = 3
[[job]]
name = 'a'
command = 'flock LOCK sleep 0.2'
[[job]]
name = 'b'
command = 'flock LOCK sleep 0.2'
[[job]]
name = 'c'
command = 'sleep 0.2'
";

impl Bench {
    fn new(plan: &str) -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        let meter = format!("http=http://{}/,pointer=/w", plug_of_50_w());
        let lock = bench.path("lock").display().to_string();
        let plan = plan.replace("METER", &meter).replace("LOCK", &lock);
        fs::write(bench.path("jobs.toml"), plan).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.current_dir(self.folder.path()).arg("corun").args(args);
        command
    }

    fn corun(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn runs(&self) -> usize {
        let runs = fs::read_to_string(self.path("jobs.results/runs.jsonl")).unwrap_or_default();
        runs.matches('\n').count()
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(output)))
}

fn group<'a>(report: &'a Value, jobs: &[u64]) -> &'a Value {
    let groups = report["answers"]["groups"].as_array().unwrap();
    groups.iter().find(|group| group["jobs"] == Value::from(jobs)).unwrap()
}

#[test]
fn jobs_that_exclude_each_other_gain_nothing_together_and_others_do() {
    // Long beside what a busy machine adds.
    let bench = Bench::new(&PLAN.replace("sleep 0.2", "sleep 1"));
    let output = bench.corun(&["jobs.toml", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let report = json(&output);
    // Each alone, three pairs, all together, in three blocks. A busy machine may miss readings of the plug: then a run
    // is made once more.
    assert_eq!(report["finished"], 21, "{report}");
    let runs = bench.runs();
    assert_eq!(runs, 21 + report["failed"].as_array().unwrap().len());
    assert_eq!(report["energy"]["channels"], "http/power");
    for group in report["answers"]["groups"].as_array().unwrap() {
        let mean = |figure: &str| group[figure]["mean"].as_f64().unwrap();
        assert!((mean("joules") / mean("seconds") - 50.0).abs() < 1e-6, "{group}");
    }
    let together = |jobs: &[u64]| group(&report, jobs)["time"]["ratio"].as_f64().unwrap();
    // 2 s of 2 s, and 1 s of 2 s.
    let (locked, free) = (together(&[0, 1]), together(&[0, 2]));
    assert!(free < locked, "{free} and {locked}");
    // The one that comes second needs twice its time, whichever that is; the free one needs no more.
    let slowdowns = group(&report, &[0, 1])["slowdowns"].as_array().unwrap();
    assert_eq!(slowdowns.len(), 2, "{slowdowns:?}");
    let best = report["answers"]["least_time"].as_array().unwrap().last().unwrap();
    assert!(best["saved"]["ratio"].as_f64().unwrap() < 1.0, "{best}");
    let folder = bench.path("jobs.results");
    for name in ["report.html", "report.json", "groups.csv", "slowdowns.csv", "runs/0001/job-0.out"]
    {
        assert!(folder.join(name).exists(), "{name}");
    }
    assert!(!folder.join("undo").exists(), "nothing is left to be undone");
    // What is there is enough: nothing is run again.
    let output = bench.corun(&["jobs.toml"]);
    let said = told(&output);
    assert_eq!((output.status.code(), bench.runs()), (Some(0), runs), "{said}");
    for part in ["Measured: energy and power by `http/power`", "a + b", "Least time", "beside c"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

#[test]
fn commands_are_given_after_two_hyphens_each() {
    let bench = Bench::new(PLAN);
    let output = bench.corun(&["--dry-run", "--", "sleep 1 | cat", "--", "true", "a b"]);
    let said = told(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("3 groups, 15 to 60 runs"), "{said}");
    assert!(said.contains("sleep 1 + true 'a on CPUs"), "{said}");
    assert!(!bench.path("corun.results").exists());
    for words in [&["--", "true"][..], &["--", "true", "--"], &[]] {
        let output = bench.corun(words);
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    }
    // In a plan, each job has its own.
    let output = bench.corun(&["jobs.toml", "--prepare", "true", "--dry-run"]);
    let said = told(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--prepare") && said.contains("cannot be used with"), "{said}");
}

#[test]
fn jobs_that_cannot_be_measured_are_named_with_the_reason_and_nothing_is_left() {
    let number = format!("3{}", std::process::id());
    // Before that it has the name of the shell.
    let runs = "until grep -qx sleep /proc/$!/comm; do sleep 0.01; done";
    let plan = PLAN[..PLAN.find("[[job]]").unwrap()].replace("most = 3", "most = 3\nretries = 0")
        + &format!(
            "time_limit = '10s'\n\
             [[job]]\nname = 'fine'\ncommand = 'sleep 0.1'\n\
             [[job]]\nname = 'fails'\ncommand = 'echo no disk >&2; exit 3'\n\
             [[job]]\nname = 'endless'\ncommand = 'sleep {number}'\n\
             [[job]]\nname = 'daemon'\ncommand = 'setsid sleep {number} & {runs}; exit 0'\n\
             [[job]]\nname = 'cleared'\ncommand = 'env -i setsid /bin/sleep {number} & {runs}; exit 0'\n\
             [[job]]\nname = 'asks'\ncommand = 'read answer </dev/tty'\n"
        );
    let bench = Bench::new(&format!("sizes = []\n{plan}"));
    let output = bench.corun(&["jobs.toml", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let report = json(&output);
    assert_eq!(group(&report, &[0])["runs"], 3, "the one that works has its runs");
    let why = |name: &str| {
        let failed = report["failed"].as_array().unwrap();
        let of_it = failed.iter().find(|it| it["cell"] == name);
        of_it.unwrap_or_else(|| panic!("{failed:?}"))["why"].as_str().unwrap().to_owned()
    };
    assert!(
        why("fails").contains("job `fails` failed: exit status: 3: no disk"),
        "{}",
        why("fails")
    );
    assert!(why("endless").contains("longer than 10 s"), "{}", why("endless"));
    assert!(why("endless").contains("time_limit"), "{}", why("endless"));
    assert!(why("daemon").contains("left `sleep` (process "), "{}", why("daemon"));
    assert!(why("cleared").contains("left `sleep` (process "), "{}", why("cleared"));
    assert!(why("asks").contains("/dev/tty"), "{}", why("asks"));
    let warned = report["warnings"].to_string();
    assert!(warned.contains("job `fails` failed three times on end"), "{warned}");
    let because_of = |name: &str| {
        let failed = report["failed"].as_array().unwrap();
        let why = format!("job `{name}` ");
        failed.iter().filter(|it| it["why"].as_str().unwrap().contains(&why)).count()
    };
    assert_eq!(because_of("endless"), 3, "each costs the whole time limit: {report}");
    let sleeping = format!("sleep\0{number}");
    eventually("all are ended", || processes_with(&sleeping).is_empty().then_some(()));
}

#[test]
fn killed_in_the_middle_nothing_is_left_and_the_same_command_continues() {
    let number = format!("4{}", std::process::id());
    let bench = Bench::new(&PLAN.replace(
        "sleep 0.2'",
        &format!("sh -c \"if [ -e LOCK.go ]; then true; else sleep {number}; fi\"'"),
    ));
    let mut child = started(bench.command(&["jobs.toml"]));
    let sleeping = format!("sleep\0{number}");
    eventually("a job runs", || (!processes_with(&sleeping).is_empty()).then_some(()));
    signal(&child, Signal::KILL);
    child.0.wait().unwrap();
    eventually("the jobs end", || processes_with(&sleeping).is_empty().then_some(()));
    let process = child.0.id();
    eventually("its folders and groups are gone", || left_over(process).is_empty().then_some(()));
    fs::write(bench.path("lock.go"), "").unwrap();
    let output = bench.corun(&["jobs.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(
        bench.runs() >= 21 && told(&output).contains("let it do more"),
        "jobs that end at once are pointed out"
    );
}

#[test]
fn listed_jobs_run_in_batches_and_after_a_kill_the_same_command_continues() {
    let number = format!("5{}", std::process::id());
    let bench = Bench::new(PLAN);
    let output = bench.corun(&["jobs.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let log = bench.path("log").display().to_string();
    let go = bench.path("go").display().to_string();
    let waits = format!("if [ -e {go} ]; then echo last >>{log}; else exec sleep {number}; fi");
    let list = format!("# two kinds\na: echo first >>{log}\nc: {waits}\n");
    fs::write(bench.path("list"), list).unwrap();
    let args = ["schedule", "--jobs", "list", "--profile", "jobs.results"];
    let command = |more: &[&str]| {
        let mut command = program();
        command.current_dir(bench.folder.path()).args(args).args(more);
        command
    };
    let planned = json(&command(&["--dry-run", "--json"]).output().unwrap());
    let jobs: usize = planned["batches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["jobs"].as_array().unwrap().len())
        .sum();
    assert_eq!((jobs, bench.path("list.done").exists()), (2, false), "{planned}");
    let seconds = |of: &str| planned[of]["seconds"].as_f64().unwrap();
    assert!(seconds("expected") <= seconds("one_after_the_other"), "{planned}");
    let mut child = started(command(&[]));
    let sleeping = format!("sleep\0{number}");
    eventually("the long job runs", || (!processes_with(&sleeping).is_empty()).then_some(()));
    signal(&child, Signal::KILL);
    child.0.wait().unwrap();
    eventually("it is ended", || processes_with(&sleeping).is_empty().then_some(()));
    let process = child.0.id();
    eventually("its folders and groups are gone", || left_over(process).is_empty().then_some(()));
    fs::write(&go, "").unwrap();
    let output = command(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(
        told(&output).contains("2 of 2 jobs have ended, 0 of them failed"),
        "{}",
        told(&output)
    );
    assert_eq!(fs::read_to_string(&log).unwrap().matches("last").count(), 1);
    // All have ended, so nothing runs again.
    let before = fs::read_to_string(&log).unwrap();
    let output = command(&["--json"]).output().unwrap();
    assert_eq!(json(&output)["ended"].as_array().unwrap().len(), 2);
    assert_eq!(fs::read_to_string(&log).unwrap(), before);
    fs::write(bench.path("list"), "d: true\n").unwrap();
    let output = command(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(
        told(&output).contains("list:1") && told(&output).contains("a, b, c"),
        "{}",
        told(&output)
    );
}

#[test]
fn another_measurement_on_this_machine_is_warned_of_beside_clean_json() {
    let bench = Bench::new(PLAN);
    let lock = fs::File::create(bench.path("nightwatt-compare.lock")).unwrap();
    lock.lock_shared().unwrap();
    let mut command = bench.command(&["jobs.toml", "--json"]);
    let output = command.env("NIGHTWATT_LOCKS", bench.folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(json(&output)["finished"], 21);
    let warned = String::from_utf8_lossy(&output.stderr);
    assert!(warned.contains("another nightwatt measures on this machine"), "{warned}");
    lock.unlock().unwrap();
    // What was measured is there: nothing runs, and nothing is warned of.
    let mut command = bench.command(&["jobs.toml", "--json"]);
    let output = command.env("NIGHTWATT_LOCKS", bench.folder.path()).output().unwrap();
    let warned = String::from_utf8_lossy(&output.stderr);
    assert!(!warned.contains("another nightwatt"), "{warned}");
}

#[test]
fn outputs_of_listed_jobs_never_replace_the_results_they_are_planned_by() {
    let bench = Bench::new(PLAN);
    let output = bench.corun(&["jobs.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let runs = bench.runs();
    fs::write(bench.path("list"), "a: true\n").unwrap();
    std::os::unix::fs::symlink("jobs.results", bench.path("same")).unwrap();
    for folder in ["jobs.results", "./jobs.results/", "same"] {
        for more in [&["--fresh"][..], &["--fresh", "--dry-run"], &[]] {
            let mut command = program();
            command.current_dir(bench.folder.path());
            command.args(["schedule", "--jobs", "list", "--profile", "jobs.results"]);
            let output = command.args(["-o", folder]).args(more).output().unwrap();
            let said = told(&output);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains("outputs cannot go there"), "{said}");
            assert_eq!(bench.runs(), runs, "{folder} {more:?}");
        }
    }
}

#[test]
fn a_list_grows_failed_jobs_run_again_and_what_hangs_is_ended() {
    let number = format!("8{}", std::process::id());
    let bench = Bench::new(PLAN);
    let output = bench.corun(&["jobs.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let (log, go) =
        (bench.path("log").display().to_string(), bench.path("go").display().to_string());
    let schedule = |list: &str, more: &[&str]| {
        fs::write(bench.path("list"), list).unwrap();
        let mut command = program();
        command.current_dir(bench.folder.path());
        command.args(["schedule", "--jobs", "list", "--profile", "jobs.results"]).args(more);
        command.output().unwrap()
    };
    let good = format!("a: echo good >>{log}\n");
    let hangs = format!("c: [ -e {go} ] || sleep {number}; echo late >>{log}\n");
    let killed = format!("b: [ -e {go} ] || kill -9 $$; echo lives >>{log}\n");
    let output = schedule(&format!("{good}{hangs}"), &["--time-limit", "10s"]);
    let said = told(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(": time limit of 10s (runs/") && said.contains("--retry-failed"),
        "{said}"
    );
    assert!(processes_with(&format!("sleep\0{number}")).is_empty());
    // One line more, and in another order.
    let list = format!("{killed}{hangs}{good}");
    let output = schedule(&list, &["--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let failed = |output: &Output| {
        let report = json(output);
        let ended = report["ended"].as_array().unwrap().clone();
        let failed = ended.iter().filter_map(|it| Some(it["failed"].as_str()?.to_owned()));
        failed.collect::<Vec<_>>()
    };
    let why = failed(&output);
    assert_eq!((why.len(), why[0].as_str()), (2, "time limit of 10s"), "{why:?}");
    assert!(why[1].starts_with("killed by signal 9 (SIGKILL)"), "{why:?}");
    assert_eq!(fs::read_to_string(&log).unwrap(), "good\n");
    fs::write(&go, "").unwrap();
    let output = schedule(&list, &[]);
    let said = told(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("3 of 3 jobs have ended before (list.done)"), "{said}");
    let planned = json(&schedule(&list, &["--retry-failed", "--dry-run", "--json"]));
    let batches = planned["batches"].as_array().unwrap();
    let jobs: usize = batches.iter().map(|it| it["jobs"].as_array().unwrap().len()).sum();
    assert_eq!(jobs, 2, "{planned}");
    let output = schedule(&list, &["--retry-failed", "--json"]);
    assert_eq!((output.status.code(), failed(&output).len()), (Some(0), 0), "{}", told(&output));
    let log = fs::read_to_string(&log).unwrap();
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["good", "late", "lives"]);
    for wrong in
        [&["--time-limit", "0"][..], &["--time-limit", "2"], &["--retry-failed", "--fresh"]]
    {
        let output = schedule(&list, wrong);
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    }
}

/// As in a container that another program has entered: this process leads no session there.
#[test]
fn jobs_run_where_the_session_began_outside() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: making a PID namespace needs root");
    }
    let bench = Bench::new(PLAN);
    let inner = bench.command(&["jobs.toml", "--json"]);
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(inner.get_program())
        .args(inner.get_args());
    let output = command.current_dir(bench.folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(json(&output)["finished"], 21);
}

#[test]
fn cpus_that_are_not_allowed_are_refused_before_anything_runs() {
    let bench = Bench::new(&PLAN.replace("share = 'any'", "share = 'l2'"));
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program().get_program()).args(["corun", "jobs.toml"]);
    let output = command.current_dir(bench.folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("that this process may use (0)"), "{}", told(&output));
    assert!(!bench.path("jobs.results").exists());
}

#[test]
fn a_plan_is_checked_before_anything_runs() {
    let bench = Bench::new("share = 'l4'\n");
    let output = bench.corun(&["jobs.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("jobs.toml:1"), "{}", told(&output));
    let bench = Bench::new(&PLAN.replace("least = 3\nmost = 3", "least = 2\nmost = 2"));
    let output = bench.corun(&["jobs.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("`runs.least` is 3 or more"), "{}", told(&output));
    assert!(!bench.path("jobs.results").exists(), "no folder is made");
    let output = bench.corun(&["nothing.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("docs/corun.md"), "{}", told(&output));
    let bench = Bench::new(&PLAN.replace("share = 'any'", "cpus_each = 100000\n"));
    let output = bench.corun(&["jobs.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("cpus_each"), "{}", told(&output));
}
