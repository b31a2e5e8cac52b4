//! The bill: how long the server was in which state, and what that cost and saved.
//!
//! Without a meter all energy follows from times and counts. With one, a bill is what was measured
//! in the time that the meter covered, and what the power states say of the rest: so it also keeps
//! how much of the time in each state was covered ([`Metered`]).
//!
//! What a meter says comes late, so the last stretch of a bill is open: [`Ledger::settle`] closes it
//! as far as all meters have spoken, or have been waited for long enough.

mod metered;
mod pending;
mod shares;

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::metered::Metered;
use self::pending::Pending;
pub use self::pending::{Measure, READING_TIMEOUT};
use self::shares::Shares;
use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::{Mono, Now, Wall};

/// What the bill counts the present time as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Billing {
    /// The server is awake.
    On,
    /// From the sleep command to the wake command answered.
    Off,
    /// The proxy was down: billed as awake, so that no saving is claimed.
    Unobserved,
}

/// Times and counts from which every energy figure of a server follows.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Bill {
    /// Time awake.
    pub on: Duration,
    /// Time from sleep commands to wake commands answered.
    pub off: Duration,
    /// Time in which the proxy was down.
    pub unobserved: Duration,
    /// Sleeps begun. Each is charged the energy of one cycle.
    pub cycles: u64,
    /// Wake-ups answered.
    pub wakeups: u64,
    /// Of the time awake, that in which it had requests; told of the servers of pools only.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub busy: Duration,
    /// What of it a meter of the server covered.
    #[serde(default, skip_serializing_if = "Metered::is_nothing")]
    pub server_metered: Metered,
    /// How much of the proxy is on this bill, if others share it. All of it, where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_share: Option<ProxyShare>,
    /// What of its time a meter of the proxy covered, and this bill's part of what it measured.
    #[serde(default, skip_serializing_if = "Metered::is_nothing")]
    pub proxy_metered: Metered,
}

/// A bill's part of a proxy that is on several.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ProxyShare {
    /// The part that it has now, from nothing (0) to all (1).
    pub part: f64,
    /// Of the span, the time that the proxy is on this bill for: with a half of it, half of the time.
    pub time: Duration,
}

impl Bill {
    /// The span billed.
    pub fn span(&self) -> Duration {
        self.on + self.off + self.unobserved
    }

    /// Energy of the server: measured where a meter covered it, else modelled.
    pub fn server(&self, states: &PowerStates) -> Joules {
        self.server_metered.joules + self.server_modelled(states)
    }

    /// Energy of the server in the time that no meter covered, modelled from its power states.
    pub fn server_modelled(&self, states: &PowerStates) -> Joules {
        let covered = &self.server_metered;
        let awake =
            self.on.saturating_sub(covered.on) + self.unobserved.saturating_sub(covered.unobserved);
        let cycles = self.cycles.saturating_sub(covered.cycles);
        states.energy(awake, self.off.saturating_sub(covered.off), cycles)
    }

    /// The time with requests that no meter covered, as far as that is known: meters do not tell the time
    /// with requests from the rest of the time awake.
    pub fn uncovered_busy(&self) -> Duration {
        if self.on.is_zero() {
            return Duration::ZERO;
        }
        let covered = self.server_metered.on.as_secs_f64() / self.on.as_secs_f64();
        self.busy.mul_f64((1.0 - covered).clamp(0.0, 1.0))
    }

    /// Energy of the proxy: measured where a meter covered it; of one that drew this much in the
    /// rest of the time.
    pub fn proxy(&self, power: Watts) -> Joules {
        self.proxy_metered.joules + self.proxy_modelled(power)
    }

    /// Energy of a proxy that drew this much, in the time that no meter covered.
    pub fn proxy_modelled(&self, power: Watts) -> Joules {
        power * self.proxy_time().saturating_sub(self.proxy_metered.time())
    }

    /// The time that the proxy is on this bill for.
    pub fn proxy_time(&self) -> Duration {
        self.proxy_share.map_or_else(|| self.span(), |share| share.time)
    }

    /// The same bill, if those that say nothing of the proxy have nothing of it.
    #[must_use]
    pub fn without_unsaid_proxy(self) -> Self {
        Self { proxy_share: Some(self.proxy_share.unwrap_or_default()), ..self }
    }

    /// Energy of the server had it never slept, without a proxy. Always modelled: what did not
    /// happen cannot be measured.
    pub fn always_on(&self, states: &PowerStates) -> Joules {
        states.on * self.span()
    }

