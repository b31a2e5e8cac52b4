//! `nightwatt reproduce`: the published claims, ours beside theirs.

use std::fs;
use std::path::Path;

use nightwatt_claims::{self as claims, Error, ReproduceOptions, Reproduction};
use nightwatt_clock::Clock;

use crate::ExitStatus;
use crate::args::ReproduceArgs;
use crate::errors::Failure;
use crate::output;
use crate::progress::Progress;

/// Answers, and says what came of it. That a claim differs is no failure.
pub(crate) fn run(args: &ReproduceArgs) -> Result<ExitStatus, Failure> {
    let options = ReproduceOptions {
        ids: args.ids.clone(),
        logs: args.log.clone(),
        results: args.results.clone(),
        measure: args.measure,
    };
    let clock = Clock::real();
    let started = clock.now().mono;
    let mut progress = Progress::by_time(args.json);
    let found = claims::run(&options, |id, done, all| {
        let elapsed = clock.now().mono.since(started);
        progress.tell((done, all), elapsed, None, || format!("{done} of {all} claims; {id}"));
    });
    progress.end();
    let found = found.map_err(|error| failure(&error))?;
    // A report that cannot be written takes nothing away from the result.
    output::say_result(&found, args.json, || found.text(), &[])?;
    if let Some(path) = &args.report {
        write(path, &found, &clock)?;
    }
    Ok(ExitStatus::Success)
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::NoClaim { .. } => Failure::usage(error),
        Error::Savings(error) => Failure::failed(error).maybe_hint(error.hint()),
        Error::Compare(error) => Failure::usage(error).maybe_hint(error.hint()),
        _ => Failure::failed(error),
    }
}

fn write(path: &Path, found: &Reproduction, clock: &Clock) -> Result<(), Failure> {
    let when = nightwatt_model::civil::to_minute(clock.now().wall.secs());
    let generated = format!("nightwatt {}, {when} UTC", env!("CARGO_PKG_VERSION"));
    fs::write(path, found.document(generated).to_html()).map_err(|error| {
        Failure::because(format!("cannot write {}", path.display()), &error)
            .hint("name a file in a folder that exists and that you may write to")
    })
}
