//! The plan as a TOML file. Every table refuses keys it does not know; errors name file, line and what
//! would be right.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_energy::quantity::{Joules, PerSecond, Watts};
use nightwatt_host::ConfigError;
use nightwatt_policy::arrivals::{Arrivals, Bursts, Profile, Rate};
use nightwatt_policy::fleet::{FleetSettings, ServerKind, Wear};
use nightwatt_policy::queueing::{ResponsePoint, fit_service, places_within};
use nightwatt_sim::fleet::Service;
use nightwatt_traffic::Reading;
use serde::Deserialize;

use super::policies::{Policy, PolicyList};
use super::service::{self, ServiceText};
use super::traffic::{self, Copies, Traffic};
use super::{Plan, PoolPlan, Sampling, ServerPlan};
use crate::fleet::Error;

/// The whole file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// Response time that is promised: a server takes no more requests than it can answer within it.
    #[serde(with = "duration_text")]
    pub sla: Duration,
    /// Share of requests that may be refused, 0 to 1.
    #[serde(default = "one_in_a_hundred")]
    pub refused: f64,
    /// What sparing a server one transition is worth, J.
    #[serde(default)]
    pub transition_price_j: f64,
    /// Minimum time that a server stays on.
    #[serde(default, with = "duration_text")]
    pub min_on: Duration,
    /// Requests that may wait until a server has a place.
    #[serde(default)]
    pub line: u32,
    /// Which server of a kind is switched next.
    #[serde(default)]
    pub wear: Wear,
    /// All kinds in one pool; else each kind is a pool of its own.
    #[serde(default)]
    pub together: bool,
    /// Policies, each with one parameter or many: see [`PolicyList`].
    pub policies: Vec<String>,
    /// Independent repetitions; intervals come from their spread.
    #[serde(default = "five")]
    pub replications: u32,
    /// Requests that each counts, of processes without an end.
    #[serde(default = "hundred_thousand")]
    pub requests: u64,
    /// Requests before them that do not count; default: a twentieth.
    pub warm_up: Option<u64>,
    /// Of the first repetition.
    #[serde(default = "first")]
    pub seed: u64,
    /// Response times of the charts of servers and watts against the rate.
    #[serde(default = "published_times")]
    pub response_times: Vec<Time>,
    /// Kinds of servers.
    #[serde(default)]
    pub server: Vec<ServerFile>,
    /// What arrives: one or more.
    #[serde(default)]
    pub arrivals: Vec<ArrivalsFile>,
}

/// A duration in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Time(#[serde(with = "duration_text")] pub Duration);

/// Like servers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerFile {
    /// As tables call it.
    pub name: String,
    /// How many there are.
    pub servers: u32,
    /// Requests a second that one can serve; or `points`; default: what measured service times say.
    pub service_rate: Option<f64>,
    /// Measured pairs of a rate and the mean response time at it, that a service rate is fitted to:
    /// `[[200, "10ms"]]`.
    pub points: Option<Vec<(f64, Time)>>,
    /// How service times are distributed.
    #[serde(default)]
    pub service: ServiceText,
    /// Power when off, W.
    #[serde(default)]
    pub off_w: f64,
    /// Power when on and idle, W.
    pub idle_w: f64,
    /// Power when serving, W.
    pub busy_w: f64,
    /// Energy of a cycle of off and on, J.
    #[serde(default)]
    pub switch_j: f64,
    /// From the command to switch on until it serves.
    #[serde(default, with = "duration_text")]
    pub switch_on: Duration,
}

