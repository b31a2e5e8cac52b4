//! What the program says: help, a good configuration, and what is wrong with a bad one.

use std::fs;

use crate::harness::{House, Plan, nightwatt, program, told, unfolded, without};

#[test]
fn help_is_a_table_of_contents() {
    insta::assert_snapshot!(told(&nightwatt(&["--help"])));
}

#[test]
fn each_command_says_what_it_is_for_with_examples() {
    let commands = ["serve", "status", "wake", "sleep", "stay-awake", "purge"];
    for command in commands
        .into_iter()
        .chain(["analyze", "fleet", "demo", "replay", "load", "origin", "check"])
    {
        insta::assert_snapshot!(format!("help_{command}"), told(&nightwatt(&[command, "--help"])));
    }
}

#[test]
fn without_a_command_it_shows_its_help_and_fails() {
    let output = nightwatt(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("Usage: nightwatt"));
}

#[test]
fn mistakes_on_the_command_line_are_usage_errors() {
    for mistake in [
        &["serv"][..],
        &["serve", "--no-such-option"],
        &["stay-awake", "--for", "2 parsecs"],
        &["stay-awake", "--for", "0"],
        &["stay-awake", "--for", "8d"],
        &["demo", "--policy", "sleepy"],
        &["replay", "a.log", "http://x/", "--speed", "-1"],
        &["replay", "a.log", "http://x/", "--speed", "2", "--minutes", "3"],
        &["purge"],
        &["purge", "--prefix"],
        &["purge", "--all", "/a"],
        &["serve", "--log-level", "info,,=", "-c", "/dev/null"],
    ] {
        let output = nightwatt(mistake);
        assert_eq!(output.status.code(), Some(2), "{mistake:?}: {}", told(&output));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{mistake:?}");
    }
}

const GOOD: &str = r#"listen = ["0.0.0.0:80", "[::]:80"]
state_dir = "/var/lib/nightwatt"

[scenario.server]
on_w = 80
off_w = 2.5

[[site]]
name = "blog"
kind = "pages"
hosts = ["blog.example.org"]
origin = "http://10.0.0.5"
probe = "tcp 10.0.0.5:22"

[site.power.command]
wake = "wakeonlan 00:11:22:33:44:55"
sleep = "ssh root@10.0.0.5 systemctl suspend"

[[site]]
name = "wiki"
origin = "http://10.0.0.6:8080"

[site.power.process]
command = ["/usr/bin/wiki"]

[site.scenario]
policy = "timeout 30s"
sla.enabled = false
"#;

/// What `check` says of this configuration, a row to a line.
fn checked(text: &str, args: &[&str]) -> String {
    unfolded(&printed(text, args))
}

/// The same as it is printed.
fn printed(text: &str, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nightwatt.toml");
    fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    let output = nightwatt(&[&["check", "-c", &path], args].concat());
    without(dir.path(), &told(&output))
}

#[test]
fn a_good_configuration_is_explained() {
    insta::assert_snapshot!(printed(GOOD, &[]));
    let json = checked(GOOD, &["--json"]);
    let json = json.split_once("--- stdout ---\n").unwrap().1;
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(value["good"], true);
    assert_eq!(value["sites"][1]["policy"], "timeout 30s");
    assert_eq!(value["webhooks"], serde_json::json!([]));
}

#[test]
fn webhooks_are_told_without_what_may_be_their_secret() {
    let hook = "[[webhook]]\nurl = \"http://127.0.0.1:1/secret\"\n";
    let text = format!("{GOOD}\n{hook}");
    assert!(checked(&text, &[]).contains("  webhook      http://127.0.0.1:1/…\n"));
    let json = checked(&text, &["--json"]);
    let json = json.split_once("--- stdout ---\n").unwrap().1;
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(value["webhooks"], serde_json::json!(["http://127.0.0.1:1/…"]));
}

#[test]
fn files_that_serve_could_not_use_are_refused() {
    let tls = "[tls]\nlisten = [\"127.0.0.1:0\"]\n[[tls.certificate]]\nchain = \"/no/chain\"\nkey = \"/no/key\"\n";
    let page = GOOD.replacen("[[site]]", "[[site]]\nwaiting_page_file = \"/no/page\"", 1);
    let hook = "[[webhook]]\nurl = \"http://127.0.0.1:1/\"\nsecret_file = \"/no/secret\"\n";
    let cases = [
        (format!("{GOOD}\n{tls}"), "/no/chain", "whole paths"),
        (page, "/no/page", "leave `waiting_page_file` out"),
        (format!("{GOOD}\n{hook}"), "/no/secret", "check that the file exists"),
    ];
    for (text, file, hint) in cases {
        for args in [&[][..], &["--json"]] {
            let said = checked(&text, args);
            assert!(said.contains(file) && said.contains(hint), "{said}");
            assert!(said.contains("exit status: 2") && !said.contains("is good"), "{said}");
        }
    }
}

