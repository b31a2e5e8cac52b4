//! `[site.pool]` and `[[site.server]]`: a site whose server is a pool of servers.

use std::collections::HashSet;
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_energy::quantity::{Joules, PerSecond, Watts};
use nightwatt_energy::time::Nanos;
use nightwatt_policy::fleet::{FleetChoice, FleetSettings, Pool, ServerKind, Wear};
use nightwatt_policy::queueing::places_within;
use nightwatt_policy::scenario::Server;
use nightwatt_power::{ControllerConfig, probe};
use serde::Deserialize;

use super::{
    MachineConfig, MeterConfig, Origin, SiteConfig, Wrong, cache, check_name, default_good_bye,
    default_sleep_timeout, default_wake_timeout, default_watch, machine, watch_asleep, wrong,
};

/// How many of a site's servers are on, and which of them takes a request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolConfig {
    /// When servers are switched on and off.
    pub policy: FleetChoice,
    /// Which server is switched next.
    pub wear: Wear,
    /// Requests that may wait, all together, until a server has a place; further ones get 503.
    pub line: u32,
    /// A server stays on at least this long.
    #[serde(with = "duration_text")]
    pub min_on: Duration,
    /// What sparing a server one transition (one on, or one off) is worth, J.
    pub transition_price_j: f64,
    /// Share of requests that may find no place at once, 0 to 1: what `predictive` aims at.
    pub overflow_share: f64,
    /// Requests are given to a server only if it can answer them within this time: says how many
    /// places a server has whose kind does not say.
    #[serde(with = "duration_text")]
    pub response_time: Duration,
    /// The last server may sleep too: the site's own sleep policy says when.
    pub sleeps: bool,
    /// Kinds of servers.
    pub kind: Vec<KindConfig>,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            policy: FleetChoice::default(),
            wear: Wear::default(),
            line: 1024,
            min_on: Duration::ZERO,
            transition_price_j: 0.0,
            overflow_share: 0.01,
            response_time: Duration::from_millis(100),
            sleeps: false,
            kind: Vec::new(),
        }
    }
}

/// Like servers of a pool. What is left out is the scenario's server's.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindConfig {
    /// Servers name it in `kind`.
    pub name: String,
    /// What a server takes to answer one request, when it has no other.
    #[serde(default, deserialize_with = "cache::given")]
    pub service_time: Option<Duration>,
    /// Requests that it answers in a second when it is fully busy; default: 1 / `service_time`.
    pub service_rate: Option<f64>,
    /// Requests that it gets at a time; default: as many as it answers within `response_time`.
    pub places: Option<u32>,
    /// Watts awake and idle.
    pub idle_w: Option<f64>,
    /// Watts while it has requests; default: as idle.
    pub busy_w: Option<f64>,
    /// Watts asleep.
    pub off_w: Option<f64>,
    /// Joules of one sleep cycle beyond `off_w` x its length.
    pub switch_j: Option<f64>,
    /// From the wake command to the first answer.
    #[serde(default, deserialize_with = "cache::given")]
    pub wake_time: Option<Duration>,
}

/// One server of a pool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// In logs, status and file names.
    pub name: String,
    /// Of which kind; may be left out if there is only one, or none.
    pub kind: Option<String>,
    /// Where it answers: `http://10.0.0.5:8080`.
    pub origin: Origin,
    /// The machine that it runs on.
    pub on: Option<String>,
    /// How it is woken and put to sleep; if left out, it sleeps with the machine it is `on`.
    pub power: Option<ControllerConfig>,
    /// How to tell that it is awake; default: any answer to `GET /` but 502, 503, 504.
    pub probe: Option<probe::Config>,
    /// A wake command without an answer by then is given again, and another server is switched on in
    /// its place; default: three times the kind's `wake_time`, 10 s at least, and 2 min at least if it
    /// runs `on` a machine.
    #[serde(default, deserialize_with = "cache::given")]
    pub wake_timeout: Option<Duration>,
    /// A sleep command that has not silenced it by then has failed.
    #[serde(default = "default_sleep_timeout", with = "duration_text")]
    pub sleep_timeout: Duration,
    /// Between two looks at a server believed awake; `0`: never look.
    #[serde(default = "default_watch", with = "duration_text")]
    pub watch: Duration,
    /// The same while it sleeps; see [`SiteConfig::watch_asleep`].
    #[serde(default, deserialize_with = "cache::given")]
    pub watch_asleep: Option<Duration>,
    /// A server that failed is tried again after this time, and later after longer ones.
    #[serde(default = "default_retry", with = "duration_text")]
    pub retry: Duration,
    /// How long a server whose agent said good-bye may still answer.
    #[serde(default = "default_good_bye", with = "duration_text")]
    pub good_bye: Duration,
    /// A meter of it; default: none, and what it draws is modelled.
    pub meter: Option<MeterConfig>,
}

fn default_retry() -> Duration {
    Duration::from_mins(1)
}

