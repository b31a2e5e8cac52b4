//! Collects what `nightwatt status` shows of services of datagrams.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::datagrams::Service;
use crate::gateway::Gateway;
use crate::status::UdpStatus;

impl Service {
    /// The status of a service.
    pub(crate) fn status(&self) -> UdpStatus {
        let (config, tally) = (&self.config, &self.tally);
        let count = |it: &AtomicU64| it.load(Ordering::Relaxed);
        let named = |(name, count): (&str, u64)| (name.to_owned(), count);
        UdpStatus {
            name: config.name.clone(),
            on: config.on.clone(),
            listen: self.addresses.iter().map(ToString::to_string).collect(),
            sessions: self.sessions() as u64,
            active: count(&tally.active),
            held: count(&tally.held),
            waited: count(&tally.waited),
            received: count(&tally.received),
            resent: count(&tally.resent),
            look_ups: tally.look_ups.iter().map(count).sum(),
            look_ups_failed: count(&tally.look_ups[1]),
            sent: count(&tally.sent),
            received_bytes: count(&tally.received_bytes),
            sent_bytes: count(&tally.sent_bytes),
            dropped: tally.dropped().filter(|it| it.1 > 0).map(named).collect(),
            outcomes: tally.outcomes().filter(|it| it.1 > 0).map(named).collect(),
        }
    }
}

impl Gateway {
    /// Sessions of datagrams with the server of this site, or with this machine, that keep it awake.
    pub(super) fn sessions_with(&self, name: &str) -> u32 {
        let on_it = self.front.datagrams.all.iter().filter(|service| service.config.on == name);
        let active: u64 = on_it.map(|service| service.tally.active.load(Ordering::Relaxed)).sum();
        u32::try_from(active).unwrap_or(u32::MAX)
    }

    /// The status of all services of datagrams.
    pub(super) fn datagrams_status(&self) -> Vec<UdpStatus> {
        self.front.datagrams.all.iter().map(|it| it.status()).collect()
    }
}
