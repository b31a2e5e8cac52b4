//! What an answer changes: in the store, and in the plan.

use bytes::Bytes;
use http::StatusCode;
use http::header::LOCATION;
use nightwatt_httpcache::Timestamp;

use super::pages::PageState;
use super::queue::{Event, Pass};
use super::saved::kept;
use super::{Meeting, Order, Planner};
use crate::discover::{Found, LinkKind};
use crate::pure::address::Address;
use crate::pure::admit::{Answer, Before, Digest, Verdict, admit};
use crate::pure::entry::Entry;
use crate::pure::reason::Reason;
use crate::pure::refused_addresses::{Origin, page_of};
use crate::pure::robots::{Permission, Robots};

/// A change of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Store the body, and then the entry.
    Put {
        /// The entry.
        entry: Box<Entry>,
        /// The bytes that it refers to.
        body: Bytes,
    },
    /// The entry takes the place of one with the same body.
    Update(Box<Entry>),
    /// Remove what is mirrored under an address.
    Remove(Address),
}

/// What an answer leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// What to change in the store, in this order.
    pub changes: Vec<Change>,
    /// Why the answer is not kept, for the log.
    pub refused: Option<Reason>,
    /// Addresses of which caches must forget what they have: there is something else now, or nothing for everyone.
    pub forgotten: Vec<Address>,
}

impl Planner {
    /// Takes an answer. `before` is what is mirrored under the address.
    pub fn take(
        &mut self,
        order: &Order,
        answer: &Answer,
        before: Option<&Entry>,
        now: Timestamp,
    ) -> Taken {
        if !self.pass.as_mut().is_some_and(|pass| pass.answered(order)) {
            return Taken::default();
        }
        let mut taken = Taken::default();
        if order.is_robots {
            let forbidden = self.take_robots(order, answer, now);
            taken.forgotten.clone_from(&forbidden);
            taken.changes = forbidden.into_iter().map(Change::Remove).collect();
        }
        // Where robots.txt is in fact is no page of the plan.
        if order.is_robots && self.pages.get(&order.address).is_none() && !is_robots_txt(order) {
            return taken;
        }
        let before = Before { entry: before, first: order.first };
        let verdict = admit(&order.address, answer, &before, &self.rules.admit);
        if self.withholds(order, &verdict, before.entry, now) {
            taken.changes.extend(self.take_unlearned().into_iter().map(Change::Remove));
            return taken;
        }
        self.apply(order, verdict, &before, &mut taken, now);
        taken
    }

    /// No answer came.
    pub fn failed(&mut self, order: &Order, now: Timestamp) {
        if !self.pass.as_mut().is_some_and(|pass| pass.answered(order)) {
            return;
        }
        if order.is_robots {
            self.robots_failed();
        }
        self.refused(&order.address, Reason::Unreachable, false, now);
    }

    /// The whole answer did not come in time. The next whole pass requests it again, and none before.
    pub fn timed_out(&mut self, order: &Order, now: Timestamp) {
        if !self.pass.as_mut().is_some_and(|pass| pass.answered(order)) {
            return;
        }
        if order.is_robots {
            self.robots_failed();
        }
        self.refused(&order.address, Reason::TimedOut, false, now);
        self.pages.timed_out(&order.address);
    }

    /// The request was given up, since the server is to sleep: it is sent again when the pass goes on.
    pub fn put_back(&mut self, order: &Order) {
        if let Some(pass) = &mut self.pass {
            pass.put_back(order);
        }
    }

    /// The store has no room for what it was to keep, and has nothing under this address now.
    pub fn store_is_full(&mut self, address: &Address, now: Timestamp) {
        self.note_bound();
        let state = PageState::Refused { reason: Reason::StoreFull, at_ms: now.as_millis() };
        self.pages.set(address, state);
    }

