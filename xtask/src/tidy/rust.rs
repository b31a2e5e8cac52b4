//! Rules for Rust files. They read text that rustfmt has formatted: no parser is needed.

use super::Finding;
use crate::code::{code_of, functions, words};

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

/// Crates without clock, files and sockets, and such modules of others. A module called `pure` is one without being
/// named here.
const PURE: [&str; 22] = [
    "crates/agent/src/announcer",
    "crates/agent/src/dead_man",
    "crates/agent/src/protocol",
    "crates/energy/src/",
    "crates/gateway/src/acme/schedule",
    "crates/gateway/src/gate/traffic",
    "crates/gateway/src/webhooks/watch",
    "crates/httpcache/src/",
    "crates/netlab/src/check/verdict",
    "crates/netlab/src/ends/config",
    "crates/netlab/src/helps/change",
    "crates/netlab/src/helps/result",
    "crates/netlab/src/probe/message",
    "crates/netlab/src/relay/line",
    "crates/load/src/generate/answer_reader",
    "crates/mirror/src/coding",
    "crates/mirror/src/discover",
    "crates/policy/src/",
    "crates/report/src/",
    "crates/sim/src/",
    "crates/transfer/src/wire",
    "crates/workloads/src/",
];
const IMPURE_WORDS: [&str; 7] =
    ["Instant", "SystemTime", "libc", "nightwatt_clock", "nix", "rustix", "tokio"];
const IMPURE_PATHS: [&str; 5] = ["std::env", "std::fs", "std::net", "std::process", "std::thread"];

/// Whether the file is in one of them.
fn is_pure(path: &str) -> bool {
    let mut parts = path.split('/');
    let is_source = parts.next() == Some("crates") && parts.nth(1) == Some("src");
    let is_named = PURE.iter().any(|pure| path.starts_with(pure));
    is_named || is_source && parts.any(|part| part == "pure" || part == "pure.rs")
}

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let code = code_of(text);
    let mut file = File { path, findings: Vec::new() };
    file.lengths(&code);
    file.unfinished(text, &code);
    file.unexplained(&code);
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

    fn impure(&mut self, code: &str) {
        let tests_from = self.tests_from(code);
        for (index, line) in code.lines().enumerate() {
            let word = IMPURE_WORDS.iter().find(|name| words(line).any(|word| word == **name));
            let is_fine = |path: &str| path == "std::thread" && index >= tests_from;
            let path = IMPURE_PATHS.iter().find(|path| line.contains(**path) && !is_fine(path));
            if let Some(name) = word.or(path) {
                let advice = format!("`{name}` in pure code: take it as an argument");
                self.say(index, "purity", 1, advice);
            }
        }
    }
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
}
