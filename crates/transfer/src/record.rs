//! Records what each arm costs and yields on this machine.

use std::sync::atomic::AtomicBool;

use crate::codec::{CodecError, Packer, Unpacker, thread_seconds};
use crate::pure::arm::Arm;
use crate::pure::policy::{BlockKind, sample_bytes, sample_start};
use crate::pure::trace::{Figures, Trace, TraceBlock};

/// What is recorded.
#[derive(Debug, Clone)]
pub struct Recording<'a> {
    /// The arms, none first.
    pub arms: &'a [Arm],
    /// Length of the blocks.
    pub block_bytes: u32,
    /// Each block is packed this many times, and the least time counts: what else the machine does only adds.
    pub repeats: u32,
    /// Rate of the link to write down, bytes per second.
    pub rate: f64,
}

impl Recording<'_> {
    /// Packs each block of `data` with each arm.
    pub fn of(&self, data: &[u8], source: &str) -> Result<Trace, CodecError> {
        let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
        let length = usize::try_from(self.block_bytes.max(1)).unwrap_or(1);
        let mut blocks = Vec::new();
        for (number, block) in data.chunks(length).enumerate() {
            let bytes = u32::try_from(block.len()).unwrap_or(u32::MAX);
            let taken = sample_bytes(bytes);
            let start = sample_start(number as u64, bytes, taken) as usize;
            let sample = &block[start..start + taken as usize];
            let mut recorded = TraceBlock {
                bytes,
                kind: BlockKind::of(sample),
                rate: self.rate,
                whole: Vec::new(),
                sample: Vec::new(),
                unpack: Vec::new(),
            };
            for arm in self.arms {
                let (figures, content) = self.pack(*arm, block, &mut packer)?;
                recorded.whole.push(figures);
                recorded.unpack.push(self.unpack(*arm, &content, block.len(), &mut unpacker)?);
                recorded.sample.push(self.pack(*arm, sample, &mut packer)?.0);
            }
            blocks.push(recorded);
        }
        Ok(Trace { arms: self.arms.to_vec(), source: source.to_owned(), blocks })
    }

    fn pack(
        &self,
        arm: Arm,
        data: &[u8],
        packer: &mut Packer,
    ) -> Result<(Figures, Vec<u8>), CodecError> {
        let never = AtomicBool::new(false);
        let mut content = Vec::new();
        let seconds = self.least(|| packer.pack(arm, data, &mut content, &never))?;
        // What is sent as it is costs no CPU time worth counting: it is not even copied.
        let seconds = if arm == Arm::NONE { 0.0 } else { seconds };
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        Ok((Figures { seconds, packed: length }, content))
    }

    fn unpack(
        &self,
        arm: Arm,
        packed: &[u8],
        length: usize,
        unpacker: &mut Unpacker,
    ) -> Result<f64, CodecError> {
        let mut block = Vec::new();
        self.least(|| unpacker.unpack(arm.codec, packed, length, &mut block))
    }

    fn least(&self, mut work: impl FnMut() -> Result<(), CodecError>) -> Result<f64, CodecError> {
        let mut least = f64::INFINITY;
        for _ in 0..self.repeats.max(1) {
            let before = thread_seconds();
            work()?;
            least = least.min(thread_seconds() - before);
        }
        // The clock counts nanoseconds: more digits would only make the trace longer.
        Ok((least.max(0.0) * 1e9).round() / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_a_block_for_each_piece_of_the_data() {
        let data: Vec<u8> = (0..150_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let arms = [Arm::NONE, Arm::CANARY];
        let recording = Recording { arms: &arms, block_bytes: 1 << 18, repeats: 1, rate: 1e6 };
        let trace = recording.of(&data, "numbers").unwrap();
        let lengths: Vec<u32> = trace.blocks.iter().map(|block| block.bytes).collect();
        assert_eq!(lengths, [1 << 18, 1 << 18, 600_000 - (1 << 19)]);
        assert!(trace.blocks.iter().all(|block| block.whole[1].packed < block.bytes / 2));
        assert!(trace.blocks.iter().all(|block| block.whole[1].seconds > 0.0));
        let read = Trace::from_lines(&trace.to_lines().unwrap()).unwrap();
        assert_eq!(read.blocks[2].whole[1].packed, trace.blocks[2].whole[1].packed);
    }
}
