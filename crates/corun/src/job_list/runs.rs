//! Lists that change between runs, jobs that run again, and jobs that are ended.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_compare::Store;
use nightwatt_compare::pure::experiment::Step;
use nightwatt_compare::record::RunRecord;

use super::tests::{list, profile};
use super::*;
use crate::adopted;
use crate::batch_runner::{BatchRun, run_batches};
use crate::job_history::{JobsDone, jobs_done};
use crate::job_key::ALSO_OF;

#[derive(Clone, Copy, Default)]
struct How {
    retry_failed: bool,
    time_limit: Option<Duration>,
}

/// Runs what is left of a list in this folder.
fn run(folder: &Path, text: &str, how: How) -> JobsDone {
    let (profile, list) = (profile(), list(text).unwrap());
    let mut store = Store::open(folder, list.subject(), false).unwrap();
    let done = jobs_done(&list, &store, how.retry_failed);
    let batches = list.batches(&profile, Goal::Time, None, &done).unwrap();
    let time_limit = how.time_limit;
    let run = BatchRun { profile: &profile, list: &list, batches: &batches, time_limit };
    run_batches(run, &mut store, &Stop::new().unwrap(), &mut |_, _| ()).unwrap();
    JobsDone::of(&list, &store.done)
}

/// How many times each of these names was written to the log.
fn counts<const N: usize>(log: &Path, names: [&str; N]) -> [usize; N] {
    let text = fs::read_to_string(log).unwrap_or_default();
    names.map(|name| text.lines().filter(|line| *line == name).count())
}

#[test]
fn jobs_are_known_by_their_line_wherever_it_is_in_the_list() {
    let _alone = adopted::alone();
    let folder = tempfile::tempdir().unwrap();
    let (out, log) = (folder.path().join("out"), folder.path().join("log"));
    let line =
        |kind: &str, name: &str| format!("{kind}: echo {name}; echo {name} >>{}\n", log.display());
    let [one, two, three, four] = [("a", "one"), ("b", "two"), ("c", "three"), ("a", "four")]
        .map(|(kind, name)| line(kind, name));
    run(&out, &format!("{one}{two}"), How::default());
    let names = ["one", "two", "three", "four"];
    assert_eq!(counts(&log, names), [1, 1, 0, 0]);
    // Two are new and one is moved.
    let done = run(&out, &format!("{four}# new\n{two}{three}{one}"), How::default());
    assert_eq!(counts(&log, names), [1, 1, 1, 1]);
    assert_eq!((done.ended.len(), done.jobs, done.removed), (4, 4, 0));
    // Each has its own output, whatever its number in either list.
    for job in &done.ended {
        let output = fs::read_to_string(out.join(&job.output).join("job.out")).unwrap();
        assert!(job.job.command.starts_with(&format!("echo {};", output.trim())), "{job:?}");
    }
    // A line that is removed does not run, and neither does it when it is there again.
    let done = run(&out, &format!("{three}{four}"), How::default());
    assert_eq!((done.ended.len(), done.jobs, done.removed), (2, 2, 2), "{}", done.text());
    assert!(done.text().contains("2 whose lines are not in the list"), "{}", done.text());
    run(&out, &format!("{one}{three}"), How::default());
    assert_eq!(counts(&log, names), [1, 1, 1, 1]);
    // Equal lines are as many jobs; white space and the line's own number do not matter.
    let twice = one.replace("a: ", " a:   ");
    let done = run(&out, &format!("\n\n{twice}{one}"), How::default());
    assert_eq!((counts(&log, names), done.ended.len()), ([2, 1, 1, 1], 2));
}

