//! `nightwatt mining`: what proof-of-work mining costs and earns.

use std::path::PathBuf;

use clap::ValueHint;
use nightwatt_mining::pure::{CompactBits, Exact};
use nightwatt_mining::{
    self as mining, Coins, Devices, DifficultyChoice, Error, Histories, Mining, MiningOptions,
};

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::output;
use crate::report_pages;

/// Compute energy, cost and income of proof-of-work mining
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
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
    #[arg(long, value_name = "DATE", requires = "history", value_parser = date)]
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
    #[arg(long, value_name = "RATE", default_value = "1 Mhash/s", value_parser = hash_rate, allow_hyphen_values = true)]
    pub(crate) hash_rate: Exact,
    /// Price of a kilowatt-hour
    #[arg(long, value_name = "PRICE", default_value = "0.10", value_parser = amount, allow_hyphen_values = true)]
    pub(crate) price_kwh: f64,
    /// Price of a coin [default: from the history]
    #[arg(long, value_name = "PRICE", value_parser = amount, allow_hyphen_values = true)]
    pub(crate) price: Option<f64>,
    /// Fees of a block, in coins [default: from the history, or none]
    #[arg(long, value_name = "COINS", value_parser = amount, allow_hyphen_values = true)]
    pub(crate) fees: Option<f64>,
    /// Height of the block, which determines its reward [default: from the history]
    #[arg(long, value_name = "N")]
    pub(crate) height: Option<u64>,
    /// Currency of all prices; nothing is converted
    #[arg(long, value_name = "CODE", default_value = "USD", value_parser = currency)]
    pub(crate) currency: String,
    /// Write an HTML report with the five published charts (they need a history)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Model);

const EXAMPLES: &str = "Examples:
  nightwatt mining  the published example, with all its digits
  nightwatt mining --bits 17034219 --height 838656 --hash-rate '200 TH/s'
  nightwatt mining --history daily.csv --history epochs.csv --html mining.html
  nightwatt mining --history daily.csv --date 2016-04-01 --device s9
  nightwatt mining --coin litecoin --difficulty 2.5e7 --json | jq .devices

Docs: docs/mining.md";

/// An amount of money or coins: a number of at least 0.
fn amount(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("write a number that is not below 0, as in `0.10` or `70000`".to_owned()),
    }
}

/// A code such as `EUR`.
fn currency(text: &str) -> Result<String, String> {
    let is_code = (1..=8).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric());
    let wrong = || "write a code of up to eight letters, as in `EUR`".to_owned();
    is_code.then(|| text.to_owned()).ok_or_else(wrong)
}

/// `2016-04-01`, as days since 1970.
fn date(text: &str) -> Result<i64, String> {
    nightwatt_mining::day_of(text).map_err(|error| error.to_string())
}

/// `110 TH/s`, as hashes per second.
fn hash_rate(text: &str) -> Result<Exact, String> {
    nightwatt_mining::hash_rate(text).map_err(|error| error.to_string())
}

/// Computes and prints the result.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    // Every error comes from what the user gave.
    let mining = work(args).map_err(|error| Failure::usage(&error))?;
    // A report that cannot be written does not lose the result.
    output::print_result(&mining, args.json, || mining.text(), &[])?;
    if let Some(path) = &args.html {
        report_pages::page(path, |by| mining.document(by))?;
    }
    Ok(ExitStatus::Success)
}

fn work(args: &Args) -> Result<Mining, Error> {
    let at = match (&args.difficulty, args.bits, args.date) {
        (Some(difficulty), ..) => DifficultyChoice::Difficulty(difficulty.clone()),
        (None, Some(bits), _) => DifficultyChoice::Bits(bits),
        (None, None, Some(day)) => DifficultyChoice::Day(day),
        (None, None, None) => DifficultyChoice::Usual,
    };
    let devices = match &args.devices {
        Some(path) => Devices::read(path)?,
        None => Devices::ours()?,
    };
    mining::run(&MiningOptions {
        coin: Coins::with(args.coins.as_deref())?.get(&args.coin)?.clone(),
        at,
        hash_rate: args.hash_rate.clone(),
        devices: devices.only(&args.device)?,
        histories: Histories::read(&args.history)?,
        per_kwh: args.price_kwh,
        per_coin: args.price,
        fees: args.fees,
        height: args.height,
        currency: args.currency.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_coin() {
        let coins = Coins::with(None).unwrap();
        let names: Vec<&str> = coins.names().collect();
        let command = <Args as clap::Args>::augment_args(clap::Command::default());
        let option = command.get_arguments().find(|option| option.get_id() == "coin").unwrap();
        let help = option.get_help().unwrap().to_string();
        assert!(help.contains(&format!(": {}, or", names.join(", "))), "{help}");
    }
}
