//! What payloads are made of: one pattern, made once, of which every connection sends and expects the
//! bytes of its own position.

/// The period of the pattern, in bytes. A prime, so that a segment, block or page that is lost, doubled or
/// out of its place shows.
const PERIOD: usize = 32_749;

/// The most bytes written or read at once: of 64 KiB to 512 KiB, the size that used least CPU time on
/// loopback. The buffer and the pattern stay in the second cache.
pub const CHUNK: usize = 256 * 1024;

/// Kernels copy from and to places that begin where pages do. Where those of ours begin 1 to 31 bytes
/// behind that, and `malloc`'s large ones begin 16 behind it, `rep movsb`, by which kernels copy, takes
/// up to twenty times as long on processors that say they are quick at it (AMD EPYC: 2.0 instead of 42 GB/s).
pub(crate) const PAGE: usize = 4096;

/// The pattern, long enough to write a chunk from any position.
#[derive(Debug)]
pub struct Pattern(Box<[u8]>);

impl Default for Pattern {
    fn default() -> Self {
        // xorshift64 (Marsaglia 2003): all that matters is that no part of it looks like another.
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        let period: Vec<u8> = (0..PERIOD).map(|_| next()).collect();
        Self(period.iter().copied().cycle().take(PERIOD + CHUNK).collect())
    }
}

impl Pattern {
    /// The bytes from this position of a stream on, as many as there are at hand, at most `most`.
    pub fn from(&self, at: u64, most: u64) -> &[u8] {
        let phase = (at % PERIOD as u64) as usize;
        let length = usize::try_from(most).map_or(CHUNK, |most| most.min(CHUNK));
        &self.0[phase..phase + length]
    }

    /// Are these the bytes at this position of a stream?
    pub fn matches(&self, mut at: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let expected = self.from(at, bytes.len() as u64);
            let (piece, rest) = bytes.split_at(expected.len());
            if piece != expected {
                return false;
            }
            at += piece.len() as u64;
            bytes = rest;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_piece_matches_at_its_own_place_and_nowhere_near(
            at in 0_u64..1 << 40,
            length in 16_usize..3_000,
            off in 1_u64..20_000,
        ) {
            let pattern = Pattern::default();
            let piece = &pattern.from(at, length as u64)[..length];
            prop_assert!(pattern.matches(at, piece));
            prop_assert!(pattern.matches(at + 5 * PERIOD as u64, piece), "it begins anew");
            prop_assert!(!pattern.matches(at + off, piece));
        }
    }

    #[test]
    fn more_than_a_chunk_is_compared_to_its_end() {
        let pattern = Pattern::default();
        let mut long: Vec<u8> = pattern.from(7, CHUNK as u64).to_vec();
        long.extend(pattern.from(7 + CHUNK as u64, 100));
        assert!(pattern.matches(7, &long));
        *long.last_mut().unwrap() ^= 1;
        assert!(!pattern.matches(7, &long));
    }
}
