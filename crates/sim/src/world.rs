//! One server behind its proxy: the power manager, driven by requests instead of sockets.

use std::time::Duration;

use nightwatt_model::electricity::EnergyByHour;
use nightwatt_model::energy::PowerStates;
use nightwatt_model::ledger::Bill;
use nightwatt_model::policy::admission::{Request, Route};
use nightwatt_model::policy::lifecycle::{Change, Command, Patience, Phase, Report};
use nightwatt_model::policy::manager::{Action, Cause, Knock, Memory, PowerManager, Settings};
use nightwatt_model::policy::sleep::SleepPolicy;
use nightwatt_model::time::{Mono, Now, Wall};
use nightwatt_model::visit::Visitor;

use crate::days::Days;
use crate::hours::Savings;
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
        // This server does nothing of its own accord, so nobody needs to look at it from time to time.
        let patience = Patience { watch_every: Duration::ZERO, ..self.settings.patience };
        let settings = Settings { patience, ..self.settings.clone() };
        let manager = PowerManager::new(settings, policy, Memory::default(), self.now(Mono::ZERO));
        Run {
            world: self.clone(),
            manager,
            now: Mono::ZERO,
            up: true,
            pending: Vec::new(),
            held: Vec::new(),
            waiting: Vec::new(),
            actions: Vec::new(),
            due: Mono::ZERO,
            visits: VisitCount::default(),
            days: Days::default(),
            last: Awakenings::default(),
            savings: None,
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
    waiting: Vec<Knock>,
    actions: Vec<Action>,
    /// Nothing happens by itself before then.
    due: Mono,
    visits: VisitCount,
    days: Days,
    last: Awakenings,
    /// Kept where somebody asked for it.
    savings: Option<Box<Savings>>,
    outcome: Outcome,
}

