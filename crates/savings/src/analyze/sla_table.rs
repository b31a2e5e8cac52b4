//! What the scenario's policy does under several SLAs, beside each other.

use nightwatt_report::{Block, Table, Text};

use super::result::Analysis;
use super::sla::SlaFigures;
use super::tables::ratio;

impl Analysis {
    /// The SLAs beside each other.
    pub(super) fn sla_table(&self) -> Table {
        let days = self.days();
        let name = |it: &SlaFigures| {
            let own = if it.is_own { " (yours)" } else { "" };
            match it.share {
                Some(share) => format!("at most {:.0} % wait{own}", 100.0 * share),
                None => format!("none{own}"),
            }
        };
        Table::of("What other SLAs would give", &self.sla)
            .text("SLA", name)
            .number("saving", "%", 1, |it| 100.0 * it.figures.saving)
            .number("requests that wait", "%", 1, |it| {
                100.0 * ratio(it.figures.delayed_requests, it.figures.admitted)
            })
            .number("visits that wait", "a day", 1, |it| it.figures.delayed_visits as f64 / days)
            .number("wake-ups", "a day", 1, |it| it.figures.wakeups_per_day)
            .count("days over it", |it| it.share.map(|_| it.figures.days_over))
            .into()
    }

    /// The table with what it means.
    pub(super) fn sla_blocks(&self) -> [Block; 2] {
        let wake = self.scenario.server.wake_time.as_secs_f64();
        let text = format!(
            "An SLA limits the share of requests that wait (`sla.share`), on each calendar day. To choose one by the \
             visits that wait on a day, take the row that has them. No SLA makes a wait shorter: each lasts until the \
             server has woken, {wake} s here."
        );
        [self.sla_table().into(), Text::marked(&text).into()]
    }
}
