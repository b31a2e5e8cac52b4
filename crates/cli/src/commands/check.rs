//! `nightwatt check`: what a configuration means.

mod access;
mod answers;
mod containers;
mod gate;
mod json;
mod measured;
mod pool;
mod services;
mod sla;
mod udp;

use std::fmt::Write;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_doctor::proxy::Target;
use nightwatt_energy::civil::Date;
use nightwatt_gateway::config::{
    DiskConfig, MachineConfig, MeterConfig, MirrorUrl, SiteConfig, SiteKind, TlsConfig,
    WebhookConfig,
};
use nightwatt_gateway::status::{CertificateStatus, TimeZoneStatus};
use nightwatt_gateway::tls::look_over;
use nightwatt_gateway::webhooks;
use nightwatt_gateway::{Config, Gateway, StartError};
use nightwatt_policy::electricity::Electricity;
use nightwatt_policy::scenario::{CacheRule, Scenario, Server};
use nightwatt_power::{ControllerConfig, DRIVERS, DriverConfig, probe};
use nightwatt_report::figures::rounded;

use self::measured::WakeTimes;
use crate::ExitStatus;
use crate::args::ConfigArgs;
use crate::commands::status::certificate_words;
use crate::commands::{Group, Listed};
use crate::control;
use crate::errors::Failure;
use crate::figures::{counted, percent, time};
use crate::output;

/// Check a configuration and explain it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Check);

const EXAMPLES: &str = "Examples:
  nightwatt check -c nightwatt.toml
  nightwatt check -c nightwatt.toml && systemctl restart nightwatt

Exit status: 0 if it can be used, 2 if not.";

/// Reads the configuration and explains it. Programs get an object also for one that cannot be used.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let explained = explain(args);
    if let Err(failure) = &explained
        && args.json
    {
        output::print_json(&json::unusable(failure))?;
    }
    explained
}

fn explain(args: &Args) -> Result<ExitStatus, Failure> {
    let config = control::load(&args.config)?;
    let files = Gateway::look_over(&config, &Clock::real());
    // A user without permission to read a certificate can still check a configuration: a row below reports it.
    if let Some(error) = files.iter().find(|error| !error.is_of_this_user()) {
        return Err(Failure::usage(error).maybe_hint(error.hint()));
    }
    let risks = Gateway::risks(&config);
    if args.json {
        let careful: Vec<String> = files.iter().map(ToString::to_string).chain(risks).collect();
        output::print_json(&json::whole(&config, &careful))?;
    } else {
        // Certificates and webhooks have rows of their own.
        let told =
            |it: &&StartError| !matches!(it, StartError::Certificate(_) | StartError::Webhook(_));
        let files = files.iter().filter(told).map(ToString::to_string);
        let careful: Vec<String> = files.chain(risks).collect();
        let text = page(&args.config.config.display().to_string(), &config, &careful);
        output::print(&output::folded(&text))?;
    }
    Ok(ExitStatus::Success)
}

