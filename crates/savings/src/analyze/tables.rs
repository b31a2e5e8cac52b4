//! The analysis as tables: for the report, and for CSV.

use std::collections::BTreeMap;

use nightwatt_energy::quantity::JOULES_PER_KWH;
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::PolicyChoice;
use nightwatt_report::{Cell, Column, Rows, Table};
use nightwatt_traffic::reader::Sample;
use nightwatt_traffic::summary::Typical;

use super::amounts::digits_of_money;
use super::costs::ORACLE;
use super::policy_figures::{OracleFigures, PolicyFigures};
use super::result::Analysis;
use super::wakers::Waker;
use crate::gaps::GapFigures;

/// Names of the four sequences, in the order of [`BySequence`](super::result::BySequence)'s fields.
pub(super) const SEQUENCES: [&str; 4] =
    ["all requests", "without crawlers", "behind the cache", "without crawlers, behind the cache"];

pub(super) const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// A policy in a table.
struct Ranked<'a> {
    name: &'a str,
    saving: f64,
    energy_j: f64,
    bill: f64,
    /// Nothing for the oracle, which delays no request.
    figures: Option<&'a PolicyFigures>,
}

impl Analysis {
    /// Every table, with the name of its file: `policies`. Names stay from version to version.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        let wakers = &self.wakers;
        vec![
            ("summary", self.summary_table()),
            ("mirror", self.mirror_table()),
            ("policies", self.policies_table()),
            ("sla", self.sla_table()),
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

    /// The same with the oracle at the end.
    fn with_oracle(&self) -> Vec<Ranked<'_>> {
        let OracleFigures { saving, energy_j, bill } = self.oracle;
        let oracle = Ranked { name: ORACLE, saving, energy_j, bill, figures: None };
        let all = self.ranked().into_iter().map(|(name, it)| {
            let PolicyFigures { saving, energy_j, bill, .. } = *it;
            Ranked { name, saving, energy_j, bill, figures: Some(it) }
        });
        all.chain([oracle]).collect()
    }

    fn name_of(&self, policy: &str) -> String {
        let own = if policy == self.default_policy { " (yours)" } else { "" };
        format!("{policy}{own}")
    }

    pub(super) fn days(&self) -> f64 {
        self.span_s / 86_400.0
    }

    fn summary_table(&self) -> Table {
        let mut rows = vec![
            ("lines", self.lines as f64, 0, ""),
            ("requests", self.requests as f64, 0, ""),
            ("bad requests", self.bad_requests as f64, 0, ""),
            ("malformed lines", self.malformed as f64, 0, ""),
            ("span", self.span_s, 0, "s"),
            ("resolution", self.resolution_s, 3, "s"),
            ("distinct targets", self.targets as f64, 0, ""),
            ("share of crawlers", self.crawler_share, 4, ""),
            ("cache answers", self.cache_share.default, 4, ""),
            ("cache with an hour of grace answers", self.cache_share.grace, 4, ""),
            ("requests that reach the server", self.reach_server as f64, 0, ""),
            ("always on", self.always_on_j, 0, "J"),
        ];
        if let Some(year) = &self.year {
            rows.extend([
                ("always on, in a year", year.always_on_kwh, 1, "kWh"),
                ("saved in a year", year.saved_kwh, 1, "kWh"),
                ("saved in a year", year.saved_cost, 2, &*year.currency),
                ("saved in a year", year.saved_co2_kg, 1, "kg CO2e"),
            ]);
        }
        Table::of("Key figures", &rows)
            .text("figure", |it| it.0)
            .column(Column::number("value", ""), |it| Cell::number(it.1, it.2))
            .text("unit", |it| it.3)
            .into()
    }

    fn policies_table(&self) -> Table {
        let rows = self.with_oracle();
        let kwh = |joules: f64| joules / JOULES_PER_KWH;
        let table = Table::of("What each policy would have done", &rows)
            .text("policy", |it| self.name_of(it.name))
            .number("saving", "%", 1, |it| 100.0 * it.saving)
            .number("energy", "kWh", 2, |it| kwh(it.energy_j))
            .number("±", "kWh", 2, |it| it.figures.map(|it| kwh(it.energy_uncertainty_j)))
            .number("wake-ups", "1/d", 1, |it| it.figures.map(|it| it.wakeups_per_day))
            .count("delayed requests", |it| it.figures.map(|it| it.delayed_requests))
            .count("all requests", |it| it.figures.map(|it| it.admitted))
            .count("delayed visits", |it| it.figures.map(|it| it.delayed_visits))
            .count("all visits", |it| it.figures.map(|it| it.visits))
            .number("delayed visits", "%", 1, |it| {
                it.figures.map(|it| 100.0 * ratio(it.delayed_visits, it.visits))
            })
            .number("of the oracle", "%", 1, |it| oracle_share(it.figures))
            .count("days with 30 requests", |it| it.figures.map(|it| it.days))
            .count("days over the SLA", |it| it.figures.map(|it| it.days_over));
        match &self.year {
            Some(year) => table
                .number("saved in a year", &*year.currency, 2, |it| self.saved_in_a_year(it.bill))
                .into(),
            None => table.into(),
        }
    }

