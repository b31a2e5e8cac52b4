//! Describes this machine and what it does, as far as `/proc` and `/sys` show.

pub mod others;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nightwatt_energy::power_model::{Activity, Machine};
use nightwatt_energy::time::Mono;
use nightwatt_host::Host;
use nightwatt_host::files::{self, field};

use crate::battery;

/// Describes the machine. What it does not tell stays unknown.
pub fn describe(host: &Host) -> Machine {
    let info = host.read("/proc/cpuinfo").unwrap_or_default();
    let topology = topology(host);
    let threads = online(host).max(1);
    let number = |name: &str| field(&info, name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let dmi = |name: &str| host.read(format!("/sys/class/dmi/id/{name}")).ok();
    let board = host.read("/proc/device-tree/model").ok();
    Machine {
        cpu: field(&info, "model name").unwrap_or_default(),
        cpu_family: number("cpu family"),
        cpu_model: number("model"),
        sockets: topology.map_or(1, |(sockets, _)| sockets),
        cores: topology.map_or(threads, |(_, cores)| cores),
        threads,
        memory_bytes: memory(host).unwrap_or_default(),
        // x86 says it itself; elsewhere the firmware's names do.
        is_virtual: field(&info, "flags").is_some_and(|flags| has_word(&flags, "hypervisor"))
            || dmi("sys_vendor").is_some_and(|vendor| is_hypervisor(&vendor))
            || dmi("product_name").is_some_and(|product| is_hypervisor(&product)),
        chassis: dmi("chassis_type").and_then(|text| text.parse().ok()),
        has_battery: !battery::batteries(host).is_empty(),
        board: board.map(|board| board.trim_end_matches('\0').to_owned()),
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|it| it == word)
}

fn is_hypervisor(name: &str) -> bool {
    let name = name.to_lowercase();
    let known = ["qemu", "kvm", "vmware", "virtualbox", "xen", "virtual machine", "bochs", "cloud"];
    known.iter().any(|hypervisor| name.contains(hypervisor))
}

/// Packages and physical cores.
fn topology(host: &Host) -> Option<(u32, u32)> {
    let (mut packages, mut cores) = (BTreeSet::new(), BTreeSet::new());
    for cpu in host.list("/sys/devices/system/cpu").ok()? {
        let number = |name: &str| files::number(&cpu.join("topology").join(name));
        if let Some(package) = number("physical_package_id") {
            packages.insert(package);
            cores.insert((package, number("die_id"), number("core_id")));
        }
    }
    let count = |set: usize| u32::try_from(set).ok().filter(|count| *count > 0);
    Some((count(packages.len())?, count(cores.len())?))
}

/// Time that all threads were busy since boot; `None` where the kernel does not say. What a
/// hypervisor took for others counts as idle.
pub fn busy(host: &Host) -> Option<Duration> {
    let stat = host.read("/proc/stat").ok()?;
    let ticks: u64 = stat
        .lines()
        .filter(|line| is_thread(line))
        .filter_map(thread_times)
        .map(|(_, (busy, _))| busy)
        .sum();
    Some(Duration::from_millis(
        ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second(),
    ))
}

/// The numbers of the CPUs that the kernel schedules on.
pub fn cpus(host: &Host) -> Vec<usize> {
    let stat = host.read("/proc/stat").unwrap_or_default();
    let number = |line: &str| line.strip_prefix("cpu")?.split_whitespace().next()?.parse().ok();
    stat.lines().filter(|line| is_thread(line)).filter_map(number).collect()
}

/// Threads that the kernel schedules on: the lines `cpu0`, `cpu1`, ... of `/proc/stat`.
fn online(host: &Host) -> u32 {
    cpus(host).len().try_into().unwrap_or(u32::MAX)
}

fn is_thread(line: &str) -> bool {
    line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn memory(host: &Host) -> Option<u64> {
    let info = host.read("/proc/meminfo").ok()?;
    let kib = field(&info, "MemTotal")?;
    kib.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the machine has done since boot, to be compared with a later time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    /// Busy and all time of each thread, in ticks.
    threads: BTreeMap<String, (u64, u64)>,
    /// Time that each disk was busy, ms.
    disks: BTreeMap<String, u64>,
    /// Times that idle states were entered.
    wake_ups: u64,
}

impl Counts {
    /// What there is now.
    pub fn read(host: &Host) -> std::io::Result<Self> {
        let stat = host.read("/proc/stat")?;
        let threads = stat.lines().filter(|line| is_thread(line)).filter_map(thread_times);
        let disks = host.read("/proc/diskstats").unwrap_or_default();
        Ok(Self {
            threads: threads.collect(),
            disks: disks.lines().filter_map(|line| disk_time(host, line)).collect(),
            wake_ups: wake_ups(host),
        })
    }

    /// What the machine did since `before`, `time` ago. What has gone meanwhile is left out.
    pub fn since(&self, before: &Self, time: Duration) -> Activity {
        let busy = |(name, (busy, all)): (&String, &(u64, u64))| {
            let (busy_before, all_before) = before.threads.get(name)?;
            let all = all.checked_sub(*all_before).filter(|all| *all > 0)?;
            Some(busy.saturating_sub(*busy_before) as f64 / all as f64)
        };
        let busy: Vec<f64> = self.threads.iter().filter_map(busy).collect();
        let seconds = time.as_secs_f64().max(f64::MIN_POSITIVE);
        let disk = |(name, millis): (&String, &u64)| {
            let millis = millis.saturating_sub(*before.disks.get(name)?);
            Some((millis as f64 / 1000.0 / seconds).min(1.0))
        };
        Activity {
            disks_busy: self.disks.iter().filter_map(disk).sum(),
            wake_ups: self.wake_ups.saturating_sub(before.wake_ups) as f64 / seconds,
            ..Activity::of_threads(&busy)
        }
    }
}

/// `cpu0 user nice system idle iowait irq softirq steal guest guest_nice`.
fn thread_times(line: &str) -> Option<(String, (u64, u64))> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_owned();
    // `user` and `nice` include the guests already; stolen time went to other guests.
    let times: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let idle: u64 = [3, 4, 7].iter().filter_map(|&place| times.get(place)).sum();
    let all: u64 = times.iter().sum();
    Some((name, (all.checked_sub(idle)?, all)))
}

/// Milliseconds in which a whole disk was busy: the tenth figure behind its name.
fn disk_time(host: &Host, line: &str) -> Option<(String, u64)> {
    let mut words = line.split_whitespace().skip(2);
    let name = words.next()?;
    let virtual_ones = ["loop", "ram", "zram", "dm-", "md"];
    let is_whole = host.path(format!("/sys/block/{}", name.replace('/', "!"))).exists();
    if !is_whole || virtual_ones.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    Some((name.to_owned(), words.nth(9)?.parse().ok()?))
}

/// Times that any thread entered an idle state; 0 where the kernel does not count them.
fn wake_ups(host: &Host) -> u64 {
    let mut sum = 0_u64;
    for cpu in host.list("/sys/devices/system/cpu").unwrap_or_default() {
        for state in files::list(&cpu.join("cpuidle")).unwrap_or_default() {
            // POLL is no idle state: nothing is switched off.
            if files::read(&state.join("name")).is_ok_and(|name| name != "POLL") {
                let usage = files::number(&state.join("usage")).unwrap_or(0);
                sum = sum.saturating_add(usage.unsigned_abs());
            }
        }
    }
    sum
}

/// [`Counts`] with their time.
pub(crate) type Counted = (Mono, Counts);

#[cfg(test)]
mod tests {
    use crate::fixture::Fixture;

    use super::*;

    fn board() -> Fixture {
        let mut files = vec![
            ("/proc/cpuinfo".to_owned(), "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) E5-2660\nflags\t\t: fpu sse hypervisor\n".to_owned()),
            ("/proc/meminfo".to_owned(), "MemTotal:       24737396 kB\nMemFree: 1 kB".to_owned()),
            ("/proc/stat".to_owned(), "cpu  3 0 0 0\ncpu0 100 0 50 800 50 0 0 0 0 0\ncpu1 0 0 0 1000 0 0 0 0\nintr 5".to_owned()),
            ("/proc/diskstats".to_owned(), " 254 0 vda 1 2 3 4 5 6 7 8 0 500 12\n 254 1 vda1 1 2 3 4 5 6 7 8 0 900 12\n 7 0 loop0 1 2 3 4 5 6 7 8 0 900 12".to_owned()),
            ("/sys/block/vda/size".to_owned(), "1".to_owned()),
            ("/sys/block/loop0/size".to_owned(), "1".to_owned()),
        ];
        for cpu in 0..4 {
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
            files.push((format!("{folder}/topology/physical_package_id"), (cpu / 2).to_string()));
            // Cores of two packages have the same numbers.
            files.push((format!("{folder}/topology/core_id"), "0".to_owned()));
            files.push((format!("{folder}/cpuidle/state0/name"), "POLL".to_owned()));
            files.push((format!("{folder}/cpuidle/state0/usage"), "1000000".to_owned()));
            files.push((format!("{folder}/cpuidle/state1/name"), "C1".to_owned()));
            files.push((format!("{folder}/cpuidle/state1/usage"), "25".to_owned()));
        }
        let files: Vec<_> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        Fixture::of(&files)
    }

    #[test]
    fn a_machine_is_described_by_what_it_tells() {
        let machine = describe(&board().host);
        assert_eq!(machine.cpu, "Intel(R) Xeon(R) E5-2660");
        assert_eq!((machine.sockets, machine.cores, machine.threads), (2, 2, 2));
        assert_eq!(machine.memory_bytes, 24_737_396 * 1024);
        assert!(machine.is_virtual && !machine.has_battery);
        assert_eq!((machine.chassis, machine.board), (None, None));
    }

    #[test]
    fn a_machine_that_tells_nothing_is_one_thread() {
        let machine = describe(&Fixture::of(&[]).host);
        assert_eq!((machine.sockets, machine.cores, machine.threads), (1, 1, 1));
    }

    #[test]
    fn what_was_done_is_the_difference_of_two_times() {
        let board = board();
        let before = Counts::read(&board.host).unwrap();
        board.write(
            "/proc/stat",
            "cpu  3 0 0 0\ncpu0 130 0 70 850 50 0 0 0 0 0\ncpu1 0 0 0 1060 20 0 0 20\ncpu2 5 0 0 0",
        );
        board.write("/proc/diskstats", " 254 0 vda 1 2 3 4 5 6 7 8 0 750 12");
        board.write("/sys/devices/system/cpu/cpu0/cpuidle/state1/usage", "75");
        let after = Counts::read(&board.host).unwrap();
        let activity = after.since(&before, Duration::from_secs(1));
        // One thread was busy for 50 of 100 ticks, the other for none of 100 (20 were stolen from
        // it); the third has only just come.
        assert!((activity.utilisation - 0.25).abs() < 1e-12, "{activity:?}");
        assert!((activity.disks_busy - 0.25).abs() < 1e-12, "{activity:?}");
        assert!((activity.wake_ups - 50.0).abs() < 1e-12, "{activity:?}");
    }
}
