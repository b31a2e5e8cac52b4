//! Probes in this very kernel, on a program that knows what it does.
//!
//! Without root, or if the kernel allows no loading of programs, each prints `skipped: <reason>`.

mod programs;

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::sections::{Shares, Tree};
use nightwatt_energy::time::Mono;
use nightwatt_probes::{
    Calls, Extras, InstructionKind, Point, ProbeError, SectionProbes, StepCost, Watch,
    function_entries, step_cost,
};

/// The program: a file for each test, since probes are in files and tests run side by side.
struct Program(tempfile::TempDir);

impl Program {
    fn build() -> Self {
        let program = Self(tempfile::tempdir().unwrap());
        programs::put("sections", program.0.path());
        program
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("sections")
    }

    /// Runs it to its end and gives the figures it prints.
    fn run(&self, arguments: &[&str]) -> Vec<f64> {
        let output = Command::new(self.path()).args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().map(|word| word.parse().unwrap()).collect()
    }

    /// Probes on functions of it. None, with the reason told, where this kernel or user cannot.
    fn watched(&self, watch: Watch, functions: &[&'static str]) -> Option<Watched> {
        self.watched_with(watch, Extras::default(), functions)
    }

    fn watched_with(
        &self,
        watch: Watch,
        extras: Extras,
        functions: &[&'static str],
    ) -> Option<Watched> {
        let mut probes = match SectionProbes::load_with(watch, extras) {
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
        for (number, function) in (0..).zip(functions) {
            let point = Point {
                program: self.path().display().to_string(),
                symbol: (*function).into(),
                offset: 0,
            };
            let places = function_entries(&point).unwrap();
            assert!(!places[0].may_unwind, "C has no exceptions");
            probes.attach_function(number, &places[0]).unwrap();
        }
        Some(Watched { probes, functions: functions.to_vec() })
    }
}

/// Probes on functions of the program.
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

    /// CPU time in a function, with what it calls and without.
    fn cpu(&mut self, function: &str) -> (Duration, Duration) {
        let used = self.probes.usage().unwrap();
        let tree: Tree = self.probes.tree().unwrap();
        let number = self.number(function);
        (tree.inclusive(number, &used.nodes), tree.exclusive(number, &used.nodes))
    }

    /// How much of this CPU time may be missing: one percent, and what a hypervisor took from the
    /// machine, since the kernel reports that when a thread leaves its CPU, when it is unknown in
    /// which section it was.
    fn may_miss(&mut self, ran: Duration) -> Duration {
        ran.mul_f64(may_be_nobodys()) + self.probes.usage().unwrap().stolen
    }
}

/// The share of time that switches between threads may use, which belongs to no thread: such a
/// switch costs an emulated CPU a tenth of a millisecond.
fn may_be_nobodys() -> f64 {
    if std::env::var_os("NIGHTWATT_EMULATED").is_some() { 0.1 } else { 0.01 }
}

#[test]
fn a_million_calls_are_counted_to_the_last() {
    let program = Program::build();
    let Some(watched) = program.watched(Watch::Children, &["nothing"]) else { return };
    program.run(&["count", "1000000"]);
    let calls = watched.calls("nothing");
    assert_eq!((calls.begun, calls.ended, calls.unended), (1_000_000, 1_000_000, 0));
    assert_eq!(calls.bands.iter().sum::<u64>(), 1_000_000);
}

#[test]
fn threads_that_take_each_others_cpus_away_are_charged_what_they_ran() {
    let program = Program::build();
    let Some(mut watched) = program.watched(Watch::Children, &["heavy", "light"]) else { return };
    let told = program.run(&["threads", "20"]);
    for (function, told_ns) in [("heavy", told[0]), ("light", told[1])] {
        let told = Duration::from_secs_f64(1e-9 * told_ns);
        let (cpu, _) = watched.cpu(function);
        let bound = watched.may_miss(told);
        assert!(
            cpu.abs_diff(told) < bound,
            "{function}: {cpu:?} of {told:?}, {bound:?} may be missing"
        );
        let calls = watched.calls(function);
        assert_eq!((calls.begun, calls.ended, calls.unended, calls.unbegun), (160, 160, 0, 0));
        // Eight threads on fewer CPUs: what is left of the length is that they had to wait for one.
        // Of what ran unseen is known where, and no more in which call.
        assert!(calls.ran.abs_diff(cpu) < cpu.mul_f64(0.02), "{:?} of {cpu:?}", calls.ran);
        let explained = (calls.ran + calls.preempted).as_secs_f64() / calls.length.as_secs_f64();
        assert!((explained - 1.0).abs() < may_be_nobodys(), "{explained} of {:?}", calls.length);
    }
}

/// Watts of a busy CPU, by what the program does at that time: the line is scripted.
const HEAVY_W: f64 = 12.0;
const LIGHT_W: f64 = 4.0;
const IDLE_W: f64 = 7.0;

/// Joules between two moments, given how long CPUs were busy then and when `heavy` and `light` took
/// turns.
fn scripted(turns: &[f64], from: f64, to: f64, busy: Duration) -> Joules {
    let overlap = |begin: f64, end: f64| (to.min(end) - from.max(begin)).max(0.0);
    let heavy: f64 = turns.chunks(3).map(|turn| overlap(turn[0], turn[1])).sum();
    let light: f64 = turns.chunks(3).map(|turn| overlap(turn[1], turn[2])).sum();
    let known = heavy + light;
    let watts = if known > 0.0 { (HEAVY_W * heavy + LIGHT_W * light) / known } else { LIGHT_W };
    Joules(IDLE_W * (to - from) * 1e-9 + watts * busy.as_secs_f64())
}

#[test]
fn what_each_function_drew_by_a_scripted_meter_is_told_within_two_percent() {
    let program = Program::build();
    let Some(mut watched) = program.watched(Watch::Children, &["heavy", "light"]) else { return };
    let child = Command::new(program.path()).args(["phases", "2"]).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    // As a meter that is read every 5 ms has it.
    let mut readings = Vec::new();
    let mut deadline = monotonic();
    let stop = Stop::new().unwrap();
    while child.try_wait().unwrap().is_none() {
        readings.push((monotonic(), watched.probes.usage().unwrap()));
        deadline = (deadline + Duration::from_millis(5)).max(monotonic());
        stop.wait_until(deadline);
    }
    // What ran behind the last look at it counts too, however long ago that was on a busy machine.
    readings.push((monotonic(), watched.probes.usage().unwrap()));
    let mut told = String::new();
    child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    let turns: Vec<f64> = told.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let mut shares = Shares::new(Watts(IDLE_W));
    for pair in readings.windows(2) {
        let [(from, before), (to, after)] = pair else { unreachable!() };
        let ns = |at: &Mono| at.0.as_nanos() as f64;
        let busy = after.since(before).busy;
        let joules = scripted(&turns, ns(from), ns(to), busy);
        shares.share(joules, to.since(*from), before, after);
    }
    let tree = watched.probes.tree().unwrap();
    for (section, watts, ran) in [("heavy", HEAVY_W, 3.0), ("light", LIGHT_W, 1.0)] {
        let joules: f64 = {
            let nodes: Vec<f64> = shares.nodes().iter().map(|joules| joules.get()).collect();
            tree.inclusive(watched.number(section), &nodes)
        };
        // Each ran for `ran` in all, by its own clock; what a hypervisor took may be missing.
        let expected = watts * ran;
        println!("{section}: {joules:.3} J found, {expected:.3} J expected");
        let missing = watts * watched.may_miss(Duration::ZERO).as_secs_f64();
        assert!(
            (joules - expected).abs() < 0.02 * expected + missing,
            "{section}: {joules} of {expected} J"
        );
    }
}

#[test]
fn what_is_nested_is_in_both_and_belongs_to_the_inner_one() {
    let program = Program::build();
    let Some(mut watched) = program.watched(Watch::Children, &["outer", "light"]) else { return };
    program.run(&["nested", "50"]);
    let ((outer, itself), (light, light_itself)) = (watched.cpu("outer"), watched.cpu("light"));
    assert_eq!(outer, itself + light);
    assert_eq!(light, light_itself);
    // It runs for 1 ms before the inner one and 1 ms behind it, and that runs for 1 ms.
    for (cpu, told) in [(itself, Duration::from_millis(100)), (light, Duration::from_millis(50))] {
        let least = told.saturating_sub(watched.may_miss(told));
        assert!(cpu >= least, "{cpu:?}, at least {least:?}");
    }
    assert_eq!((watched.calls("outer").ended, watched.calls("light").ended), (50, 50));
}

#[test]
fn recursion_is_counted_call_by_call_and_its_time_once() {
    let program = Program::build();
    let Some(mut watched) = program.watched(Watch::Children, &["down"]) else { return };
    program.run(&["recursion", "9"]);
    let calls = watched.calls("down");
    assert_eq!((calls.ended, calls.too_deep), (10, 0));
    let used = watched.probes.usage().unwrap();
    let tree = watched.probes.tree().unwrap();
    // What runs in the n-th call of it runs in each of those around it, and on a CPU once.
    let nested: Duration =
        (0..).zip(&used.nodes).map(|(node, time)| *time * tree.path(node).len() as u32).sum();
    assert!(nested.abs_diff(calls.ran) < nested.mul_f64(0.01), "{nested:?} {:?}", calls.ran);
    let (cpu, _) = watched.cpu("down");
    assert_eq!(cpu, used.nodes[1..].iter().sum());
}

#[test]
fn calls_inside_of_sixteen_others_are_told_and_not_invented() {
    let program = Program::build();
    let Some(mut watched) = program.watched(Watch::Children, &["down"]) else { return };
    program.run(&["recursion", "19"]);
    let calls = watched.calls("down");
    assert_eq!((calls.begun, calls.too_deep), (16, 4));
    assert_eq!((calls.ended, calls.unbegun), (16, 0));
    // Of twenty calls, each 0.1 ms longer than the one inside of it, the sixteen outermost last for
    // 2.0 + 1.9 + .. + 0.5 ms. Would the inner four end those, it were 0.4 ms less for each.
    let told = Duration::from_millis(20);
    let least = told.saturating_sub(watched.may_miss(told));
    assert!(calls.ran >= least, "{:?}", calls.ran);
}

#[test]
fn more_stacks_than_there_is_room_for_are_told() {
    let program = Program::build();
    let Some(watched) = program.watched(Watch::Children, &["left", "right"]) else { return };
    // A stack for each way down a tree of so many levels: 2^12 - 1, then 2^13 - 1; room is for 4,095.
    program.run(&["tree", "11"]);
    assert!(!watched.probes.is_full().unwrap());
    program.run(&["tree", "12"]);
    assert!(watched.probes.is_full().unwrap());
    let ended = ["left", "right"].map(|function| watched.calls(function).ended);
    assert_eq!(ended.iter().sum::<u64>(), 4095 + 8191);
}

#[test]
fn whoever_leaves_by_longjmp_is_told_and_confuses_nothing() {
    let program = Program::build();
    let Some(watched) = program.watched(Watch::Children, &["jumps", "nothing"]) else { return };
    program.run(&["jump", "100"]);
    let (jumps, nothing) = (watched.calls("jumps"), watched.calls("nothing"));
    assert_eq!((jumps.begun, jumps.ended, jumps.unended), (100, 0, 100));
    assert_eq!((nothing.begun, nothing.ended, nothing.unended), (100, 100, 0));
}

#[test]
fn whoever_waits_runs_no_longer_for_it() {
    let program = Program::build();
    let Some(mut watched) = program.watched(Watch::Children, &["sleeps"]) else { return };
    program.run(&["sleep"]);
    let (cpu, _) = watched.cpu("sleeps");
    let calls = watched.calls("sleeps");
    assert!(calls.length >= Duration::from_millis(50));
    assert!(
        calls.ran == cpu && calls.length >= calls.ran + calls.preempted + Duration::from_millis(40)
    );
}

#[test]
fn children_count_and_strangers_do_not() {
    let program = Program::build();
    let me = Watch::Process(std::process::id());
    let Some(children) = program.watched(Watch::Children, &["nothing"]) else { return };
    // Another watcher of the same functions, side by side, for a process that never calls them.
    let init = Watch::Process(1);
    let Some(others) = program.watched(init, &["nothing"]) else { return };
    let Some(mine) = program.watched(me, &["nothing"]) else { return };
    let Some(all) = program.watched(Watch::Everybody, &["nothing"]) else { return };
    program.run(&["fork", "20"]);
    let ended = |watched: &Watched| watched.calls("nothing").ended;
    assert_eq!((ended(&children), ended(&mine), ended(&others), ended(&all)), (20, 20, 0, 20));
}

#[test]
fn every_cpu_is_busy_or_idle_all_the_time() {
    let program = Program::build();
    let Some(mut watched) = program.watched(Watch::Children, &["nothing"]) else { return };
    // A test that has to wait for a CPU between two readings has them further apart.
    let (outer, before, inner) = (monotonic(), watched.probes.usage().unwrap(), monotonic());
    program.run(&["nested", "100"]);
    let (inner_end, after) = (monotonic(), watched.probes.usage().unwrap());
    let outer_end = monotonic();
    let used = after.since(&before);
    let all = (used.busy + used.idle + used.stolen).as_secs_f64();
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    let least = inner_end.since(inner).as_secs_f64() * cpus;
    let most = outer_end.since(outer).as_secs_f64() * cpus;
    assert!((0.98 * least..=1.02 * most).contains(&all), "{least} <= {all} <= {most}");
    // A thread's account is closed when it ends. What a hypervisor took during its last run is known at its last
    // switch only, and counts there as stolen from the CPU.
    let nodes = used.nodes.iter().sum::<Duration>();
    assert!(nodes <= used.busy + used.stolen, "{nodes:?} <= {:?} + {:?}", used.busy, used.stolen);
}

#[test]
fn more_children_than_can_be_watched_at_a_time_are_watched_one_after_the_other() {
    let program = Program::build();
    let Some(watched) = program.watched(Watch::Children, &["nothing"]) else { return };
    program.run(&["fork", "17000"]);
    assert_eq!(watched.calls("nothing").ended, 17_000);
}

#[test]
fn whoever_becomes_another_program_has_left_its_functions() {
    let program = Program::build();
    let Some(mut watched) = program.watched(Watch::Children, &["launch", "outer"]) else { return };
    program.run(&["exec"]);
    let launch = watched.calls("launch");
    assert_eq!((launch.begun, launch.ended, launch.unended), (1, 0, 1));
    // What it became runs for 60 ms, by its own clock.
    let ((launch, _), (outer, _)) = (watched.cpu("launch"), watched.cpu("outer"));
    let told = Duration::from_millis(60);
    let least = told.saturating_sub(watched.may_miss(told));
    assert!(outer >= least && launch < Duration::from_millis(30), "{outer:?} {launch:?}");
}

#[test]
fn a_thread_that_never_leaves_its_cpu_is_charged_from_the_first_look_on() {
    let program = Program::build();
    // Nothing takes its CPU away except the kernel's limit for real-time threads.
    let mut command = Command::new("chrt");
    command.args(["-f", "10"]).arg(program.path()).args(["nested", "200"]);
    let Ok(mut child) = command.spawn() else { return println!("skipped: no chrt") };
    let Some(mut watched) = program.watched(Watch::Process(child.id()), &[]) else { return };
    let begun = watched.probes.usage().unwrap().nodes[0];
    let schedstat = std::fs::read_to_string(format!("/proc/{}/schedstat", child.id())).unwrap();
    let before: u64 = schedstat.split_whitespace().next().unwrap().parse().unwrap();
    if !child.wait().unwrap().success() {
        return println!("skipped: no real-time threads for us");
    }
    // By its own clock.
    let ran = Duration::from_millis(600).saturating_sub(Duration::from_nanos(before));
    let cpu = watched.probes.usage().unwrap().nodes[0].saturating_sub(begun);
    let bound = Duration::from_millis(10) + watched.may_miss(ran);
    assert!(cpu + bound > ran, "{cpu:?} of {ran:?}, {bound:?} may be missing");
}

#[test]
fn a_place_within_an_instruction_is_refused() {
    let program = Program::build();
    let place = |symbol: &str, offset: u64| {
        let program = program.path().display().to_string();
        function_entries(&Point { program, symbol: symbol.to_owned(), offset })
    };
    // With its frame pointer: push %rbp; mov %rsp, %rbp.
    let entry = place("outer", 0).unwrap();
    assert_eq!(place("outer", 1).unwrap()[0].offset, entry[0].offset + 1);
    for error in [place("outer", 2), place("outer", 3)].map(Result::unwrap_err) {
        assert!(matches!(error, ProbeError::NoInstruction { .. }), "{error}");
        assert!(error.to_string().contains("into `outer`"), "{error}");
    }
}

/// CPU time of a call of each function, with what single-stepping costs known or not, for a body of so many turns:
/// the middle one of nine runs, as the cost of a step is, since a hypervisor that holds a run up for 2 ms adds
/// 1 us to each of 2,000 calls. And all CPU time of the processes by the kernel's sums and by their own clocks.
fn times_of_one_body(
    turns: &str,
    step: Option<Duration>,
) -> Option<([Duration; 4], [Duration; 2])> {
    const RUNS: usize = 9;
    let program = Program::build();
    let functions = ["pushed", "stepped", "moved", "around"];
    let extras = Extras { step, ..Extras::default() };
    let mut watched = program.watched_with(Watch::Children, extras, &functions)?;
    let mut told = 0.0;
    let mut each = [const { Vec::new() }; 4];
    for _ in 0..RUNS {
        let before = functions.map(|function| watched.calls(function));
        told += program.run(&["same", "250", turns])[0];
        for (place, function) in functions.iter().enumerate() {
            let calls = watched.calls(function);
            let ended = calls.ended - before[place].ended;
            assert!(ended >= 250 && calls.unended == 0, "{function}: {calls:?}");
            let ran = calls.ran.checked_sub(before[place].ran).unwrap();
            each[place].push(ran / u32::try_from(ended).unwrap());
        }
    }
    let each = each.map(|mut runs| {
        runs.sort_unstable();
        runs[RUNS / 2]
    });
    let all = watched.probes.usage().unwrap().nodes.iter().sum();
    Some((each, [all, Duration::from_secs_f64(1e-9 * told)]))
}

/// Whether functions of one body cost the same in this one measurement, though one is single-stepped; `None` where
/// that cannot be measured.
fn cost_the_same(step: &StepCost) -> Option<Result<(), String>> {
    let difference = |one: Duration, other: Duration| one.as_secs_f64() - other.as_secs_f64();
    let (cost, half_width) = (step.each.as_secs_f64(), step.half_width.as_secs_f64());
    // Some 100 us, and some 5.
    for (turns, within) in [("80000", 0.05), ("4000", 0.0)] {
        let (each, [all, told]) = times_of_one_body(turns, Some(step.each))?;
        let [pushed, stepped, moved, around] = each;
        let bound = half_width.max(within * pushed.as_secs_f64());
        let off = |of: Duration| difference(of, pushed);
        // `moved` is entered behind its first instruction. The stepped instructions inside of `around` are not its
        // own: a probe costs it a microsecond. The time of the steps is the process's all the same.
        let holds = off(stepped).abs() < bound
            && off(moved).abs() < bound
            && off(around) < 2.0 * half_width + 2e-6 + bound
            && difference(told, all) < 0.05 * told.as_secs_f64();
        if !holds {
            return Some(Err(format!("{turns}: {each:?}, {all:?} of {told:?}, {step:?}")));
        }
    }
    // Unknown, it is in the function: that is what is to be seen.
    let (each, _) = times_of_one_body("4000", None)?;
    let seen = difference(each[1], each[0]);
    let is_seen = (seen - cost).abs() < 2.0 * half_width;
    Some(if is_seen { Ok(()) } else { Err(format!("{seen} s, {step:?}")) })
}

#[test]
fn two_functions_of_one_body_cost_the_same_though_one_is_single_stepped() {
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: no instruction is single-stepped here");
    }
    // What else the machine does moves the cost of a step while it is measured: three measurements of five must agree.
    let (mut agree, mut others) = (0, Vec::new());
    while agree < 3 {
        let step = match step_cost() {
            Ok(Some(step)) => step,
            Ok(None) => return println!("skipped: no program may be run from memory"),
            Err(error) => return println!("skipped: {error}"),
        };
        match cost_the_same(&step) {
            None => return,
            Some(Ok(())) => agree += 1,
            Some(Err(why)) => others.push(why),
        }
        assert!(others.len() < 3, "{others:#?}");
    }
}

#[test]
fn a_function_whose_first_instruction_need_not_be_the_place_is_not_single_stepped() {
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: no instruction is single-stepped here");
    }
    let program = Program::build();
    let kind = |symbol: &str| {
        let program = program.path().display().to_string();
        let point = Point { program, symbol: symbol.to_owned(), offset: 0 };
        function_entries(&point).unwrap()[0].instruction
    };
    assert_eq!((kind("pushed"), kind("moved")), (InstructionKind::Push, InstructionKind::Push));
    assert_eq!(kind("stepped"), InstructionKind::Stepped);
}
