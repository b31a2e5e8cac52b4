//! `nightwatt load`: sends requests to a server at the times of an arrival process.

mod plan;

use std::fs::File;
use std::io::{self, BufWriter};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::{ValueEnum, ValueHint};
use nightwatt_load::generate::{
    self, LoadReport, Mix, Plan, Rows, Sample, Sending, ServerIs, ServerWatch, WindowEdge,
};
use serde_json::{Value, json};

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::figures::count;
use crate::output;
use crate::progress::Progress;
use crate::signals;
use crate::values;

/// Generate load: Poisson, constant, bursty, daily, or from a trace
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// URL to request: `http://host[:port]/path`; may be given several times. With `--trace LOG`, the
    /// server
    #[arg(value_name = "URL", required_unless_present = "list", value_hint = ValueHint::Url)]
    pub(crate) urls: Vec<String>,
    #[command(flatten, next_help_heading = "When")]
    pub(crate) when: WhenArgs,
    #[command(flatten, next_help_heading = "What")]
    pub(crate) what: WhatArgs,
    #[command(flatten, next_help_heading = "How")]
    pub(crate) how: HowArgs,
    #[command(flatten, next_help_heading = "Output")]
    pub(crate) found: FoundArgs,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Compare);

const EXAMPLES: &str = "Examples:
  nightwatt load http://127.0.0.1:8080/ --rate 200 --for 1m
  nightwatt load http://127.0.0.1:8080/ --arrivals constant --rows rows.csv
  nightwatt load 'http://127.0.0.1:8080/{page}' --pages 1000 --arrivals bursts
  nightwatt load --list urls.txt --rate 100 --arrivals day --day 10m --for 10m
  nightwatt load http://127.0.0.1:8080/ --trace access.log.gz --speed 60
  nightwatt load http://127.0.0.1:8080/ --pid \"$(pidof -s nginx)\" --json

Requests leave when they are due, whether or not earlier ones were answered (open loop), and latency
counts from when they were due. Use it only on servers of your own. Ctrl-C ends it early and prints
the figures.

Docs: docs/load.md";

/// When requests are due.
#[derive(Debug, clap::Args)]
pub(crate) struct WhenArgs {
    /// Mean requests per second
    #[arg(long, value_name = "N", default_value = "10", value_parser = values::factor)]
    pub(crate) rate: f64,
    /// Arrival process: poisson (independent of each other), constant, bursts, day
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) arrivals: ArrivalKind,
    /// bursts: rate in a burst, as a multiple of the mean rate
    #[arg(long, value_name = "K", default_value = "5", value_parser = values::factor)]
    pub(crate) burst_factor: f64,
    /// bursts: share of the time that is in bursts
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = values::factor)]
    pub(crate) burst_share: f64,
    /// bursts: mean length of a burst
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::some_time)]
    pub(crate) burst_length: Duration,
    /// day: rate at noon, as a multiple of the mean rate, 1 to 2
    #[arg(long, value_name = "K", default_value = "1.8", value_parser = values::factor)]
    pub(crate) peak: f64,
    /// day: length of a day, from midnight to midnight
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = values::some_time)]
    pub(crate) day: Duration,
    /// Send at the times in this file: seconds, one per line; or a log, with its requests
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["rate", "arrivals", "list", "method"])]
    pub(crate) trace: Option<PathBuf>,
    /// Send this many times faster than the trace
    #[arg(long, value_name = "K", default_value = "1", requires = "trace", value_parser = values::factor)]
    pub(crate) speed: f64,
    /// Send for this time [default: 30s, or until the end of `--requests` or the trace]
    #[arg(short = 'd', long = "for", value_name = "TIME", value_parser = values::some_time)]
    pub(crate) time: Option<Duration>,
    /// Send this many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Do not count requests that are due within this time after the start
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = values::duration)]
    pub(crate) warm_up: Duration,
    /// Do not count requests that are due within this time before the end
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = values::duration)]
    pub(crate) cool_down: Duration,
    /// Seed of times and URLs: same seed, same requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// How requests come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArrivalKind {
    /// Independent of each other.
    #[default]
    Poisson,
    /// Evenly.
    Constant,
    /// Two rates, switched at random.
    Bursts,
    /// A sine.
    Day,
}

