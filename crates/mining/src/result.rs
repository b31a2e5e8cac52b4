//! What comes of it.

use crate::pure::{
    Assessment, CompactBits, Difficulty, Exact, HashesPerJoule, Market, Network, Target,
};
use serde::Serialize;

use super::band::{self, Band, EFFICIENCIES, Span};
use super::history::{Gap, Moment, Point, Unread};
use super::rules::{self, RuleCheck};
use super::written;
use super::years::{self, Year};
use super::{Error, MiningOptions, NamedDevice};

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// The JSON of `nightwatt mining --json`. Numbers in quotes have all their digits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mining {
    /// Version of this form.
    pub schema: u32,
    /// Which coin.
    pub coin: String,
    /// As prices have it.
    pub symbol: String,
    /// What is counted.
    pub hash_unit: String,
    /// In which all prices are.
    pub currency: String,
    /// The day of the history that this is from.
    pub day: Option<String>,
    /// How hard it is.
    pub difficulty: String,
    /// As a block header has it; of a difficulty without bits, the nearest that are not easier.
    pub bits: Option<CompactBits>,
    /// Are these a block's?
    #[serde(skip)]
    pub(super) bits_are_given: bool,
    /// What a hash must not be above, hexadecimal.
    pub target: Option<String>,
    /// Hashes to a block by the published formula, D x 2^32.
    pub hashes: String,
    /// Hashes to a block, exactly: 2^256 / (target + 1).
    pub exact_hashes: Option<String>,
    /// Of the reader's device, hashes/s.
    pub hash_rate: String,
    /// What a block takes it by the published formula, s.
    pub expected_s: String,
    /// What a block takes it exactly, s.
    pub exact_expected_s: Option<String>,
    /// Target time between two blocks of the network, s.
    pub block_time_s: u32,
    /// The pause on which the rule of the target settles, s.
    pub settles_at_s: Option<f64>,
    /// Hash rate of the whole network, hashes/s.
    pub network_hash_rate: f64,
    /// Power of the whole network at each of these efficiencies: Mhash/J, GW.
    pub network_gw: [(f64, f64); 5],
    /// Price of a kilowatt-hour.
    pub per_kwh: f64,
    /// Of a coin.
    pub per_coin: Option<f64>,
    /// Of a block without fees, coins.
    pub reward: Option<f64>,
    /// Of a block, coins; where they are not known, nothing is reckoned for them.
    pub fees: Option<f64>,
    /// Which hash is counted, if the coin's rules say so.
    pub algorithm: Option<String>,
    /// Device by device; those that compute another hash are left out.
    pub devices: Vec<DeviceRow>,
    /// What was.
    pub history: Vec<Point>,
    /// Columns of its files that were not read.
    pub unread: Vec<Unread>,
    /// What that lacks.
    pub gaps: Vec<Gap>,
    /// What the network could have drawn, year by year.
    pub years: Vec<Year>,
    /// When it would have lain in the published band.
    pub bands: Vec<Band>,
    /// A history by height against the rules.
    pub rules: Option<RuleCheck>,
}

impl Mining {
    /// What is counted, more than one of them.
    pub(super) fn hashes_word(&self) -> String {
        let ending = if self.hash_unit.ends_with('h') { "es" } else { "s" };
        format!("{}{ending}", self.hash_unit)
    }
}

/// A device: now, and over the history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceRow {
    /// Which.
    #[serde(flatten)]
    pub device: NamedDevice,
    /// Mhash/J.
    pub mhash_j: f64,
    /// At the difficulty and the prices of this page.
    #[serde(flatten)]
    pub assessment: Assessment,
    /// Days of the history, from when on it could be had, on which difficulty, price and reward are known.
    pub days_known: u32,
    /// Those of them on which it brings more than it costs.
    pub days_profitable: u32,
    /// From when to when.
    pub profitable_spans: Vec<Span>,
}

/// Where one stands.
pub(super) struct Conditions {
    pub(super) difficulty: Exact,
    pub(super) bits: Option<CompactBits>,
    pub(super) moment: Option<Moment>,
    pub(super) market: Market,
    /// If they are known.
    pub(super) fees: Option<f64>,
}

