//! `[site.cache]`: what of a site's answers is kept, for whom and for how long.

use std::time::Duration;

use nightwatt_httpcache::{CookieRule, CookieRules, Heuristic, KeyRules, Rules};
use nightwatt_model::duration_text;
use nightwatt_model::scenario::CacheRule;
use serde::{Deserialize, Deserializer};

use super::{Wrong, wrong};

/// What the operator decides; the rest is RFC 9111's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct CacheConfig {
    /// Lifetime of answers that say nothing, instead of the scenario's.
    #[serde(deserialize_with = "given")]
    pub ttl: Option<Duration>,
    /// Lifetime of 404, 405, 410, 414 and 501 that say nothing; default: that of other answers,
    /// but for `ttl`.
    #[serde(deserialize_with = "given")]
    pub negative_ttl: Option<Duration>,
    /// How long past its lifetime an answer is served while the server sleeps, instead of the
    /// scenario's.
    #[serde(deserialize_with = "given")]
    pub grace_asleep: Option<Duration>,
    /// How long past its lifetime an answer is served when the server fails.
    #[serde(with = "duration_text")]
    pub stale_if_error: Duration,
    /// This share of the time since `Last-Modified` is the lifetime of what says nothing else; 0: do
    /// not guess.
    pub heuristic_percent: u32,
    /// No guess is longer.
    #[serde(with = "duration_text")]
    pub heuristic_longest: Duration,
    /// What a cookie in a request means.
    pub cookies: Cookies,
    /// Cookies that say nothing about the visitor: `_ga*`.
    pub harmless_cookies: Vec<String>,
    /// Query parameters that change nothing: `utm_*`.
    pub ignore_query: Vec<String>,
    /// The order of query parameters does not matter.
    pub sort_query: bool,
    /// Keep answers that set cookies, and give the cookies to everybody.
    pub store_set_cookie: bool,
    /// Heed what requests say of caching, a browser's reload above all.
    pub heed_requests: bool,
    /// Keep `must-revalidate` and its kin while the server sleeps.
    pub respect_must_revalidate: bool,
    /// `CDN-Cache-Control` goes before `Cache-Control`.
    pub cdn_cache_control: bool,
    /// Paths that are not evicted, nor ever too old while the server sleeps.
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
            harmless_cookies: rules.cookies.harmless,
            ignore_query: rules.key.ignore_query,
            sort_query: rules.key.sort_query,
            store_set_cookie: rules.store_set_cookie,
            heed_requests: rules.heed_requests,
            respect_must_revalidate: rules.respect_must_revalidate,
            cdn_cache_control: rules.cdn_cache_control,
            pinned: rules.pinned,
        }
    }
}

impl CacheConfig {
    /// As the cache's rules have it.
    pub fn rules(&self, scenario: &CacheRule) -> Rules {
        let ttl = self.ttl.unwrap_or(scenario.ttl);
        let heuristic =
            Heuristic { percent: self.heuristic_percent, longest: self.heuristic_longest };
        Rules {
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
    pub fn risks(&self) -> Vec<&'static str> {
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

/// A time that may be left out.
pub(super) fn given<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration_text::deserialize(deserializer).map(Some)
}
