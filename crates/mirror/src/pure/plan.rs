//! What to fetch, and when: the frontier of a crawl that never gets lost.
//!
//! ```text
//! begin(Whole | Refresh)
//! next(now)  -> Fetch(order) | WaitUntil | WaitForAnswer | Done(report)
//! take(order, answer, ..) -> changes of the store, or the same order again
//! ```
//!
//! robots.txt comes first in every pass. Then come, by priority: sitemaps and feeds, what is said to have
//! changed, what clients request most, what is oldest, what is nearest to the start.

mod answer;
mod bounds;
mod caches;
mod judge;
mod losses;
mod pages;
mod queue;
mod saved;

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use nightwatt_httpcache::{Timestamp, update};

pub use self::answer::{Change, Taken};
pub use self::bounds::Limits;
pub use self::pages::{Page, PageState};
pub use self::saved::SavedPlan;

use self::losses::Losses;
use self::pages::Pages;
use self::queue::{Pass, priority_of};
use super::address::{Address, Site};
use super::admit::{AdmitRules, Digest, StatusKind};
use super::complete::{Completeness, PassQuality, Samples};
use super::entry::Entry;
use super::popularity::FirstRequests;
use super::reason::{Reason, ReasonKind};
use super::refresh::{Hour, RefreshRules, wake_at};
use super::refused_addresses::{Origin, PatternRules, refusal};
use super::robots::Robots;
use super::traps::TrapRules;

/// All that the operator decides.
#[derive(Clone, Debug)]
pub struct PlanRules {
    /// Bounds of a pass and of the mirror.
    pub limits: Limits,
    /// Which addresses are never fetched.
    pub patterns: PatternRules,
    /// When there are too many addresses of one form.
    pub traps: TrapRules,
    /// Which answers are kept.
    pub admit: AdmitRules,
    /// How fresh the mirror is kept.
    pub refresh: RefreshRules,
    /// Addresses to start from, beside `/`, sitemaps and what robots.txt names.
    pub seeds: Vec<Address>,
    /// The operator says that a pass finds every page.
    pub complete: bool,
}

/// What a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassKind {
    /// Find everything, and look at everything again.
    Whole,
    /// Renew what is old, changed or popular, before the server is put to sleep.
    Refresh,
}

/// One thing to fetch: a `GET` of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Of what.
    pub address: Address,
    /// It is robots.txt, for the plan itself.
    pub is_robots: bool,
    /// The second of two fetches: without conditions, and on a connection that was not used before.
    pub first: Option<Digest>,
}

impl Order {
    /// The fields to send beside `Host` and `User-Agent`. They are the same for everyone: no cookies, no
    /// client's fields. `before` is what is mirrored under the address.
    pub fn fields(&self, before: Option<&Entry>, rules: &PlanRules) -> HeaderMap {
        let mut fields = before.map(Entry::asked).unwrap_or_default();
        // The body as it is: its tag is then a strong one, and links can be read.
        fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let is_conditional = self.first.is_none() && !self.is_robots;
        if is_conditional
            && let Some(stored) = before.and_then(|it| it.stored(&rules.admit.cache).ok())
        {
            update::add_validators(&mut fields, &[&stored]);
        }
        fields
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Fetch this. More may be fetched at the same time: ask again.
    Fetch(Order),
    /// Not before this time: the server is not to be asked too often.
    WaitUntil(Timestamp),
    /// What is being fetched decides what comes next.
    WaitForAnswer,
    /// The pass has ended.
    Done(PassReport),
    /// There is no pass.
    Idle,
}

/// What a pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassReport {
    /// What it was for.
    pub kind: PassKind,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// Requests that were sent.
    pub requests: u32,
    /// Answers that are new or have changed.
    pub kept: u32,
    /// Answers that were confirmed.
    pub confirmed: u32,
    /// Answers that were deleted.
    pub deleted: u32,
    /// Answers that the server failed to give.
    pub failed: u32,
    /// It ended before its end: the server failed, or the time was over.
    pub was_cut: bool,
    /// A bound kept something out.
    pub reached_bound: bool,
    /// The server said that the start page or many others are gone or closed: it counts as failing.
    pub is_doubted: bool,
}

/// After this many failures in a row a pass ends: the server has other worries.
const FAILURES_IN_A_ROW: u32 = 5;

