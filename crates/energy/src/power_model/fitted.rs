//! The power curve of one machine, fitted to a meter's readings of it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Estimate;
use crate::least_squares::{Design, RowErrors};
use crate::quantity::Watts;
use crate::uncertainty::Accuracy;

/// The least number of readings for a fit: with fewer, the spread about the curve is a guess.
pub const FEWEST_READINGS: usize = 10;
/// Half the width of the 95 % interval of a normal distribution, in standard deviations.
const NORMAL_95: f64 = 1.96;

/// Why readings give no power curve, or a stored curve is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FitError {
    /// Too few of them.
    #[error(
        "{found} readings are too few for a power curve: {} are needed; measure for longer, or with \
         more steps of load",
        FEWEST_READINGS
    )]
    TooFew {
        /// Readings that could be used.
        found: usize,
    },
    /// They were all taken at about the same load.
    #[error(
        "the readings do not cover the load between the knots {knots:?}, so nothing says how the \
         power grows there; measure at more steps of load, or ask for fewer knots"
    )]
    Undetermined {
        /// Utilisations between which the curve was to be straight.
        knots: Vec<f64>,
    },
    /// Knots that make no curve.
    #[error(
        "a power curve needs two or more knots that rise, from 0 to 1, and watts from 0 to 1,000,000 \
         at each; those given are {points:?}: calibrate again"
    )]
    NoCurve {
        /// Utilisation and watts of each.
        points: Vec<(f64, f64)>,
    },
}

/// A corner of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Mean busy share of all threads, 0 ..= 1.
    pub utilisation: f64,
    /// What the machine draws then.
    pub watts: Watts,
}

/// Power as a piecewise linear function of utilisation, fitted to a machine. A line is one with two
/// points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Fitted {
    points: Vec<Point>,
    residual_sd: Watts,
    accuracy: Accuracy,
    source: String,
}

/// How a curve is written down.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    points: Vec<Point>,
    residual_sd: Watts,
    accuracy: Accuracy,
    source: String,
}

impl From<Fitted> for Stored {
    fn from(Fitted { points, residual_sd, accuracy, source }: Fitted) -> Self {
        Self { points, residual_sd, accuracy, source }
    }
}

impl TryFrom<Stored> for Fitted {
    type Error = FitError;
    fn try_from(stored: Stored) -> Result<Self, FitError> {
        let Stored { points, residual_sd, accuracy, source } = stored;
        Self::new(points, residual_sd, accuracy, source)
    }
}

impl Fitted {
    /// A curve through points of rising utilisation; before the first and after the last it stays
    /// level.
    ///
    /// `residual_sd` is the standard deviation of the readings about it, `accuracy` how far the meter
    /// may be off (expanded, 95 %), `source` what it was fitted to: meter
    /// and date. A power that falls as the load rises is taken as level: what falls there is noise.
    pub fn new(
        mut points: Vec<Point>,
        residual_sd: Watts,
        accuracy: Accuracy,
        source: impl Into<String>,
    ) -> Result<Self, FitError> {
        let sane = |point: &Point| {
            (0.0..=1.0).contains(&point.utilisation) && (0.0..=1e6).contains(&point.watts.get())
        };
        let rising = points.windows(2).all(|pair| pair[0].utilisation < pair[1].utilisation);
        let spread = residual_sd.get().is_finite()
            && (0.0..=10.0).contains(&accuracy.relative)
            && (0.0..=1e6).contains(&accuracy.watts.get());
        if points.len() < 2 || !points.iter().all(sane) || !rising || !spread {
            let points = points.iter().map(|point| (point.utilisation, point.watts.get()));
            return Err(FitError::NoCurve { points: points.collect() });
        }
        for next in 1..points.len() {
            points[next].watts = points[next].watts.max(points[next - 1].watts);
        }
        let residual_sd = Watts(residual_sd.get().abs());
        Ok(Self { points, residual_sd, accuracy, source: source.into() })
    }

    /// The line that fits readings of (utilisation, watts) best: P = idle + k x utilisation.
    pub fn line(
        readings: &[(f64, Watts)],
        accuracy: Accuracy,
        source: impl Into<String>,
    ) -> Result<Self, FitError> {
        Self::piecewise(readings, &[0.0, 1.0], accuracy, source)
    }

