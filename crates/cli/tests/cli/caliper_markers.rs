//! `nightwatt caliper --markers` on programs that mark their own sections.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use serde_json::Value;
use tempfile::TempDir;

use crate::caliper::{printed_seconds, taken};
use crate::harness::{can_probe, eventually, nightwatt, program, told};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A folder for what a test builds and writes.
struct Bench(TempDir);

impl Bench {
    /// None where probes cannot be loaded.
    fn new() -> Option<Self> {
        if !can_probe() {
            return None;
        }
        Some(Self(tempfile::tempdir().unwrap()))
    }

    /// The program, by this compiler with these arguments.
    fn built(&self, compiler: &[&str]) -> PathBuf {
        self.built_of("markers.c", "markers", compiler)
    }

    /// The program or library of that name.
    fn built_of(&self, source: &str, name: &str, compiler: &[&str]) -> PathBuf {
        let program = self.0.path().join(name);
        let source = format!("{ROOT}/crates/markers/tests/programs/{source}");
        let built = Command::new(compiler[0])
            .args(&compiler[1..])
            .args(["-Wall", "-Wextra", "-Werror", "-O1", "-pthread"])
            .arg(format!("-I{ROOT}/crates/markers/include"))
            .args([&source, "-o"])
            .arg(&program)
            .status();
        assert!(built.unwrap().success());
        program
    }

    fn c(&self) -> PathBuf {
        self.built(&["cc", "-std=gnu99"])
    }

    /// The report on a run of a command, and what that printed.
    fn report_of_command(&self, options: &[&str], command: &[&str]) -> (Value, String) {
        let out = self.0.path().join("report.json");
        let out_name = out.display().to_string();
        let before = ["caliper", "--markers", "--json", "-o", &out_name];
        let output = nightwatt(&[&before, options, &["--"], command].concat());
        let report = fs::read_to_string(out).unwrap_or_default();
        let report = serde_json::from_str(&report).unwrap_or_else(|_| panic!("{}", told(&output)));
        (report, String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn report_on(&self, path: &Path, arguments: &[&str]) -> (Value, String) {
        let path = path.display().to_string();
        self.report_of_command(&[], &[&[path.as_str()], arguments].concat())
    }
}

fn section<'a>(report: &'a Value, name: &str) -> &'a Value {
    let sections = report["sections"].as_array().unwrap();
    sections.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"))
}

fn count(report: &Value, name: &str, of: &str) -> u64 {
    section(report, name)[of].as_u64().unwrap()
}

fn seconds(report: &Value, name: &str, of: &str) -> f64 {
    section(report, name)[of].as_f64().unwrap()
}

/// Eight threads on fewer CPUs; each section's CPU time is told by the threads' own clocks.
fn threads_are_charged_what_they_ran(bench: &Bench, path: &Path) {
    let before = taken();
    let (report, printed) = bench.report_on(path, &["threads", "20"]);
    // A tick of its own for what is not told in full ones.
    let taken = taken() - before + 0.01;
    let told = printed_seconds(&printed);
    for (name, told) in [("heavy", told[0]), ("light", told[1])] {
        let ran = seconds(&report, name, "on_cpu_s");
        assert!((ran - told).abs() < 0.01 * told + taken, "{name}: {ran} of {told} s");
        assert_eq!((count(&report, name, "calls"), count(&report, name, "lost")), (160, 0));
        let preempted = section(&report, name)["off_cpu"]["preempted_s"].as_f64().unwrap();
        assert!(preempted > ran, "four threads for each CPU: {preempted} of {ran} s");
    }
    let channel = &report["channels"][0];
    let part = |key: &str| channel[key].as_f64().unwrap();
    let parts = part("sections_j") + part("outside_j") + part("others_j") + part("idle_j");
    assert!((parts / part("joules") - 1.0).abs() < 1e-9, "{channel}");
}

#[test]
fn threads_that_take_each_others_cpus_away_are_charged_what_they_ran_in_their_markers() {
    let Some(bench) = Bench::new() else { return };
    threads_are_charged_what_they_ran(&bench, &bench.c());
}

#[test]
fn the_same_header_serves_cplusplus() {
    if nightwatt_needs::program("c++").is_none() {
        return;
    }
    let Some(bench) = Bench::new() else { return };
    let program = bench.built(&["c++", "-x", "c++", "-std=c++11"]);
    threads_are_charged_what_they_ran(&bench, &program);
}

