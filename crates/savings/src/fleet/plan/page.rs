//! The result as a report, and as tables.

use std::collections::BTreeMap;

use nightwatt_report::{Cell, Column, Document, Note, Origin, Section, Table, Text, grouped};

use super::result::{Estimate, PlanResult, Row};

/// How many policies answer requests later than the SLA, and the worst of them.
fn late_in_short(rows: &[Row]) -> String {
    let late = rows.iter().filter(|row| row.late.mean > 0.0);
    let Some(worst) = late.clone().max_by(|one, other| one.late.mean.total_cmp(&other.late.mean))
    else {
        return String::new();
    };
    let (count, worst_late) = (late.count(), 100.0 * worst.late.mean);
    if count == 1 {
        return format!(" `{}` answers {worst_late:.3} % later than the SLA.", worst.policy);
    }
    format!(
        " {count} of {} answer requests later than the SLA, `{}` most: {worst_late:.3} %.",
        rows.len(),
        worst.policy
    )
}

/// A figure of a pool under a policy, as tables have it.
struct Shown {
    title: &'static str,
    unit: &'static str,
    decimals: usize,
    /// What it is shown in.
    scale: f64,
    of: fn(&Row) -> Estimate,
    /// A terminal leaves it out.
    is_detail: bool,
}

const FIGURES: [Shown; 9] = {
    const fn it(
        title: &'static str,
        unit: &'static str,
        decimals: usize,
        of: fn(&Row) -> Estimate,
    ) -> Shown {
        Shown { title, unit, decimals, scale: 1.0, of, is_detail: false }
    }
    [
        it("energy of a day", "Wh", 1, |it| it.wh_per_day),
        it("transitions an hour", "", 1, |it| it.transitions_per_hour),
        it("servers on", "", 2, |it| it.servers_on),
        Shown { scale: 100.0, is_detail: true, ..it("refused", "%", 3, |it| it.refused) },
        Shown { is_detail: true, ..it("mean response", "ms", 2, |it| it.mean_response_ms) },
        Shown { is_detail: true, ..it("99 % within", "ms", 2, |it| it.p99_response_ms) },
        Shown { is_detail: true, ..it("requests per joule", "1/J", 2, |it| it.requests_per_joule) },
        Shown { is_detail: true, ..it("cost", "W", 2, |it| it.cost_w) },
        Shown { scale: 100.0, is_detail: true, ..it("late", "%", 3, |it| it.late) },
    ]
};