/// What arrives.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivalsFile {
    /// As tables call it; default: by what it is.
    pub name: Option<String>,
    /// Which process.
    pub kind: ArrivalKind,
    /// Mean requests a second, each for a run of its own.
    #[serde(default)]
    pub rates: Vec<f64>,
    /// `day`: the peak over the mean, 1 to 2.
    #[serde(default = "usual_peak")]
    pub peak: f64,
    /// `day`: its length.
    #[serde(default = "a_day", with = "duration_text")]
    pub day: Duration,
    /// `bursts`: rate in a burst over the mean rate.
    #[serde(default = "five_times")]
    pub burst_factor: f64,
    /// `bursts`: share of the time in bursts.
    #[serde(default = "a_tenth")]
    pub burst_share: f64,
    /// `bursts`: mean length of one.
    #[serde(default = "ten_seconds", with = "duration_text")]
    pub burst_length: Duration,
    /// `log`: access logs, or files of counts per second; from the plan's folder on.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// `log`: number of copies on top of each other, shifted by whole days and up to 30 minutes.
    #[serde(default = "one")]
    pub copies: u32,
    /// `log`: only this many first days of the copies together.
    pub days: Option<u32>,
    /// `log`: what the files are written in; none: each is told by its first lines.
    pub format: Option<String>,
    /// `log`: their format as nginx's `log_format` or Apache's `LogFormat` has it.
    pub log_format: Option<String>,
    /// `log`: which entry of a chain of forwarded addresses is the client.
    pub client_from: Option<String>,
    /// The same, as the command line says.
    #[serde(skip)]
    pub reading: Reading,
}

/// The process that requests arrive by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalKind {
    /// Independent of each other.
    Poisson,
    /// Evenly spaced.
    Constant,
    /// A rate that jumps between two values.
    Bursts,
    /// A sine that repeats.
    Day,
    /// The seconds of a log.
    Log,
}

const fn one_in_a_hundred() -> f64 {
    0.01
}

fn published_times() -> Vec<Time> {
    [5, 10, 50].map(|millis| Time(Duration::from_millis(millis))).to_vec()
}

const fn usual_peak() -> f64 {
    1.8
}

const fn a_day() -> Duration {
    Duration::from_hours(24)
}

const fn five_times() -> f64 {
    5.0
}

const fn a_tenth() -> f64 {
    0.1
}

const fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}

const fn one() -> u32 {
    1
}

const fn first() -> u64 {
    1
}

const fn five() -> u32 {
    5
}

const fn hundred_thousand() -> u64 {
    100_000
}

/// Why a file is no plan.
enum Refusal {
    /// A key, with dots, and what is wrong with its value.
    Value(String, String),
    /// What does not lie in one value.
    Other(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

fn wrong(key: impl Into<String>, message: &(impl std::fmt::Display + ?Sized)) -> Refusal {
    Refusal::Value(key.into(), message.to_string())
}

/// The first of names that is there twice: the places of both, and it.
fn same_name<'a>(names: impl Iterator<Item = &'a str>) -> Option<(usize, usize, &'a str)> {
    let names: Vec<&str> = names.collect();
    names.iter().enumerate().find_map(|(again, name)| {
        let first = names[..again].iter().position(|other| other == name)?;
        Some((first, again, *name))
    })
}

fn twice(table: &str, first: usize, again: usize, name: &str) -> String {
    format!(
        "`{table}` {} and {} are both called `{name}`, and their rows could not be told apart; give \
         each a `name` of its own",
        first + 1,
        again + 1
    )
}

impl PlanFile {
    /// Without policies, servers and arrivals yet, and all else as where a file leaves it out.
    pub fn keeping(sla: Duration) -> Self {
        Self {
            sla,
            refused: one_in_a_hundred(),
            transition_price_j: 0.0,
            min_on: Duration::ZERO,
            line: 0,
            wear: Wear::default(),
            together: false,
            policies: Vec::new(),
            replications: five(),
            requests: hundred_thousand(),
            warm_up: None,
            seed: first(),
            response_times: published_times(),
            server: Vec::new(),
            arrivals: Vec::new(),
        }
    }

    /// Reads a plan. Logs are named from `folder` on, and read now.
    pub fn read(name: &str, text: &str, folder: &Path) -> Result<Plan, Error> {
        let file: Self = toml::from_str(text)
            .map_err(|error| ConfigError::syntax::<Self>(name, text, &error))?;
        file.resolve(folder).map_err(|wrong| match wrong {
            Refusal::Value(key, message) => ConfigError::value(name, text, &key, message).into(),
            Refusal::Other(error) => error,
        })
    }

