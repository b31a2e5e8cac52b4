//! `mining`.

use std::path::PathBuf;

use clap::ValueHint;
use nightwatt_mining::pure::{CompactBits, Exact};

use crate::written;

/// `mining`.
#[derive(Debug, clap::Args)]
pub(crate) struct MiningArgs {
    /// The coin: bitcoin, bitcoin-cash, litecoin, dogecoin, monero, or one of `--coins`
    #[arg(long, value_name = "NAME", default_value = "bitcoin")]
    pub(crate) coin: String,
    /// TOML file with the rules of more coins
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) coins: Option<PathBuf>,
    /// Difficulty of a block [default: the last of the history, or the published example]
    #[arg(long, value_name = "D", conflicts_with_all = ["bits", "date"], allow_hyphen_values = true)]
    pub(crate) difficulty: Option<Exact>,
    /// Difficulty as in a block header (compact bits): 1d00ffff
    #[arg(long, value_name = "BITS", conflicts_with = "date")]
    pub(crate) bits: Option<CompactBits>,
    /// Use difficulty, price and fees of this day of the history: 2016-04-01
    #[arg(long, value_name = "DATE", requires = "history", value_parser = written::date)]
    pub(crate) date: Option<i64>,
    /// History as CSV (`date,difficulty,price,fees`): by day, by block height, or one file of each
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) history: Vec<PathBuf>,
    /// Show only devices whose name contains this; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,
    /// CSV file of devices (`name,kind,mhash_s,watts,since`), instead of the built-in ones
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) devices: Option<PathBuf>,
    /// Hash rate of your device: 110 TH/s
    #[arg(long, value_name = "RATE", default_value = "1 Mhash/s", value_parser = written::hash_rate, allow_hyphen_values = true)]
    pub(crate) hash_rate: Exact,
    /// Price of a kilowatt-hour
    #[arg(long, value_name = "PRICE", default_value = "0.10", value_parser = written::amount, allow_hyphen_values = true)]
    pub(crate) price_kwh: f64,
    /// Price of a coin [default: from the history]
    #[arg(long, value_name = "PRICE", value_parser = written::amount, allow_hyphen_values = true)]
    pub(crate) price: Option<f64>,
    /// Fees of a block, in coins [default: from the history, or none]
    #[arg(long, value_name = "COINS", value_parser = written::amount, allow_hyphen_values = true)]
    pub(crate) fees: Option<f64>,
    /// Height of the block, which determines its reward [default: from the history]
    #[arg(long, value_name = "N")]
    pub(crate) height: Option<u64>,
    /// Currency of all prices; nothing is converted
    #[arg(long, value_name = "CODE", default_value = "USD", value_parser = written::currency)]
    pub(crate) currency: String,
    /// Write an HTML report with the five published charts (they need a history)
    #[arg(long, value_name = "FILE", visible_alias = "html", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const EXAMPLES: &str = "Examples:
  nightwatt mining                                    the published example, with all its digits
  nightwatt mining --bits 17034219 --height 838656 --price 70000 --hash-rate '200 TH/s'
  nightwatt mining --history daily.csv --history epochs.csv --report mining.html
  nightwatt mining --history daily.csv --date 2016-04-01 --device s9 --price-kwh 0.05
  nightwatt mining --coin litecoin --difficulty 2.5e7 --json | jq .devices

Docs: docs/mining.md";
