//! Who and what wakes the server.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use nightwatt_policy::admission::ClientClass;
use nightwatt_sim::LoggedRequest;
use serde::Serialize;

use super::names::Names;
use super::what_if::{Rule, WhatIf};

/// Names remembered, of addresses and of clients each. Beyond that, the half that has caused least is
/// forgotten, so counts of rare names may be too low, by at most the largest count that was ever forgotten.
const MOST: usize = 1 << 16;

/// Rows of each table of who wakes the server.
pub(super) const ROWS: usize = 20;

/// Addresses and clients for which a rule is tried.
const TRIED: usize = 8;

/// What a client or an address caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Caused {
    /// Wake-ups.
    pub wakeups: u64,
    /// Requests that waited, the one that woke the server among them.
    pub delayed_requests: u64,
}

/// URLs, clients and classes that wake the server.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct WakerFigures {
    /// Addresses of the site.
    pub resources: Vec<Waker>,
    /// Clients.
    pub clients: Vec<Waker>,
    /// Classes of clients.
    pub classes: Vec<Waker>,
    /// What a rule would save is reckoned for this stretch at the end of the log, s.
    pub rules_span_s: f64,
}

/// One URL, client or class that wakes the server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Waker {
    /// What it is called.
    pub name: String,
    /// What it caused.
    #[serde(flatten)]
    pub caused: Caused,
    /// What a rule for it would save; only known for those that cause most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if: Option<WhatIf>,
}

/// Counts by resource, client and class.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    pub(super) resources: Counts,
    pub(super) clients: Counts,
    pub(super) classes: HashMap<ClientClass, Caused>,
}

/// Counts by hash.
pub(super) type Counts = HashMap<u64, Caused, FixedState>;

impl Wakers {
    pub(super) fn delayed(&mut self, asked: &LoggedRequest) {
        self.each(asked, |caused| caused.delayed_requests += 1);
    }

    pub(super) fn woke(&mut self, asked: &LoggedRequest) {
        self.each(asked, |caused| caused.wakeups += 1);
    }

    fn each(&mut self, asked: &LoggedRequest, change: impl Fn(&mut Caused)) {
        change(self.classes.entry(asked.class).or_default());
        for (counts, key) in
            [(&mut self.resources, asked.resource.key), (&mut self.clients, asked.client)]
        {
            if counts.len() >= MOST {
                forget_half(counts);
            }
            change(counts.entry(key).or_default());
        }
    }
}

fn forget_half(counts: &mut Counts) {
    let rank = |caused: &Caused| (caused.wakeups, caused.delayed_requests);
    let mut ranks: Vec<(u64, u64)> = counts.values().map(rank).collect();
    let (_, &mut middle, _) = ranks.select_nth_unstable(MOST / 2);
    let mut room = MOST / 2;
    counts.retain(|_, caused| {
        let stays = rank(caused) >= middle && room > 0;
        room -= usize::from(stays);
        stays
    });
}

/// The `most` that caused most, by wake-ups.
pub(super) fn top(counts: &Counts, most: usize) -> Vec<(u64, Caused)> {
    let mut all: Vec<(u64, Caused)> = counts.iter().map(|(&key, &caused)| (key, caused)).collect();
    all.sort_by_key(|(key, caused)| {
        (std::cmp::Reverse((caused.wakeups, caused.delayed_requests)), *key)
    });
    all.truncate(most);
    all
}

/// The rules worth a try.
pub(super) fn rules(seen: &Wakers) -> Vec<Rule> {
    let resources = top(&seen.resources, TRIED).into_iter().map(|(key, _)| Rule::Cached(key));
    let clients = top(&seen.clients, TRIED).into_iter().map(|(key, _)| Rule::Client(key));
    let classes = seen.classes.keys().map(|&class| Rule::Class(class));
    resources.chain(clients).chain(classes).collect()
}

impl WakerFigures {
    /// Draws them up.
    pub(super) fn of(
        seen: &Wakers,
        resources: &Names,
        clients: &Names,
        rules: &[Rule],
        tried: &[WhatIf],
        rules_span_s: f64,
    ) -> Self {
        let named = |names: &Names, key: u64| {
            names.get(&key).map_or_else(|| "(not kept)".to_owned(), ToString::to_string)
        };
        let what_if =
            |rule: Rule| rules.iter().position(|&tried| tried == rule).map(|place| tried[place]);
        let rows = |counts, names: &Names, rule: fn(u64) -> Rule| {
            let row = |(key, caused)| Waker {
                name: named(names, key),
                caused,
                what_if: what_if(rule(key)),
            };
            top(counts, ROWS).into_iter().map(row).collect()
        };
        let class = |(&class, &caused): (&ClientClass, &Caused)| Waker {
            name: class.as_str().to_owned(),
            caused,
            what_if: what_if(Rule::Class(class)),
        };
        let mut classes: Vec<Waker> = seen.classes.iter().map(class).collect();
        classes.sort_by_key(|waker| std::cmp::Reverse(waker.caused.wakeups));
        Self {
            resources: rows(&seen.resources, resources, Rule::Cached),
            clients: rows(&seen.clients, clients, Rule::Client),
            classes,
            rules_span_s,
        }
    }
}
