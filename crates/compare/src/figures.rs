//! From what tools and meters said to the figures of a run.

use std::collections::BTreeSet;

use nightwatt_workloads::{Outcome, Output, unit};

use super::commands::{self, Process};
use super::error::Error;
use super::host;
use super::metering::Meters;
use super::plan::{MAIN, Plan, Reader};
use super::record::{Better, ChannelRecord, RunFigure, RunRecord};

/// Energy of the run divided by what was done in it.
pub const PER_OPERATION: &str = "energy_per_operation";
/// The same without what the idle environment draws.
pub(crate) const DYNAMIC_PER_OPERATION: &str = "dynamic_energy_per_operation";
/// Mean power.
pub const POWER: &str = "power";
/// Mean power x time.
pub(crate) const ENERGY: &str = "energy";
/// What the idle environment draws.
const IDLE_POWER: &str = "idle_power";
/// Operations in a second, of all copies.
pub(crate) const RATE: &str = "operations_per_second";
/// Wall-clock time.
pub(crate) const ELAPSED: &str = "elapsed";
/// Operations that failed.
pub(crate) const ERRORS: &str = "errors";

/// What `compare` calls its own figures. A tool's that is called so gets another name: a run has no two of
/// one name.
const OURS: [&str; 16] = [
    PER_OPERATION,
    DYNAMIC_PER_OPERATION,
    POWER,
    IDLE_POWER,
    ENERGY,
    RATE,
    ELAPSED,
    ERRORS,
    MAIN,
    "machine_busy",
    "load_average",
    "memory_used",
    "memory_used_most",
    host::OURS,
    host::OTHERS,
    // A column of the tables.
    "coverage",
];

/// Copies whose times differ by more than this share did not do their work side by side.
const UNEVEN: f64 = 0.1;

/// By how much the times of tools may be off: some tell whole seconds.
const ROUNDING: f64 = 0.05;
const A_SECOND: std::time::Duration = std::time::Duration::from_secs(1);

/// What one copy's tool said.
pub(crate) struct ToolOutcome(pub(super) Outcome);

impl ToolOutcome {
    pub(crate) fn read(reader: &Reader, process: &Process) -> Result<Self, Error> {
        let (stdout, stderr) = (commands::text(&process.out)?, commands::text(&process.err)?);
        let output = Output { stdout: &stdout, stderr: &stderr, files: &[] };
        let outcome = reader.read(&output).map_err(|error| Error::RunFailed(error.to_string()))?;
        Ok(Self(outcome))
    }
}

/// The channels that the energy of this run would be the sum of. Which they are for a plan, its first run
/// that finished says ([`main_of`]).
pub(crate) fn energy_channels<'a>(
    plan: &Plan,
    channels: &'a [ChannelRecord],
) -> Vec<&'a ChannelRecord> {
    channels_of(plan.energy.as_deref(), channels)
}

/// The channels without a plan: the one that is wanted, or those that say most.
pub fn channels_of<'a>(
    wanted: Option<&str>,
    channels: &'a [ChannelRecord],
) -> Vec<&'a ChannelRecord> {
    // What said nothing is no source.
    let spoke = || channels.iter().filter(|it| it.watts.is_some());
    if let Some(wanted) = wanted {
        return spoke().filter(|it| name_of(it) == wanted).collect();
    }
    let is_modelled = |it: &ChannelRecord| {
        matches!(it.provenance, nightwatt_energy::energy::Provenance::Modelled { .. })
    };
    // The wall says most, then the whole machine; else the parts that do not contain each other; and a
    // model only where nothing is measured.
    let whole = |modelled: bool| {
        let of = |it: &&ChannelRecord| it.scope.is_whole() && is_modelled(it) == modelled;
        spoke().filter(of).min_by_key(|it| it.scope)
    };
    if let Some(channel) = whole(false) {
        return vec![channel];
    }
    let parts = || spoke().filter(|it| it.scope.is_disjoint() && !is_modelled(it));
    // Two meters of one scope measure the same twice: the first of them counts.
    let meter_of = |scope| parts().find(|it| it.scope == scope).map(|it| it.meter.as_str());
    let parts: Vec<_> =
        parts().filter(|it| meter_of(it.scope) == Some(it.meter.as_str())).collect();
    if parts.is_empty() { whole(true).into_iter().collect() } else { parts }
}

/// Whether any of the energy by these channels is a model's.
pub fn is_modelled(wanted: Option<&str>, channels: &[ChannelRecord]) -> bool {
    let is_measured = |it: &&ChannelRecord| {
        matches!(it.provenance, nightwatt_energy::energy::Provenance::Measured { .. })
    };
    !channels_of(wanted, channels).iter().all(is_measured)
}

