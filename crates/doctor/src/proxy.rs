//! The servers of a configuration, looked at from the machine that stays awake.

use std::net::{IpAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_gateway::Config;
use nightwatt_gateway::config::{MachineConfig, ServerConfig, SiteConfig};
use nightwatt_host::preflight::{cannot_run, first_word};
use nightwatt_power::probe::{self, Probe};
use nightwatt_power::{Context, Controller, ControllerConfig, DriverConfig, Observed, Program};

use super::{Finding, HostView, route};

/// A process of this machine that does not take a connection within this time does not take any.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Capabilities, as bits of `CapEff` in /proc/self/status (capabilities(7)).
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;

/// A server that sleeps: a site's, or a machine.
pub struct Target<'a> {
    /// Its name.
    pub name: &'a str,
    /// How it is controlled; nothing if it sleeps with its machine.
    pub power: Option<&'a ControllerConfig>,
    /// How to tell that it is awake.
    pub probe: probe::Config,
    /// Its name or address.
    pub host: Option<String>,
    /// A site's origin.
    pub origin: Option<String>,
}

impl<'a> Target<'a> {
    /// All that a configuration has.
    pub fn all(config: &'a Config) -> Vec<Self> {
        let machines = config.machine.iter().map(Self::machine);
        machines.chain(config.site.iter().flat_map(Self::of_site)).collect()
    }

    fn machine(machine: &'a MachineConfig) -> Self {
        let (power, probe) = (Some(&machine.power), machine.probe.clone());
        Self { name: &machine.name, power, host: probe.host(), probe, origin: None }
    }

    /// The server of a site, or each of its pool.
    pub fn of_site(site: &'a SiteConfig) -> Vec<Self> {
        if site.server.is_empty() {
            return vec![Self::site(site)];
        }
        let server = |server: &'a ServerConfig| {
            let probe = server.probe_config();
            let origin = probe::Config::tcp(&server.origin.authority).host();
            Self {
                name: &server.name,
                power: server.power.as_ref(),
                host: origin.or_else(|| probe.host()),
                probe,
                origin: Some(server.origin.authority.clone()),
            }
        };
        site.server.iter().map(server).collect()
    }

    fn site(site: &'a SiteConfig) -> Self {
        let probe = site.probe_config();
        let origin = probe::Config::tcp(&site.origin.authority).host();
        Self {
            name: &site.name,
            power: site.power.as_ref(),
            host: origin.or_else(|| probe.host()),
            probe,
            origin: Some(site.origin.authority.clone()),
        }
    }

    /// Its controller, as `serve` builds it, but without the listener of an agent: `serve` may be listening.
    pub fn controller(
        &self,
        config: &Config,
        clock: &Clock,
    ) -> Option<Result<Box<dyn Controller>, nightwatt_power::ConfigError>> {
        let context = self.context(config, clock);
        let mut power = self.power?.clone();
        let drivers = match &mut power {
            ControllerConfig::One(driver) => vec![driver],
            ControllerConfig::Pair { wake, sleep } => vec![wake, sleep],
        };
        for driver in drivers {
            if let DriverConfig::Agent(agent) = driver {
                agent.listen = None;
            }
        }
        Some(power.build(&context))
    }

    fn context(&self, config: &Config, clock: &Clock) -> Context {
        Context {
            clock: clock.clone(),
            state_dir: config.state_dir.clone(),
            site: self.name.to_owned(),
        }
    }

    /// The address that takes connections for a process that nightwatt has not started, if one does and this user
    /// can find that out. Changes nothing; builds no controller.
    pub fn stranger(&self, config: &Config) -> Option<String> {
        let process = self.drivers().into_iter().find_map(|driver| match driver {
            DriverConfig::Process(process) => Some(process),
            _ => None,
        })?;
        if process.has_child(&self.context(config, &Clock::real()))? {
            return None;
        }
        let origin = self.origin.as_deref()?;
        let address = origin.to_socket_addrs().ok()?.next()?;
        // Only an address of this machine can be bound. Another machine is left in peace.
        UdpSocket::bind((address.ip(), 0)).ok()?;
        TcpStream::connect_timeout(&address, TIMEOUT).ok()?;
        Some(origin.to_owned())
    }

    fn drivers(&self) -> Vec<&DriverConfig> {
        self.power.map(ControllerConfig::drivers).unwrap_or_default()
    }

    fn address(&self) -> Option<IpAddr> {
        let host = self.host.as_deref()?;
        (host, 0).to_socket_addrs().ok()?.next().map(|it| it.ip())
    }
}

