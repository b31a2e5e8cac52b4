//! The house rules that a machine can check: `cargo xtask tidy`.
//!
//! A rule may be broken where its reason does not hold, if that stands in [`EXCEPTIONS`]. An
//! exception names its size, so that it cannot grow; when it shrinks, the list must follow.

mod architecture;
mod book;
mod crates;
mod homes;
mod layers;
mod programs;
mod rust;
mod text;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sources::{File, sources};
use crate::{imports, ratchets};

/// The largest files are pictures.
const MOST_BYTES: u64 = 512 * 1024;

/// A broken rule that we live with.
struct Exception {
    rule: &'static str,
    path: &'static str,
    /// The sum of what the findings weigh: lines for a rule about length, else one for each.
    size: usize,
}

/// All of them. A comment at each says why.
const EXCEPTIONS: &[Exception] = &[
    // Puts a full file aside, and begins another.
    Exception { rule: "home", path: "crates/agent/src/record.rs", size: 1 },
    // Puts a file that cannot be read aside.
    Exception { rule: "home", path: "crates/gateway/src/lessons.rs", size: 1 },
    // Parquet files, which have a writer of their own, and each of which is new.
    Exception { rule: "home", path: "crates/meters/src/recording/parted.rs", size: 1 },
    Exception { rule: "home", path: "crates/meters/src/recording/parts.rs", size: 1 },
    // The mirror does not use `host`, and with it TLS and HTTP: simulations use the mirror.
    Exception { rule: "home", path: "crates/mirror/src/store.rs", size: 1 },
    Exception { rule: "home", path: "crates/mirror/src/store/blobs.rs", size: 1 },
    Exception { rule: "home", path: "crates/mirror/src/store/manifest.rs", size: 1 },
    // A moment on three clocks, as data: the sequence reads none of them.
    Exception { rule: "purity", path: "crates/agent/src/sequence.rs", size: 1 },
];

/// One breach of one rule.
#[derive(Debug, PartialEq)]
struct Finding {
    path: String,
    /// From 1.
    line: usize,
    rule: &'static str,
    /// Lines for a rule about length, else 1.
    weight: usize,
    /// What to do.
    advice: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.advice)
    }
}

/// `cargo xtask tidy`
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let root = root()?;
    let mut findings = Vec::new();
    let contents = std::fs::read_to_string(root.join("docs/SUMMARY.md"))?;
    let files = read(&root)?;
    for File { path, text } in &files {
        findings.extend(findings_in(path, text));
        findings.extend(book::check(path, text, &contents, |file| root.join(file).exists()));
    }
    for path in listed(&root)? {
        // A file that is deleted and not yet committed has no size.
        let bytes = std::fs::metadata(root.join(&path)).map_or(0, |it| it.len());
        findings.extend(too_large(&path.display().to_string(), bytes));
    }
    let packages = crates::read(&root)?;
    findings.extend(crates::check(&packages));
    findings.extend(crates::stale(&packages));
    findings.extend(programs::check(&files, &std::fs::read_to_string(root.join("tools/need"))?));
    findings.extend(rust::stale(files.iter().map(|file| file.path.as_str())));
    let sources = sources(&files);
    findings.extend(homes::check(&sources));
    let graph = imports::Graph::of(imports::LAYERED, &sources);
    findings.extend(layers::check(&graph));
    let page = std::fs::read_to_string(root.join(architecture::PAGE))?;
    findings.extend(architecture::check(&page, &packages, &graph.modules));
    let breaches = ratchets::check(&files, &sources, &root)?;
    findings.extend(breaches.into_iter().map(|ratchets::Place { path, line, text }| Finding {
        path,
        line,
        rule: "ratchet",
        weight: 1,
        advice: text,
    }));
    let left = without_exceptions(findings, EXCEPTIONS);
    for line in &left {
        println!("{line}");
    }
    match left.len() {
        0 => {
            println!("{} files are tidy", files.len());
            Ok(())
        }
        1 => Err("1 place is not tidy".into()),
        count => Err(format!("{count} places are not tidy").into()),
    }
}

/// `cargo xtask graph CRATE`
pub(crate) fn graph(name: &str) -> Result<(), Box<dyn Error>> {
    let sources = sources(&read(&root()?)?);
    if !imports::crates(&sources).contains(name) {
        return Err(format!("no crate `{name}` under crates/").into());
    }
    let graph = imports::Graph::of(name, &sources);
    print!("{}", imports::dot(&graph));
    eprint!("{name}: {}", imports::summary(&graph));
    Ok(())
}

