//! Power against CPU utilisation: a straight line, and a broken one with knots at tenths.
//!
//! The line is `P = idle + slope x u`. The broken line is the least-squares spline of degree one in
//! the basis of hat functions (C. de Boor, *A Practical Guide to Splines*, ch. IX), so that its
//! coefficients are the powers at its knots. A line is a broken line too: whether breaking it is
//! worth its further coefficients, the F test of nested models says (Draper and Smith, *Applied
//! Regression Analysis*, 3rd ed., 6.1).

use serde::Serialize;

use super::{CalibrateError, Estimate};
use nightwatt_energy::least_squares::{Design, Fit, RowErrors};
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::stats::distribution::fisher_f_upper_tail;

/// The broken line is preferred when a line would fit this badly by chance no more often than this.
pub const SIGNIFICANCE: f64 = 0.05;
/// Points that a piece of the broken line needs at least.
const POINTS_PER_PIECE: usize = 3;

/// Power seen at a utilisation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct UtilisationPoint {
    /// 0 (idle) ..= 1 (all cores busy), mean over the time of the reading.
    pub utilisation: f64,
    /// Power at that time.
    pub power: Watts,
}

/// A straight line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Power at utilisation 0.
    pub idle: Estimate<Watts>,
    /// Power at utilisation 1, less that at 0.
    pub slope: Estimate<Watts>,
    /// Scatter of points about it.
    pub residual_sd: Watts,
}

/// A broken line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BrokenLine {
    /// Utilisations, ascending: the ends of what was covered, and tenths in between.
    pub knots: Vec<f64>,
    /// Power at each.
    pub powers: Vec<Estimate<Watts>>,
    /// Scatter of points about it.
    pub residual_sd: Watts,
}

impl BrokenLine {
    /// Power at a utilisation; the first and last piece are prolonged.
    pub fn at(&self, utilisation: f64) -> Watts {
        let piece = piece_of(&self.knots, utilisation);
        let (a, b) = (self.knots[piece], self.knots[piece + 1]);
        let share = (utilisation - a) / (b - a);
        let power = |knot: usize| self.powers[knot].value;
        power(piece) * (1.0 - share) + power(piece + 1) * share
    }

    /// Whether power never falls as utilisation rises.
    pub fn is_monotone(&self) -> bool {
        self.powers.windows(2).all(|pair| pair[0].value <= pair[1].value)
    }

    /// The closest broken line that never falls, each knot weighed by how sure it is: pool adjacent
    /// violators (R. E. Barlow and others, *Statistical Inference under Order Restrictions*, 1972).
    ///
    /// The estimates of neighbouring knots are taken as independent; their standard errors stay.
    #[must_use]
    pub fn monotone(&self) -> Self {
        // Per pool: weight, mean, knots.
        let mut pools: Vec<(f64, f64, usize)> = Vec::new();
        for power in &self.powers {
            let error = power.standard_error.get();
            let weight = if error > 0.0 && error.is_finite() { 1.0 / (error * error) } else { 1.0 };
            let mut pool = (weight, power.value.get(), 1);
            while let Some(&(weight, mean, knots)) = pools.last()
                && mean > pool.1
            {
                let sum = weight + pool.0;
                pool = (sum, (weight * mean + pool.0 * pool.1) / sum, knots + pool.2);
                pools.pop();
            }
            pools.push(pool);
        }
        let values = pools.iter().flat_map(|&(_, mean, knots)| std::iter::repeat_n(mean, knots));
        let moved = |(power, value): (&Estimate<Watts>, f64)| {
            let shift = Watts(value) - power.value;
            let interval = (power.interval.0 + shift, power.interval.1 + shift);
            Estimate { value: Watts(value), standard_error: power.standard_error, interval }
        };
        let powers = self.powers.iter().zip(values).map(moved).collect();
        Self { knots: self.knots.clone(), powers, residual_sd: self.residual_sd }
    }
}

/// Which of the fits describes the points better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The straight line: the broken one is not significantly better.
    Line,
    /// The broken line.
    BrokenLine,
}

/// Both descriptions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UtilisationFit {
    /// The straight one.
    pub line: Line,
    /// The broken one; none when the points allow of one piece only.
    pub broken: Option<BrokenLine>,
    /// Which to use.
    pub better: Better,
    /// Probability that a machine that follows a line would seem this far from it; none without a
    /// broken line.
    pub line_p_value: Option<f64>,
    /// Smallest and largest utilisation seen: beyond them the fit is a guess.
    pub covered: (f64, f64),
    /// How many points.
    pub points: usize,
}

