//! What `nightwatt status` shows: plain data, which `inspect` collects.

mod compression;
mod containers;
mod disk;
mod in_use;
mod job;
mod magic_packets;
mod mirror;
mod opening_hours;
mod pool;
mod tcp;
mod time_zone;
mod tls;
mod udp;

use std::collections::BTreeMap;

use nightwatt_energy::energy::Energy;
use serde::{Deserialize, Serialize};

pub use self::compression::{CompressedBytes, CompressionStatus};
pub use self::containers::{ContainerOutcome, ContainerStatus, ContainersStatus};
pub use self::disk::DiskStatus;
pub use self::in_use::InUseStatus;
pub use self::job::JobStatus;
pub use self::magic_packets::MagicPacketsStatus;
pub use self::mirror::MirrorStatus;
pub use self::opening_hours::OpeningHoursStatus;
pub use self::pool::{PoolStatus, ServerStatus};
pub use self::tcp::TcpStatus;
pub use self::time_zone::TimeZoneStatus;
pub use self::tls::{CertificateStatus, RenewalStatus, TlsStatus};
pub use self::udp::UdpStatus;
use crate::config::SiteKind;

/// Everything about a running gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// In shadow mode?
    pub observe: bool,
    /// Its sites.
    pub sites: Vec<SiteStatus>,
    /// The machines that servers run on, of `[[machine]]`.
    #[serde(default)]
    pub machines: Vec<MachineStatus>,
    /// The disk behind the caches, of `[cache.disk]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_cache: Option<DiskStatus>,
    /// The services that are passed through, of `[[tcp]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<TcpStatus>,
    /// The services of datagrams, of `[[udp]]`.
    #[serde(default)]
    pub udp: Vec<UdpStatus>,
    /// The jobs, of `[[job]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobStatus>,
    /// The containers whose labels describe sites, of `[containers]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containers: Option<ContainersStatus>,
    /// Magic packets that were heard, of `[magic_packets]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub magic_packets: Option<MagicPacketsStatus>,
    /// How the last reload went, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<ReloadStatus>,
    /// TLS to clients, of `[tls]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsStatus>,
    /// Clients' connections.
    #[serde(default)]
    pub connections: ConnectionsStatus,
}

impl Status {
    /// The state of a site, server or machine.
    pub fn state_of(&self, name: &str) -> Option<&str> {
        let sites = self.sites.iter().map(|it| (&it.name, &it.state));
        let pools = self.sites.iter().filter_map(|it| it.pool.as_ref());
        let servers = pools.flat_map(|pool| pool.servers.iter().map(|it| (&it.name, &it.state)));
        let machines = self.machines.iter().map(|it| (&it.name, &it.state));
        let mut all = sites.chain(servers).chain(machines);
        all.find(|(it, _)| *it == name).map(|(_, state)| state.as_str())
    }
}

/// What a reload did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// New sites and machines.
    pub new: Vec<String>,
    /// Changed ones.
    pub changed: Vec<String>,
    /// Removed ones.
    pub gone: Vec<String>,
    /// New addresses that it listens on.
    #[serde(default)]
    pub listens_on: Vec<String>,
    /// Addresses that it no longer listens on.
    #[serde(default)]
    pub no_longer_on: Vec<String>,
    /// Whether any setting is another than before.
    #[serde(default)]
    pub has_changed: bool,
}

/// How the last reload went, for `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadStatus {
    /// When, in ms since 1970.
    pub at_ms: i64,
    /// Why the previous configuration still applies, if it does.
    pub refused: Option<String>,
}

/// Clients' connections since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionsStatus {
    /// Open now.
    pub open: u64,
    /// Served.
    pub accepted: u64,
    /// Closed at once, since their client had `limits.connections_per_client` open.
    pub refused: u64,
}

