//! `nightwatt caliper --sample`: the energy of functions by samples, for use where a probe at each call is
//! too expensive or not allowed, or where the functions of interest are not known yet.
//!
//! Each CPU reports at fixed times what runs there; the samples between two readings of a meter share what
//! it measured (`energy::samples`).

mod accounting;
pub(crate) mod channels;
pub(crate) mod following;
mod result;
mod text;

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use nightwatt_host::proc_stat::{self, ProcStat, ticks_time};
use nightwatt_probes::Samples;

use super::{CaliperOptions, Section, SectionSpec, Step, Target};
use crate::error::Error;
use accounting::{FunctionRow, SampleAccounting};
use following::{Accounting, FollowedTarget};
use nightwatt_measure::run::{self, Idle, Running};

pub use result::{SampleCounts, SampledEnergy, SampledFunction, SampledReport};

/// Takes `hz` samples a second on each CPU, and reports. Calls `step` before each next step. Without
/// sections, every function that was seen is one.
pub fn run(
    options: &CaliperOptions,
    hz: u32,
    running: &Running,
    mut step: impl FnMut(Step),
) -> Result<SampledReport, Error> {
    if options.sections.iter().any(|section| matches!(section, SectionSpec::Between(..))) {
        return Err(Error::SampledPair);
    }
    let sections = super::sections(&options.sections)?;
    let sections = sections.iter().map(FunctionRow::of).collect::<Result<Vec<_>, _>>()?;
    let watch = options.target.watch()?;
    let mut samples = Samples::open(hz)?;
    let (meters, idle) =
        run::opened(&options.meters, options.idle, options.interval, running, |time| {
            step(Step::Idle(time));
        })?;
    let powers = idle.as_ref().map(|idle| &*idle.powers);
    let mut accounting = SampleAccounting::new(&meters, powers, sections);
    let used_before = time_used(&options.target);
    samples.start(watch)?;
    for pid in options.target.running() {
        samples.watch(pid);
    }
    if options.target == Target::Everything {
        samples.watch_everything();
    }
    let (sender, events) = channel();
    let metering = super::start(meters, options.interval, &sender)?;
    let command = match &options.target {
        Target::Command(command) => Some(command.as_slice()),
        Target::Processes(_) | Target::Everything => None,
    };
    let is_gone = || options.target.is_gone();
    let followed = FollowedTarget { command, time: options.time, is_gone: &is_gone, running };
    let target_run =
        followed.to_its_end(&mut samples, &mut accounting, &metering, sender, &events)?;
    let used =
        time_used(&options.target).zip(used_before).map(|(now, then)| now.saturating_sub(then));
    accounting.end(target_run.end);
    accounting.read(&mut samples);
    let (measured, _) = metering.finish(target_run.end);
    for event in events.try_iter() {
        accounting.channels.event(&event);
    }
    accounting.close();
    accounting.name_generated(&mut samples);
    let mut report = SampledReport::of(
        options,
        &result::Observations {
            accounting: &accounting,
            samples: &samples,
            measured: &measured,
            target_run: &target_run,
            used,
        },
    );
    report.warnings.extend(idle.as_ref().and_then(Idle::warning));
    Ok(report)
}

/// The CPU time that processes which ran already have used, while they are there.
fn time_used(target: &Target) -> Option<Duration> {
    let used = |pid: &u32| {
        let stat = proc_stat::read(Path::new(&format!("/proc/{pid}"))).ok()?;
        Some(ticks_time(ProcStat::of(&stat)?.ticks()?))
    };
    let pids = Some(target.pids()).filter(|pids| !pids.is_empty())?;
    pids.iter().map(used).sum()
}
