//! `nightwatt load`: requests at times of a process of arrivals, against a server.

mod plan;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use nightwatt_load::generate::{
    self, Border, LoadReport, Mix, Plan, Rows, Sample, Sending, ServerIs, ServerWatch,
};
use serde_json::{Value, json};

use crate::ExitStatus;
use crate::args::LoadArgs;
use crate::errors::Failure;
use crate::figures::count;
use crate::output;
use crate::progress::Progress;
use crate::signals;

/// Plans, sends, reports.
pub(crate) fn run(args: &LoadArgs) -> Result<ExitStatus, Failure> {
    let plan = plan::of(args)?;
    // Before the work, so that a wrong path does not cost its results.
    let writer =
        args.found.csv.as_deref().map(|path| Writer::start(path, &plan.mix)).transpose()?;
    let stop = signals::stop_on_signals()?;
    if !args.found.json {
        output::complain(&announcement(args, &plan));
    }
    let mut progress = Progress::by_time(args.found.json);
    let tell = |sending: Sending| {
        let end = sending.end.unwrap_or_default();
        let left = end.saturating_sub(sending.elapsed);
        let done = (sending.elapsed.min(end), end);
        let done = (done.0.as_millis() as u64, done.1.as_millis() as u64);
        progress.tell(done, sending.elapsed, Some(left), || {
            format!("{} due, {} done", count(sending.due), count(sending.done))
        });
    };
    let mut watch = watch(args)?;
    let border = |border: Border| {
        if let Some(watch) = &mut watch {
            watch.at(border);
        }
    };
    let samples = writer.as_ref().map(|writer| &writer.samples);
    let report = generate::generate(&plan, &stop, samples, tell, border);
    progress.end();
    let mut report = report.map_err(|error| Failure::usage(&error))?;
    report.server = watch.as_ref().and_then(ServerWatch::report);
    if let Some(writer) = writer {
        writer.finish()?;
    }
    say(args, &plan, &report)?;
    if report.run.answered == 0 && report.run.due > 0 {
        return Err(nothing_answered(&plan, &report));
    }
    Ok(ExitStatus::Success)
}

fn watch(args: &LoadArgs) -> Result<Option<ServerWatch>, Failure> {
    let server = match (args.found.pid, &args.found.cgroup) {
        (Some(pid), _) => ServerIs::Process(pid),
        (None, Some(folder)) => ServerIs::Cgroup(folder.clone()),
        (None, None) => return Ok(None),
    };
    ServerWatch::new(server).map(Some).map_err(|error| Failure::usage(&error))
}

fn say(args: &LoadArgs, plan: &Plan, report: &LoadReport) -> Result<(), Failure> {
    if args.found.json {
        let mut value = json!({
            "schema": report.schema,
            "arrivals": arrivals(args, plan),
            "urls": plan.mix.len(),
            "servers": plan.mix.places().iter().map(|place| &place.authority).collect::<Vec<_>>(),
        });
        let figures = serde_json::to_value(report);
        let figures =
            figures.map_err(|error| Failure::because("cannot write the result as JSON", &error))?;
        if let (Value::Object(value), Value::Object(figures)) = (&mut value, figures) {
            value.extend(figures);
        }
        return output::say_json(&value);
    }
    output::say(&generate::text(report))?;
    for warning in &report.warnings {
        output::complain(&format!("warning: {warning}"));
    }
    Ok(())
}

/// What the arrivals are, with all that it takes to have them again.
fn arrivals(args: &LoadArgs, plan: &Plan) -> Value {
    use nightwatt_model::arrivals::Arrivals;
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

/// What is about to happen, and how to have it again.
fn announcement(args: &LoadArgs, plan: &Plan) -> String {
    let arrivals = arrivals(args, plan);
    let kind = arrivals["kind"].as_str().unwrap_or_default().to_owned();
    let rate = plan.arrivals.mean_rate().map_or(String::new(), |rate| format!(" at {rate:.6}/s"));
    let rate = rate.replace(".000000/s", "/s");
    let servers: Vec<&str> =
        plan.mix.places().iter().map(|place| place.authority.as_str()).collect();
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
    Failure::saying(format!("no request was answered: {}", reasons.join(", ")))
        .hint(format!("does `curl -v {url}` get an answer?"))
}

/// Batches of rows that may wait for the disk, a thousand rows each: some 30 MB.
const BATCHES: usize = 256;

/// Writes rows in a thread of its own, so that no request waits for a disk.
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
