//! A meter's energy shared by samples, and how far chance may have it off.

use std::time::Duration;

use crate::quantity::{Joules, Watts};
use crate::sections::{Shares, Usage};

/// 97.5 % of the normal distribution lie below: 95 % within either side.
const Z: f64 = 1.959_963_984_540_054;

/// Energy of one channel of a meter by stack.
///
/// As [`Shares`] has it, with CPU time in whole periods. What the meter saw in a time in which no
/// sample found a busy CPU is kept until one does: given to nobody, a command that is busy for less
/// than a period in each reading would seem to use nothing.
#[derive(Debug, Clone)]
pub struct SampledShares {
    period: Duration,
    shares: Shares,
    held: (Joules, Duration),
    last: Usage,
    /// Of all slices: what was shared, and its square for each sample.
    dynamic: f64,
    squares: f64,
}

impl SampledShares {
    /// Nothing shared yet. `idle_power` as [`Shares::new`] has it.
    pub fn new(idle_power: Watts, period: Duration) -> Self {
        Self {
            period,
            shares: Shares::new(idle_power),
            held: (Joules::ZERO, Duration::ZERO),
            last: Usage::default(),
            dynamic: 0.0,
            squares: 0.0,
        }
    }

    /// The meter saw so much since its last word, and the samples up to now are these.
    pub fn share(&mut self, joules: Joules, time: Duration, now: &Usage) {
        self.held.0 += joules;
        self.held.1 += time;
        if now.busy > self.last.busy {
            self.settle(now);
        }
    }

    /// What was kept is shared all the same: nothing more will come, or nothing is known of the time up
    /// to now.
    pub fn skip_to(&mut self, now: &Usage) {
        if self.held.1 > Duration::ZERO {
            self.settle(now);
        }
        self.last = now.clone();
    }

    fn settle(&mut self, now: &Usage) {
        let before = self.shares.shared().get() - self.shares.idle().get();
        self.shares.share(self.held.0, self.held.1, &self.last, now);
        let dynamic = self.shares.shared().get() - self.shares.idle().get() - before;
        let samples = now.since(&self.last).busy.div_duration_f64(self.period).round();
        if samples > 0.0 {
            self.dynamic += dynamic;
            self.squares += dynamic * dynamic / samples;
        }
        self.held = (Joules::ZERO, Duration::ZERO);
        self.last = now.clone();
    }

    /// What came of it.
    pub const fn shares(&self) -> &Shares {
        &self.shares
    }

    /// How many samples of equal weight would be as sure as these, whose weight is the energy that each
    /// stands for.
    pub fn weight(&self) -> f64 {
        if self.squares > 0.0 { self.dynamic * self.dynamic / self.squares } else { 0.0 }
    }
}

