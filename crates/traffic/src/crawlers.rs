//! Which agents are robots: a table that others keep current, and what the agents say themselves.
//!
//! `crawlers/patterns.txt` comes from the list `crawler-user-agents` (see `cargo xtask crawlers`,
//! which also decides by the list's tags what is a monitor and what a library). Patterns are case
//! sensitive, as in the list. To them come the nine strings of the published work ([`PUBLISHED`]),
//! one rule for robots that no list knows ([`UNLISTED`]), and `crawlers/clients.txt`: monitors that the
//! list lacks, and programs that deliver, build or sync, each with its source.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use memchr::{memchr, memmem};
use regex::RegexSet;

/// What an agent is by the table.
///
/// In this order: an agent that several patterns find is the first of these. Monitors go first
/// since their agents often look like crawlers, libraries last since crawlers name theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentKind {
    /// Checks whether a site is up.
    Monitor,
    /// Reads sites on its own account.
    Crawler,
    /// A library or tool that a program uses: curl, python-requests. We don't count it as a crawler.
    Library,
    /// Delivers events by POST: payments, pushes.
    Webhook,
    /// A server that delivers federated posts, and reads what they are about.
    Federation,
    /// Builds, syncs or backs up: git, npm, `WebDAV`.
    Client,
}

/// All that the table says of an agent: several patterns may find it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    const fn with(self, kind: AgentKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    pub(crate) const fn has(self, kind: AgentKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Whether one of the patterns for robots and libraries found it.
    const fn is_robot_or_library(self) -> bool {
        self.has(AgentKind::Monitor) || self.has(AgentKind::Crawler) || self.has(AgentKind::Library)
    }
}

/// What the table says of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AgentMatch {
    /// What it is.
    pub kind: AgentKind,
    /// What it is called, for people: `Googlebot`.
    pub name: &'static str,
}

/// Parts of agents that the published work took for crawlers (`O'Dwyer`, 2012).
pub const PUBLISHED: [&str; 9] = [
    "Googlebot",
    "Slurp",
    "Baiduspider",
    "bingbot",
    "urlresolver",
    "Speedy Spider",
    "Sosospider",
    "Sogou web spider",
    "Gigabot",
];

/// Name of a robot that no pattern finds but that says so itself: it gives a contact (`+http` or
/// an `@`), and is `compatible;` or calls itself bot, crawler or spider. The word alone is not
/// enough: there are telephones called Cubot.
pub const UNLISTED: &str = "unlisted";

/// The compiled table.
#[derive(Debug)]
pub struct CrawlerTable {
    /// Finds every plain pattern in one pass.
    texts: AhoCorasick,
    text_entries: Vec<TextEntry>,
    regexes: RegexSet,
    regex_entries: Vec<AgentMatch>,
}

#[derive(Debug)]
struct TextEntry {
    found: AgentMatch,
    at: Place,
}

/// Where in the agent a plain pattern has to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Anywhere,
    Start,
    End,
}

static SHARED: LazyLock<CrawlerTable> = LazyLock::new(|| {
    // The tables are part of the program and tested with it.
    let tables = [include_str!("crawlers/patterns.txt"), include_str!("crawlers/clients.txt")];
    CrawlerTable::parse(tables).expect("the built-in tables")
});

