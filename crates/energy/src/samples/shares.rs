//! A meter's energy shared by samples, and how far chance may have it off.

use std::collections::VecDeque;
use std::time::Duration;

use crate::quantity::{Joules, Watts};
use crate::sections::Shares;
use crate::time::Mono;

/// 97.5 % of the normal distribution lie below: 95 % within either side.
const Z: f64 = 1.959_963_984_540_054;

/// Samples that are kept until the meter says something: 32 MB.
const MOST: usize = 1 << 20;

/// A sample of a CPU that was busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy {
    /// When.
    pub at: Mono,
    /// In which stack; `None` for what is not watched.
    pub stack: Option<usize>,
}

/// Energy of one channel of a meter by stack.
///
/// What the meter saw in a time in which no sample found a busy CPU is kept until one does: otherwise a
/// command that is busy for less than a period in each reading would seem to use nothing.
#[derive(Debug, Clone)]
pub struct SampledShares {
    shares: Shares,
    /// Since the last slice.
    samples: VecDeque<Busy>,
    held: (Joules, Duration),
    /// Of all slices: what was shared, and its square for each sample.
    dynamic: f64,
    squares: f64,
}

impl SampledShares {
    /// Nothing shared yet. `idle_power` as [`Shares::new`] has it.
    pub fn new(idle_power: Watts) -> Self {
        Self {
            shares: Shares::new(idle_power),
            samples: VecDeque::new(),
            held: (Joules::ZERO, Duration::ZERO),
            dynamic: 0.0,
            squares: 0.0,
        }
    }