    /// The same with what people want to know of it.
    pub(super) fn policies_short_table(&self) -> Table {
        let rows = self.with_oracle();
        let mut table = Table::of("What each policy would have done", &rows)
            .text("policy", |it| self.name_of(it.name))
            .number("saving", "%", 1, |it| 100.0 * it.saving);
        if let Some(year) = &self.year {
            let title = format!("{} a year", year.currency);
            let digits = self.digits_of_money();
            table = table.number(title, "", digits, |it| self.saved_in_a_year(it.bill));
        }
        let late = |some: u64, all: u64| 100.0 * ratio(some, all);
        table
            .number("wake-ups", "a day", 1, |it| it.figures.map(|it| it.wakeups_per_day))
            .number("late requests", "%", 1, |it| {
                it.figures.map_or(0.0, |it| late(it.delayed_requests, it.admitted))
            })
            .number("late visits", "%", 1, |it| {
                it.figures.map_or(0.0, |it| late(it.delayed_visits, it.visits))
            })
            .number("of oracle", "%", 1, |it| oracle_share(it.figures))
            .into()
    }

    /// What a policy with this bill would save in a year, in the currency of the scenario.
    pub(super) fn saved_in_a_year(&self, bill: f64) -> Option<f64> {
        let year = self.year.as_ref()?;
        Some((self.always_on_bill - bill) * year.factor)
    }

    /// Digits behind the point of money that is saved in a year: as many as the verdict has.
    pub(super) fn digits_of_money(&self) -> usize {
        let saved = self.year.as_ref().map_or(0.0, |year| year.saved_cost);
        digits_of_money(saved, self.watts_assumed)
    }

    fn frontier_table(&self) -> Table {
        Table::of("Saving against delays, without an SLA", &self.frontier)
            .text("policy", |it| it.policy.as_str())
            .text("kind", |it| it.kind)
            .number("saving", "%", 2, |it| 100.0 * it.saving)
            .count("delayed visits", |it| it.delayed_visits)
            .count("delayed requests", |it| it.delayed_requests)
            .into()
    }

    pub(super) fn costs_table(&self) -> Table {
        let best = |row: &BTreeMap<String, f64>| row.get("best_fixed").copied();
        let costs = self.costs.iter().flat_map(|(&price, row)| {
            let best = best(row).filter(|best| *best > 0.0);
            row.iter().map(move |(policy, &cost)| (price, policy.as_str(), cost, best))
        });
        Table::of("Cost: the server's joules + price × delayed visits", costs)
            .number("price of a delayed visit", "J", 0, |it| it.0)
            .text("policy", |it| it.1)
            .number("cost", "J", 0, |it| it.2)
            .number("by best fixed", "", 3, |it| it.3.map(|best| it.2 / best))
            .number("best time-out", "s", 0, |it| {
                self.best_timeout_s(it.0).filter(|_| it.1 == "best_fixed")
            })
            .into()
    }

    /// One row a price: what each policy costs, in units of the best fixed time-out.
    pub(super) fn ratios_table(&self) -> Table {
        let rows = self.costs.iter().filter_map(|it| Some((*it.0, it.1, *it.1.get("best_fixed")?)));
        let caption = "Cost at a price per delayed visit, as a multiple of best fixed";
        let table = Table::of(caption, rows)
            .number("a visit's wait", "J", 0, |it| it.0)
            .text("best fixed", |it| {
                self.best_timeout_s(it.0).map_or_else(|| "never sleeps".to_owned(), seconds)
            });
        let policies = self.priced().into_iter();
        let with = |table: Rows<_>, name: &str| {
            table.number(name, "×", 3, |(_, row, best): (u32, &BTreeMap<String, f64>, f64)| {
                row.get(name).filter(|_| best > 0.0).map(|cost| cost / best)
            })
        };
        policies.fold(table, with).into()
    }

