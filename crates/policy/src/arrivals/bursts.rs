//! Bursts: the two-state Markov-modulated Poisson process.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{ArrivalsError, Rate, exponential, positive, stream};

/// A Poisson process whose rate is high in bursts and low between them; both last exponentially
/// long. It starts in its stationary state: in a burst with the probability [`Bursts::share`].
///
/// With mean rate λ, share p of the time in bursts, and f times the mean rate in a burst, the rates
/// are `λ f` and `λ (1 - p f) / (1 - p)`; a share `p f` of all requests comes in bursts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bursts {
    mean: f64,
    factor: f64,
    share: f64,
    length: f64,
}

impl Bursts {
    /// At `mean` arrivals a second in all, a `share` of the time in bursts of `length` seconds in
    /// the mean, in which `factor` times as many arrive as in the mean.
    pub fn new(mean: Rate, factor: f64, share: f64, length: f64) -> Result<Self, ArrivalsError> {
        let length = positive("the length of a burst", length)?;
        // A share of 1 / factor leaves silence between bursts, which is allowed; rounding may
        // put that a hair above.
        let fits = share > 0.0 && share < 1.0 && factor >= 1.0 && share * factor <= 1.0 + 1e-12;
        if !fits {
            return Err(ArrivalsError::Bursts { factor, share });
        }
        Ok(Self { mean: mean.get(), factor, share, length })
    }

    /// Arrivals in a second, in the long run.
    pub const fn mean_rate(&self) -> f64 {
        self.mean
    }

    /// Share of the time in bursts.
    pub const fn share(&self) -> f64 {
        self.share
    }

    /// Share of the requests that arrive in bursts.
    pub fn share_of_requests(&self) -> f64 {
        (self.share * self.factor).min(1.0)
    }

    /// Arrivals in a second in a burst, and between two.
    pub fn rates(&self) -> (f64, f64) {
        let quiet = self.mean * (1.0 - self.share_of_requests()) / (1.0 - self.share);
        (self.mean * self.factor, quiet)
    }

    /// Mean seconds of a burst, and of the time between two.
    pub fn lengths(&self) -> (f64, f64) {
        (self.length, self.length * (1.0 - self.share) / self.share)
    }

    /// Variance of the count in a long time over its mean: 1 for a Poisson process.
    ///
    /// With rates λ1, λ2 left at rates σ1, σ2 it is
    /// `1 + 2 (λ1 - λ2)² σ1 σ2 / ((σ1 + σ2)² (λ1 σ2 + λ2 σ1))` (Heffes and Lucantoni, IEEE JSAC 4,
    /// 1986).
    pub fn index_of_dispersion(&self) -> f64 {
        let ((burst, quiet), (on, off)) = (self.rates(), self.lengths());
        let (leaves_burst, leaves_quiet) = (on.recip(), off.recip());
        let square = (burst - quiet).powi(2) * leaves_burst * leaves_quiet;
        let both = (leaves_burst + leaves_quiet).powi(2);
        1.0 + 2.0 * square / (both * (burst * leaves_quiet + quiet * leaves_burst))
    }

    pub(super) fn start(self, seed: u64) -> State {
        let mut switching = stream(seed, u64::MAX);
        let in_burst = switching.random::<f64>() < self.share;
        let mut state = State {
            bursts: self,
            in_burst,
            now: 0.0,
            until: 0.0,
            switching,
            arriving: stream(seed, 0),
        };
        state.until = state.length();
        state
    }
}

/// Where a realisation is.
#[derive(Debug, Clone)]
pub(super) struct State {
    bursts: Bursts,
    in_burst: bool,
    now: f64,
    /// When the state changes.
    until: f64,
    switching: ChaCha8Rng,
    arriving: ChaCha8Rng,
}

