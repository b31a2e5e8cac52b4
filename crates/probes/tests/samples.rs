//! Samples by this very kernel, of a program that knows what it does.
//!
//! Where this user may not sample, each says `skipped: <reason>`.

mod programs;

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_probes::{ProbeError, Sample, Samples, Watch};

/// So far from the mean a normal variable lies once in 10^6, on either side.
const ONCE_IN_A_MILLION: f64 = 4.9;

const HZ: u32 = 997;

/// Seconds by which samples may exceed a thread's clock each time another thread preempts it. The scheduler stops the
/// clock when the other thread wakes, not when the CPU switches to it. And a sample whose timer is late for a thread
/// that runs for some microseconds finds the next one. Both together took 20 us on a virtual machine under load
/// (`perf record -e cpu-clock,sched:sched_switch,sched:sched_wakeup`).
const PREEMPTION: f64 = 50e-6;

/// The program, with frame pointers.
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

    /// Runs it as far as to where it has the end of its input to wait for.
    fn waiting(&self) -> Child {
        let mut command = Command::new(self.path());
        command.args(["nested", "300", "waits"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "runs\n");
        child
    }
}

/// Samples by what they saw.
#[derive(Default)]
struct SampleCounts {
    idle: u64,
    other: u64,
    /// Each stack, the outermost function first.
    stacks: HashMap<Vec<String>, u64>,
    all: u64,
}

