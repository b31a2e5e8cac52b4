//! What is known of one day or epoch, as the results show it.

use serde::Serialize;

use super::Moment;
use crate::pure::Exact;
use crate::written::SECONDS_PER_DAY;

/// A day of the history, or the beginning of an epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Seconds since 1970.
    pub time: i64,
    /// Height of the block, in a history by height.
    pub height: Option<u64>,
    /// How hard it was.
    pub difficulty: Option<f64>,
    /// Of a coin.
    pub price: Option<f64>,
    /// Of a block, coins.
    pub fees: Option<f64>,
    /// Of a block without fees, coins.
    pub reward: Option<f64>,
    /// Something is missing before this, from this second on.
    pub missing_since: Option<i64>,
}

impl Point {
    /// The day, in days since the epoch of Unix.
    pub const fn day(&self) -> i64 {
        self.time.div_euclid(SECONDS_PER_DAY)
    }
}

impl From<Moment> for Point {
    fn from(it: Moment) -> Self {
        let of_bits = || Some(it.bits?.target().ok()?.difficulty().to_f64());
        Self {
            time: it.time,
            height: it.height,
            difficulty: it.difficulty.as_ref().map(Exact::to_f64).or_else(of_bits),
            price: it.price,
            fees: it.fees,
            reward: it.reward,
            missing_since: it.missing_since,
        }
    }
}
