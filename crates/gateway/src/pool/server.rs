//! One server of a pool, under supervision.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_policy::fleet::ServerKind;
use nightwatt_policy::history::Rates;
use nightwatt_policy::lifecycle::ProbeTimeouts;
use nightwatt_policy::manager::Settings;
use nightwatt_policy::scenario::{Scenario, Server};
use nightwatt_policy::sleep::AlwaysOn;
use nightwatt_power::neighbour::Neighbour;
use nightwatt_power::probe::{self, Probe};
use nightwatt_power::{Context, Controller};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::authority::Authority;
use crate::common::Common;
use crate::config::{ServerConfig, SiteConfig};
use crate::error::StartError;
use crate::machine::{self, Machine};
use crate::metering::Feed;
use crate::origin::OriginPool;
use crate::shadow::HandsOff;
use crate::supervisor::{ServerControl, Supervisor};

/// No time.
const NEVER: u64 = u64::MAX;

/// A server of a pool.
pub(crate) struct PoolServer {
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) origin: Arc<OriginPool>,
    /// Its power and capacity.
    pub(crate) kind: ServerKind,
    /// Name of its kind; empty if it has none.
    pub(crate) kind_name: String,
    /// The uncertainty of its power, as a share.
    pub(crate) uncertainty: f64,
    /// Readings of its meter.
    pub(crate) meter: Option<Feed>,
    /// Time from the wake command by which it should be awake.
    pub(super) wake_timeout: Duration,
    /// Time after which it is retried when it went away.
    pub(super) retry: Duration,
    /// Counts its failures.
    pub(super) term: watch::Sender<u64>,
    /// Failures since it last answered.
    pub(super) strikes: AtomicU32,
    clock: Clock,
    /// A connection that is not accepted within this time has failed.
    connect_timeout: Duration,
    /// When that first happened since the server last answered, ns of monotonic time; or [`NEVER`].
    shut_out_at: AtomicU64,
    /// Its probe can distinguish a server that answers from one that merely listens.
    pub(super) probes_http: bool,
}

/// What a server needs besides its configuration.
#[derive(Default)]
pub(crate) struct Fittings<'a> {
    /// Replaces the configured one.
    pub(crate) controller: Option<Box<dyn Controller>>,
    pub(crate) meter: Option<Feed>,
    /// The machine that it runs on.
    pub(crate) machine: Option<&'a Machine>,
}

impl PoolServer {
    /// Opens a server: its ledger and its controller; probes whether it is awake.
    pub(crate) fn open(
        server: &ServerConfig,
        site: &SiteConfig,
        kind: &ServerKind,
        kind_name: &str,
        common: &Common<'_>,
        fittings: Fittings<'_>,
        tasks: &mut Vec<JoinHandle<()>>,
    ) -> Result<Self, StartError> {
        let Common { config, clock, observe, .. } = common;
        let Fittings { controller, meter, machine } = fittings;
        let (controller, guest) = controller_of(server, common, controller, machine)?;
        let probe = server.probe_config();
        let probes_http = matches!(probe, probe::Config::Http(_));
        let away = !server.is_on_this_machine() && !observe;
        let server_control = ServerControl {
            controller,
            probe: Probe::new(probe, (*clock).clone()),
            neighbour: away.then(|| neighbour(server, clock)).flatten(),
        };
        let kind =
            if server.on.is_some() && kind_name.is_empty() { on_others_bill(kind) } else { *kind };
        let rates = Rates {
            states: as_server(&kind).power_states(),
            busy: kind.busy - kind.idle,
            // It is on the bill of the site.
            proxy: Watts::ZERO,
            unsaid_proxy: true,
            electricity: config.scenario_of(site).electricity.clone(),
        };
        let records = common.records(&server.name, [meter.clone(), None], rates)?;
        let wake_timeout = server.wake_timeout(&kind);
        let settings = settings(server, &kind, wake_timeout);
        let (supervisor, task) = Supervisor::start(
            &server.name,
            clock,
            settings,
            Box::new(AlwaysOn),
            server_control,
            records,
        );
        tasks.push(task);
        tasks.extend(guest.map(|guest| tokio::spawn(guest.follow(Arc::clone(&supervisor)))));
        let limits = site.limits.over(&config.limits);
        let origin = OriginPool::open(&server.origin, site.origin_tls.as_ref(), &limits, clock);
        let wrong = |source| StartError::Power { site: server.name.clone(), source };
        let origin = Arc::new(origin.map_err(wrong)?);
        tasks.push(tokio::spawn(OriginPool::drop_stale(
            Arc::downgrade(&origin),
            supervisor.phase(),
        )));
        Ok(Self {
            supervisor,
            origin,
            kind,
            kind_name: kind_name.to_owned(),
            uncertainty: config.scenario_of(site).server.uncertainty,
            meter,
            wake_timeout,
            retry: server.retry,
            term: watch::Sender::new(0),
            strikes: AtomicU32::new(0),
            clock: (*clock).clone(),
            connect_timeout: limits.connect_timeout,
            shut_out_at: AtomicU64::new(NEVER),
            probes_http,
        })
    }

