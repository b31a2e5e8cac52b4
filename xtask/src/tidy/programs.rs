//! Programs that tests start: each is in the table of `tools/need`, or part of every Debian.
//!
//! Rust is read as text. What a variable names is not seen; the crate `needs` panics at run time where a test asks it
//! for a program that is not in the table.

mod shell;

use std::collections::BTreeSet;

use regex::Regex;

use super::Finding;
use crate::sources::File;

/// Of packages that Debian calls essential or required: bash, coreutils, dash, findutils, grep, hostname, mawk, mount,
/// sed, tar and util-linux. No machine is without them.
const EVERYWHERE: &str = "awk bash cat chmod chown chroot chrt cp cut date dd dirname env false find flock grep head \
    hostname id install ionice kill ln ls mkdir mkfifo mknod mktemp mount mv nohup nproc nsenter printf readlink rm rmdir sed \
    seq setpriv setsid sh sha256sum sleep sort stat sync tail tar taskset tee test timeout touch tr true umount uname uniq unshare \
    wc xargs";

/// Tests start such programs to see what happens without them.
const NOWHERE: &str = "no-such-";

/// Started by code that no test reaches: the agent ends the machine with it.
const UNTESTED: &str = "poweroff";

/// The crate whose tests ask for what there is not.
const THEMSELVES: &str = "crates/needs/";

/// A row of the table in `tools/need`.
#[derive(Debug)]
struct Row {
    thing: String,
    programs: Vec<String>,
    /// `crate/file` of each test that starts one of them, or `all`.
    tests: Vec<String>,
}

impl Row {
    fn serves(&self, test: &str) -> bool {
        self.tests.iter().any(|it| it == test || it == "all")
    }
}

/// Checks these files, each with its path, against the text of `tools/need`.
pub(super) fn check(files: &[File], need: &str) -> Vec<Finding> {
    let rows = rows(need);
    let scanner = Scanner::new();
    let mut findings = Vec::new();
    let mut tests = BTreeSet::new();
    for File { path, text } in files {
        let Some(test) = test_name(path).filter(|_| !path.starts_with(THEMSELVES)) else {
            continue;
        };
        for Start { program, line, is_test } in scanner.starts(path, text) {
            let mut say = |advice| {
                let path = path.clone();
                findings.push(Finding { path, line, rule: "program", weight: 1, advice });
            };
            if EVERYWHERE.split_whitespace().any(|it| it == program) || program.starts_with(NOWHERE)
            {
                continue;
            }
            let with: Vec<&Row> =
                rows.iter().filter(|row| row.programs.contains(&program)).collect();
            if with.is_empty() && program != UNTESTED {
                say(format!("add `{program}` and its Debian package to the table in tools/need"));
            } else if is_test && !with.iter().any(|row| row.serves(&test)) {
                let things: Vec<&str> = with.iter().map(|row| row.thing.as_str()).collect();
                let things = things.join("` or `");
                say(format!(
                    "it starts `{program}`: add `{test}` to the tests of `{things}` in tools/need"
                ));
            }
        }
        tests.insert(test);
    }
    findings.extend(stale(&rows, &tests));
    findings
}

/// Tests that the table names and that are no more.
fn stale(rows: &[Row], tests: &BTreeSet<String>) -> Vec<Finding> {
    let named = rows.iter().flat_map(|row| row.tests.iter().map(move |test| (row, test)));
    let stale = named.filter(|(_, test)| *test != "all" && !tests.contains(*test));
    stale
        .map(|(row, test)| Finding {
            path: "tools/need".to_owned(),
            line: 1,
            rule: "program",
            weight: 1,
            advice: format!("`{}` names the tests of `{test}`, which is no file", row.thing),
        })
        .collect()
}

/// The rows between the two marks of the table.
fn rows(need: &str) -> Vec<Row> {
    let rows = need.split_once("<<'END'\n").and_then(|(_, rest)| rest.split_once("\nEND\n"));
    let rows = rows.map_or("", |(rows, _)| rows).lines();
    rows.map(|row| {
        let mut cells = row.split('|').map(str::trim);
        let mut words = || cells.next().unwrap_or_default().split_whitespace().map(str::to_owned);
        let thing = words().next().unwrap_or_default();
        let programs = words().map(|word| word.split(':').next().unwrap_or_default().to_owned());
        Row { thing, programs: programs.collect(), tests: words().collect() }
    })
    .collect()
}

/// What the table calls a file: `crates/tcp/tests/capture/peers.rs` is `tcp/peers`, and `main.rs`, `mod.rs` and
/// `tests.rs` have the name of their folder.
fn test_name(path: &str) -> Option<String> {
    let mut parts = path.strip_prefix("crates/")?.strip_suffix(".rs")?.split('/');
    let name = parts.next()?;
    let rest: Vec<&str> = parts.collect();
    let mut stems = rest.iter().rev().filter(|it| !["main", "mod", "tests"].contains(it));
    Some(format!("{name}/{}", stems.next()?))
}

/// A place where a program is started, or asked for.
#[derive(Debug)]
struct Start {
    program: String,
    line: usize,
    is_test: bool,
}

struct Scanner {
    /// `Command::new("program")`, the helpers of the crate `needs`, and those that run a program under ours.
    one: Regex,
    /// Lists of programs, or of a program and its arguments.
    several: Regex,
    /// A literal that the shell runs.
    script: Regex,
}

