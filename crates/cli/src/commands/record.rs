//! `nightwatt record`: records every reading of every meter into a file.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueHint;
use nightwatt_clock::Clock;
use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::integration::{Gap, Totals};
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_measure::cross::{Cross, CrossReport};
use nightwatt_meters::machine;
use nightwatt_meters::recording::{self, Format, Meta, Recorder, SCHEMA};
use nightwatt_meters::sampler::{Measured, Opened, Sampler};
use nightwatt_meters::{Host, MeterError};
use nightwatt_report::figures::{accuracy, rounded};
use serde::Serialize;
use serde_json::{Value, json};

use crate::ExitStatus;
use crate::args::MeterArgs;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::figures;
use crate::output;
use crate::progress::Progress;
use crate::signals;
use crate::values;

/// Record the readings of meters
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help = output_help())]
    pub(crate) output: PathBuf,
    /// For how long [default: until Ctrl-C or SIGTERM]
    #[arg(long = "for", value_name = "TIME", value_parser = values::measuring_time)]
    pub(crate) time: Option<Duration>,
    /// Time between two readings [default: what suits the meter]
    #[arg(short = 'I', long, value_name = "TIME", value_parser = values::measuring_time)]
    pub(crate) interval: Option<Duration>,
    /// The meter that the others are compared with as it goes: `plug`, `rapl/psys` [default: of those
    /// that cover the machine, the one that states the best accuracy]
    #[arg(long, value_name = "METER")]
    pub(crate) reference: Option<String>,
    /// Parquet: what is older than this and a second survives a SIGKILL or a power failure
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = values::measuring_time)]
    pub(crate) part: Duration,
    /// Join the parts that a killed recorder has left of FILE, and record nothing
    #[arg(long, conflicts_with_all = ["time", "interval", "meters", "reference"])]
    pub(crate) recover: bool,
    /// Print what was recorded as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Measure);

const EXAMPLES: &str = "Examples:
  nightwatt record -o night.parquet --for 8h
  nightwatt record -o fast.parquet -I 1ms -m rapl  # 1000 readings a second
  nightwatt record -o plug.csv -m shelly=http://10.0.0.9
  nightwatt record -o night.parquet --recover  # after a power failure

  duckdb -c \"select channel, sum(joules) from 'a.parquet' group by 1\"";

fn output_help() -> String {
    format!("Where to; the name says how: {}", extensions())
}

fn extensions() -> String {
    let [parquet, csv, json_lines] = Format::ALL.map(Format::extension);
    format!("`.{parquet}`, `.{csv}` or `.{json_lines}`")
}

/// How often the progress is shown, and the recorder is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What was recorded.
#[derive(Debug, Serialize)]
struct Recorded {
    schema: u32,
    file: String,
    rows_dropped: u64,
    channels: Vec<ChannelTotal>,
    missed_deadlines: u64,
    clock_steps: u64,
    suspends: u64,
    /// How meters that cover the machine relate to the best of them.
    cross_calibration: Vec<CrossReport>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ChannelTotal {
    meter: String,
    channel: String,
    kind: &'static str,
    joules: f64,
    covered_s: f64,
    readings: u64,
    gaps: u64,
    gap_s: f64,
    last_gap: Option<Gap>,
    mean_watts: Option<f64>,
    /// How far `joules` may be off, by the meter's accuracy at 95 %; 0: unknown.
    uncertainty_j: f64,
}

/// Records, or joins the files that a killed recorder left.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let format = Format::of(&args.output).ok_or_else(|| {
        Failure::new(format!("{} has no known format", args.output.display()))
            .into_usage()
            .hint(format!("end the name of the file with {}", extensions()))
    })?;
    if args.recover {
        return recover(args, format);
    }
    let host = Host::default();
    let opened = args.meters.opened(&host, args.interval)?;
    let mut cross = Cross::of(&opened, args.interval, args.reference.as_deref())
        .map_err(|error| Failure::usage(&error))?;
    let meta = meta(&host, &opened, args);
    let recorder = Recorder::start(&args.output, format, args.part, &opened, &meta)
        .map_err(|error| failed(&error))?;
    let stop = signals::stop_on_signals()?;
    let mut meter = 0;
    let sampler = Sampler::start(opened, args.interval, |_| {
        meter += 1;
        let sink = recorder.sink(meter - 1);
        match &cross {
            Some(cross) => cross.tap(meter - 1, sink),
            None => sink,
        }
    })
    .map_err(|error| Failure::because("cannot start the meters' threads", &error))?;
    let begin = monotonic();
    watch(args, &sampler, &recorder, &mut cross, &stop, begin);
    let (measured, _) = sampler.finish(monotonic());
    let cross = cross.map(|mut cross| {
        cross.drain();
        cross.report()
    });
    let cross = cross.unwrap_or_default();
    let end = end(&measured, &cross);
    let dropped = recorder.finish(&end).map_err(|error| failed(&error))?;
    report(args, &measured, cross, dropped)
}