impl PlanResult {
    /// The report for a terminal.
    pub fn text(&self) -> String {
        self.document(String::new()).to_text()
    }

    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new("Pools of servers, switched by policies");
        document.subtitle = Text::from(self.terms());
        document.generated = generated;
        document.sections([
            self.short_section(),
            Section::of_charts("Energy against transitions", self.trade_offs()),
            Section::of_charts("Against the rate", self.against_rate()),
            Section::of_charts("By how many are always on", self.against_number()),
            Section::of_charts("By how long switching off is delayed", self.against_delay()),
            Section::of_charts(
                "Requests per watt and power",
                self.served_per_joule().into_iter().chain(self.by_the_queue()),
            ),
            Section::new(
                "Every simulated pool",
                self.groups().map(|rows| group_table(rows).into()).collect(),
            ),
            self.servers_section(),
        ])
    }

    fn terms(&self) -> String {
        let price = if self.transition_price_j > 0.0 {
            format!("; sparing a transition is worth {} J", self.transition_price_j)
        } else {
            String::new()
        };
        format!(
            "Answers within {:.0} ms of service and waiting, {} % of the requests may be refused or late{price}",
            1e3 * self.sla_s,
            100.0 * self.refused_limit
        )
    }

    fn short_section(&self) -> Section {
        let short = Text::marked(&self.in_short());
        Section::new("In short: the cheapest policy that keeps the limit", vec![short.into()])
    }

    /// What decides, in three sentences at most.
    fn in_short(&self) -> String {
        let groups: Vec<&[Row]> = self.groups().collect();
        if let [rows] = groups[..] {
            return self.advice(rows) + &late_in_short(rows);
        }
        let best: Vec<(&[Row], &Row)> = groups
            .iter()
            .filter_map(|rows| Some((*rows, rows.iter().find(|row| row.cheapest)?)))
            .collect();
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, row) in &best {
            *times.entry(row.policy.as_str()).or_default() += 1;
        }
        let Some((policy, most)) = times.iter().max_by_key(|(_, times)| **times) else {
            let late = late_in_short(&self.rows);
            return format!("No policy keeps the limit in any case: {}.{late}", self.cure());
        };
        let saved = best.iter().filter(|(_, row)| row.policy == *policy);
        let saved: Vec<f64> = saved.map(|(_, row)| self.saved(row)).collect();
        let least = saved.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = saved.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let none = groups.len() - best.len();
        let none = match none {
            0 => String::new(),
            1 => format!(" In one case none keeps the limit: {}.", self.cure()),
            none => format!(" In {none} cases none keeps the limit: {}.", self.cure()),
        };
        format!(
            "`{policy}` is the cheapest in {most} of {} cases: {least:.0} to {largest:.0} % less than all servers \
             idling (modelled).{none}{}",
            groups.len(),
            late_in_short(&self.rows)
        )
    }

    /// What the figures rest on.
    fn servers_section(&self) -> Section {
        let mut blocks = vec![self.servers_table().into()];
        blocks.push(Note::new(Origin::Modelled, self.model()).into());
        let assumed = "servers are assumed to be like each other within a kind, to draw what was given \
                       whatever they serve, and never to fail.";
        blocks.push(Note::new(Origin::Caution, assumed).into());
        if self.rows.iter().any(|row| row.foresees) {
            let text = "The oracle knows every request to come: it is nothing to choose.";
            blocks.push(Text::from(text).into());
        }
        Section::new("Servers", blocks)
    }

    fn model(&self) -> String {
        format!(
            "{}. Simulated from the watts, rates and times that were given; ± is the {:.0} % interval of the \
             simulation alone ({} replications), and what is given may be off by more.",
            self.terms(),
            100.0 * self.confidence,
            self.replications
        )
    }

    /// What to choose of rows that share pool and traffic.
    fn advice(&self, rows: &[Row]) -> String {
        let place = heading(rows);
        let Some(best) = rows.iter().find(|row| row.cheapest) else {
            let limit = 100.0 * self.refused_limit;
            return format!(
                "{place}: none of these refuses, or answers late, {limit} % or less: {}.",
                self.cure()
            );
        };
        format!(
            "{place}: cheapest: `{}`, {} W in the mean ({:.0} % less than all servers idling; modelled).",
            best.policy,
            grouped(best.watts.mean, 2),
            self.saved(best)
        )
    }

    /// What helps where no policy keeps the limit.
    fn cure(&self) -> &'static str {
        if self.warnings.is_empty() {
            "take more or faster servers, or relax the SLA"
        } else {
            "simulate for longer first (see the warning)"
        }
    }

    /// How much less a pool uses than all its servers idling, %.
    fn saved(&self, row: &Row) -> f64 {
        let is_in = |name: &str| row.pool == name || row.pool.split(" + ").any(|it| it == name);
        let idle = self.servers.iter().filter(|server| is_in(&server.name));
        let all_on: f64 = idle.map(|server| f64::from(server.servers) * server.watts[1]).sum();
        100.0 * (1.0 - row.watts.mean / all_on)
    }

    /// Tables with the names of their files, for CSV.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        vec![
            ("policies", self.rows_table()),
            ("servers", self.servers_table()),
            ("response-times", self.curves_table()),
        ]
    }

    fn servers_table(&self) -> Table {
        Table::of("Kinds of servers", &self.servers)
            .text("kind", |it| it.name.as_str())
            .count("servers", |it| it.servers)
            .number("service rate", "1/s", 1, |it| it.service_rate)
            .number("standard error", "1/s", 1, |it| it.service_rate_error)
            .count("places", |it| it.places)
            .number("off", "W", 1, |it| it.watts[0])
            .number("idle", "W", 1, |it| it.watts[1])
            .number("busy", "W", 1, |it| it.watts[2])
            .number("cycle", "J", 1, |it| it.switch_j)
            .number("start", "s", 1, |it| it.switch_on_s)
            .into()
    }

    fn rows_table(&self) -> Table {
        let mut table = Table::of("Policies; ± is the 95 % interval of the simulation", &self.rows)
            .text("pool", |it| it.pool.as_str())
            .text("traffic", |it| it.traffic.as_str())
            .number("rate", "1/s", 1, |it| it.rate)
            .text("policy", |it| it.policy.as_str())
            .text("verdict", verdict);
        for Shown { title, unit, decimals, scale, of, .. } in FIGURES {
            table = table.number(title, unit, decimals, |it| scale * of(it).mean).number(
                format!("± {title}"),
                unit,
                decimals,
                |it| of(it).half_width.map(|half| scale * half),
            );
        }
        table.count("most on", |it| it.most_on).into()
    }

    fn curves_table(&self) -> Table {
        let points =
            self.curves.iter().flat_map(|curve| curve.points.iter().map(move |it| (curve, it)));
        Table::of("Servers and power against the rate, by the M/D/1 queue", points)
            .text("kind", |(curve, _)| curve.server.as_str())
            .number("mean response", "ms", 0, |(curve, _)| 1e3 * curve.response_s)
            .number("rate", "1/s", 1, |(_, it)| it.rate)
            .number("servers", "", 0, |(_, it)| it.servers)
            .number("power", "W", 1, |(_, it)| it.watts)
            .number("requests per joule", "1/J", 2, |(_, it)| it.requests_per_joule)
            .into()
    }
}

/// `Raspberry Pi; poisson at 300.0 requests/s`.
fn heading(rows: &[Row]) -> String {
    let Row { pool, traffic, rate, .. } = &rows[0];
    format!("{pool}; {traffic} at {} requests/s", grouped(*rate, 1))
}

/// Policies of one pool and traffic.
fn group_table(rows: &[Row]) -> Table {
    let mut table = Table::of(heading(rows), rows)
        .text("policy", |it| it.policy.as_str())
        .text("verdict", verdict);
    for Shown { title, unit, decimals, scale, of, is_detail } in FIGURES {
        let column = Column { is_detail, ..Column::number(title, unit) };
        table = table.column(column, |it| estimate(of(it), scale, decimals));
    }
    table.count("most on", |it| it.most_on).detail().into()
}

fn verdict(row: &Row) -> &'static str {
    match (row.cheapest, row.pareto, row.keeps_limit) {
        (true, ..) => "cheapest",
        (_, true, _) => "Pareto front",
        (_, _, true) if row.foresees => "knows what is to come",
        (_, _, true) => "keeps the limit",
        _ => "refuses too many",
    }
}

/// `85.3 ± 0.2`; from a thousand on without a fraction.
fn estimate(it: Estimate, scale: f64, decimals: usize) -> Cell {
    let decimals = if it.mean >= 1000.0 { 0 } else { decimals };
    let shown = |value: f64| grouped(scale * value, decimals);
    match it.half_width {
        Some(width) => format!("{} ± {}", shown(it.mean), shown(width)).into(),
        None => Cell::number(scale * it.mean, decimals),
    }
}
