//! The power manager of one server: admission, lifecycle, sleep policy, SLA and ledger, put
//! together.
//!
//! The gateway drives it with real requests, shadow mode with a pretended server, the simulator with
//! a log. Whatever it decides, it decides here.

mod awake_hours;
mod background;
mod billing;
mod breaker;
mod budgets;
mod crawl;
mod guests;
mod habits;
mod handover;
mod held;
mod holds;
mod in_use;
mod memory;
mod orders;
mod refresh;
mod settings;
mod sleep_blocker;
mod wakes;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::awake_hours::AwakeHours;
pub use self::awake_hours::{AwakeHoursReport, AwakeRun};
use self::breaker::Breaker;
use self::budgets::WakeBudgets;
pub use self::budgets::{BudgetLeft, Payer, SpentBudget};
use self::crawl::Crawl;
use self::habits::WakeTime;
use self::held::Held;
pub use self::holds::Holder;
use self::holds::Holds;
pub use self::memory::Memory;
pub use self::orders::Order;
pub use self::settings::Settings;
pub use self::sleep_blocker::SleepBlocker;
use super::admission::{self, Cached, ClientClass, Request, Route, Want};
use super::awake_budget::AwakeBudget;
use super::lifecycle::{Change, Command, Lifecycle, Phase, Report};
use super::sleep::{Idle, Lessons, Observation, SlaBudget, SleepPolicy, Verdict};
use crate::in_use::{InUse, Use};
use crate::ledger::{Billing, Ledger};
use crate::sla::{SlaKeeper, SlaUse};
use crate::visit::Visitor;
use nightwatt_energy::time::{Mono, Now};

/// A client's request for admission.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionRequest {
    /// Names the request in [`Cause::Request`].
    pub id: u64,
    /// The visitor that asks (address and agent).
    pub visitor: Visitor,
    /// Whose wake budget it draws on (a hash of the address).
    pub client: u64,
    /// A larger network that has one as well (of IPv6, the first 48 bits); else the same.
    pub network: u64,
    /// What for.
    pub request: Request,
    /// Whether its client is known. Those that are not share a wake budget beside their own.
    pub recognised: bool,
    /// Whether its client may wake the server. The policy expects no visits of others: it would wake for them.
    pub may_wake: bool,
}

/// Why the server was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A request that deserves it.
    Request(u64),
    /// Crawlers were promised this time.
    CrawlWindow,
    /// The policy expects a visitor.
    Policy,
    /// These are hours in which it is to be awake.
    AwakeHours,
    /// Copies of its site have to be looked at again.
    Refresh,
    /// A job needs it.
    Job,
    /// A magic packet in the local network asks for it.
    MagicPacket,
    /// The operator said so.
    Operator,
}

/// What the driver is to do or to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Do this, then report.
    Do(Command),
    /// This happened to the server. For [`Change::Waking`] with its cause.
    Changed(Change, Option<Cause>),
}

/// Waiting pages remembered; the reopening of any beyond counts as one more request.
const WAITING_PAGES: usize = 256;

/// How fast the number of requests that one sleep delays is learned: a new sleep counts a twentieth.
const DELAYED_PER_SLEEP_GAIN: f64 = 0.05;

