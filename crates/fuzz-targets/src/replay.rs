//! Runs targets on the files in `fuzz/seeds`, as they are and cut short.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{TARGETS, find};

/// Runs the target on the empty input, and on each of its seeds: whole, and cut in a few places.
///
/// The last line printed names the input that failed.
pub(crate) fn seeds(name: &str) {
    let target = find(name).expect("the table has it");
    println!("no bytes");
    (target.run)(&[]);
    let files = entries(&seeds_folder().join(name));
    assert!(!files.is_empty(), "fuzz/seeds/{name} has no seeds: add some");
    for file in files {
        let seed = std::fs::read(&file).expect("a seed is a file that can be read");
        for length in lengths(seed.len()) {
            println!("{}, the first {length} of {} bytes", file.display(), seed.len());
            (target.run)(&seed[..length]);
        }
    }
}

/// Where a seed is cut: after its first byte, at each quarter, before its last byte, and not at all.
fn lengths(whole: usize) -> BTreeSet<usize> {
    let quarters = (1..4).map(|quarter| whole * quarter / 4);
    quarters.chain([1.min(whole), whole.saturating_sub(1), whole]).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn seeds_folder() -> PathBuf {
    root().join("fuzz/seeds")
}

/// What is in a folder, sorted; nothing if the folder does not exist.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(read) = folder.read_dir() else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        read.map(|entry| entry.expect("the folder can be listed").path()).collect();
    paths.sort();
    paths
}

/// The names of the entries of a folder, without their extensions.
fn stems(folder: &Path) -> Vec<String> {
    let stem = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    entries(folder).iter().filter_map(stem).collect()
}

#[test]
fn every_folder_of_seeds_names_a_target() {
    let folders = stems(&seeds_folder());
    let unknown: Vec<&String> = folders.iter().filter(|name| find(name).is_none()).collect();
    assert!(unknown.is_empty(), "no target has the name of these folders: {unknown:?}");
}

#[test]
fn every_file_of_a_target_is_in_the_table() {
    let files: BTreeSet<String> =
        stems(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/targets")).into_iter().collect();
    let table: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(files, table, "left: files in src/targets; right: rows in src/targets.rs");
}

#[test]
fn the_table_is_sorted_and_leaves_the_word_list_to_the_program() {
    assert!(TARGETS.is_sorted_by(|a, b| a.name < b.name));
    assert!(find("list").is_none());
}

#[test]
fn a_seed_is_cut_in_a_few_places() {
    assert_eq!(lengths(0), BTreeSet::from([0]));
    assert_eq!(lengths(1), BTreeSet::from([0, 1]));
    assert_eq!(lengths(100), BTreeSet::from([1, 25, 50, 75, 99, 100]));
}
