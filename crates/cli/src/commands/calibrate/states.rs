//! `nightwatt calibrate states`: what a machine draws awake and asleep, and what a sleep costs.

use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueHint;
use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_gateway::Config;
use nightwatt_measure::calibrate::states::drive::DriveOptions;
use nightwatt_measure::calibrate::states::log::LogOptions;
use nightwatt_measure::calibrate::states::{self, StatesFound};
use nightwatt_measure::pure::calibrate::Estimate;
use nightwatt_measure::pure::calibrate::states::StatesFit;
use nightwatt_measure::pure::calibrate::states::drive::{Drive, DrivePlan, Phase};
use nightwatt_meters::MeterSpec;

use super::{failed, read, recording};
use crate::ExitStatus;
use crate::errors::Failure;
use crate::output;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::values;

const USAGE: &str = "\
nightwatt calibrate states [OPTIONS] <FILE>
       nightwatt calibrate states [OPTIONS] <--log <RECORDING>|--drive <CONFIG>>";

/// `calibrate states`.
#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["table", "log", "drive"]))]
pub(crate) struct Args {
    /// CSV file of runs, with the columns `on_s,off_s,cycles,joules` (and `joules_sd`); `-` for stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) table: Option<PathBuf>,
    /// A recording, with the options of the meter `file`: `night.parquet`, `log.csv,mean=1s`
    #[arg(long, value_name = "RECORDING", requires = "times", value_parser = recording)]
    pub(crate) log: Option<MeterSpec>,
    /// CSV file with two times per line: of the sleep command, and when the machine was awake again
    #[arg(long, value_name = "FILE", requires = "log", value_hint = ValueHint::FilePath)]
    pub(crate) times: Option<PathBuf>,
    /// Put the machine of this `serve` configuration through sleep cycles. Stop `serve` first
    #[arg(long, value_name = "CONFIG", value_hint = ValueHint::FilePath)]
    pub(crate) drive: Option<PathBuf>,
    /// The site of the server [default: the only one]
    #[arg(long, value_name = "SITE", requires = "drive")]
    pub(crate) site: Option<String>,
    /// The meter of the machine [default: the site's]
    #[arg(short, long, value_name = "METER", requires = "drive")]
    pub(crate) meter: Option<MeterSpec>,
    /// The machine's channel of the meter or the recording [default: the only one, or the one that covers
    /// a machine]
    #[arg(long, value_name = "NAME", conflicts_with = "table")]
    pub(crate) channel: Option<String>,
    /// Number of sleep cycles
    #[arg(long, value_name = "N", default_value_t = 8, requires = "drive", value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) cycles: u32,
    /// Shortest and longest time awake
    #[arg(long, value_name = "TIME,TIME", default_value = "1m,2m", requires = "drive", value_parser = times)]
    pub(crate) on: (Duration, Duration),
    /// Shortest and longest time from the sleep command to the wake command
    #[arg(long, value_name = "TIME,TIME", default_value = "30s,5m", requires = "drive", value_parser = times)]
    pub(crate) off: (Duration, Duration),
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Two times, the shorter one first: `30s,5m`.
fn times(text: &str) -> Result<(Duration, Duration), String> {
    let (least, most) =
        text.split_once(',').ok_or("write two times, the shorter one first, as in `30s,5m`")?;
    let (least, most) =
        (values::measuring_time(least.trim())?, values::measuring_time(most.trim())?);
    if least > most {
        return Err("the shorter time comes first, as in `30s,5m`".to_owned());
    }
    Ok((least, most))
}

/// Calibrates from the source that the user named.
pub(super) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    if let Some(table) = &args.table {
        return of_table(table, args.json);
    }
    let found = match (&args.drive, &args.log, &args.times) {
        (Some(config), ..) => driven(args, config)?,
        (None, Some(log), Some(times)) => {
            let (log, channel) = (log.clone(), args.channel.clone());
            let options = LogOptions { log, channel, times: times.clone() };
            states::log::run(&options).map_err(|error| failed(&error))?
        }
        // The groups of the command line exclude this case.
        _ => return Err(Failure::new("there is nothing to calibrate from").into_usage()),
    };
    if args.json {
        output::print_json(&found)?;
    } else {
        output::print(&format!("{}\n{}", states_text(&found.fit), found.toml()))?;
    }
    for warning in &found.warnings {
        output::complain(&format!("warning: {warning}"));
    }
    Ok(ExitStatus::Success)
}

