//! What kind of client sends a request: one answer for the live proxy and for a log.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use nightwatt_model::policy::admission::ClientClass;
use nightwatt_model::time::{Mono, Now};
use serde::{Deserialize, Serialize};

use crate::arrival::Arrival;
use crate::hash;
use crate::misses::{Clients, within};
use crate::scanner_paths::Existing;
use crate::traits::{AgentMemo, Rules, Traits};

/// Who asks, as far as it can be remembered in a few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// An IPv4 address.
    V4(u32),
    /// The upper 64 bits of an IPv6 address: whoever has one address has all of those.
    V6(u64),
    /// A host name, by hash (two names share one with a chance of 5e-20).
    Name(u64),
}

impl ClientKey {
    /// The same in one number: different addresses of one kind have different numbers, and two
    /// kinds share one with a chance of 5e-20.
    pub const fn number(self) -> u64 {
        match self {
            Self::V4(address) => hash::spread(1 << 32 | address as u64),
            Self::V6(prefix) => hash::spread(prefix),
            Self::Name(hash) => hash,
        }
    }
}

impl ClientKey {
    /// The network that a client is in, in one number: of IPv6 the first 48 bits, which many a provider
    /// gives to one customer; else the client itself.
    pub const fn network(self) -> u64 {
        match self {
            // Numbers of no client: e000::/4 is not in use.
            Self::V6(prefix) => hash::spread(0xE << 60 | prefix >> 16),
            Self::V4(_) | Self::Name(_) => self.number(),
        }
    }
}

impl From<IpAddr> for ClientKey {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            // A program on this machine has all of them.
            address if address.is_loopback() => Self::V4(Ipv4Addr::LOCALHOST.to_bits()),
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

impl From<&str> for ClientKey {
    /// An address, or the name of a host.
    fn from(client: &str) -> Self {
        client.parse::<IpAddr>().map_or_else(|_| Self::Name(hash::text(client)), Self::from)
    }
}

/// What is known of a request before it is answered.
#[derive(Debug, Clone, Copy)]
pub struct ClientFacts<'a> {
    /// Who asks.
    pub client: ClientKey,
    /// `User-Agent`.
    pub agent: Option<&'a str>,
    /// `GET`.
    pub method: &'a str,
    /// Request target: `/index.html?a=b`.
    pub target: &'a str,
    /// `Host`; logs do not know.
    pub host: Option<&'a str>,
    /// `Referer`.
    pub referer: Option<&'a str>,
    /// Whether `Accept` names `text/html` (`*/*` does not count); logs do not know.
    pub accepts_html: Option<bool>,
}

impl<'a> From<&'a Arrival> for ClientFacts<'a> {
    fn from(arrival: &'a Arrival) -> Self {
        Self {
            client: ClientKey::from(arrival.client.as_str()),
            agent: arrival.agent.as_deref(),
            method: &arrival.method,
            target: &arrival.target,
            host: None,
            referer: arrival.referer.as_deref(),
            accepts_html: None,
        }
    }
}

/// What the operator may say about clients. Agents are parts of `User-Agent`, in their exact case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClassifierConfig {
    /// Programs of the operator's own: always [`ClientClass::Api`].
    pub api_agents: Vec<String>,
    /// Crawlers beside the built-in table.
    pub crawler_agents: Vec<String>,
    /// Monitors beside the built-in table.
    pub monitor_agents: Vec<String>,
    /// Whole paths of health checks. Whoever asks for one is told what the proxy knows, whether the
    /// server is awake or not: a site that answers these by itself takes them out of here.
    pub monitor_paths: Vec<String>,
    /// Parts of paths that only scanners ask for, beside the usual ones.
    pub scanner_paths: Vec<String>,
    /// Paths that exist, by their beginning, though scanners ask for them everywhere. The site's
    /// answers tell as much, but only when it is awake: name the login page here.
    pub known_paths: Vec<String>,
    /// Misses in ten minutes that make a scanner.
    pub scanner_misses: u32,
    /// Share of its requests, 0 ..= 1, that a scanner must have missed in that time.
    pub scanner_share: f64,
    /// For how many seconds after its last miss a client stays a scanner.
    pub scanner_for_s: u64,
    /// Clients remembered; some 200 bytes each. A client is forgotten when seven eighths as many
    /// others have been seen since.
    pub clients: usize,
}

