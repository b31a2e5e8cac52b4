//! How the machine falls asleep and wakes: what is done in which order. Pure: events and the time in,
//! actions out.
//!
//! ```text
//!           order to sleep            nothing inhibits           set
//!  awake ─────────────────► checking ────────────────► arming ────────► leaving
//!    ▲                         │ inhibited, or failed     │                │ all proxies have heard,
//!    ├─────────────────────────┴──────────────────────────┘                │ or were told three times
//!    │                                                                     ▼
//!    └────────── resumed; or refused; or not asleep in time ─────────── falling
//! ```
//!
//! Every way back to `awake` from `leaving` on announces that the machine is up, and whether it slept:
//! proxies believe that it sleeps from the announcement on.
//!
//! When another program puts the machine to sleep and announces that (`Verb::Leave`, sent by a hook of
//! systemd), the state goes from `arming` to `falling` in the same way, but the command is not ours.
//! Without that announcement, the agent notices the resume and announces it.

use std::time::Duration;

use nightwatt_clock::meter::Stamp;
use nightwatt_energy::civil::utc;
use nightwatt_energy::time::Mono;

use crate::announcer::Announcer;
use crate::authentication::Ticket;
use crate::config::SleepMethod;
use crate::dead_man::{Alarm, DeadMan, Purpose, Turn};
use crate::protocol::{Event, News, Nonce, Outcome, Verb};
use crate::record::{Entry, RecordedEvent};

/// The machine stays up at least this long after the reply to the order: the reply may get lost, and the
/// proxy then repeats the order.
const LINGER: Duration = Duration::from_millis(300);

/// A smaller growth of the difference between two clocks is no sleep: the clocks are read one after the other.
const SHORTEST_SLEEP: Duration = Duration::from_millis(100);

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Find out what inhibits, then [`SleepSequence::checked`].
    Check,
    /// Set the alarm, then [`SleepSequence::armed`].
    Arm,
    /// Clear the alarm.
    Disarm,
    /// Put the machine to sleep, then [`SleepSequence::returned`].
    FallAsleep,
    /// Find out when the service answers, then [`SleepSequence::ready`].
    AwaitReady,
    /// Answer an order.
    Reply(Ticket, Outcome, Vec<String>),
    /// Write into the record.
    Record(Entry),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order {
    ticket: Ticket,
    verb: Verb,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Awake,
    Checking(Order),
    Arming(Order),
    Leaving { order: Order, since: Mono },
    Falling { until: Mono },
}

/// What does not change while the agent runs.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Names of the proxies.
    pub names: Vec<String>,
    /// Indices of those that want announcements.
    pub listeners: Vec<usize>,
    /// How it sleeps.
    pub how: SleepMethod,
    /// It must be asleep within this time after the command.
    pub within: Duration,
    /// See [`DeadMan`].
    pub grace: Duration,
    /// The machine stays awake at least this long when its alarm has woken it for work: until the work is
    /// due, and then as long as the work may take.
    pub for_work: Duration,
    /// Is `[ready]` configured, so that the time at which the service answers is measured?
    pub awaits_ready: bool,
    /// Which boot this is.
    pub boot: [u8; 16],
}

/// The alarm has woken the machine for this.
#[derive(Debug)]
struct Work {
    name: String,
    /// Since boot, suspended or not: a clock that is set must not end it.
    until: Duration,
}

/// The steps in which the machine falls asleep and wakes up.
#[derive(Debug)]
pub struct SleepSequence {
    terms: Terms,
    phase: Phase,
    announcer: Announcer,
    dead_man: DeadMan,
    work: Option<Work>,
    /// How long the machine had been suspended since boot when that was last looked at.
    suspended: Duration,
    /// How often it had been suspended since boot, by the kernel's count, when that was last looked at.
    suspends: Option<u64>,
    /// The same, as it is now.
    counted: Option<u64>,
    counter: u64,
    nonces: fn() -> Nonce,
    fell_asleep_ms: i64,
    resumed_ms: i64,
}

