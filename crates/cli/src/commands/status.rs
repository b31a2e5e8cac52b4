//! `nightwatt status`: one page about a running gateway.

mod compression;
pub(crate) mod containers;
mod datagrams;
mod opening_hours;

use std::fmt::Write;

use nightwatt_gateway::status::{
    CertificateStatus, DiskStatus, HourStatus, JobStatus, LedgerStatus, MachineStatus, MeterStatus,
    MirrorStatus, PoolStatus, ServerStatus, ShadowStatus, SiteStatus, Status, TcpStatus,
    TimeZoneStatus, TlsStatus,
};

use crate::ExitStatus;
use crate::args::GatewayArgs;
use crate::commands::{Group, Listed, mirror};
use crate::control;
use crate::errors::Failure;
use crate::figures::{bytes, count, counted, energies, energy, part, provenance, saving, seconds};
use crate::output;

/// Show the state of a running gateway, and what it has saved
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Name of the site [default: all]
    pub(crate) site: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt status -c nightwatt.toml
  nightwatt status blog --socket /var/lib/nightwatt/control.sock
  nightwatt status --json | jq '.sites[] | {name, state}'";

/// Asks the gateway for its status, and shows it.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let mut status = control::status(&args.gateway)?;
    if let Some(wanted) = &args.site {
        let sites = status.sites.iter().map(|site| site.name.clone());
        let machines = status.machines.iter().map(|machine| machine.name.clone());
        let names: Vec<String> = sites.chain(machines).collect();
        status.sites.retain(|site| site.name == *wanted);
        status.machines.retain(|machine| machine.name == *wanted);
        status.tcp.retain(|service| service.on == *wanted);
        status.udp.retain(|service| service.on == *wanted);
        status.jobs.retain(|job| job.on == *wanted);
        status.containers = status.containers.and_then(|mut it| {
            it.containers.retain(|it| it.name == *wanted);
            (!it.containers.is_empty()).then_some(it)
        });
        if status.sites.is_empty() && status.machines.is_empty() {
            let there_are = names.join(", ");
            let text = format!("there is no site `{wanted}`; there are: {there_are}");
            return Err(Failure::new(text).into_usage());
        }
    }
    if args.gateway.json {
        output::print_json(&status)?;
    } else {
        output::print(&output::folded(&page(&status)))?;
    }
    Ok(ExitStatus::Success)
}

fn page(status: &Status) -> String {
    let mut text = String::new();
    if status.observe {
        text.push_str("shadow mode: servers are left alone\n\n");
    }
    if let Some(why) = status.reload.as_ref().and_then(|it| it.refused.as_ref()) {
        let _ = writeln!(text, "not reloaded, the configuration before still holds:\n{why}\n");
    }
    for (index, site) in status.sites.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        site_rows(&mut text, site);
    }
    if status.connections.refused > 0 {
        let refused = counted(status.connections.refused, "connection");
        let _ = writeln!(text, "\nrefused {refused} beyond `limits.connections_per_client`");
    }
    if let Some(disk) = &status.disk_cache {
        disk_rows(&mut text, disk);
    }
    for machine in &status.machines {
        if !text.is_empty() {
            text.push('\n');
        }
        machine_rows(&mut text, machine);
    }
    for service in &status.tcp {
        if !text.is_empty() {
            text.push('\n');
        }
        service_rows(&mut text, service);
    }
    for service in &status.udp {
        if !text.is_empty() {
            text.push('\n');
        }
        datagrams::rows(&mut text, service);
    }
    for job in &status.jobs {
        if !text.is_empty() {
            text.push('\n');
        }
        job_rows(&mut text, job);
    }
    if let Some(containers) = &status.containers {
        if !text.is_empty() {
            text.push('\n');
        }
        containers::rows(&mut text, containers);
    }
    if let Some(it) = &status.magic_packets {
        text.push('\n');
        datagrams::magic_packets_rows(&mut text, it);
    }
    if let Some(tls) = &status.tls {
        text.push('\n');
        tls_rows(&mut text, tls);
    }
    text
}

