//! `nightwatt demo`: a day of traffic meets a server that sleeps.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_clock::Clock;
use nightwatt_demo::{self as demo, DemoOptions, Shown};
use nightwatt_energy::duration_text;
use nightwatt_energy::time::{Now, Wall};
use nightwatt_policy::scenario::Scenario;

use crate::ExitStatus;
use crate::args::{ChosenSiteArgs, ScenarioArgs};
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::figures::count;
use crate::output;
use crate::progress::{Progress, time_left};
use crate::signals::stop_on_signals;
use crate::values;

/// Watch a day of traffic meet a server that sleeps, and its saving
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Args {
    /// Seed of the generated traffic: same seed, same day
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Days of traffic [default: 1, or all of the log]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) days: Option<u32>,
    /// A real log (Common or Combined, plain or gzip) instead of generated traffic
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    #[command(flatten)]
    pub(crate) site: ChosenSiteArgs,
    /// Without the mirror of the site, and without the second run that shows what it saves
    #[arg(long)]
    pub(crate) no_mirror: bool,
    /// Let a day take a day, instead of jumping over the time in which nothing happens
    #[arg(long)]
    pub(crate) real_time: bool,
    /// Show the dashboard at this address, until Ctrl-C
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:9180", value_parser = values::address, conflicts_with = "json")]
    pub(crate) dashboard: Option<SocketAddr>,
    /// Open the dashboard in a browser; without `--dashboard`, on a free port
    #[arg(long, conflicts_with = "json")]
    pub(crate) open: bool,
    /// With a dashboard: how long the day takes to watch; 0: as long as it has to
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration_text::parse)]
    pub(crate) day_in: Duration,
    /// Keep logs, ledger and records here
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::First(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt demo
  nightwatt demo --open
  nightwatt demo --dashboard 127.0.0.1:9180 --days 30 --day-in 0
  nightwatt demo --policy 'timeout 5s' --no-sla
  nightwatt demo --log access.log.gz --days 7       # by your configuration
  nightwatt demo -c nightwatt.toml                  # your server's watts
  nightwatt demo --json | jq '{requests, wakeups, saving}'

Exit status: 1 also if a request was lost or answered twice.";

/// Runs the demo and shows the bill.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let origin_program = std::env::current_exe().map_err(|error| {
        Failure::because("cannot find the program itself, which is the demo's server too", &error)
    })?;
    let shown = shown(args)?;
    let options = DemoOptions {
        shown,
        seed: args.seed,
        days: args.days,
        log: args.log.clone(),
        scenario: scenario(args)?,
        mirror: !args.no_mirror,
        real_time: args.real_time,
        out: args.output.clone(),
        origin_program,
    };
    let mut progress = Progress::by_tenths(args.json);
    let clock = Clock::real();
    let mut started = clock.now().mono;
    let mut first = None;
    let mut is_again = false;
    let on_progress = |now: demo::Progress| {
        if now.is_without_mirror && !is_again {
            progress.end();
            progress = Progress::by_tenths(args.json);
            (first, started, is_again) = (None, clock.now().mono, true);
        }
        let first = *first.get_or_insert(now.at);
        let elapsed = clock.now().mono.since(started);
        let left = time_left(now.done, now.total, elapsed);
        progress.update(now.done, now.total, elapsed, left, || {
            let again = if now.is_without_mirror { "without the mirror: " } else { "" };
            let (done, time) = (count(now.done), time_of(&now, first));
            format!("{again}{done} requests, {time}, server {}", now.state)
        });
    };
    let report = demo::run(&options, |address| introduce(address, args.open), on_progress);
    progress.end();
    let report = report.map_err(|error| {
        let hint = error.hint();
        Failure::of_input(&error).maybe_hint(hint)
    })?;
    let Some(report) = report else {
        output::print("Left before the end of the day: there is no bill.")?;
        return Ok(ExitStatus::Success);
    };
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&output::folded(&report.text()))?;
        if options.shown.is_none() {
            output::print(
                "\nIn a browser, an hour in 2.5 s: nightwatt demo --open (make demo ARGS=--open)",
            )?;
        }
    }
    if !report.is_sound() {
        return Err(Failure::new("requests were lost or answered twice: the bill is not sound")
            .hint("run it again with `--output DIR` and compare the records there by request id"));
    }
    Ok(ExitStatus::Success)
}

/// The scenario. A log is of a site, so its configuration is found as for `analyze`. The generated day is that of the
/// published server, the same wherever it is played, unless the user gives a configuration.
fn scenario(args: &Args) -> Result<Scenario, Failure> {
    let may_be_found = args.log.is_some() && args.scenario.scenario.is_none();
    match args.site.scenario(may_be_found)? {
        Some(scenario) => args.scenario.applied_to(scenario),
        None => args.scenario.resolve(),
    }
}

/// What to show in a browser, if anything.
fn shown(args: &Args) -> Result<Option<Shown>, Failure> {
    let free = || SocketAddr::from(([127, 0, 0, 1], 0));
    let Some(address) = args.dashboard.or_else(|| args.open.then(free)) else { return Ok(None) };
    // Not a failure: a user who closed stdout still has the page.
    let day_is_over = || {
        let _ = output::print(
            "The day is over; from now on time passes as yours does. Ctrl-C: the bill.",
        );
    };
    Ok(Some(Shown { address, day_in: args.day_in, day_is_over, stop: stop_on_signals()? }))
}

/// Prints the address of the dashboard, and opens it.
fn introduce(address: SocketAddr, open: bool) {
    let url = format!("http://{address}/");
    let text = format!(
        "The dashboard: {url} (password for its buttons: {}). Ctrl-C ends the demo.",
        demo::PASSWORD
    );
    // Not a failure: a user who closed stdout still has the page.
    let _ = output::print(&text);
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    if open && std::process::Command::new(opener).arg(&url).spawn().is_err() {
        let _ =
            output::print(&format!("There is no `{opener}` here: open that address in a browser."));
    }
}

/// `14:30` or `day 2, 14:30`, by the demo's own clock.
fn time_of(now: &demo::Progress, first: Wall) -> String {
    let local = Now { wall: now.at, utc_offset: now.utc_offset, ..Now::default() };
    let minute = local.second_of_day() / 60;
    let time = format!("{:02}:{:02}", minute / 60, minute % 60);
    let day_of = |at: Wall| (at.secs() + i64::from(now.utc_offset)).div_euclid(86_400);
    match day_of(now.at) - day_of(first) {
        0 => time,
        days => format!("day {}, {time}", days + 1),
    }
}
