//! The paths of a site that are answered in another way: by another port of the server, a redirect, a fixed text or files.
//!
//! A path can be spelled in several ways, and servers resolve them differently (`/a/../b`, `/a%2fb`, `//a`). A request
//! whose spellings belong to different tables is refused: see [`Paths::find`].

mod files;
mod kinds;
mod serve;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use nightwatt_clock::Clock;

use self::files::Folder;
use crate::config::{
    Config, HeaderRules, Limits, PathConfig, SiteConfig, SiteLimits, decoded, readings,
};
use crate::error::StartError;
use crate::origin::OriginPool;
use crate::request_rules::{path_of, reads_alike, remove_alike};

/// The tables of a site.
pub(crate) struct Paths {
    /// Those that fit best come first.
    rules: Vec<PathRule>,
    pages: ErrorPages,
}

/// Own pages for errors, by status.
type ErrorPages = HashMap<u16, bytes::Bytes>;

/// A table.
pub(crate) struct PathRule {
    pub(crate) config: PathConfig,
    /// The site's limits, except where the path has its own.
    pub(crate) limits: Limits,
    /// Connections to another port, or with other limits.
    pub(crate) origin: Option<Arc<OriginPool>>,
    request: Headers,
    response: Headers,
    folder: Option<Folder>,
}

/// Fields to remove and to set.
#[derive(Default)]
struct Headers {
    removed: Vec<HeaderName>,
    set: Vec<(HeaderName, HeaderValue)>,
}

impl Headers {
    fn of(rules: &HeaderRules) -> Self {
        let (removed, set) = rules.read();
        Self { removed, set }
    }

    /// Whether a field may be read as one of these.
    fn are_of(&self, name: &HeaderName) -> bool {
        let set = self.set.iter().map(|(own, _)| own);
        self.removed.iter().chain(set).any(|own| reads_alike(own, name))
    }

    fn remove(&self, headers: &mut HeaderMap) {
        for name in &self.removed {
            headers.remove(name);
        }
    }

    fn set(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.set {
            headers.insert(name, value.clone());
        }
    }
}

/// Servers could take the path for one of another table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ambiguous;

/// Whether a server could see a `..` step in a path, as it is or decoded. What it leaves then depends on what the server
/// takes for a step before it.
pub(crate) fn climbs(path: &str) -> bool {
    let has_step_up = |text: &str| {
        let mut steps = text.split(['/', '\\']);
        steps.any(|step| step.split([';', '\0']).next() == Some(".."))
    };
    let once = decoded(path);
    has_step_up(path) || has_step_up(&once) || has_step_up(&decoded(&once))
}

impl Paths {
    /// The tables of a site; nothing if it has none.
    ///
    /// # Errors
    ///
    /// If a server cannot be reached as configured, or a page cannot be read.
    pub(crate) fn open(
        site: &SiteConfig,
        config: &Config,
        clock: &Clock,
    ) -> Result<Option<Arc<Self>>, StartError> {
        if site.path.is_empty() && site.error_pages.is_empty() {
            return Ok(None);
        }
        let mut rules = Vec::new();
        for path in &site.path {
            let limits = path.limits.over(&site.limits.over(&config.limits));
            let is_other = path.origin.is_some() || path.limits != SiteLimits::default();
            let own = path.origin.as_ref().unwrap_or(&site.origin);
            let origin = (is_other && path.asks_server() && site.server.is_empty())
                .then(|| OriginPool::open(own, site.origin_tls.as_ref(), &limits, clock))
                .transpose()
                .map_err(|source| StartError::Power { site: site.name.clone(), source })?
                .map(Arc::new);
            rules.push(PathRule {
                limits,
                origin,
                request: Headers::of(&path.request_headers),
                response: Headers::of(&path.response_headers),
                folder: path.folder.as_deref().map(|it| Folder::new(it, path.index.as_deref())),
                config: path.clone(),
            });
        }
        rules.sort_by_key(|it| {
            std::cmp::Reverse((it.config.exact.is_some(), it.config.name().len()))
        });
        let mut pages = ErrorPages::new();
        for (status, path) in &site.error_pages {
            let wrong = |source| StartError::ErrorPage {
                site: site.name.clone(),
                path: path.clone(),
                source,
            };
            let page = std::fs::read(path).map_err(wrong)?;
            pages.insert(status.parse().unwrap_or(0), page.into());
        }
        Ok(Some(Arc::new(Self { rules, pages })))
    }