impl CrawlerTable {
    /// The table of this release, compiled on the first call (a few milliseconds).
    pub fn shared() -> &'static Self {
        &SHARED
    }

    fn parse(tables: [&'static str; 2]) -> Result<Self, Box<dyn std::error::Error>> {
        let (mut texts, mut text_entries) = (Vec::new(), Vec::new());
        let (mut regexes, mut regex_entries) = (Vec::new(), Vec::new());
        let lines = tables.into_iter().flat_map(str::lines);
        for line in lines.filter(|line| !line.starts_with('#')) {
            let mut columns = line.split('\t');
            let mut column = || columns.next().ok_or_else(|| format!("columns missing: {line}"));
            let kind = match column()? {
                "crawler" => AgentKind::Crawler,
                "monitor" => AgentKind::Monitor,
                "library" => AgentKind::Library,
                "webhook" => AgentKind::Webhook,
                "federation" => AgentKind::Federation,
                "client" => AgentKind::Client,
                other => return Err(format!("no kind of agent: {other}").into()),
            };
            let (how, pattern, name) = (column()?, column()?, column()?);
            let found = AgentMatch { kind, name };
            let at = match how {
                "text" => Place::Anywhere,
                "start" => Place::Start,
                "end" => Place::End,
                "regex" => {
                    regexes.push(pattern);
                    regex_entries.push(found);
                    continue;
                }
                other => return Err(format!("no way to match: {other}").into()),
            };
            texts.push(pattern);
            text_entries.push(TextEntry { found, at });
        }
        for name in PUBLISHED {
            texts.push(name);
            let found = AgentMatch { kind: AgentKind::Crawler, name };
            text_entries.push(TextEntry { found, at: Place::Anywhere });
        }
        Ok(Self {
            // A full automaton would be a little quicker, and takes four times as long to build.
            texts: AhoCorasick::builder()
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .build(texts)?,
            text_entries,
            regexes: RegexSet::new(regexes)?,
            regex_entries,
        })
    }

    /// What an agent is; `None` for browsers and everything else that is not listed.
    pub fn lookup(&self, agent: &str) -> Option<AgentMatch> {
        // Of one kind the longer name says more: `Googlebot-Image`, not `Googlebot`.
        let best = self
            .matches(agent)
            .min_by_key(|found| (found.kind, std::cmp::Reverse(found.name.len())));
        let robot = AgentMatch { kind: AgentKind::Crawler, name: UNLISTED };
        let is_listed = best.is_some_and(|found| found.kind <= AgentKind::Library);
        if !is_listed && calls_itself_a_robot(agent) { Some(robot) } else { best }
    }

    /// All that an agent is.
    pub(crate) fn kinds(&self, agent: &str) -> Kinds {
        let kinds = self.matches(agent).fold(Kinds::default(), |kinds, it| kinds.with(it.kind));
        if !kinds.is_robot_or_library() && calls_itself_a_robot(agent) {
            return kinds.with(AgentKind::Crawler);
        }
        kinds
    }

    fn matches(&self, agent: &str) -> impl Iterator<Item = AgentMatch> {
        let texts = self.texts.find_overlapping_iter(agent).filter_map(move |at| {
            let entry = &self.text_entries[at.pattern()];
            let stands = match entry.at {
                Place::Anywhere => true,
                Place::Start => at.start() == 0,
                Place::End => at.end() == agent.len(),
            };
            stands.then_some(entry.found)
        });
        let regexes = self.regexes.matches(agent).into_iter();
        texts.chain(regexes.map(|index| self.regex_entries[index]))
    }
}