impl SleepSequence {
    /// The agent starts. `counter` is the greatest that was ever announced; `nonces` makes them by chance.
    pub fn new(terms: Terms, now: Stamp, counter: u64, nonces: fn() -> Nonce) -> Self {
        Self {
            announcer: Announcer::new(terms.listeners.clone()),
            dead_man: DeadMan::new(terms.grace),
            phase: Phase::Awake,
            work: None,
            suspended: now.suspended,
            suspends: None,
            counted: None,
            counter,
            nonces,
            fell_asleep_ms: 0,
            resumed_ms: 0,
            terms,
        }
    }

    /// Says that the machine is up: after the agent's start.
    pub fn begin(&mut self, now: Stamp, is_new_boot: bool, actions: &mut Vec<Action>) {
        let what = if is_new_boot { RecordedEvent::Booted } else { RecordedEvent::Started };
        self.record(now, what, actions);
        if is_new_boot {
            self.resumed_ms = wall_ms(now);
        }
        self.back(now, actions);
    }

    /// What the record says of the time before the agent's start.
    pub fn recall(&mut self, fell_asleep_ms: i64, resumed_ms: i64) {
        (self.fell_asleep_ms, self.resumed_ms) = (fell_asleep_ms, resumed_ms);
    }

    /// When it last fell asleep and was last back, by its wall clock in milliseconds; zero for never.
    pub const fn times_ms(&self) -> (i64, i64) {
        (self.fell_asleep_ms, self.resumed_ms)
    }

    /// The greatest counter of an announcement.
    pub const fn counter(&self) -> u64 {
        self.counter
    }

    /// A proxy gave an order.
    pub fn order(&mut self, now: Stamp, ticket: Ticket, verb: Verb, actions: &mut Vec<Action>) {
        // These two come from the machine's own hooks, with its own key.
        if !matches!(verb, Verb::Leave | Verb::Return) {
            self.proxy_heard(now, ticket.proxy, actions);
        }
        let order = Order { ticket, verb };
        let reply = |outcome| Action::Reply(ticket, outcome, Vec::new());
        match (&self.phase, verb) {
            (_, Verb::State) => actions.push(reply(Outcome::Done)),
            (Phase::Awake, Verb::Check | Verb::Sleep) => {
                self.phase = Phase::Checking(order);
                actions.push(Action::Check);
            }
            (Phase::Awake, Verb::Leave) => {
                self.phase = Phase::Arming(order);
                actions.push(Action::Arm);
            }
            // Another program puts the machine to sleep before the pending check is done.
            (Phase::Checking(overtaken), Verb::Leave) => {
                actions.extend([overtake(*overtaken), Action::Arm]);
                self.phase = Phase::Arming(order);
            }
            (Phase::Arming(overtaken), Verb::Leave) if overtaken.verb == Verb::Sleep => {
                actions.push(overtake(*overtaken));
                self.phase = Phase::Arming(order);
            }
            // Our own command to sleep calls the hook too.
            (Phase::Leaving { .. } | Phase::Falling { .. }, Verb::Leave) => {
                actions.push(reply(Outcome::Going));
            }
            (Phase::Falling { .. }, Verb::Return) => {
                self.look(now, actions);
                if matches!(self.phase, Phase::Falling { .. }) {
                    let why = "it was called off".to_owned();
                    self.record(now, RecordedEvent::Failed { why }, actions);
                    self.stayed_awake(now, actions);
                }
                actions.push(reply(Outcome::Done));
            }
            (_, Verb::Return) => {
                self.look(now, actions);
                actions.push(reply(Outcome::Done));
            }
            (_, Verb::Check | Verb::Sleep | Verb::Leave) => actions.push(reply(Outcome::Busy)),
        }
    }

