//! One server behind its proxy: the power manager, driven by requests instead of sockets.

use std::time::Duration;

use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_policy::admission::{Request, Route};
use nightwatt_policy::awake_budget::UNLIMITED;
use nightwatt_policy::electricity::EnergyByHour;
use nightwatt_policy::ledger::Bill;
use nightwatt_policy::lifecycle::{Change, Command, Phase, ProbeTimeouts, Report, Slept};
use nightwatt_policy::manager::{Action, AdmissionRequest, Cause, Memory, PowerManager, Settings};
use nightwatt_policy::sleep::SleepPolicy;
use nightwatt_policy::visit::Visitor;

use crate::days::Days;
use crate::hours::Savings;
use crate::mirror::Counts;
use crate::refresh::{Refresh, RefreshCost, RefreshRule, Step};
use crate::visits::{Visit, VisitCount};

/// A request that reaches the proxy.
#[derive(Debug, Clone, Copy)]
pub struct Demand {
    /// A number for it, of the caller's choice.
    pub number: u64,
    /// When.
    pub at: Mono,
    /// Whose.
    pub visitor: Visitor,
    /// In which of their visits.
    pub visit: Visit,
    /// Whose wake budget it draws on.
    pub client: u64,
    /// What for, and what the cache has for it.
    pub request: Request,
    /// As in [`AdmissionRequest::recognised`].
    pub recognised: bool,
}

/// One server behind its proxy.
#[derive(Debug, Clone)]
pub struct World {
    /// What it draws, and how long it takes to sleep and to wake.
    pub states: PowerStates,
    /// What binds the manager.
    pub settings: Settings,
    /// Civil time at the start.
    pub start: Wall,
    /// Local time minus UTC at the start, s.
    pub utc_offset: i32,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// The server's bill.
    pub bill: Bill,
    /// Admitted requests.
    pub admitted: u64,
    /// Those that waited longer than the scenario's delay.
    pub delayed_requests: u64,
    /// Visits of people and their programs.
    pub visits: u64,
    /// Those in which a request was delayed.
    pub delayed_visits: u64,
    /// Wake-ups that a request caused.
    pub woken_by_requests: u64,
    /// Requests of all kinds that were sent away (crawlers, scanners, over budget, failed).
    pub sent_away: u64,
    /// How admitted requests were answered.
    pub answers: Answers,
    /// What keeping a mirror fresh came to; nothing without a mirror.
    pub refresh: RefreshCost,
}

/// How admitted requests were answered: each is counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answers {
    /// From a copy.
    pub from_copies: u64,
    /// By a server that was awake.
    pub by_server: u64,
    /// After the server had woken, or with a page that waits for that.
    pub after_waking: u64,
    /// By the proxy itself, or with an error.
    pub by_proxy: u64,
}

impl Answers {
    fn count(&mut self, route: Route) {
        let count = match route {
            Route::Cache | Route::Stale => &mut self.from_copies,
            Route::Forward => &mut self.by_server,
            Route::Hold | Route::WaitingPage => &mut self.after_waking,
            _ => &mut self.by_proxy,
        };
        *count += 1;
    }
}

impl World {
    /// Runs `demands` (ascending in time) through a manager with `policy`, until `end`.
    pub fn run<P: SleepPolicy>(
        &self,
        policy: P,
        demands: impl IntoIterator<Item = Demand>,
        end: Mono,
    ) -> Outcome {
        let mut run = self.begin(policy);
        for demand in demands {
            if demand.at >= end {
                break;
            }
            run.demand(&demand);
        }
        run.finish(end)
    }

    /// Begins a run at time zero, with a server that is awake.
    ///
    /// The server takes no time to answer, and obeys in exactly the times of its power states.
    pub fn begin<P: SleepPolicy>(&self, policy: P) -> Run<P> {
        // This server changes state only on command, so it needn't be probed from time to time.
        let ProbeTimeouts { wake_timeout, .. } = self.settings.timeouts;
        let wake_timeout = wake_timeout.max(2 * self.states.wake_time);
        let timeouts = ProbeTimeouts {
            watch_every: Duration::ZERO,
            watch_asleep_every: Duration::ZERO,
            wake_timeout,
            ..self.settings.timeouts
        };
        let settings = Settings { timeouts, ..self.settings.clone() };
        let manager = PowerManager::new(settings, policy, Memory::default(), self.now(Mono::ZERO));
        Run {
            world: self.clone(),
            manager,
            now: Mono::ZERO,
            up: true,
            pending: Vec::new(),
            held: Vec::new(),
            waiting: Vec::new(),
            following: Vec::new(),
            actions: Vec::new(),
            due: Mono::ZERO,
            visits: VisitCount::default(),
            days: Days::default(),
            last: Awakenings::default(),
            savings: None,
            refresh: None,
            outcome: Outcome::default(),
        }
    }

