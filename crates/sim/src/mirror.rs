//! What a mirror of the site would have answered while the server slept, as far as a log can tell.
//!
//! A log shows which URLs were asked for, and not which exist. So there are bounds: [`Extent::Remembered`]
//! holds what was asked for before, [`Extent::Crawled`] also what a first request shows to exist.

use nightwatt_energy::time::Mono;
use nightwatt_mirror::pure::Timestamp;
use nightwatt_mirror::pure::bypass::Bypasses;

use crate::entries::Slot;
use crate::resource::{Resource, Shows};

/// How much of a site the mirror holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// What was asked for before.
    Remembered,
    /// Also pages that were not requested before, as far as the log shows that they exist.
    Crawled,
    /// Also every path where there is nothing (`complete = true`).
    Complete,
}

/// The model of a mirror. It has room for the URLs that have a [`Slot`].
#[derive(Debug)]
pub struct MirrorModel {
    extent: Extent,
    held: Vec<Option<Held>>,
    counts: Counts,
    /// How often the site has changed: what was missing before may be there since.
    changes: u32,
    /// Clients that have changed something.
    bypasses: Bypasses,
}

/// What is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Page,
    Part,
    /// As of this many changes of the site.
    Gone(u32),
}

/// How many URLs are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) all: u32,
    /// Those that a change of the site may change.
    pub(crate) pages: u32,
}

impl MirrorModel {
    /// An empty one.
    pub fn new(extent: Extent) -> Self {
        Self {
            extent,
            held: Vec::new(),
            counts: Counts::default(),
            changes: 0,
            bypasses: Bypasses::default(),
        }
    }

    /// Whether it has an answer for this request of a client while the server sleeps.
    pub fn answers(&self, resource: &Resource, client: u64, now: Mono) -> bool {
        let Resource { slot, mirror: mirrorable, .. } = *resource;
        if slot == Slot::NONE {
            return false;
        }
        let is_held = match self.held.get(slot.index()).copied().flatten() {
            Some(Held::Gone(changes)) => changes == self.changes,
            Some(Held::Page | Held::Part) => true,
            None => false,
        };
        let may = mirrorable.if_requested_before && is_held
            || mirrorable.if_crawled && self.extent >= Extent::Crawled
            || mirrorable.if_gone && self.extent == Extent::Complete;
        may && !self.bypasses.is_bypassed(client, timestamp(now))
    }

    /// The server answered `client`; returns whether that changed the site.
    pub fn answered(&mut self, resource: &Resource, client: u64, now: Mono) -> bool {
        let Resource { slot, mirror, .. } = *resource;
        let held = match mirror.shows {
            Shows::Nothing => return false,
            Shows::Page => Some(Held::Page),
            Shows::Part => Some(Held::Part),
            Shows::Gone => Some(Held::Gone(self.changes)),
            Shows::Refused => None,
            Shows::Change => {
                self.changes = self.changes.wrapping_add(1);
                self.bypasses.changed(client, timestamp(now));
                return true;
            }
        };
        if slot != Slot::NONE {
            self.hold(slot.index(), held);
        }
        false
    }

    fn hold(&mut self, index: usize, held: Option<Held>) {
        if index >= self.held.len() {
            if held.is_none() {
                return;
            }
            self.held.resize((index + 1).next_power_of_two(), None);
        }
        let before = std::mem::replace(&mut self.held[index], held);
        let is_page = |held: Option<Held>| u32::from(held == Some(Held::Page));
        self.counts.all = self.counts.all + u32::from(held.is_some()) - u32::from(before.is_some());
        self.counts.pages = self.counts.pages + is_page(held) - is_page(before);
    }

    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }
}

