//! How many new visits begin per second: several views of the past, weighed by how well each has foretold it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bands::{band_of, edges};
use nightwatt_energy::time::{Mono, Now};

/// Time constants of the running means, s: an hour, six, a day, a week.
const MEMORIES: [f64; 4] = [3_600.0, 21_600.0, 86_400.0, 604_800.0];

/// Views: the running means, the hour of the day, the hour of the day against the last six hours, and the
/// time since the last new visit.
const VIEWS: usize = MEMORIES.len() + 3;

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

/// Before anything was seen: one arrival an hour, believed as if seen for ten hours.
const PRIOR_RATE: f64 = 1.0 / 3_600.0;
const PRIOR_WEIGHT: f64 = 36_000.0;

/// An hour of the day counts by itself once it was watched this long, s.
const HOUR_WEIGHT: f64 = 3_600.0;

/// Time constant of the hours of the day, s: each is watched once a day, so these are two weeks.
const HOUR_MEMORY: f64 = 14.0 * 3_600.0;

/// Time constant of the long mean, s: three weeks.
const LONG_MEMORY: f64 = 21.0 * 86_400.0;

/// No view falls further behind than this (natural logarithm), so that each can come back.
const LEAST_WEIGHT: f64 = -6.0;

/// exp(-6).
const EXP_LEAST_WEIGHT: f64 = 0.002_478_752_176_666_358_5;

/// What is below this share of the best rate so far is less, whatever rounding makes of it.
const SURELY_LESS: f64 = 1.0 - 1e-6;

/// The state is moved on in steps of this, s.
const STEP: f64 = 300.0;

/// A pause longer than this is cut to it, s: by then everything but the long mean is forgotten.
const LONGEST_PAUSE: f64 = 28.0 * 86_400.0;

/// A count read from outside may be no larger. (One more makes no difference to it, so none ever is.)
const MOST: f64 = 1e16;

/// A count with its time of watching, both fading.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Watched {
    count: f64,
    time: f64,
}

impl Watched {
    /// `step` seconds pass, faded by `keep`.
    fn pass(&mut self, step: f64, keep: f64) {
        self.count *= keep;
        self.time = self.time * keep + step;
    }

    /// Arrivals per second, where `weight` seconds at `prior` are believed beside what was seen.
    fn rate(self, prior: f64, weight: f64) -> f64 {
        (self.count + prior * weight) / (self.time + weight)
    }

    /// Can this have come of watching with fading of that time constant?
    fn is_possible(self, memory: f64) -> bool {
        // Fading in steps, the time comes to no more than the time constant and one step.
        (0.0..=MOST).contains(&self.count) && (0.0..=memory + STEP).contains(&self.time)
    }
}

/// Foretells the rate at which new visits ask for the server.
///
/// Each view is the mean of a gamma posterior (a count over a time, with a prior). Their weights are
/// those of Bayesian model averaging over a Poisson process, with forgetting: per step a view loses
/// its rate x time, and gains the logarithm of its rate at each arrival.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Arrivals {
    means: [Watched; MEMORIES.len()],
    hours: [Watched; 24],
    long: Watched,
    pauses: Pauses,
    weights: [f64; VIEWS],
    #[serde(skip)]
    at: Mono,
    /// Time up to `at` that has not been let pass yet.
    unpassed: Duration,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            means: [Watched::default(); MEMORIES.len()],
            hours: [Watched::default(); 24],
            long: Watched::default(),
            pauses: Pauses::default(),
            weights: [0.0; VIEWS],
            at: Mono::ZERO,
            unpassed: Duration::ZERO,
        }
    }
}

impl Arrivals {
    /// The same as of now, for storing.
    pub(super) fn stored(&self, at: Mono) -> Self {
        let unpassed = self.unpassed.saturating_add(at.since(self.at));
        Self { at, unpassed, ..self.clone() }
    }

    /// The same, resumed at this moment, after a stop of that length. The stop passes with the time after it,
    /// as it would have without a stop.
    pub(super) fn resumed(self, at: Mono, stop: Duration) -> Self {
        Self { at, unpassed: self.unpassed.saturating_add(stop), ..self }
    }

