//! The power of the network between two efficiencies, and when it lay in the published band.

use crate::pure::{Coin, HashesPerJoule, Network};
use serde::Serialize;

use super::history::Point;
use super::written::{self, SECONDS_PER_DAY};
use super::{Error, PUBLISHED_COIN};

/// Efficiencies at which the power of the network is told, Mhash/J: a CPU or GPU, an FPGA, early ASICs,
/// the published upper bound, and an ASIC of 2022.
pub const EFFICIENCIES: [f64; 5] = [2.0, 20.0, 200.0, 2000.0, 50_000.0];

/// O'Dwyer 2017, section 6.5: what the network draws, GW.
pub const BAND_GW: (f64, f64) = (0.1, 10.0);

/// When the network would have drawn a power within the band, were all of it this efficient.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Band {
    /// Mhash/J.
    pub mhash_j: f64,
    /// The difficulties at which its power enters and leaves the band.
    pub difficulties: (f64, f64),
    /// From when to when.
    pub spans: Vec<Span>,
}

/// From one day to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Span {
    /// First day.
    pub from: String,
    /// First day on which it is over, or not known any more; nothing if it still holds as the data ends.
    pub until: Option<String>,
    /// Likewise in seconds since 1970, for charts.
    #[serde(skip)]
    pub(super) times: (i64, Option<i64>),
}

/// Days on which something holds, as spans: each value holds until the next, but not over a gap.
pub(super) fn spans(points: &[Point], holds: impl Fn(&Point) -> Option<bool>) -> Vec<Span> {
    let day = |time: i64| written::date(time.div_euclid(SECONDS_PER_DAY));
    let span = |from: i64, until: Option<i64>| Span {
        from: day(from),
        until: until.map(day),
        times: (from, until),
    };
    let mut spans: Vec<Span> = Vec::new();
    let mut open: Option<i64> = None;
    let mut last: Option<i64> = None;
    for point in points {
        let now = holds(point);
        let end = match (now, point.missing_since) {
            (_, Some(since)) => Some(since),
            // What is not known today was known for the day before.
            (None, None) => last.map(|last| last + SECONDS_PER_DAY),
            (Some(false), None) => Some(point.time),
            (Some(true), None) => None,
        };
        if let (Some(from), Some(end)) = (open, end) {
            spans.push(span(from, Some(end)));
            open = None;
        }
        if now == Some(true) {
            open = open.or(Some(point.time));
        }
        last = Some(point.time);
    }
    spans.extend(open.map(|from| span(from, None)));
    spans
}

/// The band over the history of a coin; the published one is of one network.
pub(super) fn of_coin(
    coin: &Coin,
    points: &[Point],
    hashes_per_difficulty: f64,
) -> Result<Vec<Band>, Error> {
    if coin.name != PUBLISHED_COIN {
        return Ok(Vec::new());
    }
    band(points, f64::from(coin.block_time_s), hashes_per_difficulty)
}

/// The band over a history, for the published bounds 2 and 2000 Mhash/J.
///
/// # Errors
/// None for these bounds.
pub fn band(
    points: &[Point],
    block_time_s: f64,
    hashes_per_difficulty: f64,
) -> Result<Vec<Band>, Error> {
    let mut bands = Vec::new();
    for mhash_j in [EFFICIENCIES[0], EFFICIENCIES[3]] {
        let efficiency = HashesPerJoule::new(mhash_j * 1e6)?;
        let power = |difficulty: f64| {
            Network::new(difficulty * hashes_per_difficulty, block_time_s)
                .map(|network| network.power(efficiency).get() / 1e9)
        };
        let one = power(1.0)?;
        let spans = spans(points, |point| {
            let gigawatts = point.difficulty? * one;
            Some((BAND_GW.0..=BAND_GW.1).contains(&gigawatts))
        });
        bands.push(Band { mhash_j, difficulties: (BAND_GW.0 / one, BAND_GW.1 / one), spans });
    }
    Ok(bands)
}
