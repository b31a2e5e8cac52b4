//! Which clients may still wake the server, and how many times.

use std::time::Duration;

use super::{AdmissionRequest, PowerManager, Route, Settings};
use crate::admission::{Budget, WakeBudget, Want};
use crate::awake_budget::UNLIMITED;
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::{Mono, Now};

/// Whose the budgets are that clients share.
const ALL_TOGETHER: u64 = 0;

/// A network has as many wake-ups as this many clients.
const NETWORK_SHARE: u32 = 4;

/// One network may use this part of what all clients have that are not recognised.
const STRANGERS_SHARE: u32 = 4;

/// Wake-ups in an hour for proofs that certificate authorities ask for. They do not depend on the other
/// clients that are not recognised: without a certificate no client reaches the site.
const PROOFS_PER_HOUR: u32 = 6;

const HOUR: Duration = Duration::from_hours(1);

/// Whose budgets a wake-up draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payer {
    /// As in [`AdmissionRequest::client`].
    pub client: u64,
    /// As in [`AdmissionRequest::network`].
    pub network: u64,
    /// As in [`AdmissionRequest::recognised`].
    pub recognised: bool,
    /// It asks for [`Want::Proof`].
    pub wants_proof: bool,
}

impl Payer {
    const fn of(admission_request: &AdmissionRequest) -> Self {
        let AdmissionRequest { client, network, recognised, request, .. } = *admission_request;
        Self { client, network, recognised, wants_proof: matches!(request.want, Want::Proof) }
    }

    /// Is its network one of several clients?
    const fn has_neighbours(&self) -> bool {
        self.network != self.client && self.network != UNLIMITED
    }

    /// Does it share a budget with all that are not recognised? In the operator's own networks none does.
    const fn is_stranger(&self) -> bool {
        !self.recognised && self.network != UNLIMITED
    }

    /// The budget of all clients like this one, if it is a stranger.
    const fn strangers(&self) -> Budget {
        if self.wants_proof { Budget::Proofs } else { Budget::Unrecognised }
    }
}

/// A budget that is spent, and in how long it allows a wake-up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpentBudget {
    /// Which.
    pub budget: Budget,
    /// In how long.
    pub wait: Duration,
}

/// What is left of the budgets of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetLeft {
    /// Wake-ups in a row by its own.
    pub own: u32,
    /// By that of its network, if several clients are in there.
    pub network: Option<u32>,
    /// By that of all clients together that are not recognised.
    pub shared: u32,
    /// By its network's part of that.
    pub shared_part: u32,
    /// How long it may still keep the server awake alone; `None`: no bound.
    pub awake: Option<Duration>,
    /// Those that are spent.
    pub spent: Vec<SpentBudget>,
}

/// The budgets of wake-ups.
#[derive(Debug)]
pub(super) struct WakeBudgets {
    clients: WakeBudget,
    networks: WakeBudget,
    strangers: WakeBudget,
    strangers_of_networks: WakeBudget,
    proofs: WakeBudget,
}

impl WakeBudgets {
    pub(super) fn new(settings: &Settings) -> Self {
        let ((wakes, per), (shared, shared_per)) = (settings.wake_budget, settings.shared_budget);
        Self {
            clients: WakeBudget::new(wakes, per),
            networks: WakeBudget::new(wakes.saturating_mul(NETWORK_SHARE), per),
            strangers: WakeBudget::new(shared, shared_per),
            strangers_of_networks: WakeBudget::new(shared.div_ceil(STRANGERS_SHARE), shared_per),
            proofs: WakeBudget::new(PROOFS_PER_HOUR, HOUR),
        }
    }

    /// Those whose settings change begin again.
    pub(super) fn retune(&mut self, old: &Settings, settings: &Settings) {
        let Self { clients, networks, strangers, strangers_of_networks, .. } = Self::new(settings);
        if settings.wake_budget != old.wake_budget {
            (self.clients, self.networks) = (clients, networks);
        }
        if settings.shared_budget != old.shared_budget {
            (self.strangers, self.strangers_of_networks) = (strangers, strangers_of_networks);
        }
    }

