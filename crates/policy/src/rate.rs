//! How often a client may ask: a token bucket for each, kept as one point in time (GCRA).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use nightwatt_energy::time::Mono;

/// What may be written for a unit of time.
const UNITS: [(&str, Duration); 3] =
    [("s", Duration::from_secs(1)), ("m", Duration::from_mins(1)), ("h", Duration::from_hours(1))];

/// A number of requests per unit of time, and a number at once: `100/s`, `600/m burst 50`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate {
    requests: u32,
    unit: (&'static str, Duration),
    burst: u32,
}

impl Rate {
    /// This many a minute, and this many at once; both above zero.
    pub const fn per_minute(requests: u32, burst: u32) -> Self {
        assert!(requests > 0 && burst > 0, "a rate of nothing");
        Self { requests, unit: UNITS[1], burst }
    }

    /// The time between two requests of a client that asks as fast as is allowed.
    fn interval(&self) -> Duration {
        self.unit.1 / self.requests
    }

    /// How far ahead of that pace a client may be.
    fn allowance(&self) -> Duration {
        self.interval() * (self.burst - 1)
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.requests, self.unit.0)?;
        if self.burst == self.requests { Ok(()) } else { write!(f, " burst {}", self.burst) }
    }
}

impl std::str::FromStr for Rate {
    type Err = String;

    /// Reads what [`Display`](std::fmt::Display) writes. Without `burst`, as many come at once as
    /// in one unit of time.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a rate: write requests per `s`, `m` or `h`, and how many may come \
                 at once, as in `100/s`, `600/m burst 50`"
            )
        };
        let mut words = text.split_whitespace();
        let (requests, unit) = words.next().and_then(|it| it.split_once('/')).ok_or_else(wrong)?;
        let requests: u32 = requests.parse().map_err(|_| wrong())?;
        let unit = *UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let burst = match (words.next(), words.next()) {
            (None, _) => requests,
            (Some("burst"), Some(burst)) => burst.parse().map_err(|_| wrong())?,
            _ => return Err(wrong()),
        };
        // More than one a nanosecond is no bound at all.
        let sensible = requests > 0 && burst > 0 && !(unit.1 / requests).is_zero();
        if !sensible || words.next().is_some() {
            return Err(wrong());
        }
        Ok(Self { requests, unit, burst })
    }
}

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

/// Clients remembered at once, in some 60 bytes each. A table of 32,768 buckets holds 28,672; while it has half of
/// that at most, it never doubles.
const CLIENTS: usize = 14_336;

/// Clients looked at to find one that can be forgotten.
const SAMPLE: usize = 8;

/// Holds every client to a [`Rate`].
///
/// Memory is bounded. When all places are taken, the next eight in turn are looked at, and of these the
/// client that is furthest from its bound is forgotten: its burst starts full again. A client at its bound is
/// not forgotten for the sake of newcomers, however many those are, and a newcomer costs the same whatever
/// the number of clients.
#[derive(Debug, Clone)]
pub struct RateLimiter {
    rate: Rate,
    places: HashMap<u64, usize, BuildHasherDefault<DefaultHasher>>,
    clients: Vec<Client>,
    hand: usize,
}

#[derive(Debug, Clone, Copy)]
struct Client {
    key: u64,
    /// When its next request is due by the steady pace; a client that is ahead of that is in debt.
    due: Mono,
}

impl RateLimiter {
    /// Without any client yet.
    pub fn new(rate: Rate) -> Self {
        Self { rate, places: HashMap::default(), clients: Vec::new(), hand: 0 }
    }

    /// Takes a request of `client`, or returns how long it has to wait for the next one. What is
    /// refused costs the client nothing.
    pub fn admit(&mut self, now: Mono, client: u64) -> Result<(), Duration> {
        let known = self.places.get(&client).copied();
        let due = known.map_or(now, |place| self.clients[place].due.max(now));
        self.check(now, due)?;
        let place = known.unwrap_or_else(|| self.place_for(client));
        self.clients[place].due = due + self.rate.interval();
        Ok(())
    }

    /// Checks without counting the request: for callers that learn only later whether it counts.
    pub fn may(&self, now: Mono, client: u64) -> Result<(), Duration> {
        self.check(now, self.places.get(&client).map_or(now, |&place| self.clients[place].due))
    }

    fn check(&self, now: Mono, due: Mono) -> Result<(), Duration> {
        let (ahead, allowance) = (due.since(now), self.rate.allowance());
        if ahead > allowance { Err(ahead.saturating_sub(allowance)) } else { Ok(()) }
    }

    fn place_for(&mut self, key: u64) -> usize {
        let place = if self.clients.len() < CLIENTS {
            self.clients.push(Client { key, due: Mono::ZERO });
            self.clients.len() - 1
        } else {
            self.forget_one()
        };
        self.clients[place].key = key;
        self.places.insert(key, place);
        place
    }

    fn forget_one(&mut self) -> usize {
        let sample = (0..SAMPLE).map(|ahead| (self.hand + ahead) % CLIENTS);
        let place = sample.min_by_key(|&place| self.clients[place].due).unwrap_or(self.hand);
        self.hand = (self.hand + SAMPLE) % CLIENTS;
        self.places.remove(&self.clients[place].key);
        place
    }

