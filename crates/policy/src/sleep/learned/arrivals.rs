//! How many new visits begin per second: several views of the past, weighed by how well each has foretold it.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use super::pauses::Pauses;
use super::watched::Watched;
use nightwatt_energy::time::{Mono, Now, Wall};

/// Time constants of the running means, s: an hour, six, a day, a week.
const MEMORIES: [f64; 4] = [3_600.0, 21_600.0, 86_400.0, 604_800.0];

/// Views: the running means, the hour of the day, the hour of the day against the last six hours, the time
/// since the last new visit, and the hour on days of this kind (Monday to Friday, or the weekend).
const VIEWS: usize = MEMORIES.len() + 4;

/// Views before weekdays and weekends were distinguished: what was stored then is still read.
const VIEWS_WITHOUT_KINDS_OF_DAY: usize = VIEWS - 1;

/// Before anything was seen: one arrival an hour, believed as if seen for ten hours.
const PRIOR_RATE: f64 = 1.0 / 3_600.0;
const PRIOR_WEIGHT: f64 = 36_000.0;

/// An hour of the day counts by itself once it was watched this long, s.
const HOUR_WEIGHT: f64 = 3_600.0;

/// Time constant of the hours of the day, s: each is watched once a day, so these are two weeks. The same hours
/// of watching are nearly three weeks of working days, and seven weekends.
const HOUR_MEMORY: f64 = 14.0 * 3_600.0;

/// Time constant of the long mean, s: three weeks.
const LONG_MEMORY: f64 = 21.0 * 86_400.0;

/// No view falls further behind than this (natural logarithm), so that each can come back.
const LEAST_WEIGHT: f64 = -6.0;

/// Nothing is preferred at first, except that kinds of days have to prove themselves.
const FIRST_WEIGHTS: [f64; VIEWS] = {
    let mut weights = [0.0; VIEWS];
    weights[VIEWS - 1] = LEAST_WEIGHT;
    weights
};

/// exp(-6).
const EXP_LEAST_WEIGHT: f64 = 0.002_478_752_176_666_358_5;

/// The state is moved on in steps of this, s.
const STEP: f64 = 300.0;

/// A pause longer than this is cut to it, s: by then everything but the long mean is forgotten.
const LONGEST_PAUSE: f64 = 28.0 * 86_400.0;

