//! Who may still wake the server, and how often.

use super::{ALL_TOGETHER, Knock, PowerManager, Route};
use crate::policy::awake_budget::UNLIMITED;
use crate::policy::sleep::SleepPolicy;
use crate::time::Now;

/// Wake-ups that a client may cause now, in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLeft {
    /// By its own budget.
    pub own: u32,
    /// By the budget of all clients together that are not recognised.
    pub shared: u32,
}

impl<P: SleepPolicy> PowerManager<P> {
    /// Charges a wake-up to the budgets that it falls under, unless one of them is spent.
    pub(super) fn spend(&mut self, now: Now, knock: &Knock) -> Option<Route> {
        let Knock { client, network, recognised, .. } = *knock;
        let now = now.mono;
        if !recognised && let Err(wait) = self.shared_budget.may(now, ALL_TOGETHER) {
            return Some(Route::OverSharedBudget(wait));
        }
        let is_wider = network != client && network != UNLIMITED;
        let network_wait = is_wider.then(|| self.network_budget.may(now, network).err()).flatten();
        if let Some(wait) = self.awake_budget.wait(now, network).or(network_wait) {
            return Some(Route::OverBudget(wait));
        }
        if let Err(wait) = self.budget.spend(now, client) {
            return Some(Route::OverBudget(wait));
        }
        // These were asked just before.
        if is_wider {
            let _ = self.network_budget.spend(now, network);
        }
        if !recognised {
            let _ = self.shared_budget.spend(now, ALL_TOGETHER);
        }
        None
    }

    /// How many wake-ups a client may cause now.
    pub fn budget_left(&self, now: Now, client: u64) -> BudgetLeft {
        let shared = self.shared_budget.left(now.mono, ALL_TOGETHER);
        BudgetLeft { own: self.budget.left(now.mono, client), shared }
    }

    /// Gives a client its whole wake budget back.
    pub fn forgive(&mut self, client: u64) {
        self.budget.forgive(client);
    }
}
