//! Made-up content: what the arms cost and yield for a block of a kind.

use super::super::arm::Arm;
use super::super::bill::{Bill, Objective, Overlap, Prices};
use super::super::compress::{Compress, Settings};
use super::super::policy::{BlockKind, sample_bytes};
use super::super::replay::{Replay, Replayed};
use super::super::rivals::Oracle;
use super::super::trace::{Figures, Trace, TraceBlock};
use nightwatt_energy::quantity::Watts;

/// Content that the canary packs to this ratio. `twist` makes arms differ from what is assumed of them.
#[derive(Debug, Clone, Copy)]
pub(in crate::pure) struct Content {
    pub(in crate::pure) ratio: f64,
    pub(in crate::pure) twist: f64,
}

pub(in crate::pure) const TEXT: Content = Content { ratio: 0.38, twist: 0.1 };
pub(in crate::pure) const PACKED: Content = Content { ratio: 1.0, twist: 0.1 };

/// A board of a few watts that packs at the speed that is assumed, twisted.
pub(in crate::pure) fn block(arms: &[Arm], content: Content, bytes: u32, rate: f64) -> TraceBlock {
    let figures = |length: u32| {
        let of = |(place, arm): (usize, &Arm)| {
            if place == 0 {
                return Figures { seconds: 0.0, packed: length };
            }
            let prior = arm.prior();
            // Up and down by place, so that neighbours differ.
            let sign = if place % 2 == 0 { 1.0 } else { -1.0 };
            let seconds = f64::from(length)
                * prior.nanos_per_byte
                * 1e-9
                * 2.0
                * (1.0 + sign * content.twist);
            let ratio = content.ratio.powf(prior.exponent * (1.0 + sign * content.twist / 2.0));
            Figures { seconds, packed: (ratio * f64::from(length)) as u32 }
        };
        arms.iter().enumerate().map(of).collect::<Vec<_>>()
    };
    let unpack =
        arms.iter().map(|arm| f64::from(bytes) * arm.prior().unpack_nanos * 1e-9).collect();
    TraceBlock {
        bytes,
        kind: BlockKind::default(),
        rate,
        whole: figures(bytes),
        sample: figures(sample_bytes(bytes)),
        unpack,
    }
}

pub(in crate::pure) fn trace(blocks: Vec<TraceBlock>) -> Trace {
    Trace { arms: Arm::usual(), source: "made up".to_owned(), blocks }
}

/// A small server: 20 W idle, 8 W for a busy core.
pub(in crate::pure) fn small_server() -> Bill {
    let prices = Prices {
        base: Watts(20.0),
        cpu: Watts(8.0),
        nic: Watts(0.3),
        nic_byte: 2e-9,
        receiver: Watts(0.0),
    };
    Bill { objective: Objective::Whole, overlap: Overlap::Pipelined, prices }
}

pub(in crate::pure) fn ours(trace: &Trace, bill: Bill, window: usize) -> (Replayed, Compress) {
    let mut policy = Compress::new(Settings::new(trace.arms.clone(), bill));
    let replayed = Replay { bill, window, knows_length: true }.run(trace, &mut policy);
    (replayed, policy)
}

pub(in crate::pure) fn oracle(trace: &Trace, bill: Bill) -> Replayed {
    Replay { bill, window: 0, knows_length: true }.run(trace, &mut Oracle::of(trace, &bill))
}

/// The bill of the blocks from this one on, ours over the oracle's.
pub(in crate::pure) fn ratio_from(ours: &Replayed, oracle: &Replayed, from: usize) -> f64 {
    let sum = |it: &Replayed| it.blocks[from..].iter().map(|block| block.bill).sum::<f64>();
    sum(ours) / sum(oracle)
}
