//! What each arm costs and yields, and the link: learnt while blocks are sent.
//!
//! An arm's ratio is learnt as its distance from a power of the canary's ratio on the same block, and its speed as its
//! distance from the canary's: so what the canary sees of a block counts for all arms, also for those that were not
//! used for a while. Both are learnt by class of content.

use serde::{Deserialize, Serialize};

use super::arm::{Arm, Prior};
use super::policy::{Acknowledged, BlockKind, Extent, Outcome};

/// A mean in which what is old counts less.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Decayed {
    mean: f64,
    weight: f64,
}

impl Decayed {
    /// Takes in a value. After it, the mean weighs at most `most`.
    pub fn add(&mut self, value: f64, weight: f64, most: f64) {
        if !value.is_finite() || !weight.is_finite() || weight <= 0.0 {
            return;
        }
        let sum = self.weight + weight;
        self.mean += (value - self.mean) * weight / sum;
        self.weight = sum.min(most);
    }

    /// Makes what was learnt count less.
    pub fn fade(&mut self, factor: f64) {
        self.weight *= factor;
    }

    /// The mean, drawn to `prior`, which weighs `weight`.
    pub fn or(&self, prior: f64, weight: f64) -> f64 {
        (self.mean * self.weight + prior * weight) / (self.weight + weight)
    }

    /// What the mean weighs.
    pub fn weight(&self) -> f64 {
        self.weight
    }
}

/// Finds out that a mean has moved: the sums of what lies above it, and below it, beyond a slack (Page 1954).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cusum {
    above: f64,
    below: f64,
}

impl Cusum {
    /// Takes in a distance from the mean. True if one of the sums passed `limit`; both are 0 then.
    pub fn add(&mut self, distance: f64, slack: f64, limit: f64) -> bool {
        if !distance.is_finite() {
            return false;
        }
        self.above = (self.above + distance - slack).max(0.0);
        self.below = (self.below - distance - slack).max(0.0);
        let has_moved = self.above > limit || self.below > limit;
        if has_moved {
            *self = Self::default();
        }
        has_moved
    }
}

/// The link: seconds for each byte that the receiver has.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Link {
    /// Logarithm of seconds per byte.
    cost: Decayed,
    moved: Cusum,
}

/// A time on the link that nothing but the link explains, s.
const LONG: f64 = 0.5;
/// What took less counts as at most this far from the estimate (logarithm of the rate).
const MOST_STEP: f64 = 0.5;
/// Assumed of a link of which nothing is known yet, bytes per second.
const UNKNOWN_RATE: f64 = 1e7;

impl Link {
    /// Takes in what was acknowledged.
    pub fn learn(&mut self, acknowledged: &Acknowledged) {
        let cost = (acknowledged.seconds / acknowledged.bytes).ln();
        if !cost.is_finite() {
            return;
        }
        if !self.is_known() {
            self.cost.add(cost, 1.0, 4.0);
            return;
        }
        // A thread that ran late explains a short time, not a long one: it takes two short ones to move the estimate far.
        let most = if acknowledged.seconds < LONG { MOST_STEP } else { f64::INFINITY };
        let distance = (cost - self.cost.mean).clamp(-most, most);
        if self.moved.add(distance, 0.1, 0.7) {
            self.cost = Decayed::default();
            self.cost.add(cost, 1.0, 4.0);
        } else {
            self.cost.add(self.cost.mean + distance, 1.0, 4.0);
        }
    }

    /// Seconds for a byte.
    pub fn seconds_per_byte(&self) -> f64 {
        if self.is_known() { self.cost.mean.exp() } else { 1.0 / UNKNOWN_RATE }
    }

    /// Whether anything was acknowledged.
    pub fn is_known(&self) -> bool {
        self.cost.weight() > 0.0
    }
}