    /// The curve, straight between these utilisations, that fits readings of (utilisation, watts)
    /// best in the sense of least squares.
    ///
    /// Each reading is a mixture of the watts at the two knots about it, so the watts at the knots
    /// are the coefficients. Readings that are not finite are left out, and utilisations brought
    /// into 0 ..= 1.
    pub fn piecewise(
        readings: &[(f64, Watts)],
        knots: &[f64],
        accuracy: Accuracy,
        source: impl Into<String>,
    ) -> Result<Self, FitError> {
        let usable: Vec<(f64, f64)> = readings
            .iter()
            .filter(|(utilisation, watts)| utilisation.is_finite() && watts.get().is_finite())
            .map(|&(utilisation, watts)| (utilisation.clamp(0.0, 1.0), watts.get()))
            .collect();
        if usable.len() < FEWEST_READINGS.max(knots.len() + 1) {
            return Err(FitError::TooFew { found: usable.len() });
        }
        let flat = |watts| knots.iter().map(|&knot| Point { utilisation: knot, watts }).collect();
        // Knots are looked at before they are divided by.
        Self::new(flat(Watts::ZERO), Watts::ZERO, accuracy, "")?;
        let mut design = Design::new(knots.len());
        for &(load, watts) in &usable {
            design.push(&mixture(knots, load), watts);
        }
        let solution = design
            .solve(RowErrors::Equal)
            .map_err(|_| FitError::Undetermined { knots: knots.to_vec() })?;
        let points = knots.iter().zip(&solution.coefficients).map(|(&utilisation, &watts)| Point {
            utilisation,
            // A knot beyond the readings may come out below nothing.
            watts: Watts(watts).max(Watts::ZERO),
        });
        Self::new(points.collect(), Watts(solution.residual_sd), accuracy, source)
    }

    /// The corners of the curve.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Standard deviation of the readings about the curve.
    pub const fn residual_sd(&self) -> Watts {
        self.residual_sd
    }

    /// What it was fitted to.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Power at a utilisation of 0 ..= 1. The interval joins the spread of the readings about the
    /// curve and the accuracy of the meter, as independent errors.
    pub(super) fn at(&self, utilisation: f64) -> Estimate {
        let knots: Vec<f64> = self.points.iter().map(|point| point.utilisation).collect();
        let shares = mixture(&knots, utilisation);
        let watts: f64 =
            shares.iter().zip(&self.points).map(|(share, point)| share * point.watts.get()).sum();
        let off = (NORMAL_95 * self.residual_sd.get()).hypot(self.accuracy.at(Watts(watts)).get());
        Estimate {
            watts: Watts(watts),
            low: Watts((watts - off).max(0.0)),
            high: Watts(watts + off),
        }
    }
}

