//! What one request says of its client by itself: the part of the classifier that needs no memory.
//!
//! [`Rules`] are what the operator and the built-in tables say; they are shared, and any number of
//! threads may take [`Traits`] by them. What clients did before is the [`Classifier`]'s part.
//!
//! [`Classifier`]: crate::classifier::Classifier

use std::net::IpAddr;

use nightwatt_policy::admission::is_proof;
use nightwatt_policy::visit::Visitor;

use crate::address;
use crate::classifier_config::ClassifierConfig;
use crate::client_key::ClientKey;
use crate::crawlers::{AgentKind, CrawlerTable};
use crate::facts::{ClientFacts, Fetch};
use crate::hash::{self, ByHash};
use crate::login_attempts::{self, LogIn, Posted};
use crate::rule::Rule;
use crate::scanner_paths::{Hits, ScannerPaths};

/// All that the classifier wants to know of a request; nothing of it depends on other requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traits {
    /// [`ClientKey::number`] of the client.
    pub client: u64,
    /// `User-Agent`, by hash; none and an empty one are the same.
    pub agent: u64,
    /// Request target with its query, by hash.
    pub target: u64,
    /// The target without its query, as servers read it, by hash, where rules depend on it.
    pub(crate) path: u64,
    /// [`ClientFacts::credential`]; 0 for none.
    pub(crate) credential: u64,
    pub(crate) hits: Hits,
    flags: u32,
}

/// Bits of [`Traits::flags`].
mod flag {
    pub(super) const HEALTH_CHECK: u32 = 1;
    pub(super) const ROBOTS_TXT: u32 = 1 << 1;
    pub(super) const PART: u32 = 1 << 2;
    pub(super) const PART_OF_PAGE: u32 = 1 << 3;
    pub(super) const BY_ITSELF: u32 = 1 << 4;
    pub(super) const HUMAN: u32 = 1 << 5;
    pub(super) const LIBRARY: u32 = 1 << 6;
    pub(super) const OWN_API: u32 = 1 << 7;
    pub(super) const MONITOR: u32 = 1 << 8;
    pub(super) const CRAWLER: u32 = 1 << 9;
    pub(super) const HEAD: u32 = 1 << 10;
    pub(super) const OWN_MONITOR: u32 = 1 << 11;
    pub(super) const WEBHOOK: u32 = 1 << 12;
    pub(super) const FEDERATION: u32 = 1 << 13;
    pub(super) const CLIENT: u32 = 1 << 14;
    pub(super) const WEBHOOK_PATH: u32 = 1 << 15;
    /// A path of proofs for certificate authorities.
    pub(super) const PROOF: u32 = 1 << 16;
    pub(super) const WORDPRESS_CRON: u32 = 1 << 17;
    /// Log-in forms are sent to its path by POST.
    pub(super) const LOG_IN_FORM: u32 = 1 << 18;
    /// Not GET, HEAD or OPTIONS.
    pub(super) const UNSAFE: u32 = 1 << 19;
    pub(super) const POST: u32 = 1 << 20;
    /// `Accept` is known and does not want a page.
    pub(super) const NO_PAGE: u32 = 1 << 21;
    pub(super) const FROM_ANOTHER_SITE: u32 = 1 << 22;
    pub(super) const NAVIGATION: u32 = 1 << 23;
    pub(super) const LOG_IN_API: u32 = 1 << 24;
    pub(super) const XML_RPC: u32 = 1 << 25;
    /// An agent in the form of a browser's.
    pub(super) const BROWSER: u32 = 1 << 26;
    /// `Host` is known.
    pub(super) const HOST: u32 = 1 << 27;
    pub(super) const WEB_SUB: u32 = 1 << 28;
}

impl Traits {
    const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Of a client of which nothing but its address and agent is known.
    pub(crate) fn of_hashes(client: u64, agent: u64) -> Self {
        Self { client, agent, ..Self::default() }
    }

    /// A number for the address with its agent.
    pub(crate) fn who(&self) -> u64 {
        hash::pair(self.client, self.agent)
    }

    /// Whether the method may change something: anything but GET, HEAD and OPTIONS.
    pub const fn is_unsafe(&self) -> bool {
        self.has(flag::UNSAFE)
    }

    /// Whether the method is `POST`.
    pub(crate) const fn is_post(&self) -> bool {
        self.has(flag::POST)
    }

