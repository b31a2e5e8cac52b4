//! One site: its server under supervision, its cache, and what it knows about its clients.

mod changed;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use nightwatt_clock::Clock;
use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::{Mono, Now};
use nightwatt_httpcache::{CacheKey, Rules};
use nightwatt_policy::frontier::Frontier;
use nightwatt_policy::history::Rates;
use nightwatt_policy::lifecycle::ProbeTimeouts;
use nightwatt_policy::manager::{Memory, Settings};
use nightwatt_policy::scenario::{Scenario, Server};
use nightwatt_policy::sleep::{AlwaysOn, Constraints};
use nightwatt_policy::visit::{Visitor, Visits};
use nightwatt_power::neighbour::Neighbour;
use nightwatt_power::probe::{self, Probe};
use nightwatt_power::{Context, Controller};
use nightwatt_traffic::{Classifier, ClientFacts, Verdict};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::admittance::Admittance;
use crate::authority::Authority;
use crate::common::Common;
use crate::compress::Compressor;
use crate::config::{Config, InUseConfig, Limits, SiteConfig};
use crate::disk_cache::SiteDisk;
use crate::error::StartError;
use crate::exchange::Exchange;
use crate::https;
use crate::in_use::InUse;
use crate::lessons::LessonsStore;
use crate::machine::{self, Machine};
use crate::mark::Mark;
use crate::metering::{Feed, Meters};
use crate::metrics::{RequestTally, WarmUpTally};
use crate::mirror::Mirror;
use crate::origin::OriginPool;
use crate::paths::{PathRule, Paths};
use crate::pool::{Fittings, ServerPool, Whole};
use crate::prefetch_queue::PrefetchQueue;
use crate::presence::Presence;
use crate::refresh_queue::Refresher;
use crate::shadow::{HandsOff, Shadow};
use crate::shared_fetches::SharedFetches;
use crate::store::Store;
use crate::supervisor::{AnyPolicy, Records, ServerControl, Supervisor};
use crate::waiting_page::WaitingPage;

/// For this long after waking, a server that answers 502, 503 or 504 counts as still starting.
pub(crate) const STARTING: Duration = Duration::from_secs(30);

/// A site that is being served.
pub(crate) struct Site {
    pub(crate) name: Arc<str>,
    pub(crate) config: SiteConfig,
    /// The file's limits, except where the site has its own.
    pub(crate) limits: Limits,
    pub(crate) scenario: Scenario,
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) shadow: Option<Shadow>,
    pub(crate) origin: Arc<OriginPool>,
    /// Several servers instead of one.
    pub(crate) pool: Option<Arc<ServerPool>>,
    pub(crate) store: Arc<Store>,
    pub(crate) rules: Rules,
    pub(crate) refresher: Arc<Refresher>,
    pub(crate) prefetch_queue: Arc<PrefetchQueue>,
    /// A copy of its pages, if it has one.
    pub(crate) mirror: Option<Arc<Mirror>>,
    pub(crate) shared_fetches: Arc<SharedFetches>,
    pub(crate) classifier: Arc<Mutex<Classifier>>,
    /// The requests that the gate has let through.
    pub(crate) presence: Arc<Presence>,
    /// Who may come in, if not all clients may.
    pub(crate) admittance: Option<Arc<Admittance>>,
    /// The same since the last reload, for tunnels, which outlive it.
    pub(crate) doorkeeper: watch::Sender<Option<Arc<Admittance>>>,
    /// What is answered in another way by its path.
    pub(crate) paths: Option<Arc<Paths>>,
    /// Probes that report use past this proxy, if there are any.
    pub(crate) in_use: Option<Arc<InUse>>,
    /// Compresses its answers, if that is configured.
    pub(crate) compressor: Option<Arc<Compressor>>,
    pub(crate) waiting_page: WaitingPage,
    pub(crate) counters: Arc<Counters>,
    /// What fixed timeouts would have done since the start, for the dashboard. Not computed for a pool.
    pub(crate) frontier: Option<Arc<Mutex<Frontier>>>,
    /// The `Strict-Transport-Security` value for browsers over TLS.
    pub(crate) hsts: Option<HeaderValue>,
    /// Readings of the meters of its server, and of the proxy.
    pub(crate) meters: [Option<Feed>; 2],
    /// Identifies its requests if they come back.
    pub(crate) mark: Mark,
    /// The probe can distinguish a server that answers from one that merely listens.
    pub(crate) probes_http: bool,
}

