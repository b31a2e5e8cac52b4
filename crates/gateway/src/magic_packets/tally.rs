//! What was heard of magic packets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use nightwatt_energy::time::Mono;
use nightwatt_policy::rate::{Rate, RateLimiter};
use nightwatt_power::wol::Mac;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It wakes its server.
    Woke,
    /// Its server is awake or wakes already.
    Awake,
    /// It is for a card of no server.
    Unknown,
    /// It lacks the password of the card.
    Password,
    /// It comes from a network that is not heard.
    Network,
    /// This machine has sent it.
    Own,
    /// Its server was woken too often.
    Rate,
    /// It is not a magic packet.
    Malformed,
}

impl Outcome {
    /// Every outcome.
    const ALL: [Self; 8] = [
        Self::Woke,
        Self::Awake,
        Self::Unknown,
        Self::Password,
        Self::Network,
        Self::Own,
        Self::Rate,
        Self::Malformed,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Woke => "woke",
            Self::Awake => "awake",
            Self::Unknown => "unknown",
            Self::Password => "password",
            Self::Network => "network",
            Self::Own => "own",
            Self::Rate => "rate",
            Self::Malformed => "malformed",
        }
    }
}

/// What all gateways of this process have heard.
#[derive(Debug, Default)]
pub(crate) struct MagicPackets {
    counts: [AtomicU64; Outcome::ALL.len()],
    limiter: Mutex<Option<(Rate, RateLimiter)>>,
    listening: Mutex<Listening>,
}

/// Where packets are heard.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listening {
    /// The addresses that are open.
    pub(crate) addresses: Vec<String>,
    /// Why nothing is heard at others.
    pub(crate) problem: Option<String>,
}

impl MagicPackets {
    pub(super) fn count(&self, outcome: Outcome) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The count of each outcome.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |it: Outcome| self.counts[it as usize].load(Ordering::Relaxed);
        Outcome::ALL.into_iter().map(move |it| (it.as_str(), count(it)))
    }

    /// Where packets are heard now.
    pub(crate) fn listening(&self) -> Listening {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn note(&self, addresses: Vec<String>, problem: Option<String>) {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        *listening = Listening { addresses, problem };
    }

    /// Whether the server of this card may be woken now.
    pub(super) fn admits(&self, now: Mono, rate: Rate, mac: Mac) -> bool {
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let (was, _) = limiter.get_or_insert_with(|| (rate, RateLimiter::new(rate)));
        if *was != rate {
            *limiter = Some((rate, RateLimiter::new(rate)));
        }
        let key = mac.0.iter().fold(0, |key, byte| key << 8 | u64::from(*byte));
        limiter.as_mut().is_some_and(|(_, limiter)| limiter.admit(now, key).is_ok())
    }
}
