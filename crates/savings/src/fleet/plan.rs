//! `nightwatt fleet plan.toml`: pools, traffic and policies, every one of them with every other.
//!
//! Each combination is simulated several times with seeds of its own, on all cores; policies meet the
//! same requests (common random numbers). The result does not depend on the number of cores. Memory
//! holds the requests in the pools, one row per combination and repetition, the counts of logs, and the
//! switchings of an oracle.

mod charts;
mod file;
mod page;
mod policies;
mod result;
mod servers;
mod service;
mod traffic;

use std::ops::ControlFlow;
use std::time::Duration;

use nightwatt_sim::fleet::{Outcome, Window};

pub use self::file::{ArrivalKind, ArrivalsFile, PlanFile, ServerFile, Time};
pub use self::policies::{Policy, PolicyList};
pub use self::result::{Estimate, PlanResult, Row, ServerRow};
pub use self::servers::{PoolPlan, ServerPlan};
pub use self::service::ServiceText;
pub use self::traffic::{Copies, Traffic, of_logs};
use super::{Error, curves, jobs, play};

/// Everything that is to be simulated.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Response time that is promised.
    pub sla: Duration,
    /// Each with each pool and each traffic.
    pub policies: Vec<Policy>,
    /// Each with each traffic.
    pub pools: Vec<PoolPlan>,
    /// Kinds of servers, as written down.
    pub servers: Vec<ServerPlan>,
    /// What arrives.
    pub traffic: Vec<Traffic>,
    /// How often and how long.
    pub sampling: Sampling,
    /// For servers and watts by the queue alone.
    pub response_times: Vec<Duration>,
}

/// How many requests and repetitions are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Independent repetitions.
    pub replications: u32,
    /// Requests that each counts, of processes without an end.
    pub requests: u64,
    /// Requests before them that do not count.
    pub warm_up: u64,
    /// Of the first repetition.
    pub seed: u64,
}

/// A pool is simulated for `COUNTED` times its longest own time, after `WARM_UP` times that do not count.
const COUNTED: f64 = 20.0;
const WARM_UP: f64 = 5.0;

/// No more requests than these are asked for.
const MOST_REQUESTS: u64 = 5_000_000;

/// Longer than this no policy waits until being off pays.
const LONGEST_PAY_S: f64 = 600.0;

/// One simulation.
struct Job<'a> {
    pool: &'a PoolPlan,
    traffic: &'a Traffic,
    policy: Policy,
    seed: u64,
}

/// What remains of one simulation.
#[derive(Debug, Clone)]
struct Figures {
    watts: f64,
    transitions_per_hour: f64,
    servers_on: f64,
    most_on: u32,
    refused: f64,
    late: f64,
    mean_response_ms: f64,
    p99_response_ms: f64,
    requests_per_joule: f64,
    /// Servers of each kind that are on.
    on_by_kind: Vec<f64>,
}

impl Figures {
    fn of(outcome: &Outcome, sla: Duration) -> Self {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let span = outcome.span.as_secs_f64();
        Self {
            watts: outcome.mean_power().get(),
            transitions_per_hour: outcome.transitions_per_server_hour()
                * f64::from(outcome.servers),
            servers_on: outcome.mean_on(),
            most_on: outcome.most_on,
            refused: outcome.refused_share(),
            late: outcome.responses.above(sla) as f64 / outcome.arrivals.max(1) as f64,
            mean_response_ms: millis(outcome.mean_response()),
            p99_response_ms: millis(outcome.responses.quantile(0.99).unwrap_or_default()),
            requests_per_joule: outcome.requests_per_joule(),
            on_by_kind: outcome.tallies.iter().map(|it| it.on.as_secs_f64() / span).collect(),
        }
    }
}

impl Plan {
    /// Number of simulations.
    pub fn simulations(&self) -> u64 {
        let rows = self.pools.len() * self.traffic.len() * self.policies.len();
        rows as u64 * u64::from(self.sampling.replications)
    }

