//! The addresses that are known, and what is known of each.

use std::collections::HashMap;

use nightwatt_httpcache::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Meeting, PassKind};
use crate::pure::address::Address;
use crate::pure::popularity::Popularity;
use crate::pure::reason::{Reason, ReasonKind};
use crate::pure::refresh::RefreshRules;
use crate::pure::refused_addresses::Origin;
use crate::pure::traps::{TrapCounters, TrapRules};

/// What is known of an address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Page {
    /// Links from the start.
    pub depth: u16,
    /// Requests of clients.
    pub popularity: Popularity,
    /// It is a sitemap or a feed: it says what has changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_hint: bool,
    /// When it last changed, as a sitemap or a feed says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ms: Option<u64>,
    /// A page that links to it, or lists it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) linked_by: Option<Address>,
    /// When a link last led to it.
    #[serde(skip)]
    met: Option<Timestamp>,
    /// When its own links were last read.
    #[serde(skip)]
    read: Option<Timestamp>,
    /// When the server last failed to give it.
    #[serde(skip)]
    failed: Option<Timestamp>,
    /// The last answer took too long: the server's sleep does not wait for another one.
    #[serde(skip)]
    timed_out: bool,
    /// It is to be confirmed before the server sleeps, whatever its age.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_outdated: bool,
    /// It was mirrored and is not any more, since it was purged or lost: it is known to have existed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) was_good: bool,
    /// What has become of it.
    pub state: PageState,
}

/// What has become of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageState {
    /// It was not fetched yet.
    New,
    /// It is mirrored.
    Kept {
        /// When it came in, or was last confirmed, in milliseconds since 1970.
        confirmed_ms: u64,
        /// It says that nothing is here, or that it is elsewhere.
        is_negative: bool,
        /// It says that nothing is here: 404 or 410.
        #[serde(default)]
        is_gone: bool,
        /// It is HTML.
        is_page: bool,
    },
    /// It is not.
    Refused {
        /// Why.
        reason: Reason,
        /// Since when, in milliseconds since 1970.
        at_ms: u64,
    },
}

