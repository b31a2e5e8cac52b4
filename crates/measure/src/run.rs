//! `nightwatt run`: the energy of a command, as `perf stat` has its events.
//!
//! ```text
//! idle baseline (if asked for) ─► run 1 ─► run 2 ─► ... ─► report
//!                                  └ meters begin, command, meters end
//! ```
//!
//! Each meter is read just before the command begins and just after it ended; only what lies between
//! those two moments counts. Nothing is printed and nothing of the command's own output is touched.

mod accelerators;
mod cgroup;
pub mod child;
mod counting;
mod cpu_time;
mod descendants;
mod instructions;
mod result;
mod text;

use std::ffi::OsString;
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::uncertainty::Mean;
use nightwatt_meters::machine::others::{self, Busy};
use nightwatt_meters::sampler::{Measured, Opened, Sampler};
use nightwatt_meters::{Host, MeterSpec};

use crate::error::Error;
use crate::run::accelerators::{Times, Watch};
use crate::run::child::Finished;

pub use child::{Ended, Running};
pub use cpu_time::CountedBy;
pub use instructions::Instructions;
pub use nightwatt_meters::machine::others::Other;
pub use result::{AttributedBy, ChannelReport, Dynamic, RunReport, Share, SingleRun, Spread};

/// Number of stretches in which the idle power is measured: their spread gives its uncertainty.
const IDLE_STRETCHES: u32 = 10;

/// What is to be measured, and how.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// How often it is run.
    pub repeats: u32,
    /// How often it is run before that, unmeasured.
    pub warm_ups: u32,
    /// For how long the idle machine is measured first.
    pub idle: Option<Duration>,
    /// By which meters.
    pub meters: Vec<MeterSpec>,
    /// Time between two readings.
    pub interval: Option<Duration>,
}

/// Runs and measures. `step` is told what comes next; `running` lets others reach the command.
pub fn run(
    options: &RunOptions,
    running: &Running,
    mut step: impl FnMut(Step),
) -> Result<RunReport, Error> {
    let (mut meters, idle) =
        opened(&options.meters, options.idle, options.interval, running, |time| {
            step(Step::Idle(time));
        })?;
    for _ in 0..options.warm_ups {
        step(Step::WarmUp);
        child::run(&options.command, running, |_| ())?;
        running.go_on()?;
    }
    let mut runs = Vec::new();
    for number in 1..=options.repeats {
        step(Step::Run(number));
        let watch = Watch::start(&meters, running);
        let sampler = start(&mut meters, options.interval)?;
        let begins = |begin| sampler.begin(begin);
        let finished = child::run_counted(&options.command, running, begins);
        // Meters are given back whatever became of the command.
        let end = finished.as_ref().map_or_else(|_| monotonic(), |finished| finished.end);
        let (measured, back) = sampler.finish(end);
        meters = back;
        let accelerators = watch.map(Watch::finish).unwrap_or_default();
        runs.push(Run { finished: finished?, measured, accelerators });
        if running.is_interrupted() {
            break;
        }
    }
    Ok(RunReport::of(options, &runs, idle.as_ref()))
}

/// A run of the command, and what the meters say of it.
struct Run {
    finished: Finished,
    measured: Vec<Measured>,
    accelerators: Times,
}

/// What `run` is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Measure the idle machine for this time.
    Idle(Duration),
    /// Run the command unmeasured.
    WarmUp,
    /// Run it measured, for the n-th time.
    Run(u32),
}

fn start(meters: &mut Vec<Opened>, interval: Option<Duration>) -> Result<Sampler, Error> {
    Sampler::start_without_sinks(std::mem::take(meters), interval)
        .map_err(|source| Error::System { what: "start the meters' threads", source })
}

/// What the idle machine draws, and how idle it was.
#[derive(Debug, Clone)]
pub struct Idle {
    /// Power by every channel, in the order of meters and channels. `None` where nothing was said.
    pub powers: Vec<Option<Mean>>,
    /// CPUs that were busy meanwhile, in the mean; `None` where the kernel does not say.
    pub busy_cpus: Option<f64>,
}

impl Idle {
    /// That the machine was not idle, if it was not.
    pub fn warning(&self) -> Option<String> {
        others::idle_warning(self.busy_cpus)
    }
}

/// Meters that are open, and what the idle machine draws by them where that is wanted: before it is
/// measured, `on_progress` gets for how long.
pub fn opened(
    specs: &[MeterSpec],
    idle: Option<Duration>,
    interval: Option<Duration>,
    running: &Running,
    on_progress: impl FnOnce(Duration),
) -> Result<(Vec<Opened>, Option<Idle>), Error> {
    let host = Host::default();
    let open = |spec: &MeterSpec| Opened::open(&host, spec);
    let mut meters = specs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let Some(time) = idle else { return Ok((meters, None)) };
    on_progress(time);
    let idle = measure_idle(&mut meters, time, interval, running)?;
    running.go_on()?;
    Ok((meters, Some(idle)))
}

/// What every channel draws while nothing is done, in stretches.
pub fn measure_idle(
    meters: &mut Vec<Opened>,
    time: Duration,
    interval: Option<Duration>,
    running: &Running,
) -> Result<Idle, Error> {
    let (begin, busy) = (monotonic(), Busy::start(Host::default()));
    let mut powers: Vec<Vec<f64>> = Vec::new();
    for _ in 0..IDLE_STRETCHES {
        let sampler = start(meters, interval)?;
        sampler.begin(monotonic());
        running.rest(time / IDLE_STRETCHES);
        let (measured, back) = sampler.finish(monotonic());
        *meters = back;
        let totals = measured.iter().flat_map(|measured: &Measured| &measured.totals);
        for (channel, totals) in totals.enumerate() {
            if powers.len() <= channel {
                powers.push(Vec::new());
            }
            powers[channel].extend(totals.mean_power().map(Watts::get));
        }
        if running.is_interrupted() {
            break;
        }
    }
    let busy_cpus = busy.over(monotonic().since(begin));
    Ok(Idle { powers: powers.iter().map(|powers| Mean::of(powers)).collect(), busy_cpus })
}

#[cfg(test)]
mod tests;