    /// This keeps the machine awake. The work that it was woken for does so too.
    pub fn checked(&mut self, now: Stamp, mut reasons: Vec<String>, actions: &mut Vec<Action>) {
        let Phase::Checking(order) = self.phase.clone() else { return };
        self.phase = Phase::Awake;
        reasons.extend(self.at_work(now));
        reasons.extend(given_up(now, order.ticket, "finding out what keeps it awake"));
        let ticket = order.ticket;
        match (order.verb, reasons.is_empty()) {
            (Verb::Sleep, true) => {
                self.phase = Phase::Arming(order);
                actions.push(Action::Arm);
            }
            (Verb::Sleep, false) => {
                let by = self.name(ticket);
                self.record(now, RecordedEvent::Refused { by, reasons: reasons.clone() }, actions);
                actions.push(Action::Reply(ticket, Outcome::Inhibited, reasons));
            }
            (_, true) => actions.push(Action::Reply(ticket, Outcome::Done, reasons)),
            (_, false) => actions.push(Action::Reply(ticket, Outcome::Inhibited, reasons)),
        }
    }

    /// The alarm is set, or none is needed; or it could not be set.
    pub fn armed(
        &mut self,
        now: Stamp,
        outcome: Result<Option<Alarm>, String>,
        actions: &mut Vec<Action>,
    ) {
        let Phase::Arming(order) = self.phase.clone() else { return };
        let by = self.name(order.ticket);
        if let (Verb::Sleep, Some(why)) =
            (order.verb, given_up(now, order.ticket, "setting the alarm"))
        {
            self.phase = Phase::Awake;
            let reasons = vec![why];
            self.record(now, RecordedEvent::Refused { by, reasons: reasons.clone() }, actions);
            actions.push(Action::Disarm);
            actions.push(Action::Reply(order.ticket, Outcome::Inhibited, reasons));
            return;
        }
        match outcome {
            Ok(alarm) => {
                self.dead_man.arm(alarm.clone());
                let (how, ours) = (self.terms.how, order.verb == Verb::Sleep);
                self.fell_asleep_ms = wall_ms(now);
                let how = ours.then_some(how);
                self.record(now, RecordedEvent::Suspending { by, how, alarm }, actions);
                if ours {
                    actions.push(Action::Reply(order.ticket, Outcome::Going, Vec::new()));
                }
                self.announce(now, Event::Leaving);
                self.phase = Phase::Leaving { order, since: now.mono };
            }
            // Others do not ask whether we are ready. They are told, and the proxies too.
            Err(why) if order.verb == Verb::Leave => {
                self.record(now, RecordedEvent::Failed { why }, actions);
                self.phase = Phase::Arming(order);
                self.armed(now, Ok(None), actions);
            }
            Err(why) => {
                self.record(now, RecordedEvent::Failed { why: why.clone() }, actions);
                self.phase = Phase::Awake;
                actions.push(Action::Reply(order.ticket, Outcome::Failed, vec![why]));
            }
        }
    }

    /// The command to sleep has ended. That may be before the machine sleeps, or after.
    pub fn returned(&mut self, now: Stamp, outcome: Result<(), String>, actions: &mut Vec<Action>) {
        self.look(now, actions);
        if let (Phase::Falling { .. }, Err(why)) = (&self.phase, outcome) {
            self.record(now, RecordedEvent::Failed { why }, actions);
            self.stayed_awake(now, actions);
        }
    }

    /// The service answers.
    pub fn ready(&mut self, now: Stamp, actions: &mut Vec<Action>) {
        if self.phase == Phase::Awake {
            self.record(now, RecordedEvent::Ready, actions);
            self.announce(now, Event::Ready);
        }
    }

    /// A proxy has heard an announcement.
    pub fn acknowledged(
        &mut self,
        now: Stamp,
        proxy: usize,
        nonce: Nonce,
        actions: &mut Vec<Action>,
    ) {
        if self.announcer.heard(proxy, nonce) {
            self.proxy_heard(now, proxy, actions);
        }
        self.tick(now, actions);
    }

