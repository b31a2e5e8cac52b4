//! `nightwatt analyze`: what sleep would save on a log, and which clients it would delay.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use nightwatt_clock::Clock;
use nightwatt_energy::time::Wall;
use nightwatt_report::{Addresses, KEY_BYTES};
use nightwatt_savings::analyze::{self, Analysis, AnalyzeOptions};
use nightwatt_traffic::classifier::ClassifierConfig;
use nightwatt_traffic::scan::Between;

use crate::ExitStatus;
use crate::args::{ReadingArgs, ScenarioArgs, SiteScenario, SiteScenarioArgs};
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::output;
use crate::progress::Reading;
use crate::{report_pages, values};

/// Compute from a log what sleep would save, and what it would delay
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Access logs, in any order, plain or packed; `-` for stdin [default: `access_log` of the configuration]
    #[arg(value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub(crate) logs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Only requests from this moment on, in UTC: 2026-03-01 or 2026-03-01T12:30
    #[arg(long, value_name = "TIME", value_parser = values::moment)]
    pub(crate) from: Option<Wall>,
    /// Only requests before this moment
    #[arg(long, value_name = "TIME", value_parser = values::moment)]
    pub(crate) until: Option<Wall>,
    /// Only the first N days
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) days: Option<u32>,
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    #[command(flatten)]
    pub(crate) site: SiteScenarioArgs,
    /// Write a report for people: one page with charts that loads nothing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Write every table as CSV into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) csv: Option<PathBuf>,
    /// Show clients' addresses and queries of URLs as they are [default: labels, and no queries]
    #[arg(long)]
    pub(crate) show_addresses: bool,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Model);

const EXAMPLES: &str = "Examples:
  nightwatt analyze /var/log/nginx/access.log*
  nightwatt analyze access.log.gz --html report.html --csv tables
  nightwatt analyze -c nightwatt.toml               # its watts, SLA and log
  nightwatt analyze --policy 'timeout 5m' --no-sla access.log.gz
  nightwatt analyze --sla 3 --from 2026-03-01 --until 2026-04-01 access.log
  ssh web zcat /var/log/nginx/access.log.2.gz | nightwatt analyze -
  nightwatt analyze --json access.log | jq .policies.learned.saving";

/// Reads the logs, computes, and reports.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let clock = Clock::real();
    let options = AnalyzeOptions { now: Some(clock.now().wall), ..options(args)? };
    let addresses = addresses(args.show_addresses)?;
    let files = Files::prepare(args, &options.logs)?;
    let analysis = match analyzed(args, &options, &clock) {
        Ok(analysis) => analysis.named_by(&addresses),
        Err(failure) => {
            files.discard();
            return Err(failure);
        }
    };
    files.write(&analysis)?;
    output::print_result(&analysis, args.json, || analysis.text(), &analysis.warnings)?;
    let is_whole = !options.logs.iter().any(|log| is_closed(log));
    Ok(if is_whole { ExitStatus::Success } else { ExitStatus::Failed })
}

/// What to analyse: the scenario and the log of a configuration, unless the user gives others.
fn options(args: &Args) -> Result<AnalyzeOptions, Failure> {
    let found = args.site.found(args.scenario.scenario.is_some())?;
    let is_app = found.as_ref().is_some_and(|it| it.is_app);
    let tables = found.as_ref().map_or_else(|| args.scenario.tables(), SiteScenario::tables);
    let (scenario, classes, log) = match found {
        Some(found) => (args.scenario.applied_to(found.scenario)?, found.clients, found.access_log),
        None => (args.scenario.resolve()?, ClassifierConfig::default(), None),
    };
    let logs = if args.logs.is_empty() { Vec::from_iter(log) } else { args.logs.clone() };
    if logs.is_empty() {
        return Err(Failure::new("there is no log to analyse")
            .hint(
                "name one, as in `nightwatt analyze access.log`, or write `access_log` into the \
                 configuration",
            )
            .into_usage());
    }
    Ok(AnalyzeOptions {
        logs,
        names: BTreeMap::new(),
        reading: args.reading.reading(),
        between: between(args)?,
        days: args.days,
        now: None,
        scenario,
        classes,
        tables,
        is_app,
    })
}

/// The time that `--from` and `--until` choose.
fn between(args: &Args) -> Result<Between, Failure> {
    let all = Between::default();
    let (from, until) = (args.from.unwrap_or(all.from), args.until.unwrap_or(all.until));
    if from >= until {
        return Err(Failure::new("there is no time between `--from` and `--until`")
            .hint("`--from` is the first moment, and `--until` the first one after them")
            .into_usage());
    }
    Ok(Between { from, until })
}