    fn now(&self, mono: Mono) -> Now {
        Now { mono, wall: self.start + mono.0, utc_offset: self.utc_offset }
    }
}

/// A run under way.
#[derive(Debug)]
pub struct Run<P> {
    world: World,
    manager: PowerManager<P>,
    now: Mono,
    up: bool,
    /// What the server will report, and when: at most a command or a probe at a time.
    pending: Vec<(Mono, Report)>,
    held: Vec<(Mono, Visit)>,
    /// Pages that wait in browsers, which open them again as soon as the server is awake.
    waiting: Vec<AdmissionRequest>,
    /// What their visitors ask for meanwhile in the log, where no page waited.
    following: Vec<Demand>,
    actions: Vec<Action>,
    /// Nothing happens by itself before then.
    due: Mono,
    visits: VisitCount,
    days: Days,
    last: Awakenings,
    /// Kept if the caller asked for it.
    savings: Option<Box<Savings>>,
    /// Where the proxy has a mirror of the site.
    refresh: Option<Box<Refresh>>,
    outcome: Outcome,
}

/// What last woke the server, and when it was last awake again or told to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Awakenings {
    /// How many times it fell asleep, woke, or was woken by a request.
    pub changes: u64,
    /// When it last answered after a wake-up.
    pub woke: Option<Mono>,
    /// When it had been told to sleep before that.
    pub slept_before: Option<Mono>,
    /// When it was last told to sleep.
    pub slept: Option<Mono>,
    /// Number of the request that last woke it.
    pub by: Option<u64>,
}

impl<P: SleepPolicy> Run<P> {
    /// The same with what sleeping saves kept by hour ([`Run::saved_by_hour`]).
    #[must_use]
    pub fn with_hours(mut self) -> Self {
        self.savings = Some(Box::new(Savings::of(self.world.states)));
        self
    }

    /// The same with a mirror whose copies are kept fresh.
    #[must_use]
    pub(crate) fn with_refresh(mut self, rule: RefreshRule) -> Self {
        self.refresh = Some(Box::new(Refresh::new(rule, self.world.states.wake_time)));
        self
    }

    /// The mirror holds so much.
    pub(crate) fn mirror_holds(&mut self, counts: Counts) {
        if let Some(refresh) = &mut self.refresh {
            refresh.holds(counts);
            self.due = Mono::ZERO;
        }
    }

    /// Something on the site has changed, or will have when the server has woken.
    pub(crate) fn site_changed(&mut self) {
        if let Some(refresh) = &mut self.refresh {
            refresh.site_changed();
            self.due = Mono::ZERO;
        }
    }

    /// From `at` on, which is not before the last request, local time is UTC plus this many seconds.
    #[inline]
    pub fn local_time(&mut self, at: Mono, utc_offset: i32) {
        if utc_offset != self.world.utc_offset {
            self.change_local_time(at, utc_offset);
        }
    }

    #[cold]
    fn change_local_time(&mut self, at: Mono, utc_offset: i32) {
        self.until(at);
        if let Some(savings) = &mut self.savings {
            savings.local_time(self.world.now(at), utc_offset);
        }
        self.world.utc_offset = utc_offset;
    }

    /// What the server saved by `end`, not before the last request, against being always on, by hour
    /// of the local week; `None` where that was not [kept](Run::with_hours).
    pub fn saved_by_hour(&mut self, end: Mono) -> Option<EnergyByHour> {
        self.until(end);
        let now = self.world.now(end);
        self.savings.as_mut().map(|savings| savings.by(now))
    }

    /// Lets time pass without requests, up to `end`.
    #[inline]
    pub fn until(&mut self, end: Mono) {
        if self.due <= end {
            self.happen_until(end);
        }
        self.now = end;
    }