/// Fits both.
pub fn fit_utilisation(points: &[UtilisationPoint]) -> Result<UtilisationFit, CalibrateError> {
    for (index, point) in points.iter().enumerate() {
        let bad = |why| CalibrateError::Bad { what: "point", index: index + 1, why };
        if !(0.0..=1.0).contains(&point.utilisation) {
            return Err(bad("has a utilisation that does not lie between 0 and 1"));
        }
        if !point.power.get().is_finite() {
            return Err(bad("has a power that is not finite"));
        }
    }
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.utilisation.total_cmp(&b.utilisation));
    let mut design = Design::new(2);
    for point in &sorted {
        design.push(&[1.0, point.utilisation], point.power.get());
    }
    let straight = design.solve(RowErrors::Equal).map_err(|error| {
        CalibrateError::of_fit(
            &error,
            "point",
            "idle power and slope",
            "load the machine at two levels at least, for example idle and one busy core",
        )
    })?;
    let line = Line {
        idle: Estimate::of(&straight, 0, Watts),
        slope: Estimate::of(&straight, 1, Watts),
        residual_sd: Watts(straight.residual_sd),
    };
    let covered = (sorted[0].utilisation, sorted[sorted.len() - 1].utilisation);
    let broken = break_line(&sorted);
    let line_p_value = broken.as_ref().map(|(_, fit)| nested_p_value(&straight, fit));
    let better = match line_p_value {
        Some(p) if p < SIGNIFICANCE => Better::BrokenLine,
        _ => Better::Line,
    };
    let broken = broken.map(|(broken, _)| broken);
    Ok(UtilisationFit { line, broken, better, line_p_value, covered, points: points.len() })
}

/// Index of the piece (between two knots) that serves a utilisation.
fn piece_of(knots: &[f64], utilisation: f64) -> usize {
    knots.partition_point(|&knot| knot <= utilisation).clamp(1, knots.len() - 1) - 1
}

fn break_line(sorted: &[UtilisationPoint]) -> Option<(BrokenLine, Fit)> {
    let knots = choose_knots(sorted);
    // One piece is the line itself; and errors need points to spare.
    if knots.len() < 3 || sorted.len() <= knots.len() {
        return None;
    }
    let mut design = Design::new(knots.len());
    let mut hats = vec![0.0; knots.len()];
    for point in sorted {
        let piece = piece_of(&knots, point.utilisation);
        let share = (point.utilisation - knots[piece]) / (knots[piece + 1] - knots[piece]);
        hats.fill(0.0);
        (hats[piece], hats[piece + 1]) = (1.0 - share, share);
        design.push(&hats, point.power.get());
    }
    let fit = design.solve(RowErrors::Equal).ok()?;
    let powers = (0..knots.len()).map(|knot| Estimate::of(&fit, knot, Watts)).collect();
    let broken = BrokenLine { knots, powers, residual_sd: Watts(fit.residual_sd) };
    Some((broken, fit))
}

/// The ends of what is covered, and those tenths between which there are points at two different
/// utilisations at least: then each piece is determined by its own points.
fn choose_knots(sorted: &[UtilisationPoint]) -> Vec<f64> {
    let (first, last) = (sorted[0].utilisation, sorted[sorted.len() - 1].utilisation);
    let enough = |from: f64, to: f64| {
        let start = sorted.partition_point(|point| point.utilisation < from);
        let end = sorted.partition_point(|point| point.utilisation <= to);
        let piece = &sorted[start..end];
        piece.len() >= POINTS_PER_PIECE && piece[0].utilisation < piece[piece.len() - 1].utilisation
    };
    let mut knots = vec![first];
    for tenth in 1..10 {
        let tenth = f64::from(tenth) / 10.0;
        let from = knots[knots.len() - 1];
        if from < tenth && tenth < last && enough(from, tenth) && enough(tenth, last) {
            knots.push(tenth);
        }
    }
    knots.push(last);
    knots
}

/// Probability of so large an F if the line were true.
fn nested_p_value(line: &Fit, broken: &Fit) -> f64 {
    let further = (broken.coefficients.len() - line.coefficients.len()) as f64;
    let gain = (line.sum_of_squares - broken.sum_of_squares).max(0.0);
    if gain <= 0.0 {
        return 1.0;
    }
    let spare = broken.degrees_of_freedom;
    fisher_f_upper_tail((gain / further) / (broken.sum_of_squares / spare), further, spare)
}

#[cfg(test)]
mod tests;
