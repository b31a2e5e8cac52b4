//! What is needed to serve requests and connections, for one configuration.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_http1::Limits;
use nightwatt_httpcache::Timestamp;

use crate::access_log::AccessLog;
use crate::authority::host_name;
use crate::client_limits::ClientLimits;
use crate::config::Config;
use crate::facts::Facts;
use crate::forwarded::Unreadable;
use crate::metrics::{ConnectionTally, RequestTally};
use crate::proofs::Proofs;
use crate::repeated_warnings::Repeats;
use crate::site::Site;
use crate::store;

/// What is needed to serve requests and connections. A reload replaces it with another one, which shares what did not
/// change.
pub(crate) struct Serving {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) sites: Vec<Arc<Site>>,
    pub(crate) names: SiteNames,
    pub(crate) access_log: Option<Arc<AccessLog>>,
    /// Shadow mode: no server is touched.
    pub(crate) observe: bool,
    pub(crate) client_limits: Arc<ClientLimits>,
    /// Limits of clients' connections.
    pub(crate) http_limits: Arc<Limits>,
    pub(crate) connections: Arc<ConnectionTally>,
    /// The proofs that authorities request at the moment, with TLS.
    pub(crate) proofs: Option<Arc<Proofs>>,
    pub(crate) unreadable_clients: Arc<Unreadable>,
    /// Requests for no site.
    pub(crate) unsited: Arc<RequestTally>,
    /// For tests, which compare the answers of both paths.
    pub(crate) has_fast_path: AtomicBool,
    /// Warnings that can repeat with every request.
    pub(crate) repeats: Repeats,
}

/// The host names of each site.
pub(crate) struct SiteNames {
    hosts: HashMap<String, usize>,
    /// The site for all other hosts.
    default: Option<usize>,
}

impl SiteNames {
    /// The names of a configuration.
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
        // An HTTP/1.0 request need not name a host. With only one site it is clear which one is meant.
        self.names.default.or_else(|| (self.sites.len() == 1).then_some(0))
    }

    /// The site with this name, and its index.
    pub(crate) fn site_named(&self, name: &str) -> Option<(usize, &Arc<Site>)> {
        self.sites.iter().enumerate().find(|(_, site)| *site.name == *name)
    }

    /// Now, as the cache counts it.
    pub(crate) fn timestamp(&self) -> Timestamp {
        store::timestamp(&self.clock)
    }
}

impl Serving {
    /// Logs a warning, with rate limiting. `log` gets the number of times since the last line.
    pub(crate) fn warn(
        &self,
        kind: &'static str,
        subject: &str,
        log: impl FnOnce(u64) + Send + 'static,
    ) {
        self.repeats.warn(&self.clock, kind, subject, log);
    }

    /// Warns about a request of a site.
    pub(crate) fn warn_of(&self, site: &Site, id: &str, what: &'static str, error: &dyn Display) {
        let (name, id, error) = (Arc::clone(&site.name), id.to_owned(), error.to_string());
        self.warn(what, &site.name, move |count| {
            tracing::warn!(site = %name, id, error, count, "{what}");
        });
    }

    /// A connection could not be accepted, mostly for lack of descriptors: logs that, and waits a moment, in which
    /// other connections may end.
    pub(crate) async fn cannot_accept(&self, what: &'static str, error: std::io::Error) {
        self.warn("accept", what, move |count| {
            tracing::warn!(%error, count, "cannot accept {what} connections; trying again");
        });
        self.clock.sleep(Duration::from_millis(100)).await;
    }

    /// A connection is closed at once, since its client is at its limit.
    pub(crate) fn refuse_connection(&self) {
        self.connections.refuse();
        self.warn("connections of a client", "", |count| {
            tracing::warn!(
                count,
                "closed connections of clients that have `limits.connections_per_client` open"
            );
        });
    }

    /// A connection waits, since the limit of connections is reached.
    pub(crate) fn no_room(&self) {
        self.warn("connections", "", |count| {
            tracing::warn!(
                count,
                "connections wait: as many are open as `limits.connections` and the limit of descriptors allow"
            );
        });
    }

    /// A request is rejected, since the limit of held requests is reached: of all clients, or of this one.
    pub(crate) fn refuse_to_hold(&self, site: &Arc<str>, limit: &'static str) {
        let name = Arc::clone(site);
        self.warn(limit, site, move |count| {
            tracing::warn!(site = %name, count, "requests refused: `limits.{limit}` of them wait already");
        });
    }
}
