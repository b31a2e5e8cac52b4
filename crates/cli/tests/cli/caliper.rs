//! `nightwatt caliper` on a program that knows what it does.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{can_probe, eventually, nightwatt, program, told};

/// The breakpoint that stands where a probe is.
const BREAKPOINT: u8 = 0xcc;

/// The program, built for one test.
pub(crate) struct Bench(TempDir);

impl Bench {
    /// None where probes cannot be loaded.
    pub(crate) fn new() -> Option<Self> {
        if !can_probe() {
            return None;
        }
        let bench = Self(tempfile::tempdir().unwrap());
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../probes/tests/programs/sections.c");
        let arguments = ["-O1", "-pthread", source, "-o"];
        let built = Command::new("cc").args(arguments).arg(bench.path()).status();
        assert!(built.unwrap().success());
        Some(bench)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("sections")
    }

    /// Where it is built.
    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    /// `PROGRAM:function`.
    pub(crate) fn at(&self, function: &str) -> String {
        format!("{}:{function}", self.path().display())
    }

    /// The report on a run of it.
    pub(crate) fn report(&self, options: &[&str], arguments: &[&str]) -> Value {
        self.report_and_printed(options, arguments).0
    }

    /// The report, and what the program has printed.
    fn report_and_printed(&self, options: &[&str], arguments: &[&str]) -> (Value, String) {
        let out = self.0.path().join("report.json");
        let (out_name, path) = (out.display().to_string(), self.path().display().to_string());
        let before = ["caliper", "--json", "-o", &out_name];
        let output = nightwatt(&[&before, options, &["--", &path], arguments].concat());
        let report = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
        (report, String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// What interrupts and a hypervisor took from this machine so far, s. A thread's own clock may leave that out, and its
/// times on a CPU have it.
pub(crate) fn taken() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let line = stat.lines().next().unwrap();
    // cpu user nice system idle iowait irq softirq steal
    line.split_whitespace().skip(6).take(3).map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>()
        / 100.0
}

/// Nanoseconds that the program has printed, s.
pub(crate) fn printed_seconds(printed: &str) -> Vec<f64> {
    printed.split_whitespace().map(|word| 1e-9 * word.parse::<f64>().unwrap()).collect()
}

#[test]
fn a_report_tells_calls_times_and_where_all_the_energy_went() {
    let Some(bench) = Bench::new() else { return };
    let (heavy, light) = (bench.at("heavy"), bench.at("light"));
    let before = taken();
    let options = ["-f", &heavy, "-f", &light];
    let (report, printed) = bench.report_and_printed(&options, &["threads", "10"]);
    // A tick for what is not told in full ones.
    let taken = taken() - before + 0.01;
    let sections = report["sections"].as_array().unwrap();
    let named: Vec<&Value> = sections.iter().map(|section| &section["name"]).collect();
    assert_eq!(named, ["heavy", "light"]);
    for section in sections {
        assert_eq!((&section["calls"], &section["unended"]), (&80.into(), &0.into()));
        // Whatever the load: quantiles are in order, and no section ran for longer than it lasted.
        let figure = |key: &str| section[key].as_f64().unwrap();
        assert!(figure("p50_s") <= figure("p99_s"));
        assert!(figure("on_cpu_s") <= figure("mean_s") * 80.0 * 1.001);
    }
    // As the threads' own clocks have it.
    for (section, told) in sections.iter().zip(printed_seconds(&printed)) {
        let ran = section["on_cpu_s"].as_f64().unwrap();
        assert!((ran - told).abs() < 0.02 * told + taken, "{ran} of {told} s, {taken} s taken");
    }
    for channel in report["channels"].as_array().unwrap() {
        let part = |key: &str| channel[key].as_f64().unwrap();
        let parts = part("sections_j") + part("outside_j") + part("others_j") + part("idle_j");
        assert!((parts / part("joules") - 1.0).abs() < 1e-9, "{channel}");
    }
    let joules = |section: usize| sections[section]["energy"][0]["joules"].as_f64().unwrap();
    let all = report["channels"][0]["sections_j"].as_f64().unwrap();
    assert!(((joules(0) + joules(1)) / all - 1.0).abs() < 1e-9);
}

#[test]
fn a_pair_of_places_is_a_section_and_patterns_are_several() {
    let Some(bench) = Bench::new() else { return };
    let (start, end, pattern) = (bench.at("outer"), bench.at("light"), bench.at("*ea*y"));
    let options = ["--start", &start, "--end", &end, "-f", &pattern];
    let before = taken();
    let report = bench.report(&options, &["nested", "20"]);
    let taken = taken() - before + 0.01;
    let sections = report["sections"].as_array().unwrap();
    assert_eq!(
        (&sections[0]["name"], &sections[1]["name"]),
        (&"heavy".into(), &"outer..light".into())
    );
    // From the entry of the one to the entry of the other, within it: a millisecond of running each.
    assert_eq!((&sections[0]["calls"], &sections[1]["calls"]), (&0.into(), &20.into()));
    assert!(sections[1]["mean_s"].as_f64() >= Some(0.001));
    // All of `outer` is three. A switch that the kernel keeps to itself costs some, and more where many others run.
    let ran = sections[1]["on_cpu_s"].as_f64().unwrap();
    assert!(ran > 0.010 && ran < 0.030 + taken, "{ran} s, {taken} s taken");
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("heavy was never called"), "{warnings}");
}

#[test]
fn returns_are_seen_at_instructions_where_that_is_asked_for() {
    let Some(bench) = Bench::new() else { return };
    let (outer, light) = (bench.at("outer"), bench.at("light"));
    let options = ["-f", &outer, "-f", &light, "--returns", "instructions"];
    let report = bench.report(&options, &["nested", "20"]);
    for section in report["sections"].as_array().unwrap() {
        assert_eq!((&section["calls"], &section["unended"]), (&20.into(), &0.into()));
        assert_eq!(section["returns"], "instructions");
    }
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("single-step the instructions at which outer returns"), "{warnings}");
}