    /// A sample, in the order of times.
    pub fn take(&mut self, sample: Busy) {
        // A meter that says nothing for minutes: what it says then is shared by the rest.
        if self.samples.len() == MOST {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The meter saw this much since its last reading, in `time` up to `until`.
    pub fn share(&mut self, joules: Joules, time: Duration, until: Mono) {
        self.held.0 += joules;
        self.held.1 += time;
        if self.samples.front().is_some_and(|first| first.at <= until) {
            self.settle(until);
        }
    }

    /// What was kept is shared all the same, and samples up to now get nothing: nothing more will come, or
    /// nothing is known of this time.
    pub fn skip_to(&mut self, now: Mono) {
        if self.held.1 > Duration::ZERO {
            self.settle(now);
        }
        self.until(now);
    }

    /// Samples up to a moment.
    fn until(&mut self, moment: Mono) -> Vec<Option<usize>> {
        let is_due = |first: &mut Busy| first.at <= moment;
        std::iter::from_fn(|| self.samples.pop_front_if(is_due)).map(|it| it.stack).collect()
    }

    fn settle(&mut self, until: Mono) {
        let samples = self.until(until);
        let before = self.shares.shared() - self.shares.idle();
        self.shares.share_by_samples(self.held.0, self.held.1, &samples);
        let dynamic = (self.shares.shared() - self.shares.idle() - before).get();
        if !samples.is_empty() {
            self.dynamic += dynamic;
            self.squares += dynamic * dynamic / samples.len() as f64;
        }
        self.held = (Joules::ZERO, Duration::ZERO);
    }

    /// What stacks have is that of others by `numbers`.
    pub fn regroup(&mut self, numbers: &[usize]) {
        self.shares.regroup(numbers);
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

/// Where a share lies with 95 % probability that was found in this many samples: Wilson's interval for a
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

    const SLICE: Duration = Duration::from_millis(10);

    #[test]
    fn the_interval_is_wilsons() {
        // By hand: of 15 in 50, 0.3143 +- 0.1232; of 0 in 10, up to z^2 / (10 + z^2).
        let (low, high) = interval(0.3, 50.0);
        assert!((low - 0.1911).abs() < 2e-4 && (high - 0.4375).abs() < 2e-4, "{low} {high}");
        let (low, high) = interval(0.0, 10.0);
        assert!(low == 0.0 && (high - 0.2775).abs() < 1e-4, "{high}");
        assert_eq!(interval(0.0, 0.0), (0.0, 1.0));
    }

    fn after(slices: u32) -> Mono {
        Mono(SLICE * slices)
    }

    /// Samples of two stacks and of others in a slice, this many of each.
    fn seen(shares: &mut SampledShares, slice: u32, counts: [u32; 3]) {
        let stacks = [Some(1), Some(2), None];
        for (stack, count) in stacks.into_iter().zip(counts) {
            let at = after(slice) + SLICE / 2;
            (0..count).for_each(|_| shares.take(Busy { at, stack }));
        }
    }

    #[test]
    fn a_command_that_is_seldom_seen_still_gets_what_it_used() {
        let mut shares = SampledShares::new(Watts(10.0));
        // Of twenty readings of 10 ms at 12 W one finds it: 0.4 J above the idle 2 J are all its own.
        for slice in 0..20 {
            seen(&mut shares, slice, [u32::from(slice == 13), 0, 0]);
            shares.share(Joules(0.12), SLICE, after(slice + 1));
        }
        let found = shares.shares().nodes()[1].get();
        assert!((found - 0.02 * 14.0).abs() < 1e-9, "{found}: six readings are kept");
        shares.skip_to(after(20));
        let (idle, all) = (shares.shares().idle().get(), shares.shares().shared().get());
        assert!((idle - 2.0).abs() < 1e-9 && (all - 2.4).abs() < 1e-9, "{idle} {all}");
    }

    #[test]
    fn a_sample_counts_for_the_reading_it_was_taken_before() {
        let mut shares = SampledShares::new(Watts::ZERO);
        // Both were read when the first reading came; the second was taken behind it.
        seen(&mut shares, 0, [1, 0, 0]);
        seen(&mut shares, 1, [0, 1, 0]);
        shares.share(Joules(3.0), SLICE, after(1));
        shares.share(Joules(5.0), SLICE, after(2));
        assert_eq!(shares.shares().nodes()[1..], [Joules(3.0), Joules(5.0)]);
        // Nothing is known of a gap.
        seen(&mut shares, 2, [1, 0, 0]);
        shares.skip_to(after(3));
        seen(&mut shares, 3, [0, 1, 1]);
        shares.share(Joules(2.0), SLICE, after(4));
        assert_eq!(shares.shares().nodes()[1..], [Joules(3.0), Joules(6.0)]);
        assert_eq!(shares.shares().others(), Joules(1.0));
    }

    #[test]
    fn what_a_dear_time_tells_counts_for_more_and_is_less_sure() {
        let mut shares = SampledShares::new(Watts::ZERO);
        seen(&mut shares, 0, [50, 50, 0]);
        shares.share(Joules(1.0), SLICE, after(1));
        assert!((shares.weight() - 100.0).abs() < 1e-9);
        // As many samples again, each worth ten times as much: (1 + 10)^2 / (1 / 100 + 100 / 100).
        seen(&mut shares, 1, [50, 50, 0]);
        shares.share(Joules(10.0), SLICE, after(2));
        assert!((shares.weight() - 121.0 / 1.01).abs() < 1e-6, "{}", shares.weight());
    }

    /// Of 1,000 profiles of a stack that truly has 30 % of the energy, by samples whose worth changes,
    /// 95 % hold it: Binomial(1000, 0.95) is below 915 once in 10^6.
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        let holds = (0..1000).filter(|_| {
            let mut shares = SampledShares::new(Watts::ZERO);
            for slice in 0..40 {
                let one = (0..10).filter(|_| rng.random_bool(0.3)).count() as u32;
                seen(&mut shares, slice, [one, 10 - one, 0]);
                shares.share(Joules(rng.random_range(0.1..2.0)), SLICE, after(slice + 1));
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
            slices in prop::collection::vec((0.0..1e3_f64, 1..50_u64, [0..3_u32, 0..3_u32, 0..2_u32]), 1..60),
            idle in 0.0..50.0_f64,
        ) {
            let mut shares = SampledShares::new(Watts(idle));
            let mut saw = 0.0;
            for (slice, (joules, ms, counts)) in (0..).zip(slices) {
                seen(&mut shares, slice, counts);
                shares.share(Joules(joules), Duration::from_millis(ms), after(slice + 1));
                saw += joules;
            }
            shares.skip_to(Mono::NEVER);
            let shared = shares.shares();
            let nodes: f64 = shared.nodes().iter().map(|joules| joules.get()).sum();
            let parts = nodes + shared.others().get() + shared.idle().get();
            prop_assert!((parts - saw).abs() <= 1e-9 * saw.max(1.0), "{parts} of {saw}");
        }

        #[test]
        fn an_interval_holds_its_share(share in 0.0..=1.0_f64, samples in 0.0..1e6_f64) {
            let (low, high) = interval(share, samples);
            prop_assert!((0.0..=share).contains(&low) && (share..=1.0).contains(&high));
        }
    }
}
