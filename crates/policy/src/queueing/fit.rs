//! The service rate of a server from its measured response times.

use std::time::Duration;

use super::{QueueingError, number};
use nightwatt_energy::quantity::PerSecond;

/// A measurement: the mean response time at a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResponsePoint {
    /// Requests that arrived.
    pub arrivals: PerSecond,
    /// Mean time from request to answer.
    pub mean_response: Duration,
}

/// What [`fit_service`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceFit {
    /// The service rate.
    pub service: PerSecond,
    /// Its standard error, by the slope at the minimum; infinite for a single point, which can be
    /// met but tells nothing of errors.
    pub standard_error: PerSecond,
    /// Measured less fitted response time of each point, in seconds.
    pub residuals_s: Vec<f64>,
}

/// Fits an M/D/1 queue: the service rate mu whose response times
/// T = 1/mu + lambda / (2 mu (mu - lambda)) are nearest to the measured ones, by least squares.
///
/// T falls with mu, so each point alone has one solution, and the minimum lies between the least and
/// the largest of them. There may be several minima: a grid of 1,000 rates finds the deepest
/// valley, and a golden section its bottom.
pub fn fit_service(points: &[ResponsePoint]) -> Result<ServiceFit, QueueingError> {
    let mut pairs = Vec::with_capacity(points.len());
    let (mut low, mut high, mut busiest) = (f64::INFINITY, 0.0_f64, 0.0_f64);
    for point in points {
        let rate = number("arrival rate", point.arrivals.get(), false)?;
        let time = number("mean response time", point.mean_response.as_secs_f64(), true)?;
        let alone = through(rate, time);
        (low, high, busiest) = (low.min(alone), high.max(alone), busiest.max(rate));
        pairs.push((rate, time));
    }
    if pairs.is_empty() {
        return Err(QueueingError::NoPoints);
    }
    // Every rate has to be served.
    low = low.max(busiest * (1.0 + 1e-9));
    let cost = |service: f64| {
        pairs.iter().map(|&(rate, time)| (time - response(rate, service)).powi(2)).sum::<f64>()
    };
    let service = if high <= low { low.max(high) } else { minimum(low, high, cost) };
    let residuals_s: Vec<f64> =
        pairs.iter().map(|&(rate, time)| time - response(rate, service)).collect();
    let standard_error = match pairs.len() - 1 {
        0 => f64::INFINITY,
        spare => {
            let squares: f64 = pairs.iter().map(|&(rate, _)| slope(rate, service).powi(2)).sum();
            (cost(service) / spare as f64 / squares).sqrt()
        }
    };
    Ok(ServiceFit {
        service: PerSecond(service),
        standard_error: PerSecond(standard_error),
        residuals_s,
    })
}

/// Mean response time of M/D/1, in seconds.
fn response(rate: f64, service: f64) -> f64 {
    1.0 / service + rate / (2.0 * service * (service - rate))
}

/// How the response time changes with the service rate.
fn slope(rate: f64, service: f64) -> f64 {
    let spare = service - rate;
    -1.0 / service.powi(2) - rate * (2.0 * service - rate) / (2.0 * (service * spare).powi(2))
}

/// The service rate whose response time at `rate` is `time`: the larger solution of
/// 2 T mu^2 - 2 (lambda T + 1) mu + lambda = 0.
fn through(rate: f64, time: f64) -> f64 {
    let load = rate * time;
    (load + 1.0 + (load * load + 1.0).sqrt()) / (2.0 * time)
}

fn minimum(low: f64, high: f64, cost: impl Fn(f64) -> f64) -> f64 {
    const STEPS: u32 = 1000;
    let at = |step: u32| low * (high / low).powf(f64::from(step) / f64::from(STEPS));
    let best = (0..=STEPS).min_by(|&a, &b| cost(at(a)).total_cmp(&cost(at(b)))).unwrap_or(0);
    let (mut low, mut high) = (at(best.saturating_sub(1)), at((best + 1).min(STEPS)));
    let golden = 0.5 * (5.0_f64.sqrt() - 1.0);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    while high - low > 1e-10 * high {
        if cost(left) < cost(right) {
            high = right;
        } else {
            low = left;
        }
        (left, right) = (high - golden * (high - low), low + golden * (high - low));
    }
    0.5 * (low + high)
}
