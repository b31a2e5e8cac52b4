//! A site whose server is a pool of servers. The model's [`Pool`] decides which of them are on, and which gets a
//! request; this module has its line, its timers, and its servers under supervision.
//!
//! ```text
//! request -> place -> Pool: arrive ──> a Seat at a server, for as long as the exchange lasts
//!                        │      └────> the line ──> a Seat, when the pool calls
//!                        ▼
//!        SwitchOn, SwitchOff ──> Supervisor of the server ──> its phase ──> ready, failed
//! ```
//!
//! Each server has a supervisor of its own, whose policy is never to sleep: it sleeps when the pool orders it, once no
//! exchange is under way. The layers above (admission, cache, waiting page) see one server, the pool as a
//! [whole](self::whole).
//!
//! Locks: the pool's before a supervisor's, never the other way. A [`Seat`] is never dropped under the pool's lock,
//! since its drop locks the pool.

mod drive;
mod line;
mod orders;
mod seat;
mod server;
mod whole;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_policy::fleet::{Action, FleetChoice, Phase as Duty, Pool, Route};
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::Order;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;

use self::drive::Drive;
pub(crate) use self::line::{Offer, Placed};
pub(crate) use self::seat::Seat;
pub(crate) use self::server::{Fittings, PoolServer};
pub(crate) use self::whole::Whole;
use crate::common::Common;
use crate::config::SiteConfig;
use crate::error::StartError;
use crate::lessons::LessonsStore;
use crate::lessons::pool::Place;
use crate::supervisor::Supervisor;
use crate::wake_cause::WakeCause;

/// The pool of a site.
pub(crate) struct ServerPool {
    pub(crate) site: Arc<str>,
    clock: Clock,
    /// In the order in which the model numbers them: kind by kind.
    pub(crate) servers: Vec<PoolServer>,
    state: Mutex<State>,
    /// Notified when something is due earlier than the driver expects.
    rearm: Notify,
    /// All servers were probed, and the policy has begun.
    begun: watch::Sender<bool>,
    /// The supervisor of the pool as a whole.
    site_supervisor: OnceLock<Arc<Supervisor>>,
    counts: Counts,
}

/// Counts since the start.
#[derive(Debug, Default)]
struct Counts {
    refused: AtomicU64,
    waited: AtomicU64,
    resent: AtomicU64,
}

/// The status of a pool.
#[derive(Debug, Clone)]
pub(crate) struct PoolStatus {
    /// Servers that take requests, and that are being switched on.
    pub(crate) on: u32,
    pub(crate) starting: u32,
    /// Requests in line.
    pub(crate) waiting: u32,
    /// Since the start: requests that had to wait, that were rejected, and that another server answered because the
    /// first one failed.
    pub(crate) waited: u64,
    pub(crate) refused: u64,
    pub(crate) resent: u64,
    /// Of each server.
    pub(crate) servers: Vec<InPool>,
}

/// A server's state in its pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InPool {
    pub(crate) duty: Duty,
    /// The operator wants it off.
    pub(crate) held_off: bool,
    /// How many times it failed since the start.
    pub(crate) failed: u64,
}

struct State {
    pool: Pool,
    line: VecDeque<Waiter>,
    /// Requests that wait for a place at a server that is on anyway: the policy does not know of them.
    guests: VecDeque<Waiter>,
    actions: Vec<Action>,
    /// What the driver sleeps until.
    armed: Mono,
    cards: Vec<Card>,
    /// No card is due before this; may be too early.
    cards_due: Mono,
    /// The pool was closed, and no server is on yet.
    opening: bool,
    /// No server is available.
    gone: bool,
    next_waiter: u64,
}

/// Notes about a server besides its phase in the pool.
#[derive(Debug, Clone)]
struct Card {
    /// How many times it failed: seats of earlier terms are void.
    term: u64,
    /// It should be awake by this time.
    late_at: Mono,
    /// It failed, and may be tried again at this time.
    back_at: Mono,
    /// The operator keeps it awake until this time, whether the pool needs it or not.
    pinned_until: Mono,
}

impl Default for Card {
    fn default() -> Self {
        Self { term: 0, late_at: Mono::NEVER, back_at: Mono::NEVER, pinned_until: Mono::ZERO }
    }
}

impl Card {
    fn due(&self) -> Mono {
        let pinned = if self.pinned_until > Mono::ZERO { self.pinned_until } else { Mono::NEVER };
        self.late_at.min(self.back_at).min(pinned)
    }
}

/// A request in line.
struct Waiter {
    id: u64,
    seat: oneshot::Sender<Seat>,
}

/// A place, or what a request waits by for one; nothing if it is refused.
type Routed = Result<Seat, Option<(u64, oneshot::Receiver<Seat>)>>;

