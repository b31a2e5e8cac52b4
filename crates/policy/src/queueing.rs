//! Queues in their steady state: how many servers, how long people wait, how many are refused.
//!
//! Arrivals are Poisson. A [`Station`] has one queue in front of one or more like servers, whose service
//! times are exponential (M/M/1, M/M/c) or all the same (M/D/1, M/D/c), and serves first come, first served.
//! [`erlang_b`] gives the share that is lost where requests can't wait.
//!
//! Offered load is in erlangs: arrivals per second x mean service time.

mod deterministic;
mod erlang;
mod fit;

use std::time::Duration;

use thiserror::Error;

pub use self::erlang::{MOST_SERVERS, erlang_b, erlang_c, servers_for_blocking};
pub use self::fit::{ResponsePoint, ServiceFit, fit_service};
use nightwatt_energy::quantity::PerSecond;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum QueueingError {
    /// An invalid rate, load or time.
    #[error("{what} is {value}: it must be a finite number {bound}")]
    BadNumber {
        /// What it stands for.
        what: &'static str,
        /// As given.
        value: f64,
        /// What it has to keep: `above 0`.
        bound: &'static str,
    },
    /// More arrives than can be served: the queue grows without end.
    #[error(
        "{arrivals} arrive and {capacity} can be served, so the queue grows without end: add \
         servers, or lower the rate below {capacity}"
    )]
    Unstable {
        /// What arrives.
        arrivals: PerSecond,
        /// What all servers together can do.
        capacity: PerSecond,
    },
    /// No servers, or more than is computed.
    #[error("{servers} servers: choose 1 to {MOST_SERVERS}")]
    Servers {
        /// As given.
        servers: u32,
    },
    /// A response time shorter than the service itself.
    #[error(
        "a response within {target:?} cannot be kept by a server that needs {service:?} for one \
         request: allow more time, or take a faster server"
    )]
    TooSlow {
        /// What was wanted.
        target: Duration,
        /// Mean service time.
        service: Duration,
    },
    /// Nothing to fit to.
    #[error("no points: give at least one pair of a rate and its mean response time")]
    NoPoints,
}

/// `value` if it is finite and at least (or, if `positive`, above) 0.
fn number(what: &'static str, value: f64, positive: bool) -> Result<f64, QueueingError> {
    let good = value.is_finite() && (value > 0.0 || !positive && value == 0.0);
    let bound = if positive { "above 0" } else { "of at least 0" };
    if good { Ok(value) } else { Err(QueueingError::BadNumber { what, value, bound }) }
}

/// How service times are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceLaw {
    /// Exponential: the M of M/M/c.
    Exponential,
    /// All the same: the D of M/D/c.
    Deterministic,
}

/// One queue in front of like servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Station {
    /// How many.
    pub servers: u32,
    /// What one of them can do: 1 / its mean service time.
    pub service: PerSecond,
    /// How its service times are distributed.
    pub law: ServiceLaw,
}

/// A station in its steady state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    station: Station,
    arrivals: PerSecond,
    /// Probability that an arrival has to wait.
    pub waiting_probability: f64,
    /// Mean waiting time in units of the mean service time, of all arrivals.
    wait: f64,
}

impl Station {
    /// One server with the same service time for every request.
    pub const fn md1(service: PerSecond) -> Self {
        Self { servers: 1, service, law: ServiceLaw::Deterministic }
    }

    /// Mean service time in seconds.
    fn service_s(&self) -> f64 {
        1.0 / self.service.get()
    }

    /// The steady state under this Poisson stream; an error if it has no steady state.
    ///
    /// M/M/c by Erlang's C; M/D/1 by Pollaczek and Khinchine; M/D/c by Crommelin's roots or
    /// Spitzer's series.
    pub fn under(&self, arrivals: PerSecond) -> Result<Steady, QueueingError> {
        let service = number("service rate", self.service.get(), true)?;
        let rate = number("arrival rate", arrivals.get(), false)?;
        let servers = erlang::check_servers(self.servers)?;
        let capacity = self.service * servers;
        if rate >= capacity.get() {
            return Err(QueueingError::Unstable { arrivals, capacity });
        }
        let offered = rate / service;
        let (waiting_probability, wait) = match self.law {
            ServiceLaw::Exponential => {
                let waiting = erlang_c(self.servers, offered)?;
                (waiting, waiting / (servers - offered))
            }
            // Pollaczek and Khinchine.
            ServiceLaw::Deterministic if self.servers == 1 => {
                (offered, offered / (2.0 * (1.0 - offered)))
            }
            ServiceLaw::Deterministic => deterministic::waiting(self.servers, offered),
        };
        Ok(Steady { station: *self, arrivals, waiting_probability, wait })
    }

