//! The analysis as tables: for the page, and for CSV.

use std::collections::BTreeMap;

use nightwatt_energy::quantity::JOULES_PER_KWH;
use nightwatt_report::{Cell, Column, Table};
use nightwatt_traffic::reader::Sample;
use nightwatt_traffic::summary::Typical;

use super::result::{Analysis, PolicyFigures};
use super::wakers::Waker;
use super::what_if::WhatIf;
use crate::gaps::GapFigures;

/// Names of the four sequences, in the order of [`BySequence`](super::result::BySequence)'s fields.
pub(super) const SEQUENCES: [&str; 4] =
    ["all requests", "without crawlers", "behind the cache", "without crawlers, behind the cache"];

pub(super) const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl Analysis {
    /// Every table, with the name of its file: `policies`. Names stay from version to version.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        let wakers = &self.wakers;
        vec![
            ("summary", self.summary_table()),
            ("mirror", self.mirror_table()),
            ("policies", self.policies_table()),
            ("frontier", self.frontier_table()),
            ("costs", self.costs_table()),
            ("wakers-urls", wakers_table("URLs that wake the server", "URL", &wakers.resources)),
            ("wakers-clients", wakers_table("Clients that wake it", "client", &wakers.clients)),
            ("wakers-classes", wakers_table("Classes that wake it", "class", &wakers.classes)),
            ("ideal", self.ideal_table()),
            ("gaps", self.gaps_table()),
            ("gap-histogram", self.gap_histogram_table()),
            ("hours-of-day", self.hours_of_day_table()),
            ("hours-of-week", self.hours_of_week_table()),
            ("classes", self.classes_table()),
            ("crawlers", self.crawlers_table()),
            ("suspects", self.suspects_table()),
            ("sizes", self.sizes_table()),
            ("methods", counts_table("Methods", "method", &self.methods)),
            ("statuses", counts_table("Statuses", "status", &self.statuses)),
            ("logs", self.logs_table()),
            ("holes", self.holes_table()),
            ("bad-requests", samples_table("Bad requests", &self.bad_request_samples)),
            ("malformed", samples_table("Malformed lines", &self.malformed_samples)),
            ("assumptions", self.assumptions_table()),
        ]
    }

    /// Policies in the order in which people want them: the scenario's own, then by saving.
    pub fn ranked(&self) -> Vec<(&str, &PolicyFigures)> {
        let mut ranked: Vec<_> =
            self.policies.iter().map(|(name, it)| (name.as_str(), it)).collect();
        ranked.sort_by(|(one, a), (other, b)| {
            let own = |name: &str| name != self.default_policy;
            own(one).cmp(&own(other)).then(b.saving.total_cmp(&a.saving)).then(one.cmp(other))
        });
        ranked
    }

    pub(super) fn days(&self) -> f64 {
        self.span_s / 86_400.0
    }

    fn summary_table(&self) -> Table {
        let columns =
            vec![Column::text("figure"), Column::number("value", ""), Column::text("unit")];
        let mut table = Table::new("Key figures", columns);
        let mut add = |name: &str, value: f64, decimals, unit: &str| {
            table.rows.push(vec![name.into(), Cell::number(value, decimals), unit.into()]);
        };
        add("lines", self.lines as f64, 0, "");
        add("requests", self.requests as f64, 0, "");
        add("bad requests", self.bad_requests as f64, 0, "");
        add("malformed lines", self.malformed as f64, 0, "");
        add("span", self.span_s, 0, "s");
        add("resolution", self.resolution_s, 3, "s");
        add("distinct targets", self.targets as f64, 0, "");
        add("share of crawlers", self.crawler_share, 4, "");
        add("cache answers", self.cache_share.default, 4, "");
        add("cache with an hour of grace answers", self.cache_share.grace, 4, "");
        add("requests that reach the server", self.reach_server as f64, 0, "");
        add("always on", self.always_on_j, 0, "J");
        if let Some(year) = &self.year {
            add("always on, in a year", year.always_on_kwh, 1, "kWh");
            add("saved in a year", year.saved_kwh, 1, "kWh");
            add("saved in a year", year.saved_cost, 2, &year.currency);
            add("saved in a year", year.saved_co2_kg, 1, "kg CO2e");
        }
        table
    }

    fn policies_table(&self) -> Table {
        let mut columns = vec![
            Column::text("policy"),
            Column::number("saving", "%"),
            Column::number("energy", "kWh"),
            Column::number("±", "kWh"),
            Column::number("wake-ups", "1/d"),
            Column::number("delayed requests", ""),
            Column::number("all requests", ""),
            Column::number("delayed visits", ""),
            Column::number("all visits", ""),
            Column::number("delayed visits", "%"),
            Column::number("of the oracle", "%"),
            Column::number("days with 30 requests", ""),
            Column::number("days over the promise", ""),
        ];
        if let Some(year) = &self.year {
            columns.push(Column::number("saved in a year", &year.currency));
        }
        let mut table = Table::new("What each policy would have done", columns);
        for (name, it) in self.ranked() {
            let own = if name == self.default_policy { " (yours)" } else { "" };
            let visits = 100.0 * it.delayed_visits as f64 / it.visits.max(1) as f64;
            let mut row = vec![
                format!("{name}{own}").into(),
                Cell::number(100.0 * it.saving, 1),
                Cell::number(it.energy_j / JOULES_PER_KWH, 2),
                Cell::number(it.energy_uncertainty_j / JOULES_PER_KWH, 2),
                Cell::number(it.wakeups_per_day, 1),
                Cell::count(it.delayed_requests),
                Cell::count(it.admitted),
                Cell::count(it.delayed_visits),
                Cell::count(it.visits),
                Cell::number(visits, 1),
                share_cell(it.oracle_share),
                Cell::count(it.days),
                Cell::count(it.days_over),
            ];
            row.extend(self.saved_in_a_year(it.bill).map(|money| Cell::number(money, 2)));
            table.rows.push(row);
        }
        let mut oracle = vec![
            "oracle".into(),
            Cell::number(100.0 * self.oracle.saving, 1),
            Cell::number(self.oracle.energy_j / JOULES_PER_KWH, 2),
        ];
        oracle.extend(std::iter::repeat_n(Cell::Empty, 7));
        oracle.extend([Cell::number(100.0, 1), Cell::Empty, Cell::Empty]);
        oracle.extend(self.saved_in_a_year(self.oracle.bill).map(|it| Cell::number(it, 2)));
        table.row(oracle)
    }

    /// The same with what people want to know of it.
    pub(super) fn policies_short_table(&self) -> Table {
        let mut columns = vec![Column::text("policy"), Column::number("saving", "%")];
        if let Some(year) = &self.year {
            columns.push(Column::number(format!("{} a year", year.currency), ""));
        }
        columns.extend([
            Column::number("wake-ups", "a day"),
            Column::number("late requests", "%"),
            Column::number("late visits", "%"),
            Column::number("of oracle", "%"),
        ]);
        let mut table = Table::new("What each policy would have done", columns);
        let share = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
        for (name, it) in self.ranked() {
            let own = if name == self.default_policy { " (yours)" } else { "" };
            let mut row = vec![format!("{name}{own}").into(), Cell::number(100.0 * it.saving, 1)];
            row.extend(self.saved_in_a_year(it.bill).map(|money| Cell::number(money, 2)));
            row.extend([
                Cell::number(it.wakeups_per_day, 1),
                Cell::number(share(it.delayed_requests, it.admitted), 1),
                Cell::number(share(it.delayed_visits, it.visits), 1),
                share_cell(it.oracle_share),
            ]);
            table.rows.push(row);
        }
        let mut oracle = vec!["oracle".into(), Cell::number(100.0 * self.oracle.saving, 1)];
        oracle.extend(self.saved_in_a_year(self.oracle.bill).map(|it| Cell::number(it, 2)));
        let nobody = Cell::number(0.0, 1);
        oracle.extend([Cell::Empty, nobody.clone(), nobody]);
        oracle.push(Cell::number(100.0, 1));
        table.row(oracle)
    }

    /// What a policy with this bill would save in a year, in the currency of the scenario.
    pub(super) fn saved_in_a_year(&self, bill: f64) -> Option<f64> {
        let year = self.year.as_ref()?;
        Some((self.always_on_bill - bill) * year.factor)
    }

    fn frontier_table(&self) -> Table {
        let columns = vec![
            Column::text("policy"),
            Column::text("kind"),
            Column::number("saving", "%"),
            Column::number("delayed visits", ""),
            Column::number("delayed requests", ""),
        ];
        let mut table = Table::new("Saving against delays, nobody promised anything", columns);
        for point in &self.frontier {
            table.rows.push(vec![
                point.policy.as_str().into(),
                point.kind.into(),
                Cell::number(100.0 * point.saving, 2),
                Cell::count(point.delayed_visits),
                Cell::count(point.delayed_requests),
            ]);
        }
        table
    }

    pub(super) fn costs_table(&self) -> Table {
        let columns = vec![
            Column::number("price of a delayed visit", "J"),
            Column::text("policy"),
            Column::number("cost", "J"),
            Column::number("by best fixed", ""),
            Column::number("best time-out", "s"),
        ];
        let caption = "Cost: the server's joules + price × delayed visits";
        let mut table = Table::new(caption, columns);
        for (&price, row) in &self.costs {
            let best = row.get("best_fixed").copied().filter(|best| *best > 0.0);
            for (policy, &cost) in row {
                let timeout = self.best_timeout_s(price).filter(|_| policy == "best_fixed");
                table.rows.push(vec![
                    Cell::count(price.into()),
                    policy.as_str().into(),
                    Cell::number(cost, 0),
                    best.map_or(Cell::Empty, |best| Cell::number(cost / best, 3)),
                    timeout.map_or(Cell::Empty, |timeout| Cell::number(timeout, 0)),
                ]);
            }
        }
        table
    }

    /// One row a price: what each policy costs, in units of the best fixed time-out.
    pub(super) fn ratios_table(&self) -> Table {
        let policies = self.priced();
        let mut columns = vec![Column::number("a visit's wait", "J"), Column::text("best fixed")];
        columns.extend(policies.iter().map(|name| Column::number(*name, "×")));
        let mut table =
            Table::new("Cost at a price per delayed visit, as a multiple of best fixed", columns);
        for (&price, row) in &self.costs {
            let Some(best) = row.get("best_fixed").copied() else { continue };
            let timeout = self.best_timeout_s(price);
            let timeout = timeout.map_or_else(|| "never sleeps".to_owned(), seconds);
            let mut cells = vec![Cell::count(price.into()), timeout.into()];
            let ratio = |name: &&str| {
                let cost = row.get(*name).copied().filter(|_| best > 0.0);
                cost.map_or(Cell::Empty, |cost| Cell::number(cost / best, 3))
            };
            cells.extend(policies.iter().map(ratio));
            table.rows.push(cells);
        }
        table
    }

    /// The best fixed time-out at this price, s; none is never.
    pub(super) fn best_timeout_s(&self, price: u32) -> Option<f64> {
        self.best_fixed_timeout_s.get(&price).copied().flatten()
    }

    /// Policies that are compared at prices, other than the best fixed time-out.
    pub(super) fn priced(&self) -> Vec<&str> {
        let known = self.costs.values().next();
        let mut names: Vec<&str> =
            known.into_iter().flat_map(BTreeMap::keys).map(String::as_str).collect();
        names.retain(|name| *name != "best_fixed");
        let last = |name: &&str| matches!(*name, "always-on" | "oracle");
        names.sort_by_key(last);
        names
    }

    fn ideal_table(&self) -> Table {
        let mut columns = vec![Column::number("threshold", "s")];
        columns.extend(SEQUENCES.map(|name| Column::number(name, "J")));
        columns.push(Column::number("always on", "J"));
        let mut table = Table::new("Energy with perfect knowledge", columns);
        for (&threshold, row) in &self.ideal {
            let cell = |joules: Option<f64>| joules.map_or(Cell::Empty, |it| Cell::number(it, 0));
            table.rows.push(vec![
                Cell::count(threshold.into()),
                cell(row.all),
                cell(row.without_crawlers),
                cell(row.behind_cache),
                cell(row.both),
                cell(Some(self.always_on_j)),
            ]);
        }
        table
    }

    /// The gaps of the four sequences, by name.
    pub(super) fn gap_figures(&self) -> [(&'static str, &GapFigures); 4] {
        let gaps = &self.gaps;
        let figures = [&gaps.all, &gaps.without_crawlers, &gaps.behind_cache, &gaps.both];
        std::array::from_fn(|index| (SEQUENCES[index], figures[index]))
    }

    pub(super) fn gaps_table(&self) -> Table {
        let columns = vec![
            Column::text("sequence"),
            Column::number("requests", ""),
            Column::number("mean", "s"),
            Column::number("median at most", "s"),
            Column::number("90 % at most", "s"),
            Column::number("99 % at most", "s"),
            Column::number("longest", "s"),
        ];
        let mut table = Table::new("Gaps between requests", columns);
        for (name, it) in self.gap_figures() {
            table.rows.push(vec![
                name.into(),
                Cell::count(it.requests),
                Cell::number(it.mean_s, 1),
                Cell::number(it.p50_s, 1),
                Cell::number(it.p90_s, 1),
                Cell::number(it.p99_s, 1),
                Cell::number(it.longest_s, 0),
            ]);
        }
        table
    }

    fn gap_histogram_table(&self) -> Table {
        let columns = vec![
            Column::text("sequence"),
            Column::number("from", "s"),
            Column::number("to", "s"),
            Column::number("gaps", ""),
            Column::number("sum", "s"),
        ];
        let mut table = Table::new("Gaps by length", columns);
        for (name, it) in self.gap_figures() {
            for band in &it.histogram {
                table.rows.push(vec![
                    name.into(),
                    Cell::number(band.from_s, 3),
                    Cell::number(band.to_s, 3),
                    Cell::count(band.gaps),
                    Cell::number(band.seconds, 0),
                ]);
            }
        }
        table
    }

    fn hours_of_day_table(&self) -> Table {
        let hours = &self.hours;
        hours_table(
            "hour",
            (0..24).map(|it| format!("{it:02}:00")),
            &hours.of_day,
            &hours.crawlers_of_day,
        )
    }

    fn hours_of_week_table(&self) -> Table {
        let hours = &self.hours;
        let name = |hour: usize| format!("{} {:02}:00", DAYS[hour / 24], hour % 24);
        hours_table("hour of the week", (0..168).map(name), &hours.of_week, &hours.crawlers_of_week)
    }

    pub(super) fn classes_table(&self) -> Table {
        let classes: BTreeMap<&str, u64> =
            self.classes.iter().map(|(class, &count)| (class.as_str(), count)).collect();
        counts_table("Classes of clients", "class", &classes)
    }

    pub(super) fn crawlers_table(&self) -> Table {
        let columns = vec![
            Column::text("crawler"),
            Column::number("requests", ""),
            Column::number("of all", "%"),
        ];
        let mut table = Table::new("Crawlers", columns);
        for (name, count) in &self.crawlers {
            let share = 100.0 * *count as f64 / self.requests.max(1) as f64;
            table.rows.push(vec![
                name.as_str().into(),
                Cell::count(*count),
                Cell::number(share, 2),
            ]);
        }
        table
    }

    pub(super) fn suspects_table(&self) -> Table {
        let columns = vec![
            Column::text("agent"),
            Column::number("requests", ""),
            Column::text("why it looks like a crawler or a monitor"),
        ];
        let mut table =
            Table::new("Agents on no list that behave like crawlers or monitors", columns);
        for suspect in &self.suspects {
            let habits: Vec<String> = suspect.habits.iter().map(ToString::to_string).collect();
            table.rows.push(vec![
                suspect.agent.as_str().into(),
                Cell::count(suspect.requests),
                habits.join("; ").into(),
            ]);
        }
        table
    }

    fn sizes_table(&self) -> Table {
        let columns = vec![
            Column::number("from", "B"),
            Column::number("to", "B"),
            Column::number("answers", ""),
        ];
        let mut table = Table::new("Sizes of answers", columns);
        for &(from, to, answers) in &self.sizes.histogram {
            table.rows.push(vec![Cell::count(from), Cell::count(to), Cell::count(answers)]);
        }
        table
    }

    pub(super) fn logs_table(&self) -> Table {
        let columns =
            vec![Column::text("log"), Column::text("format"), Column::number("lines", "")];
        let mut table = Table::new("Logs", columns);
        for log in &self.logs {
            let within = || log.containers.iter().rev().map(|container| format!(" in {container}"));
            let named =
                log.format.as_ref().map(|format| format.clone() + &within().collect::<String>());
            let format = named.as_deref().map_or(Cell::Empty, Cell::from);
            table.rows.push(vec![log.name.as_str().into(), format, Cell::count(log.lines)]);
        }
        table
    }

    pub(super) fn holes_table(&self) -> Table {
        let columns = vec![
            Column::text("after (UTC)"),
            Column::text("before (UTC)"),
            Column::number("length", "s"),
        ];
        let mut table = Table::new("Holes: pauses that are absurd against all others", columns);
        for hole in &self.holes {
            let civil = |at: nightwatt_energy::time::Wall| {
                nightwatt_energy::civil::to_minute(at.secs()).into()
            };
            let length = Cell::number(hole.length_s, 0);
            table.rows.push(vec![civil(hole.after), civil(hole.before), length]);
        }
        table
    }

    /// The scenario, key by key.
    pub(super) fn assumptions_table(&self) -> Table {
        let columns = vec![Column::text("key"), Column::text("value"), Column::text("from")];
        let mut table = Table::new("What was taken for granted", columns);
        let flat = |scenario: &nightwatt_policy::scenario::Scenario| {
            let mut keys = BTreeMap::new();
            if let Ok(value) = toml::Value::try_from(scenario) {
                flatten("", &value, &mut keys);
            }
            keys
        };
        let defaults = flat(&nightwatt_policy::scenario::Scenario::default());
        for (key, value) in flat(&self.scenario) {
            let from = if defaults.get(&key) == Some(&value) { "default" } else { "yours" };
            table.rows.push(vec![key.into(), value.into(), from.into()]);
        }
        table
    }
}

