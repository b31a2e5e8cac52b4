//! What policies would cost at a price per delayed visit: every policy in the same traffic, with the
//! same classes and the same cache, and no SLA in its way.

use std::collections::BTreeMap;
use std::time::Duration;

use nightwatt_energy::quantity::Joules;
use nightwatt_energy::time::{Mono, Wall};
use nightwatt_policy::admission::{Cached, ClientClass, Request, Want};
use nightwatt_policy::ledger::Bill;
use nightwatt_policy::manager::Settings;
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::timeouts::{self, DelayedUnder, Timeouts, UnderTimeout};
use nightwatt_policy::sleep::{
    BusyTimes, Constraints, Plan, PolicyChoice, SleepPolicy, Terms, Waking, plan,
};
use nightwatt_policy::visit::Visitor;
use nightwatt_sim::{Demand, Outcome, Run, Visit, World};
use serde::Serialize;

/// Prices at which policies are compared, joules per delayed visit.
pub(super) const PRICES: [u32; 5] = [0, 1_000, 5_000, 20_000, 50_000];

/// The bound that no policy beats: it knows the future.
pub(super) const ORACLE: &str = "oracle";

/// The fixed time-outs, all of them.
pub(super) const TIMEOUT: &str = PolicyChoice::Timeout { idle: Duration::ZERO }.name();

/// A request of an admitted client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admitted {
    pub(super) at: Mono,
    pub(super) visitor: Visitor,
    pub(super) visit: Visit,
    pub(super) class: ClientClass,
    /// Only the server can answer it.
    pub(super) needs_server: bool,
    /// So it is behind a mirror that holds everything.
    pub(super) needs_server_behind_mirror: bool,
    /// Local time minus UTC, s.
    pub(super) utc_offset: i32,
}

type BoxedPolicy = Box<dyn SleepPolicy + Send>;

/// One policy under way.
pub(super) struct PolicyCost {
    /// `None`: of no price's own, to be reckoned at each.
    price: Option<u32>,
    name: String,
    /// The policy without its settings.
    kind: &'static str,
    /// It hears of requests that the cache answers, too.
    learns: bool,
    run: Run<BoxedPolicy>,
}

impl PolicyCost {
    /// Where it stands in tables.
    pub(super) fn order(&self) -> (Option<u32>, String) {
        (self.price, self.name.clone())
    }

    pub(super) fn request(&mut self, request: &Admitted) {
        let Admitted { at, visitor, visit, class, needs_server, utc_offset, .. } = *request;
        if !needs_server && !self.learns {
            return;
        }
        self.run.local_time(at, utc_offset);
        let cached = if needs_server { Cached::Nothing } else { Cached::Fresh };
        let request = Request { class, want: Want::Other, cached };
        let client = visitor.0;
        let demand = Demand { number: 0, at, visitor, visit, client, request, recognised: true };
        self.run.demand(&demand);
    }
}

/// All that the comparison is made of.
pub(super) struct Costs {
    pub(super) policies: Vec<PolicyCost>,
    pub(super) bank: Bank,
}

/// The fixed time-outs, and what the oracle needs.
pub(super) struct Bank {
    timeouts: Timeouts,
    /// Which of them is the break-even time: a policy of its own, whatever the list.
    ski_rental: usize,
    /// By seat: the visit that had it last, and under which time-outs it was delayed.
    visits: Vec<(u64, DelayedUnder)>,
    busy: BusyTimes,
    /// Behind a mirror that holds everything.
    busy_behind_mirror: BusyTimes,
    requests: u64,
}

impl Bank {
    pub(super) fn request(&mut self, request: &Admitted) {
        if request.needs_server_behind_mirror {
            self.busy_behind_mirror.push(request.at);
        }
        if !request.needs_server {
            return;
        }
        let Visit { number, seat } = request.visit;
        let seat = seat as usize;
        if seat >= self.visits.len() {
            self.visits.resize(seat + 1, (0, DelayedUnder::default()));
        }
        let (last, delayed) = &mut self.visits[seat];
        if *last != number {
            (*last, *delayed) = (number, DelayedUnder::default());
        }
        self.timeouts.request(request.at, delayed);
        self.busy.push(request.at);
        self.requests += 1;
    }

