//! Open-loop replay: each request leaves when the log says, whatever became of those before; only behind a
//! waiting page a browser sends nothing until the page opens.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::stats::percentile;
use nightwatt_energy::time::{Mono, Now};
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::visit::Visitor;
use nightwatt_traffic::Arrival;
use serde::Serialize;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::answer::Answer;
use crate::error::Error;
use crate::exchange::Client;
use crate::outcome::{ErrorKind, Outcome, RequestKind};
use crate::pool::Pool;
use crate::refusals::Refusals;
use crate::request::{Plan, RequestOptions};
use crate::target::Target;
use crate::visit::{ClientBehaviour, Visit};
pub use crate::visit::{Returning, Waiting};
use crate::waiting_pages::WaitingPages;

/// So many of the arrivals that cannot be sent are kept as samples.
const SAMPLES: usize = 20;

/// A request that leaves later than this after its time makes the client suspect. Sleeping is
/// exact to about a millisecond.
const LAG_TOLERATED: Duration = Duration::from_millis(10);

/// Size taken for a resource that the log only ever answers with 304.
const UNKNOWN_SIZE: u64 = 4096;

/// Tells the class of an arrival's client.
pub type ClassOf = Arc<dyn Fn(&Arrival) -> ClientClass + Send + Sync>;

/// How to replay.
#[derive(Clone)]
pub struct Options {
    /// So many times faster than the log; 1 with a virtual clock.
    pub speed: f64,
    /// Ids are `<prefix>-<index of the arrival>`, with a suffix for what follows from it.
    pub id_prefix: String,
    /// Name the logged client in `X-Forwarded-For`.
    pub forwarded_for: bool,
    /// Leave out what only the log-backed origin understands: for real servers.
    pub plain: bool,
    /// Ask the log-backed origin for no more than so many bytes an answer.
    pub body_limit: Option<u64>,
    /// Give a request up after this time.
    pub timeout: Duration,
    /// What browsers do with a waiting page.
    pub waiting: Waiting,
    /// Whether crawlers come back when told to.
    pub returning: Option<Returning>,
    /// At most so many connections; else as many as the system allows.
    pub max_open: Option<usize>,
    /// Tells the class of an arrival's client; asked once per arrival, in order of time. Only
    /// crawlers come back.
    pub class_of: ClassOf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            speed: 1.0,
            id_prefix: "replay".into(),
            forwarded_for: true,
            plain: false,
            body_limit: None,
            timeout: Duration::from_mins(1),
            waiting: Waiting::Poll { every: Duration::from_secs(1), cap: Duration::from_mins(5) },
            returning: Some(Returning { times: 3, horizon: Duration::from_hours(24) }),
            max_open: None,
            class_of: Arc::new(|_| ClientClass::Human),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("speed", &self.speed)
            .field("id_prefix", &self.id_prefix)
            .field("plain", &self.plain)
            .field("timeout", &self.timeout)
            .field("waiting", &self.waiting)
            .field("returning", &self.returning)
            .finish_non_exhaustive()
    }
}

/// How far a replay is; told after every request sent and every answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Arrivals there are.
    pub total: usize,
    /// Arrivals whose time has come.
    pub sent: usize,
    /// Arrivals answered or given up.
    pub done: usize,
    /// Reopened pages, crawlers' returns and polls so far.
    pub follow_ups: usize,
    /// Clock time since the start.
    pub elapsed: Duration,
}

/// How late requests left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Lag {
    /// The latest of all.
    pub max: Duration,
    /// All but one in a hundred were no later than this.
    pub p99: Duration,
}

/// An arrival that HTTP cannot express.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unsendable {
    /// Index of the arrival.
    pub arrival: usize,
    /// As logged.
    pub method: String,
    /// As logged.
    pub target: String,
    /// Why not.
    pub why: &'static str,
}

/// What a replay brought.
#[derive(Debug, Clone)]
pub struct Run {
    /// When it began.
    pub started: Now,
    /// When the last answer was in.
    pub ended: Now,
    /// By arrival; each arrival's trace request first, then what followed from it, in order.
    pub outcomes: Vec<Outcome>,
    /// The first few arrivals that could not be sent; all of them are among the outcomes.
    pub unsendable_samples: Vec<Unsendable>,
    /// Requests in which a header was changed because HTTP does not allow its bytes.
    pub altered: u64,
    /// Requests that had to wait for, or did not get, a connection because this machine had none.
    pub client_limited: u64,
    /// How late requests left.
    pub lag: Lag,
    /// Connections opened.
    pub connections: u64,
    /// Requests sent again because a kept connection had died under them.
    pub resent: u64,
}

impl Run {
    /// Arrivals that could not be sent.
    pub fn unsendable(&self) -> usize {
        let is_unsendable = |o: &&Outcome| o.error == Some(ErrorKind::Unsendable);
        self.outcomes.iter().filter(is_unsendable).count()
    }

    /// Was this machine, rather than the other side, what made it slow?
    pub fn client_was_the_bottleneck(&self) -> bool {
        self.client_limited > 0 || self.lag.p99 > LAG_TOLERATED
    }