/// Bounds of the canary's ratio between classes of content.
const BANDS: [f64; 7] = [0.1, 0.2, 0.32, 0.45, 0.62, 0.8, 0.96];
/// Places of a kind: bands, for samples and for whole blocks.
const PLACES: usize = 2 * (BANDS.len() + 1);
/// Classes of content.
const CLASSES: usize = BlockKind::COUNT * PLACES;
/// The weight of what is assumed against one block.
const PRIOR: f64 = 0.3;
/// The same against blocks of other classes, from which little follows.
const OTHER_CLASSES: f64 = 2.0;
/// A block counts as at most this far from what was assumed (logarithm of the ratio) where it is not of the same class.
const MOST_ELSEWHERE: f64 = 0.7;
/// A mean remembers about this many blocks.
const MEMORY: f64 = 8.0;
/// A sample tells this much of a whole block.
const OF_A_SAMPLE: f64 = 0.25;
/// A sample may be packed more slowly than a block by this factor (its logarithm) without being a sign of a slow arm.
const SLOWER_SAMPLE: f64 = std::f64::consts::LN_2;
/// So much doubt does a sample take away, measured in blocks.
const SURE_BY_SAMPLE: f64 = 0.1;
/// What was learnt fades by this factor with each block of the same class.
const FADE: f64 = 0.995;
/// Of a block twice as long as the sample, this much more is saved (logarithm of the ratio), if it packs at all: of what
/// the canary packs to a 1/e, or less.
const BY_LENGTH: f64 = 0.06;

/// What the canary saw of a block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sight {
    place: usize,
    kind: BlockKind,
    /// Logarithm of the canary's ratio.
    ratio: f64,
}

impl Sight {
    fn class(&self) -> usize {
        self.kind as usize * PLACES + self.place
    }

    /// How well it packs: the logarithm of the canary's ratio, 0 or less.
    pub fn ratio(&self) -> f64 {
        self.ratio
    }

    /// The same of a block of this kind.
    #[must_use]
    pub fn of_kind(self, kind: BlockKind) -> Self {
        Self { kind, ..self }
    }
}

/// What an arm is expected to cost and yield.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// CPU time for a byte of the block, s.
    pub seconds_per_byte: f64,
    /// Bytes on the wire for a byte of the block, 1 at most.
    pub ratio: f64,
    /// How uncertain both are: 1 if the arm was never seen with such content, towards 0 the more often it was.
    pub doubt: f64,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Learnt {
    speed: Decayed,
    whole: Decayed,
    sample: Decayed,
}

/// One arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ArmEstimate {
    overall: Learnt,
    by_class: Vec<Learnt>,
}

/// All arms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimates {
    arms: Vec<Arm>,
    canary: usize,
    learnt: Vec<ArmEstimate>,
    /// Logarithm of how much slower than assumed the canary is, by class.
    slower: Vec<Decayed>,
    slower_overall: Decayed,
}

impl Estimates {
    /// Nothing is known yet. The first arm sends blocks as they are; the canary is zstd-1, or else the arm assumed to be the cheapest.
    pub fn new(arms: &[Arm]) -> Self {
        let cost = |place: &usize| arms[*place].prior().nanos_per_byte;
        let cheapest = (1..arms.len()).min_by(|one, other| cost(one).total_cmp(&cost(other)));
        let canary = arms.iter().position(|arm| *arm == Arm::CANARY).or(cheapest).unwrap_or(0);
        let blank =
            ArmEstimate { overall: Learnt::default(), by_class: vec![Learnt::default(); CLASSES] };
        Self {
            arms: arms.to_vec(),
            canary,
            learnt: vec![blank; arms.len()],
            slower: vec![Decayed::default(); CLASSES],
            slower_overall: Decayed::default(),
        }
    }

    /// The arms, none first.
    pub fn arms(&self) -> &[Arm] {
        &self.arms
    }

    /// Whether the arm's speed was ever measured.
    pub fn is_measured(&self, arm: usize) -> bool {
        self.learnt[arm].overall.speed.weight() > 0.0
    }

    /// The place of the arm that classifies blocks.
    pub fn canary(&self) -> usize {
        self.canary
    }

    /// What the canary's outcome shows of the block. What was learnt of its class fades a little.
    pub fn see(&mut self, outcome: &Outcome, kind: BlockKind) -> Sight {
        let ratio = ratio_of(outcome);
        let band = BANDS.iter().filter(|bound| ratio >= **bound).count();
        let offset = if outcome.extent == Extent::Whole { BANDS.len() + 1 } else { 0 };
        let sight = Sight { place: band + offset, kind, ratio: ratio.ln() };
        let assumed = self.arms[self.canary].prior().nanos_per_byte * 1e-9;
        let slower = (outcome.seconds / f64::from(outcome.bytes.max(1)) / assumed).ln();
        self.slower[sight.class()].add(slower, 1.0, MEMORY);
        self.slower_overall.add(slower, 1.0, MEMORY);
        for arm in &mut self.learnt {
            let learnt = &mut arm.by_class[sight.class()];
            learnt.whole.fade(FADE);
            learnt.sample.fade(FADE);
        }
        sight
    }

