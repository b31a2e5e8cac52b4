//! Table 4.1 of Singh 2014 as one affine law: the energy of a byte is that of packing it, and what is left of it times
//! power over rate.

use super::arm::{Arm, Codec};
use super::bill::{Bill, Work};
use super::policy::{BlockKind, sample_bytes};
use super::trace::{Figures, Trace, TraceBlock};

/// What the law says of a codec.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Term {
    /// Which.
    pub codec: Codec,
    /// Energy to pack, J/MB.
    pub packing: f64,
    /// Bytes that are left of one.
    pub ratio: f64,
}

/// The law, in the order of the table's columns.
pub const LAW: [Term; 4] = [
    Term { codec: Codec::Xz, packing: 91.45, ratio: 0.031 },
    Term { codec: Codec::Bzip2, packing: 25.98, ratio: 0.210 },
    Term { codec: Codec::Gzip, packing: 9.07, ratio: 0.290 },
    Term { codec: Codec::None, packing: 0.0, ratio: 1.0 },
];

/// Length of the published blocks.
pub const BLOCK: u32 = 16 << 10;

impl Term {
    /// Energy of a megabyte at a rate in bytes per second, J.
    pub fn joules(&self, rate: f64) -> f64 {
        let bytes = self.ratio * 1e6;
        let compute = self.seconds_per_byte() * 1e6;
        Bill::PUBLISHED.of(&Work { compute, wire: bytes / rate, bytes, receiver: 0.0 })
    }

    /// The rate at which it costs the same as another, bytes per second. Below it, the one that packs better is cheaper.
    pub fn crossover(&self, other: &Self) -> f64 {
        let power = Bill::PUBLISHED.prices.base.get();
        power * 1e6 * (self.ratio - other.ratio) / (other.packing - self.packing)
    }

    /// The law charges computing at the power of the whole machine.
    fn seconds_per_byte(&self) -> f64 {
        self.packing / Bill::PUBLISHED.prices.base.get() / 1e6
    }

    fn figures(&self, bytes: u32, does_pack: bool) -> Figures {
        let length = f64::from(bytes);
        let ratio = if does_pack { self.ratio } else { 1.0 };
        Figures {
            seconds: self.seconds_per_byte() * length,
            packed: (ratio * length).round() as u32,
        }
    }
}

/// A published block over a link of this rate: of their text, or of something that cannot be packed.
pub fn block(rate: f64, does_pack: bool) -> TraceBlock {
    let arms = Arm::published();
    let terms = arms.iter().filter_map(|arm| LAW.iter().find(|term| term.codec == arm.codec));
    let of = |bytes| terms.clone().map(|term| term.figures(bytes, does_pack)).collect();
    TraceBlock {
        bytes: BLOCK,
        kind: BlockKind::Text,
        rate,
        whole: of(BLOCK),
        sample: of(sample_bytes(BLOCK)),
        unpack: vec![0.0; arms.len()],
    }
}

/// A trace of such blocks.
pub fn trace(blocks: Vec<TraceBlock>) -> Trace {
    Trace { arms: Arm::published(), source: "Singh 2014, table 4.1".to_owned(), blocks }
}
