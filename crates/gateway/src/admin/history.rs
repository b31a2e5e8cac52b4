//! `/api/v1/history`: the past. Power by minute, states, days, wake-ups; what `status` does not show.

use std::collections::BTreeMap;

use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::{Mono, Wall};
use nightwatt_policy::electricity::Electricity;
use nightwatt_policy::history::{DAYS, MINUTES, Minute, Money, Rates, Used};
use nightwatt_policy::ledger::Bill;
use serde::Serialize;

use super::frontier::Frontier;
use crate::dashboard_history::{Past, Wakeup};
use crate::gateway::Gateway;
use crate::machine::Machine;
use crate::site::Site;
use crate::supervisor::Supervisor;
use crate::wake_cause::WakeCause;

/// Most wake-ups in the answer.
const WAKEUPS: usize = 200;

const MINUTE_MS: i64 = 60_000;

/// The whole answer.
#[derive(Debug, Serialize)]
pub(super) struct History {
    /// The proxy's time: ms since 1970, UTC.
    now_ms: i64,
    /// Its local time minus UTC, s.
    utc_offset_s: i32,
    version: &'static str,
    started_ms: i64,
    /// Whether orders are enabled, and this client may give them.
    takes_orders: bool,
    signed_in: bool,
    sites: Vec<Story>,
    machines: Vec<Story>,
}

/// A site with its servers, or a machine.
#[derive(Debug, Serialize)]
struct Story {
    name: String,
    /// The SLA; absent if it has none.
    #[serde(rename = "promise")]
    sla: Option<StorySla>,
    currency: String,
    price: String,
    co2_g_per_kwh: f64,
    /// How far modelled energy may be off (share, 95 %).
    uncertainty: f64,
    power: Power,
    servers: Vec<States>,
    /// Oldest first.
    days: Vec<Period>,
    total: Period,
    /// Whether the total is too short for its saving to say anything.
    is_too_early: bool,
    /// Newest first.
    wakeups: Vec<Woken>,
    /// For a site with one server.
    frontier: Option<Frontier>,
}

#[derive(Debug, Serialize)]
struct StorySla {
    /// Absent if another form is given.
    share: Option<f64>,
    visits_per_day: Option<u32>,
    longest_wait_s: Option<f64>,
    delay_s: f64,
    window_s: f64,
}

/// Mean power by minute.
#[derive(Debug, Serialize)]
struct Power {
    from_ms: i64,
    step_s: u32,
    /// Power of its servers; absent for times without a running proxy.
    watts: Vec<Option<f64>>,
    proxy_watts: Vec<Option<f64>>,
    /// Share of the time that a meter of the servers covered.
    measured: Vec<f64>,
    /// Power awake and asleep, as configured.
    on_w: f64,
    off_w: f64,
}

#[derive(Debug, Serialize)]
struct States {
    server: String,
    states: Vec<State>,
}

#[derive(Debug, Serialize)]
struct State {
    since_ms: i64,
    state: &'static str,
}

/// One period of the bill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct Period {
    /// Days since 1970-01-01 in local time; 0 for the total.
    day: i64,
    span_s: f64,
    awake_s: f64,
    asleep_s: f64,
    unobserved_s: f64,
    sleeps: u64,
    wakeups: u64,
    server_j: f64,
    proxy_j: f64,
    always_on_j: f64,
    saved_j: f64,
    /// Time that a meter of the server covered.
    measured_s: f64,
    /// In the currency, at the prices of that time.
    money: f64,
    co2_kg: f64,
}

#[derive(Debug, Serialize)]
struct Woken {
    at_ms: i64,
    server: String,
    by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    /// Client and URL: only for clients that may give orders.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
}

/// A part of a site's history: the past of one server, and which of its energies count.
struct Part<'a> {
    server: &'a str,
    past: Past,
    /// The site's own part of a pool, of which only the proxy's energy counts.
    proxy_only: bool,
    states: PowerStates,
}

impl Part<'_> {
    /// A pool's own part has no sleeps.
    fn is_too_early(&self) -> bool {
        let (bill, _) = self.past.history.total();
        self.proxy_only || bill.is_too_early(&self.states)
    }
}

