//! The policy: the arm with the least expected bill, with bounded trials of the others.

use serde::{Deserialize, Serialize};

use super::arm::Arm;
use super::bill::{Bill, Work};
use super::budget::Budget;
use super::estimate::{Estimates, Expected, Link, Sight};
use super::policy::{Acknowledged, Block, BlockKind, Extent, Outcome, Policy, Step};

/// What can be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The arms, none first.
    pub arms: Vec<Arm>,
    /// What is made small.
    pub bill: Bill,
    /// Share of the bill that trials may cost.
    pub budget: f64,
    /// Share of the bill that the canary may cost.
    pub canary: f64,
    /// An arm is left for one whose bill is lower by more than this share.
    pub hysteresis: f64,
}

impl Settings {
    /// As the design has them.
    pub fn new(arms: Vec<Arm>, bill: Bill) -> Self {
        Self { arms, bill, budget: 0.01, canary: 0.005, hysteresis: 0.02 }
    }
}

/// Blocks that the budget counts before they are sent, if there are that many.
const AHEAD: f64 = 200.0;
/// The same where the end is not known.
const UNKNOWN_AHEAD: f64 = 20.0;
/// Trials of one block, the canary apart.
const TRIALS: usize = 2;
/// An arm that was never tried may turn out quicker by this share.
const HOPED_SPEED: f64 = 0.6;
/// By its own [`surprise`](super::arm::Prior::surprise) it may pack better, and that much of this less beyond it
/// (logarithm of the ratio): where the canary cannot pack the block, and where it packs it to 1/e.
const HOPED_SURPRISE: [f64; 2] = [0.05, 0.3];
/// An arm whose speed was never measured packs a sample first, if that is expected to cost less than this share of the
/// block's bill.
const FIRST_SAMPLE: f64 = 0.02;
/// None is certain, so the hysteresis against it is a part of that between two codecs.
const OF_NONE: f64 = 0.25;
/// The budget must hold this many times the expected cost of a trial with a whole block: slow arms cost more than that,
/// and one of them must not end all other trials.
const MARGIN: f64 = 2.0;
/// The canary takes a whole block if that costs less than this share of its bill.
const WHOLE_CANARY: f64 = 0.003;

/// A block that is being decided.
#[derive(Debug, Clone, Default)]
struct Deciding {
    number: Option<u64>,
    kind: BlockKind,
    sight: Option<Sight>,
    trials: usize,
    /// Arms that packed the whole block, with the bytes that came of it.
    packed: Vec<(usize, f64)>,
    sampled: Vec<usize>,
    /// What would be done without the trial that is under way.
    reference: Work,
    /// The arm is sent as a trial, with what the best was expected to cost.
    instead_of: Option<f64>,
}

/// Counts of what the policy did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Samples and whole blocks packed by the canary.
    pub canaries: u64,
    /// Trials of other arms.
    pub trials: u64,
}

/// The policy.
#[derive(Debug, Clone)]
pub struct Compress {
    settings: Settings,
    estimates: Estimates,
    link: Link,
    /// Decompression: s per byte, by arm.
    unpack: Vec<f64>,
    budget: Budget,
    canary_budget: Budget,
    last_sight: Option<Sight>,
    /// The arm that was chosen last.
    incumbent: Option<usize>,
    deciding: Deciding,
    counts: Counts,
}

impl Compress {
    /// With nothing learnt yet. If the list does not begin with none, none is put before it.
    pub fn new(mut settings: Settings) -> Self {
        settings.arms.retain(|arm| *arm != Arm::NONE);
        settings.arms.insert(0, Arm::NONE);
        let estimates = Estimates::new(&settings.arms);
        let unpack = settings.arms.iter().map(|arm| arm.prior().unpack_nanos * 1e-9).collect();
        Self {
            budget: Budget::new(settings.budget),
            canary_budget: Budget::new(settings.canary),
            settings,
            estimates,
            link: Link::default(),
            unpack,
            last_sight: None,
            incumbent: None,
            deciding: Deciding::default(),
            counts: Counts::default(),
        }
    }

    /// The arms by place, none first.
    pub fn arms(&self) -> &[Arm] {
        &self.settings.arms
    }

    /// What trials may cost, and did.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What the canary may cost, and did.
    pub fn canary_budget(&self) -> &Budget {
        &self.canary_budget
    }

    /// What it did.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What is known of the link.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The receiver took this much CPU time to unpack this many bytes.
    pub fn unpacked(&mut self, arm: usize, bytes: f64, seconds: f64) {
        let cost = seconds / bytes;
        if let Some(known) = self.unpack.get_mut(arm).filter(|_| cost.is_finite() && cost >= 0.0) {
            *known += (cost - *known) * 0.25;
        }
    }

