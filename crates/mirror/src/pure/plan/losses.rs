//! Pages that were good, and of which the server now says that they are gone or closed.
//!
//! A server that starts, or whose disk is not mounted, answers 404 or 403 for everything. So one such answer is not
//! believed at once: what is mirrored stays, but is not given, and is requested a second time at the end of the pass.
//! If the start page or a large share of the pages is lost, the server counts as failing: the pass ends, and what is
//! mirrored stays. A pass some minutes later, while the server is still awake, is believed.
//!
//! The same holds at the end of a pass that has found no page, if the start page is missing from the beginning. What
//! such a pass has learned is forgotten: the pages that it found missing may all exist. That there is no start page
//! is believed when two requests some minutes apart say so, even if the server slept between them.
//!
//! A pass survives the server's sleep, but what the server showed before counts no more. So a pass that found something
//! missing since the server started requests the start page too.

use std::time::Duration;

use nightwatt_httpcache::Timestamp;

use super::pages::PageState;
use super::queue::Event;
use super::{Order, Page, Planner};
use crate::pure::address::Address;
use crate::pure::admit::{Kept, Verdict};
use crate::pure::entry::Entry;
use crate::pure::reason::Reason;
use crate::pure::robots::Robots;

/// A pass this long after the first one that lost everything is believed.
const AGAIN_AFTER: Duration = Duration::from_mins(2);

/// Fewer lost pages are no large share.
const MANY: usize = 5;

/// The start page.
const START: &str = "/";

/// What a pass has lost.
#[derive(Debug, Default)]
pub(super) struct Losses {
    withheld: Vec<Withheld>,
    /// Pages that are still good, as the server has said since it started.
    held: usize,
    /// The server has given a page since it started, whether it was known or not.
    has_page: bool,
    /// Addresses of which nothing was known, and where nothing is.
    learned: Vec<Address>,
    /// Those of them that are not believed: what is mirrored of them goes.
    unlearned: Vec<Address>,
    /// A page is closed: 401, 403 or a redirect to a log-in.
    has_closed: bool,
    /// The start page was requested since the server started.
    saw_start: bool,
    trust: Trust,
    /// What robots.txt said before the server said that it has no such file.
    robots: Option<Robots>,
}

/// Whether the pass believes that pages are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trust {
    #[default]
    Undecided,
    /// They were requested a second time.
    Believed,
    /// The pass has ended because of them.
    Doubted,
}

#[derive(Debug)]
struct Withheld {
    address: Address,
    was_outdated: bool,
    /// The server has started since.
    is_old: bool,
}

impl Planner {
    /// The server has started: whatever it said before is said by another start of it.
    pub fn server_started(&mut self) {
        self.doubted = None;
        let losses = &mut self.losses;
        (losses.saw_start, losses.has_page, losses.held) = (false, false, 0);
        for withheld in &mut losses.withheld {
            withheld.is_old = true;
        }
        if losses.trust == Trust::Believed {
            losses.trust = Trust::Undecided;
        }
    }

    /// The server says that there is no robots.txt.
    pub(super) fn lose_robots(&mut self) {
        self.losses.robots = self.robots.replace(Robots::default());
    }

    /// What was learned and is not believed any more.
    pub(super) fn take_unlearned(&mut self) -> Vec<Address> {
        std::mem::take(&mut self.losses.unlearned)
    }

    /// Whether there was something before: it is mirrored, or was until it was purged or lost.
    pub(super) fn was_good(&self, address: &Address, before: Option<&Entry>) -> bool {
        // A redirect is as good as a page.
        let is_good = |it: &Entry| !it.status().is_client_error();
        before.is_some_and(is_good) || self.pages.was_good(address)
    }

