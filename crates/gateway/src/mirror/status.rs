//! The status of a mirror, for orders and metrics.

use std::collections::BTreeMap;

use nightwatt_energy::energy::Energy;
use nightwatt_httpcache::Timestamp;
use nightwatt_mirror::pure::address::{Address, Outside};
use nightwatt_mirror::pure::complete::NotComplete;
use nightwatt_mirror::pure::entry::Entry;
use nightwatt_mirror::pure::own_use::OwnUse;
use nightwatt_mirror::pure::plan::{Page, PageState};
use nightwatt_mirror::pure::reason::Reason;
use nightwatt_mirror::pure::refused_addresses::{Origin, refusal};
use nightwatt_mirror::pure::represent::NotGiven;
use serde::{Deserialize, Serialize};

use super::Mirror;
use super::open::OpenMirror;
use crate::status::MirrorStatus;

/// About an address that is not mirrored yet.
const LATER: &str = "it is fetched the next time that the server is awake";

/// What is known about one address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// Path and query.
    pub address: String,
    /// It is answered from the mirror while the server sleeps.
    pub is_mirrored: bool,
    /// Explanation in words.
    pub why: String,
    /// The reason in one word, if there is one against mirroring it.
    pub reason: Option<String>,
    /// Status of the mirrored answer.
    pub status: Option<u16>,
    /// Bytes of its body.
    pub bytes: Option<u64>,
    /// Seconds since it was confirmed.
    pub confirmed_s_ago: Option<f64>,
    /// Requests of the last weeks; older ones count less.
    pub requests: f64,
}

impl Mirror {
    /// The present status.
    pub(crate) fn status(&self) -> MirrorStatus {
        let now = self.now();
        let empty = MirrorStatus {
            site: self.site.to_string(),
            url: None,
            pages: 0,
            errors: 0,
            redirects: 0,
            bytes: 0,
            max_bytes: self.bounds.bytes,
            oldest_s: None,
            due: 0,
            last_pass_s_ago: None,
            is_running: false,
            not_mirrored: BTreeMap::new(),
            not_complete: None,
            is_complete_wanted: self.rules.complete,
            coverage: None,
            requests: 0,
            own_wakeups: 0,
            own_awake_s: 0.0,
            own_energy: self.energy_of(OwnUse::default()),
        };
        let Some(open) = self.opened() else { return empty };
        let ago = |at: Timestamp| now.since(at).as_secs_f64();
        let MirrorCounts { pages, errors, redirects } = MirrorCounts::of(&open);
        let bytes = open.store.bytes();
        let (coverage, own) = (open.coverage().clone(), *open.own_use());
        let plan = open.plan();
        let reasons = plan.reasons().into_iter();
        let not_complete = plan.completeness().not_complete();
        let not_complete = not_complete.filter(|it| *it != NotComplete::NotWanted);
        MirrorStatus {
            url: Some(open.base.url()),
            pages,
            errors,
            redirects,
            bytes,
            oldest_s: plan.pages().filter_map(|(_, page)| page.confirmed()).min().map(ago),
            due: plan.due_before_sleep(now),
            last_pass_s_ago: plan.last_whole().map(ago),
            is_running: plan.is_running(),
            not_mirrored: reasons.map(|it| (it.reason.token().to_owned(), it.count)).collect(),
            not_complete: not_complete.map(|it| it.to_string()),
            coverage: coverage.share(now),
            requests: coverage.requests(now),
            own_wakeups: own.wakeups,
            own_awake_s: own.awake.as_secs_f64(),
            own_energy: self.energy_of(own),
            ..empty
        }
    }

    /// What the server used for the mirror, beyond sleeping.
    fn energy_of(&self, own: OwnUse) -> Energy {
        let states = self.server.power_states();
        let joules = (states.on - states.off) * own.awake + states.switch * own.wakeups as f64;
        Energy::modelled(
            joules,
            self.server.uncertainty,
            "power states x time awake for the mirror",
        )
    }