    /// Says what cannot be true of what was read from outside.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let means = self.means.iter().zip(MEMORIES);
        let hours = self.hours.iter().map(|hour| (hour, HOUR_MEMORY));
        let mut all = means.chain(hours).chain([(&self.long, LONG_MEMORY)]);
        if !all.all(|(watched, memory)| watched.is_possible(memory)) {
            return Err("a count of arrivals, or its time of watching, cannot be");
        }
        if !self.weights.iter().all(|weight| (LEAST_WEIGHT..=0.0).contains(weight)) {
            return Err("the weight of a view cannot be");
        }
        if !self.pauses.is_possible() {
            return Err("what is known of pauses between visits cannot be");
        }
        Ok(())
    }

    /// Time passes without arrivals, up to now.
    pub(super) fn pass(&mut self, now: Now) {
        let passed = self.unpassed.saturating_add(now.mono.since(self.at)).as_secs_f64();
        self.unpassed = Duration::ZERO;
        self.at = now.mono;
        let mut left = passed.min(LONGEST_PAUSE);
        while left > 0.0 {
            let step = left.min(STEP);
            self.step(hour_of_day(now, left - step / 2.0), step);
            left -= step;
        }
    }

    fn step(&mut self, hour: usize, step: f64) {
        let long = self.long_rate();
        let expected = self.pauses.pass(step, long);
        let views = self.views(hour, long, expected / step);
        let Fades { weights: keep, means, hour: of_hour, long } = Fades::after(step);
        for (weight, view) in self.weights.iter_mut().zip(views) {
            *weight = *weight * keep - view * step;
        }
        self.level_weights();
        for (mean, keep) in self.means.iter_mut().zip(means) {
            mean.pass(step, keep);
        }
        self.hours[hour].pass(step, of_hour);
        self.long.pass(step, long);
    }

    /// A new visit begins; [`pass`](Self::pass) was called before.
    pub(super) fn arrived(&mut self, now: Now) {
        let hour = hour_of_day(now, 0.0);
        let long = self.long_rate();
        let views = self.views(hour, long, self.pauses.rate(long));
        for (weight, view) in self.weights.iter_mut().zip(views) {
            *weight += view.ln();
        }
        self.level_weights();
        for watched in self.means.iter_mut().chain([&mut self.hours[hour], &mut self.long]) {
            watched.count += 1.0;
        }
        self.pauses.arrived();
    }

    /// Arrivals per second to be expected, now and for as long ahead as makes them most; [`pass`] was
    /// called before.
    ///
    /// [`pass`]: Self::pass
    pub(super) fn rate(&self, now: Now) -> f64 {
        let long = self.long_rate();
        let views = self.views(hour_of_day(now, 0.0), long, self.pauses.best_rate(long));
        let (mut sum, mut weights) = (0.0, 0.0);
        for (view, weight) in views.into_iter().zip(self.weights) {
            let weight = weight_of(weight);
            sum += weight * view;
            weights += weight;
        }
        sum / weights
    }

    /// Arrivals per second in the mean of all that is remembered.
    fn long_rate(&self) -> f64 {
        self.long.rate(PRIOR_RATE, PRIOR_WEIGHT)
    }

    /// The rate of each view, beside the long mean. The caller supplies the rate by the time since the last
    /// new visit: it changes within a step.
    fn views(&self, hour: usize, long: f64, by_pause: f64) -> [f64; VIEWS] {
        let mut views = [0.0; VIEWS];
        for ((view, mean), memory) in views.iter_mut().zip(self.means).zip(MEMORIES) {
            *view = mean.rate(long, PRIOR_WEIGHT.min(0.3 * memory));
        }
        let of_hour = self.hours[hour].rate(long, HOUR_WEIGHT);
        views[VIEWS - 3] = of_hour;
        views[VIEWS - 2] = f64::midpoint(of_hour, views[1]);
        views[VIEWS - 1] = by_pause;
        views
    }

    /// The best view's weight is 0, and none lies too far below.
    fn level_weights(&mut self) {
        let best = self.weights.iter().copied().fold(f64::MIN, f64::max);
        for weight in &mut self.weights {
            *weight = (*weight - best).max(LEAST_WEIGHT);
        }
    }
}

