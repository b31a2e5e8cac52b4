//! What every policy would have done with a trace.

use std::fmt::Write as _;

use serde::Serialize;

use super::arm::Arm;
use super::bill::Bill;
use super::compress::{Compress, Settings};
use super::policy::Policy;
use super::replay::{Replay, Replayed};
use super::rivals::{Adapt, Fixed, Oracle, Published};
use super::trace::Trace;

/// What one policy would have done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub policy: String,
    /// The bill: joules, or seconds.
    pub bill: f64,
    /// The bill over the oracle's.
    pub to_oracle: f64,
    /// The part of the bill that trials added.
    pub trials: f64,
    /// Blocks by arm, of those that sent any.
    pub mix: Vec<(Arm, usize)>,
}

/// All of them: the oracle first, ours next, then the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What was sent, and where it was recorded.
    pub source: String,
    /// What is added up.
    pub bill: Bill,
    /// The policies.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// Of this trace. A block is acknowledged when the next one was sent.
    pub fn of(trace: &Trace, bill: Bill) -> Self {
        let replay = Replay { bill, window: 1, knows_length: true };
        let oracle = replay.run(trace, &mut Oracle::of(trace, &bill));
        let least = oracle.bill();
        let row = |policy: String, replayed: &Replayed| {
            let mix = replayed.mix(trace.arms.len()).into_iter().zip(&trace.arms);
            Row {
                policy,
                bill: replayed.bill(),
                to_oracle: replayed.bill() / least,
                trials: replayed.trials(),
                mix: mix
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, arm)| (*arm, count))
                    .collect(),
            }
        };
        let run =
            |name: &str, policy: &mut dyn Policy| row(name.to_owned(), &replay.run(trace, policy));
        let mut rows = vec![row("oracle".to_owned(), &oracle)];
        rows.push(run("nightwatt", &mut Compress::new(Settings::new(trace.arms.clone(), bill))));
        if let Some(mut published) = Published::new(&trace.arms, bill, 1.0) {
            rows.push(run("published (Singh 2014)", &mut published));
        }
        if let Some(mut adapt) = Adapt::new(&trace.arms) {
            rows.push(run("as zstd --adapt", &mut adapt));
        }
        let mut fixed: Vec<Row> = trace
            .arms
            .iter()
            .enumerate()
            .map(|(place, arm)| run(&format!("always {arm}"), &mut Fixed(place)))
            .collect();
        fixed.sort_by(|one, other| one.bill.total_cmp(&other.bill));
        rows.extend(fixed);
        Self { source: trace.source.clone(), bill, rows }
    }

    /// As a table.
    pub fn text(&self) -> String {
        let unit = if self.bill.objective == super::bill::Objective::Time { "s" } else { "J" };
        let mut text = format!(
            "{}\n\npolicy                  {unit:>12}  x oracle  trials  blocks\n",
            self.source
        );
        for row in &self.rows {
            let mix: Vec<String> =
                row.mix.iter().map(|(arm, count)| format!("{arm} {count}")).collect();
            let share = row.trials * 100.0 / row.bill;
            // Writing to a text cannot fail.
            let _ = writeln!(
                text,
                "{:22}  {:12.3}  {:8.4}  {share:5.2}%  {}",
                row.policy,
                row.bill,
                row.to_oracle,
                mix.join(", ")
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::made::{TEXT, block, small_server, trace};
    use super::*;

    #[test]
    fn the_oracle_is_first_and_costs_least() {
        let trace = trace(vec![block(&Arm::usual(), TEXT, 1 << 16, 1e6); 50]);
        let comparison = Comparison::of(&trace, small_server());
        assert_eq!(comparison.rows.len(), 4 + trace.arms.len());
        assert!(comparison.rows.iter().all(|row| row.to_oracle >= 1.0 - 1e-12));
        assert!(comparison.rows[1].to_oracle < 1.03, "{}", comparison.text());
        assert_eq!(comparison.text().lines().count(), 3 + comparison.rows.len());
    }
}
