//! What ARCHITECTURE.md lists is there: the crates that each crate uses, and the modules of the crate with layers.

use std::collections::BTreeSet;

use super::Finding;
use super::crates::Package;
use crate::imports::LAYERED;

pub(super) const PAGE: &str = "ARCHITECTURE.md";

/// The section with the tables of modules.
const INSIDE: &str = "## Inside the gateway";

/// A feature that lines about uses name.
const FEATURE: &str = "bpf";

/// Looks at the text of the page. `modules` are those of the crate with layers, by their paths.
pub(super) fn check(page: &str, packages: &[Package], modules: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut say = |line, rule, advice| {
        findings.push(Finding { path: PAGE.to_owned(), line, rule, weight: 1, advice });
    };
    for package in packages {
        let Some(folder) = package.folder() else { continue };
        let Some((line, text)) = uses_of(page, folder) else {
            say(1, "crate", format!("add a section about `{folder}`, with a line `Uses: ...`"));
            continue;
        };
        let (code, tests) = text.split_once("Its tests").unwrap_or((text, ""));
        let used = package.uses(false);
        let in_tests = &package.uses(true) - &used;
        if named(code) != used {
            say(line, "uses", format!("`{folder}` uses {}", list(&used)));
        }
        if named(tests) != in_tests {
            say(line, "uses", format!("the tests of `{folder}` also use {}", list(&in_tests)));
        }
    }
    let outermost = modules.iter().filter_map(|module| module.split("::").next());
    let modules: BTreeSet<&str> = outermost.filter(|module| *module != "crate").collect();
    let listed = listed(page);
    for module in modules.difference(&listed) {
        say(1, "module", format!("add `{module}` of {LAYERED} to a table of `{INSIDE}`"));
    }
    for module in listed.difference(&modules) {
        say(1, "module", format!("there is no module `{module}` in {LAYERED}: remove it"));
    }
    findings
}

/// The number of the line, from 1, that lists what a crate uses, and what follows `Uses: `.
fn uses_of<'a>(page: &'a str, folder: &str) -> Option<(usize, &'a str)> {
    let heading = format!("### `{folder}`");
    let section = page.lines().enumerate().skip_while(|(_, line)| *line != heading).skip(1);
    let mut section = section.take_while(|(_, line)| !line.starts_with('#'));
    section.find_map(|(number, line)| Some((number + 1, line.strip_prefix("Uses: ")?)))
}

/// The names in a text, except those in parentheses.
fn named(text: &str) -> BTreeSet<&str> {
    let parts = text.split('(').map(|part| part.split_once(')').map_or(part, |(_, rest)| rest));
    parts.flat_map(quoted).filter(|name| *name != FEATURE).collect()
}

/// The outermost modules in the first cells of the tables.
fn listed(page: &str) -> BTreeSet<&str> {
    let section = page.lines().skip_while(|line| *line != INSIDE).skip(1);
    let section = section.take_while(|line| !line.starts_with("## "));
    let cells = section.filter_map(|line| line.strip_prefix('|')?.split('|').next());
    cells.flat_map(quoted).filter_map(|name| name.split("::").next()).collect()
}

/// What is between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn list(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        return "none of the others".to_owned();
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
### `sim`

Uses: `energy`, of `mirror` (its half `pure`) a part, and with the feature `bpf` also `probes`. Its tests also use \
`traffic`.

### `energy`

Uses: none.

## Inside the gateway

| file | what it does |
|---|---|
| `store`, `slow_path::shared` | what `nothing` reads |

## Where to look

| `elsewhere` | is not looked at |
";

    const SIM: [(&str, bool); 6] = [
        ("energy", false),
        ("mirror", false),
        ("probes", false),
        ("energy", true),
        ("traffic", true),
        ("needs", true),
    ];

    const MODULES: [&str; 4] = ["crate", "store", "store::popularity", "slow_path"];

    fn advice(packages: &[Package], modules: &[&str]) -> Vec<(usize, String)> {
        let modules: Vec<String> = modules.iter().map(|module| (*module).to_owned()).collect();
        let findings = check(TEXT, packages, &modules);
        findings.into_iter().map(|finding| (finding.line, finding.advice)).collect()
    }

    #[test]
    fn a_page_that_lists_what_there_is_is_right() {
        let packages = [Package::for_tests("sim", &SIM), Package::for_tests("energy", &[])];
        let found = advice(&packages, &MODULES);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn uses_that_the_page_lacks_and_those_that_it_makes_up_are_found() {
        let sim = Package::for_tests("sim", &SIM[..2]);
        let energy = Package::for_tests("energy", &[("policy", false)]);
        let expected: [(usize, &str); 3] = [
            (3, "`sim` uses `energy`, `mirror`"),
            (3, "the tests of `sim` also use none of the others"),
            (7, "`energy` uses `policy`"),
        ];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        assert_eq!(advice(&[sim, energy], &MODULES), expected);
    }

    #[test]
    fn a_crate_without_a_section_is_found() {
        let found = advice(&[Package::for_tests("clock", &[])], &MODULES);
        assert_eq!(found.len(), 1);
        assert!(found[0].1.contains("a section about `clock`"), "{found:?}");
    }

    #[test]
    fn modules_that_the_page_lacks_and_those_that_are_gone_are_found() {
        let found = advice(&[], &["store", "brand_new::part"]);
        let found: Vec<&str> = found.iter().map(|(_, advice)| advice.as_str()).collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("add `brand_new` of gateway"), "{found:?}");
        assert!(found[1].starts_with("there is no module `slow_path`"), "{found:?}");
    }
}
