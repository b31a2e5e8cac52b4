//! A pass: what waits to be fetched, by priority, and what is being fetched.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};

use nightwatt_httpcache::Timestamp;

use super::pages::{Page, PageState};
use super::{FAILURES_IN_A_ROW, Limits, Order, PassKind, PassReport};
use crate::pure::address::Address;
use crate::pure::admit::Digest;
use crate::pure::refresh::RefreshRules;

/// One that waits.
#[derive(Debug)]
struct Waiting {
    priority: f64,
    /// Of two that are as urgent, the one that came first.
    number: u64,
    address: Address,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority.total_cmp(&other.priority).then(other.number.cmp(&self.number))
    }
}

/// How urgent it is to fetch an address: larger is sooner.
pub(super) fn priority_of(page: &Page, now: Timestamp, rules: &RefreshRules) -> f64 {
    let class = match page.state {
        // They say what has changed.
        _ if page.lists_changes() => 4.0,
        _ if page.is_outdated || page.is_listed_as_changed() => 3.0,
        PageState::New | PageState::Kept { .. } => 2.0,
        PageState::Refused { .. } => 1.0,
    };
    let max_age = rules.max_age.as_secs_f64().max(1.0);
    let age = page.confirmed().map_or(1.0, |it| now.since(it).as_secs_f64() / max_age);
    let popularity = page.popularity.at(now);
    class * 1e6 + (1.0 + popularity) * (0.5 + age.min(10.0)) * 1e3 - f64::from(page.depth)
}

/// Redirects of robots.txt that are followed (RFC 9309, 2.3.1.2).
const MOST_REDIRECTS: u32 = 5;

/// A running pass.
#[derive(Debug)]
pub(super) struct Pass {
    report: PassReport,
    until: Option<Timestamp>,
    waiting: BinaryHeap<Waiting>,
    /// Second fetches of two.
    again: Vec<Order>,
    /// Addresses that have been in the queue: each is fetched once.
    seen: HashSet<Address>,
    in_flight: HashMap<Address, bool>,
    robots: RobotsState,
    /// Where robots.txt is, if the server redirects, and after how many redirects.
    robots_at: Option<Address>,
    robots_redirects: u32,
    /// Before then nothing is sent.
    not_before: Timestamp,
    failures_in_a_row: u32,
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RobotsState {
    ToFetch,
    Fetching,
    Known,
}

impl Pass {
    pub(super) fn new(kind: PassKind, now: Timestamp, until: Option<Timestamp>) -> Self {
        let report = PassReport {
            kind,
            began: now,
            ended: now,
            requests: 0,
            kept: 0,
            confirmed: 0,
            deleted: 0,
            failed: 0,
            was_cut: false,
            reached_bound: false,
            is_doubted: false,
        };
        Self {
            report,
            until,
            waiting: BinaryHeap::new(),
            again: Vec::new(),
            seen: HashSet::new(),
            in_flight: HashMap::new(),
            robots: RobotsState::ToFetch,
            robots_at: None,
            robots_redirects: 0,
            not_before: now,
            failures_in_a_row: 0,
            number: 0,
        }
    }

    pub(super) fn kind(&self) -> PassKind {
        self.report.kind
    }

