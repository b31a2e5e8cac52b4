//! Calculates what proof-of-work mining uses and earns, from a difficulty or over a history of difficulties, prices
//! and fees (`nightwatt mining`).
//!
//! Nothing is downloaded: histories are files of the user's, and devices and coins are data files of this crate or
//! of the user's. What a history lacks is a gap in tables and charts. The arithmetic is in [`pure`]; tables and
//! charts are those of `nightwatt_report`.

mod band;
mod charts;
mod coins;
mod devices;
mod error;
mod history;
mod page;
pub mod pure;
mod result;
mod rules;
mod tables;
mod written;
mod years;

use crate::pure::{Coin, CompactBits, Exact, Market};

pub use self::band::{BAND_GW, Band, EFFICIENCIES, Span, band};
pub use self::coins::Coins;
pub use self::devices::{AvailableFrom, Devices, NamedDevice};
pub use self::error::Error;
pub use self::history::{Gap, Histories, History, Point, Unread};
pub use self::result::{DeviceRow, Mining};
pub use self::rules::{RuleCheck, RuleViolation};
pub use self::tables::spans;
pub use self::written::{SECONDS_PER_DAY, day_of, hash_rate};
pub use self::years::{DeviceOfYear, Year};

/// The published example: O'Dwyer 2017, section 6.2.1.
pub const PUBLISHED_DIFFICULTY: &str = "166851513283";

/// Of which coin it is.
const PUBLISHED_COIN: &str = "bitcoin";

/// The height at which that difficulty began: its blocks brought 25 BTC.
const PUBLISHED_HEIGHT: u64 = 405_216;

/// The difficulty to calculate with.
#[derive(Debug, Clone, PartialEq)]
pub enum DifficultyChoice {
    /// The published one; with a history, its last.
    Usual,
    /// As given.
    Difficulty(Exact),
    /// As a block header has it.
    Bits(CompactBits),
    /// The history's of this day, in days since 1970.
    Day(i64),
}

/// What is to be worked out.
#[derive(Debug, Clone)]
pub struct MiningOptions {
    /// Of which coin.
    pub coin: Coin,
    /// At which difficulty.
    pub at: DifficultyChoice,
    /// Hashes a second of the reader's own device.
    pub hash_rate: Exact,
    /// Devices to be looked at.
    pub devices: Devices,
    /// What was, if it is known.
    pub histories: Histories,
    /// Price of a kilowatt-hour.
    pub per_kwh: f64,
    /// Price of a coin, in place of the history's.
    pub per_coin: Option<f64>,
    /// Fees of a block in coins, in place of the history's.
    pub fees: Option<f64>,
    /// Height of the block, which tells its reward, in place of the history's.
    pub height: Option<u64>,
    /// In which all prices are. Nothing is converted.
    pub currency: String,
}

/// Calculates costs and earnings.
///
/// # Errors
/// Prices below 0, a difficulty of 0 or beyond all targets, a day that the history does not have.
pub fn run(options: &MiningOptions) -> Result<Mining, Error> {
    options.coin.check()?;
    let (difficulty, bits, moment) = options.difficulty()?;
    let published = options.at == DifficultyChoice::Usual && options.histories.is_empty();
    let height = options.height.or(published.then_some(PUBLISHED_HEIGHT));
    let reward = match height {
        Some(height) => options.coin.rewards.at(height),
        None => moment.as_ref().and_then(|moment| moment.reward),
    };
    let of_history = |value: fn(&history::Moment) -> Option<f64>| moment.as_ref().and_then(value);
    let fees = options.fees.or(of_history(|it| it.fees));
    let market = Market {
        per_kwh: options.per_kwh,
        per_coin: options.per_coin.or(of_history(|it| it.price)),
        reward,
        fees: fees.unwrap_or(0.0),
    };
    market.check()?;
    result::draw_up(options, &result::Conditions { difficulty, bits, moment, market, fees })
}

impl MiningOptions {
    /// The difficulty, its bits where they are known, and the moment of the history that it is from.
    fn difficulty(&self) -> Result<(Exact, Option<CompactBits>, Option<history::Moment>), Error> {
        let moment = match &self.at {
            DifficultyChoice::Difficulty(difficulty) => {
                return Ok((difficulty.clone(), None, None));
            }
            DifficultyChoice::Bits(bits) => {
                return Ok((self.coin.difficulty_of(*bits)?, Some(*bits), None));
            }
            DifficultyChoice::Usual
                if self.histories.is_empty() && self.coin.name != PUBLISHED_COIN =>
            {
                return Err(Error::NoUsualDifficulty { coin: self.coin.name.clone() });
            }
            DifficultyChoice::Usual if self.histories.is_empty() => {
                return Ok((PUBLISHED_DIFFICULTY.parse()?, None, None));
            }
            DifficultyChoice::Usual => self.histories.last(&self.coin)?,
            DifficultyChoice::Day(day) => self.histories.on(*day, &self.coin)?,
        };
        let difficulty = match (moment.bits, &moment.difficulty) {
            (Some(bits), _) => self.coin.difficulty_of(bits)?,
            (None, Some(difficulty)) => difficulty.clone(),
            (None, None) => return Err(Error::NoDifficulty { day: written::date(moment.day()) }),
        };
        Ok((difficulty, moment.bits, Some(moment)))
    }
}

#[cfg(test)]
mod tests;
