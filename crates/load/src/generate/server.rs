//! The server's side, where it runs on the same machine: CPU time and memory of a process with all
//! that it started, or of a cgroup.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::time::Mono;
use nightwatt_host::proc_stat::{self, ProcStat};
use serde::Serialize;

use super::WindowEdge;
use crate::error::Error;

/// What the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerIs {
    /// A process and those that it started, and they.
    Process(u32),
    /// All that is in a cgroup of version 2.
    Cgroup(PathBuf),
}

/// What the server used in the time that counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ServerReport {
    /// CPU time, s. Of processes: of those that were there at the end.
    pub cpu_s: f64,
    /// The same as processors that were busy with it: 1 is one of them all the time.
    pub processors: f64,
    /// Memory at the end, bytes: resident (shared parts counted with each process), or the cgroup's.
    pub memory_bytes: u64,
    /// Processes at the end.
    pub processes: usize,
}

/// Looks at the server at both ends of the time that counts.
#[derive(Debug)]
pub struct ServerWatch {
    server: ServerIs,
    /// `/proc`, but for tests.
    proc: PathBuf,
    begin: Option<(Mono, ServerUsage)>,
    end: Option<(Mono, ServerUsage)>,
}

/// CPU time so far by process, and memory.
#[derive(Debug, Default)]
struct ServerUsage {
    cpu: HashMap<u32, Duration>,
    memory: u64,
    processes: usize,
}

impl ServerWatch {
    /// Of a server that is there.
    pub fn new(server: ServerIs) -> Result<Self, Error> {
        Self::within(server, Path::new("/proc"))
    }

    fn within(server: ServerIs, proc: &Path) -> Result<Self, Error> {
        let watch = Self { server, proc: proc.to_owned(), begin: None, end: None };
        match (watch.usage(), watch.server) {
            (Some(_), server) => Ok(Self { server, proc: watch.proc, begin: None, end: None }),
            (None, ServerIs::Process(pid)) => Err(Error::NoServer(format!("process {pid}"))),
            (None, ServerIs::Cgroup(at)) => {
                Err(Error::NoServer(format!("cgroup {}", at.display())))
            }
        }
    }

    /// The time that counts begins or ends.
    pub fn at(&mut self, border: WindowEdge) {
        let usage = self.usage().map(|usage| (monotonic(), usage));
        match border {
            WindowEdge::Begin => self.begin = usage,
            WindowEdge::End => self.end = usage,
        }
    }

    /// What it used; `None` if it was not there at both ends.
    pub fn report(&self) -> Option<ServerReport> {
        let ((from, before), (to, after)) = (self.begin.as_ref()?, self.end.as_ref()?);
        let used = after.cpu.iter().map(|(process, now)| {
            // One that was not there before has used all of it since.
            now.saturating_sub(before.cpu.get(process).copied().unwrap_or_default())
        });
        let used: Duration = used.sum();
        let time = to.since(*from).as_secs_f64();
        Some(ServerReport {
            cpu_s: used.as_secs_f64(),
            processors: if time > 0.0 { used.as_secs_f64() / time } else { 0.0 },
            memory_bytes: after.memory,
            processes: after.processes,
        })
    }

    fn usage(&self) -> Option<ServerUsage> {
        match &self.server {
            ServerIs::Process(first) => family(&self.proc, *first),
            ServerIs::Cgroup(folder) => cgroup(folder),
        }
    }
}

/// What `/proc/PID/stat` says of a process.
struct Stat {
    parent: u32,
    ticks: u64,
    pages: u64,
}

fn stat(text: &str) -> Option<Stat> {
    let stat = ProcStat::of(text)?;
    Some(Stat { parent: stat.field(4)?, ticks: stat.ticks()?, pages: stat.field(24)? })
}

