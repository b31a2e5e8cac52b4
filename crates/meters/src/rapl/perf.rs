//! RAPL by perf: the PMU `power` in `/sys/bus/event_source/devices`. Linux:
//! `arch/x86/events/rapl.c`.
//!
//! Each package's counters are read through one of its CPUs, those in `cpumask`. The kernel adds the
//! registers up before they wrap.

use std::io;
use std::time::Duration;

use nightwatt_energy::integration::Reading;
use nightwatt_energy::wrapping_counter::CounterSpec;
use nightwatt_host::{Host, files};
use perf_event::events::Software;
use perf_event::{Builder, Counter};

use super::{ACCURACY, FASTEST, FoundCounters, most, refusal};
use crate::channel::{Channel, Scope};
use crate::error::MeterError;
use crate::meter::{Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::MeterSpec;

const FOLDER: &str = "/sys/bus/event_source/devices/power";

const HINT: &str = "run it as root, or give the program the right once and for all: `sudo setcap \
                    cap_perfmon+ep nightwatt`; or `sudo sysctl kernel.perf_event_paranoid=0`, which \
                    gives it to all";

/// Events, the names that powercap has for the same, and what they cover.
const EVENTS: [(&str, &str, Scope); 5] = [
    ("energy-pkg", "package", Scope::Package),
    ("energy-cores", "core", Scope::Core),
    ("energy-gpu", "uncore", Scope::Uncore),
    ("energy-ram", "dram", Scope::Dram),
    ("energy-psys", "psys", Scope::System),
];

/// What the kernel says of one counter.
struct Zone {
    name: String,
    scope: Scope,
    /// Number of the PMU, and of the event in it, as `perf_event_open` wants them.
    pmu: u32,
    config: u64,
    cpu: usize,
    joules_per_count: f64,
}

/// The counters that there are, packages before what is in them.
fn zones(host: &Host) -> Vec<Zone> {
    let read = |name: &str| host.read(format!("{FOLDER}/{name}")).ok();
    let Some(pmu) = read("type").and_then(|text| text.parse().ok()) else { return Vec::new() };
    let cpus = read("cpumask").map(|mask| cpu_list(&mask)).unwrap_or_default();
    let mut zones = Vec::new();
    for cpu in cpus {
        let package = host.path(format!("/sys/devices/system/cpu/cpu{cpu}/topology"));
        let package = files::number(&package.join("physical_package_id")).unwrap_or(0);
        for (event, name, scope) in EVENTS {
            let Some(config) = read(&format!("events/{event}")).and_then(|text| config(&text))
            else {
                continue;
            };
            let scale = read(&format!("events/{event}.scale")).and_then(|text| text.parse().ok());
            let unit = read(&format!("events/{event}.unit"));
            // A counter in another unit cannot be interpreted.
            let (Some(joules_per_count), Some("Joules")) = (scale, unit.as_deref()) else {
                continue;
            };
            let is_first = zones.iter().all(|zone: &Zone| zone.scope != Scope::System);
            let name = match scope {
                Scope::System if is_first => name.to_owned(),
                // The machine's is shown with every package.
                Scope::System => continue,
                _ => format!("{name}-{package}"),
            };
            // Several dies of a package would have one name: each says a part of it.
            let twins =
                zones.iter().filter(|zone: &&Zone| zone.name.split('.').next() == Some(&name));
            let name = match twins.count() {
                0 => name,
                number => format!("{name}.{number}"),
            };
            zones.push(Zone { name, scope, pmu, config, cpu, joules_per_count });
        }
    }
    zones
}

/// `event=0x02`.
fn config(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("event=0x")?, 16).ok()
}

/// `0,16-17`.
fn cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse().ok()?..=to.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

fn counter(zone: &Zone) -> io::Result<Counter> {
    let mut builder = Builder::new(Software::DUMMY);
    let attributes = builder.attrs_mut();
    (attributes.type_, attributes.config) = (zone.pmu, zone.config);
    // Such a PMU counts for all, and refuses to be asked for less.
    builder.any_pid().one_cpu(zone.cpu).include_kernel().include_hv();
    let mut counter = builder.build()?;
    counter.enable()?;
    Ok(counter)
}

/// The counters that count.
fn look(host: &Host) -> FoundCounters<Counter> {
    let mut found = FoundCounters::new();
    for zone in zones(host) {
        let counter = counter(&zone);
        let spec = CounterSpec {
            joules_per_count: zone.joules_per_count,
            // 2^64 counts are 4 J x 10^9: none has ever wrapped.
            range: None,
            most: most(zone.scope),
        };
        found.take(Channel::counter(zone.name, zone.scope, spec, ACCURACY), counter);
    }
    found.without_still(|counter| counter.read().ok())
}

fn presence(found: &FoundCounters<Counter>) -> Presence {
    found.presence(FOLDER, HINT, || format!("no energy events in {FOLDER}"))
}

pub(super) fn probe(host: &Host) -> Presence {
    presence(&look(host))
}

pub(super) fn open(host: &Host, spec: &MeterSpec) -> Opening {
    let found = look(host);
    if found.channels.is_empty() {
        return Err(refusal(spec.name(), presence(&found)));
    }
    let remarks = found.remarks(HINT);
    Ok(Box::new(Perf { channels: found.channels, counters: found.counters, remarks }))
}

