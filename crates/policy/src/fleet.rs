//! How many servers of a pool are on, and which of them takes a request.
//!
//! A [`Pool`] is told what happens ([`arrive`](Pool::arrive), [`complete`](Pool::complete),
//! [`ready`](Pool::ready), [`failed`](Pool::failed), [`tick`](Pool::tick)) and says what is to be done.
//! It has no clock and no sockets; live pool and simulator drive the same one. An event takes time
//! that grows with the logarithm (to base 64) of the number of servers, and allocates nothing.
//!
//! **Dispatch.** Servers that are on have an order. A request goes to the first that has a place
//! left; so the last ones fall idle when there is less to do. If none has a place, the next server is
//! switched on; until it is ready the request waits in a common line, if that has room, and else it
//! is refused. (B. Varghese et al., "Greening Web Servers", 2014, with switching that takes time.)
//! While servers are starting, a further one is switched on only once so many requests found no place
//! that those starting could not have served them meanwhile.
//!
//! **Switching.** [`FleetChoice`] says which servers are switched off, and when further ones are
//! switched on ahead of need.

mod choice;
mod forecast;
mod gaps;
mod oracle;
mod order;
mod pool;
mod predictive;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::choice::FleetChoice;
pub use self::oracle::{Levels, Schedule};
pub use self::pool::{FleetError, Pool};
pub use self::predictive::FleetLessons;
use nightwatt_energy::quantity::{Joules, PerSecond, Watts};

/// Like servers of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ServerKind {
    /// How many.
    pub servers: u32,
    /// What one of them can do: 1 / its mean service time.
    pub service: PerSecond,
    /// Most requests that one has at a time, the one in service among them, so that the response time
    /// is kept: [`places_within`](crate::queueing::places_within). At least 1.
    pub places: u32,
    /// What one draws when on and idle.
    pub idle: Watts,
    /// What one draws when it serves.
    pub busy: Watts,
    /// What one draws when off, and while it is switched on.
    pub off: Watts,
    /// Energy of one whole cycle of off and on beyond `off` x its time; charged when it is switched
    /// on.
    pub switch: Joules,
    /// From the command to switch on until it can serve.
    pub switch_on: Duration,
}

impl ServerKind {
    /// Energy per request at full load: kinds are used in this order.
    fn joules_per_request(&self) -> f64 {
        self.busy.get() / self.service.get()
    }

    /// Requests that one could have served while it was switched on.
    fn served_while_starting(&self) -> u64 {
        (self.switch_on.as_secs_f64() * self.service.get()) as u64
    }
}

/// Which server is switched next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wear {
    /// All in turn: the one that was off longest is switched on and takes requests first; those that
    /// were on longest take them last, and so are switched off first.
    #[default]
    Spread,
    /// By their number: the last ones do all the switching.
    ByNumber,
}

/// A pool and what binds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetSettings {
    /// Its servers. They are numbered through in this order, and used by energy per request, the
    /// least first.
    pub kinds: Vec<ServerKind>,
    /// A server stays on for at least this time.
    pub min_on: Duration,
    /// Requests that may wait, all together, until a server has a place.
    pub line: u32,
    /// Which server is switched next.
    pub wear: Wear,
    /// What the operator would pay to spare a server one transition (one on, or one off).
    pub transition_price: Joules,
    /// Share of requests that may find no place at once, 0 to 1. What [`FleetChoice::Predictive`]
    /// aims at; others do not heed it.
    pub overflow_share: f64,
}

impl FleetSettings {
    /// How many servers.
    pub fn servers(&self) -> u32 {
        self.kinds.iter().map(|kind| kind.servers).sum()
    }

    /// Indices of the kinds, those with the least energy per request first.
    fn preferred(&self) -> Vec<usize> {
        let mut kinds: Vec<usize> = (0..self.kinds.len()).collect();
        let cost = |kind: &usize| self.kinds[*kind].joules_per_request();
        kinds.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        kinds
    }

    /// The kind whose servers come at this place when they are switched on by preference.
    fn kind_at(&self, preferred: &[usize], mut place: u32) -> &ServerKind {
        for &kind in preferred {
            let kind = &self.kinds[kind];
            if place < kind.servers {
                return kind;
            }
            place -= kind.servers;
        }
        &self.kinds[preferred[preferred.len() - 1]]
    }
}

/// What becomes of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// This server takes it.
    To(u32),
    /// It waits: it goes to the end of the line, from which [`Action::Take`] calls.
    Wait,
    /// It is sent away.
    Refuse,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Switch this server on, and report [`Pool::ready`] or [`Pool::failed`]. One that needs no time
    /// (`switch_on` of 0) is used at once, and no report is needed.
    SwitchOn(u32),
    /// Switch this server off: it has no requests.
    SwitchOff(u32),
    /// The request at the head of the line goes to this server.
    Take(u32),
}

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Off, and to be had.
    Off,
    /// Switched on, not ready yet.
    Starting,
    /// Takes requests.
    On,
    /// Finishes what it has, and is then switched off.
    Draining,
    /// Not to be had.
    Failed,
}

/// Times and counts of one server, or of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// On, idle or not.
    pub on: Duration,
    /// On and with at least one request.
    pub busy: Duration,
    /// Being switched on.
    pub starting: Duration,
    /// Times switched on.
    pub switched_on: u64,
    /// Times switched off.
    pub switched_off: u64,
}

impl Tally {
    /// Adds another server's.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            on: self.on + other.on,
            busy: self.busy + other.busy,
            starting: self.starting + other.starting,
            switched_on: self.switched_on + other.switched_on,
            switched_off: self.switched_off + other.switched_off,
        }
    }

    /// What came after an earlier state of the same tally.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            on: self.on.saturating_sub(earlier.on),
            busy: self.busy.saturating_sub(earlier.busy),
            starting: self.starting.saturating_sub(earlier.starting),
            switched_on: self.switched_on.saturating_sub(earlier.switched_on),
            switched_off: self.switched_off.saturating_sub(earlier.switched_off),
        }
    }

    /// On and off events.
    pub const fn transitions(&self) -> u64 {
        self.switched_on + self.switched_off
    }

    /// Energy of `servers` servers of a kind over `span`, of which this is the sum.
    pub fn energy(&self, kind: &ServerKind, servers: u32, span: Duration) -> Joules {
        let off = f64::from(servers) * span.as_secs_f64() - self.on.as_secs_f64();
        kind.busy * self.busy
            + kind.idle * self.on.saturating_sub(self.busy)
            + Joules(kind.off.get() * off.max(0.0))
            + kind.switch * self.switched_on as f64
    }
}

#[cfg(test)]
mod tests;