fn failed(error: &MeterError) -> Failure {
    Failure::failed(error).maybe_hint(error.hint())
}

fn recover(args: &Args, format: Format) -> Result<ExitStatus, Failure> {
    if format != Format::Parquet {
        return Err(Failure::new("there is nothing to recover: lines are on disk as they come")
            .into_usage());
    }
    let parts = recording::recover(&args.output).map_err(|error| failed(&error))?;
    let file = args.output.display().to_string();
    if args.json {
        output::print_json(&json!({"schema": 1, "file": file, "parts": parts}))?;
    } else {
        output::print(&format!("{file}: joined of {}", figures::counted(parts as u64, "part")))?;
    }
    Ok(ExitStatus::Success)
}

fn meta(host: &Host, opened: &[Opened], args: &Args) -> Meta {
    let name = host.read("/proc/sys/kernel/hostname").unwrap_or_default();
    let kernel = host.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let now = Clock::real().now().wall;
    Meta {
        schema: SCHEMA,
        nightwatt: env!("CARGO_PKG_VERSION").to_owned(),
        host: json!({"name": name, "kernel": kernel, "machine": machine::describe(host)}),
        started: format!("{} UTC", nightwatt_energy::civil::to_minute(now.secs())),
        mono_ns: i64::try_from(monotonic().0.as_nanos()).unwrap_or(i64::MAX),
        meters: opened.iter().map(|meter| recording::describe(meter, args.interval)).collect(),
        settings: json!({
            "interval_s": args.interval.map(|time| time.as_secs_f64()),
            "for_s": args.time.map(|time| time.as_secs_f64()),
            "part_s": args.part.as_secs_f64(),
        }),
    }
}

/// Waits for the end: the time is over, a signal comes, or nothing can be written any more.
fn watch(
    args: &Args,
    sampler: &Sampler,
    recorder: &Recorder,
    cross: &mut Option<Cross>,
    stop: &Stop,
    begin: Mono,
) {
    let mut progress = Progress::by_time(args.json);
    let ends = args.time.map_or(Mono::NEVER, |time| begin + time);
    let mut next = begin;
    loop {
        next = (next + LOOK_EVERY).min(ends);
        let woken = stop.wait_until(next);
        let now = monotonic();
        if woken == Woken::Stopped || now >= ends || recorder.has_failed() {
            break;
        }
        if let Some(cross) = cross {
            cross.drain();
        }
        let elapsed = now.since(begin);
        let total = args.time.unwrap_or_default();
        let left = args.time.map(|time| time.saturating_sub(elapsed));
        let (done, total) = (elapsed.as_secs(), total.as_secs());
        progress.update(done, total, elapsed, left, || latest(&sampler.so_far()));
    }
    progress.end();
}

/// The last reading of every meter, in one line.
fn latest(measured: &[Measured]) -> String {
    let each =
        measured.iter().flat_map(|measured| {
            measured.channels.iter().zip(&measured.latest).filter_map(|(channel, latest)| {
                Some(format!("{} {:.2}", channel.name, (*latest)?.1))
            })
        });
    each.collect::<Vec<_>>().join(", ")
}

