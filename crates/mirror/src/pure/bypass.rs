//! Clients that have changed something: they get answers of the server itself for a while.

use std::collections::HashMap;
use std::time::Duration;

use nightwatt_httpcache::Timestamp;

/// For this long after its last successful unsafe request a client bypasses the mirror.
pub const BYPASS: Duration = Duration::from_mins(10);

/// More clients are not remembered: then all bypass.
const MOST: usize = 4096;

/// Clients that bypass the mirror.
#[derive(Clone, Debug, Default)]
pub struct Bypasses {
    until: HashMap<u64, Timestamp>,
    /// All do, because there were too many to remember.
    all_until: Timestamp,
}

impl Bypasses {
    /// A client has changed something. `client` is whatever tells clients apart, as a hash.
    pub fn changed(&mut self, client: u64, now: Timestamp) {
        if self.until.len() >= MOST && !self.until.contains_key(&client) {
            self.until.retain(|_, until| *until > now);
            if self.until.len() >= MOST {
                self.all_until = now.plus(BYPASS);
                return;
            }
        }
        self.until.insert(client, now.plus(BYPASS));
    }

    /// Whether a client bypasses the mirror.
    pub fn is_bypassed(&self, client: u64, now: Timestamp) -> bool {
        now < self.all_until || self.until.get(&client).is_some_and(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_changes_something_sees_the_server_for_ten_minutes() {
        let now = Timestamp::from_secs(1_780_000_000);
        let mut bypasses = Bypasses::default();
        bypasses.changed(7, now);
        let after = |minutes: u64| now.plus(Duration::from_mins(minutes));
        assert!(bypasses.is_bypassed(7, now) && !bypasses.is_bypassed(8, now));
        assert!(bypasses.is_bypassed(7, after(9)) && !bypasses.is_bypassed(7, after(10)));
        bypasses.changed(7, after(9));
        assert!(bypasses.is_bypassed(7, after(18)));
    }

    #[test]
    fn when_there_are_too_many_to_remember_all_do() {
        let now = Timestamp::from_secs(1_780_000_000);
        let mut bypasses = Bypasses::default();
        for client in 0..10_000 {
            bypasses.changed(client, now);
            assert!(bypasses.is_bypassed(client, now));
        }
        assert!(bypasses.until.len() <= MOST);
        assert!(!bypasses.is_bypassed(9_999, now.plus(BYPASS)));
    }
}
