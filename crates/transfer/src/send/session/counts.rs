//! What of the files counts as there, as arrived, or as rejected.

use super::Session;
use crate::pure::ranges::Ranges;

/// Ranges of the address space that count, until their entry turns out to have changed.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// The receiver had them before.
    pub(super) had: Ranges,
    /// The receiver does not want them.
    pub(super) rejected: Ranges,
    /// The receiver acknowledged them.
    arrived: Ranges,
    /// Of these, holes.
    holes: Ranges,
}

impl Session {
    /// A block, or a hole, was acknowledged. Of entries that have changed meanwhile, it does not count.
    pub(super) fn count_arrived(&mut self, start: u64, length: u64, is_hole: bool) {
        let end = start + length;
        let slices = self.layout.slices(start, end);
        let stale = slices.filter(|slice| self.is_stale[slice.entry]).map(|slice| slice.bytes);
        let bytes = length - stale.sum::<u64>();
        self.report.acknowledged_bytes += bytes;
        self.counted.arrived.add(start, end);
        if is_hole {
            self.report.hole_bytes += bytes;
            self.counted.holes.add(start, end);
        }
    }

    /// An entry has changed: all of it is rejected, also what was there or has arrived.
    pub(super) fn reject(&mut self, entry: usize) {
        let [start, end] = self.layout.range(entry);
        let Counted { had, rejected, arrived, holes } = &self.counted;
        let report = &mut self.report;
        report.had_bytes -= had.within(start, end);
        report.acknowledged_bytes -= arrived.within(start, end);
        report.hole_bytes -= holes.within(start, end);
        report.rejected_bytes += end - start - rejected.within(start, end);
    }
}
