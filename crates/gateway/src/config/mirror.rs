//! `[site.mirror]`: a copy of the public pages of a site, from which it is answered while its server sleeps.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_httpcache::Rules;
use nightwatt_mirror::pure::address::{Address, Site};
use nightwatt_mirror::pure::admit::{AdmitRules, PAGE_SIZE};
use nightwatt_mirror::pure::plan::{Limits, PlanRules};
use nightwatt_mirror::pure::refresh::RefreshRules;
use nightwatt_mirror::pure::refused_addresses::PatternRules;
use nightwatt_mirror::pure::traps::TrapRules;
use nightwatt_mirror::store::Bounds;
use serde::Deserialize;

use super::{Config, SiteConfig, SiteKind, Wrong, wrong};

const MB: u64 = 1 << 20;

/// Number of addresses that are remembered per page that may be fetched.
const KNOWN_PER_PAGE: usize = 5;

/// What a mirror may store, fetch and answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MirrorConfig {
    /// Whether there is a mirror; default: yes with `kind = "pages"`.
    pub enabled: Option<bool>,
    /// Scheme and host of the pages: `https://example.org`; default: the site's first host, at the port of
    /// `listen` ([`MirrorUrl`]).
    pub url: Option<String>,
    /// How old an answer may be while the server sleeps.
    #[serde(with = "duration_text")]
    pub max_age: Duration,
    /// How long the server's sleep may wait for pages to be confirmed.
    #[serde(with = "duration_text")]
    pub extension: Duration,
    /// The mirror finds every page: a path that is not in it is answered with 404.
    pub complete: bool,
    /// Maximum number of addresses that are fetched.
    pub pages: usize,
    /// Maximum size of the bodies on the disk, in MiB.
    pub size_mb: u64,
    /// Maximum size of a body, in MiB.
    pub page_size_mb: u64,
    /// Maximum number of addresses that differ in their queries alone.
    pub queries_per_path: usize,
    /// Maximum number of links from the start to a page.
    pub depth: u16,
    /// Maximum number of requests per second.
    pub rate: f64,
    /// Addresses to start from, besides `/` and the sitemaps.
    pub seeds: Vec<String>,
    /// Addresses that are never fetched; `*` stands for any text.
    pub exclude: Vec<String>,
    /// Addresses that are fetched although they look as if a request changed something.
    pub include: Vec<String>,
    /// File whose first line is a token. With it a program may report changed content to the admin address.
    pub token_file: Option<PathBuf>,
    /// Paths that are mirrored although their server says `private`, `no-cache` or `must-revalidate`.
    #[serde(rename = "override")]
    pub overrides: Vec<String>,
}

/// Where the pages of a mirror are. Only the operator names the host: one that clients name may be a stranger's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorUrl {
    /// The configuration says so.
    Known(String),
    /// On this host. The trusted proxies in front of the site report the scheme.
    OnHost(String),
    /// It does not: there is no mirror.
    Unknown,
}

impl MirrorUrl {
    /// What to do about [`MirrorUrl::Unknown`].
    pub const ADVICE: &str = "no mirror: nothing says of which host its pages are. Write `hosts = [\"www.example.org\"]` \
                              for the site, or `mirror.url = \"https://www.example.org\"`";

    /// Scheme, host and port of a URL.
    pub fn site_of(url: &str) -> Result<String, String> {
        let wrong = |_| format!("`{url}` is no URL of a site: write it as https://www.example.org");
        let site = Site::new(url).map_err(wrong)?;
        Ok(site.base().as_str().trim_end_matches('/').to_owned())
    }
}

impl Config {
    /// Where the pages of a site's mirror are.
    pub fn mirror_url(&self, site: &SiteConfig) -> MirrorUrl {
        if let Some(url) = &site.mirror.url {
            return MirrorUrl::Known(url.clone());
        }
        let Some(host) = site.hosts.first() else { return MirrorUrl::Unknown };
        match (&self.tls, self.trusted_proxies.is_empty()) {
            (Some(tls), _) => MirrorUrl::Known(url("https", host, tls.port())),
            (None, true) => MirrorUrl::Known(url("http", host, self.plain_port())),
            (None, false) => MirrorUrl::OnHost(host.to_ascii_lowercase()),
        }
    }

