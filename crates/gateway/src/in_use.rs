//! Use of a server that does not come through the proxy: a film that a television plays, a download, a shell.
//!
//! ```text
//! policy::in_use (pure): which probe is due  ->  watch: ask it  ->  judge (pure): in use?  ->  the power manager
//! ```

mod asking;
mod container;
pub mod judge;
mod ports;
pub(crate) mod watch;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nightwatt_clock::Clock;
use nightwatt_energy::duration_text;
use nightwatt_policy::in_use::{Found, Standing, Use};

use self::asking::Asking;
use self::container::{Busy, WINDOW};
use self::ports::Ports;
use crate::config::{InUseConfig, SiteConfig};
use crate::error::StartError;
use crate::status::InUseStatus;

/// The probes of a site.
pub(crate) struct InUse {
    site: String,
    probes: Vec<Probe>,
}

struct Probe {
    name: String,
    way: Way,
    limit: std::time::Duration,
    unknown_for: std::time::Duration,
    /// What was in use at the last answer, or why there was none.
    last: Mutex<Last>,
    used: AtomicU64,
    idle: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug, Clone, Default)]
struct Last {
    text: Option<String>,
    /// The last standing that was logged.
    logged: Option<Standing>,
}

enum Way {
    Http(Box<Asking>),
    Ports(Ports),
    Busy(Box<Busy>),
}

impl Way {
    fn of(config: &InUseConfig, site: &SiteConfig, clock: &Clock) -> Result<Self, String> {
        if config.is_of_container() {
            let busy = Busy::new(config, site, clock);
            return busy.map(Box::new).map(Self::Busy).ok_or_else(|| {
                "`cpu` and `network` need the driver `docker` or `podman` in `power`".to_owned()
            });
        }
        match config.question(site) {
            Some(question) => {
                Asking::open(config, site, question).map(|asking| Self::Http(Box::new(asking)))
            }
            None => Ok(Self::Ports(Ports::new(config, site))),
        }
    }
}

impl InUse {
    /// The probes of a site, if it has any. Files of tokens and authorities are read to find errors now.
    pub(crate) fn of(site: &SiteConfig, clock: &Clock) -> Result<Option<Arc<Self>>, StartError> {
        if site.in_use.is_empty() {
            return Ok(None);
        }
        let mut probes = Vec::new();
        for config in &site.in_use {
            let name = config.shown().to_owned();
            let way = Way::of(config, site, clock).map_err(|why| {
                let (site, probe) = (site.name.clone(), name.clone());
                let is_denied = |path: &PathBuf| {
                    let opened = std::fs::File::open(path);
                    opened.is_err_and(|it| it.kind() == std::io::ErrorKind::PermissionDenied)
                };
                let denied = config.files().any(is_denied);
                StartError::InUse { site, probe, why, denied }
            })?;
            let (limit, unknown_for) = (config.timeout, config.unknown_for);
            let [used, idle, failed] = Default::default();
            let last = Mutex::default();
            probes.push(Probe { name, way, limit, unknown_for, last, used, idle, failed });
        }
        Ok(Some(Arc::new(Self { site: site.name.clone(), probes })))
    }

    /// Asks a probe.
    pub(crate) async fn ask(&self, probe: usize, is_first: bool, clock: &Clock) -> Found {
        let Some(probe) = self.probes.get(probe) else { return Found::Unknown };
        let late = |_| Err(format!("no answer within {}", duration_text::format(probe.limit)));
        let answer = match &probe.way {
            Way::Ports(ports) => ports.count(),
            Way::Http(asking) => {
                let _debt = clock.owe();
                clock.timeout(probe.limit, asking.ask()).await.unwrap_or_else(late)
            }
            Way::Busy(busy) => {
                let limit = probe.limit + WINDOW;
                clock.timeout(limit, busy.ask(is_first)).await.unwrap_or_else(late)
            }
        };
        let (found, count, text) = match answer {
            Ok(Some(what)) => (Found::InUse, &probe.used, Some(what)),
            Ok(None) => (Found::Idle, &probe.idle, None),
            Err(why) => (Found::Unknown, &probe.failed, Some(why)),
        };
        count.fetch_add(1, Ordering::Relaxed);
        probe.last().text = text;
        found
    }

    /// Logs what changed with an answer.
    pub(crate) fn log(&self, probe: usize, standing: Standing) {
        let Some(probe) = self.probes.get(probe) else { return };
        let mut last = probe.last();
        let before = last.logged.replace(standing);
        if before == Some(standing) {
            return;
        }
        let (site, name) = (&*self.site, &*probe.name);
        let why = last.text.as_deref().unwrap_or_default();
        let bound = duration_text::format(probe.unknown_for);
        match standing {
            Standing::InUse => {
                tracing::info!(site, probe = name, why, "in use past the proxy: it stays awake");
            }
            Standing::Unknown => tracing::warn!(
                site,
                probe = name,
                why,
                "a probe of use has no answer: the server counts as in use, for at most {bound} (`unknown_for`)"
            ),
            Standing::Ignored => tracing::warn!(
                site,
                probe = name,
                why,
                "a probe of use has had no answer for {bound}: the server counts as idle until there is one"
            ),
            Standing::Idle if matches!(before, Some(Standing::Unknown | Standing::Ignored)) => {
                tracing::info!(site, probe = name, "a probe of use has an answer again: idle");
            }
            Standing::Idle | Standing::NotAsked => {}
        }
    }

    /// What keeps the server awake, for people.
    pub(crate) fn words(&self, used: Use) -> Option<String> {
        let probe = self.probes.get(used.probe)?;
        let text = probe.last().text.clone().unwrap_or_default();
        let name = &probe.name;
        Some(match used.standing {
            Standing::InUse => format!("use past the proxy: {name} ({text})"),
            Standing::Unknown => format!("the probe of use `{name}`, which has no answer: {text}"),
            _ => format!("the probe of use `{name}`, which is asked soon"),
        })
    }

    /// For `status` and metrics.
    pub(crate) fn status(&self, standings: &[Standing]) -> Vec<InUseStatus> {
        let all = self.probes.iter().enumerate().map(|(index, probe)| InUseStatus {
            name: probe.name.clone(),
            state: standings.get(index).map_or("asleep", |it| it.as_str()).to_owned(),
            reason: probe.last().text.clone(),
            used: probe.used.load(Ordering::Relaxed),
            idle: probe.idle.load(Ordering::Relaxed),
            failed: probe.failed.load(Ordering::Relaxed),
        });
        all.collect()
    }
}

impl Probe {
    fn last(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
