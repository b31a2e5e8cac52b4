//! What came of it: figures per channel, with what they are worth.

use std::time::Duration;

use nightwatt_energy::attribution::AcceleratorTime;
use nightwatt_energy::energy::Provenance;
use nightwatt_energy::integration::{Gap, Totals};
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::uncertainty::{Budget, Mean};
use nightwatt_meters::machine::others::{self, Other};
use nightwatt_meters::{Channel, Scope};
use serde::Serialize;

use super::cpu_time::{CountedBy, Used};
use super::instructions::Instructions;
use super::{Finished, Idle, Run, RunOptions};

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// Half a rectangle's width to 95 % of a normal distribution of its variance: 1.96 / sqrt(3).
const RECTANGLE_95: f64 = 1.131_6;

/// Five of the ticks in which the kernel counts the machine's time: a share of less CPU time would be noise.
const FEW_TICKS: Duration = Duration::from_millis(50);

/// The energy of a command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// Version of this form.
    pub schema: u32,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Exit status of the first run that failed, else 0: as a shell has it.
    pub exit_status: u8,
    /// Wall-clock time of a run, s.
    pub elapsed_s: Spread,
    /// CPU time in the command's own code, children included, s.
    pub user_s: Spread,
    /// CPU time in the kernel for it, s.
    pub sys_s: Spread,
    /// Its share of the machine's busy CPU time.
    pub share: Option<Share>,
    /// For how long the idle machine was measured, s.
    pub idle_s: Option<f64>,
    /// CPUs that were busy meanwhile, in the mean.
    pub idle_busy_cpus: Option<f64>,
    /// Other processes that used CPU time during the runs, by name, the busiest first.
    pub others: Vec<Other>,
    /// Every channel of every meter. They may contain each other: never sum them.
    pub channels: Vec<ChannelReport>,
    /// Each run.
    pub runs: Vec<SingleRun>,
    /// What the reader has to know.
    pub warnings: Vec<String>,
}

/// A mean over the runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// Standard deviation of single runs; null of a single one.
    pub sd: Option<f64>,
    /// Half of the mean's 95 % interval; null of a single one.
    pub half_width_95: Option<f64>,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let nothing = Mean { mean: f64::NAN, sd: None, half_width: None };
        let Mean { mean, sd, half_width } = Mean::of(&values).unwrap_or(nothing);
        Self { mean, sd, half_width_95: half_width }
    }
}

/// The command's part of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Share {
    /// CPU time of the command and its children / busy CPU time of the machine, over all runs; null where
    /// either is too little to tell.
    pub of_busy_cpu: Option<f64>,
    /// CPU time of the command and its children, s.
    pub cpu_s: f64,
    /// Busy CPU time of the machine, s.
    pub machine_busy_s: f64,
    /// Who counted the command's.
    pub by: CountedBy,
    /// Instructions of the command / of the machine; null where no PMU counts both.
    pub of_instructions: Option<f64>,
}

/// One channel over all runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChannelReport {
    /// The meter, as the user calls it.
    pub meter: String,
    /// The channel of that meter.
    pub channel: String,
    /// What it covers.
    pub scope: Scope,
    /// Measured or modelled, and by what.
    pub provenance: Provenance,
    /// Energy of a run, J; null where the meter said nothing.
    pub joules: Option<Spread>,
    /// The mean's expanded uncertainty at 95 %, J.
    pub uncertainty_j: Option<Joules>,
    /// What it is made of.
    pub budget: Option<Budget>,
    /// Mean power of a run, W.
    pub watts: Option<f64>,
    /// Idle power and what the command took beyond it, if that was asked for.
    pub dynamic: Option<Dynamic>,
    /// Energy x the command's share, J; for channels of the whole machine, of packages, memory and
    /// accelerators.
    pub attributed_j: Option<f64>,
    /// Of what that share is.
    pub attributed_by: Option<AttributedBy>,
    /// Share of the runs' time of which the energy is known; the rest is taken to be like it.
    pub coverage: f64,
    /// Readings, of all runs.
    pub readings: u64,
    /// Times of which nothing is known.
    pub gaps: u64,
    /// Why the last of them came about.
    pub last_gap: Option<Gap>,
}

/// What energy is shared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttributedBy {
    /// Busy time of the machine's CPUs.
    CpuTime,
    /// Busy time of the accelerator, by the processes that ran on it.
    AcceleratorTime,
}

