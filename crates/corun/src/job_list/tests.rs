//! Lists of jobs whose kinds have made-up runs, and batches that really run.

use std::fs;

use nightwatt_clock::meter::Stop;
use nightwatt_compare::Store;

use super::*;
use crate::adopted;
use crate::batch_runner::{BatchRun, run_batches};
use crate::job_history::{JobsDone, jobs_done};
use crate::pure::placement::{Placement, Share};
use crate::tests::{finished, plan, runs};

/// Of a, b and c: a and c are faster together, a and b are not. All on one CPU that this process may use.
pub(super) fn profile() -> Profile {
    let plan = plan();
    let cpu = rustix::thread::sched_getaffinity(None).unwrap();
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|it| cpu.is_set(*it)).unwrap() as u32;
    let placement = Placement { share: Share::Any, slots: Vec::new(), jobs: 3, all: vec![first] };
    let runs = runs(&plan, |group, record| finished(&plan, group, record));
    let report = report(&plan, &placement, &runs).unwrap();
    Profile { plan, report }
}

pub(super) fn list(text: &str) -> Result<JobList, String> {
    JobList::read("list", text, &profile()).map_err(|error| error.to_string())
}

#[test]
fn jobs_run_beside_those_that_were_measured_to_be_faster_with_them() {
    let list = list("# of today\na: one\n\nb: two\nc: three\na: four\n").unwrap();
    let lines: Vec<usize> = list.jobs.iter().map(|job| job.line).collect();
    assert_eq!(lines, [2, 4, 5, 6]);
    let of = |goal, done: &[usize]| list.batches(&profile(), goal, None, done).unwrap();
    let batches = of(Goal::Time, &[]);
    // Alone 10 s each, a and c as b and c 11 s, a and b 22 s, all three 23 s; and 1 % more in each of three blocks.
    assert!((batches.one_after_the_other.seconds - 40.4).abs() < 1e-9, "{batches:?}");
    assert!((batches.expected.seconds - 1.01 * 31.0).abs() < 1e-9, "{batches:?}");
    // The made-up machine draws 50 W, whatever it does.
    assert!((batches.expected.joules - 50.0 * 1.01 * 31.0).abs() < 1e-6, "{batches:?}");
    assert_eq!(batches.batches[0].jobs.len(), 2, "what saves most runs first");
    let frugal = of(Goal::Energy, &[]);
    assert!((frugal.expected.joules - batches.expected.joules).abs() < 1e-6, "{frugal:?}");
    let text = batches.text();
    assert!(text.contains("4 jobs in 3 batches") && text.contains("three (line 5)"), "{text}");
    // With c done, nothing is better together.
    let left = of(Goal::Time, &[2]);
    assert!(left.batches.iter().all(|it| it.jobs.len() == 1 && it.jobs != [2]), "{left:?}");
    assert_eq!(left.batches.len(), 3);
    let why = "each job runs alone: no group of their kinds is `together` by time in the profile";
    assert_eq!((left.alone_because.as_deref(), batches.alone_because), (Some(why), None));
    let words = left.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("3 jobs in 3 batches") && words.contains("runs alone"), "{words}");
    // A single job says nothing.
    let one = of(Goal::Time, &[0, 1, 2]);
    assert!(one.text().contains("1 job in 1 batch,"), "{}", one.text());
    assert_eq!(one.alone_because, None);
}

#[test]
fn lists_that_cannot_run_are_refused_with_their_line() {
    for (text, parts) in [
        ("", &["list:1", "KIND: COMMAND"][..]),
        ("# nothing\n", &["no jobs"]),
        ("a: one\nd: two\n", &["list:2", "`a: COMMAND`", "a, b, c"]),
        ("a:  \n", &["list:1", "no command after `a:`"]),
    ] {
        let said = list(text).unwrap_err();
        for part in parts {
            assert!(said.contains(part), "{part:?} is not in {said}");
        }
    }
}

