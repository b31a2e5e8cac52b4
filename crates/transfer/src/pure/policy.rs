//! How a policy is asked. The sender, the replay of a trace and tests all do it in the same order:
//!
//! ```text
//!   next -> Try -> tried -> next -> ... -> Send -> sent -> (later, for several blocks at once) acknowledged
//! ```

use serde::{Deserialize, Serialize};

/// What the bytes of a block look like: which codec suits it depends on that as well as on how well it packs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockKind {
    /// Nearly all of them are printable, or ends of lines.
    Text,
    /// Many are 0: tables, programs, images of disks.
    Zeros,
    /// Neither.
    #[default]
    Other,
}

impl BlockKind {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// Of a block with this sample.
    pub fn of(sample: &[u8]) -> Self {
        let count = |is: fn(u8) -> bool| sample.iter().filter(|byte| is(**byte)).count();
        let printable = count(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~'));
        if printable * 20 >= sample.len() * 19 {
            Self::Text
        } else if count(|byte| byte == 0) * 5 >= sample.len() {
            Self::Zeros
        } else {
            Self::Other
        }
    }
}

/// A block that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// From 0.
    pub number: u64,
    /// Its length.
    pub bytes: u32,
    /// Length of a sample of it.
    pub sample: u32,
    /// By its sample.
    pub kind: BlockKind,
    /// Bytes that follow it, if that is known.
    pub ahead: Option<u64>,
}

/// How much of a block is packed to see what comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// A sample ([`sample_bytes`]).
    Sample,
    /// All of it. What comes of it can be sent.
    Whole,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Pack so much of the block with this arm (its place in the list), and ask again.
    Try(usize, Extent),
    /// Send the block with this arm.
    Send(usize),
}

/// What came of packing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// The arm's place in the list.
    pub arm: usize,
    /// Of what.
    pub extent: Extent,
    /// Bytes before.
    pub bytes: u32,
    /// Bytes after.
    pub packed: u32,
    /// CPU time, s: 0 if the block is sent as it was tried.
    pub seconds: f64,
}

/// What the receiver acknowledged since the time before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Acknowledged {
    /// Bytes on the wire.
    pub bytes: f64,
    /// In this time, s, in which there was always something on the way.
    pub seconds: f64,
}

/// Chooses the arm of each block.
pub trait Policy {
    /// What to do with this block.
    fn next(&mut self, block: &Block) -> Step;

    /// A trial that the policy asked for has ended.
    fn tried(&mut self, outcome: &Outcome);

    /// The block was packed and is on its way.
    fn sent(&mut self, outcome: &Outcome);

    /// The receiver has it.
    fn acknowledged(&mut self, acknowledged: &Acknowledged);
}

/// Least length of a sample.
const LEAST_SAMPLE: u32 = 4096;

/// Length of a block's sample: a 64th, 4 KiB at least.
pub fn sample_bytes(block: u32) -> u32 {
    (block / 64).max(LEAST_SAMPLE).min(block)
}

/// Where the sample of a block begins: elsewhere in each block, and the same whenever it is asked.
pub fn sample_start(number: u64, block: u32, sample: u32) -> u32 {
    // Steps of the golden ratio spread over the block evenly, however many there are.
    let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let span = u64::from(block.saturating_sub(sample));
    u32::try_from((place * (span + 1)) >> 32).unwrap_or(0)
}

/// Least and greatest length of a block.
pub const BLOCKS: [u32; 2] = [64 << 10, 4 << 20];
/// Time that a block takes on the link as it is, s.
const BLOCK_SECONDS: f64 = 0.1;

/// Length of the next block, a power of two, on a link of this rate.
pub fn block_bytes(bytes_per_second: f64) -> u32 {
    let wanted =
        (bytes_per_second * BLOCK_SECONDS).clamp(f64::from(BLOCKS[0]), f64::from(BLOCKS[1]));
    let power = if wanted.is_finite() { wanted.log2().round() } else { 16.0 };
    1 << (power as u32).clamp(16, 22)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_lie_within_their_block() {
        for bytes in [0, 1, 4095, 4096, 4097, 65_536, 4 << 20] {
            let sample = sample_bytes(bytes);
            assert!(sample <= bytes);
            for number in 0..1000 {
                assert!(sample_start(number, bytes, sample) + sample <= bytes, "{bytes} {number}");
            }
        }
        assert_eq!(sample_bytes(4 << 20), 65_536);
        let starts: Vec<u32> =
            (0..8).map(|number| sample_start(number, 1 << 20, 1 << 14)).collect();
        assert!(starts.iter().any(|start| *start > 700_000), "{starts:?}");
        assert!(starts.iter().any(|start| (1..300_000).contains(start)), "{starts:?}");
    }

    #[test]
    fn content_is_text_or_zeros_or_neither() {
        assert_eq!(BlockKind::of(b"Plain words,\r\nand numbers: 12."), BlockKind::Text);
        assert_eq!(BlockKind::of(&[1, 2, 3, 0, 0, 200, 7, 9]), BlockKind::Zeros);
        assert_eq!(BlockKind::of(&[1, 2, 3, 240, 230, 200, 7, 9]), BlockKind::Other);
    }

    #[test]
    fn a_block_is_a_tenth_of_a_second_of_the_link() {
        let lengths = [0.0, 1e4, 1e6, 1e7, 1e8, 1e12, f64::NAN, f64::INFINITY].map(block_bytes);
        assert_eq!(lengths[..5], [1 << 16, 1 << 16, 1 << 17, 1 << 20, 1 << 22]);
        assert_eq!(lengths[5], 1 << 22);
        assert!(lengths.iter().all(|bytes| (BLOCKS[0]..=BLOCKS[1]).contains(bytes)));
    }
}
