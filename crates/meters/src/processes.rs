//! CPU time of the machine's processes, as `/proc/PID/stat` tells it.

use std::collections::HashMap;

use nightwatt_energy::attribution::User;
use nightwatt_host::Host;
use nightwatt_host::proc_stat::{self, ProcStat, ticks_time};

/// CPU time of each process so far. A number that is given to another process is another.
#[derive(Debug, Default)]
pub struct Processes {
    /// By number and time of start, in ticks since boot.
    ticks: HashMap<(u32, u64), u64>,
    /// Time of the look before, in ticks since boot; none before the first.
    last_read: Option<u64>,
}

struct Process {
    number: u32,
    name: String,
    started: u64,
    ticks: u64,
}

impl Processes {
    /// What each name used since the last look, names that used nothing included; nothing at the
    /// first. What ended meanwhile is not seen.
    pub fn look(&mut self, host: &Host) -> Vec<User> {
        let now = uptime(host);
        let mut used: HashMap<String, u64> = HashMap::new();
        let mut ticks = HashMap::with_capacity(self.ticks.len());
        for process in all(host) {
            let key = (process.number, process.started);
            let before = match (self.ticks.get(&key), self.last_read) {
                (Some(before), _) => *before,
                // All that it has used is of the time since the last look.
                (None, Some(last_read)) if process.started >= last_read => 0,
                // It was there and could not be read, or this is the first look.
                (None, _) => process.ticks,
            };
            *used.entry(process.name).or_default() += process.ticks.saturating_sub(before);
            ticks.insert(key, process.ticks);
        }
        let is_first = self.last_read.is_none();
        (self.ticks, self.last_read) = (ticks, Some(now));
        if is_first {
            return Vec::new();
        }
        let named = |(name, ticks)| User { name, used: ticks_time(ticks) };
        used.into_iter().map(named).collect()
    }
}

/// Ticks since boot.
fn uptime(host: &Host) -> u64 {
    let text = host.read("/proc/uptime").unwrap_or_default();
    let seconds: f64 =
        text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    (seconds * rustix::param::clock_ticks_per_second() as f64) as u64
}

fn all(host: &Host) -> impl Iterator<Item = Process> {
    let folder = host.path("/proc");
    std::fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        // It may have ended since.
        process(number, &proc_stat::read(&entry.path()).ok()?)
    })
}

fn process(number: u32, stat: &str) -> Option<Process> {
    let stat = ProcStat::of(stat)?;
    let (started, ticks) = (stat.field(22)?, stat.ticks()?);
    Some(Process { number, name: stat.name.to_owned(), started, ticks })
}

#[cfg(test)]
mod tests {
    use crate::fixture::Fixture;

    use super::*;

    fn stat(name: &str, user: u64, system: u64, started: u64) -> String {
        format!(
            "7 ({name}) S 1 7 7 0 -1 4194560 1 2 3 4 {user} {system} 8 9 20 0 1 0 {started} 5 6"
        )
    }

    #[test]
    fn time_is_that_since_the_last_look_whatever_becomes_of_numbers() {
        let ticks = rustix::param::clock_ticks_per_second();
        let host = Fixture::of(&[
            ("/proc/uptime", "100.00 7.0"),
            ("/proc/10/stat", &stat("we (are) one", 5 * ticks, ticks, 50)),
            ("/proc/11/stat", &stat("sleeper", 3, 4, 51)),
            ("/proc/self/stat", &stat("no number", 1, 1, 1)),
        ]);
        let mut processes = Processes::default();
        assert_eq!(processes.look(&host.host), []);
        host.write("/proc/uptime", "110.00 8.0");
        host.write("/proc/10/stat", &stat("we (are) one", 6 * ticks, 2 * ticks, 50));
        // Another process with the number of one that has gone, of the same name as the first.
        host.write("/proc/11/stat", &stat("we (are) one", ticks, 0, 105 * ticks));
        host.write("/proc/12/stat", &stat("child", 0, ticks, 109 * ticks));
        let mut used = processes.look(&host.host);
        used.sort_by(|one, other| one.name.cmp(&other.name));
        let used: Vec<_> = used.iter().map(|it| (it.name.as_str(), it.used.as_secs())).collect();
        assert_eq!(used, [("child", 1), ("we (are) one", 3)]);
    }

    #[test]
    fn a_line_that_is_none_is_left_out() {
        assert!(process(1, "1 (init").is_none() && process(1, "1 (init) S 1 2 3").is_none());
        assert!(process(1, "").is_none());
    }
}