    fn begin(&mut self, block: &Block) {
        if self.deciding.number != Some(block.number) {
            self.deciding =
                Deciding { number: Some(block.number), kind: block.kind, ..Deciding::default() };
        }
    }

    fn work(&self, arm: usize, block: &Block, expected: &Expected) -> Work {
        let length = f64::from(block.bytes);
        let packed = self.deciding.packed.iter().find(|(packed, _)| *packed == arm);
        let bytes = packed.map_or(length * expected.ratio, |(_, bytes)| *bytes);
        Work {
            compute: if packed.is_some() { 0.0 } else { length * expected.seconds_per_byte },
            wire: bytes * self.link.seconds_per_byte(),
            bytes,
            receiver: length * self.unpack[arm],
        }
    }

    /// How the canary looks at the block; none if it would cost too much, or there is only one arm.
    fn canary_extent(&mut self, block: &Block) -> Option<Extent> {
        let canary = self.estimates.canary();
        if canary == 0 {
            return None;
        }
        let Some(sight) = self.last_sight else { return Some(Extent::Sample) };
        let sight = sight.of_kind(block.kind);
        let seconds = self.estimates.expect(canary, &sight, 0.0).seconds_per_byte;
        let best = self.best(block, &sight).work;
        self.deciding.reference = best;
        let cost = |bytes: u32| self.settings.bill.more(&best, f64::from(bytes) * seconds);
        let bill = self.settings.bill.of(&best);
        if self.link.is_known() && cost(block.bytes) <= WHOLE_CANARY * bill {
            return Some(Extent::Whole);
        }
        let sample = cost(block.sample);
        self.canary_budget.expect(bill);
        self.canary_budget.permits(sample).then_some(Extent::Sample)
    }

    /// The place and the work of the arm with the least bill. Within the hysteresis the incumbent stays.
    fn best(&self, block: &Block, sight: &Sight) -> Choice {
        let doublings = doublings(block);
        let work =
            |arm: usize| self.work(arm, block, &self.estimates.expect(arm, sight, doublings));
        let bill = |work: &Work| self.settings.bill.of(work);
        let all = (0..self.settings.arms.len()).map(|arm| Choice { arm, work: work(arm) });
        let best = all.min_by(|one, other| bill(&one.work).total_cmp(&bill(&other.work)));
        let Some(best) = best else { return Choice::default() };
        if let Some(incumbent) = self.incumbent {
            let stays = work(incumbent);
            let part = if best.arm == 0 { OF_NONE } else { 1.0 };
            if bill(&stays) <= bill(&best.work) * (1.0 + self.settings.hysteresis * part) {
                return Choice { arm: incumbent, work: stays };
            }
        }
        best
    }

    /// An arm that is worth a trial: how, and what that costs more than sending the best.
    fn trial(&self, block: &Block, sight: &Sight, best: &Choice) -> Option<Trial> {
        let bill = self.settings.bill;
        let least = bill.of(&best.work);
        let candidates = (1..self.settings.arms.len()).filter(|arm| *arm != best.arm);
        let trials = candidates.filter_map(|arm| {
            let expected = self.estimates.expect(arm, sight, doublings(block));
            let doubt = expected.doubt;
            let [never, often] = HOPED_SURPRISE;
            let beyond = never + (often - never) * (-sight.ratio()).clamp(0.0, 1.0);
            let surprise = self.settings.arms[arm].prior().surprise;
            let ratio = expected.ratio.ln() * (1.0 + surprise * doubt) - beyond * surprise * doubt;
            let hoped = Expected {
                seconds_per_byte: expected.seconds_per_byte * (1.0 - HOPED_SPEED * doubt),
                ratio: ratio.exp(),
                doubt: 0.0,
            };
            let gain = least - bill.of(&self.work(arm, block, &hoped));
            if gain <= least * self.settings.hysteresis || expected.doubt < 0.05 {
                return None;
            }
            let instead = (bill.of(&self.work(arm, block, &expected)) - least).max(0.0);
            let seconds = expected.seconds_per_byte * f64::from(block.sample);
            let sampled = bill.more(&best.work, seconds);
            let is_sampled = self.deciding.sampled.contains(&arm);
            // A whole block shows more than a sample, and costs far more if the arm turns out to be slow: where a sample
            // costs nearly nothing, it comes first.
            let is_unknown = !self.estimates.is_measured(arm) && !is_sampled;
            let comes_first = is_unknown && sampled <= FIRST_SAMPLE * least;
            let whole = instead * MARGIN;
            let is_cheap = instead <= sampled * 4.0 || self.budget.permits(whole);
            let (extent, cost) = if !comes_first && (is_sampled || is_cheap) {
                (Extent::Whole, whole)
            } else {
                (Extent::Sample, sampled)
            };
            let worth = gain - if extent == Extent::Whole { instead } else { sampled };
            self.budget.permits(cost).then_some(Trial { arm, extent, worth })
        });
        trials.max_by(|one, other| one.worth.total_cmp(&other.worth))
    }