    /// Takes in what came of an arm.
    pub fn learn(&mut self, sight: &Sight, outcome: &Outcome) {
        if outcome.arm == 0 || outcome.bytes == 0 {
            return;
        }
        let distance = ratio_of(outcome).ln() - self.assumed_ratio(outcome.arm, sight);
        let speed = (outcome.seconds / f64::from(outcome.bytes)).ln()
            - self.assumed_speed(outcome.arm, sight);
        let is_whole = outcome.extent == Extent::Whole;
        let weight = if is_whole { 1.0 } else { OF_A_SAMPLE };
        // A sample that is not like its block at all shows nothing of blocks of other classes.
        let elsewhere = distance.clamp(-MOST_ELSEWHERE, MOST_ELSEWHERE);
        let arm = &mut self.learnt[outcome.arm];
        let places = [(&mut arm.overall, elsewhere), (&mut arm.by_class[sight.class()], distance)];
        for (learnt, distance) in places {
            // It costs time to begin, so a sample is packed more slowly than a block. It counts only until a block was
            // packed, and only as far as it is slower than that explains.
            if is_whole && learnt.whole.weight() == 0.0 {
                learnt.speed = Decayed::default();
            }
            if is_whole {
                learnt.speed.add(speed, 1.0, MEMORY);
            } else if learnt.whole.weight() == 0.0 {
                let beyond = if speed > 0.0 { (speed - SLOWER_SAMPLE).max(0.0) } else { speed };
                learnt.speed.add(beyond, 1.0, MEMORY);
            }
            let of_extent = if is_whole { &mut learnt.whole } else { &mut learnt.sample };
            of_extent.add(distance, weight, MEMORY);
        }
    }

    /// What the arm is expected to cost and yield for a block in which the canary saw this, and which is longer than
    /// its sample by a factor whose logarithm to 2 is `doublings`.
    pub fn expect(&self, arm: usize, sight: &Sight, doublings: f64) -> Expected {
        if arm == 0 {
            return Expected { seconds_per_byte: 0.0, ratio: 1.0, doubt: 0.0 };
        }
        let ArmEstimate { overall, by_class } = &self.learnt[arm];
        let learnt = &by_class[sight.class()];
        let assumed = -BY_LENGTH * doublings * (-sight.ratio).clamp(0.0, 1.0);
        let from_samples =
            |sample: &Decayed, otherwise: f64| sample.or(otherwise - assumed, PRIOR) + assumed;
        let in_general = overall.whole.or(from_samples(&overall.sample, assumed), OTHER_CLASSES);
        let from_samples = from_samples(&learnt.sample, in_general);
        let distance = learnt.whole.or(from_samples, PRIOR);
        let speed = learnt.speed.or(overall.speed.or(0.0, PRIOR), PRIOR);
        // However often a sample was packed, it may not be like its block.
        let sampled = SURE_BY_SAMPLE * learnt.sample.weight().min(1.0);
        let seen = learnt.whole.weight() + sampled + 0.1 * overall.whole.weight();
        let seconds_per_byte = (speed + self.assumed_speed(arm, sight)).exp();
        let ratio = (distance + self.assumed_ratio(arm, sight)).exp().min(1.0);
        Expected { seconds_per_byte, ratio, doubt: 1.0 / (1.0 + 4.0 * seen) }
    }

    fn prior(&self, arm: usize) -> Prior {
        self.arms[arm].prior()
    }

    fn assumed_ratio(&self, arm: usize, sight: &Sight) -> f64 {
        sight.ratio * self.prior(arm).exponent / self.prior(self.canary).exponent.max(0.1)
    }

