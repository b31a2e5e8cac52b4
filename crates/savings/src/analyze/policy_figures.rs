//! What policies would have done with a log.

use serde::Serialize;

/// What a policy would have done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyFigures {
    /// Server and proxy, J.
    pub energy_j: f64,
    /// Expanded uncertainty (95 %) of that, J.
    pub energy_uncertainty_j: f64,
    /// What that costs, each hour at its price, in the scenario's currency.
    pub bill: f64,
    /// 1 - (server + proxy) / always on.
    pub saving: f64,
    /// Wake-ups a day.
    pub wakeups_per_day: f64,
    /// Requests of people and programs.
    pub admitted: u64,
    /// Of those, answered from a copy without the server.
    pub from_copies: u64,
    /// Of those, delayed.
    pub delayed_requests: u64,
    /// Visits of people and programs.
    pub visits: u64,
    /// Of those, delayed.
    pub delayed_visits: u64,
    /// Energy saved at the server, as a share of what the oracle saves there; none where that is
    /// nothing.
    pub oracle_share: Option<f64>,
    /// Local calendar days with at least 30 admitted requests.
    pub days: u64,
    /// Of those, days on which more were delayed than the SLA's share.
    pub days_over: u64,
    /// Share of admitted requests delayed, the first day left out; none if that is all there was.
    pub delayed_share_after_first_day: Option<f64>,
}

/// What perfect knowledge would have achieved: no request waits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OracleFigures {
    /// Server and proxy, J.
    pub energy_j: f64,
    /// What that costs, each hour at its price, in the scenario's currency.
    pub bill: f64,
    /// 1 - (server + proxy) / always on.
    pub saving: f64,
}
