//! V5: the policies, simulated with the published parameters.

use std::ops::ControlFlow;
use std::time::Duration;

use nightwatt_energy::quantity::{Joules, PerSecond, Watts};
use nightwatt_policy::arrivals::{Arrivals, Rate};
use nightwatt_policy::fleet::{FleetChoice, FleetSettings, ServerKind, Wear};
use nightwatt_policy::queueing::places_within;
use nightwatt_sim::fleet::{Outcome, Service, Window};
use serde::Serialize;

use super::{Claim, Error, Figure, PI, PROMISED, STANDARD, Server};
use nightwatt_savings::fleet::{self, jobs};

/// Requests at each end that do not count, as published.
const CUT: u64 = 10_000;

/// Servers that are there: more than any rate needs.
const SERVERS: u32 = 20;

/// Published rates, requests/s.
const RATES: [u32; 5] = [300, 600, 900, 1200, 1500];

/// Rate of the published trade-off curves that are looked at.
const CURVES_AT: u32 = 900;

const DELAYS_MS: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];

const SECONDS_PER_DAY: f64 = 86_400.0;

const JOULES_PER_WH: f64 = 3600.0;

/// Seeds of arrivals; service times are all the same and need none.
const SEED: u64 = 1;

/// One simulated pool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyRow {
    /// `pi` or `standard`.
    pub kind: &'static str,
    /// Requests a second.
    pub rate: u32,
    /// Its policy.
    pub policy: String,
    /// Energy of a day, Wh.
    pub wh_per_day: f64,
    /// On and off events per hour, of all servers.
    pub transitions_per_hour: f64,
    /// Mean number of servers on.
    pub mean_on: f64,
    /// Most servers on at a time.
    pub most_on: u32,
    /// Share of requests refused, 0 to 1.
    pub refused: f64,
    /// Mean response time, ms.
    pub mean_response_ms: f64,
}

/// Baseline, always-on 1 to 10, delayed-off.
fn choices() -> Vec<FleetChoice> {
    let always_on = (1..=10).map(|servers| FleetChoice::AlwaysOn { servers });
    let delays = DELAYS_MS.map(Duration::from_millis);
    let delayed = delays.into_iter().map(|delay| FleetChoice::DelayedOff { delay });
    [FleetChoice::Baseline].into_iter().chain(always_on).chain(delayed).collect()
}

/// Switching takes no time and no energy, and power does not depend on load, as published.
fn kind(servers: u32, service: PerSecond, watts: Watts, places: u32) -> ServerKind {
    ServerKind {
        servers,
        service,
        places,
        idle: watts,
        busy: watts,
        off: Watts(0.0),
        switch: Joules(0.0),
        switch_on: Duration::ZERO,
    }
}

fn play(
    kind: ServerKind,
    choice: FleetChoice,
    rate: f64,
    window: Window,
) -> Result<Outcome, Error> {
    let settings = FleetSettings {
        kinds: vec![kind],
        min_on: Duration::ZERO,
        line: 0,
        wear: Wear::ByNumber,
        transition_price: Joules(0.0),
        overflow_share: 0.01,
    };
    let arrivals = Arrivals::Poisson(Rate::new(rate)?);
    fleet::play(&settings, choice, &arrivals, &Service::Deterministic, SEED, window)
}

/// Mean response time in ms of one server with an endless queue.
pub(super) fn single(service: PerSecond, rate: PerSecond, arrivals: u64) -> Result<f64, Error> {
    let window = Window { warm_up: CUT, counted: arrivals, cool_down: CUT };
    let alone = kind(1, service, Watts(1.0), u32::MAX);
    let outcome = play(alone, FleetChoice::AlwaysOn { servers: 1 }, rate.get(), window)?;
    Ok(outcome.mean_response().as_secs_f64() * 1e3)
}

fn row(server: &Server, rate: u32, choice: FleetChoice, arrivals: u64) -> Result<PolicyRow, Error> {
    let service = server.service()?;
    let places = places_within(service, PROMISED)?;
    let window = Window { warm_up: CUT, counted: arrivals, cool_down: CUT };
    let pool = kind(SERVERS, service, server.reckoned, places);
    let outcome = play(pool, choice, f64::from(rate), window)?;
    Ok(PolicyRow {
        kind: server.name,
        rate,
        policy: choice.to_string(),
        wh_per_day: outcome.mean_power().get() * SECONDS_PER_DAY / JOULES_PER_WH,
        transitions_per_hour: outcome.transitions_per_server_hour() * f64::from(SERVERS),
        mean_on: outcome.mean_on(),
        most_on: outcome.most_on,
        refused: outcome.refused_share(),
        mean_response_ms: outcome.mean_response().as_secs_f64() * 1e3,
    })
}