impl State {
    pub(super) fn next(&mut self) -> f64 {
        // One exponential amount of rate must pass, in however many states.
        let mut left = exponential(&mut self.arriving);
        loop {
            let (burst, quiet) = self.bursts.rates();
            let rate = if self.in_burst { burst } else { quiet };
            let here = rate * (self.until - self.now);
            if left < here {
                self.now += left / rate;
                return self.now;
            }
            left -= here;
            self.now = self.until;
            self.in_burst = !self.in_burst;
            self.until = self.now + self.length();
        }
    }

    fn length(&mut self) -> f64 {
        let (on, off) = self.bursts.lengths();
        exponential(&mut self.switching) * if self.in_burst { on } else { off }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bursts() -> Bursts {
        Bursts::new(Rate::new(10.0).unwrap(), 6.0, 0.1, 2.0).unwrap()
    }

    /// Mean and standard error.
    fn mean(values: &[f64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        (mean, (square / (n - 1.0) / n).sqrt())
    }

    #[test]
    fn the_four_parameters_make_two_rates_and_two_lengths() {
        // 10 % of the time at 60/s leaves 4/s in 90 % of 10/s in all, so 4.44/s there.
        let bursts = bursts();
        let ((burst, quiet), (on, off)) = (bursts.rates(), bursts.lengths());
        assert!((burst - 60.0).abs() < 1e-12 && (quiet - 40.0 / 9.0).abs() < 1e-12, "{quiet}");
        assert!((on - 2.0).abs() < 1e-12 && (off - 18.0).abs() < 1e-12, "{off}");
        assert!((bursts.share_of_requests() - 0.6).abs() < 1e-12);
        let even = Bursts::new(Rate::new(10.0).unwrap(), 1.0, 0.1, 2.0).unwrap();
        assert!((even.index_of_dispersion() - 1.0).abs() < 1e-12, "no bursts: a Poisson process");
    }

    #[test]
    fn rate_and_share_of_bursts_agree_with_their_closed_forms() {
        let bursts = bursts();
        let (mut rates, mut shares) = (Vec::new(), Vec::new());
        for seed in 0..100 {
            let mut state = bursts.start(seed);
            let (mut all, mut within) = (0.0, 0.0);
            while state.next() < 2000.0 {
                all += 1.0;
                within += f64::from(u8::from(state.in_burst));
            }
            rates.push(all / 2000.0);
            shares.push(within / all);
        }
        // A ratio of means is biased by about the square of its relative error, 1 in 10^3 here.
        for (values, expected, bias) in [(rates, 10.0, 0.0), (shares, 0.6, 0.003)] {
            let (mean, error) = mean(&values);
            println!("seeds 0..100: {mean:.4} +- {error:.4}, expected {expected}");
            assert!((mean - expected).abs() < 3.9 * error + bias, "{mean} +- {error}");
            assert!(error / expected < 0.02, "an interval that excludes something: {error}");
        }
    }

    #[test]
    fn counts_vary_as_much_as_the_closed_form_says() {
        let bursts = bursts();
        let window = 180.0;
        let mut counts = vec![0.0; 10_000];
        let mut state = bursts.start(7);
        loop {
            let window = (state.next() / window) as usize;
            let Some(count) = counts.get_mut(window) else { break };
            *count += 1.0;
        }
        let (mean, error) = mean(&counts);
        let seen = error.powi(2) * counts.len() as f64 / mean;
        // In a window of finite length t the part above 1 is smaller by (1 - exp(-r t)) / (r t),
        // with r the sum of the rates of leaving: 1 % here.
        let left_at = 1.0 / 2.0 + 1.0 / 18.0;
        let shortfall = (1.0 - f64::exp(-left_at * window)) / (left_at * window);
        let expected = 1.0 + (bursts.index_of_dispersion() - 1.0) * (1.0 - shortfall);
        println!("seed 7: index of dispersion {seen:.2}, expected {expected:.2}");
        // The variance of n nearly normal counts is known to sqrt(2 / n): 1.4 %.
        assert!((seen / expected - 1.0).abs() < 0.06, "{seen} is not {expected}");
    }
}
