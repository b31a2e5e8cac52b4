//! What the receiver does not want.

use super::{MOST_RANGES, Session};
use crate::send::SendError;
use crate::wire::{Have, Message};

impl Session {
    /// These ranges are there.
    pub(super) fn is_there(&mut self, have: &Have) -> Result<Vec<Message>, SendError> {
        for [start, end] in self.need_not_be_sent(have)? {
            self.report.had_bytes += end - start;
            self.counted.had.add(start, end);
        }
        Ok(Vec::new())
    }

    /// These ranges cannot be written there. The receipt names the entries.
    pub(super) fn is_rejected(&mut self, rejects: &Have) -> Result<Vec<Message>, SendError> {
        for [start, end] in self.need_not_be_sent(rejects)? {
            self.report.rejected_bytes += end - start;
            self.counted.rejected.add(start, end);
        }
        Ok(Vec::new())
    }

    /// The parts of these ranges that were to be sent before.
    fn need_not_be_sent(&mut self, have: &Have) -> Result<Vec<[u64; 2]>, SendError> {
        let mut parts = Vec::new();
        for [start, length] in &have.ranges {
            let end = start.saturating_add(*length).min(self.layout.bytes());
            while let Some([from, until]) = self.handed.gap(*start, end) {
                self.handed.add(from, until);
                parts.push([from, until]);
            }
        }
        if self.handed.count() > self.entries.len().saturating_add(MOST_RANGES) {
            return Err(SendError::protocol("it has more ranges than there can be"));
        }
        let bytes: u64 = parts.iter().map(|[from, until]| until - from).sum();
        self.left = self.left.saturating_sub(bytes);
        // How long a stream is is not known yet: nothing of it counts before it was read.
        Ok(if self.stream.is_some() { Vec::new() } else { parts })
    }

    /// Whether the receiver cannot write the stream: nothing of it is read any more.
    pub(super) fn is_stream_rejected(&self) -> bool {
        self.stream.is_some() && self.handed.covers(0, self.layout.bytes())
    }
}
