//! Mining as tables.

use std::fmt::Write as _;

use nightwatt_energy::display::shown;
use nightwatt_report::{Cell, Column, Table, Text, grouped};

use super::band::Span;
use super::history::Unread;
use super::result::{DeviceRow, Mining};

/// Spans that a cell has; the others are counted.
const SPANS: usize = 3;

impl Mining {
    /// Work and time of a block, with all digits.
    pub(super) fn block_table(&self) -> Table {
        let unit = self.hashes_word();
        // Those of a typed difficulty are no block's.
        let bits = if self.bits_are_given { "compact bits" } else { "compact bits, not easier" };
        let rows = [
            ("difficulty", Some(self.difficulty.clone())),
            ("target", self.target.clone().filter(|_| self.bits.is_some())),
            (bits, self.bits.filter(|_| self.target.is_some()).map(|it| it.to_string())),
            ("expected work", Some(format!("{} {unit}", self.hashes))),
            (
                "exactly, 2^256/(target + 1)",
                self.exact_hashes.as_ref().map(|exact| format!("{exact} {unit}")),
            ),
            ("at", Some(format!("{} {unit}/s", self.hash_rate))),
            ("expected time", Some(format!("{} s", self.expected_s))),
            ("exactly", self.exact_expected_s.as_ref().map(|exact| format!("{exact} s"))),
        ];
        let rows = rows.iter().filter_map(|(what, value)| Some((*what, value.as_deref()?)));
        Table::of("", rows).text("", |it| it.0).text("", |it| it.1).into()
    }

    pub(super) fn network_table(&self) -> Table {
        let caption = format!(
            "At a block every {} s: {:.4e} {}/s",
            self.block_time_s,
            self.network_hash_rate,
            self.hashes_word()
        );
        Table::of(caption, self.network_gw)
            .number("efficiency", format!("M{}/J", self.hash_unit), 0, |it| it.0)
            .written("power", "GW", |it| short(it.1))
            .into()
    }

    pub(super) fn devices_table(&self) -> Table {
        let currency = &*self.currency;
        let money = |title: &str| Column::number(title, currency);
        let some = |value: Option<f64>| value.map_or(Cell::Empty, |value| short(value).into());
        Table::of("Devices", &self.devices)
            .text("device", |it| it.device.name.as_str())
            .text("kind", |it| it.device.kind.as_str())
            .detail()
            .column(Column::text("since"), |it| {
                it.device.since.as_ref().map_or(Cell::Empty, |since| since.to_string().into())
            })
            .number("rate", "Mhash/s", 1, |it| it.device.mhash_s)
            .detail()
            .number("power", "W", 2, |it| it.device.watts)
            .detail()
            .written("efficiency", "Mhash/J", |it| short(it.mhash_j))
            .written("time of a block", "s", |it| {
                format!("{:.4e}", it.assessment.seconds_per_block)
            })
            .written("energy of a block", "kWh", |it| {
                format!("{:.4e}", it.assessment.joules_per_block / 3.6e6)
            })
            .column(money("cost of a block"), |it| short(it.assessment.cost_per_block).into())
            .column(money(&format!("cost of a {}", self.symbol)), |it| {
                some(it.assessment.cost_per_coin)
            })
            .column(money("profit of a day"), |it| some(it.assessment.profit_per_day))
            .column(money("break-even price of a kWh"), |it| some(it.assessment.break_even_per_kwh))
            .text("source", |it| it.device.source.as_str())
            .detail()
            .into()
    }

    /// From when on a device could be had, its days against the price of energy.
    pub(super) fn profitable_table(&self) -> Table {
        let caption = format!(
            "Days on which it brought more than its energy cost at {} {}/kWh, from when on it could be had",
            self.per_kwh, self.currency
        );
        let paid = self.devices.iter().filter(|row| row.days_known > 0);
        Table::of(caption, paid)
            .text("device", |it: &DeviceRow| it.device.name.as_str())
            .count("days profitable", |it| it.days_profitable)
            .count("days known", |it| it.days_known)
            .text("profitable", |it| spans(&it.profitable_spans))
            .into()
    }

    pub(super) fn years_table(&self) -> Table {
        let mut table = Table::of("Power of the network at the end of each year", &self.years)
            .text("at", |it| it.at.as_str())
            .number("difficulty", "", 0, |it| it.difficulty)
            .detail()
            .written("network", "hash/s", |it| format!("{:.4e}", it.hash_rate));
        for (place, (efficiency, _)) in self.network_gw.iter().enumerate() {
            let title = format!("at {efficiency} Mhash/J");
            table = table.written(&title, "GW", |it| short(it.power_gw[place]));
        }
        table
            .text("devices of the time", |year| {
                let named = |it: &super::years::DeviceOfYear| {
                    format!("{} {} GW", it.name, short(it.power_gw))
                };
                year.devices.iter().map(named).collect::<Vec<_>>().join(", ")
            })
            .count("days missing", |it| Some(it.days_missing.unsigned_abs()).filter(|it| *it > 0))
            .into()
    }

    pub(super) fn bands_table(&self) -> Table {
        Table::of("When 0.1 to 10 GW is right, were all of it so efficient", &self.bands)
            .number("efficiency", "Mhash/J", 0, |it| it.mhash_j)
            .text("difficulty from", |it| format!("{:.4e}", it.difficulties.0))
            .text("difficulty to", |it| format!("{:.4e}", it.difficulties.1))
            .text("in the band", |it| spans(&it.spans))
            .into()
    }

    pub(super) fn gaps_table(&self) -> Table {
        Table::of("Gaps", &self.gaps)
            .text("missing", |it| it.what)
            .text("from", |it| it.from.as_str())
            .text("to", |it| it.to.as_str())
            .count("days", |it| it.days.unsigned_abs())
            .into()
    }
}

/// Columns of a history that were not read.
pub(super) fn unread_columns(it: &Unread) -> Text {
    let names: String = it.columns.join(", ").chars().map(shown).collect();
    Text::from(format!("Columns of {} that are not read: {names}", it.file))
}

/// `from until until, from on and 3 more times`.
pub fn spans(spans: &[Span]) -> String {
    let told = spans.iter().take(SPANS).map(|span| match &span.until {
        Some(until) => format!("{} until {until}", span.from),
        None => format!("{} on", span.from),
    });
    let mut text = told.collect::<Vec<_>>().join(", ");
    if text.is_empty() {
        "never".clone_into(&mut text);
    }
    if spans.len() > SPANS {
        let more = spans.len() - SPANS;
        let _ = write!(text, " and {more} more {}", if more == 1 { "time" } else { "times" });
    }
    text
}

/// Four digits that count; the very large and the very small by their power of ten.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e9).contains(&size) {
        return format!("{value:.3e}");
    }
    let decimals = (3.0 - size.log10().floor()).clamp(0.0, 8.0) as usize;
    let text = grouped(value, decimals);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
