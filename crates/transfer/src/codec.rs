//! Packs and unpacks blocks. Every block stands alone: it can be sent again, and unpacked in any order.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use bzip2::read::BzDecoder;
use bzip2::write::BzEncoder;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use lzma_rust2::{CheckType, XzOptions, XzReader, XzWriter};
use rustix::time::{ClockId, clock_gettime};
use zstd_safe::{CCtx, CParameter, DCtx};

pub use crate::pure::arm::MOST_BYTES;
use crate::pure::arm::{Arm, Codec};

/// Memory that a packed block may ask for to be unpacked, KiB: what xz needs for the longest block, and some more.
const MEMORY_KIB: u32 = 16 << 10;
/// Bytes after which packing looks whether it is cancelled.
const CHUNK: usize = 64 << 10;
/// bzip2's levels are its blocks' lengths in this unit.
const BZIP2_UNIT: usize = 100_000;
/// The smallest dictionary of xz.
const LEAST_DICTIONARY: usize = 4096;

/// Why a block was not packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The caller wants it no more.
    #[error("packing was cancelled")]
    Cancelled,
    /// The block is longer than any may be.
    #[error("a block of {0} bytes: at most {MOST_BYTES} are allowed")]
    TooLong(usize),
    /// What the codec says.
    #[error("{codec}: {error}")]
    Codec {
        /// Which.
        codec: &'static str,
        /// Its words.
        error: String,
    },
    /// It unpacks to another length than the block has.
    #[error("a {codec} block does not unpack to the {expected} bytes that it should have")]
    Length {
        /// Which.
        codec: &'static str,
        /// What was promised.
        expected: usize,
    },
}

impl CodecError {
    fn of(codec: Codec, error: &dyn fmt::Display) -> Self {
        Self::Codec { codec: codec.name(), error: error.to_string() }
    }

    fn of_io(codec: Codec, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::Interrupted => Self::Cancelled,
            _ => Self::of(codec, error),
        }
    }
}

/// Packs blocks. It keeps what codecs can use again.
#[derive(Default)]
pub struct Packer {
    zstd: Option<CCtx<'static>>,
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

impl Packer {
    /// Packs `block` into `packed`, whose contents go. What comes of it may be longer than the block.
    ///
    /// `cancelled` is looked at every 64 KiB; LZ4 and Zstandard finish their block first.
    pub fn pack(
        &mut self,
        arm: Arm,
        block: &[u8],
        packed: &mut Vec<u8>,
        cancelled: &AtomicBool,
    ) -> Result<(), CodecError> {
        if block.len() > MOST_BYTES {
            return Err(CodecError::TooLong(block.len()));
        }
        if cancelled.load(Ordering::Relaxed) {
            return Err(CodecError::Cancelled);
        }
        packed.clear();
        let level = u32::try_from(arm.level).unwrap_or(0);
        let result = match arm.codec {
            Codec::None => {
                packed.extend_from_slice(block);
                return Ok(());
            }
            Codec::Lz4 => return lz4(block, packed),
            Codec::Zstd => return self.zstd(i32::from(arm.level), block, packed),
            Codec::Gzip => {
                let encoder = GzEncoder::new(packed, flate2::Compression::new(level));
                feed(encoder, block, cancelled).and_then(|it| it.finish().map(drop))
            }
            Codec::Bzip2 => {
                // The level is the memory. The same comes of a level that just holds the block.
                let enough = u32::try_from(block.len().div_ceil(BZIP2_UNIT)).unwrap_or(9);
                let level = level.min(enough).clamp(1, 9);
                let encoder = BzEncoder::new(packed, bzip2::Compression::new(level));
                feed(encoder, block, cancelled).and_then(|it| it.finish().map(drop))
            }
            Codec::Xz => XzWriter::new(packed, xz_options(level, block.len()))
                .and_then(|encoder| feed(encoder, block, cancelled))
                .and_then(|it| it.finish().map(drop)),
        };
        result.map_err(|error| CodecError::of_io(arm.codec, &error))
    }