#[test]
fn a_million_calls_are_counted_to_the_last_whether_or_not_they_were_read_in_time() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.c();
    // As fast as it can: far more than a ring holds before anybody looks.
    let (report, _) = bench.report_on(&program, &["count", "1000000"]);
    let (calls, lost) = (count(&report, "count", "calls"), count(&report, "count", "lost"));
    assert_eq!(calls + lost, 1_000_000, "{calls} and {lost}");
    assert_eq!((count(&report, "count", "unended"), count(&report, "count", "unbegun")), (0, 0));
    let warnings = report["warnings"].to_string();
    assert!(lost == 0 || warnings.contains("faster than they could be read"), "{warnings}");
}

#[test]
fn children_that_are_gone_at_once_are_counted_and_do_not_write_into_their_parents_memory() {
    let Some(bench) = Bench::new() else { return };
    let (report, _) = bench.report_on(&bench.c(), &["fork", "100"]);
    assert_eq!(count(&report, "child", "calls"), 100);
    // The parent's own section is one call; each child ends one that it never began.
    assert_eq!((count(&report, "parent", "calls"), count(&report, "parent", "unbegun")), (1, 100));
    assert_eq!(count(&report, "parent", "unended"), 0);
}

#[test]
fn threads_that_end_give_their_place_to_the_next() {
    let Some(bench) = Bench::new() else { return };
    // There is room for 128 at a time.
    let (report, _) = bench.report_on(&bench.c(), &["again", "1000"]);
    assert_eq!((count(&report, "once", "calls"), count(&report, "once", "lost")), (1000, 0));
}

#[test]
fn what_is_never_ended_is_told_whether_the_program_ends_dies_or_becomes_another() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.c();
    for (how, status) in [("1", 0), ("2", 134), ("3", 0)] {
        let (report, _) = bench.report_on(&program, &["unended", how]);
        assert_eq!(report["exit_status"], status);
        let all = |name| ["calls", "unended", "unbegun"].map(|of| count(&report, name, of));
        assert_eq!((all("unended"), all("unbegun")), ([0, 1, 0], [0, 0, 1]), "{how}");
        // 20 ms by its own clock, and whatever a thread does until it is gone.
        let ran = seconds(&report, "unended", "on_cpu_s");
        assert!(ran > 0.018 && ran < 0.2, "{how}: {ran} s");
        if how == "3" {
            assert_eq!(count(&report, "heavy", "calls"), 16);
        }
    }
}

/// The program, which does a round whenever it is asked.
struct Serving {
    child: Child,
    /// Whose markers are read.
    pid: u32,
    says: BufReader<ChildStdout>,
}

impl Serving {
    fn new(program: &Path) -> Self {
        let mut command = Command::new(program);
        command.arg("serve");
        Self::with(command)
    }

    fn with(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        let mut serving = Self { pid: child.id(), child, says };
        serving.hear("ready");
        serving
    }

    fn hear(&mut self, what: &str) {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), what);
    }

    fn ask(&mut self, what: &str) {
        self.child.stdin.as_ref().unwrap().write_all(what.as_bytes()).unwrap();
        self.hear("done");
    }

    /// Does anybody read its markers? The word is in its memory, which every process can be asked for.
    fn is_read(&self) -> bool {
        let folder = format!("/proc/{}/fd", self.pid);
        let ours = fs::read_dir(folder).unwrap().flatten().find(|entry| {
            let to = fs::read_link(entry.path()).unwrap_or_default();
            to.to_string_lossy().contains("nightwatt-markers")
        });
        let mut front = [0; 20];
        let mut file = fs::File::open(ours.expect("it has used a marker").path()).unwrap();
        file.read_exact(&mut front).unwrap();
        front[16..] != [0; 4]
    }

    /// What writes the report on it to that file, and reads its markers when this returns.
    fn reader(&self, out: &Path) -> Child {
        let mut command = program();
        command.args(["caliper", "--markers", "--json", "-p", &self.pid.to_string(), "-o"]);
        let reader = command.arg(out).stderr(Stdio::null()).spawn().unwrap();
        eventually("a reader", || self.is_read().then_some(()));
        reader
    }
}

/// Ends a reader, and gives what it has written.
fn interrupted(mut reader: Child, out: &Path) -> Value {
    let pid = rustix::process::Pid::from_child(&reader);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    reader.wait().unwrap();
    serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap()
}

