//! What `nightwatt status` shows.

mod disk;
mod pool;
mod tcp;
mod tls;

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nightwatt_model::energy::{Energy, PowerStates};
use nightwatt_model::ledger::{Bill, Hour, Metered, Part};
use nightwatt_model::policy::manager::Hindrance;
use nightwatt_model::quantity::Watts;
use nightwatt_model::time::Mono;
use serde::{Deserialize, Serialize};

pub use self::disk::DiskStatus;
pub use self::pool::{PoolStatus, ServerStatus};
pub use self::tcp::TcpStatus;
pub use self::tls::{CertificateStatus, TlsStatus};
use crate::access::Answered;
use crate::config::SiteKind;
use crate::gateway::Gateway;
use crate::machine::Machine;
use crate::metering::Feed;
use crate::reload::ReloadStatus;
use crate::shadow::WouldDelay;
use crate::site::Site;
use crate::supervisor::SupervisorStatus;

/// Everything about a running gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// In shadow mode?
    pub observe: bool,
    /// Its sites.
    pub sites: Vec<SiteStatus>,
    /// What they run on, as `[[machine]]` says.
    #[serde(default)]
    pub machines: Vec<MachineStatus>,
    /// The disk behind the caches, as `[cache.disk]` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_cache: Option<DiskStatus>,
    /// What is passed through, as `[[tcp]]` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<TcpStatus>,
    /// How the last reload went, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<ReloadStatus>,
    /// TLS to clients, as `[tls]` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsStatus>,
    /// Clients' connections.
    #[serde(default)]
    pub connections: ConnectionsStatus,
}

/// Clients' connections since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionsStatus {
    /// Open now.
    pub open: u64,
    /// Served.
    pub accepted: u64,
    /// Closed as they came, since their client had as many open as `limits.connections_per_client`.
    pub refused: u64,
}

/// A machine that carries servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineStatus {
    /// Its name.
    pub name: String,
    /// Its state: `awake`, `asleep`, ...
    pub state: String,
    /// For so many seconds.
    pub state_for_s: f64,
    /// Servers and machines on it that are awake or about to be.
    pub awake_on_it: u32,
    /// Connections passed through to it that keep it awake.
    #[serde(default)]
    pub connections: u32,
    /// What keeps it awake while nothing on it is.
    pub kept_awake_by: Option<String>,
    /// Failed wake-ups in a row.
    pub failures: u32,
    /// Seconds until a failed machine may be tried again.
    pub retry_after_s: f64,
    /// Seconds that the next wake-up is expected to take.
    pub wake_time_s: f64,
    /// Times that it was found being woken again and again with nothing on it woken.
    pub wake_loops: u64,
    /// The ledger, all starts together; without the proxy, which is on the bills of the sites, if there
    /// are any.
    pub ledger: LedgerStatus,
    /// Its meter, if it has one.
    pub meters: Vec<MeterStatus>,
}

/// Everything about a site.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SiteStatus {
    /// Its name.
    pub name: String,
    /// What kind of site it is, if that is set.
    #[serde(default)]
    pub kind: Option<SiteKind>,
    /// State of its server: `awake`, `asleep`, ...
    pub state: String,
    /// For so many seconds.
    pub state_for_s: f64,
    /// What keeps it awake, in words; nothing when it sleeps or the policy alone decides.
    pub kept_awake_by: Option<String>,
    /// Failed wake-ups in a row.
    pub failures: u32,
    /// Seconds until a failed server may be tried again.
    pub retry_after_s: f64,
    /// Seconds that the next wake-up is expected to take: as seen, until then as configured.
    #[serde(default)]
    pub wake_time_s: f64,
    /// Times since the start that it was found being woken again and again without serving a request.
    #[serde(default)]
    pub wake_loops: u64,
    /// Exchanges with the server under way, connections that are passed through among them.
    pub in_flight: u32,
    /// Of these, connections that are passed through and keep it awake.
    #[serde(default)]
    pub connections: u32,
    /// Requests and connections held for it.
    pub held: usize,
    /// Name of the sleep policy.
    pub policy: String,
    /// Seconds for which it has watched requests to learn from, all starts together; nothing for a
    /// policy that does not learn, and before the first request.
    pub learned_from_s: Option<f64>,
    /// Requests since the start, by how they were answered.
    pub answers: BTreeMap<String, u64>,
    /// Requests of people and programs since the start that a sleep delayed.
    pub delayed_requests: u64,
    /// Their visits since the start.
    pub visits: u64,
    /// Of those, delayed.
    pub delayed_visits: u64,
    /// Admitted and delayed requests in the window of the SLA.
    pub sla: Option<(u64, u64)>,
    /// Stored objects and their bytes.
    pub cache: (usize, u64),
    /// The ledger, all starts together.
    pub ledger: LedgerStatus,
    /// Meters that feed it.
    #[serde(default)]
    pub meters: Vec<MeterStatus>,
    /// With a meter: the last hours of civil time that ended, oldest first, two days at most.
    #[serde(default)]
    pub hours: Vec<HourStatus>,
    /// Shadow mode: what would have been.
    pub shadow: Option<ShadowStatus>,
    /// Its servers, if it has several; `ledger` is their sum then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolStatus>,
}

