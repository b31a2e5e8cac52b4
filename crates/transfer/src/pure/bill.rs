//! What a block costs.

use nightwatt_energy::quantity::Watts;
use serde::{Deserialize, Serialize};

/// What the bill is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// The whole machine, idle power included: right where it sleeps afterwards.
    Whole,
    /// What the machine draws above idle: right where it stays on.
    Dynamic,
    /// The network card alone.
    Nic,
    /// Seconds.
    Time,
}

impl Objective {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Whole, Self::Dynamic, Self::Nic, Self::Time];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Dynamic => "dynamic",
            Self::Nic => "nic",
            Self::Time => "time",
        }
    }
}

/// Whether a block is packed while the one before it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// First packed, then sent, as published.
    Serial,
    /// Both at once: the slower of the two counts.
    Pipelined,
}

/// What the parts of the machine draw.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// The machine, idle.
    pub base: Watts,
    /// One busy core, above idle.
    pub cpu: Watts,
    /// The network card while it sends, above idle.
    pub nic: Watts,
    /// The network card, for each byte: J.
    pub nic_byte: f64,
    /// One busy core of the receiver, above idle.
    pub receiver: Watts,
}

impl Prices {
    /// The machine of Singh 2014, table 4.1: one figure, 33.95 W, for packing and for sending alike.
    pub const PUBLISHED: Self = Self {
        base: Watts(33.95),
        cpu: Watts(0.0),
        nic: Watts(0.0),
        nic_byte: 0.0,
        receiver: Watts(0.0),
    };
}

/// What was, or would be, done for a block.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Work {
    /// CPU time at the sender, s.
    pub compute: f64,
    /// Time on the wire, s.
    pub wire: f64,
    /// Bytes on the wire.
    pub bytes: f64,
    /// CPU time at the receiver, s.
    pub receiver: f64,
}

impl Work {
    /// The same with this much more computing at the sender.
    #[must_use]
    pub(crate) fn and_compute(self, seconds: f64) -> Self {
        Self { compute: self.compute + seconds, ..self }
    }
}

/// Adds the work for a block up to one figure: joules, or seconds where the objective is time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bill {
    /// Of what.
    pub objective: Objective,
    /// At once, or one after the other.
    pub overlap: Overlap,
    /// Watts.
    pub prices: Prices,
}

/// What a second of computing counts where it costs nothing: of two arms that are equal otherwise, the quicker one is
/// chosen.
const LEAST: f64 = 1e-6;

impl Bill {
    /// As published: the whole machine, one thing after the other.
    pub const PUBLISHED: Self =
        Self { objective: Objective::Whole, overlap: Overlap::Serial, prices: Prices::PUBLISHED };

    /// The figure for this work. It never falls if any part of the work grows.
    pub fn of(&self, work: &Work) -> f64 {
        let Prices { base, cpu, nic, nic_byte, receiver } = self.prices;
        let seconds = match self.overlap {
            Overlap::Serial => work.compute + work.wire,
            Overlap::Pipelined => work.compute.max(work.wire),
        };
        let card = nic.get() * work.wire + nic_byte * work.bytes;
        let above = cpu.get() * work.compute + card + receiver.get() * work.receiver;
        let bill = match self.objective {
            Objective::Whole => base.get() * seconds + above,
            Objective::Dynamic => above,
            Objective::Nic => card,
            Objective::Time => seconds,
        };
        bill + LEAST * (work.compute + work.wire)
    }

    /// What this much more computing adds to the figure.
    pub fn more(&self, work: &Work, compute: f64) -> f64 {
        self.of(&work.and_compute(compute)) - self.of(work)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bills() -> Vec<Bill> {
        let prices = Prices {
            base: Watts(20.0),
            cpu: Watts(8.0),
            nic: Watts(0.5),
            nic_byte: 1e-8,
            receiver: Watts(6.0),
        };
        let overlaps = [Overlap::Serial, Overlap::Pipelined];
        let pairs = Objective::ALL.map(|objective| overlaps.map(|overlap| (objective, overlap)));
        let of = |(objective, overlap)| Bill { objective, overlap, prices };
        pairs.into_iter().flatten().map(of).collect()
    }

    #[test]
    fn the_parts_add_up() {
        let work = Work { compute: 2.0, wire: 3.0, bytes: 1e8, receiver: 1.0 };
        let figures: Vec<f64> = bills().iter().map(|bill| bill.of(&work)).collect();
        let near = |index: usize, figure: f64| {
            assert!((figures[index] - figure).abs() < 1e-4, "{index}: {figures:?}");
        };
        near(0, 20.0 * 5.0 + 16.0 + 1.5 + 1.0 + 6.0);
        near(1, 20.0 * 3.0 + 16.0 + 1.5 + 1.0 + 6.0);
        near(2, 16.0 + 1.5 + 1.0 + 6.0);
        near(4, 2.5);
        near(6, 5.0);
        near(7, 3.0);
    }

    proptest! {
        #[test]
        fn more_work_never_costs_less(
            compute in 0.0..1e3, wire in 0.0..1e3, bytes in 0.0..1e9, receiver in 0.0..1e3,
            more in 0.0..1e3,
        ) {
            let work = Work { compute, wire, bytes, receiver };
            let grown = [
                Work { compute: compute + more, ..work },
                Work { wire: wire + more, ..work },
                Work { bytes: bytes + more, ..work },
                Work { receiver: receiver + more, ..work },
            ];
            for bill in bills() {
                prop_assert!(bill.of(&work).is_finite());
                for grown in grown {
                    prop_assert!(bill.of(&grown) >= bill.of(&work));
                }
            }
        }
    }
}
