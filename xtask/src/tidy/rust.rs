//! Rules for Rust files. They read text that rustfmt has formatted: no parser is needed.

use super::Finding;
use crate::code::{code_of, functions, words};
use crate::imports::mentions;
use crate::purity::{self, is_pure};

/// Lines of a file.
const FILE: usize = 600;
/// Lines of a function.
const FUNCTION: usize = 70;
/// Lines of a function of a test: stories are told in one go.
const TEST_FUNCTION: usize = 100;

/// Macros that mark what is not finished.
const UNFINISHED: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
/// Notes that mark the same. In two halves, or this file would be the first to break the rule.
const NOTES: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];

const IMPURE_WORDS: [&str; 7] =
    ["Instant", "SystemTime", "libc", "nightwatt_clock", "nix", "rustix", "tokio"];
const IMPURE_PATHS: [&str; 5] = ["std::env", "std::fs", "std::net", "std::process", "std::thread"];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let code = code_of(text);
    let mut file = File { path, findings: Vec::new() };
    file.lengths(&code);
    file.unfinished(text, &code);
    file.unexplained(&code);
    file.of_others(text);
    if is_pure(path) {
        file.impure(&code);
    }
    file.findings
}

struct File<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl File<'_> {
    fn say(&mut self, index: usize, rule: &'static str, weight: usize, advice: String) {
        let path = self.path.to_owned();
        self.findings.push(Finding { path, line: index + 1, rule, weight, advice });
    }

    fn lengths(&mut self, code: &str) {
        let lines = code.lines().count();
        if lines > FILE {
            let advice = format!("{lines} lines, {FILE} at most: split it by what it does");
            self.say(0, "file length", lines, advice);
        }
        let tests_from = self.tests_from(code);
        for function in functions(code) {
            let most = if function.start >= tests_from { TEST_FUNCTION } else { FUNCTION };
            let (name, lines) = (function.name, function.lines);
            if lines > most {
                let advice = format!("`{name}` has {lines} lines, {most} at most: name its parts");
                self.say(function.start, "function length", lines, advice);
            }
        }
    }

    /// Index of the line from which on all is test code.
    fn tests_from(&self, code: &str) -> usize {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        if self.path.contains("/tests/") || name == "tests.rs" || name.ends_with("_tests.rs") {
            return 0;
        }
        let inner_module = |pair: &[&str]| {
            pair[0].trim() == "#[cfg(test)]"
                && pair[1].trim_start().starts_with("mod ")
                && pair[1].ends_with('{')
        };
        let lines: Vec<&str> = code.lines().collect();
        lines.windows(2).position(inner_module).unwrap_or(usize::MAX)
    }

    fn unfinished(&mut self, text: &str, code: &str) {
        for (index, (raw, code)) in text.lines().zip(code.lines()).enumerate() {
            for name in UNFINISHED.iter().filter(|name| code.contains(**name)) {
                self.say(index, "unfinished", 1, format!("finish what `{name}(..)` stands for"));
            }
            for note in NOTES.iter().filter(|note| words(raw).any(|word| word == **note)) {
                self.say(
                    index,
                    "unfinished",
                    1,
                    format!("do what `{note}` says, or open an issue"),
                );
            }
        }
    }

    /// Attributes that switch something off must say why.
    fn unexplained(&mut self, code: &str) {
        for (index, _) in code.match_indices("#[ignore]") {
            let advice = "say what it needs: `#[ignore = \"...\"]`".to_owned();
            self.say(line_of(code, index), "unexplained", 1, advice);
        }
        for name in ["allow(", "expect("] {
            for (index, _) in code.match_indices(name) {
                let is_attribute = code[..index].ends_with("#[") || code[..index].ends_with("#![");
                let attribute = code[index..].split(")]").next().unwrap_or_default();
                if is_attribute && !attribute.contains("reason = ") {
                    let advice = "add `reason = \"...\"`, or do what the lint says".to_owned();
                    self.say(line_of(code, index), "unexplained", 1, advice);
                }
            }
        }
    }

    /// A file that is included from another crate is compiled twice, and its own crate does not know.
    fn of_others(&mut self, text: &str) {
        for (index, line) in text.lines().enumerate() {
            let Some(rest) = line.trim_start().strip_prefix("#[path = \"") else { continue };
            let named = rest.split('"').next().unwrap_or_default();
            if leads_out(self.path, named) {
                let advice = format!("`{named}` is in another crate: have it export what you need");
                self.say(index, "path", 1, advice);
            }
        }
    }

    fn impure(&mut self, code: &str) {
        let tests_from = self.tests_from(code);
        let mentioned = mentions(code);
        for (index, line) in code.lines().enumerate() {
            let word = IMPURE_WORDS.iter().find(|name| words(line).any(|word| word == **name));
            let paths = mentioned.get(&(index + 1)).map_or(&[][..], Vec::as_slice);
            let is_fine = |path: &str| path == "std::thread" && index >= tests_from;
            let is_there =
                |path: &str| line.contains(path) || paths.iter().any(|it| is_inside(it, path));
            let path = IMPURE_PATHS.iter().find(|path| is_there(path) && !is_fine(path));
            if let Some(name) = word.or(path) {
                let advice = format!("`{name}` in pure code: take it as an argument");
                self.say(index, "purity", 1, advice);
            }
        }
    }
}

