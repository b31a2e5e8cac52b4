//! Events: compares the present state with the previous one, and finds what needs a person.

use std::collections::BTreeMap;
use std::time::Duration;

use nightwatt_energy::time::{Mono, Now, Wall};

use crate::config::EventKind;

/// The SLA counts as broken after this time.
const BROKEN_FOR: Duration = Duration::from_mins(15);

/// Minimum number of requests for a verdict on the SLA.
const ENOUGH: u64 = 20;

/// Certificates are reported this many seconds before they expire, but not before the last quarter of their lifetime:
/// renewal begins before that.
const ENDS_SOON_S: i64 = 14 * 86_400;

/// The state at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Sites, pools and machines.
    pub(super) servers: Vec<ServerSeen>,
    pub(super) certificates: Vec<CertificateSeen>,
}

/// What kind of thing sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The server of a site, or all of its servers together.
    Site,
    /// One of several servers of a site.
    PoolServer,
    Machine,
}

impl Kind {
    const fn noun(self) -> &'static str {
        match self {
            Self::Site | Self::PoolServer => "server",
            Self::Machine => "machine",
        }
    }

    /// The consequence if it does not wake.
    const fn consequence(self) -> &'static str {
        match self {
            Self::Site => "What is in the cache is served, everything else gets 503.",
            Self::PoolServer => "The other servers of its pool do without it, as far as they can.",
            Self::Machine => "No server or service on it can be reached.",
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct ServerSeen {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) has_failed: bool,
    /// Awake, or asleep by our order; not in transition.
    pub(super) is_well: bool,
    /// Failed wake-ups in a row.
    pub(super) failures: u32,
    /// Since the start.
    pub(super) wake_loops: u64,
    pub(super) sla: Option<RequestsSeen>,
    pub(super) visits: Option<VisitsSeen>,
}

/// Requests in the window of the SLA.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestsSeen {
    pub(super) requests: u64,
    pub(super) delayed: u64,
    /// The share that may be delayed.
    pub(super) share: f64,
}

impl RequestsSeen {
    fn are_too_many(&self) -> bool {
        self.requests >= ENOUGH && self.delayed as f64 > self.share * self.requests as f64
    }
}

/// Visits that were delayed today.
#[derive(Debug, Clone, Copy)]
pub(super) struct VisitsSeen {
    pub(super) today: u64,
    /// As many as the SLA allows.
    pub(super) allowed: u32,
}

#[derive(Debug, Clone)]
pub(super) struct CertificateSeen {
    pub(super) chain: String,
    pub(super) names: Vec<String>,
    /// Its validity, in seconds since 1970.
    pub(super) validity_s: Option<(i64, i64)>,
    /// Its end, as text.
    pub(super) until: Option<String>,
    pub(super) problem: Option<String>,
}

/// Something that needs a person, or does not any more.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    pub(super) kind: EventKind,
    /// The server, site or machine; or the file of the certificate.
    pub(super) of: String,
    pub(super) at: Wall,
    /// Text for people.
    pub(super) text: String,
}