/// The power manager of one server.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts beside the lifecycle")]
pub struct PowerManager<P> {
    settings: Settings,
    policy: P,
    lifecycle: Lifecycle,
    ledger: Ledger,
    sla: SlaKeeper,
    wake_budgets: WakeBudgets,
    awake_budget: AwakeBudget,
    crawl: Crawl,
    awake_hours: AwakeHours,
    /// What probes report of use past this proxy.
    in_use: InUse,
    /// Exchanges are under way that keep it awake no longer since then: the awake time of their client is used up.
    overdrawn_since: Option<Mono>,
    breaker: Breaker,
    wake_time: WakeTime,
    waking_since: Option<Mono>,
    /// Not before then does a crawler's `/robots.txt` wake the server again.
    robots_wake_at: Mono,
    in_flight: u32,
    /// Exchanges of clients that may not wake it (crawler, scanner, monitor).
    guests: u32,
    /// When it is put to sleep whatever they do.
    guests_until: Option<Mono>,
    /// Background exchanges.
    background: u32,
    /// Nothing but the background stands between the server and its sleep: no more of it.
    draining: bool,
    last_to_server: Mono,
    stay_awake_until: Mono,
    /// Those of them that the operator's order and a crawler's appointment end.
    ordered_until: Mono,
    appointment_until: Mono,
    holds: Holds,
    sleep_ordered: bool,
    /// It was woken for copies of its site alone, and no request has used it since.
    resumes_sleep: bool,
    /// The policy put the server to sleep, so it may wake it.
    policy_wakes: bool,
    /// When to consider sleeping again.
    check_at: Mono,
    /// The requests held now.
    held: Vec<Held>,
    /// Visitors who were shown a waiting page: they will open the page again, which is not counted as another
    /// request.
    waiting_pages: Vec<Visitor>,
    delayed_this_sleep: u32,
    delayed_per_sleep: f64,
    wake_cause: Option<Cause>,
    /// To wake it takes a while.
    is_far: bool,
    commands: Vec<Command>,
}

impl<P: SleepPolicy> PowerManager<P> {
    /// A manager that has not looked at its server yet; [`tick`](Self::tick) it to begin.
    pub fn new(settings: Settings, policy: P, memory: Memory, now: Now) -> Self {
        Self {
            lifecycle: Lifecycle::new(settings.timeouts, now.mono),
            ledger: Ledger::resume(memory.bill, Billing::Unobserved, now.mono),
            sla: SlaKeeper::new(settings.sla, memory.delayed_visits),
            wake_budgets: WakeBudgets::new(&settings),
            awake_budget: AwakeBudget::new(settings.awake_budget),
            crawl: Crawl::new(settings.crawl_window.clone(), memory.crawl_appointment, now),
            awake_hours: AwakeHours::new(&settings, memory.ordered_to_sleep),
            in_use: InUse::new(&settings.in_use),
            overdrawn_since: None,
            breaker: Breaker::default(),
            wake_time: WakeTime::new(settings.wake_time, memory.wake_time),
            waking_since: None,
            robots_wake_at: Mono::ZERO,
            policy,
            in_flight: 0,
            guests: 0,
            guests_until: None,
            background: 0,
            draining: false,
            last_to_server: now.mono,
            stay_awake_until: Mono::ZERO,
            ordered_until: Mono::ZERO,
            appointment_until: Mono::ZERO,
            holds: Holds::default(),
            sleep_ordered: false,
            resumes_sleep: false,
            policy_wakes: false,
            check_at: Mono::NEVER,
            held: Vec::new(),
            waiting_pages: Vec::new(),
            delayed_this_sleep: 0,
            delayed_per_sleep: 1.0,
            wake_cause: None,
            is_far: true,
            commands: Vec::new(),
            settings,
        }
    }

    /// From now on browsers are shown a waiting page, if the settings allow it at all; or are held like all
    /// other clients, because the server would be awake at once.
    pub fn show_waiting_page(&mut self, show: bool) {
        self.is_far = show;
    }

    /// A request arrived: how is it to be answered?
    ///
    /// [`Route::Forward`] has begun an exchange, which [`end`](Self::end) ends. A held request
    /// [`begin`](Self::begin)s one when it is let through.
    pub fn admit(
        &mut self,
        now: Now,
        admission_request: &AdmissionRequest,
        actions: &mut Vec<Action>,
    ) -> Route {
        let AdmissionRequest { request, .. } = admission_request;
        let phase = self.lifecycle.phase();
        let retry = match phase {
            // Crawlers were already promised this very wake-up, or one that is under way.
            Phase::Waking => self.wake_time.expected(),
            // A server that is awake sends no client away.
            Phase::Awake => Duration::ZERO,
            _ if request.class == ClientClass::Crawler && request.cached == Cached::Nothing => {
                self.crawl.peek(now)
            }
            _ => Duration::ZERO,
        };
        let mut route =
            admission::route(request, phase, self.settings.waiting_page && self.is_far, retry);
        if matches!(route, Route::Hold | Route::WaitingPage) {
            route = self.request_wakes(now, admission_request, route, actions);
        }
        if matches!(route, Route::Later(_)) && request.want == Want::Robots {
            route = self.robots_wake(now, admission_request, route, actions);
        }
        if matches!(route, Route::Later(_)) && phase != Phase::Waking {
            route = Route::Later(self.crawl.promise(now));
        }
        if request.class.is_admitted() {
            self.count(now, admission_request, route);
        }
        if route == Route::Forward {
            if request.class.is_admitted() {
                self.begin(now, admission_request.network);
            } else {
                self.begin_as_guest();
            }
        }
        route
    }