/// What the command took beyond the idle machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Dynamic {
    /// Idle power, W.
    pub idle_watts: f64,
    /// Its 95 % half width, W.
    pub idle_half_width_95: f64,
    /// Energy less idle power x time, J.
    pub joules: f64,
    /// Its expanded uncertainty at 95 %, J. What a meter reads too much always cancels out.
    pub uncertainty_j: f64,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SingleRun {
    /// Wall-clock time, s.
    pub elapsed_s: f64,
    /// CPU time in user code, s.
    pub user_s: f64,
    /// CPU time in the kernel, s.
    pub sys_s: f64,
    /// Instructions; null without a PMU.
    pub instructions: Option<Instructions>,
    /// Processes of the command that still ran when it ended; 0 where that is not known (see
    /// [`Share::by`]).
    pub left_running: usize,
    /// How it ended.
    pub exit_status: u8,
    /// Energy of each channel, in the order of the report's; null where nothing is known.
    pub joules: Vec<Option<f64>>,
}

impl RunReport {
    pub(super) fn of(options: &RunOptions, runs: &[Run], idle: Option<&Idle>) -> Self {
        let spread =
            |time: fn(&Finished) -> f64| Spread::of(runs.iter().map(|run| time(&run.finished)));
        let share = share(runs);
        let powers = idle.map(|idle| &*idle.powers);
        let channels = channels(runs, powers, share.and_then(|share| share.of_busy_cpu));
        let single = |(number, Run { finished, .. }): (usize, &Run)| SingleRun {
            elapsed_s: elapsed(finished).as_secs_f64(),
            user_s: finished.used.time.user.as_secs_f64(),
            sys_s: finished.used.time.system.as_secs_f64(),
            instructions: finished.used.instructions,
            left_running: finished.used.left_running,
            exit_status: finished.ended.code(),
            joules: joules_of(runs, number).map(|joules| joules.map(Joules::get)).collect(),
        };
        let failed = runs.iter().map(|run| run.finished.ended.code()).find(|code| *code != 0);
        Self {
            schema: SCHEMA,
            command: options.command.iter().map(|it| it.to_string_lossy().into_owned()).collect(),
            exit_status: failed.unwrap_or(0),
            elapsed_s: spread(|run| elapsed(run).as_secs_f64()),
            user_s: spread(|run| run.used.time.user.as_secs_f64()),
            sys_s: spread(|run| run.used.time.system.as_secs_f64()),
            share,
            idle_s: options.idle.filter(|_| idle.is_some()).map(|time| time.as_secs_f64()),
            idle_busy_cpus: idle.and_then(|idle| idle.busy_cpus),
            others: others(runs),
            warnings: idle
                .and_then(Idle::warning)
                .into_iter()
                .chain(warnings(options, runs, &channels))
                .collect(),
            channels,
            runs: runs.iter().enumerate().map(single).collect(),
        }
    }
}

fn elapsed(run: &Finished) -> Duration {
    run.end.since(run.begin)
}

fn share(runs: &[Run]) -> Option<Share> {
    let used = || runs.iter().map(|run| &run.finished.used);
    let cpu: Duration = used().map(|used| used.time.all()).sum();
    let busy: Option<Duration> = used().map(|used| used.machine).sum();
    let of_busy_cpu = share_of_busy(cpu, busy?);
    // The machine's time is told in ticks: that of a short command may be more than it.
    let busy = busy?.max(cpu).as_secs_f64();
    let instructions = used().map(|used| {
        let counted = used.instructions?;
        Some((counted.command, counted.machine?))
    });
    let instructions: Option<Vec<(u64, u64)>> = instructions.collect();
    let of_instructions = instructions.and_then(|counted| {
        let (command, machine) = counted
            .iter()
            .fold((0.0, 0.0), |sums, counts| (sums.0 + counts.0 as f64, sums.1 + counts.1 as f64));
        (machine > 0.0).then(|| (command / machine).min(1.0))
    });
    let any = |by| used().any(|used| used.by == by);
    let by = if any(CountedBy::ProcessTree) {
        CountedBy::ProcessTree
    } else if any(CountedBy::Descendants) {
        CountedBy::Descendants
    } else {
        CountedBy::Cgroup
    };
    let (cpu_s, machine_busy_s) = (cpu.as_secs_f64(), busy);
    Some(Share { of_busy_cpu, cpu_s, machine_busy_s, by, of_instructions })
}

