//! Two meters calibrated against each other while they run, in bounded memory.

use std::collections::VecDeque;
use std::time::Duration;

use super::relation::{PairSums, Relation, is_significant};
use crate::pure::power_log::PowerReading;
use nightwatt_energy::time::Mono;

/// Which of the two meters a reading is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that is to be calibrated.
    Meter,
    /// The one that is believed.
    Reference,
}

/// A running estimate of scale, offset and lag of one meter against another.
///
/// Both are put on a common grid by straight lines between readings; for each lag on the grid sums
/// are kept, and between neighbouring lags the best fraction is found. Memory and the work per grid
/// point are in proportion to the longest lag over the step, and do not grow with time.
#[derive(Debug, Clone)]
pub struct CrossCalibration {
    step: f64,
    /// Grid points that the longest lag spans.
    most: usize,
    meter: Channel,
    reference: Channel,
    /// For lags from `-most` to `most`, each with the lag one step on.
    sums: Vec<PairSums>,
}

impl CrossCalibration {
    /// On a grid of `step` (about the time between readings of the faster meter), for lags up to
    /// `longest_lag` either way. Readings further apart than `longest_gap` are not joined.
    ///
    /// A step of zero is taken as a nanosecond; lags span 1 to 4,096 steps.
    pub fn new(step: Duration, longest_lag: Duration, longest_gap: Duration) -> Self {
        let step = step.max(Duration::from_nanos(1)).as_secs_f64();
        let most = ((longest_lag.as_secs_f64() / step).ceil() as usize).clamp(1, 4096);
        let points = 8 * most + 1024;
        // A gap of more points than are held would only push out what is held.
        let longest_gap = longest_gap.as_secs_f64().min(points as f64 * step);
        let channel = Channel::new(step, longest_gap, points);
        let sums = vec![PairSums::default(); 2 * most];
        Self { step, most, meter: channel.clone(), reference: channel, sums }
    }

    /// Takes a reading. One that is not finite, or not later than the one before of its side, is left
    /// out. Of a mean, give the middle of its interval as the time.
    pub fn push(&mut self, side: Side, reading: PowerReading) {
        match side {
            Side::Meter => self.meter.push(reading),
            Side::Reference => self.reference.push(reading),
        }
        self.advance();
    }

    /// Adds grid points that both sides have with all lags around them.
    fn advance(&mut self) {
        let from = self.meter.start.max(self.reference.start);
        self.meter.drop_before(from);
        self.reference.drop_before(from);
        let window = 2 * self.most + 1;
        while self.meter.values.len().min(self.reference.values.len()) >= window {
            let a = self.meter.values[self.most];
            for (index, sums) in self.sums.iter_mut().enumerate() {
                // Sum `index` is of lag `index - most`: the reference that many points before.
                let at = window - 1 - index;
                sums.add(a, self.reference.values[at], self.reference.values[at - 1]);
            }
            self.meter.pop();
            self.reference.pop();
        }
    }

    /// How many grid points are held of both meters: at most eight times the longest lag, and 1,024,
    /// of each.
    pub fn held(&self) -> usize {
        self.meter.values.len() + self.reference.values.len()
    }

    /// What is known by now; none while the load has not changed enough to tell.
    pub fn relation(&self) -> Option<Relation> {
        let explained = self.sums.iter().map(PairSums::explained);
        let (index, best) = explained.enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let sums = &self.sums[index];
        // Points of the grid between two readings have no error of their own.
        let independent = sums.count().min(self.meter.readings).min(self.reference.readings);
        if !is_significant(best, independent, self.sums.len() as f64) {
            return None;
        }
        sums.relation(index as f64 - self.most as f64, self.step, independent)
    }
}

/// One meter on the grid.
#[derive(Debug, Clone)]
struct Channel {
    step: f64,
    longest_gap: f64,
    /// Points to keep when the other side has stopped.
    most: usize,
    last: Option<(f64, f64)>,
    /// Grid index of the first value; the others follow without a gap.
    start: u64,
    values: VecDeque<f64>,
    /// How many readings were taken.
    readings: f64,
}

impl Channel {
    const fn new(step: f64, longest_gap: f64, most: usize) -> Self {
        let values = VecDeque::new();
        Self { step, longest_gap, most, last: None, start: 0, values, readings: 0.0 }
    }

    fn push(&mut self, PowerReading { time: Mono(time), power }: PowerReading) {
        let (time, power) = (time.as_secs_f64(), power.get());
        if !power.is_finite() || self.last.is_some_and(|(last, _)| time <= last) {
            return;
        }
        self.readings += 1.0;
        let Some((before, from)) = self.last.replace((time, power)) else {
            self.start = (time / self.step).ceil() as u64;
            return;
        };
        if time - before > self.longest_gap {
            self.values.clear();
            self.start = (time / self.step).ceil() as u64;
            return;
        }
        let mut next = self.start + self.values.len() as u64;
        while next as f64 * self.step <= time {
            let share = (next as f64 * self.step - before) / (time - before);
            self.values.push_back(from + share * (power - from));
            next += 1;
            if self.values.len() > self.most {
                self.pop();
            }
        }
    }

    fn pop(&mut self) {
        if self.values.pop_front().is_some() {
            self.start += 1;
        }
    }

    /// Forgets values before a grid index; at most all of them.
    fn drop_before(&mut self, index: u64) {
        let surplus = index.saturating_sub(self.start).min(self.values.len() as u64);
        self.values.drain(..surplus as usize);
        self.start += surplus;
    }
}