/// Entries of the list of pure modules that name no file of these.
pub(super) fn stale<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> Vec<Finding> {
    let finding = |entry| Finding {
        path: "xtask/src/purity.rs".to_owned(),
        line: 1,
        rule: "purity",
        weight: 1,
        advice: format!("there is no `{entry}`: remove it from PURE"),
    };
    purity::stale(paths).map(finding).collect()
}

/// Whether a path is this one, is below it, or is all of `std`.
fn is_inside(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    path == "std" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Whether what a file names, from its folder, is outside its crate.
fn leads_out(path: &str, named: &str) -> bool {
    let own = if path.starts_with("crates/") { 2 } else { 1 };
    let mut depth = path.split('/').count() - 1;
    for part in named.split('/') {
        match part {
            "" | "." => {}
            ".." if depth <= own => return true,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    named.starts_with('/')
}

fn line_of(text: &str, index: usize) -> usize {
    text[..index].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        check(path, text).iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn files_and_functions_have_their_length() {
        assert_eq!(found("a.rs", &"\n".repeat(600)), []);
        assert_eq!(found("a.rs", &"\n".repeat(601)), [(1, "file length")]);
        assert_eq!(found("a.rs", &function(70)), []);
        assert_eq!(found("a.rs", &function(71)), [(1, "function length")]);
    }

    #[test]
    fn tests_may_be_longer() {
        assert_eq!(found("crates/x/tests/all/main.rs", &function(100)), []);
        assert_eq!(found("crates/x/src/tests.rs", &function(101)), [(1, "function length")]);
        let inner = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(80));
        assert_eq!(found("a.rs", &inner), []);
        let outer = format!("#[cfg(test)]\nmod tests;\n{}", function(80));
        assert_eq!(found("a.rs", &outer), [(3, "function length")]);
    }

    #[test]
    fn what_is_not_finished_is_found_but_not_in_literals() {
        let note = NOTES[0];
        let text = format!("fn f() {{\n    todo!()\n}}\n// {note}: why?\n");
        assert_eq!(found("a.rs", &text), [(2, "unfinished"), (4, "unfinished")]);
        assert_eq!(found("a.rs", "const A: &str = \"todo!()\"; // no todo!() here\n"), []);
    }

    #[test]
    fn what_is_switched_off_says_why() {
        assert_eq!(found("a.rs", "#[ignore]\n#[ignore = \"slow\"]\n"), [(1, "unexplained")]);
        assert_eq!(found("a.rs", "\n#![allow(dead_code)]\n"), [(2, "unexplained")]);
        assert_eq!(found("a.rs", "#[allow(\n    dead_code,\n    reason = \"later\"\n)]\n"), []);
        assert_eq!(found("a.rs", "let it = value.expect(\"there\");\n"), []);
    }

    #[test]
    fn pure_crates_ask_nobody() {
        let text = "use std::time::{Duration, Instant};\nuse std::fs;\n// std::net, tokio\n";
        assert_eq!(found("crates/energy/src/a.rs", text), [(1, "purity"), (2, "purity")]);
        assert_eq!(found("crates/mirror/src/pure/plan.rs", text).len(), 2);
        assert_eq!(found("crates/netlab/src/pure.rs", text).len(), 2);
        assert_eq!(found("crates/netlab/src/a/pure/b.rs", "rustix::time()\n").len(), 1);
        assert_eq!(found("crates/netlab/src/purely.rs", text), []);
        assert_eq!(found("crates/sim/src/a.rs", "use std::thread;\n").len(), 1);
        assert_eq!(found("crates/sim/src/tests.rs", "use std::thread;\n"), []);
        assert_eq!(found("crates/mirror/src/store.rs", text), []);
        assert_eq!(found("crates/power/src/a.rs", text), []);
    }
    #[test]
    fn paths_in_trees_of_use_are_impure_too() {
        let is_impure = |text: &str| !found("crates/mirror/src/pure/plan.rs", text).is_empty();
        assert!(is_impure("use std::{fs, net::TcpStream};\n"));
        assert!(is_impure("use std::{fmt, process};\n"));
        assert!(is_impure("use std as rust;\n"));
        assert!(is_impure("use std::*;\n"));
        assert!(!is_impure("use std::{fmt, io, time::Duration};\nuse core::net::IpAddr;\n"));
        assert!(!is_impure("use crate::{fs, net::Stamp, std_like};\n"));
        let found = found("crates/sim/src/a.rs", "use std::{\n    fmt,\n    fs,\n};\n");
        assert_eq!(found, [(3, "purity")]);
    }

    #[test]
    fn files_of_other_crates_are_not_included() {
        let text = |path: &str| format!("#[cfg(test)]\n#[path = \"{path}\"]\nmod a;\n");
        let targets = "crates/fuzz-targets/src/targets/records.rs";
        assert_eq!(found(targets, &text("../../../gateway/src/memory.rs")), [(2, "path")]);
        assert_eq!(found("crates/a/src/lib.rs", &text("../../b/src/c.rs")), [(2, "path")]);
        assert_eq!(found("crates/a/src/lib.rs", &text("/tmp/c.rs")), [(2, "path")]);
        assert_eq!(found(targets, &text("../../tests/memory.rs")), []);
        assert_eq!(found("crates/a/src/lib.rs", &text("lib_tests.rs")), []);
    }

    #[test]
    fn a_list_of_what_is_gone_is_found() {
        let all = stale([].into_iter());
        assert!(all.iter().any(|it| it.advice.contains("`crates/energy/src/`")), "{all:?}");
        let left = stale(["crates/energy/src/lib.rs"].into_iter());
        assert_eq!(left.len(), all.len() - 1);
    }
}
