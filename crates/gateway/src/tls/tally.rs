//! Handshakes, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a handshake came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It took longer than `limits.handshake_timeout`.
    Timeout,
    /// The client left, or its connection broke.
    Left,
    /// The client does not speak TLS: plain HTTP, mostly.
    NotTls,
    /// No version, cipher or protocol that both know.
    NothingInCommon,
    /// The client refused, the certificate mostly.
    Refused,
    /// What the client said was not well-formed.
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

/// How handshakes ended.
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

    /// How often each failure was.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.failed.iter().map(|count| count.load(Ordering::Relaxed));
        Failure::ALL.iter().map(|why| why.as_str()).zip(counts)
    }
}
