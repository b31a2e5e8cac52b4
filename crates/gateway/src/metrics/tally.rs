//! Counters for requests: fixed arrays of atomics, without locks or allocation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::lifecycle::Change;

use crate::access_log::Answered;
use crate::wake_cause::WakeCause;
use nightwatt_report::exposition::Counts;

/// Bounds of delays, from an answer out of memory to the longest hold.
const DELAYS: [Duration; 13] = [
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_mins(1),
    Duration::from_mins(2),
];

/// Bounds of wake times, from a process to a machine that boots.
const WAKE_TIMES: [Duration; 11] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(30),
    Duration::from_mins(1),
    Duration::from_mins(2),
    Duration::from_mins(5),
];

fn zeros<const N: usize>() -> [AtomicU64; N] {
    std::array::from_fn(|_| AtomicU64::new(0))
}

fn add_one(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Counts times by their length.
#[derive(Debug)]
struct Histogram<const N: usize> {
    bounds: &'static [Duration; N],
    counts: [AtomicU64; N],
    beyond: AtomicU64,
    nanos: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    fn new(bounds: &'static [Duration; N]) -> Self {
        Self { bounds, counts: zeros(), beyond: AtomicU64::new(0), nanos: AtomicU64::new(0) }
    }

    fn count(&self, took: Duration) {
        let bucket = self.bounds.iter().position(|bound| took <= *bound);
        add_one(bucket.map_or(&self.beyond, |at| &self.counts[at]));
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn counts(&self) -> Counts {
        let buckets = self.bounds.iter().zip(&self.counts);
        Counts {
            buckets: buckets.map(|(bound, count)| (bound.as_secs_f64(), get(count))).collect(),
            beyond: get(&self.beyond),
            sum: Duration::from_nanos(get(&self.nanos)).as_secs_f64(),
        }
    }
}

/// Why the proxy rejected a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Malformed,
    Method,
    TooSlow,
    Length,
    Body,
    Target,
    Site,
    Rate,
    Head,
    Coding,
    NotCached,
    Loop,
    Other,
}

impl Reason {
    pub(crate) const ALL: [Self; 13] = [
        Self::Malformed,
        Self::Method,
        Self::TooSlow,
        Self::Length,
        Self::Body,
        Self::Target,
        Self::Site,
        Self::Rate,
        Self::Head,
        Self::Coding,
        Self::NotCached,
        Self::Loop,
        Self::Other,
    ];

    /// Each reason has a status of its own.
    fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            400 => Self::Malformed,
            405 => Self::Method,
            408 => Self::TooSlow,
            411 => Self::Length,
            413 => Self::Body,
            414 => Self::Target,
            421 => Self::Site,
            429 => Self::Rate,
            431 => Self::Head,
            501 => Self::Coding,
            504 => Self::NotCached,
            508 => Self::Loop,
            _ => Self::Other,
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Method => "method",
            Self::TooSlow => "too-slow",
            Self::Length => "length-missing",
            Self::Body => "body-too-large",
            Self::Target => "target-too-long",
            Self::Site => "no-such-site",
            Self::Rate => "rate",
            Self::Head => "head-too-large",
            Self::Coding => "transfer-coding",
            Self::NotCached => "not-cached",
            Self::Loop => "loop",
            Self::Other => "other",
        }
    }
}

/// The first digit of a status.
pub(crate) const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

const ANSWERS: usize = Answered::ALL.len();
const CLASSES: usize = ClientClass::ALL.len();

/// Threads up to this number count without contention.
const STRIPES: usize = 8;

thread_local! {
    /// The stripe of this thread.
    static STRIPE: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES
    };
}

/// Requests of a site since the start. Threads count in stripes: two threads that add to the same number cost each
/// other some ten times the addition.
#[derive(Debug)]
pub(crate) struct RequestTally(Box<[Stripe; STRIPES]>);

/// Counts of some threads. On cache lines of its own (processors fetch them in pairs).
#[derive(Debug)]
#[repr(align(128))]
struct Stripe {
    requests: [[AtomicU64; CLASSES]; ANSWERS],
    statuses: [AtomicU64; STATUS_CLASSES.len()],
    delays: [Histogram<{ DELAYS.len() }>; ANSWERS],
    refused: [AtomicU64; Reason::ALL.len()],
}