impl SampleCounts {
    fn watched(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// With what it calls.
    fn within(&self, function: &str) -> u64 {
        let is_in = |stack: &[String]| stack.iter().any(|name| name == function);
        self.stacks.iter().filter(|(stack, _)| is_in(stack)).map(|(_, count)| count).sum()
    }
}

/// Samples while something goes on. None, with the reason told, where this user may not.
fn sampled(watch: Watch, mut goes_on: impl FnMut() -> bool) -> Option<(SampleCounts, Samples)> {
    let mut samples = match Samples::open(HZ) {
        Ok(samples) => samples,
        Err(error @ (ProbeError::NoSamples(_) | ProbeError::NoRoom(_))) => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    samples.start(watch).unwrap();
    let stop = Stop::new().unwrap();
    let mut seen = SampleCounts::default();
    let mut last = Duration::ZERO;
    loop {
        let goes_on = goes_on();
        if goes_on {
            stop.wait_until(monotonic() + Duration::from_millis(50));
        }
        for (time, sample) in samples.read() {
            // An emulated CPU may be held up between a sample's time and its place in the ring for longer
            // than we wait for such; it is told with the next ones.
            let is_emulated = is_emulated();
            assert!(time.0 >= last || is_emulated, "in their order");
            last = last.max(time.0);
            seen.all += 1;
            match sample {
                Sample::Idle => seen.idle += 1,
                Sample::Other => seen.other += 1,
                Sample::Watched(stack) => {
                    let name = |function: usize| samples.functions()[function].name.clone();
                    *seen.stacks.entry(stack.into_iter().map(name).collect()).or_default() += 1;
                }
            }
        }
        if !goes_on {
            // A kernel that a hypervisor held up finds two samples due at once, and halts them till its
            // next tick: that takes as many from all who run, so that shares stay what they are.
            println!("{} times halted by the kernel", samples.throttled());
            assert_eq!(samples.lost(), 0);
            return Some((seen, samples));
        }
    }
}

/// While a thread of ours runs.
fn during<T: Send>(
    watch: Watch,
    work: impl FnOnce() -> T + Send,
) -> Option<(SampleCounts, Samples, T)> {
    std::thread::scope(|scope| {
        let (go, wait) = std::sync::mpsc::channel();
        let worker = scope.spawn(move || wait.recv().ok().map(|()| work()));
        let mut go = Some(go);
        let seen = sampled(watch, || {
            if let Some(go) = go.take() {
                go.send(()).unwrap();
            }
            !worker.is_finished()
        });
        drop(go);
        let told = worker.join().unwrap();
        seen.map(|(seen, samples)| (seen, samples, told.unwrap()))
    })
}

/// Is the share of `part` in `all` samples what it is to be, as far as chance allows?
fn is_share(part: u64, all: u64, expected: f64) -> bool {
    let (part, all) = (part as f64, all as f64);
    let deviation = (all * expected * (1.0 - expected)).sqrt();
    println!("{part} of {all}, {:.1} +- {deviation:.1} expected", all * expected);
    (part - all * expected).abs() < ONCE_IN_A_MILLION * deviation + 1.0
}

/// Are these CPUs emulated, as those of the guests of `tools/vm/probes`?
fn is_emulated() -> bool {
    std::env::var_os("NIGHTWATT_EMULATED").is_some()
}

/// Seconds that a hypervisor has taken from all CPUs.
fn stolen() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks = text.split_whitespace().nth(8).unwrap().parse::<f64>().unwrap();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

#[test]
fn threads_that_take_each_others_cpus_away_are_seen_as_often_as_they_run() {
    let program = Program::build();
    let before = stolen();
    let Some((seen, samples, told)) = during(Watch::Children, || program.run(&["threads", "20"]))
    else {
        return;
    };
    let (heavy, light) = (seen.within("heavy"), seen.within("light"));
    // By the threads' own clocks 1.2 s and 0.4 s.
    let expected = told[0] / (told[0] + told[1]);
    assert!(is_share(heavy, heavy + light, expected));
    // Each stands for a period, in which a hypervisor may have taken the CPU away.
    let stolen = stolen() - before;
    let seen_for = samples.period().as_secs_f64() * (heavy + light) as f64;
    let ran = 1e-9 * (told[0] + told[1]);
    println!("{seen_for:.3} s of {ran:.3} s, {stolen:.2} s stolen, preempted {} times", told[2]);
    assert!(seen_for < 1.05 * ran + stolen + PREEMPTION * told[2], "{seen_for} s of {told:?}");
    // An emulated CPU's timers come late, and what they are late by is never told: in a guest on a busy
    // machine it was more than half.
    assert!(seen_for > 0.1 * ran, "{seen_for} s of {told:?}");
}

#[test]
fn what_is_nested_is_in_both_and_belongs_to_the_inner_one() {
    let program = Program::build();
    let Some((seen, ..)) = during(Watch::Children, || program.run(&["nested", "500"])) else {
        return;
    };
    // 1 ms before the inner one, 1 ms behind it, and that runs for 1 ms.
    let (outer, light) = (seen.within("outer"), seen.within("light"));
    assert!(is_share(light, outer, 1.0 / 3.0));
    assert!(outer > 500, "{outer} of {}", seen.watched());
    // At a function's first instruction, where an emulated CPU is often interrupted, its caller is not
    // on the chain of frames.
    let (main, share) = (seen.within("main"), if is_emulated() { 0.99 } else { 1.0 });
    assert!(main as f64 >= share * outer as f64, "{main} of {outer}");
}

#[test]
fn children_that_live_for_milliseconds_are_seen_in_their_functions() {
    let program = Program::build();
    // A hundred, each 3 ms long, which have ended long before their samples are read.
    let run = || (0..100).for_each(|_| drop(program.run(&["nested", "1"])));
    let Some((seen, ..)) = during(Watch::Children, run) else { return };
    assert!(is_share(seen.within("light"), seen.within("outer"), 1.0 / 3.0));
    assert!(seen.within("outer") > 100, "{:?}", seen.stacks);
    // Children of another process are not ours.
    let Some((seen, ..)) = during(Watch::Process(1), || program.run(&["nested", "100"])) else {
        return;
    };
    assert_eq!(seen.within("outer"), 0);
    assert!(seen.other > 100, "{} of {}", seen.other, seen.all);
}

/// Samples while a program goes on that waits for the end of its input. It begins when they do.
fn while_it_goes_on(child: &mut Child) -> Option<(SampleCounts, Samples)> {
    sampled(Watch::Process(child.id()), || {
        drop(child.stdin.take());
        child.try_wait().unwrap().is_none()
    })
}

#[test]
fn a_process_that_runs_already_is_known_by_its_functions() {
    let program = Program::build();
    let mut child = program.waiting();
    let Some((seen, _)) = while_it_goes_on(&mut child) else { return };
    assert!(is_share(seen.within("light"), seen.within("outer"), 1.0 / 3.0));
    assert!(seen.within("outer") > 100, "{:?}", seen.stacks);
    child.wait().unwrap();
}

#[test]
fn a_process_whose_file_was_deleted_is_known_by_its_functions() {
    let program = Program::build();
    let mut child = program.waiting();
    std::fs::remove_file(program.path()).unwrap();
    let Some((seen, _)) = while_it_goes_on(&mut child) else { return };
    assert!(is_share(seen.within("light"), seen.within("outer"), 1.0 / 3.0));
    assert!(seen.within("outer") > 100, "{:?}", seen.stacks);
    child.wait().unwrap();
}

#[test]
fn whoever_becomes_another_program_is_seen_in_that_one() {
    let program = Program::build();
    let Some((seen, ..)) = during(Watch::Children, || program.run(&["exec"])) else { return };
    assert!(seen.within("outer") > 20, "{:?}", seen.stacks);
    assert!(seen.stacks.keys().all(
        |stack| !(stack.contains(&"outer".to_owned()) && stack.contains(&"launch".to_owned()))
    ));
}

#[test]
fn functions_of_a_library_are_known_by_their_names() {
    let program = Program::build();
    let Some((seen, samples, _)) = during(Watch::Children, || program.run(&["nested", "100"]))
    else {
        return;
    };
    let library = samples.functions().iter().find(|it| it.name.contains("clock_gettime"));
    let library = library.unwrap_or_else(|| panic!("{:?}", samples.functions()));
    assert!(seen.within(&library.name) > 0);
    // Most of what it does it does in the kernel, on its own account.
    assert!(samples.functions().iter().any(|it| it.file.as_os_str() == "[kernel]"));
}

#[test]
fn every_cpu_is_seen_idle_or_busy_all_the_time() {
    let begin = monotonic();
    let program = Program::build();
    let Some((seen, samples, _)) = during(Watch::Children, || program.run(&["nested", "200"]))
    else {
        return;
    };
    let most = monotonic().since(begin).div_duration_f64(samples.period()) * samples.cpus() as f64;
    assert_eq!(seen.idle + seen.other + seen.watched(), seen.all);
    assert!((seen.all as f64) < most + samples.cpus() as f64, "{} of {most}", seen.all);
}
