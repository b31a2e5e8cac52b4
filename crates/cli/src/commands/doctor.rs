//! `nightwatt doctor`: what could keep a machine from sleeping, or from being woken.

use std::fmt::Write;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_clock::Clock;
use nightwatt_doctor::cycle::{self, Cycle, Plan, Step, Times};
use nightwatt_doctor::proxy::{self, Findings, Target};
use nightwatt_doctor::{HostView, Verdict, machine};
use nightwatt_energy::duration_text;
use nightwatt_gateway::Config;
use nightwatt_power::ControllerConfig;
use nightwatt_power::probe::{self, Probe};
use serde::Serialize;

use crate::ExitStatus;
use crate::args::ConfigArgs;
use crate::commands::{Group, Listed};
use crate::control;
use crate::errors::Failure;
use crate::output;

/// Find what keeps a machine from sleeping or from waking
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Check the servers of this configuration from here [default: nightwatt.toml, else
    /// /etc/nightwatt/nightwatt.toml; without either, check this machine]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Check this machine, whatever configuration there is
    #[arg(long, conflicts_with_all = ["config", "cycle", "site", "probes"])]
    pub(crate) machine: bool,
    /// Put a server to sleep and wake it this many times, and measure how long both need [without a number: once]
    #[arg(long, value_name = "TIMES", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) cycle: Option<u32>,
    /// Check only the server of this site or machine
    pub(crate) site: Option<String>,
    /// Time asleep in each cycle
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration_text::parse, requires = "cycle")]
    pub(crate) rest: Duration,
    /// Longest time allowed for falling asleep and for waking
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration_text::parse, requires = "cycle")]
    pub(crate) timeout: Duration,
    /// Try each kind of eBPF probe that `caliper` and `disk` need
    #[arg(long, conflicts_with = "config")]
    pub(crate) probes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Check);

const EXAMPLES: &str = "\
Examples:
  sudo nightwatt doctor --machine          on the machine that should sleep
  nightwatt doctor -c /etc/nightwatt.toml  on the proxy: check every server once
  nightwatt doctor blog                    check only the server of this site
  sudo nightwatt doctor --probes           the eBPF probes this kernel supports
  nightwatt doctor --cycle 5               sleep and wake it five times, timed

Only `--cycle` changes a server; stop the gateway before. It first wakes a server that its
controller knows to be down. Exit status: 1 if something is bad.";

/// Version of the JSON form.
const SCHEMA: u32 = 1;

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    /// One entry per machine that was checked; this one has the name `this machine`.
    machines: Vec<Findings>,
}

#[derive(Debug, Serialize)]
struct CycleReport {
    schema: u32,
    name: String,
    cycles: Vec<Cycle>,
}

/// Checks, and reports the findings.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    if args.probes {
        return probes(args);
    }
    let place = HostView::default();
    let found = args.config.clone().or_else(ConfigArgs::found).filter(|_| !args.machine);
    let Some(path) = found else {
        if args.cycle.is_some() || args.site.is_some() {
            return Err(Failure::new("there is no configuration here".to_owned())
                .into_usage()
                .hint("`nightwatt init` writes one; `-c FILE` names one that is elsewhere"));
        }
        let findings = machine::examine(&place);
        return print(args, vec![Findings { name: "this machine".to_owned(), findings }]);
    };
    if args.config.is_none() && !args.json {
        let path = path.display();
        output::complain(&format!("the servers of {path}; `--machine` checks this machine"));
    }
    let config = control::load(&ConfigArgs { config: path })?;
    let clock = Clock::real();
    let runtime = clock.runtime().map_err(|error| Failure::because("cannot start", &error))?;
    if let Some(times) = args.cycle {
        return runtime.block_on(try_out(args, &config, &clock, times));
    }
    let targets = match &args.site {
        Some(_) => vec![target(args, &config)?],
        None => Target::all(&config),
    };
    let on_progress = |name: &str| {
        if !args.json {
            output::complain(&format!("looking at {name}"));
        }
    };
    print(args, runtime.block_on(proxy::examine(&targets, &config, &place, &clock, on_progress)))
}

#[cfg(feature = "bpf")]
fn probes(args: &Args) -> Result<ExitStatus, Failure> {
    let findings = nightwatt_doctor::bpf_programs::examine();
    print(args, vec![Findings { name: "this kernel".to_owned(), findings }])
}

#[cfg(not(feature = "bpf"))]
fn probes(_: &Args) -> Result<ExitStatus, Failure> {
    Err(Failure::new("this nightwatt was built without eBPF".to_owned())
        .hint("`cargo build --features bpf`; static binaries have none".to_owned()))
}

fn print(args: &Args, machines: Vec<Findings>) -> Result<ExitStatus, Failure> {
    let is_bad = machines.iter().flat_map(|it| &it.findings).any(|it| it.verdict == Verdict::Bad);
    let report = Report { schema: SCHEMA, machines };
    output::print_folded(&report, args.json, || page(&report), &[])?;
    Ok(if is_bad { ExitStatus::Failed } else { ExitStatus::Success })
}

