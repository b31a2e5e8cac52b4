//! Generator and aligner together: a DAQ in simulated time whose log carries the truth in a column of
//! its own.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use crate::pure::calibrate::sync::SyncPlan;
use nightwatt_energy::time::Mono;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp, StandardNormal};

use super::*;
use crate::error::Error;

/// Where simulated time begins.
const BEGIN: f64 = 5000.0;

/// A machine whose clock goes on only when something takes time.
#[derive(Clone)]
struct Machine(Rc<RefCell<State>>);

struct State {
    now: f64,
    rng: ChaCha8Rng,
    /// Stops after this.
    stops: f64,
    /// When the line was driven, and to which level.
    line: Vec<(f64, bool)>,
    /// Driving the line fails from then on.
    unplugged: f64,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let never = f64::INFINITY;
        let (line, now) = (Vec::new(), BEGIN);
        Self(Rc::new(RefCell::new(State { now, rng, stops: never, line, unplugged: never })))
    }

    /// Microseconds, and now and then milliseconds, because others run.
    fn passes(&self, micros: f64) {
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        let mut time = 1e-6 * Exp::new(1.0 / micros).unwrap().sample(&mut state.rng);
        if state.rng.random_bool(0.005) {
            time += state.rng.random_range(0.001..0.02);
        }
        state.now += time;
    }
}

impl Timer for Machine {
    fn now(&self) -> Mono {
        Mono(Duration::from_secs_f64(self.0.borrow().now))
    }

    fn wait_until(&self, deadline: Mono) -> bool {
        self.passes(40.0);
        let mut state = self.0.borrow_mut();
        let deadline = deadline.as_secs_f64();
        let stopped = deadline > state.stops;
        let reached = if stopped { state.stops } else { deadline };
        state.now = state.now.max(reached);
        !stopped
    }
}

impl Line for Machine {
    fn set(&mut self, high: bool) -> io::Result<()> {
        self.passes(3.0);
        {
            let mut state = self.0.borrow_mut();
            if state.now > state.unplugged {
                return Err(io::Error::from_raw_os_error(5));
            }
            let now = state.now;
            state.line.push((now, high));
        }
        self.passes(3.0);
        Ok(())
    }
}

fn meta() -> StampMeta {
    let (mono_ns, wall_ns) = (5_000_000_000_000, 1_795_393_800_000_000_000);
    let (nightwatt, line) = ("test".to_owned(), "rts=/dev/ttyS0".to_owned());
    StampMeta { schema: 1, nightwatt, line, seed: 0, mono_ns, wall_ns }
}

/// Toggles for this many seconds; the stamps are in the file `stamps.csv` of the folder.
fn toggled(
    machine: &Machine,
    seconds: f64,
    seed: u64,
    folder: &Path,
) -> Result<Generated, ToggleError> {
    let file = fs::File::create_new(folder.join("stamps.csv")).unwrap();
    let mut stamps = StampWriter::new(file, &meta()).unwrap();
    let ends = Mono(Duration::from_secs_f64(BEGIN + seconds));
    toggle(&mut machine.clone(), machine, SyncPlan::new(seed), ends, &mut stamps, |_| ())
}

/// A DAQ, and what happens to its log.
struct Daq {
    rate: f64,
    drift: f64,
    /// Start after that of the generator, in seconds.
    starts: f64,
    ends: f64,
    /// Rows that are lost, from and to these.
    lost: (u64, u64),
    /// One row in this many is damaged.
    damaged: u64,
}

impl Daq {
    /// Writes a log in the form of a published one: columns `CPU HDD RAM Sync TSC` between tabs, the
    /// last of which is the true time, in nanoseconds.
    fn record(&self, line: &[(f64, bool)], seed: u64, path: &Path) {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let mut text = String::from("CPU\tHDD\tRAM\tSync\tTSC\n");
        let (mut next, mut high) = (0, false);
        for sample in 0.. {
            // A drift that swings by 4 ppm with a period of 10 minutes.
            let seconds = sample as f64 / self.rate;
            let swing = 4e-6 * 95.5 * (seconds / 95.5).sin();
            let time = BEGIN + self.starts + seconds * (1.0 - self.drift) - swing;
            if time > BEGIN + self.ends {
                break;
            }
            while next < line.len() && line[next].0 <= time {
                high = line[next].1;
                next += 1;
            }
            if (self.lost.0..self.lost.1).contains(&sample) {
                continue;
            }
            let volts = if high { 3.2 } else { 0.1 } + 0.1 * rng.sample::<f64, _>(StandardNormal);
            let truth = (time * 1e9).round();
            if self.damaged > 0 && sample % self.damaged == self.damaged - 1 {
                text.push_str("2.0\t1.6\t1.4\t?\t");
            } else {
                write!(text, "2.0\t{}\t1.4\t{volts:.4}\t", sample % 7).unwrap();
            }
            writeln!(text, "{truth}").unwrap();
        }
        fs::write(path, text).unwrap();
    }
}

