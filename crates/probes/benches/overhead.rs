//! What a watched call costs, beside a pair of probes that does nothing, in one run.
//!
//! `make bench-caliper`. Needs root. CPU time is the program's own, the kernel's on its behalf included;
//! each figure is the least of several runs in turn, since whatever else runs here only adds.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use libbpf_rs::{Link, Object, ObjectBuilder, UprobeOpts};
use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_probes::{Extras, Point, ProbeSite, SectionProbes, Watch, function_entries};

#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static BARE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/bare.bpf.o")));

const KINDS: [&str; 3] = ["nop", "push", "slow"];
const RATES: [u64; 3] = [1_000, 10_000, 100_000];
const ROUNDS: usize = 7;
/// As `caliper --events` has it.
const RING: u32 = 32 << 20;

/// Who watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watcher {
    Nobody,
    Bare,
    Caliper,
    /// And tells each call.
    Events,
}

/// The program, and one of its functions.
struct Bench {
    program: PathBuf,
    kind: &'static str,
}

/// Probes that are there as long as this is.
enum Probes {
    None,
    Bare { _object: Box<Object>, _links: Vec<Link> },
    Caliper { _probes: Box<SectionProbes> },
    Events { probes: Box<SectionProbes>, stop: Stop, reader: Option<JoinHandle<u64>> },
}

impl Probes {
    /// Starts a thread that reads the events of all calls meanwhile.
    fn read(probes: SectionProbes) -> Self {
        let stop = Stop::new().expect("an event");
        let (theirs, mut events) = (stop.clone(), probes.events().expect("it tells each call"));
        let reader = std::thread::spawn(move || {
            let mut told = 0;
            loop {
                let deadline = monotonic() + Duration::from_secs(1);
                let is_over = theirs.readable_until(events.as_fd(), deadline) == Woken::Stopped;
                let calls = events.take().expect("calls can be read");
                told += calls.len() as u64;
                if is_over && calls.is_empty() {
                    return told;
                }
            }
        });
        Self::Events { probes: Box::new(probes), stop, reader: Some(reader) }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        let Self::Events { probes, stop, reader } = self else { return };
        stop.stop();
        let told = reader.take().and_then(|reader| reader.join().ok());
        let (ended, lost) = (probes.calls(0).map(|calls| calls.ended), probes.events_lost());
        if lost.as_ref().ok() != Some(&0) || told != ended.as_ref().ok().copied() {
            println!("{told:?} of {ended:?} calls told, {lost:?} lost");
        }
    }
}

impl Bench {
    fn place(&self) -> ProbeSite {
        let point = Point {
            program: self.program.display().to_string(),
            symbol: format!("entry_{}", self.kind),
            offset: 0,
        };
        function_entries(&point).expect("the program has it").remove(0)
    }

    fn probes(&self, watcher: Watcher) -> Probes {
        let place = self.place();
        match watcher {
            Watcher::Nobody => Probes::None,
            Watcher::Bare => {
                let mut builder = ObjectBuilder::default();
                let object = builder.name("bare").and_then(|it| it.open_memory(&BARE.0));
                let object = object.and_then(libbpf_rs::OpenObject::load).expect("it loads");
                let attach = |retprobe| {
                    let options = UprobeOpts { retprobe, ..UprobeOpts::default() };
                    let offset = place.offset as usize;
                    let program = object.progs_mut().next().expect("it has one");
                    program.attach_uprobe_with_opts(-1, &place.path, offset, options)
                };
                let links = [true, false].map(|retprobe| attach(retprobe).expect("it attaches"));
                Probes::Bare { _links: links.into(), _object: Box::new(object) }
            }
            Watcher::Caliper | Watcher::Events => {
                let probes = match watcher {
                    Watcher::Events => SectionProbes::load_with(
                        Watch::Children,
                        Extras { calls: Some(RING), ..Extras::default() },
                    ),
                    _ => SectionProbes::load(Watch::Children),
                };
                let mut probes = probes.expect("it loads");
                probes.start().expect("the scheduler can be watched");
                probes.attach_function(0, &place).expect("it attaches");
                match watcher {
                    Watcher::Events => Probes::read(probes),
                    _ => Probes::Caliper { _probes: Box::new(probes) },
                }
            }
        }
    }

    /// CPU time of so many calls with so much between them, ns: by watcher, the least of all rounds.
    fn times(&self, calls: u64, turns: u64, watchers: &[Watcher]) -> Vec<f64> {
        let mut least = vec![f64::INFINITY; watchers.len()];
        for _ in 0..ROUNDS {
            for (least, watcher) in least.iter_mut().zip(watchers) {
                let probes = self.probes(*watcher);
                *least = least.min(self.run(calls, turns));
                drop(probes);
            }
        }
        least
    }

    fn run(&self, calls: u64, turns: u64) -> f64 {
        let (calls, turns) = (calls.to_string(), turns.to_string());
        let output = Command::new(&self.program).args([self.kind, &calls, &turns]).output();
        let output = output.expect("the program runs");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("it prints a number")
    }
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let all = [Watcher::Nobody, Watcher::Bare, Watcher::Caliper, Watcher::Events];
    println!("CPU time of a call, ns:\n");
    println!("| first instruction | bare pair | caliper | ratio | each call told | ratio |");
    println!("|---|---|---|---|---|---|");
    for kind in KINDS {
        let bench = Bench { program: program.clone(), kind };
        let calls = if kind == "slow" { 20_000 } else { 200_000 };
        let times = bench.times(calls, 0, &all);
        let each = |place: usize| (times[place] - times[0]) / calls as f64;
        let ratio = |place: usize| each(place) / each(1);
        println!(
            "| {kind} | {:.0} | {:.0} | {:.2} | {:.0} | {:.2} |",
            each(1),
            each(2),
            ratio(2),
            each(3),
            ratio(3)
        );
    }
    println!("\nRun time of a program that calls it so often, beside the same without probes:\n");
    println!("| first instruction | calls/s | bare pair | caliper | each call told |");
    println!("|---|---|---|---|---|");
    let calibrated = Bench { program: program.clone(), kind: "nop" };
    let turns_per_s = 1e9 * 1e8 / calibrated.times(1, 100_000_000, &[Watcher::Nobody])[0];
    for kind in KINDS {
        for rate in RATES {
            let bench = Bench { program: program.clone(), kind };
            // Half a second of work.
            let times = bench.times(rate / 2, (turns_per_s / rate as f64) as u64, &all);
            let more = |place: usize| 100.0 * (times[place] / times[0] - 1.0);
            let [bare, caliper, events] = [1, 2, 3].map(more);
            println!("| {kind} | {rate} | {bare:+.1} % | {caliper:+.1} % | {events:+.1} % |");
        }
    }
}

fn build(folder: &Path) -> PathBuf {
    let program = folder.join("calls");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/calls.c");
    let status = Command::new("cc").args(["-O1", source, "-o"]).arg(&program).status();
    assert!(status.expect("cc runs").success());
    program
}
