//! Mining as tables.

use nightwatt_report::{Cell, Column, Table};

use super::result::Mining;
use super::text;

fn money(value: Option<f64>, decimals: usize) -> Cell {
    value.map_or(Cell::Empty, |value| Cell::number(value, decimals))
}

impl Mining {
    pub(super) fn devices_table(&self) -> Table {
        let currency = &self.currency;
        let columns = vec![
            Column::text("device"),
            Column::text("kind"),
            Column::text("since"),
            Column::number("rate", "Mhash/s"),
            Column::number("power", "W"),
            Column::number("efficiency", "Mhash/J"),
            Column::number("time of a block", "s"),
            Column::number("energy of a block", "kWh"),
            Column::number("cost of a block", currency),
            Column::number(format!("cost of a {}", self.symbol), currency),
            Column::number("profit of a day", currency),
            Column::number("break-even price of a kWh", currency),
            Column::number("days known", ""),
            Column::number("days profitable", ""),
            Column::text("profitable"),
            Column::text("source"),
        ];
        let mut table = Table::new("Devices", columns);
        for row in &self.devices {
            let (device, it) = (&row.device, &row.assessment);
            table = table.row(vec![
                device.name.as_str().into(),
                device.kind.as_str().into(),
                device.since.as_ref().map_or(Cell::Empty, |since| since.to_string().into()),
                Cell::number(device.mhash_s, 1),
                Cell::number(device.watts, 2),
                Cell::number(row.mhash_j, 3),
                Cell::number(it.seconds_per_block, 0),
                Cell::number(it.joules_per_block / 3.6e6, 0),
                Cell::number(it.cost_per_block, 2),
                money(it.cost_per_coin, 2),
                money(it.profit_per_day, 4),
                money(it.break_even_per_kwh, 6),
                Cell::count(row.days_known.into()),
                Cell::count(row.days_profitable.into()),
                text::spans(&row.profitable_spans).into(),
                device.source.as_str().into(),
            ]);
        }
        table
    }

    pub(super) fn years_table(&self) -> Table {
        let mut columns = vec![
            Column::text("at"),
            Column::number("difficulty", ""),
            Column::number("network", "hash/s"),
        ];
        for (mhash_j, _) in self.network_gw {
            columns.push(Column::number(format!("at {mhash_j} Mhash/J"), "GW"));
        }
        columns.extend([Column::text("devices of the time"), Column::number("days missing", "")]);
        let mut table = Table::new("Power of the network at the end of each year", columns);
        for year in &self.years {
            let mut row: Vec<Cell> = vec![
                year.at.as_str().into(),
                Cell::number(year.difficulty, 0),
                format!("{:.4e}", year.hash_rate).into(),
            ];
            row.extend(year.power_gw.map(|gigawatts| Cell::from(text::short(gigawatts))));
            let devices: Vec<String> = year
                .devices
                .iter()
                .map(|it| format!("{} {} GW", it.name, text::short(it.power_gw)))
                .collect();
            row.extend([devices.join(", ").into(), Cell::count(year.days_missing.unsigned_abs())]);
            table = table.row(row);
        }
        table
    }

    pub(super) fn bands_table(&self) -> Table {
        let columns = vec![
            Column::number("efficiency", "Mhash/J"),
            Column::text("difficulty from"),
            Column::text("difficulty to"),
            Column::text("in the band"),
        ];
        let mut table =
            Table::new("When 0.1 to 10 GW is right, were all of it so efficient", columns);
        for band in &self.bands {
            table = table.row(vec![
                Cell::number(band.mhash_j, 0),
                format!("{:.4e}", band.difficulties.0).into(),
                format!("{:.4e}", band.difficulties.1).into(),
                text::spans(&band.spans).into(),
            ]);
        }
        table
    }

    pub(super) fn gaps_table(&self) -> Table {
        let columns = vec![
            Column::text("missing"),
            Column::text("from"),
            Column::text("to"),
            Column::number("days", ""),
        ];
        let mut table = Table::new("Gaps", columns);
        for gap in &self.gaps {
            table = table.row(vec![
                gap.what.into(),
                gap.from.as_str().into(),
                gap.to.as_str().into(),
                Cell::count(gap.days.unsigned_abs()),
            ]);
        }
        table
    }
}
