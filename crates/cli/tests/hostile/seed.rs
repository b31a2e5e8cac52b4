//! Where chance comes from.

use std::hash::{BuildHasher, RandomState};

/// The seed that this variable gives, or another one each time: from the system's own dice.
pub(crate) fn seed(variable: &str) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or_else(
        || RandomState::new().hash_one(variable),
        |seed| seed.parse().unwrap_or_else(|_| panic!("{variable} is a number")),
    )
}
