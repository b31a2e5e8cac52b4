//! The published charts: servers on, energy and transitions against rate, number and delay; energy
//! against transitions with the Pareto front; requests per watt, servers and power against rate.

use std::collections::BTreeSet;

use nightwatt_policy::fleet::FleetChoice;
use nightwatt_report::{Axis, Chart, Scale, Series, SeriesKind};

use super::result::{PlanResult, Row};
use crate::fleet::curves::{Curve, CurvePoint};

/// Policies without a parameter, and with these only, are drawn against the rate: more lines than this
/// cannot be told apart.
const MOST_LINES: usize = 8;

/// What is drawn upwards.
struct Measure {
    title: &'static str,
    unit: &'static str,
    of: fn(&Row) -> f64,
    /// Kinds of servers differ in it by so much that against the rate it is drawn by ratio.
    by_ratio: bool,
}

const MEASURES: [Measure; 3] = [
    Measure { title: "Servers on", unit: "", of: |row| row.servers_on.mean, by_ratio: false },
    Measure { title: "Energy of a day", unit: "Wh", of: |row| row.wh_per_day.mean, by_ratio: true },
    Measure {
        title: "Transitions an hour",
        unit: "",
        of: |row| row.transitions_per_hour.mean,
        by_ratio: false,
    },
];

fn choice(row: &Row) -> Option<FleetChoice> {
    row.policy.parse().ok()
}

impl PlanResult {
    fn pools(&self) -> BTreeSet<&str> {
        self.rows.iter().map(|row| row.pool.as_str()).collect()
    }

    /// Each measure against the rate: a line for each pool and policy, where there are several rates.
    pub(super) fn against_rate(&self) -> Vec<Chart> {
        let rates: BTreeSet<u64> = self.rows.iter().map(|row| row.rate.to_bits()).collect();
        if rates.len() < 2 {
            return Vec::new();
        }
        let mut names: Vec<(&str, &str)> = Vec::new();
        for row in &self.rows {
            let name = (row.pool.as_str(), row.policy.as_str());
            let is_plain = row.foresees
                || matches!(choice(row), Some(FleetChoice::Predictive | FleetChoice::Baseline));
            if is_plain && !names.contains(&name) {
                names.push(name);
            }
        }
        // Then the others as far as there is room.
        for row in &self.rows {
            let name = (row.pool.as_str(), row.policy.as_str());
            if names.len() < MOST_LINES && !names.contains(&name) {
                names.push(name);
            }
        }
        let chart = |measure: &Measure| {
            let chart = Chart::new(
                format!("{} against the rate", measure.title),
                Axis::new("Rate", "requests/s", Scale::FromZero),
                Axis::new(
                    measure.title,
                    measure.unit,
                    if measure.by_ratio { Scale::Log } else { Scale::FromZero },
                ),
            )
            .description("The mean of all replications, for each pool and policy.");
            names.iter().fold(chart, |chart, (pool, policy)| {
                let rows =
                    self.rows.iter().filter(|row| row.pool == *pool && row.policy == *policy);
                let points = rows.map(|row| (row.rate, (measure.of)(row)));
                chart.series(
                    Series::new(format!("{pool}, {policy}"), SeriesKind::Line).points(points),
                )
            })
        };
        MEASURES.iter().map(chart).collect()
    }

    /// Each measure against the number of servers always on: a line for each traffic, a chart for
    /// each pool.
    pub(super) fn against_number(&self) -> Vec<Chart> {
        self.against_parameter(
            "the number always on",
            &Axis::new("Servers always on", "", Scale::Linear),
            |choice| match choice {
                FleetChoice::AlwaysOn { servers } => Some(f64::from(servers)),
                _ => None,
            },
        )
    }

    /// Each measure against the delay of switching off.
    pub(super) fn against_delay(&self) -> Vec<Chart> {
        self.against_parameter(
            "the delay of switching off",
            &Axis::new("Delay", "s", Scale::LogDuration),
            |choice| match choice {
                FleetChoice::DelayedOff { delay } => Some(delay.as_secs_f64()),
                _ => None,
            },
        )
    }

    fn against_parameter(
        &self,
        what: &str,
        x: &Axis,
        parameter: fn(FleetChoice) -> Option<f64>,
    ) -> Vec<Chart> {
        let mut charts = Vec::new();
        for pool in self.pools() {
            for measure in &MEASURES {
                let title = format!("{} against {what}: {pool}", measure.title);
                let y = Axis::new(measure.title, measure.unit, Scale::FromZero);
                let mut chart = Chart::new(title, x.clone(), y)
                    .description("The mean of all replications, for each traffic.");
                for rows in self.groups().filter(|rows| rows[0].pool == pool) {
                    let mut points: Vec<(f64, f64)> = (rows.iter())
                        .filter_map(|row| Some((parameter(choice(row)?)?, (measure.of)(row))))
                        .collect();
                    points.sort_by(|a, b| a.0.total_cmp(&b.0));
                    if points.len() > 1 {
                        let name = format!("{} {:.0}/s", rows[0].traffic, rows[0].rate);
                        chart = chart.series(Series::new(name, SeriesKind::Line).points(points));
                    }
                }
                if !chart.series.is_empty() {
                    charts.push(chart);
                }
            }
        }
        charts
    }

