//! When requests arrive: constant, Poisson, in bursts (MMPP), along a profile such as a day, by the
//! counts of a log, or at the times of a trace.
//!
//! [`Arrivals`] is the process, [`Arrivals::times`] one realisation of it: ascending seconds since
//! the start, made one by one as they are asked for. The same process and seed give the same times,
//! on any machine and number of threads. Rates are in 1/s, times and lengths in seconds.

mod bursts;
mod counts;
mod profile;
mod trace;

pub use bursts::Bursts;
pub use counts::Counts;
pub use profile::Profile;
pub use trace::Trace;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::Exp1;

/// Parameters that make no process.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ArrivalsError {
    /// A rate, length or factor that is not a finite number above zero.
    #[error("{what} is {value}; it must be a number above 0")]
    NotPositive {
        /// What it was given for.
        what: &'static str,
        /// As given.
        value: f64,
    },
    /// Nothing would be left for the time between bursts, or the whole time would be a burst.
    #[error(
        "bursts at {factor} times the mean rate cannot fill {share} of the time; the share must lie \
         between 0 and 1, the factor between 1 and 1 / share"
    )]
    Bursts {
        /// Rate in a burst over the mean rate.
        factor: f64,
        /// Share of the time in bursts.
        share: f64,
    },
    /// A rate of a profile that is negative or no number, or all of them zero.
    #[error("step {step} of the profile is {value}; rates are 0 or more, and not all of them 0")]
    Profile {
        /// Which one, from 0.
        step: usize,
        /// As given.
        value: f64,
    },
    /// A profile without a single step.
    #[error("the profile has no steps; give one rate or more")]
    NoSteps,
    /// Counts that are all zero.
    #[error("nothing arrives: all counts are 0")]
    Nothing,
    /// A peak that the sine cannot have.
    #[error("the peak is {0} times the mean; with a sine it lies between 1 and 2")]
    Peak(f64),
    /// A time of a trace that is no finite number.
    #[error("time {index} of the trace is {value}; times are finite numbers of seconds")]
    Time {
        /// Which one, from 0, as given.
        index: usize,
        /// As given.
        value: f64,
    },
}

/// A process by which requests arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Evenly spaced, the first one at once.
    Constant(Rate),
    /// Independent of each other: exponential gaps.
    Poisson(Rate),
    /// A Poisson process whose rate switches between two values at random: MMPP(2).
    Bursts(Bursts),
    /// A Poisson process whose rate follows a profile, such as a day.
    Profile(Profile),
    /// So many in each second, or other steps.
    Counts(Counts),
    /// At these times, and then no more.
    Trace(Trace),
}

/// Arrivals in a second: finite, above zero.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// So many a second.
    pub fn new(per_second: f64) -> Result<Self, ArrivalsError> {
        positive("the rate", per_second).map(Self)
    }

    /// Arrivals in a second.
    pub const fn get(self) -> f64 {
        self.0
    }
}

fn positive(what: &'static str, value: f64) -> Result<f64, ArrivalsError> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(ArrivalsError::NotPositive { what, value })
    }
}

impl Arrivals {
    /// Arrivals in a second in the long run: over whole periods of a profile that repeats, over all
    /// of one that does not. `None` for a trace of fewer than two different times.
    pub fn mean_rate(&self) -> Option<f64> {
        match self {
            Self::Constant(rate) | Self::Poisson(rate) => Some(rate.0),
            Self::Bursts(bursts) => Some(bursts.mean_rate()),
            Self::Profile(profile) => Some(profile.mean_rate()),
            Self::Counts(counts) => Some(counts.mean_rate()),
            Self::Trace(trace) => trace.mean_rate(),
        }
    }

    /// Seconds after which rates repeat themselves: of a profile that does so.
    pub fn period(&self) -> Option<f64> {
        match self {
            Self::Profile(profile) if profile.repeats() => Some(profile.length()),
            _ => None,
        }
    }

    /// One realisation: seconds since the start, ascending. It ends only where counts, a trace or a
    /// profile that does not repeat end.
    ///
    /// Constant arrivals and traces have nothing random and ignore the seed.
    pub fn times(&self, seed: u64) -> Times {
        Times(match self {
            Self::Constant(rate) => Kind::Constant { rate: rate.0, next: 0 },
            Self::Poisson(rate) => Kind::Poisson(Box::new(Poisson::start(rate.0, seed))),
            Self::Bursts(bursts) => Kind::Bursts(Box::new(bursts.start(seed))),
            Self::Profile(profile) => Kind::Profile(profile.clone().start(seed)),
            Self::Counts(counts) => Kind::Counts(counts.clone().start(seed)),
            Self::Trace(trace) => Kind::Trace { trace: trace.clone(), next: 0 },
        })
    }
}

/// One realisation of [`Arrivals`]: ascending seconds since the start.
#[derive(Debug, Clone)]
pub struct Times(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Constant { rate: f64, next: u64 },
    Poisson(Box<Poisson>),
    Bursts(Box<bursts::State>),
    Profile(profile::State),
    Counts(counts::State),
    Trace { trace: Trace, next: usize },
}

/// Gaps drawn at a time: a loop that does nothing else draws them in half the time.
const GAPS: usize = 64;

#[derive(Debug, Clone)]
struct Poisson {
    rate: f64,
    now: f64,
    gaps: [f64; GAPS],
    next: usize,
    random: ChaCha8Rng,
}

impl Poisson {
    fn start(rate: f64, seed: u64) -> Self {
        Self { rate, now: 0.0, gaps: [0.0; GAPS], next: GAPS, random: stream(seed, 0) }
    }

    #[inline]
    fn next(&mut self) -> f64 {
        if self.next == GAPS {
            self.draw();
        }
        self.now += self.gaps[self.next];
        self.next += 1;
        self.now
    }

    #[inline(never)]
    fn draw(&mut self) {
        for gap in &mut self.gaps {
            *gap = exponential(&mut self.random) / self.rate;
        }
        self.next = 0;
    }
}

impl Iterator for Times {
    type Item = f64;

    #[inline]
    fn next(&mut self) -> Option<f64> {
        match &mut self.0 {
            // Not by adding up gaps: their errors would add up too.
            Kind::Constant { rate, next } => {
                let time = *next as f64 / *rate;
                *next += 1;
                Some(time)
            }
            Kind::Poisson(state) => Some(state.next()),
            Kind::Bursts(state) => Some(state.next()),
            Kind::Profile(state) => state.next(),
            Kind::Counts(state) => state.next(),
            Kind::Trace { trace, next } => {
                let time = trace.time(*next)?;
                *next += 1;
                Some(time)
            }
        }
    }
}

/// A random stream for each use, so that one use does not shift the numbers of another. Streams 0 and
/// [`u64::MAX`] of a seed belong to arrivals; any other use of the seed takes other streams.
fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(number);
    random
}

/// Exponential with mean 1.
#[inline]
fn exponential(random: &mut ChaCha8Rng) -> f64 {
    random.sample(Exp1)
}

#[cfg(test)]
mod tests;