/// Where a share lies with 95 % probability that was found in so many samples: Wilson's interval for a
/// binomial proportion (J. Am. Stat. Assoc. 22, 209, 1927).
pub fn interval(share: f64, samples: f64) -> (f64, f64) {
    if samples <= 0.0 {
        return (0.0, 1.0);
    }
    let share = share.clamp(0.0, 1.0);
    let spread = Z * Z / samples;
    let middle = (share + spread / 2.0) / (1.0 + spread);
    let half = Z * ((share * (1.0 - share) + spread / 4.0) / samples).sqrt() / (1.0 + spread);
    // The interval holds the share; rounding may not.
    ((middle - half).clamp(0.0, share), (middle + half).clamp(share, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::RngExt;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const PERIOD: Duration = Duration::from_millis(1);

    #[test]
    fn the_interval_is_wilsons() {
        // By hand: of 15 in 50, 0.3143 +- 0.1232; of 0 in 10, up to z^2 / (10 + z^2).
        let (low, high) = interval(0.3, 50.0);
        assert!((low - 0.1911).abs() < 2e-4 && (high - 0.4375).abs() < 2e-4, "{low} {high}");
        let (low, high) = interval(0.0, 10.0);
        assert!(low == 0.0 && (high - 0.2775).abs() < 1e-4, "{high}");
        assert_eq!(interval(0.0, 0.0), (0.0, 1.0));
    }

    /// Samples of two stacks, so many of each, and idle ones.
    fn more(usage: &Usage, one: u32, two: u32, others: u32) -> Usage {
        let mut usage = usage.clone();
        usage.nodes.resize(3, Duration::ZERO);
        usage.nodes[1] += PERIOD * one;
        usage.nodes[2] += PERIOD * two;
        usage.busy += PERIOD * (one + two + others);
        usage
    }

    #[test]
    fn a_command_that_is_seldom_seen_still_gets_what_it_used() {
        let mut shares = SampledShares::new(Watts(10.0), PERIOD);
        let mut usage = Usage::default();
        // Of twenty readings of 10 ms at 12 W one finds it: 0.4 J above the idle 2 J are all its own.
        for reading in 0..20 {
            usage = more(&usage, u32::from(reading == 13), 0, 0);
            shares.share(Joules(0.12), Duration::from_millis(10), &usage);
        }
        let found = shares.shares().nodes()[1].get();
        assert!((found - 0.02 * 14.0).abs() < 1e-9, "{found}: six readings are kept");
        shares.skip_to(&usage);
        let (idle, all) = (shares.shares().idle().get(), shares.shares().shared().get());
        assert!((idle - 2.0).abs() < 1e-9 && (all - 2.4).abs() < 1e-9, "{idle} {all}");
    }

    #[test]
    fn what_a_dear_time_tells_counts_for_more_and_is_less_sure() {
        let mut shares = SampledShares::new(Watts::ZERO, PERIOD);
        let first = more(&Usage::default(), 50, 50, 0);
        shares.share(Joules(1.0), Duration::from_secs(1), &first);
        let even = shares.weight();
        assert!((even - 100.0).abs() < 1e-9);
        // As many samples again, each worth ten times as much: (100 + 1000)^2 / (100 + 10,000).
        shares.share(Joules(10.0), Duration::from_secs(1), &more(&first, 50, 50, 0));
        assert!((shares.weight() - 1.21e6 / 10_100.0).abs() < 1e-6, "{}", shares.weight());
    }

    /// Of 1,000 profiles of a stack that truly has 30 % of the energy, by samples whose worth changes,
    /// 95 % hold it: Binomial(1000, 0.95) is below 915 once in 10^6.
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        let holds = (0..1000).filter(|_| {
            let mut shares = SampledShares::new(Watts::ZERO, PERIOD);
            let mut usage = Usage::default();
            for _ in 0..40 {
                let one = (0..10).filter(|_| rng.random_bool(0.3)).count() as u32;
                usage = more(&usage, one, 10 - one, 0);
                shares.share(Joules(rng.random_range(0.1..2.0)), PERIOD * 10, &usage);
            }
            let all = shares.shares().shared().get();
            let (low, high) = interval(shares.shares().nodes()[1].get() / all, shares.weight());
            low <= 0.3 && 0.3 <= high
        });
        let holds = holds.count();
        assert!((915..=982).contains(&holds), "{holds}");
    }

    proptest! {
        #[test]
        fn whatever_is_seen_all_parts_add_up_to_what_the_meter_saw(
            slices in prop::collection::vec((0.0..1e3_f64, 0..50_u64, 0..3_u32, 0..3_u32, 0..2_u32), 1..60),
            idle in 0.0..50.0_f64,
        ) {
            let mut shares = SampledShares::new(Watts(idle), PERIOD);
            let (mut usage, mut saw) = (Usage::default(), 0.0);
            for (joules, ms, one, two, others) in slices {
                usage = more(&usage, one, two, others);
                shares.share(Joules(joules), Duration::from_millis(ms), &usage);
                saw += joules;
            }
            shares.skip_to(&usage);
            // A reading of no time that nobody was seen in is kept for ever.
            let kept = shares.held.0.get();
            let shared = shares.shares();
            let nodes: f64 = shared.nodes().iter().map(|joules| joules.get()).sum();
            let parts = nodes + shared.others().get() + shared.idle().get() + kept;
            prop_assert!((parts - saw).abs() <= 1e-9 * saw.max(1.0), "{parts} of {saw}");
        }

        #[test]
        fn an_interval_holds_its_share(share in 0.0..=1.0_f64, samples in 0.0..1e6_f64) {
            let (low, high) = interval(share, samples);
            prop_assert!((0.0..=share).contains(&low) && (share..=1.0).contains(&high));
        }
    }
}