    /// Energy against transitions, for each traffic: a line for each pool and family of policies with
    /// the parameter at each point, and the front of those that keep the limit.
    pub(super) fn trade_offs(&self) -> Vec<Chart> {
        let mut traffics: Vec<(&str, f64)> = Vec::new();
        for row in &self.rows {
            let traffic = (row.traffic.as_str(), row.rate);
            if !traffics.contains(&traffic) {
                traffics.push(traffic);
            }
        }
        traffics.into_iter().map(|(traffic, rate)| self.trade_off(traffic, rate)).collect()
    }

    fn trade_off(&self, traffic: &str, rate: f64) -> Chart {
        let mut chart = Chart::new(
            format!("Energy against transitions: {traffic} at {rate:.0} requests/s"),
            Axis::new("Transitions an hour", "", Scale::Log),
            Axis::new("Energy of a day", "Wh", Scale::Log),
        )
        .description(
            "A point for each policy; to the left servers are switched less, below they use less energy. \
             The front joins those that keep the limit of refused requests and that no other of their pool \
             beats in both. Policies that switch nothing have no place on the scale of ratios.",
        );
        for rows in self
            .groups()
            .filter(|it| it[0].traffic == traffic && it[0].rate.to_bits() == rate.to_bits())
        {
            let pool = &rows[0].pool;
            for family in ["always-on", "delayed-off", "hybrid", "baseline", "predictive", "oracle"]
            {
                let mut of_family = rows
                    .iter()
                    .filter(|row| row.policy.split(' ').next() == Some(family))
                    .peekable();
                if of_family.peek().is_none() {
                    continue;
                }
                let kind = if matches!(family, "always-on" | "delayed-off") {
                    SeriesKind::Line
                } else {
                    SeriesKind::Scatter
                };
                let series = Series::new(format!("{pool}, {family}"), kind);
                chart = chart.series(of_family.fold(series, |series, row| {
                    let label = row.policy.strip_prefix(family).unwrap_or_default().trim();
                    series.labelled(row.transitions_per_hour.mean, row.wh_per_day.mean, label)
                }));
            }
            let mut front: Vec<&Row> = rows.iter().filter(|row| row.pareto).collect();
            front.sort_by(|a, b| {
                a.transitions_per_hour.mean.total_cmp(&b.transitions_per_hour.mean)
            });
            let points =
                front.iter().map(|row| (row.transitions_per_hour.mean, row.wh_per_day.mean));
            let series =
                Series::new(format!("{pool}, Pareto front"), SeriesKind::Step).points(points);
            chart = chart.series(series);
        }
        chart
    }

    /// Requests per watt, servers on and power against the rate, for each kind and response time.
    pub(super) fn by_the_queue(&self) -> Vec<Chart> {
        type FigureOf = fn(&CurvePoint) -> f64;
        let charts: [(&str, &str, Scale, FigureOf); 3] = [
            ("Requests a second per watt", "1/J", Scale::Log, |it| it.requests_per_joule),
            ("Servers on", "", Scale::FromZero, |it| it.servers),
            ("Power", "W", Scale::Log, |it| it.watts),
        ];
        let drawn = charts.into_iter().map(|(title, unit, scale, of)| {
            let chart = Chart::new(
                format!("{title} against the rate, by mean response time"),
                Axis::new("Rate", "requests/s", Scale::FromZero),
                Axis::new(title, unit, scale),
            )
            .description("As few servers as keep the mean response time, requests shared evenly: by the M/D/1 queue.");
            self.curves.iter().fold(chart, |chart, curve: &Curve| {
                let name = format!("{}, {:.0} ms", curve.server, 1e3 * curve.response_s);
                let points = curve.points.iter().map(|it| (it.rate, of(it)));
                chart.series(Series::new(name, SeriesKind::Line).points(points))
            })
        });
        drawn.filter(|chart| !chart.series.is_empty()).collect()
    }

    /// Requests answered per joule under each pool's cheapest policy, simulated.
    pub(super) fn served_per_joule(&self) -> Option<Chart> {
        let mut chart = Chart::new(
            "Requests per joule under the cheapest policy, simulated",
            Axis::new("Rate", "requests/s", Scale::FromZero),
            Axis::new("Requests per joule", "1/J", Scale::Log),
        )
        .description("For each pool and rate the cheapest policy that keeps the limit; its name is beside the point.");
        for pool in self.pools() {
            let cheapest = self.rows.iter().filter(|row| row.pool == pool && row.cheapest);
            let series = cheapest.fold(Series::new(pool, SeriesKind::Scatter), |series, row| {
                series.labelled(row.rate, row.requests_per_joule.mean, &row.policy)
            });
            chart = chart.series(series);
        }
        chart.series.iter().any(|series| !series.points.is_empty()).then_some(chart)
    }
}