fn options(folder: &Path) -> AlignOptions {
    AlignOptions {
        log: folder.join("daq.txt"),
        stamps: folder.join("stamps.csv"),
        channel: "Sync".to_owned(),
        rate: Some(1000.0),
        levels: None,
        output: Some(folder.join("aligned.csv")),
        intervals: Some(folder.join("intervals.csv")),
    }
}

fn aligned(options: &AlignOptions) -> Aligned {
    align(options, |_| ()).unwrap_or_else(|error| panic!("{error}"))
}

/// Compares each time of the result with the truth in the last column; returns how many rows there
/// are, how many have a time, and the largest error in samples.
fn checked(path: &Path, rate: f64) -> (u64, u64, f64) {
    let text = fs::read_to_string(path).unwrap();
    let (mut rows, mut claimed, mut worst) = (0, 0, 0.0_f64);
    for line in text.lines().skip(1) {
        rows += 1;
        let mono = line.split(',').nth(1).unwrap();
        let truth: f64 = line.rsplit(',').next().unwrap().parse().unwrap();
        assert_eq!(mono.is_empty(), line.starts_with(','), "{line}");
        if !mono.is_empty() {
            let mono: f64 = mono.parse().unwrap();
            worst = worst.max((mono - truth).abs() * 1e-9 * rate);
            claimed += 1;
        }
    }
    (rows, claimed, worst)
}

#[test]
fn a_daq_log_is_put_on_the_clock_of_the_machine_within_a_sample() {
    for seed in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::new(seed);
        let generated = toggled(&machine, 240.0, seed, folder.path()).unwrap();
        let line = machine.0.borrow().line.clone();
        assert_eq!(generated.toggles, line.len() as u64);
        let daq = Daq {
            rate: 1000.0,
            drift: 80e-6,
            starts: -8.0 + 10.0 * seed as f64,
            ends: 250.0,
            lost: (120_000, 120_300),
            damaged: 777,
        };
        daq.record(&line, seed, &folder.path().join("daq.txt"));
        let found = aligned(&options(folder.path()));
        let (rows, claimed, worst) = checked(&folder.path().join("aligned.csv"), 1000.0);
        println!("seed {seed}: {claimed} of {rows}, off by {worst:.3} samples at most; {found:?}");
        assert!(worst <= 1.0, "seed {seed}: {worst}");
        assert_eq!((rows, claimed), (found.samples, found.synchronised));
        assert!(found.unreadable > 100 && found.uncertain_stamps < 10, "{found:?}");
        // Of the 240 s a few are left out beside the lost block.
        let covered = (240.0 - daq.starts.max(0.0) - 12.0) * 1000.0;
        assert!(claimed as f64 > covered, "seed {seed}: {claimed} of {covered}");
        // By the minute, to 1 sample of 60,000 and the swing of 4 ppm.
        for drift in &found.drifts {
            assert!((drift.ppm - 80.0).abs() <= drift.within_ppm + 5.0, "{drift:?}");
        }
        assert!(found.levels.low.abs() < 0.2 && (found.levels.high - 3.2).abs() < 0.1, "{found:?}");
    }
}

#[test]
fn times_are_told_on_both_clocks_and_nothing_of_the_log_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(9);
    toggled(&machine, 60.0, 9, folder.path()).unwrap();
    let line = machine.0.borrow().line.clone();
    let daq = Daq { rate: 1000.0, drift: 0.0, starts: 0.0, ends: 60.0, lost: (0, 0), damaged: 0 };
    let log = folder.path().join("daq.txt");
    daq.record(&line, 9, &log);
    aligned(&options(folder.path()));
    let result = fs::read_to_string(folder.path().join("aligned.csv")).unwrap();
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(result.lines().count(), log.lines().count());
    for (row, original) in result.lines().zip(log.lines()) {
        let cells = row.splitn(3, ',').nth(2).unwrap();
        assert_eq!(cells, original.replace('\t', ","));
    }
    let row = result.lines().nth(30_000).unwrap();
    let mut cells = row.split(',');
    let (time, mono) = (cells.next().unwrap(), cells.next().unwrap());
    let time: jiff::Timestamp = time.parse().unwrap();
    let mono: i128 = mono.parse().unwrap();
    // The generator began at 5000 s of one clock and 1795393800 s of the other.
    assert_eq!(time.as_nanosecond() - 1_795_393_800_000_000_000, mono - 5_000_000_000_000);
    let intervals = fs::read_to_string(folder.path().join("intervals.csv")).unwrap();
    let drifts = intervals.lines().skip(1).map(|line| {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        let expected = (cells[3] - cells[2]) / (1e-6 * (cells[1] - cells[0])) * 1e6 - 1e6;
        (cells[4], expected)
    });
    for (drift, expected) in drifts {
        assert!((drift - expected).abs() < 1.0, "{drift} {expected}");
    }
}

