//! Intervals of percentiles, by the bootstrap: how the percentile would vary if what was seen were all
//! there is (percentile intervals: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 13.3).
//!
//! Values of one run resemble each other, so with several runs the runs are resampled, not the values. Of a
//! handful of runs such an interval is too narrow, as every bootstrap is.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::distribution::binomial_upper_tail;
use super::intervals::{Interval, LEVEL};
use super::percentile;

/// The 95 % interval of the `p`-th percentile (0 ..= 100, nearest rank) of independent values in
/// ascending order; `None` of none.
///
/// Nothing is drawn: of all resamples there are, the percentile is at most the k-th value where at
/// least its rank of n draws with probability k/n succeed, which is what drawing would tend to.
pub fn of_values(ascending: &[f64], p: f64) -> Option<Interval> {
    let count = ascending.len() as u64;
    let rank = ((p / 100.0 * count as f64).ceil() as u64).clamp(1, count.max(1));
    let quantile = |share: f64| {
        // The first k by which so much of the resamples lies, by halving.
        let (mut below, mut reached) = (0, count);
        while reached - below > 1 {
            let k = below + (reached - below) / 2;
            if binomial_upper_tail(rank, count, k as f64 / count as f64) >= share {
                reached = k;
            } else {
                below = k;
            }
        }
        ascending.get(reached.checked_sub(1)? as usize).copied()
    };
    Some(Interval { low: quantile(0.5 * LEVEL)?, high: quantile(1.0 - 0.5 * LEVEL)? })
}

