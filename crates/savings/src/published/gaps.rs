//! Which lengthens the pauses more: answering from a cache, or sending crawlers away?

use std::time::Duration;

use nightwatt_energy::time::Mono;
use serde::Serialize;

/// Pauses as long as this are the tail: a server can be asleep for most of one.
const LONG: Duration = Duration::from_mins(1);

/// Pauses between the requests of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct GapTail {
    /// Requests in it.
    pub requests: u64,
    /// Pauses of 60 s and more.
    pub long: u64,
    /// Time in these, s.
    pub long_s: f64,
    /// The longest, s.
    pub longest_s: f64,
}

/// A sequence that goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tail {
    figures: GapTail,
    last: Option<Mono>,
}

impl Tail {
    pub(super) fn request(&mut self, at: Mono) {
        self.figures.requests += 1;
        let Some(last) = self.last.replace(at) else { return };
        let gap = at.since(last);
        self.figures.longest_s = self.figures.longest_s.max(gap.as_secs_f64());
        if gap >= LONG {
            self.figures.long += 1;
            self.figures.long_s += gap.as_secs_f64();
        }
    }

    pub(super) const fn figures(&self) -> GapTail {
        self.figures
    }
}
