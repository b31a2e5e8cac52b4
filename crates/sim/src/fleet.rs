//! A pool of servers under a policy: discrete events, as fast as the decisions.
//!
//! The [`Pool`] of the model decides, as it does for the live pool; this world supplies arrivals,
//! service times and the passing of time. Arrivals are streamed, so memory holds the requests in the
//! system and nothing else. All times are whole nanoseconds, all integrals exact.
//!
//! Service times are drawn per request, from a stream of their own, regardless of which server handles it and
//! even if it is refused: so policies are compared on the same requests (common random numbers).

mod agenda;
mod interval;
mod oracle;
mod service;

use std::collections::VecDeque;
use std::time::Duration;

use nightwatt_energy::histogram::Histogram;
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::{Mono, Nanos};
use nightwatt_policy::fleet::{Action, FleetSettings, Pool, Route, ServerKind, Tally};

use self::agenda::{Agenda, Event, READY};
pub use self::interval::Interval;
pub use self::oracle::oracle;
use self::service::Demand;
pub use self::service::{Service, ServiceError, ServiceTimes};

/// Which requests count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// This many requests at the start do not: the pool has to fill.
    pub warm_up: u64,
    /// This many requests after those do; fewer if arrivals end before.
    pub counted: u64,
    /// This many more come after them, so that the counted ones meet the traffic they would.
    pub cool_down: u64,
}

impl Window {
    /// All requests count.
    pub const ALL: Self = Self { warm_up: 0, counted: u64::MAX, cool_down: 0 };
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// From the first counted arrival to the arrival after the last one (or until all was done where
    /// there was none): what times and energies refer to.
    pub span: Duration,
    /// Counted requests.
    pub arrivals: u64,
    /// Those of them that were refused.
    pub refused: u64,
    /// Response times of the others, from arrival to answer.
    pub responses: Histogram,
    /// Times and transitions in the span, by kind.
    pub tallies: Vec<Tally>,
    /// Energy in the span.
    pub energy: Joules,
    /// Most servers on or starting at a time.
    pub most_on: u32,
    /// Mean number of requests in the system, waiting or served.
    pub mean_in_system: f64,
    /// How many servers there are.
    pub servers: u32,
}

impl Outcome {
    /// All kinds together.
    pub fn tally(&self) -> Tally {
        self.tallies.iter().fold(Tally::default(), |sum, tally| sum.plus(tally))
    }

    /// Mean response time; 0 where nothing was answered.
    pub fn mean_response(&self) -> Duration {
        self.responses.mean().unwrap_or_default()
    }

    /// Mean power over the span.
    pub fn mean_power(&self) -> Watts {
        self.energy / self.span
    }

    /// Mean number of servers that were on; those starting are not yet.
    pub fn mean_on(&self) -> f64 {
        self.tally().on.as_secs_f64() / self.span.as_secs_f64()
    }

    /// On and off events per hour and server.
    pub fn transitions_per_server_hour(&self) -> f64 {
        let hours = self.span.as_secs_f64() / 3600.0;
        self.tally().transitions() as f64 / hours / f64::from(self.servers)
    }

    /// Requests served per joule.
    pub fn requests_per_joule(&self) -> f64 {
        self.responses.count() as f64 / self.energy.get()
    }

    /// Share of the counted requests that were refused, 0 to 1.
    pub fn refused_share(&self) -> f64 {
        self.refused as f64 / self.arrivals as f64
    }
}