/// The requests.
#[derive(Debug, clap::Args)]
pub(crate) struct WhatArgs {
    /// File of URLs, one per line: `[WEIGHT] [METHOD] URL`
    #[arg(long, value_name = "FILE", conflicts_with = "urls", value_hint = ValueHint::FilePath)]
    pub(crate) list: Option<PathBuf>,
    /// Replace `{page}` in a URL by a number from 1 to N
    #[arg(long, value_name = "N")]
    pub(crate) pages: Option<NonZeroU32>,
    /// Replace `{size}` in a URL by a number of bytes, by weight: `1k=70,100k=25,1M=5`
    #[arg(long, value_name = "SIZES", value_parser = |text: &str| generate::sources::sizes(text).map(Sizes))]
    pub(crate) sizes: Option<Sizes>,
    /// Request the n-th URL in proportion to n^-S, instead of all equally often
    #[arg(long, value_name = "S", value_parser = values::factor)]
    pub(crate) zipf: Option<f64>,
    /// Method of URLs without one
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// Header field, as in `-H 'Accept: text/html'`
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = field)]
    pub(crate) fields: Vec<(String, String)>,
    /// Body of every request
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub(crate) body: Option<String>,
    /// Body of every request, from a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) body_file: Option<PathBuf>,
}

/// Numbers of bytes with weights.
#[derive(Debug, Clone)]
pub(crate) struct Sizes(pub(crate) Vec<(u64, f64)>);

/// How requests are sent.
#[derive(Debug, clap::Args)]
pub(crate) struct HowArgs {
    /// Most connections at once [default: 1024, or what the system allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: Option<u32>,
    /// Open a connection for every request
    #[arg(long)]
    pub(crate) no_keep_alive: bool,
    /// Abandon a request this long after it was due
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::some_time)]
    pub(crate) timeout: Duration,
    /// Number of threads that send [default: one, and one more for every 25,000 requests per second]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Report the client as the bottleneck if more than 1 % of requests leave later than this
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = values::some_time)]
    pub(crate) max_lag: Duration,
}

/// Output, and the server whose resources are measured.
#[derive(Debug, clap::Args)]
pub(crate) struct FoundArgs {
    /// Write one row per request as CSV
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) rows: Option<PathBuf>,
    /// Report CPU and memory of the server, which is this process on this machine and its children
    #[arg(long, value_name = "PID", conflicts_with = "cgroup")]
    pub(crate) pid: Option<u32>,
    /// Report CPU and memory of this cgroup: `/sys/fs/cgroup/system.slice/nginx.service`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cgroup: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

/// A header field: `Accept: text/html`.
fn field(text: &str) -> Result<(String, String), String> {
    let both = text.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
    both.filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "write a name, a colon and a value, as in `Accept: text/html`".to_owned())
}

/// Plans, sends, reports.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let plan = plan::of(args)?;
    // Opened before the work, so that a wrong path does not cost its results.
    let writer =
        args.found.rows.as_deref().map(|path| Writer::start(path, &plan.mix)).transpose()?;
    let stop = signals::stop_on_signals()?;
    if !args.found.json {
        output::complain(&announcement(args, &plan));
    }
    let mut progress = Progress::by_time(args.found.json);
    let on_progress = |sending: Sending| {
        let end = sending.end.unwrap_or_default();
        let left = end.saturating_sub(sending.elapsed);
        let done = sending.elapsed.min(end).as_millis() as u64;
        progress.update(done, end.as_millis() as u64, sending.elapsed, Some(left), || {
            format!("{} due, {} done", count(sending.due), count(sending.done))
        });
    };
    let mut watch = watch(args)?;
    let border = |border: WindowEdge| {
        if let Some(watch) = &mut watch {
            watch.at(border);
        }
    };
    let samples = writer.as_ref().map(|writer| &writer.samples);
    let report = generate::generate(&plan, &stop, samples, on_progress, border);
    progress.end();
    let mut report = report.map_err(|error| Failure::usage(&error))?;
    report.server = watch.as_ref().and_then(ServerWatch::report);
    if let Some(writer) = writer {
        writer.finish()?;
    }
    print(args, &plan, &report)?;
    if report.run.answered == 0 && report.run.due > 0 {
        return Err(nothing_answered(&plan, &report));
    }
    Ok(ExitStatus::Success)
}

fn watch(args: &Args) -> Result<Option<ServerWatch>, Failure> {
    let server = match (args.found.pid, &args.found.cgroup) {
        (Some(pid), _) => ServerIs::Process(pid),
        (None, Some(folder)) => ServerIs::Cgroup(folder.clone()),
        (None, None) => return Ok(None),
    };
    ServerWatch::new(server).map(Some).map_err(|error| Failure::usage(&error))
}