/// How soon a new visit begins, by the time since the last one: visits come in bursts, from links and
/// programs that start at the same minute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Pauses {
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

    fn rate(&self, long: f64) -> f64 {
        self.rate_in(band_of(&PAUSE_EDGES, self.age), long)
    }

    /// The rate that makes staying awake most worthwhile: the largest over all times T of the chance that a
    /// visit begins by T, over the mean time until one begins or T is over. Where rates fall with the pause
    /// that is the rate of now; where a visit begins every minute, one a minute.
    fn best_rate(&self, long: f64) -> f64 {
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
    fn pass(&mut self, step: f64, long: f64) -> f64 {
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

    fn arrived(&mut self) {
        self.bands[band_of(&PAUSE_EDGES, self.age)].count += 1.0;
        self.age = 0.0;
        for band in &mut self.bands {
            band.count *= KEPT_PER_PAUSE;
            band.time *= KEPT_PER_PAUSE;
        }
        self.take_ceilings();
    }

    fn is_possible(&self) -> bool {
        let is_possible = |figure: f64| (0.0..=MOST).contains(&figure);
        self.bands.len() == PAUSE_BANDS
            && self.bands.iter().all(|band| is_possible(band.count) && is_possible(band.time))
            && is_possible(self.age)
    }
}

/// What is left of each memory after a step, exp(-step / memory).
struct Fades {
    /// The views' weights: what foretold well three days ago counts a third.
    weights: f64,
    means: [f64; MEMORIES.len()],
    /// Hours of the day.
    hour: f64,
    long: f64,
}

impl Fades {
    /// All memories are whole parts of the longest, so one exponential serves them all.
    fn after(step: f64) -> Self {
        let long = (-step / LONG_MEMORY).exp();
        let week = long * long * long;
        let three_days = week * week * long;
        let day = three_days * three_days * three_days;
        let six_hours = (day * day) * (day * day);
        let hour_of_day = day * (three_days * three_days) * long;
        let hour = (six_hours * six_hours * six_hours) * (six_hours * six_hours * six_hours);
        Self { weights: three_days, means: [hour, six_hours, day, week], hour: hour_of_day, long }
    }
}

/// The weight whose logarithm this is: most views lead, or are as far behind as they can be.
fn weight_of(logarithm: f64) -> f64 {
    if logarithm >= 0.0 {
        1.0
    } else if logarithm <= LEAST_WEIGHT {
        EXP_LEAST_WEIGHT
    } else {
        logarithm.exp()
    }
}

/// Hour of the local day, `ago` seconds before now.
fn hour_of_day(now: Now, ago: f64) -> usize {
    let local = now.wall.secs() + i64::from(now.utc_offset) - ago as i64;
    usize::try_from(local.div_euclid(3600).rem_euclid(24)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nightwatt_energy::time::Wall;

    fn at(second: u64) -> Now {
        let wall = Wall::from_secs(second.cast_signed());
        Now { mono: Mono::from_secs(second), wall, utc_offset: 0 }
    }

    /// Lets a visit begin every `period` seconds from `from` to `to`.
    fn come(arrivals: &mut Arrivals, (from, to): (u64, u64), period: u64) {
        for second in (from..to).step_by(period as usize) {
            arrivals.pass(at(second));
            arrivals.arrived(at(second));
        }
        arrivals.pass(at(to));
    }

    #[test]
    fn each_memory_fades_as_its_time_constant_says() {
        for step in [0.001, 1.0, STEP] {
            let fades = Fades::after(step);
            let pairs = fades.means.into_iter().zip(MEMORIES).chain([
                (fades.weights, 3.0 * 86_400.0),
                (fades.hour, HOUR_MEMORY),
                (fades.long, LONG_MEMORY),
            ]);
            for (fade, memory) in pairs {
                let wanted = (-step / memory).exp();
                assert!((fade - wanted).abs() < 1e-12, "{memory} s: {fade}, not {wanted}");
            }
        }
    }

    #[test]
    fn weights_at_their_bounds_are_exponentials_too() {
        for logarithm in [0.0, -1e-9, -3.0, LEAST_WEIGHT] {
            assert_eq!(weight_of(logarithm).to_bits(), f64::exp(logarithm).to_bits());
        }
    }

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

    #[test]
    fn before_anything_was_seen_one_an_hour_is_expected() {
        let rate = Arrivals::default().rate(at(0));
        assert!((rate * 3600.0 - 1.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn a_steady_rate_is_learned() {
        let mut arrivals = Arrivals::default();
        let week = 7 * 86_400;
        come(&mut arrivals, (0, week), 300);
        arrivals.arrived(at(week));
        for second in [0, 100, 200] {
            arrivals.pass(at(week + second));
            let rate = arrivals.rate(at(week + second));
            let left = 300.0 - second as f64;
            assert!(rate * 300.0 > 0.7 && rate * left < 1.3, "one in {} s", 1.0 / rate);
        }
    }

    #[test]
    fn hours_of_the_day_are_told_apart() {
        let mut arrivals = Arrivals::default();
        let day = 86_400;
        for n in 0..14 {
            come(&mut arrivals, (n * day + 9 * 3600, n * day + 17 * 3600), 60);
        }
        let (before, after) = (14 * day + 8 * 3600 + 3599, 14 * day + 9 * 3600 + 1);
        arrivals.pass(at(before));
        let night = arrivals.rate(at(before));
        arrivals.pass(at(after));
        let morning = arrivals.rate(at(after));
        assert!(morning > 3.0 * night, "{morning} after {night}, though not_yet has come yet");
    }

    #[test]
    fn a_stop_fades_what_is_known_as_the_same_time_without_arrivals_does() {
        let (busy, stop) = (2 * 86_400, 21 * 86_400);
        let mut steady = Arrivals::default();
        come(&mut steady, (0, busy), 60);
        // The clock of the next process starts at 0, and 100 s go by until it asks.
        let mut resumed = steady
            .stored(Mono::from_secs(busy))
            .resumed(Mono::from_secs(5), Duration::from_secs(stop));
        let (long, day) = (steady.long, steady.means[2]);
        let later = at(busy + stop + 100);
        resumed.pass(Now { mono: Mono::from_secs(105), ..later });
        steady.pass(later);
        // Three weeks are one time constant of the long mean, and 21 of the day's.
        let faded = |seconds: f64| (-(stop as f64 + 100.0) / seconds).exp();
        assert!((resumed.long.count / long.count / faded(21.0 * 86_400.0) - 1.0).abs() < 1e-9);
        assert!((resumed.means[2].count / day.count / faded(86_400.0) - 1.0).abs() < 1e-9);
        resumed.at = steady.at;
        assert_eq!(resumed, steady);
    }

    #[test]
    fn between_bursts_nobody_is_expected_and_in_them_more_are() {
        let mut arrivals = Arrivals::default();
        // Ten within a minute at the beginning of each hour.
        for hour in 0..7 * 24 {
            come(&mut arrivals, (hour * 3600, hour * 3600 + 60), 6);
        }
        let hour = 7 * 24 * 3600;
        for (after, least, most) in [(6, 0.1, 5.0), (600, 0.0, 1e-3), (1800, 0.0, 1.5e-3)] {
            let mut then = arrivals.clone();
            then.pass(at(hour));
            then.arrived(at(hour));
            then.pass(at(hour + after));
            let rate = then.rate(at(hour + after));
            assert!((least..most).contains(&rate), "{rate} {after} s after the first");
        }
    }

    #[test]
    fn a_hole_of_two_years_is_passed_quickly_and_leaves_a_sensible_rate() {
        let mut arrivals = Arrivals::default();
        come(&mut arrivals, (0, 86_400), 10);
        let later = 2 * 366 * 86_400;
        arrivals.pass(at(later));
        let rate = arrivals.rate(at(later));
        assert!(rate > 0.0 && rate < 0.01, "{rate}");
    }
}
