//! `meters --spectrum METER`: how fast the power of a channel changes, and how often it is worth
//! reading.
//!
//! The spectrum is [`crate::pure::spectrum`]'s, which needs samples at an even rate. Readings are
//! taken to be even where each comes about one interval after the one before; where one is missing
//! there is a gap, which costs the segment it falls into, and nothing is put in its place.

use std::time::Duration;

use crate::pure::power_log::PowerReading;
use crate::pure::spectrum::{Spectrum, Welch};
use nightwatt_clock::meter::Stop;
use nightwatt_energy::integration::{Piece, Reading, Track, TrackSpec};
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_meters::log::Skipped;
use nightwatt_meters::sampler::Opened;
use nightwatt_meters::{Host, MeterSpec};
use serde::Serialize;

use crate::channel;
use crate::error::Error;
use crate::meter_check::{FILE, logs};
use crate::series::{Series, live};

/// The share of the power that is to be kept.
const KEPT: f64 = 0.95;

/// A step between readings of less or more than this many intervals is no step of one interval.
const EVEN: (f64, f64) = (0.5, 1.5);

/// Segments are chosen so that about this many fit, but no longer than `LONGEST`.
const SEGMENTS: usize = 4;
const LONGEST: usize = 1 << 16;

/// A rate worth having that is so close to the rate of reading may be a sign of faster changes.
const CLOSE: f64 = 0.8;

/// Options of `spectrum`.
#[derive(Debug, Clone)]
pub struct SpectrumOptions {
    /// The meter.
    pub meter: MeterSpec,
    /// Its channel; can be left out where one covers the whole machine.
    pub channel: Option<String>,
    /// For how long it is read; recordings are read to their ends.
    pub time: Duration,
    /// Time between two readings.
    pub interval: Option<Duration>,
    /// Distance of frequencies that are to be told apart, in Hz.
    pub resolution: Option<f64>,
}

/// The result of `spectrum`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpectrumReport {
    /// Version of this form.
    pub schema: u32,
    /// What the user calls the meter.
    pub meter: String,
    /// Its channel.
    pub channel: String,
    /// `measured` or `modelled`.
    pub kind: &'static str,
    /// Are its figures means over the time between two of them? Those have lost most of what changes
    /// faster than they come.
    pub means: bool,
    /// Readings that were used.
    pub samples: u64,
    /// Places where readings are missing or came too close to each other.
    pub gaps: u64,
    /// Deadlines missed.
    pub missed_deadlines: u64,
    /// Readings per second.
    pub rate_hz: f64,
    /// Of changes faster than this, nothing is known: half the rate.
    pub highest_hz: f64,
    /// Segments that were averaged: a bin is off by about 1 over the root of it.
    pub segments: usize,
    /// Frequencies closer than this are not told apart.
    pub resolution_hz: f64,
    /// Mean power.
    pub mean_w: f64,
    /// Root of the power of all changes: the standard deviation.
    pub sd_w: f64,
    /// The lowest rate of reading that keeps 95 % of the power of the changes; none if there are none.
    pub rate_that_keeps_95_hz: Option<f64>,
    /// Shares of that power in bands of an octave, from the lowest.
    pub bands: Vec<Band>,
    /// Watts squared per Hz, at multiples of the resolution from 0.
    pub density: Vec<f64>,
    /// What is to be known beside.
    pub warnings: Vec<String>,
}

/// Part of the spectrum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Band {
    /// Above this frequency.
    pub above_hz: f64,
    /// And up to this one.
    pub to_hz: f64,
    /// Share of the power of all changes.
    pub share: f64,
}

/// Where readings come from: they are looked at twice.
enum Source {
    /// Read from a meter.
    Series(Series, Duration),
    /// In a recording, which may be longer than memory.
    Recording { meter: MeterSpec, place: usize, about: Duration, skipped: Option<Skipped> },
}

impl Source {
    /// About how far two readings are apart.
    const fn about(&self) -> Duration {
        match self {
            Self::Series(_, about) | Self::Recording { about, .. } => *about,
        }
    }