struct Perf {
    channels: Vec<Channel>,
    counters: Vec<Counter>,
    remarks: Vec<String>,
}

impl Meter for Perf {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        Pace::Polled { fastest: FASTEST, usual: Duration::from_secs(1) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        for (channel, counter) in self.counters.iter_mut().enumerate() {
            match counter.read() {
                Ok(value) => out.push(channel, turn.now(), Reading::Counter(value)),
                Err(error) => out.fail(MeterError::reading(FOLDER, error)),
            }
        }
        Ok(())
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, read};

    /// What `/sys` shows on a machine with two packages, but for the PMU, which is `software`, so
    /// that this kernel counts: event 0 of it is the time on a CPU's clock, in ns.
    fn server() -> Fixture {
        let mut files = Vec::new();
        for (name, text) in [
            ("type", "1"),
            ("cpumask", "0-1"),
            ("events/energy-pkg", "event=0x00"),
            ("events/energy-pkg.scale", "1e-9"),
            ("events/energy-pkg.unit", "Joules"),
            ("events/energy-psys", "event=0x00"),
            ("events/energy-psys.scale", "1e-9"),
            ("events/energy-psys.unit", "Joules"),
            ("events/energy-ram", "event=0x00"),
            ("events/energy-ram.scale", "1e-9"),
            ("events/energy-ram.unit", "Furlongs"),
        ] {
            files.push((format!("{FOLDER}/{name}"), text));
        }
        for (cpu, package) in [(0, "0"), (1, "1")] {
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
            files.push((format!("{folder}/physical_package_id"), package));
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        Fixture::of(&files)
    }

    #[test]
    fn packages_have_counters_of_their_own_and_the_machine_has_one() {
        let zones = zones(&server().host);
        let named: Vec<_> = zones.iter().map(|zone| (zone.name.as_str(), zone.cpu)).collect();
        assert_eq!(named, [("package-0", 0), ("psys", 0), ("package-1", 1)]);
        assert_eq!(cpu_list("0,16-18,5"), [0, 16, 17, 18, 5]);
        assert_eq!(cpu_list("x"), [] as [usize; 0]);
        assert_eq!((config("event=0x02"), config("event=2,umask=1")), (Some(2), None));
    }

    #[test]
    fn the_kernels_counters_count_what_they_say() {
        let server = server();
        if !matches!(probe(&server.host), Presence::Available) {
            eprintln!("skipped: perf_event_open is not allowed here: {:?}", probe(&server.host));
            return;
        }
        // No powercap there: perf it is.
        let mut meter = server.open("rapl");
        let mut times = Vec::new();
        let mut shown = Vec::new();
        for _ in 0..2 {
            let before = nightwatt_clock::meter::monotonic();
            let Reading::Counter(count) = read(meter.as_mut())[0].1 else { panic!() };
            times.push((before, nightwatt_clock::meter::monotonic()));
            shown.push(count as f64 * 1e-9);
            // Work, so that there is time between the two.
            std::hint::black_box((0..20_000_000_u64).fold(0_u64, u64::wrapping_add));
        }
        // One joule a second: the two clocks agree about what lies between two readings.
        let least = times[1].0.since(times[0].1).as_secs_f64();
        let most = times[1].1.since(times[0].0).as_secs_f64();
        let counted = shown[1] - shown[0];
        assert!(least * 0.99 < counted && counted < most * 1.01, "{least} {counted} {most}");
    }

    /// As a guest under Firecracker shows it: `psys` in whole joules, and nothing ever counts.
    #[test]
    fn counters_that_stay_at_zero_are_no_meter() {
        let guest = |config: &str| {
            Fixture::of(&[
                (&format!("{FOLDER}/type"), "1"),
                (&format!("{FOLDER}/cpumask"), "0"),
                (&format!("{FOLDER}/events/energy-psys"), config),
                (&format!("{FOLDER}/events/energy-psys.scale"), "2.3283064365386962890625e-10"),
                (&format!("{FOLDER}/events/energy-psys.unit"), "Joules"),
            ])
        };
        // Event 9 of the PMU `software` is a dummy, which counts nothing; event 0 counts time.
        let (still, counting) = (guest("event=0x09"), guest("event=0x00"));
        if !matches!(probe(&counting.host), Presence::Available) {
            eprintln!("skipped: perf_event_open is not allowed here: {:?}", probe(&counting.host));
            return;
        }
        let Presence::Absent(why) = probe(&still.host) else { panic!("it is a meter") };
        assert!(why.contains("stay at zero"), "{why}");
        let error = crate::open(&still.host, &MeterSpec::of("rapl")).err().unwrap().to_string();
        assert!(error.contains("stay at zero"), "{error}");
    }

    #[test]
    fn a_machine_without_either_says_what_it_looked_for() {
        let nothing = Fixture::of(&[]);
        let error = crate::open(&nothing.host, &MeterSpec::of("rapl")).err().unwrap().to_string();
        assert!(
            error.contains("no intel-rapl zones") && error.contains("no energy events"),
            "{error}"
        );
        let strange = "rapl,by=magic".parse().unwrap();
        let error = crate::open(&nothing.host, &strange).err().unwrap().to_string();
        assert!(error.contains("`by` is `powercap` or `perf`"), "{error}");
    }
}
