//! Collects what `nightwatt status` shows.

mod overview;
mod pool;
mod tcp;
mod udp;

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_energy::energy::Energy;
use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_policy::hours::HoursEnd;
use nightwatt_policy::ledger::{Bill, Hour, Metered, Part};
use nightwatt_policy::manager::SleepBlocker;
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sla::Broken;

use crate::access_log::Answered;
use crate::gateway::Gateway;
use crate::machine::Machine;
use crate::magic_packets::tally::Listening;
use crate::metering::Feed;
use crate::shadow::WouldDelay;
use crate::site::Site;
use crate::status::{
    ConnectionsStatus, HourStatus, InUseStatus, JobStatus, LedgerStatus, MachineStatus,
    MagicPacketsStatus, MeterStatus, OpeningHoursStatus, Parts, ShadowStatus, SiteStatus, Status,
    TimeZoneStatus,
};
use crate::supervisor::SupervisorStatus;

impl Gateway {
    /// State of a site's server, by the site's index in the configuration: cheap, for progress displays.
    pub fn state_of(&self, site: usize) -> &'static str {
        self.serving.sites.get(site).map_or("unknown", |site| site.supervisor.phase_now().as_str())
    }

    /// The status of everything.
    pub fn status(&self) -> Status {
        Status {
            observe: self.serving.observe,
            sites: self.serving.sites.iter().map(|it| self.site_status(it)).collect(),
            machines: self.machines.iter().map(|it| self.machine_status(it)).collect(),
            disk_cache: self.disk.as_ref().map(|disk| disk.status()),
            tcp: self.services_status(),
            udp: self.datagrams_status(),
            jobs: self.jobs_status(),
            containers: self.found.status(&self.serving.config, self.serving.clock.now()),
            magic_packets: self.magic_packets_status(),
            reload: self.last_reload(),
            tls: self.front.tls.as_ref().map(|tls| tls.status(self.serving.clock.now())),
            connections: {
                let (open, accepted, refused) = self.serving.connections.counts();
                ConnectionsStatus { open, accepted, refused }
            },
        }
    }

    fn magic_packets_status(&self) -> Option<MagicPacketsStatus> {
        self.serving.config.magic_packets.as_ref()?;
        let Listening { addresses, problem } = self.magic_packets.listening();
        let counts = self.magic_packets.counts().filter(|it| it.1 > 0);
        Some(MagicPacketsStatus {
            listen: addresses,
            outcomes: counts.map(|(outcome, count)| (outcome.to_owned(), count)).collect(),
            problem,
        })
    }

    /// The status of all jobs.
    pub(crate) fn jobs_status(&self) -> Vec<JobStatus> {
        let config = &self.serving.config;
        let now = self.serving.clock.now();
        config.job.iter().map(|it| self.jobs.status(it, &config.state_dir, now)).collect()
    }

    /// The status of a site.
    pub(crate) fn site_status(&self, site: &Site) -> SiteStatus {
        SiteStatus {
            time_zone: self.zone_of(&site.scenario),
            ..site.status(self.passed_through_to(&site.name))
        }
    }

    /// The status of a machine.
    pub(crate) fn machine_status(&self, machine: &Machine) -> MachineStatus {
        MachineStatus {
            time_zone: self.zone_of(&self.serving.config.scenario),
            ..machine.status(self.passed_through_to(&machine.name))
        }
    }

    /// The time zone, if a scenario has hours.
    fn zone_of(&self, scenario: &Scenario) -> Option<TimeZoneStatus> {
        scenario.has_hours().then(|| TimeZoneStatus::of(&self.serving.clock))
    }
}

