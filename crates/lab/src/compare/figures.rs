//! From what tools and meters said to the figures of a run.

use std::collections::BTreeSet;

use nightwatt_workloads::{Outcome, Output, unit};

use super::commands::{self, Process};
use super::error::Error;
use super::metering::Meters;
use super::plan::{Plan, Reader};
use super::record::{Better, ChannelRecord, RunFigure, RunRecord};

/// Energy of the run divided by what was done in it.
pub(crate) const PER_OPERATION: &str = "energy_per_operation";
/// The same without what the idle environment draws.
pub(crate) const DYNAMIC_PER_OPERATION: &str = "dynamic_energy_per_operation";
/// Mean power.
pub(crate) const POWER: &str = "power";
/// Mean power x time.
pub(crate) const ENERGY: &str = "energy";
/// Operations in a second, of all copies.
pub(crate) const RATE: &str = "operations_per_second";
/// Wall-clock time.
pub(crate) const ELAPSED: &str = "elapsed";

/// What one copy's tool said.
pub(crate) struct Said(Outcome);

impl Said {
    pub(crate) fn read(reader: &Reader, process: &Process) -> Result<Self, Error> {
        let (stdout, stderr) = (commands::text(&process.out)?, commands::text(&process.err)?);
        let output = Output { stdout: &stdout, stderr: &stderr, files: &[] };
        let outcome = reader.read(&output).map_err(|error| Error::RunFailed(error.to_string()))?;
        Ok(Self(outcome))
    }
}

/// The channels that the energy is the sum of.
pub(crate) fn energy_channels<'a>(
    plan: &Plan,
    channels: &'a [ChannelRecord],
) -> Vec<&'a ChannelRecord> {
    if let Some(wanted) = &plan.energy {
        let is_it = |it: &&ChannelRecord| format!("{}/{}", it.meter, it.channel) == *wanted;
        return channels.iter().filter(is_it).collect();
    }
    let is_modelled = |it: &ChannelRecord| {
        matches!(it.provenance, nightwatt_model::energy::Provenance::Modelled { .. })
    };
    // The wall says most, then the whole machine; else the parts that do not contain each other; and a
    // model only where nothing is measured.
    let whole = |modelled: bool| {
        let of = |it: &&ChannelRecord| it.scope.is_whole() && is_modelled(it) == modelled;
        channels.iter().filter(of).min_by_key(|it| it.scope)
    };
    if let Some(channel) = whole(false) {
        return vec![channel];
    }
    let meter = channels.iter().find(|it| it.scope.is_disjoint() && !is_modelled(it));
    if let Some(first) = meter {
        let of = |it: &&ChannelRecord| it.meter == first.meter && it.scope.is_disjoint();
        return channels.iter().filter(of).collect();
    }
    whole(true).into_iter().collect()
}

/// Mean power of these; `None` if any of them said nothing.
pub(crate) fn energy_watts(plan: &Plan, channels: &[ChannelRecord]) -> Option<f64> {
    let channels = energy_channels(plan, channels);
    let watts: Option<f64> = channels.iter().map(|channel| channel.watts).sum();
    watts.filter(|_| !channels.is_empty())
}

/// What the energy of a run is from: `rapl/package-0 + rapl/dram-0`.
pub(crate) fn energy_source(plan: &Plan, channels: &[ChannelRecord]) -> String {
    let names: BTreeSet<String> = energy_channels(plan, channels)
        .iter()
        .map(|channel| format!("{}/{}", channel.meter, channel.channel))
        .collect();
    names.into_iter().collect::<Vec<_>>().join(" + ")
}

/// There is the channel that the plan wants.
pub(crate) fn check_energy(plan: &Plan, meters: &Meters) -> Result<(), Error> {
    let Some(wanted) = &plan.energy else { return Ok(()) };
    let names: Vec<String> =
        meters.channels().map(|(meter, channel)| format!("{meter}/{}", channel.name)).collect();
    if names.contains(wanted) {
        return Ok(());
    }
    Err(Error::NoChannel { wanted: wanted.clone(), names })
}

/// Puts the figures of all copies' tools into a run, and what follows from them and the power.
pub(crate) fn fill(plan: &Plan, record: &mut RunRecord, said: &[Said], idle: Option<f64>) {
    let outcomes: Vec<&Outcome> = said.iter().map(|said| &said.0).collect();
    let watts = energy_watts(plan, &record.channels);
    let mut add = |name: &str, value: Option<f64>, unit: &str, better: Better| {
        let figure =
            |value| RunFigure { name: name.to_owned(), value, unit: unit.to_owned(), better };
        record.figures.extend(value.filter(|value| value.is_finite()).map(figure));
    };
    let elapsed = record.elapsed_s;
    let rate: Option<f64> = outcomes
        .iter()
        .map(|outcome| {
            let count = outcome.operations.as_ref()?.count as f64;
            // A tool that tells no time of its own took all of it.
            Some(outcome.per_second().unwrap_or(count / elapsed))
        })
        .sum();
    let rate = rate.filter(|rate| *rate > 0.0);
    let what = outcomes.first().and_then(|outcome| outcome.operations.as_ref());
    let per = what.map_or("operation", |operations| singular(&operations.what));
    add(
        PER_OPERATION,
        watts.zip(rate).map(|(watts, rate)| watts / rate),
        &format!("J/{per}"),
        Better::Lower,
    );
    let dynamic = watts.zip(idle).zip(rate).map(|((watts, idle), rate)| (watts - idle) / rate);
    add(DYNAMIC_PER_OPERATION, dynamic, &format!("J/{per}"), Better::Lower);
    add(POWER, watts, "W", Better::Lower);
    add("idle_power", idle, "W", Better::Lower);
    add(ENERGY, watts.map(|watts| watts * elapsed), "J", Better::Lower);
    add(RATE, rate, &format!("{per}/s"), Better::Higher);
    add(ELAPSED, Some(elapsed), "s", Better::Lower);
    for figure in outcomes.first().map(|outcome| &outcome.figures[..]).unwrap_or_default() {
        let all: Option<Vec<f64>> = outcomes.iter().map(|it| it.figure(&figure.name)).collect();
        let value = all.map(|all| together(&all, &figure.unit));
        add(&figure.name, value, &figure.unit, figure.better.into());
    }
    record.errors = outcomes.iter().map(|outcome| outcome.errors).sum();
    record.percentiles = percentiles(&outcomes);
    for (copy, outcome) in outcomes.iter().enumerate() {
        let of = if outcomes.len() > 1 { format!("copy {copy}: ") } else { String::new() };
        record.warnings.extend(outcome.warnings.iter().map(|warning| format!("{of}{warning}")));
    }
}

/// Rates add up; all else is a mean.
fn together(values: &[f64], its_unit: &str) -> f64 {
    let sum: f64 = values.iter().sum();
    let adds = [
        unit::PER_SECOND,
        unit::BYTES_PER_SECOND,
        unit::BITS_PER_SECOND,
        unit::FLOPS,
        unit::COUNT,
        unit::BYTES,
    ];
    if adds.contains(&its_unit) { sum } else { sum / values.len() as f64 }
}

fn singular(what: &str) -> &str {
    what.strip_suffix('s').unwrap_or(what)
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
        let at = |percent| (percent, nightwatt_model::stats::percentile(&all, percent));
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

/// That figure's name and value; `None` of a run that failed.
pub(crate) fn main(plan: &Plan, record: &RunRecord) -> Option<(String, f64)> {
    if record.failed.is_some() {
        return None;
    }
    let name = main_name(plan, record)?;
    record.figure(&name).map(|value| (name.clone(), value))
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
