//! `meters --check A --against B`: one meter against another on the same load.
//!
//! Both are read at once, or are recordings of the same time. What is compared, and how, is the
//! business of [`crate::pure::meter_check`]; here are the readings, and what they mean in words.

pub(crate) mod logs;
mod verdict;

use std::time::Duration;

use crate::pure::meter_check::{MeterCheck, check_meter};
use crate::pure::power_log::PowerLog;
use nightwatt_clock::meter::Stop;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_meters::sampler::Opened;
use nightwatt_meters::{Accuracy, Host, MeterSpec, Scope};
use serde::Serialize;

use crate::channel;
use crate::error::Error;
use crate::series::{Series, live};

/// A load whose standard deviation is less than this share of its mean hardly changes.
const STEADY: f64 = 0.02;

/// The driver of recordings.
pub(crate) const FILE: &str = "file";

/// What is to be compared, and for how long.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// The meter under test.
    pub meter: Side,
    /// The one that is believed.
    pub reference: Side,
    /// For how long both are read; recordings are read to their ends.
    pub time: Duration,
    /// Time between two readings.
    pub interval: Option<Duration>,
    /// The lag is looked for up to this, either way.
    pub longest_lag: Duration,
}

/// One of the two meters.
#[derive(Debug, Clone)]
pub struct Side {
    /// The meter.
    pub spec: MeterSpec,
    /// Its channel; can be left out where one covers the whole machine.
    pub channel: Option<String>,
}

impl Side {
    /// How the user names the channel of the meter, and of the reference.
    const OPTIONS: [&'static str; 2] = ["--channel", "--against-channel"];

    /// Whatever it is called.
    fn is_same_meter(&self, other: &Self) -> bool {
        let nameless = |spec: &MeterSpec| {
            let mut spec = spec.clone();
            spec.options.remove("name");
            spec
        };
        nameless(&self.spec) == nameless(&other.spec)
    }
}

/// What both said.
struct Collected {
    series: [Series; 2],
    /// By how much each is to be moved to have one time base.
    later: [Duration; 2],
    missed: u64,
    warnings: Vec<String>,
}

/// The result of `meter check`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckReport {
    /// Version of this form.
    pub schema: u32,
    /// The meter under test.
    pub meter: SideReport,
    /// The one that is believed.
    pub reference: SideReport,
    /// For how long both said something, from the first to the last.
    pub overlap_s: f64,
    /// The load, by the reference.
    pub load: Load,
    /// How far the two may be apart at the mean load by what they state of themselves (95 %, their
    /// accuracies added as squares are).
    #[serde(rename = "allowed_w")]
    pub allowed: Watts,
    /// The figures.
    pub check: MeterCheck,
    /// In plain words.
    pub verdict: Vec<String>,
    /// Deadlines missed by either.
    pub missed_deadlines: u64,
    /// What is to be known beside.
    pub warnings: Vec<String>,
}

/// One of the two meters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideReport {
    /// What the user calls it.
    pub name: String,
    /// Its channel.
    pub channel: String,
    /// What that covers.
    pub scope: Scope,
    /// `measured` or `modelled`.
    pub kind: &'static str,
    /// What it states of itself.
    pub accuracy: Accuracy,
    /// Readings, all of them.
    pub readings: usize,
    /// Times of which nothing is known.
    pub gaps: usize,
    /// Mean time between two readings.
    pub interval_s: f64,
}

/// The load while the two were compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Load {
    /// Least power.
    #[serde(rename = "least_w")]
    pub least: Watts,
    /// Mean of the readings.
    #[serde(rename = "mean_w")]
    pub mean: Watts,
    /// Most power.
    #[serde(rename = "most_w")]
    pub most: Watts,
    /// Standard deviation of the readings.
    #[serde(rename = "sd_w")]
    pub sd: Watts,
}

/// Reads and compares. `on_progress` gets how much time is left.
pub fn run(
    options: &CheckOptions,
    stop: &Stop,
    on_progress: impl FnMut(Duration),
) -> Result<CheckReport, Error> {
    let sides = [&options.meter, &options.reference];
    if sides[0].is_same_meter(sides[1]) && sides[0].channel == sides[1].channel {
        return Err(Error::SameMeter { meter: sides[0].spec.name().to_owned() });
    }
    let collected = if sides.iter().all(|side| side.spec.driver == FILE) {
        logs::collect(options, stop)?
    } else {
        read(options, stop, on_progress)?
    };
    compare(options, collected)
}