/// Every policy at every rate for both kinds, on all cores; the order does not depend on them.
pub(super) fn simulate(
    arrivals: u64,
    mut on_progress: impl FnMut(u64, u64),
) -> Result<Vec<PolicyRow>, Error> {
    let mut jobs = Vec::new();
    for server in [PI, STANDARD] {
        for rate in RATES {
            jobs.extend(choices().into_iter().map(|choice| (server, rate, choice)));
        }
    }
    let work =
        |&(server, rate, choice): &(Server, u32, FleetChoice)| row(&server, rate, choice, arrivals);
    let on_progress = |done, all| {
        on_progress(done, all);
        ControlFlow::Continue(())
    };
    jobs::all(&jobs, work, on_progress).into_iter().collect()
}

/// V5: what the curves say.
pub(super) fn claim(rows: &[PolicyRow]) -> Claim {
    let of = |kind: &'static str, rate: u32, policy: &'static str| {
        rows.iter().filter(move |row| {
            row.kind == kind && row.rate == rate && row.policy.starts_with(policy)
        })
    };
    let one = |kind, rate, policy, figure: fn(&PolicyRow) -> f64| {
        of(kind, rate, policy).next().map_or(f64::NAN, figure)
    };
    let transitions = |row: &PolicyRow| row.transitions_per_hour;
    let dearer: Vec<f64> = of(PI.name, CURVES_AT, "delayed-off")
        .filter_map(|row| {
            let always_on: Vec<_> = of(PI.name, CURVES_AT, "always-on").collect();
            energy_at(&always_on, row.transitions_per_hour).map(|wh| row.wh_per_day / wh)
        })
        .collect();
    let mean = dearer.iter().sum::<f64>() / dearer.len() as f64;
    let constant = one(PI.name, CURVES_AT, "always-on 10", |row| row.wh_per_day)
        / one(PI.name, CURVES_AT, "always-on 7", |row| row.wh_per_day);
    let busiest = RATES[RATES.len() - 1];
    let kinds = one(PI.name, busiest, "baseline", transitions)
        / one(STANDARD.name, busiest, "baseline", transitions);
    let saved = one(STANDARD.name, CURVES_AT, "always-on 1", |row| row.wh_per_day)
        / one(PI.name, CURVES_AT, "always-on 1", |row| row.wh_per_day);
    let figures = vec![
        // "Marginally better": less energy at as many transitions, and not by half.
        Figure::beside(
            "energy of delayed-off over always-on at as many transitions",
            mean,
            1.0..=1.5,
            0.0,
            "times",
        ),
        // From seven on, energy is that of the servers kept on: in proportion to their number.
        Figure::beside(
            "energy of ten always on over seven (a constant profile)",
            constant,
            10.0 / 7.0..=10.0 / 7.0,
            0.01,
            "times",
        ),
        Figure::beside(
            "transitions of Pis over those of tower servers, baseline, 1500/s (almost the same)",
            kinds,
            1.0..=1.0,
            0.25,
            "times",
        ),
        Figure::alone(
            "energy of tower servers over that of Pis, always-on 1, 900/s",
            saved,
            "times",
        ),
    ];
    let not = if figures[..2].iter().all(|it| it.agrees == Some(true)) { "" } else { "do not " };
    Claim::new(
        "V5",
        "a minimum of servers always on trades energy against transitions marginally better than \
         delayed switching off; constant power from seven on; as many transitions for both kinds at \
         high rates",
        figures,
        format!(
            "the policies {not}compare as published; transitions of both kinds are not almost the same with \
             the service rates of V1, by which 1500/s keep six Pis and three tower servers busy"
        ),
    )
}

/// Energy that the curve of a policy has at so many transitions, between its points on a logarithmic
/// scale of transitions; nothing outside of it.
fn energy_at(curve: &[&PolicyRow], transitions: f64) -> Option<f64> {
    let mut points: Vec<(f64, f64)> = curve
        .iter()
        .filter(|row| row.transitions_per_hour > 0.0)
        .map(|row| (row.transitions_per_hour.ln(), row.wh_per_day))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = transitions.ln();
    points.windows(2).find(|pair| pair[0].0 <= at && at <= pair[1].0).map(|pair| {
        let share = (at - pair[0].0) / (pair[1].0 - pair[0].0);
        pair[0].1 + share * (pair[1].1 - pair[0].1)
    })
}
