//! What a block costs and brings, and what a network draws.

use serde::{Deserialize, Serialize};

use super::MiningError;
use nightwatt_energy::quantity::{JOULES_PER_KWH, Joules, Watts};

const SECONDS_PER_DAY: f64 = 86_400.0;

macro_rules! rate {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(f64);

        impl $name {
            /// From hashes; finite and above 0.
            pub fn new(hashes: f64) -> Result<Self, MiningError> {
                let is_right = hashes.is_finite() && hashes > 0.0;
                let bad = || MiningError::NotPositive { what: $what, value: hashes.to_string() };
                is_right.then_some(Self(hashes)).ok_or_else(bad)
            }

            /// In hashes.
            pub const fn get(self) -> f64 {
                self.0
            }
        }
    };
}

rate!(
    /// Hashes a second.
    HashRate,
    "a hash rate"
);
rate!(
    /// Hashes that a joule pays for.
    HashesPerJoule,
    "an efficiency"
);

/// Something that mines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    /// How fast.
    pub rate: HashRate,
    /// Drawing how much.
    pub power: Watts,
}

impl Device {
    /// Hashes that a joule pays for.
    pub fn efficiency(&self) -> Result<HashesPerJoule, MiningError> {
        HashesPerJoule::new(self.rate.get() / self.power.get())
    }
}

/// What things cost, in one currency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Market {
    /// A kilowatt-hour.
    pub per_kwh: f64,
    /// A coin, if that is known.
    pub per_coin: Option<f64>,
    /// What a block brings without fees, coins; if that is known.
    pub reward: Option<f64>,
    /// Fees of a block, coins.
    pub fees: f64,
}

/// What mining comes to for one device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Assessment {
    /// Time to a block in the mean, s.
    pub seconds_per_block: f64,
    /// Energy of a block in the mean, J.
    pub joules_per_block: f64,
    /// Its price.
    pub cost_per_block: f64,
    /// Price of the energy of one coin, if it is known what a block brings.
    pub cost_per_coin: Option<f64>,
    /// What a day brings in the mean.
    pub income_per_day: Option<f64>,
    /// What the energy of a day costs.
    pub cost_per_day: f64,
    /// Income less cost.
    pub profit_per_day: Option<f64>,
    /// Above this price of a kilowatt-hour mining costs more than it brings.
    pub break_even_per_kwh: Option<f64>,
    /// Does it bring more than it costs?
    pub profitable: Option<bool>,
}

impl Market {
    /// Can it be?
    pub fn check(&self) -> Result<(), MiningError> {
        let right = |what, value: f64| {
            let bad = || MiningError::BelowZero { what, value: value.to_string() };
            (value.is_finite() && value >= 0.0).then_some(()).ok_or_else(bad)
        };
        right("the price of a kilowatt-hour", self.per_kwh)?;
        right("the price of a coin", self.per_coin.unwrap_or(0.0))?;
        right("the reward of a block", self.reward.unwrap_or(0.0))?;
        right("the fees of a block", self.fees)
    }

    /// Money that a block brings.
    fn income(&self) -> Option<f64> {
        Some((self.reward? + self.fees) * self.per_coin?)
    }

    /// What a block of this many hashes costs and brings on this device.
    pub fn assess(&self, hashes: f64, device: &Device) -> Result<Assessment, MiningError> {
        self.check()?;
        let efficiency = device.efficiency()?;
        if !(hashes.is_finite() && hashes > 0.0) {
            let value = hashes.to_string();
            return Err(MiningError::NotPositive { what: "the work of a block", value });
        }
        let joules = Joules(hashes / efficiency.get());
        let seconds_per_block = hashes / device.rate.get();
        let kwh = joules.get() / JOULES_PER_KWH;
        let cost = kwh * self.per_kwh;
        let coins = self.reward.map(|reward| reward + self.fees).filter(|coins| *coins > 0.0);
        let blocks_per_day = SECONDS_PER_DAY / seconds_per_block;
        let income = self.income();
        let cost_per_day = cost * blocks_per_day;
        let profit = income.map(|income| (income - cost) * blocks_per_day);
        Ok(Assessment {
            seconds_per_block,
            joules_per_block: joules.get(),
            cost_per_block: cost,
            cost_per_coin: coins.map(|coins| cost / coins),
            income_per_day: income.map(|income| income * blocks_per_day),
            cost_per_day,
            profit_per_day: profit,
            break_even_per_kwh: income.map(|income| income / kwh),
            profitable: profit.map(|profit| profit > 0.0),
        })
    }
}

/// All miners of a coin together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Network {
    rate: HashRate,
}

impl Network {
    /// A network that finds blocks of this many hashes at the target rate.
    pub fn new(hashes_per_block: f64, block_time_s: f64) -> Result<Self, MiningError> {
        Ok(Self { rate: HashRate::new(hashes_per_block / block_time_s)? })
    }

    /// All its hashes a second.
    pub const fn rate(&self) -> HashRate {
        self.rate
    }

    /// What it draws if all of it is this efficient.
    pub fn power(&self, efficiency: HashesPerJoule) -> Watts {
        Watts(self.rate.get() / efficiency.get())
    }
}