    /// The highest rate at which the mean response time is within `target`.
    ///
    /// M/D/1 and M/M/1 in closed form, others by bisection.
    pub fn rate_within(&self, target: Duration) -> Result<PerSecond, QueueingError> {
        let service = number("service rate", self.service.get(), true)?;
        let servers = erlang::check_servers(self.servers)?;
        // Response time in units of the service time.
        let allowed = target.as_secs_f64() * service;
        if allowed < 1.0 {
            let service = Duration::from_secs_f64(self.service_s());
            return Err(QueueingError::TooSlow { target, service });
        }
        let utilisation = match (self.servers, self.law) {
            (1, ServiceLaw::Exponential) => 1.0 - 1.0 / allowed,
            // 1 + u / (2 (1 - u)) = allowed, solved for u.
            (1, ServiceLaw::Deterministic) => (allowed - 1.0) / (allowed - 0.5),
            _ => {
                let (mut low, mut high) = (0.0, 1.0);
                for _ in 0..60 {
                    let middle = 0.5 * (low + high);
                    let response = self.under(self.service * (servers * middle));
                    let kept = response.is_ok_and(|steady| 1.0 + steady.wait <= allowed);
                    if kept { low = middle } else { high = middle }
                }
                low
            }
        };
        Ok(self.service * (servers * utilisation))
    }
}

impl Steady {
    /// Share of the time that a server is busy, 0 to 1.
    pub fn utilisation(&self) -> f64 {
        self.arrivals.get() / (self.station.service.get() * f64::from(self.station.servers))
    }

    /// Mean time from arrival to answer.
    pub fn mean_response(&self) -> Duration {
        let seconds = (1.0 + self.wait) * self.station.service_s();
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Mean number of requests in the station, by Little's law.
    pub fn mean_in_system(&self) -> f64 {
        self.arrivals.get() * (1.0 + self.wait) * self.station.service_s()
    }

    /// Probability that an arrival waits longer than `time`; `None` for M/D/c with more than one
    /// server, for which there is no closed form.
    ///
    /// M/M/c: C exp(-(c mu - lambda) t). M/D/1: from the queue lengths at departures, by a recursion
    /// without subtractions, in time quadratic in `time` x service rate.
    pub fn wait_exceeds(&self, time: Duration) -> Option<f64> {
        let services = time.as_secs_f64() * self.station.service.get();
        let offered = self.arrivals.get() / self.station.service.get();
        match self.station.law {
            ServiceLaw::Exponential => {
                let spare = f64::from(self.station.servers) - offered;
                Some(self.waiting_probability * (-spare * services).exp())
            }
            ServiceLaw::Deterministic if self.station.servers == 1 => {
                Some(deterministic::wait_exceeds(offered, services))
            }
            ServiceLaw::Deterministic => None,
        }
    }
}

/// How many requests a server may have, the one in service among them, so that each is answered
/// within `target`: with n before it a request is answered after at most (n + 1) service times.
///
/// Exact where service times are all the same; where they vary it holds in the mean.
pub fn places_within(service: PerSecond, target: Duration) -> Result<u32, QueueingError> {
    let rate = number("service rate", service.get(), true)?;
    // A target of exactly n service times has room for n, whatever the last bit says.
    let places = (target.as_secs_f64() * rate * (1.0 + 1e-12)).floor();
    if places < 1.0 {
        let service = Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX);
        return Err(QueueingError::TooSlow { target, service });
    }
    Ok(places.min(f64::from(u32::MAX)) as u32)
}

#[cfg(test)]
mod tests;