    /// Clients that something is remembered of.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn limiter(rate: &str) -> RateLimiter {
        RateLimiter::new(rate.parse().unwrap())
    }

    fn at(millis: u64) -> Mono {
        Mono(Duration::from_millis(millis))
    }

    #[test]
    fn rates_are_named_as_they_are_written() {
        for text in ["100/s", "1/h", "600/m burst 50", "1000000/s burst 1"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        assert_eq!("5/s burst 5".parse::<Rate>().unwrap().to_string(), "5/s");
        for wrong in [
            "",
            "100",
            "100/d",
            "/s",
            "-1/s",
            "0/s",
            "1.5/s",
            "1/s burst",
            "1/s burst 0",
            "1/s burst 5 5",
            "1/s 5",
            "2000000000/s",
            "99999999999/s",
        ] {
            let error = wrong.parse::<Rate>().unwrap_err();
            assert!(error.contains("is not a rate") && error.contains("`100/s`"), "{error}");
        }
    }

    #[test]
    fn a_burst_at_once_and_then_the_steady_pace() {
        // By hand: 10/s is one every 100 ms; three at once, the fourth 100 ms after the first.
        let mut limiter = limiter("10/s burst 3");
        for _ in 0..3 {
            assert_eq!(limiter.admit(at(1000), 1), Ok(()));
        }
        assert_eq!(limiter.admit(at(1000), 1), Err(Duration::from_millis(100)));
        assert_eq!(limiter.admit(at(1060), 1), Err(Duration::from_millis(40)));
        assert_eq!(limiter.admit(at(1000), 2), Ok(()), "others are not concerned");
        assert_eq!(limiter.admit(at(1100), 1), Ok(()));
        assert!(limiter.admit(at(1100), 1).is_err());
        // Idle for 300 ms: all three are back, and no more than three.
        for _ in 0..3 {
            assert_eq!(limiter.admit(at(60_000), 1), Ok(()));
        }
        assert!(limiter.admit(at(60_000), 1).is_err());
    }

    #[test]
    fn to_ask_whether_one_may_costs_nothing_and_says_what_taking_it_would() {
        let mut limiter = RateLimiter::new(Rate::per_minute(6, 2));
        for _ in 0..10 {
            assert_eq!(limiter.may(at(0), 1), Ok(()));
        }
        assert_eq!(limiter.clients(), 0);
        assert_eq!([limiter.admit(at(0), 1), limiter.admit(at(0), 1)], [Ok(()); 2]);
        assert_eq!(limiter.may(at(4000), 1), Err(Duration::from_secs(6)));
        assert_eq!(limiter.admit(at(4000), 1), Err(Duration::from_secs(6)));
        assert_eq!(limiter.may(at(10_000), 1), Ok(()));
    }

    #[test]
    fn waiting_as_long_as_told_is_enough_and_hammering_does_not_prolong_it() {
        let mut limiter = limiter("1/m burst 1");
        assert_eq!(limiter.admit(at(0), 1), Ok(()));
        for second in 0..60 {
            let wait = limiter.admit(at(second * 1000), 1).unwrap_err();
            assert_eq!(wait, Duration::from_secs(60 - second));
        }
        assert_eq!(limiter.admit(at(60_000), 1), Ok(()));
    }

    #[test]
    fn many_clients_do_not_fill_the_memory_and_do_not_hide_who_is_at_the_bound() {
        let mut limiter = limiter("1/s burst 10");
        let greedy = u64::MAX;
        while limiter.admit(at(0), greedy).is_ok() {}
        for newcomer in 0..100_000 {
            assert_eq!(limiter.admit(at(1), newcomer), Ok(()));
        }
        assert_eq!(limiter.clients(), CLIENTS);
        assert_eq!(limiter.places.len(), CLIENTS);
        assert!(limiter.admit(at(2), greedy).is_err(), "it was forgotten");
        for (key, &place) in &limiter.places {
            assert_eq!(limiter.clients[place].key, *key);
        }
    }

    proptest! {
        /// The bucket of the textbook, counted in tokens: a fixed maximum, refilled at one per interval.
        #[test]
        fn it_is_a_token_bucket(
            requests in 1_u32..50,
            burst in 1_u32..20,
            steps in prop::collection::vec(0_u64..400, 1..200),
        ) {
            let rate = Rate { requests, unit: UNITS[0], burst };
            let interval = rate.interval().as_nanos();
            let mut limiter = RateLimiter::new(rate);
            let (mut now, mut full) = (0_u64, u128::from(burst) * interval);
            let most = full;
            for step in steps {
                now += step;
                full = most.min(full + u128::from(step) * 1_000_000);
                let allowed = full >= interval;
                prop_assert_eq!(limiter.admit(at(now), 7).is_ok(), allowed, "at {} ms", now);
                if allowed {
                    full -= interval;
                }
            }
        }

        /// Whatever the pattern, no span of time holds more than the burst and the pace allow.
        #[test]
        fn no_span_holds_too_many(steps in prop::collection::vec(0_u64..80, 1..300)) {
            let mut limiter = limiter("20/s burst 5");
            let mut taken = VecDeque::new();
            let mut now = 0;
            for step in steps {
                now += step;
                if limiter.admit(at(now), 7).is_ok() {
                    taken.push_back(now);
                }
            }
            for first in 0..taken.len() {
                for last in first..taken.len() {
                    let span = taken[last] - taken[first];
                    // 20/s is one every 50 ms.
                    prop_assert!(((last - first) as u64) < 5 + span / 50);
                }
            }
        }
    }
}