    const fn log_in(&self) -> Option<LogIn> {
        if self.has(flag::LOG_IN_FORM) {
            Some(LogIn::Form)
        } else if self.has(flag::LOG_IN_API) {
            Some(LogIn::Api)
        } else if self.has(flag::XML_RPC) {
            Some(LogIn::XmlRpc)
        } else {
            None
        }
    }

    /// Whether it is a command to `WordPress`.
    pub(crate) const fn is_xml_rpc(&self) -> bool {
        self.has(flag::XML_RPC)
    }

    /// The request as an attempt to log in. Not what is sent to a path of webhooks, nor what a sender of webhooks
    /// or a server of the fediverse delivers: a signature that cannot be verified is answered like a wrong password.
    pub(crate) const fn posted(&self) -> Option<Posted> {
        let log_in = self.log_in();
        let delivers = self.has(flag::WEBHOOK) || self.has(flag::FEDERATION);
        if !self.is_post() || self.has(flag::WEBHOOK_PATH) || log_in.is_none() && delivers {
            return None;
        }
        Some(Posted {
            address: self.client,
            agent: self.agent,
            path: self.path,
            log_in,
            credential: self.credential,
            is_navigation: self.is_navigation() && self.looks_human(),
        })
    }

    /// Whether the agent is one that builds, syncs or backs up.
    pub(crate) const fn is_client(&self) -> bool {
        self.has(flag::CLIENT)
    }

    /// Whether a page of another site has a browser ask for it: an image, say.
    pub(crate) const fn is_from_another_site(&self) -> bool {
        self.has(flag::FROM_ANOTHER_SITE)
    }

    /// Whether a browser says that it opens a page.
    pub(crate) const fn is_navigation(&self) -> bool {
        self.has(flag::NAVIGATION)
    }

    /// Whether the agent has the form of a browser's.
    pub(crate) const fn is_browser(&self) -> bool {
        self.has(flag::BROWSER)
    }

    /// Whether it may ask for a scanners' path as the site's owner does. Logs say too little for that. The
    /// operator's own rules hold for every client.
    pub(crate) const fn may_be_owners(&self) -> bool {
        let opens = self.is_navigation() && self.looks_human();
        (opens || self.is_part_of_page() && self.has(flag::HOST)) && self.hits.own_rule() == 0
    }

    /// The same of a request that was answered with a miss: now it matters whether a page of another site asked.
    pub(crate) fn of_miss(mut self, facts: &ClientFacts<'_>) -> Self {
        if self.is_browser() && is_part_of_another_site(facts) {
            self.flags |= flag::FROM_ANOTHER_SITE;
        }
        self
    }

    /// Whether it asks for a path of health checks ([`ClassifierConfig::monitor_paths`]).
    pub const fn is_health_check(&self) -> bool {
        self.has(flag::HEALTH_CHECK)
    }

    /// Whether it asks for `/robots.txt`.
    pub const fn is_robots_txt(&self) -> bool {
        self.has(flag::ROBOTS_TXT)
    }

    /// Whether the path ends as parts of pages do: image, style, script, font, sound.
    pub const fn is_part(&self) -> bool {
        self.has(flag::PART)
    }

    /// Whether a page of this site (where `Host` is not known: any page) asks for one of its parts.
    pub const fn is_part_of_page(&self) -> bool {
        self.has(flag::PART_OF_PAGE)
    }

    /// Whether browsers and robots ask every site for it, there or not: `/favicon.ico`.
    pub const fn is_asked_by_itself(&self) -> bool {
        self.has(flag::BY_ITSELF)
    }

    /// Whether agent, method and `Accept` look like those of a person's browser.
    pub const fn looks_human(&self) -> bool {
        self.has(flag::HUMAN)
    }

    /// Whether the method is `HEAD`.
    pub const fn is_head(&self) -> bool {
        self.has(flag::HEAD)
    }

    /// Whether the table lists the agent as a library or tool: curl, python-requests.
    pub const fn is_library(&self) -> bool {
        self.has(flag::LIBRARY)
    }

    /// Rules about paths that only scanners ask for, and that this request hits, a bit for each. A
    /// rule counts until the site has answered such a path with success ([`own rules`](Self::OWN_RULE)
    /// always do). What changes something hits no usual rule: it is lost if it is refused by mistake.
    pub const fn scanner_rules(&self) -> u64 {
        if self.is_unsafe() { self.hits.own_rule() } else { self.hits.rules() }
    }

    /// The bit of the operator's own rules in [`scanner_rules`](Self::scanner_rules).
    pub const OWN_RULE: u64 = crate::scanner_paths::OWN_RULE;