    /// A plan that was not written as a file; logs are named from here on.
    pub fn plan(self) -> Result<Plan, Error> {
        self.resolve(Path::new("")).map_err(|wrong| match wrong {
            Refusal::Value(key, message) => Error::Value { key, message },
            Refusal::Other(error) => error,
        })
    }

    fn resolve(self, folder: &Path) -> Result<Plan, Refusal> {
        self.check()?;
        let policies = self.policies()?;
        let servers: Result<Vec<ServerPlan>, Refusal> = (self.server.iter().enumerate())
            .map(|(index, server)| server.plan(index, self.sla, folder))
            .collect();
        let servers = servers?;
        let names = servers.iter().map(|it| it.name.as_str());
        if let Some((first, again, name)) = same_name(names) {
            let message = twice("[[server]]", first, again, name);
            return Err(wrong(format!("server.{again}.name"), &message));
        }
        let traffic = self.traffic(folder)?;
        self.pools(policies, servers, traffic)
    }

    /// All policies, each once: rows of the same name would be taken for one.
    fn policies(&self) -> Result<Vec<Policy>, Refusal> {
        let mut policies: Vec<(Policy, &str)> = Vec::new();
        for (index, text) in self.policies.iter().enumerate() {
            let at = |why: String| wrong(format!("policies.{index}"), &why);
            let list: PolicyList = text.parse().map_err(at)?;
            for policy in list.0 {
                if let Some((_, before)) = policies.iter().find(|(other, _)| *other == policy) {
                    return Err(at(format!(
                        "`{policy}` is in `{before}` and again in `{text}`; name it once"
                    )));
                }
                policies.push((policy, text));
            }
        }
        Ok(policies.into_iter().map(|(policy, _)| policy).collect())
    }

    /// All that arrives. Charts draw the rates of one name as one line.
    fn traffic(&self, folder: &Path) -> Result<Vec<Traffic>, Refusal> {
        let mut all = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for (index, arrivals) in self.arrivals.iter().enumerate() {
            let traffic = arrivals.traffic(index, folder)?;
            names.extend(traffic.first().map(|it| it.name.clone()));
            if let Some((first, again, name)) = same_name(names.iter().map(String::as_str)) {
                let message = twice("[[arrivals]]", first, again, name);
                // Where there is no name, it is by what the table is called.
                let key = if arrivals.name.is_some() { ".name" } else { "" };
                return Err(wrong(format!("arrivals.{index}{key}"), &message));
            }
            all.extend(traffic);
        }
        Ok(all)
    }

    /// What no single value shows.
    fn check(&self) -> Result<(), Refusal> {
        if !(0.0..=1.0).contains(&self.refused) {
            return Err(wrong("refused", "a share lies between 0 and 1"));
        }
        if !(self.transition_price_j >= 0.0 && self.transition_price_j.is_finite()) {
            return Err(wrong("transition_price_j", "a price is 0 or more"));
        }
        if self.policies.is_empty() {
            return Err(wrong("policies", "name at least one policy, as in `[\"predictive\"]`"));
        }
        if !(1..=1000).contains(&self.replications) {
            return Err(wrong("replications", "choose 1 to 1000"));
        }
        if self.requests == 0 {
            return Err(wrong("requests", "count at least one request"));
        }
        if self.server.is_empty() {
            return Err(wrong("server", "there is no `[[server]]`: name at least one kind"));
        }
        if self.arrivals.is_empty() {
            return Err(wrong("arrivals", "there is no `[[arrivals]]`: say what arrives"));
        }
        Ok(())
    }