    /// The best fixed time-out at this price, s; none is never.
    pub(super) fn best_timeout_s(&self, price: u32) -> Option<f64> {
        self.best_fixed_timeout_s.get(&price).copied().flatten()
    }

    /// Policies that are compared at prices, other than the best fixed time-out.
    fn priced(&self) -> Vec<&str> {
        let known = self.costs.values().next();
        let mut names: Vec<&str> =
            known.into_iter().flat_map(BTreeMap::keys).map(String::as_str).collect();
        names.retain(|name| *name != "best_fixed");
        let last = |name: &&str| [PolicyChoice::AlwaysOn.name(), ORACLE].contains(name);
        names.sort_by_key(last);
        names
    }

    fn ideal_table(&self) -> Table {
        let [all, without_crawlers, behind_cache, both] = SEQUENCES;
        Table::of("Energy with perfect knowledge", &self.ideal)
            .number("threshold", "s", 0, |it| *it.0)
            .number(all, "J", 0, |it| it.1.all)
            .number(without_crawlers, "J", 0, |it| it.1.without_crawlers)
            .number(behind_cache, "J", 0, |it| it.1.behind_cache)
            .number(both, "J", 0, |it| it.1.both)
            .number("always on", "J", 0, |_| self.always_on_j)
            .into()
    }

