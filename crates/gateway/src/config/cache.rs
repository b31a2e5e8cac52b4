//! `[site.cache]`: which of a site's answers are stored, for which clients and for how long.

use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_httpcache::sharing::covers_what_counts;
use nightwatt_httpcache::{CookieRule, CookieRules, Fill, Heuristic, KeyRules, Rules};
use nightwatt_policy::scenario::CacheRule;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Wrong, wrong};

/// What kind of site it is, as far as its cache is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiteKind {
    /// Every visitor who is not logged in gets the same: a blog, documentation, a wiki.
    Pages,
    /// Pages depend on the visitor: only answers that the server itself marks as cacheable are stored.
    App,
}

impl SiteKind {
    /// Its name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::App => "app",
        }
    }
}

/// Whose requests fill the cache with answers that their server did not mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FillConfig {
    /// nightwatt's own requests, which are anonymous.
    #[default]
    OwnRequests,
    /// Requests of anonymous clients too: for test suites.
    Clients,
}

/// What the operator decides; the rest follows RFC 9111.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct CacheConfig {
    /// Lifetime of answers without one of their own, instead of the scenario's. A site without a `kind` stores such
    /// answers only if this is set and not 0.
    #[serde(deserialize_with = "given")]
    pub ttl: Option<Duration>,
    /// Lifetime of 404, 405, 410, 414 and 501 without one of their own; default: that of other answers, except `ttl`.
    #[serde(deserialize_with = "given")]
    pub negative_ttl: Option<Duration>,
    /// How long past its lifetime an answer is served while the server sleeps, instead of the
    /// scenario's.
    #[serde(deserialize_with = "given")]
    pub grace_asleep: Option<Duration>,
    /// How long past its lifetime an answer is served when the server fails.
    #[serde(with = "duration_text")]
    pub stale_if_error: Duration,
    /// This share of the time since `Last-Modified` is the lifetime of an answer without one of its own; 0: do not
    /// guess.
    pub heuristic_percent: u32,
    /// Longest guess.
    #[serde(with = "duration_text")]
    pub heuristic_longest: Duration,
    /// What a cookie in a request means.
    pub cookies: Cookies,
    /// Whose requests fill the cache with answers that their server did not mark.
    pub fill: FillConfig,
    /// Request fields that make no difference, in addition to the built-in list: `x-app-version`.
    pub harmless_headers: Vec<String>,
    /// Cookies that make no difference, in addition to the built-in list: `theme`.
    pub harmless_cookies: Vec<String>,
    /// Query parameters that change nothing: `utm_*`.
    pub ignore_query: Vec<String>,
    /// The order of query parameters does not matter.
    pub sort_query: bool,
    /// Keep answers that set cookies, and give the cookies to every client.
    pub store_set_cookie: bool,
    /// Obey cache directives of requests, such as a browser's reload.
    pub heed_requests: bool,
    /// Do not serve answers with `must-revalidate`, `no-cache` or `s-maxage` stale while the server sleeps.
    pub respect_must_revalidate: bool,
    /// `CDN-Cache-Control` takes precedence over `Cache-Control`.
    pub cdn_cache_control: bool,
    /// For sites with a `kind`: fetch `/robots.txt` and the sitemaps that it names whenever the server wakes, and store
    /// them.
    pub crawler_files: bool,
    /// Paths that are never evicted, and never too old while the server sleeps.
    pub pinned: Vec<String>,
}

/// What a cookie in a request means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cookies {
    /// The answer is for this visitor, unless it says otherwise.
    #[default]
    Personal,
    /// As before, and nothing stored is for this visitor either.
    Bypass,
    /// Nothing.
    Ignored,
}

impl Default for CacheConfig {
    fn default() -> Self {
        let rules = Rules::default();
        let heuristic = rules.heuristic.unwrap_or_default();
        Self {
            ttl: None,
            negative_ttl: rules.negative_ttl,
            grace_asleep: None,
            stale_if_error: rules.stale_if_error,
            heuristic_percent: heuristic.percent,
            heuristic_longest: heuristic.longest,
            cookies: Cookies::default(),
            fill: FillConfig::default(),
            harmless_headers: rules.harmless_headers,
            harmless_cookies: rules.cookies.harmless,
            ignore_query: rules.key.ignore_query,
            sort_query: rules.key.sort_query,
            store_set_cookie: rules.store_set_cookie,
            heed_requests: rules.heed_requests,
            respect_must_revalidate: rules.respect_must_revalidate,
            cdn_cache_control: rules.cdn_cache_control,
            crawler_files: true,
            pinned: rules.pinned,
        }
    }
}

impl CacheConfig {
    /// Whether answers that their server did not mark are kept.
    fn assumes(&self, kind: Option<SiteKind>) -> bool {
        kind == Some(SiteKind::Pages) || self.ttl.is_some_and(|ttl| !ttl.is_zero())
    }