    fn pools(
        self,
        policies: Vec<Policy>,
        servers: Vec<ServerPlan>,
        traffic: Vec<Traffic>,
    ) -> Result<Plan, Refusal> {
        let Self { sla, refused, min_on, line, wear, together, .. } = self;
        let price = Joules(self.transition_price_j);
        let settings = |kinds: Vec<ServerKind>| FleetSettings {
            kinds,
            min_on,
            line,
            wear,
            transition_price: price,
            overflow_share: refused,
        };
        if together && servers.len() > 1 && policies.iter().any(Policy::foresees) {
            let message = "`oracle` is for servers that are all alike: take it out, or `together`";
            return Err(wrong("together", message));
        }
        let pools = if together {
            let odd = servers.iter().position(|it| it.service != servers[0].service);
            if let Some(odd) = odd {
                let message = "servers that are `together` have one distribution of service times";
                return Err(wrong(format!("server.{odd}.service"), message));
            }
            let names: Vec<&str> = servers.iter().map(|it| it.name.as_str()).collect();
            vec![PoolPlan {
                name: names.join(" + "),
                settings: settings(servers.iter().map(|it| it.kind).collect()),
                service: servers[0].service.clone(),
            }]
        } else {
            let alone = |it: &ServerPlan| PoolPlan {
                name: it.name.clone(),
                settings: settings(vec![it.kind]),
                service: it.service.clone(),
            };
            servers.iter().map(alone).collect()
        };
        let Self { replications, requests, warm_up, seed, .. } = self;
        Ok(Plan {
            sla,
            policies,
            pools,
            servers,
            traffic,
            sampling: Sampling {
                replications,
                requests,
                warm_up: warm_up.unwrap_or(requests / 20),
                seed,
            },
            response_times: self.response_times.iter().map(|time| time.0).collect(),
        })
    }
}

impl ServerFile {
    fn plan(&self, index: usize, sla: Duration, folder: &Path) -> Result<ServerPlan, Refusal> {
        let at = |key: &str| format!("server.{index}.{key}");
        let law = self.service.read(folder).map_err(|why| wrong(at("service"), &why))?;
        let fitted = |points: &[(f64, Time)]| {
            let point = |&(rate, Time(mean_response)): &(f64, Time)| ResponsePoint {
                arrivals: PerSecond(rate),
                mean_response,
            };
            let points: Vec<ResponsePoint> = points.iter().map(point).collect();
            fit_service(&points).map_err(|error| wrong(at("points"), &error))
        };
        let (service, fit) = match (self.service_rate, &self.points, &law) {
            (Some(rate), None, _) => (PerSecond(rate), None),
            (None, Some(points), _) => {
                let fit = fitted(points)?;
                (fit.service, Some(fit))
            }
            (Some(_), Some(_), _) => {
                return Err(wrong(at("points"), "give `service_rate` or `points`, not both"));
            }
            (None, None, Service::Empirical(times)) => {
                (PerSecond(1.0 / service::mean(times)), None)
            }
            (None, None, _) => {
                let message = "say how fast it is: `service_rate = 261.8`, or measured `points = [[200, \
                               \"10ms\"]]`";
                return Err(wrong(format!("server.{index}"), message));
            }
        };
        let key = match (self.service_rate, &fit) {
            (Some(_), _) => "service_rate",
            (None, Some(_)) => "points",
            (None, None) => "service",
        };
        let places = places_within(service, sla).map_err(|error| wrong(at(key), &error))?;
        for (key, value) in [
            ("off_w", self.off_w),
            ("idle_w", self.idle_w),
            ("busy_w", self.busy_w),
            ("switch_j", self.switch_j),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(wrong(at(key), "watts and joules are 0 or more"));
            }
        }
        if !(1..=100_000).contains(&self.servers) {
            return Err(wrong(at("servers"), "choose 1 to 100000"));
        }
        let kind = ServerKind {
            servers: self.servers,
            service,
            places,
            idle: Watts(self.idle_w),
            busy: Watts(self.busy_w),
            off: Watts(self.off_w),
            switch: Joules(self.switch_j),
            switch_on: self.switch_on,
        };
        Ok(ServerPlan { name: self.name.clone(), kind, service: law, fit })
    }
}

