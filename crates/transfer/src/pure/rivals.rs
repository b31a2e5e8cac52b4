//! What the policy is compared with.

use super::arm::{Arm, Codec};
use super::bill::Bill;
use super::policy::{Acknowledged, Block, Extent, Outcome, Policy, Step};
use super::trace::Trace;

/// Always the same arm.
#[derive(Debug, Clone, Copy)]
pub struct Fixed(pub usize);

impl Policy for Fixed {
    fn next(&mut self, _: &Block) -> Step {
        Step::Send(self.0)
    }
    fn tried(&mut self, _: &Outcome) {}
    fn sent(&mut self, _: &Outcome) {}
    fn acknowledged(&mut self, _: &Acknowledged) {}
}

/// The best arm of each block, known beforehand. No policy can do better block by block.
#[derive(Debug, Clone)]
pub struct Oracle(Vec<usize>);

impl Oracle {
    /// For this trace.
    pub fn of(trace: &Trace, bill: &Bill) -> Self {
        Self(trace.blocks.iter().map(|block| block.best(bill)).collect())
    }
}

impl Policy for Oracle {
    fn next(&mut self, block: &Block) -> Step {
        let place = usize::try_from(block.number).ok().and_then(|number| self.0.get(number));
        Step::Send(place.copied().unwrap_or(0))
    }
    fn tried(&mut self, _: &Outcome) {}
    fn sent(&mut self, _: &Outcome) {}
    fn acknowledged(&mut self, _: &Acknowledged) {}
}

/// Codecs in the order in which the published algorithm compares them.
const COMPARED: [Codec; 3] = [Codec::Bzip2, Codec::Gzip, Codec::Xz];

/// The algorithm as published (Singh 2014, figure 4.1), with its faults.
///
/// All energies per byte are 0 at first. The first block is packed by all codecs, but only the sizes are kept from
/// that, so the first block is sent as it is. Later a codec is packed only if it is chosen: what is known of the
/// others is from the last time that they were, and a first block that cannot be packed locks them out.
#[derive(Debug, Clone)]
pub struct Published {
    bill: Bill,
    /// Share of the time on the wire that the sender sees: less than 1 if `send()` returns while its bytes are still
    /// in the buffer of the socket.
    seen: f64,
    /// The arms' places, in the order of [`COMPARED`].
    places: [usize; 3],
    per_byte: [f64; 3],
    /// Joules for each byte on the wire.
    wire: f64,
    last: [f64; 3],
    /// How many codecs have packed the first block.
    packed: usize,
}

impl Published {
    /// Nothing if one of the codecs is not among the arms.
    pub fn new(arms: &[Arm], bill: Bill, seen: f64) -> Option<Self> {
        let place = |codec| arms.iter().position(|arm| arm.codec == codec);
        let [bzip2, gzip, xz] = COMPARED.map(place);
        let places = [bzip2?, gzip?, xz?];
        Some(Self { bill, seen, places, per_byte: [0.0; 3], wire: 0.0, last: [0.0; 3], packed: 0 })
    }

    fn choice(&self, bytes: f64) -> Option<usize> {
        let cost = |codec: usize| self.per_byte[codec] * bytes + self.wire * self.last[codec];
        let [bzip2, gzip, xz] = [cost(0), cost(1), cost(2)];
        let none = self.wire * bytes;
        if bzip2 <= gzip && bzip2 <= xz && bzip2 < none {
            Some(0)
        } else if gzip < bzip2 && gzip <= xz && gzip < none {
            Some(1)
        } else if xz < gzip && xz < bzip2 && xz < none {
            Some(2)
        } else {
            None
        }
    }

    fn codec(&self, arm: usize) -> Option<usize> {
        self.places.iter().position(|place| *place == arm)
    }
}

impl Policy for Published {
    fn next(&mut self, block: &Block) -> Step {
        if let Some(place) = self.places.get(self.packed) {
            return Step::Try(*place, Extent::Whole);
        }
        Step::Send(self.choice(f64::from(block.bytes)).map_or(0, |codec| self.places[codec]))
    }

    fn tried(&mut self, outcome: &Outcome) {
        if let Some(codec) = self.codec(outcome.arm) {
            self.last[codec] = f64::from(outcome.packed);
            self.packed += 1;
        }
    }

    fn sent(&mut self, outcome: &Outcome) {
        if let Some(codec) = self.codec(outcome.arm) {
            self.last[codec] = f64::from(outcome.packed);
            let computed = super::bill::Work { compute: outcome.seconds, ..Default::default() };
            self.per_byte[codec] = self.bill.of(&computed) / f64::from(outcome.bytes.max(1));
        }
    }

    fn acknowledged(&mut self, acknowledged: &Acknowledged) {
        let Acknowledged { bytes, seconds } = *acknowledged;
        let sent = super::bill::Work { wire: seconds * self.seen, bytes, ..Default::default() };
        let wire = self.bill.of(&sent) / bytes;
        if wire.is_finite() {
            self.wire = wire;
        }
    }
}

/// As `zstd --adapt` does it: a level lower where packing is the slower part, and one higher where the link is. It knows
/// no energy, and always packs.
#[derive(Debug, Clone)]
pub struct Adapt {
    /// Places of the arms of zstd, by level.
    places: Vec<usize>,
    at: usize,
    link: super::estimate::Link,
}

impl Adapt {
    /// Nothing if zstd is not among the arms. It starts at level 3, or the next above it.
    pub fn new(arms: &[Arm]) -> Option<Self> {
        let mut places: Vec<usize> =
            (0..arms.len()).filter(|place| arms[*place].codec == Codec::Zstd).collect();
        places.sort_by_key(|place| arms[*place].level);
        let at = places.iter().position(|place| arms[*place].level >= 3);
        let at = at.or(places.len().checked_sub(1))?;
        Some(Self { places, at, link: super::estimate::Link::default() })
    }
}

impl Policy for Adapt {
    fn next(&mut self, _: &Block) -> Step {
        Step::Send(self.places[self.at])
    }

    fn tried(&mut self, _: &Outcome) {}

    fn sent(&mut self, outcome: &Outcome) {
        let wire = f64::from(outcome.packed) * self.link.seconds_per_byte();
        if outcome.seconds > wire {
            self.at = self.at.saturating_sub(1);
        } else if outcome.seconds < 0.8 * wire {
            self.at = (self.at + 1).min(self.places.len() - 1);
        }
    }

    fn acknowledged(&mut self, acknowledged: &Acknowledged) {
        self.link.learn(acknowledged);
    }
}
