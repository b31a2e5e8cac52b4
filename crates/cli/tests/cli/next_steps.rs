//! Mistakes of a first hour: what failed is named, and so is what to do next.

use std::fs;
use std::path::Path;

use crate::harness::{nightwatt, program, told, unfolded};

/// The smallest configuration of two sites.
const TWO: &str = r#"listen = ["127.0.0.1:8080"]

[[site]]
name = "blog"
origin = "http://10.0.0.5:8080"
hosts = ["blog.example"]
power.simulated = {}

[[site]]
name = "wiki"
origin = "http://10.0.0.6:8080"
hosts = ["wiki.example"]
power.simulated = {}
"#;

/// What `check` writes about a configuration.
fn checked(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("n.toml");
    fs::write(&file, text).unwrap();
    let output = nightwatt(&["check", "-c", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    unfolded(&told(&output))
}

#[test]
fn a_misplaced_key_is_sent_to_its_table() {
    for (added, wanted) in [
        ("sla.share = 0.5", "unknown key `site.sla`: write it below `[site.scenario]`"),
        ("policy = \"always-on\"", "write it below `[site.pool]` or `[site.scenario]`"),
        (
            "min_on = \"5m\"",
            "`site.min_on`: write it below `[site.pool]` or `[site.scenario.server]`",
        ),
        ("[electricity]\nprice_per_kwh = 0.3", "or as `[scenario.electricity]`"),
        ("[site]\nname = \"c\"", "`site` is a list of tables: write `[[site]]` for each"),
    ] {
        let said = checked(&format!("{TWO}{added}\n"));
        assert!(said.contains(wanted), "{wanted}: {said}");
        assert!(!said.contains("`waiting_page_file`"), "no list of 35 keys: {said}");
    }
}

#[test]
fn a_value_out_of_range_names_its_table_and_site() {
    for (added, wanted) in [
        ("scenario.sla.share = 10", "`site.scenario.sla.share` of site `wiki` is 10"),
        ("scenario.server.on_w = -5", "`site.scenario.server.on_w` of site `wiki` is -5"),
        ("scenario.server.min_on = \"500d\"", "`site.scenario.server.min_on` of site `wiki`"),
        ("wake_timeout = \"0s\"", "`site.wake_timeout` of site `wiki` is 0"),
    ] {
        let said = checked(&format!("{TWO}{added}\n"));
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    fs::write(&file, "[server]\non_w = -5\n").unwrap();
    let file = file.display().to_string();
    let said = told(&nightwatt(&["analyze", "--scenario", &file, "x.log"]));
    assert!(said.contains("s.toml:2:1: `server.on_w` is -5"), "{said}");
}

#[test]
fn an_input_that_is_missing_is_a_mistake_of_the_command_line() {
    for line in [
        &["analyze", "/no/x.log"][..],
        &["published", "/no/x.log"],
        &["demo", "--log", "/no/x.log"],
        &["replay", "/no/x.log", "http://127.0.0.1:9"],
        &["tcp", "check", "/no/x.pcap"],
        &["calibrate", "utilisation", "/no/x.csv"],
        &["load", "--trace", "/no/x", "http://127.0.0.1:9/"],
        &["send", "/no/x", "host:/tmp"],
        &["compare", "/no/x.toml"],
        &["fleet", "/no/x.toml"],
        &["corun", "/no/x.toml"],
        &["report", "/no/x"],
        &["check", "-c", "/no/x.toml"],
    ] {
        let output = nightwatt(line);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {}", told(&output));
        assert!(told(&output).contains("/no/x"), "{line:?}: {}", told(&output));
    }
}

#[test]
fn what_cannot_be_used_is_described() {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("program");
    fs::write(&binary, b"\x7fELF\x02\x01\x01\0\0\xff\xfe\n").unwrap();
    let jobs = folder.path().join("jobs");
    fs::write(&jobs, "a: true\nb: true\n").unwrap();
    let jobs = jobs.display().to_string();
    let (dir, binary) = (folder.path().display().to_string(), binary.display().to_string());
    for (line, wanted) in [
        (&["check", "-c", &dir][..], "it is a folder: name the file"),
        (&["check", "-c", &binary], "it is not a text in UTF-8"),
        (&["analyze", &binary], "is not text"),
        (&["man", "foo"], "--help` lists its commands"),
        (&["man", "statsu"], "did you mean `status`?"),
        (&["tcp", "serve", "--listen", "8080"], "write ADDRESS:PORT, such as 0.0.0.0:8080"),
        (&["receive", "--listen", "8080", &dir], "write ADDRESS:PORT, such as 0.0.0.0:8080"),
        (&["demo", "--dashboard", "8080"], "write ADDRESS:PORT, such as 0.0.0.0:8080"),
        (&["record", "-o", "x.txt"], "x.txt has no known format"),
        (&["send", &binary, "tls://127.0.0.1:9"], "there is no ticket in the environment's"),
        (&["schedule", "--profile", "/no/x", "--jobs", &jobs], "/no/x"),
        (
            &["init", "--yes", "--origin", "http://127.0.0.1:9/foo", "--power", "agent"],
            "leave out the path `/foo`",
        ),
    ] {
        let output = program().args(line).env_remove("NIGHTWATT_TICKET").output().unwrap();
        assert_ne!(output.status.code(), Some(0), "{line:?}");
        let said = unfolded(&told(&output));
        assert!(said.contains(wanted), "{line:?}: {wanted} in {said}");
        assert!(!said.contains("--fresh"), "{line:?}: {said}");
    }
    let origin = TWO.replace("http://10.0.0.6:8080", "http://10.0.0.6:8080/foo");
    let said = checked(&origin);
    assert!(said.contains("leave out the path `/foo`"), "{said}");
}

#[test]
fn init_names_all_that_is_missing_and_a_file_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = |line: &[&str]| {
        let output = program().arg("init").args(line).current_dir(folder.path()).output().unwrap();
        (output.status.code(), unfolded(&told(&output)))
    };
    let (status, said) = at(&["--yes", "--power", "process"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("`--origin`") && said.contains("`--target`"), "{said}");
    assert!(!Path::new(&folder.path().join("nightwatt.toml")).exists());
    let all = ["--yes", "--origin", "http://127.0.0.1:9", "--power", "docker", "--target", "web"];
    let (status, said) = at(&all);
    assert_eq!(status, Some(0), "{said}");
    let (_, said) = at(&all);
    assert!(said.contains("nightwatt.toml exists already"), "{said}");
}