#[test]
fn a_file_under_several_names_is_one() {
    let Some(bench) = Bench::new() else { return };
    let [link, hard] = ["symbolic", "hard"].map(|name| bench.folder().join(name));
    std::os::unix::fs::symlink(bench.path(), &link).unwrap();
    fs::hard_link(bench.path(), &hard).unwrap();
    let [link, hard] = [link, hard].map(|path| format!("{}:outer", path.display()));
    let (outer, light) = (bench.at("outer"), bench.at("light"));
    let report =
        bench.report(&["-f", &outer, "-f", &link, "-f", &hard, "-f", &light], &["nested", "20"]);
    let sections = report["sections"].as_array().unwrap();
    let counts: Vec<_> = sections.iter().map(|it| (&it["name"], &it["calls"])).collect();
    assert_eq!(counts, [(&"outer".into(), &20.into()), (&"light".into(), &20.into())]);
    assert!(sections.iter().all(|it| it["file"] == bench.path().display().to_string()));
}

/// There we know processes by other numbers than the kernel's probes do: nothing would be found.
#[test]
fn in_a_container_with_process_numbers_of_its_own_the_reason_is_shown() {
    let Some(bench) = Bench::new() else { return };
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_nightwatt"), "caliper"]);
    command.args(["-f", &bench.at("outer"), "--"]).arg(bench.path()).args(["nested", "20"]);
    let output = command.output().unwrap();
    let text = told(&output);
    assert!(!output.status.success() && text.contains("(a PID namespace)"), "{text}");
    assert!(text.contains("`--pid=host`"), "{text}");
}

