//! `nightwatt disk`: whose bytes go to which device, and what that takes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_measure::run::Running;
use nightwatt_model::storage::StorageModel;
use nightwatt_profile::disk::{self, DiskOptions, DiskReport, DiskRow, Watcher};
use serde::Serialize;

use super::run::{cannot_watch, failed};
use crate::ExitStatus;
use crate::args::DiskArgs;
use crate::errors::Failure;
use crate::output;
use crate::report_file::Output;
use crate::signals;

/// Watches and reports.
pub(crate) fn run(args: &DiskArgs) -> Result<ExitStatus, Failure> {
    let options = DiskOptions {
        command: args.command.clone(),
        time: args.time,
        interval: args.interval,
        sync: args.sync,
        classes: args.class.iter().cloned().collect(),
        models: args.model.iter().map(model).collect::<Result<_, _>>().map_err(failed)?,
    };
    let mut output = Output::open(args.output.as_deref()).map_err(failed)?;
    let mut shown = Shown { live: args.live, log: log(args).map_err(failed)? };
    let running = Running::new()
        .map_err(|error| failed(Failure::because("cannot prepare to run a command", &error)))?;
    signals::forward(&running).map_err(failed)?;
    if args.command.is_empty() && args.time.is_none() && !args.live && !args.json {
        output::complain("watching all disks; Ctrl-C ends and shows the figures");
    }
    let report = disk::run(&options, &running, &mut shown).map_err(|error| cannot_watch(&error))?;
    shown.finish().map_err(failed)?;
    output.write_report(&report, args.json, &report.text(), &report.warnings).map_err(failed)?;
    Ok(match report.exit_status {
        0 => ExitStatus::Success,
        status => ExitStatus::Of(status),
    })
}

/// What `calibrate storage` has found of a device.
fn model((device, path): &(String, PathBuf)) -> Result<(String, StorageModel), Failure> {
    let hint = "`nightwatt calibrate storage -o FILE` writes such a file";
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::because(format!("cannot read {}", path.display()), &error).hint(hint)
    })?;
    let model = serde_json::from_str(&text).map_err(|error| {
        let what = format!("{} is no model of a disk", path.display());
        Failure::because(what, &error).hint(hint)
    })?;
    Ok((device.clone(), model))
}

fn log(args: &DiskArgs) -> Result<Option<BufWriter<File>>, Failure> {
    let Some(path) = &args.log else { return Ok(None) };
    let file = File::create(path).map_err(|error| {
        Failure::because(format!("cannot write {}", path.display()), &error)
            .hint("`--log` names a file in a folder that is there and can be written to")
    })?;
    Ok(Some(BufWriter::new(file)))
}

/// What is shown while it runs.
struct Shown {
    live: bool,
    log: Option<BufWriter<File>>,
}

/// A line of the log.
#[derive(Serialize)]
struct Line<'a> {
    /// Since the beginning.
    at_s: f64,
    #[serde(flatten)]
    row: &'a DiskRow,
}

impl Shown {
    fn finish(&mut self) -> Result<(), Failure> {
        let flushed = self.log.as_mut().map_or(Ok(()), Write::flush);
        flushed.map_err(|error| Failure::because("cannot write the log", &error))
    }
}

impl Watcher for Shown {
    fn news(&mut self, at: Duration, rows: &[DiskRow]) -> io::Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        for row in rows {
            serde_json::to_writer(&mut *log, &Line { at_s: at.as_secs_f64(), row })?;
            log.write_all(b"\n")?;
        }
        // Whoever follows the file, or kills us, has what was seen so far.
        log.flush()
    }

    fn report(&mut self, report: &DiskReport) -> io::Result<()> {
        output::renew(&report.text());
        Ok(())
    }

    fn wants_reports(&self) -> bool {
        self.live
    }
}
