//! The three codings, behind one interface. Each has a window of 256 KiB: browsers accept it, and one needs about a
//! megabyte of memory.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use super::accepted::Coding;

/// Levels that are faster than a home connection, on a small board.
const GZIP_LEVEL: u32 = 5;
const BROTLI_LEVEL: u32 = 4;
const ZSTD_LEVEL: i32 = 3;

/// The window, as the logarithm of its bytes.
const WINDOW: u32 = 18;

/// Bytes of output that are asked for at a time.
const PART: usize = 16 << 10;

/// A body that is being compressed.
pub(super) enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Zstd(Zstd),
}

impl Encoder {
    pub(super) fn new(coding: Coding) -> io::Result<Self> {
        Ok(match coding {
            Coding::Gzip => {
                Self::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL)))
            }
            Coding::Brotli => {
                let writer = brotli::CompressorWriter::new(Vec::new(), PART, BROTLI_LEVEL, WINDOW);
                Self::Brotli(Box::new(writer))
            }
            Coding::Zstd => Self::Zstd(Zstd::new()?),
        })
    }

    /// Takes a part.
    pub(super) fn write(&mut self, part: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(part),
            Self::Brotli(encoder) => encoder.write_all(part),
            Self::Zstd(encoder) => encoder.write(part),
        }
    }

    /// Makes all that was written readable at the other end.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.flush(),
            Self::Brotli(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }

    /// What can be sent by now.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Brotli(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => &mut encoder.out,
        })
    }

    /// How much can be sent by now.
    pub(super) fn ready(&self) -> usize {
        match self {
            Self::Gzip(encoder) => encoder.get_ref().len(),
            Self::Brotli(encoder) => encoder.get_ref().len(),
            Self::Zstd(encoder) => encoder.out.len(),
        }
    }

    /// The rest, to the end.
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Brotli(encoder) => Ok(encoder.into_inner()),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// zstd, whose library writes into buffers of the caller.
pub(super) struct Zstd {
    context: CCtx<'static>,
    room: Box<[u8]>,
    out: Vec<u8>,
}

fn failed(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

impl Zstd {
    fn new() -> io::Result<Self> {
        let mut context = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        for parameter in [CParameter::CompressionLevel(ZSTD_LEVEL), CParameter::WindowLog(WINDOW)] {
            context.set_parameter(parameter).map_err(failed)?;
        }
        Ok(Self { context, room: vec![0; PART].into(), out: Vec::new() })
    }

    fn write(&mut self, part: &[u8]) -> io::Result<()> {
        let mut input = InBuffer::around(part);
        while input.pos() < part.len() {
            let mut output = OutBuffer::around(&mut self.room[..]);
            self.context.compress_stream(&mut output, &mut input).map_err(failed)?;
            self.out.extend_from_slice(output.as_slice());
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.until_done(CCtx::flush_stream)
    }

    fn finish(mut self) -> io::Result<Vec<u8>> {
        self.until_done(CCtx::end_stream)?;
        Ok(self.out)
    }

    fn until_done(
        &mut self,
        mut step: impl FnMut(&mut CCtx<'static>, &mut OutBuffer<'_, [u8]>) -> zstd_safe::SafeResult,
    ) -> io::Result<()> {
        loop {
            let mut output = OutBuffer::around(&mut self.room[..]);
            let left = step(&mut self.context, &mut output).map_err(failed)?;
            self.out.extend_from_slice(output.as_slice());
            if left == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    fn plain(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            Coding::Gzip => {
                flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
            }
            Coding::Brotli => {
                brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out).unwrap();
            }
            Coding::Zstd => {
                let mut decoder = zstd_safe::DCtx::create();
                let (mut input, mut end) = (InBuffer::around(bytes), 1);
                while end != 0 {
                    let mut room = [0; 4096];
                    let mut output = OutBuffer::around(&mut room[..]);
                    let before = input.pos();
                    end = decoder.decompress_stream(&mut output, &mut input).unwrap();
                    assert!(end == 0 || output.pos() > 0 || input.pos() > before, "cut off");
                    out.extend_from_slice(output.as_slice());
                }
                assert_eq!(input.pos(), bytes.len(), "nothing is behind the frame");
            }
        }
        out
    }

    proptest! {
        #[test]
        fn what_comes_out_decodes_to_what_went_in(
            parts in proptest::collection::vec(
                (proptest::collection::vec(0_u8..4, 0..3000), any::<bool>()),
                0..8,
            ),
        ) {
            for coding in Coding::ALL {
                let mut encoder = Encoder::new(coding).unwrap();
                let (mut sent, mut whole) = (Vec::new(), Vec::new());
                for (part, flushes) in &parts {
                    encoder.write(part).unwrap();
                    whole.extend_from_slice(part);
                    if *flushes {
                        encoder.flush().unwrap();
                        prop_assert!(encoder.ready() > 0 || part.is_empty());
                    }
                    sent.append(&mut encoder.take());
                }
                sent.append(&mut encoder.finish().unwrap());
                prop_assert_eq!(plain(coding, &sent), whole, "{:?}", coding);
            }
        }
    }
}
