//! How much faster than nominal the DAQ sampled, over stretches long enough to tell.

use std::time::Duration;

use serde::Serialize;

use super::{Alignment, Span};
use nightwatt_energy::time::Mono;

/// The drift over a stretch of the log without a hole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Drift {
    /// Time of its first pin.
    pub from: Mono,
    /// Time of its last pin.
    pub to: Mono,
    /// Samples more than nominal, in parts per million.
    pub ppm: f64,
    /// How far that may be off: half a sample at either end.
    pub within_ppm: f64,
}

impl Alignment {
    /// The drift over stretches of `over` or a little more, for a DAQ of `rate` Hz. Each begins where
    /// the one before ends; what is left before a hole is a shorter one.
    pub fn drifts(&self, over: Duration, rate: f64) -> Vec<Drift> {
        let mut drifts = Vec::new();
        let mut first: Option<Span> = None;
        for (index, span) in self.spans.iter().enumerate() {
            let begin = *first.get_or_insert(*span);
            let next = self.spans.get(index + 1);
            let time = span.to.time.since(begin.from.time);
            if time >= over || next.is_none_or(|next| next.from != span.to) {
                let nominal = time.as_secs_f64() * rate;
                let samples = span.to.position - begin.from.position;
                drifts.push(Drift {
                    from: begin.from.time,
                    to: span.to.time,
                    ppm: (samples / nominal - 1.0) * 1e6,
                    within_ppm: 1e6 / nominal,
                });
                first = None;
            }
        }
        drifts
    }
}