/// Requests since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: RequestTally,
    pub(crate) visits: Mutex<Visits>,
    pub(crate) delayed: AtomicU64,
    pub(crate) warm_ups: WarmUpTally,
}

impl Site {
    /// Opens a site: its ledger and its controller; probes whether its server is awake.
    pub(crate) fn open(
        site: &SiteConfig,
        common: &Common<'_>,
        controller: Option<Box<dyn Controller>>,
        meters: [Option<Feed>; 2],
        machine: Option<&Machine>,
        servers: Vec<Fittings<'_>>,
        tasks: &mut Vec<JoinHandle<()>>,
    ) -> Result<Self, StartError> {
        let Common { config, clock, observe, .. } = *common;
        let opens = || ServerPool::open(site, common, servers, tasks);
        let pool = (!site.server.is_empty()).then(opens).transpose()?;
        let scenario = scenario(site, common, pool.as_deref());
        warn_of_unknown_kind(site, &scenario);
        let settings = settings(site, &scenario, clock);
        let waiting_page = waiting_page(site)?;
        let (server_control, guest) = match &pool {
            Some(pool) => (Whole::server_control(pool), None),
            None => server_control(site, common, controller, machine)?,
        };
        let probes_http = pool.is_none() && matches!(site.probe_config(), probe::Config::Http(_));
        let records = common.records(&site.name, meters.clone(), rates(site, &scenario))?;
        let (policy, shelf) = first_policy(site, &scenario, common, pool.is_some());
        let records = Records { shelf, ..records };
        let (supervisor, task) =
            Supervisor::start(&site.name, clock, settings.clone(), policy, server_control, records);
        tasks.push(task);
        tasks.extend(guest.map(|guest| tokio::spawn(guest.follow(Arc::clone(&supervisor)))));
        if let Some(pool) = &pool {
            pool.belongs_to(&supervisor);
        }
        let is_alone = pool.is_none();
        let shadow =
            (observe && is_alone).then(|| shadow(site, common, settings, tasks)).transpose()?;
        let origin = origin(site, common)?;
        let dropping = OriginPool::drop_stale(Arc::downgrade(&origin), supervisor.phase());
        tasks.push(tokio::spawn(dropping));
        let paths = open_paths(site, common, &supervisor)?;
        Ok(Self {
            name: site.name.as_str().into(),
            supervisor,
            shadow,
            origin,
            pool,
            store: store(site, &scenario, common),
            rules: site.cache_rules(&scenario),
            refresher: Arc::default(),
            prefetch_queue: Arc::default(),
            mirror: Mirror::of(site, common, &site.cache_rules(&scenario), None),
            shared_fetches: Arc::default(),
            classifier: Arc::new(Mutex::new(Classifier::new(site.clients.clone()))),
            presence: Arc::default(),
            admittance: Admittance::of(site)?,
            doorkeeper: watch::Sender::new(None),
            paths,
            in_use: InUse::of(site, clock)?,
            compressor: Compressor::of(site, None),
            waiting_page,
            counters: Arc::default(),
            frontier: (is_alone && config.admin.is_some())
                .then(|| frontier(site, &scenario, clock)),
            hsts: https::hsts(site),
            meters,
            mark: Mark::of(&site.name),
            probes_http,
            config: site.clone(),
            limits: site.limits.over(&config.limits),
            scenario,
        })
    }