/// The plan of one site's mirror.
#[derive(Debug)]
pub struct Planner {
    site: Site,
    rules: PlanRules,
    /// What robots.txt said last, if it was ever read.
    robots: Option<Robots>,
    pages: Pages,
    pass: Option<Pass>,
    losses: Losses,
    /// When the server first said that everything is gone, since it started.
    doubted: Option<Timestamp>,
    /// It is believed that the site has no start page.
    start_is_gone: bool,
    /// When the server first said that there is no start page, if that is not believed yet.
    start_missing: Option<Timestamp>,
    /// Addresses that the plan has forgotten since [`Planner::take_forgotten`].
    forgotten: Vec<Address>,
    completeness: Completeness,
    samples: Samples,
    first_requests: FirstRequests,
    /// When content last changed, as far as that is known.
    changed: Option<Timestamp>,
    last_whole: Option<Timestamp>,
    last_report: Option<PassReport>,
}

impl Planner {
    /// A plan that knows nothing yet.
    pub fn new(site: Site, rules: PlanRules) -> Self {
        let completeness = Completeness::new(rules.complete);
        let pages = Pages::new(rules.traps, rules.limits.known);
        Self {
            site,
            rules,
            robots: None,
            pages,
            pass: None,
            losses: Losses::default(),
            doubted: None,
            start_is_gone: false,
            start_missing: None,
            forgotten: Vec::new(),
            completeness,
            samples: Samples::default(),
            first_requests: FirstRequests::default(),
            changed: None,
            last_whole: None,
            last_report: None,
        }
    }

    /// The site.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// The rules.
    pub fn rules(&self) -> &PlanRules {
        &self.rules
    }

    /// Begins a pass, which ends at `until` at the latest. One that is running goes on, unless the new one is
    /// a whole one.
    pub fn begin(&mut self, kind: PassKind, now: Timestamp, until: Option<Timestamp>) {
        if self.pass.as_ref().is_some_and(|pass| pass.kind() == kind || kind == PassKind::Refresh) {
            return;
        }
        if kind == PassKind::Whole {
            self.completeness.pass_begins();
        }
        self.losses = Losses::default();
        self.pass = Some(Pass::new(kind, now, until));
    }

    /// Whether a pass is running.
    pub fn is_running(&self) -> bool {
        self.pass.is_some()
    }

    /// What to do next.
    pub fn next(&mut self, now: Timestamp) -> Next {
        let Some(pass) = &mut self.pass else { return Next::Idle };
        if pass.is_over(now) {
            return if pass.in_flight() > 0 { Next::WaitForAnswer } else { self.end(now) };
        }
        if pass.in_flight() >= self.rules.limits.at_once {
            return Next::WaitForAnswer;
        }
        if let Some(at) = pass.wait_until(now) {
            return Next::WaitUntil(at);
        }
        if let Some(order) = pass.robots(now, &self.rules.limits) {
            return Next::Fetch(order);
        }
        if !pass.knows_robots() {
            return Next::WaitForAnswer;
        }
        while let Some(order) = pass.pop(now, &self.rules.limits) {
            let page = self.pages.get(&order.address);
            // What was queued may have been answered meanwhile, as robots.txt is, or forbidden.
            let is_due = page
                .is_some_and(|it| it.is_due(pass.kind(), pass.began(), now, &self.rules.refresh));
            let robots = self.robots.as_ref();
            let is_forbidden = judge::forbidden(&order.address, robots, &self.rules).is_some();
            if (is_due || order.first.is_some()) && !is_forbidden {
                return Next::Fetch(order);
            }
            pass.forget(&order);
        }
        match pass.in_flight() > 0 {
            true => Next::WaitForAnswer,
            false if self.checks_losses(now) => self.next(now),
            false => self.end(now),
        }
    }

    fn end(&mut self, now: Timestamp) -> Next {
        let Some(pass) = self.pass.take() else { return Next::Idle };
        let report = pass.report(now);
        if report.kind == PassKind::Whole {
            self.completeness.pass_ended(PassQuality {
                had_errors: report.was_cut || report.failed > 0,
                reached_bound: report.reached_bound,
            });
            if !report.was_cut {
                self.last_whole = Some(report.began);
                let dead = self.pages.forget_dead(report.began, now);
                self.forgotten.extend(dead);
            }
            self.note_unread();
        }
        if !report.was_cut {
            self.doubted = None;
        }
        self.last_report = Some(report);
        Next::Done(report)
    }