    /// Sets how many times the kernel has suspended the machine since boot, if the kernel counts that. Call
    /// it before [`SleepSequence::look`]: many clocks count whole seconds and miss a shorter sleep.
    pub fn counted(&mut self, suspends: Option<u64>) {
        self.counted = suspends;
        self.suspends = self.suspends.or(suspends);
    }

    /// The machine may have slept: looks at the clocks, and at the kernel's count.
    pub fn look(&mut self, now: Stamp, actions: &mut Vec<Action>) {
        let slept = now.suspended.saturating_sub(self.suspended);
        self.suspended = self.suspended.max(now.suspended);
        let was_suspended = self.counted > self.suspends;
        if slept < SHORTEST_SLEEP && !was_suspended {
            return;
        }
        // The kernel counts a suspend when all of it is over, which the clocks may tell before: that one
        // is not to be told twice.
        self.suspends = self.suspends.map(|known| known + 1).max(self.counted);
        let announced = matches!(self.phase, Phase::Leaving { .. } | Phase::Falling { .. });
        if !announced {
            self.fell_asleep_ms = wall_ms(now).saturating_sub(millis(slept));
        }
        let (alarm, turn) = self.dead_man.woke(now.mono, now.wall_ns.div_euclid(1_000_000_000));
        self.resumed_ms = wall_ms(now);
        if let Some(Alarm { purpose: Purpose::Work(name), .. }) = &alarm {
            let until = since_boot(now).saturating_add(self.terms.for_work);
            self.work = Some(Work { name: name.clone(), until });
        }
        let slept_s = slept.as_secs_f64();
        self.record(now, RecordedEvent::Resumed { slept_s, announced, alarm }, actions);
        self.record_turn(now, turn, actions);
        // What was ordered before it slept is not to be done after.
        match std::mem::replace(&mut self.phase, Phase::Awake) {
            Phase::Checking(order) | Phase::Arming(order) => actions.push(overtake(order)),
            Phase::Leaving { order, .. } if order.verb == Verb::Leave => {
                actions.push(Action::Reply(order.ticket, Outcome::Going, Vec::new()));
            }
            Phase::Awake | Phase::Leaving { .. } | Phase::Falling { .. } => {}
        }
        actions.push(Action::Disarm);
        self.back(now, actions);
    }

    /// Time has passed. `due` is to be asked after this and every other event.
    pub fn tick(&mut self, now: Stamp, actions: &mut Vec<Action>) {
        let turn = self.dead_man.tick(now.mono);
        self.record_turn(now, turn, actions);
        match self.phase.clone() {
            Phase::Leaving { order, since } => {
                let lingered = order.verb != Verb::Sleep || now.mono >= since + LINGER;
                if self.announcer.is_done() && lingered {
                    self.phase = Phase::Falling { until: now.mono + self.terms.within };
                    actions.push(if order.verb == Verb::Sleep {
                        Action::FallAsleep
                    } else {
                        Action::Reply(order.ticket, Outcome::Going, Vec::new())
                    });
                }
            }
            Phase::Falling { until } if now.mono >= until => {
                self.look(now, actions);
                if matches!(self.phase, Phase::Falling { .. }) {
                    let why =
                        format!("it was still awake {:?} after the command", self.terms.within);
                    self.record(now, RecordedEvent::Failed { why }, actions);
                    self.stayed_awake(now, actions);
                }
            }
            _ => {}
        }
    }

    /// Announcements that are to be sent now, each to the proxy of that index.
    pub fn due(&mut self, now: Stamp) -> Vec<(usize, News, Nonce)> {
        self.announcer.due(now.mono)
    }

    /// Proxies, by their index, that were told often enough and did not answer; each is named once.
    pub fn unheard(&mut self) -> Vec<usize> {
        self.announcer.unheard()
    }

