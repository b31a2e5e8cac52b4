//! What other processes do meanwhile: their energy is in what meters of the machine say.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use nightwatt_host::Host;
use nightwatt_host::proc_stat::{self, ProcStat};
use serde::Serialize;

/// Below this share of one CPU, the machine is as idle as machines are.
const IDLE: f64 = 0.1;

/// Others that use less than this share of the command's CPU time do not matter.
const BESIDE: f64 = 0.1;

/// Names that are told.
const MOST_NAMES: usize = 3;

/// A process, known by its number and when it started.
type Key = (u32, u64);

/// All processes, and the CPU time of each so far, in ticks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Processes(HashMap<Key, Process>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    command: String,
    parent: u32,
    ticks: u64,
    /// Of children that ended and were waited for.
    waited: u64,
}

/// What others used while a command ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Other {
    /// The name of these processes; none of those that ended meanwhile.
    pub command: Option<String>,
    /// Their CPU time, s.
    pub cpu_s: f64,
}

impl Processes {
    /// Those that there are now.
    pub fn read(host: &Host) -> Self {
        let folders = host.list("/proc").unwrap_or_default();
        let processes = folders.iter().filter_map(|folder| {
            let pid = folder.file_name()?.to_str()?.parse().ok()?;
            // It may be gone by now.
            let stat = proc_stat::read(folder).ok()?;
            let (begun, mut process) = Process::of(&stat)?;
            process.command = whole_name(folder, process.command);
            Some(((pid, begun), process))
        });
        Self(processes.collect())
    }

    /// CPU time since then of a process and of all that it and its children started.
    pub fn used_by(&self, before: &Self, pid: u32) -> Duration {
        let parents = self.parents();
        let its = self.0.iter().filter(|((process, _), _)| descends(&parents, *process, pid));
        let ticks = its.map(|(key, process)| {
            let all = |process: &Process| process.ticks + process.waited;
            all(process).saturating_sub(before.0.get(key).map_or(0, all))
        });
        Duration::from_secs_f64(seconds(ticks.sum()))
    }

    fn parents(&self) -> HashMap<u32, u32> {
        self.0.iter().map(|((pid, _), process)| (*pid, process.parent)).collect()
    }

    /// What those that are still there used since, by name; without our own, and what `ours` started.
    pub fn since(&self, before: &Self, ours: u32) -> Vec<Other> {
        let parents = self.parents();
        let mut by_name: HashMap<&str, u64> = HashMap::new();
        for (key, process) in &self.0 {
            if descends(&parents, key.0, ours) {
                continue;
            }
            let then = before.0.get(key).map_or(0, |process| process.ticks);
            *by_name.entry(&process.command).or_default() += process.ticks.saturating_sub(then);
        }
        let used = by_name.into_iter().filter(|(_, ticks)| *ticks > 0);
        let mut others: Vec<Other> = used
            .map(|(name, ticks)| Other { command: Some(name.to_owned()), cpu_s: seconds(ticks) })
            .collect();
        others.sort_by(|one, other| {
            other.cpu_s.total_cmp(&one.cpu_s).then_with(|| one.command.cmp(&other.command))
        });
        others
    }
}

/// The kernel keeps this many letters of a process's name.
const KEPT: usize = 15;

/// The name of a process whose folder this is, where the kernel has cut it: that of its program.
pub fn whole_name(folder: &Path, kept: String) -> String {
    if kept.len() < KEPT {
        return kept;
    }
    let line = std::fs::read(folder.join("cmdline")).unwrap_or_default();
    let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    if name.starts_with(&kept) { name.into_owned() } else { kept }
}

/// Is it this process, or one that it or its children started?
fn descends(parents: &HashMap<u32, u32>, pid: u32, from: u32) -> bool {
    let up = |pid: &u32| parents.get(pid).copied().filter(|parent| *parent > 1);
    // As deep as a tree of processes gets: it was read bit by bit, and may have a circle.
    std::iter::successors(Some(pid), up).take(64).any(|pid| pid == from)
}

impl Process {
    /// Of `/proc/PID/stat`: field 4 is the parent, 16 and 17 are ticks of its children, 22 is the start.
    fn of(stat: &str) -> Option<(u64, Self)> {
        let stat = ProcStat::of(stat)?;
        let (parent, begun) = (stat.field(4)?, stat.field(22)?);
        let (ticks, waited) = (stat.ticks()?, stat.field::<u64>(16)? + stat.field::<u64>(17)?);
        Some((begun, Self { command: stat.name.to_owned(), parent, ticks, waited }))
    }
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// All others, the busiest first; `all` is what the machine was busy beside the command. What is missing of it
/// has ended meanwhile.
pub fn with_ended(mut others: Vec<Other>, all: Duration) -> Vec<Other> {
    let known: f64 = others.iter().map(|other| other.cpu_s).sum();
    let ended = all.as_secs_f64() - known;
    if ended > 0.0 {
        let place = others.partition_point(|other| other.cpu_s >= ended);
        others.insert(place, Other { command: None, cpu_s: ended });
    }
    others
}

/// Did others use so much CPU time that a command's energy contains what is not its own?
pub fn are_busy(others_s: f64, command_s: f64, elapsed_s: f64) -> bool {
    others_s > BESIDE * command_s && others_s > IDLE / 2.0 * elapsed_s
}

/// The busiest of them: `0.91 s by rustc, 0.40 s by processes that ended meanwhile`.
pub fn busiest(others: &[Other]) -> String {
    let names = others.iter().take(MOST_NAMES).map(|other| {
        let name = other.command.as_deref().unwrap_or("processes that ended meanwhile");
        format!("{:.2} s by {name}", other.cpu_s)
    });
    names.collect::<Vec<_>>().join(", ")
}

/// How many CPUs were busy, in the mean.
pub struct Busy {
    host: Host,
    before: Option<Duration>,
}

impl Busy {
    /// Counts from now on.
    pub fn start(host: Host) -> Self {
        Self { before: super::busy(&host), host }
    }