/// The previous state.
#[derive(Debug, Default)]
pub(super) struct Watch {
    servers: BTreeMap<String, Before>,
    /// The last report about each certificate, by file.
    certificates: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Before {
    has_failed: bool,
    wake_loops: u64,
    /// Since when more is delayed than allowed.
    over_since: Option<Mono>,
    is_broken: bool,
}

impl Watch {
    /// The events since the last check.
    pub(super) fn look(&mut self, seen: &Seen, now: Now) -> Vec<Event> {
        let mut events = Vec::new();
        // Forgets what is not configured any more.
        self.servers.retain(|name, _| seen.servers.iter().any(|it| it.name == *name));
        for server in &seen.servers {
            let new = || Before {
                wake_loops: server.wake_loops,
                has_failed: false,
                over_since: None,
                is_broken: false,
            };
            let before = self.servers.entry(server.name.clone()).or_insert_with(new);
            for (kind, text) in before.look(server, now.mono) {
                events.push(Event { kind, of: server.name.clone(), at: now.wall, text });
            }
        }
        self.certificates.retain(|chain, _| seen.certificates.iter().any(|it| it.chain == *chain));
        for certificate in &seen.certificates {
            let Some(text) = certificate.complaint(now.wall) else {
                self.certificates.remove(&certificate.chain);
                continue;
            };
            let told = self.certificates.insert(certificate.chain.clone(), text.clone());
            if told.as_ref() != Some(&text) {
                let of = certificate.chain.clone();
                events.push(Event { kind: EventKind::Certificate, of, at: now.wall, text });
            }
        }
        events
    }
}

impl Before {
    fn look(&mut self, server: &ServerSeen, now: Mono) -> Vec<(EventKind, String)> {
        let mut events = Vec::new();
        let (name, noun) = (&server.name, server.kind.noun());
        if server.has_failed && !self.has_failed {
            self.has_failed = true;
            let times = match server.failures {
                0 | 1 => String::new(),
                failures => format!(", {failures} times now"),
            };
            let text = format!(
                "{name}: the {noun} does not wake{times}. {} `nightwatt wake {name}` tries it by hand, \
                 `nightwatt doctor` checks every step.",
                server.kind.consequence()
            );
            events.push((EventKind::ServerFailed, text));
        } else if server.is_well && self.has_failed {
            self.has_failed = false;
            events.push((EventKind::ServerRecovered, format!("{name}: the {noun} is well again.")));
        }
        if server.wake_loops > self.wake_loops {
            let text = format!(
                "{name}: the {noun} is woken again and again without serving a request, and was left awake \
                 for a while. `nightwatt status` shows the causes."
            );
            events.push((EventKind::WakeLoop, text));
        }
        self.wake_loops = server.wake_loops;
        events.extend(self.look_at_sla(server, now));
        events
    }

