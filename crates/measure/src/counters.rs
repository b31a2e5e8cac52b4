//! What the kernel has counted: of the machine, of a network, of a process. Differences of these explain
//! what a connection costs.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use nightwatt_meters::Host;
use serde::{Deserialize, Serialize};

/// A counter of the kernel cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", path.display())]
pub struct CounterError {
    /// The file.
    pub path: PathBuf,
    /// Why not.
    pub source: io::Error,
}

const CPUS: &str = "/sys/devices/system/cpu";

/// Counters of the whole machine, since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// CPUs that are on.
    pub cpus: u64,
    /// Time that all CPUs together have been idle, in microseconds, counted in ticks of 10 ms. Idle states have
    /// finer ones, but a sleep is in those only when it is over.
    pub idle_us: u64,
    /// Entries into idle states, by state. What follows each is a transition from idle to active.
    pub idle_entries: BTreeMap<String, u64>,
    /// Transitions from idle to active by the tracepoint `power:cpu_idle`, if a probe counts them.
    #[serde(default)]
    pub traced_wake_ups: Option<u64>,
    /// Transitions from idle to active by a sampler of ours; none of the other figures has them.
    #[serde(skip)]
    pub sampler_wake_ups: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Softirqs by kind: `NET_RX`, `NET_TX`, `TIMER`.
    pub softirqs: BTreeMap<String, u64>,
    /// Switches from one task to another.
    pub context_switches: u64,
    /// CPU time in ticks of 10 ms, by kind: `user`, `softirq`, `steal`.
    pub ticks: BTreeMap<String, u64>,
}

/// Counters of a network namespace, since it was created.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Network {
    /// Of the card of the link.
    pub received_bytes: u64,
    /// Of the card of the link.
    pub received_frames: u64,
    /// Of the card of the link.
    pub sent_bytes: u64,
    /// Of the card of the link.
    pub sent_frames: u64,
    /// What the protocols count, as `Tcp.RetransSegs`.
    pub protocols: BTreeMap<String, u64>,
}

/// Counters of a process and its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Process {
    /// Time on a CPU, in nanoseconds. What the kernel does for others meanwhile, in a softirq, is in it.
    pub cpu_ns: u64,
    /// It waited for something.
    pub voluntary_switches: u64,
    /// Another was preferred.
    pub involuntary_switches: u64,
}

/// The kinds of CPU time, in the order of `/proc/stat`.
const TICKS: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

/// In which no CPU rests: it looks for work over and over.
pub(super) const POLL: &str = "POLL";

fn read(host: &Host, path: &str) -> Result<String, CounterError> {
    host.read(path).map_err(|source| CounterError { path: host.path(path), source })
}

impl Machine {
    /// Reads the counters.
    pub fn read(host: &Host) -> Result<Self, CounterError> {
        let stat = read(host, "/proc/stat")?;
        let mut all = Self::default();
        for line in stat.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(name) = words.next() else { continue };
            let mut numbers = words.map(|word| word.parse().unwrap_or(0));
            match name {
                "cpu" => all.ticks = TICKS.iter().map(|it| (*it).to_owned()).zip(numbers).collect(),
                "intr" => all.interrupts = numbers.next().unwrap_or(0),
                "ctxt" => all.context_switches = numbers.next().unwrap_or(0),
                _ if name.starts_with("cpu") => all.cpus += 1,
                _ => {}
            }
        }
        all.softirqs = by_kind(&read(host, "/proc/softirqs")?);
        all.idle(host);
        Ok(all)
    }

    fn idle(&mut self, host: &Host) {
        let cpus = host.list(CPUS).unwrap_or_default();
        let states = cpus.iter().flat_map(|cpu| host_list(cpu.join("cpuidle")));
        for state in states {
            let text = |file| std::fs::read_to_string(state.join(file)).ok();
            let number = |file| text(file)?.trim().parse::<u64>().ok();
            if let (Some(name), Some(usage)) = (text("name"), number("usage")) {
                *self.idle_entries.entry(name.trim().to_owned()).or_default() += usage;
            }
        }
        let tick = |name| self.ticks.get(name).copied().unwrap_or(0);
        self.idle_us = 10_000 * (tick("idle") + tick("iowait"));
    }

    /// What has been counted since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpus: self.cpus,
            idle_us: self.idle_us.saturating_sub(before.idle_us),
            idle_entries: difference(&self.idle_entries, &before.idle_entries),
            traced_wake_ups: self
                .traced_wake_ups
                .zip(before.traced_wake_ups)
                .map(|(now, then)| now.saturating_sub(then)),
            sampler_wake_ups: self.sampler_wake_ups.saturating_sub(before.sampler_wake_ups),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            softirqs: difference(&self.softirqs, &before.softirqs),
            context_switches: self.context_switches.saturating_sub(before.context_switches),
            ticks: difference(&self.ticks, &before.ticks),
        }
    }

    /// The same without the interrupts of a sampler that took `samples`, of which `idle` woke a CPU. How many a
    /// second there are depends on how fast a virtual machine's CPUs wake up, so idle does not have as many.
    #[must_use]
    pub fn without_sampler(mut self, samples: u64, idle: u64) -> Self {
        self.interrupts = self.interrupts.saturating_sub(samples);
        self.traced_wake_ups = self.traced_wake_ups.map(|all| all.saturating_sub(idle));
        self.sampler_wake_ups += idle;
        self
    }

    /// Transitions from idle to active; `None` where the kernel does not count them.
    pub fn wake_ups(&self) -> Option<u64> {
        let resting = self.idle_entries.iter().filter(|(name, _)| *name != POLL);
        let all =
            (!self.idle_entries.is_empty()).then(|| resting.map(|(_, count)| count).sum::<u64>());
        all.map(|all| all.saturating_sub(self.sampler_wake_ups))
    }

    /// CPU time that was not idle in so many seconds, of all CPUs together.
    pub fn busy_seconds(&self, seconds: f64) -> f64 {
        (self.cpus as f64 * seconds - 1e-6 * self.idle_us as f64).max(0.0)
    }
}