    /// robots.txt is known: the pass can begin in earnest.
    fn fill_queue(&mut self, now: Timestamp) {
        for seed in self.seeds() {
            self.meet(seed, &Meeting::default(), now);
        }
        for sitemap in self.sitemaps() {
            self.meet(sitemap, &Meeting { is_hint: true, ..Meeting::default() }, now);
        }
        let Some(pass) = &mut self.pass else { return };
        for (address, page) in self.pages.iter() {
            if page.is_due(pass.kind(), pass.began(), now, &self.rules.refresh) {
                pass.push(address.clone(), priority_of(page, now, &self.rules.refresh));
            }
        }
    }

    fn seeds(&self) -> Vec<Address> {
        let own = ["/", "/favicon.ico", "/robots.txt"].into_iter().filter_map(Address::new);
        own.chain(self.rules.seeds.iter().cloned()).collect()
    }

    fn sitemaps(&self) -> Vec<Address> {
        let base = self.site.base();
        let named = self.robots.iter().flat_map(|robots| &robots.sitemaps);
        let named = named.filter_map(|it| self.site.resolve(base, it).ok());
        Address::new("/sitemap.xml").into_iter().chain(named).collect()
    }

    /// An address comes up: from a link, a list, a client or the operator.
    fn meet(&mut self, address: Address, meeting: &Meeting, now: Timestamp) {
        let is_new = self.pages.meet(&address, meeting, now);
        self.completeness.knows(&address);
        let refused = self.refusal(&address, meeting, is_new, now);
        if let Some(reason) = refused {
            if reason.hides_links() {
                self.completeness.is_unread(&address);
            }
            if is_new && !self.pages.refuse_new(&address, meeting, reason, now) {
                self.note_bound();
            }
            if reason.kind() == ReasonKind::ByBound {
                self.note_bound();
            }
            return;
        }
        if is_new && !self.pages.insert(&address, meeting, now) {
            return self.note_bound();
        }
        let Some(pass) = &mut self.pass else { return };
        if let Some(page) = self.pages.get(&address)
            && pass.knows_robots()
            && page.is_due(pass.kind(), pass.began(), now, &self.rules.refresh)
        {
            pass.push(address, priority_of(page, now, &self.rules.refresh));
        }
    }