fn job_rows(text: &mut String, it: &JobStatus) {
    let now = match (it.running_for_s, it.next_in_s) {
        (Some(time), _) => format!("runs for {}", seconds(time)),
        (None, Some(time)) => format!("runs in {}", seconds(time)),
        (None, None) => "does not run in shadow mode".to_owned(),
    };
    let _ = writeln!(text, "{}: {now} (job at {}, on {})", it.name, it.at, it.on);
    let succeeded = match (it.succeeded_s_ago, it.took_s) {
        (Some(ago), Some(took)) => format!("{} ago, in {}", seconds(ago), seconds(took)),
        (Some(ago), None) => format!("{} ago", seconds(ago)),
        (None, _) => "not yet".to_owned(),
    };
    row(text, "succeeded", &succeeded);
    if let (Some(ago), Some(why)) = (it.failed_s_ago, &it.problem) {
        let times = counted(it.failures.into(), "time");
        row(text, "failed", &format!("{times} since then, last {} ago: {why}", seconds(ago)));
    }
}

fn disk_rows(text: &mut String, it: &DiskStatus) {
    let _ = writeln!(text, "\ndisk cache in {}", it.directory.display());
    let (answers, most) = (counted(it.answers, "answer"), bytes(it.max_bytes));
    row(text, "holds", &format!("{answers}, {} of {most}", bytes(it.bytes)));
    row(
        text,
        "written",
        &format!(
            "{} today, and {} of ledgers and logs; of {} a day {} are left",
            bytes(it.written_today_bytes),
            bytes(it.others_today_bytes),
            bytes(it.allowed_a_day_bytes),
            bytes(it.left_today_bytes)
        ),
    );
    if it.waiting > 0 {
        row(text, "waiting", &format!("{} that did not fit", counted(it.waiting, "answer")));
    }
    if it.spoilt + it.failed_writes > 0 {
        let spoilt = counted(it.spoilt, "damaged answer");
        let failed = counted(it.failed_writes, "failed write");
        row(text, "trouble", &format!("{spoilt}, {failed}: see the log"));
    }
}

fn tls_rows(text: &mut String, it: &TlsStatus) {
    let failed: u64 = it.failures.values().sum();
    let why: Vec<String> =
        it.failures.iter().map(|(name, n)| format!("{} {name}", count(*n))).collect();
    let why = if why.is_empty() { String::new() } else { format!(": {}", why.join(", ")) };
    let _ = writeln!(
        text,
        "tls: {}, {} failed{why}",
        counted(it.handshakes, "handshake"),
        count(failed)
    );
    row(text, "listens on", &it.listen.join(", "));
    for certificate in &it.certificates {
        row(text, "certificate", &certificate_words(certificate));
    }
}

/// Which names a certificate is for, until when it is valid, and what is wrong with it.
pub(crate) fn certificate_words(it: &CertificateStatus) -> String {
    let names = if it.names.is_empty() { "no names".to_owned() } else { it.names.join(", ") };
    let until = it.until.as_ref().map(|until| format!(", until {until}")).unwrap_or_default();
    let renewal = it.renewal.as_ref();
    let renewal = renewal.map(|it| format!(", renewed at {}", it.at_text)).unwrap_or_default();
    let problem = it.problem.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
    format!("{names}{until}{renewal} ({}){problem}", it.chain)
}

fn service_rows(text: &mut String, it: &TcpStatus) {
    let quiet = match it.quiet {
        0 => String::new(),
        some => format!(" ({} quiet)", count(some)),
    };
    let now = format!("{} open{quiet}", counted(it.open, "connection"));
    if it.on.is_empty() {
        let _ = writeln!(text, "{}: connections for no service (tcp)", it.name);
    } else {
        let held = match it.held {
            0 => String::new(),
            some => format!(", {} held until it is awake", count(some)),
        };
        let _ = writeln!(text, "{}: {now}{held} (tcp on {})", it.name, it.on);
        row(text, "listens on", &it.listen.join(", "));
    }
    if !it.sni.is_empty() {
        row(text, "names", &it.sni.join(", "));
    }
    let ended: u64 = it.outcomes.values().sum();
    let outcomes: Vec<String> =
        it.outcomes.iter().map(|(name, n)| format!("{} {name}", count(*n))).collect();
    let colon = if outcomes.is_empty() { "" } else { ": " };
    let waited = match it.waited {
        0 => String::new(),
        some => format!("; {} had to wait", count(some)),
    };
    let since = format!("{} ended{colon}{}{waited}", count(ended), outcomes.join(", "));
    row(text, "since start", &since);
    if it.received_bytes + it.sent_bytes > 0 {
        let (from, to) = (bytes(it.received_bytes), bytes(it.sent_bytes));
        row(text, "passed", &format!("{from} from clients, {to} to them"));
    }
}

