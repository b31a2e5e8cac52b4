//! How often an address is requested lately, and which addresses clients ask for that no page links to.

use std::collections::HashMap;
use std::time::Duration;

use nightwatt_httpcache::Timestamp;
use serde::{Deserialize, Serialize};

use super::address::Address;

/// After this time a request counts half.
const HALF_LIFE: Duration = Duration::from_hours(7 * 24);

/// Requests of late, each of which counts less the longer ago it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Popularity {
    value: f64,
    /// The time for which `value` holds, in milliseconds since 1970.
    at: u64,
}

impl Popularity {
    /// Requests that count, at a time.
    pub fn at(self, now: Timestamp) -> f64 {
        let passed = now.since(Timestamp::from_millis(self.at)).as_secs_f64();
        self.value * (-passed / HALF_LIFE.as_secs_f64()).exp2()
    }

    /// With one request more.
    #[must_use]
    pub fn requested(self, now: Timestamp) -> Self {
        Self { value: self.at(now) + 1.0, at: now.as_millis().max(self.at) }
    }
}

/// Addresses that one client has asked for. The second client proves that it is no secret.
#[derive(Clone, Debug, Default)]
pub struct FirstRequests {
    clients: HashMap<Address, FirstRequest>,
}

#[derive(Clone, Copy, Debug)]
struct FirstRequest {
    client: u64,
    at: Timestamp,
}

/// More are not remembered.
const MOST: usize = 2048;

/// For this long.
const REMEMBERED: Duration = Duration::from_hours(7 * 24);

impl FirstRequests {
    /// Notes that a client was given a good answer; true if another one was before.
    pub fn is_second(&mut self, address: &Address, client: u64, now: Timestamp) -> bool {
        let first = self.clients.get(address).filter(|it| now.since(it.at) < REMEMBERED);
        match first {
            Some(first) if first.client != client => {
                self.clients.remove(address);
                true
            }
            Some(_) => false,
            None => {
                self.make_room(now);
                self.clients.insert(address.clone(), FirstRequest { client, at: now });
                false
            }
        }
    }

    fn make_room(&mut self, now: Timestamp) {
        if self.clients.len() < MOST {
            return;
        }
        self.clients.retain(|_, first| now.since(first.at) < REMEMBERED);
        if self.clients.len() >= MOST {
            // The older half: then this is rare.
            let mut times: Vec<Timestamp> = self.clients.values().map(|it| it.at).collect();
            times.sort_unstable();
            let middle = times.get(times.len() / 2).copied().unwrap_or_default();
            self.clients.retain(|_, first| first.at > middle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_780_000_000);

    fn after(days: u64) -> Timestamp {
        NOW.plus(Duration::from_hours(24 * days))
    }

    #[test]
    fn a_request_of_a_week_ago_counts_half() {
        let popularity = Popularity::default().requested(NOW).requested(NOW);
        assert!((popularity.at(NOW) - 2.0).abs() < 1e-9);
        assert!((popularity.at(after(7)) - 1.0).abs() < 1e-9);
        assert!((popularity.requested(after(14)).at(after(14)) - 1.5).abs() < 1e-9);
    }

    #[test]
    fn two_clients_prove_that_an_address_is_no_secret() {
        let mut first = FirstRequests::default();
        let address = Address::new("/a").unwrap();
        assert!(!first.is_second(&address, 1, NOW));
        assert!(!first.is_second(&address, 1, after(1)));
        assert!(first.is_second(&address, 2, after(2)));
        assert!(!first.is_second(&address, 1, after(2)), "it begins again");
        assert!(!first.is_second(&address, 2, after(10)), "after a week the first is forgotten");
    }

    #[test]
    fn what_is_remembered_of_requests_is_bounded() {
        let mut first = FirstRequests::default();
        for number in 0..10_000_u64 {
            let address = Address::new(&format!("/{number}")).unwrap();
            first.is_second(&address, 1, NOW.plus(Duration::from_secs(number)));
            assert!(first.clients.len() <= MOST);
        }
    }
}
