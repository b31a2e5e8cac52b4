//! `nightwatt fleet`: pools of servers, simulated under the policies that run them.

pub mod curves;
pub mod fit;
pub mod jobs;
pub mod plan;
pub mod size;

use std::path::PathBuf;

use nightwatt_energy::time::{Mono, Nanos};
use nightwatt_host::ConfigError;
use nightwatt_policy::arrivals::{Arrivals, ArrivalsError};
use nightwatt_policy::fleet::{FleetError, FleetSettings, Pool};
use nightwatt_policy::queueing::QueueingError;
use nightwatt_sim::fleet::{Outcome, Service, ServiceError, Window, oracle, run};

use self::plan::Policy;

/// Why a pool cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A plan with something wrong in it.
    #[error(transparent)]
    Plan(#[from] ConfigError),
    /// A queue without a steady state.
    #[error(transparent)]
    Queueing(#[from] QueueingError),
    /// A pool that cannot be.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// Arrivals that cannot be.
    #[error(transparent)]
    Arrivals(#[from] ArrivalsError),
    /// Service times that cannot be.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A log that cannot be read.
    #[error(transparent)]
    Log(#[from] nightwatt_traffic::Error),
    /// Logs without a request.
    #[error(transparent)]
    Logs(#[from] crate::Error),
    /// A file that cannot be read.
    #[error("cannot read {path}: {source}; check that it is there and may be read")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Points that are none.
    #[error("{0}")]
    Points(String),
    /// A value of a plan that was not written as a file.
    #[error("`{key}`: {message}")]
    Value {
        /// Where it would be in a file, with dots.
        key: String,
        /// What is wrong with it, and what would be right.
        message: String,
    },
    /// Values on the command line that do not go together.
    #[error("{0}")]
    Flags(String),
    /// The caller stopped it.
    #[error("the plan was not simulated to its end: the caller stopped it")]
    Stopped,
    /// No pool keeps the SLA.
    #[error("{0}")]
    TooFew(String),
}

/// One pool under one policy, from a seed; policies with the same seed meet the same requests.
pub fn play(
    settings: &FleetSettings,
    policy: impl Into<Policy>,
    arrivals: &Arrivals,
    service: &Service,
    seed: u64,
    window: Window,
) -> Result<Outcome, Error> {
    let times = || arrivals.times(seed).map(Nanos::from_secs);
    // Arrivals have streams 0 and the last of a seed.
    let service = service.start(seed, 1)?;
    let settings = settings.clone();
    let pool = match policy.into() {
        Policy::Live(choice) => Pool::new(settings, choice, Mono::ZERO)?,
        Policy::Oracle { always_on } => {
            let schedule = oracle(&settings, always_on, times(), service.clone(), window)?;
            Pool::scheduled(settings, schedule, Mono::ZERO)?
        }
    };
    Ok(run(pool, times(), service, window))
}
