//! What a pool's policy has learned, on disk: one JSON object beside the site's ledger.

use std::time::Duration;

use nightwatt_energy::time::Wall;
use nightwatt_policy::fleet::FleetLessons;
use serde::{Deserialize, Serialize};

use super::{LessonsError, LessonsStore, damaged, shown};

/// Version of the format.
const VERSION: u64 = 1;

/// The policy that learns.
const POLICY: &str = "predictive";

/// Maximum length of the file: a level of the pool has some 600 bytes.
const LONGEST: usize = 16 << 20;

#[derive(Serialize)]
struct Sheet<'a> {
    v: u64,
    policy: &'static str,
    at: Wall,
    servers: usize,
    lessons: &'a FleetLessons,
}

#[derive(Deserialize)]
struct Head {
    v: u64,
    policy: String,
}

/// The lessons, and when they were written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PoolLessons {
    at: Wall,
    /// What was learned.
    pub lessons: FleetLessons,
}

impl PoolLessons {
    /// For how long the proxy has not run since. If the clock is before that time (a board without a battery), that is
    /// unknown: then the maximum.
    pub fn stopped(&self, now: Wall) -> Duration {
        let millis = u64::try_from(now.0.saturating_sub(self.at.0));
        millis.map_or(Duration::MAX, Duration::from_millis)
    }
}

/// The stored form.
pub fn write(lessons: &FleetLessons, servers: usize, at: Wall) -> Vec<u8> {
    let sheet = Sheet { v: VERSION, policy: POLICY, at, servers, lessons };
    let mut text = serde_json::to_vec(&sheet).unwrap_or_default();
    text.push(b'\n');
    text
}

/// Parses what is stored, whichever version wrote it.
pub fn read(text: &[u8]) -> Result<PoolLessons, LessonsError> {
    if text.len() > LONGEST {
        return Err(LessonsError::Long);
    }
    let head: Head = serde_json::from_slice(text).map_err(|error| damaged(&error))?;
    if head.v != VERSION {
        return Err(LessonsError::Version(head.v));
    }
    if head.policy != POLICY {
        return Err(LessonsError::Policy(shown(&head.policy)));
    }
    let learned: PoolLessons = serde_json::from_slice(text).map_err(|error| damaged(&error))?;
    if !learned.lessons.is_sound() {
        return Err(LessonsError::Damaged(
            "it has numbers that cannot have been learned".to_owned(),
        ));
    }
    Ok(learned)
}

/// Where the lessons of a pool are stored.
pub(crate) struct Place(LessonsStore);

impl Place {
    /// Loads the stored lessons if possible, and logs the result.
    pub(crate) fn open(shelf: LessonsStore) -> (Option<Self>, Option<PoolLessons>) {
        match shelf.bytes(LONGEST).and_then(|text| text.as_deref().map(read).transpose()) {
            Ok(lessons) => (Some(Self(shelf)), lessons),
            Err(why) => (shelf.put_aside(&why).map(Self), None),
        }
    }

    pub(crate) fn store(&self, text: &[u8]) {
        self.0.put(text);
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::quantity::{Joules, PerSecond, Watts};
    use nightwatt_energy::time::Mono;
    use nightwatt_policy::fleet::{FleetChoice, FleetSettings, Pool, ServerKind, Wear};

    use super::*;

    /// Lessons of a policy that has learned nothing yet.
    fn nothing() -> FleetLessons {
        let kind = ServerKind {
            servers: 2,
            service: PerSecond(50.0),
            places: 2,
            idle: Watts(20.0),
            busy: Watts(30.0),
            off: Watts(1.0),
            switch: Joules(50.0),
            switch_on: Duration::from_secs(5),
        };
        let settings = FleetSettings {
            kinds: vec![kind],
            min_on: Duration::ZERO,
            line: 0,
            wear: Wear::ByNumber,
            transition_price: Joules(0.0),
            overflow_share: 0.01,
        };
        let pool = Pool::new(settings, FleetChoice::Predictive, Mono::ZERO).unwrap();
        pool.lessons().unwrap()
    }

    #[test]
    fn what_is_read_says_how_long_nobody_watched() {
        let at = Wall::from_secs(1_795_500_000);
        let read = read(&write(&nothing(), 2, at)).unwrap();
        assert_eq!(read.lessons, nothing());
        assert_eq!(read.stopped(at + Duration::from_mins(5)), Duration::from_mins(5));
        assert_eq!(read.stopped(Wall::from_secs(0)), Duration::MAX, "the clock is not set");
    }

    #[test]
    fn numbers_that_nobody_can_have_learned_are_refused() {
        let text = String::from_utf8(write(&nothing(), 2, Wall::from_secs(0))).unwrap();
        for (good, bad) in [
            ("\"squares\":0.0", "\"squares\":-1.0"),
            ("\"weight\":0.0", "\"weight\":1e300"),
            ("\"gaps\":0.0", "\"gaps\":-0.5"),
        ] {
            assert!(text.contains(good), "{text}");
            let error = read(text.replacen(good, bad, 1).as_bytes()).unwrap_err();
            assert!(matches!(error, LessonsError::Damaged(_)), "{error}");
        }
    }

    #[test]
    fn a_refusal_does_not_repeat_the_file() {
        let long = "x".repeat(100_000);
        for text in [format!("\"{long}\""), format!("{{\"v\":1,\"policy\":\"{long}\"}}")] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.len() < 1000, "{}", error.len());
        }
    }

    #[test]
    fn what_no_policy_of_ours_learned_is_not_taken_up() {
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"v":2,"policy":"predictive"}"#,
            r#"{"v":1,"policy":"learned"}"#,
            r#"{"v":1,"policy":"predictive","lessons":{}}"#,
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