    /// What happens by itself.
    fn happen_until(&mut self, end: Mono) {
        while self.due <= end {
            let report = self.pending.iter().enumerate().min_by_key(|(_, (at, _))| *at);
            let (report_at, index) =
                report.map_or((Mono::NEVER, 0), |(index, (at, _))| (*at, index));
            let timer = self.manager.next_timer();
            let phase = self.manager.phase();
            let refresh_at = self.refresh.as_ref().map_or(Mono::NEVER, |it| it.next(phase));
            self.due = report_at.min(timer).min(refresh_at);
            if self.due > end {
                break;
            }
            self.now = self.now.max(self.due);
            let now = self.world.now(self.now);
            if self.due < report_at.min(timer) {
                self.refresh_step();
            } else if report_at <= timer {
                let (_, report) = self.pending.swap_remove(index);
                self.up = match report {
                    Report::WakeDone(..) => true,
                    Report::SleepDone(..) => false,
                    _ => self.up,
                };
                self.manager.report(now, report, &mut self.actions);
            } else {
                self.manager.tick(now, &mut self.actions);
            }
            self.act();
        }
    }

    /// A pass over the copies of the mirror begins or ends, or the server is woken for one.
    fn refresh_step(&mut self) {
        let (phase, now) = (self.manager.phase(), self.world.now(self.now));
        let Some(refresh) = &mut self.refresh else { return };
        match refresh.step(phase) {
            Step::Begin if self.manager.begin_background() => refresh.begin(self.now),
            // It is about to sleep.
            Step::Begin => refresh.postpone(self.now),
            Step::End => {
                refresh.end(self.now);
                self.manager.end_background(now);
            }
            Step::Wake => {
                refresh.wakes_server();
                self.manager.wake_to_refresh(now, &mut self.actions);
            }
        }
    }

    /// Does what the manager wants; what it wants next may come at once.
    #[inline]
    fn act(&mut self) {
        self.due = Mono::ZERO;
        if !self.actions.is_empty() {
            self.act_upon_all();
        }
        if let Some(refresh) = &mut self.refresh {
            let is_awake = self.manager.phase() == Phase::Awake;
            refresh.sleep_waits(self.now, is_awake && !self.manager.is_free());
        }
    }

    fn act_upon_all(&mut self) {
        let mut next = 0;
        while let Some(&action) = self.actions.get(next) {
            next += 1;
            let states = &self.world.states;
            match action {
                Action::Do(Command::Wake(epoch)) => {
                    self.later(states.wake_time, Report::WakeDone(epoch, true));
                }
                Action::Do(Command::Sleep(epoch)) => {
                    self.later(states.sleep_time, Report::SleepDone(epoch, Slept::Done));
                }
                Action::Do(Command::Probe(epoch)) => {
                    let report = Report::Probed(epoch, self.up);
                    self.manager.report(self.world.now(self.now), report, &mut self.actions);
                }
                Action::Changed(change, cause) => self.changed(change, cause),
            }
        }
        self.actions.clear();
    }

    fn later(&mut self, after: Duration, report: Report) {
        self.pending.push((self.now + after, report));
    }

    fn changed(&mut self, change: Change, cause: Option<Cause>) {
        if let Some(Cause::Request(by)) = cause {
            self.outcome.woken_by_requests += 1;
            self.last.by = Some(by);
            self.last.changes += 1;
        }
        let now = self.world.now(self.now);
        match change {
            Change::Woke => {
                self.last.slept_before = self.last.slept;
                self.last.woke = Some(self.now);
                self.last.changes += 1;
                self.savings.iter_mut().for_each(|savings| savings.wakes(now));
            }
            Change::FallingAsleep => {
                self.last.slept = Some(self.now);
                self.last.changes += 1;
                self.savings.iter_mut().for_each(|savings| savings.falls_asleep(now));
                self.refresh.iter_mut().for_each(|refresh| refresh.used(self.now));
            }
            _ => {}
        }
        if matches!(change, Change::Woke | Change::StayedAwake) {
            let somebody_waits = !self.held.is_empty() || !self.waiting.is_empty();
            self.refresh.iter_mut().for_each(|it| it.woke(self.now, somebody_waits));
            let mut held = std::mem::take(&mut self.held);
            for (arrived, visit) in held.drain(..) {
                let now = self.world.now(self.now);
                self.manager.begin(now, UNLIMITED);
                self.manager.end(now, UNLIMITED);
                let waited = self.now.since(arrived) > self.world.settings.delay;
                self.count(arrived, visit, waited);
            }
            self.held = held;
            for admission_request in std::mem::take(&mut self.waiting) {
                self.reopen(&admission_request);
            }
        }
        if change == Change::Failed {
            // Nothing opens these pages: what follows finds the server failed.
            self.waiting.clear();
        }
        if self.waiting.is_empty() {
            for demand in std::mem::take(&mut self.following) {
                self.admit(&demand);
            }
        }
    }