    /// The table for a path; nothing if it is answered as all others are.
    pub(crate) fn path_rule(&self, path: &str) -> Option<&PathRule> {
        self.paths.as_ref()?.find(path).ok()?
    }

    /// Whether its cache is warmed up while its server is awake.
    pub(crate) fn warms_up(&self) -> bool {
        self.shadow.is_none()
            && self.scenario.cache.warm_up > 0
            && !self.rules.grace_while_asleep.is_zero()
    }

    /// Whether nightwatt may request an address by itself: the mirror's `exclude` and robots.txt may forbid it.
    pub(crate) fn may_request(&self, key: &CacheKey) -> bool {
        let (_, _, target) = key.parts();
        self.mirror.as_ref().is_none_or(|mirror| mirror.may_request(target))
    }

    /// Notes a request that only the server can answer.
    pub(crate) fn needs_server(&self, at: Mono, visitor: Visitor) {
        if let Some(frontier) = &self.frontier {
            let mut frontier = frontier.lock().unwrap_or_else(PoisonError::into_inner);
            frontier.request(at, visitor);
        }
    }

    /// Whether it has just woken, so that 502 and the like do not count. An HTTP probe has waited for that.
    pub(crate) fn may_be_starting(&self) -> bool {
        !self.probes_http && self.supervisor.woke_within(STARTING)
    }

    /// Begins an exchange without a client, if the server can be used without disturbing clients.
    pub(crate) fn begin_background(&self) -> Option<Arc<Exchange>> {
        let exchange = Exchange::begin_background(&self.supervisor)?;
        if let Some(pool) = &self.pool {
            exchange.sit(pool.spare()?);
        }
        Some(exchange)
    }

    /// Classifies a request's client.
    pub(crate) fn judge(&self, now: Now, client: &ClientFacts<'_>) -> Verdict {
        self.classifier().judge(now, client)
    }

    /// The classifier of its clients.
    pub(crate) fn classifier(&self) -> MutexGuard<'_, Classifier> {
        self.classifier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Power states of the server.
    pub(crate) fn power_states(&self) -> PowerStates {
        power_states(&self.config, &self.scenario)
    }

    /// Name of the policy that switches its servers, if it has several.
    pub(crate) fn pool_policy(&self) -> String {
        self.config.pool.policy.to_string()
    }

    /// Power of the proxy.
    pub(crate) fn proxy_power(&self) -> Watts {
        self.scenario.proxy_power()
    }
}

/// Power states of a site's server.
fn power_states(site: &SiteConfig, scenario: &Scenario) -> PowerStates {
    if site.is_on_machines_bill() {
        let nothing = Server { on_w: 0.0, off_w: 0.0, switch_j: 0.0, ..Server::default() };
        return nothing.power_states();
    }
    scenario.power_states()
}

fn frontier(site: &SiteConfig, scenario: &Scenario, clock: &Clock) -> Arc<Mutex<Frontier>> {
    let (rules, delay) = binding(site, scenario);
    Arc::new(Mutex::new(Frontier::new(clock.now().mono, rules, delay)))
}

/// The SLA parameters for the frontier of a site.
fn binding(site: &SiteConfig, scenario: &Scenario) -> (Constraints, Duration) {
    let rules = Constraints { states: power_states(site, scenario), ..scenario.constraints() };
    (rules, scenario.sla.delay)
}

/// The cache of a site, initially empty, and its part of the disk behind it.
fn store(site: &SiteConfig, scenario: &Scenario, common: &Common<'_>) -> Arc<Store> {
    let disk = common.disk.map(|disk| SiteDisk::new(disk, &site.name, &site.cache_rules(scenario)));
    Arc::new(Store::new(scenario.cache.size_mb << 20, disk))
}

/// Converts the bill of a site into joules and money.
fn rates(site: &SiteConfig, scenario: &Scenario) -> Rates {
    Rates {
        states: power_states(site, scenario),
        busy: Watts::ZERO,
        proxy: scenario.proxy_power(),
        unsaid_proxy: true,
        electricity: scenario.electricity.clone(),
    }
}