#[test]
fn only_what_failed_or_was_killed_runs_again() {
    let _alone = adopted::alone();
    let folder = tempfile::tempdir().unwrap();
    let (out, log) = (folder.path().join("out"), folder.path().join("log"));
    let (path, go) = (log.display().to_string(), folder.path().join("go").display().to_string());
    let text = format!(
        "a: echo good >>{path}\n\
         b: echo bad >>{path}; [ -e {go} ] || {{ echo no disk; exit 3; }}\n\
         c: echo killed >>{path}; [ -e {go} ] || kill -9 $$\n"
    );
    let names = ["good", "bad", "killed"];
    let done = run(&out, &text, How::default());
    let why = |done: &JobsDone| {
        let mut why: Vec<(usize, String)> =
            done.failed().map(|it| (it.job.line, it.failed.clone().unwrap_or_default())).collect();
        why.sort();
        why
    };
    let failed = why(&done);
    assert_eq!(failed[0], (2, "exit status: 3: no disk".to_owned()));
    assert!(
        failed[1].0 == 3 && failed[1].1.starts_with("killed by signal 9 (SIGKILL)"),
        "{failed:?}"
    );
    assert!(done.text().contains("--retry-failed"), "{}", done.text());
    // Without being asked, nothing runs again.
    run(&out, &text, How::default());
    assert_eq!(counts(&log, names), [1, 1, 1]);
    let again = How { retry_failed: true, ..How::default() };
    let done = run(&out, &text, again);
    assert_eq!((counts(&log, names), why(&done).len()), ([1, 2, 2], 2));
    assert!(done.text().contains(", 2 attempts)"), "{}", done.text());
    fs::write(&go, "").unwrap();
    let done = run(&out, &text, again);
    assert!(done.is_good() && done.ended.len() == 3, "{}", done.text());
    let attempts: Vec<u32> = done.ended.iter().map(|it| it.attempts).collect();
    assert_eq!(attempts, [1, 3, 3], "in the order of their ends");
    // What succeeded stays, also as the last of several runs.
    run(&out, &text, again);
    assert_eq!(counts(&log, names), [1, 3, 3]);
    // The output of each run is kept.
    assert_eq!(fs::read_dir(out.join("runs")).unwrap().count(), 7);
}

#[test]
fn a_warning_is_of_every_job_of_its_batch_and_all_of_them_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let list = list("a: one\nb: two\nc: three\n").unwrap();
    let mut store = Store::open(&folder.path().join("out"), list.subject(), false).unwrap();
    store.begin(list.subject()).unwrap();
    let mut note = |number: u32, place: usize, beside: Option<&str>| {
        let step = Step { block: 0, cell: place, attempt: 0, fresh_environment: false };
        let mut record = RunRecord::begin(number, &step, 0);
        record.facts = list.jobs[place].key.facts(&format!("runs/{number:04}"));
        if let Some(beside) = beside {
            record.facts.insert(ALSO_OF.to_owned(), beside.to_owned());
            record.warnings.push("one of them has left `x` running".to_owned());
        }
        store.push(record).unwrap();
        let not_again = jobs_done(&list, &store, true);
        (JobsDone::of(&list, &store.done), not_again, jobs_done(&list, &store, false).len())
    };
    note(1, 0, None);
    note(2, 1, None);
    let (done, not_again, ended) = note(3, 2, Some("runs/0002"));
    let warned: Vec<usize> = done.warned().map(|it| it.job.line).collect();
    assert_eq!((warned, not_again, ended), (vec![2, 3], vec![0], 3));
    let text = done.text();
    assert!(!done.is_good() && text.contains("0 of them failed, 2 with a warning"), "{text}");
    assert_eq!(text.matches("has left `x` running").count(), 1, "{text}");
    assert!(text.contains("`--retry-failed` runs these again"), "{text}");
    // The last run of each counts.
    let (done, not_again, _) = note(4, 1, None);
    let warned: Vec<usize> = done.warned().map(|it| it.job.line).collect();
    assert_eq!((warned, not_again), (vec![3], vec![0, 1]));
    let (done, ..) = note(5, 2, None);
    assert!(done.is_good(), "{}", done.text());
}