    /// What a limit of nightwatt for one client may have refused.
    fn refusals(&self) -> Refusals {
        let count = |is_meant: fn(&Outcome) -> bool| {
            self.outcomes.iter().filter(|it| is_meant(it)).count() as u64
        };
        Refusals {
            closed: count(|it| it.error == Some(ErrorKind::Closed)),
            limited: count(|it| matches!(it.answer, Some(Answer::Limited | Answer::Budget))),
        }
    }

    /// What casts doubt on the figures, each with what to try next.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.client_limited > 0 {
            warnings.push(format!(
                "the client was the bottleneck: {} requests found no free connection; raise the \
                 limit of open files (ulimit -n) or lower the speed",
                self.client_limited
            ));
        }
        if self.lag.p99 > LAG_TOLERATED {
            warnings.push(format!(
                "the client was the bottleneck: requests left up to {:.3} s late (99 % within \
                 {:.3} s); lower the speed or use a faster machine",
                self.lag.max.as_secs_f64(),
                self.lag.p99.as_secs_f64()
            ));
        }
        let unsendable = self.unsendable();
        if let Some(sample) = self.unsendable_samples.first() {
            warnings.push(format!(
                "{unsendable} requests of the log cannot be sent, such as `{} {}` ({})",
                sample.method.escape_debug(),
                sample.target.escape_debug(),
                sample.why
            ));
        }
        if self.altered > 0 {
            warnings.push(format!(
                "in {} requests, bytes that no header may hold were replaced by `?`",
                self.altered
            ));
        }
        warnings.extend(self.refusals().warnings());
        warnings
    }
}

/// The speed at which these arrivals take `time`.
pub fn speed_for(arrivals: &[Arrival], time: Duration) -> f64 {
    let first = arrivals.iter().map(|a| a.at.0).min().unwrap_or(0);
    let last = arrivals.iter().map(|a| a.at.0).max().unwrap_or(0);
    let span = last.saturating_sub(first) as f64 / 1000.0;
    if span > 0.0 { span / time.as_secs_f64() } else { 1.0 }
}

/// Sends every arrival to `target` at its time, waits for the last answer and all that follows.
///
/// With a virtual clock this runs in [`Clock::runtime`]; arrivals of one moment then take turns,
/// each sent after what the one before stirred up has come to rest.
pub async fn replay(
    arrivals: &[Arrival],
    target: &Target,
    options: &Options,
    clock: &Clock,
    progress: impl FnMut(Progress),
) -> Result<Run, Error> {
    if !(options.speed.is_finite() && options.speed > 0.0) {
        return Err(Error::Speed(options.speed));
    }
    if clock.is_virtual() && (options.speed - 1.0).abs() > f64::EPSILON {
        return Err(Error::SpeedInVirtualTime);
    }
    let client = Client {
        pool: Pool::new(target.address, options.max_open),
        clock: clock.clone(),
        real: Clock::real(),
        timeout: options.timeout,
        resent: AtomicU64::new(0),
    };
    let (outbox, inbox) = mpsc::unbounded_channel();
    let mut session = Session {
        arrivals,
        target,
        options,
        client: Arc::new(client),
        pages: Arc::default(),
        sizes: whole_sizes(arrivals),
        started: clock.now(),
        sent: 0,
        done: 0,
        outcomes: Vec::with_capacity(arrivals.len()),
        unsendable_samples: Vec::new(),
        altered: 0,
        inbox,
        progress,
    };
    session.send_all(&outbox).await;
    // The last sender goes when the last visit is over.
    drop(outbox);
    while let Some(outcome) = session.inbox.recv().await {
        session.collect(outcome);
    }
    Ok(session.finish())
}

/// What the sending loop holds.
struct Session<'a, P> {
    arrivals: &'a [Arrival],
    target: &'a Target,
    options: &'a Options,
    client: Arc<Client>,
    pages: Arc<WaitingPages>,
    sizes: HashMap<&'a str, u64>,
    started: Now,
    sent: usize,
    done: usize,
    outcomes: Vec<Outcome>,
    unsendable_samples: Vec<Unsendable>,
    altered: u64,
    inbox: UnboundedReceiver<Outcome>,
    progress: P,
}

