//! Agents that no table lists as crawlers or monitors and that behave like one.
//!
//! People's browsers fetch a page and then its images, styles and scripts, come from one page to
//! the next, and sleep at night. A crawler reads page after page and nothing else. None of its
//! habits proves it alone, so an agent is suspected by two of them at least, one of which is that
//! it leaves out the parts of pages. A client that asks for one URL at a steady period is a monitor
//! by that alone.

mod steady;

use std::collections::HashMap;
use std::fmt;

use foldhash::fast::RandomState;
use nightwatt_energy::time::Wall;
use serde::{Deserialize, Serialize};

use crate::hash;
use crate::scan::Logged;
use crate::suspected_crawlers::steady::{Steady, beginning};

/// Requests that an agent must have made, and different pages that it must have asked for, before
/// it is judged.
const REQUESTS: u64 = 50;
const PAGES: u64 = 20;

/// Most parts that a crawler asks for, as a share of its pages; and the fewest that all others
/// together must have asked for, as a share of theirs, for that to say something of this site.
const PARTS: f64 = 0.02;
const PARTS_OF_OTHERS: f64 = 0.2;

/// Share of requests without a referer.
const NO_REFERER: f64 = 0.95;
/// Share of `HEAD` requests.
const HEADS: f64 = 0.3;
/// Share of requests for what is not there.
const MISSES: f64 = 0.4;

/// Around the clock: over this many days, in this many hours of the day, and of its quietest six hours
/// at least this share of requests (a quarter would be perfectly even).
const DAYS: u64 = 2;
const HOURS: usize = 22;
const QUIETEST: f64 = 0.15;
/// People all over the world are awake around the clock too; so few clients are not.
const CLIENTS: u64 = 8;

/// Agents watched, some 700 bytes each at most 1.2 KB. When there are more, the half with the fewest requests
/// is forgotten; one that comes back starts from zero.
const AGENTS: usize = 4096;

/// Why an agent is suspected, with the figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Habit {
    /// Asks for pages and leaves out their parts.
    LeavesOutParts {
        /// Different pages it asked for, roughly.
        pages: u64,
        /// Images, styles and scripts it asked for.
        parts: u64,
        /// Parts that others asked for, for each of their pages.
        others: f64,
    },
    /// Asks at all hours of the day, from few clients.
    AroundTheClock {
        /// Hours of the day, of 24, in which it asked.
        hours: u64,
        /// Clients, roughly.
        clients: u64,
    },
    /// Asked for `/robots.txt` this many times.
    ReadsRobotsTxt(u64),
    /// Share of its requests that came from no page.
    ComesFromNowhere(f64),
    /// Share of its requests that were `HEAD`.
    AsksByHead(f64),
    /// Share of its requests for what is not there.
    AsksForWhatIsNotThere(f64),
    /// One of its clients asks for one URL at a steady period, as monitors do.
    AsksSteadily {
        /// Mean time from one request to the next, in seconds.
        every_s: f64,
        /// The URL.
        target: String,
    },
}

impl fmt::Display for Habit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeavesOutParts { pages, parts, others } => write!(
                f,
                "asked for {pages} different pages and {parts} images, styles and scripts (others \
                 for {others:.1} a page)"
            ),
            Self::AroundTheClock { hours, clients } => write!(
                f,
                "asked around the clock, in {hours} of 24 hours, from {clients} \
                 client{s}",
                s = if *clients == 1 { "" } else { "s" }
            ),
            Self::ReadsRobotsTxt(times) => write!(f, "read robots.txt {times} times"),
            Self::ComesFromNowhere(share) => {
                write!(f, "{:.0} % of its requests came from no page", share * 100.0)
            }
            Self::AsksByHead(share) => {
                write!(f, "{:.0} % of its requests were HEAD", share * 100.0)
            }
            Self::AsksForWhatIsNotThere(share) => {
                write!(f, "{:.0} % of what it asked for is not there", share * 100.0)
            }
            Self::AsksSteadily { every_s, target } => {
                write!(f, "asked for {target} every {every_s:.0} s, as a monitor does")
            }
        }
    }
}