/// See [`UNLISTED`].
fn calls_itself_a_robot(agent: &str) -> bool {
    let bytes = agent.as_bytes();
    let contact = memchr(b'@', bytes).is_some() || memmem::find(bytes, b"+http").is_some();
    contact && {
        let lower = agent.to_ascii_lowercase();
        ["compatible;", "bot", "crawl", "spider"].iter().any(|word| lower.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(agent: &str) -> Option<AgentKind> {
        CrawlerTable::shared().lookup(agent).map(|found| found.kind)
    }

    #[test]
    fn browsers_are_no_robots() {
        for agent in [
            "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
             Chrome/126.0.0.0 Safari/537.36",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 \
             (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
            "Mozilla/5.0 (Linux; Android 9; CUBOT_X18_Plus) AppleWebKit/537.36 (KHTML, like \
             Gecko) Chrome/109.0.0.0 Mobile Safari/537.36",
            "",
        ] {
            assert_eq!(kind(agent), None, "{agent}");
        }
    }

    #[test]
    fn every_string_of_the_published_work_is_a_crawler() {
        for name in PUBLISHED {
            assert_eq!(
                kind(&format!("Mozilla/5.0 ({name}/1.0)")),
                Some(AgentKind::Crawler),
                "{name}"
            );
        }
    }

    #[test]
    fn libraries_are_libraries_unless_a_robot_names_one() {
        for agent in ["curl/8.5.0", "python-requests/2.31.0", "Go-http-client/1.1", "Wget/1.21"] {
            assert_eq!(kind(agent), Some(AgentKind::Library), "{agent}");
        }
        let robot = "Mozilla/5.0 (compatible; Go-http-client/1.1; +centurybot9@gmail.com)";
        assert_eq!(kind(robot), Some(AgentKind::Crawler));
    }

    #[test]
    fn every_entry_of_our_own_list_names_its_source() {
        for line in include_str!("crawlers/clients.txt").lines().filter(|it| !it.starts_with('#')) {
            let columns: Vec<&str> = line.split('\t').collect();
            assert!(columns.len() == 5 && columns[4].starts_with("https://"), "{line}");
        }
    }

    #[test]
    fn senders_builders_and_feed_readers_are_what_they_do() {
        for (agent, expected) in [
            ("healthchecks.io", AgentKind::Webhook),
            ("FeedFetcher-Google; (+http://www.google.com/feedfetcher.html)", AgentKind::Crawler),
            ("Bun/1.3.14", AgentKind::Library),
            ("aws-sdk-java/2.17.131 Linux/4.14.255", AgentKind::Library),
            ("Dart pub 3.2.0", AgentKind::Client),
            ("libostree/2023.1 flatpak/1.14.0", AgentKind::Client),
            ("R (4.3.1 x86_64-pc-linux-gnu x86_64 linux-gnu)", AgentKind::Client),
        ] {
            assert_eq!(kind(agent), Some(expected), "{agent}");
        }
        for agent in ["Threads/1.0", "Conduit/2.0", "Cachet/2.4"] {
            assert_eq!(kind(agent), None, "{agent}");
        }
    }

    #[test]
    fn health_checkers_are_monitors() {
        for agent in [
            "Gatus/1.0",
            "kube-probe/1.31",
            "ELB-HealthChecker/2.0",
            "GoogleHC/1.0",
            "Prometheus/3.0.1",
            "NewRelicPinger/1.0 (370512)",
            "Datadog/Synthetics",
            "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
            "Uptime-Kuma/1.23.11",
            "Better Stack Better Uptime Bot Mozilla/5.0 (Macintosh) AppleWebKit/537.36",
            "Mozilla/5.0 (compatible; StatusCake)",
            "Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)",
            "Site24x7",
            "HetrixTools Uptime Monitoring Bot. https://hetrix.tools/uptime-monitoring-bot.html",
            "FreshpingBot/1.0 (+https://freshping.io/)",
            "Zabbix",
            "check_http/v2.3.3 (monitoring-plugins 2.3.3)",
            "Consul Health Check",
            "Blackbox Exporter/0.25.0",
            "Amazon-Route53-Health-Check-Service (ref 1234; report http://amzn.to/1vsZADi)",
            "Envoy/HC",
        ] {
            assert_eq!(kind(agent), Some(AgentKind::Monitor), "{agent}");
        }
    }

    #[test]
    fn patterns_hold_where_they_are_anchored() {
        assert_eq!(kind("curl/7.54.0"), Some(AgentKind::Library));
        assert_eq!(kind("php curl/7.54.0"), None);
        assert_eq!(kind("SSL Labs"), Some(AgentKind::Crawler));
        assert_eq!(kind("SSL Labs fan club"), None);
    }

    #[test]
    fn the_longest_name_says_most() {
        let name = |agent| CrawlerTable::shared().lookup(agent).map(|found| found.name);
        assert_eq!(name("Googlebot-Image/1.0"), Some("Googlebot-Image"));
        assert_eq!(name("Mozilla/5.0 (compatible; UptimeRobot/2.0)"), Some("UptimeRobot"));
    }

    #[test]
    fn a_robot_that_no_list_knows_gives_itself_away() {
        let unlisted = Some(AgentMatch { kind: AgentKind::Crawler, name: UNLISTED });
        for agent in [
            "Mozilla/5.0 (compatible; quux/1.0; +https://quux.example/)",
            "quuxcrawler (admin@quux.example)",
        ] {
            assert_eq!(CrawlerTable::shared().lookup(agent), unlisted, "{agent}");
        }
        assert_eq!(kind("Chef Client/10.18.2 (x86_64-linux; +http://opscode.com)"), None);
    }
}