/// How much of each knot there is in a load: 1 in all, on the two about it, or on the last one that
/// it lies beyond.
fn mixture(knots: &[f64], load: f64) -> Vec<f64> {
    let mut shares = vec![0.0; knots.len()];
    let above = knots.partition_point(|&knot| knot <= load);
    if above == 0 || above == knots.len() {
        shares[above.saturating_sub(1)] = 1.0;
    } else {
        let (left, right) = (knots[above - 1], knots[above]);
        let part = (load - left) / (right - left);
        shares[above - 1] = 1.0 - part;
        shares[above] = part;
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A meter that is never off.
    const EXACT: Accuracy = Accuracy::relative(0.0);

    fn steps(power: impl Fn(f64) -> f64) -> Vec<(f64, Watts)> {
        (0..=40).map(|step| f64::from(step) / 40.0).map(|load| (load, Watts(power(load)))).collect()
    }

    #[test]
    fn a_line_is_found_again() {
        let fitted =
            Fitted::line(&steps(|load| 43.3 + 61.0 * load), Accuracy::relative(0.01), "test")
                .unwrap();
        assert!((fitted.points()[0].watts - Watts(43.3)).get().abs() < 1e-9);
        assert!((fitted.points()[1].watts - Watts(104.3)).get().abs() < 1e-9);
        assert!(fitted.residual_sd().get() < 1e-9);
        let half = fitted.at(0.5);
        assert!((half.watts.get() - 73.8).abs() < 1e-9);
        // All that is left is the meter's 1 %.
        assert!((half.high.get() - 73.8 * 1.01).abs() < 1e-9);
        let offset = Accuracy { relative: 0.01, watts: Watts(2.0) };
        let fitted = Fitted { accuracy: offset, ..fitted };
        assert!((fitted.at(0.5).high.get() - (73.8 * 1.01 + 2.0)).abs() < 1e-9);
        assert!((half.low.get() - 73.8 * 0.99).abs() < 1e-9);
    }

    #[test]
    fn a_bend_is_found_where_a_knot_is() {
        let bent = |load: f64| if load < 0.5 { 20.0 + 80.0 * load } else { 50.0 + 20.0 * load };
        let fitted = Fitted::piecewise(&steps(bent), &[0.0, 0.5, 1.0], EXACT, "test").unwrap();
        let watts: Vec<_> = fitted.points().iter().map(|point| point.watts.get()).collect();
        for (found, expected) in watts.iter().zip([20.0, 60.0, 70.0]) {
            assert!((found - expected).abs() < 1e-9, "{watts:?}");
        }
        assert!(Fitted::line(&steps(bent), EXACT, "test").unwrap().residual_sd().get() > 1.0);
    }

    #[test]
    fn readings_that_say_too_little_are_refused() {
        let idle = vec![(0.0, Watts(40.0)); 50];
        let undetermined = Fitted::line(&idle, EXACT, "test").unwrap_err();
        assert!(matches!(undetermined, FitError::Undetermined { .. }), "{undetermined}");
        let broken = vec![(f64::NAN, Watts(40.0)), (0.5, Watts(f64::INFINITY)), (0.1, Watts(1.0))];
        assert_eq!(Fitted::line(&broken, EXACT, "test"), Err(FitError::TooFew { found: 1 }));
        for knots in [&[][..], &[0.0], &[0.5, 0.5], &[1.0, 0.0], &[0.0, f64::NAN], &[0.0, 2.0]] {
            let refused = Fitted::piecewise(&steps(|_| 1.0), knots, EXACT, "test").unwrap_err();
            assert!(matches!(refused, FitError::NoCurve { .. }), "{knots:?}: {refused}");
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_looked_at() {
        let point = |utilisation, watts| Point { utilisation, watts: Watts(watts) };
        let points = vec![point(0.0, 40.0), point(1.0, 100.0)];
        let fitted = Fitted::new(
            points,
            Watts(0.5),
            Accuracy { relative: 0.01, watts: Watts(1.0) },
            "a plug",
        )
        .unwrap();
        let text = serde_json::to_string(&fitted).unwrap();
        assert_eq!(serde_json::from_str::<Fitted>(&text).unwrap(), fitted);
        let endless = text.replace("\"utilisation\":1.0", "\"utilisation\":0.0");
        assert_ne!(endless, text);
        let refused = serde_json::from_str::<Fitted>(&endless).unwrap_err().to_string();
        assert!(refused.contains("calibrate again"), "{refused}");
    }

    proptest! {
        #[test]
        fn the_interval_covers_the_readings_as_it_says(seed in 0..1000_u32) {
            // Noise of sd 2 W, as the sum of twelve uniform figures less six (Irwin-Hall).
            let mut state = u64::from(seed) + 1;
            let mut noise = || {
                (0..12).map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 11) as f64 / (1_u64 << 53) as f64
                }).sum::<f64>() - 6.0
            };
            let readings: Vec<_> = (0..2000)
                .map(|step| f64::from(step) / 1999.0)
                .map(|load| (load, Watts(40.0 + 60.0 * load + 2.0 * noise())))
                .collect();
            let fitted = Fitted::line(&readings, EXACT, "test").unwrap();
            let within = readings.iter().filter(|(load, watts)| {
                let Estimate { low, high, .. } = fitted.at(*load);
                low <= *watts && *watts <= high
            });
            let share = within.count() as f64 / 2000.0;
            // 95 % within four standard errors of a share of 2,000.
            prop_assert!((share - 0.95).abs() < 0.02, "{share}");
        }
    }
}