    fn budget(&mut self, budget: Budget) -> Option<&mut WakeBudget> {
        match budget {
            Budget::Client => Some(&mut self.clients),
            Budget::Network => Some(&mut self.networks),
            Budget::AwakeTime => None,
            Budget::Unrecognised => Some(&mut self.strangers),
            Budget::UnrecognisedOfNetwork => Some(&mut self.strangers_of_networks),
            Budget::Proofs => Some(&mut self.proofs),
        }
    }
}

/// The budgets of wake-ups that a client draws on, and under which number.
fn charges(payer: &Payer) -> impl Iterator<Item = (Budget, u64)> {
    let Payer { client, network, .. } = *payer;
    let own = [(Budget::Client, client)].into_iter();
    let wider = payer.has_neighbours().then_some((Budget::Network, network));
    let shared = [(Budget::UnrecognisedOfNetwork, network), (payer.strangers(), ALL_TOGETHER)];
    own.chain(wider).chain(shared.into_iter().filter(|_| payer.is_stranger()))
}

impl<P: SleepPolicy> PowerManager<P> {
    /// Charges a wake-up to the budgets that it falls under, unless one of them is spent.
    pub(super) fn spend(
        &mut self,
        now: Now,
        admission_request: &AdmissionRequest,
    ) -> Option<Route> {
        let payer = Payer::of(admission_request);
        let spent = self.spent(now.mono, &payer);
        if let Some(SpentBudget { budget, wait }) = spent.into_iter().max_by_key(|it| it.wait) {
            return Some(Route::OverBudget { budget, wait });
        }
        for (budget, whose) in charges(&payer) {
            if let Some(budget) = self.wake_budgets.budget(budget) {
                // It was asked just before.
                let _ = budget.spend(now.mono, whose);
            }
        }
        None
    }

    /// The budgets of a client that do not allow a wake-up now.
    fn spent(&mut self, now: Mono, payer: &Payer) -> Vec<SpentBudget> {
        let awake = self.awake_budget.wait(now, payer.network);
        let awake = awake.map(|wait| SpentBudget { budget: Budget::AwakeTime, wait });
        let of_wakes = charges(payer).filter_map(|(budget, whose)| {
            let wait = self.wake_budgets.budget(budget)?.may(now, whose).err()?;
            Some(SpentBudget { budget, wait })
        });
        of_wakes.chain(awake).collect()
    }

    /// What is left of the budgets of a client.
    pub fn budget_left(&mut self, now: Now, payer: &Payer) -> BudgetLeft {
        let now = now.mono;
        // Settles what is charged, too.
        let awake = self.awake_budget.left(now, payer.network);
        let WakeBudgets { clients, networks, strangers, strangers_of_networks, .. } =
            &self.wake_budgets;
        BudgetLeft {
            own: clients.left(now, payer.client),
            network: payer.has_neighbours().then(|| networks.left(now, payer.network)),
            shared: strangers.left(now, ALL_TOGETHER),
            shared_part: strangers_of_networks.left(now, payer.network),
            awake,
            spent: self.spent(now, payer),
        }
    }

    /// Gives a client all budgets back that are its own or its network's; those of all clients together stay.
    /// Says which of them were spent.
    pub fn forgive(&mut self, now: Now, payer: &Payer) -> Vec<Budget> {
        let before = self.budget_left(now, payer).spent;
        for (budget, whose) in charges(payer).filter(|(budget, _)| !budget.is_of_all()) {
            if let Some(budget) = self.wake_budgets.budget(budget) {
                budget.forgive(whose);
            }
        }
        self.awake_budget.forgive(now.mono, payer.network);
        self.reconsider(now);
        before.into_iter().map(|it| it.budget).filter(|it| !it.is_of_all()).collect()
    }
}