    /// As the cache's rules have it.
    pub(super) fn rules(&self, kind: Option<SiteKind>, scenario: &CacheRule) -> Rules {
        let ttl = self.ttl.unwrap_or(scenario.ttl);
        let heuristic =
            Heuristic { percent: self.heuristic_percent, longest: self.heuristic_longest };
        Rules {
            assumes: self.assumes(kind),
            crawler_files: self.crawler_files && kind.is_some(),
            fill: match self.fill {
                FillConfig::OwnRequests => Fill::OwnRequests,
                FillConfig::Clients => Fill::Clients,
            },
            harmless_headers: self
                .harmless_headers
                .iter()
                .map(|it| it.to_ascii_lowercase())
                .collect(),
            default_ttl: (!ttl.is_zero()).then_some(ttl),
            negative_ttl: self.negative_ttl,
            heuristic: (heuristic.percent > 0).then_some(heuristic),
            grace_while_asleep: self.grace_asleep.unwrap_or(scenario.grace_asleep),
            stale_if_error: self.stale_if_error,
            respect_must_revalidate: self.respect_must_revalidate,
            heed_requests: self.heed_requests,
            store_set_cookie: self.store_set_cookie,
            cdn_cache_control: self.cdn_cache_control,
            pinned: self.pinned.clone(),
            cookies: CookieRules {
                rule: match self.cookies {
                    Cookies::Personal => CookieRule::Personal,
                    Cookies::Bypass => CookieRule::Bypass,
                    Cookies::Ignored => CookieRule::Ignored,
                },
                harmless: self.harmless_cookies.clone(),
            },
            key: KeyRules { ignore_query: self.ignore_query.clone(), sort_query: self.sort_query },
        }
    }

    /// Settings by which visitors may get what is not theirs, in words.
    pub fn risks(&self) -> Vec<String> {
        let headers = self.harmless_headers.iter().filter(|it| covers_what_counts(it));
        let headers = headers.map(|it| {
            format!(
                "`harmless_headers` has `{it}`, on which answers may depend: what one client gets is given to all"
            )
        });
        let cookies = self.harmless_cookies.iter().filter(|it| may_be_a_session(it));
        let cookies = cookies.map(|it| {
            format!(
                "`harmless_cookies` has `{it}`, which looks like a session: what one visitor gets is given to all"
            )
        });
        let switches = self.risky_switches().into_iter().map(str::to_owned);
        switches.chain(headers).chain(cookies).collect()
    }

    fn risky_switches(&self) -> Vec<&'static str> {
        let all = [
            (
                self.store_set_cookie,
                "cookies of stored answers go to everybody (`store_set_cookie`)",
            ),
            (
                self.cookies == Cookies::Ignored,
                "what one visitor's cookie brought is given to all (`cookies = \"ignored\"`)",
            ),
            (
                self.fill == FillConfig::Clients,
                "answers to clients fill the cache without their server's word (`fill = \"clients\"`): for \
                 test suites only",
            ),
            (
                !self.respect_must_revalidate,
                "answers that say `must-revalidate` are served stale while the server sleeps",
            ),
        ];
        all.into_iter().filter_map(|(so, words)| so.then_some(words)).collect()
    }

    pub(super) fn check(&self) -> Result<(), Wrong> {
        if self.heuristic_percent > 100 {
            let text = format!(
                "`heuristic_percent` is {}, but a share of the time lies between 0 and 100",
                self.heuristic_percent
            );
            return wrong("cache.heuristic_percent", text);
        }
        let patterns = [
            (
                "harmless_headers",
                &self.harmless_headers,
                "=:;, ",
                "a request field, as in `x-app-version`",
            ),
            ("ignore_query", &self.ignore_query, "=&?#", "a query parameter, as in `utm_*`"),
            ("harmless_cookies", &self.harmless_cookies, "=;, ", "a cookie, as in `_ga*`"),
            ("pinned", &self.pinned, "?#", "a path, as in `/robots.txt` or `/sitemap*`"),
        ];
        for (key, patterns, never, what) in patterns {
            for pattern in patterns {
                let start = pattern.strip_suffix('*').unwrap_or(pattern);
                let good = !pattern.is_empty()
                    && !start.contains('*')
                    && !start.contains(|c| never.contains(c))
                    && (key != "pinned" || start.starts_with('/'));
                if !good {
                    let text = format!(
                        "`{pattern}` is not the name of {what}; a `*` may stand at its end, for any \
                         ending"
                    );
                    return wrong(format!("cache.{key}"), text);
                }
            }
        }
        Ok(())
    }
}

/// Whether a pattern covers cookies that look like those by which applications know their users.
fn may_be_a_session(pattern: &str) -> bool {
    let lower = pattern.to_ascii_lowercase();
    let parts = ["sess", "sid", "token", "auth", "login", "logged", "user", "jwt"];
    lower.trim_end_matches('*').len() < 2 || parts.iter().any(|part| lower.contains(part))
}

/// A time that may be left out.
pub(super) fn given<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration_text::deserialize(deserializer).map(Some)
}
