//! Scale, offset and lag of one series against another.

use serde::Serialize;

use crate::pure::calibrate::Estimate;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::stats::distribution::student_t;

/// `meter(t) = offset + scale x reference(t - lag)`.
///
/// The errors take the meter's deviations as independent from reading to reading, and the reference
/// as free of noise: noise of the reference makes the scale too small by its share of the variance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Relation {
    /// 1 for a meter that agrees.
    pub scale: Estimate<f64>,
    /// 0 W for a meter that agrees.
    pub offset: Estimate<Watts>,
    /// In seconds: by how much the meter is late. Negative when it is the reference that is late.
    pub lag: Estimate<f64>,
    /// Standard deviation of the meter's readings about the relation.
    pub residual_sd: Watts,
    /// Of meter and shifted reference.
    pub correlation: f64,
}

/// Sums over triples: the meter's power, and the reference's at two lags one step apart.
///
/// Between the two lags the reference runs straight, `(1 - f) b0 + f b1`, so that these sums tell the
/// best fraction `f` without a further look at the data.
#[derive(Debug, Clone, Default)]
pub(super) struct PairSums {
    count: f64,
    /// The first triple, subtracted from all: sums of squares then keep their digits.
    first: Option<(f64, f64)>,
    a: f64,
    b: [f64; 2],
    aa: f64,
    ab: [f64; 2],
    bb: [f64; 2],
    cross: f64,
}

impl PairSums {
    pub(super) fn add(&mut self, a: f64, b0: f64, b1: f64) {
        let (a_first, b_first) = *self.first.get_or_insert((a, b0));
        let (a, b) = (a - a_first, [b0 - b_first, b1 - b_first]);
        self.count += 1.0;
        self.a += a;
        self.aa += a * a;
        for (index, b) in b.into_iter().enumerate() {
            self.b[index] += b;
            self.ab[index] += a * b;
            self.bb[index] += b * b;
        }
        self.cross += b[0] * b[1];
    }

    /// The best fraction, and its share of the variance explained; none when nothing varies together.
    fn best_fraction(&self) -> Option<(f64, f64)> {
        let n = self.count;
        let aa = self.aa - self.a * self.a / n;
        let ab = |index: usize| self.ab[index] - self.a * self.b[index] / n;
        let bb = |index: usize| self.bb[index] - self.b[index] * self.b[index] / n;
        let cross = self.cross - self.b[0] * self.b[1] / n;
        // S_ab(f) and S_bb(f), by powers of f; where S_ab^2 / S_bb is stationary:
        let sab = [ab(0), ab(1) - ab(0)];
        let sbb = [bb(0), 2.0 * (cross - bb(0)), bb(0) - 2.0 * cross + bb(1)];
        let stationary =
            (sab[0] * sbb[1] - 2.0 * sab[1] * sbb[0]) / (sab[1] * sbb[1] - 2.0 * sab[0] * sbb[2]);
        [0.0, 1.0, stationary]
            .into_iter()
            .filter(|f| (0.0..=1.0).contains(f))
            .filter_map(|f| {
                let sab = sab[0] + sab[1] * f;
                let sbb = sbb[0] + f * (sbb[1] + f * sbb[2]);
                let explained = sab * sab / (aa * sbb);
                (sab > 0.0 && explained.is_finite()).then_some((f, explained))
            })
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The relation, for lags of `lag` and `lag + 1` steps, each of `step` seconds; `independent` is
    /// how many of the triples have errors of their own.
    pub(super) fn relation(&self, lag: f64, step: f64, independent: f64) -> Option<Relation> {
        let spare = independent.min(self.count) - 3.0;
        if spare < 1.0 {
            return None;
        }
        let (f, explained) = self.best_fraction()?;
        let n = self.count;
        let mean_b = (1.0 - f) * self.b[0] / n + f * self.b[1] / n;
        let squares =
            (1.0 - f).powi(2) * self.bb[0] + 2.0 * f * (1.0 - f) * self.cross + f * f * self.bb[1];
        let sbb = squares - n * mean_b * mean_b;
        let sab = (1.0 - f) * self.ab[0] + f * self.ab[1] - self.a * mean_b;
        let scale = sab / sbb;
        let (a_first, b_first) = self.first?;
        let (mean_a, mean_b) = (a_first + self.a / n, b_first + mean_b);
        let residual = (self.aa - self.a * self.a / n) * (1.0 - explained).max(0.0);
        // Of n residuals only `independent` are independent: fewer to spare, and less averaging.
        let variance = residual / n * (spare + 3.0) / spare;
        let repeated = n / (spare + 3.0);
        let slopes = (self.bb[0] - 2.0 * self.cross + self.bb[1]) / (step * step);
        let t_95 = student_t(0.025, spare);
        let of_scale = (variance / sbb * repeated).sqrt();
        let of_offset = (variance * (1.0 / n + mean_b * mean_b / sbb) * repeated).sqrt();
        // Cramér and Rao: a delay is known by the slopes that it shifts.
        let of_lag = (variance / (scale * scale * slopes) * repeated).sqrt();
        Some(Relation {
            scale: Estimate::new(scale, of_scale, t_95),
            offset: Estimate::new(Watts(mean_a - scale * mean_b), Watts(of_offset), t_95),
            lag: Estimate::new((lag + f) * step, of_lag, t_95),
            residual_sd: Watts(variance.sqrt()),
            correlation: explained.sqrt(),
        })
    }

    /// How much of the variance is explained, at best.
    pub(super) fn explained(&self) -> f64 {
        self.best_fraction().map_or(0.0, |(_, explained)| explained)
    }

    pub(super) const fn count(&self) -> f64 {
        self.count
    }
}

/// Whether so high a correlation is no chance, the best of `lags` tried: Fisher's z transform, with
/// one in ten thousand for all lags together.
pub(super) fn is_significant(explained: f64, independent: f64, lags: f64) -> bool {
    let z = explained.sqrt().min(1.0 - 1e-15).atanh();
    independent > 4.0
        && z * (independent - 3.0).sqrt() > student_t(1e-4 / lags.max(1.0), f64::INFINITY)
}