/// A channel's name in tables: `rapl/package-0`.
pub fn name_of(channel: &ChannelRecord) -> String {
    format!("{}/{}", channel.meter, channel.channel)
}

/// Mean power of these; `None` if there are none.
pub(crate) fn energy_watts(plan: &Plan, channels: &[ChannelRecord]) -> Option<f64> {
    watts_of(plan.energy.as_deref(), channels)
}

/// Mean power by the channel that is wanted, or by those that say most; `None` if there are none.
pub fn watts_of(wanted: Option<&str>, channels: &[ChannelRecord]) -> Option<f64> {
    let channels = channels_of(wanted, channels);
    let watts: Option<f64> = channels.iter().map(|channel| channel.watts).sum();
    watts.filter(|_| !channels.is_empty())
}

/// What the energy of a run is from: `rapl/package-0 + rapl/dram-0`.
pub(crate) fn energy_source(plan: &Plan, channels: &[ChannelRecord]) -> String {
    source_of(plan.energy.as_deref(), channels)
}

/// The same of the channel that is wanted, or of those that say most.
pub fn source_of(wanted: Option<&str>, channels: &[ChannelRecord]) -> String {
    let names: BTreeSet<String> =
        channels_of(wanted, channels).iter().map(|channel| name_of(channel)).collect();
    names.into_iter().collect::<Vec<_>>().join(" + ")
}

/// Mean power of an idle environment, from the same channels as that of its runs.
pub(crate) fn idle_watts(
    plan: &Plan,
    so_far: &[RunRecord],
    channels: &[ChannelRecord],
) -> Option<f64> {
    let is_its =
        |first: &RunRecord| energy_source(plan, &first.channels) == energy_source(plan, channels);
    energy_watts(plan, channels).filter(|_| finished(so_far).next().is_none_or(is_its))
}

/// There is the channel that the plan wants.
pub fn check_energy(wanted: Option<&str>, meters: &Meters) -> Result<(), Error> {
    let Some(wanted) = wanted else { return Ok(()) };
    let names: Vec<String> =
        meters.channels().map(|(meter, channel)| format!("{meter}/{}", channel.name)).collect();
    if names.iter().any(|name| name == wanted) {
        return Ok(());
    }
    Err(Error::NoChannel { wanted: wanted.to_owned(), names })
}

/// Puts the figures of all copies' tools into a run, and what follows from them and the power.
pub(crate) fn fill(plan: &Plan, record: &mut RunRecord, said: &[ToolOutcome], idle: Option<f64>) {
    let outcomes: Vec<&Outcome> = said.iter().map(|said| &said.0).collect();
    let watts = energy_watts(plan, &record.channels);
    let mut add = |name: &str, value: Option<f64>, unit: &str, better: Better| {
        let figure =
            |value| RunFigure { name: name.to_owned(), value, unit: unit.to_owned(), better };
        record.figures.extend(value.filter(|value| value.is_finite()).map(figure));
    };
    let elapsed = record.elapsed_s;
    let rate = rate(&outcomes, elapsed).filter(|rate| *rate > 0.0);
    let errors = outcomes.iter().map(|outcome| outcome.errors).sum();
    let done = operations(&outcomes);
    let what = outcomes.first().and_then(|outcome| outcome.operations.as_ref());
    let per = what.map_or("operation".to_owned(), |operations| singular(&operations.what));
    add(
        PER_OPERATION,
        watts.zip(rate).map(|(watts, rate)| watts / rate),
        &format!("J/{per}"),
        Better::Lower,
    );
    let dynamic = watts.zip(idle).zip(rate).map(|((watts, idle), rate)| (watts - idle) / rate);
    add(DYNAMIC_PER_OPERATION, dynamic, &format!("J/{per}"), Better::Lower);
    add(POWER, watts, "W", Better::Lower);
    add(IDLE_POWER, idle, "W", Better::Lower);
    add(ENERGY, watts.map(|watts| watts * elapsed), "J", Better::Lower);
    add(RATE, rate, &format!("{per}/s"), Better::Higher);
    add(ELAPSED, Some(elapsed), "s", Better::Lower);
    add(ERRORS, done.map(|_| errors as f64), unit::COUNT, Better::Lower);
    for figure in outcomes.first().map(|outcome| &outcome.figures[..]).unwrap_or_default() {
        let all: Option<Vec<f64>> = outcomes.iter().map(|it| it.figure(&figure.name)).collect();
        let value = all.map(|all| together(&all, &figure.unit));
        add(
            &name_beside_ours(outcomes[0], &figure.name),
            value,
            &figure.unit,
            figure.better.into(),
        );
    }
    record.errors = errors;
    record.percentiles = percentiles(&outcomes);
    record.answered =
        done.filter(|done| *done > 0.0).map_or(1.0, |done| done / (done + errors as f64));
    record.warnings.extend(uneven(&outcomes, elapsed));
    let trimmed = elapsed - (plan.runs.trim_first + plan.runs.trim_last).as_secs_f64();
    record.warnings.extend(idle_part(&outcomes, trimmed));
    for (copy, outcome) in outcomes.iter().enumerate() {
        let of = if outcomes.len() > 1 { format!("copy {copy}: ") } else { String::new() };
        record.warnings.extend(outcome.warnings.iter().map(|warning| format!("{of}{warning}")));
    }
}

