//! What this machine is set to, and what it does, at the time of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::JoinHandle;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_host::files::field;
use nightwatt_meters::Host;
use nightwatt_meters::machine::others::{self, Processes};
use nightwatt_meters::machine::{self, Counts};

use super::error::Error;
use super::record::{Better, RunFigure};

const CPUS: &str = "/sys/devices/system/cpu";

/// Settings that make figures differ, as far as the machine tells them.
pub fn settings(host: &Host) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut note = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            all.insert(name.to_owned(), value);
        }
    };
    let read = |path: String| host.read(path).ok().map(|text| text.trim().to_owned());
    note("kernel", read("/proc/sys/kernel/osrelease".to_owned()));
    note("command line", read("/proc/cmdline".to_owned()));
    for (name, file) in [
        ("governor", "scaling_governor"),
        ("driver", "scaling_driver"),
        ("energy preference", "energy_performance_preference"),
        ("lowest frequency kHz", "scaling_min_freq"),
        ("highest frequency kHz", "scaling_max_freq"),
    ] {
        note(name, of_all_cpus(host, file));
    }
    let no_turbo = read(format!("{CPUS}/intel_pstate/no_turbo"));
    let no_turbo = no_turbo.map(|it| if it == "0" { "on" } else { "off" }.to_owned());
    let boost = read(format!("{CPUS}/cpufreq/boost"));
    let boost = boost.map(|it| if it == "1" { "on" } else { "off" }.to_owned());
    note("turbo", no_turbo.or(boost));
    note("simultaneous multithreading", read(format!("{CPUS}/smt/control")));
    note("idle governor", read(format!("{CPUS}/cpuidle/current_governor")));
    note(
        "clock source",
        read("/sys/devices/system/clocksource/clocksource0/current_clocksource".to_owned()),
    );
    note(
        "transparent huge pages",
        chosen(read("/sys/kernel/mm/transparent_hugepage/enabled".to_owned())),
    );
    let info = host.read("/proc/cpuinfo").unwrap_or_default();
    note("microcode", field(&info, "microcode"));
    let described = machine::describe(host);
    note("processor", Some(described.cpu.clone()));
    note("threads", Some(described.threads.to_string()));
    note("virtual machine", Some(if described.is_virtual { "yes" } else { "no" }.to_owned()));
    note("hottest zone °C", temperature(host).map(|it| format!("{it:.0}")));
    all
}

/// The values that CPUs have, each once.
fn of_all_cpus(host: &Host, file: &str) -> Option<String> {
    let values: BTreeSet<String> = machine::cpus(host)
        .iter()
        .filter_map(|cpu| host.read(format!("{CPUS}/cpu{cpu}/cpufreq/{file}")).ok())
        .map(|text| text.trim().to_owned())
        .collect();
    (!values.is_empty()).then(|| values.into_iter().collect::<Vec<_>>().join(", "))
}

