//! What sites know about a client: why it is refused, what its budgets still allow, and how to forget it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use nightwatt_energy::time::Mono;
use nightwatt_policy::admission::Budget;
use nightwatt_policy::awake_budget::UNLIMITED;
use nightwatt_policy::manager::{Payer, SpentBudget};
use nightwatt_traffic::{ClientKey, Known};
use serde::{Deserialize, Serialize};

use crate::site::Site;

/// What a site knows of the clients of one address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Name of the site.
    pub site: String,
    /// Wake-ups that the address may still cause now.
    pub wakes_left: u32,
    /// Wake-ups that all addresses of its network (a /48 of IPv6) may still cause now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_wakes_left: Option<u32>,
    /// For how many seconds it may still keep the server awake alone, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awake_left_s: Option<f64>,
    /// Wake-ups that all unrecognised clients together may still cause now.
    pub unrecognised_wakes_left: u32,
    /// How many of these may come from the address or its network.
    #[serde(default)]
    pub unrecognised_wakes_left_here: u32,
    /// The budgets that are spent.
    #[serde(default)]
    pub spent: Vec<SpentStatus>,
    /// Log-ins of the address that failed in a row, if they are too many to wake the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_log_ins: Option<FailedLogInsStatus>,
    /// The clients seen from that address, by agent.
    pub clients: Vec<AgentStatus>,
}

/// A budget that is spent: a client that draws on it does not wake the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpentStatus {
    /// The rule that refuses, as in the access log.
    pub rule: String,
    /// Only clients that are not recognised draw on it.
    pub unrecognised_only: bool,
    /// In how many seconds it allows a wake-up again.
    pub ends_in_s: f64,
}

impl From<SpentBudget> for SpentStatus {
    fn from(SpentBudget { budget, wait }: SpentBudget) -> Self {
        let unrecognised_only = budget.is_of_all() || budget == Budget::UnrecognisedOfNetwork;
        Self { rule: budget.as_str().to_owned(), unrecognised_only, ends_in_s: wait.as_secs_f64() }
    }
}

/// What was forgiven.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Forgiven {
    /// How many clients behind the address, counted for each site.
    pub clients: usize,
    /// The spent budgets that were restored, by their rules.
    pub budgets: BTreeSet<String>,
    /// Whether there is more in a budget now than before.
    #[serde(default)]
    pub restored: bool,
}

/// Log-ins that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedLogInsStatus {
    /// How many.
    pub failures: u32,
    /// How many seconds ago the first of them was.
    pub since_s: f64,
    /// In how many seconds they are forgotten, if no more come.
    pub ends_in_s: f64,
}

/// A client: an address with an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// Its `User-Agent`; null if that is not remembered any more.
    pub agent: Option<String>,
    /// Its class for a request of the front page.
    pub class: String,
    /// The rule that gives it this class.
    pub rule: String,
    /// It is not one of the clients that share a wake budget.
    pub recognised: bool,
    /// How many seconds ago the rule began to apply, if it depends on what the client did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_s: Option<f64>,
    /// In how many seconds the rule ends, if it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_s: Option<f64>,
    /// Misses in the last ten minutes.
    pub misses: u32,
    /// Their share of its requests in that time.
    pub missed_share: f64,
}

impl AgentStatus {
    fn of(known: Known, now: Mono, payer: &Payer) -> Self {
        let Known { agent, verdict, since, misses, missed_share } = known;
        Self {
            agent,
            class: verdict.class().as_str().to_owned(),
            rule: verdict.rule.as_str().to_owned(),
            recognised: verdict.recognised || payer.network == UNLIMITED,
            since_s: since.map(|then| now.since(then).as_secs_f64()),
            ends_in_s: verdict.until.map(|until| until.since(now).as_secs_f64()),
            misses,
            missed_share,
        }
    }
}

/// What these sites know about the clients at an address; with `agent`, about that one.
pub(crate) fn status<'a>(
    sites: impl Iterator<Item = &'a Arc<Site>>,
    client: IpAddr,
    agent: Option<&str>,
) -> Vec<ClientStatus> {
    let key = ClientKey::from(client);
    let payer = stranger(key);
    let of_site = |site: &Arc<Site>| {
        let now = site.supervisor.clock().now().mono;
        let left = site.supervisor.budget_left(&payer);
        let mut classifier = site.classifier();
        let failed = classifier.failed_log_ins(now, key);
        let known = classifier.known(now, key, agent);
        ClientStatus {
            site: site.name.to_string(),
            wakes_left: left.own,
            network_wakes_left: left.network,
            awake_left_s: left.awake.map(|it| it.as_secs_f64()),
            unrecognised_wakes_left: left.shared,
            unrecognised_wakes_left_here: left.shared_part,
            spent: left.spent.into_iter().map(SpentStatus::from).collect(),
            failed_log_ins: failed.map(|it| FailedLogInsStatus {
                failures: it.failures,
                since_s: now.since(it.since).as_secs_f64(),
                ends_in_s: it.until.since(now).as_secs_f64(),
            }),
            clients: known.into_iter().map(|it| AgentStatus::of(it, now, &payer)).collect(),
        }
    };
    sites.map(of_site).collect()
}

/// Makes these sites forget what a client did wrong, and restores its budgets.
pub(crate) fn forgive<'a>(
    sites: impl Iterator<Item = &'a Arc<Site>>,
    client: IpAddr,
    agent: Option<&str>,
) -> Forgiven {
    let key = ClientKey::from(client);
    let payer = stranger(key);
    let mut forgiven = Forgiven::default();
    for site in sites {
        let before = site.supervisor.budget_left(&payer);
        let budgets = site.supervisor.forgive(&payer);
        forgiven.restored |= site.supervisor.budget_left(&payer) != before;
        forgiven.budgets.extend(budgets.into_iter().map(|it| it.as_str().to_owned()));
        forgiven.clients += site.classifier().forgive(key, agent);
    }
    forgiven
}

/// A payer for all budgets that clients of this address may draw on.
fn stranger(key: ClientKey) -> Payer {
    let (client, network) = (key.number(), key.network());
    Payer { client, network, recognised: false, wants_proof: false }
}