fn totals(measured: &[Measured]) -> Vec<ChannelTotal> {
    let of_meter = |measured: &Measured| -> Vec<ChannelTotal> {
        let pairs = measured.channels.iter().zip(&measured.totals);
        let total = |(channel, totals): (&nightwatt_meters::Channel, &Totals)| ChannelTotal {
            meter: measured.meter.clone(),
            channel: channel.name.clone(),
            kind: if channel.is_modelled { "modelled" } else { "measured" },
            joules: totals.joules.get(),
            covered_s: totals.covered.as_secs_f64(),
            readings: totals.readings,
            gaps: totals.gaps,
            gap_s: totals.gap_time.as_secs_f64(),
            last_gap: totals.last_gap,
            mean_watts: totals.mean_power().map(Watts::get),
            uncertainty_j: channel.accuracy.of(totals.joules, totals.covered).get(),
        };
        pairs.map(total).collect()
    };
    measured.iter().flat_map(of_meter).collect()
}

/// The metadata that is written to the file at the end.
fn end(measured: &[Measured], cross: &[CrossReport]) -> Value {
    let sum = |count: fn(&Measured) -> u64| measured.iter().map(count).sum::<u64>();
    json!({
        "channels": totals(measured),
        "cross_calibration": cross,
        "missed_deadlines": sum(|it| it.missed),
        "clock_steps": sum(|it| it.clock_steps),
        "suspends": sum(|it| it.suspends),
    })
}

fn report(
    args: &Args,
    measured: &[Measured],
    cross: Vec<CrossReport>,
    dropped: u64,
) -> Result<ExitStatus, Failure> {
    let sum = |count: fn(&Measured) -> u64| measured.iter().map(count).sum::<u64>();
    let mut warnings: Vec<String> = measured.iter().flat_map(Measured::warnings).collect();
    if dropped > 0 {
        warnings.push(format!("{dropped} readings were dropped: the disk was too slow"));
    }
    let recorded = Recorded {
        schema: 1,
        file: args.output.display().to_string(),
        rows_dropped: dropped,
        channels: totals(measured),
        missed_deadlines: sum(|it| it.missed),
        clock_steps: sum(|it| it.clock_steps),
        suspends: sum(|it| it.suspends),
        cross_calibration: cross,
        warnings,
    };
    if args.json {
        output::print_json(&recorded)?;
    } else {
        output::print(&output::folded(&text(&recorded, &args.output)))?;
    }
    for warning in &recorded.warnings {
        output::complain(&output::folded(&format!("warning: {warning}")));
    }
    Ok(ExitStatus::Success)
}

fn text(recorded: &Recorded, path: &Path) -> String {
    let mut text = format!("{}\n", path.display());
    for total in &recorded.channels {
        let name = format!("{}/{}", total.meter, total.channel);
        let share = total.uncertainty_j / total.joules.abs();
        let is_known = share.is_finite() && share > 0.0;
        let shown = |value: f64| {
            if is_known { rounded(value, Some(share * value)) } else { format!("{value:.3}") }
        };
        let watts = total.mean_watts.map_or("-".to_owned(), shown);
        let sure = if is_known { accuracy(share) + ", " } else { String::new() };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  {name:<28}{:>14} J  {watts:>10} W  {sure}{} in {}, {}, {}",
            shown(total.joules),
            figures::counted(total.readings, "reading"),
            figures::seconds(total.covered_s),
            figures::counted(total.gaps, "gap"),
            total.kind,
        );
    }
    if recorded.missed_deadlines > 0 {
        let _ = writeln!(text, "  {} deadlines were missed", recorded.missed_deadlines);
    }
    for cross in &recorded.cross_calibration {
        let _ = writeln!(text, "  {}", related(cross));
    }
    text
}

/// How one meter relates to another, in one line.
fn related(cross: &CrossReport) -> String {
    let CrossReport { meter, channel, reference, reference_channel, relation, .. } = cross;
    let pair = format!("{meter}/{channel} against {reference}/{reference_channel}");
    let Some(relation) = relation else {
        return format!("{pair}: scale, offset and lag are not known, the load hardly changed");
    };
    let (scale, offset, lag) = (&relation.scale, &relation.offset, &relation.lag);
    format!(
        "{pair}: scale {:.4} ± {:.4}, offset {:+.3} ± {:.3} W, lag {:+.3} ± {:.3} s",
        scale.value,
        scale.interval.1 - scale.value,
        offset.value.get(),
        (offset.interval.1 - offset.value).get(),
        lag.value,
        lag.interval.1 - lag.value
    )
}
