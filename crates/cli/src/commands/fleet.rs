//! `nightwatt fleet`: pools of servers, simulated.

use nightwatt_clock::Clock;
use nightwatt_lab::fleet::published;

use crate::ExitStatus;
use crate::args::{FleetArgs, FleetPublishedArgs, FleetStep};
use crate::errors::Failure;
use crate::output;
use crate::progress::Progress;

/// Does one step.
pub(crate) fn run(args: &FleetArgs) -> Result<ExitStatus, Failure> {
    match &args.step {
        FleetStep::Published(args) => compare(args),
    }
}

fn compare(args: &FleetPublishedArgs) -> Result<ExitStatus, Failure> {
    let clock = Clock::real();
    let started = clock.now().mono;
    let mut progress = Progress::by_time(args.json);
    let comparison = published::run(args.arrivals, |done, all| {
        let elapsed = clock.now().mono.since(started);
        progress.tell((done, all), elapsed, None, || format!("{done} of {all} pools simulated"));
    });
    progress.end();
    let comparison = comparison.map_err(|error| Failure::failed(&error))?;
    output::say_result(&comparison, args.json, || comparison.text(), &[])?;
    Ok(ExitStatus::Success)
}
