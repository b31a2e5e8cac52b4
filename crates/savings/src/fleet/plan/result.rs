//! What comes of a plan, as data.

use nightwatt_sim::fleet::Interval;
use serde::Serialize;

use super::{Figures, Plan};
use crate::fleet::curves::Curve;

/// Version of the JSON form.
const SCHEMA: u32 = 1;
/// Of intervals.
const CONFIDENCE: f64 = 0.95;
const SECONDS_PER_HOUR: f64 = 3600.0;
const HOURS_PER_DAY: f64 = 24.0;

/// The result of a plan. Every figure is simulated from the watts and rates that were given: modelled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanResult {
    /// Version of this form.
    pub schema: u32,
    /// Where figures come from: `modelled`.
    pub provenance: &'static str,
    /// Response time that servers keep.
    pub sla_s: f64,
    /// Share of requests that may be refused.
    pub refused_limit: f64,
    /// What sparing a transition is worth.
    pub transition_price_j: f64,
    /// Independent repetitions.
    pub replications: u32,
    /// Requests that each counts, of processes without an end.
    pub requests: u64,
    /// Of the first repetition.
    pub seed: u64,
    /// Of all intervals.
    pub confidence: f64,
    /// Kinds of servers.
    pub servers: Vec<ServerRow>,
    /// Each pool with each traffic and each policy, in the order of the plan.
    pub rows: Vec<Row>,
    /// Servers and watts against the rate, by the M/D/1 queue.
    pub curves: Vec<Curve>,
    /// What to think twice about.
    pub warnings: Vec<String>,
}

/// A kind of server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerRow {
    /// Its name.
    pub name: String,
    /// How many.
    pub servers: u32,
    /// Requests a second that one serves.
    pub service_rate: f64,
    /// Standard error of that where it was fitted to more than one point.
    pub service_rate_error: Option<f64>,
    /// Requests that one has at most at a time.
    pub places: u32,
    /// Watts off, idle and busy.
    pub watts: [f64; 3],
    /// Energy of a cycle.
    pub switch_j: f64,
    /// Time to start.
    pub switch_on_s: f64,
}

/// A mean and its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean over all repetitions.
    pub mean: f64,
    /// The truth lies within the mean +- this, at the confidence above; nothing of one repetition.
    pub half_width: Option<f64>,
}

impl Estimate {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let Interval { mean, half_width, .. } = Interval::of(&values, CONFIDENCE);
        Self { mean, half_width: half_width.is_finite().then_some(half_width) }
    }
}

/// A pool with a traffic under a policy.
#[expect(clippy::struct_excessive_bools, reason = "each is a column of a table, for itself")]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The pool.
    pub pool: String,
    /// What arrives.
    pub traffic: String,
    /// Mean requests a second of it.
    pub rate: f64,
    /// The policy.
    pub policy: String,
    /// Mean power.
    pub watts: Estimate,
    /// Energy of a day, Wh.
    pub wh_per_day: Estimate,
    /// On and off events an hour, of all servers.
    pub transitions_per_hour: Estimate,
    /// Servers that are on; those starting are not yet.
    pub servers_on: Estimate,
    /// Of those, by kind.
    pub on_by_kind: Vec<f64>,
    /// Most servers on or starting at a time, in any repetition.
    pub most_on: u32,
    /// Share of the requests that were refused.
    pub refused: Estimate,
    /// Share of the requests that were answered later than promised, but for those that were so by less
    /// than 1/256.
    pub late: Estimate,
    /// Mean response time of the others.
    pub mean_response_ms: Estimate,
    /// The time within which 99 % of them were answered.
    pub p99_response_ms: Estimate,
    /// Requests answered per joule.
    pub requests_per_joule: Estimate,
    /// Power + price x transitions: what a policy is chosen by.
    pub cost_w: Estimate,
    /// Refused or late no more than allowed, in the mean.
    pub keeps_limit: bool,
    /// On the Pareto front of its pool and traffic: among those that keep the limit, none has less
    /// energy without more transitions.
    pub pareto: bool,
    /// The cheapest of its pool and traffic that keeps the limit.
    pub cheapest: bool,
    /// It knows what is to come: a yardstick, and neither on the front nor the cheapest.
    pub foresees: bool,
}