impl Site {
    fn status(&self, connections: u32) -> SiteStatus {
        let server = self.supervisor.status();
        let shadow = self.shadow.as_ref().map(|shadow| (shadow, shadow.supervisor.status()));
        // In shadow mode, the shadow's policy learns.
        let learned_from = shadow.as_ref().map_or(&server, |(_, shadow)| shadow).learned_from;
        let counters = &self.counters;
        let answers = Answered::ALL.map(|it| (it.as_str(), counters.requests.answered(it)));
        let given = answers.into_iter().filter(|(_, count)| *count > 0);
        let (visits, delayed_visits) = {
            let visits = counters.visits.lock().unwrap_or_else(PoisonError::into_inner);
            (visits.visits(), visits.delayed())
        };
        SiteStatus {
            name: self.name.to_string(),
            kind: self.config.kind,
            state: server.phase.as_str().to_owned(),
            state_for_s: server.in_phase.as_secs_f64(),
            kept_awake_by: self.used(&server).or_else(|| kept_awake_by(&server, connections)),
            in_use: self.in_use_status(),
            opening_hours: OpeningHoursStatus::of(server.awake_hours, server.never_sleep_end),
            time_zone: None,
            failures: server.failures,
            failure: last_failure(&server),
            retry_after_s: server.blocked_for.as_secs_f64(),
            wake_time_s: server.wake_time.as_secs_f64(),
            wake_loops: server.wake_loops,
            in_flight: server.in_flight.saturating_sub(server.background),
            connections,
            held: server.held,
            policy: self.scenario.policy.to_string(),
            learned_from_s: learned_from.map(|time| time.as_secs_f64()),
            answers: given.map(|(name, count)| (name.to_owned(), count)).collect(),
            delayed_requests: counters.delayed.load(Ordering::Relaxed),
            visits,
            delayed_visits,
            sla: server.sla.requests,
            sla_visits_today: server.sla.visits_today.zip(self.scenario.sla.visits_per_day),
            sla_forms: self.scenario.sla.in_words(),
            cache: self.store.size(),
            ledger: self.whole_ledger(&server.memory.bill, |it| it.supervisor.status().memory.bill),
            meters: self.meters(server.now),
            // In a pool, each server has its own.
            hours: match self.pool {
                None => server.hours.iter().map(|hour| self.hour(hour)).collect(),
                Some(_) => Vec::new(),
            },
            pool: self.pool.as_ref().map(|pool| pool.report(self.pool_policy())),
            compression: self.compressor.as_ref().map(|it| it.tally.status()),
            mirror: self.mirror.as_ref().map(|mirror| mirror.status()),
            shadow: shadow.map(|(shadow, status)| {
                let WouldDelay { requests, delayed_requests, visits, delayed_visits } =
                    shadow.would_delay();
                let ledger = self.ledger(&status.memory.bill);
                let state = status.phase.as_str().to_owned();
                ShadowStatus { state, ledger, requests, delayed_requests, visits, delayed_visits }
            }),
        }
    }

    /// A bill of its server as figures.
    pub(crate) fn ledger(&self, bill: &Bill) -> LedgerStatus {
        let [server, proxy] = &self.meters;
        let basis = Basis {
            states: self.power_states(),
            busy: Watts::ZERO,
            uncertainty: self.scenario.server.uncertainty,
            proxy: self.proxy_power(),
            meters: [server.as_ref(), proxy.as_ref()],
        };
        basis.ledger(bill)
    }

    /// Use past the proxy that keeps its server awake, in words.
    fn used(&self, server: &SupervisorStatus) -> Option<String> {
        let Some(SleepBlocker::InUse(used)) = server.sleep_blocker else { return None };
        self.in_use.as_ref()?.words(used)
    }

    fn in_use_status(&self) -> Vec<InUseStatus> {
        let standings = self.supervisor.standings();
        self.in_use.as_ref().map_or_else(Vec::new, |probes| probes.status(&standings))
    }

    fn hour(&self, hour: &Hour) -> HourStatus {
        HourStatus { began_ms: hour.began.0, ledger: self.ledger(&hour.bill) }
    }