/// A meter that feeds a ledger.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MeterStatus {
    /// Whose energy it measures: `server` or `proxy`.
    pub of: String,
    /// Its name, and its channel's.
    pub meter: String,
    /// Could it be opened?
    pub open: bool,
    /// Mean power between its last two readings.
    pub watts: Option<f64>,
    /// Seconds since the last of them.
    pub read_s_ago: Option<f64>,
    /// Times that it could not be opened or read.
    pub errors: u64,
    /// Why, the last time.
    pub last_error: Option<String>,
}

/// An hour of civil time on the bill, or what the proxy saw of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HourStatus {
    /// When it began: ms since 1970, UTC.
    pub began_ms: i64,
    /// Its figures.
    pub ledger: LedgerStatus,
}

/// What of an energy was measured, and what is modelled: together they are all of it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Parts {
    /// Joules that a meter measured.
    pub measured_j: f64,
    /// How far these may be off, at 95 %.
    pub measured_uncertainty_j: f64,
    /// Seconds in which it did.
    pub measured_s: f64,
    /// Joules of the rest of the time, from the power states of the scenario.
    pub modelled_j: f64,
    /// How far these may be off, at 95 %.
    pub modelled_uncertainty_j: f64,
}

/// The ledger in figures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LedgerStatus {
    /// Seconds billed in all.
    pub span_s: f64,
    /// Of these, the server was awake.
    pub awake_s: f64,
    /// From sleep commands to wake commands answered.
    pub asleep_s: f64,
    /// The proxy did not run: billed as awake.
    pub unobserved_s: f64,
    /// Of the seconds awake, those with requests; known of servers of pools only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub busy_s: f64,
    /// Sleeps begun.
    pub sleeps: u64,
    /// Wake-ups answered.
    pub wakeups: u64,
    /// Energy of the server.
    pub server: Energy,
    /// Of that, what was measured.
    #[serde(default)]
    pub server_parts: Parts,
    /// Energy of the proxy: of several sites, each has an equal part of it.
    pub proxy: Energy,
    /// Of that, what was measured.
    #[serde(default)]
    pub proxy_parts: Parts,
    /// Energy of a server always on, without a proxy: always modelled.
    pub always_on: Energy,
    /// 1 - (server + proxy) / always on. Modelled in part, whatever was measured: what a server always
    /// on would have used cannot be.
    pub saving: f64,
}

/// What would have been, had the server been let sleep.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShadowStatus {
    /// State the server would be in.
    pub state: String,
    /// Its ledger.
    pub ledger: LedgerStatus,
    /// Requests of people and programs since the start.
    pub requests: u64,
    /// Of those, delayed.
    pub delayed_requests: u64,
    /// Their visits.
    pub visits: u64,
    /// Of those, delayed.
    pub delayed_visits: u64,
}

impl Gateway {
    /// State of a site's server, by the site's place in the configuration: cheap, for progress.
    pub fn state_of(&self, site: usize) -> &'static str {
        self.sites.get(site).map_or("unknown", |site| site.supervisor.phase_now().as_str())
    }

    /// Looks at everything.
    pub fn status(&self) -> Status {
        Status {
            observe: self.observe,
            sites: self.sites.iter().map(|it| self.site_status(it)).collect(),
            machines: self.machines.iter().map(|it| self.machine_status(it)).collect(),
            disk_cache: self.disk.as_ref().map(|disk| disk.status()),
            tcp: self.services_status(),
            reload: self.last_reload(),
            tls: self.tls.as_ref().map(|tls| tls.status(self.clock.now())),
            connections: {
                let (open, accepted, refused) = self.connections.counts();
                ConnectionsStatus { open, accepted, refused }
            },
        }
    }

    /// Looks at a site.
    pub(crate) fn site_status(&self, site: &Site) -> SiteStatus {
        site.status(self.connections_to(&site.name))
    }

    /// Looks at a machine.
    pub(crate) fn machine_status(&self, machine: &Machine) -> MachineStatus {
        machine.status(self.connections_to(&machine.name))
    }
}