/// The whole text. Warnings about files and the whole configuration (`careful`) come before the first machine or site.
pub(super) fn page(name: &str, config: &Config, careful: &[String]) -> String {
    let mut text = format!("{name} is good: {}\n\n", counts(config));
    let listen: Vec<String> = config.listen.iter().map(ToString::to_string).collect();
    if !listen.is_empty() {
        row(&mut text, "listens on", &listen.join(", "));
    }
    if let Some(tls) = &config.tls {
        let listen: Vec<String> = tls.listen.iter().map(ToString::to_string).collect();
        row(&mut text, "by TLS on", &listen.join(", "));
        for certificate in certificates(tls) {
            let name = if certificate.problem.is_some() { "careful" } else { "certificate" };
            row(&mut text, name, &certificate_words(&certificate));
        }
        if let Some(dns) = tls.acme.as_ref().and_then(|acme| acme.dns.as_ref()) {
            row(&mut text, "proofs", &services::dns_words(dns));
        }
    }
    row(&mut text, "state", &config.state_dir.display().to_string());
    row(&mut text, "control", &config.control_socket().display().to_string());
    if let Some(admin) = &config.admin {
        let orders = match &admin.password_file {
            Some(file) => format!("orders with the password in {}", file.display()),
            None => "no orders: there is no `admin.password_file`".to_owned(),
        };
        row(&mut text, "admin", &format!("{} (dashboard; {orders})", admin.listen));
    }
    if let Some(found) = containers::look(config) {
        containers::rows(&mut text, &found);
    }
    if let Some(gate) = &config.gate {
        row(&mut text, "gate", &gate::words(config, gate));
    }
    if let Some(it) = &config.magic_packets {
        row(&mut text, "magic packets", &services::magic_packets_words(config, it));
    }
    if let Some(meter) = &config.meter {
        row(&mut text, "meter", &meter_words(meter));
    }
    if let Some(log) = &config.access_log {
        row(&mut text, "access log", &log.display().to_string());
    }
    if let Some(disk) = &config.cache.disk {
        row(&mut text, "disk cache", &disk_words(config, disk));
    }
    for webhook in &config.webhook {
        match webhooks::look_over(webhook) {
            Ok(()) => row(&mut text, "webhook", &webhook.shown()),
            Err(error) => row(&mut text, "careful", &error.to_string()),
        }
    }
    job_rows(&mut text, config);
    for what in careful {
        row(&mut text, "careful", what);
    }
    for machine in &config.machine {
        let _ = writeln!(text, "\nmachine {}", machine.name);
        machine_rows(&mut text, config, machine);
    }
    for site in &config.site {
        let _ = writeln!(text, "\nsite {}", site.name);
        site_rows(&mut text, config, site);
    }
    services_text(&mut text, config);
    text
}

fn job_rows(text: &mut String, config: &Config) {
    for job in &config.job {
        let command = job.command.join(" ");
        let words = format!("{} at {}, on {}: `{command}`", job.name, job.at.shown(), job.on);
        row(text, "job", &words);
    }
}

/// What is passed through.
fn services_text(text: &mut String, config: &Config) {
    for tcp in &config.tcp {
        let _ = writeln!(text, "\ntcp {}", tcp.name);
        services::rows(text, config, tcp);
    }
    for udp in &config.udp {
        let _ = writeln!(text, "\nudp {}", udp.name);
        udp::rows(text, config, udp);
    }
}

/// What the first line counts.
fn counts(config: &Config) -> String {
    let services = |all: usize, by: &str| match all {
        0 => String::new(),
        some => format!(" and {} by {by}", counted(some as u64, "service")),
    };
    let sites = counted(config.site.len() as u64, "site");
    let packets = match &config.magic_packets {
        Some(_) if config.site.is_empty() => {
            let servers = counted(config.packet_servers().count() as u64, "server");
            format!(" and magic packets for {servers}")
        }
        _ => String::new(),
    };
    let (tcp, udp) = (services(config.tcp.len(), "TCP"), services(config.udp.len(), "UDP"));
    format!("{sites}{tcp}{udp}{packets}")
}

fn disk_words(config: &Config, disk: &DiskConfig) -> String {
    format!(
        "{}: {} MB, answers up to {} kB each; no more once the proxy has written {} MB in a day",
        disk.folder(&config.state_dir).display(),
        disk.size_mb,
        disk.largest() >> 10,
        disk.write_mb_per_day
    )
}

/// The webhooks that can be notified, without their secrets. The others are among the risks.
fn usable_webhooks(config: &Config) -> Vec<String> {
    let usable = config.webhook.iter().filter(|it| webhooks::look_over(it).is_ok());
    usable.map(WebhookConfig::shown).collect()
}

fn certificates(tls: &TlsConfig) -> Vec<CertificateStatus> {
    look_over(&tls.certificate, Clock::real().now().wall)
}

fn row(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:<12} {value}");
}

fn machine_rows(text: &mut String, config: &Config, machine: &MachineConfig) {
    on(text, machine.on.as_deref());
    drivers(text, &machine.power);
    row(text, "awake if", &probed(&machine.probe));
    row(text, "sleeps", &format!("{} after the last server on it", time(machine.linger)));
    row(text, "power", &draws(config.server_of(machine)));
    if let Some(meter) = &machine.meter {
        row(text, "meter", &meter_words(meter));
    }
    let measured = measured::read(&config.state_dir, &machine.name);
    if let Some(measured) = &measured {
        row(text, "measured", &measured.in_words());
    }
    for risk in machine_risks(config, machine, measured) {
        row(text, "careful", &risk);
    }
}

