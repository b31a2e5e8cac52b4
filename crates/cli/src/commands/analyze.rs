//! `nightwatt analyze`: what sleeping would save on a log, and whom it would delay.

use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_lab::analyze::{self, AnalyzeOptions};
use nightwatt_traffic::classes::ClassifierConfig;

use crate::ExitStatus;
use crate::args::AnalyzeArgs;
use crate::errors::Failure;
use crate::figures::count;
use crate::output;
use crate::progress::Progress;

/// Reads, thinks, reports.
pub(crate) fn run(args: &AnalyzeArgs) -> Result<ExitStatus, Failure> {
    let options = AnalyzeOptions {
        logs: args.logs.clone(),
        format: args.format,
        days: args.days,
        scenario: args.scenario.resolve()?,
        classes: ClassifierConfig::default(),
    };
    let mut progress = Progress::by_time(args.json);
    let clock = Clock::real();
    let started = clock.now().mono;
    let tell = |at: nightwatt_traffic::scan::Progress| {
        let elapsed = clock.now().mono.since(started);
        let total = at.total.unwrap_or(0);
        let left = left(at.done, total, elapsed);
        progress
            .tell((at.done, total), elapsed, left, || format!("{} requests", count(at.requests)));
    };
    let analysis = analyze::run(&options, tell);
    progress.end();
    let analysis = analysis.map_err(|error| {
        let hint = error.hint();
        Failure::failed(&error).maybe_hint(hint)
    })?;
    if args.json {
        output::say_json(&analysis)?;
    } else {
        output::say(&analysis.text())?;
    }
    for warning in &analysis.warnings {
        output::complain(&format!("warning: {warning}"));
    }
    Ok(ExitStatus::Success)
}

/// By what has been read so far; nothing is known of a stream.
fn left(done: u64, total: u64, elapsed: Duration) -> Option<Duration> {
    let left = total.checked_sub(done)? as f64 / done as f64;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * left).ok()
}