/// Runs `arrivals` (in order; one at [`Nanos::NEVER`] is the end) through the pool, whose servers are all
/// off at time 0.
pub fn run(
    pool: Pool,
    arrivals: impl IntoIterator<Item = impl Into<Nanos>>,
    service: ServiceTimes,
    window: Window,
) -> Outcome {
    let mut run = Run::new(pool, service);
    run.pool.begin(Nanos::ZERO, &mut run.actions);
    run.act(Nanos::ZERO);
    let ends = window.warm_up.saturating_add(window.counted);
    let all = ends.saturating_add(window.cool_down);
    let (mut number, mut last) = (0, Nanos::ZERO);
    let mut arrivals = arrivals.into_iter().map(Into::into).take_while(|at| *at != Nanos::NEVER);
    let (mut opened, mut closed) = (None, None);
    let mut next = if all > 0 { arrivals.next() } else { None };
    while let Some(at) = next {
        // Known early, so that the processor need not wait for it when this one is done.
        next = if number + 1 < all { arrivals.next() } else { None };
        run.until(at);
        if number == window.warm_up {
            opened = Some(run.mark(at));
        } else if number == ends {
            closed = Some(run.mark(at));
        }
        run.counts = (window.warm_up..ends).contains(&number);
        run.arrive(at);
        (number, last) = (number + 1, at);
    }
    let done = run.finish(last);
    let closed = closed.unwrap_or_else(|| run.mark(done));
    let opened = opened.unwrap_or_else(|| closed.clone());
    run.outcome(&opened, &closed)
}

/// All tallies at one moment.
#[derive(Debug, Clone)]
struct Mark {
    at: Nanos,
    tallies: Vec<Tally>,
    /// Requests x nanoseconds.
    area: u128,
}

/// A request in the common line.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    arrived: Nanos,
    demand: Demand,
    counts: bool,
}

/// A server's work.
#[derive(Debug, Clone)]
struct Busy {
    /// Does the agenda have its next answer?
    serves: bool,
    /// When it answers the requests after that one: only one event of a server is on the agenda.
    later: VecDeque<Nanos>,
    /// When it has done all that it has.
    until: Nanos,
    /// Its mean service time, in whole nanoseconds and exact.
    mean: u64,
    mean_ns: f64,
}

struct Run {
    pool: Pool,
    service: ServiceTimes,
    agenda: Agenda,
    servers: Vec<Busy>,
    line: VecDeque<Waiting>,
    actions: Vec<Action>,
    /// The pool's.
    timer: Nanos,
    counts: bool,
    arrivals: u64,
    refused: u64,
    responses: Histogram,
    most_on: u32,
    in_system: u64,
    /// Of the times at which requests came, and were answered.
    came: u128,
    went: u128,
}

impl Run {
    fn new(pool: Pool, service: ServiceTimes) -> Self {
        let busy = |kind: &ServerKind| {
            let mean_ns = 1e9 / kind.service.get();
            Busy {
                serves: false,
                later: VecDeque::new(),
                until: Nanos::ZERO,
                mean: (mean_ns + 0.5) as u64,
                mean_ns,
            }
        };
        let kinds = pool.settings().kinds.iter();
        let servers = kinds.flat_map(|kind| vec![busy(kind); kind.servers as usize]).collect();
        Self {
            pool,
            service,
            agenda: Agenda::new(),
            servers,
            line: VecDeque::new(),
            actions: Vec::with_capacity(64),
            timer: Nanos::ZERO,
            counts: false,
            arrivals: 0,
            refused: 0,
            responses: Histogram::default(),
            most_on: 0,
            in_system: 0,
            came: 0,
            went: 0,
        }
    }

    /// Lets everything happen up to `end`.
    #[inline]
    fn until(&mut self, end: Nanos) {
        loop {
            let event = self.agenda.due();
            if event <= self.timer {
                if event > end {
                    return;
                }
                self.event();
            } else {
                if self.timer > end {
                    return;
                }
                let at = self.timer;
                self.pool.tick(at, &mut self.actions);
                self.act(at);
            }
        }
    }

    #[inline]
    fn event(&mut self) {
        let event = self.agenda.pop();
        let (at, what) = (event.at(), event.what());
        if what & READY == 0 {
            let busy = &mut self.servers[what as usize];
            match busy.later.pop_front() {
                Some(next) => self.agenda.push(Event::new(next, what)),
                None => busy.serves = false,
            }
            self.in_system -= 1;
            self.went += u128::from(at.0);
            self.pool.complete(at, what, &mut self.actions);
        } else {
            self.pool.ready(at, what & !READY, &mut self.actions);
        }
        self.act(at);
    }