/// Settings that may surprise, as [`risks`] for a site.
fn machine_risks(
    config: &Config,
    machine: &MachineConfig,
    measured: Option<WakeTimes>,
) -> Vec<String> {
    let slower = measured.and_then(|it| it.complaint(config.server_of(machine).wake_time));
    machine.power.risks(Some(&machine.probe)).into_iter().chain(slower).collect()
}

fn site_rows(text: &mut String, config: &Config, site: &SiteConfig) {
    let scenario = config.scenario_of(site);
    let Scenario { server, proxy, sla, cache, policy, .. } = &*scenario;
    let hosts = if site.hosts.is_empty() {
        "every host that no other site has".to_owned()
    } else {
        site.hosts.join(", ")
    };
    row(text, "hosts", &hosts);
    if site.server.is_empty() {
        row(text, "origin", &site.origin.to_string());
        on(text, site.on.as_deref());
        controller(text, site.power.as_ref());
        row(text, "awake if", &awake_if(site));
        row(text, "policy", &policy.to_string());
        let power = match &site.on {
            Some(machine) if site.is_on_machines_bill() => {
                format!("that of the machine {machine}, which is on its bill")
            }
            _ => draws(server),
        };
        row(text, "power", &format!("{power}; proxy {} W", proxy.power_w));
    } else {
        pool::rows(text, site, &scenario);
    }
    if let Some(meter) = &site.meter {
        row(text, "meter", &meter_words(meter));
    }
    row(text, "break-even", &break_even(&scenario));
    row(text, "electricity", &electricity(&scenario.electricity));
    let times = format!(
        "wakes in {}, sleeps in {}; awake at least {} after waking and {} after a request",
        time(server.wake_time),
        time(server.sleep_time),
        time(server.min_on),
        time(server.quiet)
    );
    row(text, "times", &times);
    if let Some(measured) = wake_times(config, site) {
        row(text, "measured", &measured.in_words());
    }
    hours_rows(text, &scenario);
    access::row_of(text, config, site);
    answers::rows(text, site);
    row(text, "SLA", &sla::in_words(site.kind, sla));
    row(text, "wake-ups", &wake_budgets(site));
    let rules = site.cache_rules(&scenario);
    row(text, "kind", kind(site, rules.assumes));
    row(text, "cache", &cache_words(site, &scenario));
    row(text, "warm-up", &warm_up(cache, rules.grace_while_asleep));
    if let Some(words) = mirror_words(config, site) {
        row(text, "mirror", &words);
    }
    for risk in &risks(config, site) {
        row(text, "careful", risk);
    }
}

fn cache_words(site: &SiteConfig, scenario: &Scenario) -> String {
    let rules = site.cache_rules(scenario);
    let fresh = match rules.default_ttl.filter(|_| rules.assumes) {
        _ if !rules.assumes => "only what the server marks as cacheable".to_owned(),
        None => "fresh as RFC 9111 says".to_owned(),
        Some(ttl) => format!("fresh for {} where the server does not say", time(ttl)),
    };
    format!("{} MB; {fresh}; {}", scenario.cache.size_mb, grace(rules.grace_while_asleep))
}

/// What its mirror holds, if it has one whose pages have a known place.
fn mirror_words(config: &Config, site: &SiteConfig) -> Option<String> {
    if !site.mirror.is_on(site.kind) {
        return None;
    }
    let mirror = &site.mirror;
    let pages = match config.mirror_url(site) {
        // The warnings name it.
        MirrorUrl::Unknown => return None,
        MirrorUrl::Known(url) => url,
        MirrorUrl::OnHost(host) => {
            format!("{host}, with the scheme that the proxies in front report")
        }
    };
    Some(format!(
        "{} pages and {} MB of {pages}; answers at most {} old while it sleeps (or as old as the server allows); \
         sleep waits at most {} for that",
        mirror.pages,
        mirror.size_mb,
        time(mirror.max_age),
        time(mirror.extension)
    ))
}

