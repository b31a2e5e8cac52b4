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

use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

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
    let used = |pid: &u32| cpu_time(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    let pids = Some(target.pids()).filter(|pids| !pids.is_empty())?;
    pids.iter().map(used).sum()
}

/// Of `/proc/PID/stat` (proc(5): fields 14 and 15). The second field is the command's name in brackets,
/// and may contain anything.
fn cpu_time(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let ticks = next()?.saturating_add(next()?);
    Some(Duration::from_millis(
        ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        // Fields numbered as in proc(5): 14 is 250, 15 is 50; a tick is 10 ms on Linux.
        let stat = "4242 (a) b ( c) S 1 4242 4242 0 -1 4194304 9 0 0 0 250 50 7 8 20 0 3 0 99";
        assert_eq!(cpu_time(stat), Some(Duration::from_secs(3)));
        assert_eq!(cpu_time("4242 (a"), None);
    }
}