    /// Hands out every reading; whether nothing is known of the time before it; and whether it is a
    /// mean.
    fn each(&mut self, mut take: impl FnMut(PowerReading, bool, bool)) -> Result<(), Error> {
        match self {
            Self::Series(series, _) => {
                let means = series.are_means();
                series.readings().for_each(|(reading, broken)| take(reading, broken, means));
            }
            Self::Recording { meter, place, about, skipped } => {
                let mut log = logs::open(meter)?;
                let counter = log.channels()[*place].counter;
                let spec = TrackSpec { counter, longest_gap: about.mul_f64(EVEN.1) };
                let mut track = Track::new(spec, Mono::ZERO);
                for entry in log.by_ref() {
                    let entry = entry?;
                    if entry.channel != *place {
                        continue;
                    }
                    let piece = match entry.piece {
                        None => track.add(entry.mono, entry.reading),
                        Some(piece) => track.replay(entry.mono, entry.reading, piece),
                    };
                    if let Some((power, broken, mean)) = power(entry.reading, piece) {
                        take(PowerReading { time: entry.mono, power }, broken, mean);
                    }
                }
                *skipped = log.skipped().cloned();
            }
        }
        Ok(())
    }
}

/// The power that a reading tells, whether nothing is known before it, and whether it is a mean.
fn power(reading: Reading, piece: Piece) -> Option<(Watts, bool, bool)> {
    match (reading, piece) {
        (_, Piece::Ignored) => None,
        (Reading::Power(watts), piece) => {
            Some((watts, !matches!(piece, Piece::Covers { .. }), false))
        }
        // A mean that leaves a hole shows by the time since the one before.
        (Reading::MeanPower { watts, .. }, _) => Some((watts, false, true)),
        (Reading::Counter(_), Piece::Covers { joules, time }) => Some((joules / time, false, true)),
        (Reading::Counter(_), _) => None,
    }
}

/// What a first look at the readings says.
#[derive(Debug, Default)]
struct Pace {
    samples: u64,
    gaps: u64,
    means: bool,
    /// Of steps that are even.
    time: Duration,
    steps: u64,
    /// The longest stretch without a gap, and the one under way.
    longest: usize,
    run: usize,
}

impl Pace {
    fn rate(&self) -> f64 {
        self.steps as f64 / self.time.as_secs_f64()
    }
}

/// Tells whether a reading follows the one before at an even pace.
struct Steps {
    about: f64,
    last: Option<Mono>,
}

impl Steps {
    const fn new(about: Duration) -> Self {
        Self { about: about.as_secs_f64(), last: None }
    }

    /// The time since the previous reading; `None` for the first one, or if the time differs from an interval.
    fn next(&mut self, at: Mono, broken: bool) -> Option<Duration> {
        let last = self.last.replace(at).filter(|_| !broken)?;
        let step = at.since(last);
        let intervals = step.as_secs_f64() / self.about;
        (EVEN.0..=EVEN.1).contains(&intervals).then_some(step)
    }
}

/// Reads the meter, or the recording. `on_progress` gets how much time is left.
pub fn run(
    options: &SpectrumOptions,
    stop: &Stop,
    on_progress: impl FnMut(Duration),
) -> Result<SpectrumReport, Error> {
    let named = options.channel.as_deref();
    let pick = |channels: &[_]| channel::pick(channels, named, &options.meter, "--channel");
    let (mut source, channel, missed, mut warnings) = if options.meter.driver == FILE {
        let log = logs::open(&options.meter)?;
        let place = pick(log.channels())?;
        let (meter, about) = (options.meter.clone(), log.about());
        let channel = log.channels()[place].clone();
        (Source::Recording { meter, place, about, skipped: None }, channel, 0, Vec::new())
    } else {
        let opened = Opened::open(&Host::default(), &options.meter)?;
        let place = pick(opened.channels())?;
        let (about, channel) =
            (opened.interval(options.interval), opened.channels()[place].clone());
        let SpectrumOptions { time, interval, .. } = *options;
        let mut read =
            live::collect(vec![opened], &[(0, place)], time, interval, stop, on_progress)?;
        let series = read.series.pop();
        let series = series.ok_or_else(|| Error::SaidNothing { meter: channel.name.clone() })?;
        if series.dropped > 0 {
            let dropped = series.dropped;
            read.warnings.push(format!("the last {dropped} readings were more than are kept"));
        }
        (Source::Series(series, about), channel, read.missed, read.warnings)
    };
    let pace = look(&mut source)?;
    if pace.steps == 0 {
        return Err(Error::SaidNothing { meter: options.meter.name().to_owned() });
    }
    let spectrum = spectrum(&mut source, &pace, options.resolution)?;
    warnings.extend(warn(&source, &pace, &spectrum));
    let length = spectrum.density.len();
    Ok(SpectrumReport {
        schema: 1,
        meter: options.meter.name().to_owned(),
        channel: channel.name.clone(),
        kind: if channel.is_modelled { "modelled" } else { "measured" },
        means: pace.means,
        samples: pace.samples,
        gaps: pace.gaps,
        missed_deadlines: missed,
        rate_hz: spectrum.rate,
        highest_hz: spectrum.resolution * (length - 1) as f64,
        segments: spectrum.segments,
        resolution_hz: spectrum.resolution,
        mean_w: spectrum.mean,
        sd_w: spectrum.power().sqrt(),
        rate_that_keeps_95_hz: spectrum.rate_that_keeps(KEPT),
        bands: bands(&spectrum),
        density: spectrum.density,
        warnings,
    })
}

