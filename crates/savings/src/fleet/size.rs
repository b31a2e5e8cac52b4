//! `nightwatt fleet size`: how many servers of which kind, by which policy, for a log and an SLA.
//!
//! First how many: of each kind the fewest that, all always on, refuse no more than half of what is
//! allowed, so that switching has room for the other half. Then by which policy: the cheapest that keeps
//! the limit, energy + price x transitions, of those below. All of it is played on the whole log; fixed
//! parameters are therefore chosen with hindsight, `predictive` is not.

use std::ops::ControlFlow;
use std::time::Duration;

use nightwatt_policy::electricity::{Electricity, Tariff};
use nightwatt_policy::fleet::{FleetChoice, FleetSettings};
use nightwatt_report::{Table, grouped, wrapped};
use nightwatt_sim::fleet::Window;
use serde::Serialize;

use super::plan::{Plan, PlanResult, Policy, PoolPlan, Row, Traffic};
use super::{Error, jobs, play};

/// Version of the JSON form.
const SCHEMA: u32 = 1;
/// More servers are not tried.
const MOST_SERVERS: u32 = 16_384;
/// Time-outs that are tried, in seconds.
const DELAYS: [u64; 6] = [1, 10, 60, 300, 1800, 7200];
/// Shares of the servers that are tried as a number always on.
const TENTHS: u32 = 10;
const HOURS_OF_YEAR: f64 = 365.25 * 24.0;

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeResult {
    /// Version of this form.
    pub schema: u32,
    /// What arrives.
    pub traffic: String,
    /// Requests of it that were played.
    pub requests: u64,
    /// Seconds that they span.
    pub span_s: f64,
    /// Mean requests a second.
    pub rate: f64,
    /// Each kind of server, the cheapest first.
    pub kinds: Vec<SizedKind>,
    /// What the energy costs.
    pub electricity: Electricity,
    /// Figures of the server that no one gave, in words.
    pub assumed: Vec<String>,
    /// Everything that was simulated.
    pub simulated: PlanResult,
}

/// A kind of server for this traffic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizedKind {
    /// Its name.
    pub server: String,
    /// Watts when on and idle, as assumed.
    pub idle_w: f64,
    /// Watts when serving, likewise.
    pub busy_w: f64,
    /// How many are needed.
    pub servers: u32,
    /// Share refused or late if all of them were always on.
    pub refused_all_on: f64,
    /// The cheapest policy that keeps the limit, if there is one.
    pub policy: Option<String>,
    /// Servers on in the mean under it.
    pub servers_on: f64,
    /// Energy of a year under it, kWh; a year like this log.
    pub kwh_per_year: f64,
    /// What that costs, where the price is the same at any hour.
    pub cost_per_year: Option<f64>,
    /// The same with all of them always on.
    pub kwh_per_year_all_on: f64,
    /// Share refused under the policy.
    pub refused: f64,
    /// Share answered later than promised.
    pub late: f64,
    /// On and off events of each server in a day.
    pub transitions_per_server_day: f64,
}