    /// In how long a crawler may come back that [`admit`](Self::admit) had let through, and that found the server gone.
    pub fn appointment(&mut self, now: Now) -> Duration {
        self.crawl.promise(now)
    }

    /// Counts an admitted request for the SLA and shows it to the policy.
    fn count(&mut self, now: Now, admission_request: &AdmissionRequest, route: Route) {
        if matches!(route, Route::Hold | Route::WaitingPage) {
            self.awake_budget.asked(now.mono, admission_request.network);
        }
        let reopened = self.is_reopened(admission_request, route);
        let delayed = match route {
            Route::Hold => {
                let visitor = Some(admission_request.visitor);
                self.held.push(Held { id: admission_request.id, arrived: now, visitor });
                false
            }
            Route::WaitingPage | Route::OverBudget { .. } | Route::Unavailable(_) => true,
            _ => false,
        };
        self.sla.saw(now, admission_request.visitor, reopened);
        if delayed && !reopened {
            // A visit that is refused does not wait for a sleep to end.
            let waits = route == Route::WaitingPage;
            self.sla.delayed(now, now, waits.then_some(admission_request.visitor));
        }
        self.delayed_this_sleep += u32::from(delayed);
        self.policy.observe(
            now,
            &Observation {
                visitor: admission_request.visitor,
                class: admission_request.request.class,
                needs_server: admission_request.may_wake && admission_request.request.wakes(),
                delayed: delayed || route == Route::Hold,
            },
        );
        self.reconsider(now);
    }

    /// Whether this page was answered with a waiting page and is opened again. It was counted when it was
    /// first asked for: to count it twice would let the SLA allow more delays for every page that is
    /// delayed.
    fn is_reopened(&mut self, admission_request: &AdmissionRequest, route: Route) -> bool {
        if admission_request.request.want != Want::Page {
            return false;
        }
        let place =
            self.waiting_pages.iter().position(|&waiting| waiting == admission_request.visitor);
        if let Some(place) = place.filter(|_| route != Route::WaitingPage) {
            self.waiting_pages.swap_remove(place);
        } else if route == Route::WaitingPage && self.waiting_pages.len() < WAITING_PAGES {
            self.waiting_pages.push(admission_request.visitor);
        }
        place.is_some() && route != Route::WaitingPage
    }

    /// An exchange with the server begins: a held request let through. `network` is its client's
    /// ([`AdmissionRequest::network`]), which is charged for the time that the exchange keeps the server awake.
    pub fn begin(&mut self, now: Now, network: u64) {
        self.awake_budget.begin(now.mono, network);
        self.in_flight += 1;
        self.is_served(now);
        (self.draining, self.guests_until, self.resumes_sleep) = (false, None, false);
    }

    /// An exchange with the server is over that [`begin`](Self::begin) began for this network: whole
    /// answer passed on, or given up.
    pub fn end(&mut self, now: Now, network: u64) {
        if !self.awake_budget.is_over(now.mono) {
            self.last_to_server = now.mono;
        }
        self.awake_budget.end(now.mono, network);
        self.breaker.served();
        self.in_flight = self.in_flight.saturating_sub(1);
        self.reconsider(now);
    }

    /// From now on the server has requests, or has none any more: for the bill of one in a pool.
    pub fn works(&mut self, now: Now, works: bool) {
        self.ledger.works(now.mono, works);
    }