impl PlanResult {
    pub(super) fn new(plan: &Plan, figures: &[Figures], curves: Vec<Curve>) -> Self {
        let settings = &plan.pools[0].settings;
        let mut figures = figures.chunks(plan.sampling.replications as usize);
        let mut rows = Vec::new();
        for pool in &plan.pools {
            for traffic in &plan.traffic {
                let from = rows.len();
                for policy in &plan.policies {
                    let Some(runs) = figures.next() else { continue };
                    let price = settings.transition_price.get();
                    let mut row = Row::of(runs, price);
                    row.keeps_limit = row.refused.mean + row.late.mean <= settings.overflow_share;
                    row.pool.clone_from(&pool.name);
                    row.traffic.clone_from(&traffic.name);
                    (row.rate, row.policy) = (traffic.rate, policy.to_string());
                    row.foresees = policy.foresees();
                    rows.push(row);
                }
                mark(&mut rows[from..]);
            }
        }
        Self {
            schema: SCHEMA,
            provenance: "modelled",
            sla_s: plan.sla.as_secs_f64(),
            refused_limit: settings.overflow_share,
            transition_price_j: settings.transition_price.get(),
            replications: plan.sampling.replications,
            requests: plan.sampling.requests,
            seed: plan.sampling.seed,
            confidence: CONFIDENCE,
            servers: servers(plan),
            rows,
            curves,
            warnings: plan.warnings(),
        }
    }

    /// Rows that share pool and traffic, in the order of the plan.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunk_by(|a, b| {
            (&a.pool, &a.traffic, a.rate.to_bits()) == (&b.pool, &b.traffic, b.rate.to_bits())
        })
    }
}

fn servers(plan: &Plan) -> Vec<ServerRow> {
    let row = |server: &super::ServerPlan| {
        let kind = &server.kind;
        let error = server.fit.as_ref().map(|fit| fit.standard_error.get());
        ServerRow {
            name: server.name.clone(),
            servers: kind.servers,
            service_rate: kind.service.get(),
            service_rate_error: error.filter(|error| error.is_finite()),
            places: kind.places,
            watts: [kind.off, kind.idle, kind.busy].map(nightwatt_energy::quantity::Watts::get),
            switch_j: kind.switch.get(),
            switch_on_s: kind.switch_on.as_secs_f64(),
        }
    };
    plan.servers.iter().map(row).collect()
}

impl Row {
    fn of(runs: &[Figures], price: f64) -> Self {
        let estimate = |of: &dyn Fn(&Figures) -> f64| Estimate::of(runs.iter().map(of));
        let kinds = runs.first().map_or(0, |run| run.on_by_kind.len());
        let on = |kind: usize| {
            runs.iter().map(|run| run.on_by_kind[kind]).sum::<f64>() / runs.len() as f64
        };
        Self {
            pool: String::new(),
            traffic: String::new(),
            rate: 0.0,
            policy: String::new(),
            watts: estimate(&|run| run.watts),
            wh_per_day: estimate(&|run| run.watts * HOURS_PER_DAY),
            transitions_per_hour: estimate(&|run| run.transitions_per_hour),
            servers_on: estimate(&|run| run.servers_on),
            on_by_kind: (0..kinds).map(on).collect(),
            most_on: runs.iter().map(|run| run.most_on).max().unwrap_or(0),
            refused: estimate(&|run| run.refused),
            late: estimate(&|run| run.late),
            mean_response_ms: estimate(&|run| run.mean_response_ms),
            p99_response_ms: estimate(&|run| run.p99_response_ms),
            requests_per_joule: estimate(&|run| run.requests_per_joule),
            cost_w: estimate(&|run| {
                run.watts + price * run.transitions_per_hour / SECONDS_PER_HOUR
            }),
            keeps_limit: false,
            pareto: false,
            cheapest: false,
            foresees: false,
        }
    }
}

/// The front and the cheapest of rows that share pool and traffic.
fn mark(rows: &mut [Row]) {
    let of = |row: &Row| (row.watts.mean, row.transitions_per_hour.mean);
    let to_choose = |row: &Row| row.keeps_limit && !row.foresees;
    let kept: Vec<(f64, f64)> = rows.iter().filter(|row| to_choose(row)).map(of).collect();
    let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;
    for row in rows.iter_mut().filter(|row| to_choose(row)) {
        row.pareto = !kept.iter().any(|other| beats(*other, of(row)));
    }
    let cost = |row: &&mut Row| row.cost_w.mean;
    let kept = rows.iter_mut().filter(|row| to_choose(row));
    if let Some(best) = kept.min_by(|a, b| cost(a).total_cmp(&cost(b))) {
        best.cheapest = true;
    }
}