/// A share in per cent.
fn share_cell(share: Option<f64>) -> Cell {
    share.map_or(Cell::Empty, |share| Cell::number(100.0 * share, 1))
}

/// A time-out in seconds, as people write it.
pub(super) fn seconds(seconds: f64) -> String {
    let time = std::time::Duration::from_secs_f64(seconds.round());
    nightwatt_energy::duration_text::format(time)
}

fn flatten(key: &str, value: &toml::Value, keys: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(&key, value, keys);
            }
        }
        toml::Value::String(text) => drop(keys.insert(key.to_owned(), text.clone())),
        other => drop(keys.insert(key.to_owned(), other.to_string())),
    }
}

pub(super) fn wakers_table(caption: &str, what: &str, wakers: &[Waker]) -> Table {
    let columns = vec![
        Column::text(what),
        Column::number("wake-ups", ""),
        Column::number("delayed requests", ""),
        Column::text("rule"),
        Column::number("which would save per day", "Wh"),
        Column::number("wake-ups per day", ""),
        Column::number("delays per day", ""),
    ];
    let mut table = Table::new(caption, columns);
    for waker in wakers {
        let mut row = vec![
            waker.name.as_str().into(),
            Cell::count(waker.caused.wakeups),
            Cell::count(waker.caused.delayed_requests),
        ];
        row.extend(what_if_cells(waker.what_if.as_ref()));
        table.rows.push(row);
    }
    table
}