impl Default for ClassifierConfig {
    fn default() -> Self {
        Self {
            api_agents: Vec::new(),
            crawler_agents: Vec::new(),
            monitor_agents: Vec::new(),
            monitor_paths: ["/healthz", "/livez", "/readyz"].map(str::to_owned).to_vec(),
            scanner_paths: Vec::new(),
            known_paths: Vec::new(),
            scanner_misses: 8,
            scanner_share: 0.7,
            scanner_for_s: 86_400,
            clients: 16_384,
        }
    }
}

impl ClassifierConfig {
    /// Is this a path of health checks?
    pub fn is_health_check(&self, path: &str) -> bool {
        self.monitor_paths.iter().any(|monitored| path == monitored)
    }
}

/// How long somebody who read `robots.txt` counts as a robot.
const ROBOT_FOR: Duration = Duration::from_hours(24);

/// Tells classes of clients, by what they say and by what they did.
///
/// The first of these that holds:
/// 1. `Monitor`: a path of health checks ([`ClassifierConfig::monitor_paths`]), whoever asks;
/// 2. `Api`: an agent of the operator's own; then `Monitor`: an agent of the operator's, or a
///    monitor by the table;
/// 3. `Crawler`: an agent of the operator's, or a crawler by the table
///    ([`CrawlerTable`](crate::CrawlerTable));
/// 4. `Scanner`: a client that missed too much (see [`Classifier::learn`]), or a path that only
///    scanners ask for and that has never been answered with success here;
/// 5. `Crawler`: a client that asked for `/robots.txt` with this agent in the last 24 hours.
///    A browser does not ask for it by itself; one whose user does counts as a robot until it
///    asks for a part of a page (image, style, script) from a page of the site;
/// 6. `Api`: a library by the table (curl, python-requests), or no agent at all;
/// 7. `Human`: an agent in the form of a browser's, `Mozilla/5.0 (platform) ...`, unless it asks by
///    HEAD, as link checkers do and browsers do not; and any agent that accepts HTML;
/// 8. `Api`: the rest.
///
/// What agents say is believed: a robot in the guise of a browser is a person until it misses much
/// or reads `robots.txt`. Scanners are known by their address, so whoever shares one with a scanner
/// shares its fate for that time.
#[derive(Debug)]
pub struct Classifier {
    rules: Arc<Rules>,
    /// Scanners' paths that this site has.
    existing: Existing,
    clients: Clients,
    agents: AgentMemo,
}

/// Agents remembered.
const AGENTS: usize = 1024;

impl Default for Classifier {
    fn default() -> Self {
        Self::new(ClassifierConfig::default())
    }
}

impl Classifier {
    /// With nothing learned yet.
    pub fn new(config: ClassifierConfig) -> Self {
        Self::with_rules(Arc::new(Rules::new(config)))
    }

    /// With nothing learned yet, by rules that others use as well.
    pub fn with_rules(rules: Arc<Rules>) -> Self {
        Self {
            existing: Existing::default(),
            clients: Clients::new(rules.config().clients),
            agents: AgentMemo::new(AGENTS),
            rules,
        }
    }

    /// The class of a request's client.
    pub fn classify(&mut self, now: Now, facts: &ClientFacts<'_>) -> ClientClass {
        let traits = self.rules.traits(&mut self.agents, facts);
        self.class_of(now.mono, &traits)
    }

