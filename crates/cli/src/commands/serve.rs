//! `nightwatt serve`: runs the gateway.

mod process;

use std::fmt::Write;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

use nightwatt_clock::Clock;
use nightwatt_gateway::containers::Found;
use nightwatt_gateway::status::{ShadowStatus, SiteStatus, Status};
use nightwatt_gateway::{Config, Gateway, Inherited, Options, Predecessor, Running, StartError};
use serde::Serialize;
use serde_json::json;

use self::process::Process;
use crate::ExitStatus;
use crate::args::{ConfigArgs, LogArgs};
use crate::commands::{Group, Listed};
use crate::control;
use crate::errors::Failure;
use crate::figures::{counted, energies, part, percent, provenance, ratio, seconds};
use crate::logging;
use crate::output;
use crate::service_manager::{self, ServiceManager};
use crate::signals::Signals;

/// Serve sites and let their servers sleep
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Shadow mode: leave servers alone, and report at the end what sleeping would have saved
    #[arg(long)]
    pub(crate) observe: bool,
    /// Take the place of the gateway that runs with this configuration, without a lost connection; if none
    /// runs, just start
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Print what is printed as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = r#"Examples:
  nightwatt serve -c nightwatt.toml
  nightwatt serve -c nightwatt.toml --observe    # see first what it would do
  nightwatt serve -c nightwatt.toml --log-format json
  nightwatt serve -c nightwatt.toml --replace    # a new release takes over

A small configuration:
  listen = ["0.0.0.0:8080"]
  state_dir = "/var/lib/nightwatt"

  [[site]]
  name = "blog"
  origin = "http://10.0.0.5:80"

  [site.power.command]
  wake = "wakeonlan 00:11:22:33:44:55"
  sleep = "ssh root@10.0.0.5 systemctl suspend"

SIGTERM or SIGINT stops it in good order; a second one stops it at once."#;

/// Serves until a signal.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let inherited = service_manager::sockets()?;
    let manager = ServiceManager::from_environment()?;
    service_manager::forget_environment();
    logging::start(&args.log)?;
    let config = control::load_to_serve(&args.config)?;
    let clock = Clock::real();
    let runtime = clock.runtime().map_err(|error| Failure::because("cannot start", &error))?;
    runtime.block_on(serve(args, config, inherited, clock, manager))
}

async fn serve(
    args: &Args,
    config: Config,
    inherited: Inherited,
    clock: Clock,
    manager: ServiceManager,
) -> Result<ExitStatus, Failure> {
    let signals = Signals::catch()?.and_reload()?;
    let introduction = Introduction::of(&config, args.observe);
    let (predecessor, inherited) = predecessor(args, &config, inherited)?;
    let found = Found::look(&config, &clock).await;
    let options = Options { observe: args.observe, found, ..Options::default() };
    let running = Gateway::start_from(config, clock.clone(), options, inherited, predecessor);
    let running = running.map_err(|error| {
        already_runs(&error, &introduction.control_socket)
            .unwrap_or_else(|| Failure::failed(&error).maybe_hint(error.hint()))
    })?;
    introduction.print(&Addresses::of(&running), args.json)?;
    Box::pin(Process { args, running, clock, manager, signals }.run()).await
}

/// An address is taken, and the control socket answers: it is taken by a gateway with this configuration.
fn already_runs(error: &StartError, control_socket: &str) -> Option<Failure> {
    let is_taken =
        matches!(error, StartError::Listen { source, .. } if source.kind() == ErrorKind::AddrInUse);
    UnixStream::connect(control_socket).ok().filter(|_| is_taken)?;
    Some(
        Failure::new("nightwatt already runs with this configuration")
            .hint("`nightwatt status` shows it; `--replace` takes its place"),
    )
}

/// With `--replace`: the process that serves now, and its sockets.
fn predecessor(
    args: &Args,
    config: &Config,
    inherited: Inherited,
) -> Result<(Option<Predecessor>, Inherited), Failure> {
    if !args.replace {
        return Ok((None, inherited));
    }
    let asked = Predecessor::ask(&config.control_socket());
    let asked = asked.map_err(|error| Failure::failed(&error).hint(error.hint()))?;
    Ok(asked.map_or((None, inherited), |(process, sockets)| (Some(process), sockets)))
}

/// Where a gateway listens.
struct Addresses {
    http: Vec<String>,
    tls: Vec<String>,
    tcp: Vec<String>,
    udp: Vec<String>,
    gate: Vec<String>,
    admin: Option<String>,
}

impl Addresses {
    fn of(running: &Running) -> Self {
        let texts = |of: &[SocketAddr]| of.iter().map(ToString::to_string).collect();
        Self {
            http: texts(&running.addresses),
            tls: texts(&running.tls_addresses),
            tcp: texts(&running.tcp_addresses),
            udp: texts(&running.udp_addresses),
            gate: texts(&running.gate_addresses),
            admin: running.admin.map(|it| it.to_string()),
        }
    }
}

/// What is printed once the gateway listens.
struct Introduction {
    observe: bool,
    control_socket: String,
    sites: Vec<IntroducedSite>,
    /// Names of the services that are passed through, and of those of datagrams.
    services: Vec<String>,
    datagrams: Vec<String>,
}

/// What is printed of a site.
#[derive(Serialize)]
struct IntroducedSite {
    name: String,
    policy: String,
    controller: String,
}

