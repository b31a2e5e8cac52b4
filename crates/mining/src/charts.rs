//! The five published charts: difficulty, fees, exchange rate, cost of a coin against its price, and the
//! power of the network.

use crate::pure::HashesPerJoule;
use nightwatt_report::{Axis, Chart, Scale, Series, SeriesKind};

use super::band::{BAND_GW, EFFICIENCIES};
use super::history::Point;
use super::result::{DeviceRow, Mining};
use super::written::year_of;

fn time() -> Axis {
    Axis::new("Date", "", Scale::Time { utc_offset: 0 })
}

/// A line over time, broken off where days are missing, or the value is.
fn line(
    name: impl Into<String>,
    kind: SeriesKind,
    points: &[Point],
    value: impl Fn(&Point) -> Option<f64>,
) -> Series {
    let mut drawn: Vec<(f64, f64)> = Vec::new();
    let mut last: Option<f64> = None;
    for point in points {
        let y = value(point);
        if let (Some(since), Some(_)) = (point.missing_since, last) {
            drawn.push((since as f64, f64::NAN));
            last = None;
        }
        // What holds until the next change needs a point only there.
        if kind == SeriesKind::Step && y.is_some() && y.map(f64::to_bits) == last.map(f64::to_bits)
        {
            continue;
        }
        if y.is_some() || last.is_some() {
            drawn.push((point.time as f64, y.unwrap_or(f64::NAN)));
        }
        last = y;
    }
    if let (Some(end), Some(y)) = (points.last(), last)
        && drawn.last().is_some_and(|(x, _)| *x < end.time as f64)
    {
        drawn.push((end.time as f64, y));
    }
    Series::new(name, kind).points(drawn)
}

impl Mining {
    pub(super) fn charts(&self) -> Vec<Chart> {
        vec![
            self.difficulty_chart(),
            self.fees_chart(),
            self.price_chart(),
            self.cost_chart(),
            self.network_chart(),
        ]
    }

    fn difficulty_chart(&self) -> Chart {
        Chart::new("Difficulty", time(), Axis::new("Difficulty", "", Scale::Log))
            .description("How hard a block was to find; each value holds until the next.")
            .series(line("difficulty", SeriesKind::Step, &self.history, |it| it.difficulty))
    }

    fn fees_chart(&self) -> Chart {
        let y = Axis::new("Fees of a block", &self.symbol, Scale::FromZero);
        Chart::new("Fees", time(), y).description("Mean fees of a block.").series(line(
            "fees",
            SeriesKind::Line,
            &self.history,
            |it| it.fees,
        ))
    }

    fn price_chart(&self) -> Chart {
        let y = Axis::new(format!("Price of a {}", self.symbol), &self.currency, Scale::Log);
        Chart::new("Exchange rate", time(), y).description("What a coin was worth.").series(line(
            "price",
            SeriesKind::Line,
            &self.history,
            |it| it.price,
        ))
    }

    fn cost_chart(&self) -> Chart {
        let y = Axis::new(format!("Of a {}", self.symbol), &self.currency, Scale::Log);
        let chart = Chart::new("Cost of a coin against its price", time(), y).description(format!(
            "Energy of a coin at {} {}/kWh for each device, fees left out, from when on it could be \
             had; where its line is below the price, mining pays.",
            self.per_kwh, self.currency
        ));
        let priced = line("price", SeriesKind::Line, &self.history, |it| it.price);
        self.devices.iter().fold(chart.series(priced), |chart, row| {
            chart.series(line(&row.device.name, SeriesKind::Step, &self.history, |it| {
                self.cost(row, it)
            }))
        })
    }

    /// Energy of a coin on a device, at the difficulty and reward of a day.
    fn cost(&self, row: &DeviceRow, at: &Point) -> Option<f64> {
        if !row.device.is_there_on(at.day()) {
            return None;
        }
        let now = self.difficulty.parse::<f64>().ok()?;
        let per_difficulty = row.assessment.cost_per_block / now;
        Some(per_difficulty * at.difficulty? / at.reward.filter(|reward| *reward > 0.0)?)
    }

    fn network_chart(&self) -> Chart {
        let now = self.difficulty.parse::<f64>().unwrap_or(f64::NAN);
        let rate = self.network_hash_rate / now;
        let chart = Chart::new("Power of the network", time(), Axis::new("Power", "GW", Scale::Log))
            .description(
                "What all of the network would draw, were all of it so efficient; and were all of it the \
                 most efficient device that could be had in the year.",
            );
        let power = |mhash_j: f64, it: &Point| {
            let efficiency = HashesPerJoule::new(mhash_j * 1e6).ok()?;
            Some(it.difficulty? * rate / efficiency.get() / 1e9)
        };
        let chart = EFFICIENCIES.iter().fold(chart, |chart, &mhash_j| {
            let name = format!("{mhash_j} Mhash/J");
            chart.series(line(name, SeriesKind::Step, &self.history, |it| power(mhash_j, it)))
        });
        let best = |it: &Point| {
            let year = year_of(it.day());
            let there = self
                .devices
                .iter()
                .filter(|row| row.device.since.as_ref().is_some_and(|it| it.year() <= year));
            there.map(|row| row.mhash_j).max_by(f64::total_cmp)
        };
        let of_devices = line("best device of the year", SeriesKind::Step, &self.history, |it| {
            power(best(it)?, it)
        });
        let mut chart = chart.series(of_devices);
        if !self.bands.is_empty() {
            // Lines upwards are the days on which the bounds enter and leave it.
            chart = chart
                .line_at_y(BAND_GW.0, "published: 0.1 GW")
                .line_at_y(BAND_GW.1, "published: 10 GW");
        }
        for band in &self.bands {
            for span in &band.spans {
                let (from, to) = span.times;
                for time in [Some(from), to].into_iter().flatten() {
                    chart = chart.line_at_x(time as f64, format!("{} Mhash/J", band.mhash_j));
                }
            }
        }
        chart
    }
}
