//! Probes at the instructions at which functions end, in programs whose stacks are unwound or moved.
//!
//! Without root or Go, or if the kernel allows no loading of programs, each prints `skipped: <reason>`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nightwatt_energy::sections::Tree;
use nightwatt_probes::{
    Calls, Extras, Point, ProbeError, SectionProbes, Watch, function_bodies, function_entries,
    go_runtime,
};

/// A program built for one test.
struct Program(tempfile::TempDir);

impl Program {
    /// By a compiler and its arguments. None where there is no such compiler.
    fn build(compiler: &str, arguments: &[&str], source: &str) -> Option<Self> {
        nightwatt_needs::program(compiler)?;
        let program = Self(tempfile::tempdir().unwrap());
        let source = format!("{}/tests/programs/{source}", env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(compiler);
        command.args(arguments).arg("-o").arg(program.path()).arg(source);
        let status = command.env("GOFLAGS", "").env("GO111MODULE", "off").status();
        assert!(status.unwrap().success());
        Some(program)
    }

    fn go(arguments: &[&str]) -> Option<Self> {
        Self::build("go", &[&["build"], arguments].concat(), "goroutines.go")
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("program")
    }

    /// Runs it, with so many threads that run Go at a time, and gives the figures it prints.
    fn run(&self, threads: usize, arguments: &[&str]) -> Vec<f64> {
        let mut command = Command::new(self.path());
        let output = command.args(arguments).env("GOMAXPROCS", threads.to_string()).output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?} {}", output.status, &told[..told.len().min(2000)]);
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().map(|word| word.parse().unwrap()).collect()
    }