#[test]
fn a_generator_that_is_stopped_leaves_the_line_low_and_says_when() {
    for stop in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::new(stop);
        machine.0.borrow_mut().stops = BEGIN + 10.0 + 0.4 * stop as f64;
        toggled(&machine, 100.0, stop, folder.path()).unwrap();
        let line = machine.0.borrow().line.clone();
        let stamps = Stamps::read(&folder.path().join("stamps.csv")).unwrap();
        assert_eq!(line.len(), stamps.toggles.len());
        assert!(!line[line.len() - 1].1, "it is low");
        for ((time, high), toggle) in line.iter().zip(&stamps.toggles) {
            assert_eq!(*high, toggle.high);
            let off = (toggle.time.as_secs_f64() - time).abs();
            assert!(off <= toggle.uncertainty.as_secs_f64() + 2e-9, "{toggle:?} {time}");
        }
    }
}

#[test]
fn deadlines_do_not_run_away_however_late_each_toggle_is() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(3);
    toggled(&machine, 600.0, 3, folder.path()).unwrap();
    let line = machine.0.borrow().line.clone();
    let mut due = BEGIN;
    for ((time, _), interval) in line.iter().zip(SyncPlan::new(3)).take(line.len() - 1) {
        due += interval.as_secs_f64();
        assert!((0.0..0.1).contains(&(time - due)), "{time} {due}");
    }
    assert!((line[line.len() - 1].0 - BEGIN - 600.0).abs() < 1.3);
}

#[test]
fn stamps_before_the_line_failed_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(4);
    machine.0.borrow_mut().unplugged = BEGIN + 30.0;
    let ended = toggled(&machine, 100.0, 4, folder.path());
    assert!(matches!(ended, Err(ToggleError::Line(_))), "{ended:?}");
    let stamps = Stamps::read(&folder.path().join("stamps.csv")).unwrap();
    assert_eq!(stamps.toggles.len(), machine.0.borrow().line.len());
    assert!(stamps.toggles.len() > 22);
}

/// The other end of a pseudo-terminal, in the machine's time: what has come is there before the
/// machine waits for its next deadline.
struct Loopback {
    machine: Machine,
    master: RefCell<fs::File>,
    seen: RefCell<Vec<(f64, bool)>>,
    /// Bytes that have been read.
    sent: std::cell::Cell<usize>,
}

/// A port at the other end of which something drives a pin, and what it costs.
struct Port {
    machine: Machine,
    port: Box<dyn Line>,
}

impl Line for Port {
    fn set(&mut self, high: bool) -> io::Result<()> {
        self.machine.set(high)?;
        self.port.set(high)
    }
}

impl Loopback {
    fn hear(&self) {
        use std::io::Read;
        let driven = self.machine.0.borrow().line.clone();
        for (time, _) in &driven[self.sent.get()..] {
            let mut byte = [0];
            self.master.borrow_mut().read_exact(&mut byte).unwrap();
            self.seen.borrow_mut().push((*time, byte[0] == b'1'));
        }
        self.sent.set(driven.len());
    }
}

impl Timer for Loopback {
    fn now(&self) -> Mono {
        self.machine.now()
    }

    fn wait_until(&self, deadline: Mono) -> bool {
        self.hear();
        self.machine.wait_until(deadline)
    }
}

fn pseudo_terminal() -> (fs::File, PathBuf) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    (master.into(), name.into())
}

#[test]
fn a_signal_sent_through_a_pseudo_terminal_is_found_in_the_recording_of_its_other_end() {
    use std::io::Read;
    let folder = tempfile::tempdir().unwrap();
    let (mut master, path) = pseudo_terminal();
    let port = open(&format!("bytes={}", path.display()).parse().unwrap()).unwrap();
    let mut first = [0];
    master.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"0", "low from the start");
    let machine = Machine::new(11);
    let (seen, sent) = (RefCell::default(), std::cell::Cell::default());
    let loopback = Loopback { machine: machine.clone(), master: master.into(), seen, sent };
    let file = fs::File::create_new(folder.path().join("stamps.csv")).unwrap();
    let mut stamps = StampWriter::new(file, &meta()).unwrap();
    let ends = Mono(Duration::from_secs_f64(BEGIN + 120.0));
    let mut port = Port { machine, port };
    toggle(&mut port, &loopback, SyncPlan::new(11), ends, &mut stamps, |_| ()).unwrap();
    loopback.hear();
    let seen = loopback.seen.into_inner();
    assert!(seen.len() > 90 && !seen[seen.len() - 1].1);
    let daq =
        Daq { rate: 1000.0, drift: -150e-6, starts: 5.0, ends: 125.0, lost: (0, 0), damaged: 0 };
    daq.record(&seen, 11, &folder.path().join("daq.txt"));
    let found = aligned(&options(folder.path()));
    let (_, claimed, worst) = checked(&folder.path().join("aligned.csv"), 1000.0);
    assert!(worst <= 1.0 && claimed > 110_000, "{worst} {claimed} {found:?}");
}

fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("NIGHTWATT_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    if !folder.exists() {
        println!("skipped: no data in {}", folder.display());
        return None;
    }
    Some(folder)
}

#[test]
fn a_real_daq_log_with_a_sync_column_beside_its_own_keeps_every_cell() {
    let Some(data) = data() else { return };
    let log = data.join("power/daq/icelake_ddr4-32gb-3200-both_idle_0a0186e1.csv.gz");
    let mut columns = nightwatt_meters::log::Columns::open(&log).unwrap();
    let mut rows: Vec<String> = Vec::new();
    while let Some(row) = columns.row().unwrap() {
        rows.push(row.texts().collect::<Vec<_>>().join(","));
    }
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(21);
    // 10 s are few toggles: the log is repeated.
    let times = 6;
    toggled(&machine, 62.0, 21, folder.path()).unwrap();
    let line = machine.0.borrow().line.clone();
    let mut text = String::new();
    let real = rows.iter().cycle().take(times * rows.len());
    for (sample, row) in real.enumerate() {
        let time = BEGIN + sample as f64 * 0.001;
        let high = line.iter().rev().find(|(at, _)| *at <= time).is_some_and(|(_, high)| *high);
        let truth = (time * 1e9).round();
        writeln!(text, "{row},{},{truth}", if high { "4.9" } else { "0.05" }).unwrap();
    }
    fs::write(folder.path().join("daq.txt"), text).unwrap();
    let found = aligned(&AlignOptions { channel: "8".to_owned(), ..options(folder.path()) });
    let (all, claimed, worst) = checked(&folder.path().join("aligned.csv"), 1000.0);
    assert!(worst <= 1.0 && claimed as f64 > 0.95 * all as f64, "{worst} {claimed} {found:?}");
    let result = fs::read_to_string(folder.path().join("aligned.csv")).unwrap();
    for (row, original) in result.lines().skip(1).zip(rows.iter().cycle()) {
        assert!(row.contains(original.as_str()), "{row} {original}");
    }
    // Without such a column there is nothing to align: real noise is no signal.
    let noise = AlignOptions {
        log,
        channel: "0".to_owned(),
        output: Some(folder.path().join("noise.csv")),
        intervals: None,
        ..options(folder.path())
    };
    let error = align(&noise, |_| ()).unwrap_err();
    assert!(matches!(error, Error::Calibrate(_)), "{error}");
    assert!(fs::read_dir(folder.path()).unwrap().count() == 4, "no half file is left");
}

#[test]
fn a_log_that_was_stamped_already_has_no_toggle_and_is_refused() {
    let Some(data) = data() else { return };
    let log = data.join("../published/samples/daq_synced_log.txt");
    assert!(log.exists(), "{}", log.display());
    let folder = tempfile::tempdir().unwrap();
    toggled(&Machine::new(1), 20.0, 1, folder.path()).unwrap();
    let options = AlignOptions { log, rate: Some(10_000.0), ..options(folder.path()) };
    let error = align(&options, |_| ()).unwrap_err().to_string();
    assert!(error.contains("match") || error.contains("toggle"), "{error}");
}

#[test]
fn what_is_missing_is_told_and_nothing_is_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(5);
    toggled(&machine, 30.0, 5, folder.path()).unwrap();
    let daq = Daq { rate: 1000.0, drift: 0.0, starts: 0.0, ends: 30.0, lost: (0, 0), damaged: 0 };
    daq.record(&machine.0.borrow().line, 5, &folder.path().join("daq.txt"));
    let options = options(folder.path());
    let error = |options: &AlignOptions| align(options, |_| ()).unwrap_err().to_string();
    let other = AlignOptions { channel: "sink".to_owned(), ..options.clone() };
    assert!(error(&other).contains("`CPU`, `HDD`, `RAM`, `Sync`, `TSC`"), "{}", error(&other));
    let other = AlignOptions { rate: None, ..options.clone() };
    assert!(error(&other).contains("--rate 1000"), "{}", error(&other));
    fs::write(folder.path().join("aligned.csv"), "precious").unwrap();
    assert!(error(&options).contains("aligned.csv"), "{}", error(&options));
    assert_eq!(fs::read_to_string(folder.path().join("aligned.csv")).unwrap(), "precious");
    let other = AlignOptions { stamps: options.log.clone(), ..options };
    assert!(error(&other).contains("line 1"), "{}", error(&other));
}