/// Whether a log cannot be read at all. Pipes are left alone: they open only once.
fn is_closed(log: &Path) -> bool {
    if log == Path::new("-") {
        return false;
    }
    match fs::metadata(log) {
        Ok(it) if it.is_file() => File::open(log).is_err(),
        Ok(it) => it.is_dir(),
        Err(_) => true,
    }
}

fn analyzed(args: &Args, options: &AnalyzeOptions, clock: &Clock) -> Result<Analysis, Failure> {
    let mut reading = Reading::begin(clock, args.json);
    let analysis = analyze::run(options, |at| {
        reading.update(at);
        ControlFlow::Continue(())
    });
    reading.end();
    analysis.map_err(|error| {
        let hint = error.hint();
        Failure::of_input(&error).maybe_hint(hint)
    })
}

/// How to show clients; their labels hold for this run only.
fn addresses(shown: bool) -> Result<Addresses, Failure> {
    if shown {
        return Ok(Addresses::shown());
    }
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|error| {
        Failure::because("cannot draw the key that clients are hidden with", &error)
            .hint("`--show-addresses` needs no key: it shows addresses as they are")
    })?;
    Ok(Addresses::anonymised(key))
}

/// The files to write besides stdout. They are opened before the work, so that a path that cannot be written does not
/// cost its results; the old content stays until there is something to replace it with.
struct Files<'a> {
    html: Option<Target<'a>>,
    csv: Option<&'a Path>,
}

struct Target<'a> {
    path: &'a Path,
    file: File,
    is_new: bool,
}

impl<'a> Files<'a> {
    fn prepare(args: &'a Args, logs: &[PathBuf]) -> Result<Self, Failure> {
        let html = match &args.html {
            None => None,
            Some(path) => {
                not_a_log(path, logs)?;
                Some(Target::open(path)?)
            }
        };
        let csv = args.csv.as_deref();
        if let Some(folder) = csv {
            let probe = folder.join("summary.csv");
            not_a_log(&probe, logs)?;
            fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error, "--csv"))?;
            Target::open(&probe).map_err(|failure| failure.hint(hint("--csv")))?.discard();
        }
        Ok(Self { html, csv })
    }

    fn write(self, analysis: &Analysis) -> Result<(), Failure> {
        if let Some(folder) = self.csv {
            for (name, table) in analysis.tables() {
                let path = folder.join(format!("{name}.csv"));
                fs::write(&path, table.to_csv())
                    .map_err(|error| cannot_write(&path, &error, "--csv"))?;
            }
        }
        if let Some(Target { path, mut file, .. }) = self.html {
            let page = analysis.document(report_pages::generated()).to_html();
            // Not a regular file (`/dev/stdout`, a pipe): nothing to truncate.
            let cut = file.set_len(0).or_else(|error| {
                let regular = file.metadata().is_ok_and(|it| it.is_file());
                if regular { Err(error) } else { Ok(()) }
            });
            cut.and_then(|()| file.write_all(page.as_bytes()))
                .map_err(|error| cannot_write(path, &error, "--html"))?;
        }
        Ok(())
    }

    fn discard(self) {
        self.html.into_iter().for_each(Target::discard);
    }
}

impl<'a> Target<'a> {
    fn open(path: &'a Path) -> Result<Self, Failure> {
        let is_new = !path.exists();
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| cannot_write(path, &error, "--html"))?;
        Ok(Self { path, file, is_new })
    }

    /// Leaves no empty file behind.
    fn discard(self) {
        if self.is_new {
            // The file is empty: if it cannot be removed, no harm is done.
            let _ = fs::remove_file(self.path);
        }
    }
}

/// Refuses to overwrite a log with a report, as a slip with the shell's history would.
fn not_a_log(path: &Path, logs: &[PathBuf]) -> Result<(), Failure> {
    let Ok(place) = path.canonicalize() else { return Ok(()) };
    if logs.iter().any(|log| log.canonicalize().is_ok_and(|log| log == place)) {
        return Err(Failure::new(format!("{} is the log itself", path.display()))
            .into_usage()
            .hint("name another file for the report"));
    }
    Ok(())
}

fn cannot_write(path: &Path, error: &std::io::Error, option: &str) -> Failure {
    Failure::because(format!("cannot write {}", path.display()), error).hint(hint(option))
}

fn hint(option: &str) -> &'static str {
    match option {
        "--csv" => "`--csv` names a folder that can be written to; it is made if it is not there",
        _ => "`--html` names a file in a folder that is there and can be written to",
    }
}
