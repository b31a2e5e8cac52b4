//! `nightwatt published`: the published comparison over a log.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_lab::published::{self, Crawlers, PublishedOptions};

use crate::ExitStatus;
use crate::args::{CrawlerRule, PublishedArgs};
use crate::errors::Failure;
use crate::figures::count;
use crate::output;
use crate::progress::Progress;
use crate::scenario::ScenarioArgs;

/// Reads, compares, reports.
pub(crate) fn run(args: &PublishedArgs) -> Result<ExitStatus, Failure> {
    let scenario = ScenarioArgs {
        policy: Some(args.policy.clone()),
        no_sla: args.no_sla,
        scenario: args.scenario.clone(),
    };
    let options = PublishedOptions {
        logs: args.logs.clone(),
        format: args.format,
        scenario: scenario.resolve()?,
        crawlers: match args.crawlers {
            CrawlerRule::Published => Crawlers::Published,
            CrawlerRule::Classifier => Crawlers::Classifier,
        },
    };
    let mut progress = Progress::by_time(args.json);
    let clock = Clock::real();
    let started = clock.now().mono;
    let comparison = published::run(&options, |at| {
        let elapsed = clock.now().mono.since(started);
        let total = at.total.unwrap_or(0);
        let left = total.checked_sub(at.done).and_then(|left| {
            let left = elapsed.as_secs_f64() * left as f64 / at.done as f64;
            Duration::try_from_secs_f64(left).ok()
        });
        progress
            .tell((at.done, total), elapsed, left, || format!("{} requests", count(at.requests)));
    });
    progress.end();
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
    for warning in &comparison.warnings {
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