    /// When [`SleepSequence::tick`] and [`SleepSequence::due`] are to be called next.
    pub fn next(&self) -> Mono {
        let phase = match &self.phase {
            Phase::Leaving { since, .. } => *since + LINGER,
            Phase::Falling { until } => *until,
            _ => Mono::NEVER,
        };
        // Past its end, only the announcements keep `Leaving`.
        let phase = match &self.phase {
            Phase::Leaving { .. } if !self.announcer.is_done() => self.announcer.next(),
            _ => phase,
        };
        phase.min(self.announcer.next()).min(self.dead_man.next())
    }

    /// Why the machine must not sleep in the middle of the work that it was woken for.
    fn at_work(&self, now: Stamp) -> Option<String> {
        let work = self.work.as_ref()?;
        let left = work.until.checked_sub(since_boot(now)).filter(|left| !left.is_zero())?;
        let until = utc(wall_ms(now).saturating_add(millis(left)));
        Some(format!("it was woken for {}, and stays awake for that until {until}", work.name))
    }

    fn stayed_awake(&mut self, now: Stamp, actions: &mut Vec<Action>) {
        self.phase = Phase::Awake;
        self.resumed_ms = wall_ms(now);
        self.dead_man.arm(None);
        actions.push(Action::Disarm);
        // Its service was never gone: that it answers is no news.
        self.announce(now, Event::StayedAwake);
    }

    fn back(&mut self, now: Stamp, actions: &mut Vec<Action>) {
        self.announce(now, Event::Back);
        if self.terms.awaits_ready {
            actions.push(Action::AwaitReady);
        }
    }

    fn announce(&mut self, now: Stamp, event: Event) {
        // Whatever the clock does, it grows; and if what was stored got lost, the clock makes up for it.
        self.counter = (self.counter + 1).max(now.wall_ns.max(0).cast_unsigned());
        let news =
            News { event, boot: self.terms.boot, counter: self.counter, wall_ms: wall_ms(now) };
        self.announcer.announce(now.mono, news, (self.nonces)());
    }

    fn proxy_heard(&mut self, now: Stamp, proxy: usize, actions: &mut Vec<Action>) {
        if let Some(Turn::Found) = self.dead_man.heard() {
            let by = self.terms.names.get(proxy).cloned().unwrap_or_default();
            self.record(now, RecordedEvent::ProxyFound { by }, actions);
        }
    }

    fn record_turn(&self, now: Stamp, turn: Option<Turn>, actions: &mut Vec<Action>) {
        match turn {
            Some(Turn::Fired) => self.record(now, RecordedEvent::DeadMan, actions),
            Some(Turn::Alone) => self.record(now, RecordedEvent::Alone, actions),
            Some(Turn::Found) | None => {}
        }
    }

    fn name(&self, ticket: Ticket) -> String {
        self.terms.names.get(ticket.proxy).cloned().unwrap_or_default()
    }

    fn record(&self, now: Stamp, what: RecordedEvent, actions: &mut Vec<Action>) {
        actions.push(Action::Record(Entry::new(now, &self.terms.boot, what)));
    }
}

/// Why an order is not carried out any more.
fn given_up(now: Stamp, ticket: Ticket, what: &str) -> Option<String> {
    (since_boot(now) > ticket.until).then(|| {
        format!(
            "{what} took longer than the proxy waits: raise `timeout` in its `[site.power.sleep.agent]`"
        )
    })
}

/// The answer to an order that arrives while another process puts the machine to sleep.
fn overtake(order: Order) -> Action {
    let why = "another process is putting the machine to sleep".to_owned();
    Action::Reply(order.ticket, Outcome::Busy, vec![why])
}

fn wall_ms(now: Stamp) -> i64 {
    now.wall_ns.div_euclid(1_000_000)
}

fn since_boot(now: Stamp) -> Duration {
    now.mono.0 + now.suspended
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "sequence/tests.rs"]
mod tests;
