//! `nightwatt calibrate wakeups`: the energy that a transition from idle to active costs.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_clock::meter::monotonic;
use nightwatt_measure::calibrate::wakeups::{self, WakeupOptions, WakeupsFound};
use nightwatt_meters::MeterSpec;

use super::{failed, read};
use crate::ExitStatus;
use crate::errors::Failure;
use crate::output;
use crate::progress::Progress;
use crate::signals;
use crate::values;

/// `calibrate wakeups`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("wakeups_from").required(true).args(["table", "meter"]))]
pub(crate) struct Args {
    /// CSV file of loads, with the columns `watts,busy,wakeups_per_s`; `-` for stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) table: Option<PathBuf>,
    /// The meter of this machine
    #[arg(short, long, value_name = "METER")]
    pub(crate) meter: Option<MeterSpec>,
    /// Channel of the meter [default: the one that covers the machine]
    #[arg(long, value_name = "NAME", requires = "meter")]
    pub(crate) channel: Option<String>,
    /// Duration of each of 16 loads
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::measuring_time)]
    pub(crate) step: Duration,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measures or reads, fits, and prints the result.
pub(super) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let found = match (&args.table, &args.meter) {
        (Some(table), _) => {
            let text = read(table).map_err(|error| {
                Failure::because(format!("cannot read {}", table.display()), &error).into_usage().hint(
                    "name a CSV file with the columns `watts,busy,wakeups_per_s`, or `-` for stdin",
                )
            })?;
            wakeups::of_table(&text)
        }
        (None, Some(meter)) => {
            let (meter, channel) = (meter.clone(), args.channel.clone());
            let options = WakeupOptions { meter, channel, step: args.step };
            let stop = signals::stop_on_signals()?;
            let mut progress = Progress::by_time(args.json);
            let began = monotonic();
            let found = wakeups::run(&options, &stop, |done, of| {
                let left = options.step * u32::try_from(of - done).unwrap_or(0);
                let elapsed = monotonic().since(began);
                progress.update(done as u64, of as u64, elapsed, Some(left), || {
                    format!("load {} of {of}", done + 1)
                });
            });
            progress.end();
            found
        }
        // The groups of the command line exclude this case.
        _ => return Err(Failure::new("there is nothing to calibrate from").into_usage()),
    };
    let found = found.map_err(|error| failed(&error))?;
    output::print_result(&found, args.json, || text(&found), &found.warnings)?;
    Ok(ExitStatus::Success)
}

fn text(found: &WakeupsFound) -> String {
    let fit = &found.fit;
    let mut text = format!("measured by {}, {} points\n", found.measured_by, fit.points);
    // Writing to a String cannot fail.
    for (name, it) in [("idle", &fit.idle), ("busy beyond idle", &fit.busy)] {
        let (value, (low, high)) = (it.value.get(), (it.interval.0.get(), it.interval.1.get()));
        let _ = writeln!(text, "{name:<28}{value:>12.3} W   95 %: {low:.3} to {high:.3}");
    }
    let it = &fit.wake_up;
    let micro = |joules: f64| 1e6 * joules;
    let (value, (low, high)) = (it.value.get(), (it.interval.0.get(), it.interval.1.get()));
    let _ = writeln!(
        text,
        "{:<28}{:>12.3} µJ  95 %: {:.3} to {:.3}",
        "a wake-up",
        micro(value),
        micro(low),
        micro(high)
    );
    let _ = writeln!(text, "{:<28}{:>12.3} W", "spread about the plane", fit.residual_sd.get());
    let (least, most) = fit.covered;
    let _ = write!(
        text,
        "seen: {least:.0} to {most:.0} wake-ups a second; `nightwatt tcp lab --wake-energy {value:.3e}` uses it"
    );
    text
}