fn machine_rows(text: &mut String, it: &MachineStatus) {
    let state = it.state.replace('-', " ");
    let _ = writeln!(text, "{}: {state} for {} (machine)", it.name, seconds(it.state_for_s));
    let connections = match it.connections {
        0 => String::new(),
        some => format!(", {} by tcp or udp", counted(some.into(), "connection")),
    };
    let servers = counted(it.awake_on_it.into(), "server");
    row(text, "carries", &format!("{servers} awake{connections}"));
    if let Some(reason) = &it.kept_awake_by {
        row(text, "kept awake by", reason);
    }
    opening_hours::rows(text, &it.opening_hours);
    zone_row(text, it.time_zone.as_ref());
    failing(text, it.failures, it.retry_after_s);
    last_failure(text, it.failure.as_deref());
    ledger_rows(text, &it.ledger);
    for meter in &it.meters {
        row(text, &format!("{} meter", meter.of), &meter_words(meter));
    }
}

/// By which clock its hours are.
fn zone_row(text: &mut String, zone: Option<&TimeZoneStatus>) {
    if let Some(zone) = zone {
        row(text, "time zone", &zone.to_string());
    }
}

fn failing(text: &mut String, failures: u32, retry_after_s: f64) {
    if failures == 0 {
        return;
    }
    let retry = match retry_after_s {
        pause if pause > 0.0 => format!("tried again in {} at the earliest", seconds(pause)),
        _ => "tried again for the next request".to_owned(),
    };
    row(text, "failing", &format!("{} in a row; {retry}", counted(failures.into(), "failure")));
}

/// The first line of why the last wake-up failed, shortened.
fn last_failure(text: &mut String, failure: Option<&str>) {
    const MOST: usize = 120;
    let Some(line) = failure.and_then(|it| it.lines().next()) else { return };
    match line.char_indices().nth(MOST) {
        Some((end, _)) => row(text, "last failure", &format!("{}…", &line[..end])),
        None => row(text, "last failure", line),
    }
}

fn row(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:<13} {value}");
}

fn cache(site: &SiteStatus) -> String {
    let (objects, held) = site.cache;
    let kind = match site.kind {
        Some(kind) => format!("kind = \"{}\"", kind.as_str()),
        None => "kind not set".to_owned(),
    };
    format!("{}, {}; {kind}", counted(objects as u64, "object"), bytes(held))
}

fn site_rows(text: &mut String, it: &SiteStatus) {
    let state = it.state.replace('-', " ");
    let policy = it.pool.as_ref().map_or(&it.policy, |pool| &pool.policy);
    let _ =
        writeln!(text, "{}: {state} for {} (policy {policy})", it.name, seconds(it.state_for_s));
    if let Some(pool) = &it.pool {
        pool_rows(text, pool);
    }
    if let Some(time) = it.learned_from_s {
        row(text, "learned from", &format!("{} of requests", seconds(time)));
    }
    if let Some(reason) = &it.kept_awake_by {
        row(text, "kept awake by", reason);
    }
    for probe in it.in_use.iter().filter(|it| it.state == "ignored") {
        let why = probe.reason.as_deref().unwrap_or("no answer");
        row(text, "careful", &format!("the probe of use `{}` counts as idle: {why}", probe.name));
    }
    opening_hours::rows(text, &it.opening_hours);
    zone_row(text, it.time_zone.as_ref());
    failing(text, it.failures, it.retry_after_s);
    last_failure(text, it.failure.as_deref());
    if it.in_flight > 0 || it.held > 0 {
        let requests = it.in_flight.saturating_sub(it.connections);
        let connections = match it.connections {
            0 => String::new(),
            some => format!(" and {} by tcp or udp", counted(some.into(), "connection")),
        };
        let now = format!(
            "{}{connections} under way, {} held until it is awake",
            counted(requests.into(), "request"),
            count(it.held as u64)
        );
        row(text, "now", &now);
    }
    let all: u64 = it.answers.values().sum();
    let answers: Vec<String> =
        it.answers.iter().map(|(name, n)| format!("{} {name}", count(*n))).collect();
    let colon = if answers.is_empty() { "" } else { ": " };
    let requests = counted(all, "request");
    row(text, "since start", &format!("{requests}{colon}{}", answers.join(", ")));
    row(
        text,
        "delayed",
        &format!(
            "{}; {}",
            counted(it.delayed_requests, "request"),
            part(it.delayed_visits, it.visits, "visit")
        ),
    );
    row(text, "SLA", &sla(it));
    row(text, "cache", &cache(it));
    compression::rows(text, it.compression.as_ref());
    ledger_rows(text, &it.ledger);
    if let Some(mirror) = &it.mirror {
        mirror_rows(text, mirror);
    }
    for meter in &it.meters {
        row(text, &format!("{} meter", meter.of), &meter_words(meter));
    }
    if !it.hours.is_empty() {
        row(text, "hours", &hours(&it.hours));
    }
    if let Some(shadow) = &it.shadow {
        shadow_rows(text, shadow);
    }
    for server in it.pool.iter().flat_map(|pool| &pool.servers) {
        server_rows(text, server);
    }
}

