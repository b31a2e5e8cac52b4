//! `nightwatt published`: the published comparison over a log.

use std::fs;
use std::path::Path;

use nightwatt_clock::Clock;
use nightwatt_savings::published::{self, Crawlers, PublishedOptions};

use crate::ExitStatus;
use crate::args::ScenarioArgs;
use crate::args::{CrawlerRule, PublishedArgs};
use crate::errors::Failure;
use crate::output;
use crate::progress::Reading;

/// Reads, compares, reports.
pub(crate) fn run(args: &PublishedArgs) -> Result<ExitStatus, Failure> {
    let scenario = ScenarioArgs {
        policy: Some(args.policy.clone()),
        no_sla: args.no_sla,
        scenario: args.scenario.clone(),
    };
    let options = PublishedOptions {
        logs: args.logs.clone(),
        reading: args.reading.reading(),
        scenario: scenario.resolve()?,
        crawlers: match args.crawlers {
            CrawlerRule::Published => Crawlers::Published,
            CrawlerRule::Classifier => Crawlers::Classifier,
        },
    };
    let clock = Clock::real();
    let mut reading = Reading::begin(&clock, args.json);
    let comparison = published::run(&options, |at| reading.tell(at));
    reading.end();
    let comparison = comparison.map_err(|error| {
        let hint = error.hint();
        Failure::failed(&error).maybe_hint(hint)
    })?;
    if let Some(path) = &args.csv {
        write(path, &comparison.to_csv())?;
    }
    if let Some(path) = &args.html {
        let generated = format!("nightwatt {}", env!("CARGO_PKG_VERSION"));
        write(path, &comparison.document(generated).to_html())?;
    }
    if args.json {
        output::say_json(&comparison)?;
    } else {
        output::say(&comparison.text())?;
    }
    for warning in comparison.warnings.iter().chain(&comparison.skipped) {
        output::complain(&format!("warning: {warning}"));
    }
    Ok(ExitStatus::Success)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| {
        Failure::because(format!("cannot write {}", path.display()), &error)
            .hint("name a file in a folder that exists and that you may write to")
    })
}
