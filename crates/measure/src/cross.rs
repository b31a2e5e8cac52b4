//! Calibrates the meters of one machine against each other while they are recorded.
//!
//! ```text
//! meter thread: Tee ─► recording
//!                └───► buffer of fixed size ─► drain, once a second ─► CrossCalibration
//! ```
//!
//! The meters' threads only copy each reading into a preallocated buffer; the drain does everything else,
//! in memory that does not grow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::pure::meter_check::{CrossCalibration, Relation, Side};
use crate::pure::power_log::PowerReading;
use nightwatt_energy::integration::{Piece, Reading};
use nightwatt_meters::Channel;
use nightwatt_meters::sampler::{Opened, Sample, Sink};
use serde::Serialize;

use crate::error::Error;

/// Readings that wait to be drained: a second and a half of ten thousand a second.
const ROOM: usize = 1 << 14;

/// A lag is searched up to this many intervals of the slower meter, within these bounds,
const LAG_INTERVALS: u32 = 10;
const LAG: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// and in at most this many steps: each step of time costs twice as many sums.
const LAG_STEPS: u32 = 500;

/// Readings further apart than this many intervals have a gap between them.
const GAP_AFTER: f64 = 2.5;

/// The relation of one meter to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrossReport {
    /// The meter.
    pub meter: String,
    /// Its channel.
    pub channel: String,
    /// The meter that is believed.
    pub reference: String,
    /// Its channel.
    pub reference_channel: String,
    /// `meter(t) = offset + scale x reference(t - lag)`; none while the load has not changed enough.
    pub relation: Option<Relation>,
    /// The lag was looked for up to this.
    pub longest_lag_s: f64,
    /// Readings that came faster than they were drained, and are not in it.
    pub dropped: u64,
}

/// Meters of one machine, one of which the others are compared with.
#[derive(Debug)]
pub struct Cross {
    /// Of every meter that is recorded: its channel that speaks for the machine.
    taps: Vec<Option<Tap>>,
    reference: usize,
    pairs: Vec<Pair>,
    /// What was drained last.
    drained: Vec<PowerReading>,
}

/// Where a channel's readings go.
#[derive(Debug, Clone)]
struct Tap {
    meter: String,
    channel: Channel,
    place: usize,
    interval: Duration,
    buffer: Arc<Mutex<Buffer>>,
}

#[derive(Debug)]
struct Buffer {
    readings: Vec<PowerReading>,
    dropped: u64,
}

/// A meter, by its place, and what is known of it.
#[derive(Debug)]
struct Pair {
    meter: usize,
    longest_lag: Duration,
    calibration: CrossCalibration,
}