/// An agent that behaves like a crawler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// Its `User-Agent`.
    pub agent: String,
    /// Its requests.
    pub requests: u64,
    /// What gave it away: two habits at least, or a steady period alone.
    pub habits: Vec<Habit>,
}

/// Watches agents that no table knows.
#[derive(Debug, Default)]
pub struct Suspects {
    agents: HashMap<u64, Watched, RandomState>,
    /// Of all agents watched.
    pages: u64,
    parts: u64,
    steady: Steady,
}

/// One agent.
#[derive(Debug)]
struct Watched {
    agent: Box<str>,
    requests: u64,
    /// Requests for pages, and for parts of pages.
    pages: u64,
    parts: u64,
    robots: u64,
    heads: u64,
    misses: u64,
    referred: u64,
    first: Wall,
    last: Wall,
    by_hour: [u32; 24],
    /// Which pages and clients, by hash: a bit each.
    distinct_pages: [u64; 16],
    distinct_clients: [u64; 2],
}

impl Suspects {
    /// Watches no agent yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a request. Those of agents that say what they are (crawlers, monitors, programs of the
    /// operator's own, and none at all) are passed over; those of libraries count only if they are steady.
    pub fn observe(&mut self, logged: &Logged<'_>) {
        let traits = &logged.traits;
        let Some(agent) = logged.agent else { return };
        if traits.decided().is_some() {
            return;
        }
        self.steady.observe(logged, agent);
        if traits.is_library() {
            return;
        }
        if self.agents.len() >= AGENTS && !self.agents.contains_key(&traits.agent) {
            self.forget();
        }
        let watched =
            self.agents.entry(traits.agent).or_insert_with(|| Watched::new(agent, logged.at));
        let (pages, parts) = watched.observe(logged);
        self.pages += pages;
        self.parts += parts;
    }

    /// Those that behave like crawlers, most requests first.
    pub fn list(&self) -> Vec<Suspect> {
        let mut suspects: Vec<Suspect> = self
            .agents
            .values()
            .filter_map(|watched| {
                let others = (self.pages - watched.pages, self.parts - watched.parts);
                let habits = watched.habits(others.1 as f64 / others.0.max(1) as f64);
                let agent = watched.agent.to_string();
                (!habits.is_empty()).then_some(Suspect {
                    agent,
                    requests: watched.requests,
                    habits,
                })
            })
            .collect();
        for asker in self.steady.list() {
            let is_same = |suspect: &&mut Suspect| *suspect.agent == *asker.agent;
            let Some(suspect) = suspects.iter_mut().find(is_same) else {
                let (agent, requests) = (asker.agent.to_string(), asker.requests.into());
                suspects.push(Suspect { agent, requests, habits: vec![asker.habit()] });
                continue;
            };
            // Of several clients, that with the most requests.
            if !suspect.habits.iter().any(|habit| matches!(habit, Habit::AsksSteadily { .. })) {
                suspect.habits.push(asker.habit());
            }
        }
        suspects.sort_by(|one, other| {
            other.requests.cmp(&one.requests).then_with(|| one.agent.cmp(&other.agent))
        });
        suspects
    }

    fn forget(&mut self) {
        let mut counts: Vec<u64> = self.agents.values().map(|watched| watched.requests).collect();
        let (_, &mut middle, _) = counts.select_nth_unstable(AGENTS / 2);
        let mut kept = 0;
        self.agents.retain(|_, watched| {
            let keep = watched.requests >= middle && kept < AGENTS / 2;
            kept += usize::from(keep);
            keep
        });
    }
}