/// The first pause after a running server refused a connection; each further refusal doubles it.
const STRUCK: Duration = Duration::from_secs(1);

impl ServerPool {
    /// Opens the servers of a site, whose fittings are in the order of the configuration.
    pub(crate) fn open(
        site: &SiteConfig,
        common: &Common<'_>,
        fittings: Vec<Fittings<'_>>,
        tasks: &mut Vec<JoinHandle<()>>,
    ) -> Result<Arc<Self>, StartError> {
        let (clock, observe) = (common.clock, common.observe);
        let settings = site.fleet_settings(&common.config.scenario_of(site).server);
        let mut fitted: Vec<_> = site.server.iter().zip(fittings).collect();
        let mut servers = Vec::new();
        for (number, server) in site.pool_servers() {
            let at = fitted.iter().position(|(it, _)| it.name == server.name);
            let fittings = at.map(|at| fitted.swap_remove(at).1).unwrap_or_default();
            let name = site.pool.kind.get(number).map_or("", |kind| &kind.name);
            let kind = &settings.kinds[number];
            servers.push(PoolServer::open(server, site, kind, name, common, fittings, tasks)?);
        }
        // In shadow mode none of them is touched.
        let all = FleetChoice::AlwaysOn { servers: settings.servers() };
        let choice = if observe { all } else { site.pool.policy };
        let wrong = |source| StartError::Pool { site: site.name.clone(), source };
        let mut pool = Pool::new(settings, choice, clock.now().mono).map_err(wrong)?;
        let mut shelf = None;
        if choice == FleetChoice::Predictive {
            let path = common.config.state_dir.join(format!("{}.pool-lessons.json", site.name));
            let place = LessonsStore::at(&site.name, path, common.durable);
            let (place, lessons) = Place::open(place);
            shelf = place;
            if let Some(lessons) = lessons {
                let stopped = lessons.stopped(clock.now().wall);
                pool.resume(&lessons.lessons, stopped);
            }
        }
        let state = State {
            pool,
            line: VecDeque::new(),
            guests: VecDeque::new(),
            actions: Vec::new(),
            armed: Mono::ZERO,
            cards: vec![Card::default(); servers.len()],
            cards_due: Mono::NEVER,
            opening: false,
            gone: false,
            next_waiter: 0,
        };
        let pool = Arc::new(Self {
            site: site.name.as_str().into(),
            clock: clock.clone(),
            servers,
            state: Mutex::new(state),
            rearm: Notify::new(),
            begun: watch::Sender::new(false),
            site_supervisor: OnceLock::new(),
            counts: Counts::default(),
        });
        for number in 0..pool.servers.len() as u32 {
            tasks.push(tokio::spawn(Arc::clone(&pool).follow(number)));
        }
        let handed = common.handed.get(&site.name).map(|it| it.phase);
        let sleeps = matches!(handed, Some(Phase::Asleep | Phase::FallingAsleep));
        let stored = clock.now().mono;
        let drive = Drive { pool: Arc::clone(&pool), shelf, stored, sleeps };
        tasks.push(tokio::spawn(drive.run()));
        Ok(pool)
    }

