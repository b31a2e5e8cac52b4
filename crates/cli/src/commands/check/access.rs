//! Who may come in, and who may wake the server.

use nightwatt_gateway::Config;
use nightwatt_gateway::config::{AccessConfig, Network, SiteConfig};
use serde_json::{Value, json};

use super::row;
use crate::figures::counted;

/// The rules of a site, if it has any.
pub(super) fn row_of(text: &mut String, config: &Config, site: &SiteConfig) {
    if let Some(words) = words(config, site) {
        row(text, "access", &words);
    }
}

fn words(config: &Config, site: &SiteConfig) -> Option<String> {
    let access = site.access.as_ref()?;
    let AccessConfig { allow, deny, without_password, wake, never_wake, monitors, .. } = access;
    let mut parts = vec![match allow {
        Some(allow) => format!("clients of {} come in", list(allow)),
        None => "all clients come in".to_owned(),
    }];
    if !deny.is_empty() {
        parts.push(format!("those of {} do not", list(deny)));
    }
    if let Some(path) = &access.htpasswd {
        let users = counted(access.users.count() as u64, "user");
        parts.push(format!("with a password of {users} in {}", path.display()));
        if !without_password.is_empty() {
            parts.push(format!("those of {} without one", list(without_password)));
        }
        parts.extend(clear_text(config, site).map(str::to_owned));
    }
    if let Some(forward) = &access.forward {
        let fields = forward.headers.join(", ");
        parts.push(format!(
            "{} decides about each request, and the server gets {fields} of it",
            forward.url
        ));
        if !without_password.is_empty() {
            parts.push(format!("but not about those of {}", list(without_password)));
        }
        parts.extend(forward.sign_in.as_ref().map(|place| format!("browsers log in at {place}")));
        parts.extend(own_log_in(config, site).map(str::to_owned));
    }
    if let Some(path) = &access.certificate_ca {
        let authorities = match access.vouchers.count() {
            1 => "authority".to_owned(),
            many => format!("{many} authorities"),
        };
        let path = path.display();
        parts.push(format!("with a certificate of the {authorities} in {path}"));
    }
    parts.extend(unnamed_proxy(config, access).map(str::to_owned));
    if let Some(wake) = wake {
        parts.push(format!("only those of {} wake the server", list(wake)));
    }
    if !never_wake.is_empty() {
        parts.push(format!("those of {} never wake it", list(never_wake)));
    }
    if !monitors.is_empty() {
        parts.push(format!("those of {} are monitors", list(monitors)));
    }
    parts.extend(access.monitors_that_log_in());
    parts.extend(access.one_family());
    Some(parts.join("; "))
}

/// A warning, if passwords may cross the network readably.
fn clear_text(config: &Config, site: &SiteConfig) -> Option<&'static str> {
    let asks = site.access.as_ref().is_some_and(|access| access.htpasswd.is_some());
    (asks && !site.redirect_to_https && !config.listen.is_empty())
        .then_some("passwords cross the network in clear text without `redirect_to_https`")
}

/// A warning, if clients need a log-in to see the page for the log-in.
fn own_log_in(config: &Config, site: &SiteConfig) -> Option<&'static str> {
    site.signs_in_here(config).then_some(
        "`sign_in` is on this site, so the service decides about the log-in page too: if it does not let all clients \
         see that, browsers are redirected for ever. Give the page a host of its own",
    )
}

/// A warning, if addresses matter and would all be that of a proxy in front.
fn unnamed_proxy(config: &Config, access: &AccessConfig) -> Option<&'static str> {
    (config.trusted_proxies.is_empty() && access.favoured().next().is_some()).then_some(
        "behind another proxy, name that in `trusted_proxies`: else all of its clients have its address",
    )
}

pub(super) fn list(networks: &[Network]) -> String {
    texts(networks).join(", ")
}

fn texts(networks: &[Network]) -> Vec<String> {
    networks.iter().map(ToString::to_string).collect()
}

/// The same for programs.
pub(super) fn as_json(config: &Config, site: &SiteConfig) -> Value {
    let Some(access) = &site.access else { return Value::Null };
    let careful = clear_text(config, site).into_iter().chain(unnamed_proxy(config, access));
    let careful = careful.chain(own_log_in(config, site)).map(str::to_owned);
    let careful = careful.chain(access.monitors_that_log_in()).chain(access.one_family());
    json!({
        "allow": access.allow.as_deref().map(texts),
        "deny": texts(&access.deny),
        "users": access.htpasswd.as_ref().map(|_| access.users.count()),
        "htpasswd": access.htpasswd,
        "forward": access.forward.as_ref().map(|it| it.url.to_string()),
        "forward_headers": access.forward.as_ref().map(|it| &it.headers),
        "forward_sign_in": access.forward.as_ref().and_then(|it| it.sign_in.as_ref()),
        "certificate_authorities": access.certificate_ca.as_ref().map(|_| access.vouchers.count()),
        "certificate_ca": access.certificate_ca,
        "without_password": texts(&access.without_password),
        "wake": access.wake.as_deref().map(texts),
        "never_wake": texts(&access.never_wake),
        "monitors": texts(&access.monitors),
        "careful": careful.collect::<Vec<_>>(),
    })
}