/// The scenario of a site. For a pool, its sleep policy considers the server that is kept on longest.
fn scenario(site: &SiteConfig, common: &Common<'_>, pool: Option<&ServerPool>) -> Scenario {
    let mut scenario = common.config.scenario_of(site).into_owned();
    if let Some(last) = pool.map(ServerPool::used_first) {
        let Server { on_w, off_w, switch_j, wake_time, .. } = last.as_server();
        scenario.server = Server { on_w, off_w, switch_j, wake_time, ..scenario.server };
    }
    scenario
}

/// How to control the only server of a site.
fn server_control(
    site: &SiteConfig,
    common: &Common<'_>,
    controller: Option<Box<dyn Controller>>,
    machine: Option<&Machine>,
) -> Result<(ServerControl, Option<machine::MachineUse>), StartError> {
    let Common { clock, observe, .. } = *common;
    let controller = match controller {
        Some(controller) => Some(controller),
        None => build_controller(site, common)?,
    };
    let (controller, guest) = if observe {
        let listens = probe::Config::tcp(&site.origin.authority);
        let listens = Probe::new(listens, clock.clone());
        (Box::new(HandsOff { real: controller, listens }) as _, None)
    } else {
        machine::stand_on(machine, &site.name, controller)
    };
    let probe = Probe::new(site.probe_config(), clock.clone());
    let neighbour = if observe { None } else { neighbour(site, clock) };
    Ok((ServerControl { controller, probe, neighbour }, guest))
}

fn warn_of_unknown_kind(site: &SiteConfig, scenario: &Scenario) {
    if let Some(text) = site.unknown_kind(scenario) {
        tracing::warn!(site = %site.name, "{text}");
    }
}

fn shadow(
    site: &SiteConfig,
    common: &Common<'_>,
    settings: Settings,
    tasks: &mut Vec<JoinHandle<()>>,
) -> Result<Shadow, StartError> {
    // Requests and visits are counted from now on: so are sleeps and joules.
    let path = common.config.state_dir.join(format!("{}.shadow.jsonl", site.name));
    let journal = Some(common.journal(&path)?.0);
    // What is learned of requests holds without shadow mode too: it is the same file.
    let scenario = common.config.scenario_of(site);
    let (policy, shelf) = policy(site, &scenario, common);
    let records = Records {
        journal,
        memory: Memory::default(),
        shelf,
        meters: Meters::default(),
        chronicle: None,
        handed: None,
    };
    let context = context(site, common);
    let (shadow, task) = Shadow::start(&context, settings, policy, &scenario.server, records)
        .map_err(|source| StartError::Power { site: site.name.clone(), source })?;
    tasks.push(task);
    Ok(shadow)
}

/// Checks that its servers can be connected to, without verifying their identity.
pub(crate) fn look_over_servers(
    site: &SiteConfig,
    config: &Config,
    clock: &Clock,
) -> Result<(), StartError> {
    let alone = site.server.is_empty().then_some(&site.origin);
    let mut all = alone.into_iter().chain(site.server.iter().map(|it| &it.origin));
    all.try_for_each(|origin| {
        let opened = OriginPool::open(origin, site.origin_tls.as_ref(), &config.limits, clock);
        let wrong = |source| StartError::Power { site: site.name.clone(), source };
        opened.map(drop).map_err(wrong)
    })
}

/// Connections to the server of a site.
fn origin(site: &SiteConfig, common: &Common<'_>) -> Result<Arc<OriginPool>, StartError> {
    let (tls, limits) = (site.origin_tls.as_ref(), site.limits.over(&common.config.limits));
    let origin = OriginPool::open(&site.origin, tls, &limits, common.clock);
    let wrong = |source| StartError::Power { site: site.name.clone(), source };
    Ok(Arc::new(origin.map_err(wrong)?))
}

