//! The scheduler in a kernel: `tools/vm/sched` runs this in guests. Where a kernel has no sched_ext, all is skipped.

mod bench;
mod replay;

use std::fs;
use std::path::Path;

use bench::{Loader, Worker, counts, eventually, is_here, last_cpu, policy_of, state};

/// Milliseconds of a quantum, which is the published one.
const QUANTUM: u64 = 4;
const BOUND_QUANTA: u64 = 25;

/// Workers whose OPJ are these run on one CPU until there are 1,000 decisions.
fn traced(policy: &str, folder: &Path) -> (serde_json::Value, Vec<replay::Line>) {
    let trace = folder.join(format!("{policy}.csv"));
    let bound = (BOUND_QUANTA * QUANTUM).to_string();
    let path = trace.display().to_string();
    let words = ["--policy", policy, "--bound", &bound, "--operations", "given", "--trace", &path];
    let loader = Loader::start(&words);
    let opj = ["5000", "3000", "3000", "2000", "1000", "700"];
    // Slow by nature, or slowed down: with `relative`, the order is another one.
    let alone = ["5000", "3000", "4000", "2000", "1000", "1400"];
    let words = |place: usize| ["--opj", opj[place], "--alone", alone[place]];
    let workers: Vec<Worker> =
        (0..opj.len()).map(|place| Worker::start(&words(place), Some(last_cpu()))).collect();
    eventually("there are 1,000 decisions", || {
        let text = fs::read_to_string(&trace).unwrap_or_default();
        text.matches("pick,").count() > 1_000
    });
    let counts = counts(&loader.end());
    drop(workers);
    (counts, replay::read(&fs::read_to_string(&trace).unwrap()))
}

#[test]
fn decisions_are_those_of_the_pure_policy() {
    if !is_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for policy in ["published", "relative", "bounded"] {
        let (counts, lines) = traced(policy, folder.path());
        let of = |name: &str| counts[name].as_u64().unwrap();
        assert_eq!((of("missed"), of("lost_events")), (0, 0), "{policy}: {counts}");
        let bound = (policy == "bounded").then_some(BOUND_QUANTA);
        let replayed = replay::replay(&lines, bound);
        assert!(replayed.picks >= 1_000 && replayed.promotions > 0, "{policy}: {replayed:?}");
        println!("{policy}: {replayed:?} are those of the pure policy; {counts}");
        // In quanta and not in milliseconds: emulation keeps no time. All tasks but one fit into the bound.
        let longest = of("longest_wait_quanta");
        match bound {
            Some(bound) => assert!(longest <= bound + 1, "{counts}"),
            // The lowest of 6 waits 36 quanta in the mean.
            None => assert!(longest > BOUND_QUANTA + 1, "{counts}"),
        }
    }
}

#[test]
fn operations_of_a_quantum_are_divided_by_the_joules_of_the_machine() {
    if !is_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    let path = trace.display().to_string();
    // A nanosecond is an operation. At 2 W, 0.5 ms of them are in a millijoule.
    let words = ["--operations", "cpu-clock", "--watts", "2", "--trace", &path];
    let loader = Loader::start(&words);
    let workers = [(); 2].map(|()| Worker::start(&[], Some(last_cpu())));
    let ranked = || {
        let lines = replay::read(&fs::read_to_string(&trace).unwrap_or_default());
        let opj = lines.iter().filter(|it| it.is_add()).filter_map(|it| it.opj);
        opj.filter(|opj| *opj > 0).collect::<Vec<u64>>()
    };
    eventually("there are 100 quanta", || ranked().len() > 100);
    loader.end();
    drop(workers);
    let mut opj = ranked();
    opj.sort_unstable();
    let median = opj[opj.len() / 2];
    println!("operations per millijoule: {median} of 500000");
    assert!((475_000..525_000).contains(&median), "{opj:?}");
}

