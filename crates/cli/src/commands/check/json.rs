//! What a configuration means, as one JSON object for programs.

use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::civil::Date;
use nightwatt_energy::duration_text;
use nightwatt_gateway::Config;
use nightwatt_gateway::config::{JobConfig, MachineConfig, SiteConfig, TlsConfig};
use nightwatt_gateway::status::TimeZoneStatus;
use nightwatt_power::ControllerConfig;
use serde_json::{Value, json};

use super::{
    access, answers, awake_if, cache_words, certificates, containers, disk_words, gate,
    machine_risks, measured, meter_words, mirror_words, pool, probed, risks, services, sla, udp,
    usable_webhooks, wake_times, warm_up,
};
use crate::errors::Failure;

/// The object for a configuration that cannot be used: what is wrong, which begins with its place in the file.
pub(super) fn unusable(failure: &Failure) -> Value {
    let text = failure.to_string();
    json!({ "good": false, "error": text.strip_prefix("error: ").unwrap_or(&text) })
}

/// The whole object; `careful` has what belongs to no site.
pub(super) fn whole(config: &Config, careful: &[String]) -> Value {
    let admin = config.admin.as_ref();
    let orders = admin.and_then(|it| it.password_file.as_ref());
    json!({
        "good": true,
        "careful": careful,
        "listen": config.listen,
        "tls": config.tls.as_ref().map(tls),
        "state_dir": config.state_dir,
        "control_socket": config.control_socket(),
        "access_log": config.access_log,
        "disk_cache": config.cache.disk.as_ref().map(|disk| disk_words(config, disk)),
        "webhooks": usable_webhooks(config),
        "jobs": config.job.iter().map(job).collect::<Vec<_>>(),
        "admin": admin.map(|it| it.listen),
        "admin_orders": orders.is_some(),
        "admin_password_file": orders,
        "gate": config.gate.as_ref().map(|it| gate::as_json(config, it)),
        "magic_packets": config.magic_packets.as_ref().map(|it| services::magic_packets_words(config, it)),
        "meter": config.meter.as_ref().map(meter_words),
        "containers": containers::look(config),
        "machines": config.machine.iter().map(|it| machine(config, it)).collect::<Vec<_>>(),
        "sites": config.site.iter().map(|it| site(config, it)).collect::<Vec<_>>(),
        "udp": config.udp.iter().map(|it| udp::as_json(config, it)).collect::<Vec<_>>(),
        "tcp": config.tcp.iter().map(|it| services::as_json(config, it)).collect::<Vec<_>>(),
    })
}

fn tls(tls: &TlsConfig) -> Value {
    let dns = tls.acme.as_ref().and_then(|acme| acme.dns.as_ref());
    json!({
        "listen": tls.listen,
        "certificates": certificates(tls),
        "acme_dns": dns.map(services::dns_as_json),
    })
}

fn job(job: &JobConfig) -> Value {
    json!({ "name": job.name, "on": job.on, "at": job.at.shown(), "command": job.command })
}

fn machine(config: &Config, machine: &MachineConfig) -> Value {
    let measured = measured::read(&config.state_dir, &machine.name);
    json!({
        "name": machine.name,
        "on": machine.on,
        "controller": machine.power.name(),
        "awake_if": probed(&machine.probe),
        "linger_s": machine.linger.as_secs_f64(),
        "server": config.server_of(machine),
        "meter": machine.meter.as_ref().map(meter_words),
        "measured_wake": measured,
        "careful": machine_risks(config, machine, measured),
    })
}

fn site(config: &Config, site: &SiteConfig) -> Value {
    let scenario = config.scenario_of(site);
    let break_even = scenario.power_states().break_even();
    let grace = site.cache_rules(&scenario).grace_while_asleep;
    let holidays = scenario.days_off.days().map(|day| Date::from_days(day).to_string());
    json!({
        "name": site.name,
        "kind": site.kind,
        "hosts": site.hosts,
        "origin": site.origin.to_string(),
        "controller": site.power.as_ref().map(ControllerConfig::name),
        "on": site.on,
        "on_machines_bill": site.is_on_machines_bill(),
        "awake_if": awake_if(site),
        "policy": scenario.policy.to_string(),
        "never_sleep": scenario.never_sleep,
        "access": access::as_json(config, site),
        "answers": answers::as_json(site),
        "awake": scenario.awake,
        "holidays": holidays.collect::<Vec<_>>(),
        "time_zone": scenario.has_hours().then(|| TimeZoneStatus::of(&Clock::real())),
        "measured_wake": wake_times(config, site),
        "break_even_s": (break_even != Duration::MAX).then_some(break_even.as_secs_f64()),
        "sla": sla::in_words(site.kind, &scenario.sla),
        "wakes_per_client_and_hour": site.wakes_per_client_and_hour,
        "unrecognised_wakes_per_hour": site.clients.unrecognised_wakes_per_hour,
        "cache": cache_words(site, &scenario),
        "warm_up": warm_up(&scenario.cache, grace),
        "mirror": mirror_words(config, site),
        "grace_asleep": duration_text::format(grace),
        "careful": risks(config, site),
        "meter": site.meter.as_ref().map(meter_words),
        "pool": pool::as_json(site, &scenario),
        "scenario": *scenario,
    })
}