impl Default for RequestTally {
    fn default() -> Self {
        let stripe = |_| Stripe {
            requests: std::array::from_fn(|_| zeros()),
            statuses: zeros(),
            delays: std::array::from_fn(|_| Histogram::new(&DELAYS)),
            refused: zeros(),
        };
        Self(Box::new(std::array::from_fn(stripe)))
    }
}

impl RequestTally {
    fn mine(&self) -> &Stripe {
        &self.0[STRIPE.with(|stripe| *stripe)]
    }

    fn sum(&self, of: impl Fn(&Stripe) -> u64) -> u64 {
        self.0.iter().map(of).sum()
    }

    /// Counts a request: how it was answered, its client's class, the status, and the time from its head to the head of
    /// its answer. This is the whole accounting cost of a request.
    pub(crate) fn count(
        &self,
        class: ClientClass,
        answered: Answered,
        status: StatusCode,
        delay: Duration,
    ) {
        let stripe = self.mine();
        add_one(&stripe.requests[answered as usize][class as usize]);
        let hundreds = usize::from(status.as_u16() / 100).clamp(1, STATUS_CLASSES.len());
        add_one(&stripe.statuses[hundreds - 1]);
        stripe.delays[answered as usize].count(delay);
        if matches!(answered, Answered::Refused | Answered::Limited) {
            self.refuse(status);
        }
    }

    /// Counts a rejected head that could not be parsed.
    pub(crate) fn refuse(&self, status: StatusCode) {
        add_one(&self.mine().refused[Reason::of(status) as usize]);
    }

    pub(crate) fn requests(&self, answered: Answered, class: ClientClass) -> u64 {
        self.sum(|stripe| get(&stripe.requests[answered as usize][class as usize]))
    }

    pub(crate) fn answered(&self, answered: Answered) -> u64 {
        ClientClass::ALL.iter().map(|class| self.requests(answered, *class)).sum()
    }

    pub(crate) fn statuses(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let names = STATUS_CLASSES.into_iter().enumerate();
        names.map(|(at, name)| (name, self.sum(|stripe| get(&stripe.statuses[at]))))
    }

    pub(crate) fn delays(&self, answered: Answered) -> Counts {
        let stripes = self.0.iter().map(|stripe| stripe.delays[answered as usize].counts());
        stripes.reduce(Counts::plus).unwrap_or_default()
    }

    pub(crate) fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let reasons = Reason::ALL.into_iter();
        reasons.map(|it| (it.as_str(), self.sum(|stripe| get(&stripe.refused[it as usize]))))
    }
}

/// Events of a server since the start.
#[derive(Debug)]
pub(crate) struct ServerTally {
    changes: [AtomicU64; Change::ALL.len()],
    wakeups: [AtomicU64; WakeCause::NAMES.len()],
    wake_times: Histogram<{ WAKE_TIMES.len() }>,
}

impl Default for ServerTally {
    fn default() -> Self {
        Self { changes: zeros(), wakeups: zeros(), wake_times: Histogram::new(&WAKE_TIMES) }
    }
}

impl ServerTally {
    /// Counts a change; for a wake-up that begins, with its cause.
    pub(crate) fn changed(&self, change: Change, cause: Option<&WakeCause>) {
        add_one(&self.changes[change as usize]);
        let Some(cause) = cause else { return };
        let at = WakeCause::NAMES.iter().position(|name| *name == cause.as_str());
        if let Some(at) = at {
            add_one(&self.wakeups[at]);
        }
    }

    /// Counts the time from the wake command to the first answer.
    pub(crate) fn woke_in(&self, time: Duration) {
        self.wake_times.count(time);
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Change::ALL.iter().map(|it| (it.as_str(), get(&self.changes[*it as usize])))
    }

    pub(crate) fn failures(&self) -> u64 {
        get(&self.changes[Change::Failed as usize])
    }

    pub(crate) fn wakeups(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        WakeCause::NAMES.into_iter().zip(self.wakeups.iter().map(get))
    }

    pub(crate) fn wake_times(&self) -> Counts {
        self.wake_times.counts()
    }
}

/// Why the proxy sent a request of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Stale,
    Prefetch,
}

/// The result of such a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarmedUp {
    /// What is stored was confirmed by a 304.
    Confirmed,
    /// A new answer was stored.
    Stored,
    /// The answer may not be stored; the stored one is forgotten.
    Dropped,
    /// There was no answer, or no usable one. What is stored stays.
    Failed,
}

