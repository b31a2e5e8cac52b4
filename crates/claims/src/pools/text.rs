//! The comparison for a terminal.

use nightwatt_report::{Document, Section, Table, Text};

use super::{Claim, Comparison};
use crate::figure::Figure;

impl Comparison {
    /// The claims with ours beside theirs, and the simulated pools.
    pub fn text(&self) -> String {
        let pools = Table::of("", &self.policies)
            .text("kind", |it| it.kind)
            .number("rate", "/s", 0, |it| it.rate)
            .text("policy", |it| it.policy.as_str())
            .number("energy", "Wh/d", 1, |it| it.wh_per_day)
            .number("transitions", "/h", 1, |it| it.transitions_per_hour)
            .number("mean on", "", 2, |it| it.mean_on)
            .count("most on", |it| it.most_on)
            .number("refused", "%", 3, |it| 100.0 * it.refused)
            .number("mean", "ms", 2, |it| it.mean_response_ms);
        let title =
            format!("V5, each simulated pool ({} requests counted; modelled)", self.arrivals);
        Document::default()
            .sections(self.claims.iter().map(section))
            .sections([Section::of_table(title, pools.into())])
            .to_text()
    }
}

fn section(it: &Claim) -> Section {
    let blocks = vec![
        Text::from(format!("{}.", it.claim)).into(),
        Figure::table(&it.figures).into(),
        Text::from(it.why.as_str()).into(),
    ];
    Section::new(format!("{}: {}", it.id, it.verdict.as_str()), blocks)
}