/// A kind needs some time to start, or the pool would take it for a server that is there at once.
const SHORTEST_START: Duration = Duration::from_millis(1);

impl KindConfig {
    /// Of servers for which nothing is said.
    fn unnamed() -> Self {
        Self {
            name: String::new(),
            service_time: None,
            service_rate: None,
            places: None,
            idle_w: None,
            busy_w: None,
            off_w: None,
            switch_j: None,
            wake_time: None,
        }
    }

    fn service(&self, server: &Server) -> PerSecond {
        let time = self.service_time.unwrap_or(server.service_time);
        PerSecond(self.service_rate.unwrap_or_else(|| 1.0 / time.as_secs_f64()))
    }

    fn kind(&self, server: &Server, response_time: Duration) -> ServerKind {
        let service = self.service(server);
        let idle = self.idle_w.unwrap_or(server.on_w);
        ServerKind {
            servers: 0,
            service,
            places: self.places.unwrap_or_else(|| {
                // None that would do: the check says so.
                places_within(service, response_time).unwrap_or(0)
            }),
            idle: Watts(idle),
            busy: Watts(self.busy_w.unwrap_or(idle)),
            off: Watts(self.off_w.unwrap_or(server.off_w)),
            switch: Joules(self.switch_j.unwrap_or(server.switch_j)),
            switch_on: self.wake_time.unwrap_or(server.wake_time).max(SHORTEST_START),
        }
    }

    /// Figures that no server can have.
    fn check(&self, server: &Server) -> Result<(), Wrong> {
        let rate = self.service(server).get();
        if !(rate > 0.0 && rate.is_finite()) {
            let key = if self.service_rate.is_some() { "service_rate" } else { "service_time" };
            return wrong(key, format!("`{key}` must be above 0: a server takes some time"));
        }
        let figures = [
            ("idle_w", self.idle_w, 1e5),
            ("busy_w", self.busy_w, 1e5),
            ("off_w", self.off_w, 1e5),
            ("switch_j", self.switch_j, 1e8),
        ];
        for (key, value, most) in figures {
            if value.is_some_and(|value| !(0.0..=most).contains(&value)) {
                return wrong(key, format!("`{key}` must be a number from 0 to {most}"));
            }
        }
        if self.places == Some(0) {
            return wrong("places", "`places` is 0: a server must get one request at least");
        }
        Ok(())
    }
}

impl ServerConfig {
    /// How to tell that it is awake.
    pub fn probe_config(&self) -> probe::Config {
        self.probe.clone().unwrap_or_else(|| self.origin.probe())
    }

    /// When a wake command without an answer is given again, to a server of this kind.
    pub(crate) fn wake_timeout(&self, kind: &ServerKind) -> Duration {
        let usual = (kind.switch_on * 3).max(Duration::from_secs(10));
        // Its machine may have to be woken first, and it is not known here how long that takes.
        let least = if self.on.is_some() { default_wake_timeout() } else { Duration::ZERO };
        self.wake_timeout.unwrap_or(usual.max(least))
    }

    /// Is it a part of this machine, or nothing but a rehearsal?
    pub(crate) fn is_on_this_machine(&self) -> bool {
        self.power.as_ref().is_some_and(ControllerConfig::is_on_this_machine)
    }

    /// Between two looks at it while it sleeps; zero: none. As [`SiteConfig::watch_asleep`].
    pub fn watch_asleep(&self) -> Duration {
        let power = self.power.as_ref();
        watch_asleep(self.watch_asleep, self.watch, power, self.probe.as_ref())
    }

    fn check(&self, taken: &mut HashSet<String>) -> Result<(), Wrong> {
        check_name(&self.name, taken)?;
        if self.power.is_none() && self.on.is_none() {
            let text = "`power` is missing: how is this server woken and put to sleep? Write a table as \
                        `[site.server.power.process]` below it, or `on = \"MACHINE\"` if it sleeps \
                        with a `[[machine]]`";
            return wrong("power", text);
        }
        let waits = [
            ("wake_timeout", self.wake_timeout.unwrap_or(Duration::MAX)),
            ("sleep_timeout", self.sleep_timeout),
            ("retry", self.retry),
        ];
        for (key, time) in waits {
            if time.is_zero() {
                return wrong(
                    key,
                    format!(
                        "`{key}` is 0, but it must be longer than 0; leave it out for the default"
                    ),
                );
            }
        }
        self.meter.as_ref().map_or(Ok(()), |meter| meter.check("meter"))
    }
}

impl SiteConfig {
    /// The servers of the pool with the number of their kind, kind by kind; none of a site with one
    /// server.
    pub(crate) fn pool_servers(&self) -> Vec<(usize, &ServerConfig)> {
        let kind_of = |server: &ServerConfig| {
            let name = server.kind.as_deref().unwrap_or_default();
            let kinds = &self.pool.kind;
            kinds.iter().position(|kind| kind.name == name).unwrap_or(0)
        };
        let mut servers: Vec<_> = self.server.iter().map(|it| (kind_of(it), it)).collect();
        servers.sort_by_key(|(kind, _)| *kind);
        servers
    }