/// What last woke the server, and when it was last awake again or told to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Awakenings {
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

    /// From `at` on, which is not before the last request, local time is UTC and so many seconds.
    pub fn local_time(&mut self, at: Mono, utc_offset: i32) {
        if utc_offset == self.world.utc_offset {
            return;
        }
        self.until(at);
        if let Some(savings) = &mut self.savings {
            savings.local_time(self.world.now(at), utc_offset);
        }
        self.world.utc_offset = utc_offset;
    }

    /// What the server saved by `end`, not before the last request, against being always on, by hour
    /// of the local week; nothing where that was not [kept](Run::with_hours).
    pub fn saved_by_hour(&mut self, end: Mono) -> Option<EnergyByHour> {
        self.until(end);
        let now = self.world.now(end);
        self.savings.as_mut().map(|savings| savings.by(now))
    }

    /// Lets time pass without requests, up to `end`.
    pub fn until(&mut self, end: Mono) {
        while self.due <= end {
            let report = self.pending.iter().enumerate().min_by_key(|(_, (at, _))| *at);
            let (report_at, index) =
                report.map_or((Mono::NEVER, 0), |(index, (at, _))| (*at, index));
            let timer = self.manager.next_timer();
            self.due = report_at.min(timer);
            if self.due > end {
                break;
            }
            self.now = self.now.max(self.due);
            let now = self.world.now(self.now);
            if report_at <= timer {
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
        self.now = end;
    }

    /// Does what the manager wants; what it wants next may come at once.
    fn act(&mut self) {
        self.due = Mono::ZERO;
        let mut next = 0;
        while let Some(&action) = self.actions.get(next) {
            next += 1;
            let states = &self.world.states;
            match action {
                Action::Do(Command::Wake(epoch)) => {
                    self.later(states.wake_time, Report::WakeDone(epoch, true));
                }
                Action::Do(Command::Sleep(epoch)) => {
                    self.later(states.sleep_time, Report::SleepDone(epoch, true));
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
        }
        let now = self.world.now(self.now);
        match change {
            Change::Woke => {
                self.last.slept_before = self.last.slept;
                self.last.woke = Some(self.now);
                self.savings.iter_mut().for_each(|savings| savings.wakes(now));
            }
            Change::FallingAsleep => {
                self.last.slept = Some(self.now);
                self.savings.iter_mut().for_each(|savings| savings.falls_asleep(now));
            }
            _ => {}
        }
        if matches!(change, Change::Woke | Change::StayedAwake) {
            let mut held = std::mem::take(&mut self.held);
            for (arrived, visit) in held.drain(..) {
                self.manager.begin();
                self.manager.end(self.world.now(self.now));
                let waited = self.now.since(arrived) > self.world.settings.delay;
                self.count(arrived, visit, waited);
            }
            self.held = held;
            for knock in std::mem::take(&mut self.waiting) {
                self.reopen(&knock);
            }
        }
    }

    /// A page that waited is opened again: one more request to the server, and to the manager, but not
    /// one of those that the log counts.
    fn reopen(&mut self, knock: &Knock) {
        let now = self.world.now(self.now);
        match self.manager.admit(now, knock, &mut self.actions) {
            Route::Forward => self.manager.end(now),
            Route::WaitingPage => self.waiting.push(*knock),
            _ => {}
        }
    }

    /// A request, not before the last one; says how it is answered.
    pub fn demand(&mut self, demand: &Demand) -> Route {
        self.until(demand.at);
        let Demand { number, visitor, visit, client, request, .. } = *demand;
        let now = self.world.now(self.now);
        let knock = Knock { id: number, visitor, client, request };
        let route = self.manager.admit(now, &knock, &mut self.actions);
        match route {
            Route::Forward if request.class.is_admitted() => self.manager.end(now),
            Route::Forward => self.manager.end_as_guest(now),
            _ => {}
        }
        let sent_away = matches!(
            route,
            Route::Later(_) | Route::Refuse | Route::OverBudget(_) | Route::Unavailable(_)
        );
        self.outcome.sent_away += u64::from(sent_away);
        if request.class.is_admitted() {
            self.outcome.admitted += 1;
            match route {
                Route::Hold => self.held.push((self.now, visit)),
                Route::WaitingPage => {
                    self.waiting.push(knock);
                    self.count(self.now, visit, true);
                }
                _ => self.count(self.now, visit, sent_away),
            }
        }
        self.act();
        route
    }

    /// What last happened to the server.
    pub const fn awakenings(&self) -> Awakenings {
        self.last
    }

    /// Is the server awake?
    pub fn is_awake(&self) -> bool {
        self.manager.phase() == Phase::Awake
    }

    fn count(&mut self, at: Mono, visit: Visit, delayed: bool) {
        self.outcome.delayed_requests += u64::from(delayed);
        self.visits.request(visit, delayed);
        let wall = self.world.start + at.0;
        let day = (wall.secs() + i64::from(self.world.utc_offset)).div_euclid(86_400);
        self.days.count(day, delayed);
    }

    /// Requests by day, of those whose answer is settled.
    pub const fn days(&self) -> &Days {
        &self.days
    }

    /// Ends the run; whoever still waits was delayed.
    pub fn finish(mut self, end: Mono) -> Outcome {
        self.until(end);
        for (arrived, visit) in std::mem::take(&mut self.held) {
            self.count(arrived, visit, true);
        }
        Outcome {
            bill: self.manager.bill(self.world.now(self.now)),
            visits: self.visits.visits(),
            delayed_visits: self.visits.delayed(),
            ..self.outcome
        }
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_model::policy::admission::{Cached, ClientClass, Want};
    use nightwatt_model::policy::sleep::{
        AlwaysOn, BusyTimes, Constraints, Oracle, PolicyChoice, Terms, Timeout, Waking, plan,
    };
    use nightwatt_model::quantity::Joules;
    use nightwatt_model::scenario::Scenario;
    use proptest::prelude::*;

    use super::*;

    fn world(min_on: u64) -> World {
        let scenario = Scenario::default();
        let settings =
            Settings { sla: None, min_on: Duration::from_secs(min_on), ..Settings::of(&scenario) };
        World { states: scenario.power_states(), settings, start: Wall::default(), utc_offset: 0 }
    }

    fn person(at: Mono) -> Demand {
        let request =
            Request { class: ClientClass::Human, want: Want::Other, cached: Cached::Nothing };
        let number = at.0.as_secs() / 7;
        let visit = Visit { number: number + 1, seat: 0 };
        Demand { number: 0, at, visitor: Visitor(number), visit, client: number, request }
    }

    fn times(gaps: &[u64]) -> Vec<Mono> {
        let mut at = 0;
        let sum = |gap: &u64| {
            at += gap;
            Mono::from_secs(at)
        };
        gaps.iter().map(sum).collect()
    }

    fn busy(demands: &[Mono]) -> BusyTimes {
        let mut busy = BusyTimes::new(Duration::ZERO);
        for &at in demands {
            busy.push(at);
        }
        busy
    }

    #[test]
    fn always_on_is_billed_as_always_on() {
        let world = world(60);
        let end = Mono::from_secs(86_400);
        let outcome = world.run(AlwaysOn, times(&[100; 50]).into_iter().map(person), end);
        assert_eq!(outcome.bill.server(&world.states), outcome.bill.always_on(&world.states));
        assert_eq!((outcome.admitted, outcome.delayed_requests), (50, 0));
    }

    #[test]
    fn whoever_comes_every_hour_soon_waits_no_more_where_that_pays() {
        let world = world(60);
        let hourly = || {
            (1..=100).map(|hour| {
                let visit = Visit { number: hour, seat: 0 };
                Demand { visit, visitor: Visitor(1), ..person(Mono::from_secs(hour * 3600)) }
            })
        };
        let run = |price: f64| {
            let terms = Terms {
                states: world.states,
                delay_price: Joules(price),
                min_on: world.settings.min_on,
            };
            world.run(PolicyChoice::Learned.build(&terms), hourly(), Mono::from_secs(101 * 3600))
        };
        let (free, dear) = (run(0.0), run(5_000.0));
        assert!(free.delayed_visits >= 99, "nobody pays for it: {free:?}");
        assert!(dear.delayed_visits <= 6, "{dear:?}");
        // Five more seconds or so awake each time, and not one more wake-up.
        let more = dear.bill.server(&world.states) - free.bill.server(&world.states);
        assert!(more < world.states.on * Duration::from_secs(100 * 10), "{more} more");
        assert!(dear.bill.wakeups <= free.bill.wakeups + 1, "{} wake-ups", dear.bill.wakeups);
    }

    #[test]
    fn a_single_request_in_a_day_waits_for_the_wake_up() {
        let world = world(60);
        let policy = Timeout { idle: Duration::from_secs(5) };
        let end = Mono::from_secs(86_400);
        let outcome = world.run(policy, [person(Mono::from_secs(40_000))], end);
        // Awake 0 to 60; asleep until the request, 5 s to wake; awake 60 s; asleep to the end.
        assert_eq!(outcome.bill.on.as_secs(), 120);
        assert_eq!(outcome.bill.off.as_secs(), 86_280);
        assert_eq!((outcome.bill.cycles, outcome.bill.wakeups), (2, 1));
        assert_eq!((outcome.delayed_requests, outcome.delayed_visits), (1, 1));
    }

    #[test]
    fn what_is_slept_is_saved_in_its_hour_of_local_time() {
        // Thursday 1970-01-01 00:00. Asleep from 60 s on; somebody comes at 2:30, awake until 2:31:05.
        let world = world(60);
        let mut run = world.begin(Timeout { idle: Duration::from_secs(5) }).with_hours();
        run.demand(&person(Mono::from_secs(9000)));
        // Then clocks are an hour ahead: 3:00 is 4:00.
        let change = Mono::from_secs(10_800);
        run.local_time(change, 3600);
        let saved = run.saved_by_hour(Mono::from_secs(14_400)).unwrap();
        let mut expected = EnergyByHour::default();
        let watts = 43.3 - 1.6;
        let thursday = 3 * 24;
        for (hour, asleep, sleeps) in [
            (0, 3540.0, 1.0),
            (1, 3600.0, 0.0),
            // 30 minutes and the wake-up; then a minute awake.
            (2, 1805.0 + 1800.0 - 65.0, 1.0),
            (4, 3600.0, 0.0),
        ] {
            let joules = watts * asleep - sleeps * world.states.switch.get();
            expected.add(thursday + hour, nightwatt_model::quantity::Joules(joules));
        }
        let off = saved.less(&expected);
        assert!(off.joules().all(|joules| joules.get().abs() < 1e-6), "{off:?}");
    }

    #[test]
    fn a_day_begins_at_midnight_of_local_time_as_it_is_then() {
        let mut run = world(60).begin(AlwaysOn);
        run.demand(&person(Mono::from_secs(86_400 - 1800)));
        run.local_time(Mono::from_secs(86_400 - 900), 3600);
        run.demand(&person(Mono::from_secs(86_400 - 900)));
        let days: Vec<(i64, u64)> = run.days().iter().map(|(day, of)| (day, of.admitted)).collect();
        assert_eq!(days, [(0, 1), (1, 1)], "23:30, and 00:45 an hour further east");
    }

    proptest! {
        /// The plan's saving is what the same world bills when the plan is played.
        #[test]
        fn the_oracle_saves_what_it_planned_and_delays_nobody_who_need_not_wait(
            gaps in proptest::collection::vec(0_u64..900, 0..200),
            min_on in 0_u64..120,
            waking in prop_oneof![Just(Waking::Ahead), Just(Waking::OnDemand)],
        ) {
            let world = world(min_on);
            let demands = times(&gaps);
            let end = demands.last().copied().unwrap_or_default() + Duration::from_secs(500);
            let rules = Constraints {
                states: world.states,
                min_on: world.settings.min_on,
                quiet: world.settings.quiet,
            };
            let plan = plan(busy(&demands).times(), (Mono::ZERO, end), waking, &rules);
            let planned = plan.saved;
            let oracle = Oracle::new(plan, world.states.wake_time);
            let outcome = world.run(oracle, demands.into_iter().map(person), end);
            let saved = outcome.bill.always_on(&world.states) - outcome.bill.server(&world.states);
            prop_assert!((saved - planned).get().abs() < 1e-3, "{} J, planned {}", saved, planned);
            prop_assert!(waking == Waking::OnDemand || outcome.delayed_requests == 0);
        }

        /// Whatever the traffic: all time is billed, nobody is forgotten, cycles and wakes alternate.
        #[test]
        fn the_books_balance(
            gaps in proptest::collection::vec(0_u64..300, 0..200),
            idle in 0_u64..100,
        ) {
            let world = world(60);
            let demands = times(&gaps);
            let end = demands.last().copied().unwrap_or_default() + Duration::from_secs(7);
            let policy = Timeout { idle: Duration::from_secs(idle) };
            let outcome = world.run(policy, demands.iter().copied().map(person), end);
            prop_assert_eq!(outcome.bill.span(), end.0);
            prop_assert_eq!(outcome.admitted, demands.len() as u64);
            prop_assert!(outcome.bill.cycles - outcome.bill.wakeups <= 1);
            prop_assert!(outcome.delayed_visits <= outcome.delayed_requests);
        }

        /// What is saved hour by hour is what the bill says, whatever the traffic and the clocks.
        #[test]
        fn the_hours_add_up_to_the_bill(
            gaps in proptest::collection::vec(0_u64..30_000, 0..60),
            idle in 0_u64..100,
            changes in proptest::collection::vec(0_u64..400_000, 0..4),
        ) {
            let world = world(60);
            let mut run = world.begin(Timeout { idle: Duration::from_secs(idle) }).with_hours();
            let mut plain = world.begin(Timeout { idle: Duration::from_secs(idle) });
            let demands = times(&gaps);
            for &at in &demands {
                let changes = changes.iter().filter(|&&change| change <= at.0.as_secs()).count();
                run.local_time(at, 3600 * i32::try_from(changes).unwrap());
                run.demand(&person(at));
                plain.demand(&person(at));
            }
            let end = demands.last().copied().unwrap_or_default() + Duration::from_mins(15);
            let saved = run.saved_by_hour(end).unwrap().total();
            let outcome = run.finish(end);
            prop_assert_eq!(plain.saved_by_hour(end), None);
            prop_assert_eq!(outcome.bill, plain.finish(end).bill);
            let always_on = outcome.bill.always_on(&world.states);
            let expected = always_on - outcome.bill.server(&world.states);
            prop_assert!((saved - expected).get().abs() <= 1e-9 * always_on.get());
        }

        /// Ski rental uses at most twice the energy (beyond the unavoidable) of whatever plan.
        #[test]
        fn ski_rental_is_within_twice_the_optimum(
            gaps in proptest::collection::vec(1_u64..600, 1..100),
        ) {
            // The classical setting: no minimum on time, no quiet time, sleeping and waking at once.
            let mut world = world(0);
            world.settings.quiet = Duration::ZERO;
            world.states.wake_time = Duration::ZERO;
            world.states.sleep_time = Duration::ZERO;
            let demands = times(&gaps);
            let end = demands.last().copied().unwrap_or_default();
            let rules = Constraints {
                states: world.states, min_on: Duration::ZERO, quiet: Duration::ZERO,
            };
            let span = (Mono::ZERO, end);
            let saved = plan(busy(&demands).times(), span, Waking::Ahead, &rules).saved;
            let policy = Timeout { idle: world.states.break_even() };
            let bill = world.run(policy, demands.into_iter().map(person), end).bill;
            let unavoidable = world.states.off * bill.span();
            let optimum = bill.always_on(&world.states) - saved - unavoidable;
            let ours = bill.server(&world.states) - unavoidable;
            prop_assert!(ours.get() <= 2.0 * optimum.get() + 1e-6, "{} > 2 x {}", ours, optimum);
        }
    }
}
