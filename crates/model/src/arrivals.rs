//! When requests come: point processes that a seed fixes.
//!
//! The simulator and the load generator draw from the same ones. A stream is endless and holds
//! nothing but its state.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::Exp1;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::quantity::PerSecond;
use crate::time::Nanos;

const HOUR_NS: u64 = 3_600_000_000_000;

/// Why there is no such process.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ArrivalError {
    /// A rate that is none.
    #[error("a rate of {0} requests: it must be finite and not below 0, and one of them above 0")]
    Rate(PerSecond),
    /// States without rates or stays.
    #[error("a bursty process needs at least one state, and time to stay in each")]
    States,
}

/// One state of a bursty process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// Requests while it lasts.
    pub rate: PerSecond,
    /// How long it lasts in the mean; each stay is drawn from the exponential distribution.
    pub stay: Duration,
}

/// How requests arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Process {
    /// Independently of each other: exponential gaps.
    Poisson(PerSecond),
    /// Evenly spaced.
    Constant(PerSecond),
    /// Poisson with a rate that jumps (MMPP): from each state to the next, from the last to the first.
    Bursty(Vec<Burst>),
    /// Poisson with a rate for each hour of the day, from midnight at time 0.
    Daily([PerSecond; 24]),
}

impl Process {
    /// Mean rate over a long time.
    pub fn mean_rate(&self) -> PerSecond {
        match self {
            Self::Poisson(rate) | Self::Constant(rate) => *rate,
            Self::Bursty(states) => {
                let stay = |state: &Burst| state.stay.as_secs_f64();
                let total: f64 = states.iter().map(stay).sum();
                states.iter().map(|it| it.rate * (stay(it) / total)).sum()
            }
            Self::Daily(hours) => hours.iter().copied().sum::<PerSecond>() * (1.0 / 24.0),
        }
    }

    /// Starts at time 0. Equal seeds and streams give equal times; different streams of a seed are
    /// independent.
    pub fn start(&self, seed: u64, stream: u64) -> Result<Arrivals, ArrivalError> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        let rates: Vec<PerSecond> = match self {
            Self::Poisson(rate) | Self::Constant(rate) => vec![*rate],
            Self::Bursty(states) => states.iter().map(|state| state.rate).collect(),
            Self::Daily(hours) => hours.to_vec(),
        };
        let good = |rate: &PerSecond| rate.get() >= 0.0 && rate.get().is_finite();
        if let Some(bad) = rates.iter().find(|rate| !good(rate)) {
            return Err(ArrivalError::Rate(*bad));
        }
        if let Self::Bursty(states) = self
            && (states.is_empty() || states.iter().any(|state| state.stay.is_zero()))
        {
            return Err(ArrivalError::States);
        }
        if rates.iter().all(|rate| rate.get() == 0.0) {
            return Err(ArrivalError::Rate(PerSecond::ZERO));
        }
        // Nanoseconds between two.
        let gaps: Vec<f64> = rates.iter().map(|rate| 1e9 / rate.get()).collect();
        let stays = match self {
            Self::Poisson(_) => Stays::Forever,
            Self::Constant(_) => Stays::Even,
            Self::Bursty(states) => {
                Stays::Drawn(states.iter().map(|state| state.stay.as_nanos() as f64).collect())
            }
            Self::Daily(_) => Stays::Hours,
        };
        let mut arrivals = Arrivals {
            random,
            at: 0,
            state: gaps.len() - 1,
            gap: f64::INFINITY,
            until: 0,
            gaps,
            stays,
        };
        arrivals.change();
        Ok(arrivals)
    }
}

/// How long a rate lasts.
#[derive(Debug, Clone)]
enum Stays {
    Forever,
    /// And gaps are all the same.
    Even,
    /// In the mean, ns.
    Drawn(Vec<f64>),
    Hours,
}

/// Times of requests, in order, without end.
#[derive(Debug, Clone)]
pub struct Arrivals {
    random: ChaCha8Rng,
    /// The last one, or the last change of rate if that was later, ns.
    at: u64,
    state: usize,
    /// Mean gap in this state, ns; infinite where nothing comes.
    gap: f64,
    /// The state ends, ns.
    until: u64,
    gaps: Vec<f64>,
    stays: Stays,
}

impl Arrivals {
    /// The state is over: the next one.
    #[cold]
    fn change(&mut self) {
        self.state = (self.state + 1) % self.gaps.len();
        self.gap = self.gaps[self.state];
        self.at = self.until;
        self.until = match &self.stays {
            Stays::Forever | Stays::Even => u64::MAX,
            Stays::Drawn(means) => {
                let stay: f64 = self.random.sample::<f64, _>(Exp1) * means[self.state];
                self.at.saturating_add((stay as u64).max(1))
            }
            Stays::Hours => self.at.saturating_add(HOUR_NS),
        };
    }
}