#[test]
fn a_process_that_runs_already_is_read_from_then_on_and_no_longer_than_somebody_reads() {
    let Some(bench) = Bench::new() else { return };
    let mut serving = Serving::new(&bench.c());
    // Before anybody reads: these do not count.
    serving.ask("x");
    serving.ask("x");
    assert!(!serving.is_read());
    for rounds in [2_u64, 3] {
        let out = bench.0.path().join(format!("{rounds}.json"));
        let reader = serving.reader(&out);
        for _ in 0..rounds {
            serving.ask("x");
        }
        // With a child, which reports by itself.
        serving.ask("f");
        // The child's call, and whatever else, is read at the end.
        let report = interrupted(reader, &out);
        assert_eq!(count(&report, "round", "calls"), rounds + 1);
        let ran = seconds(&report, "round", "on_cpu_s");
        assert!(ran > 0.018 * (rounds + 1) as f64, "{ran}");
        assert!(!serving.is_read());
    }
    drop(serving.child.stdin.take());
    assert!(serving.child.wait().unwrap().success());
}

#[test]
fn whoever_reads_and_is_killed_is_found_out_when_there_is_no_room_left() {
    let Some(bench) = Bench::new() else { return };
    let mut serving = Serving::new(&bench.c());
    serving.ask("x");
    let pid = serving.child.id().to_string();
    let mut command = program();
    command.args(["caliper", "--markers", "-p", &pid]).stderr(Stdio::null());
    let mut watcher = command.spawn().unwrap();
    eventually("a reader", || serving.is_read().then_some(()));
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    // 200,000 calls; a ring holds 32,767.
    serving.ask("b");
    assert!(!serving.is_read());
    drop(serving.child.stdin.take());
    serving.child.wait().unwrap();
}

#[test]
fn a_program_that_closes_all_its_files_is_read_on_and_its_new_files_are_left_alone() {
    let Some(bench) = Bench::new() else { return };
    let (report, printed) = bench.report_on(&bench.c(), &["close", "500"]);
    assert_eq!(report["exit_status"], 0);
    // Blocks of the file that has the number of ours now.
    assert_eq!(printed.trim(), "0");
    assert_eq!(count(&report, "kept", "calls"), 501);
    assert!(report["warnings"].to_string().contains("1 calls were not counted"), "{report}");
}

#[test]
fn a_daemon_that_has_closed_all_its_files_is_found_by_what_it_maps_and_what_is_lost_is_told() {
    let Some(bench) = Bench::new() else { return };
    let mut command = Command::new(bench.c());
    command.args(["serve", "2"]);
    let mut serving = Serving::with(command);
    let pid = serving.child.id();
    let report = read_while(&bench, pid, || serving.ask("x"));
    // Its thread had no place to write to before, and can get none.
    assert_eq!(count(&report, "round", "calls"), 0);
    assert!(report["warnings"].to_string().contains("had closed all its files"), "{report}");
}

/// The report on five seconds of a process that runs already. It works until that is there.
fn read_while(bench: &Bench, pid: u32, mut work: impl FnMut()) -> Value {
    let out = bench.0.path().join("report.json");
    let mut command = program();
    command.args(["caliper", "--markers", "--json", "--for", "5s", "-p", &pid.to_string(), "-o"]);
    let mut watcher = command.arg(&out).stderr(Stdio::null()).spawn().unwrap();
    while watcher.try_wait().unwrap().is_none() {
        work();
    }
    serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap()
}

/// In a PID namespace of its own.
const CONTAINED: [&str; 4] = ["unshare", "--pid", "--fork", "--mount-proc"];

#[test]
fn the_first_thread_of_a_contained_process_is_charged_and_of_others_it_is_told() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.c().display().to_string();
    let (report, _) =
        bench.report_of_command(&[], &[&CONTAINED[..], &[&program, "unended"]].concat());
    // It ran for 20 ms. Kernels may keep switches away from a process 1 to themselves, and on a busy machine
    // 5 ms of that were missing once.
    let ran = seconds(&report, "unended", "on_cpu_s");
    assert!(ran > 0.005 && ran < 0.2, "{ran} s");
    let is_told = |report: &Value| report["warnings"].to_string().contains("by other numbers");
    assert!(!is_told(&report), "{report}");
    let (report, _) =
        bench.report_of_command(&[], &[&CONTAINED[..], &[&program, "threads", "2"]].concat());
    assert!(is_told(&report), "{report}");
}

