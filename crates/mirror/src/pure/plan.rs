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

mod bounds;
mod caches;
mod pages;
mod queue;
mod saved;
mod take;

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use nightwatt_httpcache::{Timestamp, update};

pub use self::bounds::Limits;
pub use self::pages::{Page, PageState};
pub use self::saved::SavedPlan;
pub use self::take::{Change, Taken};

use self::pages::Pages;
use self::queue::{Pass, priority_of};
use super::address::{Address, Site};
use super::admit::{AdmitRules, Digest};
use super::complete::{Completeness, PassQuality, Samples};
use super::entry::Entry;
use super::patterns::{Origin, PatternRules, refusal};
use super::popularity::FirstRequests;
use super::reason::{Reason, ReasonKind};
use super::refresh::{Hour, RefreshRules, wake_at};
use super::robots::{Permission, Robots};
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
}

/// After this many failures in a row a pass ends: the server has other worries.
const FAILURES_IN_A_ROW: u32 = 5;

/// The plan of one site's mirror.
#[derive(Debug)]
pub struct Planner {
    site: Site,
    rules: PlanRules,
    robots: Robots,
    pages: Pages,
    pass: Option<Pass>,
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
            robots: Robots::default(),
            pages,
            pass: None,
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
            if is_due || order.first.is_some() {
                return Next::Fetch(order);
            }
            pass.forget(&order);
        }
        if pass.in_flight() > 0 { Next::WaitForAnswer } else { self.end(now) }
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
            }
        }
        self.last_report = Some(report);
        Next::Done(report)
    }

    /// robots.txt is known: the pass can begin in earnest.
    fn fill_queue(&mut self, now: Timestamp) {
        for seed in self.seeds() {
            self.meet(seed, Meeting::default(), now);
        }
        for sitemap in self.sitemaps() {
            self.meet(sitemap, Meeting { is_hint: true, ..Meeting::default() }, now);
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
        let named = self.robots.sitemaps.iter().filter_map(|it| self.site.resolve(base, it).ok());
        Address::new("/sitemap.xml").into_iter().chain(named).collect()
    }

    /// An address comes up: from a link, a list, a client or the operator.
    fn meet(&mut self, address: Address, meeting: Meeting, now: Timestamp) {
        let is_new = self.pages.meet(&address, &meeting);
        self.completeness.knows(&address);
        let refused = self.refusal(&address, &meeting, is_new, now);
        if let Some(reason) = refused {
            if is_new && !self.pages.refuse_new(&address, &meeting, reason, now) {
                self.note_bound();
            }
            if reason.kind() == ReasonKind::ByBound {
                self.note_bound();
            }
            return;
        }
        if is_new && !self.pages.insert(&address, &meeting) {
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

    /// Why an address that came up is not fetched. What is known already was asked before: only robots.txt may
    /// have changed.
    fn refusal(
        &mut self,
        address: &Address,
        meeting: &Meeting,
        is_new: bool,
        now: Timestamp,
    ) -> Option<Reason> {
        match self.robots.permission(address.as_str()) {
            Permission::Never => return Some(Reason::Robots),
            Permission::DoNotDiscover if is_new && meeting.origin == Origin::Linked => {
                return Some(Reason::Robots);
            }
            _ => {}
        }
        if !is_new {
            return None;
        }
        if meeting.is_not_followed {
            return Some(Reason::NotFollowed);
        }
        refusal(address, meeting.origin, &self.rules.patterns)
            .or_else(|| (meeting.depth > self.rules.limits.depth).then_some(Reason::TooDeep))
            // Before it is counted by its form: it comes up again in each pass.
            .or_else(|| {
                let is_full = self.pages.fetched() >= self.rules.limits.pages;
                is_full.then_some(Reason::PagesBound)
            })
            .or_else(|| self.pages.count(address, now).err())
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
            self.meet(address.clone(), meeting, now);
            self.pages.requested(address, now);
        }
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

    /// Whether a path does not exist for all the mirror knows. Only for addresses that are not mirrored.
    pub fn is_absent(&mut self, address: &Address) -> bool {
        if self.completeness.would_be_absent(address) {
            self.samples.add(address);
        }
        self.completeness.is_absent(address)
    }

    /// While the server is awake: a path to ask it about.
    pub fn sample(&mut self, now: Timestamp) -> Option<Address> {
        self.samples.next(now)
    }

    /// What the server said about a sample; true if that suspends `complete`.
    pub fn sampled(&mut self, address: &Address, status: http::StatusCode) -> bool {
        let exists = status.is_success() && self.completeness.would_be_absent(address);
        if exists {
            self.completeness.refuted(address);
        }
        exists
    }

    /// The self-check of `complete`.
    pub fn completeness(&self) -> &Completeness {
        &self.completeness
    }

    /// The operator lifts the suspension of `complete`.
    pub fn resume_complete(&mut self) {
        self.completeness.resume();
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

    /// When the last whole pass began that ended by itself.
    pub fn last_whole(&self) -> Option<Timestamp> {
        self.last_whole
    }

    /// What the last pass did.
    pub fn last_report(&self) -> Option<PassReport> {
        self.last_report
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
#[derive(Clone, Copy, Debug)]
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
}

impl Default for Meeting {
    fn default() -> Self {
        Self {
            origin: Origin::Seed,
            depth: 0,
            is_hint: false,
            is_not_followed: false,
            modified: None,
        }
    }
}

#[cfg(test)]
mod tests;
