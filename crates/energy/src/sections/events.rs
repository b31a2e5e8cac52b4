//! Calls one by one, and what each drew.

use std::collections::VecDeque;
use std::time::Duration;

use crate::quantity::{Joules, Watts};
use crate::time::Mono;

/// A call of a section that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEvent {
    /// When it began.
    pub begin: Mono,
    /// When it ended; of one that was left by another way, when that was seen.
    pub end: Mono,
    /// Of that, on a CPU, nested sections included.
    pub ran: Duration,
    /// Of that, ready to run while another thread had the CPU.
    pub preempted: Duration,
    /// Between `begin` and `end`, what the kernel needed to single-step behind probes: no part of its length.
    pub stepped: Duration,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Of which section.
    pub section: usize,
    /// The section right around it.
    pub outer: Option<usize>,
    /// How many sections there were around it.
    pub depth: u32,
    /// Left by another way than its end: `longjmp`, an exception, the end of its thread.
    pub is_left: bool,
}

impl CallEvent {
    /// From its begin to its end, without what probes cost it.
    pub fn length(&self) -> Duration {
        self.end.since(self.begin).saturating_sub(self.stepped)
    }
}

/// Slices that are kept; a call that began before all of them has no energy.
const MOST: usize = 1 << 17;

/// What a busy CPU drew above the idle machine, from one reading of a meter to the next.
///
/// A call gets the mean over its time, for as long as it was on a CPU. So calls of one slice that do
/// not lie in each other get no more together than [`super::Shares`] gives to their sections.
#[derive(Debug, Clone)]
pub struct Rates {
    begin: Mono,
    slices: VecDeque<(Mono, Option<Watts>)>,
}

impl Rates {
    /// Nothing is known of what was before.
    pub const fn since(begin: Mono) -> Self {
        Self { begin, slices: VecDeque::new() }
    }

    /// Adds the power of a busy CPU from the last reading to this one; `None` if unknown.
    pub fn add(&mut self, until: Mono, watts: Option<Watts>) {
        if self.slices.len() == MOST
            && let Some((gone, _)) = self.slices.pop_front()
        {
            self.begin = gone;
        }
        self.slices.push_back((until, watts));
    }

    /// When the last reading was.
    pub fn end(&self) -> Mono {
        self.slices.back().map_or(self.begin, |(until, _)| *until)
    }

    /// What a call drew; `None` where part of its time is not known.
    pub fn joules(&self, call: &CallEvent) -> Option<Joules> {
        if call.begin < self.begin {
            return None;
        }
        let (mut at, mut sum) = (call.begin, Joules::ZERO);
        let first = self.slices.partition_point(|(until, _)| *until <= at);
        for (until, watts) in self.slices.range(first..) {
            let until = (*until).min(call.end);
            sum += (*watts)? * until.since(at);
            at = until;
            if at >= call.end {
                let length = call.end.since(call.begin).as_secs_f64();
                let on_cpu = call.ran.as_secs_f64();
                return Some(if length > 0.0 { sum * (on_cpu / length) } else { Joules::ZERO });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono(Duration::from_millis(ms))
    }

    fn call(begin: u64, end: u64, ran: u64) -> CallEvent {
        CallEvent {
            begin: at(begin),
            end: at(end),
            ran: Duration::from_millis(ran),
            preempted: Duration::ZERO,
            stepped: Duration::ZERO,
            pid: 1,
            tid: 1,
            section: 0,
            outer: None,
            depth: 0,
            is_left: false,
        }
    }

    /// 10 W up to 1100 ms, then 30 W up to 1200 ms, nothing known up to 1300, 20 W up to 1400.
    fn rates() -> Rates {
        let mut rates = Rates::since(at(1000));
        for (until, watts) in
            [(1100, Some(10.0)), (1200, Some(30.0)), (1300, None), (1400, Some(20.0))]
        {
            rates.add(at(until), watts.map(Watts));
        }
        rates
    }

    #[test]
    fn a_call_draws_what_a_cpu_drew_while_it_was_on_one() {
        let joules = |begin, end, ran| rates().joules(&call(begin, end, ran)).map(Joules::get);
        let is = |found: Option<f64>, joules: f64| (found.unwrap() - joules).abs() < 1e-12;
        // Within one slice: 20 ms at 10 W; half of that where it waited for as long as it ran.
        assert!(is(joules(1010, 1030, 20), 0.2) && is(joules(1010, 1030, 10), 0.1));
        // Across two: 40 ms at 10 W and 20 ms at 30 W; where it ran for half of it is not known.
        assert!(is(joules(1060, 1120, 60), 1.0) && is(joules(1060, 1120, 30), 0.5));
        assert!(is(joules(1300, 1400, 100), 2.0), "from reading to reading");
        assert!(is(joules(1350, 1350, 0), 0.0));
    }

    #[test]
    fn what_is_not_known_is_not_told() {
        for (begin, end) in [(990, 1010), (1150, 1250), (1190, 1310), (1390, 1401), (1500, 1500)] {
            assert_eq!(rates().joules(&call(begin, end, 1)), None, "{begin} to {end}");
        }
        assert_eq!(rates().end(), at(1400));
        assert_eq!(Rates::since(at(7)).end(), at(7));
    }

    #[test]
    fn however_long_it_goes_on_memory_does_not_grow() {
        let mut rates = Rates::since(at(0));
        let slices = MOST as u64 + 10;
        for slice in 1..=slices {
            rates.add(at(slice), Some(Watts(1.0)));
        }
        assert_eq!(rates.slices.len(), MOST);
        assert_eq!(rates.joules(&call(5, 15, 10)), None, "that is forgotten");
        let joules = rates.joules(&call(10, slices, slices - 10)).unwrap().get();
        assert!((joules / (MOST as f64 / 1000.0) - 1.0).abs() < 1e-9, "{joules}");
    }
}
