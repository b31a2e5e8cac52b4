//! The state machine.

mod live;
mod switching;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use thiserror::Error;

use super::oracle::Schedule;
use super::order::{End, Ranks};
use super::predictive::{FleetLessons, Predictive};
use super::{Action, FleetChoice, FleetSettings, Phase, Route, Tally, Wear};
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Nanos;

/// Sets of servers that are on.
const OPEN: usize = 0;
const IDLE: usize = 1;
/// Never.
const NEVER: u64 = u64::MAX;
/// More servers are not managed.
const MOST_SERVERS: u64 = 1_000_000;

/// Why there is no such pool.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FleetError {
    /// No servers, or too many.
    #[error("the pool has {0} servers: give it 1 to {MOST_SERVERS}")]
    Servers(u64),
    /// An oracle for unlike servers.
    #[error("an oracle is for servers that are all alike, and here are {0} kinds in one pool")]
    Unlike(usize),
    /// A figure of a kind that cannot be.
    #[error("kind {kind} (counted from 1): {what}")]
    ServerKind {
        /// Which, from 1.
        kind: usize,
        /// What is wrong, and what would be right.
        what: &'static str,
    },
}

#[derive(Debug, Clone)]
struct Server {
    phase: Phase,
    kind: u32,
    /// Waiting and in service.
    requests: u32,
    /// Requests that became [tunnels](Pool::tunnel): they take no place, and keep it from going off.
    tunnels: u32,
    /// Of its kind.
    places: u32,
    /// The operator wants it off: it is not to be had, or is about to go.
    held_off: bool,
    /// In this phase since; draining does not interrupt being on.
    phase_since: u64,
    /// Busy or idle since.
    since: u64,
    /// When a timer looks at it; stale timers differ.
    timer: u64,
    on: u64,
    busy: u64,
    starting: u64,
    switched_on: u64,
    switched_off: u64,
}

/// What decides about switching.
#[derive(Debug, Clone)]
enum Switching {
    /// Off after an idle time in ns, this many stay on.
    Keep {
        always_on: u32,
        delay: u64,
    },
    Predictive(Box<Predictive>),
    Schedule(Schedule),
}

/// A pool of servers and its policy. See the [module](super).
///
/// Times given to it must not go back; a report about a server that cannot be so is ignored.
#[derive(Debug, Clone)]
pub struct Pool {
    settings: FleetSettings,
    servers: Vec<Server>,
    switching: Switching,
    /// Servers that are on.
    line_up: Ranks<2>,
    /// Servers that are off.
    bench: Ranks<1>,
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    on: u32,
    starting: u32,
    busy: u32,
    /// Servers that are on until others have taken their place.
    leaving: u32,
    /// Requests in the common line.
    waiting: u32,
    /// Since when requests have been waiting.
    waits_since: u64,
    /// Requests that found no place since servers are starting, less those that these make up for.
    overflowed: u64,
    /// What servers that are starting could serve meanwhile.
    made_up: u64,
    min_on: u64,
    /// Nothing is on, and nothing is switched on.
    closed: bool,
}

fn span_ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(NEVER)
}

impl FleetSettings {
    fn check(&self) -> Result<(), FleetError> {
        let servers = self.kinds.iter().map(|kind| u64::from(kind.servers)).sum();
        if !(1..=MOST_SERVERS).contains(&servers) {
            return Err(FleetError::Servers(servers));
        }
        for (index, kind) in self.kinds.iter().enumerate() {
            let rate = kind.service.get();
            let watts = [kind.idle, kind.busy, kind.off].map(Watts::get);
            let energies = watts.into_iter().chain([kind.switch.get()]);
            let what = if !(rate > 0.0 && rate.is_finite()) {
                "its service rate must be above 0"
            } else if kind.places == 0 {
                "a server needs room for one request at least: allow more time per request"
            } else if energies.into_iter().any(|value| !(value >= 0.0 && value.is_finite())) {
                "its watts and joules must be 0 or more"
            } else {
                continue;
            };
            return Err(FleetError::ServerKind { kind: index + 1, what });
        }
        Ok(())
    }
}