    /// The rule that holds by path, method and agent alone. The order is that of [`Classifier`].
    ///
    /// [`Classifier`]: crate::classifier::Classifier
    pub const fn decided(&self) -> Option<Rule> {
        if self.has(flag::HEALTH_CHECK) {
            Some(Rule::HealthCheck)
        } else if self.has(flag::OWN_API) {
            Some(Rule::ApiAgents)
        } else if self.has(flag::WEBHOOK_PATH) {
            Some(Rule::WebhookPaths)
        } else if self.has(flag::PROOF) {
            Some(Rule::AcmeChallenge)
        } else if self.has(flag::WEB_SUB) {
            Some(Rule::WebSub)
        } else if self.has(flag::OWN_MONITOR) {
            Some(Rule::MonitorAgents)
        } else if self.has(flag::WORDPRESS_CRON) {
            Some(Rule::WordPressCron)
        } else if self.is_unsafe() || self.has(flag::FEDERATION) && self.has(flag::NO_PAGE) {
            None
        } else if self.has(flag::MONITOR) {
            Some(Rule::MonitorTable)
        } else if self.has(flag::CRAWLER) {
            Some(Rule::CrawlerTable)
        } else {
            None
        }
    }

    /// The rule that holds if nothing is known of the client.
    pub(crate) const fn rest(&self) -> Rule {
        if self.has(flag::FEDERATION) && (self.is_unsafe() || self.has(flag::NO_PAGE)) {
            Rule::FederationTable
        } else if self.has(flag::WEBHOOK) && self.is_unsafe() {
            Rule::WebhookTable
        } else if self.is_client() {
            Rule::ClientTable
        } else if self.is_library() {
            Rule::LibraryTable
        } else if self.looks_human() && !self.has(flag::CRAWLER) && !self.has(flag::MONITOR) {
            Rule::Browser
        } else {
            Rule::Other
        }
    }
}

/// What the operator says about clients, compiled, and the built-in tables.
#[derive(Debug)]
pub struct Rules {
    config: ClassifierConfig,
    table: &'static CrawlerTable,
    pub(crate) paths: ScannerPaths,
}

impl Rules {
    /// Compiles.
    pub fn new(config: ClassifierConfig) -> Self {
        Self {
            paths: ScannerPaths::new(&config.scanner_paths, &config.known_paths),
            table: CrawlerTable::shared(),
            config,
        }
    }

    /// What was compiled.
    pub const fn config(&self) -> &ClassifierConfig {
        &self.config
    }

    /// What one request says.
    pub fn traits(&self, agents: &mut AgentMemo, facts: &ClientFacts<'_>) -> Traits {
        let agent = agents.look_up(self, facts.agent.unwrap_or_default()).agent;
        self.traits_with(agent, facts)
    }

    /// As [`Rules::traits`], of an agent that was looked up.
    pub(crate) fn traits_with(&self, agent: Agent, facts: &ClientFacts<'_>) -> Traits {
        let path = path_of(facts.target);
        let is_part = is_part(path);
        let mut flags = agent.flags;
        let mut set = |holds: bool, flag: u32| flags |= if holds { flag } else { 0 };
        let is_safe = matches!(facts.method, "GET" | "HEAD" | "OPTIONS");
        let is_post = !is_safe && facts.method == "POST";
        set(is_safe && self.config.is_health_check(path), flag::HEALTH_CHECK);
        set(self.config.is_webhook(path), flag::WEBHOOK_PATH);
        set(is_safe && is_proof(path), flag::PROOF);
        let is_robot = agent.flags & (flag::CRAWLER | flag::MONITOR) != 0;
        set(is_robot && is_safe && is_web_sub(&facts.target[path.len()..]), flag::WEB_SUB);
        set(is_post && path.ends_with("/wp-cron.php") && agent.is_wordpress, flag::WORDPRESS_CRON);
        let hits = self.paths.hits(path);
        let needs_path = is_post || hits.rules() != 0;
        let normal = needs_path.then(|| login_attempts::normal(path));
        let log_in = normal.as_deref().filter(|_| is_post).and_then(LogIn::of);
        set(log_in == Some(LogIn::Form), flag::LOG_IN_FORM);
        set(log_in == Some(LogIn::Api), flag::LOG_IN_API);
        set(log_in == Some(LogIn::XmlRpc), flag::XML_RPC);
        set(!is_safe, flag::UNSAFE);
        set(is_post, flag::POST);
        set(facts.accepts_html == Some(false), flag::NO_PAGE);
        let is_robots_txt = path == "/robots.txt";
        let is_foreign = facts.fetch == Fetch::PartOfAnotherSite
            || is_robots_txt && agent.is_browser() && is_part_of_another_site(facts);
        set(is_foreign, flag::FROM_ANOTHER_SITE);
        set(facts.host.is_some(), flag::HOST);
        set(facts.fetch == Fetch::Navigation, flag::NAVIGATION);
        set(is_robots_txt, flag::ROBOTS_TXT);
        set(is_part, flag::PART);
        set(is_part && from_page(facts), flag::PART_OF_PAGE);
        set(is_asked_by_itself(path), flag::BY_ITSELF);
        set(facts.method == "HEAD", flag::HEAD);
        set(agent.looks_human(facts), flag::HUMAN);
        Traits {
            client: facts.client.number(),
            agent: agent.hash,
            target: hash::text(facts.target),
            path: normal.as_deref().map_or(0, hash::text),
            credential: facts.credential.unwrap_or(0),
            hits,
            flags,
        }
    }

