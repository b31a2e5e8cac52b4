//! Services that are passed through, on the page.

use nightwatt_report::exposition::Exposition;

use super::{counter, gauge};
use crate::config::UNKNOWN;
use crate::gateway::Gateway;
use crate::passthrough::Service;
use crate::status::TcpStatus;

/// Nothing for a configuration without services.
pub(super) fn write(page: &mut Exposition, gateway: &Gateway) {
    if gateway.front.services.all.is_empty() {
        return;
    }
    let services: Vec<TcpStatus> = gateway.front.services.all.iter().map(Service::status).collect();
    let connections = gauge(
        "nightwatt_tcp_connections",
        &["service", "state"],
        "Connections now: `active` (they keep the server awake), `quiet` (nothing came through them, and \
         they do not), `held` until the server is awake.",
    );
    page.family(connections, |samples| {
        for it in &services {
            samples.add(&[&it.name, "active"], it.open.saturating_sub(it.quiet));
            samples.add(&[&it.name, "quiet"], it.quiet);
            samples.add(&[&it.name, "held"], it.held);
        }
    });
    let ended = counter(
        "nightwatt_tcp_connections_total",
        &["service", "outcome"],
        "Connections that have ended, by what became of them; `service` is `unknown` for those that were \
         refused before it was known.",
    );
    page.family(ended, |samples| {
        for (service, it) in gateway.front.services.all.iter().zip(&services) {
            for (outcome, count) in service.tally.outcomes() {
                samples.add(&[&it.name, outcome], count);
            }
        }
        for (outcome, count) in gateway.front.services.unclaimed.outcomes() {
            samples.add(&[UNKNOWN, outcome], count);
        }
    });
    let waited = counter(
        "nightwatt_tcp_connections_held_total",
        &["service"],
        "Connections that had to be held until the server was awake.",
    );
    page.family(waited, |samples| {
        for it in &services {
            samples.add(&[&it.name], it.waited);
        }
    });
    let bytes = counter(
        "nightwatt_tcp_bytes_total",
        &["service", "direction"],
        "Bytes passed through, `received` from clients and `sent` to them.",
    );
    page.family(bytes, |samples| {
        for it in &services {
            samples.add(&[&it.name, "received"], it.received_bytes);
            samples.add(&[&it.name, "sent"], it.sent_bytes);
        }
    });
}
