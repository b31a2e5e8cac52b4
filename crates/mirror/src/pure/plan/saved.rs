//! A plan as it is kept across restarts.

use nightwatt_httpcache::Timestamp;
use serde::{Deserialize, Serialize};

use super::pages::{Page, PageState};
use super::{Planner, Site};
use crate::pure::address::Address;
use crate::pure::complete::SavedCompleteness;
use crate::pure::coverage::Coverage;
use crate::pure::entry::Entry;
use crate::pure::own_use::OwnUse;
use crate::pure::robots::Robots;

/// What is saved of a plan. Later versions read it: fields are only ever added, with a default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedPlan {
    /// The site that it is about.
    #[serde(default)]
    site: String,
    #[serde(default)]
    pages: Vec<SavedPage>,
    #[serde(default)]
    last_whole_ms: Option<u64>,
    #[serde(default)]
    changed_ms: Option<u64>,
    #[serde(default)]
    complete: SavedCompleteness,
    /// It is believed that the site has no start page.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    start_is_gone: bool,
    /// What robots.txt said.
    #[serde(default)]
    robots: Option<Robots>,
    /// Not a part of the plan, but kept with it.
    #[serde(default)]
    pub coverage: Coverage,
    /// The same.
    #[serde(default)]
    pub own_use: OwnUse,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SavedPage {
    address: Address,
    #[serde(flatten)]
    page: Page,
}

impl Planner {
    /// What to save.
    pub fn saved(&self) -> SavedPlan {
        let pages = self.pages.iter();
        let pages = pages.map(|(address, page)| {
            // Of what exists, its links are not asked for.
            let mut page = page.clone();
            page.linked_by = page.linked_by.take().filter(|_| page.is_gone());
            SavedPage { address: address.clone(), page }
        });
        let mut pages: Vec<SavedPage> = pages.collect();
        pages.sort_by(|one, other| one.address.cmp(&other.address));
        SavedPlan {
            site: name_of(&self.site),
            pages,
            last_whole_ms: self.last_whole.map(Timestamp::as_millis),
            changed_ms: self.changed.map(Timestamp::as_millis),
            complete: self.completeness.saved(),
            start_is_gone: self.start_is_gone,
            robots: self.robots.clone(),
            ..SavedPlan::default()
        }
    }

    /// Takes over what was saved, and what the store has. The store is right where they differ: a page that it
    /// lacks is fetched again.
    ///
    /// A plan of another site says nothing. Returns the addresses of entries that are not to stay: the rules
    /// that exclude addresses may have changed.
    pub fn restore<'a>(
        &mut self,
        saved: SavedPlan,
        entries: impl IntoIterator<Item = &'a Entry>,
        now: Timestamp,
    ) -> Vec<Address> {
        let is_own = saved.site == name_of(&self.site);
        if is_own {
            self.last_whole = saved.last_whole_ms.map(Timestamp::from_millis);
            self.changed = saved.changed_ms.map(Timestamp::from_millis);
            self.completeness.restore(saved.complete);
            self.robots = saved.robots;
            self.start_is_gone = saved.start_is_gone;
            for SavedPage { address, page } in saved.pages {
                self.restore_page(address, page, now);
            }
        }
        let mut unwanted = Vec::new();
        for entry in entries {
            if !is_own || !self.keep_restored(entry, now) {
                unwanted.push(entry.address.clone());
            }
        }
        self.note_unread();
        unwanted
    }

    fn keep_restored(&mut self, entry: &Entry, now: Timestamp) -> bool {
        let address = &entry.address;
        // What the operator does not name any more may be private.
        let is_not_overridden = entry.overridden && !self.rules.admit.may_override(address);
        let is_refused = is_not_overridden || self.forbidden(address).is_some();
        if is_refused || entry.stored(&self.rules.admit.cache).is_err() {
            return false;
        }
        if self.pages.get(address).is_none() {
            self.completeness.knows(address);
            let meeting = super::Meeting::default();
            if self.pages.count(address, now).is_err() || !self.pages.insert(address, &meeting, now)
            {
                return false;
            }
        }
        self.pages.set_restored(address, kept(entry));
        true
    }
}

/// The state of an address whose answer is mirrored.
pub(super) fn kept(entry: &Entry) -> PageState {
    PageState::Kept {
        confirmed_ms: entry.received,
        is_negative: entry.is_negative(),
        is_gone: matches!(entry.status, 404 | 410),
        is_page: entry.is_page,
    }
}

fn name_of(site: &Site) -> String {
    site.base().as_str().to_owned()
}