    fn apply(
        &mut self,
        order: &Order,
        verdict: Verdict,
        before: &Before<'_>,
        taken: &mut Taken,
        now: Timestamp,
    ) {
        let address = &order.address;
        match verdict {
            Verdict::Keep(new) => {
                let is_gone = new.entry.status().is_client_error();
                // A page that there was is gone.
                let is_lost = is_gone && self.was_good(address, before.entry);
                if address.as_str() == "/" {
                    self.start_is_gone = is_gone;
                    self.start_missing = None;
                }
                self.note(if is_lost { Event::Deleted } else { Event::Kept });
                self.pages.set(address, kept(&new.entry));
                self.pages.read(address, now);
                let is_other =
                    |before: &Entry| Digest::of_entry(before) != Digest::of_entry(&new.entry);
                if before.entry.map_or(new.entry.is_negative(), is_other) {
                    taken.forgotten.push(address.clone());
                }
                self.follow(address, &new.found, now);
                self.follow_redirect(&new.entry, now);
                taken.changes.push(Change::Put { entry: Box::new(new.entry), body: new.body });
            }
            Verdict::Confirmed(entry) => {
                self.note(Event::Confirmed);
                self.pages.set(address, kept(&entry));
                taken.changes.push(Change::Update(entry));
            }
            Verdict::Again(digest) => {
                if let Some(pass) = &mut self.pass {
                    pass.push_again(address.clone(), digest);
                }
            }
            Verdict::Refused { reason, found } => {
                taken.refused = Some(reason);
                if let Some(found) = found {
                    self.follow(address, &found, now);
                }
                let is_removed = self.refused(address, reason, before.entry.is_some(), now);
                if is_removed {
                    taken.changes.push(Change::Remove(address.clone()));
                }
                if is_removed || reason.closes() {
                    taken.forgotten.push(address.clone());
                }
            }
        }
    }

    /// Notes why an address is not mirrored; true if what is mirrored is to go.
    fn refused(
        &mut self,
        address: &Address,
        reason: Reason,
        is_kept: bool,
        now: Timestamp,
    ) -> bool {
        let is_failure = !reason.deletes();
        let deletes = is_kept && !is_failure;
        let is_outage = is_failure && reason != Reason::StoreFull;
        let fails_often = is_outage && {
            let began = self.pass.as_ref().map_or(now, Pass::began);
            self.pages.failed(address, began, now)
        };
        self.note(match () {
            () if fails_often => Event::FailedAgain,
            () if is_outage => Event::Failed,
            () if deletes => Event::Deleted,
            () => Event::Refused,
        });
        if reason == Reason::TooLarge {
            self.note_bound();
        }
        if reason.hides_links() {
            self.completeness.is_unread(address);
        }
        let was_kept = self.pages.get(address).is_some_and(|page| page.confirmed().is_some());
        // What is mirrored stays as it is while the server fails.
        if !(is_failure && was_kept) {
            self.pages.set(address, PageState::Refused { reason, at_ms: now.as_millis() });
        }
        deletes
    }

    pub(super) fn note(&mut self, event: Event) {
        if let Some(pass) = &mut self.pass {
            pass.note(event);
        }
    }

    /// Follows the links of a document.
    fn follow(&mut self, address: &Address, found: &Found, now: Timestamp) {
        if found.is_cut {
            self.note_bound();
        }
        let own = self.site.url(address);
        let base = found.base.as_ref().and_then(|base| own.join(base).ok()).unwrap_or(own);
        let depth = self.pages.get(address).map_or(0, |page| page.depth);
        for link in &found.links {
            let Ok(target) = self.site.resolve(&base, &link.reference) else { continue };
            let is_listed = link.modified.is_some()
                || matches!(link.kind, LinkKind::Page)
                    && self.pages.get(address).is_some_and(|page| page.is_hint);
            let meeting = Meeting {
                origin: if is_listed { Origin::Listed } else { Origin::Linked },
                depth: depth_of(depth, address, &target, link.kind),
                is_hint: matches!(link.kind, LinkKind::Feed | LinkKind::Sitemap),
                is_not_followed: link.kind == LinkKind::NotFollowed,
                modified: link.modified,
                linked_by: Some(address.clone()),
            };
            self.meet(target, &meeting, now);
        }
    }

