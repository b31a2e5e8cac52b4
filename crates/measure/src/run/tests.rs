use serde_json::Value;

use super::*;

fn options(command: &[&str]) -> RunOptions {
    RunOptions {
        command: command.iter().map(OsString::from).collect(),
        repeats: 1,
        warm_ups: 0,
        idle: None,
        meters: Vec::new(),
        interval: None,
    }
}

#[test]
fn a_command_that_is_not_there_is_an_error_that_names_it() {
    let running = Running::new().unwrap();
    let error = run(&options(&["/no/such/program"]), &running, |_| ()).unwrap_err();
    assert!(error.to_string().contains("cannot start `/no/such/program`"), "{error}");
    let error = run(&options(&[]), &running, |_| ()).unwrap_err();
    assert!(error.to_string().contains("nightwatt run -- sleep 1"), "{error}");
}

#[test]
fn how_the_command_ended_is_kept_as_a_shell_has_it() {
    let running = Running::new().unwrap();
    let status =
        |script: &str| run(&options(&["sh", "-c", script]), &running, |_| ()).unwrap().exit_status;
    assert_eq!(status("exit 0"), 0);
    assert_eq!(status("exit 37"), 37);
    assert_eq!(status("kill -TERM $$"), 128 + 15);
}

#[test]
fn cpu_time_of_children_counts_and_waiting_does_not() {
    let running = Running::new().unwrap();
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let nested = format!("sh -c '{busy}'; sh -c '{busy}'");
    let one = run(&options(&["sh", "-c", busy]), &running, |_| ()).unwrap();
    let two = run(&options(&["sh", "-c", &nested]), &running, |_| ()).unwrap();
    let cpu = |report: &RunReport| report.share.unwrap().cpu_s;
    assert!(cpu(&one) > 0.0 && cpu(&two) > cpu(&one), "{} {}", cpu(&one), cpu(&two));
    let share = two.share.unwrap();
    let of_busy = share.of_busy_cpu.unwrap();
    assert!(of_busy > 0.0 && of_busy <= 1.0, "{share:?}");
}

/// The kernel counts the machine's time in ticks of 10 ms: below a few of them a share is noise.
#[test]
fn a_few_ticks_of_cpu_time_make_no_share() {
    let of =
        |cpu, busy| result::share_of_busy(Duration::from_millis(cpu), Duration::from_millis(busy));
    assert_eq!((of(0, 0), of(2, 10), of(2, 5000), of(60, 40)), (None, None, None, None));
    assert_eq!((of(60, 240), of(100, 90)), (Some(0.25), Some(1.0)));
    let running = Running::new().unwrap();
    let report = run(&options(&["true"]), &running, |_| ()).unwrap();
    let json: Value = serde_json::to_value(&report).unwrap();
    assert!(json["share"]["of_busy_cpu"].is_null(), "{json}");
    assert!(json["share"]["cpu_s"].as_f64().unwrap() > 0.0, "{json}");
}

#[test]
fn the_form_in_json_has_what_it_promises() {
    let running = Running::new().unwrap();
    let mut steps = Vec::new();
    let options = RunOptions { repeats: 3, warm_ups: 1, ..options(&["true"]) };
    let report = run(&options, &running, |step| steps.push(step)).unwrap();
    assert_eq!(steps, [Step::WarmUp, Step::Run(1), Step::Run(2), Step::Run(3)]);
    let json: Value = serde_json::to_value(&report).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["runs"].as_array().unwrap().len(), 3);
    assert!(json["elapsed_s"]["half_width_95"].as_f64().unwrap() > 0.0);
}

/// Three runs: times, energy and the machine's busy time are all of one run.
#[test]
fn figures_of_several_runs_are_of_one_run() {
    let running = Running::new().unwrap();
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let options = RunOptions { repeats: 3, ..options(&["sh", "-c", busy]) };
    let begin = monotonic();
    let report = run(&options, &running, |_| ()).unwrap();
    // The machine's time is looked at a moment before and after a run.
    let whole = monotonic().since(begin).as_secs_f64();
    let mean = |of: fn(&SingleRun) -> f64| report.runs.iter().map(of).sum::<f64>() / 3.0;
    let close = |one: f64, other: f64| (one - other).abs() < 1e-9 * other.max(1.0);
    assert!(close(report.elapsed_s.mean, mean(|run| run.elapsed_s)));
    assert!(close(report.user_s.mean, mean(|run| run.user_s)));
    let text = report.text();
    let (_, told) = text.split_once("busy CPU time (").unwrap_or_else(|| panic!("{text}"));
    let (told, behind) = told.split_once(" s").unwrap();
    let told: f64 = told.parse().unwrap();
    assert!(behind.starts_with(" a run"), "{text}");
    // The command's own time is in it, and no machine is busier than all of its CPUs.
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    let own = report.user_s.mean + report.sys_s.mean;
    assert!(told + 0.03 > own && told < cpus * whole / 3.0 + 0.1, "{text}");
}

/// A container's engine moves what it starts into another cgroup, and something else waits for it.
#[test]
#[cfg(feature = "bpf")]
fn what_goes_into_another_cgroup_and_is_waited_for_by_another_counts_too() {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mut mount = mounts.lines().filter(|line| line.split(' ').nth(2) == Some("cgroup2"));
    let Some(mount) = mount.find_map(|line| line.split(' ').nth(1)) else {
        return println!("skipped: no cgroup of version 2");
    };
    let group = format!("{mount}/nightwatt-test-{}", std::process::id());
    if let Err(error) = std::fs::create_dir(&group) {
        return println!("skipped: {error}");
    }
    if let Err(error) = nightwatt_probes::DescendantProbe::start() {
        let _ = std::fs::remove_dir(&group);
        return println!("skipped: {error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let [done, end] = ["done", "end"].map(|name| folder.path().join(name).display().to_string());
    assert!(std::process::Command::new("mkfifo").arg(&end).status().unwrap().success());
    // It tells its own time on a CPU, in nanoseconds. Its parent ends before it does.
    let contained = format!(
        "echo $$ >{group}/cgroup.procs; i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; \
         cat /proc/$$/schedstat >{done}; echo done >{end}"
    );
    let engine = format!("sh -c \"setsid sh -c '{contained}' &\"; read line <{end}");
    let engine = engine.replace("$$", "\\$\\$").replace("$i", "\\$i").replace("$((", "\\$((");
    let running = Running::new().unwrap();
    let report = run(&options(&["sh", "-c", &engine]), &running, |_| ()).unwrap();
    // What has said so last may not have ended yet.
    let until = monotonic() + Duration::from_mins(1);
    while let Err(error) = std::fs::remove_dir(&group) {
        assert!(monotonic() < until, "{error}");
        std::thread::yield_now();
    }
    let told = std::fs::read_to_string(&done).unwrap();
    let told = 1e-9 * told.split_whitespace().next().unwrap().parse::<f64>().unwrap();
    let share = report.share.unwrap();
    assert_eq!(share.by, CountedBy::Descendants, "{share:?}");
    // What the shells around it used comes on top.
    assert!(share.cpu_s > 0.98 * told && share.cpu_s < 1.1 * told + 0.1, "{told} s, {share:?}");
}
