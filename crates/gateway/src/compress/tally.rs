//! What was compressed since the start.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::accepted::Coding;
use crate::status::{CompressedBytes, CompressionStatus};

/// Counters of a site.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    zstd: Counts,
    brotli: Counts,
    gzip: Counts,
    no_room: AtomicU64,
}

/// Counters of a coding.
#[derive(Debug, Default)]
struct Counts {
    answers: AtomicU64,
    before: AtomicU64,
    after: AtomicU64,
}

impl Counts {
    fn bytes(&self) -> CompressedBytes {
        CompressedBytes { before: self.before.load(Relaxed), after: self.after.load(Relaxed) }
    }
}

impl Tally {
    const fn of(&self, coding: Coding) -> &Counts {
        match coding {
            Coding::Zstd => &self.zstd,
            Coding::Brotli => &self.brotli,
            Coding::Gzip => &self.gzip,
        }
    }

    pub(super) fn begun(&self, coding: Coding) {
        self.of(coding).answers.fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self, coding: Coding, bytes: usize) {
        self.of(coding).before.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn sent(&self, coding: Coding, bytes: usize) {
        self.of(coding).after.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn no_room(&self) {
        self.no_room.fetch_add(1, Relaxed);
    }

    /// For status and metrics.
    pub(crate) fn status(&self) -> CompressionStatus {
        let all = Coding::ALL.map(|it| (it.as_str(), self.of(it)));
        let bytes = all.map(|(name, it)| (name.to_owned(), it.bytes()));
        let answers = all.map(|(name, it)| (name.to_owned(), it.answers.load(Relaxed)));
        CompressionStatus {
            answers: answers.into(),
            bytes_before: bytes.iter().map(|(_, it)| it.before).sum(),
            bytes_after: bytes.iter().map(|(_, it)| it.after).sum(),
            bytes: bytes.into(),
            no_room: self.no_room.load(Relaxed),
        }
    }
}