fn grace(while_asleep: Duration) -> String {
    match while_asleep {
        Duration::ZERO => "never stale".to_owned(),
        grace => format!("stale for {} more while it sleeps", time(grace)),
    }
}

fn wake_budgets(site: &SiteConfig) -> String {
    let (each, all) = (site.wakes_per_client_and_hour, site.clients.unrecognised_wakes_per_hour);
    format!("an hour {each} by each client, {all} by all that are not recognised")
}

fn draws(server: &Server) -> String {
    format!(
        "{} W awake, {} W asleep, {} J per sleep (± {})",
        server.on_w,
        server.off_w,
        rounded(server.switch_j, Some(server.uncertainty * server.switch_j)),
        percent(server.uncertainty)
    )
}

/// Describes a meter from its configuration, without reading it.
fn meter_words(meter: &MeterConfig) -> String {
    let every = meter.every().map(|every| format!(", every {}", time(every))).unwrap_or_default();
    let pick = meter.pick().map(|pick| format!(", channel `{pick}`")).unwrap_or_default();
    format!("{}{every}{pick}", meter.words())
}

fn controller(text: &mut String, power: Option<&ControllerConfig>) {
    match power {
        Some(power) => drivers(text, power),
        None => row(text, "controller", "none of its own: it sleeps with its machine"),
    }
}

fn on(text: &mut String, machine: Option<&str>) {
    if let Some(machine) = machine {
        row(text, "on", &format!("the machine {machine}, which is woken first"));
    }
}

fn drivers(text: &mut String, power: &ControllerConfig) {
    let about = |driver: &DriverConfig| {
        let found = DRIVERS.iter().find(|known| known.name == driver.name());
        format!("{}: {}", driver.name(), found.map_or("", |it| it.about))
    };
    match power {
        ControllerConfig::One(driver) => row(text, "controller", &about(driver)),
        ControllerConfig::Pair { wake, sleep } => {
            row(text, "woken by", &about(wake));
            row(text, "sleeps by", &about(sleep));
        }
    }
}

/// Describes the kind of a site.
fn kind(site: &SiteConfig, assumes: bool) -> &'static str {
    match site.kind {
        Some(SiteKind::Pages) => "pages: the same for every visitor who is not logged in",
        Some(SiteKind::App) => "app: what is shown depends on who asks",
        None if assumes => "not set; by its `ttl` as pages",
        None => "not set: nothing is assumed",
    }
}

/// Settings that may surprise the author of the configuration.
fn risks(config: &Config, site: &SiteConfig) -> Vec<String> {
    let servers =
        site.server.iter().filter_map(|it| Some(it.power.as_ref()?.risks(it.probe.as_ref())));
    let power = site.power.as_ref().map(|power| power.risks(site.probe.as_ref()));
    let cache = site.cache.risks().into_iter();
    let power = power.into_iter().flatten();
    let unknown = site.unknown_kind(&config.scenario_of(site)).map(str::to_owned);
    let cache = cache.chain(unknown);
    let mirror = site.mirror.risks(site.kind);
    let is_nowhere = site.mirror.is_on(site.kind) && config.mirror_url(site) == MirrorUrl::Unknown;
    let nowhere = is_nowhere.then(|| MirrorUrl::ADVICE.to_owned());
    let too_slow = sla::too_slow(&config.scenario_of(site));
    let wake_time = config.scenario_of(site).server.wake_time;
    let slower = wake_times(config, site).and_then(|it| it.complaint(wake_time));
    let cache = cache.chain(mirror).chain(nowhere).chain(too_slow).chain(slower);
    let risks = power.chain(servers.flatten()).chain(same_machine(config, site)).chain(cache);
    risks.chain(strangers(config, site)).chain(site.path_risks()).collect()
}

/// How long its server took to wake. The servers of a pool have times of their own.
fn wake_times(config: &Config, site: &SiteConfig) -> Option<WakeTimes> {
    site.server.is_empty().then(|| measured::read(&config.state_dir, &site.name))?
}