    /// The address that a whole URL names, if it is one of this site. `None` while the copy is not open.
    pub(crate) fn address_of(&self, url: &str) -> Option<Result<Address, Outside>> {
        let open = self.opened()?;
        let plan = open.plan();
        Some(plan.site().resolve(plan.site().base(), url))
    }

    /// What is known about an address; `None` while the copy is not open.
    pub(crate) fn explain(&self, address: &Address) -> Option<Explained> {
        let (open, now) = (self.opened()?, self.now());
        let given = open.store.current().find(address).map(|it| self.for_browsers(it, now));
        Some(explain(&open, address, given, now))
    }
}

/// Numbers of mirrored answers.
#[derive(Debug, Default)]
struct MirrorCounts {
    pages: usize,
    errors: usize,
    redirects: usize,
}

impl MirrorCounts {
    fn of(open: &OpenMirror) -> Self {
        let mut counts = Self::default();
        for entry in open.store.current().iter() {
            let status = entry.status();
            let count = match () {
                () if status.is_client_error() => &mut counts.errors,
                () if status.is_redirection() => &mut counts.redirects,
                () => &mut counts.pages,
            };
            *count += 1;
        }
        counts
    }
}

/// What browsers get of what is mirrored.
fn in_words(entry: &Entry, given: Result<(), NotGiven>) -> &'static str {
    match given {
        Err(NotGiven::Variant) => {
            "the server answers browsers in another way (Vary): they do not get the copy"
        }
        Err(_) => "its lifetime is over, and its server does not permit giving it for longer",
        Ok(()) if entry.status().is_client_error() => {
            "there is no such page: the mirror gives the error with which the server has answered"
        }
        Ok(()) if entry.status().is_redirection() => "it is mirrored, as a redirect",
        Ok(()) => "it is mirrored",
    }
}

/// `given`: whether browsers get what is mirrored.
fn explain(
    open: &OpenMirror,
    address: &Address,
    given: Option<Result<(), NotGiven>>,
    now: Timestamp,
) -> Explained {
    let current = open.store.current();
    let entry = current.find(address);
    let plan = open.plan();
    let page = plan.page(address);
    let rules = plan.rules();
    let reason = match page {
        Some(page) => page.refused(),
        None => refusal(address, Origin::Linked, &rules.patterns),
    };
    let is_too_old = entry.is_some_and(|it| rules.refresh.is_too_old(it.confirmed(), now));
    let is_doubtful = page.is_some_and(Page::is_doubtful);
    let mirrored = entry.zip(given).map(|(entry, given)| in_words(entry, given));
    let took_too_long = page.is_some_and(Page::took_too_long);
    let why = match (page.map(|page| page.state), reason) {
        (_, Some(reason)) => reason.text(),
        (Some(PageState::Kept { .. }), _) if took_too_long && (is_doubtful || is_too_old) => {
            Reason::TimedOut.text()
        }
        (Some(PageState::Kept { .. }), _) if is_doubtful => {
            "it may have changed: it is confirmed before the server sleeps"
        }
        (Some(PageState::Kept { .. }), _) if is_too_old => "it is older than `max_age`",
        (Some(PageState::Kept { .. }), _) => mirrored.unwrap_or(LATER),
        (Some(_), _) => LATER,
        (None, None) => "no page that was read links to it",
    };
    Explained {
        address: address.as_str().to_owned(),
        is_mirrored: given == Some(Ok(())) && !is_doubtful && !is_too_old,
        why: why.to_owned(),
        reason: reason.map(|it| it.token().to_owned()),
        status: entry.map(|it| it.status),
        bytes: entry.map(|it| it.body.map_or(0, |body| body.length)),
        confirmed_s_ago: entry.map(|it| now.since(it.confirmed()).as_secs_f64()),
        requests: page.map_or(0.0, |page| page.popularity.at(now)),
    }
}