impl Site {
    fn status(&self, connections: u32) -> SiteStatus {
        let server = self.supervisor.status();
        let shadow = self.shadow.as_ref().map(|shadow| (shadow, shadow.supervisor.status()));
        // In shadow mode it is the shadow's policy that learns.
        let learned_from = shadow.as_ref().map_or(&server, |(_, shadow)| shadow).learned_from;
        let counters = &self.counters;
        let answers = Answered::ALL.map(|it| (it.as_str(), counters.requests.answered(it)));
        let given = answers.into_iter().filter(|(_, count)| *count > 0);
        let (visits, delayed_visits) = {
            let visits = counters.visits.lock().unwrap_or_else(PoisonError::into_inner);
            (visits.visits(), visits.delayed())
        };
        SiteStatus {
            name: self.name.to_string(),
            kind: self.config.kind,
            state: server.phase.as_str().to_owned(),
            state_for_s: server.in_phase.as_secs_f64(),
            kept_awake_by: kept_awake_by(&server, connections),
            failures: server.failures,
            retry_after_s: server.blocked_for.as_secs_f64(),
            wake_time_s: server.wake_time.as_secs_f64(),
            wake_loops: server.wake_loops,
            in_flight: server.in_flight,
            connections,
            held: server.held,
            policy: self.scenario.policy.to_string(),
            learned_from_s: learned_from.map(|time| time.as_secs_f64()),
            answers: given.map(|(name, count)| (name.to_owned(), count)).collect(),
            delayed_requests: counters.delayed.load(Ordering::Relaxed),
            visits,
            delayed_visits,
            sla: server.sla,
            cache: self.store.size(),
            ledger: self.whole_ledger(&server.memory.bill, |it| it.supervisor.status().memory.bill),
            meters: self.meters(server.now),
            // Of a pool, each server has its own.
            hours: match self.pool {
                None => server.hours.iter().map(|hour| self.hour(hour)).collect(),
                Some(_) => Vec::new(),
            },
            pool: self.pool.as_ref().map(|pool| pool.report(self.pool_policy())),
            shadow: shadow.map(|(shadow, status)| {
                let WouldDelay { requests, delayed_requests, visits, delayed_visits } =
                    shadow.would_delay();
                let ledger = self.ledger(&status.memory.bill);
                let state = status.phase.as_str().to_owned();
                ShadowStatus { state, ledger, requests, delayed_requests, visits, delayed_visits }
            }),
        }
    }

    /// A bill of its server in figures.
    pub(crate) fn ledger(&self, bill: &Bill) -> LedgerStatus {
        let [server, proxy] = &self.meters;
        let basis = Basis {
            states: self.power_states(),
            busy: Watts::ZERO,
            uncertainty: self.scenario.server.uncertainty,
            proxy: self.proxy_power(),
            meters: [server.as_ref(), proxy.as_ref()],
        };
        basis.ledger(bill)
    }

    fn hour(&self, hour: &Hour) -> HourStatus {
        HourStatus { began_ms: hour.began.0, ledger: self.ledger(&hour.bill) }
    }

    fn meters(&self, now: Mono) -> Vec<MeterStatus> {
        let of = |(part, feed): (Part, &Option<Feed>)| Some(feed.as_ref()?.status(part, now));
        [Part::Server, Part::Proxy].into_iter().zip(&self.meters).filter_map(of).collect()
    }
}

impl Machine {
    fn status(&self, connections: u32) -> MachineStatus {
        let machine = self.supervisor.status();
        let basis = Basis {
            states: self.server.power_states(),
            busy: Watts::ZERO,
            uncertainty: self.server.uncertainty,
            proxy: self.proxy,
            meters: [self.meter.as_ref(), None],
        };
        let meters = self.meter.as_ref().map(|feed| feed.status(Part::Server, machine.now));
        MachineStatus {
            name: self.name.to_string(),
            state: machine.phase.as_str().to_owned(),
            state_for_s: machine.in_phase.as_secs_f64(),
            awake_on_it: machine.in_flight.saturating_sub(connections),
            connections,
            // That it carries what is awake is told already.
            kept_awake_by: kept_awake_by(&machine, connections)
                .filter(|_| machine.in_flight <= connections),
            failures: machine.failures,
            retry_after_s: machine.blocked_for.as_secs_f64(),
            wake_time_s: machine.wake_time.as_secs_f64(),
            wake_loops: machine.wake_loops,
            ledger: basis.ledger(&machine.memory.bill),
            meters: meters.into_iter().collect(),
        }
    }
}