    /// What came to it since an earlier state of the same bill.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            on: self.on.saturating_sub(earlier.on),
            off: self.off.saturating_sub(earlier.off),
            unobserved: self.unobserved.saturating_sub(earlier.unobserved),
            cycles: self.cycles.saturating_sub(earlier.cycles),
            wakeups: self.wakeups.saturating_sub(earlier.wakeups),
            busy: self.busy.saturating_sub(earlier.busy),
            server_metered: self.server_metered.since(&earlier.server_metered),
            proxy_share: self
                .proxy_share
                .map(|it| ProxyShare { time: it.time.saturating_sub(earlier.proxy_time()), ..it }),
            proxy_metered: self.proxy_metered.since(&earlier.proxy_metered),
        }
    }

    /// 1 - (server + proxy) / (server always on, no proxy). Zero for an empty span.
    pub fn saving(&self, states: &PowerStates, proxy: Watts) -> f64 {
        let always_on = self.always_on(states);
        if always_on.get() <= 0.0 {
            return 0.0;
        }
        1.0 - (self.server(states) + self.proxy(proxy)) / always_on
    }

    /// Whether its saving says nothing yet: until the server has slept and woken, and the bill is ten times as long as
    /// a sleep must last to pay. A bill of a whole day is never too early.
    pub fn is_too_early(&self, states: &PowerStates) -> bool {
        let (span, enough) = (self.span(), states.break_even().saturating_mul(10));
        let is_short = self.cycles == 0 || self.wakeups == 0 || span < enough;
        is_short && span < Duration::from_hours(24)
    }
}

/// An hour of civil time on the bill, or what the ledger saw of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hour {
    /// When it began (ms since 1970, UTC).
    pub began: Wall,
    /// What came to the bill in it.
    pub bill: Bill,
}

/// Whose energy a meter measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The server's.
    Server,
    /// The proxy's.
    Proxy,
}

impl Part {
    /// `server` or `proxy`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Proxy => "proxy",
        }
    }
}

/// Time that counts as one thing, from a moment to the beginning of the next stretch.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    from: Mono,
    billing: Billing,
    /// A sleep cycle begins with it, and is not on the settled bill yet.
    cycle: bool,
    /// It begins with a wake-up answered, which is not on the settled bill yet.
    wakeup: bool,
}

/// Stretches that wait for a meter; beyond it the oldest is settled without.
const MOST_STRETCHES: usize = 4096;

/// A bill that is being written.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// As of `settled_to`: what it says does not change any more.
    settled: Bill,
    settled_to: Mono,
    /// The first holds `settled_to`, the last goes on.
    stretches: VecDeque<Stretch>,
    meters: [Option<Pending>; 2],
    /// Which part of the proxy is on this bill.
    shares: Shares,
    /// When the present hour began, and the settled bill then.
    hour: (Mono, Bill),
    /// Since when the server has had requests, as far as that is told and not on the settled bill.
    busy_since: Option<Mono>,
}

impl Ledger {
    /// Goes on with `bill` from now.
    pub fn resume(bill: Bill, billing: Billing, now: Mono) -> Self {
        let first = Stretch { from: now, billing, cycle: false, wakeup: false };
        Self {
            settled: bill,
            settled_to: now,
            stretches: VecDeque::from([first]),
            meters: [None, None],
            shares: Shares::new(bill.proxy_share.map_or(1.0, |it| it.part)),
            hour: (now, bill),
            busy_since: None,
        }
    }

    /// From now on the server has requests, or has none any more.
    pub fn works(&mut self, now: Mono, works: bool) {
        if let Some(since) = self.busy_since.take() {
            self.settled.busy += now.since(since);
        }
        self.busy_since = works.then_some(now);
    }

    /// From now on so much of the proxy is on this bill, from nothing (0) to all (1); others have the
    /// rest on theirs. Is that another part than before?
    pub fn share_proxy(&mut self, now: Mono, part: f64) -> bool {
        let turns = self.shares.turn(now, part);
        if turns {
            let time = self.settled.proxy_time();
            self.settled.proxy_share = Some(ProxyShare { part, time });
        }
        turns
    }

    /// Which part of the proxy is on this bill now.
    pub fn proxy_share(&self) -> f64 {
        self.shares.now()
    }

