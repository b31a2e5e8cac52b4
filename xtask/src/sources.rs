//! The Rust files of the repository, and what of them is tests.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use crate::code::Parts;
use crate::tokens::{tests, tokens};

/// A text file of the repository.
#[derive(Clone)]
pub(crate) struct File {
    /// From the root.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A Rust file.
pub(crate) struct Source {
    /// From the root: `crates/energy/src/energy.rs`.
    pub(crate) path: String,
    /// Without tests, comments and the insides of literals; these are blank.
    pub(crate) code: String,
    /// Of the whole file.
    pub(crate) comments: String,
    /// Without those of tests.
    pub(crate) literals: String,
    /// The whole file is for tests or benchmarks.
    pub(crate) is_test: bool,
}

/// Reads all Rust files among these.
pub(crate) fn sources(files: &[File]) -> Vec<Source> {
    let mut test_folders = BTreeSet::new();
    let mut sources: Vec<Source> = Vec::new();
    for File { path, text } in files.iter().filter(|file| is_rust(&file.path)) {
        let parts = Parts::of(text);
        let tests = tests(&tokens(&parts.code));
        let folder = folder_of(path);
        test_folders.extend(tests.modules.iter().map(|name| format!("{folder}{name}")));
        sources.push(Source {
            path: path.clone(),
            code: without(&parts.code, &tests.lines),
            comments: parts.comments,
            literals: without(&parts.literals, &tests.lines),
            is_test: is_named_test(path),
        });
    }
    for source in &mut sources {
        let stem = source.path.trim_end_matches(".rs");
        let mut ends = stem.match_indices('/').map(|(end, _)| end).chain([stem.len()]);
        source.is_test |= ends.any(|end| test_folders.contains(&stem[..end]));
    }
    sources
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// The folder with the files of a file's child modules, with a slash at its end.
fn folder_of(path: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => format!("{folder}/"),
        _ => format!("{stem}/"),
    }
}

fn is_named_test(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_for_tests = |folder| folder == "tests" || folder == "benches";
    name == "tests.rs" || name.ends_with("_tests.rs") || folders.split('/').any(is_for_tests)
}

/// The text with these lines blank.
fn without(text: &str, lines: &[Range<usize>]) -> String {
    let mut left = String::with_capacity(text.len());
    for (index, line) in text.lines().enumerate() {
        if !lines.iter().any(|range| range.contains(&index)) {
            left.push_str(line);
        }
        left.push('\n');
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_test_modules_are_tests() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod pretend;\n"),
            file("crates/a/src/b.rs", "#[cfg(test)]\nmod made_up;\nfn f() {} // why\n"),
            file("crates/a/src/b/made_up/parts.rs", ""),
            file("crates/a/src/made_up.rs", ""),
            file("crates/a/src/pretend.rs", ""),
            file("crates/a/src/c/tests.rs", ""),
            file("crates/a/tests/all/main.rs", ""),
        ];
        let sources = sources(&files);
        let tests = sources.iter().filter(|it| it.is_test).map(|it| it.path.as_str());
        let expected = ["b/made_up/parts", "pretend", "c/tests", "../tests/all/main"];
        let expected = expected.map(|it| match it.strip_prefix("../") {
            Some(outside) => format!("crates/a/{outside}.rs"),
            None => format!("crates/a/src/{it}.rs"),
        });
        assert_eq!(tests.collect::<Vec<_>>(), expected);
        assert_eq!(sources[1].code, "\n\nfn f() {}       \n");
        assert_eq!(sources[1].comments.trim(), "// why");
    }
}