/// The 95 % interval of the `p`-th percentile of all values of several runs, by `resamples` draws of as
/// many runs; `None` of fewer than two runs with values. The same seed gives the same interval.
pub fn of_runs(runs: &[Vec<f64>], p: f64, resamples: usize, seed: u64) -> Option<Interval> {
    let mut values: Vec<(f64, usize)> = runs
        .iter()
        .enumerate()
        .flat_map(|(run, values)| values.iter().map(move |&value| (value, run)))
        .collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    if runs.iter().filter(|run| !run.is_empty()).count() < 2 {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut times = vec![0_usize; runs.len()];
    let mut percentiles: Vec<f64> = (0..resamples.max(1))
        .filter_map(|_| {
            times.fill(0);
            for _ in 0..runs.len() {
                times[rng.random_range(0..runs.len())] += 1;
            }
            let total: usize = times.iter().zip(runs).map(|(times, run)| times * run.len()).sum();
            let rank = ((p / 100.0 * total as f64).ceil() as usize).max(1);
            let mut passed = 0;
            let reached = values.iter().find(|(_, run)| {
                passed += times[*run];
                passed >= rank
            });
            reached.map(|(value, _)| *value)
        })
        .collect();
    percentiles.sort_by(f64::total_cmp);
    let end = |share: f64| percentile(&percentiles, 100.0 * share);
    Some(Interval { low: end(0.5 * LEVEL), high: end(1.0 - 0.5 * LEVEL) })
}

/// The 95 % interval of the mean of what several runs say of themselves, a percentile of each, by
/// `resamples` draws of as many runs; `None` of fewer than two.
pub fn of_mean(values: &[f64], resamples: usize, seed: u64) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let count = values.len();
    let mut means: Vec<f64> = (0..resamples.max(1))
        .map(|_| (0..count).map(|_| values[rng.random_range(0..count)]).sum::<f64>() / count as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    let end = |share: f64| percentile(&means, 100.0 * share);
    Some(Interval { low: end(0.5 * LEVEL), high: end(1.0 - 0.5 * LEVEL) })
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, Exp1, Normal};

    use super::*;

    /// From order statistics: scipy 1.17,
    /// `stats.quantile_test(range(1, n + 1), p=p / 100).confidence_interval(0.95)`.
    #[test]
    fn the_interval_lies_within_two_ranks_of_the_binomial_one() {
        for (count, p, low, high) in [
            (100, 50.0, 40.0, 61.0),
            (100, 90.0, 84.0, 96.0),
            (1000, 99.0, 983.0, 997.0),
            (40, 75.0, 24.0, 36.0),
        ] {
            let ascending: Vec<f64> = (1..=count).map(f64::from).collect();
            let found = of_values(&ascending, p).unwrap();
            assert!((found.low - low).abs() <= 2.0, "{count} {p}: {found:?}");
            assert!((found.high - high).abs() <= 2.0, "{count} {p}: {found:?}");
        }
        assert_eq!(of_values(&[], 50.0), None);
        assert_eq!(of_values(&[3.0], 50.0), Some(Interval { low: 3.0, high: 3.0 }));
    }

    #[test]
    fn drawing_tends_to_what_is_computed_without() {
        let seed = 11;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut ascending: Vec<f64> = (0..120).map(|_| Exp1.sample(&mut rng)).collect();
        ascending.sort_by(f64::total_cmp);
        // A run for each value: then drawing runs is drawing values.
        let runs: Vec<Vec<f64>> = ascending.iter().map(|&value| vec![value]).collect();
        let (drawn, computed) =
            (of_runs(&runs, 90.0, 4000, seed).unwrap(), of_values(&ascending, 90.0).unwrap());
        let rank = |value: f64| ascending.partition_point(|&other| other < value) as f64;
        for (a, b) in [(drawn.low, computed.low), (drawn.high, computed.high)] {
            assert!((rank(a) - rank(b)).abs() <= 1.0, "seed {seed}: {drawn:?} {computed:?}");
        }
    }

    #[test]
    fn the_mean_of_many_runs_is_drawn_as_far_off_as_the_normal_distribution_has_it() {
        let seed = 13;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let normal = Normal::new(5.0, 1.0).unwrap();
        let values: Vec<f64> = (0..400).map(|_| normal.sample(&mut rng)).collect();
        let found = of_mean(&values, 4000, seed).unwrap();
        let mean = values.iter().sum::<f64>() / 400.0;
        let squares = values.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
        let half = 1.96 * (squares / 400.0).sqrt() / 20.0;
        let is_near = |a: f64, b: f64| (a - b).abs() < 0.1 * half;
        assert!(is_near(found.low, mean - half), "seed {seed}: {found:?} {mean} {half}");
        assert!(is_near(found.high, mean + half), "seed {seed}: {found:?} {mean} {half}");
        assert_eq!(of_mean(&[3.0], 100, seed), None, "one run tells nothing of others");
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_percentile() {
        let seed = 12;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let truth = 10.0_f64.ln(); // the 90th percentile of the exponential distribution
        let held = (0..2000).filter(|_| {
            let mut values: Vec<f64> = (0..200).map(|_| Exp1.sample(&mut rng)).collect();
            values.sort_by(f64::total_cmp);
            of_values(&values, 90.0).unwrap().contains(truth)
        });
        let held = held.count() as f64 / 2000.0;
        // Three deviations of 2000 draws are 1.5 %; the bootstrap's own error is of the order of 1 %.
        assert!((0.925..0.975).contains(&held), "seed {seed}: {held}");
    }

    #[test]
    fn runs_that_differ_make_a_wider_interval_than_their_values_alone_would() {
        let seed = 13;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let delays = Normal::new(0.0, 1.0).unwrap();
        let runs: Vec<Vec<f64>> = (0..12)
            .map(|run| (0..500).map(|_| f64::from(run) + delays.sample(&mut rng)).collect())
            .collect();
        let mut pooled: Vec<f64> = runs.concat();
        pooled.sort_by(f64::total_cmp);
        let by_runs = of_runs(&runs, 50.0, 2000, seed).unwrap();
        let by_values = of_values(&pooled, 50.0).unwrap();
        assert!(by_runs.width() > 5.0 * by_values.width(), "seed {seed}");
        assert_eq!(of_runs(&runs, 50.0, 2000, seed), Some(by_runs), "the same seed");
        assert_eq!(of_runs(&runs[..1], 50.0, 100, seed), None);
    }
}