impl Scanner {
    fn new() -> Self {
        let of = |pattern: &str| Regex::new(pattern).expect("it is tested");
        Self {
            one: of(concat!(
                r#"(?:Command::new|(?:^|[^.\w])(?:command|program|static_program|has))\(\s*"([^"\\]+)"\s*\)"#,
                r#"|\.run\(\s*"([^"\s]+)",\s*&\["#,
                r#"|\.report_of_command\(\s*&\[[^\]]*\],\s*&\[\s*"([^"]+)""#,
                r#"|\bbuilt\(\s*&\[\s*"([^"]+)""#,
                r#"|(?:Program|Self)::build\(\s*"([^"]+)""#,
                r#"|"--",\s*"([a-z][a-z0-9.-]*)""#,
            )),
            several: of(r"(?:\bprograms\(|\.need\(\s*|\bwithin\(\w+,\s*)&\[([^\]]*)\]"),
            script: of(concat!(
                r#"(?:"-c",\s*(?:&format!\(\s*)?|(?:^|[^.\w])(?:run\(|sh\(|inside\(\S+\s)(?:&?format!\(\s*)?)"#,
                r##"(?:r#"(?s:(.*?))"#|"((?:[^"\\]|\\(?s:.))*)")"##,
            )),
        }
    }

    /// All in a file. Tests are files of tests, and what follows the first `#[cfg(test)]`; of other code, only what
    /// is plainly a program is taken for one.
    fn starts(&self, path: &str, text: &str) -> Vec<Start> {
        let is_file_of_tests =
            path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("_tests.rs");
        let tests_from =
            if is_file_of_tests { 0 } else { text.find("#[cfg(test)]").unwrap_or(text.len()) };
        let mut found = Vec::new();
        let mut add = |program: &str, at: usize, is_plain: bool| {
            let program = program.rsplit('/').next().unwrap_or(program).to_owned();
            let line = text[..at].matches('\n').count() + 1;
            let is_test = at >= tests_from;
            if is_test || is_plain {
                found.push(Start { program, line, is_test });
            }
        };
        for captures in self.one.captures_iter(text) {
            let program = captures.iter().skip(1).flatten().next();
            let is_plain = captures[0].starts_with("Command::new");
            if let Some(program) = program {
                add(program.as_str(), program.start(), is_plain);
            }
        }
        for list in self.several.captures_iter(text).filter_map(|it| it.get(1)) {
            for word in list.as_str().split('"').skip(1).step_by(2) {
                add(word, list.start(), true);
            }
        }
        for captures in self.script.captures_iter(text) {
            let script = captures.get(1).map(|it| (it, it.as_str().to_owned()));
            let script =
                script.or_else(|| captures.get(2).map(|it| (it, shell::unescaped(it.as_str()))));
            let Some((place, script)) = script else { continue };
            for program in shell::programs(&script) {
                add(&program, place.start(), false);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const NEED: &str = "table() {\n  cat <<'END'\nhash | md6sum:hashes | power/fake\nnets | ip:iproute2 nft |\nEND\n}\n";

    fn findings(path: &str, text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let findings = check(&[file(path, text), file("crates/power/tests/fake.rs", "")], NEED);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_program_that_no_table_has_is_named_with_its_file() {
        let advice = "add `frob` and its Debian package to the table in tools/need";
        for text in [
            "\nCommand::new(\"frob\").arg(\"x\")",
            "\n    Command::new(\n\"/usr/bin/frob\")",
            "\nif !programs(&[\"sh\", \"frob\"]) {",
            "\nprogram(\"frob\")?;",
            "\nlet said = bench.report_of_command(&[], &[\"frob\", &file]);",
            "\nbench.report_of_command(\n    &[\"--folded\", &folded],\n    &[\"frob\", \"-x\"],\n);",
            "\nstart.need(&[\"frob\"], \"install it\")?;",
            "\nshell.args([\"-c\", \"sleep 1; x=1 frob --now\"]);",
            "\nrun(&format!(\"cat {file} | frob\"));",
            "\ninside(&started, r#\"if true; then\nfrob; fi\"#);",
        ] {
            let said = findings("crates/power/tests/other.rs", text);
            assert_eq!(said.len(), 1, "{text}: {said:?}");
            assert!(
                said[0].starts_with("crates/power/tests/other.rs:") && said[0].ends_with(advice)
            );
        }
        assert_eq!(findings("crates/power/src/lib.rs", "Command::new(\"frob\")").len(), 1);
        assert_eq!(findings("crates/power/src/lib.rs", "Command::new(\"sleep\")").len(), 0);
        assert_eq!(findings("crates/power/src/lib.rs", "loaded.program(\"frob\")").len(), 0);
    }

    #[test]
    fn a_test_that_the_table_does_not_name_is_an_error_and_so_is_one_that_is_no_more() {
        let text = "Command::new(\"md6sum\")";
        assert_eq!(findings("crates/power/tests/fake.rs", text), [""; 0]);
        let other = findings("crates/tcp/src/other/tests.rs", text);
        assert!(
            other[0].ends_with("add `tcp/other` to the tests of `hash` in tools/need"),
            "{other:?}"
        );
        assert_eq!(findings("crates/tcp/src/other.rs", text), [""; 0], "a program that is no test");
        let within = format!("#[cfg(test)]\nmod tests {{ {text} }}");
        assert_eq!(findings("crates/tcp/src/other.rs", &within).len(), 1);
        let stale = check(&[], NEED);
        assert!(stale[0].advice.contains("`power/fake`, which is no file"), "{stale:?}");
    }

    fn files_under(folder: &Path, root: &Path, files: &mut Vec<File>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files_under(&path, root, files);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(root).unwrap().display().to_string();
                files.push(File { path, text });
            }
        }
    }

    #[test]
    fn every_program_that_a_test_starts_is_in_the_table_of_tools_need() {
        let xtask = crate::manifest_dir();
        let root = xtask.parent().unwrap();
        let mut files = Vec::new();
        files_under(&root.join("crates"), root, &mut files);
        let need = std::fs::read_to_string(root.join("tools/need")).unwrap();
        let findings: Vec<String> = check(&files, &need).iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
