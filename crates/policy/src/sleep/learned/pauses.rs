//! How soon a new visit begins, by the time since the last one.

use serde::{Deserialize, Serialize};

use super::bands::{band_of, edges};
use super::watched::{MOST, Watched};

/// Pauses between new visits are distinguished by half octaves up to 1.5 days, and beyond.
const PAUSE_BANDS: usize = 36;
const PAUSE_EDGES: [f64; PAUSE_BANDS + 1] = edges(f64::INFINITY);

/// Before they were seen: as if this many pauses had lasted through each band, at the long mean.
const PRIOR_PAUSES: f64 = 2.0;

/// By band, that in seconds of watching.
const PAUSE_WEIGHTS: [f64; PAUSE_BANDS] = {
    let mut weights = [0.0; PAUSE_BANDS];
    let mut band = 0;
    while band < PAUSE_BANDS {
        let from = PAUSE_EDGES[band];
        let longest = if from > 1.0 { from } else { 1.0 };
        let width = PAUSE_EDGES[band + 1] - from;
        weights[band] = PRIOR_PAUSES * if width < longest { width } else { longest };
        band += 1;
    }
    weights
};

/// What is known of pauses fades with each: half in a hundred.
const KEPT_PER_PAUSE: f64 = 0.993;

/// What is below this share of the best rate so far is less, whatever rounding makes of it.
const SURELY_LESS: f64 = 1.0 - 1e-6;

/// How soon a new visit begins, by the time since the last one: visits come in bursts, from links and
/// programs that start at the same minute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Pauses {
    bands: Vec<Watched>,
    /// Seconds since the last new visit.
    age: f64,
    /// For each band, the rate that no band from it on exceeded at the last new visit, the prior apart. Until
    /// the next comes, rates only fall. Empty: not known.
    #[serde(skip)]
    ceilings: Vec<f64>,
}

impl Default for Pauses {
    fn default() -> Self {
        let ceilings = Vec::new();
        Self { bands: vec![Watched::default(); PAUSE_BANDS], age: 0.0, ceilings }
    }
}

impl Pauses {
    /// Arrivals per second in a band, where `long` is the mean of all.
    fn rate_in(&self, band: usize, long: f64) -> f64 {
        let Watched { count, time } = self.prior_and_seen(band, long);
        count / time
    }

    /// What was seen of a band, and the prior: together they are never nothing.
    fn prior_and_seen(&self, band: usize, long: f64) -> Watched {
        let Watched { count, time } = self.bands[band];
        let weight = PAUSE_WEIGHTS[band];
        Watched { count: count + long * weight, time: time + weight }
    }

    pub(super) fn rate(&self, long: f64) -> f64 {
        self.rate_in(band_of(&PAUSE_EDGES, self.age), long)
    }

    /// The rate that makes staying awake most worthwhile: the largest over all times T of the chance that a
    /// visit begins by T, over the mean time until one begins or T is over. Where rates fall with the pause
    /// that is the rate of now; where a visit begins every minute, one a minute.
    pub(super) fn best_rate(&self, long: f64) -> f64 {
        // The largest quotient so far, as its two parts: the rule asks it often, and divisions are slow.
        let (mut begun, mut within) = (0.0_f64, 1.0_f64);
        let (mut not_yet, mut came, mut time) = (1.0, 0.0, 0.0);
        let mut from = self.age;
        for band in band_of(&PAUSE_EDGES, from)..PAUSE_BANDS {
            let Watched { count, time: watched } = self.prior_and_seen(band, long);
            // Of the visits that have not begun yet, 1 / (1 + rate x width) stay away through a band: exact
            // for short ones. The others begin after width / (1 + rate x width) in the mean of all.
            let width = PAUSE_EDGES[band + 1] - from;
            if width.is_finite() {
                let each = not_yet / (watched + count * width);
                came += each * count * width;
                time += each * watched * width;
                not_yet = each * watched;
            } else {
                came += not_yet;
                time += not_yet * watched / count;
                not_yet = 0.0;
            }
            if came * within > begun * time {
                (begun, within) = (came, time);
            }
            // At best all others come at the highest rate of the bands ahead.
            let ceiling = self.ceiling(band + 1, long);
            let is_found = ceiling * within < SURELY_LESS * begun * (time * ceiling + not_yet);
            if not_yet < 0.01 || is_found {
                break;
            }
            from = PAUSE_EDGES[band + 1];
        }
        begun / within
    }

    /// No band from this one on has a higher rate.
    fn ceiling(&self, band: usize, long: f64) -> f64 {
        self.ceilings.get(band).map_or(f64::INFINITY, |&seen| seen.max(long))
    }

    fn take_ceilings(&mut self) {
        self.ceilings.resize(PAUSE_BANDS, 0.0);
        let mut most = 0.0_f64;
        for (ceiling, band) in self.ceilings.iter_mut().zip(&self.bands).rev() {
            // A band without observations has the rate of the prior.
            if band.time > 0.0 {
                most = most.max(band.count / band.time);
            }
            *ceiling = most;
        }
    }

    /// Time passes without arrivals; returns how many would have been expected in it.
    pub(super) fn pass(&mut self, step: f64, long: f64) -> f64 {
        let (mut expected, mut left) = (0.0, step);
        while left > 0.0 {
            let band = band_of(&PAUSE_EDGES, self.age);
            let part = left.min(PAUSE_EDGES[band + 1] - self.age);
            expected += self.rate_in(band, long) * part;
            self.bands[band].time += part;
            self.age += part;
            // What rounding leaves is less than a band can tell.
            left = if part > 1e-9 { left - part } else { 0.0 };
        }
        expected
    }

    pub(super) fn arrived(&mut self) {
        self.bands[band_of(&PAUSE_EDGES, self.age)].count += 1.0;
        self.age = 0.0;
        for band in &mut self.bands {
            band.count *= KEPT_PER_PAUSE;
            band.time *= KEPT_PER_PAUSE;
        }
        self.take_ceilings();
    }

    pub(super) fn is_possible(&self) -> bool {
        let is_possible = |figure: f64| (0.0..=MOST).contains(&figure);
        self.bands.len() == PAUSE_BANDS
            && self.bands.iter().all(|band| is_possible(band.count) && is_possible(band.time))
            && is_possible(self.age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaving_out_bands_whose_rates_are_lower_changes_no_rate() {
        let mut pauses = Pauses::default();
        let mut seed = 1_u64;
        for n in 0..5_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let uniform = (seed >> 11) as f64 / (1_u64 << 53) as f64;
            // Bursts, an hourly program, and now and then no visit for half a day.
            let pause = match n % 7 {
                0 => 3_600.0,
                1 => 40_000.0 * uniform,
                _ => 60.0 * uniform * uniform,
            };
            let long = 1e-5 * (1.0 + 1e3 * uniform);
            for part in [0.1, 0.2, 0.3, 0.4] {
                pauses.pass(part * pause, long);
                let all = Pauses { ceilings: Vec::new(), ..pauses.clone() };
                let (few, all) = (pauses.best_rate(long), all.best_rate(long));
                assert_eq!(few.to_bits(), all.to_bits(), "{few}, not {all}, {n} pauses on");
            }
            pauses.arrived();
        }
    }
}
