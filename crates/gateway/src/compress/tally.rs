//! What was compressed since the start.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::accepted::Coding;
use crate::status::CompressionStatus;

/// Counters of a site.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    answers: [AtomicU64; 3],
    before: AtomicU64,
    after: AtomicU64,
    no_room: AtomicU64,
}

impl Tally {
    pub(super) fn begun(&self, coding: Coding) {
        let count = Coding::ALL.iter().zip(&self.answers).find(|(it, _)| **it == coding);
        if let Some((_, count)) = count {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn read(&self, bytes: usize) {
        self.before.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.after.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn no_room(&self) {
        self.no_room.fetch_add(1, Relaxed);
    }

    /// For status and metrics.
    pub(crate) fn status(&self) -> CompressionStatus {
        let answers = Coding::ALL.iter().zip(&self.answers);
        CompressionStatus {
            answers: answers
                .map(|(it, count)| (it.as_str().to_owned(), count.load(Relaxed)))
                .collect(),
            bytes_before: self.before.load(Relaxed),
            bytes_after: self.after.load(Relaxed),
            no_room: self.no_room.load(Relaxed),
        }
    }
}