impl Pool {
    /// A pool whose servers are all off at `now`; [`begin`](Self::begin) switches the first ones on.
    pub fn new(
        settings: FleetSettings,
        choice: FleetChoice,
        now: impl Into<Nanos>,
    ) -> Result<Self, FleetError> {
        settings.check()?;
        let at = now.into().0;
        let switching = match choice.keeps() {
            Some((always_on, delay)) => Switching::Keep { always_on, delay: span_ns(delay) },
            None => Switching::Predictive(Box::new(Predictive::new(&settings, at))),
        };
        Ok(Self::of(settings, switching, at))
    }

    /// A pool that plays a schedule; see [`Levels`](super::Levels).
    pub fn scheduled(
        settings: FleetSettings,
        schedule: Schedule,
        now: impl Into<Nanos>,
    ) -> Result<Self, FleetError> {
        settings.check()?;
        Ok(Self::of(settings, Switching::Schedule(schedule), now.into().0))
    }

    fn of(settings: FleetSettings, switching: Switching, at: u64) -> Self {
        let counts: Vec<u32> = settings.kinds.iter().map(|kind| kind.servers).collect();
        let preferred = settings.preferred();
        let spread = settings.wear == Wear::Spread;
        let ranks = |end| spread.then_some(end);
        let mut pool = Self {
            servers: Vec::with_capacity(settings.servers() as usize),
            line_up: Ranks::new(&counts, &preferred, ranks(End::Front)),
            bench: Ranks::new(&counts, &preferred, ranks(End::Back)),
            timers: BinaryHeap::with_capacity(settings.servers() as usize),
            on: 0,
            starting: 0,
            busy: 0,
            leaving: 0,
            waiting: 0,
            waits_since: NEVER,
            overflowed: 0,
            made_up: 0,
            min_on: span_ns(settings.min_on),
            closed: false,
            switching,
            settings,
        };
        for (kind, count) in counts.iter().enumerate() {
            for _ in 0..*count {
                let server = pool.servers.len() as u32;
                pool.servers.push(Server {
                    phase: Phase::Off,
                    kind: kind as u32,
                    requests: 0,
                    tunnels: 0,
                    places: pool.settings.kinds[kind].places,
                    held_off: false,
                    phase_since: at,
                    since: at,
                    timer: NEVER,
                    on: 0,
                    busy: 0,
                    starting: 0,
                    switched_on: 0,
                    switched_off: 0,
                });
                pool.sit(server);
            }
        }
        pool
    }

    /// Switches on what is to be on from the start.
    pub fn begin(&mut self, now: impl Into<Nanos>, actions: &mut Vec<Action>) {
        self.steer(now.into().0, actions);
    }

    /// Resumes with what a pool like this had learned when it was stopped, this long ago.
    pub fn resume(&mut self, lessons: &FleetLessons, stopped: Duration) {
        if let Switching::Predictive(policy) = &mut self.switching {
            policy.resume(lessons, stopped);
        }
    }

    /// What was learned until now, if the policy learns.
    pub fn lessons(&self) -> Option<FleetLessons> {
        match &self.switching {
            Switching::Predictive(policy) => Some(policy.lessons()),
            _ => None,
        }
    }

    /// A request arrives.
    #[inline]
    pub fn arrive(&mut self, now: impl Into<Nanos>, actions: &mut Vec<Action>) -> Route {
        let at = now.into().0;
        if let Switching::Predictive(policy) = &mut self.switching
            && policy.arrived(at, self.busy)
        {
            self.bin_is_over(at, actions);
        }
        match self.line_up.first(OPEN) {
            Some(server) => {
                self.take(at, server);
                Route::To(server)
            }
            None => self.overflow(at, actions),
        }
    }

    /// A request that this server had is answered (or was given up).
    #[inline]
    pub fn complete(&mut self, now: impl Into<Nanos>, server: u32, actions: &mut Vec<Action>) {
        let at = now.into().0;
        let Some(it) = self.servers.get_mut(server as usize) else { return };
        if it.requests == 0 {
            return;
        }
        let open = it.phase == Phase::On;
        if open && self.waiting > 0 {
            self.waiting -= 1;
            actions.push(Action::Take(server));
            return;
        }
        let was_full = it.requests >= it.places;
        it.requests -= 1;
        let idle = it.requests == 0;
        if idle {
            it.busy += at - it.since;
            it.since = at;
        }
        if open && was_full {
            self.line_up.mark(OPEN, server, true);
        }
        if idle {
            self.fell_idle(at, server, open, actions);
        }
    }

