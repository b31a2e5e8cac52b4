//! What the receiver does not want.

use super::{MOST_RANGES, Session};
use crate::send::SendError;
use crate::wire::{Have, Message};

impl Session {
    /// These ranges are there.
    pub(super) fn is_there(&mut self, have: &Have) -> Result<Vec<Message>, SendError> {
        let bytes = self.need_not_be_sent(have)?;
        self.report.had_bytes += bytes;
        Ok(Vec::new())
    }

    /// These ranges cannot be written there. The receipt names the entries.
    pub(super) fn is_rejected(&mut self, rejects: &Have) -> Result<Vec<Message>, SendError> {
        let bytes = self.need_not_be_sent(rejects)?;
        self.report.rejected_bytes += bytes;
        Ok(Vec::new())
    }

    /// How many bytes there are in these ranges that were to be sent before.
    fn need_not_be_sent(&mut self, have: &Have) -> Result<u64, SendError> {
        let before = self.handed.total();
        for [start, length] in &have.ranges {
            let end = start.saturating_add(*length).min(self.layout.bytes());
            self.handed.add(*start, end);
        }
        if self.handed.count() > self.entries.len().saturating_add(MOST_RANGES) {
            return Err(SendError::protocol("it has more ranges than there can be"));
        }
        let bytes = self.handed.total() - before;
        self.left = self.left.saturating_sub(bytes);
        // How long a stream is is not known yet: nothing of it counts before it was read.
        Ok(if self.stream.is_some() { 0 } else { bytes })
    }

    /// Whether the receiver cannot write the stream: nothing of it is read any more.
    pub(super) fn is_stream_rejected(&self) -> bool {
        self.stream.is_some() && self.handed.covers(0, self.layout.bytes())
    }
}
