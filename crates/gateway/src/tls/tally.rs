//! Counts handshakes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a handshake failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It took longer than `limits.handshake_timeout`.
    Timeout,
    /// The client left, or its connection broke.
    Left,
    /// The client does not speak TLS: plain HTTP, mostly.
    NotTls,
    /// No common version, cipher or protocol.
    NothingInCommon,
    /// The client rejected the handshake, mostly the certificate.
    Refused,
    /// The client's message was malformed.
    Malformed,
}

impl Failure {
    const ALL: [Self; 6] = [
        Self::Timeout,
        Self::Left,
        Self::NotTls,
        Self::NothingInCommon,
        Self::Refused,
        Self::Malformed,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Left => "left",
            Self::NotTls => "not-tls",
            Self::NothingInCommon => "nothing-in-common",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
        }
    }
}

/// Outcomes of handshakes.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    succeeded: AtomicU64,
    failed: [AtomicU64; Failure::ALL.len()],
}

impl Tally {
    pub(super) fn succeeded(&self) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, why: Failure) {
        self.failed[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn successes(&self) -> u64 {
        self.succeeded.load(Ordering::Relaxed)
    }

    /// The count of each failure.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.failed.iter().map(|count| count.load(Ordering::Relaxed));
        Failure::ALL.iter().map(|why| why.as_str()).zip(counts)
    }
}
