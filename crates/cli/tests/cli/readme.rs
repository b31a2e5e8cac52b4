//! The outputs in README.md are those of the program: figures may differ, words may not.

use std::fs;
use std::process::Output;

use crate::harness::{House, Plan, program, shared_data};

const README: &str = include_str!("../../../../README.md");

/// A line that stands for any number of lines.
const LEFT_OUT: &str = "…";

/// The output that README.md shows for the command that begins with `command`.
fn shown(command: &str) -> (&'static str, Vec<&'static str>) {
    let begin = README.find(&format!("$ {command}")).expect("README.md shows this command");
    let mut lines = README[begin + 2..].lines();
    let line = lines.next().expect("the command has a line");
    let output = lines.take_while(|line| !line.starts_with("```") && !line.starts_with("$ "));
    (line, output.collect())
}

/// A line without its figures and their units.
fn words(line: &str) -> String {
    let is_figure = |word: &&str| {
        let word = word.trim_matches(|it: char| "(),.:".contains(it));
        word.starts_with(|it: char| it.is_ascii_digit()) || ["J", "Wh", "kWh", "±"].contains(&word)
    };
    line.split_whitespace().filter(|word| !is_figure(word)).collect::<Vec<_>>().join(" ")
}

/// Fails unless `output` has the lines that are shown, in their order, with nothing between them that
/// is not left out visibly.
fn agrees(shown: &[&str], output: &str) {
    let mut rest = output.lines().map(words);
    let mut may_skip = false;
    for line in shown {
        if line.trim() == LEFT_OUT {
            may_skip = true;
            continue;
        }
        let wanted = words(line);
        let found = if may_skip { rest.find(|it| *it == wanted) } else { rest.next() };
        assert_eq!(
            found.as_deref(),
            Some(&*wanted),
            "README.md shows `{line}`, printed:\n{output}"
        );
        may_skip = false;
    }
}

/// What a command printed. `run` prints to stderr, since stdout is its command's.
fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success(), "{err}");
    format!("{out}{err}")
}

/// Runs a command of README.md in a folder with the log that it names.
fn printed(line: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    if line.contains("access.log.gz") {
        let log = shared_data()?.join("logs/yuvi_in_nginx_2012-03.log.gz");
        fs::copy(log, folder.path().join("access.log.gz")).expect("the log is copied");
    }
    let arguments = line.split_whitespace().skip(1);
    Some(text(&program().args(arguments).current_dir(folder.path()).output().expect("it runs")))
}

#[test]
fn an_analysis_is_shown_as_it_is_printed() {
    let (line, shown) = shown("nightwatt analyze");
    if let Some(output) = printed(line) {
        agrees(&shown, &output);
    }
}

#[test]
fn the_size_of_a_pool_is_shown_as_it_is_printed() {
    let (line, shown) = shown("nightwatt fleet size");
    if let Some(output) = printed(line) {
        agrees(&shown, &output);
    }
}

#[test]
fn energy_of_a_command_is_shown_as_it_is_printed_without_a_meter() {
    let (line, shown) = shown("nightwatt run");
    let output = printed(line).expect("it needs no log");
    if output.contains("measured") {
        println!("skipped: README.md shows a machine without meters, and this one has some");
        return;
    }
    agrees(&shown, output.trim_start());
}

#[test]
fn the_state_of_a_site_is_shown_as_it_is_printed() {
    let house = House::build(&Plan::default());
    let gateway = house.serve(&[]);
    gateway.order(&["wake"]);
    gateway.until("awake");
    let output = text(&gateway.order(&["status"]));
    // No request came here, and its name is another one.
    let (_, shown) = shown("nightwatt status");
    let shown: Vec<String> = shown.iter().map(|it| it.replace("blog", "site")).collect();
    let lines: Vec<&str> = shown.iter().map(String::as_str).collect();
    for line in lines.iter().filter(|it| it.trim() != LEFT_OUT && !it.contains("since start")) {
        let wanted = words(line);
        assert!(output.lines().any(|it| words(it) == wanted), "`{line}` is not in\n{output}");
    }
}
