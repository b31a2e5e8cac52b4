//! Pools on the page: servers that are on, requests that wait, and each server with its ledger.

use std::fmt::Display;

use nightwatt_policy::lifecycle::Phase;
use nightwatt_report::exposition::{Exposition, Family};

use super::{Scraped, counter, gauge, times};
use crate::status::{PoolStatus, ServerStatus};

/// Nothing for a configuration without pools.
pub(super) fn write(page: &mut Exposition, sites: &[Scraped<'_>]) {
    let pools: Vec<(&str, &PoolStatus)> =
        sites.iter().filter_map(|it| Some((it.name(), it.status.pool.as_ref()?))).collect();
    if pools.is_empty() {
        return;
    }
    write_pools(page, &pools);
    write_servers(page, &pools);
    write_ledgers(page, &pools);
}

fn write_pools(page: &mut Exposition, pools: &[(&str, &PoolStatus)]) {
    let servers = gauge(
        "nightwatt_pool_servers",
        &["site", "duty"],
        "Servers of the pool by what they are to it: `off`, `starting`, `on`, `draining` (finishes what \
         it has, and goes off), `failed`.",
    );
    page.family(servers, |samples| {
        for (site, pool) in pools {
            for duty in ServerStatus::DUTIES {
                let count = pool.servers.iter().filter(|it| it.duty == duty).count();
                samples.add(&[site, duty], count);
            }
        }
    });
    let waiting = "Requests that wait now until a server has a place.";
    per_pool(page, gauge("nightwatt_pool_waiting_requests", &["site"], waiting), pools, |it| {
        it.waiting.into()
    });
    let waited = "Requests that had to wait until a server had a place.";
    per_pool(
        page,
        counter("nightwatt_pool_waited_requests_total", &["site"], waited),
        pools,
        |it| it.waited,
    );
    let refused = "Requests that found neither a place nor room to wait: answered with 503.";
    let refused = counter("nightwatt_pool_refused_requests_total", &["site"], refused);
    per_pool(page, refused, pools, |it| it.refused);
    let resent = "Times that a request was sent to another server because one had failed.";
    per_pool(
        page,
        counter("nightwatt_pool_resent_requests_total", &["site"], resent),
        pools,
        |it| it.resent,
    );
}

fn per_pool(
    page: &mut Exposition,
    family: Family,
    pools: &[(&str, &PoolStatus)],
    value: impl Fn(&PoolStatus) -> u64,
) {
    page.family(family, |samples| {
        for (site, pool) in pools {
            samples.add(&[site], value(pool));
        }
    });
}

/// A family with one sample for each server.
fn per_server<V: Display>(
    page: &mut Exposition,
    family: Family,
    pools: &[(&str, &PoolStatus)],
    value: impl Fn(&ServerStatus) -> V,
) {
    page.family(family, |samples| {
        for (site, pool) in pools {
            for it in &pool.servers {
                samples.add(&[site, &it.name], value(it));
            }
        }
    });
}

fn write_servers(page: &mut Exposition, pools: &[(&str, &PoolStatus)]) {
    let state = gauge(
        "nightwatt_pool_server_state",
        &["site", "server", "state"],
        "1 for the state that the server is in, 0 for every other.",
    );
    page.family(state, |samples| {
        for (site, pool) in pools {
            for it in &pool.servers {
                samples.states(&[site, &it.name], Phase::ALL.map(Phase::as_str), &it.state);
            }
        }
    });
    let exchanges = gauge(
        "nightwatt_pool_server_exchanges",
        &["site", "server"],
        "Exchanges with the server under way.",
    );
    per_server(page, exchanges, pools, |it| it.in_flight);
    let failures = counter(
        "nightwatt_pool_server_failures_total",
        &["site", "server"],
        "Times that the server was taken out of the pool because it failed.",
    );
    per_server(page, failures, pools, |it| it.failed);
}

fn write_ledgers(page: &mut Exposition, pools: &[(&str, &PoolStatus)]) {
    let seconds = gauge(
        "nightwatt_pool_server_ledger_seconds",
        &["site", "server", "billed"],
        "The server's ledger of all starts together: time by how it is billed; `busy` is a part of \
         `awake`.",
    );
    page.family(seconds, |samples| {
        for (site, pool) in pools {
            for it in &pool.servers {
                for (billed, seconds) in times(&it.ledger) {
                    samples.add(&[site, &it.name, billed], seconds);
                }
                samples.add(&[site, &it.name, "busy"], it.ledger.busy_s);
            }
        }
    });
    let switches = gauge(
        "nightwatt_pool_server_ledger_switches",
        &["site", "server", "what"],
        "The server's ledger of all starts together: `sleeps` begun and `wakeups` answered.",
    );
    page.family(switches, |samples| {
        for (site, pool) in pools {
            for it in &pool.servers {
                samples.add(&[site, &it.name, "sleeps"], it.ledger.sleeps);
                samples.add(&[site, &it.name, "wakeups"], it.ledger.wakeups);
            }
        }
    });
    let joules = gauge(
        "nightwatt_pool_server_ledger_energy_joules",
        &["site", "server", "of", "provenance"],
        "The server's ledger of all starts together: its energy, and that of one `always-on`. The \
         proxy's is on the bill of the site, which has the sum of all servers too.",
    );
    page.family(joules, |samples| {
        for (site, pool) in pools {
            for it in &pool.servers {
                let (parts, always_on) = (it.ledger.server_parts, &it.ledger.always_on);
                samples.add(&[site, &it.name, "server", "measured"], parts.measured_j);
                samples.add(&[site, &it.name, "server", "modelled"], parts.modelled_j);
                samples.add(&[site, &it.name, "always-on", "modelled"], always_on.joules.get());
            }
        }
    });
}