    /// The port that clients name if no proxy is in front: 80 if that is one of several.
    fn plain_port(&self) -> u16 {
        let mut ports = self.listen.iter().map(SocketAddr::port);
        if ports.clone().any(|port| port == 80) { 80 } else { ports.next().unwrap_or(80) }
    }
}

/// The URL of a site. Port 0 stands for one that the system draws, which no client can name.
fn url(scheme: &str, host: &str, port: u16) -> String {
    let default = if scheme == "https" { 443 } else { 80 };
    if port == 0 || port == default {
        format!("{scheme}://{host}")
    } else {
        format!("{scheme}://{host}:{port}")
    }
}

impl Default for MirrorConfig {
    fn default() -> Self {
        let (limits, refresh) = (Limits::default(), RefreshRules::default());
        Self {
            enabled: None,
            url: None,
            max_age: refresh.max_age,
            extension: refresh.extension,
            complete: false,
            pages: limits.pages,
            size_mb: Bounds::default().bytes / MB,
            page_size_mb: PAGE_SIZE / MB,
            queries_per_path: TrapRules::default().queries_per_path,
            depth: limits.depth,
            rate: limits.rate,
            seeds: Vec::new(),
            exclude: Vec::new(),
            include: Vec::new(),
            token_file: None,
            overrides: Vec::new(),
        }
    }
}

impl MirrorConfig {
    /// Whether a site of this kind has a mirror.
    pub fn is_on(&self, kind: Option<SiteKind>) -> bool {
        self.enabled.unwrap_or(true) && kind == Some(SiteKind::Pages)
    }

    /// The folder of the mirror of a site.
    pub fn folder(state_dir: &Path, site: &str) -> PathBuf {
        state_dir.join("mirror").join(site)
    }

    /// The rules of the plan. `cache` are the rules of the site's cache.
    pub(crate) fn plan_rules(&self, cache: &Rules) -> PlanRules {
        PlanRules {
            limits: Limits {
                pages: self.pages,
                known: self.known(),
                depth: self.depth,
                rate: self.rate,
                ..Limits::default()
            },
            patterns: PatternRules { exclude: self.exclude.clone(), include: self.include.clone() },
            traps: TrapRules { queries_per_path: self.queries_per_path, ..TrapRules::default() },
            admit: AdmitRules::new(cache, self.page_size_mb * MB, self.overrides.clone()),
            refresh: RefreshRules { max_age: self.max_age, extension: self.extension },
            seeds: self.seeds.iter().filter_map(|it| Address::new(it)).collect(),
            complete: self.complete,
        }
    }

    /// Limits what the caches give: no lifetime that the server has not named is longer than `max_age`.
    pub(super) fn limit(&self, rules: &mut Rules) {
        let longest = self.max_age;
        rules.grace_while_asleep = rules.grace_while_asleep.min(longest);
        for lifetime in [&mut rules.default_ttl, &mut rules.negative_ttl].into_iter().flatten() {
            *lifetime = longest.min(*lifetime);
        }
        if let Some(heuristic) = &mut rules.heuristic {
            heuristic.longest = heuristic.longest.min(longest);
        }
    }

    /// Number of addresses that are remembered.
    fn known(&self) -> usize {
        self.pages.saturating_mul(KNOWN_PER_PAGE)
    }

    /// The limits of the store.
    pub(crate) fn bounds(&self) -> Bounds {
        // Errors and redirects are no pages.
        Bounds { bytes: self.size_mb * MB, entries: self.known() }
    }

    /// Warnings about settings by which visitors may get private pages, or a 404 for a page that exists.
    pub fn risks(&self, kind: Option<SiteKind>) -> Vec<String> {
        let overrides = self.overrides.iter().map(|pattern| {
            format!(
                "the mirror keeps `{pattern}` for everybody, even what its server calls private (`mirror.override`)"
            )
        });
        let complete = self.complete.then(|| {
            "paths that no page links to are answered 404 while the server sleeps (`mirror.complete`)".to_owned()
        });
        overrides.chain(complete).filter(|_| self.is_on(kind)).collect()
    }

