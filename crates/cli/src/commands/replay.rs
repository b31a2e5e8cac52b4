//! `nightwatt replay`: sends the requests of a log to a server.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::ValueHint;
use nightwatt_clock::Clock;
use nightwatt_energy::duration_text;
use nightwatt_energy::time::{Mono, Now};
use nightwatt_load::replay::Progress as Sent;
use nightwatt_load::summary::{csv_table, text_table};
use nightwatt_load::{
    ClassOf, Options, ReplaySummary, Returning, Run, ServiceTime, Target, Waiting, csv, replay,
    speed_for,
};
use nightwatt_traffic::{Arrival, Classifier, ClientFacts, Counts, LogReader, arrivals};
use serde_json::json;

use crate::ExitStatus;
use crate::args::ReadingArgs;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::figures::{count, counted};
use crate::output;
use crate::progress::Progress;
use crate::values;

/// Send the requests of a log to a server, at the times of the log
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Log to replay, plain or packed; `-` for stdin
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) log: PathBuf,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Server to replay against: `http://HOST[:PORT]/`
    #[arg(value_hint = ValueHint::Url)]
    pub(crate) url: String,
    /// So many times faster than the log [default: 1]
    #[arg(long, value_name = "K", value_parser = values::factor)]
    pub(crate) speed: Option<f64>,
    /// Choose the speed at which it takes so many minutes
    #[arg(long, value_name = "M", value_parser = values::factor, conflicts_with = "speed")]
    pub(crate) minutes: Option<f64>,
    /// Only the first N days of the log
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) days: Option<u32>,
    /// Ask for this host instead of the URL's
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Leave out the headers that only `nightwatt origin` understands: for real servers
    #[arg(long)]
    pub(crate) plain: bool,
    /// What browsers do with a waiting page: poll, ignore, or open it again after a TIME
    #[arg(long, value_name = "HOW", default_value = "poll")]
    pub(crate) waiting: WaitingChoice,
    /// Crawlers told to come back do so within this time [default: the length of the replay]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) returns_within: Option<Duration>,
    /// Timeout of a request
    #[arg(long, value_name = "TIME", default_value = "2m30s", value_parser = values::some_time)]
    pub(crate) timeout: Duration,
    /// At most so many connections [default: as many as the system allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_open: Option<u64>,
    /// Ask `nightwatt origin` for no more than so many bytes an answer
    #[arg(long, value_name = "BYTES")]
    pub(crate) body_limit: Option<u64>,
    /// Name of the column in the table
    #[arg(long, value_name = "NAME", default_value = "replay")]
    pub(crate) name: String,
    /// Write one row per request as CSV
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) rows: Option<PathBuf>,
    /// Write the table as CSV too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) table: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Compare);

const EXAMPLES: &str = "Examples:
  nightwatt replay access.log.gz http://127.0.0.1:8080/ --minutes 10
  nightwatt replay access.log http://127.0.0.1:8080/ --speed 60 --rows r.csv
  zstdcat log.zst | nightwatt replay - http://test.example.org/ --days 1

Requests leave at the log's times whatever became of those before (open loop). Only replay against
a server of your own.";

/// What browsers do with a waiting page: `poll`, `ignore`, or a time after which they open it again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingChoice(pub(crate) Waiting);

impl FromStr for WaitingChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "poll" => Waiting::Poll { every: Duration::from_secs(1), cap: Duration::from_mins(5) },
            "ignore" => Waiting::Ignore,
            time => Waiting::ReopenAfter(duration_text::parse(time).map_err(|_| {
                format!("`{time}` is not `poll`, `ignore` or a time such as `10s`")
            })?),
        }))
    }
}

/// How often a crawler comes back when the server tells it to retry.
const RETURNS: u32 = 3;

/// Reads, sends, reports.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let (requests, counts) = read(args)?;
    // Created before the work, so that a wrong path does not cost its results.
    let csv = args.rows.as_deref().map(create).transpose()?;
    let table = args.table.as_deref().map(create).transpose()?;
    if let Some(skipped) = nightwatt_savings::skipped(&counts) {
        output::complain(&format!("warning: {skipped}"));
    }
    let clock = Clock::real();
    let runtime = clock.runtime().map_err(|error| Failure::because("cannot start", &error))?;
    let (run, speed) = runtime.block_on(send(args, &requests, &clock))?;
    let summary = ReplaySummary::of(&run, ServiceTime::default());
    if let Some((file, path)) = csv.zip(args.rows.as_deref()) {
        csv::write_run(BufWriter::new(file), &requests, &run)
            .map_err(|error| unwritten(path, &error))?;
    }
    if let Some((mut file, path)) = table.zip(args.table.as_deref()) {
        let text = csv_table(&[(&args.name, &summary)]);
        std::io::Write::write_all(&mut file, text.as_bytes())
            .map_err(|error| unwritten(path, &error))?;
    }
    if args.json {
        output::print_json(&json!({
            "log": counts,
            "url": args.url,
            "speed": speed,
            "replay": summary,
        }))?;
    } else {
        output::print(&report(args, &counts, &summary))?;
        for warning in &summary.warnings {
            output::complain(&format!("warning: {warning}"));
        }
    }
    if run.outcomes.iter().all(|outcome| outcome.answered.is_none()) {
        let reasons: Vec<String> =
            summary.by_error.iter().map(|(why, n)| format!("{} {why}", count(*n))).collect();
        return Err(Failure::new(format!("no request was answered: {}", reasons.join(", ")))
            .hint(format!("does `curl -v {}` get an answer?", args.url)));
    }
    Ok(ExitStatus::Success)
}

