//! What other SLAs would give: the scenario's policy under several, to choose one by its effect.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use nightwatt_policy::scenario::{Scenario, SlaRule};
use serde::Serialize;

use super::policy_figures::PolicyFigures;

/// Shares of requests that may wait, which are tried beside the scenario's own.
const SHARES: [f64; 4] = [0.02, 0.05, 0.1, 0.2];

/// Visits a day that may wait, likewise.
const VISITS: [u32; 3] = [1, 3, 10];

/// What the scenario's policy does under one SLA.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlaFigures {
    /// At most this share of the requests waits; none: another form, or no SLA.
    pub share: Option<f64>,
    /// At most this number of visits a day waits.
    pub visits_per_day: Option<u32>,
    /// It sleeps only while it wakes within this, s.
    pub longest_wait_s: Option<f64>,
    /// It is the scenario's own.
    pub is_own: bool,
    /// Most visits that waited on a calendar day.
    pub most_visits_a_day: u64,
    /// Days on which more visits waited than may; none if their number is not limited.
    pub days_over_visits: Option<u64>,
    /// As of a policy; `days_over` counts by this share.
    #[serde(flatten)]
    pub figures: PolicyFigures,
}

/// One of the SLAs that are tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Tried {
    /// This share of the requests may wait.
    Share(f64),
    /// This number of visits a day may.
    Visits(u32),
}

impl Tried {
    fn rule(self, own: &SlaRule) -> SlaRule {
        match self {
            Self::Share(share) => own.with_share(share),
            Self::Visits(visits) => own.with_visits_per_day(visits),
        }
    }

    /// The scenario with this SLA.
    pub(super) fn in_scenario(self, own: &Scenario) -> Scenario {
        Scenario { sla: self.rule(&own.sla), ..own.clone() }
    }
}

/// What came of a run, as far as its SLA is concerned.
#[derive(Debug, Clone)]
pub(super) struct SlaRun {
    pub(super) figures: PolicyFigures,
    /// Delayed visits of the days on which there were any.
    pub(super) delayed_by_day: Vec<u64>,
}

impl SlaRun {
    pub(super) fn of(figures: &PolicyFigures, delayed_visits: BTreeMap<i64, u64>) -> Self {
        let delayed_by_day = delayed_visits.into_values().collect();
        Self { figures: figures.clone(), delayed_by_day }
    }

    fn under(&self, rule: Option<&SlaRule>, is_own: bool) -> SlaFigures {
        let days = self.delayed_by_day.iter();
        let over = |most: u32| days.clone().filter(|&&day| day > u64::from(most)).count() as u64;
        let visits_per_day = rule.and_then(|rule| rule.visits_per_day);
        SlaFigures {
            share: rule.and_then(|rule| rule.share),
            visits_per_day,
            longest_wait_s: rule.and_then(|rule| rule.longest_wait).map(|it| it.as_secs_f64()),
            is_own,
            most_visits_a_day: days.clone().copied().max().unwrap_or(0),
            days_over_visits: visits_per_day.map(over),
            figures: self.figures.clone(),
        }
    }
}

/// The SLAs that are tried: other than the scenario's own, and than none.
pub(super) fn others(scenario: &Scenario) -> impl Iterator<Item = Tried> {
    let own = scenario.sla.clone();
    let shares = SHARES.into_iter().map(Tried::Share);
    let all = shares.chain(VISITS.into_iter().map(Tried::Visits));
    all.filter(move |tried| !own.enabled || tried.rule(&own) != own)
}

/// The runs under the SLAs that were tried, under the scenario's own, and without any.
#[derive(Debug, Default)]
pub(super) struct SlaRuns {
    pub(super) tried: Vec<(Tried, SlaRun)>,
    pub(super) own: Option<SlaRun>,
    pub(super) without: Option<SlaRun>,
}

impl SlaRuns {
    /// All of them, shares before visits, the strictest first.
    pub(super) fn together(&self, scenario: &Scenario) -> Vec<SlaFigures> {
        let own = scenario.sla.enabled.then_some(&scenario.sla);
        let tried = self.tried.iter().map(|(tried, run)| {
            let rule = tried.rule(&scenario.sla);
            run.under(Some(&rule), false)
        });
        let own = self.own.iter().map(|run| run.under(own, true));
        let without = self.without.iter().map(|run| run.under(None, false));
        let mut all: Vec<SlaFigures> = tried.chain(own).chain(without).collect();
        all.sort_by(in_order);
        all
    }
}

/// Shares, then visits a day, then what has neither; the strictest first.
fn in_order(one: &SlaFigures, other: &SlaFigures) -> Ordering {
    let key = |it: &SlaFigures| {
        let form = match (it.share, it.visits_per_day, it.longest_wait_s) {
            (Some(_), _, _) => 0,
            (None, Some(_), _) => 1,
            (None, None, Some(_)) => 2,
            (None, None, None) => 3,
        };
        (form, it.share.unwrap_or(0.0), it.visits_per_day.unwrap_or(0))
    };
    let (one, other) = (key(one), key(other));
    one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).then(one.2.cmp(&other.2))
}

/// The name of an SLA in a table.
pub(super) fn name(it: &SlaFigures) -> String {
    let visits = |most: u32| {
        let (visits, wait) = if most == 1 { ("visit", "waits") } else { ("visits", "wait") };
        format!("at most {most} {visits} a day {wait}")
    };
    let forms = [
        it.share.map(|share| format!("at most {:.0} % wait", 100.0 * share)),
        it.visits_per_day.map(visits),
        it.longest_wait_s.map(|most| {
            let most = nightwatt_energy::duration_text::format(Duration::from_secs_f64(most));
            format!("wakes within {most}")
        }),
    ];
    let forms: Vec<String> = forms.into_iter().flatten().collect();
    let own = if it.is_own { " (yours)" } else { "" };
    let name = if forms.is_empty() { "none".to_owned() } else { forms.join(", ") };
    format!("{name}{own}")
}
