//! The comparison for a terminal.

use std::fmt::Write as _;

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
        let _ = writeln!(
            text,
            "V5, each simulated pool ({} requests counted; modelled):\n{:<9} {:>5} {:<17} {:>9} {:>13} {:>8} \
             {:>8} {:>9} {:>9}",
            self.arrivals,
            "kind",
            "/s",
            "policy",
            "Wh/day",
            "transitions/h",
            "mean on",
            "most on",
            "refused",
            "mean ms"
        );
        for row in &self.policies {
            let _ = writeln!(
                text,
                "{:<9} {:>5} {:<17} {:>9.1} {:>13.1} {:>8.2} {:>8} {:>8.3}% {:>9.2}",
                row.kind,
                row.rate,
                row.policy,
                row.wh_per_day,
                row.transitions_per_hour,
                row.mean_on,
                row.most_on,
                100.0 * row.refused,
                row.mean_response_ms
            );
        }
        text
    }
}