    /// A meter will say what this part uses.
    pub fn expect_meter(&mut self, part: Part) {
        self.meters[part as usize] = Some(Pending::default());
    }

    /// Does a meter say what any part uses?
    pub fn is_metered(&self) -> bool {
        self.meters.iter().any(Option::is_some)
    }

    /// From now on the time counts as something else.
    pub fn turn(&mut self, now: Mono, billing: Billing) {
        self.begin(Stretch { from: now, billing, cycle: false, wakeup: false });
    }

    fn begin(&mut self, stretch: Stretch) {
        if !self.is_metered() {
            self.close(stretch.from);
        } else if self.stretches.len() >= MOST_STRETCHES {
            self.close(self.stretches[1].from);
        }
        self.stretches.push_back(stretch);
    }

    /// A sleep command was given.
    pub fn fell_asleep(&mut self, now: Mono) {
        self.begin(Stretch { from: now, billing: Billing::Off, cycle: true, wakeup: false });
    }

    /// The sleep command came to nothing: the time since it was spent awake, and no cycle began.
    pub fn stayed_awake(&mut self, now: Mono) {
        if let Some(last) = self.stretches.back_mut() {
            *last = Stretch { billing: Billing::On, cycle: false, ..*last };
        }
        self.turn(now, Billing::On);
    }

    /// The server answers again.
    pub fn woke(&mut self, now: Mono) {
        self.begin(Stretch { from: now, billing: Billing::On, cycle: false, wakeup: true });
    }

    /// The bill as of now. Time for which a meter has yet to speak is on it as modelled.
    pub fn bill(&self, now: Mono) -> Bill {
        let mut bill = self.settled;
        bill.busy += self.busy_since.map_or(Duration::ZERO, |since| now.since(since));
        let ends = self.stretches.iter().skip(1).map(|next| next.from).chain([Mono::NEVER]);
        for (stretch, end) in self.stretches.iter().zip(ends) {
            let from = stretch.from.max(self.settled_to);
            *bill.time(stretch.billing) += end.min(now).since(from);
            if stretch.from <= now {
                bill.cycles += u64::from(stretch.cycle);
                bill.wakeups += u64::from(stretch.wakeup);
            }
        }
        if let Some(share) = &mut bill.proxy_share {
            share.time += self.shares.between(self.settled_to, now);
        }
        bill
    }

    /// The bill as of the last turn, without the sleep that began then and may still come to
    /// nothing.
    pub fn before_sleep(&self) -> Bill {
        let bill = self.bill(self.last().from);
        Bill { cycles: bill.cycles.saturating_sub(1), ..bill }
    }

    /// The bill as far as it is settled; nothing on it ever falls. Without meters that is now.
    pub fn settled(&self, now: Mono) -> Bill {
        if self.is_metered() { self.settled } else { self.bill(now) }
    }

    /// Takes what a meter says of a time; it is booked when that time is settled.
    pub fn measured(&mut self, part: Part, measure: Measure) {
        if let Some(pending) = &mut self.meters[part as usize] {
            pending.add(measure, self.settled_to);
        }
    }

    /// Settles the time up to which every meter has spoken, or could have for [`READING_TIMEOUT`]; none
    /// after the last turn if that is `provisional`. Returns the hours that ended.
    pub fn settle(&mut self, now: Now, provisional: bool) -> Vec<Hour> {
        let waited = now.mono - READING_TIMEOUT;
        let spoken = self.meters.iter().flatten().map(|meter| meter.reaches().max(waited));
        self.settle_to(now, spoken.min().unwrap_or(now.mono), provisional)
    }

    /// Settles all time up to now, whatever meters have yet to say of it: the proxy stops. Returns the
    /// hours that ended, and the one that did not.
    pub fn end(&mut self, now: Now, provisional: bool) -> Vec<Hour> {
        let mut hours = self.settle_to(now, now.mono, provisional);
        hours.extend(self.end_hour(now));
        hours
    }

    fn settle_to(&mut self, now: Now, to: Mono, provisional: bool) -> Vec<Hour> {
        let mut hours = Vec::new();
        if !self.is_metered() {
            return hours;
        }
        let last = if provisional { self.last().from } else { Mono::NEVER };
        let to = to.min(now.mono).min(last);
        while self.settled_to < to {
            let hour_ends = self.settled_to + left_of_hour(now, self.settled_to);
            let stop = to.min(hour_ends);
            self.close(stop);
            // The civil clock is kept in step by little: an hour that it is told twice is one.
            let long = stop.since(self.hour.0) >= Duration::from_secs(1);
            if stop == hour_ends && long {
                hours.extend(self.end_hour(now));
            }
        }
        hours
    }

