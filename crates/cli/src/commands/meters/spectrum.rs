//! `nightwatt meters --spectrum METER`.

use std::fmt::Write;
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_measure::spectrum::{self, SpectrumOptions, SpectrumReport};
use nightwatt_meters::MeterSpec;
use nightwatt_report::figures::significant;

use super::Args;
use crate::ExitStatus;
use crate::errors::Failure;
use crate::figures;
use crate::output;
use crate::progress::Progress;
use crate::signals;

/// Width in characters of the bar for the full power.
const WIDEST: f64 = 40.0;

/// Reads, transforms, and prints the result.
pub(super) fn run(args: &Args, meter: &MeterSpec) -> Result<ExitStatus, Failure> {
    let options = SpectrumOptions {
        meter: meter.clone(),
        channel: args.channel.clone(),
        time: args.time,
        interval: args.interval,
        resolution: args.resolution,
    };
    let stop = signals::stop_on_signals()?;
    let mut progress = Progress::by_time(args.json);
    let began = monotonic();
    let on_progress = |left: Duration| {
        let done = args.time.saturating_sub(left).as_secs();
        let elapsed = monotonic().since(began);
        let what = || format!("reading {}", meter.name());
        progress.update(done, args.time.as_secs(), elapsed, Some(left), what);
    };
    let report = spectrum::run(&options, &stop, on_progress);
    progress.end();
    let report = report.map_err(|error| super::check::failed(&error))?;
    output::print_folded(&report, args.json, || text(&report), &report.warnings)?;
    Ok(ExitStatus::Success)
}

fn text(report: &SpectrumReport) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        text,
        "{}/{}, {}: {} at {} a second, {}, {} missed",
        report.meter,
        report.channel,
        report.kind,
        figures::counted(report.samples, "reading"),
        significant(report.rate_hz),
        figures::counted(report.gaps, "gap"),
        figures::counted(report.missed_deadlines, "deadline"),
    );
    let _ = writeln!(
        text,
        "mean {:.3} W, standard deviation {:.4} W; {} of {} Hz resolution\n",
        report.mean_w,
        report.sd_w,
        figures::counted(report.segments as u64, "segment"),
        significant(report.resolution_hz),
    );
    let _ = writeln!(text, "{:>10} {:>10} Hz   share of the changes' power", "above", "to");
    let mut so_far = 0.0;
    for band in &report.bands {
        so_far += band.share;
        let length = (band.share * WIDEST).round() as usize;
        let bar = if length > 0 { format!("  {}", "█".repeat(length)) } else { String::new() };
        let _ = writeln!(
            text,
            "{:>10} {:>10} Hz {:>7}  so far {:>7}{bar}",
            significant(band.above_hz),
            significant(band.to_hz),
            figures::percent(band.share),
            figures::percent(so_far),
        );
    }
    let said = match report.rate_that_keeps_95_hz {
        Some(rate) => format!("{} readings a second keep 95 % of it", significant(rate)),
        None => "the power did not change".to_owned(),
    };
    let _ = writeln!(text, "\n{said}.");
    let _ = writeln!(
        text,
        "Above {} Hz, half the rate, nothing is known: what changes faster looks as if it were slow.",
        significant(report.highest_hz)
    );
    if report.means {
        let _ = writeln!(
            text,
            "Its figures are means over their interval: fast changes are damped in them."
        );
    }
    text
}