/// Loads, unloads and `kill -9` while tasks run: `NIGHTWATT_SCHED_CYCLES` times.
#[test]
fn no_task_is_lost_by_loads_unloads_and_kills() {
    if !is_here() {
        return;
    }
    let cycles = std::env::var("NIGHTWATT_SCHED_CYCLES").ok().and_then(|it| it.parse().ok());
    let cycles: u32 = cycles.unwrap_or(10);
    let other = Worker::ordinary();
    let first = Loader::start(&["--operations", "given"]);
    let workers: Vec<Worker> = (0..4).map(|_| Worker::start(&["--opj", "1"], None)).collect();
    eventually("all are scheduled", || workers.iter().all(|it| policy_of(it.id()) == Some(7)));
    first.kill();
    for cycle in 0..cycles {
        let loader = Loader::start(&["--operations", "given"]);
        let before: Vec<u64> = workers.iter().map(Worker::ticks).collect();
        if cycle % 10 == 0 {
            eventually("all go on under the scheduler", || {
                workers.iter().zip(&before).all(|(worker, before)| worker.ticks() > *before)
            });
        }
        if cycle % 2 == 0 {
            loader.kill();
        } else {
            loader.end();
        }
    }
    let before: Vec<u64> = workers.iter().map(Worker::ticks).collect();
    eventually("all go on under the kernel's own scheduler", || {
        workers.iter().zip(&before).all(|(worker, before)| worker.ticks() > *before)
    });
    assert_eq!(policy_of(other.id()), Some(0), "other tasks are not touched");
    let ours: Vec<u32> = workers.iter().map(Worker::id).collect();
    let touched = bench::processes().into_iter().filter(|it| policy_of(*it) == Some(7));
    assert!(touched.into_iter().all(|it| ours.contains(&it)), "only what was started by `run`");
    println!("{cycles} loads, half of them ended by SIGKILL: 4 of 4 tasks go on");
}

#[test]
fn when_cpus_go_and_come_the_scheduler_begins_again() {
    if !is_here() {
        return;
    }
    let online = format!("/sys/devices/system/cpu/cpu{}/online", last_cpu());
    if last_cpu() == 0 || !Path::new(&online).exists() {
        return println!("skipped: there is no CPU that can go offline");
    }
    let loader = Loader::start(&["--operations", "given"]);
    let worker = Worker::start(&["--opj", "1"], None);
    // Else it may ask for the scheduler while that begins again.
    eventually("it is scheduled", || policy_of(worker.id()) == Some(7));
    for text in ["0", "1"] {
        let before = loader.restarts();
        fs::write(&online, text).unwrap();
        eventually("it begins again", || loader.restarts() > before && state() == "enabled");
    }
    let before = worker.ticks();
    eventually("the task goes on", || worker.ticks() > before);
    loader.end();
}

#[test]
fn what_cannot_be_is_refused_with_the_next_step() {
    if !is_here() {
        return;
    }
    let refused = bench::refused(&["run", "--", "true"]);
    assert!(refused.contains("no scheduler of nightwatt-sched is loaded"), "{refused}");
    assert!(refused.contains("nightwatt-sched load"), "{refused}");
    let loader = Loader::start(&["--operations", "given"]);
    let refused = bench::refused(&["load", "--operations", "given"]);
    assert!(refused.contains("another scheduler is loaded: nightwatt"), "{refused}");
    let refused = bench::refused(&["run", "--", "/nothing"]);
    assert!(refused.contains("cannot run /nothing"), "{refused}");
    loader.end();
    let refused = bench::refused(&["load", "--operations", "given", "--trace", "/nowhere/trace"]);
    assert!(refused.contains("/nowhere/trace") && state() == "disabled", "{refused}");
}

#[test]
fn the_verifier_accepts_all_programs() {
    if !is_here() {
        return;
    }
    let output = bench::program().args(["check", "--json"]).output().unwrap();
    let checked: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    println!("{checked}");
    let programs = checked["programs"].as_array().unwrap();
    assert_eq!(programs.len(), 10, "{checked}");
    for program in programs {
        // The verifier gives up at a million; a hundredth of that leaves room for other kernels.
        let verified = program["verified_instructions"].as_u64().unwrap();
        assert!((1..10_000).contains(&verified), "{program}");
    }
    assert_eq!(state(), "disabled", "it was not started");
}
