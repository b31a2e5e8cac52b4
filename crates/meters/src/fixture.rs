//! Hosts made of a few files, for tests.

use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::integration::Reading;
use nightwatt_host::Host;
use tempfile::TempDir;

use crate::meter::{Meter, Readings, Turn};
use crate::sampler::{Sample, Sink};
use crate::spec::MeterSpec;

/// A host with just these files.
pub(crate) struct Fixture {
    pub(crate) host: Host,
    _folder: TempDir,
}

impl Fixture {
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Self { host: Host::at(folder.path()), _folder: folder };
        for (path, text) in files {
            fixture.write(path, text);
        }
        fixture
    }

    /// Writes a file as the kernel does: with an end of line, and at once. A thread that reads it
    /// meanwhile finds the old text or the new one, never an empty file.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.host.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
        let (before, after) = (file.metadata().unwrap().len() as usize, text.len() + 1);
        // What is left of a longer text is empty lines until it is cut off.
        file.write_all(format!("{text}{}", "\n".repeat(before.max(after) - text.len())).as_bytes())
            .unwrap();
        file.set_len(after as u64).unwrap();
    }

    /// Opens the driver's meter.
    pub(crate) fn open(&self, driver: &str) -> Box<dyn Meter> {
        let opened = self.while_counting(|| crate::open(&self.host, &MeterSpec::of(driver)));
        opened.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Does something while the counters of RAPL count, and puts back what they showed.
    pub(crate) fn while_counting<T>(&self, act: impl FnOnce() -> T) -> T {
        self.while_counting_of(|_| true, act)
    }

    /// The same for the counter of one zone alone.
    pub(crate) fn while_counting_one<T>(&self, zone: &str, act: impl FnOnce() -> T) -> T {
        self.while_counting_of(|name| name == zone, act)
    }

    fn while_counting_of<T>(&self, counts: impl Fn(&str) -> bool, act: impl FnOnce() -> T) -> T {
        let folder = "/sys/class/powercap";
        let zones = self.host.list(folder).unwrap_or_default();
        let counters: Vec<(String, u64)> = zones
            .iter()
            .filter_map(|zone| {
                let name = zone.file_name()?.to_str().filter(|name| counts(name))?;
                let shown =
                    nightwatt_host::files::read(&zone.join("energy_uj")).ok()?.parse().ok()?;
                Some((format!("{folder}/{name}/energy_uj"), shown))
            })
            .collect();
        let over = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                // A thread that looks seldom finds another count at each look.
                for step in (0..).take_while(|_| !over.load(Ordering::Acquire)) {
                    for (path, shown) in &counters {
                        self.write(path, &(shown + step).to_string());
                    }
                    std::thread::yield_now();
                }
            });
            let done = act();
            over.store(true, Ordering::Release);
            done
        });
        for (path, shown) in &counters {
            self.write(path, &shown.to_string());
        }
        done
    }

    /// What the driver's meter says once.
    pub(crate) fn readings(&self, driver: &str) -> Vec<Reading> {
        read(self.open(driver).as_mut()).into_iter().map(|(_, reading)| reading).collect()
    }
}

/// What a meter says in one turn: names of channels and readings.
pub(crate) fn read(meter: &mut dyn Meter) -> Vec<(String, Reading)> {
    let stop = Stop::new().unwrap();
    let turn = Turn { stop: &stop, until: monotonic() };
    let mut readings = Readings::default();
    meter.read(&turn, &mut readings).unwrap();
    let name = |channel: usize| meter.channels()[channel].name.clone();
    readings.iter().map(|&(channel, _, reading)| (name(channel), reading)).collect()
}

/// Sends samples to a test.
pub(crate) struct Tell(pub(crate) Sender<Sample>);

impl Sink for Tell {
    fn take(&mut self, sample: &Sample) {
        let _ = self.0.send(*sample);
    }
}
