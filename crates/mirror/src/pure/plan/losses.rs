//! Pages that were good, and of which the server now says that they are gone or closed.
//!
//! A server that starts, or whose disk is not mounted, answers 404 or 403 for everything. So one such answer is not
//! believed at once: what is mirrored stays, but is not given, and is requested a second time at the end of the pass.
//! If the start page or a large share of the pages is lost, the server counts as failing: the pass ends, and what is
//! mirrored stays. A pass some minutes later, while the server is still awake, is believed.
//!
//! The same holds for a start page that is missing from the beginning, if the pass has found no page before it. What
//! such a pass has learned is forgotten: the pages that it found missing may all exist.

use std::time::Duration;

use nightwatt_httpcache::Timestamp;

use super::pages::PageState;
use super::queue::Event;
use super::{Order, Planner};
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
    /// Pages that are still good.
    held: usize,
    /// The server has given a page, whether it was known or not.
    has_page: bool,
    /// Addresses of which nothing was known, and where nothing is.
    learned: Vec<Address>,
    /// Those of them that are not believed: what is mirrored of them goes.
    unlearned: Vec<Address>,
    /// A page is closed: 401, 403 or a redirect to a log-in.
    has_closed: bool,
    /// The start page was requested.
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
}

impl Planner {
    /// The server has started: whatever it said before is said by another start of it.
    pub fn server_started(&mut self) {
        self.doubted = None;
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
        let is_start = address.as_str() == START;
        // That the start page leads elsewhere is as good as a page.
        let is_good = |it: &Entry| !it.is_negative() || is_start && it.status().is_redirection();
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
        let is_old = self.doubted.is_some_and(|since| now.since(since) >= AGAIN_AFTER);
        if self.losses.trust == Trust::Believed || is_old {
            return false;
        }
        if self.losses.trust == Trust::Doubted {
            return true;
        }
        self.losses.has_closed |= is_closed;
        self.withhold(address);
        let lost = self.losses.withheld.len();
        let is_start_lost = is_start && (was_good || !self.losses.has_page);
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
        self.losses.withheld.push(Withheld { address: address.clone(), was_outdated });
    }

    /// The server counts as failing: what is mirrored stays. But what it says is closed is given to no client before
    /// it is confirmed, and nor is the rest.
    fn doubt(&mut self, now: Timestamp) {
        self.doubted.get_or_insert(now);
        self.losses.trust = Trust::Doubted;
        // Of two for one page, the first one is from before the pass.
        let withheld = std::mem::take(&mut self.losses.withheld).into_iter().rev();
        for Withheld { address, was_outdated } in withheld {
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

    /// At the end of a pass: queues what was withheld a second time, after the start page. Returns whether there is
    /// any.
    pub(super) fn checks_losses(&mut self) -> bool {
        let Some(pass) = &mut self.pass else { return false };
        if self.losses.trust == Trust::Believed || self.losses.withheld.is_empty() {
            return false;
        }
        let start = Address::new(START).filter(|it| {
            let is_mirrored = |page: &super::Page| page.confirmed().is_some();
            !self.losses.saw_start && self.pages.get(it).is_some_and(is_mirrored)
        });
        if let Some(start) = start {
            self.losses.saw_start = true;
            let was_outdated = self.pages.set_outdated(&start, true);
            pass.push_once_more(start.clone());
            // Should the pass end as failed, it is as before.
            self.losses.withheld.push(Withheld { address: start, was_outdated });
            return true;
        }
        self.losses.trust = Trust::Believed;
        for Withheld { address, .. } in self.losses.withheld.drain(..) {
            pass.push_once_more(address);
        }
        true
    }
}
