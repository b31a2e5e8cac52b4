//! Visits told apart once, for any number of runs over the same requests.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use nightwatt_energy::time::Mono;
use nightwatt_policy::visit::{VISIT_GAP, Visitor};

/// Visits remembered at once; beyond that the half that has been quiet longest is forgotten, and
/// counts as new if it comes back.
const MOST: usize = 1 << 16;

/// A visit, and the seat that it has for as long as it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Visit {
    /// Tells it from all others; later visits have higher numbers.
    pub number: u64,
    /// At any moment no other visit has it. Seats are few: what is kept of visits has room in a list.
    pub seat: u32,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    last: Mono,
    visit: Visit,
}

/// The visits in progress.
#[derive(Debug, Default)]
pub struct VisitBook {
    open: HashMap<Visitor, Open, FixedState>,
    free: Vec<u32>,
    seats: u32,
    begun: u64,
    sweep_at: usize,
}

impl VisitBook {
    /// The visit that a request belongs to. Requests come in the order of time.
    pub fn of(&mut self, at: Mono, visitor: Visitor) -> Visit {
        if let Some(open) = self.open.get_mut(&visitor) {
            if at.since(open.last) >= VISIT_GAP {
                self.begun += 1;
                open.visit.number = self.begun;
            }
            open.last = at;
            return open.visit;
        }
        if self.open.len() >= self.sweep_at {
            self.sweep(at);
        }
        self.begun += 1;
        let seat = self.free.pop().unwrap_or_else(|| {
            self.seats += 1;
            self.seats - 1
        });
        let visit = Visit { number: self.begun, seat };
        self.open.insert(visitor, Open { last: at, visit });
        visit
    }

    fn sweep(&mut self, now: Mono) {
        self.keep(|open| now.since(open.last) < VISIT_GAP);
        if self.open.len() >= MOST / 2 {
            let mut lasts: Vec<Mono> = self.open.values().map(|open| open.last).collect();
            let (_, &mut middle, _) = lasts.select_nth_unstable(self.open.len() / 2);
            self.keep(|open| open.last > middle);
        }
        self.sweep_at = (self.open.len() * 2).clamp(1024, MOST);
    }

    fn keep(&mut self, stays: impl Fn(&Open) -> bool) {
        let free = &mut self.free;
        self.open.retain(|_, open| {
            let stays = stays(open);
            if !stays {
                free.push(open.visit.seat);
            }
            stays
        });
    }
}

/// Counts the visits of one run, and those among them that were delayed.
#[derive(Debug, Default)]
pub struct VisitCount {
    /// By seat: the visit that had it last, and whether it was delayed.
    seats: Vec<(u64, bool)>,
    visits: u64,
    delayed: u64,
}

impl VisitCount {
    /// A request of a visit, delayed by a sleep or not.
    pub fn request(&mut self, visit: Visit, delayed: bool) {
        let seat = visit.seat as usize;
        if seat >= self.seats.len() {
            self.seats.resize(seat + 1, (0, false));
        }
        let (number, was_delayed) = &mut self.seats[seat];
        // A held request is counted when the server wakes: by then another visit may have the seat.
        if *number < visit.number {
            (*number, *was_delayed) = (visit.number, false);
            self.visits += 1;
        }
        if delayed && !*was_delayed {
            *was_delayed = true;
            self.delayed += 1;
        }
    }

    /// Visits begun.
    pub const fn visits(&self) -> u64 {
        self.visits
    }

    /// Visits of which at least one request was delayed.
    pub const fn delayed(&self) -> u64 {
        self.delayed
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_policy::visit::Visits;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_an_hour_of_silence_ends_a_visit() {
        let mut book = VisitBook::default();
        let mut number = |second| book.of(Mono::from_secs(second), Visitor(1)).number;
        assert_eq!([number(0), number(1799), number(3598), number(5398)], [1, 1, 1, 2]);
    }

    #[test]
    fn the_number_of_visits_and_of_seats_is_bounded() {
        let mut book = VisitBook::default();
        for n in 0..1_000_000 {
            book.of(Mono::from_secs(n / 100_000), Visitor(n));
            assert!(book.open.len() <= MOST && book.seats as usize <= MOST);
        }
    }

    proptest! {
        #[test]
        fn counts_are_those_of_the_table_that_the_gateway_keeps(
            requests in proptest::collection::vec((0_u64..1500, 0_u64..40, any::<bool>()), 0..600),
        ) {
            let (mut book, mut count) = (VisitBook::default(), VisitCount::default());
            let mut visits = Visits::default();
            let mut at = Mono::ZERO;
            for (gap, visitor, delayed) in requests {
                at = at + std::time::Duration::from_secs(gap);
                let visitor = Visitor(visitor);
                count.request(book.of(at, visitor), delayed);
                visits.request(at, visitor, delayed);
            }
            prop_assert_eq!(count.visits(), visits.visits());
            prop_assert_eq!(count.delayed(), visits.delayed());
        }
    }
}
