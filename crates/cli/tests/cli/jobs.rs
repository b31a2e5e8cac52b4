//! Jobs while the gateway changes.

use std::fs;

use serde_json::Value;

use crate::harness::{Gateway, House, Plan, eventually, told};

/// A gateway's house with a job that this script does, and that was missed last night.
fn house(script: &str) -> House {
    let tables = format!(
        "[[job]]\nname = \"backup\"\non = \"site\"\nat = \"00:00\"\ncommand = {}\n",
        serde_json::to_string(&["sh", "-c", script]).unwrap()
    );
    let house = House::build(&Plan { policy: "always-on".to_owned(), tables, ..Plan::default() });
    fs::create_dir(house.path("state")).unwrap();
    fs::write(house.path("state/backup.job.json"), "{\"day\": 20000}").unwrap();
    house
}

fn job(gateway: &Gateway) -> Value {
    let output = gateway.order(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status["jobs"][0].clone()
}

/// The fault of a review: a hand-over killed it, and the next process began it again.
#[test]
fn a_job_runs_to_its_end_through_a_reload_and_a_hand_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (runs, go) = (path("runs"), path("go"));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &go, mode).unwrap();
    let house = house(&format!("echo run >> {}; read line < {}", runs.display(), go.display()));
    let mut old = house.serve(&[]);
    eventually("the job runs", || runs.exists().then_some(()));
    house.reconfigure("always-on", "timeout 200ms");
    let reloaded = old.order(&["reload"]);
    assert_eq!(reloaded.status.code(), Some(0), "{}", told(&reloaded));
    assert!(job(&old)["running_for_s"].is_number(), "{}", job(&old));

    let new = house.serve(&["--replace"]);
    eventually("the new process knows of it", || {
        job(&new)["running_for_s"].is_number().then_some(())
    });
    eventually("and keeps the server awake", || {
        (new.status()["in_flight"].as_u64() > Some(0)).then_some(())
    });
    assert_eq!(new.status()["state"], "awake");
    // The job waits for this line.
    fs::write(&go, "go\n").unwrap();
    assert_eq!(old.wait().0.code(), Some(0), "{}", house.read("serve.log"));
    let done = eventually("it has succeeded", || {
        let job = job(&new);
        (!job["succeeded_ms"].is_null()).then_some(job)
    });
    assert_eq!((&done["failures"], &done["running_for_s"]), (&0.into(), &Value::Null), "{done}");
    assert_eq!(fs::read_to_string(&runs).unwrap(), "run\n", "it ran once");
    new.until("asleep");
}

/// The fault of a review: it seemed to run in 0 s.
#[test]
fn in_shadow_mode_no_job_runs_and_the_status_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let house = house(&format!("touch {}", mark.display()));
    let origin = house.start_origin();
    let gateway = house.serve(&["--observe"]);
    assert_eq!(job(&gateway)["next_in_s"], Value::Null, "{}", job(&gateway));
    let page = told(&gateway.order(&["status"]));
    assert!(page.contains("backup: does not run in shadow mode"), "{page}");
    gateway.stop();
    assert!(!mark.exists(), "it must not run");
    drop(origin);
}