/// `cargo xtask ratchets`
pub(crate) fn ratchets() -> Result<(), Box<dyn Error>> {
    ratchets::print(&read(&root()?)?);
    Ok(())
}

fn root() -> Result<PathBuf, Box<dyn Error>> {
    Ok(crate::manifest_dir().parent().ok_or("no folder above xtask")?.to_owned())
}

/// The texts of the repository.
fn read(root: &Path) -> Result<Vec<File>, Box<dyn Error>> {
    // Deleted and not yet committed, or a picture: neither is text.
    let texts = listed(root)?.into_iter().filter_map(|path| {
        let text = std::fs::read_to_string(root.join(&path)).ok()?;
        Some(File { path: path.display().to_string(), text })
    });
    Ok(texts.collect())
}

/// Every file that is in git or could be added to it.
fn listed(root: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let git = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("`git` lists the files and cannot be run: {error}"))?;
    if !git.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&git.stderr)).into());
    }
    let names = String::from_utf8(git.stdout)?;
    Ok(names.split_terminator('\0').map(PathBuf::from).collect())
}

/// Records of a run, logs and other data do not belong in the repository.
fn too_large(path: &str, bytes: u64) -> Option<Finding> {
    (bytes > MOST_BYTES).then(|| Finding {
        path: path.to_owned(),
        line: 1,
        rule: "file size",
        weight: 1,
        advice: format!("{bytes} bytes, {MOST_BYTES} at most: data and records are not committed"),
    })
}

fn findings_in(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("rs") => rust::check(path, text),
        Some("md" | "toml") => Vec::new(),
        _ => return Vec::new(),
    };
    findings.extend(text::check(path, text));
    findings
}

/// The findings that no exception covers, and the exceptions that are larger than need be.
fn without_exceptions(findings: Vec<Finding>, exceptions: &[Exception]) -> Vec<String> {
    let mut found: BTreeMap<(String, &str), Vec<Finding>> = BTreeMap::new();
    for finding in findings {
        found.entry((finding.path.clone(), finding.rule)).or_default().push(finding);
    }
    let mut left = Vec::new();
    for &Exception { rule, path, size } in exceptions {
        let covered = found.remove(&(path.to_owned(), rule)).unwrap_or_default();
        match covered.iter().map(|finding| finding.weight).sum::<usize>() {
            now if now == size => {}
            0 => left.push(format!(
                "{path}:1: {rule}: well done; remove its line from EXCEPTIONS in xtask/src/tidy.rs"
            )),
            now if now < size => left.push(format!(
                "{path}:1: {rule}: well done; lower its size in EXCEPTIONS in xtask/src/tidy.rs \
                 from {size} to {now}"
            )),
            _ => {
                found.insert((path.to_owned(), rule), covered);
            }
        }
    }
    left.extend(found.into_values().flatten().map(|finding| finding.to_string()));
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCEPTION: Exception = Exception { rule: "file length", path: "a.rs", size: 700 };

    fn long(weight: usize) -> Finding {
        let advice = "split it".to_owned();
        Finding { path: "a.rs".to_owned(), line: 1, rule: "file length", weight, advice }
    }

    #[test]
    fn an_exception_covers_what_it_was_made_for_and_no_more() {
        assert!(without_exceptions(vec![long(700)], &[EXCEPTION]).is_empty());
        let grown = without_exceptions(vec![long(701)], &[EXCEPTION]);
        assert_eq!(grown, ["a.rs:1: file length: split it"]);
    }

    #[test]
    fn an_exception_that_is_larger_than_need_be_must_go() {
        let shrunk = without_exceptions(vec![long(650)], &[EXCEPTION]);
        assert!(shrunk[0].contains("from 700 to 650"), "{shrunk:?}");
        let gone = without_exceptions(Vec::new(), &[EXCEPTION]);
        assert!(gone[0].contains("remove its line"), "{gone:?}");
    }

    #[test]
    fn a_record_of_a_run_is_too_large() {
        assert_eq!(too_large("docs/images/a.png", MOST_BYTES), None);
        let finding = too_large("week/access.log", MOST_BYTES + 1).unwrap();
        assert!(finding.to_string().starts_with("week/access.log:1: file size: 524289 bytes"));
    }

    #[test]
    fn only_texts_of_ours_are_looked_at() {
        assert_eq!(findings_in("README.md", "one \n").len(), 1);
        assert_eq!(findings_in("Makefile", "all:\n\ttrue \n"), []);
    }
}
