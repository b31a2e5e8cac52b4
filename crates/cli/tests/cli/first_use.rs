//! What a new user meets first: a configuration that is found, and all that is missing named at once.

use std::fs;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::analyze::THREE;
use crate::harness::{program, told, without_rights};

const CONFIG: &str = r#"listen = ["127.0.0.1:80"]
access_log = "access.log"
[scenario]
policy = "timeout 2m"
[scenario.server]
on_w = 20
off_w = 1

[[site]]
name = "blog"
kind = "app"
hosts = ["blog.example.org"]
origin = "http://10.0.0.5"
[site.power.systemd]
unit = "blog.service"
"#;

/// A second site, whose server draws more.
const SHOP: &str = r#"
[[site]]
name = "shop"
kind = "pages"
hosts = ["shop.example.org"]
origin = "http://10.0.0.6"
[site.power.systemd]
unit = "shop.service"
[site.scenario.server]
on_w = 90
"#;

/// A folder with a configuration and the log that it names.
fn folder(config: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("nightwatt.toml"), config).unwrap();
    fs::write(folder.path().join("access.log"), THREE).unwrap();
    folder
}

fn analyze(folder: &TempDir, args: &[&str]) -> Output {
    let args = [&["analyze", "--json"], args].concat();
    program().args(args).current_dir(folder.path()).output().unwrap()
}

fn scenario(output: &Output) -> Value {
    let analysis: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(output)));
    analysis["scenario"].clone()
}

#[test]
fn analyze_takes_watts_sla_and_log_of_the_configuration_that_it_finds() {
    let folder = folder(CONFIG);
    for args in [&[][..], &["-c", "nightwatt.toml"], &["--site", "blog", "access.log"]] {
        let output = analyze(&folder, args);
        let found = scenario(&output);
        assert_eq!(found["server"]["on_w"], 20.0, "{args:?}");
        assert_eq!(found["policy"], "timeout 2m");
        // An app has no SLA unless it is written.
        assert_eq!(found["sla"]["enabled"], false);
        let said = told(&output);
        assert!(
            said.contains("note: watts, SLA and policy are those of nightwatt.toml, site blog"),
            "{said}"
        );
    }
    // Options win, and a scenario replaces all of it; it may be a whole configuration.
    let output = analyze(&folder, &["--policy", "window"]);
    assert_eq!(scenario(&output)["policy"], "window");
    fs::write(folder.path().join("watts.toml"), "[server]\non_w = 30\noff_w = 1\n").unwrap();
    let output = analyze(&folder, &["--scenario", "watts.toml", "access.log"]);
    assert_eq!(scenario(&output)["server"]["on_w"], 30.0);
    assert!(!told(&output).contains("note:"), "{}", told(&output));
    let output = analyze(&folder, &["--scenario", "nightwatt.toml", "access.log"]);
    assert_eq!(scenario(&output)["server"]["on_w"], 20.0);
}

#[test]
fn sites_that_differ_are_to_be_chosen_from() {
    let folder = folder(&format!("{CONFIG}{SHOP}"));
    let output = analyze(&folder, &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = told(&output);
    assert!(said.contains("`--site blog`, `--site shop`"), "{said}");
    let output = analyze(&folder, &["--site", "shop"]);
    assert_eq!(scenario(&output)["server"]["on_w"], 90.0);
}

#[test]
fn a_log_that_is_named_nowhere_is_asked_for() {
    let folder = folder(&CONFIG.replace("access_log = \"access.log\"\n", ""));
    let output = analyze(&folder, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        told(&output).contains("there is no log to analyse\nhint: name one"),
        "{}",
        told(&output)
    );
}

#[test]
fn programs_that_the_laboratory_lacks_are_named_together() {
    let output =
        program().args(["tcp", "lab", "--quick"]).env("PATH", "/no/such/folder").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = told(&output);
    for name in ["ip", "tc", "ethtool", "nft"] {
        assert!(said.contains(&format!("the program `{name}`: install ")), "{said}");
    }
}

const PLAN: &str = "\
[[environment]]
name = \"a network\"
kind = \"netns\"
[[workload]]
name = \"work\"
tool = \"wrk\"
command = \"no-such-load\"
serve = \"no-such-server\"
";

#[test]
fn a_comparison_names_all_that_is_missing_before_its_first_run() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    let run = |args: &[&str]| {
        let mut command = program();
        command.args([&["compare", "plan.toml"], args].concat()).current_dir(folder.path());
        command.env("PATH", "/no/such/folder").output().unwrap()
    };
    for args in [&[][..], &["--dry-run"]] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        let said = told(&output);
        for name in ["ip", "unshare", "nsenter", "no-such-load", "no-such-server"] {
            assert!(said.contains(&format!("the program `{name}`: ")), "{said}");
        }
        assert!(!folder.path().join("plan.results").exists(), "{args:?}");
    }
    let planned: Value = serde_json::from_slice(&run(&["--dry-run", "--json"]).stdout).unwrap();
    assert!(planned["missing"].as_array().is_some_and(|it| it.len() >= 5), "{planned}");
}

#[test]
fn rights_that_calipers_lack_are_named_together_with_the_program() {
    let program = "no-such-program";
    let args = ["caliper", "-f", "./no-such-file:work", "--", program];
    let Some(output) = without_rights(&args) else { return };
    let said = told(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    for what in ["CAP_BPF", "CAP_PERFMON", "`./no-such-file`", "the program `no-such-program`"] {
        assert!(said.contains(what), "{what}: {said}");
    }
}

fn on_w(folder: &TempDir, args: &[&str]) -> (Value, String) {
    let output = program().args(args).current_dir(folder.path()).output().unwrap();
    let json: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(&output)));
    (json["scenario"]["server"]["on_w"].clone(), told(&output))
}

#[test]
fn published_figures_stand_for_the_published_server_unless_a_configuration_is_given() {
    let folder = folder(CONFIG);
    let (watts, said) = on_w(&folder, &["published", "--json", "access.log"]);
    assert_eq!(watts, 43.3, "{said}");
    assert!(!said.contains("note: watts"), "{said}");
    let (watts, said) =
        on_w(&folder, &["published", "--json", "-c", "nightwatt.toml", "access.log"]);
    assert_eq!(watts, 20.0, "{said}");
}

#[test]
fn check_warns_of_a_server_that_wakes_too_slowly_with_both_times() {
    let slow =
        "kind = \"app\"\nscenario.sla.longest_wait = \"3s\"\nscenario.server.wake_time = \"30s\"";
    let folder = folder(&CONFIG.replace("kind = \"app\"", slow));
    let output = program()
        .args(["check", "-c", "nightwatt.toml"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = told(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("`sla.longest_wait` is 3s, but `server.wake_time` is 30s"), "{said}");
    assert!(said.contains("it sleeps only while it wakes within 3s"), "{said}");
}