    fn agent(&self, hash: u64, text: &str) -> Agent {
        // An empty part is in every agent: it comes from a list that was left half filled in.
        let named = |agents: &[String]| {
            agents.iter().any(|part| !part.is_empty() && text.contains(part.as_str()))
        };
        let listed = self.table.kinds(text);
        let mut flags = 0;
        let mut set = |holds: bool, flag: u32| flags |= if holds { flag } else { 0 };
        set(named(&self.config.api_agents), flag::OWN_API);
        set(named(&self.config.monitor_agents), flag::OWN_MONITOR);
        set(listed.has(AgentKind::Monitor), flag::MONITOR);
        let crawler = listed.has(AgentKind::Crawler) || named(&self.config.crawler_agents);
        set(crawler, flag::CRAWLER);
        set(listed.has(AgentKind::Library), flag::LIBRARY);
        set(listed.has(AgentKind::Webhook), flag::WEBHOOK);
        set(listed.has(AgentKind::Federation), flag::FEDERATION);
        set(listed.has(AgentKind::Client), flag::CLIENT);
        // Browsers say on what platform they run, in parentheses; programs that only pretend often
        // forget.
        let browser =
            (text.starts_with("Mozilla/") || text.starts_with("Opera/")) && text.contains(" (");
        set(browser, flag::BROWSER);
        let is_wordpress = text.starts_with("WordPress/");
        Agent { hash, flags, is_wordpress, named: !text.is_empty() }
    }
}

/// What an agent says by itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Agent {
    pub(crate) hash: u64,
    /// Those of [`Traits`] that depend on the agent alone.
    flags: u32,
    /// That of `WordPress` itself.
    is_wordpress: bool,
    /// Not empty.
    named: bool,
}

impl Agent {
    /// In the form of a browser's.
    const fn is_browser(self) -> bool {
        self.flags & flag::BROWSER != 0
    }

    fn looks_human(self, facts: &ClientFacts<'_>) -> bool {
        if facts.accepts_html == Some(true) {
            self.named
        } else {
            self.is_browser() && facts.method != "HEAD"
        }
    }
}

/// Agents longer than this are looked up each time, not remembered.
const LONGEST_AGENT: usize = 512;

/// What is known of agents asked about lately: most requests name one of a few, and to look one up
/// takes a microsecond. When it is full, all are forgotten.
#[derive(Debug)]
pub struct AgentMemo {
    known: ByHash<Slot>,
    capacity: usize,
    /// For an agent that is too long to be remembered.
    long: Slot,
}

/// An agent in an [`AgentMemo`].
#[derive(Debug, Default)]
pub(crate) struct Slot {
    text: Box<str>,
    pub(crate) agent: Agent,
    /// Whatever the memo's owner wants to remember of it.
    pub(crate) mark: Option<(u32, u32)>,
}

impl AgentMemo {
    /// For this many agents; 600 bytes each at most.
    pub fn new(capacity: usize) -> Self {
        Self { known: ByHash::default(), capacity: capacity.max(1), long: Slot::default() }
    }

    /// The agent of this hash, if it is still remembered.
    pub(crate) fn text_of(&self, hash: u64) -> Option<&str> {
        self.known.get(&hash).map(|slot| &*slot.text)
    }

