//! Energy of a write against its size, `E = w0 + w1 x bytes`.
//!
//! A write is cheap to issue and dear later: the kernel writes back when it sees fit. [`activity`]
//! therefore looks into the power log for the time after the write at which power rises above what
//! it was before, until it has stayed down for a while, and integrates what lies above the baseline.

use std::time::Duration;

use serde::Serialize;

use super::{CalibrateError, Estimate};
use crate::pure::power_log::{PowerLog, PowerReading};
use nightwatt_energy::least_squares::{Design, RowErrors};
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::stats::distribution::student_t;
use nightwatt_energy::time::Mono;

/// One write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Write {
    /// Its size.
    pub bytes: u64,
    /// Energy it took, baseline subtracted.
    pub energy: Joules,
}

/// The two coefficients.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StorageFit {
    /// w0: of a write, whatever its size.
    pub per_write: Estimate<Joules>,
    /// w1: of a byte.
    pub per_byte: Estimate<Joules>,
    /// Scatter of writes about the fit.
    pub residual_sd: Joules,
    /// How many writes.
    pub writes: usize,
    /// Smallest and largest size seen: beyond them the fit is a guess.
    pub covered: (u64, u64),
}

/// Fits repeated writes of two sizes at least.
pub fn fit_storage(writes: &[Write]) -> Result<StorageFit, CalibrateError> {
    const FIGURES: &str = "energy per write and per byte";
    const NEXT: &str = "write at least three times each of two sizes, for example 1 MiB and 64 MiB";
    let mut design = Design::new(2);
    for write in writes {
        design.push(&[1.0, write.bytes as f64], write.energy.get());
    }
    let fit = design
        .solve(RowErrors::Equal)
        .map_err(|error| CalibrateError::of_fit(&error, "write", FIGURES, NEXT))?;
    let sizes = || writes.iter().map(|write| write.bytes);
    Ok(StorageFit {
        per_write: Estimate::of(&fit, 0, Joules),
        per_byte: Estimate::of(&fit, 1, Joules),
        residual_sd: Joules(fit.residual_sd),
        writes: writes.len(),
        covered: (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0)),
    })
}

/// Settings of the search for the active period of a write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ActivityRule {
    /// Time before the write in which the machine was quiet: baseline and noise come from it.
    pub baseline: Duration,
    /// Power must have stayed down for this long for the period to have ended.
    pub quiet: Duration,
    /// How long after the write to look for a rise: longer than the kernel keeps dirty pages.
    pub longest_delay: Duration,
    /// The meter's quantisation step: a rise must exceed it. Zero if negligible.
    pub step: Watts,
}

impl Default for ActivityRule {
    /// 10 s of baseline, 3 s of quiet, 60 s until the rise (Linux writes back after 30 s), no step.
    fn default() -> Self {
        Self {
            baseline: Duration::from_secs(10),
            quiet: Duration::from_secs(3),
            longest_delay: Duration::from_mins(1),
            step: Watts::ZERO,
        }
    }
}

/// Why no active period was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ActivityError {
    /// Fewer than three readings before the write.
    #[error(
        "{readings} power readings before the write give no baseline; wait longer before writing, \
         or read the meter more often"
    )]
    NoBaseline {
        /// How many there are.
        readings: usize,
    },
    /// Power never rose.
    #[error(
        "power did not rise above its noise after the write; write more, quieten the machine, or \
         use a meter nearer to the disk"
    )]
    NoRise,
    /// Power rose and did not come back.
    #[error("power has not come back to its baseline by the end of the log; record for longer")]
    NoEnd,
    /// A gap lies within.
    #[error("the log has a gap between the write and the end of its activity; write again")]
    Gap,
}

/// The active period of a write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Activity {
    /// The last quiet reading before power rose.
    pub from: Mono,
    /// The first quiet reading after which power stayed down.
    pub to: Mono,
    /// Mean power before the write.
    pub baseline: Watts,
    /// Standard deviation of readings before the write.
    pub noise: Watts,
    /// Energy above the baseline, from half the quiet time before `from` (but not before the write)
    /// to half the quiet time after `to`: slopes begin and end below the noise.
    pub energy: Joules,
    /// Its standard error, from the noise of the readings within and of the baseline.
    pub standard_error: Joules,
}

/// Finds what a write that was issued at `issued` did to the power.
///
/// A reading counts as active when it lies above the baseline by more than noise explains: beyond
/// the prediction interval for all readings looked at together (Student's t, Bonferroni), so that
/// a long quiet log brings a false rise once in a hundred times.
pub fn activity(
    log: &PowerLog,
    issued: Mono,
    rule: &ActivityRule,
) -> Result<Activity, ActivityError> {
    const FALSE_RISE: f64 = 0.01;
    let before = log.between(issued - rule.baseline, issued);
    let count = before.len() as f64;
    if before.len() < 3 {
        return Err(ActivityError::NoBaseline { readings: before.len() });
    }
    let baseline = before.iter().map(|reading| reading.power).sum::<Watts>() * (1.0 / count);
    let squares = before.iter().map(|reading| (reading.power - baseline).get().powi(2));
    let noise = (squares.sum::<f64>() / (count - 1.0)).sqrt();
    let after = log.between(issued, Mono::NEVER);
    let tail = FALSE_RISE / after.len().max(1) as f64;
    let band = noise * (1.0 + 1.0 / count).sqrt() * student_t(tail, count - 1.0);
    let limit = baseline + Watts(band.max(rule.step.get()));
    let (from, to) = period(before, after, issued, limit, rule)?;
    // What lies below the limit at the feet of the slopes is energy too.
    let margin = rule.quiet / 2;
    let start = (from - margin).max(before[before.len() - 1].time).min(from);
    let end = to + margin;
    let used = log.energy(start, end).ok_or(ActivityError::Gap)?;
    // A gap before the rise may hide an earlier one.
    log.energy(before[before.len() - 1].time, from).ok_or(ActivityError::Gap)?;
    let time = end.since(start);
    let squares: f64 = log
        .between(start, end)
        .windows(2)
        .map(|pair| pair[1].time.since(pair[0].time).as_secs_f64().powi(2))
        .sum();
    let of_baseline = noise / count.sqrt() * time.as_secs_f64();
    let variance = noise.powi(2) * squares + of_baseline.powi(2);
    Ok(Activity {
        from,
        to,
        baseline,
        noise: Watts(noise),
        energy: used - baseline * time,
        standard_error: Joules(variance.sqrt()),
    })
}

/// Last quiet reading before the rise, and first quiet one after which it stays so.
fn period(
    before: &[PowerReading],
    after: &[PowerReading],
    issued: Mono,
    limit: Watts,
    rule: &ActivityRule,
) -> Result<(Mono, Mono), ActivityError> {
    let active = |reading: &PowerReading| reading.power > limit;
    let rise = after.iter().position(active).ok_or(ActivityError::NoRise)?;
    if after[rise].time > issued + rule.longest_delay {
        return Err(ActivityError::NoRise);
    }
    let last_quiet = rise.checked_sub(1).map_or(before[before.len() - 1], |index| after[index]);
    let mut quiet_since = None;
    for reading in &after[rise..] {
        if active(reading) {
            quiet_since = None;
            continue;
        }
        let since = *quiet_since.get_or_insert(reading.time);
        if reading.time.since(since) >= rule.quiet {
            return Ok((last_quiet.time, since));
        }
    }
    Err(ActivityError::NoEnd)
}

#[cfg(test)]
mod tests;