    fn meters(&self, now: Mono) -> Vec<MeterStatus> {
        let of = |(part, feed): (Part, &Option<Feed>)| Some(feed.as_ref()?.status(part, now));
        [Part::Server, Part::Proxy].into_iter().zip(&self.meters).filter_map(of).collect()
    }
}

impl Machine {
    fn status(&self, connections: u32) -> MachineStatus {
        let machine = self.supervisor.status();
        let basis = Basis {
            states: self.server.power_states(),
            busy: Watts::ZERO,
            uncertainty: self.server.uncertainty,
            proxy: self.proxy,
            meters: [self.meter.as_ref(), None],
        };
        let meters = self.meter.as_ref().map(|feed| feed.status(Part::Server, machine.now));
        MachineStatus {
            name: self.name.to_string(),
            state: machine.phase.as_str().to_owned(),
            state_for_s: machine.in_phase.as_secs_f64(),
            awake_on_it: machine.in_flight.saturating_sub(connections),
            connections,
            // What is awake on it is reported already.
            kept_awake_by: kept_awake_by(&machine, connections)
                .filter(|_| machine.in_flight <= connections),
            opening_hours: OpeningHoursStatus::of(machine.awake_hours, machine.never_sleep_end),
            time_zone: None,
            failures: machine.failures,
            failure: last_failure(&machine),
            retry_after_s: machine.blocked_for.as_secs_f64(),
            wake_time_s: machine.wake_time.as_secs_f64(),
            wake_loops: machine.wake_loops,
            ledger: basis.ledger(&machine.memory.bill),
            meters: meters.into_iter().collect(),
        }
    }
}

/// Converts the times and counts of a bill into joules.
struct Basis<'a> {
    states: PowerStates,
    /// Additional power while it has requests.
    busy: Watts,
    /// The uncertainty.
    uncertainty: f64,
    proxy: Watts,
    /// Of the server, of the proxy.
    meters: [Option<&'a Feed>; 2],
}

impl Basis<'_> {
    fn ledger(&self, bill: &Bill) -> LedgerStatus {
        let modelled =
            |joules| Energy::modelled(joules, self.uncertainty, "power states of the scenario");
        let [of_server, of_proxy] = self.meters;
        let span = bill.span();
        let busy = self.busy * bill.uncovered_busy();
        let server = modelled(bill.server_modelled(&self.states) + busy);
        let (server, server_parts) = whole(&bill.server_metered, of_server, span, &server);
        let proxy = modelled(bill.proxy_modelled(self.proxy));
        let (proxy, proxy_parts) = whole(&bill.proxy_metered, of_proxy, bill.proxy_time(), &proxy);
        LedgerStatus {
            span_s: bill.span().as_secs_f64(),
            awake_s: bill.on.as_secs_f64(),
            asleep_s: bill.off.as_secs_f64(),
            unobserved_s: bill.unobserved.as_secs_f64(),
            busy_s: bill.busy.as_secs_f64(),
            sleeps: bill.cycles,
            wakeups: bill.wakeups,
            server,
            server_parts,
            proxy,
            proxy_parts,
            always_on: modelled(bill.always_on(&self.states) + self.busy * bill.busy),
            saving: (!bill.is_too_early(&self.states))
                .then(|| bill.saving(&self.states, self.proxy)),
        }
    }
}

/// Sums up the measured and the modelled part of a time.
fn whole(
    metered: &Metered,
    meter: Option<&Feed>,
    span: Duration,
    modelled: &Energy,
) -> (Energy, Parts) {
    let name = meter.map_or_else(|| "a meter that is gone".to_owned(), Feed::name);
    let measured = Energy::measured(metered.joules, metered.uncertainty, name);
    let covered = metered.time().as_secs_f64();
    let share = if span.is_zero() { 0.0 } else { covered / span.as_secs_f64() };
    let parts = Parts {
        measured_j: measured.joules.get(),
        measured_uncertainty_j: measured.uncertainty.get(),
        measured_s: covered,
        modelled_j: modelled.joules.get(),
        modelled_uncertainty_j: modelled.uncertainty.get(),
    };
    (Energy::together(&measured, modelled, share), parts)
}