const WHYS: [&str; 2] = ["stale", "wish"];
const RESULTS: [&str; 4] = ["confirmed", "stored", "dropped", "failed"];

/// Requests of the proxy's own since the start.
#[derive(Debug)]
pub(crate) struct WarmUpTally([[AtomicU64; RESULTS.len()]; WHYS.len()]);

impl Default for WarmUpTally {
    fn default() -> Self {
        Self(std::array::from_fn(|_| zeros()))
    }
}

impl WarmUpTally {
    pub(crate) fn count(&self, why: Why, result: WarmedUp) {
        add_one(&self.0[why as usize][result as usize]);
    }

    /// Reason, result, count.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        WHYS.into_iter().zip(&self.0).flat_map(|(why, counts)| {
            RESULTS.into_iter().zip(counts).map(move |(result, count)| (why, result, get(count)))
        })
    }
}

/// Clients' connections since the start.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTally {
    open: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Open(Arc<ConnectionTally>);

impl ConnectionTally {
    /// Counts a connection until the returned value is dropped.
    pub(crate) fn accept(self: &Arc<Self>) -> Open {
        add_one(&self.accepted);
        add_one(&self.open);
        Open(Arc::clone(self))
    }

    /// Counts a connection that was closed at once: its client has too many.
    pub(crate) fn refuse(&self) {
        add_one(&self.refused);
    }

    /// Open now, and accepted and refused so far.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (get(&self.open), get(&self.accepted), get(&self.refused))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_at_its_own_place() {
        for (at, answered) in Answered::ALL.iter().enumerate() {
            assert_eq!(*answered as usize, at);
        }
        for (at, class) in ClientClass::ALL.iter().enumerate() {
            assert_eq!(*class as usize, at);
        }
        for (at, change) in Change::ALL.iter().enumerate() {
            assert_eq!(*change as usize, at);
        }
        for (at, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, at);
        }
    }

    #[test]
    fn a_time_is_counted_up_to_its_bound_and_beyond_the_last() {
        let histogram = Histogram::new(&DELAYS);
        for millis in [0, 1, 2, 5, 120_000, 120_001] {
            histogram.count(Duration::from_millis(millis));
        }
        let counts = histogram.counts();
        let counted: Vec<u64> = counts.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(counted, [2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(counts.beyond, 1);
        assert!((counts.sum - 240.009).abs() < 1e-9, "{}", counts.sum);
    }

    #[test]
    fn a_request_is_counted_once_in_each_respect() {
        let tally = RequestTally::default();
        let human = ClientClass::Human;
        let took = Duration::from_millis(3);
        tally.count(human, Answered::Cache, StatusCode::OK, took);
        tally.count(human, Answered::Limited, StatusCode::TOO_MANY_REQUESTS, took);
        tally.count(ClientClass::Api, Answered::Cache, StatusCode::SWITCHING_PROTOCOLS, took);
        assert_eq!(tally.requests(Answered::Cache, human), 1);
        assert_eq!(tally.answered(Answered::Cache), 2);
        let statuses: Vec<u64> = tally.statuses().map(|(_, count)| count).collect();
        assert_eq!(statuses, [1, 1, 0, 1, 0]);
        let refused: Vec<_> = tally.refused().filter(|(_, count)| *count > 0).collect();
        assert_eq!(refused, [("rate", 1)]);
        assert_eq!(tally.delays(Answered::Cache).buckets[1], (0.005, 2));
    }

    #[test]
    fn what_many_threads_count_is_added_up() {
        let tally = RequestTally::default();
        let threads = 3 * STRIPES as u64;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let status = StatusCode::TOO_MANY_REQUESTS;
                        let delay = Duration::from_secs(1);
                        tally.count(ClientClass::Human, Answered::Limited, status, delay);
                    }
                });
            }
        });
        let all = threads * 100;
        assert_eq!(tally.requests(Answered::Limited, ClientClass::Human), all);
        assert_eq!(tally.statuses().map(|(_, count)| count).sum::<u64>(), all);
        assert_eq!(tally.refused().map(|(_, count)| count).sum::<u64>(), all);
        let delays = tally.delays(Answered::Limited);
        assert_eq!(delays.buckets.iter().map(|(_, count)| count).sum::<u64>(), all);
        assert!((delays.sum - all as f64).abs() < 1e-6, "{}", delays.sum);
    }
}