/// A command's share of the machine's busy CPU time, if both are more than a few ticks.
pub(super) fn share_of_busy(cpu: Duration, busy: Duration) -> Option<f64> {
    (cpu.min(busy) >= FEW_TICKS).then(|| cpu.div_duration_f64(busy.max(cpu)))
}

/// Energy of one run on every channel: what is known of it, taken for the whole run.
fn joules_of(runs: &[Run], number: usize) -> impl Iterator<Item = Option<Joules>> + '_ {
    let Run { finished, measured, .. } = &runs[number];
    let time = elapsed(finished);
    let totals = measured.iter().flat_map(|measured| &measured.totals);
    totals.map(move |totals| totals.mean_power().map(|power| power * time))
}

fn channels(runs: &[Run], idle: Option<&[Option<Mean>]>, share: Option<f64>) -> Vec<ChannelReport> {
    let Some(Run { measured: first, .. }) = runs.first() else { return Vec::new() };
    let named = first.iter().enumerate().flat_map(|(meter, measured)| {
        measured.channels.iter().enumerate().map(move |(place, channel)| (meter, place, channel))
    });
    let report = |(index, (meter, place, channel)): (usize, (usize, usize, &Channel))| {
        let share = if channel.scope.goes_by_cpu_time() {
            share.map(|of_all| Attribution { of_all, by: AttributedBy::CpuTime })
        } else {
            accelerator_share(runs, &channel.name)
                .filter(|_| channel.scope == Scope::Gpu)
                .map(|of_all| Attribution { of_all, by: AttributedBy::AcceleratorTime })
        };
        let runs: Vec<OneRun> = runs
            .iter()
            .filter_map(|Run { finished, measured, .. }| {
                let measured = measured.get(meter)?;
                let totals = *measured.totals.get(place)?;
                let (time, interval) = (elapsed(finished), measured.interval);
                Some(OneRun { time, totals, interval, slowest: measured.slowest })
            })
            .collect();
        let idle = idle.and_then(|idle| *idle.get(index)?);
        channel_report(&first[meter].meter, channel, &runs, idle, share)
    };
    named.enumerate().map(report).collect()
}

/// The command's share of the time of an accelerator, over all runs; nothing where that is not known.
fn accelerator_share(runs: &[Run], channel: &str) -> Option<f64> {
    let mut all = AcceleratorTime::default();
    for run in runs {
        let time = (*run.accelerators.get(channel)?)?;
        all.ours += time.ours;
        all.others += time.others;
        all.unseen += time.unseen;
    }
    all.share()
}

/// The command's share of a channel.
#[derive(Clone, Copy)]
struct Attribution {
    of_all: f64,
    by: AttributedBy,
}

/// What one channel says of one run.
struct OneRun {
    time: Duration,
    totals: Totals,
    interval: Duration,
    /// The longest time that a reading took: its figure may be of any moment within it.
    slowest: Duration,
}

impl OneRun {
    fn joules(&self) -> Option<Joules> {
        Some(self.totals.mean_power()? * self.time)
    }

    /// Of steps of the meter at both ends, of what lay between readings, and of what is not covered.
    fn sampling(&self, channel: &Channel) -> Option<Joules> {
        let mean = self.totals.mean_power()?;
        let step = if channel.counter.is_some() {
            RECTANGLE_95 * channel.step / 2.0 * 2.0_f64.sqrt()
        } else {
            0.0
        };
        let (least, most) = self.totals.span?;
        let readings = self.totals.readings.max(1) as f64;
        // Powers spread evenly over what was seen have a variance of range^2 / 12.
        let between = if channel.counter.is_none() && !channel.is_modelled {
            1.96 * (most - least).get() / (12.0 * readings).sqrt() * self.time.as_secs_f64()
        } else {
            0.0
        };
        let unknown = (mean * self.time.saturating_sub(self.totals.covered)).get();
        // A counter is updated only now and then: at either end some of that time is missing. With an
        // unknown step, the missing part is bounded by the largest power seen.
        let late = match channel.counter {
            None => 0.0,
            Some(_) if channel.step > 0.0 => (mean * UPDATED.min(self.interval)).get(),
            Some(_) => (most * self.interval.min(self.time)).get(),
        };
        let late = RECTANGLE_95 * late / 2.0 * 2.0_f64.sqrt();
        // At either end the figure may be of any moment between the question and the answer.
        let answers = most.max(Watts::ZERO) * self.slowest.min(self.time);
        let answers = RECTANGLE_95 * answers.get() / 2.0 * 2.0_f64.sqrt();
        let parts = [step, between, unknown, late, answers];
        Some(Joules(parts.map(|part: f64| part.powi(2)).iter().sum::<f64>().sqrt()))
    }
}