    /// Sets the supervisor that is notified when all servers have gone, or one is back.
    pub(crate) fn belongs_to(&self, whole: &Arc<Supervisor>) {
        let _ = self.site_supervisor.set(Arc::clone(whole));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the pool, and carries out the resulting actions.
    fn with<T>(self: &Arc<Self>, call: impl FnOnce(&mut State, Mono) -> T) -> T {
        let now = self.clock.now().mono;
        let mut state = self.lock();
        let result = call(&mut state, now);
        let nobodys = self.act(&mut state, now);
        let due = state.due();
        let earlier = due < state.armed;
        let news = state.news();
        drop(state);
        if earlier {
            self.rearm.notify_one();
        }
        if let (Some(gone), Some(whole)) = (news, self.site_supervisor.get()) {
            if gone { whole.unreachable() } else { whole.stirred() }
        }
        // Not under the lock: dropping them locks the pool.
        drop(nobodys);
        result
    }

    /// Carries out the pool's actions. Returns seats whose request has left the line meanwhile.
    fn act(self: &Arc<Self>, state: &mut State, now: Mono) -> Vec<Seat> {
        let mut nobodys = Vec::new();
        while !state.actions.is_empty() {
            for action in std::mem::take(&mut state.actions) {
                match action {
                    Action::SwitchOn(server) => self.switch_on(state, now, server),
                    Action::SwitchOff(server) => self.switch_off(state, now, server),
                    Action::Take(server) => match state.line.pop_front() {
                        Some(waiter) => {
                            let seat = self.seat(state, server);
                            nobodys.extend(waiter.seat.send(seat).err());
                        }
                        None => state.pool.complete(now, server, &mut state.actions),
                    },
                }
            }
        }
        self.seat_guests(state, now, &mut nobodys);
        nobodys
    }

    fn server(&self, server: u32) -> &PoolServer {
        &self.servers[server as usize]
    }

    fn seat(self: &Arc<Self>, state: &State, server: u32) -> Seat {
        Seat::take(self, server, state.cards[server as usize].term)
    }

    fn switch_on(&self, state: &mut State, now: Mono, number: u32) {
        let server = self.server(number);
        if server.supervisor.phase_now() == Phase::Awake {
            // This cancels an order to sleep that was not carried out yet.
            server.supervisor.order(Order::Wake);
            state.pool.ready(now, number, &mut state.actions);
        } else if server.supervisor.rejoin(Supervisor::next_id(), None, || WakeCause::Pool) {
            let late_at = now + server.wake_timeout;
            state.note(number, |card| card.late_at = late_at);
        } else {
            self.fail(state, now, number, "it does not wake");
        }
    }

    fn switch_off(&self, state: &mut State, now: Mono, number: u32) {
        state.note(number, |card| card.late_at = Mono::NEVER);
        if state.cards[number as usize].pinned_until <= now {
            self.server(number).supervisor.order(Order::Sleep);
        }
    }

    /// Takes a server out of the pool.
    fn fail(&self, state: &mut State, now: Mono, number: u32, why: &'static str) {
        if matches!(state.pool.phase(number), None | Some(Duty::Failed)) {
            return;
        }
        state.pool.failed(now, number, &mut state.actions);
        let server = self.server(number);
        server.origin.close_idle();
        let back_at = self.back_at(state, now, number);
        state.note(number, |card| {
            card.term += 1;
            card.late_at = Mono::NEVER;
            card.back_at = back_at;
        });
        server.term.send_replace(state.cards[number as usize].term);
        tracing::warn!(
            site = &*self.site,
            server = server.supervisor.name(),
            why,
            on = state.pool.on(),
            starting = state.pool.starting(),
            "a server was taken out of the pool"
        );
    }

    /// When a failed server may be tried again, in the current state.
    fn back_at(&self, state: &State, now: Mono, number: u32) -> Mono {
        let server = self.server(number);
        match server.supervisor.phase_now() {
            // No other server is available.
            Phase::Asleep if state.no_server_left() => now,
            Phase::Asleep => now + server.retry,
            Phase::Failed => now + server.supervisor.blocked_for(),
            // It is up, but refused a connection.
            Phase::Awake => now + STRUCK * (1 << server.struck().min(6)),
            Phase::Unknown | Phase::FallingAsleep | Phase::Waking => Mono::NEVER,
        }
    }

    /// The phase of a server has changed from `was`.
    fn turned(self: &Arc<Self>, number: u32, was: Phase) {
        self.with(|state, now| {
            let phase = self.server(number).supervisor.phase_now();
            let Some(duty) = state.pool.phase(number).filter(|_| *self.begun.borrow()) else {
                return;
            };
            match (phase, duty) {
                (Phase::Awake, Duty::Starting) => self.came(state, now, number),
                // Another program woke it, or it would not sleep, or it is healthy again.
                (Phase::Awake, Duty::Off | Duty::Failed) if was != Phase::Awake => {
                    self.came(state, now, number);
                    if state.pool.is_held_off(number) {
                        self.came_although_held_off(number, was);
                    }
                }
                (Phase::Asleep | Phase::Failed, Duty::On | Duty::Draining) => {
                    self.fail(state, now, number, "it went away");
                }
                (Phase::Failed, Duty::Starting) => {
                    self.fail(state, now, number, "it does not wake");
                }
                (Phase::Asleep | Phase::Failed, Duty::Failed) => {
                    let back_at = self.back_at(state, now, number);
                    state.note(number, |card| card.back_at = back_at);
                }
                _ => {}
            }
        });
    }

    /// A server is up.
    fn came(&self, state: &mut State, now: Mono, number: u32) {
        state.note(number, |card| (card.late_at, card.back_at) = (Mono::NEVER, Mono::NEVER));
        if state.pool.phase(number) == Some(Duty::Failed) {
            if !state.pool.is_held_off(number) {
                let server = self.server(number).supervisor.name();
                tracing::info!(site = &*self.site, server, "a server is back in the pool");
            }
            state.pool.returned(now, number, &mut state.actions);
        } else {
            state.pool.ready(now, number, &mut state.actions);
        }
    }

    /// Switches all servers off, since none is needed.
    fn shut(self: &Arc<Self>) {
        self.with(|state, now| {
            state.opening = false;
            state.pool.close(now, &mut state.actions);
        });
    }

    /// Switches on the servers that should be on; retries failed ones if allowed.
    fn reopen(self: &Arc<Self>) {
        self.with(|state, now| {
            if state.pool.is_closed() {
                state.opening = state.pool.on() == 0;
                state.pool.open(now, &mut state.actions);
            }
            if state.no_server_left() {
                for number in 0..self.servers.len() as u32 {
                    state.note(number, |card| card.back_at = card.back_at.min(now));
                }
                self.tick_cards(state, now);
            }
        });
    }

    /// The server that is used before all others.
    pub(crate) fn used_first(&self) -> &PoolServer {
        let cost = |it: &&PoolServer| it.kind.busy.get() / it.kind.service.get();
        let least = self.servers.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
        least.unwrap_or(&self.servers[0])
    }

    /// The index of the server with this name.
    pub(crate) fn called(&self, name: &str) -> Option<u32> {
        let found = self.servers.iter().position(|it| it.supervisor.name() == name);
        found.and_then(|number| u32::try_from(number).ok())
    }

    /// When a request that finds no room may find some: when the server that is starting is on.
    pub(crate) fn may_have_room_in(&self) -> Duration {
        if self.lock().pool.starting() == 0 {
            return Duration::ZERO;
        }
        let slowest = self.servers.iter().map(|it| it.supervisor.expected_wake_time()).max();
        slowest.unwrap_or_default()
    }

    /// A place for work without a client, if one is to spare.
    pub(crate) fn spare(self: &Arc<Self>) -> Option<Seat> {
        self.with(|state, now| {
            let server = state.pool.take_spare(now, None)?;
            Some(self.seat(state, server))
        })
    }

    /// Its status.
    pub(crate) fn status(&self) -> PoolStatus {
        let state = self.lock();
        let in_pool = |number: usize| InPool {
            duty: state.pool.phase(number as u32).unwrap_or(Duty::Failed),
            held_off: state.pool.is_held_off(number as u32),
            failed: state.cards[number].term,
        };
        PoolStatus {
            on: state.pool.on(),
            starting: state.pool.starting(),
            waiting: state.pool.waiting(),
            waited: self.counts.waited.load(Ordering::Relaxed),
            refused: self.counts.refused.load(Ordering::Relaxed),
            resent: self.counts.resent.load(Ordering::Relaxed),
            servers: (0..self.servers.len()).map(in_pool).collect(),
        }
    }

    /// Requests a place for a request from the pool.
    fn route(self: &Arc<Self>, offer: Offer) -> Routed {
        self.with(|state, now| {
            let actions = &mut state.actions;
            let route = match offer {
                Offer::Guest { failed_at } => return self.route_guest(state, now, failed_at),
                Offer::New => state.pool.arrive(now, actions),
                Offer::Held => state.pool.offer_again(now, None, actions),
                Offer::FailedAt(server) => state.pool.offer_again(now, Some(server), actions),
            };
            match route {
                Route::To(server) => Ok(self.seat(state, server)),
                Route::Wait => {
                    let (waiter, receiver) = state.waiter();
                    let id = waiter.id;
                    if offer == Offer::New {
                        state.line.push_back(waiter);
                    } else {
                        state.line.push_front(waiter);
                    }
                    Err(Some((id, receiver)))
                }
                Route::Refuse => Err(None),
            }
        })
    }
}

impl State {
    fn waiter(&mut self) -> (Waiter, oneshot::Receiver<Seat>) {
        let (seat, receiver) = oneshot::channel();
        self.next_waiter += 1;
        (Waiter { id: self.next_waiter, seat }, receiver)
    }

    fn note(&mut self, number: u32, change: impl FnOnce(&mut Card)) {
        let card = &mut self.cards[number as usize];
        change(card);
        self.cards_due = self.cards_due.min(card.due());
    }

    fn due(&self) -> Mono {
        Mono::from(self.pool.next_timer()).min(self.cards_due)
    }

    /// No server is on, or could be.
    fn no_server_left(&self) -> bool {
        let all = 0..self.cards.len() as u32;
        let is_off_by_order =
            |number| self.pool.is_held_off(number) && self.pool.phase(number) == Some(Duty::Off);
        let has_failed = |number| self.pool.phase(number) == Some(Duty::Failed);
        all.into_iter().all(|number| has_failed(number) || is_off_by_order(number))
    }

    /// Whether all servers have gone, or one has come, since the last call.
    fn news(&mut self) -> Option<bool> {
        if self.opening && self.pool.on() > 0 {
            self.opening = false;
            return Some(false);
        }
        let gone = self.pool.on() == 0 && self.no_server_left();
        let changed = gone != self.gone && (gone || self.pool.on() > 0);
        if changed {
            self.gone = gone;
        }
        changed.then_some(gone)
    }
}