impl Introduction {
    fn of(config: &Config, observe: bool) -> Self {
        let sites = config.site.iter().map(|site| {
            let name = site.name.clone();
            if !site.server.is_empty() {
                let names: Vec<&str> = site.server.iter().map(|it| it.name.as_str()).collect();
                let controller = format!("of each of {}", names.join(" "));
                let policy = site.pool.policy.to_string();
                return IntroducedSite { name, policy, controller };
            }
            let policy = config.scenario_of(site).policy.to_string();
            let controller = match (&site.power, &site.on) {
                (Some(power), None) => power.name(),
                (Some(power), Some(machine)) => format!("{} on {machine}", power.name()),
                (None, machine) => format!("that of {}", machine.as_deref().unwrap_or_default()),
            };
            IntroducedSite { name, policy, controller }
        });
        let control_socket = config.control_socket().display().to_string();
        let services = config.tcp.iter().map(|it| it.name.clone()).collect();
        let datagrams = config.udp.iter().map(|it| it.name.clone()).collect();
        Self { observe, control_socket, sites: sites.collect(), services, datagrams }
    }

    fn print(&self, at: &Addresses, json: bool) -> Result<(), Failure> {
        if json {
            return output::print_json(&json!({
                "listening": at.http,
                "listening_tls": at.tls,
                "listening_tcp": at.tcp,
                "listening_udp": at.udp,
                "gate": at.gate,
                "admin": at.admin,
                "control_socket": self.control_socket,
                "observe": self.observe,
                "sites": self.sites,
                "tcp": self.services,
                "udp": self.datagrams,
            }));
        }
        let site = |IntroducedSite { name, policy, controller }: &IntroducedSite| {
            format!("{name} (policy {policy}, controller {controller})")
        };
        let sites: Vec<String> = self.sites.iter().map(site).collect();
        let shadow = if self.observe { "; shadow mode: servers are left alone" } else { "" };
        let admin = at.admin.as_ref();
        let admin = admin
            .map(|it| format!("; dashboard, metrics and health on http://{it}/"))
            .unwrap_or_default();
        let gate = match &*at.gate {
            [] => String::new(),
            some => format!("; gate on {}", some.join(", ")),
        };
        let by_tls = at.tls.iter().map(|it| format!("{it} (TLS)"));
        let all: Vec<String> = at.http.iter().cloned().chain(by_tls).collect();
        let listening = match &*all {
            [] => "serving".to_owned(),
            some => format!("listening on {}", some.join(", ")),
        };
        let sites = (!sites.is_empty()).then(|| format!("{listening}: {}", sites.join(", ")));
        let services = (!self.services.is_empty()).then(|| {
            format!("passing through {} on {}", self.services.join(", "), at.tcp.join(", "))
        });
        let datagrams = (!self.datagrams.is_empty()).then(|| {
            let (names, at) = (self.datagrams.join(", "), at.udp.join(", "));
            format!("passing datagrams through to {names} on {at}")
        });
        let does: Vec<String> = sites.into_iter().chain(services).chain(datagrams).collect();
        output::print(&format!("{}{gate}{admin}{shadow}", does.join("; ")))
    }
}

/// In shadow mode, reports what the policy would have done.
fn report(status: &Status, args: &Args) -> Result<(), Failure> {
    if !status.observe {
        return Ok(());
    }
    if args.json {
        return output::print_json(status);
    }
    let told = status.sites.iter().filter_map(|site| Some((site, site.shadow.as_ref()?)));
    let text: Vec<String> = told.map(|(site, shadow)| in_plain_words(site, shadow)).collect();
    output::print(&text.join("\n"))
}

fn in_plain_words(site: &SiteStatus, shadow: &ShadowStatus) -> String {
    let ledger = &shadow.ledger;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: had its server been let sleep (policy {}), it would have slept for {} of {} ({}), \
         in {}, and have been woken {}.",
        site.name,
        site.policy,
        seconds(ledger.asleep_s),
        seconds(ledger.span_s),
        percent(if ledger.span_s > 0.0 { ledger.asleep_s / ledger.span_s } else { 0.0 }),
        counted(ledger.sleeps, "sleep"),
        counted(ledger.wakeups, "time")
    );
    let verdict = match ledger.saving {
        None => "It is too early to tell what that would have saved".to_owned(),
        Some(saving) if saving >= 0.0 => {
            format!("That would have saved {} of the energy", percent(saving))
        }
        Some(saving) => format!("That would have cost {} more energy", percent(-saving)),
    };
    let [server, proxy, always_on] = energies([&ledger.server, &ledger.proxy, &ledger.always_on]);
    let _ = writeln!(
        text,
        "{verdict}: {server} for the server and {proxy} for the proxy, instead of {always_on} for the server \
         alone and always on ({}).",
        provenance(&ledger.server.provenance)
    );
    if shadow.requests == 0 {
        text.push_str("There was no request, so none would have been delayed.\n");
        return text;
    }
    let requests = part(shadow.delayed_requests, shadow.requests, "request");
    let _ = writeln!(
        text,
        "It would have delayed {requests} of people and their programs: {}.",
        if ratio(shadow.delayed_visits, shadow.visits) > 0.0 {
            part(shadow.delayed_visits, shadow.visits, "visit")
        } else {
            format!("none of {}", counted(shadow.visits, "visit"))
        }
    );
    text
}