    fn look_at_sla(&mut self, server: &ServerSeen, now: Mono) -> Option<(EventKind, String)> {
        let requests_over = server.sla.filter(RequestsSeen::are_too_many);
        let visits_over = server.visits.filter(|it| it.today > u64::from(it.allowed));
        let name = &server.name;
        let counts = counts(server)?;
        if requests_over.is_none() && visits_over.is_none() {
            self.over_since = None;
            let was_broken = std::mem::replace(&mut self.is_broken, false);
            let text = format!("{name}: the SLA is met again: {counts}.");
            return was_broken.then_some((EventKind::SlaKept, text));
        }
        let since = *self.over_since.get_or_insert(now);
        if self.is_broken || now.since(since) < BROKEN_FOR {
            return None;
        }
        self.is_broken = true;
        // Rounded, to hide binary fractions.
        let share = requests_over.map(|it| format!("{} %", (it.share * 1e4).round() / 100.0));
        let visits = visits_over.map(|it| format!("{} visits a day", it.allowed));
        let may_be: Vec<String> = share.into_iter().chain(visits).collect();
        let text =
            format!("{name}: the SLA is broken: {counts}, and {} may be.", may_be.join(", "));
        Some((EventKind::SlaBroken, text))
    }
}

/// What was delayed, by each form that counts.
fn counts(server: &ServerSeen) -> Option<String> {
    let requests = server.sla.map(|RequestsSeen { requests, delayed, .. }| {
        format!("{delayed} of {requests} requests in its window were delayed")
    });
    let visits = server.visits.map(|it| format!("today {} visits were delayed", it.today));
    let all: Vec<String> = requests.into_iter().chain(visits).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

impl CertificateSeen {
    /// The problem of a certificate, if any. Stays the same as long as the problem does.
    fn complaint(&self, now: Wall) -> Option<String> {
        let names = if self.names.is_empty() { &self.chain } else { &self.names.join(", ") };
        if let Some(problem) = &self.problem {
            return Some(format!("the certificate for {names}: {problem}."));
        }
        let (from, until) = self.validity_s?;
        let soon = until - ENDS_SOON_S.min((until - from) / 4);
        if now.0.div_euclid(1000) <= soon {
            return None;
        }
        let day = self.until.as_deref().unwrap_or("soon");
        Some(format!("the certificate for {names} ends on {day}, and was not renewed."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ServerSeen {
        ServerSeen {
            name: "blog".to_owned(),
            kind: Kind::Site,
            has_failed: false,
            is_well: true,
            failures: 0,
            wake_loops: 0,
            sla: None,
            visits: None,
        }
    }

    fn at(minute: u64) -> Now {
        let wall = i64::try_from(minute * 60).unwrap();
        Now { mono: Mono::from_secs(minute * 60), wall: Wall::from_secs(wall), utc_offset: 0 }
    }

    fn kinds(watch: &mut Watch, server: ServerSeen, minute: u64) -> Vec<EventKind> {
        let seen = Seen { servers: vec![server], certificates: Vec::new() };
        watch.look(&seen, at(minute)).into_iter().map(|event| event.kind).collect()
    }

    #[test]
    fn a_failure_is_told_once_and_so_is_its_end() {
        let mut watch = Watch::default();
        let failed = || ServerSeen { has_failed: true, is_well: false, failures: 2, ..server() };
        let waking = || ServerSeen { is_well: false, failures: 2, ..server() };
        assert_eq!(kinds(&mut watch, server(), 0), []);
        assert_eq!(kinds(&mut watch, failed(), 1), [EventKind::ServerFailed]);
        assert_eq!(kinds(&mut watch, failed(), 2), []);
        // It is retried, and fails again: that is the same failure.
        assert_eq!(kinds(&mut watch, waking(), 3), []);
        assert_eq!(kinds(&mut watch, failed(), 4), []);
        assert_eq!(kinds(&mut watch, server(), 5), [EventKind::ServerRecovered]);
        assert_eq!(kinds(&mut watch, server(), 6), []);
        assert_eq!(kinds(&mut watch, failed(), 7), [EventKind::ServerFailed]);
    }

    #[test]
    fn what_comes_of_a_failure_is_told_as_it_is_of_a_site_a_server_of_a_pool_and_a_machine() {
        let told = |kind| {
            let failed = ServerSeen { kind, has_failed: true, is_well: false, ..server() };
            let looped = ServerSeen { kind, wake_loops: 1, ..server() };
            let (mut watch, mut texts) = (Watch::default(), Vec::new());
            for (minute, server) in
                [failed, ServerSeen { kind, ..server() }, looped].into_iter().enumerate()
            {
                let seen = Seen { servers: vec![server], certificates: Vec::new() };
                let events = watch.look(&seen, at(minute as u64));
                texts.extend(events.into_iter().map(|event| event.text));
            }
            texts
        };
        let of = |noun: &str, consequence: &str| {
            [
                format!(
                    "blog: the {noun} does not wake. {consequence} `nightwatt wake blog` tries it by hand, \
                     `nightwatt doctor` checks every step."
                ),
                format!("blog: the {noun} is well again."),
                format!(
                    "blog: the {noun} is woken again and again without serving a request, and was left \
                     awake for a while. `nightwatt status` shows the causes."
                ),
            ]
        };
        let site = "What is in the cache is served, everything else gets 503.";
        assert_eq!(told(Kind::Site), of("server", site));
        let one = "The other servers of its pool do without it, as far as they can.";
        assert_eq!(told(Kind::PoolServer), of("server", one));
        let machine = "No server or service on it can be reached.";
        assert_eq!(told(Kind::Machine), of("machine", machine));
    }

    #[test]
    fn loops_from_before_the_first_look_are_no_news() {
        let mut watch = Watch::default();
        let looped = |wake_loops| ServerSeen { wake_loops, ..server() };
        assert_eq!(kinds(&mut watch, looped(3), 0), []);
        assert_eq!(kinds(&mut watch, looped(4), 1), [EventKind::WakeLoop]);
        assert_eq!(kinds(&mut watch, looped(4), 2), []);
    }

    #[test]
    fn an_sla_is_broken_by_a_share_of_enough_requests_for_a_quarter_of_an_hour() {
        let mut watch = Watch::default();
        let sla = |requests, delayed| ServerSeen {
            sla: Some(RequestsSeen { requests, delayed, share: 0.1 }),
            ..server()
        };
        // Of 19 all; then 10 of 100, which is allowed.
        assert_eq!(kinds(&mut watch, sla(19, 19), 0), []);
        assert_eq!(kinds(&mut watch, sla(19, 19), 20), []);
        assert_eq!(kinds(&mut watch, sla(100, 10), 21), []);
        assert_eq!(kinds(&mut watch, sla(100, 11), 22), []);
        assert_eq!(kinds(&mut watch, sla(100, 11), 36), []);
        assert_eq!(kinds(&mut watch, sla(100, 11), 37), [EventKind::SlaBroken]);
        assert_eq!(kinds(&mut watch, sla(100, 12), 60), []);
        assert_eq!(kinds(&mut watch, sla(200, 12), 61), [EventKind::SlaKept]);
        // An SLA that is broken only now and then does not count.
        assert_eq!(kinds(&mut watch, sla(100, 11), 62), []);
        assert_eq!(kinds(&mut watch, sla(100, 10), 70), []);
        assert_eq!(kinds(&mut watch, sla(100, 11), 78), []);
    }

    #[test]
    fn an_sla_is_broken_by_more_visits_than_may_wait_in_a_day() {
        let mut watch = Watch::default();
        let visits =
            |today| ServerSeen { visits: Some(VisitsSeen { today, allowed: 3 }), ..server() };
        assert_eq!(kinds(&mut watch, visits(3), 0), []);
        assert_eq!(kinds(&mut watch, visits(4), 1), []);
        assert_eq!(kinds(&mut watch, visits(4), 16), [EventKind::SlaBroken]);
        assert_eq!(kinds(&mut watch, visits(0), 17), [EventKind::SlaKept], "the next day");
    }

    #[test]
    fn a_certificate_is_told_of_two_weeks_before_its_end_and_again_when_clients_refuse_it() {
        let mut watch = Watch::default();
        let day = 86_400;
        let mut look = |problem: Option<&str>, (from, ends): (i64, i64), now: i64| {
            let certificate = CertificateSeen {
                chain: "/c.pem".to_owned(),
                names: vec!["blog.example".to_owned()],
                validity_s: Some((from, ends)),
                until: Some("some day".to_owned()),
                problem: problem.map(str::to_owned),
            };
            let seen = Seen { servers: Vec::new(), certificates: vec![certificate] };
            let now = Now { mono: Mono::ZERO, wall: Wall::from_secs(now), utc_offset: 0 };
            watch.look(&seen, now).len()
        };
        let (first, next) = ((0, 90 * day), (60 * day, 150 * day));
        assert_eq!(look(None, first, 0), 0);
        assert_eq!(look(None, first, 76 * day), 0);
        assert_eq!(look(None, first, 76 * day + 1), 1);
        assert_eq!(look(None, first, 80 * day), 0);
        assert_eq!(look(Some("it is over"), first, 91 * day), 1);
        assert_eq!(look(None, next, 92 * day), 0);
        assert_eq!(look(None, next, 140 * day), 1, "the next one is news again");
        // One of six days is renewed with two of them left.
        let short = (200 * day, 206 * day);
        assert_eq!(look(None, short, 204 * day), 0);
        assert_eq!(look(None, short, 205 * day), 1);
    }
}
