//! `nightwatt calibrate sync`: generates the signal, and puts the DAQ's log on this machine's clock.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueHint};
use nightwatt_clock::meter::monotonic;
use nightwatt_measure::calibrate::sync::LineSpec;
use nightwatt_measure::calibrate::sync::{
    AlignOptions, Aligned, FaultCounts, GenerateOptions, align, generate,
};

use super::failed;
use crate::ExitStatus;
use crate::errors::Failure;
use crate::figures;
use crate::output;
use crate::progress::Progress;
use crate::signals;
use crate::values;

/// The two steps of `calibrate sync`.
#[derive(Debug, Subcommand)]
pub(crate) enum Sync {
    /// Toggle a line that the DAQ records, and write a time stamp for each toggle
    Generate {
        #[arg(short, long, value_name = "LINE", help = format!("The line: {}", LineSpec::FORMS))]
        line: LineSpec,
        /// Stop after this time [default: at Ctrl-C or SIGTERM]
        #[arg(long = "for", value_name = "TIME", value_parser = values::measuring_time)]
        time: Option<Duration>,
        /// Write the time stamps to this new CSV file
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: PathBuf,
        /// Print a summary as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Compute when each sample of the DAQ was taken
    Align(AlignArgs),
}

/// `calibrate sync align`.
#[derive(Debug, clap::Args)]
pub(crate) struct AlignArgs {
    /// The DAQ's log: columns of text, plain or gzipped
    #[arg(value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub(crate) log: PathBuf,
    /// The time stamps that `generate` wrote
    #[arg(value_name = "STAMPS", value_hint = ValueHint::FilePath)]
    pub(crate) stamps: PathBuf,
    /// The log's column of the line: its name, or its number from 0
    #[arg(long, value_name = "COLUMN", default_value = "Sync")]
    pub(crate) channel: String,
    /// Samples per second [default: from LOG's `_meta.csv`]
    #[arg(long, value_name = "HZ", value_parser = values::factor)]
    pub(crate) rate: Option<f64>,
    /// Low and high level of the line, in the unit of its column [default: found in the log]
    #[arg(long, value_name = "LOW,HIGH", allow_hyphen_values = true, value_parser = levels)]
    pub(crate) levels: Option<(f64, f64)>,
    /// Write the log as CSV, with the time of each sample
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Write the drift of each interval between two toggles as CSV
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) intervals: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Two levels, the lower one first: `0,3.3`.
fn levels(text: &str) -> Result<(f64, f64), String> {
    let both = text.split_once(',').and_then(|(low, high)| {
        let number = |text: &str| text.trim().parse().ok().filter(|it: &f64| it.is_finite());
        number(low).zip(number(high))
    });
    both.filter(|(low, high)| low < high).ok_or_else(|| {
        "write the lower level, a comma and the higher one, as in `0,3.3`".to_owned()
    })
}

pub(super) fn run(step: &Sync) -> Result<ExitStatus, Failure> {
    match step {
        Sync::Generate { line, time, output, json } => {
            let (line, output) = (line.clone(), output.clone());
            run_generate(&GenerateOptions { line, time: *time, output }, *json)
        }
        Sync::Align(args) => run_align(args),
    }
}

fn run_generate(options: &GenerateOptions, json: bool) -> Result<ExitStatus, Failure> {
    let stop = signals::stop_on_signals()?;
    let mut progress = Progress::by_time(json);
    let (begun, mut count) = (monotonic(), 0);
    let generated = generate(options, &stop, |toggle| {
        count += 1;
        let elapsed = monotonic().since(begun);
        let total = options.time.unwrap_or_default();
        let left = options.time.map(|time| time.saturating_sub(elapsed));
        progress.update(elapsed.as_secs(), total.as_secs(), elapsed, left, || {
            let level = if toggle.high { "high" } else { "low" };
            format!("{}, {level}", figures::counted(count, "toggle"))
        });
    });
    progress.end();
    let generated = generated.map_err(|error| failed(&error))?;
    if json {
        output::print_json(&generated)?;
    } else {
        output::print(&format!(
            "{}: {} of {}, stamped within {} on average, {} at worst",
            options.output.display(),
            figures::counted(generated.toggles, "toggle"),
            options.line,
            micros(generated.mean_uncertainty_s),
            micros(generated.worst_uncertainty_s),
        ))?;
    }
    Ok(ExitStatus::Success)
}

fn run_align(args: &AlignArgs) -> Result<ExitStatus, Failure> {
    let options = AlignOptions {
        log: args.log.clone(),
        stamps: args.stamps.clone(),
        channel: args.channel.clone(),
        rate: args.rate,
        levels: args.levels,
        output: args.output.clone(),
        intervals: args.intervals.clone(),
    };
    let mut progress = Progress::by_time(args.json);
    let begun = monotonic();
    let aligned = align(&options, |at| {
        let elapsed = monotonic().since(begun);
        progress.update(u64::from(at.pass - 1), u64::from(at.of), elapsed, None, || {
            format!("reading {} of {}, {}", at.pass, at.of, figures::counted(at.rows, "sample"))
        });
    });
    progress.end();
    let aligned = aligned.map_err(|error| failed(&error))?;
    output::print_result(&aligned, args.json, || text(&aligned), &aligned.warnings)?;
    let nothing = aligned.synchronised == 0;
    Ok(if nothing { ExitStatus::Failed } else { ExitStatus::Success })
}

fn text(aligned: &Aligned) -> String {
    let mut text = String::new();
    let sample = 1.0 / aligned.rate_hz;
    // Writing to a String cannot fail, here and below.
    let mut line = |name: &str, what: String| {
        let _ = writeln!(text, "{name:<14}{what}");
    };
    let length = figures::seconds(aligned.samples as f64 * sample);
    let mut samples = format!("{} in {length}", figures::counted(aligned.samples, "sample"));
    if aligned.unreadable > 0 {
        let _ = write!(samples, ", {} unreadable", figures::count(aligned.unreadable));
    }
    line("log", samples);
    let (low, high) = (aligned.levels.low, aligned.levels.high);
    let edges = figures::counted(aligned.edges as u64, "toggle");
    line("line", format!("{edges} between {low:.3} and {high:.3}"));
    let within = micros(aligned.stamp_uncertainty_s);
    let mut stamps = format!("{}, within {within}", figures::count(aligned.stamps as u64));
    if aligned.uncertain_stamps > 0 {
        let _ = write!(stamps, "; {} too uncertain", aligned.uncertain_stamps);
    }
    line("stamps", stamps);
    line("pins", format!("{}{}", figures::count(aligned.pins as u64), faults(aligned.faults)));
    if let Some(scatter) = aligned.scatter_samples {
        line("scatter", format!("{scatter:.2} samples (0.29 is the least there can be)"));
    }
    for drift in &aligned.drifts {
        let from = aligned.times.map_or(Duration::ZERO, |(first, _)| drift.from.since(first));
        let (from, time) = (figures::time(from), figures::time(drift.to.since(drift.from)));
        line(
            "drift",
            format!("{:+.1} ± {:.1} ppm, {time} from {from}", drift.ppm, drift.within_ppm),
        );
    }
    let part = figures::part(aligned.synchronised, aligned.samples, "sample");
    line("synchronised", format!("{part}, each within {}", micros(sample)));
    text
}

/// Describes the toggles that were not used for the alignment.
fn faults(faults: FaultCounts) -> String {
    let named = [
        (faults.missed, "missed by the DAQ"),
        (faults.doubled, "doubled"),
        (faults.no_stamp, "without a stamp"),
        (faults.contradicted, "contradicted by their neighbours"),
        (faults.unconfirmed, "beside a lost track"),
        (faults.steps, "before samples were lost"),
    ];
    let told = named.into_iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = told.map(|(count, what)| format!("{count} {what}")).collect();
    if told.is_empty() { String::new() } else { format!("; left out: {}", told.join(", ")) }
}

/// Seconds in microseconds, or in milliseconds if they are many.
fn micros(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.1} us", seconds * 1e6)
    } else {
        format!("{:.1} ms", seconds * 1e3)
    }
}
