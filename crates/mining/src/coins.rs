//! The table of coins.

use std::path::Path;

use crate::pure::Coin;
use serde::Deserialize;

use super::{Error, written};

const OURS: &str = include_str!("../data/coins.toml");

/// Coins by their rules.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coins {
    coin: Vec<Coin>,
}

impl Coins {
    /// Those that nightwatt knows, and those of this file, which come first.
    ///
    /// # Errors
    /// A file that cannot be read, and coins that cannot be.
    pub fn with(file: Option<&Path>) -> Result<Self, Error> {
        let mut coins = Vec::new();
        if let Some(path) = file {
            coins = Self::read(&path.display().to_string(), &written::text_of(path)?)?.coin;
        }
        coins.extend(Self::read("coins.toml", OURS)?.coin);
        Ok(Self { coin: coins })
    }

    fn read(name: &str, text: &str) -> Result<Self, Error> {
        let bad = |why: String| Error::Coins { name: name.to_owned(), why };
        let coins: Self = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
        for coin in &coins.coin {
            coin.check().map_err(|error| bad(error.to_string()))?;
        }
        Ok(coins)
    }

    /// The coin of this name, or of this symbol.
    ///
    /// # Errors
    /// If there is no such coin.
    pub fn get(&self, name: &str) -> Result<&Coin, Error> {
        let is_meant = |coin: &&Coin| {
            coin.name.eq_ignore_ascii_case(name) || coin.symbol.eq_ignore_ascii_case(name)
        };
        self.coin.iter().find(is_meant).ok_or_else(|| Error::NoCoin {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.coin.iter().map(|coin| coin.name.as_str())
    }
}