/// As the rules of the mirror have times.
fn timestamp(at: Mono) -> Timestamp {
    Timestamp::from_millis(u64::try_from(at.0.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nightwatt_mirror::pure::bypass::BYPASS;
    use proptest::prelude::*;

    use super::*;
    use crate::entries::Slots;
    use crate::resource::Mirrorable;

    const PAGE: Mirrorable = Mirrorable {
        if_requested_before: true,
        if_crawled: true,
        if_gone: false,
        shows: Shows::Page,
    };
    const GONE: Mirrorable =
        Mirrorable { if_crawled: false, if_gone: true, shows: Shows::Gone, ..PAGE };
    const CHANGE: Mirrorable = Mirrorable { shows: Shows::Change, ..Mirrorable::NOTHING };
    const NOW: Mono = Mono::from_secs(100);

    /// A URL of which the mirror may do this.
    fn url(mirror: Mirrorable) -> Resource {
        let slot = Slots::default().of(7, true);
        Resource { key: 7, slot, bytes: 1000, is_read: true, storable: true, mirror }
    }

    fn noted(mirror: &mut MirrorModel, asks: Mirrorable, client: u64) -> bool {
        mirror.answered(&url(asks), client, NOW)
    }

    #[test]
    fn each_extent_holds_what_the_one_before_does_and_more() {
        let answers = |extent, asks| MirrorModel::new(extent).answers(&url(asks), 1, NOW);
        let all = [Extent::Remembered, Extent::Crawled, Extent::Complete];
        assert_eq!(all.map(|extent| answers(extent, PAGE)), [false, true, true]);
        assert_eq!(all.map(|extent| answers(extent, GONE)), [false, false, true]);
        for extent in all {
            let mut mirror = MirrorModel::new(extent);
            noted(&mut mirror, PAGE, 1);
            assert!(mirror.answers(&url(PAGE), 1, NOW), "{extent:?}");
            let unnumbered = Resource { slot: Slot::NONE, ..url(PAGE) };
            assert!(!mirror.answers(&unnumbered, 1, NOW), "no room");
        }
    }

    #[test]
    fn a_change_forgets_what_was_missing_and_lets_its_client_bypass_the_mirror() {
        let mut mirror = MirrorModel::new(Extent::Remembered);
        noted(&mut mirror, GONE, 1);
        assert!(mirror.answers(&url(GONE), 2, NOW));
        assert!(noted(&mut mirror, CHANGE, 1));
        assert!(!mirror.answers(&url(GONE), 2, NOW), "it may be there now");
        noted(&mut mirror, PAGE, 2);
        assert!(mirror.answers(&url(PAGE), 2, NOW));
        assert!(!mirror.answers(&url(PAGE), 1, NOW + Duration::from_secs(599)));
        assert!(mirror.answers(&url(PAGE), 1, NOW + BYPASS));
    }

    #[test]
    fn what_not_everyone_may_see_is_forgotten() {
        let mut mirror = MirrorModel::new(Extent::Remembered);
        noted(&mut mirror, PAGE, 1);
        assert_eq!(mirror.counts(), Counts { all: 1, pages: 1 });
        noted(&mut mirror, Mirrorable { shows: Shows::Refused, ..PAGE }, 1);
        assert_eq!(mirror.counts(), Counts::default());
        assert!(!mirror.answers(&url(PAGE), 1, NOW));
    }

    #[test]
    fn clients_that_change_something_do_not_fill_the_memory() {
        let mut mirror = MirrorModel::new(Extent::Remembered);
        for client in 0..20_000 {
            noted(&mut mirror, CHANGE, client);
        }
        noted(&mut mirror, PAGE, 1);
        assert!(!mirror.answers(&url(PAGE), 30_000, NOW), "not even who has changed nothing");
        assert!(mirror.answers(&url(PAGE), 30_000, NOW + BYPASS));
    }

    fn asks() -> impl Strategy<Value = Mirrorable> {
        let shows = prop_oneof![
            4 => Just(Shows::Page),
            1 => Just(Shows::Part),
            2 => Just(Shows::Gone),
            1 => Just(Shows::Refused),
            1 => Just(Shows::Change),
            1 => Just(Shows::Nothing),
        ];
        (any::<[bool; 3]>(), shows).prop_map(
            |([if_requested_before, if_crawled, if_gone], shows)| Mirrorable {
                if_requested_before,
                if_crawled,
                if_gone,
                shows,
            },
        )
    }

    proptest! {
        /// Taught the same, each extent answers all that the one before it answers.
        #[test]
        fn a_larger_extent_answers_whatever_a_smaller_one_does(
            requests in proptest::collection::vec((0_u64..8, asks(), 0_u64..3, 0_u64..400), 0..300),
        ) {
            let all = [Extent::Remembered, Extent::Crawled, Extent::Complete];
            let mut mirrors = all.map(MirrorModel::new);
            let mut slots = Slots::default();
            let mut now = NOW;
            for (key, mirror, client, gap) in requests {
                now = now + Duration::from_secs(gap);
                let asked = Resource { key, slot: slots.of(key, true), ..url(mirror) };
                let answers = mirrors.each_ref().map(|it| it.answers(&asked, client, now));
                prop_assert!(answers.is_sorted(), "{answers:?} to {asked:?}");
                let changed = mirrors.each_mut().map(|it| it.answered(&asked, client, now));
                prop_assert_eq!(changed, [mirror.shows == Shows::Change; 3]);
                prop_assert_eq!(mirrors[0].counts(), mirrors[2].counts());
            }
        }
    }
}