    pub(crate) fn look_up(&mut self, rules: &Rules, text: &str) -> &mut Slot {
        let hash = hash::text(text);
        if text.len() > LONGEST_AGENT {
            self.long = Slot { agent: rules.agent(hash, text), ..Slot::default() };
            return &mut self.long;
        }
        if self.known.len() >= self.capacity && !self.known.contains_key(&hash) {
            self.known.clear();
        }
        let slot = self.known.entry(hash).or_default();
        // A new one is empty, and so is what it knows: right for no agent at all but for its hash.
        if *slot.text != *text || slot.agent.hash != hash {
            *slot = Slot { text: text.into(), agent: rules.agent(hash, text), mark: None };
        }
        slot
    }
}

/// The visitor of a logged request. As with [`Visitor::new`], the same address and agent give the same
/// visitor and any other another one, but by a quicker hash. So its numbers and those of `Visitor::new` do
/// not mix.
pub fn visitor(address: &str, traits: &Traits) -> Visitor {
    let is_v6 = address.as_bytes().contains(&b':');
    let spelled = if is_v6 { address::canonical(address) } else { address.into() };
    Visitor(hash::pair(hash::text(&spelled), traits.agent))
}

/// As `ClientKey::from`, quick for the dotted form of IPv4, which most logs are full of.
pub(crate) fn client_key(client: &str) -> ClientKey {
    address::quick_ipv4(client.as_bytes())
        .map_or_else(|| ClientKey::from(client), |address| ClientKey::from(IpAddr::V4(address)))
}

/// The target without its query.
fn path_of(target: &str) -> &str {
    memchr::memchr(b'?', target.as_bytes()).map_or(target, |end| &target[..end])
}

/// Whether a hub asks, by this query, whether it was meant to send what is new (`WebSub`, 5.3; Meta's webhooks).
fn is_web_sub(query: &str) -> bool {
    let has =
        |name: &str| query.match_indices(name).any(|(at, _)| query[..at].ends_with(['?', '&']));
    has("hub.mode=") && has("hub.challenge=")
}

/// What browsers and robots ask every site for, whether it is there or not.
fn is_asked_by_itself(path: &str) -> bool {
    const WHOLE: [&str; 6] = [
        "/favicon.ico",
        "/robots.txt",
        "/ads.txt",
        "/app-ads.txt",
        "/browserconfig.xml",
        "/manifest.json",
    ];
    const BEGINNINGS: [&str; 3] = ["/apple-touch-icon", "/sitemap", "/.well-known/"];
    // Most paths are decided by their second byte.
    matches!(path.as_bytes().get(1), Some(b'.' | b'a' | b'b' | b'f' | b'm' | b'r' | b's'))
        && (WHOLE.contains(&path) || BEGINNINGS.iter().any(|beginning| path.starts_with(beginning)))
}

/// Whether the path ends in `.png` or the like.
fn is_part(path: &str) -> bool {
    const PARTS: [&str; 21] = [
        "avif", "bmp", "css", "eot", "gif", "ico", "jpeg", "jpg", "js", "map", "mjs", "mp3", "mp4",
        "ogg", "otf", "png", "svg", "ttf", "webm", "webp", "woff",
    ];
    // The longest has four characters, and a 2 may follow it.
    const LONGEST: usize = 5;
    let bytes = path.as_bytes();
    let tail = &bytes[bytes.len().saturating_sub(LONGEST + 1)..];
    let Some(dot) = tail.iter().rposition(|&byte| byte == b'.') else { return false };
    let extension = &tail[dot + 1..];
    let extension = extension.strip_suffix(b"2").unwrap_or(extension);
    PARTS.iter().any(|part| part.as_bytes().eq_ignore_ascii_case(extension))
}

/// Whether a page of this site asks.
fn from_page(facts: &ClientFacts<'_>) -> bool {
    host_of(facts.referer.unwrap_or_default())
        .is_some_and(|from| facts.host.is_none_or(|host| host.eq_ignore_ascii_case(from)))
}

/// Whether a page of another site asks, and not to open a page: its reader knows nothing of it. Without TLS browsers send
/// no `Sec-Fetch-*`.
fn is_part_of_another_site(facts: &ClientFacts<'_>) -> bool {
    facts.accepts_html == Some(false)
        && facts.host.is_some()
        && host_of(facts.referer.unwrap_or_default()).is_some()
        && !from_page(facts)
}

/// `example.org:8080` of `https://example.org:8080/page`.
fn host_of(referer: &str) -> Option<&str> {
    let (scheme, rest) = referer.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    (matches!(scheme, "http" | "https") && !host.is_empty()).then_some(host)
}

#[cfg(test)]
#[path = "traits_tests.rs"]
mod tests;