/// What is used of each form of the SLA.
fn sla(it: &SiteStatus) -> String {
    let requests = it.sla.map(|(seen, delayed)| {
        format!("{} in its window had to wait", part(delayed, seen, "request"))
    });
    let visits = it.sla_visits_today.map(|(today, most)| {
        format!("{} had to wait today, and {most} a day may", counted(today, "visit"))
    });
    // The others are in use above.
    let longest = it.sla_forms.iter().find(|form| form.starts_with("it sleeps only"));
    let longest = longest.map(|form| {
        let expected = seconds(it.wake_time_s);
        format!("{form} (expected: {expected})")
    });
    let all: Vec<String> = requests.into_iter().chain(visits).chain(longest).collect();
    if all.is_empty() { "none".to_owned() } else { all.join("; ") }
}

fn mirror_rows(text: &mut String, it: &MirrorStatus) {
    row(text, "mirror", &mirror::summary(it));
    row(text, "for mirror", &mirror::own_use(it));
}

fn pool_rows(text: &mut String, pool: &PoolStatus) {
    let starting = match pool.starting {
        0 => String::new(),
        some => format!(", {some} starting"),
    };
    let failed = match pool.servers.iter().filter(|it| it.duty == "failed").count() {
        0 => String::new(),
        some => format!(", {some} failed"),
    };
    let servers = counted(pool.servers.len() as u64, "server");
    row(text, "pool", &format!("{} of {servers} on{starting}{failed}", pool.on));
    let line = format!(
        "{} wait now; since start {} waited, {} refused, {} sent again",
        counted(pool.waiting.into(), "request"),
        count(pool.waited),
        count(pool.refused),
        count(pool.resent)
    );
    row(text, "line", &line);
}

fn server_rows(text: &mut String, it: &ServerStatus) {
    let kind = if it.kind.is_empty() { String::new() } else { format!(" ({})", it.kind) };
    let _ = writeln!(
        text,
        "  {}{kind}: {}{}; {} for {}",
        it.name,
        it.duty,
        if it.held_off { " by order" } else { "" },
        it.state.replace('-', " "),
        seconds(it.state_for_s)
    );
    let mut inner = String::new();
    let tunnels = match it.tunnels {
        0 => String::new(),
        some => format!(", {} open", counted(some.into(), "tunnel")),
    };
    if it.in_flight > 0 {
        let taken = it.in_flight.saturating_sub(it.tunnels);
        row(&mut inner, "now", &format!("{taken} of {} places taken{tunnels}", it.places));
    }
    if it.failed > 0 {
        let times = counted(it.failed, "time");
        row(&mut inner, "failed", &format!("taken out of the pool {times} since the start"));
    }
    failing(&mut inner, it.failures, it.retry_after_s);
    let ledger = &it.ledger;
    let times = format!(
        "{} awake ({} busy), {} asleep; {}, {}; {}",
        seconds(ledger.awake_s),
        seconds(ledger.busy_s),
        seconds(ledger.asleep_s),
        counted(ledger.sleeps, "sleep"),
        counted(ledger.wakeups, "wake-up"),
        energy(&ledger.server)
    );
    row(&mut inner, "ledger", &times);
    for meter in &it.meters {
        row(&mut inner, &format!("{} meter", meter.of), &meter_words(meter));
    }
    for line in inner.lines() {
        let _ = writeln!(text, "  {line}");
    }
}