#[test]
fn a_program_that_return_probes_end_is_warned_of_before_and_after() {
    let Some(bench) = Bench::new() else { return };
    let path = bench.folder().join("stacks");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../probes/tests/programs/stacks.c");
    let built = Command::new("cc").args(["-O1", "-pthread", source, "-o"]).arg(&path).status();
    assert!(built.unwrap().success());
    let path = path.display().to_string();
    let functions = [format!("{path}:outside"), format!("{path}:handles")];
    let run = |options: &[&str]| {
        let sections = ["caliper", "-f", &functions[0], "-f", &functions[1]];
        nightwatt(&[&sections, options, &["--", &path]].concat())
    };
    let output = run(&[]);
    let text = told(&output);
    assert_eq!(output.status.code(), Some(132), "{text}");
    assert!(text.contains("careful: ") && text.contains("(sigaltstack, swapcontext)"), "{text}");
    assert!(text.contains("ended by SIGILL, probably by return probes"), "{text}");
    let output = run(&["--returns", "instructions"]);
    let text = told(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(!text.contains("careful") && text.contains("without having been seen"), "{text}");
}

#[test]
fn goroutines_are_watched_and_functions_that_are_built_in_are_told_to_be() {
    if Bench::new().is_none() || nightwatt_needs::program("go").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("goroutines"), folder.path().join("report.json"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../probes/tests/programs/goroutines.go");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&path).arg(source).env("GO111MODULE", "off").env("GOFLAGS", "");
    assert!(go.status().unwrap().success());
    let (path, out) = (path.display().to_string(), out.display().to_string());
    let (work, missing) = (format!("{path}:main.(*worker).Work"), format!("{path}:main.built_in"));
    let run = |function| {
        nightwatt(&["caliper", "--json", "-o", &out, "-f", function, "--", &path, "count", "500"])
    };
    let output = run(&work);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let report: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let section = &report["sections"][0];
    assert_eq!((&section["calls"], &section["unended"]), (&10_000.into(), &0.into()));
    assert_eq!(section["returns"], "instructions");
    let text = told(&run(&missing));
    assert!(
        text.contains("has no function `main.built_in`") && text.contains("noinline"),
        "{text}"
    );
}

#[test]
fn the_commands_exit_status_is_ours() {
    let Some(bench) = Bench::new() else { return };
    let (path, heavy) = (bench.path().display().to_string(), bench.at("heavy"));
    let output = nightwatt(&["caliper", "-f", &heavy, "--", &path, "exit"]);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    let text = told(&output);
    assert!(text.contains("the command ended with exit status 3"), "{text}");
}

#[test]
fn what_cannot_be_watched_is_told_with_what_helps() {
    let Some(bench) = Bench::new() else { return };
    let path = bench.path().display().to_string();
    let stripped = bench.0.path().join("stripped").display().to_string();
    assert!(Command::new("strip").args(["-o", &stripped, &path]).status().unwrap().success());
    let (nope, bad) = (bench.at("nope"), format!("{stripped}:heavy"));
    let (light, haevy) = (bench.at("light"), bench.at("haevy"));
    let inside = bench.at("heavy+0x4");
    // Functions begin with an instruction of one byte (push) and one of several.
    let within = bench.at("outer+0x2");
    for (options, says, helps) in [
        (vec!["-f", &nope], "has no function `nope`", "nm -C PROGRAM"),
        (vec!["-f", &haevy], "has no function `haevy`: is it one of heavy?", "nm -C PROGRAM"),
        (
            vec!["-f", &bad],
            "its symbols were stripped, and there are none in /usr",
            "PROGRAM:0x1234",
        ),
        (vec!["-f", &inside], "`heavy` cannot have an offset", "--start"),
        (vec!["--start", &light, "--end", &within], "no instruction begins at", "objdump"),
        (vec!["-f", "heavy"], "names no place in a program", "PROGRAM:FUNCTION"),
        (vec!["-f", "./nowhere:heavy"], "no program or library `./nowhere`", "./prog:work"),
        (vec!["--start", &path], "1 --start and 0 --end do not make pairs", "n-th"),
        (vec!["--start", &nope, "--end", &nope], "has no function `nope`", "nm -C PROGRAM"),
    ] {
        let output = nightwatt(&[&["caliper"], options.as_slice(), &["--", &path]].concat());
        let text = told(&output);
        assert_eq!(output.status.code(), Some(125), "{text}");
        assert!(text.contains(says) && text.contains(helps), "{text}");
    }
}

#[test]
fn a_dry_run_names_what_is_missing_and_runs_nothing() {
    let Some(bench) = Bench::new() else { return };
    let ran = bench.folder().join("ran");
    let (ran_name, heavy, nope) = (ran.display().to_string(), bench.at("heavy"), bench.at("nope"));
    let dry = |function: &str| {
        nightwatt(&["caliper", "--dry-run", "-f", function, "--", "touch", &ran_name])
    };
    let whole = dry(&heavy);
    assert_eq!(whole.status.code(), Some(0), "{}", told(&whole));
    let command = format!("run `touch {ran_name}`");
    for words in ["nothing is missing", &command, &heavy] {
        assert!(told(&whole).contains(words), "{words}: {}", told(&whole));
    }
    let lacking = dry(&nope);
    assert_eq!(lacking.status.code(), Some(1), "{}", told(&lacking));
    assert!(told(&lacking).contains("has no function `nope`"), "{}", told(&lacking));
    assert!(!ran.exists());
}

#[test]
fn a_process_that_is_not_there_is_no_empty_report() {
    let Some(bench) = Bench::new() else { return };
    let heavy = bench.at("heavy");
    let output = nightwatt(&["caliper", "-f", &heavy, "-p", "4194304"]);
    assert_eq!(output.status.code(), Some(125), "{}", told(&output));
    assert!(told(&output).contains("no process 4194304"), "{}", told(&output));
}

#[test]
fn whoever_is_killed_leaves_no_probe_behind() {
    let Some(bench) = Bench::new() else { return };
    let mut waits = Command::new(bench.path());
    let mut waits = waits.arg("wait").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(waits.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let address = u64::from_str_radix(address.trim().trim_start_matches("0x"), 16).unwrap();
    let memory = format!("/proc/{}/mem", waits.id());
    let first_byte = || {
        let mut memory = File::open(&memory).unwrap();
        let mut byte = [0];
        memory.seek(SeekFrom::Start(address)).unwrap();
        memory.read_exact(&mut byte).unwrap();
        byte[0]
    };
    let before = first_byte();
    let pid = waits.id().to_string();
    let watcher = || {
        let mut command = program();
        command.args(["caliper", "-f", &bench.at("nothing"), "-p", &pid]).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    // Two of them: what one leaves, the other keeps.
    let (mut one, mut other) = (watcher(), watcher());
    eventually("a probe", || (first_byte() == BREAKPOINT).then_some(()));
    one.kill().unwrap();
    one.wait().unwrap();
    eventually("the other's probe", || (first_byte() == BREAKPOINT).then_some(()));
    other.kill().unwrap();
    other.wait().unwrap();
    eventually("no probe", || (first_byte() == before).then_some(()));
    drop(waits.stdin.take());
    assert!(waits.wait().unwrap().success());
}

#[test]
fn workers_that_a_master_has_started_before_are_watched_with_it() {
    let Some(bench) = Bench::new() else { return };
    let script = format!("exec 3<&0; {} wait <&3 & echo $!; wait", bench.path().display());
    let mut master = Command::new("sh");
    let master = master.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut master = master.spawn().unwrap();
    let mut lines = BufReader::new(master.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The worker's number and where its function is, in either order: it runs.
    assert_eq!(lines.by_ref().take(2).count(), 2);
    let out = bench.folder().join("report.json");
    let mut caliper = program();
    caliper.args(["caliper", "--json", "-f", &bench.at("nothing"), "-o"]).arg(&out);
    caliper.args(["-p", &master.id().to_string(), "-p", &std::process::id().to_string()]);
    // Ours does not end, so that a time has to where no signal does.
    caliper.args(["--for", "2m", "--live"]).stderr(Stdio::piped());
    let mut caliper = caliper.spawn().unwrap();
    // A table comes once all probes are in place; the breakpoint of the first one does before.
    let mut tables = BufReader::new(caliper.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(tables.any(|line| line.contains("calls/s")));
    let rest = std::thread::spawn(move || tables.for_each(drop));
    drop(master.stdin.take());
    assert!(master.wait().unwrap().success());
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&caliper),
        rustix::process::Signal::INT,
    )
    .unwrap();
    caliper.wait().unwrap();
    rest.join().unwrap();
    let report: Value = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    assert_eq!(report["sections"][0]["calls"], 1, "{report}");
    assert_eq!(report["pids"].as_array().unwrap().len(), 2);
}

#[test]
fn stacks_of_sections_have_their_energy_for_flame_graphs() {
    let Some(bench) = Bench::new() else { return };
    let (outer, light) = (bench.at("outer"), bench.at("light"));
    let folded = bench.0.path().join("folded").display().to_string();
    let report =
        bench.report(&["-f", &outer, "-f", &light, "--folded", &folded], &["nested", "100"]);
    // All stacks together are what the channel has in sections and outside of them.
    let channel = &report["channels"][0];
    let stacks = report["stacks"].as_array().unwrap();
    let sum: f64 = stacks.iter().map(|stack| stack["joules"][0].as_f64().unwrap()).sum();
    let expected = channel["sections_j"].as_f64().unwrap() + channel["outside_j"].as_f64().unwrap();
    assert!((sum - expected).abs() < 1e-9 * expected, "{sum} of {expected} J");
    let text = fs::read_to_string(folded).unwrap();
    let microjoules = |stack: &str| -> f64 {
        let line = text.lines().find(|line| line.rsplit_once(' ').unwrap().0 == stack);
        line.unwrap_or_else(|| panic!("{stack}: {text}"))
            .rsplit_once(' ')
            .unwrap()
            .1
            .parse()
            .unwrap()
    };
    // `outer` runs twice as long by itself as in `light`; on a busy machine, about so.
    let sections = report["sections"].as_array().unwrap();
    let own = |name: &str| {
        let section = sections.iter().find(|it| it["name"] == name).unwrap();
        section["self_s"].as_f64().unwrap()
    };
    let ran = own("outer") / own("light");
    assert!((1.5..2.7).contains(&ran), "{} and {} s", own("outer"), own("light"));
    let ratio = microjoules("sections;outer") / microjoules("sections;outer;light");
    assert!((ratio / ran - 1.0).abs() < 0.1, "{ran}: {text}");
}