    fn note_bound(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.note_bound();
        }
    }

    /// A client was answered by the server or from a cache. `client` tells clients apart; `is_good` says that
    /// it was a 2xx that may be shared. The address may come to be mirrored, or become more popular.
    pub fn requested(&mut self, address: &Address, client: u64, is_good: bool, now: Timestamp) {
        if self.pages.requested(address, now) || !is_good {
            return;
        }
        let is_refused = refusal(address, Origin::Requested, &self.rules.patterns).is_some();
        if !is_refused && self.first_requests.is_second(address, client, now) {
            let meeting = Meeting { origin: Origin::Requested, ..Meeting::default() };
            self.meet(address.clone(), &meeting, now);
            self.pages.requested(address, now);
        }
    }

    /// The server has given a client a page at this address. If the mirror remembers that nothing is there, that is not
    /// given before it is confirmed; returns whether that is new.
    pub fn found_by_client(&mut self, address: &Address) -> bool {
        let is_gone = self.pages.get(address).is_some_and(Page::is_gone);
        is_gone && !self.pages.set_outdated(address, true)
    }

    /// A client's unsafe request has succeeded: negative answers go, and pages are to be confirmed before the server
    /// sleeps. The changes are for the store, at once.
    pub fn changed_by_client(&mut self, now: Timestamp) -> Vec<Change> {
        self.content_changed(now);
        self.completeness.changed();
        let negative = self.pages.outdate_after_change();
        negative.into_iter().map(Change::Remove).collect()
    }

    /// Content has changed, as the operator, an endpoint or the agent says: all of it, or what begins so.
    pub fn outdate(&mut self, path_prefix: &str) {
        self.completeness.changed();
        self.pages.outdate(path_prefix);
        self.retry(|address| address.as_str().starts_with(path_prefix));
    }

    /// The operator removes these pages, to be fetched again. What was refused for its answer may be another one now.
    pub fn retry(&mut self, is_meant: impl Fn(&Address) -> bool) {
        self.pages.retry(is_meant);
    }

    /// Addresses that are to go from the store: no page links to them any more, and they are gone.
    pub fn take_forgotten(&mut self) -> Vec<Address> {
        std::mem::take(&mut self.forgotten)
    }

    /// What was mirrored under these addresses is lost: they are fetched again.
    pub fn lost(&mut self, addresses: &[Address]) {
        for address in addresses {
            self.pages.set(address, PageState::New);
        }
    }

    /// How many answers are due before the server is put to sleep.
    pub fn due_before_sleep(&self, now: Timestamp) -> usize {
        let is_due = |page: &Page| page.is_due(PassKind::Refresh, now, now, &self.rules.refresh);
        self.pages.iter().filter(|(_, page)| is_due(page)).count()
    }

    /// When to wake the server for the mirror's sake, if nothing else does before. `hours` are the hours to
    /// come, with what a wake-up costs in each.
    pub fn wake_at(&self, hours: &[Hour]) -> Option<Timestamp> {
        let oldest = self.pages.oldest_kept()?;
        Some(wake_at(oldest, &self.rules.refresh, hours))
    }

    /// Whether a whole pass is due: there was none within `max_age`, or things were said to have changed.
    pub fn wants_whole_pass(&self, now: Timestamp) -> bool {
        let last = self.last_whole;
        last.is_none_or(|last| now.since(last) >= self.rules.refresh.max_age || last > now)
    }

    /// While the server is awake: a path to ask it about.
    pub fn sample(&mut self, now: Timestamp) -> Option<Address> {
        // It may have come to be known or forbidden meanwhile.
        self.samples.next(now).filter(|address| self.would_be_absent(address))
    }

    /// What the server said about a sample; true if that suspends `complete`.
    pub fn sampled(&mut self, address: &Address, status: http::StatusCode) -> bool {
        let exists = says_that_it_exists(address, status) && self.would_be_absent(address);
        if exists {
            self.completeness.refuted(address);
        }
        exists
    }

    /// The self-check of `complete`.
    pub fn completeness(&self) -> &Completeness {
        &self.completeness
    }

    /// What is known of an address.
    pub fn page(&self, address: &Address) -> Option<&Page> {
        self.pages.get(address)
    }

    /// All addresses that are known.
    pub fn pages(&self) -> impl Iterator<Item = (&Address, &Page)> {
        self.pages.iter()
    }

    /// How many addresses are not mirrored for each reason.
    pub fn reasons(&self) -> Vec<ReasonCount> {
        let count = |reason: Reason| {
            self.pages.iter().filter(|(_, it)| it.refused() == Some(reason)).count()
        };
        let counts =
            Reason::ALL.iter().map(|reason| ReasonCount { reason: *reason, count: count(*reason) });
        counts.filter(|it| it.count > 0).collect()
    }

    /// Whether the server has said that everything is gone, and it is not believed yet.
    pub fn is_doubted(&self) -> bool {
        self.doubted.is_some()
    }

    /// When the last whole pass began that ended by itself.
    pub fn last_whole(&self) -> Option<Timestamp> {
        self.last_whole
    }

    /// What the last pass did.
    pub fn last_report(&self) -> Option<PassReport> {
        self.last_report
    }
}

/// Whether an answer to a sample says that there is something: a page, a redirect, or a log-in.
fn says_that_it_exists(address: &Address, status: http::StatusCode) -> bool {
    let is_hidden_file = || address.segments().any(|segment| segment.starts_with('.'));
    match StatusKind::of(status.as_u16()) {
        // A failure says nothing.
        StatusKind::Gone | StatusKind::Refused(Reason::ServerError) => false,
        // The request was not understood, or servers refuse `/.git/` and the like whether it exists or not.
        StatusKind::Refused(_) => match status.as_u16() {
            400 | 414 | 431 => false,
            403 => !is_hidden_file(),
            _ => true,
        },
        StatusKind::Page | StatusKind::Redirect => true,
    }
}

/// A reason, and how many addresses it keeps out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonCount {
    /// Why.
    pub reason: Reason,
    /// How many.
    pub count: usize,
}

/// How an address came up.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    pub(crate) origin: Origin,
    /// Links from the start.
    pub(crate) depth: u16,
    /// It is a sitemap or a feed.
    pub(crate) is_hint: bool,
    /// It is linked, but not to be followed.
    pub(crate) is_not_followed: bool,
    /// When it changed, as a sitemap or a feed says.
    pub(crate) modified: Option<Timestamp>,
    /// The page that links to it, or lists it.
    pub(crate) linked_by: Option<Address>,
}

impl Meeting {
    /// When it changed. What lies ahead (a time zone, a post for tomorrow) would keep it due for ever.
    pub(crate) fn modified_before(&self, now: Timestamp) -> Option<u64> {
        self.modified.map(|modified| modified.min(now).as_millis())
    }
}

impl Default for Meeting {
    fn default() -> Self {
        Self {
            origin: Origin::Seed,
            depth: 0,
            is_hint: false,
            is_not_followed: false,
            modified: None,
            linked_by: None,
        }
    }
}

#[cfg(test)]
mod tests;