    /// Probes on functions of it. None, with the reason told, where this kernel or user cannot.
    fn watched(&self, functions: &[&'static str]) -> Option<Watched> {
        watched(&self.path(), functions)
    }
}

fn watched(path: &Path, functions: &[&'static str]) -> Option<Watched> {
    let mut probes =
        match SectionProbes::load_with(Watch::Children, Extras { go: true, ..Extras::default() }) {
            Ok(probes) => probes,
            Err(
                error @ (ProbeError::Denied { .. } | ProbeError::NoBtf | ProbeError::PidNamespace),
            ) => {
                println!("skipped: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
    probes.start().unwrap();
    if let Some(runtime) = go_runtime(path).unwrap() {
        probes.attach_go(runtime).unwrap();
    }
    for (number, function) in (0..).zip(functions) {
        let program = path.display().to_string();
        let point = Point { program, symbol: (*function).into(), offset: 0 };
        let places = function_entries(&point).unwrap();
        assert_eq!(places.len(), 1);
        let bodies = function_bodies(&[&places[0]]).unwrap();
        assert_eq!(bodies[0].unsure, 0);
        probes.attach_body(number, &places[0], &bodies[0]).unwrap();
    }
    Some(Watched { probes, functions: functions.to_vec() })
}

struct Watched {
    probes: SectionProbes,
    functions: Vec<&'static str>,
}

impl Watched {
    fn number(&self, function: &str) -> usize {
        self.functions.iter().position(|it| *it == function).unwrap()
    }

    fn calls(&self, function: &str) -> Calls {
        self.probes.calls(self.number(function) as u32).unwrap()
    }

    /// Begun, ended, left by another way, ended without a beginning.
    fn counts(&self, function: &str) -> [u64; 4] {
        let calls = self.calls(function);
        assert_eq!(calls.too_deep, 0);
        [calls.begun, calls.ended, calls.unended, calls.unbegun]
    }

    fn cpu(&mut self, function: &str) -> Duration {
        let used = self.probes.usage().unwrap();
        let tree: Tree = self.probes.tree().unwrap();
        tree.inclusive(self.number(function), &used.nodes)
    }
}

#[test]
fn whoever_is_left_by_an_exception_lives_on_and_is_told() {
    // The second begins each function with an `endbr64`.
    for protection in ["none", "full"] {
        let protection = format!("-fcf-protection={protection}");
        let arguments = ["-O2", &protection];
        let Some(program) = Program::build("c++", &arguments, "unwinds.cc") else { return };
        let functions = ["throws", "passes", "returns", "last_call"];
        let Some(watched) = program.watched(&functions) else { return };
        program.run(1, &["1000"]);
        assert_eq!(watched.counts("throws"), [1000, 500, 500, 0]);
        assert_eq!(watched.counts("passes"), [1000, 500, 500, 0]);
        assert_eq!(watched.counts("returns"), [1000, 1000, 0, 0]);
        assert_eq!(watched.counts("last_call"), [1000, 1000, 0, 0]);
    }
}

#[test]
fn whoever_is_left_by_a_panic_lives_on_and_is_told() {
    let arguments = ["--edition", "2024", "-O"];
    let Some(program) = Program::build("rustc", &arguments, "panics.rs") else { return };
    let Some(watched) = program.watched(&["throws", "returns"]) else { return };
    program.run(1, &["1000"]);
    assert_eq!(watched.counts("throws"), [1000, 500, 500, 0]);
    assert_eq!(watched.counts("returns"), [1000, 1000, 0, 0]);
}

#[test]
fn calls_of_thousands_of_goroutines_are_counted_to_the_last() {
    let Some(program) = Program::go(&[]) else { return };
    let Some(watched) = program.watched(&["main.(*worker).Work"]) else { return };
    for threads in [1, 4] {
        program.run(threads, &["count", "3000"]);
    }
    assert_eq!(watched.counts("main.(*worker).Work"), [120_000, 120_000, 0, 0]);
}

#[test]
fn goroutines_that_move_between_threads_are_charged_what_they_ran() {
    let Some(program) = Program::go(&[]) else { return };
    for threads in [1, 4] {
        let Some(mut watched) = program.watched(&["main.heavy", "main.light"]) else { return };
        let told = program.run(threads, &["shares", "15"]);
        let stolen = watched.probes.usage().unwrap().stolen;
        for (function, told) in [("main.heavy", told[0]), ("main.light", told[1])] {
            let told = Duration::from_secs_f64(1e-9 * told);
            let cpu = watched.cpu(function);
            let bound = told.mul_f64(0.02) + stolen;
            println!("{function}: {cpu:?} of {told:?}, {bound:?} may be missing");
            assert!(cpu.abs_diff(told) < bound, "{function}: {cpu:?} of {told:?} ({bound:?})");
            assert_eq!(watched.counts(function), [120, 120, 0, 0]);
            let calls = watched.calls(function);
            assert!(
                calls.ran <= cpu && calls.ran > cpu.mul_f64(0.97),
                "{:?} of {cpu:?}",
                calls.ran
            );
        }
    }
}

#[test]
fn a_stack_that_is_copied_while_functions_are_open_confuses_nothing() {
    let Some(program) = Program::go(&[]) else { return };
    let Some(watched) = program.watched(&["main.grows"]) else { return };
    for threads in [1, 4] {
        program.run(threads, &["grow", "4000"]);
    }
    assert_eq!(watched.counts("main.grows"), [8000, 8000, 0, 0]);
}

#[test]
fn a_goroutine_that_waits_uses_no_cpu() {
    let Some(program) = Program::go(&[]) else { return };
    for threads in [1, 4] {
        let Some(mut watched) = program.watched(&["main.waits"]) else { return };
        program.run(threads, &["wait", "2000"]);
        assert_eq!(watched.counts("main.waits"), [2000, 2000, 0, 0]);
        let (cpu, calls) = (watched.cpu("main.waits"), watched.calls("main.waits"));
        // All wait at a time, on few threads, for 50 ms.
        assert!(calls.length > Duration::from_millis(50) * 2000, "{:?}", calls.length);
        assert!(cpu < calls.length / 20 && calls.ran <= cpu, "{cpu:?} {:?}", calls.ran);
    }
}

#[test]
fn what_the_runtime_does_on_a_threads_own_stack_is_in_the_functions_of_its_goroutine() {
    let Some(program) = Program::go(&[]) else { return };
    for threads in [1, 4] {
        let inner = "runtime.(*mheap).allocSpan";
        let Some(mut watched) = program.watched(&["main.allocates", inner]) else { return };
        let told = program.run(threads, &["allocate", "30"]);
        assert_eq!(watched.counts("main.allocates"), [240, 240, 0, 0]);
        let [begun, ended, unended, unbegun] = watched.counts(inner);
        assert!(begun >= 240 && (ended, unended, unbegun) == (begun, 0, 0), "{begun} {ended}");
        let (told, cpu) = (Duration::from_secs_f64(1e-9 * told[0]), watched.cpu("main.allocates"));
        let bound = told.mul_f64(0.02) + watched.probes.usage().unwrap().stolen;
        assert!(cpu + bound > told, "{cpu:?} of {told:?}, {bound:?} may be missing");
    }
}

#[test]
fn jumps_that_may_go_anywhere_are_counted_and_taken_for_nothing() {
    let Some(program) = Program::build("cc", &["-O2"], "jumps.c") else { return };
    let unsure = |function: &str| {
        let program = program.path().display().to_string();
        let place = function_entries(&Point { program, symbol: function.into(), offset: 0 });
        function_bodies(&[&place.unwrap()[0]]).unwrap()[0].unsure
    };
    assert!(unsure("interprets") > 0);
    assert!(unsure("dispatches") > 0);
    assert_eq!((unsure("calls_last"), unsure("switches")), (0, 0));
    let Some(watched) = program.watched(&["calls_last", "switches"]) else { return };
    program.run(1, &["1000"]);
    assert_eq!(watched.counts("calls_last"), [1000, 1000, 0, 0]);
    assert_eq!(watched.counts("switches"), [1000, 1000, 0, 0]);
}

#[test]
fn assembly_of_a_go_program_is_refused_stripped_or_not() {
    for arguments in [&[][..], &["-ldflags=-s -w"]] {
        let Some(program) = Program::go(arguments) else { return };
        let program = program.path().display().to_string();
        let point = Point { program, symbol: "runtime.rt0_go".into(), offset: 0 };
        let error = function_entries(&point).unwrap_err();
        assert!(matches!(error, ProbeError::GoAssembly { .. }), "{error}");
        assert!(error.to_string().contains("is written in assembly"), "{error}");
    }
}

#[test]
fn a_panic_that_is_caught_leaves_what_it_passed_through() {
    let Some(program) = Program::go(&[]) else { return };
    let Some(mut watched) = program.watched(&["main.throws", "main.catches"]) else { return };
    program.run(2, &["panic", "200"]);
    assert_eq!(watched.counts("main.throws"), [600, 0, 600, 0]);
    assert_eq!(watched.counts("main.catches"), [200, 200, 0, 0]);
    // What it runs afterwards, 20 ms in all, is in neither.
    let outside = watched.probes.usage().unwrap().nodes[0];
    assert!(outside >= Duration::from_millis(18), "{outside:?}");
}

#[test]
fn goroutines_that_end_in_a_function_and_programs_that_do_leave_nothing_behind() {
    let Some(program) = Program::go(&[]) else { return };
    let functions = ["main.exits", "main.waits", "main.(*worker).Work"];
    let Some(watched) = program.watched(&functions) else { return };
    program.run(4, &["exit", "1000"]);
    assert_eq!(watched.counts("main.exits"), [1000, 0, 1000, 0]);
    assert_eq!(watched.counts("main.(*worker).Work"), [1, 1, 0, 0]);
    program.run(4, &["leave", "1000"]);
    assert_eq!(watched.counts("main.waits"), [1000, 0, 1000, 0]);
}

#[test]
fn a_stripped_go_program_tells_its_functions_all_the_same() {
    for arguments in [&["-ldflags=-s -w"][..], &["-ldflags=-s -w", "-buildmode=pie"]] {
        let Some(program) = Program::go(arguments) else { return };
        let Some(watched) = program.watched(&["main.(*worker).Work"]) else { return };
        program.run(4, &["count", "10"]);
        assert_eq!(watched.counts("main.(*worker).Work"), [200, 200, 0, 0]);
    }
}