    /// The gaps of the four sequences, by name.
    pub(super) fn gap_figures(&self) -> [(&'static str, &GapFigures); 4] {
        let gaps = &self.gaps;
        let figures = [&gaps.all, &gaps.without_crawlers, &gaps.behind_cache, &gaps.both];
        std::array::from_fn(|index| (SEQUENCES[index], figures[index]))
    }

    pub(super) fn gaps_table(&self) -> Table {
        Table::of("Gaps between requests", self.gap_figures())
            .text("sequence", |it| it.0)
            .count("requests", |it| it.1.requests)
            .number("mean", "s", 1, |it| it.1.mean_s)
            .number("median at most", "s", 1, |it| it.1.p50_s)
            .number("90 % at most", "s", 1, |it| it.1.p90_s)
            .number("99 % at most", "s", 1, |it| it.1.p99_s)
            .number("longest", "s", 0, |it| it.1.longest_s)
            .into()
    }

    fn gap_histogram_table(&self) -> Table {
        let figures = self.gap_figures().into_iter();
        let bands = figures.flat_map(|(name, it)| it.histogram.iter().map(move |it| (name, it)));
        Table::of("Gaps by length", bands)
            .text("sequence", |it| it.0)
            .number("from", "s", 3, |it| it.1.from_s)
            .number("to", "s", 3, |it| it.1.to_s)
            .count("gaps", |it| it.1.gaps)
            .number("sum", "s", 0, |it| it.1.seconds)
            .into()
    }

    fn hours_of_day_table(&self) -> Table {
        let name = |hour: usize| format!("{hour:02}:00");
        hours_table("hour", name, &self.hours.of_day, &self.hours.crawlers_of_day)
    }

    fn hours_of_week_table(&self) -> Table {
        let name = |hour: usize| format!("{} {:02}:00", DAYS[hour / 24], hour % 24);
        let hours = &self.hours;
        hours_table("hour of the week", name, &hours.of_week, &hours.crawlers_of_week)
    }

    pub(super) fn classes_table(&self) -> Table {
        let classes: BTreeMap<&str, u64> =
            self.classes.iter().map(|(class, &count)| (class.as_str(), count)).collect();
        counts_table("Classes of clients", "class", &classes)
    }

    pub(super) fn crawlers_table(&self) -> Table {
        Table::of("Crawlers", &self.crawlers)
            .text("crawler", |it| it.0.as_str())
            .count("requests", |it| it.1)
            .number("of all", "%", 2, |it| 100.0 * ratio(it.1, self.requests))
            .into()
    }

    pub(super) fn suspects_table(&self) -> Table {
        Table::of("Agents on no list that behave like crawlers or monitors", &self.suspects)
            .text("agent", |it| it.agent.as_str())
            .count("requests", |it| it.requests)
            .text("why it looks like a crawler or a monitor", |it| {
                it.habits.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            })
            .into()
    }

    fn sizes_table(&self) -> Table {
        Table::of("Sizes of answers", &self.sizes.histogram)
            .number("from", "B", 0, |it| it.from)
            .number("to", "B", 0, |it| it.to)
            .count("answers", |it| it.answers)
            .into()
    }

    pub(super) fn logs_table(&self) -> Table {
        Table::of("Logs", &self.logs)
            .text("log", |it| it.name.as_str())
            .column(Column::text("format"), |log| {
                let within = log.containers.iter().rev().map(|it| format!(" in {it}"));
                let named = log.format.as_ref().map(|it| it.clone() + &within.collect::<String>());
                named.map_or(Cell::Empty, Cell::from)
            })
            .count("lines", |it| it.lines)
            .into()
    }

    pub(super) fn holes_table(&self) -> Table {
        let civil =
            |at: nightwatt_energy::time::Wall| nightwatt_energy::civil::to_minute(at.secs());
        Table::of("Holes: pauses that are absurd against all others", &self.holes)
            .text("after (UTC)", |it| civil(it.after))
            .text("before (UTC)", |it| civil(it.before))
            .number("length", "s", 0, |it| it.length_s)
            .into()
    }

    /// The scenario, key by key.
    pub(super) fn assumptions_table(&self) -> Table {
        let flat = |scenario: &Scenario| {
            let mut keys = BTreeMap::new();
            if let Ok(value) = toml::Value::try_from(scenario) {
                flatten("", &value, &mut keys);
            }
            keys
        };
        let defaults = flat(&Scenario::default());
        Table::of("What was taken for granted", &flat(&self.scenario))
            .text("key", |it| it.0.as_str())
            .text("value", |it| it.1.as_str())
            .text("from", |it| if defaults.get(it.0) == Some(it.1) { "default" } else { "yours" })
            .into()
    }
}

/// What a policy saves of what the oracle saves, in per cent: the oracle all of it.
fn oracle_share(of: Option<&PolicyFigures>) -> Option<f64> {
    of.map_or(Some(1.0), |it| it.oracle_share).map(|share| 100.0 * share)
}

pub(super) fn ratio(some: u64, all: u64) -> f64 {
    some as f64 / all.max(1) as f64
}

/// A time-out in seconds, as people write it.
fn seconds(seconds: f64) -> String {
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
    Table::of(caption, wakers)
        .text(what, |it| it.name.as_str())
        .count("wake-ups", |it| it.caused.wakeups)
        .count("delayed requests", |it| it.caused.delayed_requests)
        .column(Column::text("rule"), |it| {
            it.what_if.as_ref().map_or(Cell::Empty, |it| it.rule.into())
        })
        .number("which would save per day", "Wh", 2, |it| {
            it.what_if.as_ref().map(|it| it.saved_j_per_day / 3600.0)
        })
        .number("wake-ups per day", "", 1, |it| {
            it.what_if.as_ref().map(|it| it.wakeups_avoided_per_day)
        })
        .number("delays per day", "", 1, |it| {
            it.what_if.as_ref().map(|it| it.delays_avoided_per_day)
        })
        .detail()
        .most(WAKERS)
        .into()
}

/// Rows of who wakes the server, on a terminal.
const WAKERS: usize = 3;

pub(super) fn samples_table(caption: &str, samples: &[Sample]) -> Table {
    Table::of(caption, samples)
        .text("where", |it| format!("{}:{}", it.file, it.line))
        .text("why", |it| it.reason.to_string())
        .text("begins with", |it| it.excerpt.as_str())
        .into()
}

pub(super) fn counts_table<K: ToString>(
    caption: &str,
    what: &str,
    counts: &BTreeMap<K, u64>,
) -> Table {
    let all: u64 = counts.values().sum();
    let mut rows: Vec<_> = counts.iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    Table::of(caption, rows)
        .text(what, |it| it.0.to_string())
        .count("requests", |it| *it.1)
        .number("of all", "%", 2, |it| 100.0 * ratio(*it.1, all))
        .into()
}

fn hours_table(
    what: &str,
    name: impl Fn(usize) -> String,
    all: &[Typical],
    crawlers: &[Typical],
) -> Table {
    let of = |typical: &[Typical], hour: usize, figure: fn(&Typical) -> f64| {
        typical.get(hour).map(figure)
    };
    Table::of("Requests per hour", 0..all.len())
        .text(what, name)
        .number("median", "1/h", 1, |it| of(all, it, |it| it.median))
        .number("mean", "1/h", 1, |it| of(all, it, |it| it.mean))
        .number("crawlers' median", "1/h", 1, |it| of(crawlers, it, |it| it.median))
        .number("crawlers' mean", "1/h", 1, |it| of(crawlers, it, |it| it.mean))
        .into()
}
