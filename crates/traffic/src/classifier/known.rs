//! What is known of the clients of one address: why they are refused, and how that ends.

use nightwatt_energy::time::Mono;

use super::{Classifier, ClientKey, Verdict};
use crate::classifier::{ClientFacts, Fetch};
use crate::rule::Rule;
use crate::traits::Traits;

/// One client of an address.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Its `User-Agent`; `None` if that is not remembered any more.
    pub agent: Option<String>,
    /// What it is when it asks for the front page.
    pub verdict: Verdict,
    /// Since when, if the rule holds because of what it did.
    pub since: Option<Mono>,
    /// Misses in the last ten minutes; two on paths of scanners count as many as make a scanner.
    pub misses: u32,
    /// Their share of what it asked for in that time, 0 ..= 1.
    pub missed_share: f64,
}

/// Log-ins of an address that failed in a row, at one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedLogIns {
    /// How many.
    pub failures: u32,
    /// The first of them.
    pub since: Mono,
    /// When they are forgotten, if no more come.
    pub until: Mono,
}

impl Classifier {
    /// The clients that are known of an address; with `agent`, that one alone, known or not.
    pub fn known(&mut self, now: Mono, address: ClientKey, agent: Option<&str>) -> Vec<Known> {
        let number = address.number();
        if let Some(agent) = agent {
            let traits = self.rules.traits(&mut self.agents, &front_page(address, agent));
            return vec![self.known_by(now, &traits, Some(agent.to_owned()))];
        }
        let theirs = self.clients.all().filter(|client| client.address == number);
        let mut agents: Vec<u64> = theirs.map(|client| client.agent).collect();
        agents.sort_unstable();
        let mut known = Vec::new();
        for agent in agents {
            let text = self.agents.text_of(agent).map(str::to_owned);
            let traits = match &text {
                Some(text) => self.rules.traits(&mut self.agents, &front_page(address, text)),
                None => Traits::of_hashes(number, agent),
            };
            known.push(self.known_by(now, &traits, text));
        }
        known
    }

    fn known_by(&mut self, now: Mono, traits: &Traits, agent: Option<String>) -> Known {
        let verdict = self.judge_of(now, traits);
        let client = self.clients.known(traits.who());
        let (misses, missed_share) = client.map_or((0, 0.0), |client| client.misses_at(now));
        let since = client.and_then(|client| match verdict.rule {
            Rule::Misses => Some(client.marks.scanner_since),
            Rule::RobotsTxt => client.marks.robots,
            _ => None,
        });
        Known { agent, verdict, since, misses, missed_share }
    }

    /// Failed log-ins of an address, if they are too many for further ones to wake the server.
    pub fn failed_log_ins(&self, now: Mono, address: ClientKey) -> Option<FailedLogIns> {
        let guesses = self.guesses.of(now, address.number())?;
        let (failures, since) = (guesses.failures, guesses.first);
        Some(FailedLogIns { failures, since, until: guesses.end() })
    }

    /// Forgets what the clients of an address did wrong, or the one with this agent; and that log-ins of
    /// the address failed. Returns how many clients had done something wrong.
    pub fn forgive(&mut self, address: ClientKey, agent: Option<&str>) -> usize {
        let number = address.number();
        let hash = agent.map(crate::hash::text);
        self.guesses.forgive(number);
        let mut forgiven = 0;
        for client in self.clients.all_mut().filter(|client| client.address == number) {
            if hash.is_none_or(|hash| client.agent == hash) {
                forgiven += usize::from(client.has_erred());
                client.forgive();
            }
        }
        forgiven
    }
}

/// A request for the front page.
const fn front_page(client: ClientKey, agent: &str) -> ClientFacts<'_> {
    ClientFacts {
        client,
        agent: Some(agent),
        method: "GET",
        target: "/",
        host: None,
        referer: None,
        accepts_html: None,
        credential: None,
        fetch: Fetch::Unknown,
    }
}
