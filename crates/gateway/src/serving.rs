//! What requests and connections are served with, as one configuration has it.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_http1::Limits;
use nightwatt_httpcache::Timestamp;

use crate::access::AccessLog;
use crate::authority::host_name;
use crate::client_limits::ClientLimits;
use crate::config::Config;
use crate::facts::Facts;
use crate::forwarded::Unreadable;
use crate::metrics::{ConnectionTally, RequestTally};
use crate::proofs::Proofs;
use crate::repeated_warnings::Repeats;
use crate::site::Site;

/// What requests and connections are served with. After a reload another one stands in its place, which shares with
/// it what did not change.
pub(crate) struct Serving {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) sites: Vec<Arc<Site>>,
    pub(crate) names: SiteNames,
    pub(crate) access_log: Option<Arc<AccessLog>>,
    /// Shadow mode: no server is touched.
    pub(crate) observe: bool,
    pub(crate) client_limits: Arc<ClientLimits>,
    /// Bounds on clients' connections.
    pub(crate) http_limits: Arc<Limits>,
    pub(crate) connections: Arc<ConnectionTally>,
    /// What authorities look for at the moment, with TLS.
    pub(crate) proofs: Option<Arc<Proofs>>,
    pub(crate) unreadable_clients: Arc<Unreadable>,
    /// Requests to no site.
    pub(crate) unsited: Arc<RequestTally>,
    /// Tests compare what both paths answer.
    pub(crate) has_fast_path: AtomicBool,
    /// Warnings that can repeat with every request.
    pub(crate) repeats: Repeats,
}

/// By which host names each site is asked for.
pub(crate) struct SiteNames {
    hosts: HashMap<String, usize>,
    /// The site for all other hosts.
    default: Option<usize>,
}

impl SiteNames {
    /// Those of a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        let named = config.site.iter().enumerate();
        let hosts = named
            .flat_map(|(index, site)| site.hosts.iter().map(move |host| (host_name(host), index)));
        Self {
            hosts: hosts.collect(),
            default: config.site.iter().position(|site| site.hosts.is_empty()),
        }
    }
}

impl Serving {
    /// The site that answers for a host.
    pub(crate) fn site_of(&self, host: &str) -> Option<usize> {
        self.names.hosts.get(host).copied().or(self.names.default)
    }

    /// The site that answers for a request.
    pub(crate) fn site_for(&self, facts: &Facts) -> Option<usize> {
        if !facts.authority.is_empty() {
            return self.site_of(&facts.host());
        }
        // A request of HTTP/1.0 need not name a host. It is clear whom it is for where there is one site.
        self.names.default.or_else(|| (self.sites.len() == 1).then_some(0))
    }

    /// The site of this name, and its number.
    pub(crate) fn site_named(&self, name: &str) -> Option<(usize, &Arc<Site>)> {
        self.sites.iter().enumerate().find(|(_, site)| *site.name == *name)
    }

    /// Now, as the cache counts it.
    pub(crate) fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(u64::try_from(self.clock.now().wall.0).unwrap_or(0))
    }
}

impl Serving {
    /// Warns, as often as that may be repeated. `log` gets how often it came about since the last line.
    pub(crate) fn warn(
        &self,
        kind: &'static str,
        subject: &str,
        log: impl FnOnce(u64) + Send + 'static,
    ) {
        self.repeats.warn(&self.clock, kind, subject, log);
    }

    /// Warns of what befell a request of a site.
    pub(crate) fn warn_of(&self, site: &Site, id: &str, what: &'static str, error: &dyn Display) {
        let (name, id, error) = (Arc::clone(&site.name), id.to_owned(), error.to_string());
        self.warn(what, &site.name, move |count| {
            tracing::warn!(site = %name, id, error, count, "{what}");
        });
    }

    /// A connection could not be accepted, for want of descriptors mostly: says so, and waits a moment, in
    /// which others may end.
    pub(crate) async fn cannot_accept(&self, what: &'static str, error: std::io::Error) {
        self.warn("accept", what, move |count| {
            tracing::warn!(%error, count, "cannot accept {what} connections; trying again");
        });
        self.clock.sleep(Duration::from_millis(100)).await;
    }

    /// A connection is closed as it comes, since its client has all that it may have.
    pub(crate) fn refuse_connection(&self) {
        self.connections.refuse();
        self.warn("connections of a client", "", |count| {
            tracing::warn!(
                count,
                "closed connections of clients that have `limits.connections_per_client` open"
            );
        });
    }

    /// A connection waits, since there is no place for it.
    pub(crate) fn no_room(&self) {
        self.warn("connections", "", |count| {
            tracing::warn!(
                count,
                "connections wait: as many are open as `limits.connections` and the limit of descriptors allow"
            );
        });
    }

    /// A request is refused, since as many wait for a server as may: of all clients, or of this one.
    pub(crate) fn refuse_to_hold(&self, site: &Arc<str>, limit: &'static str) {
        let name = Arc::clone(site);
        self.warn(limit, site, move |count| {
            tracing::warn!(site = %name, count, "requests refused: `limits.{limit}` of them wait already");
        });
    }
}
