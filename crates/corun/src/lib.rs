//! Which jobs belong together: how much they slow each other down, and what that means for time and energy.
//!
//! ```text
//! matrix (measured) ─► simulator ◄─ run queue (the policy of one CPU)
//!                  └─► groups: what to run together
//! ```
//!
//! All of it is in [`pure`]: the published scheduling policy, matrices of measured speeds, and simulations of both.

pub mod pure;

/// A measured matrix: eight applications on a guest with 16 CPUs, four processes of each on four CPUs, alone, in pairs,
/// threes and fours. Measured on 26 November 2026 on a guest of an Intel Xeon (family 6, model 207), 1 s for each set,
/// without counters and without energy. The level-3 cache was shared with other tenants.
pub const SIXTEEN_CPUS: &str = include_str!("../data/sixteen-cpus.csv");