impl Gateway {
    /// The whole history. Addresses and URLs of clients only for clients that may give orders.
    pub(super) fn history(&self, takes_orders: bool, signed_in: bool, days: usize) -> History {
        let now = self.serving.clock.now();
        let teller =
            Teller { now: now.wall, mono: now.mono, open: signed_in, days: days.clamp(1, DAYS) };
        History {
            now_ms: now.wall.0,
            utc_offset_s: now.utc_offset,
            version: env!("CARGO_PKG_VERSION"),
            started_ms: self.started.wall.0,
            takes_orders,
            signed_in,
            sites: self.serving.sites.iter().map(|site| teller.site(site)).collect(),
            machines: self.machines.iter().map(|it| teller.machine(it, self)).collect(),
        }
    }
}

struct Teller {
    now: Wall,
    mono: Mono,
    open: bool,
    days: usize,
}

fn part(supervisor: &Supervisor, proxy_only: bool, states: PowerStates) -> Option<Part<'_>> {
    Some(Part { server: supervisor.name(), past: supervisor.past()?, proxy_only, states })
}

impl Teller {
    fn site(&self, site: &Site) -> Story {
        let own = part(&site.supervisor, site.pool.is_some(), site.power_states());
        let members = site.pool.iter().flat_map(|pool| &pool.servers);
        let members = members.filter_map(|server| {
            part(&server.supervisor, false, server.as_server().power_states())
        });
        let parts: Vec<Part<'_>> = own.into_iter().chain(members).collect();
        let states = match &site.pool {
            None => site.power_states(),
            Some(pool) => pool.servers.iter().map(|it| it.as_server().power_states()).fold(
                PowerStates { on: Watts::ZERO, off: Watts::ZERO, ..site.power_states() },
                |sum, one| PowerStates { on: sum.on + one.on, off: sum.off + one.off, ..sum },
            ),
        };
        let scenario = &site.scenario;
        let rates = Rates {
            states,
            busy: Watts::ZERO,
            proxy: site.proxy_power(),
            unsaid_proxy: true,
            electricity: scenario.electricity.clone(),
        };
        let sla = scenario.sla().map(|sla| StorySla {
            share: sla.share.map(|it| it.share),
            visits_per_day: sla.visits_per_day,
            longest_wait_s: sla.longest_wait.map(|most| most.as_secs_f64()),
            delay_s: scenario.sla.delay.as_secs_f64(),
            window_s: scenario.sla.window.as_secs_f64(),
        });
        let story = self.story(&site.name, &rates, scenario.server.uncertainty, &parts, sla);
        Story { frontier: site.frontier(self.mono), ..story }
    }

    fn machine(&self, machine: &Machine, gateway: &Gateway) -> Story {
        let states = machine.server.power_states();
        let parts: Vec<Part<'_>> = part(&machine.supervisor, false, states).into_iter().collect();
        let rates = Rates {
            states,
            busy: Watts::ZERO,
            proxy: Watts::ZERO,
            unsaid_proxy: true,
            electricity: gateway.serving.config.scenario.electricity.clone(),
        };
        self.story(&machine.name, &rates, machine.server.uncertainty, &parts, None)
    }

