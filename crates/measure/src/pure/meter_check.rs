//! One meter against another on the same load: how far off, how late, how noisy, how coarse.
//!
//! Readings of the meter under test are compared at their own times with what the reference says of
//! those times, the lag between the two taken out: a mean with the mean over its interval, an
//! instant with the straight line between two readings.

mod cross;
mod lag;
mod relation;
mod step;

use std::time::Duration;

use serde::{Serialize, Serializer};

pub use self::cross::{CrossCalibration, Side};
pub use self::relation::Relation;
use crate::pure::power_log::{Interpolation, PowerLog};
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::stats::percentile;
use nightwatt_energy::time::Mono;
use nightwatt_energy::uncertainty::Mean;

/// The lowest of the reference's powers, in percent of readings, that count as light load.
const LIGHT: f64 = 10.0;
/// Fewer readings than this compare nothing.
const FEWEST: usize = 8;

/// Why two meters cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MeterCheckError {
    /// They did not read at the same time.
    #[error(
        "{readings} readings of the meter lie where the reference has some too, {FEWEST} are needed; \
         record both at the same time, for longer, on one clock"
    )]
    NoOverlap {
        /// How many there are.
        readings: usize,
    },
}

/// A difference between meter and reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// When, by the meter's clock; in seconds where it is written.
    #[serde(rename = "time_s", serialize_with = "as_seconds")]
    pub time: Mono,
    /// Meter less reference.
    pub error: Watts,
    /// The same in percent of the reference.
    pub percent: f64,
}

fn as_seconds<S: Serializer>(time: &Mono, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// Differences where the load was light, at which meters are at their worst.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LightLoad {
    /// The reference read this or less: in a tenth of all readings.
    pub up_to: Watts,
    /// Mean of meter less reference.
    pub mean_error: Watts,
    /// The same in percent of the mean of the reference there.
    pub percent: f64,
}

/// What a meter is worth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeterCheck {
    /// How many of its readings were compared.
    pub readings: usize,
    /// Mean of meter less reference.
    pub mean_error: Watts,
    /// How far that may be off at 95 % by chance: of the means of ten stretches one after the other, so
    /// that errors that stay for a while count as few. None for fewer than 20 readings.
    pub mean_error_95: Option<Watts>,
    /// The same in percent of the mean of the reference.
    pub mean_percent: f64,
    /// The largest difference in watts.
    pub worst: Difference,
    /// The largest in percent, where the reference is above zero.
    pub worst_percent: Option<Difference>,
    /// Where the load was light.
    pub light_load: LightLoad,
    /// Scale, offset and lag; none when the load changed too little to tell. The lag is taken out of
    /// all differences, scale and offset are not.
    pub relation: Option<Relation>,
    /// Standard deviation of a reading that neither load, scale nor offset explains, from successive
    /// readings; the reference's own noise is in it.
    pub noise: Watts,
    /// The step between figures that the meter can show; none when it shows any figure.
    pub step: Option<Watts>,
}

/// Compares a meter with a reference; the lag is looked for up to `longest_lag` either way.
///
/// `O(n log n)`.
pub fn check_meter(
    meter: &PowerLog,
    reference: &PowerLog,
    longest_lag: Duration,
) -> Result<MeterCheck, MeterCheckError> {
    let relation = lag::find(meter, reference, longest_lag);
    let lag = relation.as_ref().map_or(0.0, |relation| relation.lag.value);
    let pairs: Vec<(Mono, f64, f64)> = shifted_pairs(meter, reference, lag).collect();
    if pairs.len() < FEWEST {
        return Err(MeterCheckError::NoOverlap { readings: pairs.len() });
    }
    let difference = |&(time, a, b): &(Mono, f64, f64)| Difference {
        time,
        error: Watts(a - b),
        percent: (a - b) / b * 100.0,
    };
    let size = |difference: &Difference| difference.error.get().abs();
    let part = |difference: &Difference| difference.percent.abs();
    let differences = || pairs.iter().map(difference);
    let worst = differences().max_by(|a, b| size(a).total_cmp(&size(b)));
    let worst_percent = pairs
        .iter()
        .filter(|pair| pair.2 > 0.0)
        .map(difference)
        .max_by(|a, b| part(a).total_cmp(&part(b)));
    let (mean_error, mean_percent) = mean_difference(pairs.iter());
    let mut levels: Vec<f64> = pairs.iter().map(|pair| pair.2).collect();
    levels.sort_by(f64::total_cmp);
    let limit = percentile(&levels, LIGHT);
    let (light_error, light_percent) = mean_difference(pairs.iter().filter(|pair| pair.2 <= limit));
    let shown: Vec<f64> = meter.readings().iter().map(|reading| reading.power.get()).collect();
    Ok(MeterCheck {
        readings: pairs.len(),
        mean_error,
        mean_error_95: mean_error_95(&pairs),
        mean_percent,
        worst: worst.ok_or(MeterCheckError::NoOverlap { readings: 0 })?,
        worst_percent,
        light_load: LightLoad {
            up_to: Watts(limit),
            mean_error: light_error,
            percent: light_percent,
        },
        noise: noise(&pairs, relation.as_ref()),
        relation,
        step: step::quantisation(shown).map(Watts),
    })
}

