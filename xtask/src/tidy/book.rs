//! The pages under `docs/`: all are in the book, and what they link to is there, or among the sources.

use std::path::{Component, Path, PathBuf};

use super::Finding;

const CONTENTS: &str = "docs/SUMMARY.md";

/// Where readers of the book find what is not in it: files, and folders.
const SOURCES: [&str; 2] = [
    "https://github.com/nightwatt/nightwatt/blob/main/",
    "https://github.com/nightwatt/nightwatt/tree/main/",
];

/// Looks at the page at `path`. `is_there` knows the files of the repository.
pub(super) fn check(
    path: &str,
    text: &str,
    contents: &str,
    is_there: impl Fn(&Path) -> bool,
) -> Vec<Finding> {
    let is_page = Path::new(path).extension().is_some_and(|it| it == "md");
    if !is_page || !path.starts_with("docs/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut say = |line, rule, advice: String| {
        findings.push(Finding { path: path.to_owned(), line, rule, weight: 1, advice });
    };
    let inside = &path["docs/".len()..];
    if path != CONTENTS && !contents.contains(&format!("]({inside})")) {
        say(1, "page outside the book", format!("add it to {CONTENTS}"));
    }
    for (number, line) in text.lines().enumerate() {
        for target in targets(line) {
            let source = SOURCES.iter().find_map(|at| target.strip_prefix(at));
            let beside = || plain(&Path::new(path).with_file_name(target));
            let file = source.map_or_else(beside, PathBuf::from);
            let shown = file.display();
            if !is_there(&file) {
                say(number + 1, "dead link", format!("there is no {shown}"));
            } else if source.is_none() && !file.starts_with("docs") {
                let advice = format!("the book has docs/ only: write {}{shown}", SOURCES[0]);
                say(number + 1, "link out of the book", advice);
            }
        }
    }
    findings
}

/// Files that the links in a line lead to: beside the page, or among the sources.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    // What is between backticks is text; links hardly ever are.
    let outside = line.split('`').step_by(2);
    let links = outside.flat_map(|text| text.split("](").skip(1));
    let links = links.filter_map(|rest| rest.split(')').next());
    let files = links.filter_map(|link| link.split(['#', ' ']).next());
    files.filter(|file| {
        let is_beside = !file.is_empty() && !file.contains(':') && !file.starts_with('/');
        is_beside || SOURCES.iter().any(|at| file.starts_with(at))
    })
}

/// The path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        let contents = "- [A](a.md)\n  - [B](sub/b.md)\n";
        let there = ["docs/a.md", "docs/sub/b.md", "docs/x.toml", "README.md"].map(Path::new);
        let found = check(path, text, contents, |file| there.contains(&file));
        found.into_iter().map(|it| (it.line, it.rule)).collect()
    }

    #[test]
    fn a_page_that_nobody_finds_is_found() {
        assert_eq!(look("docs/c.md", ""), [(1, "page outside the book")]);
        assert_eq!(look("docs/SUMMARY.md", ""), []);
        assert_eq!(look("docs/a.md", ""), []);
        assert_eq!(look("crates/x/c.md", "[x](nowhere.md)"), []);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let fine = "[b](sub/b.md#how), [site](https://x.example/a.md), [here](#below), `[x](y.md)`";
        assert_eq!(look("docs/a.md", fine), []);
        assert_eq!(look("docs/sub/b.md", "[up](../a.md) [x](../x.toml \"title\")"), []);
        assert_eq!(look("docs/a.md", "fine\n[b](b.md) [`b`](sub/b.md)"), [(2, "dead link")]);
    }

    #[test]
    fn links_to_what_the_book_has_not_lead_to_the_sources() {
        assert_eq!(look("docs/a.md", "[root](../README.md)"), [(1, "link out of the book")]);
        let to = |file: &str| look("docs/a.md", &format!("[it]({}{file})", SOURCES[0]));
        assert_eq!(to("README.md#how"), []);
        assert_eq!(to("NOTHING.md"), [(1, "dead link")]);
    }
}
