//! What a transition from idle to active takes: power against how busy the CPUs are and how often they
//! wake up, `P = idle + busy x u + e x wake-ups/s`, by least squares.
//!
//! A model of utilisation alone bills two machines alike that are busy for a tenth of the time, the one
//! in one stretch and the other in a thousand; the published measurements of TCP say that the difference
//! is most of what a slow connection takes.

use serde::Serialize;

use super::{CalibrateError, Estimate};
use nightwatt_energy::least_squares::{Design, RowErrors};
use nightwatt_energy::quantity::{Joules, Watts};

/// Power at a load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WakeupPoint {
    /// Mean power.
    pub power: Watts,
    /// The share of all CPU time that was busy, 0 ..= 1.
    pub busy: f64,
    /// Transitions from idle to active in a second, of all CPUs.
    pub per_second: f64,
}

/// The three figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WakeupFit {
    /// Power of a machine that never wakes up.
    pub idle: Estimate<Watts>,
    /// What all CPUs draw beyond that while they are busy.
    pub busy: Estimate<Watts>,
    /// What each transition takes.
    pub wake_up: Estimate<Joules>,
    /// Scatter of points about the plane.
    pub residual_sd: Watts,
    /// How many points.
    pub points: usize,
    /// The least and the most wake-ups in a second that were seen.
    pub covered: (f64, f64),
}

const FIGURES: &str = "idle power, power of busy CPUs and energy of a wake-up";
const NEXT: &str = "measure loads that wake the CPUs often and rarely while they are equally busy, and loads \
     that are more and less busy while they wake equally often";

/// Fits.
pub fn fit_wakeups(points: &[WakeupPoint]) -> Result<WakeupFit, CalibrateError> {
    let mut design = Design::new(3);
    // Of the size of the others, so that rounding does not matter.
    let scale = points.iter().map(|it| it.per_second.abs()).fold(f64::MIN_POSITIVE, f64::max);
    for (index, point) in (1..).zip(points) {
        let bad = |why| CalibrateError::Bad { what: "point", index, why };
        if !(0.0..=1.0).contains(&point.busy) {
            return Err(bad("is busy for a share that is not from 0 to 1"));
        }
        if !(point.per_second >= 0.0 && point.per_second.is_finite()) {
            return Err(bad("has a number of wake-ups that is not 0 or more"));
        }
        design.push(&[1.0, point.busy, point.per_second / scale], point.power.get());
    }
    let fit = design
        .solve(RowErrors::Equal)
        .map_err(|error| CalibrateError::of_fit(&error, "point", FIGURES, NEXT))?;
    let rates = points.iter().map(|point| point.per_second);
    let covered = (rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max));
    let (value, error) = (fit.coefficients[2] / scale, fit.standard_error(2) / scale);
    Ok(WakeupFit {
        idle: Estimate::of(&fit, 0, Watts),
        busy: Estimate::of(&fit, 1, Watts),
        wake_up: Estimate::new(Joules(value), Joules(error), fit.t_95),
        residual_sd: Watts(fit.residual_sd),
        points: points.len(),
        covered,
    })
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Loads as `calibrate wakeups` makes them, of a machine whose figures are known: 20 W, 30 W, 50 µJ.
    fn points(noise: f64, seed: u64) -> Vec<WakeupPoint> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut all = Vec::new();
        for busy in [0.1, 0.3, 0.5, 0.7] {
            for per_second in [100.0, 1000.0, 5000.0, 20_000.0] {
                // Uniform noise of that standard deviation.
                let off = noise * 12.0_f64.sqrt() * (random.random::<f64>() - 0.5);
                let power = Watts(20.0 + 30.0 * busy + 50e-6 * per_second + off);
                all.push(WakeupPoint { power, busy, per_second });
            }
        }
        all
    }

    #[test]
    fn known_figures_are_found_exactly_without_noise() {
        let fit = fit_wakeups(&points(0.0, 1)).unwrap();
        assert!((fit.idle.value.get() - 20.0).abs() < 1e-9);
        assert!((fit.busy.value.get() - 30.0).abs() < 1e-9);
        assert!((fit.wake_up.value.get() - 50e-6).abs() < 1e-14);
        assert_eq!(fit.covered, (100.0, 20_000.0));
    }

    #[test]
    fn of_noisy_figures_the_intervals_hold_the_truth_in_95_of_a_hundred_experiments() {
        let covers = |seed: &u64| {
            let fit = fit_wakeups(&points(0.2, *seed)).unwrap();
            fit.wake_up.covers(&Joules(50e-6)) && fit.wake_up.interval.0.get() > 0.0
        };
        let held = (0..1000).filter(covers).count();
        // Five standard deviations of a binomial: sqrt(1000 x 0.95 x 0.05) = 6.9.
        assert!(held.abs_diff(950) < 35, "{held} of 1000, seeds 0 to 999");
    }

    #[test]
    fn loads_that_tell_nothing_apart_are_told_what_is_missing() {
        let same = |per_second| WakeupPoint { power: Watts(20.0), busy: 0.1, per_second };
        let error = fit_wakeups(&[same(10.0), same(20.0), same(30.0), same(40.0)]).unwrap_err();
        assert!(error.to_string().contains("equally busy"), "{error}");
        let error = fit_wakeups(&[same(10.0)]).unwrap_err();
        assert!(error.to_string().contains("1 rows"), "{error}");
        let wrong = WakeupPoint { busy: 1.5, ..same(10.0) };
        let error = fit_wakeups(&[same(10.0), wrong]).unwrap_err().to_string();
        assert!(error.contains("point 2"), "{error}");
    }
}
