//! Checks of a configuration before it is started.

use std::path::Path;

use nightwatt_clock::Clock;
use nightwatt_host::explained::Explained;
use nightwatt_host::secret::Secret;

use crate::admin::Guard;
use crate::config::{Config, MeterConfig};
use crate::error::StartError;
use crate::gateway::Gateway;
use crate::in_use::InUse;
use crate::paths::Paths;
use crate::secrets;
use crate::site::{look_over_servers, waiting_page};
use crate::state_dir;
use crate::tls::Tls;
use crate::webhooks;

impl Gateway {
    /// Reads the files that a configuration names, as [`start`](Self::start) would, and closes them. Returns every
    /// error that would prevent the start. (Controllers report errors of their own files.)
    pub fn look_over(config: &Config, clock: &Clock) -> Vec<StartError> {
        let tls = config.tls.iter().map(|it| Ok(Tls::open(it, clock, None).map(drop)?));
        let hooks = config.webhook.iter().map(|it| Ok(webhooks::look_over(it)?));
        let admin = config.admin.iter().map(|it| Guard::open(Some(it)).map(drop));
        let pages = config.site.iter().map(|site| waiting_page(site).map(drop));
        let servers = config.site.iter().map(|site| look_over_servers(site, config, clock));
        let paths = config.site.iter().map(|site| Paths::open(site, config, clock).map(drop));
        let probes = config.site.iter().map(|site| InUse::of(site, clock).map(drop));
        let all =
            tls.chain(hooks).chain(admin).chain(pages).chain(servers).chain(paths).chain(probes);
        all.filter_map(Result::err).collect()
    }

    /// Settings and files that let other users of this machine read secrets, harm the gateway, or do nothing.
    pub fn risks(config: &Config) -> Vec<String> {
        let unused = config.site.iter().filter_map(|site| {
            let why = site.mirror.unused(site.kind)?;
            Some(format!("site `{}`: {why}", site.name))
        });
        let tokens = config.site.iter().filter_map(|site| {
            let path = site.mirror.token_file.as_ref()?;
            let why = Explained::one_line(&Secret::from_file(path).err()?);
            Some(format!(
                "`site.mirror.token_file` of site `{}`: {why}. No program can report changes while nightwatt cannot \
                 read a token there (`openssl rand -hex 24` makes one)",
                site.name
            ))
        });
        let acme = config.tls.as_ref().and_then(|tls| tls.acme.as_ref()?.ca.as_deref());
        let acme = acme.and_then(|ca| nightwatt_host::tls::roots(Some(ca)).err());
        let acme = acme.map(|error| {
            format!(
                "`tls.acme.ca`: {}. No certificate can be got while that is so",
                Explained::one_line(&error)
            )
        });
        let without_effect: Vec<String> = unused.chain(tokens).chain(acme).collect();
        let mut risks =
            [state_dir::risks(&config.state_dir), secrets::risks(config), without_effect].concat();
        risks.extend(unreadable_meters(config));
        risks
    }
}

/// Meters whose passwords cannot be read, in words.
fn unreadable_meters(config: &Config) -> Vec<String> {
    let mut meters = vec![("`meter.password-file`".to_owned(), config.meter.as_ref())];
    for site in &config.site {
        let key = format!("`site.meter.password-file` of site `{}`", site.name);
        meters.push((key, site.meter.as_ref()));
        for server in &site.server {
            let key = format!("`site.server.meter.password-file` of server `{}`", server.name);
            meters.push((key, server.meter.as_ref()));
        }
    }
    for machine in &config.machine {
        let key = format!("`machine.meter.password-file` of machine `{}`", machine.name);
        meters.push((key, machine.meter.as_ref()));
    }
    let told = |(key, meter): (String, Option<&MeterConfig>)| {
        let path = Path::new(meter?.password_file()?);
        let why = Explained::one_line(&Secret::from_file(path).err()?);
        Some(format!("{key}: {why}. The meter cannot be read while that is so"))
    };
    meters.into_iter().filter_map(told).collect()
}
