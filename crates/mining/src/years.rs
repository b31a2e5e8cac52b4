//! The network year by year: what it could draw at fixed efficiencies, and with the devices of the time.

use crate::pure::{HashesPerJoule, Network};
use serde::Serialize;

use super::band::EFFICIENCIES;
use super::history::Gap;
use super::history::Point;
use super::written::{self, year_of};
use super::{Devices, Error};

/// A year of the history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Year {
    /// Which.
    pub year: i64,
    /// Last day of it that the history knows.
    pub at: String,
    /// The difficulty then.
    pub difficulty: f64,
    /// What the whole network computes at that, hashes a second.
    pub hash_rate: f64,
    /// What it draws at each of the fixed efficiencies, GW.
    pub power_gw: [f64; 5],
    /// What it draws if all of it were such a device.
    pub devices: Vec<DeviceOfYear>,
    /// Days of it that the history lacks.
    pub days_missing: i64,
}

/// A device that could be had in a year.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceOfYear {
    /// Which.
    pub name: String,
    /// Since when.
    pub since: i64,
    /// Mhash/J.
    pub mhash_j: f64,
    /// The whole network of such devices, GW.
    pub power_gw: f64,
}

/// Devices that came in a year; in a year without any, the most efficient one that there was.
fn devices_of(devices: &Devices, year: i64) -> Vec<(String, i64, f64)> {
    let known = devices
        .iter()
        .filter_map(|it| Some((it.name.clone(), it.since.as_ref()?.year(), it.mhash_j())));
    let there: Vec<_> = known.filter(|(_, since, _)| *since <= year).collect();
    let new: Vec<_> = there.iter().filter(|(_, since, _)| *since == year).cloned().collect();
    if new.is_empty() {
        return there.into_iter().max_by(|a, b| a.2.total_cmp(&b.2)).into_iter().collect();
    }
    new
}

/// Every year of which the history has a difficulty.
pub(super) fn of(
    points: &[Point],
    gaps: &[Gap],
    devices: &Devices,
    network: impl Fn(f64) -> Result<Network, Error>,
) -> Result<Vec<Year>, Error> {
    let mut years: Vec<Year> = Vec::new();
    for (point, next) in points.iter().zip(points.iter().skip(1).map(Some).chain([None])) {
        let Some(difficulty) = point.difficulty else { continue };
        let year = year_of(point.day());
        if next.is_some_and(|next| next.difficulty.is_some() && year_of(next.day()) == year) {
            continue;
        }
        let network = network(difficulty)?;
        let gigawatts = |mhash_j: f64| -> Result<f64, Error> {
            Ok(network.power(HashesPerJoule::new(mhash_j * 1e6)?).get() / 1e9)
        };
        let mut power_gw = [0.0; 5];
        for (place, mhash_j) in power_gw.iter_mut().zip(EFFICIENCIES) {
            *place = gigawatts(mhash_j)?;
        }
        let mut of_year = Vec::new();
        for (name, since, mhash_j) in devices_of(devices, year) {
            of_year.push(DeviceOfYear { name, since, mhash_j, power_gw: gigawatts(mhash_j)? });
        }
        years.retain(|it| it.year != year);
        years.push(Year {
            year,
            at: written::date(point.day()),
            difficulty,
            hash_rate: network.rate().get(),
            power_gw,
            devices: of_year,
            days_missing: missing(gaps, year),
        });
    }
    Ok(years)
}

/// Days of a year without a difficulty.
fn missing(gaps: &[Gap], year: i64) -> i64 {
    let day = |text: &str| written::day_of(text).unwrap_or_default();
    let of_difficulty = gaps.iter().filter(|gap| ["all", "difficulty"].contains(&gap.what));
    let days = of_difficulty.flat_map(|gap| day(&gap.from)..=day(&gap.to));
    i64::try_from(days.filter(|it| year_of(*it) == year).count()).unwrap_or(i64::MAX)
}