/// Puts it together.
pub(super) fn draw_up(options: &MiningOptions, conditions: &Conditions) -> Result<Mining, Error> {
    let coin = &options.coin;
    let target = match (coin.difficulty, conditions.bits) {
        (Difficulty::Hashes, _) => None,
        (Difficulty::Target, Some(bits)) => Some(bits.target()?),
        (Difficulty::Target, None) => Some(Target::of_difficulty(&conditions.difficulty)?),
    };
    if conditions.difficulty.is_zero() {
        return Err(crate::pure::MiningError::NoDifficulty.into());
    }
    let hashes = coin.hashes(&conditions.difficulty);
    let exact_hashes = target.as_ref().map(Target::expected_hashes);
    let time_of = |hashes: &Exact| (hashes.clone() / options.hash_rate.clone()).scientific();
    let per_difficulty = coin.hashes(&Exact::whole(1_u8)).to_f64();
    let network = |difficulty: f64| -> Result<Network, Error> {
        Ok(Network::new(difficulty * per_difficulty, f64::from(coin.block_time_s))?)
    };
    let now = network(conditions.difficulty.to_f64())?;
    let mut network_gw = [(0.0, 0.0); 5];
    for (conditions, mhash_j) in network_gw.iter_mut().zip(EFFICIENCIES) {
        *conditions = (mhash_j, now.power(HashesPerJoule::new(mhash_j * 1e6)?).get() / 1e9);
    }
    let history: Vec<Point> = options.histories.points(coin);
    let gaps = options.histories.gaps(coin);
    let of_coin = options.devices.clone().of_coin(coin);
    let mut devices = Vec::new();
    for device in of_coin.iter() {
        let over = HistoryCosts { history: &history, market: &conditions.market, per_difficulty };
        devices.push(over.row(device, hashes.to_f64())?);
    }
    Ok(Mining {
        schema: SCHEMA,
        coin: coin.name.clone(),
        symbol: coin.symbol.clone(),
        hash_unit: coin.hash_unit.clone(),
        currency: options.currency.clone(),
        day: conditions.moment.as_ref().map(|it| written::date(it.day())),
        difficulty: conditions.difficulty.to_string(),
        bits: conditions.bits.or_else(|| target.as_ref().map(Target::compact)),
        bits_are_given: conditions.bits.is_some(),
        target: target.as_ref().map(ToString::to_string),
        hashes: hashes.scientific(),
        exact_hashes: exact_hashes.as_ref().map(Exact::scientific),
        hash_rate: options.hash_rate.scientific(),
        expected_s: time_of(&hashes),
        exact_expected_s: exact_hashes.as_ref().map(time_of),
        block_time_s: coin.block_time_s,
        settles_at_s: coin.retarget.map(|retarget| retarget.settles_at().to_f64()),
        network_hash_rate: now.rate().get(),
        network_gw,
        per_kwh: conditions.market.per_kwh,
        per_coin: conditions.market.per_coin,
        reward: conditions.market.reward,
        fees: conditions.fees,
        algorithm: coin.algorithm.clone(),
        devices,
        years: years::of(&history, &gaps, &of_coin, network)?,
        bands: band::of_coin(coin, &history, per_difficulty)?,
        unread: options.histories.unread(),
        rules: rules::check(options.histories.epochs(), coin)?,
        history,
        gaps,
    })
}

/// A history, and what electricity costs over it.
struct HistoryCosts<'a> {
    history: &'a [Point],
    market: &'a Market,
    per_difficulty: f64,
}

impl HistoryCosts<'_> {
    fn row(&self, device: &NamedDevice, hashes: f64) -> Result<DeviceRow, Error> {
        let runs = device.device()?;
        let assessment = self.market.assess(hashes, &runs)?;
        let pays = |point: &Point| {
            if !device.is_there_on(point.day()) {
                return None;
            }
            let market = Market {
                per_kwh: self.market.per_kwh,
                per_coin: Some(point.price?),
                reward: Some(point.reward?),
                fees: point.fees.unwrap_or(0.0),
            };
            market.assess(point.difficulty? * self.per_difficulty, &runs).ok()?.profitable
        };
        let days: Vec<bool> = self.history.iter().filter_map(pays).collect();
        let count = |days: usize| u32::try_from(days).unwrap_or(u32::MAX);
        let profitable_spans = band::spans(self.history, pays);
        Ok(DeviceRow {
            device: device.clone(),
            mhash_j: device.mhash_j(),
            assessment,
            days_known: count(days.len()),
            days_profitable: count(days.iter().filter(|pays| **pays).count()),
            profitable_spans,
        })
    }
}
