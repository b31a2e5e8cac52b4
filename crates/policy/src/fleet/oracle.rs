//! The yardstick: a schedule made with knowledge of the future.

use std::time::Duration;

use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::Mono;

/// How many servers are to be on, and from when on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// In order; the second is how many.
    pub(super) steps: Vec<(Mono, u32)>,
    pub(super) next: usize,
}

impl Schedule {
    /// From steps in order: at each time, this many servers are to be on.
    pub const fn new(steps: Vec<(Mono, u32)>) -> Self {
        Self { steps, next: 0 }
    }

    /// All of them.
    pub fn steps(&self) -> &[(Mono, u32)] {
        &self.steps
    }

    /// How many at `at`, which does not go back.
    pub(super) fn at(&mut self, at: Mono) -> u32 {
        while self.steps.get(self.next).is_some_and(|(from, _)| *from <= at) {
            self.next += 1;
        }
        self.next.checked_sub(1).map_or(0, |step| self.steps[step].1)
    }

    /// When that changes.
    pub(super) fn due(&self) -> Mono {
        self.steps.get(self.next).map_or(Mono::NEVER, |step| step.0)
    }
}

/// Makes the cheapest [`Schedule`] for a demand that is known: how many servers are busy when switching
/// takes no time and costs nothing.
///
/// Level n is needed while at least n are busy. In a gap between two such times the server is off if
/// that saves more than it costs, `(idle - off) x gap > switch + 2 x price`, and on again in time. No
/// schedule of like servers that serves the same demand costs less: what a schedule pays is the sum
/// over levels, and each gap of a level is decided alone (T. Lu, M. Chen, L. L. H. Andrew, 2013).
#[derive(Debug, Clone)]
pub struct Levels {
    /// Since when each level is not needed; `None` while it is.
    since: Vec<Option<Mono>>,
    busy: u32,
    /// Times at which a server more or less is to be on.
    changes: Vec<(Mono, i32)>,
    shortest: Duration,
    ahead: Duration,
    always: u32,
}

impl Levels {
    /// For like servers, of which `always` stay on, that draw `saved` less when off than when idle;
    /// `cycle` is the cost of off and on, transitions included; on again takes `switch_on`, and a
    /// server stays on at least `min_on`.
    pub fn new(
        servers: u32,
        always: u32,
        saved: Watts,
        cycle: Joules,
        switch_on: Duration,
        min_on: Duration,
    ) -> Self {
        let pays = if saved.get() > 0.0 { cycle / saved } else { Duration::MAX };
        Self {
            since: vec![Some(Mono::ZERO); servers as usize],
            busy: 0,
            changes: Vec::new(),
            shortest: pays.max(switch_on.saturating_add(min_on)),
            ahead: switch_on,
            always: always.min(servers),
        }
    }

    /// From `at` on, not before the last call, this many are busy.
    pub fn busy(&mut self, at: Mono, busy: u32) {
        let busy = busy.min(self.since.len() as u32);
        for level in self.busy..busy {
            self.needed(level as usize, at);
        }
        for level in busy..self.busy {
            self.since[level as usize] = Some(at);
        }
        self.busy = busy;
    }

    fn needed(&mut self, level: usize, at: Mono) {
        let Some(since) = self.since[level].take() else { return };
        if (level as u32) < self.always {
            return;
        }
        // Before its first use a server is off, and was not switched.
        let first = since == Mono::ZERO;
        if first || at.since(since) > self.shortest {
            if !first {
                self.changes.push((since, -1));
            }
            self.changes.push((at - self.ahead, 1));
        }
    }

    /// The schedule; servers that are not needed again go off when they are last needed.
    pub fn schedule(mut self) -> Schedule {
        for level in self.always as usize..self.since.len() {
            if let Some(since) = self.since[level].filter(|since| *since != Mono::ZERO) {
                self.changes.push((since, -1));
            }
        }
        self.changes.sort_unstable();
        let mut on = i64::from(self.always);
        let mut steps = vec![(Mono::ZERO, self.always)];
        for (at, change) in self.changes {
            on += i64::from(change);
            let servers = u32::try_from(on).unwrap_or(0);
            match steps.last_mut() {
                Some(last) if last.0 == at => last.1 = servers,
                _ => steps.push((at, servers)),
            }
        }
        Schedule::new(steps)
    }
}
