//! Visits: what one person does in one sitting.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use foldhash::fast::FixedState;

use nightwatt_energy::time::Mono;

/// A visit ends after this long without a request.
pub const VISIT_GAP: Duration = Duration::from_mins(30);

/// A visitor: a hash of client address and user agent. Two visitors share one with a chance of about n² /
/// 2^65 among n visitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Visitor(pub u64);

impl Visitor {
    /// The visitor with this address and agent.
    pub fn new(address: &str, agent: Option<&str>) -> Self {
        let mut hasher = DefaultHasher::new();
        (address, agent).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Visits remembered at once; some 50 bytes each.
const MOST_OPEN: usize = 16_384;

/// Counts visits and the delayed ones among them.
#[derive(Debug, Default)]
pub struct Visits {
    open: OpenVisits<bool>,
    delayed: u64,
}

impl Visits {
    /// A request of a visitor, delayed by a sleep or not.
    pub fn request(&mut self, at: Mono, visitor: Visitor, delayed: bool) {
        let was_delayed = self.open.of(at, visitor);
        if delayed && !*was_delayed {
            *was_delayed = true;
            self.delayed += 1;
        }
    }

    /// Visits begun.
    pub const fn visits(&self) -> u64 {
        self.open.begun
    }

    /// Visits of which at least one request was delayed.
    pub const fn delayed(&self) -> u64 {
        self.delayed
    }
}

/// Something of each visit that is going on: those ended are swept out whenever the table has doubled. There
/// is a bound, since a client can call itself something else with every request: beyond it the half that has
/// been quiet longest is forgotten, and those of them that come back count as new visits.
#[derive(Debug, Default)]
pub struct OpenVisits<T> {
    open: HashMap<Visitor, Open<T>, FixedState>,
    sweep_at: usize,
    begun: u64,
}

#[derive(Debug)]
struct Open<T> {
    last: Mono,
    of: T,
}

impl<T: Default> OpenVisits<T> {
    /// What belongs to the visit of which this is a request; the default, if it begins with it.
    pub fn of(&mut self, at: Mono, visitor: Visitor) -> &mut T {
        self.sweep(at);
        let new = || Open { last: Mono::NEVER, of: T::default() };
        let open = self.open.entry(visitor).or_insert_with(new);
        if open.last == Mono::NEVER || at.since(open.last) >= VISIT_GAP {
            self.begun += 1;
            open.of = T::default();
        }
        open.last = at;
        &mut open.of
    }

    fn sweep(&mut self, now: Mono) {
        if self.open.len() < self.sweep_at.max(1024) {
            return;
        }
        self.open.retain(|_, open| now.since(open.last) < VISIT_GAP);
        if self.open.len() >= MOST_OPEN {
            self.forget_half();
        }
        self.sweep_at = (self.open.len() * 2).min(MOST_OPEN);
    }

    fn forget_half(&mut self) {
        let mut lasts: Vec<Mono> = self.open.values().map(|open| open.last).collect();
        let (_, &mut middle, _) = lasts.select_nth_unstable(MOST_OPEN / 2);
        let mut kept = 0;
        // Any number may have come at the same moment.
        self.open.retain(|_, open| {
            kept += usize::from(open.last >= middle);
            open.last >= middle && kept <= MOST_OPEN / 2
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_and_its_images_are_one_visit_delayed_once() {
        let mut visits = Visits::default();
        let ann = Visitor::new("10.0.0.1", Some("Firefox"));
        let ben = Visitor::new("10.0.0.1", Some("Safari"));
        for second in 0..5 {
            visits.request(Mono::from_secs(second), ann, second < 2);
        }
        visits.request(Mono::from_secs(6), ben, false);
        assert_eq!((visits.visits(), visits.delayed()), (2, 1));
        visits.request(Mono::from_secs(4 + 1800), ann, true);
        assert_eq!(
            (visits.visits(), visits.delayed()),
            (3, 2),
            "half an hour later: another visit"
        );
    }

    #[test]
    fn the_table_keeps_only_the_visits_going_on() {
        let mut visits = Visits::default();
        for n in 0..100_000_u64 {
            visits.request(Mono::from_secs(n * 60), Visitor(n), false);
        }
        assert_eq!(visits.visits(), 100_000);
        assert!(visits.open.open.len() <= 2048, "{}", visits.open.open.len());
    }

    #[test]
    fn more_visitors_than_fit_push_out_those_quiet_longest() {
        let mut visits = Visits::default();
        let regular = Visitor(u64::MAX);
        // All within half an hour: at each moment a hundred, and one that keeps coming back.
        for moment in 0..1000 {
            for n in 0..100 {
                visits.request(Mono::from_secs(moment), Visitor(moment * 100 + n), false);
                assert!(visits.open.open.len() <= MOST_OPEN, "{}", visits.open.open.len());
            }
            visits.request(Mono::from_secs(moment), regular, false);
        }
        assert_eq!(visits.visits(), 100_001, "the regular is one visit");
        // However many come at one moment.
        for n in 0..100_000 {
            visits.request(Mono::from_secs(1000), Visitor(1 << 32 | n), false);
        }
        assert!(visits.open.open.len() <= MOST_OPEN, "{}", visits.open.open.len());
    }
}
