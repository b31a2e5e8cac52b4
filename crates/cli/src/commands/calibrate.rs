//! `nightwatt calibrate`: measured figures of this machine, with their uncertainty.

mod states;
mod storage;
mod sync;
mod wakeups;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Subcommand, ValueHint};
use nightwatt_clock::meter::monotonic;
use nightwatt_measure::Error;
use nightwatt_measure::calibrate::utilisation::{self, Calibration, UtilisationOptions};
use nightwatt_measure::pure::calibrate::utilisation::Better;
use nightwatt_meters::{MeterError, MeterSpec};

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::output;
use crate::progress::Progress;
use crate::signals;
use crate::values;

/// Measure what this machine draws awake, asleep and under load
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to calibrate
    #[command(subcommand)]
    pub(crate) what: Calibrate,
}

pub(crate) const LISTED: Listed = Listed::Last(Group::Measure);

const EXAMPLES: &str = "Examples:
  nightwatt calibrate states runs.csv
  nightwatt calibrate states --log night.parquet --times sleeps.csv
  nightwatt calibrate states --drive nightwatt.toml -m shelly=http://10.0.0.9
  nightwatt calibrate utilisation -m shelly=http://10.0.0.9 -o this-machine.json
  nightwatt calibrate utilisation powers.csv -o this-machine.json
  nightwatt run -m model,fitted=this-machine.json -- make
  nightwatt calibrate wakeups -m shelly=http://10.0.0.9
  nightwatt calibrate sync generate --line rts=/dev/ttyS0 --for 10m -o s.csv
  nightwatt calibrate sync align daq.txt s.csv --rate 10000 -o times.csv

`states` fits E = P_on x on_s + P_off x off_s + E_switch x cycles by least squares. `off_s` counts
from the sleep command until the wake command has been answered. Sleeps of different lengths are
needed to separate P_off from E_switch.

Docs: docs/calibrate.md";

/// What can be calibrated.
#[derive(Debug, Subcommand)]
pub(crate) enum Calibrate {
    /// Measure power awake, power asleep and energy of a sleep cycle: from runs, from a recording, or by
    /// putting the machine to sleep and waking it
    States(states::Args),
    /// Measure power by CPU utilisation: keeps this machine busy in steps while it reads a meter, or reads a
    /// table
    Utilisation {
        /// CSV file of earlier measurements, with the columns `watts,busy` (0 to 1); `-` for stdin
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "meter", conflicts_with = "meter")]
        table: Option<PathBuf>,
        /// The meter
        #[arg(short, long, value_name = "METER")]
        meter: Option<MeterSpec>,
        /// Channel of the meter [default: the one that covers the machine]
        #[arg(long, value_name = "NAME", requires = "meter")]
        channel: Option<String>,
        /// Duration of each of 20 loads
        #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::measuring_time)]
        step: Duration,
        /// Write the model of this machine to this file, for `-m model,fitted=FILE`
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Measure the energy that a disk uses for a write and for each byte: from a recording, or from a table
    Storage(storage::Args),
    /// Measure the energy that a transition from idle to active costs: keeps this machine busy for periods
    /// of different lengths while it reads a meter, or reads a table
    Wakeups(wakeups::Args),
    /// Put a DAQ's log on this machine's clock, by a line that both record
    Sync {
        /// The step
        #[command(subcommand)]
        step: sync::Sync,
    },
}

/// A recording, in the notation of the meter `file` but without that word: `log.csv,mean=1s`.
fn recording(text: &str) -> Result<MeterSpec, String> {
    format!("file={text}").parse().map_err(|error: MeterError| error.to_string())
}

/// Measures, fits, and prints the result.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    match &args.what {
        Calibrate::States(args) => states::run(args),
        Calibrate::Utilisation { table, meter, channel, step, output, json } => {
            let (channel, step) = (channel.clone(), *step);
            let options = meter.clone().map(|meter| UtilisationOptions { meter, channel, step });
            let table = table.as_deref().unwrap_or_else(|| Path::new("-"));
            calibrate_utilisation(options.as_ref(), table, output.as_deref(), *json)
        }
        Calibrate::Storage(args) => storage::run(args),
        Calibrate::Wakeups(args) => wakeups::run(args),
        Calibrate::Sync { step } => sync::run(step),
    }
}

fn failed(error: &Error) -> Failure {
    let hint = error.hint();
    Failure::failed(error).maybe_hint(hint)
}

fn calibrate_utilisation(
    options: Option<&UtilisationOptions>,
    table: &Path,
    to: Option<&Path>,
    json: bool,
) -> Result<ExitStatus, Failure> {
    // Created before the measurement, so that a path that cannot be written does not cost minutes.
    let file = to.map(create).transpose()?;
    let calibration = if let Some(options) = options {
        measured(options, json)?
    } else {
        let text = read(table).map_err(|error| {
            Failure::because(format!("cannot read {}", table.display()), &error)
                .into_usage()
                .hint("name a CSV file with the columns `watts,busy`, or `-` for stdin")
        })?;
        utilisation::of_table(&text).map_err(|error| failed(&error))?
    };
    if json {
        output::print_json(&calibration)?;
    } else {
        output::print(&utilisation_text(&calibration))?;
    }
    if let Some((path, mut file)) = to.zip(file) {
        let text = serde_json::to_string_pretty(&calibration.model)
            .map_err(|error| Failure::because("cannot write the model as JSON", &error))?;
        writeln!(file, "{text}").map_err(|error| cannot_write(path, &error))?;
    }
    Ok(ExitStatus::Success)
}

/// Keeps the machine busy in steps.
fn measured(options: &UtilisationOptions, json: bool) -> Result<Calibration, Failure> {
    let stop = signals::stop_on_signals()?;
    let mut progress = Progress::by_time(json);
    let began = monotonic();
    let on_progress = |done: usize, of: usize| {
        let left = options.step * u32::try_from(of - done).unwrap_or(0);
        let elapsed: Duration = monotonic().since(began);
        progress.update(done as u64, of as u64, elapsed, Some(left), || {
            format!("load {} of {of}", done + 1)
        });
    };
    let calibration = utilisation::run(options, &stop, on_progress);
    progress.end();
    calibration.map_err(|error| failed(&error))
}

/// A table's text.
fn read(table: &Path) -> std::io::Result<String> {
    if table == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text)?;
        return Ok(text);
    }
    fs::read_to_string(table)
}

/// Creates a new file; an existing one may hold an earlier calibration.
fn create(path: &Path) -> Result<File, Failure> {
    File::create_new(path).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::because(format!("cannot write {}", path.display()), error)
        .hint("`-o` names a new file, in a folder that is there and can be written to")
}

fn utilisation_text(calibration: &Calibration) -> String {
    let fit = &calibration.fit;
    let mut text = format!("measured by {}, {} points\n", calibration.measured_by, fit.points);
    let line = &fit.line;
    for (name, it) in [("idle", &line.idle), ("busy beyond idle", &line.slope)] {
        let (value, (low, high)) = (it.value.get(), (it.interval.0.get(), it.interval.1.get()));
        let _ = writeln!(text, "{name:<28}{value:>12.3} W   95 %: {low:.3} to {high:.3}");
    }
    let _ = writeln!(text, "{:<28}{:>12.3} W", "spread about the line", line.residual_sd.get());
    let better = match fit.better {
        Better::Line => "a straight line does",
        Better::BrokenLine => "a broken line is better than a straight one, and was taken",
    };
    let (least, most) = fit.covered;
    let _ = writeln!(text, "{better}; seen: {:.0} to {:.0} % busy", least * 100.0, most * 100.0);
    text
}