/// What was found of one server.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Findings {
    /// The server's name.
    pub name: String,
    /// What was found.
    pub findings: Vec<Finding>,
}

/// Examines these servers: queries each one's probe once, and sends its controller a command that does
/// nothing. Calls `on_progress` with the name of each server first, because a server that does not answer takes
/// until its timeout.
pub async fn examine(
    targets: &[Target<'_>],
    config: &Config,
    place: &HostView,
    clock: &Clock,
    on_progress: impl Fn(&str),
) -> Vec<Findings> {
    let mut all = Vec::new();
    for target in targets {
        on_progress(target.name);
        let mut findings = programs(target, place);
        findings.extend(commands(target, place));
        findings.extend(name(target));
        let address = target.address();
        let is_elsewhere = target.power.is_none_or(|power| !power.is_on_this_machine());
        if let Some(address) = address.filter(|it| !it.is_loopback() && is_elsewhere) {
            findings.extend(way(target, address, place));
            findings.push(capabilities(place));
        }
        findings.extend(reach(target, config, clock).await);
        all.push(Findings { name: target.name.to_owned(), findings });
    }
    all
}

fn is_on_the_path(program: &str, place: &HostView) -> bool {
    let script = format!("PATH=$PATH:/usr/sbin:/sbin command -v {program}");
    place.ask("sh", &["-c", &script]).is_some()
}

/// The programs that commands of the user's own begin with, as far as they can be known without a shell.
fn commands(target: &Target<'_>, place: &HostView) -> Vec<Finding> {
    let commands = target.power.map(ControllerConfig::commands).unwrap_or_default();
    let mut findings: Vec<Finding> = commands
        .iter()
        .filter_map(|(action, line)| {
            let program = first_word(line)?;
            let wrong = if program.starts_with('/') {
                cannot_run(&place.path(program))
            } else {
                (!is_on_the_path(program, place)).then_some("no such program")
            };
            Some(match wrong {
                None => Finding::good(action, format!("{program} is there")),
                Some(wrong) => Finding::bad(action, format!("{program}: {wrong}"))
                    .cure(format!("correct `{action}` of `command`, or install the program")),
            })
        })
        .collect();
    if !commands.is_empty() {
        findings.push(Finding::note("commands", "`wake` and `sleep` were not tried").cure(
            "`nightwatt doctor --cycle 1` runs them: it puts the server to sleep and wakes it",
        ));
    }
    findings
}

fn programs(target: &Target<'_>, place: &HostView) -> Vec<Finding> {
    let of = |driver: &DriverConfig| Some((driver.name(), driver.program()?));
    let mut needed: Vec<_> = target.drivers().into_iter().filter_map(of).collect();
    // One driver may both wake and put to sleep, with settings of their own.
    needed.dedup();
    needed
        .into_iter()
        .map(|(driver, Program { name: program, package })| {
            let about = format!("program {program}");
            if is_on_the_path(program, place) {
                return Finding::good(&about, format!("it is there, for `{driver}`"));
            }
            Finding::bad(&about, format!("`{driver}` needs it, and it is not there"))
                .cure(format!("`apt install {package}`, or what your system calls it"))
        })
        .collect()
}

/// Who says where it is while it sleeps?
fn name(target: &Target<'_>) -> Option<Finding> {
    const ABOUT: &str = "name";
    let host = target.host.as_deref()?;
    if host.parse::<IpAddr>().is_ok() {
        return Some(Finding::good(ABOUT, format!("{host} is an address")));
    }
    if host
        .trim_end_matches('.')
        .rsplit('.')
        .next()
        .is_some_and(|it| it.eq_ignore_ascii_case("local"))
    {
        return Some(
            Finding::bad(ABOUT, format!("{host} is answered for by the machine itself (mDNS)")).cure(
                "while it sleeps, the name is not resolved: write its address, or a name that your router resolves",
            ),
        );
    }
    match target.address() {
        Some(address) => Some(Finding::good(ABOUT, format!("{host} is {address}"))),
        None => Some(
            Finding::bad(ABOUT, format!("{host} is not known"))
                .cure("write its address, or give it a fixed one and a name on your router"),
        ),
    }
}

/// The way there, and for magic packets whether they arrive.
fn way(target: &Target<'_>, address: IpAddr, place: &HostView) -> Vec<Finding> {
    const ABOUT: &str = "way";
    let Some(route) = route::to(place, address) else {
        return vec![
            Finding::unknown(ABOUT, "no `ip`, or no way to it")
                .cure("`apt install iproute2`; check the network"),
        ];
    };
    let wol = target.drivers().into_iter().find_map(|driver| match driver {
        DriverConfig::Wol(wol) => Some(wol),
        _ => None,
    });
    let mut findings = Vec::new();
    match (route.gateway, wol) {
        (None, _) => findings
            .push(Finding::good(ABOUT, format!("{address} is a neighbour on {}", route.dev))),
        (Some(router), Some(wol)) if wol.to.ip().to_string() == "255.255.255.255" || wol.raw => {
            let found =
                format!("{address} is behind the router {router}, which passes no broadcast on");
            findings.push(Finding::bad(ABOUT, found).cure(
                "set `to` of `wol` to the broadcast address of its network and let the router pass that on, \
                 or wake it in another way",
            ));
        }
        (Some(router), _) => {
            let found = format!(
                "{address} is behind the router {router}: its own wake-ups are not seen here"
            );
            findings
                .push(Finding::note(ABOUT, found).cure("let its `nightwatt agent` report them"));
        }
    }
    if let (Some(wol), Some(card)) = (wol, route::card(place, address)) {
        let configured: Vec<String> = wol.mac.iter().map(ToString::to_string).collect();
        let about = "card";
        findings.push(if configured.iter().any(|mac| mac.eq_ignore_ascii_case(&card)) {
            Finding::good(about, format!("{card}, as configured"))
        } else {
            let found = format!("its card is {card}, but `mac` says {}", configured.join(", "));
            Finding::bad(about, found).cure(
                "set `mac` to the card that it is reached by; behind a bridge or a switch with a proxy it \
                 may be another's",
            )
        });
    }
    findings
}

fn capabilities(place: &HostView) -> Finding {
    const ABOUT: &str = "capabilities";
    let status = place.read("proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(has) = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()) else {
        return Finding::unknown(ABOUT, "/proc/self/status does not list them");
    };
    let missing: Vec<&str> = [(NET_ADMIN, "CAP_NET_ADMIN"), (NET_RAW, "CAP_NET_RAW")]
        .into_iter()
        .filter(|(bit, _)| has & bit == 0)
        .map(|(_, name)| name)
        .collect();
    if missing.is_empty() {
        return Finding::good(
            ABOUT,
            "the kernel can be kept from asking for a sleeper, and its waking be heard",
        );
    }
    Finding::note(ABOUT, format!("this process lacks {}", missing.join(" and "))).cure(
        "`AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW` in the unit of `serve` (this is about the user \
         who runs `doctor`)",
    )
}

/// Does it answer, and does its controller?
async fn reach(target: &Target<'_>, config: &Config, clock: &Clock) -> Vec<Finding> {
    let controller = match target.controller(config, clock) {
        None => {
            return vec![Finding::good(
                "controller",
                "none of its own: it sleeps with its machine",
            )];
        }
        Some(Err(error)) => {
            return vec![Finding::bad("controller", error.to_string()).cure(error.hint())];
        }
        Some(Ok(controller)) => controller,
    };
    let verdict = Probe::new(target.probe.clone(), clock.clone()).attempt(&*controller).await;
    let mut findings = vec![if verdict.up {
        Finding::good("probe", verdict.reason.clone())
    } else {
        Finding::note("probe", verdict.reason.clone())
            .cure("if it is awake, the probe asks in the wrong place; if it sleeps, look again when it is awake")
    }];
    let is_another = verdict.up
        && controller.asks_others()
        && matches!(controller.state().await, Ok(Observed::Down));
    // There is nothing to ask: only `wake` and `sleep`, which `commands` reports.
    let only_acts =
        |it: &&DriverConfig| matches!(it, DriverConfig::Command(own) if own.probe.is_none());
    if !target.drivers().is_empty() && target.drivers().iter().all(only_acts) {
        return findings;
    }
    findings.push(match controller.nothing().await {
        Ok(()) if is_another => Finding::bad(
            "controller",
            "its server does not run: something that nightwatt did not start answers the probe",
        )
        .cure(
            "`ss -ltnp` shows what it is: stop it, and nightwatt starts the server itself; or configure the \
             controller that it was started by",
        ),
        Ok(()) => Finding::good("controller", "it can be asked"),
        // A machine that sleeps takes no commands.
        Err(error) if !verdict.up => {
            Finding::unknown("controller", error.to_string()).cure(error.hint())
        }
        Err(error) => Finding::bad("controller", error.to_string()).cure(error.hint()),
    });
    findings
}

#[cfg(test)]
mod tests;