impl Iterator for Arrivals {
    type Item = Nanos;

    #[inline]
    fn next(&mut self) -> Option<Nanos> {
        let mut work: f64 = match self.stays {
            Stays::Even => 1.0,
            _ => self.random.sample(Exp1),
        };
        // What is left of the unit of work is done at the rate of the next state: exact, since rates
        // are constant within one.
        loop {
            // Rounded to the nanosecond; saturates.
            let next = self.at.saturating_add((work * self.gap + 0.5) as u64);
            if next < self.until {
                self.at = next;
                return Some(Nanos(next));
            }
            if self.until == u64::MAX {
                return None;
            }
            work -= (self.until - self.at) as f64 / self.gap;
            // Not 0, of which a silent state would make something that is no number.
            work = work.max(f64::MIN_POSITIVE);
            self.change();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(rate: f64) -> PerSecond {
        PerSecond(rate)
    }

    /// Gaps in seconds.
    fn gaps(process: &Process, count: usize) -> Vec<f64> {
        let times: Vec<f64> =
            process.start(1, 0).unwrap().take(count).map(|at| at.0 as f64 / 1e9).collect();
        assert!(times.is_sorted());
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let mut gaps = gaps(&Process::Poisson(rate(100.0)), 20_001);
        gaps.sort_by(f64::total_cmp);
        // Kolmogorov and Smirnov at 0.1 %: 1.95 / sqrt(n).
        let n = gaps.len() as f64;
        let distance = gaps.iter().enumerate().map(|(i, gap)| {
            let expected = 1.0 - (-gap * 100.0).exp();
            (expected - i as f64 / n).abs().max((expected - (i + 1) as f64 / n).abs())
        });
        let distance = distance.fold(0.0, f64::max);
        assert!(distance < 1.95 / n.sqrt(), "{distance}");
    }

    #[test]
    fn constant_gaps_are_all_the_same_and_add_up() {
        let mut times = Process::Constant(rate(400.0)).start(1, 0).unwrap();
        assert_eq!(times.next(), Some(Nanos(2_500_000)));
        assert_eq!(times.nth(399_998), Some(Nanos(1_000_000_000_000)));
    }

    #[test]
    fn a_bursty_process_has_its_mean_and_is_burstier_than_poisson() {
        let stay = Duration::from_millis(100);
        let process = Process::Bursty(vec![
            Burst { rate: rate(10.0), stay: stay * 3 },
            Burst { rate: rate(190.0), stay },
        ]);
        assert!((process.mean_rate().get() - 55.0).abs() < 1e-9);
        let gaps = gaps(&process, 200_000);
        assert!((mean(&gaps) * 55.0 - 1.0).abs() < 0.05, "{}", mean(&gaps));
        let second = mean(&gaps.iter().map(|gap| gap * gap).collect::<Vec<_>>());
        // An exponential gap has 2.
        assert!(second / mean(&gaps).powi(2) > 3.0);
    }

    #[test]
    fn each_hour_of_the_day_has_its_rate_every_day() {
        let mut hours = [rate(0.0); 24];
        (hours[3], hours[20]) = (rate(0.5), rate(2.0));
        let process = Process::Daily(hours);
        let mut counts = [0_u32; 24];
        let week = Nanos(7 * 24 * HOUR_NS);
        for at in process.start(5, 0).unwrap().take_while(|at| *at < week) {
            counts[(at.0 / HOUR_NS) as usize % 24] += 1;
        }
        // 7 x 3600 x rate, within four standard deviations.
        for (hour, count) in counts.into_iter().enumerate() {
            let expected = 7.0 * 3600.0 * hours[hour].get();
            let off = (f64::from(count) - expected).abs();
            assert!(off <= 4.0 * expected.sqrt(), "{hour}: {count}");
        }
    }

    #[test]
    fn seeds_and_streams_are_independent_and_repeat() {
        let process = Process::Poisson(rate(1.0));
        let first = |seed, stream| process.start(seed, stream).unwrap().next();
        assert_eq!(first(1, 0), first(1, 0));
        assert_ne!(first(1, 0), first(1, 1));
        assert_ne!(first(1, 0), first(2, 0));
    }

    #[test]
    fn what_is_no_process_is_refused() {
        for bad in [f64::NAN, -1.0, f64::INFINITY, 0.0] {
            let poisson = Process::Poisson(rate(bad)).start(1, 0);
            assert!(matches!(poisson, Err(ArrivalError::Rate(_))), "{bad}");
        }
        assert_eq!(Process::Bursty(vec![]).start(1, 0).unwrap_err(), ArrivalError::States);
        let silent = Burst { rate: rate(0.0), stay: Duration::from_secs(1) };
        assert!(Process::Bursty(vec![silent]).start(1, 0).is_err());
    }
}
