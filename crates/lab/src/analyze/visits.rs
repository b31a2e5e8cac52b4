//! Visits in progress, with something kept of each.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use nightwatt_model::time::Mono;
use nightwatt_model::visit::{VISIT_GAP, Visitor};

/// Visits remembered at once; beyond that those quiet longest are forgotten, and count as new if
/// they come back.
const MOST: usize = 1 << 16;

/// The visits in progress.
#[derive(Debug)]
pub(super) struct InProgress<T> {
    open: HashMap<Visitor, (Mono, T), FixedState>,
    sweep_at: usize,
}

impl<T> Default for InProgress<T> {
    fn default() -> Self {
        Self { open: HashMap::default(), sweep_at: 1024 }
    }
}

impl<T: Default> InProgress<T> {
    /// What is kept of the visit that a request belongs to.
    pub(super) fn of(&mut self, at: Mono, visitor: Visitor) -> &mut T {
        if self.open.len() >= self.sweep_at {
            self.open.retain(|_, (last, _)| at.since(*last) < VISIT_GAP);
            if self.open.len() >= MOST / 2 {
                let mut lasts: Vec<Mono> = self.open.values().map(|(last, _)| *last).collect();
                let (_, &mut middle, _) = lasts.select_nth_unstable(self.open.len() / 2);
                self.open.retain(|_, (last, _)| *last > middle);
            }
            self.sweep_at = (self.open.len() * 2).clamp(1024, MOST);
        }
        let (last, kept) = self.open.entry(visitor).or_insert_with(|| (at, T::default()));
        if at.since(*last) >= VISIT_GAP {
            *kept = T::default();
        }
        *last = at;
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_hour_of_silence_ends_a_visit() {
        let mut visits = InProgress::<u32>::default();
        let mut count = |second: u64| {
            let kept = visits.of(Mono::from_secs(second), Visitor(1));
            *kept += 1;
            *kept
        };
        assert_eq!([count(0), count(1799), count(3598), count(5398)], [1, 2, 3, 1]);
    }

    #[test]
    fn the_number_of_visits_is_bounded() {
        let mut visits = InProgress::<u32>::default();
        for n in 0..1_000_000 {
            *visits.of(Mono::from_secs(n / 100_000), Visitor(n)) += 1;
            assert!(visits.open.len() <= MOST);
        }
    }
}
