//! Local ports that rest after a session of datagrams: a late answer to an old session must not reach the client of a
//! new one, and the port is all that tells them apart.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use nightwatt_energy::time::Mono;

/// A port rests for this time: the longest life of a packet on the internet (RFC 793, 3.3: two minutes).
pub const REST: Duration = Duration::from_mins(2);

/// If ports are short, one may be used again after this time.
pub const LEAST_REST: Duration = Duration::from_secs(10);

/// Ports that rest at once. Linux has 28,232 for all programs.
pub const MOST: usize = 16_384;

/// The ports that rest.
#[derive(Debug, Default)]
pub struct RestingPorts {
    /// In the order in which they began to rest.
    ended: VecDeque<(Mono, u16)>,
    /// How often each is in there.
    resting: HashMap<u16, u32>,
}

impl RestingPorts {
    /// The session with this port has ended.
    pub fn rest(&mut self, now: Mono, port: u16) {
        self.ended.push_back((now, port));
        *self.resting.entry(port).or_default() += 1;
    }

    /// Whether a new session may have a port at all. Ports that have rested leave; if too many rest, so do the first
    /// of those that have rested for the shortest time.
    pub fn has_room(&mut self, now: Mono) -> bool {
        while let Some(&(since, port)) = self.ended.front() {
            let rested = now.since(since);
            let is_short = self.ended.len() >= MOST;
            if rested < if is_short { LEAST_REST } else { REST } {
                return !is_short;
            }
            self.ended.pop_front();
            if let Some(count) = self.resting.get_mut(&port) {
                *count -= 1;
                if *count == 0 {
                    self.resting.remove(&port);
                }
            }
        }
        true
    }

    /// Whether a port rests. Call [`has_room`](Self::has_room) before.
    pub fn rests(&self, port: u16) -> bool {
        self.resting.contains_key(&port)
    }

    /// The ports that rest, for another process.
    pub fn all(&self) -> impl Iterator<Item = u16> {
        self.resting.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_secs(seconds)
    }

    #[test]
    fn a_port_rests_for_two_minutes() {
        let mut ports = RestingPorts::default();
        ports.rest(at(5), 40_000);
        assert!(ports.has_room(at(124)) && ports.rests(40_000), "119 s");
        assert!(ports.has_room(at(125)) && !ports.rests(40_000), "120 s");
    }

    #[test]
    fn a_port_that_another_process_used_too_rests_from_the_last_time() {
        let mut ports = RestingPorts::default();
        ports.rest(at(0), 40_000);
        ports.rest(at(60), 40_000);
        assert!(ports.has_room(at(120)) && ports.rests(40_000));
        assert!(ports.has_room(at(180)) && !ports.rests(40_000));
    }

    #[test]
    fn if_ports_are_short_they_rest_for_ten_seconds_but_never_less() {
        let mut ports = RestingPorts::default();
        let first = 10_000_u16;
        for number in 0..MOST {
            assert!(ports.has_room(at(1)), "{number}");
            ports.rest(at(1), first + u16::try_from(number).unwrap());
        }
        assert!(!ports.has_room(at(10)), "9 s are too short");
        assert!(ports.rests(first));
        assert!(ports.has_room(at(11)) && !ports.rests(first));
        assert!(ports.rests(first + 1), "one leaves for the one that comes");
    }
}