#[test]
fn settings_that_do_not_do_what_they_seem_to_are_told_beside_their_site_or_machine() {
    let machine = r#"
[[machine]]
name = "metal"
probe = "controller"
[machine.power.wake.wol]
mac = "52:54:00:12:34:56"
[machine.power.sleep.ssh]
host = "root@10.0.0.2"
"#;
    let agent = r#"
[[site]]
name = "shop"
hosts = ["shop.example.org"]
origin = "http://10.0.0.3"
on = "metal"
[site.power.wake.libvirt]
domain = "shop"
[site.power.sleep.agent]
address = "10.0.0.3"
key = "/no/such/key"
"#;
    let said = checked(&format!("{GOOD}{machine}{agent}"), &[]);
    let careful: Vec<&str> = said.lines().filter(|line| line.starts_with("  careful")).collect();
    let is_kind = |line: &&str| line.contains("`kind` is not set");
    let (kinds, careful): (Vec<&str>, Vec<&str>) = careful.into_iter().partition(is_kind);
    assert_eq!((kinds.len(), careful.len()), (2, 2), "{said}");
    assert!(careful[0].contains("`wol + ssh` cannot tell"), "{said}");
    assert!(careful[1].contains("/no/such/key"), "{said}");
    for row in [
        "  on           the machine metal",
        "  woken by     libvirt:",
        "  sleeps by    agent:",
        "  power        80 W awake",
        "  power        that of the machine metal, which is on its bill; proxy 5 W",
    ] {
        assert!(said.contains(row), "{row}: {said}");
    }
    let json = checked(&format!("{GOOD}{machine}{agent}"), &["--json"]);
    let json = json.split_once("--- stdout ---\n").unwrap().1;
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    let told = |of: &serde_json::Value| of["careful"].as_array().unwrap().len();
    assert_eq!((told(&value["machines"][0]), told(&value["sites"][0])), (1, 0));
    let sites = value["sites"].as_array().unwrap().iter();
    let on_its_bill: Vec<_> = sites.filter(|it| it["on_machines_bill"] == true).collect();
    assert_eq!(on_its_bill.len(), 1);
    assert_eq!(on_its_bill[0]["name"], "shop");
}

#[test]
fn a_bad_configuration_is_pointed_at() {
    let with = |old: &str, new: &str| {
        assert!(GOOD.contains(old), "{old}");
        checked(&GOOD.replace(old, new), &[])
    };
    insta::assert_snapshot!("unknown_key", with("off_w = 2.5", "of_w = 2.5"));
    insta::assert_snapshot!("negative_watts", with("on_w = 80", "on_w = -80"));
    insta::assert_snapshot!("no_toml", with("[scenario.server]", "[scenario.server"));
    insta::assert_snapshot!("no_origin", with("\"http://10.0.0.6:8080\"", "\"10.0.0.6:8080\""));
    insta::assert_snapshot!("no_driver", with("[site.power.process]", "[site.power.magic]"));
    insta::assert_snapshot!("bad_duration", with("timeout 30s", "timeout 30"));
    insta::assert_snapshot!("no_policy", with("\"timeout 30s\"", "30"));
}

#[test]
fn a_missing_configuration_is_missed() {
    insta::assert_snapshot!(told(&nightwatt(&["check", "-c", "/no/such/nightwatt.toml"])));
}

#[test]
fn who_asks_a_gateway_that_does_not_run_is_told_how_to_start_it() {
    let house = House::build(&Plan::default());
    let config = house.path("nightwatt.toml").display().to_string();
    let output = nightwatt(&["status", "-c", &config]);
    insta::assert_snapshot!(without(house.dir.path(), &told(&output)));
    for command in ["wake", "sleep", "stay-awake"] {
        let output = nightwatt(&[command, "--socket", "/no/such/socket"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(told(&output).contains("`nightwatt serve`"), "{}", told(&output));
    }
}

#[test]
fn an_address_in_use_is_named_with_what_to_do() {
    let house = House::build(&Plan::default());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let config = house.read("nightwatt.toml").replace("127.0.0.1:0", &address);
    let path = house.path("nightwatt.toml");
    fs::write(&path, config).unwrap();
    let output = nightwatt(&["serve", "-c", &path.display().to_string(), "--log-level", "off"]);
    let said = without(house.dir.path(), &told(&output)).replace(&address, "ADDRESS");
    insta::assert_snapshot!(said);
}

#[test]
fn a_level_that_is_none_is_refused() {
    let refused = |level: &str| told(&nightwatt(&["serve", "-c", "GOOD", "--log-level", level]));
    let by_environment = program().args(["serve"]).env("RUST_LOG", "waarn").output().unwrap();
    for (said, origin, word) in
        [(refused("foo"), "--log-level", "foo"), (told(&by_environment), "RUST_LOG", "waarn")]
    {
        let wanted = format!("{origin}: there is no level `{word}`");
        assert!(said.contains("exit status: 2") && said.contains(&wanted), "{said}");
        assert!(said.contains("info,nightwatt_gateway::forward=trace"), "{said}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for command in [&["--help"][..], &["check", "-c", "GOOD"]] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nightwatt.toml");
        fs::write(&path, GOOD).unwrap();
        let path = path.display().to_string();
        let args = command.iter().map(|arg| if *arg == "GOOD" { path.as_str() } else { arg });
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = program().args(args).stdout(writer).output().unwrap();
        assert_eq!(told(&output), "exit status: 0\n", "{command:?}");
    }
}
