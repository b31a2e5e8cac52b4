//! What a system wants of a program that is installed: completions that its shell takes, manual pages that
//! groff has nothing against.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::harness::{NIGHTWATT, nightwatt, told};

fn said(words: &[&str]) -> String {
    let output = nightwatt(words);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn bash_completes_commands_and_options() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("nightwatt");
    fs::write(&script, said(&["completions", "bash"])).unwrap();
    let completed = |words: &str, place: u32| {
        let text = format!(
            "source '{}'; COMP_WORDS=({words}); COMP_CWORD={place}; \
             _nightwatt nightwatt \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
             printf '%s ' \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let output = Command::new("bash").args(["--norc", "-c", &text]).output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(completed("nightwatt ana", 1), "analyze");
    assert_eq!(completed("nightwatt tcp la", 2), "lab");
    assert_eq!(completed("nightwatt tcp lab --scen", 3), "--scenario");
}

#[test]
fn every_command_has_a_page_with_all_its_options() {
    let folder = tempfile::tempdir().unwrap();
    said(&["man", "--output", folder.path().to_str().unwrap()]);
    let mut pages = 0;
    let groff = nightwatt_needs::program("groff");
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let page = fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        pages += 1;
        if let Some(groff) = &groff {
            let mut read = Command::new(groff);
            let read = read.args(["-man", "-Tutf8", "-ww", "-z"]).arg(&path).output().unwrap();
            let wrong = String::from_utf8_lossy(&read.stderr).into_owned();
            assert!(read.status.success() && wrong.is_empty(), "{name}: {wrong}");
        }
        // `nightwatt-tcp-lab` is `nightwatt tcp lab`, but `stay-awake` is one word.
        let words = name.strip_prefix("nightwatt").unwrap().trim_start_matches('-');
        let words = words.replace("stay-awake", "stay_awake").replace('-', " ");
        let words = words.replace('_', "-");
        let mut words: Vec<&str> = words.split_whitespace().collect();
        words.push("--help");
        let help = said(&words);
        for line in help.lines().filter(|line| line.trim_start().starts_with('-')) {
            let Some(option) = line.split_whitespace().find(|word| word.starts_with("--")) else {
                continue;
            };
            let option = option.split(['=', '[', ',']).next().unwrap();
            assert!(page.replace("\\-", "-").contains(option), "{name}: {option}");
        }
    }
    assert!(pages > 40, "{pages}");
}

#[test]
fn every_command_is_in_the_book() {
    let folder = tempfile::tempdir().unwrap();
    said(&["man", "--output", folder.path().to_str().unwrap()]);
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let names = names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    // The program as a whole is what the groups of the page are.
    let pages: BTreeSet<String> = names.filter(|name| name != "nightwatt").collect();

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/commands");
    let output = Command::new(script).arg(NIGHTWATT).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let heading = |line: &str| {
        let words = line.strip_prefix("###")?.trim_start_matches('#');
        Some(words.strip_prefix(" `")?.strip_suffix('`')?.replace(' ', "-"))
    };
    let headings: BTreeSet<String> = text.lines().filter_map(heading).collect();
    assert_eq!(headings, pages);
    assert!(text.contains("\n## Act: let servers sleep\n"), "{text}");
    let help = said(&["stay-awake", "--help"]);
    assert!(text.contains(&help), "as the program says it: {help}");
}

#[test]
fn what_is_no_command_has_no_page() {
    let output = nightwatt(&["man", "tcp", "lap"]);
    assert_eq!(output.status.code(), Some(2));
    let told = told(&output);
    assert!(told.contains("has no command `lap`") && told.contains("lab"), "{told}");
    let output = nightwatt(&["man", "--output", "/proc/no/such"]);
    assert_eq!(output.status.code(), Some(1), "{}", crate::harness::told(&output));
}