/// Reads both meters at once. Two channels of one meter need one.
fn read(
    options: &CheckOptions,
    stop: &Stop,
    on_progress: impl FnMut(Duration),
) -> Result<Collected, Error> {
    let host = Host::default();
    let sides = [&options.meter, &options.reference];
    let is_one = sides[0].is_same_meter(sides[1]);
    let mut meters = vec![Opened::open(&host, &sides[0].spec)?];
    if !is_one {
        meters.push(Opened::open(&host, &sides[1].spec)?);
    }
    let mut wanted = Vec::new();
    for ((side, option), meter) in sides.into_iter().zip(Side::OPTIONS).zip([0, meters.len() - 1]) {
        let named = side.channel.as_deref();
        wanted.push((meter, channel::pick(meters[meter].channels(), named, &side.spec, option)?));
    }
    if wanted[0] == wanted[1] {
        return Err(Error::SameMeter { meter: sides[0].spec.name().to_owned() });
    }
    let read = live::collect(meters, &wanted, options.time, options.interval, stop, on_progress)?;
    let mut series = read.series.into_iter();
    let (Some(meter), Some(reference)) = (series.next(), series.next()) else {
        return Err(Error::SaidNothing { meter: sides[0].spec.name().to_owned() });
    };
    Ok(Collected {
        series: [meter, reference],
        later: [Duration::ZERO; 2],
        missed: read.missed,
        warnings: read.warnings,
    })
}

fn compare(options: &CheckOptions, collected: Collected) -> Result<CheckReport, Error> {
    let Collected { series: [meter, reference], later, missed, mut warnings } = collected;
    let side = |side: &Side, series: &Series| SideReport {
        name: side.spec.name().to_owned(),
        channel: series.channel.name.clone(),
        scope: series.channel.scope,
        kind: if series.channel.is_modelled { "modelled" } else { "measured" },
        accuracy: series.channel.accuracy,
        readings: series.len(),
        gaps: series.gaps(),
        interval_s: series.spacing().unwrap_or_default().as_secs_f64(),
    };
    let (a, b) = (side(&options.meter, &meter), side(&options.reference, &reference));
    let spans = [span(&a, &meter, later[0])?, span(&b, &reference, later[1])?];
    let (from, to) = overlap(&a, &b, spans)?;
    for (side, series) in [(&a, &meter), (&b, &reference)] {
        if series.dropped > 0 {
            let (name, dropped) = (&side.name, series.dropped);
            warnings.push(format!("the last {dropped} readings of {name} were more than are kept"));
        }
        if side.kind == "modelled" {
            warnings.push(format!("{} is a model, not a meter", side.name));
        }
    }
    if a.scope != b.scope {
        warnings.push(format!(
            "{} covers `{}` and {} `{}`: what differs may be the machine, and not the meter",
            a.name,
            a.scope.as_str(),
            b.name,
            b.scope.as_str()
        ));
    }
    let (meter, reference) = (meter.log(later[0])?, reference.log(later[1])?);
    let check = check_meter(&meter, &reference, options.longest_lag)?;
    let load = load(&reference, from, to);
    let is_steady = load.sd.get() < STEADY * load.mean.get().abs();
    if check.relation.is_none() && !is_steady {
        warnings.push(format!(
            "the load changed (standard deviation {:.3} W of {:.3} W), and {} did not follow: it is \
             stuck, measures something else, or its clock is off by more than `--longest-lag`",
            load.sd.get(),
            load.mean.get(),
            a.name
        ));
    } else if is_steady {
        warnings.push(format!(
            "the load hardly changed (standard deviation {:.3} W of {:.3} W): scale, offset and \
             lag {}; change the load meanwhile, from idle to full",
            load.sd.get(),
            load.mean.get(),
            if check.relation.is_none() { "cannot be known" } else { "are hardly known" }
        ));
    }
    let mut report = CheckReport {
        schema: 1,
        overlap_s: to.since(from).as_secs_f64(),
        load,
        allowed: verdict::allowed(&a, &b, load.mean),
        meter: a,
        reference: b,
        check,
        verdict: Vec::new(),
        missed_deadlines: missed,
        warnings,
    };
    report.verdict = verdict::of(&report);
    Ok(report)
}

/// From the first reading of a side to its last, with `later` added to its times.
fn span(side: &SideReport, series: &Series, later: Duration) -> Result<(Mono, Mono), Error> {
    let nothing = || Error::SaidNothing { meter: side.name.clone() };
    let (first, last) = series.span().ok_or_else(nothing)?;
    Ok((first + later, last + later))
}

/// The time that both said something of.
fn overlap(
    meter: &SideReport,
    reference: &SideReport,
    spans: [(Mono, Mono); 2],
) -> Result<(Mono, Mono), Error> {
    let [a, b] = spans;
    let (from, to) = (a.0.max(b.0), a.1.min(b.1));
    if from >= to {
        let apart = from.since(to).as_secs_f64();
        let (meter, reference) = (meter.name.clone(), reference.name.clone());
        return Err(Error::Apart { meter, reference, apart });
    }
    Ok((from, to))
}

fn load(reference: &PowerLog, from: Mono, to: Mono) -> Load {
    let powers = reference.between(from, to).iter().map(|reading| reading.power.get());
    let count = powers.clone().count().max(1) as f64;
    let mean = powers.clone().sum::<f64>() / count;
    let squares: f64 = powers.clone().map(|power| (power - mean).powi(2)).sum();
    Load {
        least: Watts(powers.clone().fold(f64::INFINITY, f64::min)),
        mean: Watts(mean),
        most: Watts(powers.fold(f64::NEG_INFINITY, f64::max)),
        sd: Watts((squares / count).sqrt()),
    }
}

#[cfg(test)]
mod tests;