    pub(super) fn check(&self, kind: Option<SiteKind>) -> Result<(), Wrong> {
        if self.enabled == Some(true) && kind != Some(SiteKind::Pages) {
            let text = "a mirror gives every visitor the same pages: write `kind = \"pages\"` if that is right, or \
                        leave `enabled` out";
            return wrong("mirror.enabled", text);
        }
        if let Some(Err(why)) = self.url.as_deref().map(Site::new) {
            return wrong("mirror.url", format!("`url`: {why}"));
        }
        for (key, time, least) in [("max_age", self.max_age, 60), ("extension", self.extension, 0)]
        {
            if time < Duration::from_secs(least) || time > Duration::from_hours(24 * 366) {
                let text = format!("`{key}` must lie between {least}s and a year");
                return wrong(format!("mirror.{key}"), text);
            }
        }
        let bounds = [
            ("pages", self.pages as u64, 1_000_000),
            ("size_mb", self.size_mb, MB),
            ("page_size_mb", self.page_size_mb, 1024),
            ("queries_per_path", self.queries_per_path as u64, 1_000_000),
        ];
        for (key, value, most) in bounds {
            if !(1..=most).contains(&value) {
                let text = format!("`{key}` is {value}, but it must lie between 1 and {most}");
                return wrong(format!("mirror.{key}"), text);
            }
        }
        if !(0.02..=1000.0).contains(&self.rate) {
            let text = format!(
                "`rate` is {}, but it must lie between 0.02 (one request in 50 seconds) and 1000 a second",
                self.rate
            );
            return wrong("mirror.rate", text);
        }
        self.check_lists()
    }