impl Tap {
    fn new(opened: &Opened, place: usize, wish: Option<Duration>) -> Self {
        Self {
            meter: opened.name().to_owned(),
            channel: opened.channels()[place].clone(),
            place,
            interval: opened.interval(wish),
            buffer: Arc::new(Mutex::new(Buffer { readings: Vec::with_capacity(ROOM), dropped: 0 })),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cross {
    /// Two or more meters that each have a channel that covers the machine. The reference is the one
    /// that the user names (`METER` or `METER/CHANNEL`, whatever that covers), or else the measured
    /// one that states the best accuracy.
    ///
    /// None where there are not two, or where both are models. A name that no meter has is an error.
    pub fn of(
        meters: &[Opened],
        wish: Option<Duration>,
        reference: Option<&str>,
    ) -> Result<Option<Self>, Error> {
        let whole = |opened: &Opened| {
            let place = opened.channels().iter().position(|channel| channel.scope.is_whole())?;
            Some(Tap::new(opened, place, wish))
        };
        let mut taps: Vec<Option<Tap>> = meters.iter().map(whole).collect();
        let reference = match reference {
            Some(name) => {
                let (place, tap) = named(meters, name, wish)?;
                taps[place] = Some(tap);
                Some(place)
            }
            None => best(&taps),
        };
        let Some(reference) = reference else { return Ok(None) };
        let Some(believed) = taps[reference].clone() else { return Ok(None) };
        let pair = |(meter, tap): (usize, &Option<Tap>)| {
            let tap = tap.as_ref().filter(|_| meter != reference)?;
            let slower = tap.interval.max(believed.interval);
            let faster = tap.interval.min(believed.interval);
            let longest_lag = (slower * LAG_INTERVALS).clamp(LAG.0, LAG.1);
            let step = faster.max(longest_lag / LAG_STEPS);
            let gap = slower.mul_f64(GAP_AFTER);
            let calibration = CrossCalibration::new(step, longest_lag, gap);
            Some(Pair { meter, longest_lag, calibration })
        };
        let pairs: Vec<Pair> = taps.iter().enumerate().filter_map(pair).collect();
        let drained = Vec::with_capacity(ROOM);
        Ok((!pairs.is_empty()).then_some(Self { taps, reference, pairs, drained }))
    }

    /// Lets samples of the `meter`-th meter pass to `sink`, and looks at them.
    pub fn tap(&self, meter: usize, sink: Box<dyn Sink>) -> Box<dyn Sink> {
        match &self.taps[meter] {
            Some(tap) => Box::new(Tee { tap: tap.clone(), sink }),
            None => sink,
        }
    }

    /// Takes what came since the last time. To be called about once a second.
    pub fn drain(&mut self) {
        for (place, tap) in self.taps.iter().enumerate() {
            let Some(tap) = tap else { continue };
            std::mem::swap(&mut tap.lock().readings, &mut self.drained);
            for pair in &mut self.pairs {
                let side = if place == self.reference {
                    Side::Reference
                } else if place == pair.meter {
                    Side::Meter
                } else {
                    continue;
                };
                for reading in &self.drained {
                    pair.calibration.push(side, *reading);
                }
            }
            self.drained.clear();
        }
    }

    /// What is known by now.
    pub fn report(&self) -> Vec<CrossReport> {
        let Some(reference) = &self.taps[self.reference] else { return Vec::new() };
        let of_pair = |pair: &Pair| {
            let tap = self.taps[pair.meter].as_ref()?;
            Some(CrossReport {
                meter: tap.meter.clone(),
                channel: tap.channel.name.clone(),
                reference: reference.meter.clone(),
                reference_channel: reference.channel.name.clone(),
                relation: pair.calibration.relation(),
                longest_lag_s: pair.longest_lag.as_secs_f64(),
                dropped: tap.lock().dropped + reference.lock().dropped,
            })
        };
        self.pairs.iter().filter_map(of_pair).collect()
    }
}

/// The measured channel that states the best accuracy.
fn best(taps: &[Option<Tap>]) -> Option<usize> {
    let measured = taps.iter().enumerate().filter_map(|(place, tap)| {
        let channel = &tap.as_ref()?.channel;
        (!channel.is_modelled).then_some((place, channel.accuracy.relative))
    });
    measured.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(place, _)| place)
}

/// The channel that the user names.
fn named(meters: &[Opened], name: &str, wish: Option<Duration>) -> Result<(usize, Tap), Error> {
    let (meter, channel) = match name.split_once('/') {
        Some((meter, channel)) => (meter, Some(channel)),
        None => (name, None),
    };
    let unknown = || {
        let all = meters.iter().flat_map(|opened| {
            let names = opened.channels().iter();
            names.map(|channel| format!("`{}/{}`", opened.name(), channel.name))
        });
        Error::NoReference { name: name.to_owned(), known: all.collect::<Vec<_>>().join(", ") }
    };
    let place = meters.iter().position(|opened| opened.name() == meter).ok_or_else(unknown)?;
    let channels = meters[place].channels();
    let it = match channel {
        Some(channel) => channels.iter().position(|it| it.name == channel),
        None if channels.len() == 1 => Some(0),
        None => channels.iter().position(|it| it.scope.is_whole()),
    };
    Ok((place, Tap::new(&meters[place], it.ok_or_else(unknown)?, wish)))
}

/// Copies readings of a channel on their way.
struct Tee {
    tap: Tap,
    sink: Box<dyn Sink>,
}

impl Sink for Tee {
    fn take(&mut self, sample: &Sample) {
        self.sink.take(sample);
        if sample.channel != self.tap.place {
            return;
        }
        // Of a mean, the middle of its time.
        let (before, power) = match (sample.reading, sample.piece) {
            (_, Piece::Ignored) => return,
            (Reading::Power(watts), _) => (Duration::ZERO, watts),
            (Reading::MeanPower { watts, over }, _) => (over / 2, watts),
            (Reading::Counter(_), Piece::Covers { joules, time }) => (time / 2, joules / time),
            (Reading::Counter(_), _) => return,
        };
        let mut buffer = self.tap.lock();
        if buffer.readings.len() < ROOM {
            buffer.readings.push(PowerReading { time: sample.mono - before, power });
        } else {
            buffer.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests;
