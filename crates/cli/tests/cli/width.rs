//! No line that people read is wider than 80 columns, but for a path or a command that would not fit on any.

use std::fs;

use crate::harness::program;

/// A configuration whose rows are long.
const LONG: &str = r#"listen = ["0.0.0.0:80", "[::]:80", "192.0.2.1:8080", "192.0.2.2:8080", "192.0.2.3:8080"]
state_dir = "/var/lib/nightwatt/a/folder/whose/path/is/so/long/that/no/terminal/of/80/columns/shows/it"

[[machine]]
name = "metal"
probe = "controller"
[machine.power.wake.wol]
mac = "52:54:00:12:34:56"
[machine.power.sleep.ssh]
host = "root@10.0.0.2"

[[site]]
name = "blog"
kind = "app"
hosts = ["blog.example.org", "www.blog.example.org", "static.blog.example.org", "blog.example.com"]
origin = "http://10.0.0.5"
on = "metal"

[[site]]
name = "wiki"
kind = "pages"
hosts = ["wiki.example.org"]
origin = "http://10.0.0.6:8080"
[site.power.process]
command = ["/usr/bin/wiki"]

[[job]]
name = "backup"
on = "metal"
at = "mon-fri 03:00"
command = ["/usr/bin/rsync", "-a", "--delete", "/srv/data/", "root@10.0.0.2:/srv/backups/of/this/machine/"]
"#;

/// What stands alone on its line: one word, or one command.
fn is_whole(line: &str) -> bool {
    let rest = line.trim();
    let code = rest.trim_start_matches('`').trim_end_matches(['`', ',', '.', ';', ')']);
    !rest.contains(' ') || rest.starts_with('`') && !code.contains('`')
}

#[track_caller]
fn fits(what: &str, text: &str) {
    assert!(text.lines().count() > 2, "{what}: {text}");
    for line in text.lines() {
        // The first column of a row stays beside what is whole.
        let value = line.get(15..).filter(|_| line.starts_with("  ")).unwrap_or(line);
        let fits = line.chars().count() <= 80 || is_whole(value) || is_whole(line);
        assert!(fits, "{what}, {} columns: {line}\n{text}", line.chars().count());
    }
}

#[test]
fn check_run_meters_and_doctor_fit_a_terminal_of_80_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nightwatt.toml");
    fs::write(&path, LONG).unwrap();
    let here = |args: &[&str]| {
        let output = program().args(args).current_dir(folder.path()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8(text).unwrap()
    };
    let checked = here(&["check"]);
    assert!(checked.starts_with("nightwatt.toml is good"), "{checked}");
    assert!(checked.contains("careful") && checked.contains("backup at"), "{checked}");
    fits("check", &checked);
    fits("doctor --machine", &here(&["doctor", "--machine"]));
    fits("meters", &here(&["meters"]));
    let command = [
        "run",
        "-m",
        "model",
        "-r",
        "2",
        "--",
        "sh",
        "-c",
        ": a command that is long by itself, but harmless",
    ];
    fits("run", &here(&command));
    // Of two such runs, neither the spread nor the share is known.
    fits("run --idle", &here(&["run", "-m", "model", "--idle", "1s", "-r", "2", "--", "true"]));
    if cfg!(feature = "bpf") {
        let missing = here(&["caliper"]);
        assert!(missing.contains("required arguments"), "{missing}");
        fits("caliper", &missing);
    }
}