fn what_if_cells(what_if: Option<&WhatIf>) -> [Cell; 4] {
    let number =
        |figure: fn(&WhatIf) -> f64| what_if.map_or(Cell::Empty, |it| Cell::number(figure(it), 2));
    [
        what_if.map_or(Cell::Empty, |it| it.rule.into()),
        number(|it| it.saved_j_per_day / 3600.0),
        number(|it| it.wakeups_avoided_per_day),
        number(|it| it.delays_avoided_per_day),
    ]
}

pub(super) fn samples_table(caption: &str, samples: &[Sample]) -> Table {
    let columns = vec![Column::text("where"), Column::text("why"), Column::text("begins with")];
    let mut table = Table::new(caption, columns);
    for sample in samples {
        table.rows.push(vec![
            format!("{}:{}", sample.file, sample.line).into(),
            sample.reason.to_string().into(),
            sample.excerpt.as_str().into(),
        ]);
    }
    table
}

pub(super) fn counts_table<K: ToString>(
    caption: &str,
    what: &str,
    counts: &BTreeMap<K, u64>,
) -> Table {
    let columns =
        vec![Column::text(what), Column::number("requests", ""), Column::number("of all", "%")];
    let mut table = Table::new(caption, columns);
    let all: u64 = counts.values().sum();
    let mut rows: Vec<_> = counts.iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (name, &count) in rows {
        let share = 100.0 * count as f64 / all.max(1) as f64;
        let cells = vec![name.to_string().into(), Cell::count(count), Cell::number(share, 2)];
        table.rows.push(cells);
    }
    table
}

fn hours_table(
    what: &str,
    names: impl Iterator<Item = String>,
    all: &[Typical],
    crawlers: &[Typical],
) -> Table {
    let columns = vec![
        Column::text(what),
        Column::number("median", "1/h"),
        Column::number("mean", "1/h"),
        Column::number("crawlers' median", "1/h"),
        Column::number("crawlers' mean", "1/h"),
    ];
    let mut table = Table::new("Requests per hour", columns);
    for (index, name) in names.enumerate() {
        let cell = |typical: &[Typical], figure: fn(&Typical) -> f64| {
            typical.get(index).map_or(Cell::Empty, |it| Cell::number(figure(it), 1))
        };
        table.rows.push(vec![
            name.into(),
            cell(all, |it| it.median),
            cell(all, |it| it.mean),
            cell(crawlers, |it| it.median),
            cell(crawlers, |it| it.mean),
        ]);
    }
    table
}
