//! What proof-of-work mining takes, from the difficulty alone: hashes, time, energy and money of a
//! block, the power of a whole network, and the rule by which the difficulty follows it.
//!
//! Targets, difficulties and expected hashes are whole numbers and their ratios ([`Exact`]): 2^256 is
//! far beyond what an `f64` tells apart, and a target that is off by one is another target. Power and
//! money are as uncertain as prices and devices are, and are `f64`.
//!
//! ```
//! use nightwatt_mining::pure::{CompactBits, Exact, Target};
//!
//! // The block of 20 December 2009 that was the first to be harder than the first one.
//! let target = CompactBits(0x1d00_d86a).target()?;
//! assert_eq!(target.difficulty().decimal(6), "1.182900");
//! // One in so many hashes is as low as this target: 2^256 / (target + 1).
//! assert_eq!(target.expected_hashes().decimal(0), "5080592338");
//! // O'Dwyer's example, by his approximation D x 2^32: seconds at a million hashes a second.
//! let difficulty: Exact = "166,851,513,283".parse()?;
//! let seconds = difficulty * Exact::power_of_two(32) / Exact::whole(1_000_000_u32);
//! assert_eq!(seconds.scientific(), "7.16621792838594592768e14");
//! # Ok::<(), nightwatt_mining::pure::MiningError>(())
//! ```

mod coin;
mod economics;
mod exact;
mod retarget;
mod target;

pub use self::coin::{Coin, Difficulty, Rewards};
pub use self::economics::{Assessment, Device, HashRate, HashesPerJoule, Market, Network};
pub use self::exact::Exact;
pub use self::retarget::{ImpliedSpan, Retarget};
pub use self::target::{CompactBits, Target};

/// Why mining could not be calculated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MiningError {
    /// Text that is no number.
    #[error("`{0}` is no number that counts something; write digits, as in 166851513283 or 8.3e13")]
    Number(String),
    /// Text that are no compact bits.
    #[error("`{0}` are no compact bits; write eight hexadecimal digits, as in 1d00ffff")]
    Bits(String),
    /// The sign bit of compact bits.
    #[error("the target of {0} is negative; no hash is below it, so no block can have these bits")]
    Negative(CompactBits),
    /// A target that no hash is below.
    #[error("the target of {0} is 0; no hash is below it, so no block can have these bits")]
    Zero(CompactBits),
    /// A target of more than 256 bits.
    #[error(
        "the target of {0} is longer than 256 bits; a hash has no more, so these bits mean nothing"
    )]
    Overflow(CompactBits),
    /// Nothing is as easy as that.
    #[error("difficulty 0 is no work at all; a difficulty is above 0")]
    NoDifficulty,
    /// A target below one.
    #[error("difficulty {0} is beyond 256 bits: no hash is low enough; it is below 2.7e67")]
    TooDifficult(String),
    /// A target above 2^256.
    #[error("difficulty {0} is so low that every hash does; it is above 2.4e-10")]
    TooEasy(String),
    /// What must be above 0.
    #[error("{what} is {value}; it must be a finite number above 0")]
    NotPositive {
        /// What it is.
        what: &'static str,
        /// As given.
        value: String,
    },
    /// What must not be below 0.
    #[error("{what} is {value}; it must be a finite number, and not below 0")]
    BelowZero {
        /// What it is.
        what: &'static str,
        /// As given.
        value: String,
    },
    /// Rules that cannot be.
    #[error("{0}")]
    Rules(String),
}

#[cfg(test)]
mod tests;