    /// The driver carried out an action, or found something out.
    pub fn report(&mut self, now: Now, report: Report, actions: &mut Vec<Action>) {
        let change = self.lifecycle.report(now.mono, report, &mut self.commands);
        self.apply(now, change, actions);
    }

    /// A timer came due.
    pub fn tick(&mut self, now: Now, actions: &mut Vec<Action>) {
        let change = self.lifecycle.tick(now.mono, &mut self.commands);
        self.apply(now, change, actions);
        if let Some(until) = self.crawl.opens(now, self.wake_time.expected()) {
            self.stay_awake_until = self.stay_awake_until.max(until);
            self.appointment_until = until;
            self.wake(now, Cause::CrawlWindow, actions);
            self.reconsider(now);
        }
        if self.hours_timer() <= now.mono {
            self.open_for_hours(now, actions);
        }
        if self.policy_wakes_at() <= now.mono {
            self.wake(now, Cause::Policy, actions);
        }
        if self.check_at <= now.mono {
            self.consider_sleep(now, actions);
        }
    }

    /// When [`tick`](Self::tick) wants to be called next.
    pub fn next_timer(&self) -> Mono {
        self.lifecycle
            .next_timer()
            .min(self.check_at)
            .min(self.crawl.next_timer(self.wake_time.expected()))
            .min(self.policy_wakes_at())
            .min(self.hours_timer())
    }

    fn policy_wakes_at(&self) -> Mono {
        match self.lifecycle.phase() {
            Phase::Asleep if self.policy_wakes => self.policy.wake_at().unwrap_or(Mono::NEVER),
            _ => Mono::NEVER,
        }
    }

    fn wake(&mut self, now: Now, cause: Cause, actions: &mut Vec<Action>) {
        let phase = self.lifecycle.phase();
        let not_yet = matches!(phase, Phase::FallingAsleep | Phase::Unknown);
        if matches!(phase, Phase::Asleep | Phase::Failed) || not_yet && self.wake_cause.is_none() {
            self.wake_cause = Some(cause);
        }
        let change = self.lifecycle.wake(now.mono, &mut self.commands);
        self.apply(now, change, actions);
    }

    /// Something changed: look again as soon as it may matter.
    fn reconsider(&mut self, now: Now) {
        if self.lifecycle.phase() == Phase::Awake && self.in_flight == 0 {
            let until = if self.sleep_ordered { now.mono } else { self.kept_until(now) };
            self.check_at = until.max(now.mono);
        } else if self.lifecycle.phase() == Phase::Awake {
            self.check_at = self.awake_budget.over_at(now.mono);
        } else {
            self.check_at = Mono::NEVER;
        }
    }

    fn consider_sleep(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.draining = false;
        self.check_at = match self.sla_budget(now) {
            Err(SleepBlocker::NotAwake) => Mono::NEVER,
            Err(SleepBlocker::InFlight(_)) => self.awake_budget.over_at(now.mono),
            Err(
                SleepBlocker::SleepFailed(then)
                | SleepBlocker::WokenByOthers(then)
                | SleepBlocker::StayAwake(then)
                | SleepBlocker::Appointment(then)
                | SleepBlocker::MinOn(then)
                | SleepBlocker::Quiet(then)
                | SleepBlocker::Declined(then)
                | SleepBlocker::WakeLoop(then)
                | SleepBlocker::Hours(then)
                | SleepBlocker::AwakeHours(then)
                | SleepBlocker::InUse(Use { until: then, .. }),
            ) => then,
            // A request that is not delayed would change it too: `count` looks again.
            Err(SleepBlocker::Sla(broken)) => self.sla.changes_at(now, &self.settings.zone, broken),
            Ok(budget) => match self.verdict(now, budget) {
                Verdict::Sleep if self.background > 0 => {
                    // The end of the last one looks again.
                    self.draining = true;
                    Mono::NEVER
                }
                Verdict::Sleep if self.wait_for_guests(now.mono) > now.mono => {
                    self.wait_for_guests(now.mono)
                }
                Verdict::Sleep => {
                    self.policy_wakes = !std::mem::take(&mut self.sleep_ordered);
                    let change = self.lifecycle.sleep(now.mono, &mut self.commands);
                    self.apply(now, change, actions);
                    return;
                }
                Verdict::AskAgainAt(then) => then,
                Verdict::Stay => Mono::NEVER,
            },
        };
    }

