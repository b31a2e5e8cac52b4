//! How a block is packed.

use super::Session;
use crate::codec::{CodecError, thread_seconds};
use crate::pure::arm::{Arm, Codec};
use crate::pure::policy::{
    Block, BlockKind, Extent, Outcome, Policy as _, Step, sample_bytes, sample_start,
};
use crate::send::SendError;

impl Session {
    /// Packs a block as the policy, or the user, wants it: the arm's place, what it is packed with, and the bytes, unless
    /// it is sent as it is.
    pub(super) fn pack(
        &mut self,
        content: &[u8],
        fixed: Option<usize>,
    ) -> Result<(usize, Codec, Option<Vec<u8>>), SendError> {
        let bytes = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let sample = sample_bytes(bytes);
        let start = sample_start(self.next_id, bytes, sample) as usize;
        let kind = BlockKind::of(&content[start..start + sample as usize]);
        let block = Block { number: self.next_id, bytes, sample, kind, ahead: self.ahead() };
        let mut whole: Vec<(usize, Vec<u8>)> = Vec::new();
        loop {
            let step = fixed.map_or_else(|| self.policy.next(&block), Step::Send);
            match step {
                Step::Try(arm, extent) => {
                    let part = match extent {
                        Extent::Whole => content,
                        Extent::Sample => &content[start..start + sample as usize],
                    };
                    let (outcome, packed) = self.pack_part(arm, extent, part)?;
                    self.report.trial_seconds += outcome.seconds;
                    self.policy.tried(&outcome);
                    if extent == Extent::Whole {
                        whole.push((arm, packed));
                    }
                }
                Step::Send(arm) => {
                    let tried = whole.iter().position(|(tried, _)| *tried == arm);
                    let (mut outcome, packed) = match tried {
                        Some(place) => {
                            let packed = whole.swap_remove(place).1;
                            let length = u32::try_from(packed.len()).unwrap_or(u32::MAX);
                            let extent = Extent::Whole;
                            (Outcome { arm, extent, bytes, packed: length, seconds: 0.0 }, packed)
                        }
                        None => self.pack_part(arm, Extent::Whole, content)?,
                    };
                    // What grew is sent as it was.
                    let has_grown = outcome.packed >= bytes;
                    outcome.packed = outcome.packed.min(bytes);
                    if fixed.is_none() {
                        self.policy.sent(&outcome);
                    }
                    let used = self.policy.arms()[arm];
                    return Ok(if has_grown {
                        self.report.count(Arm::NONE, &outcome);
                        (arm, Codec::None, None)
                    } else {
                        self.report.count(used, &outcome);
                        (arm, used.codec, Some(packed))
                    });
                }
            }
        }
    }

    /// Bytes that are still to be sent, if that is known.
    fn ahead(&self) -> Option<u64> {
        self.stream.is_none().then_some(self.left)
    }

    fn pack_part(
        &mut self,
        arm: usize,
        extent: Extent,
        part: &[u8],
    ) -> Result<(Outcome, Vec<u8>), SendError> {
        let used = self.policy.arms()[arm];
        let bytes = u32::try_from(part.len()).unwrap_or(u32::MAX);
        if used == Arm::NONE {
            // What is not packed is sent from where it is.
            let outcome = Outcome { arm, extent, bytes, packed: bytes, seconds: 0.0 };
            return Ok((outcome, Vec::new()));
        }
        let mut packed = Vec::new();
        let before = thread_seconds();
        match self.packer.pack(used, part, &mut packed, &self.options.cancelled) {
            Ok(()) => {}
            Err(CodecError::Cancelled) => return Err(SendError::Cancelled),
            Err(error) => return Err(SendError::Protocol(error.to_string())),
        }
        let seconds = (thread_seconds() - before).max(0.0);
        self.report.spend(used, seconds);
        let length = u32::try_from(packed.len()).unwrap_or(u32::MAX);
        Ok((Outcome { arm, extent, bytes, packed: length, seconds }, packed))
    }
}