fn mean_difference<'a>(pairs: impl Iterator<Item = &'a (Mono, f64, f64)>) -> (Watts, f64) {
    let mut sums = (0.0, 0.0, 0.0);
    for (_, a, b) in pairs {
        sums = (sums.0 + 1.0, sums.1 + a - b, sums.2 + b);
    }
    (Watts(sums.1 / sums.0), sums.1 / sums.2 * 100.0)
}

/// Batch means (A. M. Law, *Simulation Modeling and Analysis*, 9.5.3), with Student's t.
fn mean_error_95(pairs: &[(Mono, f64, f64)]) -> Option<Watts> {
    const BATCHES: usize = 10;
    let length = pairs.len() / BATCHES;
    let means = pairs.chunks_exact(length.max(1)).take(BATCHES).map(|batch| {
        let sum: f64 = batch.iter().map(|(_, a, b)| a - b).sum();
        sum / batch.len() as f64
    });
    let means: Vec<f64> = means.collect();
    Mean::of(&means).filter(|_| length >= 2)?.half_width.map(Watts)
}

/// From differences of successive residuals, which a slow change leaves alone (J. von Neumann and
/// others, *The mean square successive difference*, 1941); their median, which the few at steps of
/// the load leave alone. 1.4826 makes a median of absolute values a standard deviation.
fn noise(pairs: &[(Mono, f64, f64)], relation: Option<&Relation>) -> Watts {
    let (scale, offset) =
        relation.map_or((1.0, 0.0), |relation| (relation.scale.value, relation.offset.value.get()));
    let residual = |&(_, a, b): &(Mono, f64, f64)| a - scale * b - offset;
    let mut steps: Vec<f64> =
        pairs.windows(2).map(|pair| (residual(&pair[1]) - residual(&pair[0])).abs()).collect();
    steps.sort_by(f64::total_cmp);
    let median = steps.get(steps.len() / 2).copied().unwrap_or(0.0);
    Watts(1.4826 * median / std::f64::consts::SQRT_2)
}

/// Readings of the meter with what the reference said `lag` seconds before.
fn shifted_pairs<'a>(
    meter: &'a PowerLog,
    reference: &'a PowerLog,
    lag: f64,
) -> impl Iterator<Item = (Mono, f64, f64)> + 'a {
    let mut before: Option<Mono> = None;
    meter.readings().iter().filter_map(move |reading| {
        let since = before.replace(reading.time);
        let to = shifted(reading.time, -lag)?;
        let value = match meter.interpolation() {
            Interpolation::Instants => reference.at(to)?.get(),
            Interpolation::Means => {
                let since = since?;
                // Of a gap's length the reading is no mean.
                meter.energy(since, reading.time)?;
                let from = shifted(since, -lag)?;
                (reference.energy(from, to)? / to.since(from)).get()
            }
        };
        Some((reading.time, reading.power.get(), value))
    })
}

/// A time moved by so many seconds; none before the origin.
fn shifted(time: Mono, seconds: f64) -> Option<Mono> {
    let by = Duration::try_from_secs_f64(seconds.abs()).ok()?;
    let moved = if seconds < 0.0 { time.0.checked_sub(by) } else { time.0.checked_add(by) };
    moved.map(Mono)
}

#[cfg(test)]
mod tests;