impl<P: FnMut(Progress)> Session<'_, P> {
    async fn send_all(&mut self, outbox: &UnboundedSender<Outcome>) {
        let mut order: Vec<usize> = (0..self.arrivals.len()).collect();
        order.sort_by_key(|&index| self.arrivals[index].at);
        let Some(first) = order.first().map(|&index| self.arrivals[index].at.0) else { return };
        for index in order {
            let ahead = self.arrivals[index].at.0.saturating_sub(first);
            let ahead = Duration::from_millis(u64::try_from(ahead).unwrap_or(0));
            let due = self.started.mono + scaled(ahead, self.options.speed);
            self.wait_until(due).await;
            self.send(index, due, outbox);
            if !self.client.clock.is_virtual() {
                // When behind its time this loop would never pause, and nothing would be sent.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes in answers until it is time.
    async fn wait_until(&mut self, due: Mono) {
        let clock = self.client.clock.clone();
        let mut timer = pin!(clock.sleep_until(due));
        loop {
            // Time first: reading answers must not hold up what is due.
            tokio::select! {
                biased;
                () = &mut timer => return,
                Some(outcome) = self.inbox.recv() => self.collect(outcome),
            }
        }
    }

    fn send(&mut self, index: usize, due: Mono, outbox: &UnboundedSender<Outcome>) {
        let arrival = &self.arrivals[index];
        let class = (self.options.class_of)(arrival);
        let id = format!("{}-{index}", self.options.id_prefix);
        self.sent += 1;
        let dress = RequestOptions {
            forwarded_for: self.options.forwarded_for,
            plain: self.options.plain,
            body_limit: self.options.body_limit,
        };
        let size = self.sizes.get(arrival.target.as_str()).copied().unwrap_or(UNKNOWN_SIZE);
        match Plan::new(arrival, &self.target.host, size, dress) {
            Ok(plan) => {
                self.altered += u64::from(plan.altered);
                let visit = Visit {
                    client: Arc::clone(&self.client),
                    behaviour: ClientBehaviour {
                        waiting: self.options.waiting,
                        returning: self.options.returning,
                    },
                    outbox: outbox.clone(),
                    arrival: index,
                    class,
                    visitor: Visitor::new(&arrival.client, arrival.agent.as_deref()),
                    pages: Arc::clone(&self.pages),
                    plan,
                    id,
                };
                tokio::spawn(visit.run(due, self.client.clock.owe()));
                self.report();
            }
            Err(why) => self.refuse(index, class, id, due, why),
        }
    }

    fn refuse(
        &mut self,
        index: usize,
        class: ClientClass,
        id: String,
        due: Mono,
        why: &'static str,
    ) {
        let arrival = &self.arrivals[index];
        if self.unsendable_samples.len() < SAMPLES {
            self.unsendable_samples.push(Unsendable {
                arrival: index,
                method: arrival.method.clone(),
                target: arrival.target.clone(),
                why,
            });
        }
        self.collect(Outcome {
            id,
            arrival: index,
            kind: RequestKind::Trace,
            class,
            navigation: false,
            intended: due,
            sent: due,
            answered: None,
            real_time: Duration::ZERO,
            status: None,
            answer: None,
            bytes: 0,
            error: Some(ErrorKind::Unsendable),
        });
    }

    fn collect(&mut self, outcome: Outcome) {
        self.done += usize::from(outcome.kind == RequestKind::Trace);
        self.outcomes.push(outcome);
        self.report();
    }

    fn report(&mut self) {
        (self.progress)(Progress {
            total: self.arrivals.len(),
            sent: self.sent,
            done: self.done,
            follow_ups: self.outcomes.len() - self.done,
            elapsed: self.client.clock.now().mono.since(self.started.mono),
        });
    }

    fn finish(mut self) -> Run {
        // Stable: what belongs to one arrival stays in the order in which it happened.
        self.outcomes.sort_by_key(|outcome| outcome.arrival);
        Run {
            started: self.started,
            ended: self.client.clock.now(),
            lag: lag_of(&self.outcomes),
            outcomes: self.outcomes,
            unsendable_samples: self.unsendable_samples,
            altered: self.altered,
            client_limited: self.client.pool.limited.load(Ordering::Relaxed),
            connections: self.client.pool.opened.load(Ordering::Relaxed),
            resent: self.client.resent.load(Ordering::Relaxed),
        }
    }
}

fn scaled(time: Duration, speed: f64) -> Duration {
    // The log's own pace stays exact.
    if (speed - 1.0).abs() < f64::EPSILON {
        return time;
    }
    Duration::try_from_secs_f64(time.as_secs_f64() / speed).unwrap_or(Duration::MAX)
}

/// How late those left that were sent.
fn lag_of(outcomes: &[Outcome]) -> Lag {
    let sent = outcomes.iter().filter(|o| o.error != Some(ErrorKind::Unsendable));
    let mut lags: Vec<f64> = sent.map(|o| o.sent.since(o.intended).as_secs_f64()).collect();
    lags.sort_by(f64::total_cmp);
    let at = |p| Duration::try_from_secs_f64(percentile(&lags, p)).unwrap_or_default();
    Lag { max: at(100.0), p99: at(99.0) }
}

/// Sizes of the resources that some entry of the log answers with 304, from another entry that
/// has them whole.
fn whole_sizes(arrivals: &[Arrival]) -> HashMap<&str, u64> {
    let unmodified = arrivals.iter().filter(|a| a.status == 304);
    let mut sizes: HashMap<&str, u64> =
        unmodified.map(|a| (a.target.as_str(), UNKNOWN_SIZE)).collect();
    if sizes.is_empty() {
        return sizes;
    }
    for arrival in arrivals.iter().filter(|a| a.status == 200 && a.method == "GET") {
        if let Some(size) = sizes.get_mut(arrival.target.as_str()) {
            *size = arrival.bytes;
        }
    }
    sizes
}