impl Watched {
    fn new(agent: &str, at: Wall) -> Self {
        Self {
            agent: beginning(agent),
            requests: 0,
            pages: 0,
            parts: 0,
            robots: 0,
            heads: 0,
            misses: 0,
            referred: 0,
            first: at,
            last: at,
            by_hour: [0; 24],
            distinct_pages: [0; 16],
            distinct_clients: [0; 2],
        }
    }

    /// How many pages and parts that was.
    fn observe(&mut self, logged: &Logged<'_>) -> (u64, u64) {
        let traits = &logged.traits;
        self.requests += 1;
        self.last = logged.at;
        let local = logged.at.secs() + i64::from(logged.utc_offset);
        let hour = &mut self.by_hour[(local.rem_euclid(86_400) / 3600) as usize];
        *hour = hour.saturating_add(1);
        self.robots += u64::from(traits.is_robots_txt());
        self.heads += u64::from(traits.is_head());
        self.referred += u64::from(logged.referer.is_some());
        set(&mut self.distinct_clients, traits.client);
        if traits.is_asked_by_itself() {
            return (0, 0);
        }
        self.misses += u64::from(matches!(logged.status, 404 | 410));
        let (page, part) = (u64::from(!traits.is_part()), u64::from(traits.is_part()));
        self.pages += page;
        self.parts += part;
        if page > 0 {
            set(&mut self.distinct_pages, traits.target);
        }
        (page, part)
    }

    /// None where it is not suspected; `others`: parts for each page of all others.
    fn habits(&self, others: f64) -> Vec<Habit> {
        let pages = count(&self.distinct_pages).min(self.pages);
        let leaves_out = self.parts as f64 <= PARTS * self.pages as f64;
        if self.requests < REQUESTS || pages < PAGES || !leaves_out || others < PARTS_OF_OTHERS {
            return Vec::new();
        }
        let of_all = |part: u64| part as f64 / self.requests as f64;
        let mut habits = vec![Habit::LeavesOutParts { pages, parts: self.parts, others }];
        let mut add = |holds: bool, habit: Habit| habits.extend(holds.then_some(habit));
        let (hours, clients) = (self.hours(), count(&self.distinct_clients));
        let around = self.never_sleeps() && hours >= HOURS && clients <= CLIENTS;
        add(around, Habit::AroundTheClock { hours: hours as u64, clients });
        add(self.robots > 0, Habit::ReadsRobotsTxt(self.robots));
        let nowhere = 1.0 - of_all(self.referred);
        add(nowhere >= NO_REFERER, Habit::ComesFromNowhere(nowhere));
        add(of_all(self.heads) >= HEADS, Habit::AsksByHead(of_all(self.heads)));
        add(of_all(self.misses) >= MISSES, Habit::AsksForWhatIsNotThere(of_all(self.misses)));
        if habits.len() > 1 { habits } else { Vec::new() }
    }

    fn hours(&self) -> usize {
        self.by_hour.iter().filter(|&&requests| requests > 0).count()
    }

    fn never_sleeps(&self) -> bool {
        let span = self.last.0.saturating_sub(self.first.0).unsigned_abs();
        let six = |from: usize| {
            (from..from + 6).map(|hour| u64::from(self.by_hour[hour % 24])).sum::<u64>()
        };
        let quietest = (0..24).map(six).min().unwrap_or(0);
        span >= DAYS * 86_400_000 && quietest as f64 >= QUIETEST * self.requests as f64
    }
}

fn set(bits: &mut [u64], hash: u64) {
    let bit = (hash::spread(hash) % (bits.len() as u64 * 64)) as usize;
    bits[bit / 64] |= 1 << (bit % 64);
}

/// How many there are, by the share of bits that are not set (linear counting): within some 5 %
/// while half are free, and too few where hardly any is.
fn count(bits: &[u64]) -> u64 {
    let all = bits.len() as f64 * 64.0;
    let free: u32 = bits.iter().map(|word| word.count_zeros()).sum();
    (all * (all / f64::from(free.max(1))).ln()).round() as u64
}

#[cfg(test)]
#[path = "suspects_tests.rs"]
mod tests;