    pub(super) fn began(&self) -> Timestamp {
        self.report.began
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn knows_robots(&self) -> bool {
        self.robots == RobotsState::Known
    }

    /// Whether no more is to be sent: the time is over, or the server fails.
    pub(super) fn is_over(&mut self, now: Timestamp) -> bool {
        let is_late = self.until.is_some_and(|until| now >= until);
        let has_left = !self.waiting.is_empty() || !self.again.is_empty() || !self.knows_robots();
        let is_cut = self.failures_in_a_row >= FAILURES_IN_A_ROW || is_late && has_left;
        self.report.was_cut |= is_cut;
        is_cut || self.report.was_cut
    }

    /// When the next request may be sent, if not now.
    pub(super) fn wait_until(&self, now: Timestamp) -> Option<Timestamp> {
        // A clock that was set back must not hold the pass up for long.
        let is_near = self.not_before.since(now) <= std::time::Duration::from_mins(1);
        (now < self.not_before && is_near).then_some(self.not_before)
    }

    pub(super) fn robots(&mut self, now: Timestamp, limits: &Limits) -> Option<Order> {
        if self.robots != RobotsState::ToFetch {
            return None;
        }
        self.robots = RobotsState::Fetching;
        let address = self.robots_at.clone().or_else(|| Address::new("/robots.txt"))?;
        let order = Order { address, is_robots: true, first: None };
        self.send(&order, now, limits);
        Some(order)
    }

    /// robots.txt is elsewhere; false if that came too often.
    pub(super) fn redirect_robots(&mut self, to: Address) -> bool {
        let is_followed = self.robots_redirects < MOST_REDIRECTS;
        if is_followed {
            self.robots_redirects += 1;
            self.robots_at = Some(to);
            self.robots = RobotsState::ToFetch;
        }
        is_followed
    }

    /// robots.txt has been read.
    pub(super) fn robots_known(&mut self) {
        self.robots = RobotsState::Known;
    }

    /// Queues an address, once in a pass.
    pub(super) fn push(&mut self, address: Address, priority: f64) {
        if self.seen.insert(address.clone()) {
            self.number += 1;
            self.waiting.push(Waiting { priority, number: self.number, address });
        }
    }

    /// Queues an address that was answered in this pass, before all others.
    pub(super) fn push_once_more(&mut self, address: Address) {
        self.seen.remove(&address);
        self.push(address, f64::MAX);
    }

    /// Queues the second fetch of an address.
    pub(super) fn push_again(&mut self, address: Address, first: Digest) {
        self.again.push(Order { address, is_robots: false, first: Some(first) });
    }

    pub(super) fn pop(&mut self, now: Timestamp, limits: &Limits) -> Option<Order> {
        let order = self.again.pop().or_else(|| {
            let address = self.waiting.pop()?.address;
            Some(Order { address, is_robots: false, first: None })
        })?;
        self.send(&order, now, limits);
        Some(order)
    }

    fn send(&mut self, order: &Order, now: Timestamp, limits: &Limits) {
        self.in_flight.insert(order.address.clone(), order.is_robots);
        self.not_before = now.plus(limits.pause());
        self.report.requests += 1;
    }

    /// An order that was popped is not sent after all.
    pub(super) fn forget(&mut self, order: &Order) {
        self.in_flight.remove(&order.address);
        self.report.requests = self.report.requests.saturating_sub(1);
    }

    /// An answer has come, or none will.
    pub(super) fn answered(&mut self, order: &Order) -> bool {
        self.in_flight.remove(&order.address).is_some()
    }

    /// An order that was sent is not answered before the pass is interrupted: it comes first when the pass goes on.
    pub(super) fn put_back(&mut self, order: &Order) {
        if !self.answered(order) {
            return;
        }
        if order.is_robots {
            self.robots = RobotsState::ToFetch;
        } else if order.first.is_some() {
            self.again.push(order.clone());
        } else {
            self.push_once_more(order.address.clone());
        }
    }

    pub(super) fn note_bound(&mut self) {
        self.report.reached_bound = true;
    }

    pub(super) fn note(&mut self, event: Event) {
        match event {
            Event::Failed => {
                self.report.failed += 1;
                self.failures_in_a_row += 1;
                return;
            }
            Event::FailedAgain => {
                self.report.failed += 1;
                return;
            }
            Event::Kept => self.report.kept += 1,
            Event::Confirmed => self.report.confirmed += 1,
            Event::Deleted => self.report.deleted += 1,
            Event::Refused => {}
        }
        self.failures_in_a_row = 0;
    }

    /// robots.txt could not be had: without it nothing is fetched.
    pub(super) fn cut(&mut self) {
        self.report.was_cut = true;
    }

    /// The server counts as failing: it says that everything is gone.
    pub(super) fn doubt(&mut self) {
        self.report.is_doubted = true;
        self.cut();
    }

    pub(super) fn report(&self, now: Timestamp) -> PassReport {
        PassReport { ended: now, ..self.report }
    }
}

/// What an answer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Kept,
    Confirmed,
    Deleted,
    Refused,
    Failed,
    /// It failed in an earlier pass too: that says nothing about the server as a whole.
    FailedAgain,
}