/// What listens where a process of the site would, and was not started by nightwatt.
fn strangers(config: &Config, site: &SiteConfig) -> Vec<String> {
    let found = |target: Target<'_>| {
        let address = target.stranger(config)?;
        Some(format!(
            "{address} takes connections, and nightwatt did not start what listens there (`ss -ltnp` shows what \
             it is): stop it before `serve` without `--observe`, or the site counts as awake as long as it runs; \
             or configure the controller that it was started by"
        ))
    };
    Target::of_site(site).into_iter().filter_map(found).collect()
}

/// Another site or machine that puts the same machine to sleep.
fn same_machine(config: &Config, site: &SiteConfig) -> Option<String> {
    let power = site.power.as_ref()?;
    let sites = config.site.iter().filter(|it| it.name != site.name);
    let sites = sites.filter_map(|it| Some((&it.name, it.power.as_ref()?)));
    let machines = config.machine.iter().map(|it| (&it.name, &it.power));
    let (name, _) =
        sites.chain(machines).find(|(_, others)| power.sleeps_the_machine_of(others))?;
    Some(format!(
        "`{name}` puts the same machine to sleep, and neither waits for who uses the other: give it a \
         `[[machine]]`, and write `on = \"MACHINE\"` in place of the sites' own `power`"
    ))
}

fn awake_if(site: &SiteConfig) -> String {
    probed(&site.probe_config())
}

fn probed(probe: &probe::Config) -> String {
    match probe {
        probe::Config::Tcp(tcp) => format!("{} accepts connections", tcp.address),
        probe::Config::Http(http) => {
            let status = match &http.expect {
                Some(_) => " with an expected status",
                None => ", but not 502, 503, 504",
            };
            let text = http.contains.as_ref();
            let text = text.map(|text| format!(", and says {text:?}")).unwrap_or_default();
            format!("GET {} answers{status}{text}", http.url)
        }
        probe::Config::Controller => "the controller says so".to_owned(),
    }
}

fn break_even(scenario: &Scenario) -> String {
    match scenario.power_states().break_even() {
        Duration::MAX => "never: it draws no less asleep than awake".to_owned(),
        after => format!("a sleep pays if it lasts longer than {}", time(after)),
    }
}

fn electricity(electricity: &Electricity) -> String {
    let Electricity { price_per_kwh, currency, co2_g_per_kwh } = electricity;
    let default = if *electricity == Electricity::default() { " (defaults)" } else { "" };
    format!("{price_per_kwh} {currency} and {co2_g_per_kwh} g CO2e a kWh{default}")
}

fn warm_up(cache: &CacheRule, grace: Duration) -> String {
    if cache.warm_up == 0 || grace.is_zero() {
        return "none".to_owned();
    }
    let crawlers =
        if cache.warm_up_crawlers { ", and what crawlers did not get while it slept" } else { "" };
    let (most, half) = (cache.warm_up, time(grace / 2));
    format!("while it is awake, up to {most} answers that have been stale for {half}{crawlers}")
}

fn hours_rows(text: &mut String, scenario: &Scenario) {
    if !scenario.never_sleep.is_empty() {
        let hours: Vec<String> = scenario.never_sleep.iter().map(ToString::to_string).collect();
        row(text, "never sleeps", &format!("within {}", hours.join(", ")));
    }
    if !scenario.awake.is_empty() {
        row(text, "awake", &awake_words(scenario));
    }
    if scenario.has_hours() {
        row(text, "time zone", &TimeZoneStatus::of(&Clock::real()).to_string());
    }
}

/// For which hours it is woken, and on which days not.
fn awake_words(scenario: &Scenario) -> String {
    let hours: Vec<String> = scenario.awake.iter().map(ToString::to_string).collect();
    let mut text = format!("woken for {}", hours.join(", "));
    let today = Clock::real().now().local_day();
    let coming: Vec<i64> = scenario.days_off.days().filter(|day| *day >= today).collect();
    match (&scenario.holidays, coming.first()) {
        (Some(_), Some(next)) => {
            let _ =
                write!(text, ", but not on holidays: the next one is {}", Date::from_days(*next));
        }
        (Some(path), None) => {
            let _ = write!(text, "; all days in {} are over: renew the file", path.display());
        }
        (None, _) => {}
    }
    text
}