    fn end_hour(&mut self, now: Now) -> Option<Hour> {
        let (began, before) = std::mem::replace(&mut self.hour, (self.settled_to, self.settled));
        let bill = self.settled.since(&before);
        let ago = i64::try_from(now.mono.since(began).as_millis()).unwrap_or(i64::MAX);
        let began = Wall(now.wall.0.saturating_sub(ago));
        (!bill.span().is_zero()).then_some(Hour { began, bill })
    }

    /// Books everything up to `to`.
    fn close(&mut self, to: Mono) {
        if to <= self.settled_to {
            return;
        }
        for part in [Part::Server, Part::Proxy] {
            while let Some(measure) =
                self.meters[part as usize].as_mut().and_then(|meter| meter.next_until(to))
            {
                self.book(part, &measure);
            }
        }
        while let Some(end) = self.stretches.get(1).map(|next| next.from).filter(|end| *end <= to) {
            self.close_first(end);
            self.count_first();
            self.stretches.pop_front();
        }
        self.close_first(to);
        // What begins at `to` is counted with the time after it.
        if self.stretches.front().is_some_and(|first| first.from < to) {
            self.count_first();
        }
    }

    /// Books the time of the first stretch up to `to`, where it ends at the earliest.
    fn close_first(&mut self, to: Mono) {
        let Some(first) = self.stretches.front() else { return };
        let from = first.from.max(self.settled_to);
        *self.settled.time(first.billing) += to.since(from);
        if let Some(share) = &mut self.settled.proxy_share {
            share.time += self.shares.between(from, to);
        }
        self.settled_to = self.settled_to.max(to);
        self.shares.forget_before(self.settled_to);
    }

    /// Books what the first stretch began with.
    fn count_first(&mut self) {
        let Some(first) = self.stretches.front_mut() else { return };
        self.settled.cycles += u64::from(std::mem::take(&mut first.cycle));
        self.settled.wakeups += u64::from(std::mem::take(&mut first.wakeup));
    }

    /// Books what was measured, its time under the states that it was spent in.
    fn book(&mut self, part: Part, measure: &Measure) {
        let (metered, share) = match part {
            Part::Server => (&mut self.settled.server_metered, 1.0),
            Part::Proxy => {
                (&mut self.settled.proxy_metered, self.shares.mean(measure.from, measure.to))
            }
        };
        metered.joules += measure.joules * share;
        metered.uncertainty += measure.uncertainty * share;
        let ends = self.stretches.iter().skip(1).map(|next| next.from).chain([Mono::NEVER]);
        for (stretch, end) in self.stretches.iter().zip(ends) {
            let covered = end.min(measure.to).since(stretch.from.max(measure.from)).mul_f64(share);
            match stretch.billing {
                Billing::On => metered.on += covered,
                Billing::Off => metered.off += covered,
                Billing::Unobserved => metered.unobserved += covered,
            }
            let begins = (measure.from..measure.to).contains(&stretch.from);
            metered.cycles += u64::from(stretch.cycle && begins);
        }
    }

    fn last(&self) -> Stretch {
        let unknown = Stretch {
            from: self.settled_to,
            billing: Billing::Unobserved,
            cycle: false,
            wakeup: false,
        };
        self.stretches.back().copied().unwrap_or(unknown)
    }

    /// What the present time counts as.
    pub fn billing(&self) -> Billing {
        self.last().billing
    }
}

impl Bill {
    const fn time(&mut self, billing: Billing) -> &mut Duration {
        match billing {
            Billing::On => &mut self.on,
            Billing::Off => &mut self.off,
            Billing::Unobserved => &mut self.unobserved,
        }
    }
}

/// From `at` to the end of its hour of civil time, as the clock shows it now.
fn left_of_hour(now: Now, at: Mono) -> Duration {
    const HOUR: i64 = 3_600_000;
    let ago = i64::try_from(now.mono.since(at).as_millis()).unwrap_or(i64::MAX);
    let local = now.wall.0.saturating_add(i64::from(now.utc_offset) * 1000).saturating_sub(ago);
    Duration::from_millis((HOUR - local.rem_euclid(HOUR)).unsigned_abs())
}

#[cfg(test)]
mod tests;
