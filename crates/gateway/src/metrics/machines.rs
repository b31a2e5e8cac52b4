//! Machines on the page: their states, what is awake on them, and their ledgers.

use nightwatt_policy::lifecycle::Phase;
use nightwatt_report::exposition::Exposition;

use super::{gauge, times};
use crate::gateway::Gateway;
use crate::status::MachineStatus;

/// Nothing for a configuration without machines.
pub(super) fn write(page: &mut Exposition, gateway: &Gateway) {
    if gateway.machines.is_empty() {
        return;
    }
    let machines: Vec<MachineStatus> =
        gateway.machines.iter().map(|it| gateway.machine_status(it)).collect();
    let state = gauge(
        "nightwatt_machine_state",
        &["machine", "state"],
        "1 for the state that the machine is in, 0 for every other.",
    );
    page.family(state, |samples| {
        for it in &machines {
            samples.states(&[&it.name], Phase::ALL.map(Phase::as_str), &it.state);
        }
    });
    let servers = gauge(
        "nightwatt_machine_servers_awake",
        &["machine"],
        "Servers and machines on it that are awake or about to be.",
    );
    page.family(servers, |samples| {
        for it in &machines {
            samples.add(&[&it.name], it.awake_on_it);
        }
    });
    let seconds = gauge(
        "nightwatt_machine_ledger_seconds",
        &["machine", "billed"],
        "The machine's ledger of all starts together: time by how it is billed.",
    );
    page.family(seconds, |samples| {
        for it in &machines {
            for (billed, seconds) in times(&it.ledger) {
                samples.add(&[&it.name, billed], seconds);
            }
        }
    });
    let switches = gauge(
        "nightwatt_machine_ledger_switches",
        &["machine", "what"],
        "The machine's ledger of all starts together: `sleeps` begun and `wakeups` answered.",
    );
    page.family(switches, |samples| {
        for it in &machines {
            samples.add(&[&it.name, "sleeps"], it.ledger.sleeps);
            samples.add(&[&it.name, "wakeups"], it.ledger.wakeups);
        }
    });
    let joules = gauge(
        "nightwatt_machine_ledger_energy_joules",
        &["machine", "of", "provenance"],
        "The machine's ledger of all starts together: energy of the `server`, that is of the machine, and \
         of one `always-on`. The `proxy`'s is on the bills of the sites; where there are none, each machine \
         has an equal part of it.",
    );
    page.family(joules, |samples| {
        for it in &machines {
            let parts = it.ledger.server_parts;
            samples.add(&[&it.name, "server", "measured"], parts.measured_j);
            samples.add(&[&it.name, "server", "modelled"], parts.modelled_j);
            let proxy = it.ledger.proxy_parts;
            samples.add(&[&it.name, "proxy", "measured"], proxy.measured_j);
            samples.add(&[&it.name, "proxy", "modelled"], proxy.modelled_j);
            samples.add(&[&it.name, "always-on", "modelled"], it.ledger.always_on.joules.get());
        }
    });
}