    fn story(
        &self,
        name: &str,
        rates: &Rates,
        uncertainty: f64,
        parts: &[Part<'_>],
        sla: Option<StorySla>,
    ) -> Story {
        let electricity = &rates.electricity;
        let (days, total) = self.periods(parts, electricity);
        Story {
            name: name.to_owned(),
            sla,
            currency: electricity.currency.clone(),
            price: electricity.price_per_kwh.to_string(),
            co2_g_per_kwh: electricity.co2_g_per_kwh,
            uncertainty,
            power: self.power(parts, &rates.states),
            servers: parts.iter().filter(|it| !it.proxy_only).map(states).collect(),
            days,
            total,
            is_too_early: parts.iter().all(Part::is_too_early),
            wakeups: self.wakeups(parts),
            frontier: None,
        }
    }

    fn power(&self, parts: &[Part<'_>], states: &PowerStates) -> Power {
        let last = self.now.0.div_euclid(MINUTE_MS);
        let first = last - MINUTES + 1;
        let mut sums = vec![(None::<f64>, None::<f64>, 0.0, 0.0); MINUTES as usize];
        for part in parts {
            for Minute { minute, seconds, measured_s, server, proxy } in
                part.past.history.minutes(self.now)
            {
                let slot = usize::try_from(minute - first).ok().and_then(|at| sums.get_mut(at));
                let Some(slot) = slot.filter(|_| seconds > 0.0) else { continue };
                if !part.proxy_only {
                    *slot.0.get_or_insert(0.0) += server.get() / seconds;
                    slot.2 += measured_s;
                    slot.3 += seconds;
                }
                *slot.1.get_or_insert(0.0) += proxy.get() / seconds;
            }
        }
        Power {
            from_ms: first * MINUTE_MS,
            step_s: 60,
            watts: sums.iter().map(|it| it.0.map(rounded)).collect(),
            proxy_watts: sums.iter().map(|it| it.1.map(rounded)).collect(),
            measured: sums
                .iter()
                .map(|it| if it.3 > 0.0 { rounded(it.2 / it.3) } else { 0.0 })
                .collect(),
            on_w: states.on.get(),
            off_w: states.off.get(),
        }
    }

    fn periods(&self, parts: &[Part<'_>], electricity: &Electricity) -> (Vec<Period>, Period) {
        let mut days: BTreeMap<i64, Period> = BTreeMap::new();
        let mut total = Period::default();
        for part in parts {
            for day in part.past.history.days() {
                let period =
                    days.entry(day.day).or_insert(Period { day: day.day, ..Period::default() });
                period.add(part, &day.bill, &day.used, &day.money, electricity);
            }
            let (bill, money) = part.past.history.total();
            let used = part.past.history.used();
            total.add(part, &bill, &used, &money, electricity);
        }
        let skipped = days.len().saturating_sub(self.days);
        (days.into_values().skip(skipped).collect(), total)
    }

    fn wakeups(&self, parts: &[Part<'_>]) -> Vec<Woken> {
        let all = parts
            .iter()
            .flat_map(|part| part.past.wakeups.iter().map(|it| self.woken(part.server, it)));
        let mut all: Vec<Woken> = all.collect();
        all.sort_by_key(|it| std::cmp::Reverse(it.at_ms));
        all.truncate(WAKEUPS);
        all
    }

    fn woken(&self, server: &str, wakeup: &Wakeup) -> Woken {
        let (mut line, mut client, mut kind) = (None, None, None);
        match &wakeup.cause {
            Some(WakeCause::Request { client: from, class, line: what, .. }) => {
                kind = Some(class.clone());
                (line, client) = (Some(what.clone()), Some(from.clone()));
            }
            Some(WakeCause::Guest { name }) => kind = Some(name.clone()),
            _ => {}
        }
        Woken {
            at_ms: wakeup.at.0,
            server: server.to_owned(),
            by: wakeup.cause.as_ref().map_or("unknown", WakeCause::as_str),
            took_s: wakeup.took.map(|took| took.as_secs_f64()),
            class: kind,
            line: line.filter(|_| self.open),
            client: client.filter(|_| self.open),
        }
    }
}

impl Period {
    fn add(
        &mut self,
        part: &Part<'_>,
        bill: &Bill,
        used: &Used,
        money: &Money,
        electricity: &Electricity,
    ) {
        let (mut used, mut money) = (*used, *money);
        if part.proxy_only {
            used = Used { proxy: used.proxy, ..Used::default() };
            money.server = 0.0;
        } else {
            self.span_s += bill.span().as_secs_f64();
            self.awake_s += bill.on.as_secs_f64();
            self.asleep_s += bill.off.as_secs_f64();
            self.unobserved_s += bill.unobserved.as_secs_f64();
            self.sleeps += bill.cycles;
            self.wakeups += bill.wakeups;
            self.measured_s += bill.server_metered.time().as_secs_f64();
        }
        self.server_j += used.server.get();
        self.proxy_j += used.proxy.get();
        self.always_on_j += used.always_on.get();
        self.saved_j += used.saved().get();
        self.money += money.saved();
        self.co2_kg += electricity.co2_kg(Joules(used.saved().get()));
    }
}

fn states(part: &Part<'_>) -> States {
    let word = |phase: Option<nightwatt_policy::lifecycle::Phase>| {
        phase.map_or("unobserved", |phase| phase.as_str())
    };
    let states =
        part.past.states.iter().map(|(at, phase)| State { since_ms: at.0, state: word(*phase) });
    States { server: part.server.to_owned(), states: states.collect() }
}

/// Rounds to hundredths: more digits of watts are of no use.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