/// What turns the times and counts of a bill into joules.
struct Basis<'a> {
    states: PowerStates,
    /// What it draws beyond `on` while it has requests.
    busy: Watts,
    /// How far they may be off.
    uncertainty: f64,
    proxy: Watts,
    /// Of the server, of the proxy.
    meters: [Option<&'a Feed>; 2],
}

impl Basis<'_> {
    fn ledger(&self, bill: &Bill) -> LedgerStatus {
        let modelled =
            |joules| Energy::modelled(joules, self.uncertainty, "power states of the scenario");
        let [of_server, of_proxy] = self.meters;
        let span = bill.span();
        let busy = self.busy * bill.uncovered_busy();
        let server = modelled(bill.server_modelled(&self.states) + busy);
        let (server, server_parts) = whole(&bill.server_metered, of_server, span, &server);
        let proxy = modelled(bill.proxy_modelled(self.proxy));
        let (proxy, proxy_parts) = whole(&bill.proxy_metered, of_proxy, bill.proxy_time(), &proxy);
        LedgerStatus {
            span_s: bill.span().as_secs_f64(),
            awake_s: bill.on.as_secs_f64(),
            asleep_s: bill.off.as_secs_f64(),
            unobserved_s: bill.unobserved.as_secs_f64(),
            busy_s: bill.busy.as_secs_f64(),
            sleeps: bill.cycles,
            wakeups: bill.wakeups,
            server,
            server_parts,
            proxy,
            proxy_parts,
            always_on: modelled(bill.always_on(&self.states) + self.busy * bill.busy),
            saving: bill.saving(&self.states, self.proxy),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(value: &f64) -> bool {
    *value <= 0.0
}

/// What was measured and what is modelled of a time, together.
fn whole(
    metered: &Metered,
    meter: Option<&Feed>,
    span: Duration,
    modelled: &Energy,
) -> (Energy, Parts) {
    let name = meter.map_or_else(|| "a meter that is gone".to_owned(), Feed::name);
    let measured = Energy::measured(metered.joules, metered.uncertainty, name);
    let covered = metered.time().as_secs_f64();
    let share = if span.is_zero() { 0.0 } else { covered / span.as_secs_f64() };
    let parts = Parts {
        measured_j: measured.joules.get(),
        measured_uncertainty_j: measured.uncertainty.get(),
        measured_s: covered,
        modelled_j: modelled.joules.get(),
        modelled_uncertainty_j: modelled.uncertainty.get(),
    };
    (Energy::together(&measured, modelled, share), parts)
}

fn kept_awake_by(server: &SupervisorStatus, connections: u32) -> Option<String> {
    Some(match server.hindrance? {
        Hindrance::NotAwake => return None,
        Hindrance::InFlight(count) => {
            let of = |count: u32, what: &str| {
                let s = if count == 1 { "" } else { "s" };
                (count > 0).then(|| format!("{count} {what}{s}"))
            };
            let requests = of(count.saturating_sub(connections), "request");
            let parts = [requests, of(connections.min(count), "connection")];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("{} under way", parts.join(" and "))
        }
        Hindrance::Until(then) => {
            let seconds = then.since(server.now).as_secs_f64();
            format!("minimum on, quiet or stay-awake time, for another {seconds:.0} s")
        }
        Hindrance::Declined(then) => {
            let seconds = then.since(server.now).as_secs_f64();
            let reasons = server.inhibited_by.as_deref().unwrap_or("reasons of its own");
            format!("the server itself: {reasons}; asked again in {seconds:.0} s")
        }
        Hindrance::WakeLoop(then) => {
            let minutes = then.since(server.now).as_secs_f64() / 60.0;
            format!(
                "a wake loop: woken again and again without serving a request; for {minutes:.0} min"
            )
        }
        Hindrance::Hours(then) => {
            let minutes = then.since(server.now).as_secs_f64() / 60.0;
            format!(
                "hours in which it is not to sleep (`never_sleep`), for another {minutes:.0} min"
            )
        }
        Hindrance::Sla => "the SLA, which leaves no room for another delay".to_owned(),
    })
}