/// Usual interval between two updates of a processor's counters.
const UPDATED: Duration = Duration::from_millis(1);

fn channel_report(
    meter: &str,
    channel: &Channel,
    runs: &[OneRun],
    idle: Option<Mean>,
    share: Option<Attribution>,
) -> ChannelReport {
    // A counter that never counted has said nothing: its steps are longer than a run. If it counted in
    // some, the mean is over all: what one run misses of a step, another has too much.
    let silent =
        channel.counter.is_some() && runs.iter().all(|run| run.totals.joules == Joules::ZERO);
    let known = runs.iter().filter(|_| !silent).filter_map(OneRun::joules);
    let joules: Vec<f64> = known.map(Joules::get).collect();
    let mean = Mean::of(&joules);
    let known = joules.len().max(1) as f64;
    let time: Duration = runs.iter().map(|run| run.time).sum();
    let covered: Duration = runs.iter().map(|run| run.totals.covered).sum();
    let mean_time = time.div_f64(runs.len().max(1) as f64);
    let budget = mean.map(|mean| {
        let sampling = runs.iter().filter_map(|run| run.sampling(channel));
        // Independent from run to run.
        let sampling = sampling.map(|part| part.get().powi(2)).sum::<f64>().sqrt() / known;
        Budget {
            meter: channel.accuracy.of(Joules(mean.mean), mean_time),
            sampling: Joules(sampling),
            baseline: Joules::ZERO,
            repetition: Joules(mean.half_width.unwrap_or(0.0)),
        }
    });
    // A single stretch of the idle machine gives no estimate of its uncertainty.
    let idle = idle.filter(|idle| idle.half_width.is_some());
    let dynamic = mean
        .zip(idle)
        .zip(budget)
        .map(|((mean, idle), budget)| dynamic(channel, mean.mean, idle, budget, mean_time));
    ChannelReport {
        meter: meter.to_owned(),
        channel: channel.name.clone(),
        scope: channel.scope,
        provenance: channel.provenance(meter),
        joules: mean.map(|it| Spread { mean: it.mean, sd: it.sd, half_width_95: it.half_width }),
        uncertainty_j: budget.map(|budget| budget.combined()),
        budget,
        watts: mean.map(|mean| mean.mean / mean_time.as_secs_f64()),
        dynamic,
        attributed_j: mean.zip(share).map(|(mean, share)| mean.mean * share.of_all),
        attributed_by: mean.and(share).map(|share| share.by),
        coverage: covered.as_secs_f64() / time.as_secs_f64().max(f64::MIN_POSITIVE),
        readings: runs.iter().map(|run| run.totals.readings).sum(),
        gaps: runs.iter().map(|run| run.totals.gaps).sum(),
        last_gap: runs.iter().rev().find_map(|run| run.totals.last_gap),
    }
}

fn dynamic(channel: &Channel, joules: f64, idle: Mean, budget: Budget, time: Duration) -> Dynamic {
    let seconds = time.as_secs_f64();
    let joules = joules - idle.mean * seconds;
    let idle_half_width = idle.half_width.unwrap_or(0.0);
    let budget = Budget {
        // The share of the reading that the meter may be off, of what is left; offsets cancel out.
        meter: Joules((joules * channel.accuracy.relative).abs()),
        baseline: Joules(idle_half_width * seconds),
        ..budget
    };
    Dynamic {
        idle_watts: idle.mean,
        idle_half_width_95: idle_half_width,
        joules,
        uncertainty_j: budget.combined().get(),
    }
}

/// What other processes used over all runs.
fn others(runs: &[Run]) -> Vec<Other> {
    let mut all: Vec<Other> = Vec::new();
    for other in runs.iter().flat_map(|run| &run.finished.used.others) {
        match all.iter_mut().find(|known| known.command == other.command) {
            Some(known) => known.cpu_s += other.cpu_s,
            None => all.push(other.clone()),
        }
    }
    all.sort_by(|one, other| other.cpu_s.total_cmp(&one.cpu_s));
    all
}

