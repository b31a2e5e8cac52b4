//! Collects what `nightwatt status` shows of a pool of servers.

use nightwatt_energy::energy::Energy;
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_policy::fleet::Phase as Duty;
use nightwatt_policy::ledger::{Bill, Part};

use super::Basis;
use crate::pool::{InPool, PoolServer, ServerPool};
use crate::site::Site;
use crate::status::{LedgerStatus, Parts, PoolStatus, ServerStatus};

const fn word(duty: Duty) -> &'static str {
    match duty {
        Duty::Off => "off",
        Duty::Starting => "starting",
        Duty::On => "on",
        Duty::Draining => "draining",
        Duty::Failed => "failed",
    }
}

impl ServerPool {
    /// The status of the pool and of each of its servers.
    pub(crate) fn report(&self, policy: String) -> PoolStatus {
        let pool = self.status();
        let servers = self.servers.iter().zip(&pool.servers);
        PoolStatus {
            policy,
            on: pool.on,
            starting: pool.starting,
            waiting: pool.waiting,
            waited: pool.waited,
            refused: pool.refused,
            resent: pool.resent,
            servers: servers.map(|(server, in_pool)| server.status(*in_pool)).collect(),
        }
    }
}

impl PoolServer {
    fn status(&self, InPool { duty, held_off, failed }: InPool) -> ServerStatus {
        let server = self.supervisor.status();
        let meters = self.meter.as_ref().map(|feed| feed.status(Part::Server, server.now));
        ServerStatus {
            name: self.supervisor.name().to_owned(),
            kind: self.kind_name.clone(),
            duty: word(duty).to_owned(),
            held_off,
            state: server.phase.as_str().to_owned(),
            state_for_s: server.in_phase.as_secs_f64(),
            in_flight: server.in_flight,
            tunnels: server.tunnels,
            places: self.kind.places,
            failed,
            failures: server.failures,
            retry_after_s: server.blocked_for.as_secs_f64(),
            wake_time_s: server.wake_time.as_secs_f64(),
            ledger: self.ledger(&server.memory.bill),
            meters: meters.into_iter().collect(),
        }
    }

    /// Its bill as figures.
    fn ledger(&self, bill: &Bill) -> LedgerStatus {
        let basis = Basis {
            states: self.as_server().power_states(),
            busy: self.kind.busy - self.kind.idle,
            uncertainty: self.uncertainty,
            // It is on the bill of the site.
            proxy: Watts::ZERO,
            meters: [self.meter.as_ref(), None],
        };
        let ledger = basis.ledger(bill);
        let saving = ledger.saving.map(|_| saving(ledger.server.joules, ledger.always_on.joules));
        LedgerStatus { saving, ..ledger }
    }
}

/// 1 - used / always on; 0 if the latter is 0.
fn saving(used: Joules, always_on: Joules) -> f64 {
    if always_on.get() > 0.0 { 1.0 - used / always_on } else { 0.0 }
}

impl Site {
    /// The bill of a site as figures; for a pool, with the bills of all servers added: then times are server-seconds.
    pub(crate) fn whole_ledger(
        &self,
        own: &Bill,
        of: impl Fn(&PoolServer) -> Bill,
    ) -> LedgerStatus {
        let own = self.ledger(own);
        let Some(pool) = &self.pool else { return own };
        let servers = pool.servers.iter().map(|server| server.ledger(&of(server)));
        together(own, &servers.collect::<Vec<_>>())
    }
}

/// The sum over the servers, plus the proxy of the site. Errors of their models have the same causes, so uncertainties
/// add.
fn together(own: LedgerStatus, servers: &[LedgerStatus]) -> LedgerStatus {
    let sum = |of: fn(&LedgerStatus) -> f64| servers.iter().map(of).sum::<f64>();
    let parts = Parts {
        measured_j: sum(|it| it.server_parts.measured_j),
        measured_uncertainty_j: sum(|it| it.server_parts.measured_uncertainty_j),
        measured_s: sum(|it| it.server_parts.measured_s),
        modelled_j: sum(|it| it.server_parts.modelled_j),
        modelled_uncertainty_j: sum(|it| it.server_parts.modelled_uncertainty_j),
    };
    let energy = |joules: f64, uncertainty: f64| Energy {
        uncertainty: Joules(uncertainty),
        ..Energy::modelled(Joules(joules), 0.0, "power states of the servers")
    };
    let modelled = energy(parts.modelled_j, parts.modelled_uncertainty_j);
    let measured = Energy::measured(
        Joules(parts.measured_j),
        Joules(parts.measured_uncertainty_j),
        "meters of the servers",
    );
    let span_s = sum(|it| it.span_s);
    let share = if span_s > 0.0 { parts.measured_s / span_s } else { 0.0 };
    let server = Energy::together(&measured, &modelled, share);
    let always_on =
        energy(sum(|it| it.always_on.joules.get()), sum(|it| it.always_on.uncertainty.get()));
    let used = server.joules + own.proxy.joules;
    let is_too_early = servers.iter().all(|it| it.saving.is_none());
    LedgerStatus {
        span_s,
        awake_s: sum(|it| it.awake_s),
        asleep_s: sum(|it| it.asleep_s),
        unobserved_s: sum(|it| it.unobserved_s),
        busy_s: sum(|it| it.busy_s),
        sleeps: servers.iter().map(|it| it.sleeps).sum(),
        wakeups: servers.iter().map(|it| it.wakeups).sum(),
        saving: (!is_too_early).then(|| saving(used, always_on.joules)),
        server,
        server_parts: parts,
        always_on,
        ..own
    }
}
