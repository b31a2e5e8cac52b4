//! `nightwatt meters --check A --against B`.

use std::fmt::Write;
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::quantity::Watts;
use nightwatt_measure::Error;
use nightwatt_measure::meter_check::{self, CheckOptions, CheckReport, Side, SideReport};
use nightwatt_meters::MeterSpec;

use super::Args;
use crate::ExitStatus;
use crate::errors::Failure;
use crate::figures;
use crate::output;
use crate::progress::Progress;
use crate::signals;

/// Reads both meters, compares them, and prints the result.
pub(super) fn run(
    args: &Args,
    meter: &MeterSpec,
    reference: &MeterSpec,
) -> Result<ExitStatus, Failure> {
    let side = |spec: &MeterSpec, channel: &Option<String>| Side {
        spec: spec.clone(),
        channel: channel.clone(),
    };
    let options = CheckOptions {
        meter: side(meter, &args.channel),
        reference: side(reference, &args.against_channel),
        time: args.time,
        interval: args.interval,
        longest_lag: args.longest_lag,
    };
    let stop = signals::stop_on_signals()?;
    let mut progress = Progress::by_time(args.json);
    let began = monotonic();
    let on_progress = |left: Duration| {
        let done = args.time.saturating_sub(left).as_secs();
        let elapsed = monotonic().since(began);
        let what = || format!("reading {} and {}", meter.name(), reference.name());
        progress.update(done, args.time.as_secs(), elapsed, Some(left), what);
    };
    let report = meter_check::run(&options, &stop, on_progress);
    progress.end();
    let report = report.map_err(|error| failed(&error))?;
    output::print_folded(&report, args.json, || text(&report), &report.warnings)?;
    Ok(ExitStatus::Success)
}

/// Turns an error into a failure with a hint on what to try next.
pub(super) fn failed(error: &Error) -> Failure {
    let failure = Failure::failed(error).maybe_hint(error.hint());
    if matches!(error, Error::SameMeter { .. }) { failure.into_usage() } else { failure }
}

fn text(report: &CheckReport) -> String {
    let check = &report.check;
    let mut text = String::new();
    // Writing to a String cannot fail, here and below.
    for (what, side) in [("meter", &report.meter), ("reference", &report.reference)] {
        let _ = writeln!(text, "{what:<12}{}", side_text(side));
    }
    let load = &report.load;
    let _ = writeln!(
        text,
        "{:<12}{}, {} of the meter's compared; {:.3} to {:.3} W, mean {:.3} W, standard deviation \
         {:.3} W\n",
        "both",
        figures::seconds(report.overlap_s),
        figures::counted(check.readings as u64, "reading"),
        load.least.get(),
        load.most.get(),
        load.mean.get(),
        load.sd.get()
    );
    let mut line = |name: &str, figure: String| {
        let _ = writeln!(text, "{name:<24}{figure}");
    };
    let chance = check.mean_error_95.map_or(String::new(), |it| format!(" ± {:.3}", it.get()));
    let mean = format!("{:+.3}{chance} W  ({:+.2} %)", check.mean_error.get(), check.mean_percent);
    line("error, mean", mean);
    let worst = &check.worst;
    line("error, worst", format!("{:+.3} W  ({:+.2} %)", worst.error.get(), worst.percent));
    if let Some(worst) = &check.worst_percent {
        line(
            "error, worst share",
            format!("{:+.2} %  ({:+.3} W)", worst.percent, worst.error.get()),
        );
    }
    let light = &check.light_load;
    let at = format!("{:+.3} W  ({:+.2} %)", light.mean_error.get(), light.percent);
    line("error at light load", format!("{at}, up to {:.3} W", light.up_to.get()));
    match &check.relation {
        Some(it) => {
            let half = |(_, high): (f64, f64), value: f64| high - value;
            let watts = |it: Watts| it.get();
            let (scale, offset, lag) = (&it.scale, &it.offset, &it.lag);
            line("scale", format!("{:.4} ± {:.4}", scale.value, half(scale.interval, scale.value)));
            let interval = (watts(offset.interval.0), watts(offset.interval.1));
            let margin = half(interval, watts(offset.value));
            line("offset", format!("{:+.3} ± {margin:.3} W", offset.value.get()));
            line("lag", format!("{:+.4} ± {:.4} s", lag.value, half(lag.interval, lag.value)));
            line("correlation", format!("{:.4}", it.correlation));
        }
        None => line("scale, offset, lag", "not known: the load hardly changed".to_owned()),
    }
    line("noise", format!("{:.3} W (standard deviation of a reading)", check.noise.get()));
    let step = check.step.map_or("none seen".to_owned(), |step| format!("{:.4} W", step.get()));
    line("step", step);
    if report.missed_deadlines > 0 {
        line("deadlines missed", figures::count(report.missed_deadlines));
    }
    let _ = writeln!(text, "\n{}", report.verdict.join("\n"));
    text
}

fn side_text(side: &SideReport) -> String {
    format!(
        "{}/{}, {}, {}: {} about every {}, {}",
        side.name,
        side.channel,
        side.scope.as_str(),
        side.kind,
        figures::counted(side.readings as u64, "reading"),
        figures::seconds(side.interval_s),
        figures::counted(side.gaps as u64, "gap"),
    )
}
