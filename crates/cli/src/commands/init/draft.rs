//! The configuration that follows from the answers.

use std::fmt::Write;
use std::net::SocketAddr;

use nightwatt_gateway::config::SiteKind;
use toml::Value;

use super::look::Server;
use super::{KindChoice, PowerChoice};

/// How the server is woken and put to sleep, and the target of that.
#[derive(Debug, Clone)]
pub(super) struct Power {
    pub(super) choice: PowerChoice,
    /// MAC address, unit, container, command line, or what else leads there.
    pub(super) target: String,
}

/// All answers.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) server: Server,
    pub(super) hosts: Vec<String>,
    pub(super) listen: Vec<SocketAddr>,
    pub(super) power: Power,
    /// Awake, asleep.
    pub(super) watts: (f64, f64),
    pub(super) kind: KindChoice,
    /// The lines of `[scenario.sla]`; none for the default of the kind.
    pub(super) sla: String,
    /// Where the pages of the mirror are, if the host names do not say it.
    pub(super) url: Option<String>,
    pub(super) is_root: bool,
}

/// The usual port of the dashboard.
const DASHBOARD: u16 = 9180;

/// Where the password of a management controller is expected.
pub(super) const BMC_PASSWORD: &str = "/etc/nightwatt/bmc";

/// Reads `ON,OFF`.
pub(super) fn watts(text: &str) -> Result<(f64, f64), String> {
    let wrong =
        || format!("`{text}` is not two figures of watts: write awake and asleep as 43.3,1.6");
    let (on, off) = text.split_once(',').ok_or_else(wrong)?;
    let watts = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
    let (on, off) = (watts(on)?, watts(off)?);
    if !on.is_finite() || off < 0.0 || on <= off {
        return Err(format!("a server draws more awake than asleep, but `{text}` says otherwise"));
    }
    Ok((on, off))
}

impl Draft {
    /// The file.
    pub(super) fn to_toml(&self) -> String {
        let listen = list(self.listen.iter().map(ToString::to_string));
        let state_dir = if self.is_root { "/var/lib/nightwatt" } else { "nightwatt-state" };
        let (on, off) = self.watts;
        let admin = self.admin_port();
        let mut text = format!(
            "# Written by `nightwatt init`. Everything left out has a default; `nightwatt check -c FILE` says \
             which.\n\nlisten = {listen}\nstate_dir = {}\nadmin = \"127.0.0.1:{admin}\"   # the dashboard; \
             /metrics, /healthz\n\n[scenario.server]         # what it draws: measure it, or take its data \
             sheet\non_w = {on:?}\noff_w = {off:?}\n\n{}[[site]]\nname = {}\n",
            quoted(state_dir),
            self.sla,
            quoted(&self.name())
        );
        let [pages, app] = [SiteKind::Pages, SiteKind::App].map(SiteKind::as_str);
        let _ = match self.kind {
            KindChoice::Pages => writeln!(text, "kind = \"{pages}\""),
            KindChoice::App => writeln!(text, "kind = \"{app}\""),
            KindChoice::Unsure => {
                writeln!(text, "# kind = \"{pages}\"  # or \"{app}\": see docs/caching.md")
            }
        };
        if !self.hosts.is_empty() {
            let _ = writeln!(text, "hosts = {}", list(self.hosts.iter().cloned()));
        }
        let _ = writeln!(text, "origin = {}", quoted(&self.server.origin));
        if let Some(url) = &self.url {
            let _ =
                writeln!(text, "mirror.url = {}   # whose pages the mirror copies", quoted(url));
        }
        text.push('\n');
        text + &self.power()
    }

    /// The port of the dashboard: the usual one, unless nightwatt or the server has it.
    fn admin_port(&self) -> u16 {
        let is_taken = |port: &u16| {
            self.listen.iter().chain([&self.server.address]).any(|it| it.port() == *port)
        };
        (DASHBOARD..u16::MAX).find(|port| !is_taken(port)).unwrap_or(DASHBOARD)
    }

    /// Proposes a name for the site: the first label of the first host name; else the name of the unit or container;
    /// else the host in the origin. Leaves out characters that are not allowed in a site name.
    fn name(&self) -> String {
        let target = match self.power.choice {
            PowerChoice::Systemd | PowerChoice::Docker => Some(&self.power.target),
            _ => None,
        };
        let first = self.hosts.first().or(target);
        let first = first.and_then(|name| name.split(['.', '@']).find(|it| !it.is_empty()));
        let name = first.map_or_else(|| self.server.host(), str::to_owned);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name = name.replace(|c| !is_plain(c), "-");
        // With a leading dash, `nightwatt wake NAME` would take it for an option.
        let name = name.trim_matches('-');
        if name.is_empty() { "site".to_owned() } else { name.to_owned() }
    }

    fn power(&self) -> String {
        let target = quoted(&self.power.target);
        let address = self.server.address.ip().to_string();
        let packet = format!("[site.power.wake.wol]     # a magic packet\nmac = {target}\n\n");
        match self.power.choice {
            PowerChoice::Agent => format!(
                "{packet}[site.power.sleep.agent]  # `nightwatt agent` on the server\naddress = {}\nkey = \
                 \"/etc/nightwatt/agent.key\"\n",
                quoted(&address)
            ),
            PowerChoice::Ssh => format!(
                "{packet}[site.power.sleep.ssh]    # its key must be in known_hosts\nhost = {}\n",
                quoted(&format!("root@{address}"))
            ),
            PowerChoice::Systemd => format!("[site.power.systemd]\nunit = {target}\n"),
            PowerChoice::Docker => format!("[site.power.docker]\ncontainer = {target}\n"),
            PowerChoice::Ipmi | PowerChoice::Redfish => self.management_controller(),
            PowerChoice::Gpio => format!("[site.power.gpio]\nline = {target}\n"),
            PowerChoice::Command => {
                let call = |action: &str| quoted(&format!("{} {action}", self.power.target));
                format!(
                    "[site.power.command]\nwake = {}\nsleep = {}\n",
                    call("wake"),
                    call("sleep")
                )
            }
            PowerChoice::Process => format!(
                "[site.power.process]\ncommand = {}\n",
                list(["/bin/sh", "-c", &format!("exec {}", self.power.target)].map(str::to_owned))
            ),
        }
    }
}

impl Draft {
    fn management_controller(&self) -> String {
        let (user, host) = self.power.target.split_once('@').unwrap_or_default();
        let (table, place) = match self.power.choice {
            PowerChoice::Ipmi => ("ipmi", format!("host = {}", quoted(host))),
            _ => ("redfish", format!("url = {}", quoted(&format!("https://{host}")))),
        };
        format!(
            "[site.power.{table}]\n{place}\nuser = {}\npassword_file = {}   # mode 600\n",
            quoted(user),
            quoted(BMC_PASSWORD)
        )
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn list(values: impl IntoIterator<Item = String>) -> String {
    Value::Array(values.into_iter().map(Value::from).collect()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_draws_more_awake_than_asleep() {
        assert_eq!(watts("43.3, 1.6"), Ok((43.3, 1.6)));
        for wrong in ["", "43", "1,2", "a,b", "inf,1", "NaN,1", "2,-1", "1,1"] {
            assert!(watts(wrong).is_err(), "{wrong}");
        }
    }
}