impl Page {
    /// Why it is not mirrored.
    pub fn refused(&self) -> Option<Reason> {
        match self.state {
            PageState::Refused { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// When it came in, or was last confirmed.
    pub fn confirmed(&self) -> Option<Timestamp> {
        match self.state {
            PageState::Kept { confirmed_ms, .. } => Some(Timestamp::from_millis(confirmed_ms)),
            _ => None,
        }
    }

    /// Whether it says that nothing is here.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.state, PageState::Kept { is_gone: true, .. })
    }

    /// Whether it is mirrored, and there.
    pub(super) fn is_good(&self) -> bool {
        matches!(self.state, PageState::Kept { is_negative: false, .. })
    }

    /// Whether it is mirrored, as a page or as a redirect.
    pub(super) fn is_there(&self) -> bool {
        matches!(self.state, PageState::Kept { is_gone: false, .. })
    }

    /// Whether its links are those that it had before `began`: it was not read since.
    fn still_links(&self, began: Timestamp) -> bool {
        self.is_good() && self.read.is_none_or(|read| read < began)
    }

    /// Whether it is a sitemap or a feed, and is there.
    pub(super) fn lists_changes(&self) -> bool {
        self.is_hint && !matches!(self.state, PageState::Kept { is_negative: true, .. })
    }

    /// Whether a sitemap or a feed says that it has changed since it was confirmed.
    pub(super) fn is_listed_as_changed(&self) -> bool {
        let confirmed = self.confirmed().map(Timestamp::as_millis);
        confirmed.is_some_and(|confirmed| self.modified_ms.is_some_and(|it| it > confirmed))
    }

    /// Whether something says that its content has changed since it was confirmed: then it is not given.
    pub fn is_doubtful(&self) -> bool {
        self.is_outdated || self.is_listed_as_changed()
    }

    /// Whether the last answer took too long: the next whole pass requests it again.
    pub fn took_too_long(&self) -> bool {
        self.timed_out
    }

    /// Whether a pass is to fetch it.
    pub(super) fn is_due(
        &self,
        kind: PassKind,
        began: Timestamp,
        now: Timestamp,
        rules: &RefreshRules,
    ) -> bool {
        match (self.state, kind) {
            (PageState::New, _) => true,
            (PageState::Kept { confirmed_ms, .. }, PassKind::Whole) => {
                // What was confirmed a moment before the pass is as good as confirmed by it.
                let confirmed = Timestamp::from_millis(confirmed_ms);
                let is_recent = began.since(confirmed) < rules.max_age / 8 && confirmed <= now;
                self.is_doubtful() || !is_recent
            }
            (PageState::Kept { .. }, PassKind::Refresh) if self.timed_out => false,
            (PageState::Kept { confirmed_ms, .. }, PassKind::Refresh) => {
                let confirmed = Timestamp::from_millis(confirmed_ms);
                let popularity = if self.lists_changes() { 1.0 } else { self.popularity.at(now) };
                self.is_doubtful() || rules.is_due(confirmed, popularity, now)
            }
            (PageState::Refused { reason, at_ms }, PassKind::Whole) => match reason.kind() {
                ReasonKind::ByAddress => false,
                ReasonKind::ByFailure => Timestamp::from_millis(at_ms) < began,
                ReasonKind::ByAnswer | ReasonKind::ByBound => {
                    is_retried(reason)
                        && began.since(Timestamp::from_millis(at_ms)) >= rules.max_age
                }
            },
            (PageState::Refused { .. }, PassKind::Refresh) => false,
        }
    }
}

/// Whether a later answer may be another one. Bounds on addresses are looked at when addresses come up.
fn is_retried(reason: Reason) -> bool {
    reason.kind() == ReasonKind::ByAnswer || matches!(reason, Reason::TooLarge | Reason::StoreFull)
}

/// Whether it counts as one of the `pages`: there is something, or may be.
fn counts(page: &Page) -> bool {
    is_fetched(page) && !matches!(page.state, PageState::Kept { is_negative: true, .. })
}

/// Whether what was learned from an answer may be outdated: the operator says that content has changed.
fn is_by_answer(page: &Page) -> bool {
    page.refused().is_some_and(|it| it.kind() == ReasonKind::ByAnswer || it == Reason::TooLarge)
}

/// Requests below this are as good as none.
const UNPOPULAR: f64 = 0.1;

/// All of them.
#[derive(Debug)]
pub(super) struct Pages {
    known: HashMap<Address, Page>,
    traps: TrapCounters,
    most: usize,
    /// Those that are fetched and may exist: neither excluded by their address nor by a bound.
    fetched: usize,
}

fn is_fetched(page: &Page) -> bool {
    page.refused().is_none_or(|reason| is_retried(reason) || reason.kind() == ReasonKind::ByFailure)
}

impl Pages {
    pub(super) fn new(traps: TrapRules, most: usize) -> Self {
        Self { known: HashMap::new(), traps: TrapCounters::new(traps), most, fetched: 0 }
    }

    pub(super) fn get(&self, address: &Address) -> Option<&Page> {
        self.known.get(address)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Address, &Page)> {
        self.known.iter()
    }

    /// How many addresses are fetched and may exist.
    pub(super) fn fetched(&self) -> usize {
        self.fetched
    }

    /// Notes what a meeting says of a known address; true if it is not known.
    ///
    /// What was refused for its address or by a bound on addresses gets another chance each time.
    pub(super) fn meet(&mut self, address: &Address, meeting: &Meeting, now: Timestamp) -> bool {
        let Some(page) = self.known.get_mut(address) else { return true };
        if meeting.origin != Origin::Requested {
            page.met = Some(now);
            page.linked_by.clone_from(&meeting.linked_by);
        }
        page.depth = page.depth.min(meeting.depth);
        page.is_hint |= meeting.is_hint;
        page.modified_ms = page.modified_ms.max(meeting.modified_before(now));
        let may_be_better = page.refused().is_some_and(Reason::is_before_fetch);
        may_be_better && !meeting.is_not_followed
    }

    /// Counts a new address by its form.
    pub(super) fn count(&mut self, address: &Address, now: Timestamp) -> Result<(), Reason> {
        self.traps.count(address, now)
    }

    /// Adds an address to fetch; false if there is no room.
    pub(super) fn insert(&mut self, address: &Address, meeting: &Meeting, now: Timestamp) -> bool {
        self.put(address, meeting, PageState::New, now)
    }

    /// Adds an address that is not to be fetched; false if there is no room.
    pub(super) fn refuse_new(
        &mut self,
        address: &Address,
        meeting: &Meeting,
        reason: Reason,
        now: Timestamp,
    ) -> bool {
        // Of what clients alone know nothing is kept: they can make up addresses without end.
        if meeting.origin == Origin::Requested {
            return true;
        }
        let state = PageState::Refused { reason, at_ms: now.as_millis() };
        self.put(address, meeting, state, now)
    }

    fn put(
        &mut self,
        address: &Address,
        meeting: &Meeting,
        state: PageState,
        now: Timestamp,
    ) -> bool {
        if self.known.contains_key(address) {
            self.set(address, state);
            return true;
        }
        if self.known.len() >= self.most {
            return false;
        }
        let page = Page {
            depth: meeting.depth,
            popularity: Popularity::default(),
            is_hint: meeting.is_hint,
            modified_ms: meeting.modified_before(now),
            linked_by: meeting.linked_by.clone(),
            met: Some(now),
            read: None,
            failed: None,
            timed_out: false,
            is_outdated: false,
            was_good: false,
            state,
        };
        self.fetched += usize::from(counts(&page));
        self.known.insert(address.clone(), page);
        true
    }

    /// Takes over a page from what was saved.
    pub(super) fn restore(&mut self, address: Address, page: Page) {
        if self.known.len() < self.most {
            self.fetched += usize::from(counts(&page));
            self.known.insert(address, page);
        }
    }

    /// Sets what has become of an address.
    pub(super) fn set(&mut self, address: &Address, state: PageState) {
        if let Some(page) = self.known.get_mut(address) {
            self.fetched -= usize::from(counts(page));
            page.was_good = match state {
                PageState::New => page.was_good || page.is_there(),
                PageState::Refused { reason, .. } => {
                    page.was_good && reason.kind() == ReasonKind::ByFailure
                }
                PageState::Kept { .. } => false,
            };
            page.state = state;
            page.is_outdated = false;
            if page.refused().is_none_or(|it| it.kind() != ReasonKind::ByFailure) {
                page.failed = None;
                page.timed_out = false;
            }
            self.fetched += usize::from(counts(page));
        }
    }

    /// Whether an address was mirrored until it was purged or lost.
    pub(super) fn was_good(&self, address: &Address) -> bool {
        self.known.get(address).is_some_and(|page| page.was_good)
    }

    /// Sets whether a page is to be confirmed; returns whether it was to be before.
    pub(super) fn set_outdated(&mut self, address: &Address, is_outdated: bool) -> bool {
        let page = self.known.get_mut(address);
        page.is_some_and(|page| std::mem::replace(&mut page.is_outdated, is_outdated))
    }

    /// Notes that the server failed to give a page; returns whether it did so before `began`, too.
    pub(super) fn failed(&mut self, address: &Address, began: Timestamp, now: Timestamp) -> bool {
        let page = self.known.get_mut(address);
        let before = page.and_then(|page| page.failed.replace(now));
        before.is_some_and(|before| before < began)
    }

    /// Notes that the answer for a page took too long.
    pub(super) fn timed_out(&mut self, address: &Address) {
        if let Some(page) = self.known.get_mut(address) {
            page.timed_out = true;
        }
    }

    /// Notes that the links of a page were read.
    pub(super) fn read(&mut self, address: &Address, now: Timestamp) {
        if let Some(page) = self.known.get_mut(address) {
            page.read = Some(now);
        }
    }

    /// Forgets addresses that are gone, if a whole pass that began at `began` found no link to them, and clients do
    /// not request them. Returns them.
    pub(super) fn forget_dead(&mut self, began: Timestamp, now: Timestamp) -> Vec<Address> {
        let is_linked = |page: &Page| {
            let linker = page.linked_by.as_ref().and_then(|it| self.known.get(it));
            page.met.is_some_and(|met| met >= began)
                || linker.is_some_and(|linker| linker.still_links(began))
        };
        let is_dead =
            |page: &Page| page.is_gone() && !is_linked(page) && page.popularity.at(now) < UNPOPULAR;
        let dead = self.known.iter().filter(|(_, page)| is_dead(page));
        let dead: Vec<Address> = dead.map(|(address, _)| address.clone()).collect();
        for address in &dead {
            self.known.remove(address);
        }
        dead
    }

    /// What was refused for its answer is fetched again.
    pub(super) fn retry(&mut self, is_meant: impl Fn(&Address) -> bool) {
        let refused = self.known.iter().filter(|(_, page)| is_by_answer(page));
        let meant = refused.map(|(address, _)| address).filter(|address| is_meant(address));
        for address in meant.cloned().collect::<Vec<_>>() {
            self.set(&address, PageState::New);
        }
    }

    /// Sets that an address whose answer was restored is mirrored. What was to be confirmed still is.
    pub(super) fn set_restored(&mut self, address: &Address, state: PageState) {
        let was_outdated = self.known.get(address).is_some_and(|page| page.is_outdated);
        self.set(address, state);
        if let Some(page) = self.known.get_mut(address) {
            page.is_outdated = was_outdated;
        }
    }

    /// Notes a client's request; false if the address is not known.
    pub(super) fn requested(&mut self, address: &Address, now: Timestamp) -> bool {
        let Some(page) = self.known.get_mut(address) else { return false };
        page.popularity = page.popularity.requested(now);
        is_fetched(page)
    }

    /// After a change: pages are to be confirmed, and negative answers go. Returns the latter.
    pub(super) fn outdate_after_change(&mut self) -> Vec<Address> {
        let mut negative = Vec::new();
        for (address, page) in &mut self.known {
            match page.state {
                PageState::Kept { is_negative: true, is_gone, .. } => {
                    page.was_good = !is_gone;
                    page.state = PageState::New;
                    self.fetched += 1;
                    negative.push(address.clone());
                }
                PageState::Kept { is_page: true, .. } => page.is_outdated = true,
                _ => page.is_outdated |= page.lists_changes(),
            }
        }
        negative
    }

    /// All that begins so is to be confirmed.
    pub(super) fn outdate(&mut self, prefix: &str) {
        for (address, page) in &mut self.known {
            let is_meant = address.as_str().starts_with(prefix);
            page.is_outdated |= page.lists_changes() || is_meant;
            // What took too long may be quick now.
            page.timed_out &= !is_meant;
        }
    }

    /// When the oldest answer was confirmed.
    pub(super) fn oldest_kept(&self) -> Option<Timestamp> {
        self.known.values().filter_map(Page::confirmed).min()
    }
}
