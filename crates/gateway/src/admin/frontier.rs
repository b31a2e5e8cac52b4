//! The frontier of `/api/v1/history`: what fixed timeouts would have saved since the start, and which visits they would
//! have delayed, beside the actual policy.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_policy::frontier::UnderTimeout;
use nightwatt_policy::ledger::Bill;
use serde::Serialize;

use crate::site::Site;

/// Savings are shares of the energy of a server that is always on, less the proxy's own energy. All figures are
/// modelled, the actual ones too: a metered figure would be compared with modelled ones.
#[derive(Debug, Serialize)]
pub(super) struct Frontier {
    /// Time watched: since this process began.
    span_s: f64,
    /// Requests that only the server could answer.
    requests: u64,
    /// All visits of clients that may wake the server.
    visits: u64,
    /// By timeout, shortest first; the SLA does not bind them.
    timeouts: Vec<Point>,
    /// What the policy did; in shadow mode, what it would have done.
    policy: Point,
}

#[derive(Debug, Serialize)]
struct Point {
    /// The timeout; absent for the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_s: Option<f64>,
    saving: f64,
    delayed_requests: u64,
    delayed_visits: u64,
}

impl Site {
    /// The frontier as far as it is known. None while it is too early to say what the policy saves.
    pub(super) fn frontier(&self, now: Mono) -> Option<Frontier> {
        let proxy = self.proxy_power() * self.supervisor.proxy_share();
        let states = self.power_states();
        let (requests, under) = {
            let frontier = self.frontier.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
            (frontier.requests(), frontier.points(now))
        };
        let span = under.first().map_or(Duration::ZERO, |it| it.bill.span());
        let (bill, visits, delayed) = if let Some(shadow) = &self.shadow {
            let would = shadow.would_delay();
            let delayed = (would.delayed_requests, would.delayed_visits);
            (shadow.supervisor.bill_since_start(), would.visits, delayed)
        } else {
            let visits = self.counters.visits.lock().unwrap_or_else(PoisonError::into_inner);
            let delayed = (self.counters.delayed.load(Ordering::Relaxed), visits.delayed());
            (self.supervisor.bill_since_start(), visits.visits(), delayed)
        };
        if bill.is_too_early(&states) {
            return None;
        }
        let (delayed_requests, delayed_visits) = delayed;
        let policy = Point {
            idle_s: None,
            saving: saving(&bill, &states, proxy),
            delayed_requests,
            delayed_visits,
        };
        let timeouts = under.iter().map(|it| Point::of(it, &states, proxy)).collect();
        Some(Frontier { span_s: span.as_secs_f64(), requests, visits, timeouts, policy })
    }
}

impl Point {
    fn of(under: &UnderTimeout, states: &PowerStates, proxy: Watts) -> Self {
        Self {
            idle_s: Some(under.idle.as_secs_f64()),
            saving: saving(&under.bill, states, proxy),
            delayed_requests: under.delayed_requests,
            delayed_visits: under.delayed_visits,
        }
    }
}

/// The saving by the power of the states, whatever meters read.
fn saving(bill: &Bill, states: &PowerStates, proxy: Watts) -> f64 {
    let Bill { on, off, unobserved, cycles, .. } = *bill;
    Bill { on, off, unobserved, cycles, ..Bill::default() }.saving(states, proxy)
}