    #[inline]
    fn arrive(&mut self, at: Nanos) {
        let demand = self.service.next_demand();
        self.arrivals += u64::from(self.counts);
        let waiting = Waiting { arrived: at, demand, counts: self.counts };
        match self.pool.arrive(at, &mut self.actions) {
            Route::To(server) => {
                self.came(at);
                self.serve(at, server, waiting);
            }
            Route::Wait => {
                self.came(at);
                self.line.push_back(waiting);
            }
            Route::Refuse => self.refused += u64::from(self.counts),
        }
        self.act(at);
    }

    /// One request more in the system.
    #[inline]
    fn came(&mut self, at: Nanos) {
        self.in_system += 1;
        self.came += u128::from(at.0);
    }

    /// A server gets a request, which it answers after all that it had before.
    #[inline]
    fn serve(&mut self, at: Nanos, server: u32, request: Waiting) {
        let busy = &mut self.servers[server as usize];
        let takes = match request.demand {
            Demand::Mean => busy.mean,
            Demand::Times(times) => (times * busy.mean_ns + 0.5) as u64,
        };
        busy.until = Nanos(busy.until.max(at).0.saturating_add(takes));
        if request.counts {
            self.responses.record_ns(busy.until.0 - request.arrived.0);
        }
        if busy.serves {
            busy.later.push_back(busy.until);
        } else {
            busy.serves = true;
            self.agenda.push(Event::new(busy.until, server));
        }
    }

    /// Does what the pool wants.
    #[inline]
    fn act(&mut self, at: Nanos) {
        if !self.actions.is_empty() {
            self.act_upon_all(at);
        }
        self.timer = self.pool.next_timer();
    }

    fn act_upon_all(&mut self, at: Nanos) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::SwitchOn(server) => {
                    let takes = Nanos::from(Mono(self.switch_on_time(server)));
                    if takes > Nanos::ZERO {
                        let ready = Nanos(at.0.saturating_add(takes.0));
                        self.agenda.push(Event::new(ready, server | READY));
                    }
                }
                Action::SwitchOff(_) => {}
                Action::Take(server) => {
                    if let Some(waiting) = self.line.pop_front() {
                        self.serve(at, server, waiting);
                    }
                }
            }
        }
        self.actions = actions;
        self.most_on = self.most_on.max(self.pool.on() + self.pool.starting());
    }

    fn switch_on_time(&self, mut server: u32) -> Duration {
        for kind in &self.pool.settings().kinds {
            if server < kind.servers {
                return kind.switch_on;
            }
            server -= kind.servers;
        }
        Duration::ZERO
    }

    /// Lets the requests in the system be answered; returns when the last one was.
    fn finish(&mut self, last: Nanos) -> Nanos {
        let mut done = last;
        // A request that waits in line is taken when a server has a place or is ready.
        while self.in_system > 0 {
            let event = self.agenda.due().min(self.timer);
            if event == Nanos::NEVER {
                break;
            }
            self.until(event);
            done = done.max(event);
        }
        done
    }

    fn mark(&self, at: Nanos) -> Mark {
        // Requests in the system x time = for each that came the time since, less for each that went.
        let area = u128::from(at.0) * u128::from(self.in_system) + self.went - self.came;
        Mark { at, tallies: self.pool.tallies(at), area }
    }

    fn outcome(self, opened: &Mark, closed: &Mark) -> Outcome {
        let FleetSettings { kinds, .. } = self.pool.settings();
        let span = Duration::from_nanos(closed.at.0 - opened.at.0);
        let tallies: Vec<Tally> =
            closed.tallies.iter().zip(&opened.tallies).map(|(a, b)| a.since(b)).collect();
        let energy = tallies
            .iter()
            .zip(kinds)
            .map(|(tally, kind)| tally.energy(kind, kind.servers, span))
            .sum();
        Outcome {
            span,
            arrivals: self.arrivals,
            refused: self.refused,
            responses: self.responses,
            tallies,
            energy,
            most_on: self.most_on,
            mean_in_system: (closed.area - opened.area) as f64 / span.as_nanos() as f64,
            servers: self.pool.settings().servers(),
        }
    }
}

#[cfg(test)]
mod tests;
