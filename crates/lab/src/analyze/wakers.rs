//! Who and what wakes the server.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use nightwatt_model::policy::admission::ClientClass;
use nightwatt_sim::Asked;
use serde::Serialize;

/// Names remembered, of addresses and of clients each. Beyond that whoever has caused least is
/// forgotten, half of them at a time, so counts of rare ones may be too low, by the largest count
/// that was ever forgotten at most.
const MOST: usize = 1 << 16;

/// What somebody caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Caused {
    /// Wake-ups.
    pub wakeups: u64,
    /// Requests that waited, the one that woke the server among them.
    pub delayed_requests: u64,
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
    pub(super) fn delayed(&mut self, asked: &Asked) {
        self.each(asked, |caused| caused.delayed_requests += 1);
    }

    pub(super) fn woke(&mut self, asked: &Asked) {
        self.each(asked, |caused| caused.wakeups += 1);
    }

    fn each(&mut self, asked: &Asked, change: impl Fn(&mut Caused)) {
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
