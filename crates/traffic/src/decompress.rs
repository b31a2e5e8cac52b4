//! Opens what logs are packed in, by the first bytes.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

/// First bytes that tell how a log is packed.
pub(crate) const MAGIC: usize = 6;

/// How a log is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
}

impl Packing {
    /// By the first [`MAGIC`] bytes, or all there are.
    pub(crate) fn of(head: &[u8]) -> Self {
        if head.starts_with(&[0x1f, 0x8b]) { Self::Gzip } else { Self::Plain }
    }

    /// A reader of what is inside.
    pub(crate) fn open(self, packed: impl Read + Send + 'static) -> Box<dyn Read + Send> {
        match self {
            Self::Plain => Box::new(packed),
            Self::Gzip => Box::new(MultiGzDecoder::new(packed)),
        }
    }

    /// Whether an error says that what was packed is damaged, not that it cannot be read.
    pub(crate) fn is_damage(self, error: &io::Error) -> bool {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        self != Self::Plain && matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
    }
}