    /// A server that was switched on can serve; or a server is on that the pool did not switch on.
    pub fn ready(&mut self, now: impl Into<Nanos>, server: u32, actions: &mut Vec<Action>) {
        let at = now.into().0;
        match self.phase(server) {
            Some(Phase::Starting) => {
                self.no_longer_starting(at, server);
            }
            Some(Phase::Off) if !self.is_held_off(server) => self.bench.leave(server),
            _ => return,
        }
        self.came(at, server, actions);
    }

    /// A server is on from now.
    fn came(&mut self, at: u64, server: u32, actions: &mut Vec<Action>) {
        self.come_on(at, server);
        self.serve_line(at, server, actions);
        // A server that started for nothing stays on for as long as the start took, whatever the policy.
        let stays = span_ns(self.kind_of(server).switch_on).max(1);
        self.look_at(server, at.saturating_add(stays));
        self.steer(at, actions);
    }

    /// A server is not to be had any more; the requests that it had are the caller's to offer again.
    pub fn failed(&mut self, now: impl Into<Nanos>, server: u32, actions: &mut Vec<Action>) {
        let at = now.into().0;
        match self.phase(server) {
            None | Some(Phase::Failed) => return,
            Some(Phase::Off) => self.bench.leave(server),
            Some(Phase::Starting) => self.no_longer_starting(at, server),
            Some(Phase::On | Phase::Draining) => {
                if self.servers[server as usize].requests > 0 {
                    let it = &mut self.servers[server as usize];
                    it.requests = 0;
                    it.busy += at - it.since;
                    self.busy_fell(at);
                }
                self.step_down(server);
                self.no_longer_on(at, server);
            }
        }
        let it = &mut self.servers[server as usize];
        (it.phase, it.phase_since, it.tunnels) = (Phase::Failed, at, 0);
        self.replace(at, actions);
    }

    /// A server that had failed is off and to be had again.
    pub fn repaired(&mut self, now: impl Into<Nanos>, server: u32, actions: &mut Vec<Action>) {
        if self.phase(server) == Some(Phase::Failed) {
            let at = now.into().0;
            let it = &mut self.servers[server as usize];
            (it.phase, it.phase_since) = (Phase::Off, at);
            self.sit(server);
            self.replace(at, actions);
        }
    }

    /// [`next_timer`](Self::next_timer) has come.
    pub fn tick(&mut self, now: impl Into<Nanos>, actions: &mut Vec<Action>) {
        let at = now.into().0;
        while let Some(&Reverse((due, server))) = self.timers.peek()
            && due <= at
        {
            self.timers.pop();
            if self.servers[server as usize].timer == due {
                self.servers[server as usize].timer = NEVER;
                self.consider(at, server, actions);
            }
        }
        if let Switching::Predictive(policy) = &mut self.switching
            && policy.tick(at, self.busy)
        {
            self.bin_is_over(at, actions);
        } else {
            self.steer(at, actions);
        }
    }

    /// When [`tick`](Self::tick) is to be called, unless something happens before; it may come too
    /// early, never too late.
    #[inline]
    pub fn next_timer(&self) -> Nanos {
        let timer = self.timers.peek().map_or(NEVER, |timer| timer.0.0);
        match &self.switching {
            Switching::Keep { .. } => Nanos(timer),
            // A pool that is closed waits for nothing but its servers.
            Switching::Predictive(_) if self.closed => Nanos(timer),
            Switching::Predictive(policy) => Nanos(timer.min(policy.due(self.waiting))),
            Switching::Schedule(schedule) => Nanos(timer).min(schedule.due().into()),
        }
    }

    /// What a server does; `None` if there is no such server.
    pub fn phase(&self, server: u32) -> Option<Phase> {
        self.servers.get(server as usize).map(|it| it.phase)
    }

    /// Servers that take requests.
    pub const fn on(&self) -> u32 {
        self.on
    }

    /// Servers that are being switched on.
    pub const fn starting(&self) -> u32 {
        self.starting
    }

    /// Servers with at least one request.
    pub const fn busy(&self) -> u32 {
        self.busy
    }

    /// Requests that wait in the common line.
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Its settings.
    pub const fn settings(&self) -> &FleetSettings {
        &self.settings
    }