fn look(source: &mut Source) -> Result<Pace, Error> {
    let (mut pace, mut steps) = (Pace::default(), Steps::new(source.about()));
    source.each(|reading, broken, mean| {
        pace.means |= mean;
        pace.samples += 1;
        if let Some(step) = steps.next(reading.time, broken) {
            pace.time += step;
            pace.steps += 1;
            pace.run += 1;
        } else {
            pace.gaps += u64::from(pace.samples > 1);
            pace.run = 1;
        }
        pace.longest = pace.longest.max(pace.run);
    })?;
    Ok(pace)
}

fn spectrum(source: &mut Source, pace: &Pace, resolution: Option<f64>) -> Result<Spectrum, Error> {
    let rate = pace.rate();
    let segment = match resolution {
        Some(resolution) => (rate / resolution).ceil() as usize,
        // The largest power of two that is no longer.
        None => 1 << (pace.longest / SEGMENTS).clamp(8, LONGEST).ilog2(),
    };
    let mut welch = Welch::new(rate, segment)?;
    let mut steps = Steps::new(source.about());
    source.each(|reading, broken, _| {
        if steps.next(reading.time, broken).is_none() {
            welch.gap();
        }
        welch.push(&[reading.power.get()]);
    })?;
    Ok(welch.finish()?)
}

/// Octaves, from half the rate down to where a bin or two are left.
fn bands(spectrum: &Spectrum) -> Vec<Band> {
    let all: f64 = spectrum.density.iter().sum();
    let mut bands = Vec::new();
    let mut to = spectrum.density.len() - 1;
    while to > 0 {
        // Below two bins, the rest.
        let above = if to > 2 { to / 2 } else { 0 };
        let first = if above == 0 { 0 } else { above + 1 };
        let part: f64 = spectrum.density[first..=to].iter().sum();
        let hz = |bin: usize| bin as f64 * spectrum.resolution;
        let share = if all > 0.0 { part / all } else { 0.0 };
        bands.push(Band { above_hz: hz(above), to_hz: hz(to), share });
        to = above;
    }
    bands.reverse();
    bands
}

fn warn(source: &Source, pace: &Pace, spectrum: &Spectrum) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Source::Recording { skipped: Some(skipped), .. } = source {
        warnings.push(skipped.to_string());
    }
    if pace.gaps > 0 {
        warnings.push(format!(
            "readings did not come at an even pace in {} places: the segments there were left out",
            pace.gaps
        ));
    }
    let nominal = source.about().as_secs_f64().recip();
    if (spectrum.rate / nominal - 1.0).abs() > 0.05 {
        warnings.push(format!(
            "the meter was to say {nominal:.3} readings a second, and said {:.3}",
            spectrum.rate
        ));
    }
    if spectrum.rate_that_keeps(KEPT).is_some_and(|rate| rate > CLOSE * spectrum.rate) {
        warnings.push(
            "changes are as fast as the readings: there may be faster ones, which look like slow \
             ones; read faster and look again"
                .to_owned(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests;
