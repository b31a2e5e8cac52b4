//! What a session has done, and what that cost.

use serde::Serialize;

use crate::pure::arm::Arm;
use crate::pure::bill::Prices;
use crate::pure::policy::Outcome;

/// What one arm did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmTotals {
    /// Which.
    pub arm: Arm,
    /// Blocks.
    pub blocks: u64,
    /// Bytes before.
    pub bytes: u64,
    /// Bytes after.
    pub packed: u64,
    /// CPU time for its blocks and trials, also where the block was then sent by another arm, s.
    pub cpu_seconds: f64,
}

/// What was done so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Report {
    /// Bytes of all files.
    pub total_bytes: u64,
    /// Of them, bytes that the receiver had already.
    pub had_bytes: u64,
    /// Of them, bytes of files that the receiver rejected before they were sent, or that changed or went meanwhile.
    pub rejected_bytes: u64,
    /// Of them, bytes that the receiver acknowledged.
    pub acknowledged_bytes: u64,
    /// Of them, in holes, which were not sent.
    pub hole_bytes: u64,
    /// Blocks on the wire, packed.
    pub wire_bytes: u64,
    /// Blocks that were refused and sent again.
    pub refused: u64,
    /// Files that changed or went while they were read.
    pub stale: u64,
    /// Files that only grew while they were read: what was listed of them was sent.
    pub grown: u64,
    /// By arm, those that sent or only tried something.
    pub arms: Vec<ArmTotals>,
    /// CPU time for the canary and for trials, s.
    pub trial_seconds: f64,
    /// CPU time for packing, trials among it, s.
    pub cpu_seconds: f64,
    /// CPU time of this program for all of it, packing among it, s; 0 if nothing measured it.
    pub process_seconds: f64,
    /// CPU time of the receiver, s.
    pub receiver_seconds: f64,
    /// Mean rate of the link while it carried blocks, bytes per second.
    pub link_rate: Option<f64>,
    /// Between these were half of the rates of single blocks, of those that the link carried long enough for little else
    /// to count. Absent if those were few.
    pub link_rates: Option<[f64; 2]>,
}

/// How far watts may be off, as a share of them (95 %).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Doubt {
    /// Of the idle power.
    pub base: f64,
    /// Of all that comes on top.
    pub cpu: f64,
}

impl Report {
    /// Joules of the sender by a model: idle power for the whole time, CPU time, time and bytes on the wire.
    pub fn modelled(&self, prices: &Prices, seconds: f64) -> f64 {
        prices.base.get() * seconds
            + prices.cpu.get() * self.process_seconds.max(self.cpu_seconds)
            + self.nic_joules(prices, seconds)
    }

    /// Of them, those of the network card.
    pub fn nic_joules(&self, prices: &Prices, seconds: f64) -> f64 {
        let wire_seconds = self.link_rate.map_or(0.0, |rate| self.wire_bytes as f64 / rate);
        prices.nic.get() * wire_seconds.min(seconds) + prices.nic_byte * self.wire_bytes as f64
    }

    /// How far they may be off, as a share of them. All errors may go the same way.
    pub fn doubt(&self, prices: &Prices, seconds: f64, doubt: Doubt) -> f64 {
        let all = self.modelled(prices, seconds);
        let base = prices.base.get() * seconds;
        if all > 0.0 { (base * doubt.base + (all - base) * doubt.cpu) / all } else { doubt.base }
    }

    /// A block was sent by this arm. What packing it took is not of it: another arm may have packed it in vain.
    pub(super) fn count(&mut self, arm: Arm, outcome: &Outcome) {
        let totals = self.totals(arm);
        totals.blocks += 1;
        totals.bytes += u64::from(outcome.bytes);
        totals.packed += u64::from(outcome.packed);
    }

    /// This arm packed something, whatever became of that.
    pub(super) fn spend(&mut self, arm: Arm, seconds: f64) {
        self.cpu_seconds += seconds;
        self.totals(arm).cpu_seconds += seconds;
    }

    fn totals(&mut self, arm: Arm) -> &mut ArmTotals {
        let arms = &mut self.arms;
        let place = arms.iter().position(|totals| totals.arm == arm).unwrap_or_else(|| {
            arms.push(ArmTotals { arm, blocks: 0, bytes: 0, packed: 0, cpu_seconds: 0.0 });
            arms.len() - 1
        });
        &mut arms[place]
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::quantity::Watts;

    use super::*;

    /// 10 s at 20 W and 5 s of CPU time at 8 W: 240 J, of which 200 J are known to 15 % and 40 J to a factor of three.
    #[test]
    fn joules_are_no_surer_than_the_watts_that_nothing_is_known_of() {
        let prices = Prices {
            base: Watts(20.0),
            cpu: Watts(8.0),
            nic: Watts::ZERO,
            nic_byte: 0.0,
            receiver: Watts::ZERO,
        };
        let report = Report { cpu_seconds: 5.0, ..Report::default() };
        assert!((report.modelled(&prices, 10.0) - 240.0).abs() < 1e-9);
        // The fault of a review: reading, summing up and sending took energy, and counted for nothing.
        let whole = Report { cpu_seconds: 1.0, process_seconds: 5.0, ..Report::default() };
        assert!((whole.modelled(&prices, 10.0) - 240.0).abs() < 1e-9);
        let doubt = report.doubt(&prices, 10.0, Doubt { base: 0.15, cpu: 2.0 });
        assert!((doubt * 240.0 - (30.0 + 80.0)).abs() < 1e-9, "{doubt}");
    }
}