#[test]
fn a_contained_process_that_runs_already_is_read() {
    let Some(bench) = Bench::new() else { return };
    let mut command = Command::new(CONTAINED[0]);
    command.args(&CONTAINED[1..]).arg(bench.c()).arg("serve");
    let mut serving = Serving::with(command);
    let outer = serving.child.id();
    let children = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    serving.pid = children.trim().parse().unwrap();
    serving.ask("x");
    let out = bench.0.path().join("report.json");
    let reader = serving.reader(&out);
    for _ in 0..3 {
        serving.ask("x");
    }
    let report = interrupted(reader, &out);
    assert!(count(&report, "round", "calls") > 0, "{report}");
    assert!(seconds(&report, "round", "on_cpu_s") > 0.018, "{report}");
}

#[test]
fn more_processes_are_read_than_files_may_be_open_at_first() {
    let Some(bench) = Bench::new() else { return };
    let (program, out) = (bench.c().display().to_string(), bench.0.path().join("many.json"));
    let nightwatt = crate::harness::program().get_program().to_owned();
    // Each waits for what it might be asked, until all have begun and the reader has files for all of them.
    let all = r#"mkfifo "$1/asks"; exec 3<>"$1/asks"
for i in $(seq 100); do "$0" serve <"$1/asks" 3>&- >"$1/says.$i" & done
for i in $(seq 600); do
    begun=$(cat "$1"/says.* | wc -l); files=$(ls "/proc/$PPID/fd" | wc -l)
    if [ "$begun" -eq 100 ] && [ "$files" -gt 200 ]; then break; fi
    sleep 0.1
done
echo "$begun have begun, $files files are open" >"$1/then"
exec 3>&-; wait"#;
    let limited = "ulimit -Sn 64; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited, "sh"]).arg(nightwatt).args([
        "caliper",
        "--markers",
        "--json",
        "-o",
    ]);
    command.arg(&out).args(["--", "sh", "-c", all, &program]).arg(bench.0.path());
    let output = command.output().unwrap();
    let report = fs::read_to_string(out).unwrap_or_else(|_| panic!("{}", told(&output)));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(count(&report, "begun", "calls"), 100, "{report}");
    let then = fs::read_to_string(bench.0.path().join("then")).unwrap();
    let mut numbers = then.split(' ').filter_map(|word| word.parse::<u32>().ok());
    assert_eq!(numbers.next(), Some(100), "{then}");
    assert!(numbers.next() > Some(200), "a process takes two files: {then}");
}

#[test]
fn libraries_that_share_an_inline_function_count_it_each_in_its_own_section() {
    if nightwatt_needs::program("c++").is_none() {
        return;
    }
    let Some(bench) = Bench::new() else { return };
    let library = ["c++", "-x", "c++", "-std=c++11", "-shared", "-fPIC"];
    let one = bench.built_of("library.c", "one.so", &library);
    let other = bench.built_of("library.c", "other.so", &[&library[..], &["-DOTHER"]].concat());
    let host = bench.built_of("host.c", "host", &["cc"]);
    let paths = [&host, &one, &other].map(|path| path.display().to_string());
    let (report, _) = bench.report_of_command(&[], &paths.each_ref().map(String::as_str));
    assert_eq!((count(&report, "shared", "calls"), count(&report, "other", "calls")), (20, 10));
}

/// What becomes of a program that is not measured.
fn unmeasured(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", told(&output));
}

#[test]
fn a_child_of_a_process_whose_first_marker_is_being_made_can_mark() {
    let bench = Bench(tempfile::tempdir().unwrap());
    let program = bench.c();
    for spins in 0..100 {
        unmeasured(Command::new(&program).args(["race", &(400 * spins).to_string()]));
    }
}

#[test]
fn a_program_that_may_write_no_large_files_runs_on() {
    let bench = Bench(tempfile::tempdir().unwrap());
    let limited = "ulimit -f 100; exec \"$0\" count 10";
    unmeasured(Command::new("sh").args(["-c", limited]).arg(bench.c()));
}

#[test]
fn a_library_with_markers_may_be_closed_while_threads_live_that_used_them() {
    let Some(bench) = Bench::new() else { return };
    let library = bench.built_of("library.c", "one.so", &["cc", "-std=gnu99", "-shared", "-fPIC"]);
    let library = library.display().to_string();
    // With what it has itself, and with that of the program.
    for options in [&["cc", "-std=gnu99"][..], &["cc", "-std=gnu99", "-rdynamic"]] {
        let program = bench.built(options);
        unmeasured(Command::new(&program).args(["plugin", &library]));
        let (report, _) = bench.report_on(&program, &["plugin", &library]);
        assert_eq!(report["exit_status"], 0, "{report}");
        assert_eq!(count(&report, "shared", "calls"), 21);
    }
}