/// Foretells the rate at which new visits ask for the server.
///
/// Each view is the mean of a gamma posterior (a count over a time, with a prior). Their weights are
/// those of Bayesian model averaging over a Poisson process, with forgetting: per step a view loses
/// its rate x time, and gains the logarithm of its rate at each arrival.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Arrivals {
    means: [Watched; MEMORIES.len()],
    hours: [Watched; 24],
    /// By [`LocalHour::kind_of_day`], the hours of such days.
    #[serde(default)]
    hours_of_kind: [[Watched; 24]; 2],
    long: Watched,
    pauses: Pauses,
    #[serde(deserialize_with = "weights")]
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
            hours_of_kind: [[Watched::default(); 24]; 2],
            long: Watched::default(),
            pauses: Pauses::default(),
            weights: FIRST_WEIGHTS,
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
        let hours = self.hours.iter().chain(self.hours_of_kind.as_flattened());
        let hours = hours.map(|hour| (hour, HOUR_MEMORY));
        let mut all = means.chain(hours).chain([(&self.long, LONG_MEMORY)]);
        if !all.all(|(watched, memory)| watched.is_possible(memory, STEP)) {
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
            self.step(LocalHour::of(now, left - step / 2.0), step);
            left -= step;
        }
    }

    fn step(&mut self, hour: LocalHour, step: f64) {
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
        for watched in self.at_hour(hour) {
            watched.pass(step, of_hour);
        }
        self.long.pass(step, long);
    }

    /// A new visit begins; [`pass`](Self::pass) was called before.
    pub(super) fn arrived(&mut self, now: Now) {
        let hour = LocalHour::of(now, 0.0);
        let long = self.long_rate();
        let views = self.views(hour, long, self.pauses.rate(long));
        for (weight, view) in self.weights.iter_mut().zip(views) {
            *weight += view.ln();
        }
        self.level_weights();
        for watched in self.at_hour(hour) {
            watched.count += 1.0;
        }
        for watched in self.means.iter_mut().chain([&mut self.long]) {
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
        let views = self.views(LocalHour::of(now, 0.0), long, self.pauses.best_rate(long));
        let (mut sum, mut weights) = (0.0, 0.0);
        for (view, weight) in views.into_iter().zip(self.weights) {
            let weight = weight_of(weight);
            sum += weight * view;
            weights += weight;
        }
        sum / weights
    }

    /// What counts an hour: among those of all days, and of days of its kind.
    fn at_hour(&mut self, LocalHour { hour, kind_of_day }: LocalHour) -> [&mut Watched; 2] {
        [&mut self.hours[hour], &mut self.hours_of_kind[kind_of_day][hour]]
    }

    /// Arrivals per second in the mean of all that is remembered.
    fn long_rate(&self) -> f64 {
        self.long.rate(PRIOR_RATE, PRIOR_WEIGHT)
    }

    /// The rate of each view, beside the long mean. The caller supplies the rate by the time since the last
    /// new visit: it changes within a step.
    fn views(&self, hour: LocalHour, long: f64, by_pause: f64) -> [f64; VIEWS] {
        let LocalHour { hour, kind_of_day } = hour;
        let mut views = [0.0; VIEWS];
        for ((view, mean), memory) in views.iter_mut().zip(self.means).zip(MEMORIES) {
            *view = mean.rate(long, PRIOR_WEIGHT.min(0.3 * memory));
        }
        let of_hour = self.hours[hour].rate(long, HOUR_WEIGHT);
        views[VIEWS - 4] = of_hour;
        views[VIEWS - 3] = f64::midpoint(of_hour, views[1]);
        views[VIEWS - 2] = by_pause;
        views[VIEWS - 1] = self.hours_of_kind[kind_of_day][hour].rate(long, HOUR_WEIGHT);
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

/// An hour of the local day, and the kind of that day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LocalHour {
    hour: usize,
    /// 0 from Monday to Friday, 1 on Saturday and Sunday.
    kind_of_day: usize,
}

impl LocalHour {
    /// The hour `ago` seconds before now.
    fn of(now: Now, ago: f64) -> Self {
        let then = Wall::from_secs(now.wall.secs() - ago as i64);
        let hour_of_week = Now { wall: then, ..now }.hour_of_week() as usize;
        Self { hour: hour_of_week % 24, kind_of_day: usize::from(hour_of_week >= 5 * 24) }
    }
}

/// Reads weights of views. Where they were stored without the last view, it begins as it does at first.
fn weights<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[f64; VIEWS], D::Error> {
    let mut weights = Vec::deserialize(deserializer)?;
    if weights.len() == VIEWS_WITHOUT_KINDS_OF_DAY {
        weights.push(FIRST_WEIGHTS[VIEWS - 1]);
    }
    <[f64; VIEWS]>::try_from(weights.as_slice())
        .map_err(|_| serde::de::Error::invalid_length(weights.len(), &"a weight for each view"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn weekends_are_distinguished_from_working_days() {
        let (hour, day) = (3_600, 86_400);
        // 1970-01-05 is a Monday. Four weeks of visits from Monday to Friday, 9:00 to 17:00, one in five minutes.
        let monday = 4 * day;
        let mut arrivals = Arrivals::default();
        for n in (0..28).filter(|n| n % 7 < 5) {
            let midnight = monday + n * day;
            come(&mut arrivals, (midnight + 9 * hour, midnight + 17 * hour), 300);
        }
        let of_day_and_kind = |second: u64| {
            let views = arrivals.views(LocalHour::of(at(second), 0.0), arrivals.long_rate(), 0.0);
            [views[VIEWS - 4], views[VIEWS - 1]].map(|rate| rate * 300.0)
        };
        let ten = |n: u64| monday + n * day + 10 * hour;
        let ([of_day, on_monday], [_, on_saturday]) =
            (of_day_and_kind(ten(0)), of_day_and_kind(ten(5)));
        // Of the seven days, five have visits. A prior of an hour at the mean of all hours counts beside them.
        assert!((0.85..1.05).contains(&on_monday), "{on_monday} in five minutes");
        assert!((0.6..0.85).contains(&of_day), "{of_day} in five minutes on any day");
        assert!(on_saturday < 0.1, "{on_saturday} in five minutes");
        // It has predicted these weeks better than the hour of the day.
        arrivals.pass(at(monday + 28 * day));
        let [by_hour, by_kind] = [VIEWS - 4, VIEWS - 1].map(|view| arrivals.weights[view]);
        assert!(by_kind > by_hour + 1.0, "logarithms of weights {by_kind} and {by_hour}");
        // As long as only working days were watched, their hours are those of all days.
        let mut fresh = Arrivals { at: Mono::from_secs(monday), ..Arrivals::default() };
        for n in 0..5 {
            let midnight = monday + n * day;
            come(&mut fresh, (midnight + 9 * hour, midnight + 17 * hour), 300);
        }
        let friday = monday + 4 * day + 17 * hour;
        let views = fresh.views(LocalHour::of(at(friday), 1.0), fresh.long_rate(), 0.0);
        assert_eq!(views[VIEWS - 1].to_bits(), views[VIEWS - 4].to_bits());
    }

    #[test]
    fn what_was_stored_without_kinds_of_day_is_read() {
        let mut arrivals = Arrivals::default();
        come(&mut arrivals, (0, 7 * 86_400), 300);
        let mut stored =
            serde_json::to_value(arrivals.stored(Mono::from_secs(7 * 86_400))).unwrap();
        let lessons = stored.as_object_mut().unwrap();
        lessons.remove("hours_of_kind");
        lessons["weights"].as_array_mut().unwrap().pop();
        let read: Arrivals = serde_json::from_value(stored).unwrap();
        read.check().unwrap();
        assert_eq!(read.hours, arrivals.hours);
        assert_eq!(read.weights[..VIEWS - 1], arrivals.weights[..VIEWS - 1]);
        assert_eq!(read.weights[VIEWS - 1].to_bits(), LEAST_WEIGHT.to_bits());
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
