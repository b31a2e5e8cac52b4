//! Where chance comes from.

use std::hash::{BuildHasher, RandomState};

/// The variable that gives random tests their seed: the one that property tests read.
pub(crate) const VARIABLE: &str = "PROPTEST_RNG_SEED";

/// The seed given by [`VARIABLE`]; a different one in every run where it is not set.
pub(crate) fn seed() -> u64 {
    let given = std::env::var(VARIABLE).ok();
    given.map_or_else(
        || RandomState::new().hash_one(VARIABLE),
        |seed| seed.parse().unwrap_or_else(|_| panic!("{VARIABLE} is a number")),
    )
}
