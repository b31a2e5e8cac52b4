//! What the scenario's policy does under several SLAs, beside each other.

use nightwatt_report::{Block, Table, Text};

use super::result::Analysis;
use super::sla::name;
use super::tables::ratio;

impl Analysis {
    /// The SLAs beside each other.
    pub(super) fn sla_table(&self) -> Table {
        let days = self.days();
        Table::of("What other SLAs would give", &self.sla)
            .text("SLA", name)
            .number("saving", "%", 1, |it| 100.0 * it.figures.saving)
            .number("requests that wait", "%", 1, |it| {
                100.0 * ratio(it.figures.delayed_requests, it.figures.admitted)
            })
            .number("visits that wait", "a day", 1, |it| it.figures.delayed_visits as f64 / days)
            .number("wake-ups", "a day", 1, |it| it.figures.wakeups_per_day)
            .count("most on a day", |it| Some(it.most_visits_a_day))
            .detail()
            .count("days over it", |it| match (it.share, it.days_over_visits) {
                (Some(_), visits) => Some(it.figures.days_over.max(visits.unwrap_or(0))),
                (None, visits) => visits,
            })
            .into()
    }

    /// The table with what it means.
    pub(super) fn sla_blocks(&self) -> [Block; 2] {
        let wake = self.scenario.server.wake_time.as_secs_f64();
        let text = format!(
            "An SLA limits the requests that wait (`sla.share`) or the visits in which one waits \
             (`sla.visits_per_day`), on each calendar day. No SLA makes a wait shorter: each lasts until the server \
             has woken, {wake} s here. `sla.longest_wait` lets a server sleep only while it wakes within that."
        );
        [self.sla_table().into(), Text::marked(&text).into()]
    }
}
