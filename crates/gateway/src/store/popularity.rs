//! The popularity of a stored answer, which determines whether it is renewed without a request.

use std::sync::atomic::{AtomicU64, Ordering};

use nightwatt_policy::admission::ClientClass;

/// Who needs the server's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requester {
    /// A client of this class.
    Of(ClientClass),
    /// No client: a stored answer is renewed.
    Renewal,
}

/// A sum over its requests, halved by each renewal without a request.
///
/// A request by a person counts 2^27, so that after the last one an answer is renewed 28 times more (2^27, 2^26, ...
/// 1): two weeks, with a grace of a day. A request by a crawler counts an eighth of that, for 25 renewals. At zero the
/// answer is not renewed any more.
#[derive(Debug, Default)]
pub(crate) struct Popularity(AtomicU64);

impl Popularity {
    /// What one request counts. Without a stored answer, a client wakes the server, is rejected, or is not ours.
    pub(crate) const fn worth(class: ClientClass) -> u64 {
        match class {
            ClientClass::Human | ClientClass::Api => 1 << 27,
            ClientClass::Crawler => 1 << 24,
            ClientClass::Scanner | ClientClass::Monitor => 0,
        }
    }

    /// The popularity of an answer that replaces `known`.
    pub(crate) fn of(known: Option<&Self>, requester: Requester) -> Self {
        let known = known.map_or(0, Self::get);
        Self(AtomicU64::new(match requester {
            Requester::Of(class) => known + Self::worth(class),
            Requester::Renewal => known / 2,
        }))
    }

    /// The popularity that was stored on the disk.
    pub(crate) const fn again(popularity: u64) -> Self {
        Self(AtomicU64::new(popularity))
    }

    /// The answer was sent to a client.
    pub(crate) fn asked(&self, class: ClientClass) {
        self.0.fetch_add(Self::worth(class), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of renewals without a request until the popularity is zero.
    fn renewals(mut popularity: Popularity) -> u32 {
        let mut renewals = 0;
        while popularity.get() > 0 {
            popularity = Popularity::of(Some(&popularity), Requester::Renewal);
            renewals += 1;
        }
        renewals
    }

    #[test]
    fn a_person_is_worth_28_renewals_a_crawler_25_a_scanner_none() {
        let of = |class| renewals(Popularity::of(None, Requester::Of(class)));
        assert_eq!(of(ClientClass::Human), 28);
        assert_eq!(of(ClientClass::Api), 28);
        assert_eq!(of(ClientClass::Crawler), 25);
        assert_eq!((of(ClientClass::Scanner), of(ClientClass::Monitor)), (0, 0));
    }

    #[test]
    fn whoever_asks_again_counts_again() {
        let popularity = Popularity::of(None, Requester::Of(ClientClass::Human));
        for _ in 0..3 {
            popularity.asked(ClientClass::Human);
        }
        assert_eq!(renewals(popularity), 30, "four times as much: halved twice more");
    }
}