    /// CPUs that were busy in the mean over this time since; `None` where the kernel does not say.
    pub fn over(&self, time: Duration) -> Option<f64> {
        let busy = super::busy(&self.host)?.saturating_sub(self.before?);
        (!time.is_zero()).then(|| busy.as_secs_f64() / time.as_secs_f64())
    }
}

/// What is to be said of an idle machine that was not idle.
pub fn idle_warning(busy_cpus: Option<f64>) -> Option<String> {
    let busy = busy_cpus.filter(|busy| *busy > IDLE)?;
    Some(format!(
        "the machine was not idle while its idle power was measured: {busy:.2} CPUs were busy. So \
         energy beyond idle is reported too low; stop other programs, and measure again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(command: &str, parent: u32, ticks: u64) -> Process {
        Process { command: command.to_owned(), parent, ticks, waited: 0 }
    }

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        // Fields numbered as in proc(5).
        let stat = "42 (a) b (c) S 7 42 42 0 -1 0 9 0 0 0 250 50 7 8 20 0 3 0 990 1 2 3";
        let read = Process { waited: 15, ..process("a) b (c", 7, 300) };
        assert_eq!(Process::of(stat), Some((990, read)));
        assert_eq!(Process::of("42 (a) S 7"), None);
    }

    #[test]
    fn a_name_that_the_kernel_has_cut_is_that_of_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let name = |line: &str, kept: &str| {
            std::fs::write(folder.path().join("cmdline"), line).unwrap();
            whole_name(folder.path(), kept.to_owned())
        };
        assert_eq!(name("/usr/lib/systemd-journald\0-x\0", "systemd-journal"), "systemd-journald");
        // It calls itself so.
        assert_eq!(name("/usr/bin/firefox\0", "Isolated Web Co"), "Isolated Web Co");
        assert_eq!(name("/usr/bin/makefile\0", "make"), "make");
        assert_eq!(name("", "kworker/u16:3-e"), "kworker/u16:3-e");
    }

    #[test]
    fn others_are_what_the_command_did_not_start() {
        let before = Processes(HashMap::from([
            ((10, 1), process("make", 1, 100)),
            // Its number is another's later.
            ((30, 1), process("old", 1, 900)),
        ]));
        let after = Processes(HashMap::from([
            ((10, 1), process("make", 1, 250)),
            ((11, 8), process("make", 10, 50)),
            ((30, 9), process("new", 1, 20)),
            ((5, 2), process("nightwatt", 1, 70)),
            ((40, 9), process("ours", 5, 400)),
            ((41, 9), process("ours", 40, 400)),
        ]));
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let other = |command: Option<&str>, count: f64| Other {
            command: command.map(str::to_owned),
            cpu_s: count / ticks,
        };
        let others = after.since(&before, 5);
        assert_eq!(others, [other(Some("make"), 200.0), other(Some("new"), 20.0)]);
        let all = with_ended(others, Duration::from_secs_f64(270.0 / ticks));
        let names: Vec<_> = all.iter().map(|other| other.command.as_deref()).collect();
        assert_eq!(names, [Some("make"), None, Some("new")]);
        assert!((all[1].cpu_s - 50.0 / ticks).abs() < 1e-6);
        // Its own 70, and 400 of each that it started.
        let ours = after.used_by(&before, 5).as_secs_f64();
        assert!((ours - 870.0 / ticks).abs() < 1e-6, "{ours}");
    }

    #[test]
    fn a_little_work_beside_is_every_machines() {
        // 2 % of a CPU beside a command that sleeps; a tenth of a CPU; a fifth of the command's time.
        assert!(!are_busy(0.1, 0.0, 5.0) && are_busy(0.5, 0.0, 5.0));
        assert!(are_busy(2.0, 10.0, 5.0) && !are_busy(0.9, 10.0, 5.0));
        assert!(idle_warning(Some(0.04)).is_none() && idle_warning(None).is_none());
        let warning = idle_warning(Some(0.82)).unwrap();
        assert!(warning.contains("0.82 CPUs were busy"), "{warning}");
        assert!(warning.contains("energy beyond idle is reported too low"), "{warning}");
    }
}
