//! Clients that ask for one URL at a steady period, whatever they are called: monitors, and jobs of
//! the operator's own.

use nightwatt_energy::time::Wall;

use super::Habit;
use crate::hash;
use crate::scan::Logged;

/// Requests, and the time that they must span, before a client is judged.
const REQUESTS: u32 = 50;
const SPAN_MS: i64 = 86_400_000;

/// Most that the standard deviation of the gaps may be, as a share of their mean.
const SPREAD: f64 = 0.1;
/// Gaps over this many times the mean are outages, and left out.
const OUTAGE: f64 = 3.0;
/// Gaps that tell the mean well enough for that.
const FEW: u32 = 5;

/// Requests after which the texts of agent and target are kept.
const NAMED: u32 = 10;

/// Askers watched, some 100 bytes each and their texts. Two that meet in one place push each other
/// out, the one with more requests last.
const PLACES: u64 = 8192;
const LONGEST: usize = 512;

/// One client with one agent that asks for one URL.
#[derive(Debug, Default, Clone)]
pub(super) struct Asker {
    key: u64,
    pub(super) agent: Box<str>,
    target: Box<str>,
    pub(super) requests: u32,
    /// Requests, less those of others that came to its place.
    credit: u32,
    gaps: u32,
    mean_ms: f64,
    /// Sum of the squared distances of the gaps from their mean (Welford's).
    squares: f64,
    first: Wall,
    last: Wall,
}

/// Watches all clients.
#[derive(Debug, Default)]
pub(super) struct Steady {
    places: Vec<Asker>,
}

impl Steady {
    /// Takes in a request. Those of people come from pages, or are for parts of pages.
    pub(super) fn observe(&mut self, logged: &Logged<'_>, agent: &str) {
        let traits = &logged.traits;
        if logged.referer.is_some() || traits.is_part() {
            return;
        }
        let key = hash::pair(traits.client, hash::pair(traits.agent, traits.target));
        if self.places.is_empty() {
            self.places.resize_with(PLACES as usize, Asker::default);
        }
        let asker = &mut self.places[(key % PLACES) as usize];
        if asker.key == key && asker.requests > 0 {
            asker.observe(logged, agent);
        } else if asker.credit > 0 {
            asker.credit -= 1;
        } else {
            let at = logged.at;
            *asker = Asker { key, requests: 1, credit: 1, first: at, last: at, ..Asker::default() };
        }
    }

    /// Those that are steady, most requests first.
    pub(super) fn list(&self) -> Vec<&Asker> {
        let mut steady: Vec<_> = self.places.iter().filter(|it| it.is_steady()).collect();
        steady.sort_by_key(|it| (std::cmp::Reverse(it.requests), &it.agent, &it.target));
        steady
    }
}

impl Asker {
    fn observe(&mut self, logged: &Logged<'_>, agent: &str) {
        self.requests += 1;
        self.credit += 1;
        if self.requests == NAMED {
            (self.agent, self.target) = (beginning(agent), beginning(logged.target));
        }
        let gap = (logged.at.0 - self.last.0) as f64;
        self.last = self.last.max(logged.at);
        if gap < 0.0 || (self.gaps >= FEW && gap > OUTAGE * self.mean_ms) {
            return;
        }
        self.gaps += 1;
        let off = gap - self.mean_ms;
        self.mean_ms += off / f64::from(self.gaps);
        self.squares += off * (gap - self.mean_ms);
    }

    fn is_steady(&self) -> bool {
        let deviation = (self.squares / f64::from(self.gaps.max(1))).sqrt();
        self.requests >= REQUESTS
            && self.last.0 - self.first.0 >= SPAN_MS
            && 2 * self.gaps > self.requests
            && deviation < SPREAD * self.mean_ms
    }

    pub(super) fn habit(&self) -> Habit {
        Habit::AsksSteadily { every_s: self.mean_ms / 1000.0, target: self.target.to_string() }
    }
}

/// A text that is cut where it is too long.
pub(super) fn beginning(text: &str) -> Box<str> {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].into()
}
