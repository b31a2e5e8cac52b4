//! `nightwatt published`: the published comparison over a log.

use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use nightwatt_clock::Clock;
use nightwatt_policy::sleep::PolicyChoice;
use nightwatt_savings::published::{self, Crawlers, PublishedOptions};

use crate::ExitStatus;
use crate::args::{ChosenSiteArgs, ReadingArgs, ScenarioArgs};
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::output;
use crate::progress::Reading;
use crate::report_pages;
use crate::values;
use crate::whole_file;

/// Run the published comparison of five configurations over a log
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Access logs, in any order, plain or packed; `-` for stdin
    #[arg(required = true, value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub(crate) logs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Who is a crawler: whom the nine published strings name, or nightwatt's classifier
    #[arg(long, value_name = "BY", value_enum, default_value_t)]
    pub(crate) crawlers: CrawlerRule,
    #[arg(long, value_name = "POLICY", default_value_t = PolicyChoice::Window, help = policy_help())]
    pub(crate) policy: PolicyChoice,
    /// Set no SLA: sleep even if requests have to wait
    #[arg(long)]
    pub(crate) no_sla: bool,
    /// Server, proxy, SLA and cache, as in `[scenario]` of a configuration
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) scenario: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) site: ChosenSiteArgs,
    /// Write the table as CSV, in the rows and columns of the published one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) table: Option<PathBuf>,
    /// Write a report with charts, and the published figures for comparison
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Compare);

const EXAMPLES: &str = "Examples:
  nightwatt published access.log.gz
  nightwatt published --table t.csv --html report.html access.log.gz
  nightwatt published --crawlers classifier --no-sla access.log
  nightwatt published --json access.log | jq '.configurations[].saving'

No proxy; a cache; a cache with an hour of grace; a server that sleeps besides while crawlers are
sent away; and waiting pages besides. Delays and energy are modelled: docs/published-comparison.md.";

/// The policies without the one that never sleeps: with it there would be nothing to compare.
fn policy_help() -> String {
    let published = PolicyChoice::Window;
    let mut others = PolicyChoice::EXAMPLES.to_vec();
    others.retain(|policy| *policy != published && *policy != PolicyChoice::AlwaysOn);
    let others = values::as_words(others);
    format!("When the server sleeps: {published} (the published rule), {others}")
}

/// Who counts as a crawler in the published comparison.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum CrawlerRule {
    /// Whose agent holds one of the nine strings.
    #[default]
    Published,
    /// Whom the classifier of `serve` and `analyze` takes for one.
    Classifier,
}

/// Reads, compares, reports.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let scenario = ScenarioArgs {
        policy: Some(args.policy.clone()),
        no_sla: args.no_sla,
        sla: None,
        scenario: args.scenario.clone(),
    };
    // Beside published figures, another server is a choice: no configuration that only lies there makes it.
    let own = args.site.scenario(false)?;
    let options = PublishedOptions {
        logs: args.logs.clone(),
        reading: args.reading.reading(),
        scenario: own.map_or_else(|| scenario.resolve(), |own| scenario.applied_to(own))?,
        crawlers: match args.crawlers {
            CrawlerRule::Published => Crawlers::Published,
            CrawlerRule::Classifier => Crawlers::Classifier,
        },
    };
    let clock = Clock::real();
    let mut reading = Reading::begin(&clock, args.json);
    let comparison = published::run(&options, |at| reading.update(at));
    reading.end();
    let comparison = comparison.map_err(|error| {
        let hint = error.hint();
        Failure::of_input(&error).maybe_hint(hint)
    })?;
    if let Some(path) = &args.table {
        let csv = comparison.to_csv();
        whole_file::write(path, csv.as_bytes())
            .map_err(|error| report_pages::cannot_write(path, &error))?;
    }
    if let Some(path) = &args.html {
        report_pages::page(path, |by| comparison.document(by))?;
    }
    let warnings: Vec<String> =
        comparison.warnings.iter().chain(&comparison.skipped).cloned().collect();
    output::print_result(&comparison, args.json, || comparison.text(), &warnings)?;
    Ok(ExitStatus::Success)
}
