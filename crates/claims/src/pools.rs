//! `nightwatt fleet published`: the published claims about pools of small servers, ours beside theirs.
//!
//! B. Varghese et al., "Greening Web Servers", IGCC 2014: clusters of Raspberry Pi against tower
//! servers. From their parameters and by their rules, our queues and our simulator say what follows;
//! each claim has its tolerance here, written down before the comparison.

mod claims;
mod policies;
mod text;

use std::time::Duration;

use nightwatt_energy::quantity::{Joules, PerSecond, Watts};
use nightwatt_policy::fleet::ServerKind;
use nightwatt_policy::queueing::{QueueingError, ResponsePoint, fit_service};
use serde::Serialize;

use nightwatt_savings::fleet::Error;

pub use self::policies::PolicyRow;
pub use crate::figure::{Figure, Verdict};

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// Response time that the simulated pools promise.
const PROMISED: Duration = Duration::from_millis(10);

/// A kind of server, as published.
#[derive(Debug, Clone, Copy)]
struct Server {
    /// `pi` or `standard`, as in the JSON form.
    name: &'static str,
    /// In words.
    words: &'static str,
    /// Requests a second at a mean response time of 10 ms, for a file of 16 KB.
    at_10_ms: PerSecond,
    /// Power when idle.
    idle: Watts,
    /// Power at its peak.
    peak: Watts,
    /// Power that they reckon with when they count servers.
    reckoned: Watts,
}

const PI: Server = Server {
    name: "pi",
    words: "Raspberry Pi",
    at_10_ms: PerSecond(200.0),
    idle: Watts(1.8),
    peak: Watts(2.2),
    reckoned: Watts(2.0),
};

const STANDARD: Server = Server {
    name: "standard",
    words: "tower server",
    at_10_ms: PerSecond(450.0),
    idle: Watts(81.0),
    peak: Watts(97.5),
    reckoned: Watts(80.0),
};

impl Server {
    /// The service rate of the M/D/1 queue that goes through its one published point.
    fn service(&self) -> Result<PerSecond, QueueingError> {
        let point = ResponsePoint { arrivals: self.at_10_ms, mean_response: PROMISED };
        fit_service(&[point]).map(|fit| fit.service)
    }

    /// One of them, for what follows from the queue alone.
    fn kind(&self) -> Result<ServerKind, QueueingError> {
        Ok(ServerKind {
            servers: 1,
            service: self.service()?,
            places: 1,
            idle: self.idle,
            busy: self.peak,
            off: Watts(0.0),
            switch: Joules(0.0),
            switch_on: Duration::ZERO,
        })
    }

    /// Power at this share of its service rate, on the straight line from idle to peak.
    fn power(&self, utilisation: f64) -> Watts {
        self.idle + (self.peak - self.idle) * utilisation
    }
}

/// A claim with our figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// Its key: `V1` to `V5`.
    pub id: &'static str,
    /// What they say.
    pub claim: &'static str,
    /// Ours beside theirs.
    pub figures: Vec<Figure>,
    /// Do all that are printed agree?
    pub verdict: Verdict,
    /// Why not, or by what.
    pub why: String,
}

impl Claim {
    fn new(
        id: &'static str,
        claim: &'static str,
        figures: Vec<Figure>,
        why: impl Into<String>,
    ) -> Self {
        let agrees = figures.iter().all(|figure| figure.agrees != Some(false));
        Self { id, claim, figures, verdict: Verdict::of(agrees), why: why.into() }
    }
}

/// The report of `nightwatt fleet published`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Version of this form.
    pub schema: u32,
    /// Requests that each simulation counts.
    pub arrivals: u64,
    /// The claims.
    pub claims: Vec<Claim>,
    /// Each simulated pool of V5.
    pub policies: Vec<PolicyRow>,
}

/// Answers the claims about pools. Each simulation counts `arrivals` requests (published: 1,000,000 less twice 10,000);
/// `on_progress` gets how many of how many are done.
pub fn run(arrivals: u64, on_progress: impl FnMut(u64, u64)) -> Result<Comparison, Error> {
    let policies = policies::simulate(arrivals, on_progress)?;
    let claims = vec![
        claims::service_rates(arrivals)?,
        claims::thousand_a_second()?,
        claims::requests_per_watt()?,
        claims::power()?,
        policies::claim(&policies),
    ];
    Ok(Comparison { schema: SCHEMA, arrivals, claims, policies })
}

/// Requests that a simulation counts if it is as long as the published ones.
const PUBLISHED_ARRIVALS: u64 = 980_000;

/// Requests that each of V5's many simulations counts when the user waits for all claims.
const SHORT_ARRIVALS: u64 = 98_000;

/// One of the claims alone. V5 takes a minute of all cores if its simulations are as long as the published.
pub(crate) fn claim(id: &str, is_long: bool) -> Result<Option<Claim>, Error> {
    let arrivals = if is_long { PUBLISHED_ARRIVALS } else { SHORT_ARRIVALS };
    Ok(Some(match id {
        "V1" => claims::service_rates(PUBLISHED_ARRIVALS)?,
        "V2" => claims::thousand_a_second()?,
        "V3" => claims::requests_per_watt()?,
        "V4" => claims::power()?,
        "V5" => {
            let mut claim = policies::claim(&policies::simulate(arrivals, |_, _| ())?);
            claim.why.push_str(if is_long {
                ". Each of 160 simulations counted 980,000 requests, as theirs"
            } else {
                ". Each of 160 simulations counted 98,000 requests, a tenth of theirs; named (`nightwatt \
                 reproduce V5`) or with `--measure` it is all 980,000"
            });
            claim
        }
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests;