#[test]
fn what_a_job_leaves_running_is_ended_and_reported_with_its_line() {
    let _alone = adopted::alone();
    let folder = tempfile::tempdir().unwrap();
    let number = format!("6{}", std::process::id());
    // b and c run together, a alone. Of two jobs, the one that has cleared the environment is not known.
    // Each waits until it has the name of the program and no more that of the shell.
    let runs = "until grep -qx sleep /proc/$!/comm || ! kill -0 $!; do sleep 0.01; done";
    let marked = format!("setsid sleep {number} & {runs}; exit 0");
    let cleared = format!("env -i setsid /bin/sleep {number} & {runs}; exit 0");
    for (text, failed, part) in [
        (format!("a: true\nb: true\nc: {marked}\n"), Some(3), "it has ended, and left `sleep` (p"),
        (format!("a: {cleared}\nb: true\nc: true\n"), Some(1), "it has ended, and left `sleep` (p"),
        (format!("a: true\nb: {cleared}\nc: true\n"), None, "jobs of lines 2, 3 has left `sleep`"),
        ("a: true\nb: true\nc: sleep 0.01 & wait\n".to_owned(), None, "0 of them failed"),
    ] {
        let (list, profile, stop) = (list(&text).unwrap(), profile(), Stop::new().unwrap());
        let out = folder.path().join(format!("{failed:?}-{}", part.len()));
        let mut store = Store::open(&out, list.subject(), false).unwrap();
        let batches = list.batches(&profile, Goal::Time, None, &[]).unwrap();
        let run = BatchRun { profile: &profile, list: &list, batches: &batches, time_limit: None };
        run_batches(run, &mut store, &stop, &mut |_, _| ()).unwrap();
        let done = JobsDone::of(&list, &store.done);
        let lines: Vec<usize> = done.failed().map(|it| it.job.line).collect();
        assert_eq!(lines, failed.into_iter().collect::<Vec<_>>(), "{}", done.text());
        assert!(done.text().contains(part), "{}", done.text());
        assert_eq!(done.is_good(), !text.contains("setsid"), "{}", done.text());
        // The warning is of both, and both run again.
        let mut warned: Vec<usize> = done.warned().map(|it| it.job.line).collect();
        warned.sort_unstable();
        let both: &[usize] = if part.contains("lines 2, 3") { &[2, 3] } else { &[] };
        assert_eq!(warned, both, "{}", done.text());
        let not_again = jobs_done(&list, &store, true).len();
        assert_eq!(not_again, 3 - both.len() - lines.len(), "{}", done.text());
        let words = format!("sleep\0{number}\0");
        let runs = fs::read_dir("/proc").unwrap().flatten();
        let mut runs = runs.filter_map(|it| fs::read_to_string(it.path().join("cmdline")).ok());
        assert!(!runs.any(|it| it.contains(&words)), "it was ended: {text}");
    }
}

#[test]
fn every_job_runs_once_also_after_an_interruption_and_failures_are_listed() {
    let _alone = adopted::alone();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log").display().to_string();
    let list = list(&format!(
        "a: echo one >>{log}\nb: echo two >>{log}; echo no disk >&2; exit 3\nc: echo three >>{log}\n"
    ))
    .unwrap();
    let (profile, out) = (profile(), folder.path().join("out"));
    let run = |stop: &Stop| {
        let mut store = Store::open(&out, list.subject(), false).unwrap();
        let done = jobs_done(&list, &store, false);
        let left = list.batches(&profile, Goal::Time, None, &done).unwrap();
        let mut told = 0;
        let run = BatchRun { profile: &profile, list: &list, batches: &left, time_limit: None };
        let ran = run_batches(run, &mut store, stop, &mut |_, _| told += 1);
        (ran, told, JobsDone::of(&list, &store.done))
    };
    let stop = Stop::new().unwrap();
    stop.stop();
    let (ran, _, done) = run(&stop);
    assert!(ran.unwrap_err().is_interrupted() && done.ended.is_empty());
    let (ran, batches, done) = run(&Stop::new().unwrap());
    ran.unwrap();
    assert_eq!((batches, done.ended.len(), done.jobs), (2, 3, 3));
    let mut lines: Vec<String> =
        fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "three", "two"]);
    let text = done.text();
    assert!(text.contains("1 of them failed") && text.contains("no disk"), "{text}");
    assert!(text.contains("line 2, echo two"), "{text}");
    // All have ended: nothing runs again, and nothing has to be undone.
    let (ran, batches, _) = run(&Stop::new().unwrap());
    assert!(ran.is_ok() && batches == 0 && !out.join("undo").exists());
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 3);
}
