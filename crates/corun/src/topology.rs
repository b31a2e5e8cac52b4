//! Which CPUs there are, and which caches they share.

use nightwatt_host::Host;
use nightwatt_meters::machine;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::pure::placement::CpuCaches;

/// The CPUs that are online and that this process may use, with their caches. A cache that the kernel does not describe belongs to its CPU alone.
pub(crate) fn cpus(host: &Host, is_allowed: impl Fn(usize) -> bool) -> Vec<CpuCaches> {
    let cpu = |cpu: usize| CpuCaches {
        cpu: cpu as u32,
        l2: shared(host, cpu, "2").unwrap_or_else(|| cpu.to_string()),
        l3: shared(host, cpu, "3").unwrap_or_else(|| cpu.to_string()),
    };
    machine::cpus(host).into_iter().filter(|cpu| is_allowed(*cpu)).map(cpu).collect()
}

/// Whether the kernel lets this process run on a CPU: a cgroup or `taskset` may leave some out.
pub(crate) fn is_allowed() -> impl Fn(usize) -> bool {
    // Of more CPUs than fit, all are tried.
    let allowed = sched_getaffinity(None).ok();
    move |cpu| allowed.as_ref().is_none_or(|set| cpu < CpuSet::MAX_CPU && set.is_set(cpu))
}

/// The CPUs that share a cache of this level, as the kernel lists them.
fn shared(host: &Host, cpu: usize, level: &str) -> Option<String> {
    let caches = host.list(format!("/sys/devices/system/cpu/cpu{cpu}/cache")).ok()?;
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).ok();
    let is_it =
        |cache: &std::path::PathBuf| read(cache.join("level")).is_some_and(|it| it.trim() == level);
    let list = read(caches.into_iter().find(is_it)?.join("shared_cpu_list"))?;
    Some(list.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn caches_are_read_from_sysfs() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/stat", "cpu 1 2 3 4\ncpu0 1 2 3 4\ncpu2 1 2 3 4\nintr 5\n");
        for (index, level, list) in [(0, "1", "0"), (2, "2", "0,2"), (3, "3", "0-3")] {
            let folder = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
            write(&format!("{folder}/level"), &format!("{level}\n"));
            write(&format!("{folder}/shared_cpu_list"), &format!("{list}\n"));
        }
        let caches = |cpu, l2: &str, l3: &str| CpuCaches { cpu, l2: l2.into(), l3: l3.into() };
        let expected = [caches(0, "0,2", "0-3"), caches(2, "2", "2")];
        let host = Host::at(root.path());
        assert_eq!(cpus(&host, |_| true), expected, "CPU 1 is offline, CPU 2 has no caches");
        // A container with CPU 2 alone.
        assert_eq!(cpus(&host, |cpu| cpu == 2), expected[1..]);
    }

    #[test]
    fn this_process_may_use_the_cpus_that_nproc_counts() {
        // coreutils asks the same question by itself.
        let output = std::process::Command::new("nproc")
            .env_remove("OMP_NUM_THREADS")
            .env_remove("OMP_THREAD_LIMIT")
            .output()
            .unwrap();
        let count: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        let is_allowed = is_allowed();
        assert_eq!((0..CpuSet::MAX_CPU).filter(|cpu| is_allowed(*cpu)).count(), count);
    }
}
