//! Figures of this process from the kernel, with the names that Prometheus's own clients use.

use std::path::Path;

use nightwatt_host::proc_stat::{self, ProcStat};
use nightwatt_report::exposition::{Exposition, Family, MetricKind};

/// `/proc` counts processor time in hundredths of a second, whatever the kernel's own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

/// A figure of this process; omitted without `/proc`.
struct Figure {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    read: fn() -> Option<f64>,
}

const FIGURES: [Figure; 5] = [
    Figure {
        name: "process_cpu_seconds_total",
        kind: MetricKind::Counter,
        help: "Processor time that the proxy has used, in seconds.",
        read: cpu_seconds,
    },
    Figure {
        name: "process_resident_memory_bytes",
        kind: MetricKind::Gauge,
        help: "Memory of the proxy that is resident, in bytes.",
        read: || status_field("VmRSS:").map(|kib| kib * 1024.0),
    },
    Figure {
        name: "process_threads",
        kind: MetricKind::Gauge,
        help: "Threads of the proxy.",
        read: || status_field("Threads:"),
    },
    Figure {
        name: "process_open_fds",
        kind: MetricKind::Gauge,
        help: "Descriptors that the proxy has open.",
        read: open_fds,
    },
    Figure {
        name: "process_max_fds",
        kind: MetricKind::Gauge,
        help: "Descriptors that the proxy may have open.",
        read: max_fds,
    },
];

pub(super) fn write(page: &mut Exposition) {
    for Figure { name, kind, help, read } in FIGURES {
        if let Some(value) = read() {
            page.single(Family { name, kind, labels: &[], help }, value);
        }
    }
}

fn proc_file(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/self/{name}")).ok()
}

fn cpu_seconds() -> Option<f64> {
    let stat = proc_stat::read(Path::new("/proc/self")).ok()?;
    Some(ProcStat::of(&stat)?.ticks()? as f64 / TICKS_PER_SECOND)
}

fn status_field(name: &str) -> Option<f64> {
    let status = proc_file("status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn open_fds() -> Option<f64> {
    // The descriptor of the listing is open too.
    let listed = std::fs::read_dir("/proc/self/fd").ok()?.count();
    Some(listed.saturating_sub(1) as f64)
}

fn max_fds() -> Option<f64> {
    let limits = proc_file("limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_threads_and_descriptors() {
        if !std::path::Path::new("/proc/self/stat").exists() {
            println!("skipped: no /proc");
            return;
        }
        for figure in FIGURES {
            let value = (figure.read)().unwrap_or_else(|| panic!("no {}", figure.name));
            assert!(value > 0.0 || figure.name.starts_with("process_cpu"), "{}", figure.name);
        }
    }
}