    /// What has no effect on a site of this kind.
    pub(crate) fn unused(&self, kind: Option<SiteKind>) -> Option<&'static str> {
        let is_unused = self.url.is_some() && self.enabled != Some(false) && !self.is_on(kind);
        is_unused
            .then_some("`mirror.url` has no effect: only a site of `kind = \"pages\"` has a mirror")
    }

    fn check_lists(&self) -> Result<(), Wrong> {
        if let Some(seed) = self.seeds.iter().find(|it| Address::new(it).is_none()) {
            let text = format!("`{seed}` is no path: it must begin with `/`, as in `/archive/`");
            return wrong("mirror.seeds", text);
        }
        let lists =
            [("exclude", &self.exclude), ("include", &self.include), ("override", &self.overrides)];
        for (key, patterns) in lists {
            if let Some(pattern) = patterns.iter().find(|it| !it.starts_with(['/', '*'])) {
                let text = format!(
                    "`{pattern}` matches no address: it must begin with `/` or `*`, as in `/tmp/*`"
                );
                return wrong(format!("mirror.{key}"), text);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(site: &str) -> Result<Config, String> {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
             power.simulated = {{}}\n{site}\n"
        );
        Config::parse(&text, "test.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn sites_of_pages_have_a_mirror_unless_it_is_turned_off() {
        let is_on = |site: &str| {
            let config = parsed(site).unwrap();
            config.site[0].mirror.is_on(config.site[0].kind)
        };
        assert!(is_on("kind = \"pages\""));
        assert!(!is_on("kind = \"app\""));
        let unused = |site: &str| {
            let config = parsed(site).unwrap();
            config.site[0].mirror.unused(config.site[0].kind)
        };
        let url = "mirror.url = \"http://a.example/\"";
        assert!(unused(&format!("kind = \"app\"\n{url}")).unwrap().contains("`mirror.url`"));
        assert_eq!(unused(&format!("kind = \"pages\"\n{url}")), None);
        assert_eq!(unused("kind = \"app\""), None);
        assert!(!is_on(""));
        assert!(!is_on("kind = \"pages\"\nmirror.enabled = false"));
    }

    #[test]
    fn bounds_reach_the_plan_and_the_store() {
        let text = "kind = \"pages\"\nmirror = { pages = 10, queries_per_path = 300 }";
        let config = &parsed(text).unwrap().site[0].mirror;
        let rules = config.plan_rules(&Rules::default());
        assert_eq!((rules.limits.pages, rules.traps.queries_per_path), (10, 300));
        assert_eq!(config.bounds().entries, rules.limits.known, "errors are stored too");
    }

    #[test]
    fn no_lifetime_that_is_assumed_is_longer_than_max_age() {
        let rules = |text: &str| {
            let config = parsed(&format!("kind = \"pages\"\n{text}")).unwrap();
            config.site[0].cache_rules(&config.scenario)
        };
        let caches = "cache = { ttl = \"10m\", negative_ttl = \"5m\", heuristic_longest = \"2h\" }";
        let short = rules(&format!("mirror.max_age = \"70s\"\n{caches}"));
        let most = Duration::from_secs(70);
        assert_eq!((short.default_ttl, short.negative_ttl), (Some(most), Some(most)));
        assert_eq!((short.heuristic.unwrap().longest, short.grace_while_asleep), (most, most));
        // Without a mirror, and where they are shorter, they stay as they are.
        for text in ["mirror.max_age = \"1d\"", "mirror = { enabled = false, max_age = \"70s\" }"] {
            let it = rules(&format!("{text}\n{caches}"));
            let minutes = Duration::from_mins;
            assert_eq!((it.default_ttl, it.negative_ttl), (Some(minutes(10)), Some(minutes(5))));
            assert_eq!(it.heuristic.unwrap().longest, Duration::from_hours(2));
        }
        let guesses = "cache = { ttl = \"0\", heuristic_percent = 0 }";
        let none = rules(&format!("mirror.max_age = \"70s\"\n{guesses}"));
        assert_eq!((none.default_ttl, none.negative_ttl, none.heuristic), (None, None, None));
    }

    #[test]
    fn only_the_operator_names_the_host_of_the_pages() {
        let of = |text: &str| {
            let config = parsed(&format!("kind = \"pages\"\n{text}")).unwrap();
            config.mirror_url(&config.site[0])
        };
        let known = |url: &str| MirrorUrl::Known(url.to_owned());
        assert_eq!(of(""), MirrorUrl::Unknown);
        assert_eq!(of("mirror.url = \"https://blog.example\""), known("https://blog.example"));
        let hosts = "hosts = [\"blog.example\", \"www.blog.example\"]";
        assert_eq!(of(hosts), known("http://blog.example"));
        let mut config = parsed(&format!("kind = \"pages\"\n{hosts}")).unwrap();
        // A browser names each port but the default one of the scheme (RFC 9110, 4.2.3 and 7.2).
        for (listen, url) in [
            (&["0.0.0.0:80"][..], "http://blog.example"),
            (&["0.0.0.0:8080", "[::]:8080"], "http://blog.example:8080"),
            (&["127.0.0.1:8080", "10.0.0.1:80"], "http://blog.example"),
            (&["127.0.0.1:443"], "http://blog.example:443"),
        ] {
            config.listen = listen.iter().map(|it| it.parse().unwrap()).collect();
            assert_eq!(config.mirror_url(&config.site[0]), known(url), "{listen:?}");
        }
        config.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let on_host = MirrorUrl::OnHost("blog.example".to_owned());
        assert_eq!(config.mirror_url(&config.site[0]), on_host);
    }

    #[test]
    fn what_cannot_be_meant_is_an_error_with_its_line() {
        for (wrong, line, words) in [
            ("mirror.enabled = true", 6, "kind = \"pages\""),
            ("kind = \"pages\"\nmirror.url = \"ftp://x\"", 7, "http"),
            ("kind = \"pages\"\nmirror.max_age = \"1s\"", 7, "max_age"),
            ("kind = \"pages\"\nmirror.pages = 0", 7, "pages"),
            ("kind = \"pages\"\nmirror.queries_per_path = 0", 7, "queries_per_path"),
            ("kind = \"pages\"\nmirror.rate = 0.0", 7, "rate"),
            ("kind = \"pages\"\nmirror.seeds = [\"x\"]", 7, "path"),
            ("kind = \"pages\"\nmirror.override = [\"x\"]", 7, "/"),
        ] {
            let error = parsed(wrong).unwrap_err();
            assert!(error.contains(&format!("test.toml:{line}")), "{error}");
            assert!(error.contains(words), "{error}");
        }
    }
}