    fn zstd(&mut self, level: i32, block: &[u8], packed: &mut Vec<u8>) -> Result<(), CodecError> {
        let failed = |code| CodecError::of(Codec::Zstd, &zstd_safe::get_error_name(code));
        let context = self.zstd.get_or_insert_with(CCtx::create);
        for parameter in [
            CParameter::CompressionLevel(level),
            CParameter::ChecksumFlag(false),
            CParameter::ContentSizeFlag(false),
        ] {
            context.set_parameter(parameter).map_err(failed)?;
        }
        packed.resize(zstd_safe::compress_bound(block.len()), 0);
        let length = context.compress2(&mut packed[..], block).map_err(failed)?;
        packed.truncate(length);
        Ok(())
    }
}

fn lz4(block: &[u8], packed: &mut Vec<u8>) -> Result<(), CodecError> {
    packed.resize(lz4_flex::block::get_maximum_output_size(block.len()), 0);
    let length = lz4_flex::block::compress_into(block, packed)
        .map_err(|error| CodecError::of(Codec::Lz4, &error))?;
    packed.truncate(length);
    Ok(())
}

/// What follows checks the block as a whole, so xz need not. Its dictionary is no longer than the block.
fn xz_options(level: u32, length: usize) -> XzOptions {
    let mut options = XzOptions::with_preset(level);
    options.set_check_sum_type(CheckType::None);
    let wanted = length.next_power_of_two().max(LEAST_DICTIONARY);
    let dictionary = &mut options.lzma_options.dict_size;
    *dictionary = (*dictionary).min(u32::try_from(wanted).unwrap_or(u32::MAX));
    options
}

fn feed<W: Write>(mut encoder: W, block: &[u8], cancelled: &AtomicBool) -> io::Result<W> {
    for chunk in block.chunks(CHUNK) {
        if cancelled.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        encoder.write_all(chunk)?;
    }
    Ok(encoder)
}

/// Unpacks blocks.
#[derive(Default)]
pub struct Unpacker {
    zstd: Option<DCtx<'static>>,
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

impl Unpacker {
    /// Unpacks a block into `block`, whose contents go. It must have exactly `length` bytes: no more than that, and a
    /// bounded amount of memory, is ever used for it.
    pub fn unpack(
        &mut self,
        codec: Codec,
        packed: &[u8],
        length: usize,
        block: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        if length > MOST_BYTES {
            return Err(CodecError::TooLong(length));
        }
        block.clear();
        match codec {
            Codec::None => block.extend_from_slice(&packed[..packed.len().min(length + 1)]),
            Codec::Lz4 => {
                block.resize(length, 0);
                let written = lz4_flex::block::decompress_into(packed, block)
                    .map_err(|error| CodecError::of(codec, &error))?;
                block.truncate(written);
            }
            Codec::Zstd => {
                block.resize(length, 0);
                let context = self.zstd.get_or_insert_with(DCtx::create);
                let written = context
                    .decompress(&mut block[..], packed)
                    .map_err(|code| CodecError::of(codec, &zstd_safe::get_error_name(code)))?;
                block.truncate(written);
            }
            Codec::Gzip => read(codec, GzDecoder::new(packed), length, block)?,
            Codec::Bzip2 => read(codec, BzDecoder::new(packed), length, block)?,
            Codec::Xz => {
                let reader = XzReader::new_mem_limit(packed, false, MEMORY_KIB);
                read(codec, reader, length, block)?;
            }
        }
        if block.len() == length {
            Ok(())
        } else {
            Err(CodecError::Length { codec: codec.name(), expected: length })
        }
    }
}

fn read(
    codec: Codec,
    reader: impl Read,
    length: usize,
    block: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let most = u64::try_from(length).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(most).read_to_end(block).map(drop).map_err(|error| CodecError::of(codec, &error))
}

/// CPU time of this thread, s.
pub fn thread_seconds() -> f64 {
    cpu_seconds(ClockId::ThreadCPUTime)
}

/// CPU time of this program, without that of programs that it has started, s.
pub fn process_seconds() -> f64 {
    cpu_seconds(ClockId::ProcessCPUTime)
}

fn cpu_seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests;