/// That other processes were busy, too, if they were.
fn about_others(runs: &[Run]) -> Option<String> {
    let used = || runs.iter().map(|run| &run.finished.used);
    let beside: Duration = used().map(Used::beside).sum::<Option<_>>()?;
    let command: Duration = used().map(|used| used.time.all()).sum();
    let time: Duration = runs.iter().map(|run| elapsed(&run.finished)).sum();
    let [beside, command, time] = [beside, command, time].map(|time| time.as_secs_f64());
    others::are_busy(beside, command, time).then(|| {
        format!(
            "other processes used {beside:.2} s of CPU time while the command ran ({}). Their energy is in \
             these figures, but not in the share by CPU time. What a daemon does for the command \
             (docker, systemd-run) counts as other processes",
            others::busiest(&others(runs))
        )
    })
}

/// Readings that were left out, and meters that cannot be read as often as wished.
fn about_readings(options: &RunOptions, runs: &[Run]) -> Vec<String> {
    let mut warnings = Vec::new();
    let totals = runs.iter().flat_map(|run| &run.measured).flat_map(|it| &it.totals);
    let ignored: u64 = totals.map(|totals| totals.ignored).sum();
    if ignored > 0 {
        warnings.push(format!(
            "{ignored} readings were left out: no figures, none that can be true, or not in order of \
             time"
        ));
    }
    for measured in runs.iter().take(1).flat_map(|run| &run.measured) {
        if options.interval.is_some_and(|wish| measured.interval > wish) {
            let (name, every) = (&measured.meter, measured.interval.as_secs_f64());
            warnings.push(format!("{name} says something new every {every} s at most"));
        }
    }
    warnings
}

fn about_channels(runs: &[Run], channels: &[ChannelReport]) -> Vec<String> {
    let mut warnings = Vec::new();
    for channel in channels {
        let name = format!("{}/{}", channel.meter, channel.channel);
        if channel.joules.is_none() {
            warnings.push(format!(
                "{name} said nothing while the command ran: let it run for longer than the meter's \
                 interval, or repeat it within one command"
            ));
        } else if channel.readings < 3 * runs.len() as u64
            && matches!(channel.provenance, Provenance::Measured { .. })
        {
            warnings.push(format!(
                "{name} was read {} times in {} runs: what lay in between is unknown; `-I` reads it \
                 more often, if the meter can",
                channel.readings,
                runs.len()
            ));
        } else if channel.coverage < 0.95 {
            warnings.push(format!(
                "{name} covers {:.0} % of the time; the rest is taken to be like it",
                channel.coverage * 100.0
            ));
        }
    }
    for channel in channels.iter().filter(|channel| channel.scope == Scope::Gpu) {
        if channel.joules.is_some() && channel.attributed_j.is_none() {
            warnings.push(format!(
                "{}/{}: it is not known which processes used the accelerator, so none \
                 of its energy is attributed",
                channel.meter, channel.channel
            ));
        }
    }
    warnings
}

fn warnings(options: &RunOptions, runs: &[Run], channels: &[ChannelReport]) -> Vec<String> {
    let mut warnings = Vec::new();
    if channels.iter().all(|channel| matches!(channel.provenance, Provenance::Modelled { .. })) {
        warnings.push(
            "no meter: these figures are a model's. `nightwatt meters` lists what could measure here"
                .to_owned(),
        );
    }
    warnings.extend(about_channels(runs, channels));
    warnings.extend(about_readings(options, runs));
    warnings.extend(about_others(runs));
    let left = runs.iter().map(|run| run.finished.used.left_running).max().unwrap_or(0);
    if left > 0 {
        warnings.push(format!(
            "{left} of the command's processes still ran when it ended: what they use later is not in \
             here"
        ));
    }
    let (mut missed, mut suspends) = (0, 0);
    for measured in runs.iter().flat_map(|run| &run.measured) {
        missed += measured.missed;
        suspends += measured.suspends;
        for warning in measured.warnings() {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    if missed > 0 {
        warnings.push(format!("{missed} readings came too late and were left out"));
    }
    if suspends > 0 {
        warnings.push(format!("the host was suspended {suspends} times: that time is not covered"));
    }
    if (runs.len() as u64) < u64::from(options.repeats) {
        warnings.push(format!("interrupted after {} of {} runs", runs.len(), options.repeats));
    }
    warnings.dedup();
    warnings
}
