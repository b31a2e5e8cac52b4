//! USDT probes in this very kernel: of a program of ours, and of the system's Python.
//!
//! Without root, `<sys/sdt.h>` (Debian: systemtap-sdt-dev) or that Python, each says
//! `skipped: <reason>`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nightwatt_probes::{ProbeError, ProbeSite, SectionProbes, Watch, function_entries};

/// The program.
struct Program(tempfile::TempDir);

impl Program {
    fn build(more: &[&str]) -> Option<Self> {
        let folder = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
        if [&folder, "/usr/include"].iter().all(|it| !Path::new(it).join("sys/sdt.h").exists()) {
            println!("skipped: there is no <sys/sdt.h> (Debian: systemtap-sdt-dev)");
            return None;
        }
        let program = Self(tempfile::tempdir().unwrap());
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/usdt.c");
        let mut compiler = Command::new("cc");
        let built =
            compiler.arg("-O2").args(more).arg(source).arg("-o").arg(program.path()).status();
        assert!(built.unwrap().success());
        Some(program)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("usdt")
    }

    fn probes(&self, probe: &str) -> Result<Vec<ProbeSite>, ProbeError> {
        probes(&self.path(), probe)
    }
}

fn probes(program: &Path, probe: &str) -> Result<Vec<ProbeSite>, ProbeError> {
    function_entries(&format!("{}:usdt:{probe}", program.display()).parse().unwrap())
}

/// The one that is meant.
fn probe(program: &Path, name: &str) -> ProbeSite {
    let mut found = probes(program, name).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    found.pop().unwrap()
}

/// A section from one to the other. None, with the reason told, where this kernel or user cannot.
fn watched(begin: &ProbeSite, end: &ProbeSite) -> Option<SectionProbes> {
    let mut probes = match SectionProbes::load(Watch::Children) {
        Ok(probes) => probes,
        Err(error @ (ProbeError::Denied { .. } | ProbeError::NoBtf | ProbeError::PidNamespace)) => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    probes.start().unwrap();
    probes.attach_end(0, end).unwrap();
    probes.attach_begin(0, begin).unwrap();
    Some(probes)
}

#[test]
fn what_lies_between_two_probes_is_a_section_wherever_the_compiler_has_put_them() {
    let Some(program) = Program::build(&[]) else { return };
    let begin = probe(&program.path(), "tests:work__start");
    let end = probe(&program.path(), "work__done");
    // It is built into `main` twice: what readelf counts.
    let notes = Command::new("readelf").arg("-n").arg(program.path()).output().unwrap();
    let notes = String::from_utf8(notes.stdout).unwrap();
    assert_eq!(begin.locations().count(), notes.matches("Name: work__start").count());
    assert!(begin.locations().count() > 1, "{begin:?}");
    let Some(mut probes) = watched(&begin, &end) else { return };
    assert!(Command::new(program.path()).arg("30").status().unwrap().success());
    let calls = probes.calls(0).unwrap();
    assert_eq!((calls.begun, calls.ended, calls.unbegun), (30, 30, 0));
    // A millisecond each, by the thread's own clock; a hypervisor may have had its share.
    let stolen = probes.usage().unwrap().stolen;
    assert!(calls.ran + stolen >= Duration::from_micros(29_700), "{:?}, {stolen:?}", calls.ran);
}

#[test]
fn a_program_that_asks_whether_anybody_looks_is_told_so() {
    let Some(program) = Program::build(&["-DSEMAPHORES"]) else { return };
    let begin = probe(&program.path(), "tests:work__start");
    let end = probe(&program.path(), "tests:work__done");
    assert!(begin.locations().chain(end.locations()).all(|it| it.semaphore.is_some()));
    let Some(probes) = watched(&begin, &end) else { return };
    assert!(Command::new(program.path()).arg("30").status().unwrap().success());
    assert_eq!(probes.calls(0).unwrap().ended, 30);
}

#[test]
fn a_file_whose_addresses_were_moved_has_its_probes_where_they_are_now() {
    let Some(program) = Program::build(&["-DSEMAPHORES"]) else { return };
    let before = program.probes("*").unwrap();
    // As prelink leaves it, seen from the other side: notes of a file that lay 64 KiB lower.
    let mut file = fs::read(program.path()).unwrap();
    let owner = b"stapsdt\0";
    let notes: Vec<usize> = (12..file.len() - 32)
        .filter(|&at| file[at..].starts_with(owner) && file[at - 12..at - 8] == [8, 0, 0, 0])
        .map(|at| at + 8)
        .collect();
    assert!(notes.len() >= 2);
    for word in notes.iter().flat_map(|note| [0, 8, 16].map(|word| note + word)) {
        let value = u64::from_le_bytes(file[word..word + 8].try_into().unwrap());
        let lower = value.wrapping_sub(0x1_0000);
        file[word..word + 8].copy_from_slice(&lower.to_le_bytes());
    }
    fs::write(program.path(), file).unwrap();
    assert_eq!(program.probes("*").unwrap(), before);
}

#[test]
fn whoever_asks_for_a_probe_that_is_not_there_is_told_those_that_are() {
    let Some(program) = Program::build(&[]) else { return };
    let error = program.probes("tests:nope").unwrap_err().to_string();
    assert!(
        error.contains("no USDT probe `tests:nope`; it has tests:work__done, tests:work__start"),
        "{error}"
    );
    let other = PathBuf::from("/bin/true");
    let error = probes(&other, "nope").unwrap_err().to_string();
    assert!(error.contains("it was built without any"), "{error}");
    assert_eq!(program.probes("work__*").unwrap().len(), 2);
}

/// Debian builds Python with its probes.
#[test]
fn collections_of_pythons_garbage_are_counted_one_by_one() {
    let python = Path::new("/usr/bin/python3.11");
    let Ok(begin) = probes(python, "python:gc__start") else {
        println!("skipped: there is no {} with probes (Debian: python3)", python.display());
        return;
    };
    let end = probe(python, "python:gc__done");
    let Some(probes) = watched(&begin[0], &end) else { return };
    // The interpreter collects a few times on its own account, as it begins and ends.
    let collections = |count: u32| {
        let script = format!("import gc; gc.disable(); [gc.collect() for _ in range({count})]");
        let before = probes.calls(0).unwrap();
        let status = Command::new(python).args(["-I", "-S", "-c", &script]).status().unwrap();
        assert!(status.success());
        let calls = probes.calls(0).unwrap();
        assert_eq!((calls.begun, calls.unbegun), (calls.ended, 0));
        calls.ended - before.ended
    };
    assert_eq!(collections(120) - collections(20), 100);
}