/// Operations of all copies; `None` if any does not tell its own.
fn operations(outcomes: &[&Outcome]) -> Option<f64> {
    outcomes.iter().map(|it| Some(it.operations.as_ref()?.count as f64)).sum()
}

/// How long each copy took. A tool that tells no time of its own took all of it.
fn durations(outcomes: &[&Outcome], elapsed: f64) -> impl Iterator<Item = f64> {
    outcomes.iter().map(move |outcome| {
        let told = outcome.duration.filter(|it| !it.is_zero());
        told.map_or(elapsed, |it| it.as_secs_f64())
    })
}

/// Operations in a second, of all copies: what the mean power of them all is divided by. As long as the
/// last of them works there is power, so a copy that is done before does not count as if it went on.
fn rate(outcomes: &[&Outcome], elapsed: f64) -> Option<f64> {
    let longest = durations(outcomes, elapsed).reduce(f64::max)?;
    Some(operations(outcomes)? / longest)
}

/// A tool cannot have taken longer than it ran: then its clock is read in the wrong unit.
pub(crate) fn check_times(
    said: &[ToolOutcome],
    elapsed: std::time::Duration,
) -> Result<(), String> {
    let limit = elapsed.mul_f64(1.0 + ROUNDING) + A_SECOND;
    match said.iter().filter_map(|said| said.0.duration).find(|told| *told > limit) {
        None => Ok(()),
        Some(told) => Err(format!(
            "the tool says that it took {:.1} s, and it ran for {:.1} s: is its time read in the right unit?",
            told.as_secs_f64(),
            elapsed.as_secs_f64()
        )),
    }
}

/// Says if a tool worked for a part of its run only: power is the mean of all of it.
fn idle_part(outcomes: &[&Outcome], elapsed: f64) -> Option<String> {
    let longest = durations(outcomes, elapsed).reduce(f64::max)?;
    (longest < (1.0 - UNEVEN) * elapsed).then(|| {
        format!(
            "by its own clock the tool worked for {longest:.1} s of {elapsed:.1} s: power is the mean over all \
             of them (`trim_first`, `trim_last`), operations a second are those of its own time"
        )
    })
}

/// Says if copies did not end together.
fn uneven(outcomes: &[&Outcome], elapsed: f64) -> Option<String> {
    let shortest = durations(outcomes, elapsed).reduce(f64::min)?;
    let longest = durations(outcomes, elapsed).reduce(f64::max)?;
    (longest - shortest > UNEVEN * longest).then(|| {
        format!(
            "copies did not end together: the first took {shortest:.1} s, the last {longest:.1} s; \
             operations a second are those of all copies in the longer time"
        )
    })
}

/// A tool's figure that is called as one of ours becomes `tool_NAME`.
fn name_beside_ours(outcome: &Outcome, name: &str) -> String {
    let mut beside = name.to_owned();
    while OURS.contains(&beside.as_str()) || (beside != name && outcome.figure(&beside).is_some()) {
        beside = format!("tool_{beside}");
    }
    beside
}

/// Rates and bytes add up; all else is a mean: a number without a unit may be a share.
fn together(values: &[f64], its_unit: &str) -> f64 {
    let sum: f64 = values.iter().sum();
    let adds = its_unit == unit::BYTES || its_unit.ends_with("/s");
    if adds { sum } else { sum / values.len() as f64 }
}

fn singular(what: &str) -> String {
    if what == "series" {
        return what.to_owned();
    }
    match what.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => what.strip_suffix('s').unwrap_or(what).to_owned(),
    }
}