    fn assumed_speed(&self, arm: usize, sight: &Sight) -> f64 {
        let slower = self.slower[sight.class()].or(self.slower_overall.or(0.0, PRIOR), PRIOR);
        (self.prior(arm).nanos_per_byte.max(0.01) * 1e-9).ln() + slower
    }
}

/// Bytes after packing for one before: what grows is sent as it is.
fn ratio_of(outcome: &Outcome) -> f64 {
    (f64::from(outcome.packed) / f64::from(outcome.bytes.max(1))).clamp(1e-5, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(arm: usize, packed: u32, seconds: f64) -> Outcome {
        Outcome { arm, extent: Extent::Whole, bytes: 1000, packed, seconds }
    }

    #[test]
    fn a_step_of_the_link_is_seen_at_once_if_it_is_long_and_at_the_second_block_if_not() {
        let mut link = Link::default();
        assert!(!link.is_known());
        let mut learn_of = |rate: f64, seconds: f64| {
            link.learn(&Acknowledged { bytes: rate * seconds, seconds });
            1.0 / link.seconds_per_byte()
        };
        let mut learn = |rate: f64| learn_of(rate, 0.01);
        for noise in [1.0, 1.1, 0.9, 1.05, 0.95, 1.1, 0.9] {
            let rate = learn(1e6 * noise);
            assert!((0.9e6..1.1e6).contains(&rate), "{rate}");
        }
        // One short block that was held up moves it by an eighth at most.
        let held_up = learn(1e4);
        assert!((0.85e6..1.1e6).contains(&held_up), "{held_up}");
        for _ in 0..4 {
            learn(1e6);
        }
        learn(1e5);
        assert!((learn(1e5) - 1e5).abs() < 1.0);
        learn(1e6);
        assert!((learn(1e6) - 1e6).abs() < 1.0);
        assert!((learn_of(1e4, 2.0) - 1e4).abs() < 1.0, "two seconds are the link's");
        assert!((learn_of(1e6, 2.0) - 1e6).abs() < 1.0);
        link.learn(&Acknowledged { bytes: 0.0, seconds: 1.0 });
        link.learn(&Acknowledged { bytes: 1.0, seconds: f64::NAN });
        assert!((link.seconds_per_byte() - 1e-6).abs() < 1e-12);
    }

    #[test]
    fn a_sum_finds_a_slow_drift() {
        let mut sum = Cusum::default();
        assert!(!(0..100).any(|_| sum.add(0.05, 0.1, 1.0)));
        assert_eq!((0..100).position(|_| sum.add(0.3, 0.1, 1.0)), Some(5));
        assert_eq!((0..100).position(|_| sum.add(-0.3, 0.1, 1.0)), Some(5));
    }

    #[test]
    fn what_is_learnt_of_a_class_replaces_what_is_assumed() {
        let arms = Arm::usual();
        let mut estimates = Estimates::new(&arms);
        let canary = estimates.canary();
        assert_eq!(arms[canary], Arm::CANARY);
        let xz = arms.len() - 1;
        let sight = estimates.see(&outcome(canary, 400, 4e-6), BlockKind::Text);
        let before = estimates.expect(xz, &sight, 0.0);
        assert!((0.25..0.4).contains(&before.ratio), "{before:?}");
        assert!(before.doubt > 0.9);
        for _ in 0..4 {
            estimates.learn(&sight, &outcome(xz, 200, 1e-3));
        }
        let after = estimates.expect(xz, &sight, 0.0);
        assert!((0.19..0.22).contains(&after.ratio), "{after:?}");
        assert!((0.8e-6..1.05e-6).contains(&after.seconds_per_byte), "{after:?}");
        assert!(after.doubt < 0.1);
        let none = estimates.expect(0, &sight, 6.0);
        assert!((none.ratio - 1.0).abs() < 1e-12 && none.seconds_per_byte == 0.0);
    }

    #[test]
    fn packed_data_is_packed_by_no_arm() {
        let mut estimates = Estimates::new(&Arm::usual());
        let sight = estimates.see(&outcome(estimates.canary(), 1004, 1e-6), BlockKind::Other);
        for arm in 0..estimates.arms().len() {
            let expected = estimates.expect(arm, &sight, 0.0);
            assert!((expected.ratio - 1.0).abs() < 1e-9, "{arm} {expected:?}");
        }
    }
}