    fn look_ahead(&mut self, block: &Block, bill: f64) {
        let known = block.ahead.map(|ahead| 1.0 + ahead as f64 / f64::from(block.bytes.max(1)));
        self.budget.expect(bill * known.unwrap_or(UNKNOWN_AHEAD).min(AHEAD));
    }
}

/// The logarithm to 2 of a block's length over that of its sample.
fn doublings(block: &Block) -> f64 {
    (f64::from(block.bytes.max(1)) / f64::from(block.sample.max(1))).log2().max(0.0)
}

/// An arm, and the work that is expected of it.
#[derive(Debug, Clone, Copy, Default)]
struct Choice {
    arm: usize,
    work: Work,
}

#[derive(Debug, Clone, Copy)]
struct Trial {
    arm: usize,
    extent: Extent,
    /// What it may gain for the block, less what it is expected to cost.
    worth: f64,
}

impl Policy for Compress {
    fn next(&mut self, block: &Block) -> Step {
        self.begin(block);
        let is_first = self.deciding.trials == 0 && self.deciding.sight.is_none();
        if is_first && let Some(extent) = self.canary_extent(block) {
            self.deciding.trials = 1;
            return Step::Try(self.estimates.canary(), extent);
        }
        // The canary was too dear: the block is taken for one like the last.
        let Some(sight) = self.deciding.sight.or(self.last_sight) else { return Step::Send(0) };
        let sight = sight.of_kind(block.kind);
        let best = self.best(block, &sight);
        let bill = self.settings.bill.of(&best.work);
        self.look_ahead(block, bill);
        if self.link.is_known()
            && self.deciding.trials <= TRIALS
            && let Some(trial) = self.trial(block, &sight, &best)
        {
            self.deciding.trials += 1;
            self.counts.trials += 1;
            if trial.extent == Extent::Sample {
                self.deciding.sampled.push(trial.arm);
                self.deciding.reference = best.work;
                return Step::Try(trial.arm, Extent::Sample);
            }
            self.deciding.instead_of = Some(bill);
            return Step::Send(trial.arm);
        }
        self.incumbent = Some(best.arm);
        Step::Send(best.arm)
    }

    fn tried(&mut self, outcome: &Outcome) {
        if outcome.arm >= self.settings.arms.len() {
            return;
        }
        let cost = self.settings.bill.more(&self.deciding.reference, outcome.seconds.max(0.0));
        if outcome.extent == Extent::Whole {
            self.deciding.packed.push((outcome.arm, f64::from(outcome.packed.min(outcome.bytes))));
        }
        if outcome.arm == self.estimates.canary() && self.deciding.sight.is_none() {
            self.counts.canaries += 1;
            self.canary_budget.charge(cost);
            let sight = self.estimates.see(outcome, self.deciding.kind);
            self.deciding.sight = Some(sight);
            self.last_sight = Some(sight);
        } else {
            self.budget.charge(cost);
        }
        if let Some(sight) = self.last_sight.map(|sight| sight.of_kind(self.deciding.kind)) {
            self.estimates.learn(&sight, outcome);
        }
    }

    fn sent(&mut self, outcome: &Outcome) {
        if outcome.arm >= self.settings.arms.len() {
            return;
        }
        let bytes = f64::from(outcome.packed.min(outcome.bytes));
        let work = Work {
            compute: outcome.seconds.max(0.0),
            wire: bytes * self.link.seconds_per_byte(),
            bytes,
            receiver: f64::from(outcome.bytes) * self.unpack[outcome.arm],
        };
        let bill = self.settings.bill.of(&work);
        self.budget.earn(bill);
        self.budget.expect(0.0);
        self.canary_budget.earn(bill);
        self.canary_budget.expect(0.0);
        if let Some(instead_of) = self.deciding.instead_of {
            self.budget.charge(bill - instead_of);
        }
        let was_tried = self.deciding.packed.iter().any(|(arm, _)| *arm == outcome.arm);
        let sight = self.deciding.sight.or(self.last_sight).filter(|_| !was_tried);
        if let Some(sight) = sight.map(|sight| sight.of_kind(self.deciding.kind)) {
            self.estimates.learn(&sight, outcome);
        }
        self.deciding = Deciding::default();
    }

    fn acknowledged(&mut self, acknowledged: &Acknowledged) {
        self.link.learn(acknowledged);
    }
}
