//! Many fixed time-outs at once over the same requests: what the best of them would have cost.

use std::time::Duration;

use super::Constraints;
use crate::ledger::Bill;
use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::time::Mono;

/// Time-outs that are tried: 200 from 5 seconds to 7 days, equally far apart on a logarithmic scale,
/// and never.
pub fn usual() -> Vec<Duration> {
    let (first, last) = (5_f64, 7.0 * 86_400.0);
    let step = |n: i32| first * (last / first).powf(f64::from(n) / 199.0);
    (0..200).map(|n| Duration::from_secs_f64(step(n))).chain([Duration::MAX]).collect()
}

/// Words of a set of time-outs.
const WORDS: usize = 4;

/// The time-outs under which a visit was delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelayedUnder([u64; WORDS]);

/// One server under every time-out of a list, in the same traffic, with nothing in the way of a
/// sleep but minimum on time and quiet time.
///
/// Equal to as many runs of the power manager with the policy `timeout` (tested in `sim`), and some hundred
/// times quicker: requests that no time-out could have slept before are passed over, and time is
/// counted in whole nanoseconds. So a run may last 584 years.
#[derive(Debug, Clone)]
pub struct Timeouts {
    idle: Vec<Duration>,
    servers: Vec<Server>,
    states: PowerStates,
    rules: Rules,
    /// The last request.
    last: u64,
    /// Until then some server is waking.
    waking: u64,
}

/// What binds every server, ns.
#[derive(Debug, Clone, Copy)]
struct Rules {
    quiet: u64,
    min_on: u64,
    sleep_time: u64,
    wake_time: u64,
    /// A request that waits no longer than this is not delayed.
    delay: u64,
}

/// What one server did so far; times in ns.
#[derive(Debug, Clone, Copy, Default)]
struct Server {
    /// Its time-out, or the quiet time where that is longer.
    idle: u64,
    on: u64,
    off: u64,
    cycles: u64,
    /// Awake since, or will be from then on.
    awake: u64,
    delayed_requests: u64,
    delayed_visits: u64,
}

/// What one time-out came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnderTimeout {
    /// Which.
    pub idle: Duration,
    /// The server's bill.
    pub bill: Bill,
    /// Requests that waited for the server to wake.
    pub delayed_requests: u64,
    /// Visits in which one did.
    pub delayed_visits: u64,
}

impl Timeouts {
    /// Begins at time zero with servers that are awake. `idle` is ascending, 256 at most.
    /// Waiting longer than `delay` counts as delayed.
    pub fn new(mut idle: Vec<Duration>, rules: Constraints, delay: Duration) -> Self {
        idle.truncate(64 * WORDS);
        let Constraints { states, min_on, quiet } = rules;
        let rules = Rules {
            quiet: nanos(quiet),
            min_on: nanos(min_on),
            sleep_time: nanos(states.sleep_time),
            wake_time: nanos(states.wake_time),
            delay: nanos(delay),
        };
        let server =
            |&idle: &Duration| Server { idle: nanos(idle.max(quiet)), ..Server::default() };
        let servers = idle.iter().map(server).collect();
        Self { idle, servers, states, rules, last: 0, waking: 0 }
    }

    /// A request that only the server can answer, not before the last one, of a visit that was
    /// delayed under some of the time-outs already.
    pub fn request(&mut self, at: Mono, visit: &mut DelayedUnder) {
        let at = nanos(at.0);
        let gap = at.saturating_sub(self.last);
        // A server that sleeps after `idle` was awake through a shorter gap, unless it is waking.
        let asleep = if gap >= self.rules.quiet {
            self.servers.partition_point(|server| server.idle <= gap)
        } else {
            0
        };
        let Self { servers, rules, last, waking, .. } = self;
        let (slept, awake) = servers.split_at_mut(asleep);
        for (index, server) in slept.iter_mut().enumerate() {
            let due = server.sleeps_after(*last, rules);
            if at >= due {
                server.on += due - server.awake;
                server.cycles += 1;
                let asleep = at.max(due.saturating_add(rules.sleep_time));
                server.awake = asleep.saturating_add(rules.wake_time);
                server.off += server.awake - due;
                *waking = server.awake.max(*waking);
            }
            server.waits(index, at, rules, visit);
        }
        if at < *waking {
            for (index, server) in awake.iter_mut().enumerate() {
                server.waits(asleep + index, at, rules, visit);
            }
        }
        *last = at;
    }

    /// What each came to by `end`.
    pub fn finish(&self, end: Mono) -> Vec<UnderTimeout> {
        let end = nanos(end.0);
        let finish = |(server, &idle): (&Server, &Duration)| {
            let due = server.sleeps_after(self.last, &self.rules);
            let mut server = *server;
            server.on += due.min(end).saturating_sub(server.awake);
            // Still waking: that was booked up to the moment when it will be awake.
            server.off = server.off.saturating_sub(server.awake.saturating_sub(end));
            if due <= end {
                server.off += end - due;
                server.cycles += 1;
            }
            let Server { on, off, cycles, delayed_requests, delayed_visits, .. } = server;
            let (on, off) = (Duration::from_nanos(on), Duration::from_nanos(off));
            let bill = Bill { on, off, cycles, ..Bill::default() };
            UnderTimeout { idle, bill, delayed_requests, delayed_visits }
        };
        self.servers.iter().zip(&self.idle).map(finish).collect()
    }

    /// Power states of the servers.
    pub const fn states(&self) -> &PowerStates {
        &self.states
    }
}

impl Server {
    /// When it falls asleep if no request follows the `last` one.
    fn sleeps_after(&self, last: u64, rules: &Rules) -> u64 {
        let used = last.max(self.awake);
        used.saturating_add(self.idle).max(self.awake.saturating_add(rules.min_on))
    }

    /// A request waits until the server is awake, if it is not.
    fn waits(&mut self, index: usize, at: u64, rules: &Rules, visit: &mut DelayedUnder) {
        if self.awake.saturating_sub(at) <= rules.delay {
            return;
        }
        self.delayed_requests += 1;
        let (word, bit) = (index / 64, 1_u64 << (index % 64));
        if visit.0[word] & bit == 0 {
            visit.0[word] |= bit;
            self.delayed_visits += 1;
        }
    }
}

/// Nanoseconds; what lasts for ever, as many as there are.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hundred_and_never_from_5_s_to_a_week() {
        let idle = usual();
        assert_eq!(idle.len(), 201);
        assert_eq!((idle[0].as_secs(), idle[200]), (5, Duration::MAX));
        assert!((idle[199].as_secs_f64() - 604_800.0).abs() < 1e-3);
        let ratio = |n: usize| idle[n + 1].as_secs_f64() / idle[n].as_secs_f64();
        assert!((0..199).all(|n| (ratio(n) - ratio(0)).abs() < 1e-6));
    }
}