#[test]
fn a_job_that_runs_longer_than_its_limit_is_ended_with_all_that_it_has_started() {
    let _alone = adopted::alone();
    let folder = tempfile::tempdir().unwrap();
    let (out, log) = (folder.path().join("out"), folder.path().join("log"));
    let (path, number) = (log.display().to_string(), format!("7{}", std::process::id()));
    // Its group is asked to end, also what the shell has started; what has left the group is killed.
    let worker = format!(
        "exec 2>/dev/null; trap \"echo clean >>{path}; exit\" TERM; echo waits; while :; do sleep 0.01; done"
    );
    let hangs = format!("setsid sleep {number} & sh -c '{worker}'; true");
    let text = format!("a: {hangs}\nb: echo done >>{path}\n");
    let mut limit = Duration::from_millis(500);
    // On a busy machine it takes longer until there is something to end.
    let done = loop {
        let _ = fs::remove_dir_all(&out);
        let _ = fs::remove_file(&log);
        let done = run(&out, &text, How { time_limit: Some(limit), ..How::default() });
        if done.failed().all(|it| it.failed.as_deref().unwrap_or_default().ends_with(": waits")) {
            break done;
        }
        limit *= 2;
    };
    let failed: Vec<_> = done.failed().collect();
    assert_eq!(failed.len(), 1, "{}", done.text());
    let wanted = format!("time limit of {}: waits", nightwatt_energy::duration_text::format(limit));
    assert_eq!((failed[0].job.line, failed[0].failed.as_deref()), (1, Some(wanted.as_str())));
    assert!(failed[0].seconds >= limit.as_secs_f64(), "{failed:?}");
    assert_eq!(counts(&log, ["clean", "done"]), [1, 1]);
    let words = format!("sleep\0{number}\0");
    let runs = fs::read_dir("/proc").unwrap().flatten();
    let mut runs = runs.filter_map(|it| fs::read_to_string(it.path().join("cmdline")).ok());
    assert!(!runs.any(|it| it.contains(&words)), "it was ended");
    // It is a failure as any other.
    let again = How { retry_failed: true, time_limit: Some(limit) };
    assert_eq!(run(&out, &text, again).failed().next().map(|it| it.attempts), Some(2));
}

#[test]
fn an_interruption_ends_no_job_for_another_one_and_neither_is_noted() {
    let _alone = adopted::alone();
    let folder = tempfile::tempdir().unwrap();
    let (out, on) = (folder.path().join("out"), folder.path().join("on"));
    let path = on.display().to_string();
    // b and c run together. Both are ended, one by itself.
    let text = format!(
        "b: trap 'exit 0' TERM; echo b >>{path}; while :; do sleep 0.01; done\n\
         c: echo c >>{path}; sleep 1000\n"
    );
    let (profile, list, stop) = (profile(), list(&text).unwrap(), Stop::new().unwrap());
    let mut store = Store::open(&out, list.subject(), false).unwrap();
    let batches = list.batches(&profile, Goal::Time, None, &[]).unwrap();
    assert_eq!(batches.batches.len(), 1);
    let run = BatchRun { profile: &profile, list: &list, batches: &batches, time_limit: None };
    let interrupts = stop.clone();
    let ran = std::thread::scope(|scope| {
        scope.spawn(move || {
            let wait = Stop::new().unwrap();
            while counts(&on, ["b", "c"]) != [1, 1] {
                wait.wait_until(monotonic() + Duration::from_millis(10));
            }
            interrupts.stop();
        });
        run_batches(run, &mut store, &stop, &mut |_, _| ())
    });
    assert!(ran.unwrap_err().is_interrupted());
    assert_eq!(store.done, []);
}

#[test]
fn runs_of_an_earlier_version_count_for_an_unchanged_list_only() {
    let _alone = adopted::alone();
    let folder = tempfile::tempdir().unwrap();
    let (out, log) = (folder.path().join("out"), folder.path().join("log"));
    let text = format!("a: echo one >>{}\nb: exit 3\n", log.display());
    run(&out, &text, How::default());
    // Such runs name no job, and have the place of its line.
    let path = out.join("runs.jsonl");
    let runs = fs::read_to_string(&path).unwrap();
    let lines = runs.lines().map(|line| {
        let (before, rest) = line.split_once("\"facts\":").unwrap();
        let (_, behind) = rest.split_once(",\"warnings\"").unwrap();
        format!("{before}\"facts\":{{}},\"warnings\"{behind}\n")
    });
    fs::write(&path, lines.collect::<Vec<_>>().concat()).unwrap();
    let done = run(&out, &text, How::default());
    assert_eq!((counts(&log, ["one"]), done.ended.len()), ([1], 2));
    let done = run(&out, &text, How { retry_failed: true, ..How::default() });
    assert_eq!(
        done.failed().next().map(|it| (it.attempts, it.output.as_str())),
        Some((2, "runs/0003"))
    );
    let changed = list(&format!("{text}c: true\n")).unwrap();
    let error = Store::open(&out, changed.subject(), false).unwrap_err();
    assert!(matches!(error, RunError::OtherPlan(_)), "{error}");
}