/// The tables of a site by path. Their connections end with the server's.
fn open_paths(
    site: &SiteConfig,
    common: &Common<'_>,
    supervisor: &Supervisor,
) -> Result<Option<Arc<Paths>>, StartError> {
    let paths = Paths::open(site, common.config, common.clock)?;
    for origin in paths.iter().flat_map(|paths| paths.origins()) {
        // It ends with the last user of the connections.
        tokio::spawn(OriginPool::drop_stale(Arc::downgrade(origin), supervisor.phase()));
    }
    Ok(paths)
}

/// The server on the local network, unless it is a part of this machine.
fn neighbour(site: &SiteConfig, clock: &Clock) -> Option<Neighbour> {
    if site.is_on_this_machine() {
        return None;
    }
    let authority = Authority::parse(&site.origin.authority)?;
    let host = authority.host.trim_start_matches('[').trim_end_matches(']');
    Some(Neighbour::new(host, clock.clone()))
}

fn settings(site: &SiteConfig, scenario: &Scenario, clock: &Clock) -> Settings {
    Settings {
        zone: clock.zone(),
        waiting_page: site.waiting_page,
        grace: site.grace,
        in_use: site.in_use.iter().map(InUseConfig::times).collect(),
        wake_budget: (site.wakes_per_client_and_hour, Duration::from_hours(1)),
        shared_budget: (site.clients.unrecognised_wakes_per_hour, Duration::from_hours(1)),
        awake_budget: Some(site.awake_per_client_and_day).filter(|most| !most.is_zero()),
        timeouts: ProbeTimeouts {
            wake_timeout: site.wake_timeout,
            sleep_timeout: site.sleep_timeout,
            watch_every: site.watch,
            watch_asleep_every: site.watch_asleep(),
            good_bye: site.good_bye,
            ..ProbeTimeouts::default()
        },
        ..Settings::of(scenario)
    }
}

fn context(site: &SiteConfig, common: &Common<'_>) -> Context {
    Context {
        clock: common.clock.clone(),
        state_dir: common.config.state_dir.clone(),
        site: site.name.clone(),
    }
}

fn build_controller(
    site: &SiteConfig,
    common: &Common<'_>,
) -> Result<Option<Box<dyn Controller>>, StartError> {
    let built = site.power.as_ref().map(|power| power.build(&context(site, common)));
    built.transpose().map_err(|source| StartError::Power { site: site.name.clone(), source })
}

/// The site's policy with what it has learned before, and the store for that.
fn policy(
    site: &SiteConfig,
    scenario: &Scenario,
    common: &Common<'_>,
) -> (AnyPolicy, Option<LessonsStore>) {
    if !scenario.policy.learns() {
        return (scenario.policy.build(&scenario.terms()), None);
    }
    let path = common.config.state_dir.join(format!("{}.lessons.json", site.name));
    let now = common.clock.now();
    let (shelf, lessons) = LessonsStore::open(&site.name, path, now.wall, common.durable);
    (scenario.policy.resume(&scenario.terms(), lessons, now), shelf)
}

/// A site whose server must not sleep has no other policy.
fn first_policy(
    site: &SiteConfig,
    scenario: &Scenario,
    common: &Common<'_>,
    has_pool: bool,
) -> (AnyPolicy, Option<LessonsStore>) {
    if common.observe || has_pool && !site.pool.sleeps {
        return (Box::new(AlwaysOn), None);
    }
    policy(site, scenario, common)
}

pub(crate) fn waiting_page(site: &SiteConfig) -> Result<WaitingPage, StartError> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|source| {
            let (site, path) = (site.name.clone(), path.clone());
            StartError::Page { site, path, source }
        })
    };
    let own = site.waiting_page_file.as_ref().map(read).transpose()?;
    Ok(WaitingPage::new(own.as_deref(), &site.waiting_texts))
}
