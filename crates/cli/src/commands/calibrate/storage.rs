//! `nightwatt calibrate storage`: the energy that a disk uses for a write.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueHint;
use nightwatt_measure::calibrate::storage::{self, LogOptions, StorageFound};
use nightwatt_measure::pure::calibrate::storage::ActivityRule;
use nightwatt_meters::MeterSpec;

use super::{cannot_write, create, failed, read, recording};
use crate::ExitStatus;
use crate::errors::Failure;
use crate::output;
use crate::values;

/// `calibrate storage`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("writes_from").required(true).args(["table", "log"]))]
pub(crate) struct Args {
    /// CSV file of writes, with the columns `bytes,joules`, without the idle disk's energy; `-` for stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) table: Option<PathBuf>,
    /// A recording, with the options of the meter `file`: `disk.parquet`, `log.csv,mean=100ms`
    #[arg(long, value_name = "RECORDING", requires = "writes", value_parser = recording)]
    pub(crate) log: Option<MeterSpec>,
    /// CSV file of writes, with two columns: the time at which a write was issued, and its bytes
    #[arg(long, value_name = "FILE", requires = "log", value_hint = ValueHint::FilePath)]
    pub(crate) writes: Option<PathBuf>,
    /// The channel of the recording [default: the only one]
    #[arg(long, value_name = "NAME", requires = "log")]
    pub(crate) channel: Option<String>,
    /// Period before a write from which the idle power is computed
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "log", value_parser = values::measuring_time)]
    pub(crate) baseline: Duration,
    /// A write has ended when power has been down for this time
    #[arg(long, value_name = "TIME", default_value = "3s", requires = "log", value_parser = values::measuring_time)]
    pub(crate) quiet: Duration,
    /// Longest time from the issue of a write until power rises
    #[arg(long, value_name = "TIME", default_value = "1m", requires = "log", value_parser = values::measuring_time)]
    pub(crate) timeout: Duration,
    /// Write the model of this disk to this file, for `disk --model DEVICE=FILE`
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Fits, and prints the result.
pub(super) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let file = args.output.as_deref().map(create).transpose()?;
    let found = match (&args.table, &args.log, &args.writes) {
        (Some(table), ..) => storage::of_table(&text_of(table)?),
        (None, Some(log), Some(writes)) => storage::of_log(&LogOptions {
            log: log.clone(),
            channel: args.channel.clone(),
            writes: writes.clone(),
            rule: ActivityRule {
                baseline: args.baseline,
                quiet: args.quiet,
                longest_delay: args.timeout,
                ..ActivityRule::default()
            },
        }),
        // The groups of the command line exclude this case.
        _ => return Err(Failure::new("there is nothing to calibrate from").into_usage()),
    };
    let found = found.map_err(|error| failed(&error))?;
    if let Some((path, mut file)) = args.output.as_deref().zip(file) {
        let text = serde_json::to_string_pretty(&found.model)
            .map_err(|error| Failure::because("cannot write the model as JSON", &error))?;
        writeln!(file, "{text}").map_err(|error| cannot_write(path, &error))?;
    }
    output::print_result(&found, args.json, || text(&found), &found.warnings)?;
    Ok(ExitStatus::Success)
}

fn text_of(table: &Path) -> Result<String, Failure> {
    read(table).map_err(|error| {
        Failure::because(format!("cannot read {}", table.display()), &error)
            .into_usage()
            .hint("name a CSV file with the columns `bytes,joules`, or `-` for stdin")
    })
}

fn text(found: &StorageFound) -> String {
    let fit = &found.fit;
    let mut text = format!("measured by {}, {} writes\n", found.measured_by, fit.writes);
    // Per megabyte: the figure for one byte would have too many zeros to read.
    let mb = |joules: f64| joules * 1e6;
    let (w0, w1) = (&fit.per_write, &fit.per_byte);
    let rows = [
        ("a write (w0), J", w0.value.get(), (w0.interval.0.get(), w0.interval.1.get())),
        (
            "a megabyte (w1), J",
            mb(w1.value.get()),
            (mb(w1.interval.0.get()), mb(w1.interval.1.get())),
        ),
    ];
    // Writing to a String cannot fail.
    for (name, value, (low, high)) in rows {
        let _ = writeln!(text, "{name:<20}{value:>12.5}   95 %: {low:.5} to {high:.5}");
    }
    let _ = writeln!(text, "{:<20}{:>12.5}", "spread, J", fit.residual_sd.get());
    let (least, most) = fit.covered;
    let _ = write!(text, "sizes seen: {least} to {most} bytes");
    text
}
