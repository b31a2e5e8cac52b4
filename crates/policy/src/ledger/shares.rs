//! Which part of the proxy is on a bill, as it changes.

use std::collections::VecDeque;
use std::time::Duration;

use nightwatt_energy::time::Mono;

/// Parts from 0 to 1, each from a moment on.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    /// Before the first turn.
    first: f64,
    /// Oldest first.
    turns: VecDeque<(Mono, f64)>,
}

impl Shares {
    pub(super) fn new(first: f64) -> Self {
        Self { first, turns: VecDeque::new() }
    }

    /// From `now` on it is this part. Is that another one than before?
    pub(super) fn turn(&mut self, now: Mono, part: f64) -> bool {
        let turns = part.to_bits() != self.now().to_bits();
        if turns {
            self.turns.push_back((now, part));
        }
        turns
    }

    /// The part that it is now.
    pub(super) fn now(&self) -> f64 {
        self.turns.back().map_or(self.first, |it| it.1)
    }

    /// The part of the time between two moments.
    pub(super) fn between(&self, from: Mono, to: Mono) -> Duration {
        let ends = self.turns.iter().map(|it| it.0).chain([Mono::NEVER]);
        let parts = [(Mono::ZERO, self.first)].into_iter().chain(self.turns.iter().copied());
        let each = parts.zip(ends);
        each.map(|((begins, part), end)| end.min(to).since(begins.max(from)).mul_f64(part)).sum()
    }

    /// The mean part between two moments.
    pub(super) fn mean(&self, from: Mono, to: Mono) -> f64 {
        let time = to.since(from).as_secs_f64();
        if time > 0.0 { self.between(from, to).as_secs_f64() / time } else { 0.0 }
    }

    /// Drops what is known of the time before `moment`, which is no longer asked for.
    pub(super) fn forget_before(&mut self, moment: Mono) {
        while let Some((_, part)) = self.turns.pop_front_if(|it| it.0 <= moment) {
            self.first = part;
        }
    }
}
