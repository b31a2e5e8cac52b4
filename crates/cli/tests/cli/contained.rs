//! `nightwatt run` of commands whose work is done in another cgroup.

use std::fs;
use std::path::Path;

use nightwatt_needs::static_program;
use serde_json::Value;

use crate::harness::{can_probe, nightwatt};

/// A script of the shell that runs for so many hundredths of a second of CPU time, and prints how many the kernel has
/// counted for it.
fn burning(ticks: u32) -> String {
    format!(
        "while :; do i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done; read stat </proc/self/stat; \
         set -- ${{stat##*) }}; used=$(( ${{12}} + ${{13}} )); [ $used -ge {ticks} ] && break; done; echo ticks $used"
    )
}

/// What `run` has counted, and what the kernel has counted for the script itself, s.
struct Counted {
    ours: f64,
    kernels: f64,
    by: Value,
}

fn run(folder: &Path, command: &[&str]) -> Counted {
    let out = folder.join("run.json").display().to_string();
    let output = nightwatt(&[&["run", "--json", "-o", &out, "--"], command].concat());
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{printed}{said}");
    let ticks = printed.lines().find_map(|line| line.strip_prefix("ticks "));
    let ticks: f64 = ticks.unwrap_or_else(|| panic!("{printed}{said}")).trim().parse().unwrap();
    let report: Value = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    let time = |key: &str| report["runs"][0][key].as_f64().unwrap_or_else(|| panic!("{report}"));
    Counted {
        ours: time("user_s") + time("sys_s"),
        kernels: ticks / 100.0,
        by: report["share"]["by"].clone(),
    }
}

/// What a scope of systemd does: the work moves into a cgroup of its own.
#[test]
fn what_moves_into_another_cgroup_is_counted_to_2_percent_of_its_cpu_time() {
    if !can_probe() {
        return;
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let is_v2 = |line: &&str| line.split_whitespace().nth(2) == Some("cgroup2");
    let Some(mount) = mounts.lines().find(is_v2).and_then(|line| line.split_whitespace().nth(1))
    else {
        return println!("skipped: there are no cgroups of version 2");
    };
    let group = format!("{mount}/nightwatt-scope-{}", std::process::id());
    if let Err(error) = fs::create_dir(&group) {
        return println!("skipped: {group}: {error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = format!("(echo 0 > {group}/cgroup.procs || exit 1; {})", burning(200));
    let counted = run(folder.path(), &["sh", "-c", &script]);
    fs::remove_dir(&group).unwrap();
    let (ours, kernels) = (counted.ours, counted.kernels);
    // The kernel tells the script's time in ticks, and the shell's start is in ours alone.
    assert!((ours - kernels).abs() < 0.02 * kernels + 0.02, "{ours} of {kernels} s");
}

#[test]
fn a_container_of_podman_is_counted_to_2_percent_of_its_cpu_time() {
    let here = nightwatt_needs::programs(&["podman", "runc"]);
    let Some(busybox) = static_program("busybox").filter(|_| here) else { return };
    if !can_probe() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    for name in ["bin", "proc", "sys", "dev", "etc", "run", "tmp"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    fs::copy(busybox, root.join("bin/busybox")).unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (storage, state, scratch, root) = (at("storage"), at("run"), at("tmp"), at("root"));
    let engine = ["podman", "--root", &storage, "--runroot", &state, "--tmpdir", &scratch];
    let kind = ["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "runc"];
    let limits = ["--ulimit", "nofile=1000:1000", "--ulimit", "nproc=1000:1000"];
    let start = ["run", "--rm", "--network", "none"];
    let contained = |script: &str| {
        let shell = ["--rootfs", &root, "/bin/busybox", "sh", "-c", script];
        run(folder.path(), &[&engine[..], &kind, &start, &limits, &shell].concat())
    };
    // What podman itself needs is in both.
    let [idle, busy] = [0, 400].map(|ticks| contained(&burning(ticks)));
    assert_eq!(busy.by, "descendants");
    let (ours, kernels) = (busy.ours - idle.ours, busy.kernels - idle.kernels);
    // The engine's own time differs from run to run, by less than a tenth.
    let bound = 0.02 * kernels + 0.1 * idle.ours;
    assert!((ours - kernels).abs() < bound, "{ours} of {kernels} s, and {} s beside", idle.ours);
}
