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
    assert!(share.of_busy_cpu > 0.0 && share.of_busy_cpu <= 1.0, "{share:?}");
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
