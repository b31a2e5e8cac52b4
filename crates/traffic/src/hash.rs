//! Numbers for texts, and tables keyed by them.
//!
//! foldhash: some 1 ns and 0.1 ns a byte, where the standard library's `SipHash` takes ten times as
//! long. Its seed is fixed, so a log gives the same figures on every machine and in every run.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::{FixedState, RandomState};

/// Any odd number: it only has to be the same everywhere.
const SEED: u64 = 0x6e69_6768_7477_6174;

/// A number for a text; two texts share one with a chance of 5e-20.
pub(crate) fn text(text: &str) -> u64 {
    FixedState::with_seed(SEED).hash_one(text)
}

/// A number for two numbers in this order.
pub(crate) fn pair(first: u64, second: u64) -> u64 {
    spread(first ^ spread(second).rotate_left(32))
}

/// Spreads what a number says over all of its bits: the finaliser of `MurmurHash3` (public domain).
/// It is one to one, so different numbers stay different.
pub(crate) const fn spread(number: u64) -> u64 {
    let number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}

/// A table whose keys are hashes already. They are hashed once more with a number that each run draws again,
/// so that clients and agents can't be chosen to collide.
pub(crate) type ByHash<V> = HashMap<u64, V, RandomState>;