fn print(args: &Args, plan: &Plan, report: &LoadReport) -> Result<(), Failure> {
    if args.found.json {
        let mut value = json!({
            "schema": report.schema,
            "arrivals": arrivals(args, plan),
            "urls": plan.mix.len(),
            "servers": plan.mix.endpoints().iter().map(|place| &place.authority).collect::<Vec<_>>(),
        });
        let figures = serde_json::to_value(report);
        let figures =
            figures.map_err(|error| Failure::because("cannot write the result as JSON", &error))?;
        if let (Value::Object(value), Value::Object(figures)) = (&mut value, figures) {
            value.extend(figures);
        }
        return output::print_json(&value);
    }
    output::print(&generate::text(report))?;
    for warning in &report.warnings {
        output::complain(&format!("warning: {warning}"));
    }
    Ok(())
}

/// Describes the arrivals, with everything needed to repeat them.
fn arrivals(args: &Args, plan: &Plan) -> Value {
    use nightwatt_policy::arrivals::Arrivals;
    match &plan.arrivals {
        Arrivals::Constant(rate) => json!({ "kind": "constant", "rate": rate.get() }),
        Arrivals::Poisson(rate) => json!({ "kind": "poisson", "rate": rate.get() }),
        Arrivals::Bursts(bursts) => {
            let (rates, lengths) = (bursts.rates(), bursts.lengths());
            json!({
                "kind": "bursts",
                "rate": bursts.mean_rate(),
                "burst_rate": rates.0,
                "quiet_rate": rates.1,
                "burst_s": lengths.0,
                "quiet_s": lengths.1,
                "index_of_dispersion": bursts.index_of_dispersion(),
            })
        }
        Arrivals::Profile(profile) => json!({
            "kind": "day",
            "rate": profile.mean_rate(),
            "peak": args.when.peak,
            "day_s": profile.length(),
        }),
        Arrivals::Counts(counts) => json!({
            "kind": "counts",
            "rate": counts.mean_rate(),
            "requests": counts.total(),
        }),
        Arrivals::Trace(trace) => json!({
            "kind": "trace",
            "requests": trace.len(),
            "speed": args.when.speed,
        }),
    }
}

/// What is about to run, and how to repeat it.
fn announcement(args: &Args, plan: &Plan) -> String {
    let arrivals = arrivals(args, plan);
    let kind = arrivals["kind"].as_str().unwrap_or_default().to_owned();
    let rate = plan.arrivals.mean_rate().map_or(String::new(), |rate| format!(" at {rate:.6}/s"));
    let rate = rate.replace(".000000/s", "/s");
    let servers: Vec<&str> =
        plan.mix.endpoints().iter().map(|place| place.authority.as_str()).collect();
    format!(
        "{kind} arrivals{rate}, seed {}, to {}: {} URL{}",
        plan.seed,
        servers.join(", "),
        count(plan.mix.len() as u64),
        if plan.mix.len() == 1 { "" } else { "s" }
    )
}

fn nothing_answered(plan: &Plan, report: &LoadReport) -> Failure {
    let reasons: Vec<String> =
        report.errors.iter().map(|(why, n)| format!("{} {why}", count(*n))).collect();
    let url = plan.mix.wanted(0).1;
    Failure::new(format!("no request was answered: {}", reasons.join(", ")))
        .hint(format!("does `curl -v {url}` get an answer?"))
}

/// Batches of rows that may wait for the disk, a thousand rows each: some 30 MB.
const BATCHES: usize = 256;

/// Writes rows in a thread of its own, so that no request waits for the disk.
struct Writer {
    samples: SyncSender<Vec<Sample>>,
    thread: JoinHandle<io::Result<()>>,
    path: std::path::PathBuf,
}

impl Writer {
    fn start(path: &Path, mix: &Mix) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| unwritten(path, &error))?;
        let (samples, inbox): (_, Receiver<Vec<Sample>>) = mpsc::sync_channel(BATCHES);
        let mix = mix.clone();
        let write = move || {
            let mut rows = Rows::new(BufWriter::new(file))?;
            for sample in inbox.iter().flatten() {
                rows.write(&sample, &mix)?;
            }
            rows.finish().map(drop)
        };
        let thread = std::thread::Builder::new().name("rows".to_owned()).spawn(write);
        let thread = thread.map_err(|error| Failure::because("cannot start a thread", &error))?;
        Ok(Self { samples, thread, path: path.to_owned() })
    }

    fn finish(self) -> Result<(), Failure> {
        drop(self.samples);
        let written = self.thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        written.map_err(|error| unwritten(&self.path, &error))
    }
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::because(format!("cannot write {}", path.display()), error)
        .hint("check that its directory exists, may be written, and has room")
}