    /// Times and counts of a server until `now`.
    pub fn tally(&self, now: impl Into<Nanos>, server: u32) -> Tally {
        let Some(it) = self.servers.get(server as usize) else { return Tally::default() };
        let at = now.into().0;
        let (mut on, mut busy, mut starting) = (it.on, it.busy, it.starting);
        match it.phase {
            Phase::On | Phase::Draining => on += at - it.phase_since,
            Phase::Starting => starting += at - it.phase_since,
            Phase::Off | Phase::Failed => {}
        }
        if it.requests > 0 {
            busy += at - it.since;
        }
        Tally {
            on: Duration::from_nanos(on),
            busy: Duration::from_nanos(busy),
            starting: Duration::from_nanos(starting),
            switched_on: it.switched_on,
            switched_off: it.switched_off,
        }
    }

    /// The sum of the tallies of each kind, as in the settings.
    pub fn tallies(&self, now: impl Into<Nanos>) -> Vec<Tally> {
        let now = now.into();
        let mut sums = vec![Tally::default(); self.settings.kinds.len()];
        for (server, it) in self.servers.iter().enumerate() {
            let sum = &mut sums[it.kind as usize];
            *sum = sum.plus(&self.tally(now, server as u32));
        }
        sums
    }

    fn kind_of(&self, server: u32) -> &super::ServerKind {
        &self.settings.kinds[self.servers[server as usize].kind as usize]
    }

    /// Among those that are off and may be switched on.
    fn sit(&mut self, server: u32) {
        if self.is_held_off(server) {
            return;
        }
        self.bench.enter(server, self.servers[server as usize].kind as usize);
        self.bench.mark(0, server, true);
    }

    /// Gives a server that has a place one request more.
    #[inline]
    fn take(&mut self, at: u64, server: u32) {
        let it = &mut self.servers[server as usize];
        it.requests += 1;
        let full = it.requests >= it.places;
        let first = it.requests == 1;
        if first {
            it.since = at;
        }
        if full {
            self.line_up.mark(OPEN, server, false);
        }
        if first {
            self.line_up.mark(IDLE, server, false);
            self.busy += 1;
            if let Switching::Predictive(policy) = &mut self.switching {
                policy.rose(at, self.busy, self.on);
            }
        }
    }

    #[cold]
    fn overflow(&mut self, at: u64, actions: &mut Vec<Action>) -> Route {
        let starts = match &mut self.switching {
            Switching::Predictive(policy) => policy.overflowed(at, self.busy, self.on),
            _ => true,
        };
        self.overflowed += u64::from(starts);
        if starts
            && self.overflowed > self.made_up
            && let Some(server) = self.switch_on(at, actions)
            && self.servers[server as usize].phase == Phase::On
        {
            self.take(at, server);
            return Route::To(server);
        }
        if !self.closed && self.waiting < self.settings.line {
            self.wait(at);
            Route::Wait
        } else {
            Route::Refuse
        }
    }

    /// One more in the line.
    fn wait(&mut self, at: u64) {
        if self.waiting == 0 {
            self.waits_since = at;
        }
        self.waiting += 1;
    }

    #[inline]
    fn busy_fell(&mut self, at: u64) {
        if let Switching::Predictive(policy) = &mut self.switching {
            policy.fell(at, self.busy, self.on);
        }
        self.busy -= 1;
    }

    /// A server has no requests any more.
    #[inline]
    fn fell_idle(&mut self, at: u64, server: u32, open: bool, actions: &mut Vec<Action>) {
        self.busy_fell(at);
        if self.servers[server as usize].tunnels == 0 {
            self.may_go_off(at, server, open, actions);
        }
    }

    /// Nothing keeps a server on any more but the policy.
    #[inline]
    fn may_go_off(&mut self, at: u64, server: u32, open: bool, actions: &mut Vec<Action>) {
        if !open {
            self.switch_off(at, server, actions);
            self.replace(at, actions);
            return;
        }
        self.line_up.mark(IDLE, server, true);
        match &self.switching {
            Switching::Keep { always_on, .. } if self.on <= *always_on => {}
            Switching::Keep { .. } => self.consider(at, server, actions),
            Switching::Predictive(_) => {}
            Switching::Schedule(_) => self.steer(at, actions),
        }
    }
}