fn family(proc: &Path, first: u32) -> Option<ServerUsage> {
    let mut all: HashMap<u32, Stat> = HashMap::new();
    for entry in fs::read_dir(proc).ok()?.flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        // It may have ended since.
        let text = proc_stat::read(&entry.path()).unwrap_or_default();
        if let Some((number, stat)) = number.zip(stat(&text)) {
            all.insert(number, stat);
        }
    }
    all.get(&first)?;
    let mut members = vec![first];
    let mut next = 0;
    while let Some(parent) = members.get(next).copied() {
        let children = all.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| *pid);
        let children: Vec<u32> = children.filter(|child| !members.contains(child)).collect();
        members.extend(children);
        next += 1;
    }
    let mut usage = ServerUsage { processes: members.len(), ..ServerUsage::default() };
    let tick = rustix::param::clock_ticks_per_second();
    for member in members {
        let Some(stat) = all.get(&member) else { continue };
        usage.cpu.insert(member, Duration::from_millis(stat.ticks * 1000 / tick));
        usage.memory += stat.pages * rustix::param::page_size() as u64;
    }
    Some(usage)
}

fn cgroup(folder: &Path) -> Option<ServerUsage> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let stat = read("cpu.stat")?;
    let used = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    let used = Duration::from_micros(used.trim().parse().ok()?);
    Some(ServerUsage {
        cpu: HashMap::from([(0, used)]),
        // Without the cgroup's memory controller the memory is unknown.
        memory: read("memory.current").and_then(|text| text.trim().parse().ok()).unwrap_or(0),
        processes: read("cgroup.procs").map_or(0, |text| text.lines().count()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pid: u32, name: &str, parent: u32, ticks: u64, pages: u64) -> String {
        format!(
            "{pid} ({name}) S {parent} 1 1 0 -1 4194560 9 0 0 0 {ticks} 5 7 7 20 0 1 0 99 1000 {pages} 0"
        )
    }

    #[test]
    fn a_process_is_its_children_too_and_nobody_elses() {
        let proc = tempfile::tempdir().unwrap();
        let put = |pid: u32, name: &str, parent, ticks| {
            fs::create_dir_all(proc.path().join(pid.to_string())).unwrap();
            let stat = proc.path().join(pid.to_string()).join("stat");
            fs::write(stat, line(pid, name, parent, ticks, 10)).unwrap();
        };
        let tick = rustix::param::clock_ticks_per_second();
        let begin = |ticks| {
            put(10, "nginx: master", 1, 0);
            put(11, "odd) S 1 (name", 10, ticks);
            put(12, "other", 1, ticks);
        };
        begin(0);
        let mut watch = ServerWatch::within(ServerIs::Process(10), proc.path()).unwrap();
        watch.at(WindowEdge::Begin);
        begin(2 * tick);
        put(13, "grandchild", 11, tick - 5);
        watch.at(WindowEdge::End);
        let report = watch.report().unwrap();
        // Two seconds of the child and one, with the 5 ticks of the kernel, of the grandchild.
        assert!((report.cpu_s - 3.0).abs() < 0.02, "{report:?}");
        assert_eq!(report.processes, 3);
        assert_eq!(report.memory_bytes, 30 * rustix::param::page_size() as u64);
        assert!(ServerWatch::within(ServerIs::Process(99), proc.path()).is_err());
    }

    #[test]
    fn a_cgroup_says_what_all_in_it_used() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        assert!(ServerWatch::new(ServerIs::Cgroup(folder.path().to_owned())).is_err());
        put("cpu.stat", "usage_usec 500000\nuser_usec 1\n");
        let mut watch = ServerWatch::new(ServerIs::Cgroup(folder.path().to_owned())).unwrap();
        watch.at(WindowEdge::Begin);
        put("cpu.stat", "usage_usec 1750000\nuser_usec 1\n");
        put("memory.current", "4096\n");
        put("cgroup.procs", "1\n2\n");
        watch.at(WindowEdge::End);
        let report = watch.report().unwrap();
        assert!((report.cpu_s - 1.25).abs() < 1e-9, "{report:?}");
        assert_eq!((report.memory_bytes, report.processes), (4096, 2));
    }
}
