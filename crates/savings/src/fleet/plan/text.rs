//! The result for a terminal.

use std::fmt::Write as _;

use nightwatt_report::grouped;

use super::result::{Estimate, PlanResult, Row, ServerRow};

impl PlanResult {
    /// A table for each pool and traffic, and what to choose.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for server in &self.servers {
            let _ = writeln!(text, "{}", server_line(server));
        }
        let _ = writeln!(text, "{}", self.terms());
        for rows in self.groups() {
            let Row { pool, traffic, rate, .. } = &rows[0];
            let _ = writeln!(
                text,
                "\n{pool}; {traffic} at {} requests/s\n  {:<20} {:>16} {:>17} {:>11} {:>8} {:>8} {:>8}",
                grouped(*rate, 1),
                "policy",
                "Wh/day",
                "transitions/h",
                "servers on",
                "refused",
                "mean ms",
                "p99 ms"
            );
            for row in rows {
                let _ = writeln!(text, "{}", line(row));
            }
            for row in rows.iter().filter(|row| row.late.mean > 0.0) {
                let late = 100.0 * row.late.mean;
                let _ = writeln!(text, "  `{}` answers {late:.3} % later than the SLA", row.policy);
            }
            let _ = writeln!(text, "{}", self.advice(rows));
        }
        let _ = write!(
            text,
            "\n+ no other that keeps the limit has less energy without more transitions; * of these the \
             cheapest.\n! more than allowed is refused or late. Energy is modelled, from the watts that were given; ± is \
             the 95 %\ninterval of the simulation alone ({} replications).",
            self.replications
        );
        if self.rows.iter().any(|row| row.foresees) {
            text.push_str("\nThe oracle (o) knows every request to come: it is nothing to choose.");
        }
        text
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

    /// What to choose of rows that share pool and traffic.
    pub(super) fn advice(&self, rows: &[Row]) -> String {
        let Some(best) = rows.iter().find(|row| row.cheapest) else {
            let cure = if self.warnings.is_empty() {
                "take more or faster servers, or relax the SLA"
            } else {
                "simulate for longer first (see the warning)"
            };
            return format!(
                "  none of these refuses, or answers late, {} % or less: {cure}",
                100.0 * self.refused_limit
            );
        };
        let all_on: f64 = (self.servers.iter())
            .filter(|server| {
                best.pool == server.name || best.pool.split(" + ").any(|it| it == server.name)
            })
            .map(|server| f64::from(server.servers) * server.watts[1])
            .sum();
        let saved = 100.0 * (1.0 - best.watts.mean / all_on);
        format!(
            "  cheapest: {}, {} W in the mean ({saved:.0} % less than all servers idling)",
            best.policy,
            grouped(best.watts.mean, 2)
        )
    }
}

fn server_line(server: &ServerRow) -> String {
    let [off, idle, busy] = server.watts;
    let error = server.service_rate_error.map_or(String::new(), |error| format!(" ± {error:.1}"));
    format!(
        "{} x {}: {:.1}{error} requests/s each, at most {} at a time; {off} W off, {idle} W idle, {busy} W \
         busy; {} s and {} J to start",
        server.servers,
        server.name,
        server.service_rate,
        server.places,
        server.switch_on_s,
        server.switch_j
    )
}

fn line(row: &Row) -> String {
    let mark = match (row.cheapest, row.pareto, row.keeps_limit) {
        (true, ..) => '*',
        (_, true, _) => '+',
        (_, _, false) => '!',
        _ if row.foresees => 'o',
        _ => ' ',
    };
    format!(
        "{mark} {:<20} {:>16} {:>17} {:>11} {:>7.3}% {:>8.2} {:>8.2}",
        row.policy,
        estimate(row.wh_per_day, 1),
        estimate(row.transitions_per_hour, 1),
        estimate(row.servers_on, 2),
        100.0 * row.refused.mean,
        row.mean_response_ms.mean,
        row.p99_response_ms.mean
    )
}

/// `85.3 ±0.2`; from a thousand on without a fraction.
fn estimate(estimate: Estimate, decimals: usize) -> String {
    let decimals = if estimate.mean >= 1000.0 { 0 } else { decimals };
    let mean = grouped(estimate.mean, decimals);
    estimate
        .half_width
        .map_or(mean.clone(), |width| format!("{mean} ±{}", grouped(width, decimals)))
}