    /// A page that waited is opened again: one more request to the server, and to the manager, but not
    /// one of those that the log counts.
    fn reopen(&mut self, admission_request: &AdmissionRequest) {
        let now = self.world.now(self.now);
        match self.manager.admit(now, admission_request, &mut self.actions) {
            Route::Forward => self.manager.end(now, admission_request.network),
            Route::WaitingPage => self.waiting.push(*admission_request),
            _ => {}
        }
    }

    /// A request, not before the last one; returns how it is answered.
    pub fn demand(&mut self, demand: &Demand) -> Route {
        self.until(demand.at);
        let route = self.admit(demand);
        if !demand.request.class.is_admitted()
            && matches!(route, Route::Cache | Route::Stale | Route::Refuse | Route::State)
        {
            // The manager has no more to do than before.
            return route;
        }
        self.act();
        route
    }

    /// Does a page of this visitor wait in a browser? What the log has next of the same visitor comes once the
    /// page is open: a browser asks for images after it has read the page that shows them.
    pub fn waits_for_page(&self, visitor: Visitor) -> bool {
        self.waiting.iter().any(|page| page.visitor == visitor)
    }

    /// A request that comes once the page of its visitor is open.
    pub fn follow(&mut self, demand: &Demand) {
        self.until(demand.at);
        self.following.push(*demand);
    }

    fn admit(&mut self, demand: &Demand) -> Route {
        let Demand { number, visitor, visit, client, request, recognised, .. } = *demand;
        let now = self.world.now(self.now);
        let admission_request = AdmissionRequest {
            id: number,
            visitor,
            client,
            network: client,
            request,
            recognised,
            may_wake: true,
        };
        let route = self.manager.admit(now, &admission_request, &mut self.actions);
        match route {
            Route::Forward if request.class.is_admitted() => {
                self.manager.end(now, client);
                self.refresh.iter_mut().for_each(|refresh| refresh.used(self.now));
            }
            Route::Forward => self.manager.end_as_guest(now),
            _ => {}
        }
        let sent_away = matches!(
            route,
            Route::Later(_) | Route::Refuse | Route::OverBudget { .. } | Route::Unavailable(_)
        );
        self.outcome.sent_away += u64::from(sent_away);
        if request.class.is_admitted() {
            self.outcome.admitted += 1;
            self.outcome.answers.count(route);
            match route {
                Route::Hold => self.held.push((self.now, visit)),
                Route::WaitingPage => {
                    self.waiting.push(admission_request);
                    self.count(self.now, visit, true);
                }
                _ => self.count(self.now, visit, sent_away),
            }
        }
        route
    }

    /// What last happened to the server.
    pub const fn awakenings(&self) -> &Awakenings {
        &self.last
    }

    /// Is the server awake?
    pub fn is_awake(&self) -> bool {
        self.manager.phase() == Phase::Awake
    }

    fn count(&mut self, at: Mono, visit: Visit, delayed: bool) {
        self.outcome.delayed_requests += u64::from(delayed);
        self.visits.request(visit, delayed);
        let wall = self.world.start + at.0;
        self.days.count(wall.secs() + i64::from(self.world.utc_offset), delayed);
    }

    /// Requests by day, of those whose answer is settled.
    pub const fn days(&self) -> &Days {
        &self.days
    }

    /// Ends the run; requests that still wait count as delayed.
    pub fn finish(mut self, end: Mono) -> Outcome {
        self.until(end);
        for (arrived, visit) in std::mem::take(&mut self.held) {
            self.count(arrived, visit, true);
        }
        for demand in std::mem::take(&mut self.following) {
            self.outcome.admitted += 1;
            self.outcome.answers.count(Route::WaitingPage);
            self.count(demand.at, demand.visit, true);
        }
        Outcome {
            bill: self.manager.bill(self.world.now(self.now)),
            visits: self.visits.visits(),
            delayed_visits: self.visits.delayed(),
            refresh: self.refresh.map(|mut it| it.cost(end)).unwrap_or_default(),
            ..self.outcome
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod timeouts;
