//! What the pool's policy has learned, on disk: one JSON object beside the site's ledger.

use nightwatt_model::policy::fleet::FleetLessons;
use nightwatt_model::time::Wall;
use serde::{Deserialize, Serialize};

use crate::lessons::{LessonsError, Shelf};

/// The form.
const VERSION: u64 = 1;

/// The policy that learns.
const POLICY: &str = "predictive";

/// A longer file is none of ours: a level of the pool has some 600 bytes.
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

#[derive(Deserialize)]
struct Body {
    lessons: FleetLessons,
}

/// As they are stored.
pub(super) fn write(lessons: &FleetLessons, servers: usize, at: Wall) -> Vec<u8> {
    let sheet = Sheet { v: VERSION, policy: POLICY, at, servers, lessons };
    let mut text = serde_json::to_vec(&sheet).unwrap_or_default();
    text.push(b'\n');
    text
}

fn read(text: &[u8]) -> Result<FleetLessons, LessonsError> {
    if text.len() > LONGEST {
        return Err(LessonsError::Long);
    }
    let damaged = |error: serde_json::Error| LessonsError::Damaged(error.to_string());
    let head: Head = serde_json::from_slice(text).map_err(damaged)?;
    if head.v != VERSION {
        return Err(LessonsError::Version(head.v));
    }
    if head.policy != POLICY {
        return Err(LessonsError::Policy(head.policy));
    }
    let Body { lessons } = serde_json::from_slice(text).map_err(damaged)?;
    Ok(lessons)
}

/// Where the lessons of a pool are stored.
pub(crate) struct Place(Shelf);

impl Place {
    /// Takes up what is stored, if that is possible; says so either way.
    pub(crate) fn open(shelf: Shelf) -> (Option<Self>, Option<FleetLessons>) {
        match shelf.bytes(LONGEST).and_then(|text| text.as_deref().map(read).transpose()) {
            Ok(lessons) => (Some(Self(shelf)), lessons),
            Err(why) => (shelf.put_aside(&why).map(Self), None),
        }
    }

    pub(super) fn store(&self, text: &[u8]) {
        self.0.put(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