    /// As [`Classifier::classify`], where the traits are known: they must have been taken by rules
    /// of the same config.
    pub fn class_of(&mut self, now: Mono, traits: &Traits) -> ClientClass {
        if let Some(class) = traits.decided() {
            return class;
        }
        if self.existing.hit(traits.hits) {
            return ClientClass::Scanner;
        }
        self.class_beside_paths(now, traits)
    }

    /// As [`Classifier::class_of`], but for the rules about paths ([`Traits::scanner_rules`]): for
    /// whoever keeps account of their own of what the site has answered.
    pub fn class_beside_paths(&mut self, now: Mono, traits: &Traits) -> ClientClass {
        if let Some(class) = traits.decided() {
            return class;
        }
        if self.scans(now, traits.client) {
            return ClientClass::Scanner;
        }
        if self.reads_robots_txt(now, traits) {
            return ClientClass::Crawler;
        }
        if !traits.is_library() && traits.looks_human() {
            ClientClass::Human
        } else {
            ClientClass::Api
        }
    }

    /// Takes in how the site answered a request; answers that the proxy invented itself (a 503
    /// while the site sleeps) say nothing about a client and must not come here.
    ///
    /// A miss is 400, 403, 404, 405 or 410. A client that had at least `scanner_misses` in the
    /// last ten minutes (counted in spans of two, so 8 to 10), and at least `scanner_share` of its
    /// requests, is a scanner for `scanner_for_s` after its last miss. Two misses on paths that
    /// scanners ask for are enough. These do not count: what browsers and robots ask for by
    /// themselves (`/favicon.ico` and the like), a target missed just before, and a part of a page
    /// (image, style, script) asked for from a page of this site (where `Host` is not known: from
    /// any page), so a broken page does not make scanners of its readers.
    pub fn learn(&mut self, now: Now, facts: &ClientFacts<'_>, status: u16) {
        let traits = self.rules.traits(&mut self.agents, facts);
        self.learn_of(now.mono, &traits, status);
    }

    /// As [`Classifier::learn`], where the traits are known.
    pub fn learn_of(&mut self, now: Mono, traits: &Traits, status: u16) {
        let in_vain = matches!(status, 400 | 403 | 404 | 405 | 410);
        if matches!(status, 200..=399 | 401) {
            self.existing.answered(traits.hits);
        }
        if in_vain && (traits.is_asked_by_itself() || traits.is_part_of_page()) {
            return;
        }
        let config = self.rules.config();
        let by_rule = in_vain && self.existing.hit(traits.hits);
        let client = self.clients.touch(traits.client);
        if !in_vain {
            client.hit(now);
            return;
        }
        let needed = config.scanner_misses;
        let weight = if by_rule { needed.div_ceil(2).max(1) } else { 1 };
        client.miss(now, traits.target, weight);
        let (misses, share) = client.misses();
        let scans = misses >= needed && share >= config.scanner_share;
        // Who is a scanner stays one by any miss.
        if scans || now < client.scanner_until {
            client.scanner_until = now + Duration::from_secs(config.scanner_for_s);
        }
    }

    /// Whether a client is known as a scanner.
    pub fn is_scanner(&self, now: Mono, client: ClientKey) -> bool {
        self.scans(now, client.number())
    }

    /// Clients that something is remembered of.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    fn scans(&self, now: Mono, client: u64) -> bool {
        self.clients.known(client).is_some_and(|known| now < known.scanner_until)
    }

    fn reads_robots_txt(&mut self, now: Mono, traits: &Traits) -> bool {
        if traits.is_robots_txt() {
            self.clients.touch(traits.client).robots = Some((now, traits.agent));
            return true;
        }
        let robots = self.clients.known(traits.client).and_then(|known| known.robots);
        if robots.is_none_or(|(then, of)| of != traits.agent || !within(now, then, ROBOT_FOR)) {
            return false;
        }
        let is_browser = traits.looks_human() && traits.is_part_of_page();
        if is_browser {
            self.clients.touch(traits.client).robots = None;
        }
        !is_browser
    }
}

#[cfg(test)]
#[path = "classes_tests.rs"]
mod tests;