    /// Whether an answer is not believed yet. Then nothing is changed, but for [`Planner::take_unlearned`].
    pub(super) fn withholds(
        &mut self,
        order: &Order,
        verdict: &Verdict,
        before: Option<&Entry>,
        now: Timestamp,
    ) -> bool {
        let address = &order.address;
        let is_start = address.as_str() == START;
        self.losses.saw_start |= is_start;
        let was_good = !order.is_robots && self.was_good(address, before);
        let is_known_gone = before.is_some_and(|it| it.status().is_client_error());
        let is_first_start = is_start && !self.start_is_gone && !is_known_gone;
        let is_closed = match verdict {
            Verdict::Keep(new) if new.entry.status().is_client_error() => {
                if !was_good && !is_first_start {
                    return self.learns(address, before);
                }
                false
            }
            Verdict::Refused { reason: Reason::Refused | Reason::Status, .. } if was_good => true,
            Verdict::Keep(_) | Verdict::Confirmed(_) => {
                let is_kept_page = |new: &Kept| !new.entry.is_negative();
                let is_page = matches!(verdict, Verdict::Keep(new) if is_kept_page(new));
                self.losses.has_page |= (is_page || was_good) && !order.is_robots;
                self.losses.held += usize::from(was_good);
                self.losses.withheld.retain(|it| it.address != *address);
                return false;
            }
            _ => return false,
        };
        if self.losses.trust == Trust::Doubted {
            return true;
        }
        let is_missing = is_start && !was_good;
        let is_long_since = |since: Timestamp| now.since(since) >= AGAIN_AFTER;
        let is_old = self.doubted.is_some_and(is_long_since)
            || is_missing && self.start_missing.is_some_and(is_long_since);
        if self.losses.trust == Trust::Believed || is_old {
            return false;
        }
        if is_missing {
            self.start_missing.get_or_insert(now);
        }
        self.losses.has_closed |= is_closed;
        self.withhold(address);
        let lost = self.losses.withheld.iter().filter(|it| !it.is_old).count();
        let is_start_lost = is_start && was_good;
        if is_start_lost || lost >= MANY && lost >= self.losses.held {
            self.doubt(now);
        }
        true
    }

    /// Nothing is where nothing was known to be; returns whether that is not believed.
    fn learns(&mut self, address: &Address, before: Option<&Entry>) -> bool {
        if self.losses.trust == Trust::Doubted {
            return true;
        }
        if before.is_none() {
            self.losses.learned.push(address.clone());
        }
        false
    }

    /// A page is not given before it is certain whether it exists.
    fn withhold(&mut self, address: &Address) {
        let was_outdated = self.pages.set_outdated(address, true);
        let address = address.clone();
        self.losses.withheld.push(Withheld { address, was_outdated, is_old: false });
    }

    /// The server counts as failing: what is mirrored stays. But what it says is closed is given to no client before
    /// it is confirmed, and nor is the rest.
    fn doubt(&mut self, now: Timestamp) {
        self.doubted.get_or_insert(now);
        self.losses.trust = Trust::Doubted;
        // Of two for one page, the first one is from before the pass.
        let withheld = std::mem::take(&mut self.losses.withheld).into_iter().rev();
        for Withheld { address, was_outdated, .. } in withheld {
            self.pages.set_outdated(&address, was_outdated);
        }
        if self.losses.has_closed {
            self.pages.outdate(START);
        }
        if let Some(robots) = self.losses.robots.take() {
            self.robots = Some(robots);
        }
        let learned = std::mem::take(&mut self.losses.learned);
        for address in &learned {
            self.pages.set(address, PageState::New);
        }
        self.losses.unlearned = learned;
        self.note(Event::Failed);
        if let Some(pass) = &mut self.pass {
            pass.doubt();
        }
    }

    /// Whether the start page is withheld, and nothing says that there ever was one.
    fn lacks_start(&self) -> bool {
        let is_first = |page: &Page| page.confirmed().is_none() && !page.was_good;
        let mut withheld = self.losses.withheld.iter().map(|it| &it.address);
        withheld.any(|it| it.as_str() == START && self.pages.get(it).is_some_and(is_first))
    }

    /// The start page, if it is mirrored and was not requested since the server started.
    fn unseen_start(&self) -> Option<Address> {
        let is_there = |it: &Address| self.pages.get(it).is_some_and(Page::is_there);
        Address::new(START).filter(|it| !self.losses.saw_start && is_there(it))
    }

    /// At the end of a pass: queues what was withheld a second time, after the start page. That is requested for what
    /// was learned, too. Returns whether there is any.
    pub(super) fn checks_losses(&mut self, now: Timestamp) -> bool {
        let has_losses = !self.losses.withheld.is_empty();
        if self.losses.trust != Trust::Undecided || !has_losses && self.losses.learned.is_empty() {
            return false;
        }
        if !self.losses.has_page && self.lacks_start() {
            self.doubt(now);
            // No answer is being taken: the store forgets them at the end of the pass.
            let unlearned = self.take_unlearned();
            self.forgotten.extend(unlearned);
            return false;
        }
        let start = self.unseen_start();
        let Some(pass) = &mut self.pass else { return false };
        if let Some(start) = start {
            self.losses.saw_start = true;
            let was_outdated = self.pages.set_outdated(&start, true);
            pass.push_once_more(start.clone());
            // Should the pass end as failed, it is as before.
            self.losses.withheld.push(Withheld { address: start, was_outdated, is_old: false });
            return true;
        }
        if !has_losses {
            return false;
        }
        self.losses.trust = Trust::Believed;
        for Withheld { address, .. } in self.losses.withheld.drain(..) {
            pass.push_once_more(address);
        }
        true
    }
}