fn page(report: &Report) -> String {
    let mut text = String::new();
    for machine in &report.machines {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{}", machine.name);
        for it in &machine.findings {
            let _ = writeln!(text, "  {:<8} {}: {}", it.verdict.as_str(), it.about, it.found);
            if let Some(cure) = &it.cure {
                let _ = writeln!(text, "           {cure}");
            }
        }
    }
    text
}

async fn try_out(
    args: &Args,
    config: &Config,
    clock: &Clock,
    times: u32,
) -> Result<ExitStatus, Failure> {
    let target = target(args, config)?;
    let Some(controller) = target.controller(config, clock) else {
        return Err(Failure::new(format!("{} sleeps with its machine", target.name))
            .into_usage()
            .hint("name the machine after `doctor`".to_owned()));
    };
    let controller = controller.map_err(|error| Failure::because("no controller", &error))?;
    if std::os::unix::net::UnixStream::connect(config.control_socket()).is_ok() {
        return Err(Failure::new("a gateway runs with this configuration".to_owned())
            .hint("stop it first: two hands on one power button end badly".to_owned()));
    }
    let port = match &target.probe {
        probe::Config::Tcp(tcp) => Some(tcp.address.clone()),
        _ => target.origin.clone(),
    };
    let port = port.and_then(|address| address.to_socket_addrs().ok()?.next());
    let port =
        port.ok_or_else(|| Failure::new(format!("no address of {} is known", target.name)))?;
    let plan = Plan {
        cycles: times,
        rest: args.rest,
        timeout: args.timeout,
        port,
        by_icmp: !target.power.is_some_and(ControllerConfig::is_on_this_machine),
        one_way: matches!(target.power, Some(ControllerConfig::One(_))),
    };
    let probe = Probe::new(target.probe.clone(), clock.clone());
    let on_progress = |number, step| {
        if !args.json {
            let doing = match step {
                Step::Sleeping => "falls asleep",
                Step::Resting => "sleeps",
                Step::Waking => "wakes",
            };
            let count = match number {
                0 => "before".to_owned(),
                number => format!("{number} of {times}"),
            };
            output::complain(&format!("{count}: {} {doing}", target.name));
        }
    };
    let cycles = cycle::run(&*controller, &probe, &plan, clock, on_progress).await;
    let cycles = cycles.map_err(|error| Failure::failed(&error))?;
    let report = CycleReport { schema: SCHEMA, name: target.name.to_owned(), cycles };
    output::print_folded(&report, args.json, || cycles_page(&report), &[])?;
    Ok(ExitStatus::Success)
}

fn target<'a>(args: &Args, config: &'a Config) -> Result<Target<'a>, Failure> {
    let mut all = Target::all(config);
    let names: Vec<String> = all.iter().map(|it| it.name.to_owned()).collect();
    let place = match &args.site {
        Some(name) => all.iter().position(|it| it.name == *name),
        None => (all.len() == 1).then_some(0),
    };
    let place = place.ok_or_else(|| {
        let what = match &args.site {
            Some(name) => format!("there is no site `{name}`"),
            None => "there are several sites".to_owned(),
        };
        Failure::new(format!("{what}; there are: {}", names.join(", ")))
            .into_usage()
            .hint("name one, as in `nightwatt doctor -c FILE NAME --cycle`")
    })?;
    Ok(all.swap_remove(place))
}

fn cycles_page(report: &CycleReport) -> String {
    let mut text = format!(
        "{}, seen every 50 ms; the way of the commands is subtracted\n\n{:>7}{:>9} {:>24} {:>26}\n{:>7}{:>9} {:>8}{:>8} {:>16}{:>8}{:>8}\n",
        report.name,
        "",
        "",
        "to sleep",
        "to wake",
        "cycle",
        "way",
        "icmp",
        "tcp",
        "icmp",
        "tcp",
        "probe"
    );
    let seconds = |it: Option<f64>| it.map_or_else(|| "-".to_owned(), |s| format!("{s:.2} s"));
    for (number, it) in report.cycles.iter().enumerate() {
        let _ = writeln!(
            text,
            "{:>7}{:>9} {:>8}{:>8} {:>16}{:>8}{:>8}",
            number + 1,
            format!("{:.2} s", it.way_s),
            seconds(it.to_sleep.icmp_s),
            seconds(it.to_sleep.tcp_s),
            seconds(it.to_wake.icmp_s),
            seconds(it.to_wake.tcp_s),
            seconds(it.to_wake.probe_s)
        );
    }
    let worst = |of: fn(&Cycle) -> &Times, by: fn(&Times) -> Option<f64>| {
        report.cycles.iter().filter_map(|it| by(of(it))).fold(0.0, f64::max)
    };
    let _ = write!(
        text,
        "\nFor the configuration, the longest of each:\n[scenario.server]\nsleep_time = \"{:.0}ms\"\nwake_time = \"{:.0}ms\"",
        1000.0 * worst(|it| &it.to_sleep, |it| it.tcp_s),
        1000.0 * worst(|it| &it.to_wake, |it| it.probe_s)
    );
    text
}