    /// The table for a path; nothing if it is answered as all others are.
    pub(crate) fn find(&self, path: &str) -> Result<Option<&PathRule>, Ambiguous> {
        let best = |path: &str| self.rules.iter().position(|rule| rule.is_for(path));
        let found = best(path);
        let is_other = || readings(path)[1..].iter().any(|it| best(it) != found);
        let ends_otherwise = || !path.ends_with('/') && self.is_exact_but_for_a_slash(path);
        if !self.rules.is_empty() && (climbs(path) || is_other() || ends_otherwise()) {
            return Err(Ambiguous);
        }
        Ok(found.map(|at| &self.rules[at]))
    }

    /// Whether a decoded slash at the end alone parts a path from an `exact` one. (A plain slash there makes it another
    /// path, which many pages are redirected to.)
    fn is_exact_but_for_a_slash(&self, path: &str) -> bool {
        let names =
            |bare: &str| self.rules.iter().any(|it| it.config.exact.as_deref() == Some(bare));
        readings(path)[1..].iter().any(|it| it.strip_suffix('/').is_some_and(names))
    }

    /// The page for an error of the proxy.
    pub(crate) fn page(&self, status: u16) -> Option<bytes::Bytes> {
        self.pages.get(&status).cloned()
    }

    /// Connections to other ports.
    pub(crate) fn origins(&self) -> impl Iterator<Item = &Arc<OriginPool>> {
        self.rules.iter().filter_map(|rule| rule.origin.as_ref())
    }
}

impl PathRule {
    fn is_for(&self, path: &str) -> bool {
        self.config.is_for(path)
    }

    /// What the server is asked for.
    pub(crate) fn target<'t>(&self, target: &'t str) -> Cow<'t, str> {
        if !self.config.strip_prefix {
            return Cow::Borrowed(target);
        }
        let prefix = self.config.name().trim_end_matches('/');
        match target.strip_prefix(prefix) {
            Some(rest) if rest.starts_with('/') => Cow::Borrowed(rest),
            Some(rest) => Cow::Owned(format!("/{rest}")),
            None => Cow::Borrowed(target),
        }
    }

    /// The fields of a request, as the server gets them.
    pub(crate) fn change_request(&self, headers: &mut HeaderMap) {
        if self.config.strip_prefix
            && let Ok(prefix) = HeaderValue::from_str(self.config.name().trim_end_matches('/'))
        {
            headers.insert(HeaderName::from_static("x-forwarded-prefix"), prefix);
        }
        // All that are removed or set, in other spellings too: a server may read them as the same name.
        remove_alike(headers, |name| self.withholds(name));
        self.request.set(headers);
    }

    /// Whether the server gets this field from no client.
    pub(crate) fn withholds(&self, name: &HeaderName) -> bool {
        self.request.are_of(name)
    }

    /// The fields of an answer, as the client gets them.
    pub(crate) fn change_answer(&self, headers: &mut HeaderMap) {
        self.response.remove(headers);
        self.response.set(headers);
    }

    /// What is behind the prefix, without slashes at its beginning, and with the query.
    fn rest<'t>(&self, target: &'t str) -> &'t str {
        let rest = target.strip_prefix(self.config.name()).unwrap_or_default();
        if self.config.exact.is_some() {
            return rest;
        }
        rest.trim_start_matches(['/', '\\'])
    }

    /// The path within its folder.
    fn within<'t>(&self, target: &'t str) -> &'t str {
        let name = self.config.name().trim_end_matches('/');
        path_of(target).strip_prefix(name).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
