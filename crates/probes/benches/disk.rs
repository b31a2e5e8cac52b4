//! What watching disks costs programs that compile, search, compress and write, in one run.
//!
//! `make bench-disk`. Needs root. CPU time is the programs' own with all they start, the kernel's on
//! their behalf included; the least of several runs in turn, since whatever else runs here only adds.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use nightwatt_probes::DiskProbes;
use wait4::Wait4;

const ROUNDS: usize = 7;

/// Name, what a shell runs for it.
const WORKS: [(&str, &str); 4] = [
    (
        "compile (gcc -O1, a file each of 40)",
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40; do gcc -O1 -c source.c -o object$i.o; done",
    ),
    (
        "search (grep, 128 MB)",
        "for i in 1 2 3 4 5 6 7 8; do grep -c 'no.*such.*thing' text >/dev/null; done; true",
    ),
    ("compress (bzip2, 16 MB)", "bzip2 -k -f text16"),
    ("copy (cp, 512 MB): nothing but writing", "for i in 1 2 3 4; do cp text text$i; done"),
];

fn main() {
    // Where the project's builds go is a disk; temporary files may be in memory.
    let folder = tempfile::tempdir_in(env!("OUT_DIR")).expect("a folder");
    prepare(folder.path());
    println!("| work | CPU time, s | watched | |\n|---|---|---|---|");
    for (name, work) in WORKS {
        let (mut without, mut with) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..ROUNDS {
            without = without.min(run(folder.path(), work));
            let mut probes = DiskProbes::load().expect("it loads");
            probes.start().expect("it attaches");
            with = with.min(run(folder.path(), work));
        }
        let more = 100.0 * (with / without - 1.0);
        println!("| {name} | {without:.3} | {with:.3} | {more:+.1} % |");
    }
}

/// A source file of some size, and text that hardly repeats.
fn prepare(folder: &Path) {
    let mut source = String::new();
    for number in 0..300 {
        let _ = writeln!(
            source,
            "int f{number}(int n) {{ int s = 0; for (int i = 0; i < n; i++) s += i * {number} ^ s; return s; }}"
        );
    }
    fs::write(folder.join("source.c"), source).expect("it can be written");
    let mut text = String::new();
    let mut state = 1_u64;
    while text.len() < 16 << 20 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let _ = writeln!(text, "{:x} something {:o}", state >> 20, state >> 40);
    }
    fs::write(folder.join("text16"), &text).expect("it can be written");
    fs::write(folder.join("text"), text.repeat(8)).expect("it can be written");
}

fn run(folder: &Path, work: &str) -> f64 {
    let mut command = Command::new("sh");
    let child = command.args(["-c", work]).current_dir(folder).spawn();
    let waited = child.expect("sh runs").wait4().expect("it ends");
    assert!(waited.status.success(), "{work}");
    (waited.rusage.utime + waited.rusage.stime).as_secs_f64()
}