/// A machine that carries servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineStatus {
    /// Its name.
    pub name: String,
    /// Its state: `awake`, `asleep`, ...
    pub state: String,
    /// For this many seconds.
    pub state_for_s: f64,
    /// Servers and machines on it that are awake or about to be.
    pub awake_on_it: u32,
    /// Connections passed through to it that keep it awake.
    #[serde(default)]
    pub connections: u32,
    /// What keeps it awake while nothing on it is.
    pub kept_awake_by: Option<String>,
    /// When its hours of `awake` and `never_sleep` begin and end.
    #[serde(flatten)]
    pub opening_hours: OpeningHoursStatus,
    /// By which clock its hours of `awake` and `never_sleep` are, if it has such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<TimeZoneStatus>,
    /// Failed wake-ups in a row.
    pub failures: u32,
    /// Why the last one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Seconds until a failed machine may be tried again.
    pub retry_after_s: f64,
    /// Seconds that the next wake-up is expected to take.
    pub wake_time_s: f64,
    /// How many times it was found being woken repeatedly with nothing on it woken.
    pub wake_loops: u64,
    /// The ledger over all starts; without the proxy, which is on the bills of the sites, if there are any.
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
    /// For this many seconds.
    pub state_for_s: f64,
    /// What keeps it awake, in words; nothing when it sleeps or only the policy decides.
    pub kept_awake_by: Option<String>,
    /// Probes of use past the proxy, of `[[site.in_use]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_use: Vec<InUseStatus>,
    /// When its hours of `awake` and `never_sleep` begin and end.
    #[serde(flatten)]
    pub opening_hours: OpeningHoursStatus,
    /// By which clock its hours of `awake` and `never_sleep` are, if it has such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<TimeZoneStatus>,
    /// Failed wake-ups in a row.
    pub failures: u32,
    /// Why the last one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Seconds until a failed server may be tried again.
    pub retry_after_s: f64,
    /// Seconds that the next wake-up is expected to need: as measured, before that as configured.
    #[serde(default)]
    pub wake_time_s: f64,
    /// How many times since the start it was found being woken repeatedly without serving a request.
    #[serde(default)]
    pub wake_loops: u64,
    /// Exchanges with the server under way for clients, including connections that are passed through.
    pub in_flight: u32,
    /// Of these, connections that are passed through and keep it awake.
    #[serde(default)]
    pub connections: u32,
    /// Requests and connections held for it.
    pub held: usize,
    /// Name of the sleep policy.
    pub policy: String,
    /// Seconds for which it has watched requests to learn from, over all starts; nothing for a policy that does not
    /// learn, and before the first request.
    pub learned_from_s: Option<f64>,
    /// Requests since the start, by how they were answered.
    pub answers: BTreeMap<String, u64>,
    /// Requests of people and programs since the start that a sleep delayed.
    pub delayed_requests: u64,
    /// Their visits since the start.
    pub visits: u64,
    /// Of those, delayed.
    pub delayed_visits: u64,
    /// Admitted and delayed requests in the window of the SLA, if that limits their share.
    pub sla: Option<(u64, u64)>,
    /// Today's delayed visits and how many there may be, if the SLA limits their number.
    #[serde(default)]
    pub sla_visits_today: Option<(u64, u32)>,
    /// The forms of the SLA that apply, in words; none without an SLA.
    #[serde(default)]
    pub sla_forms: Vec<String>,
    /// Stored objects and their bytes.
    pub cache: (usize, u64),
    /// The ledger over all starts.
    pub ledger: LedgerStatus,
    /// Meters that feed it.
    #[serde(default)]
    pub meters: Vec<MeterStatus>,
    /// With a meter: the last hours of civil time that ended, oldest first, up to two days.
    #[serde(default)]
    pub hours: Vec<HourStatus>,
    /// What was compressed on its way to clients, if that is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<CompressionStatus>,
    /// Its mirror, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<MirrorStatus>,
    /// Shadow mode: what the policy would have done.
    pub shadow: Option<ShadowStatus>,
    /// Its servers, if it has several; then `ledger` is their sum.
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
    /// Whether it could be opened.
    pub open: bool,
    /// Mean power between its last two readings.
    pub watts: Option<f64>,
    /// Seconds since the last of them.
    pub read_s_ago: Option<f64>,
    /// How many times it could not be opened or read.
    pub errors: u64,
    /// The last error.
    pub last_error: Option<String>,
}

/// An hour of civil time on the bill, or the part of it that the proxy observed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HourStatus {
    /// When it began: ms since 1970, UTC.
    pub began_ms: i64,
    /// Its figures.
    pub ledger: LedgerStatus,
}

/// The measured and the modelled part of an energy: together they are all of it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Parts {
    /// Joules that a meter measured.
    pub measured_j: f64,
    /// Uncertainty of these, at 95 %.
    pub measured_uncertainty_j: f64,
    /// Seconds that the meter covered.
    pub measured_s: f64,
    /// Joules of the rest of the time, from the power states of the scenario.
    pub modelled_j: f64,
    /// Uncertainty of these, at 95 %.
    pub modelled_uncertainty_j: f64,
}

/// The ledger in figures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LedgerStatus {
    /// Seconds billed in all.
    pub span_s: f64,
    /// Of these, the server was awake.
    pub awake_s: f64,
    /// From answered sleep commands to answered wake commands.
    pub asleep_s: f64,
    /// The proxy did not run: billed as awake.
    pub unobserved_s: f64,
    /// Of the seconds awake, those with requests; known for servers of pools only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub busy_s: f64,
    /// Sleeps begun.
    pub sleeps: u64,
    /// Wake-ups answered.
    pub wakeups: u64,
    /// Energy of the server.
    pub server: Energy,
    /// The measured part of it.
    #[serde(default)]
    pub server_parts: Parts,
    /// Energy of the proxy: with several sites, each has an equal part of it.
    pub proxy: Energy,
    /// The measured part of it.
    #[serde(default)]
    pub proxy_parts: Parts,
    /// Energy of a server always on, without a proxy: always modelled.
    pub always_on: Energy,
    /// 1 - (server + proxy) / always on. Always modelled in part: what a server that is always on would have used
    /// cannot be measured. None while it is too early ([`nightwatt_policy::ledger::Bill::is_too_early`]).
    pub saving: Option<f64>,
}

/// What the policy would have done, if the server were allowed to sleep.
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(value: &f64) -> bool {
    *value <= 0.0
}