/// Finds it. The plan names kinds of servers (their numbers do not count), one traffic that ends, and
/// what binds them; `on_progress` gets how many simulations of how many are done, and may stop it by `Break`.
pub fn run(
    plan: &Plan,
    electricity: &Electricity,
    mut on_progress: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<SizeResult, Error> {
    let [traffic] = &plan.traffic[..] else {
        return Err(Error::Flags(
            "one log, or several that are one, are sized for at a time".to_owned(),
        ));
    };
    let seed = plan.sampling.seed;
    let sized = jobs::all(
        &plan.pools,
        |pool| fewest(pool, traffic, plan.sla, seed),
        |_, _| ControlFlow::Continue(()),
    );
    let sized: Vec<(u32, f64)> = sized.into_iter().collect::<Result<_, _>>()?;
    let mut pools = plan.clone();
    for (pool, (servers, _)) in pools.pools.iter_mut().zip(&sized) {
        pool.settings.kinds[0].servers = *servers;
    }
    for (server, (servers, _)) in pools.servers.iter_mut().zip(&sized) {
        server.kind.servers = *servers;
    }
    // Each pool has a list of its own: by its number of servers.
    let mut rows = Vec::new();
    let mut simulated: Option<PlanResult> = None;
    let all: usize = sized.iter().map(|(servers, _)| policies(*servers).len()).sum();
    let mut before = 0;
    for (pool, (servers, _)) in pools.pools.iter().zip(&sized) {
        let one = Plan {
            pools: vec![pool.clone()],
            policies: policies(*servers).into_iter().map(Policy::from).collect(),
            sampling: super::plan::Sampling { replications: 1, ..plan.sampling },
            ..pools.clone()
        };
        let result = one.run(|done, _| on_progress(before + done, all as u64))?;
        before += one.policies.len() as u64;
        rows.extend(result.rows.iter().cloned());
        simulated.get_or_insert(result);
    }
    let mut simulated =
        simulated.ok_or_else(|| Error::Flags("name a kind of server".to_owned()))?;
    simulated.rows = rows;
    let mut kinds: Vec<(f64, SizedKind)> = pools
        .pools
        .iter()
        .zip(&sized)
        .map(|(pool, &(servers, refused))| {
            kind(pool, servers, refused, &simulated.rows, electricity)
        })
        .collect();
    kinds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (requests, span_s) = match &traffic.arrivals {
        nightwatt_policy::arrivals::Arrivals::Counts(counts) => (counts.total(), counts.length()),
        _ => (plan.sampling.requests, plan.sampling.requests as f64 / traffic.rate),
    };
    Ok(SizeResult {
        schema: SCHEMA,
        traffic: traffic.name.clone(),
        requests,
        span_s,
        rate: traffic.rate,
        kinds: kinds.into_iter().map(|(_, kind)| kind).collect(),
        electricity: electricity.clone(),
        assumed: Vec::new(),
        simulated,
    })
}

/// The policies that are tried with this many servers.
fn policies(servers: u32) -> Vec<FleetChoice> {
    let mut list = vec![FleetChoice::Predictive, FleetChoice::Baseline];
    for tenth in 1..=TENTHS {
        let choice = FleetChoice::AlwaysOn { servers: (servers * tenth).div_ceil(TENTHS) };
        if !list.contains(&choice) {
            list.push(choice);
        }
    }
    let delays = DELAYS.map(|secs| FleetChoice::DelayedOff { delay: Duration::from_secs(secs) });
    list.extend(delays);
    list
}

/// The fewest that, always on, refuse or answer late no more than half of what is allowed; and how much
/// that is.
fn fewest(
    pool: &PoolPlan,
    traffic: &Traffic,
    sla: Duration,
    seed: u64,
) -> Result<(u32, f64), Error> {
    let allowed = 0.5 * pool.settings.overflow_share;
    let refused = |servers: u32| {
        let mut settings: FleetSettings = pool.settings.clone();
        settings.kinds[0].servers = servers;
        // All there from the beginning.
        settings.kinds[0].switch_on = Duration::ZERO;
        let choice = FleetChoice::AlwaysOn { servers };
        play(&settings, choice, &traffic.arrivals, &pool.service, seed, Window::ALL).map(
            |outcome| {
                let late = outcome.responses.above(sla) as f64 / outcome.arrivals.max(1) as f64;
                outcome.refused_share() + late
            },
        )
    };
    // The mean load is served by no fewer.
    let load = traffic.rate / pool.settings.kinds[0].service.get();
    let mut low = (load * (1.0 - allowed)).floor().clamp(0.0, f64::from(MOST_SERVERS)) as u32;
    let mut high = (low + 1).max((load * 1.5).min(f64::from(MOST_SERVERS)) as u32);
    let mut share = refused(high)?;
    while share > allowed {
        if high >= MOST_SERVERS {
            return Err(Error::TooFew(format!(
                "even {MOST_SERVERS} of {} refuse, or answer late, {:.1} %; take faster servers, or allow more time or more \
                 refused requests",
                pool.name,
                100.0 * share
            )));
        }
        (low, high) = (high, high.saturating_mul(2).min(MOST_SERVERS));
        share = refused(high)?;
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        let found = refused(middle)?;
        if found <= allowed {
            (high, share) = (middle, found);
        } else {
            low = middle;
        }
    }
    Ok((high, share))
}

/// A kind and its cost in watts, infinite where no policy keeps the limit.
fn kind(
    pool: &PoolPlan,
    servers: u32,
    refused_all_on: f64,
    rows: &[Row],
    electricity: &Electricity,
) -> (f64, SizedKind) {
    let of_pool = || rows.iter().filter(|row| row.pool == pool.name);
    let all_on = FleetChoice::AlwaysOn { servers }.to_string();
    let year = |row: &Row| row.watts.mean * HOURS_OF_YEAR / 1e3;
    let best = of_pool().find(|row| row.cheapest);
    let kwh_per_year = best.map_or(f64::NAN, year);
    let server = &pool.settings.kinds[0];
    let sized = SizedKind {
        server: pool.name.clone(),
        idle_w: server.idle.get(),
        busy_w: server.busy.get(),
        servers,
        refused_all_on,
        policy: best.map(|row| row.policy.clone()),
        servers_on: best.map_or(f64::NAN, |row| row.servers_on.mean),
        kwh_per_year,
        cost_per_year: electricity.price_per_kwh.flat().map(|price| price * kwh_per_year),
        kwh_per_year_all_on: of_pool().find(|row| row.policy == all_on).map_or(f64::NAN, year),
        refused: best.map_or(f64::NAN, |row| row.refused.mean),
        late: best.map_or(f64::NAN, |row| row.late.mean),
        transitions_per_server_day: best
            .map_or(f64::NAN, |row| 24.0 * row.transitions_per_hour.mean / f64::from(servers)),
    };
    (best.map_or(f64::INFINITY, |row| row.cost_w.mean), sized)
}

impl SizeResult {
    /// The result for a terminal: the answer in a sentence, then all that was tried.
    pub fn text(&self) -> String {
        let table = Table::of("", &self.kinds)
            .text("kind", |it| it.server.as_str())
            .count("servers", |it| it.servers)
            .text("policy", |it| it.policy.as_deref().unwrap_or("none keeps the limit"))
            .number("servers on", "", 2, |it| it.servers_on)
            .number("energy of a year", "kWh", 0, |it| it.kwh_per_year)
            .number("all on", "kWh", 0, |it| it.kwh_per_year_all_on)
            .number("refused", "%", 2, |it| 100.0 * it.refused)
            .number("switched", "1/d", 1, |it| it.transitions_per_server_day);
        let modelled = format!(
            "Modelled: the server's watts x the times that the policy makes of {} requests in {} (a \
             year is extrapolated from it). `--json` has every policy that was tried.",
            grouped(self.requests as f64, 0),
            days(self.span_s)
        );
        let (answer, modelled) = (wrapped(&self.answer(), 0), wrapped(&modelled, 0));
        let assumed = match &self.assumed[..] {
            [] => String::new(),
            all => wrapped(&format!("Assumed: {}.", all.join(", ")), 0),
        };
        format!("{answer}\n{}\n{modelled}{assumed}", Table::from(table).to_text())
    }

    /// One paragraph.
    pub fn answer(&self) -> String {
        let limit = 100.0 * self.simulated.refused_limit;
        let Some(best) = self.kinds.first().filter(|kind| kind.policy.is_some()) else {
            return format!(
                "No policy that was tried keeps what is refused or late at {limit} %: shorten the time to \
                 start, let requests wait (`--line`), or keep all servers on."
            );
        };
        let money = best.cost_per_year.map_or(String::new(), |cost| {
            format!(" ({} {})", grouped(cost, 2), self.electricity.currency)
        });
        let what = if best.server == "server" {
            format!("{} server{}", best.servers, if best.servers == 1 { "" } else { "s" })
        } else {
            format!("{} of {}", best.servers, best.server)
        };
        let missed = if best.late > 0.0 { "refused or late" } else { "refused" };
        let saved = 1.0 - best.kwh_per_year / best.kwh_per_year_all_on;
        let switched = best.transitions_per_server_day;
        format!(
            "Take {what}, switched by `{}`: {:.2} are on in the mean and use {} kWh a year{money}, \
             {:.0} % less than if all were always on, which assumes {} W idle and {} W busy (not measured). {:.2} % \
             of the requests are {missed} (allowed: {limit} %), all others answered within {:.0} ms; each server is \
             switched {} times a day.",
            best.policy.as_deref().unwrap_or_default(),
            best.servers_on,
            grouped(best.kwh_per_year, 1),
            100.0 * saved,
            best.idle_w,
            best.busy_w,
            100.0 * (best.refused + best.late),
            1e3 * self.simulated.sla_s,
            grouped(switched, usize::from(switched < 100.0))
        )
    }

    /// What to think twice about.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Tariff::ByHour(_) = self.electricity.price_per_kwh {
            warnings.push(
                "prices differ by hour: no cost is computed, since the log is superposed by seconds"
                    .to_owned(),
            );
        }
        if self.span_s < 7.0 * 86_400.0 {
            warnings.push(format!("{} are little to extrapolate a year from", days(self.span_s)));
        }
        warnings
    }
}

fn days(seconds: f64) -> String {
    if seconds < 172_800.0 {
        format!("{:.1} hours", seconds / 3600.0)
    } else {
        format!("{:.1} days", seconds / 86_400.0)
    }
}