/// Puts the machine to sleep and wakes it, as many times as the plan has cycles.
fn driven(args: &Args, config: &Path) -> Result<StatesFound, Failure> {
    let config = Config::load(config).map_err(|error| Failure::usage(&error))?;
    if UnixStream::connect(config.control_socket()).is_ok() {
        let text =
            "`nightwatt serve` runs with this configuration, and two must not command one machine";
        return Err(
            Failure::new(text).hint("stop it first: its clients cannot be served meanwhile")
        );
    }
    let options = drive_options(args, &config)?;
    let clock = Clock::real();
    let runtime =
        clock.runtime().map_err(|error| Failure::because("cannot start the runtime", &error))?;
    let mut progress = Progress::by_time(args.json);
    let (begun, lasts) = (clock.now().mono, options.plan.lasts());
    let mut told = None;
    let on_progress = |drive: &Drive, now: Mono| {
        let left = drive.left(now);
        let done = lasts.saturating_sub(left).as_secs();
        let what = || {
            let cycle = (drive.cycles().len() + 1).min(args.cycles as usize);
            format!("cycle {cycle} of {}: {}", args.cycles, words(drive.phase()))
        };
        // While phase and second are the same, there is nothing new to report.
        let state = (drive.phase(), now.0.as_secs());
        if told.replace(state) != Some(state) {
            progress.update(done, lasts.as_secs(), now.since(begun), Some(left), what);
        }
    };
    let found = runtime.block_on(async {
        let mut signals = Signals::catch()?;
        let stop = async {
            let signal = signals.end().await;
            output::complain(&format!("{signal}: the machine is woken before this ends"));
        };
        let found = states::drive::run(&options, &clock, stop, on_progress).await;
        found.map_err(|error| failed(&error))
    });
    progress.end();
    found
}

/// The machine of the chosen site, and the meter that measures it.
fn drive_options(args: &Args, config: &Config) -> Result<DriveOptions, Failure> {
    let site = match &args.site {
        Some(name) => config.site.iter().find(|site| site.name == *name),
        None => config.site.first().filter(|_| config.site.len() == 1),
    };
    let site = site.ok_or_else(|| {
        let names: Vec<_> = config.site.iter().map(|site| format!("`{}`", site.name)).collect();
        let names = names.join(", ");
        Failure::new(format!("say by `--site` whose server is meant: there are {names}"))
    })?;
    let (meter, channel) = match (&args.meter, &site.meter) {
        (Some(meter), _) => (meter.clone(), args.channel.clone()),
        (None, Some(config)) => {
            let channel = args.channel.clone().or_else(|| config.pick().map(str::to_owned));
            (config.spec(), channel)
        }
        (None, None) => {
            return Err(Failure::new(
                "no meter measures the machine; name one by `-m`, or as `[site.meter]`",
            ));
        }
    };
    let power = site.power.clone().ok_or_else(|| {
        Failure::new(
            "the site has no `power` of its own, it sleeps with its machine; name a site that has, or write a \
             configuration for this in which the machine's `power` is the site's",
        )
    })?;
    Ok(DriveOptions {
        power,
        probe: site.probe_config(),
        state_dir: config.state_dir.clone(),
        site: site.name.clone(),
        meter,
        channel,
        plan: DrivePlan::new(args.cycles, &(args.on.0..=args.on.1), &(args.off.0..=args.off.1)),
    })
}

const fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Waking => "waking",
        Phase::Awake => "awake",
        Phase::FallingAsleep => "falling asleep",
        Phase::Asleep => "asleep",
    }
}

fn of_table(table: &Path, json: bool) -> Result<ExitStatus, Failure> {
    let text = read(table).map_err(|error| {
        Failure::because(format!("cannot read {}", table.display()), &error).into_usage().hint(
            "name a CSV file, or `-` for stdin; `nightwatt calibrate --help` says its columns",
        )
    })?;
    let fit = states::fit(&text).map_err(|error| failed(&error))?;
    if json {
        output::print_json(&serde_json::json!({"schema": 1, "fit": fit}))?;
    } else {
        output::print(&states_text(&fit))?;
    }
    Ok(ExitStatus::Success)
}

fn states_text(fit: &StatesFit) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: f64, (low, high): (f64, f64), unit: &str| {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{name:<28}{value:>12.3} {unit}   95 %: {low:.3} to {high:.3}");
    };
    let watts = |it: &Estimate<nightwatt_energy::quantity::Watts>| {
        (it.value.get(), (it.interval.0.get(), it.interval.1.get()))
    };
    for (name, (value, interval)) in [
        ("awake (P_on)", watts(&fit.on)),
        ("asleep (P_off)", watts(&fit.off)),
        ("saved asleep", watts(&fit.saved)),
    ] {
        line(name, value, interval, "W");
    }
    let interval = (fit.switch.interval.0.get(), fit.switch.interval.1.get());
    line("a sleep cycle (E_switch)", fit.switch.value.get(), interval, "J");
    let _ = writeln!(text, "{} rows", fit.rows);
    for doubt in &fit.doubts {
        let doubt = serde_json::to_string(doubt).unwrap_or_default();
        let _ = writeln!(text, "doubt: {}", doubt.trim_matches('"').replace('_', " "));
    }
    text
}
