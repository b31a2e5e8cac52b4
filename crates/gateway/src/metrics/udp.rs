//! Services of datagrams, on the page.

use nightwatt_report::exposition::Exposition;

use super::{counter, gauge};
use crate::gateway::Gateway;
use crate::status::UdpStatus;

/// Nothing for a configuration without services of datagrams.
pub(super) fn write(page: &mut Exposition, gateway: &Gateway) {
    let all = &gateway.front.datagrams.all;
    if all.is_empty() {
        return;
    }
    let services: Vec<UdpStatus> = all.iter().map(|it| it.status()).collect();
    let sessions = gauge(
        "nightwatt_udp_sessions",
        &["service", "state"],
        "Sessions now: `active` (they keep the server awake), `held` until the server is awake, `quiet` \
         (all others).",
    );
    page.family(sessions, |samples| {
        for it in &services {
            samples.add(&[&it.name, "active"], it.active);
            samples.add(&[&it.name, "held"], it.held);
            let quiet = it.sessions.saturating_sub(it.active + it.held);
            samples.add(&[&it.name, "quiet"], quiet);
        }
    });
    let ended = counter(
        "nightwatt_udp_sessions_total",
        &["service", "outcome"],
        "Sessions that have ended, by what became of them.",
    );
    page.family(ended, |samples| {
        for service in all {
            for (outcome, count) in service.tally.outcomes() {
                samples.add(&[&service.config.name, outcome], count);
            }
        }
    });
    let waited = counter(
        "nightwatt_udp_sessions_held_total",
        &["service"],
        "Sessions that had to wait until the server was awake.",
    );
    page.family(waited, |samples| {
        for it in &services {
            samples.add(&[&it.name], it.waited);
        }
    });
    write_datagrams(page, gateway, &services);
}

fn write_datagrams(page: &mut Exposition, gateway: &Gateway, services: &[UdpStatus]) {
    let datagrams = counter(
        "nightwatt_udp_datagrams_total",
        &["service", "direction"],
        "Datagrams passed through, `received` from clients and `sent` to them.",
    );
    page.family(datagrams, |samples| {
        for it in services {
            samples.add(&[&it.name, "received"], it.received);
            samples.add(&[&it.name, "sent"], it.sent);
        }
    });
    let resent = counter(
        "nightwatt_udp_resent_total",
        &["service"],
        "Datagrams sent again to a service that had just woken and did not listen yet.",
    );
    page.family(resent, |samples| {
        for it in services {
            samples.add(&[&it.name], it.resent);
        }
    });
    let look_ups = counter(
        "nightwatt_udp_lookups_total",
        &["service", "result"],
        "Look-ups of the name in `origin`: `found` an address, or `failed`.",
    );
    page.family(look_ups, |samples| {
        for it in services {
            let found = it.look_ups.saturating_sub(it.look_ups_failed);
            samples.add(&[&it.name, "found"], found);
            samples.add(&[&it.name, "failed"], it.look_ups_failed);
        }
    });
    let bytes = counter(
        "nightwatt_udp_bytes_total",
        &["service", "direction"],
        "Bytes of datagrams passed through, `received` from clients and `sent` to them.",
    );
    page.family(bytes, |samples| {
        for it in services {
            samples.add(&[&it.name, "received"], it.received_bytes);
            samples.add(&[&it.name, "sent"], it.sent_bytes);
        }
    });
    let dropped = counter(
        "nightwatt_udp_dropped_total",
        &["service", "reason"],
        "Datagrams that were dropped, by reason.",
    );
    page.family(dropped, |samples| {
        for service in &gateway.front.datagrams.all {
            for (reason, count) in service.tally.dropped() {
                samples.add(&[&service.config.name, reason], count);
            }
        }
    });
}
