//! `nightwatt disk`: which processes write how many bytes to which device, and the energy of that.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueHint;
use nightwatt_energy::storage::{Class, StorageModel};
use nightwatt_profile::disk::{self, DiskOptions, DiskReport, DiskRow, Watcher};
use nightwatt_profile::preflight;
use serde::Serialize;

use super::run::{cannot_watch, failed, like, running};
use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::dry_run::DryRun;
use crate::errors::Failure;
use crate::figures;
use crate::live_table;
use crate::output;
use crate::report_file::Output;
use crate::values;

/// Count the bytes each process writes to each disk, and their energy
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Args {
    /// Stop after this time; a command is ended then [default: when it ends, or at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = values::measuring_time)]
    pub(crate) time: Option<Duration>,
    /// Time between two updates of the table and the log
    #[arg(short = 'I', long, value_name = "TIME", default_value = "1s", value_parser = values::measuring_time)]
    pub(crate) interval: Duration,
    /// Show the table, updated at each interval
    #[arg(long)]
    pub(crate) live: bool,
    /// At the end, write all dirty data to the disks (as `sync` does), and count that too
    #[arg(long)]
    pub(crate) sync: bool,
    #[arg(long, value_name = "DEVICE=KIND", value_parser = device_class, help = class_help())]
    pub(crate) class: Vec<(String, Class)>,
    /// The energy model of a device, as `calibrate storage -o FILE` wrote it: `sda=disk.json`
    #[arg(long, value_name = "DEVICE=FILE", value_parser = device_model)]
    pub(crate) model: Vec<(String, PathBuf)>,
    /// Write a line of JSON for each process and file that was active in an interval
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,
    /// Write the figures here; `-` for stdout [default: stderr]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print what would be done, and what this machine lacks for it (then exit status 1); run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// A command to run during the measurement, and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Measure);

const EXAMPLES: &str = "Examples:
  nightwatt disk --live
  nightwatt disk --for 1h --log writes.jsonl --json -o hour.json
  nightwatt disk --sync -- make -j4
  nightwatt disk --class vda=nvme --for 10m

`disk` watches all processes, whether or not it runs a command. It attributes bytes to the process
that made them dirty, also when the kernel writes them after that process has ended. Needs root, or
CAP_BPF, CAP_PERFMON and, from Linux 6.16 on, CAP_SYS_ADMIN. Exit status: the command's, as for
`nightwatt run`; 125 if nightwatt itself failed.

Docs: docs/disk.md";

fn class_help() -> String {
    let [hdd, sata_ssd, nvme] = Class::ALL.map(Class::name);
    format!("The kind of a device: `vda={nvme}`; kinds are `{hdd}`, `{sata_ssd}` and `{nvme}`")
}

/// A device and its kind: `vda=nvme`.
fn device_class(text: &str) -> Result<(String, Class), String> {
    let (device, kind) =
        text.split_once('=').ok_or("write a device and its kind, as in `vda=nvme`")?;
    let class = Class::ALL.into_iter().find(|class| class.name() == kind);
    let known = || Class::ALL.map(Class::name).join(", ");
    let class = class.ok_or_else(|| format!("`{kind}` is not one of {}", known()))?;
    Ok((device.trim_start_matches("/dev/").to_owned(), class))
}

/// A device and the file of its model: `sda=disk.json`.
fn device_model(text: &str) -> Result<(String, PathBuf), String> {
    let (device, file) =
        text.split_once('=').ok_or("write a device and a file, as in `sda=disk.json`")?;
    Ok((device.trim_start_matches("/dev/").to_owned(), file.into()))
}

/// What helps where rights are missing.
pub(super) const RIGHTS: &str = "run it as root, or give the program what it needs: `setcap \
                                 cap_bpf,cap_perfmon,cap_sys_admin+ep nightwatt`; `nightwatt doctor --probes` tries \
                                 each probe of this kernel";

/// Measures and reports.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let options = DiskOptions {
        command: args.command.clone(),
        time: args.time,
        interval: args.interval,
        sync: args.sync,
        classes: args.class.iter().cloned().collect(),
        models: args
            .model
            .iter()
            .map(|(device, path)| model(device, path))
            .collect::<Result<_, _>>()
            .map_err(failed)?,
    };
    let missing = preflight::of_disk(&nightwatt_host::Host::default());
    if args.dry_run {
        return DryRun { would: would(args), missing }.say(args.json).map_err(failed);
    }
    if !missing.is_empty() {
        return Err(failed(Failure::missing("nightwatt disk", &missing).hint(RIGHTS)));
    }
    let mut output = Output::open(args.output.as_deref()).map_err(failed)?;
    let mut shown = Shown { live: args.live, log: log(args).map_err(failed)? };
    let running = running()?;
    if args.command.is_empty() && args.time.is_none() && !args.live && !args.json {
        output::complain("watching all disks; Ctrl-C ends and shows the figures");
    }
    let report = disk::run(&options, &running, &mut shown).map_err(|error| cannot_watch(&error))?;
    shown.finish().map_err(failed)?;
    output.write_report(&report, args.json, &report.text(), &report.warnings).map_err(failed)?;
    Ok(like(report.exit_status))
}

/// What a run with these options does.
fn would(args: &Args) -> Vec<String> {
    let end = match (args.time, args.command.is_empty()) {
        (Some(time), _) => format!("for {}", figures::time(time)),
        (None, true) => "until Ctrl-C".to_owned(),
        (None, false) => "until the command ends".to_owned(),
    };
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let command = (!words.is_empty()).then(|| format!("run `{}`", words.join(" ")));
    let log = args.log.as_ref().map(|path| format!("write a log to {}", path.display()));
    let output = args.output.as_deref().unwrap_or_else(|| Path::new("stderr"));
    let figures = format!("write the figures to {}", output.display());
    let watch = format!("watch all disks {end}");
    [Some(watch), command, log, Some(figures)].into_iter().flatten().collect()
}

/// Reads the model of a device that `calibrate storage` wrote.
fn model(device: &str, path: &Path) -> Result<(String, StorageModel), Failure> {
    let hint = "`nightwatt calibrate storage -o FILE` writes such a file";
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::because(format!("cannot read {}", path.display()), &error).hint(hint)
    })?;
    let model = serde_json::from_str(&text).map_err(|error| {
        let what = format!("{} is no model of a disk", path.display());
        Failure::because(what, &error).hint(hint)
    })?;
    Ok((device.to_owned(), model))
}

fn log(args: &Args) -> Result<Option<BufWriter<File>>, Failure> {
    let Some(path) = &args.log else { return Ok(None) };
    let file = File::create(path).map_err(|error| {
        Failure::because(format!("cannot write {}", path.display()), &error)
            .hint("`--log` names a file in a folder that is there and can be written to")
    })?;
    Ok(Some(BufWriter::new(file)))
}

/// What is shown during the measurement.
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
        // Flushed now, so that a reader who follows the file sees the rows, and a kill does not lose them.
        log.flush()
    }

    fn report(&mut self, report: &DiskReport) -> io::Result<()> {
        live_table::renew(&report.text());
        Ok(())
    }

    fn wants_reports(&self) -> bool {
        self.live
    }
}
