//! How many servers a mean response time takes at each rate, and what they draw: by the M/D/1 queue
//! alone, with requests shared evenly and nothing switched.

use std::time::Duration;

use nightwatt_energy::quantity::Watts;
use nightwatt_policy::fleet::ServerKind;
use nightwatt_policy::queueing::{QueueingError, Station};
use serde::Serialize;

use super::plan::ServerPlan;

/// Rates that a curve has.
const POINTS: u32 = 120;

/// A kind of server at a response time, over all rates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// Kind of server.
    pub server: String,
    /// Mean response time that is kept.
    pub response_s: f64,
    /// By rate.
    pub points: Vec<CurvePoint>,
}

/// What a rate takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Requests a second.
    pub rate: f64,
    /// Servers on.
    pub servers: f64,
    /// What they draw.
    pub watts: f64,
    /// Requests a second per watt: requests per joule.
    pub requests_per_joule: f64,
}

/// Power of one that is busy for this share of the time: on the straight line from idle to busy.
fn power(kind: &ServerKind, utilisation: f64) -> Watts {
    kind.idle + (kind.busy - kind.idle) * utilisation
}

/// The number of servers of a kind that keep a mean response time within `target` at this rate, shared
/// evenly, and their power. (Published: B. Varghese et al., 2014.)
pub fn needed(
    kind: &ServerKind,
    rate: f64,
    target: Duration,
) -> Result<(f64, Watts), QueueingError> {
    let each = Station::md1(kind.service).rate_within(target)?;
    // A rate that fills servers to the last digit needs no further one for that digit.
    let servers = (rate / each.get() - 1e-9).ceil().max(1.0);
    let utilisation = rate / servers / kind.service.get();
    Ok((servers, power(kind, utilisation) * servers))
}

/// A curve for each kind and time that it can keep, for rates up to `most`.
pub(super) fn of(
    servers: &[ServerPlan],
    times: &[Duration],
    most: f64,
) -> Result<Vec<Curve>, QueueingError> {
    let mut curves = Vec::new();
    for server in servers {
        // Not at the service time itself: there nothing may ever wait.
        let keeps = |time: &&Duration| time.as_secs_f64() * server.kind.service.get() > 1.0 + 1e-9;
        for &target in times.iter().filter(keeps) {
            let mut points = Vec::new();
            for step in 1..=POINTS {
                let rate = most * f64::from(step) / f64::from(POINTS);
                let (servers, watts) = needed(&server.kind, rate, target)?;
                let requests_per_joule = rate / watts.get();
                points.push(CurvePoint { rate, servers, watts: watts.get(), requests_per_joule });
            }
            let response_s = target.as_secs_f64();
            curves.push(Curve { server: server.name.clone(), response_s, points });
        }
    }
    Ok(curves)
}