fn read(args: &Args) -> Result<(Vec<Arrival>, Counts), Failure> {
    let reader = LogReader::open(&args.log).map_err(|error| Failure::of_input(&error))?;
    let reading = args.reading.reading();
    let mut reader = reader.with_reading(&reading);
    let requests = arrivals(&mut reader, args.days).map_err(|error| Failure::failed(&error))?;
    let counts = reader.counts().clone();
    if requests.is_empty() {
        let lines = counted(counts.lines, "line");
        let mut failure = Failure::new(format!("no request in {lines} of {}", args.log.display()))
            .hint("is it an access log?");
        if let Some(sample) = counts.malformed_samples.first() {
            let why = reading.explain(&sample.excerpt);
            let why = why.unwrap_or_else(|| sample.reason.to_string());
            failure = failure.hint(format!(
                "line {} could not be read ({why}): {}",
                sample.line, sample.excerpt
            ));
        }
        return Err(failure);
    }
    Ok((requests, counts))
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::because(format!("cannot write {}", path.display()), error)
        .hint("check that its directory exists, may be written, and has room")
}

async fn send(args: &Args, requests: &[Arrival], clock: &Clock) -> Result<(Run, f64), Failure> {
    let wrong = |error| Failure::usage(&error);
    let mut target = Target::resolve(&args.url).await.map_err(wrong)?;
    if let Some(host) = &args.host {
        target = target.with_host(host).map_err(wrong)?;
    }
    let speed = match (args.speed, args.minutes) {
        (Some(speed), _) => speed,
        (None, Some(minutes)) => speed_for(requests, Duration::from_secs_f64(minutes * 60.0)),
        (None, None) => 1.0,
    };
    let span = span(requests).div_f64(speed);
    let options = Options {
        speed,
        plain: args.plain,
        body_limit: args.body_limit,
        timeout: args.timeout,
        waiting: args.waiting.0,
        returning: Some(Returning { times: RETURNS, horizon: args.returns_within.unwrap_or(span) })
            .filter(|returning| !returning.horizon.is_zero()),
        max_open: args.max_open.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        class_of: class_of(requests),
        ..Options::default()
    };
    let mut progress = Progress::by_time(args.json);
    let on_progress = |sent: Sent| {
        let left = span.saturating_sub(sent.elapsed);
        progress.update(sent.done as u64, sent.total as u64, sent.elapsed, Some(left), || {
            format!("{} sent, {} answered", count(sent.sent as u64), count(sent.done as u64))
        });
    };
    let run = replay(requests, &target, &options, clock, on_progress).await.map_err(wrong)?;
    progress.end();
    Ok((run, speed))
}

/// Time from the first request to the last.
fn span(requests: &[Arrival]) -> Duration {
    let first = requests.first().map_or(0, |request| request.at.0);
    let last = requests.last().map_or(0, |request| request.at.0);
    Duration::from_millis(u64::try_from(last.saturating_sub(first)).unwrap_or(0))
}

/// The classes that the proxy would have assigned, had it sent the logged answers.
fn class_of(requests: &[Arrival]) -> ClassOf {
    let classifier = Mutex::new(Classifier::default());
    let first = requests.first().map_or(0, |request| request.at.0);
    Arc::new(move |request| {
        let since = u64::try_from(request.at.0.saturating_sub(first)).unwrap_or(0);
        let now = Now {
            mono: Mono(Duration::from_millis(since)),
            wall: request.at,
            utc_offset: request.utc_offset,
        };
        let facts = ClientFacts::from(request);
        let mut classifier = classifier.lock().unwrap_or_else(PoisonError::into_inner);
        let class = classifier.classify(now, &facts);
        classifier.learn(now, &facts, request.status);
        class
    })
}

fn report(args: &Args, counts: &Counts, summary: &ReplaySummary) -> String {
    let mut text = format!(
        "{}: {}, {}, {} without one, {} unreadable\n",
        args.log.display(),
        counted(counts.lines, "line"),
        counted(counts.requests, "request"),
        count(counts.bad_requests),
        count(counts.malformed)
    );
    for sample in counts.bad_request_samples.iter().chain(&counts.malformed_samples) {
        let _ = writeln!(text, "  line {} ({}): {}", sample.line, sample.reason, sample.excerpt);
    }
    text.push('\n');
    text.push_str(&text_table(&[(&args.name, summary)]));
    text.push_str("\nShare of the requests that waited no longer than\n");
    text.push_str(&summary.cdf.plot());
    text
}