/// Shares of the responses, at these percentages.
const PERCENTAGES: [f64; 12] =
    [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.9, 100.0];

/// Of response times that are listed, of all copies; or what the only copy's tool tells.
fn percentiles(outcomes: &[&Outcome]) -> Vec<(f64, f64)> {
    let mut all: Vec<f64> = outcomes
        .iter()
        .flat_map(|it| &it.responses)
        .map(std::time::Duration::as_secs_f64)
        .collect();
    if !all.is_empty() {
        all.sort_by(f64::total_cmp);
        let at = |percent| (percent, nightwatt_energy::stats::percentile(&all, percent));
        return PERCENTAGES.map(at).to_vec();
    }
    match outcomes {
        [only] => only.percentiles.iter().map(|it| (it.percent, it.time.as_secs_f64())).collect(),
        _ => Vec::new(),
    }
}

/// The figure that a run is repeated for, by name: the plan's, or energy per operation; of an idle
/// machine its power; else energy, or where no meter spoke the time.
pub(crate) fn main_name(plan: &Plan, record: &RunRecord) -> Option<String> {
    let workload = &plan.workloads[plan.cells[record.cell].workload];
    if let Some(wanted) = &plan.figure {
        return Some(wanted.clone()).filter(|name| record.figure(name).is_some());
    }
    let order = if workload.tool == "idle" {
        [POWER, ELAPSED, ENERGY, RATE]
    } else {
        [PER_OPERATION, RATE, ENERGY, ELAPSED]
    };
    order.into_iter().find(|name| record.figure(name).is_some()).map(str::to_owned)
}

fn finished(runs: &[RunRecord]) -> impl Iterator<Item = &RunRecord> {
    runs.iter().filter(|run| run.failed.is_none())
}

/// Of how much of a run the power of a source is known, in words.
fn known(source: &str, channels: &[ChannelRecord]) -> String {
    let of_it = channels.iter().filter(|it| source.split(" + ").any(|name| name == name_of(it)));
    let least = of_it.map(|it| it.coverage).reduce(f64::min);
    least.map_or_else(String::new, |it| format!(" (power is known for {:.0} % of it)", 100.0 * it))
}

/// The main figure of a run, by name and value, or why the run does not count in its comparison. The first
/// finished run settles the source of the energy for all later runs, and the first of a comparison settles
/// its main figure: runs that differ in these cannot be averaged.
pub(crate) fn main_of(
    plan: &Plan,
    so_far: &[RunRecord],
    record: &RunRecord,
) -> Result<(String, f64), String> {
    if let Some(why) = &record.failed {
        return Err(why.clone());
    }
    let comparison = |run: &RunRecord| plan.cells[run.cell].comparison;
    let first = finished(so_far).find(|run| comparison(run) == comparison(record));
    let name = first.map_or_else(|| main_name(plan, record), |first| main_name(plan, first));
    let value = name.as_deref().and_then(|name| record.figure(name));
    let now = energy_source(plan, &record.channels);
    let settled = finished(so_far).next();
    if let Some((number, was)) = settled
        .map(|run| (run.number, energy_source(plan, &run.channels)))
        .filter(|(_, was)| *was != now)
    {
        let without = name.filter(|_| value.is_none());
        let without = without.map(|name| format!(", so there is no {name}")).unwrap_or_default();
        return Err(match (now.as_str(), was.as_str()) {
            ("", was) => {
                let known = known(was, &record.channels);
                format!(
                    "the meter said nothing{known}{without}; since run {number} energy is from {was}"
                )
            }
            (now, "") => format!(
                "energy would be from {now}, but the runs since run {number} have none, since no meter \
                 reported any; `--fresh` starts over"
            ),
            (now, was) => format!(
                "energy would be from {now}, but since run {number} it is from {was}; `energy` in the plan \
                 names the channel that is to count"
            ),
        });
    }
    name.clone().zip(value).ok_or_else(|| {
        let wanted = plan.figure.clone().or(name).unwrap_or_else(|| "energy or time".to_owned());
        let names: Vec<&str> = record.figures.iter().map(|it| it.name.as_str()).collect();
        format!("there is no figure `{wanted}`, but {}", names.join(", "))
    })
}

impl From<nightwatt_workloads::Better> for Better {
    fn from(better: nightwatt_workloads::Better) -> Self {
        match better {
            nightwatt_workloads::Better::Higher => Self::Higher,
            nightwatt_workloads::Better::Lower => Self::Lower,
            nightwatt_workloads::Better::Neither => Self::Neither,
        }
    }
}
