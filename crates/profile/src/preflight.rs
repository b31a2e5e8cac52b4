//! What `caliper`, `disk` and `tcp where` need of this machine, before they start anything.

use std::ffi::OsString;

use nightwatt_host::Host;
use nightwatt_host::preflight::Preflight;
use nightwatt_probes::{Point, ProbeError, function_entries, resolve_file};

use crate::caliper::{CaliperOptions, SectionSpec, Target};
use crate::kernel_time::KernelTimeOptions;

/// Numbers of capabilities, as in `linux/capability.h`.
const SYS_ADMIN: u32 = 21;
const SYSLOG: u32 = 34;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

/// From this release of the kernel on, eBPF programs of ours need `CAP_SYS_ADMIN` too.
const STRICT: (u32, u32) = (6, 16);

/// What `disk` lacks.
pub fn of_disk(host: &Host) -> Vec<String> {
    let mut flight = Preflight::default();
    probes(&mut flight, host);
    flight.missing()
}

/// What `caliper` lacks: rights and what the kernel offers, and if any is missing also programs and processes that it
/// names. (Otherwise the command itself reports those, with the exit status that scripts expect.)
pub fn of_caliper(options: &CaliperOptions, is_sampled: bool, host: &Host) -> Vec<String> {
    let rights = of_the_kernel(is_sampled, host);
    if rights.is_empty() {
        return rights;
    }
    with_what_is_named(rights, options, host, |point| resolve_file(&point.program).map(drop))
}

/// What `caliper` lacks, with all places, programs and processes that it names and that are not there.
pub fn all_of_caliper(options: &CaliperOptions, is_sampled: bool, host: &Host) -> Vec<String> {
    let rights = of_the_kernel(is_sampled, host);
    with_what_is_named(rights, options, host, |point| function_entries(point).map(drop))
}

/// What `tcp where` lacks, with programs and processes that it names and that are not there.
pub fn all_of_kernel_time(options: &KernelTimeOptions, host: &Host) -> Vec<String> {
    let mut flight = Preflight::default();
    samples(&mut flight, host);
    names_of_the_kernel(&mut flight, host);
    command(&mut flight, options.command.as_deref().unwrap_or_default());
    processes(&mut flight, &options.processes, host);
    flight.missing()
}

/// Rights, and what the kernel offers.
fn of_the_kernel(is_sampled: bool, host: &Host) -> Vec<String> {
    let mut flight = Preflight::default();
    if is_sampled {
        samples(&mut flight, host);
    } else {
        probes(&mut flight, host);
        flight.file(
            "/sys/bus/event_source/devices/uprobe",
            "use a kernel with CONFIG_UPROBE_EVENTS=y",
        );
    }
    flight.missing()
}

/// These, and what `look` does not find of what the options name.
fn with_what_is_named(
    rights: Vec<String>,
    options: &CaliperOptions,
    host: &Host,
    look: impl Fn(&Point) -> Result<(), ProbeError>,
) -> Vec<String> {
    let mut flight = Preflight::default();
    for what in rights {
        flight.note(what);
    }
    for point in options.sections.iter().flat_map(points) {
        if let Err(error) = look(point) {
            flight.note(error.to_string());
        }
    }
    match &options.target {
        Target::Command(words) => command(&mut flight, words),
        Target::Processes(pids) => processes(&mut flight, pids, host),
        Target::Everything => {}
    }
    flight.missing()
}

fn command(flight: &mut Preflight, words: &[OsString]) {
    if let Some(program) = words.first() {
        flight.program(&program.to_string_lossy(), "install it, or give its path");
    }
}

fn processes(flight: &mut Preflight, pids: &[u32], host: &Host) {
    for pid in pids.iter().filter(|pid| !host.has(format!("/proc/{pid}"))) {
        flight.note(format!("the process {pid}: `ps` lists processes"));
    }
}

fn points(section: &SectionSpec) -> Vec<&Point> {
    match section {
        SectionSpec::Function(point) => vec![point],
        SectionSpec::Between(begin, end) => vec![begin, end],
    }
}

/// What eBPF programs need.
fn probes(flight: &mut Preflight, host: &Host) {
    flight.capability("CAP_BPF", &[BPF, SYS_ADMIN]);
    flight.capability("CAP_PERFMON", &[PERFMON, SYS_ADMIN]);
    let release = host.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    if version(&release).is_some_and(|version| version >= STRICT) {
        flight.capability("CAP_SYS_ADMIN", &[SYS_ADMIN]);
    }
    let advice = "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as Debian's are";
    flight.file("/sys/kernel/btf/vmlinux", advice);
}

/// What samples need, unless the kernel lets all users take them.
fn samples(flight: &mut Preflight, host: &Host) {
    if level(host, "perf_event_paranoid") > 0 {
        flight.capability("CAP_PERFMON", &[PERFMON, SYS_ADMIN]);
    }
}

/// What the addresses in `/proc/kallsyms` need.
fn names_of_the_kernel(flight: &mut Preflight, host: &Host) {
    match level(host, "kptr_restrict") {
        0 if level(host, "perf_event_paranoid") <= 1 => {}
        0 | 1 => flight.capability("CAP_SYSLOG", &[SYSLOG]),
        _ => flight.note(
            "names of the kernel's functions: `sysctl kernel.kptr_restrict=1` shows them to root",
        ),
    }
}

/// A setting of the kernel; 0 if it cannot be read.
fn level(host: &Host, name: &str) -> i32 {
    let text = host.read(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// The first two numbers of a release, such as `6.18.15+deb13`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's `kallsyms_show_value`: addresses are for all where `perf` is for all, else by `CAP_SYSLOG`.
    #[test]
    fn names_of_the_kernel_need_what_the_kernel_asks_for() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::at(folder.path());
        let settings = folder.path().join("proc/sys/kernel");
        std::fs::create_dir_all(&settings).unwrap();
        let missing = |restrict: &str, paranoid: &str| {
            std::fs::write(settings.join("kptr_restrict"), restrict).unwrap();
            std::fs::write(settings.join("perf_event_paranoid"), paranoid).unwrap();
            let mut flight = Preflight::default();
            names_of_the_kernel(&mut flight, &host);
            flight.missing().join(" ")
        };
        assert_eq!(missing("0\n", "1\n"), "");
        assert!(missing("2\n", "1\n").contains("kernel.kptr_restrict=1"));
        // As root, nothing is missing.
        let is_syslog = |text: &str| text.is_empty() || text.contains("CAP_SYSLOG");
        let strict = missing("0\n", "2\n");
        assert!(is_syslog(&strict) && strict == missing("1\n", "-1\n"), "{strict}");
    }

    #[test]
    fn releases_are_compared_by_their_numbers() {
        assert!(version("6.18.15+deb13-cloud-amd64\n") >= Some(STRICT));
        assert!(version("6.9.1") < Some(STRICT));
        assert_eq!(version("linux"), None);
    }
}