/// Why the last wake-up failed, if it did.
fn last_failure(server: &SupervisorStatus) -> Option<String> {
    server.failure.clone().filter(|_| server.failures > 0)
}

fn kept_awake_by(server: &SupervisorStatus, connections: u32) -> Option<String> {
    let left = |then: Mono| in_seconds(then.since(server.now));
    Some(match server.sleep_blocker? {
        SleepBlocker::NotAwake => return None,
        SleepBlocker::InFlight(_)
            if server.background > 0 && server.in_flight == server.background =>
        {
            "copies of pages that are confirmed before it sleeps".to_owned()
        }
        SleepBlocker::InFlight(count) => {
            let of = |count: u32, what: &str| {
                let s = if count == 1 { "" } else { "s" };
                (count > 0).then(|| format!("{count} {what}{s}"))
            };
            let requests = of(count.saturating_sub(connections), "request");
            let parts = [requests, of(connections.min(count), "connection")];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("{} under way", parts.join(" and "))
        }
        SleepBlocker::SleepFailed(then) => {
            format!("a sleep command that failed; tried again in {}", left(then))
        }
        SleepBlocker::WokenByOthers(then) => {
            format!("a wake-up that nightwatt did not cause, for another {}", left(then))
        }
        SleepBlocker::StayAwake(then) => format!("`stay-awake`, for another {}", left(then)),
        SleepBlocker::Appointment(then) => {
            format!("an appointment with a crawler, for another {}", left(then))
        }
        SleepBlocker::MinOn(then) => {
            format!("the minimum time awake (`min_on`), for another {}", left(then))
        }
        SleepBlocker::Quiet(then) => {
            format!("the time after a request (`quiet`), for another {}", left(then))
        }
        SleepBlocker::Declined(then) => {
            let reasons = server.inhibited_by.as_deref().unwrap_or("reasons of its own");
            format!("the server itself: {reasons}; asked again in {}", left(then))
        }
        SleepBlocker::WakeLoop(then) => {
            format!(
                "a wake loop: woken again and again without serving a request; for {}",
                left(then)
            )
        }
        // The manager looks only as far ahead as it needs to.
        SleepBlocker::Hours(then) => {
            let time = hours_left(server.never_sleep_end, then.since(server.now));
            format!("hours in which it must not sleep (`never_sleep`), {time}")
        }
        SleepBlocker::AwakeHours(then) => {
            let time = hours_left(server.awake_hours.end, then.since(server.now));
            format!("hours in which it must be awake (`awake`), {time}")
        }
        SleepBlocker::InUse(_) => "use past the proxy".to_owned(),
        SleepBlocker::Sla(broken) => forbidden_by(broken),
    })
}

/// In whole seconds, rounded up.
fn in_seconds(time: Duration) -> String {
    duration_text::format(Duration::from_secs_f64(time.as_secs_f64().ceil()))
}

/// For how long hours keep a server awake.
fn hours_left(end: Option<HoursEnd>, otherwise: Duration) -> String {
    match end.unwrap_or(HoursEnd::In(otherwise)) {
        HoursEnd::In(left) => format!("for another {}", in_seconds(left)),
        HoursEnd::Never => "always".to_owned(),
    }
}

fn forbidden_by(broken: Broken) -> String {
    match broken {
        Broken::Share => "the SLA, which leaves no room for another delay".to_owned(),
        Broken::Visits { today, most } => format!(
            "the SLA: {today} of the {most} visits that may wait today have waited, and another sleep would delay too \
             many; until midnight"
        ),
        Broken::LongestWait { expected, most } => format!(
            "the SLA: waking is expected to last {}, and `longest_wait` is {}",
            duration_text::format(expected),
            duration_text::format(most)
        ),
    }
}