impl Network {
    /// Reads the counters of the network that a process is in.
    pub fn read(host: &Host, process: u32, card: &str) -> Result<Self, CounterError> {
        let file = |name: &str| read(host, &format!("/proc/{process}/net/{name}"));
        let mut all = Self::default();
        for line in file("dev")?.lines() {
            let Some((name, rest)) = line.split_once(':') else { continue };
            if name.trim() == card {
                let numbers: Vec<u64> =
                    rest.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
                let at = |place: usize| numbers.get(place).copied().unwrap_or(0);
                (all.received_bytes, all.received_frames) = (at(0), at(1));
                (all.sent_bytes, all.sent_frames) = (at(8), at(9));
            }
        }
        for name in ["snmp", "netstat"] {
            all.protocols.extend(pairs(&file(name)?));
        }
        Ok(all)
    }

    /// What has been counted since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            received_frames: self.received_frames.saturating_sub(before.received_frames),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            sent_frames: self.sent_frames.saturating_sub(before.sent_frames),
            protocols: difference(&self.protocols, &before.protocols),
        }
    }

    /// What its card has counted.
    pub const fn of_card(&self) -> [u64; 4] {
        [self.received_bytes, self.received_frames, self.sent_bytes, self.sent_frames]
    }

    /// What a protocol has counted: `Tcp.RetransSegs`.
    pub fn protocol(&self, name: &str) -> u64 {
        self.protocols.get(name).copied().unwrap_or(0)
    }
}

impl Process {
    /// Reads the counters.
    pub fn read(host: &Host, process: u32) -> Result<Self, CounterError> {
        let folder = format!("/proc/{process}/task");
        let told = |source| CounterError { path: host.path(&folder), source };
        let tasks = host.list(&folder).map_err(told)?;
        // One that has ended has used more than nothing.
        if tasks.is_empty() {
            return Err(told(std::io::ErrorKind::NotFound.into()));
        }
        let mut all = Self::default();
        for task in tasks {
            // A thread may end while we look.
            let text = |file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
            let on_cpu = text("schedstat");
            let first = on_cpu.split_ascii_whitespace().next();
            all.cpu_ns += first.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            for line in text("status").lines() {
                let Some((name, value)) = line.split_once(':') else { continue };
                let value = value.trim().parse::<u64>().unwrap_or(0);
                match name {
                    "voluntary_ctxt_switches" => all.voluntary_switches += value,
                    "nonvoluntary_ctxt_switches" => all.involuntary_switches += value,
                    _ => {}
                }
            }
        }
        Ok(all)
    }

    /// What has been counted since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(before.involuntary_switches),
        }
    }
}

fn host_list(folder: PathBuf) -> Vec<PathBuf> {
    // The paths are the host's already.
    Host::default().list(folder).unwrap_or_default()
}

fn difference(
    now: &BTreeMap<String, u64>,
    before: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let since = |(name, count): (&String, &u64)| {
        (name.clone(), count.saturating_sub(before.get(name).copied().unwrap_or(0)))
    };
    now.iter().map(since).collect()
}

/// `NET_RX:   1   2`, one number for each CPU, below a line that names these.
fn by_kind(text: &str) -> BTreeMap<String, u64> {
    let sum = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts = counts.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok());
        Some((name.trim().to_owned(), counts.sum()))
    };
    text.lines().filter_map(sum).collect()
}