    /// What the pool's policy is told of it; `server` is the scenario's.
    pub fn fleet_settings(&self, server: &Server) -> FleetSettings {
        let pool = &self.pool;
        let unnamed = [KindConfig::unnamed()];
        let named = if pool.kind.is_empty() { &unnamed[..] } else { &pool.kind };
        let mut kinds: Vec<ServerKind> =
            named.iter().map(|kind| kind.kind(server, pool.response_time)).collect();
        for (kind, _) in self.pool_servers() {
            kinds[kind].servers += 1;
        }
        FleetSettings {
            kinds,
            min_on: pool.min_on,
            line: pool.line,
            wear: pool.wear,
            transition_price: Joules(pool.transition_price_j),
            overflow_share: pool.overflow_share,
        }
    }

    /// Checks servers and pool; `figures` is the scenario's server.
    pub(super) fn check_pool(
        &self,
        figures: &Server,
        machines: &[MachineConfig],
        taken: &mut HashSet<String>,
    ) -> Result<(), Wrong> {
        if self.server.is_empty() {
            if self.pool != PoolConfig::default() {
                return wrong("pool", "a pool needs servers: write a `[[site.server]]` for each");
            }
            return Ok(());
        }
        let single = [
            ("power", self.power.is_some()),
            ("probe", self.probe.is_some()),
            ("on", self.on.is_some()),
            ("meter", self.meter.is_some()),
            ("origin", !self.origin.authority.is_empty()),
        ];
        if let Some((key, _)) = single.into_iter().find(|(_, is_there)| *is_there) {
            let text =
                format!("a site with `[[site.server]]` has no `{key}` of its own: each server has");
            return wrong(key, text);
        }
        for (index, server) in self.server.iter().enumerate() {
            server
                .check(taken)
                .and_then(|()| machine::check_on(server.on.as_deref(), machines))
                .and_then(|()| self.check_kind_of(server))
                .map_err(|it| it.within(format_args!("server.{index}")))?;
        }
        let mut names = HashSet::new();
        for (index, kind) in self.pool.kind.iter().enumerate() {
            let here = |it: Wrong| it.within(format_args!("pool.kind.{index}"));
            kind.check(figures).map_err(here)?;
            if !names.insert(&kind.name) {
                let text = format!("two kinds are called `{}`", kind.name);
                return wrong("name", text).map_err(here);
            }
            if !self.pool_servers().iter().any(|(number, _)| *number == index) {
                let text =
                    format!("no `[[site.server]]` is of the kind `{}`: leave it out", kind.name);
                return wrong("name", text).map_err(here);
            }
        }
        self.check_policy(figures)
    }

    fn check_kind_of(&self, server: &ServerConfig) -> Result<(), Wrong> {
        let kinds = &self.pool.kind;
        let names: Vec<_> = kinds.iter().map(|kind| format!("`{}`", kind.name)).collect();
        let text = match &server.kind {
            None if kinds.len() <= 1 => return Ok(()),
            None => format!("`kind` is missing: say which of {}", names.join(", ")),
            Some(name) if kinds.iter().any(|kind| kind.name == *name) => return Ok(()),
            Some(name) if kinds.is_empty() => {
                format!("there is no `[[site.pool.kind]]` called `{name}`: the pool has none")
            }
            Some(name) => format!(
                "there is no `[[site.pool.kind]]` called `{name}`; there are: {}",
                names.join(", ")
            ),
        };
        wrong("kind", text)
    }

    fn check_policy(&self, figures: &Server) -> Result<(), Wrong> {
        let pool = &self.pool;
        let servers = self.server.len();
        let too_many = match pool.policy {
            FleetChoice::AlwaysOn { servers: on } | FleetChoice::Hybrid { servers: on, .. } => {
                usize::try_from(on).is_ok_and(|on| on > servers).then_some(on)
            }
            _ => None,
        };
        if let Some(on) = too_many {
            let text = format!("`policy` keeps {on} servers on, but there are {servers}");
            return wrong("pool.policy", text);
        }
        if !(0.0..=1.0).contains(&pool.overflow_share) {
            return wrong("pool.overflow_share", "a share must lie between 0 and 1");
        }
        if !(0.0..=1e8).contains(&pool.transition_price_j) {
            let text = "joules must be a number from 0 to 100,000,000";
            return wrong("pool.transition_price_j", text);
        }
        let settings = self.fleet_settings(figures);
        if let Some(kind) = settings.kinds.iter().position(|kind| kind.places == 0) {
            let text = format!(
                "`response_time` is {}, in which a server that answers {:.1} requests a second answers \
                 none: allow more time, or say how many `places` it has",
                duration_text::format(pool.response_time),
                settings.kinds[kind].service.get()
            );
            return wrong("pool.response_time", text);
        }
        Pool::new(settings, pool.policy, Nanos::ZERO)
            .map(|_| ())
            .map_err(|error| Wrong::new("pool", error.to_string()))
    }
}
