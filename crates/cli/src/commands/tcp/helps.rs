//! `nightwatt tcp helps`: what makes connections cheaper, measured by pairs of runs with and without it.

use nightwatt_clock::Clock;
use nightwatt_netlab::helps::{self, Change, HelpsPlan};
use nightwatt_netlab::scenario;
use nightwatt_netlab::study::Plan;

use super::lab::{
    RunLimits, RunsArgs, driven, failure, is_ready, planned, refusals, table, write_files,
};
use crate::ExitStatus;
use crate::dry_run::DryRun;
use crate::errors::Failure;
use crate::figures;
use crate::output;

/// `tcp helps`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[arg(value_name = "CHANGE,..", default_value = helps::USUAL, hide_default_value = true, help = changes_help())]
    pub(crate) changes: String,
    /// Links by their names in the table: `d`, `a,d`, or `all`; `none` for a link without emulation
    #[arg(long, value_name = "NAMES", default_value = "none")]
    pub(crate) scenario: String,
    /// Short form: 1 connection of 10,000 segments, five pairs of runs of two seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Figure to which `--precision` applies, by its name in `--json`
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    pub(crate) until: String,
    /// Report differences up to this share as no difference
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    pub(crate) margin: f64,
    /// Switch TSO, GSO and GRO off where they are not the change to try, so that each packet is one frame
    /// [default: on, as far as the cards support them]
    #[arg(long)]
    pub(crate) single_frames: bool,
    #[command(flatten)]
    pub(crate) runs: RunsArgs,
}

fn changes_help() -> String {
    format!("Changes to try [default: all of them]: {}", helps::FORMS)
}

const EXAMPLES: &str = "\
Examples:
  nightwatt tcp helps --quick                            two cards, ten minutes
  nightwatt tcp helps tso+gso+gro,pacing --scenario d,g  over 10 and 100 Mbit/s
  nightwatt tcp helps buffers=64k,buffers=4M --connections 100 --html helps.html
  nightwatt tcp lab clean  undo what a killed run left behind

Docs: docs/tcp-helps.md";

/// Runs the measurement.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let plan = plan(args)?;
    let clock = Clock::real();
    let runs = &args.runs;
    if runs.dry_run {
        let missing = plan.plan.ends.missing(false);
        return DryRun { would: would(&plan), missing }.say(runs.json);
    }
    is_ready("nightwatt tcp helps", &plan.plan)?;
    let (report, ended) =
        driven(runs, &clock, |stop, on_progress| helps::run(&plan, stop, on_progress))?;
    // However the run ended, show the table of what was measured so far.
    if ended.is_ok()
        || report.links.iter().any(|it| it.changes.iter().any(|it| !it.runs.is_empty()))
    {
        output::print_result(
            &report,
            runs.json,
            || report.text(),
            &refusals(runs, report.refused_links()),
        )?;
        write_files(runs, &report.tables(), |by| report.document(by))?;
    }
    ended.map_err(|error| failure(&error))?;
    Ok(if report.is_whole() { ExitStatus::Success } else { ExitStatus::Failed })
}

/// What the runs of a plan are.
fn would(plan: &HelpsPlan) -> Vec<String> {
    let HelpsPlan { plan, changes, .. } = plan;
    let links: Vec<&str> = plan.scenarios.iter().map(|it| it.name.as_str()).collect();
    let names: Vec<String> = changes.iter().map(ToString::to_string).collect();
    vec![
        format!("measure over the links {}", links.join(", ")),
        format!("try {}", names.join(", ")),
        format!(
            "make {} to {} pairs of runs of each change under each of {}, without those that cannot feel it",
            plan.least,
            plan.most,
            figures::counted(plan.cells.len() as u64, "load")
        ),
        format!("take {} at most for a run", figures::time(plan.longest)),
    ]
}

fn plan(args: &Args) -> Result<HelpsPlan, Failure> {
    let changes = Change::parse_all(&args.changes).map_err(|why| {
        Failure::new(why).hint("docs/tcp-helps.md says what each is").into_usage()
    })?;
    let table = table(&args.runs)?;
    let scenarios =
        scenario::chosen_or_bare(&table, &args.scenario).map_err(|error| failure(&error))?;
    let (connections, segments): (&[u32], &[u64]) =
        if args.quick { (&[1], &[10_000]) } else { (&[1, 10, 100], &[10, 10_000]) };
    let plan = planned(&args.runs, scenarios, connections, segments, &RunLimits::of(args.quick))?;
    let plan = Plan { main: args.until.clone(), offload: !args.single_frames, ..plan };
    let plan = HelpsPlan { plan, changes, margin: args.margin };
    plan.check().map_err(|error| failure(&error))?;
    Ok(plan)
}
