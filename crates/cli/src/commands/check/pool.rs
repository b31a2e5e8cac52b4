//! Explains a pool of servers.

use nightwatt_energy::duration_text;
use nightwatt_gateway::config::{ServerConfig, SiteConfig};
use nightwatt_policy::fleet::{FleetSettings, ServerKind, Wear};
use nightwatt_policy::scenario::Scenario;
use nightwatt_power::ControllerConfig;
use serde_json::{Value, json};

use super::{controller, on, probed, row};
use crate::figures::{counted, time};

/// Rows for the pool, its kinds and its servers.
pub(super) fn rows(text: &mut String, site: &SiteConfig, scenario: &Scenario) {
    let settings = site.fleet_settings(&scenario.server);
    row(text, "pool", &pool(site, &settings));
    let last = if site.pool.sleeps {
        format!("sleeps too, by the policy {}", scenario.policy)
    } else {
        "stays awake".to_owned()
    };
    row(text, "last server", &last);
    for (index, kind) in settings.kinds.iter().enumerate() {
        let name = site.pool.kind.get(index).map_or("each", |kind| &kind.name);
        row(text, "kind", &format!("{name}: {}", figures(kind)));
    }
    for server in &site.server {
        let kind = server.kind.as_deref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        row(text, "server", &format!("{}{kind} at {}", server.name, server.origin));
        on(text, server.on.as_deref());
        controller(text, server.power.as_ref());
        row(text, "awake if", &probed(&server.probe_config()));
    }
}

fn pool(site: &SiteConfig, settings: &FleetSettings) -> String {
    let wear = match settings.wear {
        Wear::Spread => "all in turn",
        Wear::ByNumber => "always in the same order",
    };
    format!(
        "{}, policy {}, {wear}; {} may wait in line",
        counted(settings.servers().into(), "server"),
        site.pool.policy,
        counted(settings.line.into(), "request")
    )
}

fn figures(kind: &ServerKind) -> String {
    format!(
        "{}, {:.1} requests/s each, {} at a time; {} W idle, {} W busy, {} W asleep, {} J per sleep; \
         wakes in {}",
        counted(kind.servers.into(), "server"),
        kind.service.get(),
        kind.places,
        kind.idle.get(),
        kind.busy.get(),
        kind.off.get(),
        kind.switch.get(),
        time(kind.switch_on)
    )
}

/// The same as JSON; nothing for a site with one server.
pub(super) fn as_json(site: &SiteConfig, scenario: &Scenario) -> Option<Value> {
    if site.server.is_empty() {
        return None;
    }
    let settings = site.fleet_settings(&scenario.server);
    let server = |it: &ServerConfig| {
        json!({
            "name": it.name,
            "kind": it.kind,
            "origin": it.origin.to_string(),
            "on": it.on,
            "controller": it.power.as_ref().map(ControllerConfig::name),
            "awake_if": probed(&it.probe_config()),
        })
    };
    Some(json!({
        "policy": site.pool.policy.to_string(),
        "sleeps": site.pool.sleeps,
        "response_time": duration_text::format(site.pool.response_time),
        "settings": settings,
        "kinds": site.pool.kind.iter().map(|kind| &kind.name).collect::<Vec<_>>(),
        "servers": site.server.iter().map(server).collect::<Vec<_>>(),
    }))
}
