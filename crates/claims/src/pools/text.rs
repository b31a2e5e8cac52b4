//! The comparison for a terminal.

use std::fmt::Write as _;

use nightwatt_report::Table;

use super::Comparison;

impl Comparison {
    /// The claims with ours beside theirs, and the simulated pools.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for claim in &self.claims {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}  {}: {}", claim.id, claim.verdict.as_str(), claim.claim);
            for figure in &claim.figures {
                let _ = writeln!(text, "      {}", figure.line());
            }
            let _ = writeln!(text, "      {}\n", claim.why);
        }
        let caption =
            format!("V5, each simulated pool ({} requests counted; modelled)", self.arrivals);
        let table = Table::of(caption, &self.policies)
            .text("kind", |it| it.kind)
            .number("rate", "/s", 0, |it| it.rate)
            .text("policy", |it| it.policy.as_str())
            .number("energy", "Wh/d", 1, |it| it.wh_per_day)
            .number("transitions", "/h", 1, |it| it.transitions_per_hour)
            .number("mean on", "", 2, |it| it.mean_on)
            .count("most on", |it| it.most_on)
            .number("refused", "%", 3, |it| 100.0 * it.refused)
            .number("mean", "ms", 2, |it| it.mean_response_ms);
        text + &Table::from(table).to_text()
    }
}
