//! When the generator toggles.

use std::time::Duration;

/// The generator's intervals: about a second, irregular, the same for the same seed.
///
/// An endless iterator over the times between toggles: 1 s with up to a quarter more or less,
/// uniformly. A dozen intervals in a row then belong to no other place in a day of toggles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncPlan {
    state: u64,
}

impl SyncPlan {
    /// Mean interval.
    pub const MEAN: Duration = Duration::from_secs(1);
    /// Largest difference from the mean, as a share of it.
    pub const SPREAD: f64 = 0.25;

    /// The plan of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// `SplitMix64`: G. L. Steele, D. Lea and C. H. Flood, *Fast splittable pseudorandom number
    /// generators*, OOPSLA 2014. Written out because the same seed must give the same plan for ever.
    const fn next_random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Iterator for SyncPlan {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // The upper 53 bits: uniform in 0 .. 1.
        let uniform = (self.next_random() >> 11) as f64 / (1_u64 << 53) as f64;
        Some(Self::MEAN.mul_f64(1.0 + Self::SPREAD * (2.0 * uniform - 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The published first values for seed 1234567.
        let mut plan = SyncPlan::new(1_234_567);
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for value in expected {
            assert_eq!(plan.next_random(), value);
        }
    }

    #[test]
    fn intervals_stay_within_a_quarter_of_a_second_and_fill_it() {
        let intervals: Vec<f64> = SyncPlan::new(5).take(10_000).map(|i| i.as_secs_f64()).collect();
        assert!(intervals.iter().all(|interval| (0.75..=1.25).contains(interval)));
        let mean = intervals.iter().sum::<f64>() / 1e4;
        let variance = intervals.iter().map(|i| (i - mean).powi(2)).sum::<f64>() / 1e4;
        // Uniform over half a second: sd 0.5 / sqrt(12) = 0.1443; the mean of 10,000 within 5 of
        // its own sd of 0.0014.
        assert!((mean - 1.0).abs() < 0.0072, "{mean}");
        assert!((variance.sqrt() - 0.1443).abs() < 0.003, "{variance}");
    }
}