/// Lines in pairs: `Tcp: A B` above `Tcp: 1 2`.
fn pairs(text: &str) -> BTreeMap<String, u64> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = BTreeMap::new();
    for pair in lines.chunks_exact(2) {
        let (Some((group, names)), Some((_, values))) =
            (pair[0].split_once(':'), pair[1].split_once(':'))
        else {
            continue;
        };
        let values = values.split_ascii_whitespace().map(str::parse::<u64>);
        for (name, value) in names.split_ascii_whitespace().zip(values) {
            // `MaxConn` is -1.
            all.extend(value.ok().map(|value| (format!("{group}.{name}"), value)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn machine(root: &Path, switches: u32, usage: u32, idle: u32) {
        let stat = format!(
            "cpu  10 0 5 {idle} 1 0 7 0 0 0\ncpu0 5 0 2 450 1 0 3 0\ncpu1 5 0 3 450 0 0 4 0\n\
             intr 100 1 2\nctxt {switches}\nbtime 5\n"
        );
        put(root, "/proc/stat", &stat);
        put(root, "/proc/softirqs", "   CPU0 CPU1\n  NET_RX:  7  8\n   TIMER:  1  2\n");
        for cpu in ["cpu0", "cpu1"] {
            for (state, name, time) in [("state0", "POLL", 5), ("state1", "C1", 2_000_000)] {
                let folder = format!("{CPUS}/{cpu}/cpuidle/{state}");
                put(root, &format!("{folder}/name"), &format!("{name}\n"));
                put(root, &format!("{folder}/usage"), &usage.to_string());
                put(root, &format!("{folder}/time"), &time.to_string());
            }
        }
    }

    #[test]
    fn a_machines_counters_are_read_as_the_kernel_writes_them() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::at(folder.path());
        machine(folder.path(), 40, 3, 900);
        let before = Machine::read(&host).unwrap();
        assert_eq!((before.cpus, before.interrupts, before.softirqs["NET_RX"]), (2, 100, 15));
        assert_eq!((before.idle_us, before.ticks["softirq"]), (9_010_000, 7));
        // A sleep goes on: the idle states do not have it yet.
        machine(folder.path(), 45, 10, 1300);
        let since = Machine::read(&host).unwrap().since(&before);
        assert_eq!((since.context_switches, since.interrupts), (5, 0));
        // Seven more of each state on two CPUs; who polls does not rest.
        assert_eq!((since.idle_entries["C1"], since.wake_ups()), (14, Some(14)));
        // Ten samples, of which four found an idle CPU: they are nothing that the machine did.
        let unsampled = Machine { interrupts: 25, traced_wake_ups: Some(9), ..since.clone() };
        let unsampled = unsampled.without_sampler(10, 4);
        assert_eq!((unsampled.interrupts, unsampled.wake_ups()), (15, Some(10)));
        assert_eq!(unsampled.traced_wake_ups, Some(5));
        // Two CPUs for three seconds, 4 s of it idle.
        assert!((since.busy_seconds(3.0) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn without_idle_states_wake_ups_are_unknown() {
        let folder = tempfile::tempdir().unwrap();
        machine(folder.path(), 0, 0, 900);
        fs::remove_dir_all(folder.path().join("sys")).unwrap();
        let machine = Machine::read(&Host::at(folder.path())).unwrap();
        assert_eq!((machine.idle_us, machine.wake_ups()), (9_010_000, None));
    }

    #[test]
    fn a_networks_counters_are_those_of_the_process_in_it() {
        let folder = tempfile::tempdir().unwrap();
        put(
            folder.path(),
            "/proc/7/net/dev",
            "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n \
             link0: 3000 2 0 0 0 0 0 0 500 4 0 0 0 0 0 0\n",
        );
        put(
            folder.path(),
            "/proc/7/net/snmp",
            "Ip: Forwarding\nIp: 1\nTcp: MaxConn OutSegs RetransSegs\nTcp: -1 12 3\n",
        );
        put(folder.path(), "/proc/7/net/netstat", "TcpExt: TCPTimeouts\nTcpExt: 2\n");
        let network = Network::read(&Host::at(folder.path()), 7, "link0").unwrap();
        assert_eq!((network.received_bytes, network.received_frames), (3000, 2));
        assert_eq!((network.sent_bytes, network.sent_frames), (500, 4));
        assert_eq!(
            (network.protocol("Tcp.RetransSegs"), network.protocol("TcpExt.TCPTimeouts")),
            (3, 2)
        );
        assert_eq!(network.protocol("Tcp.MaxConn"), 0, "no number of anything");
        let error = Network::read(&Host::at(folder.path()), 8, "link0").unwrap_err().to_string();
        assert!(error.contains("/proc/8/net/dev"), "{error}");
    }

    #[test]
    fn a_process_is_all_of_its_threads() {
        let folder = tempfile::tempdir().unwrap();
        for (task, cpu) in [(7, 1000), (8, 500)] {
            let at = format!("/proc/7/task/{task}");
            put(folder.path(), &format!("{at}/schedstat"), &format!("{cpu} 3 4\n"));
            let status = "Name: x\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n";
            put(folder.path(), &format!("{at}/status"), status);
        }
        let process = Process::read(&Host::at(folder.path()), 7).unwrap();
        let all = Process { cpu_ns: 1500, voluntary_switches: 10, involuntary_switches: 4 };
        assert_eq!(process, all);
    }
}
