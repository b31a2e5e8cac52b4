//! How long requests are served.

use std::sync::Arc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Exp1, StandardNormal};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why there are no such service times.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ServiceError {
    /// A spread that cannot be.
    #[error("a coefficient of variation of {0}: it must be finite and at least 0")]
    Variation(f64),
    /// No times, or only zeros.
    #[error("measured service times need at least one above 0")]
    Empty,
}

/// How service times are distributed; their mean is the server's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// All the same.
    Deterministic,
    /// Exponential.
    Exponential,
    /// Log-normal.
    LogNormal {
        /// Standard deviation over mean.
        variation: f64,
    },
    /// Drawn from measured times, each as likely as it was frequent; only their proportions matter.
    Empirical(Vec<Duration>),
}

/// How long one request is served.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Demand {
    /// As long as the mean.
    Mean,
    /// So many times the mean.
    Times(f64),
}

/// Draws them, in units of the mean.
#[derive(Debug, Clone)]
pub struct ServiceTimes {
    law: Law,
    random: ChaCha8Rng,
}

#[derive(Debug, Clone)]
enum Law {
    Same,
    Exponential,
    /// Mean and standard deviation of the logarithm.
    LogNormal(f64, f64),
    Among(Arc<[f64]>),
}

impl Service {
    /// Equal seeds and streams give equal times.
    pub fn start(&self, seed: u64, stream: u64) -> Result<ServiceTimes, ServiceError> {
        let law = match self {
            Self::Deterministic => Law::Same,
            Self::Exponential => Law::Exponential,
            Self::LogNormal { variation } => {
                if !(*variation >= 0.0 && variation.is_finite()) {
                    return Err(ServiceError::Variation(*variation));
                }
                let variance = variation.powi(2).ln_1p();
                Law::LogNormal(-0.5 * variance, variance.sqrt())
            }
            Self::Empirical(times) => {
                let sum: f64 = times.iter().map(Duration::as_secs_f64).sum();
                if sum == 0.0 {
                    return Err(ServiceError::Empty);
                }
                let mean = sum / times.len() as f64;
                Law::Among(times.iter().map(|time| time.as_secs_f64() / mean).collect())
            }
        };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        Ok(ServiceTimes { law, random })
    }
}

impl ServiceTimes {
    /// The next request's.
    #[inline]
    pub(super) fn next_demand(&mut self) -> Demand {
        Demand::Times(match &self.law {
            Law::Same => return Demand::Mean,
            Law::Exponential => self.random.sample(Exp1),
            Law::LogNormal(mean, deviation) => {
                (mean + deviation * self.random.sample::<f64, _>(StandardNormal)).exp()
            }
            Law::Among(times) => times[self.random.random_range(0..times.len())],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of many.
    fn moments(service: &Service) -> (f64, f64) {
        let mut times = service.start(1, 0).unwrap();
        let drawn: Vec<f64> = (0..200_000)
            .map(|_| match times.next_demand() {
                Demand::Mean => 1.0,
                Demand::Times(times) => times,
            })
            .collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let square = drawn.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        (mean, square / drawn.len() as f64)
    }

    #[test]
    fn all_have_mean_one_and_their_own_spread() {
        let seconds = [1, 1, 1, 5].map(Duration::from_secs).to_vec();
        // 1, 1, 1, 5: mean 2, so 0.5 and 2.5; variance (3 x 0.25 + 2.25) / 4.
        for (service, variance) in [
            (Service::Deterministic, 0.0),
            (Service::Exponential, 1.0),
            (Service::LogNormal { variation: 0.5 }, 0.25),
            (Service::Empirical(seconds), 0.75),
        ] {
            let (mean, found) = moments(&service);
            assert!((mean - 1.0).abs() < 0.01, "{service:?}: {mean}");
            assert!((found - variance).abs() < 0.03, "{service:?}: {found}");
        }
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for bad in [f64::NAN, -0.1, f64::INFINITY] {
            let service = Service::LogNormal { variation: bad };
            assert!(matches!(service.start(1, 0), Err(ServiceError::Variation(_))));
        }
        assert_eq!(Service::Empirical(vec![]).start(1, 0).unwrap_err(), ServiceError::Empty);
        let zeros = Service::Empirical(vec![Duration::ZERO]);
        assert_eq!(zeros.start(1, 0).unwrap_err(), ServiceError::Empty);
    }
}