    /// One of its kind in the form of the site's scenario; `on_w` is the idle power.
    pub(crate) fn as_server(&self) -> Server {
        as_server(&self.kind)
    }

    pub(super) fn answered(&self) {
        self.strikes.store(0, Ordering::Relaxed);
        self.shut_out_at.store(NEVER, Ordering::Relaxed);
    }

    /// A connection was not accepted in time. Returns whether that is more than a short overload: attempts at the same
    /// time as the first one do not count.
    pub(super) fn shuts_out_again(&self) -> bool {
        let nanos = |at: Mono| u64::try_from(at.0.as_nanos()).unwrap_or(NEVER);
        let now = self.clock.now().mono;
        let began = nanos(Mono(now.0.saturating_sub(self.connect_timeout)));
        match self.shut_out_at.load(Ordering::Relaxed) {
            NEVER => {
                self.shut_out_at.store(nanos(now), Ordering::Relaxed);
                false
            }
            first => first <= began,
        }
    }

    /// Failures since it last answered, including this one.
    pub(super) fn struck(&self) -> u32 {
        self.strikes.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }
}

/// One of its kind in the form of the site's scenario.
fn as_server(kind: &ServerKind) -> Server {
    Server {
        on_w: kind.idle.get(),
        off_w: kind.off.get(),
        switch_j: kind.switch.get(),
        wake_time: kind.switch_on,
        ..Server::default()
    }
}

/// A server that runs on a machine is on that machine's bill, unless its own power is configured.
fn on_others_bill(kind: &ServerKind) -> ServerKind {
    use nightwatt_energy::quantity::{Joules, Watts};
    ServerKind {
        idle: Watts::ZERO,
        busy: Watts::ZERO,
        off: Watts::ZERO,
        switch: Joules(0.0),
        ..*kind
    }
}

type Controlled = (Box<dyn Controller>, Option<machine::MachineUse>);

fn controller_of(
    server: &ServerConfig,
    common: &Common<'_>,
    controller: Option<Box<dyn Controller>>,
    machine: Option<&Machine>,
) -> Result<Controlled, StartError> {
    let Common { config, clock, observe, .. } = common;
    let context = Context {
        clock: (*clock).clone(),
        state_dir: config.state_dir.clone(),
        site: server.name.clone(),
    };
    let configured = || {
        let built = server.power.as_ref().map(|power| power.build(&context)).transpose();
        built.map_err(|source| StartError::Power { site: server.name.clone(), source })
    };
    let own = match controller {
        Some(controller) => Some(controller),
        None => configured()?,
    };
    if *observe {
        let listens = Probe::new(probe::Config::tcp(&server.origin.authority), (*clock).clone());
        return Ok((Box::new(HandsOff { real: own, listens }), None));
    }
    Ok(machine::stand_on(machine, &server.name, own))
}

/// It serves the pool, and has no SLA of its own.
fn settings(server: &ServerConfig, kind: &ServerKind, wake_timeout: Duration) -> Settings {
    Settings {
        sla: None,
        min_on: Duration::ZERO,
        quiet: Duration::ZERO,
        wake_time: kind.switch_on,
        grace: Duration::ZERO,
        timeouts: ProbeTimeouts {
            wake_timeout,
            back_off: server.retry,
            sleep_timeout: server.sleep_timeout,
            watch_every: server.watch,
            watch_asleep_every: server.watch_asleep(),
            good_bye: server.good_bye,
            ..ProbeTimeouts::default()
        },
        ..Settings::of(&Scenario::default())
    }
}

/// The server on the local network.
fn neighbour(server: &ServerConfig, clock: &Clock) -> Option<Neighbour> {
    let authority = Authority::parse(&server.origin.authority)?;
    let host = authority.host.trim_start_matches('[').trim_end_matches(']');
    Some(Neighbour::new(host, clock.clone()))
}