    /// The target of a redirect is linked by it.
    fn follow_redirect(&mut self, entry: &Entry, now: Timestamp) {
        if !entry.status().is_redirection() {
            return;
        }
        let headers = entry.headers();
        let target = headers.get(LOCATION).and_then(|it| it.to_str().ok());
        let own = self.site.url(&entry.address);
        let target = target.and_then(|target| self.site.resolve(&own, target).ok());
        if let Some(target) = target {
            let depth = self.pages.get(&entry.address).map_or(0, |page| page.depth);
            let is_hint = self.pages.get(&entry.address).is_some_and(|page| page.is_hint);
            let depth = depth.saturating_add(1);
            let linked_by = Some(entry.address.clone());
            let origin = Origin::Linked;
            let meeting = Meeting { origin, depth, is_hint, linked_by, ..Meeting::default() };
            self.meet(target, &meeting, now);
        }
    }

    /// Returns what is mirrored and now forbidden.
    fn take_robots(&mut self, order: &Order, answer: &Answer, now: Timestamp) -> Vec<Address> {
        if self.follows_robots(order, answer) {
            return Vec::new();
        }
        match answer.status.as_u16() {
            // Not modified, or unavailable: there are no rules (RFC 9309, 2.3.1.3).
            304 => {}
            200..=299 => self.robots = Some(Robots::parse(&answer.body)),
            300..=499 if answer.status != StatusCode::TOO_MANY_REQUESTS => {
                self.lose_robots();
            }
            _ => {
                self.robots_failed();
                return Vec::new();
            }
        }
        if let Some(pass) = &mut self.pass {
            pass.robots_known();
        }
        let forbidden = self.forbidden_by_robots(now);
        self.fill_queue(now);
        forbidden
    }

    /// Whether robots.txt is elsewhere on the site, and requested there.
    fn follows_robots(&mut self, order: &Order, answer: &Answer) -> bool {
        if !answer.status.is_redirection() {
            return false;
        }
        let target = answer.headers.get(LOCATION).and_then(|it| it.to_str().ok());
        let own = self.site.url(&order.address);
        let target = target.and_then(|target| self.site.resolve(&own, target).ok());
        let Some((target, pass)) = target.zip(self.pass.as_mut()) else { return false };
        pass.redirect_robots(target)
    }

    /// What is mirrored and now forbidden goes.
    fn forbidden_by_robots(&mut self, now: Timestamp) -> Vec<Address> {
        let is_never = |address: &Address| {
            let robots = self.robots.as_ref();
            robots.is_some_and(|it| it.permission(address.as_str()) == Permission::Never)
        };
        let forbidden = self
            .pages
            .iter()
            .filter(|(address, page)| page.refused().is_none() && is_never(address));
        let forbidden: Vec<Address> = forbidden.map(|(address, _)| address.clone()).collect();
        for address in &forbidden {
            let state = PageState::Refused { reason: Reason::Robots, at_ms: now.as_millis() };
            self.pages.set(address, state);
        }
        forbidden
    }

    /// Without robots.txt nothing is fetched (RFC 9309, 2.3.1.4): the server is out of order.
    fn robots_failed(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.cut();
        }
    }
}

fn is_robots_txt(order: &Order) -> bool {
    order.address.as_str() == "/robots.txt"
}

/// Links from the start to the target of a link.
fn depth_of(depth: u16, from: &Address, target: &Address, kind: LinkKind) -> u16 {
    let list = page_of(target);
    let is_further_page = list.is_some() && {
        let own = page_of(from).unwrap_or_else(|| from.path().trim_end_matches('/').to_owned());
        list.as_deref().map(|it| it.trim_end_matches('/')) == Some(own.trim_end_matches('/'))
    };
    match kind {
        LinkKind::Part | LinkKind::Feed | LinkKind::Sitemap => depth,
        _ if is_further_page => depth,
        _ => depth.saturating_add(1),
    }
}