    /// The plan that perfect knowledge of the future allows, in which no request waits.
    pub(super) fn plan_ahead(&self, end: Mono, rules: &Constraints) -> Plan {
        plan(self.busy.times(), Mono::ZERO, end, Waking::Ahead, rules)
    }

    /// The same behind a mirror that holds everything.
    pub(super) fn plan_ahead_behind_mirror(&self, end: Mono, rules: &Constraints) -> Plan {
        plan(self.busy_behind_mirror.times(), Mono::ZERO, end, Waking::Ahead, rules)
    }
}

/// What the comparison came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostTable {
    /// Requests that reach the server behind the cache: what all policies are given.
    pub reach_server: u64,
    /// Joules per delayed visit -> policy -> joules of the server + price x delayed visits.
    pub by_price: BTreeMap<u32, BTreeMap<String, f64>>,
    /// The time-out that `best_fixed` is at each price, s; `None` is never.
    pub best_timeout_s: BTreeMap<u32, Option<f64>>,
    /// Every point of the comparison: energy against delays.
    pub frontier: Vec<FrontierPoint>,
}

/// What a policy saves, and whom it delays.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrontierPoint {
    /// `learned at 5000 J`, `timeout 30s`, `oracle`.
    pub policy: String,
    /// Kind: `learned`, `timeout`, `window`, `ski-rental`, `oracle`.
    pub kind: &'static str,
    /// Saving, proxy included.
    pub saving: f64,
    /// Visits in which a request waited.
    pub delayed_visits: u64,
    /// Requests that waited.
    pub delayed_requests: u64,
}

impl Costs {
    /// Begins at `start`, which is local time less UTC `utc_offset` seconds.
    pub(super) fn begin(scenario: &Scenario, start: Wall, utc_offset: i32) -> Self {
        let settings = Settings {
            sla: None,
            waiting_page: false,
            wake_budget: (u32::MAX, Duration::from_hours(1)),
            ..Settings::of(scenario)
        };
        let rules = scenario.constraints();
        let states = rules.states;
        let world = World { states, settings, start, utc_offset };
        let begin = |choice: &PolicyChoice, price: Option<u32>| {
            let delay_price = Joules(f64::from(price.unwrap_or(0)));
            let policy = choice.build(&Terms { delay_price, ..scenario.terms() });
            let (name, kind, learns) = (choice.to_string(), choice.name(), choice.learns());
            PolicyCost { price, name, kind, learns, run: world.begin(policy) }
        };
        let learned = PRICES.iter().map(|&price| begin(&PolicyChoice::Learned, Some(price)));
        let policies = learned.chain([begin(&PolicyChoice::Window, None)]).collect();
        let mut idle = timeouts::usual();
        let ski_rental = idle.partition_point(|&idle| idle < states.break_even());
        idle.insert(ski_rental, states.break_even());
        let bank = Bank {
            timeouts: Timeouts::new(idle, rules, scenario.sla.delay),
            ski_rental,
            visits: Vec::new(),
            busy: BusyTimes::new(rules.quiet),
            busy_behind_mirror: BusyTimes::new(rules.quiet),
            requests: 0,
        };
        Self { policies, bank }
    }
}

/// What a policy came to.
struct PolicyResult {
    price: Option<u32>,
    name: String,
    /// Without its settings.
    kind: &'static str,
    bill: Bill,
    delayed_visits: u64,
    delayed_requests: u64,
}

impl PolicyResult {
    fn of(policy: PolicyCost, end: Mono) -> Self {
        let PolicyCost { price, name, kind, run, .. } = policy;
        let Outcome { bill, delayed_visits, delayed_requests, .. } = run.finish(end);
        Self { price, name, kind, bill, delayed_visits, delayed_requests }
    }

    fn under(break_even: &UnderTimeout) -> Self {
        let UnderTimeout { bill, delayed_visits, delayed_requests, .. } = *break_even;
        let choice = PolicyChoice::SkiRental;
        let (name, kind) = (choice.to_string(), choice.name());
        Self { price: None, name, kind, bill, delayed_visits, delayed_requests }
    }
}

/// What `best_fixed` came to at a price.
struct BestFixed {
    cost: f64,
    idle: Duration,
}

