//! What happens next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use nightwatt_energy::time::Nanos;

/// Something that happens to a server at a time, in one number that sorts by time, and at one time by
/// what it is: answers first, then servers that are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event(u128);

/// The server is ready. Without this bit: it has answered a request.
pub(super) const READY: u32 = 1 << 31;

impl Event {
    /// Later than all others.
    const NEVER: Self = Self(u128::MAX);

    #[inline]
    pub(super) fn new(at: Nanos, what: u32) -> Self {
        Self(u128::from(at.0) << 32 | u128::from(what))
    }

    #[inline]
    pub(super) const fn at(self) -> Nanos {
        Nanos((self.0 >> 32) as u64)
    }

    #[inline]
    pub(super) const fn what(self) -> u32 {
        self.0 as u32
    }
}

/// Places from the end at which a new event is looked for.
const STEPS: usize = 16;

/// Events to come. The next one is kept apart from the others: it is looked at far more often than it
/// changes, and many an event comes and goes as the only one. Of the others, those that belong at or
/// near the end of a list in order are put there: all of them where servers are few, or where services
/// take the same time. The rest is in a heap.
#[derive(Debug)]
pub(super) struct Agenda {
    next: Event,
    /// In order.
    list: VecDeque<Event>,
    heap: BinaryHeap<Reverse<Event>>,
}

impl Agenda {
    pub(super) fn new() -> Self {
        Self {
            next: Event::NEVER,
            list: VecDeque::with_capacity(1024),
            heap: BinaryHeap::with_capacity(1024),
        }
    }

    /// When something happens next; [`Nanos::NEVER`] if nothing does.
    #[inline]
    pub(super) const fn due(&self) -> Nanos {
        self.next.at()
    }

    #[inline]
    pub(super) fn push(&mut self, event: Event) {
        if event >= self.next {
            self.push_later(event);
        } else {
            let next = std::mem::replace(&mut self.next, event);
            if next != Event::NEVER {
                self.list.push_front(next);
            }
        }
    }

    #[inline]
    fn push_later(&mut self, event: Event) {
        if self.list.back().is_some_and(|last| *last > event) {
            self.insert(event);
        } else {
            self.list.push_back(event);
        }
    }

    /// Puts an event before the last one of the list. (Apart, so that the rest is inlined.)
    fn insert(&mut self, event: Event) {
        let len = self.list.len();
        let least = len.saturating_sub(STEPS);
        let mut place = len - 1;
        while place > least && self.list[place - 1] > event {
            place -= 1;
        }
        if place > least || place == 0 {
            self.list.insert(place, event);
        } else {
            self.heap.push(Reverse(event));
        }
    }

    /// The next event, which must be due.
    #[inline]
    pub(super) fn pop(&mut self) -> Event {
        let listed = self.list.front().copied().unwrap_or(Event::NEVER);
        let next = match self.heap.peek() {
            Some(&Reverse(event)) if event < listed => {
                self.heap.pop();
                event
            }
            _ => {
                self.list.pop_front();
                listed
            }
        };
        std::mem::replace(&mut self.next, next)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_in_the_order_of_time_and_answers_before_readiness(
            steps in proptest::collection::vec(
                (any::<bool>(), 0_u64..20, 0_u32..3, any::<bool>()), 0..200,
            ),
        ) {
            let (mut agenda, mut all) = (Agenda::new(), Vec::new());
            for (push, at, server, ready) in steps {
                if push {
                    let what = server | if ready { READY } else { 0 };
                    agenda.push(Event::new(Nanos(at), what));
                    all.push((at, ready, server));
                } else if !all.is_empty() {
                    all.sort_unstable();
                    let (at, ready, server) = all.remove(0);
                    prop_assert_eq!(agenda.due(), Nanos(at));
                    let event = agenda.pop();
                    prop_assert_eq!(event.at(), Nanos(at));
                    prop_assert_eq!(event.what() & READY != 0, ready);
                    prop_assert_eq!(event.what() & !READY, server);
                }
                prop_assert!(!all.is_empty() || agenda.due() == Nanos::NEVER);
            }
        }
    }
}
