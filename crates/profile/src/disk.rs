//! `nightwatt disk`: whose bytes go to which device, deferred writes included, and what that takes.
//!
//! ```text
//! probes in ─► [command] ─► every interval: what the kernel has summed up ─► accounting ─► table, log
//!                           at the end: [sync] ─────────────────────────────► accounting ─► report
//! ```

mod devices;
mod report;
mod row;
mod text;
mod totals;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::storage::{Class, File, Process, StorageAccounting, StorageModel};
use nightwatt_energy::time::Mono;
use nightwatt_meters::Host;
use nightwatt_meters::machine::others::whole_name;
use nightwatt_probes::{DiskProbes, News};

use crate::error::Error;
use devices::Devices;
use nightwatt_measure::run::Running;
use nightwatt_measure::run::child::{self, Finished};

pub use report::{DeviceReport, DiskReport};
pub use row::DiskRow;
pub use totals::DiskTotal;

/// Rows that are kept: a day of compiling has some hundred thousand pairs of a process and a file.
const MOST_ROWS: usize = 20_000;

/// What is to be watched, and how.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// A command to run; else until the time is over, or the user says so.
    pub command: Vec<OsString>,
    /// Stop after this time.
    pub time: Option<Duration>,
    /// Time between two looks.
    pub interval: Duration,
    /// Have everything written at the end, so that nothing is left on its way.
    pub sync: bool,
    /// Kinds of devices, by their names, where the kernel does not tell or tells wrongly.
    pub classes: BTreeMap<String, Class>,
    /// What devices take, by their names, where that was measured.
    pub models: BTreeMap<String, StorageModel>,
}

/// What is told at each look.
pub trait Watcher {
    /// What was done since the last look: by whom to what, on which device.
    fn news(&mut self, at: Duration, rows: &[DiskRow]) -> std::io::Result<()>;

    /// All that was done so far.
    fn report(&mut self, report: &DiskReport) -> std::io::Result<()>;

    /// Does it want the report at each look?
    fn wants_reports(&self) -> bool;
}

/// Everything that is known while it runs.
struct Session<'a> {
    options: &'a DiskOptions,
    host: Host,
    probes: DiskProbes,
    accounting: StorageAccounting,
    devices: Devices,
    begin: Mono,
}

/// Watches to the end.
pub fn run(
    options: &DiskOptions,
    running: &Running,
    watcher: &mut dyn Watcher,
) -> Result<DiskReport, Error> {
    let host = Host::default();
    let mut probes = DiskProbes::load()?;
    let devices = Devices::find(&host, &options.classes, &options.models)?;
    probes.set_carriers(&devices.carriers())?;
    probes.start()?;
    let begin = monotonic();
    let mut session = Session {
        options,
        host,
        probes,
        accounting: StorageAccounting::new(MOST_ROWS),
        devices,
        begin,
    };
    let finished = session.follow(running, watcher)?;
    if options.sync {
        // What others have made dirty is written too: that is in their rows.
        rustix::fs::sync();
    }
    session.look(watcher)?;
    session.report(finished.as_ref())
}

impl Session<'_> {
    /// Looks every interval, until the command has ended, the time is over, or the user says so.
    fn follow(
        &mut self,
        running: &Running,
        watcher: &mut dyn Watcher,
    ) -> Result<Option<Finished>, Error> {
        let (sender, ended) = channel();
        let command = &self.options.command;
        let deadline = self.options.time.map(|time| self.begin + time);
        let mut next = self.begin + self.options.interval;
        thread::scope(|scope| {
            if !command.is_empty() {
                scope.spawn(move || {
                    let _ = sender.send(child::run(command, running, |_| ()));
                });
            }
            let mut told_to_end = false;
            loop {
                let until = deadline.filter(|_| !told_to_end).map_or(next, |it| it.min(next));
                let wait = until.since(monotonic());
                if command.is_empty() {
                    running.rest(wait);
                } else {
                    match ended.recv_timeout(wait) {
                        Ok(finished) => return Ok(Some(finished?)),
                        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
                    }
                }
                let now = monotonic();
                let is_over = deadline.is_some_and(|deadline| now >= deadline);
                if command.is_empty() && (is_over || running.is_interrupted()) {
                    return Ok(None);
                }
                if is_over && !told_to_end {
                    told_to_end = true;
                    running.interrupt(Some(rustix::process::Signal::TERM));
                }
                if now >= next {
                    next = now + self.options.interval;
                    self.look(watcher)?;
                }
            }
        })
    }

    /// Adds the kernel's sums to the accounting, and reports them to `watcher`.
    fn look(&mut self, watcher: &mut dyn Watcher) -> Result<(), Error> {
        // File systems and devices come and go.
        self.devices.look(&self.host)?;
        self.probes.set_carriers(&self.devices.carriers())?;
        let news = self.probes.news(monotonic())?;
        let mut rows = Vec::new();
        for mut one in news {
            let path = self.path(&one)?;
            if one.whose.process != Process::NONE && one.command.is_empty() {
                // Another process's write was the first of the file that we saw.
                one.command = command_of(&self.host, one.whose.process);
            }
            self.accounting.add(one.whose, &one.command, path.clone(), &one.traffic);
            rows.push(self.row_of(&one, path));
        }
        let failed = |source| Error::System { what: "write what was seen", source };
        watcher.news(monotonic().since(self.begin), &rows).map_err(failed)?;
        if watcher.wants_reports() {
            let report = self.report(None)?;
            watcher.report(&report).map_err(failed)?;
        }
        Ok(())
    }

    /// Where the file of a row is, if that is not known yet.
    fn path(&mut self, one: &News) -> Result<Option<String>, Error> {
        let file = one.whose.file;
        if file.inode == File::ITSELF {
            return Ok(Some(format!("/dev/{}", self.devices.name(file.device))));
        }
        if !file.is_named() || self.accounting.is_named(one.whose) {
            return Ok(None);
        }
        let path = self.probes.path(file)?;
        Ok(path.map(|(path, is_whole)| self.devices.path(file.device, &path, is_whole)))
    }

    fn row_of(&self, one: &News, path: Option<String>) -> DiskRow {
        let row = nightwatt_energy::storage::Row {
            whose: one.whose,
            command: one.command.clone(),
            path,
            traffic: one.traffic,
            folded: 0,
        };
        DiskRow::of(&row, &self.devices, None)
    }

    fn report(&self, finished: Option<&Finished>) -> Result<DiskReport, Error> {
        let end = finished.map_or_else(monotonic, |finished| finished.end.max(self.begin));
        let lost = self.probes.lost()?;
        let (elapsed, accounting) = (end.since(self.begin), &self.accounting);
        Ok(DiskReport::of(self.options, finished, elapsed, accounting, &self.devices, lost))
    }
}

/// A process's command, while it lives.
fn command_of(host: &Host, process: Process) -> String {
    let folder = host.path(format!("/proc/{}", process.pid));
    let kept = host.read(format!("/proc/{}/comm", process.pid)).unwrap_or_default();
    whole_name(&folder, kept)
}