/// Draws up the comparison: what was collected, by `end`.
pub(super) fn table(
    policies: Vec<PolicyCost>,
    bank: &Bank,
    scenario: &Scenario,
    rules: &Constraints,
    end: Mono,
) -> CostTable {
    let mut fixed = bank.timeouts.finish(end);
    let ski_rental = PolicyResult::under(&fixed.remove(bank.ski_rental));
    let outcomes: Vec<PolicyResult> = policies
        .into_iter()
        .map(|policy| PolicyResult::of(policy, end))
        .chain([ski_rental])
        .collect();
    let saved = |waking| plan(bank.busy.times(), Mono::ZERO, end, waking, rules).saved;
    let always_on = rules.states.on * end.0;
    let (ahead, on_demand) = (saved(Waking::Ahead), saved(Waking::OnDemand));
    let mut table = CostTable {
        reach_server: bank.requests,
        by_price: BTreeMap::new(),
        best_timeout_s: BTreeMap::new(),
        frontier: frontier(&fixed, &outcomes, scenario, always_on - ahead, end),
    };
    for price in PRICES {
        let cost = |bill: &Bill, visits: u64| {
            bill.server(&rules.states).get() + f64::from(price) * visits as f64
        };
        let mut row = BTreeMap::new();
        for came in outcomes.iter().filter(|came| came.price.is_none_or(|own| own == price)) {
            row.insert(came.name.clone(), cost(&came.bill, came.delayed_visits));
        }
        let costs = fixed
            .iter()
            .map(|it| BestFixed { cost: cost(&it.bill, it.delayed_visits), idle: it.idle });
        let best = costs.min_by(|a, b| a.cost.total_cmp(&b.cost));
        // Delays cost nothing at a price of 0: then sleeping until a client comes may save more. Perfect
        // knowledge includes the best fixed time-out, which may sleep in gaps too short for either plan.
        let planned = if price == 0 { ahead.max(on_demand) } else { ahead };
        let mut oracle = (always_on - planned).get();
        if let Some(best) = best {
            oracle = oracle.min(best.cost);
            row.insert("best_fixed".to_owned(), best.cost);
            let idle = (best.idle < Duration::MAX).then_some(best.idle.as_secs_f64());
            table.best_timeout_s.insert(price, idle);
        }
        row.insert(PolicyChoice::AlwaysOn.name().to_owned(), always_on.get());
        // Whatever a policy did, who knows the future could have done.
        oracle = row.values().copied().fold(oracle, f64::min);
        row.insert(ORACLE.to_owned(), oracle);
        table.by_price.insert(price, row);
    }
    table
}

fn frontier(
    fixed: &[UnderTimeout],
    outcomes: &[PolicyResult],
    scenario: &Scenario,
    oracle: Joules,
    end: Mono,
) -> Vec<FrontierPoint> {
    let states = scenario.power_states();
    let proxy = scenario.proxy_power();
    let mut points: Vec<FrontierPoint> = fixed
        .iter()
        // Every tenth is enough for the eye.
        .step_by(10)
        .filter(|it| it.idle < Duration::MAX)
        .map(|it| FrontierPoint {
            policy: format!("{TIMEOUT} {}", text_of(it.idle)),
            kind: TIMEOUT,
            saving: it.bill.saving(&states, proxy),
            delayed_visits: it.delayed_visits,
            delayed_requests: it.delayed_requests,
        })
        .collect();
    points.extend(outcomes.iter().map(|came| {
        FrontierPoint {
            policy: came
                .price
                .map_or_else(|| came.name.clone(), |price| format!("{} at {price} J", came.name)),
            kind: came.kind,
            saving: came.bill.saving(&states, proxy),
            delayed_visits: came.delayed_visits,
            delayed_requests: came.delayed_requests,
        }
    }));
    let always_on = states.on * end.0;
    let saving = if end.0.is_zero() { 0.0 } else { 1.0 - (oracle + proxy * end.0) / always_on };
    points.push(FrontierPoint {
        policy: ORACLE.to_owned(),
        kind: ORACLE,
        saving,
        delayed_visits: 0,
        delayed_requests: 0,
    });
    points
}

fn text_of(idle: Duration) -> String {
    nightwatt_energy::duration_text::format(Duration::from_secs(idle.as_secs_f64().round() as u64))
}
