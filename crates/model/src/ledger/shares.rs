//! Which part of the proxy is on a bill, as it changes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Mono;

/// Parts from 0 to 1, each from a moment on; all of it before the first.
#[derive(Debug, Clone, Default)]
pub(super) struct Shares {
    /// Oldest first.
    turns: VecDeque<(Mono, f64)>,
}

impl Shares {
    /// From `now` on it is this part.
    pub(super) fn turn(&mut self, now: Mono, share: f64) {
        let share = share.clamp(0.0, 1.0);
        if share.to_bits() != self.now().to_bits() {
            self.turns.push_back((now, share));
        }
    }

    /// The part that it is now.
    pub(super) fn now(&self) -> f64 {
        self.turns.back().map_or(1.0, |it| it.1)
    }

    /// The part of the time between two moments.
    pub(super) fn between(&self, from: Mono, to: Mono) -> Duration {
        let first = self.turns.front().map_or(Mono::NEVER, |it| it.0);
        let before = first.min(to).since(from);
        let ends = self.turns.iter().skip(1).map(|next| next.0).chain([Mono::NEVER]);
        let after = self.turns.iter().zip(ends);
        let after = after.map(|(it, end)| end.min(to).since(it.0.max(from)).mul_f64(it.1));
        before + after.sum::<Duration>()
    }

    /// The mean part between two moments.
    pub(super) fn mean(&self, from: Mono, to: Mono) -> f64 {
        let time = to.since(from).as_secs_f64();
        if time > 0.0 { self.between(from, to).as_secs_f64() / time } else { 0.0 }
    }

    /// Nobody asks for time before `moment` any more.
    pub(super) fn forget_before(&mut self, moment: Mono) {
        while self.turns.get(1).is_some_and(|next| next.0 <= moment) {
            self.turns.pop_front();
        }
    }
}