impl ArrivalsFile {
    /// Of this kind, without rates and files yet.
    pub fn of(kind: ArrivalKind) -> Self {
        Self {
            name: None,
            kind,
            rates: Vec::new(),
            peak: usual_peak(),
            day: a_day(),
            burst_factor: five_times(),
            burst_share: a_tenth(),
            burst_length: ten_seconds(),
            files: Vec::new(),
            copies: one(),
            days: None,
            format: None,
            log_format: None,
            client_from: None,
            reading: Reading::default(),
        }
    }

    fn traffic(&self, index: usize, folder: &Path) -> Result<Vec<Traffic>, Refusal> {
        if self.kind != ArrivalKind::Log {
            return self.processes(index);
        }
        if self.files.is_empty() {
            let message = "name the log: `files = [\"access.log.gz\"]`";
            return Err(wrong(format!("arrivals.{index}.files"), message));
        }
        if !(1..=1_000_000).contains(&self.copies) {
            return Err(wrong(format!("arrivals.{index}.copies"), "choose 1 to 1000000"));
        }
        let copies = Copies { copies: self.copies, days: self.days };
        let files: Vec<PathBuf> = self.files.iter().map(|file| folder.join(file)).collect();
        let mut log = traffic::of_logs(&files, &self.reading(index)?, copies)?;
        log.name = self.name.clone().unwrap_or(log.name);
        Ok(vec![log])
    }

    /// How the files are to be read.
    fn reading(&self, index: usize) -> Result<Reading, Refusal> {
        let mut reading = self.reading.clone();
        let at = |key: &str, error: nightwatt_traffic::Error| {
            wrong(format!("arrivals.{index}.{key}"), &error)
        };
        if let Some(format) = &self.format {
            reading.format = Some(format.parse().map_err(|error| at("format", error))?);
        }
        if let Some(pattern) = &self.log_format {
            reading.pattern = Some(pattern.parse().map_err(|error| at("log_format", error))?);
        }
        if let Some(from) = &self.client_from {
            reading.client_from = from.parse().map_err(|error| at("client_from", error))?;
        }
        Ok(reading)
    }

    /// A run for each rate.
    fn processes(&self, index: usize) -> Result<Vec<Traffic>, Refusal> {
        if self.rates.is_empty() {
            let message = "say how much arrives: `rates = [300, 600]`, or a `log` with `files`";
            return Err(wrong(format!("arrivals.{index}.rates"), message));
        }
        let process = |rate: f64| {
            let at = |error: nightwatt_policy::arrivals::ArrivalsError| {
                wrong(format!("arrivals.{index}.rates"), &error)
            };
            let rate = Rate::new(rate).map_err(at)?;
            let (word, arrivals) = match self.kind {
                ArrivalKind::Constant => ("constant", Arrivals::Constant(rate)),
                ArrivalKind::Bursts => {
                    let length = self.burst_length.as_secs_f64();
                    let bursts = Bursts::new(rate, self.burst_factor, self.burst_share, length)
                        .map_err(|error| wrong(format!("arrivals.{index}.kind"), &error))?;
                    ("bursts", Arrivals::Bursts(bursts))
                }
                ArrivalKind::Day => {
                    let day = Profile::day(rate, self.peak, self.day.as_secs_f64())
                        .map_err(|error| wrong(format!("arrivals.{index}.peak"), &error))?;
                    ("day", Arrivals::Profile(day))
                }
                ArrivalKind::Poisson | ArrivalKind::Log => ("poisson", Arrivals::Poisson(rate)),
            };
            let name = self.name.clone().unwrap_or_else(|| word.to_owned());
            Ok(Traffic { name, rate: rate.get(), arrivals, ends: false, skipped: None })
        };
        let again = |at: usize| self.rates[..at].contains(&self.rates[at]);
        if let Some(at) = (0..self.rates.len()).find(|at| again(*at)) {
            let message = format!("the rate {} is there twice; name it once", self.rates[at]);
            return Err(wrong(format!("arrivals.{index}.rates"), &message));
        }
        self.rates.iter().map(|rate| process(*rate)).collect()
    }
}
