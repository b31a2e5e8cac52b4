//! What other SLAs would give: the scenario's policy under several, to choose one by its effect.

use std::borrow::Cow;
use std::collections::BTreeMap;

use nightwatt_policy::scenario::Scenario;
use serde::Serialize;

use super::crew::Purpose;
use super::policy_figures::PolicyFigures;

/// Shares of requests that may wait, which are tried beside the scenario's own.
const SHARES: [f64; 4] = [0.02, 0.05, 0.1, 0.2];

/// What the scenario's policy does under one SLA.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlaFigures {
    /// At most this share of the requests waits; none: no SLA.
    pub share: Option<f64>,
    /// It is the scenario's own.
    pub is_own: bool,
    /// As of a policy; `days_over` counts by this share.
    #[serde(flatten)]
    pub figures: PolicyFigures,
}

/// The scenario with other SLAs than its own and none.
pub(super) fn others(scenario: &Scenario) -> impl Iterator<Item = (f64, Scenario)> {
    let own = scenario.sla().map(|sla| sla.share);
    let is_other = move |share: &f64| own.is_none_or(|own| (own - share).abs() > 1e-9);
    SHARES.into_iter().filter(is_other).map(|share| (share, with(scenario, share)))
}

impl Purpose {
    /// The scenario under which it runs.
    pub(super) fn scenario<'a>(&self, own: &'a Scenario) -> Cow<'a, Scenario> {
        match self {
            Self::Share(share) => Cow::Owned(with(own, *share)),
            Self::Policies(_) | Self::Mirror(_) | Self::WithoutSla => Cow::Borrowed(own),
        }
    }
}

/// The scenario in which this share of the requests may wait.
fn with(scenario: &Scenario, share: f64) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.sla.enabled = true;
    scenario.sla.share = share;
    scenario
}

/// All of them with the scenario's own and none, the strictest first.
pub(super) fn together(
    tried: Vec<(f64, PolicyFigures)>,
    policies: &BTreeMap<String, PolicyFigures>,
    without: Option<&PolicyFigures>,
    scenario: &Scenario,
) -> Vec<SlaFigures> {
    let share = scenario.sla().map(|sla| sla.share);
    let own = policies.get(&scenario.policy.to_string());
    let tried = tried.into_iter().map(|(share, figures)| (Some(share), false, figures));
    let own = own.map(|figures| (share, true, figures.clone()));
    let without = without.map(|figures| (None, false, figures.clone()));
    let all = tried.chain(own).chain(without);
    let mut all: Vec<SlaFigures> =
        all.map(|(share, is_own, figures)| SlaFigures { share, is_own, figures }).collect();
    let order = |it: &SlaFigures| it.share.unwrap_or(f64::INFINITY);
    all.sort_by(|one, other| order(one).total_cmp(&order(other)));
    all
}