/// `always [madvise] never` is `madvise`.
fn chosen(text: Option<String>) -> Option<String> {
    let text = text?;
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

fn temperature(host: &Host) -> Option<f64> {
    let zones = host.list("/sys/class/thermal").ok()?;
    let read = |zone: &std::path::PathBuf| {
        let text = std::fs::read_to_string(zone.join("temp")).ok()?;
        Some(text.trim().parse::<f64>().ok()? / 1000.0)
    };
    zones.iter().filter_map(read).reduce(f64::max)
}

/// Time between two looks at memory and load.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What the machine does from now on.
pub(crate) struct HostActivity {
    host: Host,
    before: Option<Counts>,
    /// Where what is measured descends from us.
    others: Option<CpuAtStart>,
    stop: Stop,
    looks: JoinHandle<UsageSamples>,
}

/// Means over time.
#[derive(Debug, Default)]
struct UsageSamples {
    memory: Vec<f64>,
    load: Vec<f64>,
}

impl UsageSamples {
    fn look(&mut self, host: &Host) {
        self.memory.extend(memory_used(host));
        self.load.extend(load(host));
    }
}

impl HostActivity {
    /// `is_ours`: all that is measured runs in processes that we start.
    pub(crate) fn begin(host: &Host, is_ours: bool) -> Result<Self, Error> {
        let cannot = |source| Error::System { what: "watch what the machine does", source };
        let stop = Stop::new().map_err(cannot)?;
        let (theirs, machine) = (stop.clone(), host.clone());
        let watch = move || {
            let mut looks = UsageSamples::default();
            let mut due = monotonic();
            while !theirs.is_stopped() {
                looks.look(&machine);
                due = due + LOOK_EVERY;
                theirs.wait_until(due);
            }
            looks
        };
        let looks = std::thread::Builder::new().name("doings".to_owned()).spawn(watch);
        let looks = looks.map_err(cannot)?;
        let busy = machine::busy(host).filter(|_| is_ours);
        let others = busy.map(|busy| CpuAtStart { busy, processes: Processes::read(host) });
        Ok(Self { host: host.clone(), before: Counts::read(host).ok(), others, stop, looks })
    }

    /// What it has done since, `time` ago.
    pub(crate) fn end(self, time: Duration) -> HostUsage {
        let after = Counts::read(&self.host).ok();
        let beside = self.others.as_ref().and_then(|others| CpuOfOthers::since(&self.host, others));
        self.stop.stop();
        let looks = self.looks.join().unwrap_or_default();
        let busy = after
            .zip(self.before)
            .map(|(after, before)| 100.0 * after.since(&before, time).utilisation);
        let mean = |values: &[f64]| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let most = looks.memory.iter().copied().reduce(f64::max);
        let all = [
            ("machine_busy", busy, "%"),
            ("load_average", mean(&looks.load), "1"),
            ("memory_used", mean(&looks.memory), "B"),
            ("memory_used_most", most, "B"),
            (OURS, beside.as_ref().map(|it| it.ours.as_secs_f64()), "s"),
            (OTHERS, beside.as_ref().map(|it| it.others.as_secs_f64()), "s"),
        ];
        let figure = |(name, value, unit): (&str, Option<f64>, &str)| {
            let (name, unit, better) = (name.to_owned(), unit.to_owned(), Better::Neither);
            Some(RunFigure { name, value: value?, unit, better })
        };
        let figures = all.into_iter().filter_map(figure).collect();
        let is_beside = beside.is_some_and(|it| it.is_much(time));
        HostUsage { figures, warning: is_beside.then(|| MACHINE_WAS_BUSY.to_owned()) }
    }
}

/// CPU time of a run's processes, and of all others meanwhile.
pub(crate) const OURS: &str = "command_cpu";
pub(crate) const OTHERS: &str = "others_cpu";

/// What is said of a run beside which the machine had other work.
pub(crate) const MACHINE_WAS_BUSY: &str = "the machine was busy: other processes used more than a tenth of the CPU time that \
     the run did, and their energy is in that of the run";

/// What the machine did in a run.
#[derive(Debug, Default)]
pub(crate) struct HostUsage {
    pub(crate) figures: Vec<RunFigure>,
    pub(crate) warning: Option<String>,
}

/// CPU time of the machine, and of each process, when a run began.
struct CpuAtStart {
    busy: Duration,
    processes: Processes,
}

/// CPU time of the run, and of others.
#[derive(Debug)]
struct CpuOfOthers {
    ours: Duration,
    others: Duration,
}

impl CpuOfOthers {
    fn since(host: &Host, before: &CpuAtStart) -> Option<Self> {
        let ours = Processes::read(host).used_by(&before.processes, std::process::id());
        let all = machine::busy(host)?.saturating_sub(before.busy);
        Some(Self { ours, others: all.saturating_sub(ours) })
    }

    fn is_much(&self, time: Duration) -> bool {
        let [others, ours, time] = [self.others, self.ours, time].map(|it| it.as_secs_f64());
        others::are_busy(others, ours, time)
    }
}

/// Threads that run, want to, or wait for a disk, less the one that asks: what the kernel's load average
/// is the mean of.
fn load(host: &Host) -> Option<f64> {
    let stat = host.read("/proc/stat").ok()?;
    let count = |name| -> Option<f64> {
        stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some((count("procs_running ")? - 1.0).max(0.0) + count("procs_blocked ")?)
}

/// Memory that is not available to new allocations.
fn memory_used(host: &Host) -> Option<f64> {
    let info = host.read("/proc/meminfo").ok()?;
    let kib = |name| field(&info, name)?.strip_suffix("kB")?.trim().parse::<f64>().ok();
    Some((kib("MemTotal")? - kib("MemAvailable")?) * 1024.0)
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

    #[test]
    fn settings_are_told_as_the_kernel_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(root, "/proc/stat", "cpu  1 1\ncpu0 1 1\ncpu1 1 1\n");
        put(root, "/proc/sys/kernel/osrelease", "6.1.0\n");
        put(root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
        put(root, "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n");
        put(root, "/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
        put(root, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        put(root, "/sys/class/thermal/thermal_zone0/temp", "41000\n");
        put(root, "/sys/class/thermal/thermal_zone1/temp", "57500\n");
        let settings = settings(&Host::at(root));
        for (name, value) in [
            ("kernel", "6.1.0"),
            ("governor", "performance, powersave"),
            ("turbo", "off"),
            ("transparent huge pages", "madvise"),
            ("hottest zone °C", "58"),
        ] {
            assert_eq!(settings.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!settings.contains_key("microcode"), "what is not told is not said");
    }

    #[test]
    fn load_is_who_runs_but_us_and_who_waits_for_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "/proc/stat", "cpu  1 1\nprocs_running 3\nprocs_blocked 2\n");
        assert_eq!(load(&Host::at(folder.path())), Some(4.0));
    }

    /// Memory grows while the run goes on, and is given back at its end.
    #[test]
    fn memory_of_a_run_is_what_was_used_while_it_went_on() {
        let folder = tempfile::tempdir().unwrap();
        let kib = |available: u64| format!("MemTotal: 1000 kB\nMemAvailable: {available} kB\n");
        put(folder.path(), "/proc/meminfo", &kib(900));
        let host = Host::at(folder.path());
        let mut looks = UsageSamples::default();
        looks.look(&host);
        put(folder.path(), "/proc/meminfo", &kib(500));
        looks.look(&host);
        put(folder.path(), "/proc/meminfo", &kib(900));
        assert_eq!(looks.memory, [102_400.0, 512_000.0]);
    }

    #[test]
    fn memory_in_use_is_what_cannot_be_had() {
        let folder = tempfile::tempdir().unwrap();
        put(
            folder.path(),
            "/proc/meminfo",
            "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\n",
        );
        assert_eq!(memory_used(&Host::at(folder.path())), Some(409_600.0));
    }
}
