//! Outcomes of connections, and their number.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::access_log::Answered;
use crate::places::{Place, Places};

/// The outcome of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was put through, and ended by client or server.
    Passed,
    /// It was put through, and one end broke it off.
    Broken,
    /// It was put through, and closed since nothing came through it.
    Idle,
    /// It was put through, and reset since its server went to sleep or failed.
    Slept,
    /// The service does not take connections.
    Unreachable,
    /// This machine has no descriptors, ports or memory left for a connection to the service.
    Exhausted,
    /// The service has an address where nightwatt itself listens.
    Loops,
    /// The server did not wake.
    WakeFailed,
    /// The server did not wake in time.
    HeldTooLong,
    /// Too many were held already.
    QueueFull,
    /// Its client has woken the server too often.
    OverBudget,
    /// Its client said nothing in time, and only its first byte wakes the server.
    Silent,
    /// Its first bytes are not what wakes the server.
    NoWake,
    /// It asked for the status only, which it got from here.
    Answered,
    /// Its client left before it was put through.
    Left,
    /// It does not begin like TLS, although TLS has to name the service.
    NotTls,
    /// It begins like TLS, but is no `ClientHello`.
    BadHello,
    /// The first message of TLS did not come in time.
    SlowHello,
    /// No service has the requested name.
    UnknownName,
    /// Its client is in no network that may use the service.
    Network,
    /// nightwatt stops.
    Stopped,
}

impl Outcome {
    /// Every outcome.
    pub(crate) const ALL: [Self; 21] = [
        Self::Passed,
        Self::Broken,
        Self::Idle,
        Self::Slept,
        Self::Unreachable,
        Self::Exhausted,
        Self::Loops,
        Self::WakeFailed,
        Self::HeldTooLong,
        Self::QueueFull,
        Self::OverBudget,
        Self::Silent,
        Self::NoWake,
        Self::Answered,
        Self::Left,
        Self::NotTls,
        Self::BadHello,
        Self::SlowHello,
        Self::UnknownName,
        Self::Network,
        Self::Stopped,
    ];

    /// Its name in status and metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Broken => "broken",
            Self::Idle => "idle",
            Self::Slept => "slept",
            Self::Unreachable => "unreachable",
            Self::Exhausted => "exhausted",
            Self::Loops => "loops",
            Self::WakeFailed => "wake-failed",
            Self::HeldTooLong => "held-too-long",
            Self::QueueFull => "queue-full",
            Self::OverBudget => "over-budget",
            Self::Silent => "silent",
            Self::NoWake => "no-wake",
            Self::Answered => "answered",
            Self::Left => "left",
            Self::NotTls => "not-tls",
            Self::BadHello => "bad-hello",
            Self::SlowHello => "slow-hello",
            Self::UnknownName => "unknown-name",
            Self::Network => "network",
            Self::Stopped => "stopped",
        }
    }

    /// The TLS alert for it (RFC 8446, 6.2).
    pub(super) const fn alert(self) -> u8 {
        match self {
            Self::BadHello => 50,                   // decode_error
            Self::UnknownName => 112,               // unrecognized_name
            Self::OverBudget | Self::Network => 49, // access_denied
            _ => 80,                                // internal_error
        }
    }

    /// For the access log of a connection that was not put through: status, and answer.
    pub(super) const fn in_log(self) -> (u16, Answered) {
        match self {
            Self::HeldTooLong => (504, Answered::Timeout),
            Self::OverBudget => (503, Answered::Budget),
            Self::Network => (403, Answered::Denied),
            Self::Silent => (408, Answered::Refused),
            Self::Left => (499, Answered::Gone),
            Self::Answered => (200, Answered::Monitor),
            Self::Unreachable
            | Self::Exhausted
            | Self::Loops
            | Self::WakeFailed
            | Self::QueueFull
            | Self::Stopped => (503, Answered::Unavailable),
            _ => (400, Answered::Refused),
        }
    }
}

/// The connections of a service.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    outcomes: [AtomicU64; Outcome::ALL.len()],
    /// Put through now; held now; put through without keeping the server awake.
    pub(crate) open: AtomicU64,
    pub(crate) held: AtomicU64,
    pub(crate) quiet: AtomicU64,
    /// Held connections by client.
    pub(super) shares: Places,
    /// How many had to be held.
    pub(crate) waited: AtomicU64,
    /// Bytes from clients, and to them.
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
}

/// Counts as long as it exists.
pub(super) struct Counted<'a>(&'a AtomicU64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection's place among the held ones, and in its client's share of them.
pub(super) struct Waiting<'a> {
    pub(super) _counted: Counted<'a>,
    pub(super) _share: Option<Place>,
}

/// How many of `most` places one client may have: a quarter, but at least enough for a person with several windows.
pub(super) const fn share_of(most: usize) -> usize {
    let quarter = most / 4;
    if quarter < 4 { 4 } else { quarter }
}

impl Tally {
    pub(super) fn count(&self, outcome: Outcome) {
        self.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that is put through.
    pub(super) fn opens(&self) -> Counted<'_> {
        self.open.fetch_add(1, Ordering::Relaxed);
        Counted(&self.open)
    }

    /// Put through now, and not quiet.
    pub(crate) fn active(&self) -> u64 {
        let quiet = self.quiet.load(Ordering::Relaxed);
        self.open.load(Ordering::Relaxed).saturating_sub(quiet)
    }

    /// Counts a connection that falls quiet.
    pub(super) fn falls_quiet(&self) {
        self.quiet.fetch_add(1, Ordering::Relaxed);
    }

    /// A quiet connection is active again.
    pub(super) fn stirs(&self) {
        self.quiet.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a held connection, if there are no more than `most`. `first` if it was not held before: it is counted
    /// once, however many times it waits.
    pub(super) fn holds(&self, most: usize, first: bool) -> Option<Counted<'_>> {
        let before = self.held.fetch_add(1, Ordering::Relaxed);
        let place = Counted(&self.held);
        if before >= most as u64 {
            return None;
        }
        self.waited.fetch_add(u64::from(first), Ordering::Relaxed);
        Some(place)
    }

    /// The count of each outcome.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |outcome: Outcome| self.outcomes[outcome as usize].load(Ordering::Relaxed);
        Outcome::ALL.into_iter().map(move |outcome| (outcome.as_str(), count(outcome)))
    }
}