    /// Runs the plan. `on_progress` gets how many simulations of how many are done, and may stop it by `Break`.
    pub fn run(
        &self,
        on_progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<PlanResult, Error> {
        let mut jobs = Vec::new();
        for pool in &self.pools {
            for traffic in &self.traffic {
                for policy in &self.policies {
                    for replication in 0..self.sampling.replications {
                        let seed = self.sampling.seed.wrapping_add(u64::from(replication));
                        jobs.push(Job { pool, traffic, policy: *policy, seed });
                    }
                }
            }
        }
        let done = jobs::all(&jobs, |job| self.one(job), on_progress);
        if done.len() < jobs.len() {
            return Err(Error::Stopped);
        }
        let figures: Result<Vec<Figures>, Error> = done.into_iter().collect();
        let curves = curves::of(&self.servers, &self.response_times, self.highest_rate())?;
        Ok(PlanResult::new(self, &figures?, curves))
    }

    /// Counts as many requests, and warms up for as many, as the pools' own times ask for.
    pub fn lengthen(&mut self) {
        let (warm_up, requests) = self.least();
        let sampling = &mut self.sampling;
        sampling.warm_up = sampling.warm_up.max(warm_up);
        sampling.requests = sampling.requests.max(requests);
    }

    /// Requests that are to pass before any is counted, and that are to be counted: what happens while
    /// servers start for the first time says nothing of the rest.
    fn least(&self) -> (u64, u64) {
        let rates = self.traffic.iter().filter(|traffic| !traffic.ends).map(|traffic| traffic.rate);
        let each = rates.fold(0.0, f64::max) * self.slowest_s();
        let times = |times: f64| ((each * times) as u64).min(MOST_REQUESTS);
        (times(WARM_UP), times(COUNTED))
    }

    /// The longest that a server takes to start, or must be off to pay for that, s.
    fn slowest_s(&self) -> f64 {
        let price = 2.0
            * self.pools.iter().map(|it| it.settings.transition_price.get()).fold(0.0, f64::max);
        let kinds = self.pools.iter().flat_map(|pool| &pool.settings.kinds);
        let slow = kinds.map(|kind| {
            let saved = kind.idle.get() - kind.off.get();
            let pays = if saved > 0.0 { (kind.switch.get() + price) / saved } else { 0.0 };
            kind.switch_on.as_secs_f64().max(pays.min(LONGEST_PAY_S))
        });
        slow.fold(0.0, f64::max)
    }

    /// What to think twice about.
    fn warnings(&self) -> Vec<String> {
        let (warm_up, requests) = self.least();
        let Sampling { requests: counted, warm_up: warmed, .. } = self.sampling;
        if self.traffic.iter().all(|traffic| traffic.ends)
            || (counted >= requests && warmed >= warm_up)
        {
            return Vec::new();
        }
        vec![format!(
            "{counted} requests after {warmed} that do not count are short beside the {:.0} s that a server takes \
             to start, or must be off to pay for that: most of it is the beginning; count {requests} after \
             {warm_up} at least (`--requests`, or `requests` and `warm_up` in a plan)",
            self.slowest_s()
        )]
    }

    fn one(&self, job: &Job<'_>) -> Result<Figures, Error> {
        let Sampling { requests, warm_up, .. } = self.sampling;
        let window = if job.traffic.ends {
            Window::ALL
        } else {
            // A part of a day says nothing of a day.
            let whole =
                job.traffic.arrivals.period().map_or(1.0, |period| period * job.traffic.rate);
            let counted = (requests as f64 / whole).ceil() * whole;
            Window { warm_up, counted: counted as u64, cool_down: warm_up / 2 }
        };
        let (arrivals, service) = (&job.traffic.arrivals, &job.pool.service);
        play(&job.pool.settings, job.policy, arrivals, service, job.seed, window)
            .map(|it| Figures::of(&it, self.sla))
    }

    fn highest_rate(&self) -> f64 {
        self.traffic.iter().map(|traffic| traffic.rate).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests;