#[test]
fn markers_change_neither_errno_nor_the_standard_files() {
    let bench = Bench(tempfile::tempdir().unwrap());
    // The reader at this address has gone.
    unmeasured(Command::new(bench.c()).arg("quiet").env("NIGHTWATT_MARKERS", "@nobody"));
    let me = std::env::current_exe().unwrap();
    let mut rust = Command::new(me);
    rust.arg("quiet_for_the_test_above").env("NIGHTWATT_TEST_MARKS", "1");
    unmeasured(rust.env("NIGHTWATT_MARKERS", "@nobody"));
}

/// The same of Rust: this very program, when it is told to by its environment.
#[test]
fn quiet_for_the_test_above() {
    if std::env::var_os("NIGHTWATT_TEST_MARKS").is_none() {
        return;
    }
    fs::metadata("/nowhere").unwrap_err();
    drop(nightwatt_markers::section!("quiet"));
    assert_eq!(std::io::Error::last_os_error().kind(), std::io::ErrorKind::NotFound);
}

/// What Rust is tested with: this very program, when it is told to by its environment.
#[test]
fn marks_for_the_test_below() {
    if std::env::var_os("NIGHTWATT_TEST_MARKS").is_none() {
        return;
    }
    let work = || {
        for _ in 0..50 {
            let _outer = nightwatt_markers::section!("outer");
            let end = monotonic() + Duration::from_micros(500);
            while monotonic() < end {}
            let _inner = nightwatt_markers::section!("inner");
        }
    };
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(work)).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let caught = std::panic::catch_unwind(|| {
        let _section = nightwatt_markers::section!("panics");
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(caught.is_err());
}

#[test]
fn rust_marks_its_sections() {
    let Some(bench) = Bench::new() else { return };
    let me = std::env::current_exe().unwrap().display().to_string();
    let folded = bench.0.path().join("folded").display().to_string();
    let (report, _) = bench.report_of_command(
        &["--folded", &folded],
        &["env", "NIGHTWATT_TEST_MARKS=1", &me, "marks_for_the_test_below"],
    );
    let calls = ["outer", "inner", "panics"].map(|name| count(&report, name, "calls"));
    assert_eq!(calls, [200, 200, 1]);
    assert!(seconds(&report, "outer", "mean_s") >= 0.0005);
    let stacks = fs::read_to_string(folded).unwrap();
    assert!(stacks.contains("env;outer;inner "), "{stacks}");
}

#[test]
fn python_marks_its_sections() {
    if nightwatt_needs::program("python3").is_none() {
        return;
    }
    let Some(bench) = Bench::new() else { return };
    let program = format!("{ROOT}/python/tests/marks.py");
    let (report, _) = bench.report_of_command(&[], &["python3", &program]);
    let calls = ["outer", "inner", "decorated", "child"].map(|name| count(&report, name, "calls"));
    // Four threads, 100 times; three children.
    assert_eq!(calls, [400, 400, 400, 3]);
    let own = seconds(&report, "outer", "on_cpu_s") - seconds(&report, "outer", "self_s");
    let inner = seconds(&report, "inner", "on_cpu_s") + seconds(&report, "decorated", "on_cpu_s");
    assert!((own - inner).abs() < 1e-9, "{own} {inner}");
}

#[test]
fn python_bears_odd_names_and_threads_for_which_there_is_no_file() {
    if nightwatt_needs::program("python3").is_none() {
        return;
    }
    let Some(bench) = Bench::new() else { return };
    let program = format!("{ROOT}/python/tests/refusals.py");
    let (report, printed) = bench.report_of_command(&[], &["python3", &program]);
    assert_eq!(report["exit_status"], 0, "{printed}");
    assert_eq!((count(&report, "thread", "calls"), count(&report, "? odd", "calls")), (10, 2));
    assert!(report["warnings"].to_string().contains("200 calls were not counted"), "{report}");
}

#[test]
fn a_program_without_markers_and_markers_with_probes_are_told() {
    let Some(bench) = Bench::new() else { return };
    let (report, _) = bench.report_of_command(&[], &["true"]);
    assert!(report["warnings"].to_string().contains("has used a marker"), "{report}");
    let output = nightwatt(&["caliper", "--markers", "-f", "sh:main", "--", "true"]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("cannot be used with"), "{}", told(&output));
}
