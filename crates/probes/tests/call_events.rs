//! Calls one by one, out of this very kernel, beside what it has summed up itself.
//!
//! Without root, or if the kernel allows no loading of programs, each prints `skipped: <reason>`.

mod programs;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::sections::CallEvent;
use nightwatt_probes::{
    CallEvents, Extras, Point, ProbeError, SectionProbes, Watch, function_entries,
};
use std::os::fd::AsFd;

/// The program of `sections.rs`, and probes on functions of it.
struct Watched {
    _folder: tempfile::TempDir,
    program: PathBuf,
    functions: Vec<&'static str>,
    probes: SectionProbes,
    events: CallEvents,
}

impl Watched {
    /// None, with the reason told, where this kernel or user cannot.
    fn new(functions: &[&'static str], ring: u32) -> Option<Self> {
        let mut probes = match SectionProbes::load_with(
            Watch::Children,
            Extras { calls: Some(ring), ..Extras::default() },
        ) {
            Ok(probes) => probes,
            Err(
                error @ (ProbeError::Denied { .. } | ProbeError::NoBtf | ProbeError::PidNamespace),
            ) => {
                println!("skipped: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let folder = tempfile::tempdir().unwrap();
        let program = programs::put("sections", folder.path());
        probes.start().unwrap();
        for (number, function) in (0..).zip(functions) {
            let point = Point {
                program: program.display().to_string(),
                symbol: (*function).into(),
                offset: 0,
            };
            probes.attach_function(number, &function_entries(&point).unwrap()[0]).unwrap();
        }
        let events = probes.events().unwrap();
        Some(Self { _folder: folder, program, functions: functions.to_vec(), probes, events })
    }

    fn start(&self, arguments: &[&str]) -> Child {
        Command::new(&self.program).args(arguments).stdout(Stdio::null()).spawn().unwrap()
    }

    /// Runs it to its end, and reads while it runs, as a program that records events does.
    fn run(&mut self, arguments: &[&str]) -> Vec<CallEvent> {
        let mut child = self.start(arguments);
        let stop = Stop::new().unwrap();
        let theirs = stop.clone();
        let waiter = std::thread::spawn(move || {
            let status = child.wait();
            theirs.stop();
            status.unwrap()
        });
        let mut all = Vec::new();
        while stop.readable_until(self.events.as_fd(), monotonic() + Duration::from_secs(1))
            != Woken::Stopped
        {
            all.extend(self.events.take().unwrap());
        }
        assert!(waiter.join().unwrap().success());
        self.drain(&mut all);
        all
    }

    fn drain(&mut self, all: &mut Vec<CallEvent>) {
        loop {
            let more = self.events.take().unwrap();
            if more.is_empty() {
                return;
            }
            all.extend(more);
        }
    }

    /// By section, calls that ended are as many, as long, and as much on a CPU as the kernel has summed up.
    fn assert_sums(&self, events: &[CallEvent]) {
        assert_eq!(self.probes.events_lost().unwrap(), 0);
        for (number, function) in self.functions.iter().enumerate() {
            let sums = self.probes.calls(number as u32).unwrap();
            let of_it = || events.iter().filter(|event| event.section == number);
            let ended = || of_it().filter(|event| !event.is_left);
            assert_eq!(ended().count() as u64, sums.ended, "{function}");
            assert_eq!(of_it().count() as u64 - sums.ended, sums.unended, "{function}");
            let length: Duration = ended().map(CallEvent::length).sum();
            let ran: Duration = ended().map(|event| event.ran).sum();
            let preempted: Duration = ended().map(|event| event.preempted).sum();
            let all = (sums.length, sums.ran, sums.preempted);
            assert_eq!((length, ran, preempted), all, "{function}");
        }
    }
}

/// As `caliper --events` has it.
const RING: u32 = 32 << 20;

#[test]
fn of_three_hundred_thousand_calls_each_is_told_once() {
    let Some(mut watched) = Watched::new(&["nothing"], RING) else { return };
    let events = watched.run(&["count", "300000"]);
    assert_eq!(events.len(), 300_000);
    watched.assert_sums(&events);
    // One thread, one after the other, none within another.
    assert!(events.windows(2).all(|pair| pair[0].end <= pair[1].begin));
    let first = events[0];
    assert!(events.iter().all(|event| (event.pid, event.tid) == (first.pid, first.tid)));
    assert!(events.iter().all(|event| (event.depth, event.outer) == (0, None)));
}

#[test]
fn calls_of_threads_that_take_each_others_cpus_away_add_up_to_the_kernels_sums() {
    let Some(mut watched) = Watched::new(&["heavy", "light"], RING) else { return };
    let events = watched.run(&["threads", "10"]);
    watched.assert_sums(&events);
    let mut threads: Vec<u32> = events.iter().map(|event| event.tid).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!((events.len(), threads.len()), (160, 8));
    assert!(events.iter().all(|event| event.pid == events[0].pid));
    // Each runs for this time by its own clock, and no clock runs faster than the wall clock.
    for (section, least_us) in [(0, 7500), (1, 2500)] {
        let least = Duration::from_micros(least_us);
        let mut of_it = events.iter().filter(|event| event.section == section);
        assert!(of_it.all(|event| event.length() >= least));
    }
}

#[test]
fn a_call_knows_what_is_around_it() {
    let Some(mut watched) = Watched::new(&["outer", "light"], RING) else { return };
    let events = watched.run(&["nested", "20"]);
    watched.assert_sums(&events);
    assert_eq!(events.len(), 40);
    for pair in events.chunks(2) {
        let [light, outer] = pair else { unreachable!() };
        assert_eq!((light.section, light.depth, light.outer), (1, 1, Some(0)));
        assert_eq!((outer.section, outer.depth, outer.outer), (0, 0, None));
        assert!(outer.begin < light.begin && light.end < outer.end && light.ran < outer.ran);
    }
}

#[test]
fn in_recursion_each_call_knows_how_deep_it_is() {
    let Some(mut watched) = Watched::new(&["down"], RING) else { return };
    let events = watched.run(&["recursion", "9"]);
    watched.assert_sums(&events);
    // The innermost ends first.
    let depths: Vec<u32> = events.iter().map(|event| event.depth).collect();
    assert_eq!(depths, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    assert!(events.iter().all(|event| event.outer == (event.depth > 0).then_some(0)));
}

#[test]
fn a_call_that_is_left_by_longjmp_is_told_as_that() {
    let Some(mut watched) = Watched::new(&["jumps", "nothing"], RING) else { return };
    let events = watched.run(&["jump", "50"]);
    watched.assert_sums(&events);
    let left = events.iter().filter(|event| event.is_left);
    assert_eq!(left.filter(|event| event.section == 0).count(), 50);
    assert_eq!(events.len(), 100);
}

#[test]
fn what_finds_no_room_is_counted_while_nobody_reads() {
    let page = 4096;
    let Some(mut watched) = Watched::new(&["nothing"], page) else { return };
    let stalled = |watched: &Watched| {
        assert!(watched.start(&["count", "10000"]).wait().unwrap().success());
    };
    stalled(&watched);
    let mut events = Vec::new();
    watched.drain(&mut events);
    // A page holds 64 bytes for each.
    let told = events.len() as u64;
    assert!((50..=64).contains(&told), "{told}");
    assert_eq!(watched.probes.events_lost().unwrap(), 10_000 - told);
    // Once the reader reads again, events arrive again, and the sums have lost nothing.
    stalled(&watched);
    watched.drain(&mut events);
    let lost = watched.probes.events_lost().unwrap();
    assert_eq!(events.len() as u64 + lost, 20_000);
    assert!(events.len() as u64 > told);
    assert_eq!(watched.probes.calls(0).unwrap().ended, 20_000);
}

#[test]
fn who_waits_is_woken_before_the_ring_is_full() {
    let Some(mut watched) = Watched::new(&["nothing"], 1 << 18) else { return };
    let stop = Stop::new().unwrap();
    let mut child = watched.start(&["count", "1000000"]);
    // Without a deadline: that it comes back at all is what counts.
    let woken = stop.readable_until(watched.events.as_fd(), nightwatt_energy::time::Mono::NEVER);
    assert_eq!(woken, Woken::Readable);
    assert!(!watched.events.take().unwrap().is_empty());
    assert!(child.wait().unwrap().success());
}
