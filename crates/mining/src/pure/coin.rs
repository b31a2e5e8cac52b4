//! Coins: what a block brings, what it is to take, and what their difficulty counts.

use serde::{Deserialize, Serialize};

use super::{CompactBits, Exact, MiningError, Retarget};

/// A proof-of-work coin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coin {
    /// As the command line has it: `bitcoin`.
    pub name: String,
    /// As prices have it: `BTC`.
    pub symbol: String,
    /// What is counted: `hash`.
    #[serde(default = "hash")]
    pub hash_unit: String,
    /// Which hash that is, as tables of devices name it: `sha256d`, `scrypt`.
    #[serde(default)]
    pub algorithm: Option<String>,
    /// Target time between two blocks, s.
    pub block_time_s: u32,
    /// What the difficulty counts.
    #[serde(default)]
    pub difficulty: Difficulty,
    /// What a block brings besides fees.
    pub rewards: Rewards,
    /// How the difficulty is adjusted, if by Bitcoin's rule.
    #[serde(default)]
    pub retarget: Option<Retarget>,
}

fn hash() -> String {
    "hash".to_owned()
}

/// What a difficulty of 1 stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difficulty {
    /// A target of (2^16 - 1) x 2^208: 2^32 hashes, nearly.
    #[default]
    Target,
    /// One hash: the difficulty is the number of hashes that a block takes in the mean.
    Hashes,
}

/// What a block brings, in the coin's smallest unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewards {
    /// Smallest units of a coin: 100,000,000.
    pub units_per_coin: u64,
    /// Of the first blocks.
    pub first: u64,
    /// Number of blocks after which the reward is halved each time; `None` if it never is.
    #[serde(default)]
    pub halving_blocks: Option<u32>,
    /// It does not fall below this.
    #[serde(default)]
    pub least: u64,
    /// What blocks below this height brought followed other rules.
    #[serde(default)]
    pub since_height: u64,
}

impl Rewards {
    /// Of the block at this height, in smallest units: halves are cut. Nothing where other rules held.
    pub fn units_at(&self, height: u64) -> Option<u64> {
        if height < self.since_height {
            return None;
        }
        let halvings = self.halving_blocks.map_or(0, |blocks| height / u64::from(blocks.max(1)));
        let shift = u32::try_from(halvings).unwrap_or(u32::MAX);
        Some(self.first.checked_shr(shift).unwrap_or(0).max(self.least))
    }

    /// The reward of the block at this height, in coins.
    pub fn at(&self, height: u64) -> Option<f64> {
        self.units_at(height).map(|units| units as f64 / self.units_per_coin as f64)
    }
}

impl Coin {
    /// Can it be?
    pub fn check(&self) -> Result<(), MiningError> {
        let rules = |why: String| Err(MiningError::Rules(format!("coin `{}`: {why}", self.name)));
        if self.name.trim().is_empty() || self.symbol.trim().is_empty() {
            return Err(MiningError::Rules(
                "a coin needs a `name` and a `symbol`, such as bitcoin and BTC".to_owned(),
            ));
        }
        if self.block_time_s == 0 {
            return rules("`block_time_s` is 0; a block takes some time, such as 600".to_owned());
        }
        let rewards = &self.rewards;
        if rewards.units_per_coin == 0 {
            return rules("`units_per_coin` is 0; Bitcoin has 100000000".to_owned());
        }
        if rewards.halving_blocks == Some(0) {
            return rules("`halving_blocks` is 0; leave it out where nothing is halved".to_owned());
        }
        if let Some(retarget) = &self.retarget {
            retarget.check()?;
            if retarget.block_time_s != self.block_time_s {
                return rules("`block_time_s` differs between coin and `retarget`".to_owned());
            }
        }
        Ok(())
    }

    /// Hashes that a block takes in the mean at this difficulty, by the published formula: D x 2^32
    /// (D, where the difficulty counts hashes).
    pub fn hashes(&self, difficulty: &Exact) -> Exact {
        match self.difficulty {
            Difficulty::Target => difficulty.clone() * Exact::power_of_two(32),
            Difficulty::Hashes => difficulty.clone(),
        }
    }

    /// The difficulty of compact bits; where it counts hashes, there are none.
    pub fn difficulty_of(&self, bits: CompactBits) -> Result<Exact, MiningError> {
        let target = bits.target()?;
        match self.difficulty {
            Difficulty::Target => Ok(target.difficulty()),
            Difficulty::Hashes => Err(MiningError::Rules(format!(
                "coin `{}` has no compact bits: its difficulty counts hashes; give `--difficulty`",
                self.name
            ))),
        }
    }
}