fn ledger_rows(text: &mut String, ledger: &LedgerStatus) {
    let unobserved = match ledger.unobserved_s {
        some if some >= 1.0 => format!(", {} unobserved (billed as awake)", seconds(some)),
        _ => String::new(),
    };
    let times = format!(
        "{}: {} awake, {} asleep{unobserved}; {}, {}",
        seconds(ledger.span_s),
        seconds(ledger.awake_s),
        seconds(ledger.asleep_s),
        counted(ledger.sleeps, "sleep"),
        counted(ledger.wakeups, "wake-up")
    );
    row(text, "ledger", &times);
    let [server, proxy, always_on] = energies([&ledger.server, &ledger.proxy, &ledger.always_on]);
    row(text, "energy", &format!("server {server} + proxy {proxy}"));
    row(text, "always on", &always_on);
    let metered = [&ledger.server_parts, &ledger.proxy_parts].iter().any(|it| it.measured_s > 0.0);
    if metered {
        row(text, "server", &provenance(&ledger.server.provenance));
        row(text, "proxy", &provenance(&ledger.proxy.provenance));
        let about = format!(
            "against a server always on, which can only be modelled: {}",
            provenance(&ledger.always_on.provenance)
        );
        row(text, "saving", &share_saved(ledger, &about));
        return;
    }
    let on_w = ledger.always_on.joules.get() / ledger.span_s;
    if on_w.is_finite() && on_w > 0.0 {
        let watts = (10.0 * on_w).round() / 10.0;
        row(text, "watts", &format!("assumes {watts} W awake (not measured)"));
    }
    row(text, "saving", &share_saved(ledger, &provenance(&ledger.server.provenance)));
}

/// `84.6 % (modelled ..)`, or that it is too early to tell.
fn share_saved(ledger: &LedgerStatus, about: &str) -> String {
    match ledger.saving {
        Some(share) => format!("{} ({about})", saving(share)),
        None if ledger.sleeps == 0 || ledger.wakeups == 0 => {
            "too early: it has not slept and woken yet".to_owned()
        }
        None => format!("too early: the ledger is too short ({about})"),
    }
}

fn meter_words(meter: &MeterStatus) -> String {
    let MeterStatus { meter: name, watts, read_s_ago, last_error, .. } = meter;
    let said = match (watts, read_s_ago) {
        (Some(watts), Some(ago)) => format!("{watts:.1} W, {} ago", seconds(*ago)),
        _ => "nothing yet".to_owned(),
    };
    let trouble = match (meter.errors, last_error) {
        (0, _) => String::new(),
        (errors, None) => format!("; {}", counted(errors, "error")),
        (errors, Some(last)) => format!("; {}, the last: {last}", counted(errors, "error")),
    };
    format!("{name}: {said}{trouble}")
}

/// How many of the last hours were measured, and which were not.
fn hours(hours: &[HourStatus]) -> String {
    let is_measured = |hour: &&HourStatus| hour.ledger.server.provenance.as_str() == "measured";
    let measured = hours.iter().filter(is_measured).count() as u64;
    let told = format!("server measured in {}", part(measured, hours.len() as u64, "hour"));
    let Some(last) = hours.iter().rfind(|hour| !is_measured(hour)) else { return told };
    let latest = hours.last().map_or(last.began_ms, |latest| latest.began_ms);
    let before = seconds((latest - last.began_ms) as f64 / 1000.0);
    let word = last.ledger.server.provenance.as_str();
    format!("{told}; the last other ({word}) began {before} before the latest")
}

fn shadow_rows(text: &mut String, shadow: &ShadowStatus) {
    let _ = writeln!(
        text,
        "  had it been let sleep, it would be {} now:",
        shadow.state.replace('-', " ")
    );
    let mut inner = String::new();
    let delayed = format!(
        "{}; {}",
        part(shadow.delayed_requests, shadow.requests, "request"),
        part(shadow.delayed_visits, shadow.visits, "visit")
    );
    row(&mut inner, "delayed", &delayed);
    ledger_rows(&mut inner, &shadow.ledger);
    for line in inner.lines() {
        let _ = writeln!(text, "  {line}");
    }
}
