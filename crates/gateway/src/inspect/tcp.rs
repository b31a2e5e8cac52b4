//! Collects what `nightwatt status` shows of services that are passed through.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::config::UNKNOWN;
use crate::gateway::Gateway;
use crate::passthrough::{Service, Tally};
use crate::status::TcpStatus;

impl Service {
    /// The status of a service.
    pub(crate) fn status(&self) -> TcpStatus {
        let (config, tally) = (&self.config, &self.tally);
        TcpStatus {
            name: config.name.clone(),
            on: config.on.clone(),
            listen: self.addresses.iter().map(ToString::to_string).collect(),
            sni: config.sni.clone(),
            open: tally.open.load(Ordering::Relaxed),
            quiet: tally.quiet.load(Ordering::Relaxed),
            held: tally.held.load(Ordering::Relaxed),
            waited: tally.waited.load(Ordering::Relaxed),
            received_bytes: tally.received.load(Ordering::Relaxed),
            sent_bytes: tally.sent.load(Ordering::Relaxed),
            outcomes: outcomes(tally),
        }
    }
}

impl Gateway {
    /// Connections passed through to the server of this site, or to this machine, that keep it awake.
    fn connections_to(&self, name: &str) -> u32 {
        let on_it = self.front.services.all.iter().filter(|service| service.config.on == name);
        let active: u64 = on_it.map(|service| service.tally.active()).sum();
        u32::try_from(active).unwrap_or(u32::MAX)
    }

    /// Connections and sessions passed through that keep this site's server, or this machine, awake.
    pub(super) fn passed_through_to(&self, name: &str) -> u32 {
        self.connections_to(name).saturating_add(self.sessions_with(name))
    }

    /// The status of all services, and of connections for none of them if there were any.
    pub(super) fn services_status(&self) -> Vec<TcpStatus> {
        let unknown = TcpStatus {
            name: UNKNOWN.to_owned(),
            on: String::new(),
            listen: Vec::new(),
            sni: Vec::new(),
            open: 0,
            quiet: 0,
            held: 0,
            waited: 0,
            received_bytes: 0,
            sent_bytes: 0,
            outcomes: outcomes(&self.front.services.unclaimed),
        };
        let unknown = Some(unknown).filter(|it| !it.outcomes.is_empty());
        self.front.services.all.iter().map(Service::status).chain(unknown).collect()
    }
}

fn outcomes(tally: &Tally) -> BTreeMap<String, u64> {
    let given = tally.outcomes().filter(|(_, count)| *count > 0);
    given.map(|(name, count)| (name.to_owned(), count)).collect()
}
