//! What became of sessions and datagrams, and their number.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nightwatt_policy::datagrams::Refusal;

use crate::access_log::Answered;

/// The outcome of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server answered, and then nothing came for `idle_timeout`.
    Idle,
    /// It was forwarded, and the server did not answer.
    Unanswered,
    /// It made room for another one before the server answered, or a reload has ended it.
    Displaced,
    /// The server did not wake.
    WakeFailed,
    /// The server did not wake in time.
    HeldTooLong,
    /// Too many were held already.
    QueueFull,
    /// Its client has woken the server too often.
    OverBudget,
    /// The name of the service leads nowhere, or the network is down.
    Unreachable,
    /// This machine has no descriptors, ports or memory left.
    Exhausted,
    /// The service has an address where nightwatt itself listens.
    Loops,
    /// nightwatt stops.
    Stopped,
}

impl Outcome {
    /// Every outcome.
    pub(crate) const ALL: [Self; 11] = [
        Self::Idle,
        Self::Unanswered,
        Self::Displaced,
        Self::WakeFailed,
        Self::HeldTooLong,
        Self::QueueFull,
        Self::OverBudget,
        Self::Unreachable,
        Self::Exhausted,
        Self::Loops,
        Self::Stopped,
    ];

    /// Its name in status and metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Unanswered => "unanswered",
            Self::Displaced => "displaced",
            Self::WakeFailed => "wake-failed",
            Self::HeldTooLong => "held-too-long",
            Self::QueueFull => "queue-full",
            Self::OverBudget => "over-budget",
            Self::Unreachable => "unreachable",
            Self::Exhausted => "exhausted",
            Self::Loops => "loops",
            Self::Stopped => "stopped",
        }
    }

    /// For the access log of a session that was not put through: status, and answer.
    pub(super) const fn in_log(self) -> (u16, Answered) {
        match self {
            Self::HeldTooLong => (504, Answered::Timeout),
            Self::OverBudget => (503, Answered::Budget),
            _ => (503, Answered::Unavailable),
        }
    }
}

/// Why a datagram was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// Its address is in no network that may use the service, or it was sent to several machines.
    Network,
    /// The server sleeps, and this is not what wakes it.
    NoWake,
    /// Clients that the server has never answered have woken it too often.
    Strangers,
    /// No session is left, for all or for this client.
    Sessions,
    /// Too much waits already.
    Held,
    /// It could not be sent, or its session ended before.
    Unsent,
}

impl Dropped {
    /// Every reason.
    pub(crate) const ALL: [Self; 6] =
        [Self::Network, Self::NoWake, Self::Strangers, Self::Sessions, Self::Held, Self::Unsent];

    /// Its name in status and metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::NoWake => "no-wake",
            Self::Strangers => "strangers",
            Self::Sessions => "sessions",
            Self::Held => "held",
            Self::Unsent => "unsent",
        }
    }
}

impl From<Refusal> for Dropped {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoWake => Self::NoWake,
            Refusal::Strangers => Self::Strangers,
            Refusal::Full | Refusal::Share => Self::Sessions,
        }
    }
}

/// The sessions and datagrams of a service.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    outcomes: [AtomicU64; Outcome::ALL.len()],
    dropped: [AtomicU64; Dropped::ALL.len()],
    /// Sessions that keep the server awake now, and those that are held.
    pub(crate) active: AtomicU64,
    pub(crate) held: AtomicU64,
    /// How many had to be held.
    pub(crate) waited: AtomicU64,
    /// Datagrams and bytes from clients, and to them.
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
    /// How often first datagrams were sent again to a service that had just woken.
    pub(crate) resent: AtomicU64,
    /// Look-ups of the service's name that found an address, and those that did not.
    pub(crate) look_ups: [AtomicU64; 2],
    /// Datagrams in memory, and their bytes.
    queued: AtomicUsize,
    queued_bytes: AtomicUsize,
}

/// Counts as long as it exists.
#[derive(Debug)]
pub(super) struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    pub(super) fn new(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tally {
    pub(super) fn count(&self, outcome: Outcome) {
        self.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn drops(&self, why: Dropped) {
        self.dropped[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a datagram of a client that is forwarded.
    pub(super) fn receives(&self, length: usize) {
        self.received.fetch_add(1, Ordering::Relaxed);
        self.received_bytes.fetch_add(length as u64, Ordering::Relaxed);
    }

    /// Notes that a datagram, which is counted already, was sent again.
    pub(super) fn sends_again(&self) {
        self.resent.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a look-up of the service's name.
    pub(super) fn looks_up(&self, is_found: bool) {
        self.look_ups[usize::from(!is_found)].fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a datagram to a client.
    pub(super) fn sends(&self, length: usize) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.sent_bytes.fetch_add(length as u64, Ordering::Relaxed);
    }

    /// Takes memory for a datagram, unless `most` datagrams or `most_bytes` are in memory.
    pub(super) fn keeps(&self, length: usize, most: usize, most_bytes: usize) -> bool {
        let queued = self.queued.fetch_add(1, Ordering::Relaxed);
        let bytes = self.queued_bytes.fetch_add(length, Ordering::Relaxed);
        let fits = queued < most && bytes + length <= most_bytes;
        if !fits {
            self.releases(length);
        }
        fits
    }

    /// Releases the memory of a datagram.
    pub(super) fn releases(&self, length: usize) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
        self.queued_bytes.fetch_sub(length, Ordering::Relaxed);
    }

    /// The count of each outcome.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |outcome: Outcome| self.outcomes[outcome as usize].load(Ordering::Relaxed);
        Outcome::ALL.into_iter().map(move |outcome| (outcome.as_str(), count(outcome)))
    }

    /// The count of each reason to drop a datagram.
    pub(crate) fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |why: Dropped| self.dropped[why as usize].load(Ordering::Relaxed);
        Dropped::ALL.into_iter().map(move |why| (why.as_str(), count(why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_by_number_and_by_bytes() {
        let tally = Tally::default();
        assert!(tally.keeps(600, 3, 1000));
        assert!(!tally.keeps(401, 3, 1000), "1001 bytes");
        assert!(tally.keeps(400, 3, 1000) && tally.keeps(0, 3, 1000));
        assert!(!tally.keeps(0, 3, 1000), "four datagrams");
        tally.releases(600);
        assert!(tally.keeps(600, 3, 1000));
    }
}
