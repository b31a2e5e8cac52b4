//! `nightwatt tcp helps`: what makes connections cheaper, by pairs of runs with and without it.

use nightwatt_clock::Clock;
use nightwatt_netlab::helps::{self, Change, HelpsPlan};
use nightwatt_netlab::scenario;
use nightwatt_netlab::study::Plan;

use super::lab::{driven, failure, limits, planned, refusals, table, write_files};
use crate::ExitStatus;
use crate::args::TcpHelpsArgs;
use crate::errors::Failure;
use crate::output;

/// Measures.
pub(crate) fn run(args: &TcpHelpsArgs) -> Result<ExitStatus, Failure> {
    let plan = plan(args)?;
    let clock = Clock::real();
    let runs = &args.runs;
    let (report, ended) = driven(runs, &clock, |stop, tell| helps::run(&plan, stop, tell))?;
    // What was measured so far is worth its table, however it ended.
    if ended.is_ok()
        || report.links.iter().any(|it| it.changes.iter().any(|it| !it.runs.is_empty()))
    {
        output::say_result(
            &report,
            runs.json,
            || report.text(),
            &refusals(runs, report.refused_links()),
        )?;
        write_files(runs, &report.tables(), |by| report.document(by), &clock)?;
    }
    ended.map_err(|error| failure(&error))?;
    Ok(if report.is_whole() { ExitStatus::Success } else { ExitStatus::Failed })
}

fn plan(args: &TcpHelpsArgs) -> Result<HelpsPlan, Failure> {
    let changes = Change::parse_all(&args.changes).map_err(|why| {
        Failure::saying(why).hint("docs/tcp-helps.md says what each is").into_usage()
    })?;
    let table = table(&args.runs)?;
    let scenarios =
        scenario::chosen_or_bare(&table, &args.scenario).map_err(|error| failure(&error))?;
    let (connections, segments): (&[u32], &[u64]) =
        if args.quick { (&[1], &[10_000]) } else { (&[1, 10, 100], &[10, 10_000]) };
    let plan = planned(&args.runs, scenarios, connections, segments, limits(args.quick))?;
    let plan = Plan { main: args.until.clone(), offload: !args.single_frames, ..plan };
    let plan = HelpsPlan { plan, changes, margin: args.margin };
    plan.check().map_err(|error| failure(&error))?;
    Ok(plan)
}
