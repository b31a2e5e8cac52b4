//! `nightwatt tcp where`: what the CPUs spend their time on, the kernel's by the purpose of its functions.
//!
//! Each CPU reports at fixed times what runs there, of all processes and with the kernel's stack;
//! `pure::kernel_time` decides what that counts as, and the samples between two readings of a meter share
//! what it measured, as in `caliper --sample`.

mod accounting;
mod result;
mod text;

use std::ffi::OsString;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_meters::MeterSpec;
use nightwatt_probes::{ProbeError, Samples, Watch};

use crate::caliper;
use crate::caliper::sampled::following::{Accounting, FollowedTarget, READ_EVERY};
use crate::error::Error;
use accounting::KernelTimeAccounting;
use nightwatt_measure::run::{self, Running};

pub use result::{
    CategoryReport, EnergyReport, FunctionReport, KernelTimeReport, ProgramReport, SampleCounts,
};

/// What is watched, and how.
#[derive(Debug, Clone)]
pub struct KernelTimeOptions {
    /// Until this command ends, which is under test with all that it starts; else until `time` is over.
    pub command: Option<Vec<OsString>>,
    /// Processes that run already and are under test.
    pub processes: Vec<u32>,
    /// Stop after this time.
    pub time: Option<Duration>,
    /// Samples a second, of each CPU.
    pub hz: u32,
    /// For how long the idle machine is measured first.
    pub idle: Option<Duration>,
    /// By which meters.
    pub meters: Vec<MeterSpec>,
    /// Time between two readings.
    pub interval: Option<Duration>,
}

/// Watches all CPUs while a command runs, or for a time. `on_progress` is called before the idle machine is measured.
pub fn run(
    options: &KernelTimeOptions,
    running: &Running,
    on_progress: impl FnOnce(Duration),
) -> Result<KernelTimeReport, Error> {
    if let Some(pid) = options.processes.iter().find(|pid| !caliper::is_there(**pid)) {
        return Err(Error::NoProcess(*pid));
    }
    let mut samples = Samples::open_everything(options.hz)?;
    let (meters, idle) =
        run::opened(&options.meters, options.idle, options.interval, running, on_progress)?;
    let powers = idle.as_ref().map(|idle| &*idle.powers);
    let mut accounting = KernelTimeAccounting::new(&meters, powers);
    start(&mut samples, options.command.is_some(), &options.processes)?;
    let (sender, events) = channel();
    let metering = caliper::start(meters, options.interval, &sender)?;
    let (command, is_gone) = (options.command.as_deref(), || false);
    let followed = FollowedTarget { command, time: options.time, is_gone: &is_gone, running };
    let target_run =
        followed.to_its_end(&mut samples, &mut accounting, &metering, sender, &events)?;
    accounting.end(target_run.end);
    accounting.read(&mut samples);
    let (measured, _) = metering.finish(target_run.end);
    for event in events.try_iter() {
        accounting.channels.event(&event);
    }
    accounting.close();
    let mut report =
        KernelTimeReport::of(&accounting, &samples, &measured, target_run.begin, target_run.end);
    report.command =
        options.command.iter().flatten().map(|it| it.to_string_lossy().into_owned()).collect();
    report.processes.clone_from(&options.processes);
    report.warnings.extend(idle.as_ref().and_then(run::Idle::warning));
    report.exit_status = target_run.finished.map_or(0, |run| run.ended.code());
    Ok(report)
}

/// All CPUs are asked already, and what these are told of is read: what that takes is over when something
/// begins that is to be measured.
pub struct Prepared {
    samples: Samples,
    processes: Vec<u32>,
}

impl Prepared {
    /// Prepares to sample all CPUs, with these processes and their children under test. No meter is read.
    pub fn watching(hz: u32, processes: &[u32]) -> Result<Self, ProbeError> {
        let mut samples = Samples::open_everything(hz)?;
        start(&mut samples, false, processes)?;
        Ok(Self { samples, processes: processes.to_vec() })
    }

    /// Watches while `work` goes on, with these under test, too.
    pub fn during<T>(
        mut self,
        more: &[u32],
        work: impl FnOnce() -> T,
    ) -> Result<(T, KernelTimeReport), ProbeError> {
        let samples = &mut self.samples;
        for pid in more {
            samples.watch(*pid);
        }
        samples.read_mapped();
        let mut accounting = KernelTimeAccounting::new(&[], None);
        let stop = Stop::new().map_err(ProbeError::NoSamples)?;
        let begin = monotonic();
        accounting.begin(begin);
        let (done, end) = thread::scope(|scope| {
            scope.spawn(|| {
                while stop.wait_until(monotonic() + READ_EVERY) == Woken::TimedOut {
                    accounting.read(samples);
                }
            });
            // It ends the thread however the work ends.
            let _over = StopOnDrop(&stop);
            (work(), monotonic())
        });
        accounting.end(end);
        accounting.read(samples);
        accounting.close();
        let mut report = KernelTimeReport::of(&accounting, samples, &[], begin, end);
        report.processes = [&self.processes[..], more].concat();
        Ok((done, report))
    }
}

/// Ends a thread that waits.
struct StopOnDrop<'a>(&'a Stop);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn start(samples: &mut Samples, children: bool, processes: &[u32]) -> Result<(), ProbeError> {
    samples.start(if children { Watch::Children } else { Watch::Everybody })?;
    for pid in processes {
        samples.watch(*pid);
    }
    samples.read_mapped();
    samples.find_programs();
    Ok(())
}