    fn verdict(&mut self, now: Now, sla: Option<SlaBudget>) -> Verdict {
        if self.sleep_ordered {
            return Verdict::Sleep;
        }
        let awake_since = self.lifecycle.since();
        let since = self.last_to_server.max(awake_since);
        let wake_time = self.expected_wake_time();
        self.policy.verdict(now, &Idle { since, awake_since, sla, wake_time })
    }

    /// Records what happened and passes on what is to be done.
    fn apply(&mut self, now: Now, change: Option<Change>, actions: &mut Vec<Action>) {
        if let Some(change) = change {
            self.book(now, change);
            self.learn(now.mono, change);
            let cause = (change == Change::Waking).then_some(self.wake_cause).flatten();
            actions.push(Action::Changed(change, cause));
        }
        if !self.commands.is_empty() {
            actions.extend(self.commands.drain(..).map(Action::Do));
        }
    }

    fn book(&mut self, now: Now, change: Change) {
        let at = now.mono;
        self.awake_budget.turn(at, self.lifecycle.phase() == Phase::Awake);
        (self.draining, self.guests_until, self.overdrawn_since) = (false, None, None);
        // Carried out, or overtaken by the server itself.
        self.sleep_ordered &= self.lifecycle.phase() == Phase::Awake;
        match change {
            Change::FoundAwake | Change::WokenByOthers => self.ledger.turn(at, Billing::On),
            Change::FoundAsleep => self.ledger.turn(at, Billing::Off),
            Change::FallingAsleep | Change::WentAway | Change::SleptByOthers => {
                self.ledger.fell_asleep(at);
            }
            Change::StayedAwake | Change::Declined => self.ledger.stayed_awake(at),
            Change::Woke => self.ledger.woke(at),
            // A probe for a request that already waited found it asleep.
            Change::Waking if self.ledger.billing() == Billing::Unobserved => {
                self.ledger.turn(at, Billing::Off);
            }
            Change::FellAsleep | Change::Waking | Change::Failed => {}
        }
        match change {
            Change::FallingAsleep => {
                self.wake_cause = None;
                self.resumes_sleep = false;
                self.delayed_this_sleep = 0;
                self.sla.sleeps();
                self.waiting_pages.clear();
            }
            Change::WentAway | Change::SleptByOthers => self.awake_hours.lost(at, change),
            Change::Failed => self.release_held(now),
            _ if self.lifecycle.phase() == Phase::Awake => {
                self.policy_wakes = false;
                self.awake_hours.is_awake();
                self.release_held(now);
                if change == Change::Woke && !self.resumes_sleep {
                    let seen = f64::from(self.delayed_this_sleep);
                    self.delayed_per_sleep +=
                        DELAYED_PER_SLEEP_GAIN * (seen - self.delayed_per_sleep);
                    self.delayed_per_sleep = self.delayed_per_sleep.max(1.0);
                    self.sla.woke();
                }
                self.reconsider(now);
            }
            _ => {}
        }
    }

    /// Where the server is.
    pub const fn phase(&self) -> Phase {
        self.lifecycle.phase()
    }

    /// The state machine of the server.
    pub const fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// What is to survive a restart.
    pub fn memory(&self, now: Now) -> Memory {
        Memory {
            bill: self.bill(now),
            crawl_appointment: self.crawl.appointment(now),
            wake_time: self.wake_time.observed(),
            ordered_to_sleep: self.awake_hours.ordered(),
            delayed_visits: self.sla.stored(now),
        }
    }

    /// What the policy has learned until now, if it learns.
    pub fn lessons(&self, now: Now) -> Option<Lessons> {
        self.policy.lessons(now)
    }

    /// How much of the SLA is used, of each form that is given.
    pub fn sla_use(&mut self, now: Now) -> SlaUse {
        self.sla.in_use(now)
    }

    /// Exchanges with the server under way, in the background too.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight + self.guests + self.background
    }
}

#[cfg(test)]
mod tests;
