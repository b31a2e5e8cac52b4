//! What reading five energy counters costs: the sampler beside a bare loop of `pread` and
//! `clock_nanosleep`, each in a process of its own, in turn. CPU time and wake-ups (voluntary context
//! switches) are those of the whole process, from `getrusage`.
//!
//! `nightwatt-bench-meters [SECONDS]`; `make bench-meters`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_meters::sampler::{Opened, Sampler, Sink};
use nightwatt_meters::{Host, MeterSpec};
use nix::sys::resource::{UsageWho, getrusage};
use rustix::thread::{ClockId, clock_nanosleep_absolute};

type Anything<T> = Result<T, Box<dyn std::error::Error>>;

const ZONES: [(&str, &str); 5] = [
    ("intel-rapl:0", "package-0"),
    ("intel-rapl:0:0", "core"),
    ("intel-rapl:0:1", "uncore"),
    ("intel-rapl:0:2", "dram"),
    ("intel-rapl:1", "psys"),
];

const ROUNDS: usize = 3;

fn main() -> Anything<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bare", tree, millis, seconds] => bare(tree, millis.parse()?, seconds.parse()?),
        ["sampler", tree, millis, seconds] => sampler(tree, millis.parse()?, seconds.parse()?),
        [] => compare(10),
        [seconds] => compare(seconds.parse()?),
        _ => Err("usage: nightwatt-bench-meters [SECONDS]".into()),
    }
}

fn counter(tree: &str, zone: &str) -> String {
    format!("{tree}/sys/class/powercap/{zone}/energy_uj")
}

/// The least that reads five counters at that rate.
fn bare(tree: &str, millis: u64, seconds: u64) -> Anything<()> {
    let files: Vec<File> =
        ZONES.iter().map(|(zone, _)| File::open(counter(tree, zone))).collect::<Result<_, _>>()?;
    let mut next = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let mut text = [0; 32];
    for _ in 0..seconds * 1000 / millis {
        next.tv_nsec += i64::try_from(millis * 1_000_000)?;
        next.tv_sec += next.tv_nsec / 1_000_000_000;
        next.tv_nsec %= 1_000_000_000;
        while clock_nanosleep_absolute(ClockId::Monotonic, &next).is_err() {}
        for file in &files {
            file.read_at(&mut text, 0)?;
        }
    }
    report()
}

fn sampler(tree: &str, millis: u64, seconds: u64) -> Anything<()> {
    let opened = Opened::open(&Host::at(tree), &MeterSpec::of("rapl"))?;
    let nobody = |_: &Opened| -> Box<dyn Sink> { Box::new(()) };
    let sampler = Sampler::start(vec![opened], Some(Duration::from_millis(millis)), nobody)?;
    sampler.begin(monotonic());
    let end = monotonic() + Duration::from_secs(seconds);
    Stop::new()?.wait_until(end);
    let (measured, _) = sampler.finish(end);
    if measured[0].missed > seconds * 10 {
        eprintln!("{} of {} deadlines were missed", measured[0].missed, seconds * 1000 / millis);
    }
    report()
}

/// CPU time in microseconds, and wake-ups, of this process.
fn report() -> Anything<()> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
    let cpu = micros(usage.user_time()) + micros(usage.system_time());
    println!("{cpu} {}", usage.voluntary_context_switches());
    Ok(())
}

fn compare(seconds: u64) -> Anything<()> {
    let tree = tempfile::Builder::new().prefix("zones").tempdir_in(shared_memory())?;
    for (zone, name) in ZONES {
        let folder = tree.path().join("sys/class/powercap").join(zone);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("name"), name)?;
        std::fs::write(folder.join("energy_uj"), "123456789012\n")?;
        std::fs::write(folder.join("max_energy_range_uj"), "262143328850\n")?;
    }
    println!("five counters        bare loop                 sampler                   ratio");
    println!("                     CPU       wake-ups/s      CPU       wake-ups/s      of CPU");
    for (millis, name) in [(1, "1 kHz"), (10, "100 Hz"), (1000, "1 Hz")] {
        let mut sums = [(0.0, 0.0); 2];
        for _ in 0..ROUNDS {
            for (sum, mode) in sums.iter_mut().zip(["bare", "sampler"]) {
                let (cpu, wakes) = measure(mode, tree.path(), millis, seconds)?;
                *sum = (sum.0 + cpu, sum.1 + wakes);
            }
        }
        let time = seconds as f64 * ROUNDS as f64;
        let [(bare, bare_wakes), (ours, our_wakes)] = sums;
        println!(
            "{name:<18}{:>8.3} %{:>13.1}{:>12.3} %{:>13.1}{:>14.2}",
            bare / time / 1e4,
            bare_wakes / time,
            ours / time / 1e4,
            our_wakes / time,
            ours / bare,
        );
    }
    Ok(())
}

/// Files in memory, as those of `/sys` are.
fn shared_memory() -> &'static Path {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory } else { Path::new("/tmp") }
}

fn measure(mode: &str, tree: &Path, millis: u64, seconds: u64) -> Anything<(f64, f64)> {
    let output = Command::new(std::env::current_exe()?)
        .args([mode, &tree.display().to_string(), &millis.to_string(), &seconds.to_string()])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut words = text.split_whitespace();
    let mut next = || words.next().ok_or_else(|| format!("{mode} said `{text}`"));
    Ok((next()?.parse()?, next()?.parse()?))
}
