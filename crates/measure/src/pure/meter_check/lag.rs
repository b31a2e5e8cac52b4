//! The lag between two logs: cross-correlation by Fourier transform, then the best fraction of a step.

use std::time::Duration;

use super::relation::{PairSums, Relation, is_significant};
use super::shifted_pairs;
use crate::pure::power_log::PowerLog;
use crate::pure::spectrum::{Complex, Fft};
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;

/// Points of the grid that the logs are put on: what is longer is put on a coarser one.
const MOST_POINTS: f64 = (1_u64 << 20) as f64;
/// Fewer points have no correlation worth the name.
const FEWEST_POINTS: usize = 8;

/// Scale, offset and lag; none when the load does not change enough to tell, or when the logs do
/// not overlap.
pub(super) fn find(meter: &PowerLog, reference: &PowerLog, longest: Duration) -> Option<Relation> {
    let from = meter.readings().first()?.time.max(reference.readings().first()?.time);
    let to = meter.readings().last()?.time.min(reference.readings().last()?.time);
    let span = to.since(from).as_secs_f64();
    let step = spacing(meter)?.min(spacing(reference)?).max(span / MOST_POINTS);
    let points = (span / step) as usize;
    if points < FEWEST_POINTS {
        return None;
    }
    // Lags beyond a half of the overlap compare next to nothing.
    let most = ((longest.as_secs_f64() / step).ceil() as usize).clamp(1, points / 2);
    let sampled = |log: &PowerLog| -> Vec<Option<f64>> {
        let time = |point: usize| from + Duration::from_secs_f64(point as f64 * step);
        (0..points).map(|point| log.at(time(point)).map(Watts::get)).collect()
    };
    let coarse = best_lag(&sampled(meter), &sampled(reference), most)?;
    // The best fraction lies within a step to either side.
    let (lag, sums) = [coarse - 1.0, coarse]
        .into_iter()
        .map(|lag| (lag, sums_at(meter, reference, lag, step)))
        .max_by(|a, b| a.1.explained().total_cmp(&b.1.explained()))?;
    let independent = sums.count().min(reference.between(from, to).len() as f64);
    if !is_significant(sums.explained(), independent, 2.0 * most as f64) {
        return None;
    }
    sums.relation(lag, step, independent)
}

/// Median time between readings, in seconds.
fn spacing(log: &PowerLog) -> Option<f64> {
    let mut intervals: Vec<Duration> =
        log.readings().windows(2).map(|pair| pair[1].time.since(pair[0].time)).collect();
    intervals.sort_unstable();
    intervals.get(intervals.len() / 2).map(Duration::as_secs_f64)
}

/// Sums for two neighbouring lags, at the meter's own readings.
fn sums_at(meter: &PowerLog, reference: &PowerLog, lag: f64, step: f64) -> PairSums {
    let mut sums = PairSums::default();
    let mut later = shifted_pairs(meter, reference, (lag + 1.0) * step).peekable();
    for (time, a, b0) in shifted_pairs(meter, reference, lag * step) {
        // Either may lack a reading that the other has.
        while later.next_if(|&(other, ..): &(Mono, f64, f64)| other < time).is_some() {}
        if let Some((_, _, b1)) = later.next_if(|&(other, ..)| other == time) {
            sums.add(a, b0, b1);
        }
    }
    sums
}

/// The lag in steps at which the two correlate best, among those from `-most` to `most`.
///
/// Correlation theorem: the transform of the cross-correlation is one transform times the conjugate
/// of the other (J. S. Bendat and A. G. Piersol, *Random Data*, 11.4). Zeros at the end keep lags
/// from wrapping around; a missing point is a zero after the mean is taken out.
fn best_lag(a: &[Option<f64>], b: &[Option<f64>], most: usize) -> Option<f64> {
    let length = (a.len() + most).next_power_of_two();
    let fft = Fft::new(length);
    let transformed = |values: &[Option<f64>]| {
        let known = values.iter().flatten();
        let mean = known.clone().sum::<f64>() / known.count() as f64;
        let mut z = vec![Complex::default(); length];
        for (z, value) in z.iter_mut().zip(values) {
            z.re = value.map_or(0.0, |value| value - mean);
        }
        fft.forward(&mut z);
        z
    };
    let other = transformed(b);
    let mut product: Vec<Complex> =
        transformed(a).iter().zip(&other).map(|(a, b)| a.conjugate().times(*b)).collect();
    // Two forward transforms make a mirror image: with the conjugate on `a`, a forward transform
    // gives Σ a(t + lag) b(t) at `lag`.
    fft.forward(&mut product);
    let points = a.len() as f64;
    let lag = |index: usize| index as f64 - most as f64;
    let correlation = |index: usize| {
        // Negative lags stand at the end. The longer the lag, the fewer products.
        let product = product[(length + index - most) % length].re;
        product * points / (points - lag(index).abs())
    };
    (0..=2 * most).max_by(|&x, &y| correlation(x).total_cmp(&correlation(y))).map(lag)
}
