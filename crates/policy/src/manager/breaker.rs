//! Notices a server that is woken again and again for nothing.

use std::time::Duration;

use nightwatt_energy::time::Mono;

/// This many wake-ups in a row that served no request …
const WAKE_UPS: usize = 3;

/// … within this time are a loop.
const WITHIN: Duration = Duration::from_mins(15);

/// A server in a loop is left awake for this long: each round costs more than staying awake, and wears
/// it out.
pub(super) const HOLD: Duration = Duration::from_hours(1);

/// Wake-ups since a request was last served.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    wake_ups: [Option<Mono>; WAKE_UPS],
    /// The last loop is broken until then.
    held_until: Mono,
    loops: u64,
}

impl Breaker {
    /// A request was served: no wake-up so far was for nothing.
    pub(super) fn served(&mut self) {
        self.wake_ups = [None; WAKE_UPS];
    }

    /// It woke. Is that a loop?
    pub(super) fn woke(&mut self, now: Mono) -> bool {
        self.wake_ups.rotate_left(1);
        self.wake_ups[WAKE_UPS - 1] = Some(now);
        let is_loop = self.wake_ups[0].is_some_and(|first| now.since(first) <= WITHIN);
        if is_loop {
            self.served();
            self.loops += 1;
            self.held_until = now + HOLD;
        }
        is_loop
    }

    /// Until when it is held awake because of a loop, if it is.
    pub(super) fn holds(&self, now: Mono) -> Option<Mono> {
        (now < self.held_until).then_some(self.held_until)
    }

    /// Loops found so far.
    pub(super) const fn loops(&self) -> u64 {
        self.loops
    }
}
