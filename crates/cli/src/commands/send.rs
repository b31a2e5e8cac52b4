//! `nightwatt send`: files to another machine, packed as costs least energy.

mod destination;
pub(super) mod priced;
mod site;
mod traces;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueHint;
use nightwatt_clock::Clock;
use nightwatt_clock::meter::monotonic;
use nightwatt_energy::time::{Mono, Wall};
use nightwatt_meters::Host;
use nightwatt_meters::sampler::{Opened, Sampler, Sink};
use nightwatt_transfer::codec::process_seconds;
use nightwatt_transfer::forecast::Forecast;
use nightwatt_transfer::pure::arm::Arm;
use nightwatt_transfer::pure::bill::{Bill, Objective, Overlap, Prices};
use nightwatt_transfer::pure::exclude::Exclude;
use nightwatt_transfer::send::{Options, Plan, Report, SendError, Session, Stream, Wanted, walk};
use nightwatt_transfer::summary::{Basis, Summary, mix};
use nightwatt_transfer::wire::Stamp;

use self::destination::Destination;
use self::priced::{Priced, metered};
use self::site::{Kept, SiteArgs};
use crate::ExitStatus;
use crate::args::MeterArgs;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::figures::bytes;
use crate::output;
use crate::progress::Progress;
use crate::signals;
use crate::values;

/// Send files to another machine for the least energy
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Args {
    /// Files and folders, or - for stdin; then where to: a machine that ssh reaches, and a folder on it (from the home
    /// folder unless it begins with /; with - a file), or a receiver that listens (tls://HOST:PORT)
    #[arg(required_unless_present = "replay_trace", value_name = "PATH... HOST:PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// What to save: energy of the whole machine, only what is above its idle power, energy of the network card, or time
    #[arg(long, value_name = "WHAT", default_value = "whole", value_parser = objective)]
    pub(crate) bill: Objective,
    /// Use this codec for all blocks: none, lz4, zstd-3, gzip-6, bzip2-9, xz-6
    #[arg(long, value_name = "CODEC")]
    pub(crate) codec: Option<Arm>,
    /// Choose from these codecs [default: none, lz4, gzip, bzip2, xz and seven levels of zstd]
    #[arg(long, value_name = "CODECS", value_delimiter = ',', conflicts_with = "codec")]
    pub(crate) codecs: Vec<Arm>,
    /// Length of all blocks in KiB [default: a tenth of a second of the link]
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) block: Option<u32>,
    /// Leave out files and folders with such a name or path: '*.tmp', 'cache/', '/photos/raw'; can be given again
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<Exclude>,
    /// Delete what is in the folders there and no longer here, unless a pattern of `--exclude` matches it
    #[arg(long)]
    pub(crate) delete: bool,
    /// With `--delete`: send a folder that is empty here, so that all in it there is deleted
    #[arg(long, requires = "delete")]
    pub(crate) allow_empty: bool,
    /// Send nothing: print what would be written and deleted there
    #[arg(long, conflicts_with_all = ["record_trace", "replay_trace"])]
    pub(crate) dry_run: bool,
    /// Send extended attributes of users too, and remove those there that are not here
    #[arg(long)]
    pub(crate) xattrs: bool,
    /// Power of this machine when idle, in watts [default: of such machines]
    #[arg(long, value_name = "WATTS", value_parser = values::factor)]
    pub(crate) idle_watts: Option<f64>,
    /// Power of a busy core above that, in watts [default: of such machines]
    #[arg(long, value_name = "WATTS", value_parser = values::factor)]
    pub(crate) core_watts: Option<f64>,
    /// Program that reaches the other machine, with its options: 'ssh -p 2222'. It is split at blanks, and quotes in it
    /// mean nothing
    #[arg(short = 'e', long, value_name = "COMMAND", default_value = "ssh")]
    pub(crate) rsh: String,
    /// nightwatt on the other machine
    #[arg(long, value_name = "PROGRAM", default_value = "nightwatt")]
    pub(crate) remote_program: String,
    /// The ticket of a receiver that listens: a file, as `nightwatt receive --ticket-file` writes it [default: the
    /// environment's `NIGHTWATT_TICKET`]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ticket_file: Option<PathBuf>,
    /// Send to tcp://HOST:PORT without encryption, and to whatever machine answers there
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Send nothing: pack the files with every codec, and write what that costs into FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, group = "trace", conflicts_with_all = ["codec", "replay_trace"])]
    pub(crate) record_trace: Option<PathBuf>,
    /// Send nothing: print what every policy would have done with the trace in FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, group = "trace", conflicts_with_all = ["codec", "codecs", "block"])]
    pub(crate) replay_trace: Option<PathBuf>,
    /// With a trace: rate of the link in bytes per second
    #[arg(long, value_name = "BYTES", value_parser = values::factor, requires = "trace")]
    pub(crate) rate: Option<f64>,
    #[command(flatten)]
    pub(crate) site: SiteArgs,
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    /// Print what was sent, and what it cost, as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  nightwatt send photos notes.txt nas:/backup
  nightwatt send -e 'ssh -p 2222' --bill dynamic /var/log server:logs
  nightwatt send --exclude '*.tmp' --exclude cache/ projects nas:/backup
  nightwatt send --delete --dry-run projects nas:/backup  # shows what would go
  nightwatt send --to-site nas photos nas:/backup      # it is woken first
  tar -c /etc | nightwatt send - nas:backup/etc.tar
  nightwatt send --ticket-file nas.ticket photos tls://10.0.0.2:7000
  nightwatt send --codec zstd-3 --json big.img nas:/backup | jq .energy
  nightwatt send --record-trace photos.trace --rate 1e6 photos   # sends nothing
  nightwatt send --replay-trace photos.trace

If it is interrupted, the same command goes on from there. Files that are there
already, with the same length and time, are not sent. The other machine needs
nightwatt, which ssh starts there.";

fn objective(text: &str) -> Result<Objective, String> {
    let found = Objective::ALL.into_iter().find(|objective| objective.name() == text);
    found.ok_or_else(|| "use whole, dynamic, nic or time".to_owned())
}

/// Sends, and prints what it cost; or records or replays a trace.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let prices = Priced::of(args.idle_watts, args.core_watts);
    let bill = Bill { objective: args.bill, overlap: Overlap::Pipelined, prices: prices.prices };
    if let Some(path) = &args.replay_trace {
        return traces::replay(args, path, bill);
    }
    if let Some(path) = &args.record_trace {
        return traces::record(args, path);
    }
    let to = Destination::of(args)?;
    let plan = match to.stream {
        Some(_) => Plan::default(),
        None => walk(&to.paths, &wanted(args)).map_err(|error| Failure::usage(&error))?,
    };
    refuse_empty(args, &plan)?;
    for left_out in plan.skipped.iter().chain(&plan.special).chain(&plan.notes) {
        output::complain(&format!("warning: {left_out}"));
    }
    if args.dry_run {
        return foresee(args, &to, plan, bill);
    }
    let [skipped, special, notes] = [&plan.skipped, &plan.special, &plan.notes].map(Clone::clone);
    let meters = args.meters.opened(&Host::default(), None)?;
    let sampler = Sampler::start(meters, None, |_: &Opened| -> Box<dyn Sink> { Box::new(()) })
        .map_err(|error| Failure::because("cannot start the meters' threads", &error))?;
    let (begin, before) = (monotonic(), process_seconds());
    sampler.begin(begin);
    let session = to_awake(args, &to, plan, bill);
    let end = monotonic();
    let (measured, _) = sampler.finish(end);
    let mut session = session?;
    session.took(process_seconds() - before);
    let seconds = end.since(begin).as_secs_f64();
    let energy =
        metered(&measured, seconds).unwrap_or_else(|| prices.energy(session.report(), seconds));
    let basis = Basis { energy, core_doubt: prices.core_doubt() };
    let summary =
        Summary { skipped, special, notes, ..Summary::of(&session, bill, seconds, basis) };
    output::print_folded(&summary, args.json, || summary.text(), &[])?;
    let is_whole = summary.rejected_count == 0 && summary.skipped.is_empty();
    Ok(if is_whole { ExitStatus::Success } else { ExitStatus::Failed })
}

/// Prints what would be done.
fn foresee(args: &Args, to: &Destination, plan: Plan, bill: Bill) -> Result<ExitStatus, Failure> {
    let skipped = plan.skipped.clone();
    let session = to_awake(args, to, plan, bill)?;
    let forecast = Forecast { skipped, ..Forecast::of(&session) };
    output::print_folded(&forecast, args.json, || forecast.text(), &[])?;
    let is_whole = forecast.refused.is_empty() && forecast.skipped.is_empty();
    Ok(if is_whole { ExitStatus::Success } else { ExitStatus::Failed })
}

/// A folder that is empty may be that of a disk that is not mounted: all of it would be deleted there.
fn refuse_empty(args: &Args, plan: &Plan) -> Result<(), Failure> {
    let empty = plan.empty_folders().next().filter(|_| args.delete && !args.allow_empty);
    let Some(empty) = empty else { return Ok(()) };
    Err(Failure::new(format!(
        "{} is empty here, and `--delete` would delete all in it there",
        empty.display()
    ))
    .into_usage()
    .hint(
        "if a disk is to be mounted there, mount it; if all is to be deleted, add `--allow-empty`",
    ))
}

fn wanted(args: &Args) -> Wanted {
    Wanted { excludes: args.exclude.clone(), attributes: args.xattrs }
}

/// Wakes the other machine if a site was named, and sends.
fn to_awake(args: &Args, to: &Destination, plan: Plan, bill: Bill) -> Result<Session, Failure> {
    let mut kept = Kept::awake(&args.site)?;
    let session = send(args, to, plan, bill, kept.as_mut());
    if let Some(kept) = kept {
        kept.release();
    }
    session
}

fn send(
    args: &Args,
    to: &Destination,
    plan: Plan,
    bill: Bill,
    mut kept: Option<&mut Kept>,
) -> Result<Session, Failure> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let options = Options {
        arms: if args.codecs.is_empty() { Arm::usual() } else { args.codecs.clone() },
        bill,
        block: args.block.map(|kib| kib << 10),
        fixed: args.codec,
        delete: deleting(args, &plan),
        attributes: args.xattrs,
        trial: args.dry_run,
        session: to.session,
        cancelled: Arc::clone(&cancelled),
    };
    let (reader, writer, ending) = to.link(args)?.parts();
    let stop = signals::stop_on_signals()?;
    let mut session = match &to.stream {
        Some(name) => Session::of_stream(Stream::of(io::stdin()), name, now(), options),
        None => Session::new(plan, options),
    };
    let mut watch = Watch::new(args, bill.prices);
    let close = || ending.close();
    let result = {
        let mut watched = |session: &Session| {
            if stop.is_stopped() {
                cancelled.store(true, Ordering::Relaxed);
            }
            watch.step(session);
            if let Some(kept) = &mut kept {
                kept.keep();
            }
        };
        nightwatt_transfer::send::run(reader, writer, &close, &mut session, monotonic, &mut watched)
    };
    watch.progress.end();
    let status = ending.wait();
    match result {
        Ok(()) => Ok(session),
        Err(error) => Err(failed(args, to, &error, status, session.has_begun())),
    }
}

/// What a stream is stamped with: it has no time of its own.
fn now() -> Stamp {
    let Wall(millis) = Clock::real().now().wall;
    let nanos = u32::try_from(millis.rem_euclid(1000)).unwrap_or(0) * 1_000_000;
    Stamp { seconds: millis.div_euclid(1000), nanos }
}

/// What could not be read here must not be deleted there.
fn deleting(args: &Args, plan: &Plan) -> Option<Vec<Exclude>> {
    let is_whole = plan.skipped.is_empty();
    if args.delete && !is_whole {
        output::complain("warning: nothing is deleted there, because not all could be read here");
    }
    (args.delete && is_whole).then(|| args.exclude.clone())
}

/// ssh ends with this if it cannot reach the machine, and a shell with the other if there is no such program.
const UNREACHED: i32 = 255;
const NO_PROGRAM: i32 = 127;

fn failed(
    args: &Args,
    to: &Destination,
    error: &SendError,
    status: Option<i32>,
    has_begun: bool,
) -> Failure {
    let host = to.host();
    match (error, status) {
        (SendError::Cut, Some(UNREACHED)) => Failure::new(format!("cannot reach {host}"))
            .hint(format!(
                "check the name: `ssh {host}` must work; then run the same command again, which goes on from where \
                 it was"
            )),
        (SendError::Cut | SendError::Frame(_) | SendError::Connection(_), Some(NO_PROGRAM)) => {
            Failure::new(format!("{host} has no program `{}`", args.remote_program))
                .hint("install nightwatt there, or name its path with `--remote-program`")
        }
        (SendError::Cut | SendError::Connection(_), Some(status @ 1..)) if !has_begun => {
            let program = &args.remote_program;
            Failure::new(format!("`{program}` on {host} ended with status {status}"))
                .hint("it must be nightwatt: name its path with `--remote-program`")
        }
        _ => Failure::failed(error),
    }
}

/// Shows how far it is.
struct Watch {
    progress: Progress,
    prices: Prices,
    begin: Mono,
    /// CPU time of this program at the begin, s.
    before: f64,
    next: Mono,
}

/// Time between two looks at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Watch {
    fn new(args: &Args, prices: Prices) -> Self {
        let begin = monotonic();
        let progress = Progress::by_time(args.quiet || args.json);
        Self { progress, prices, begin, before: process_seconds(), next: begin }
    }

    fn step(&mut self, session: &Session) {
        let now = monotonic();
        if now < self.next {
            return;
        }
        self.next = now + LOOK_EVERY;
        let elapsed = now.since(self.begin);
        let report = session.report();
        let done = report.had_bytes + report.rejected_bytes + report.acknowledged_bytes;
        let process_seconds = process_seconds() - self.before;
        let joules = Report { process_seconds, ..report.clone() }
            .modelled(&self.prices, elapsed.as_secs_f64());
        let rate = report.acknowledged_bytes as f64 / elapsed.as_secs_f64().max(1e-3);
        let what = || match report.acknowledged_bytes {
            0 => "nothing has arrived yet".to_owned(),
            _ => format!("{}/s, {}, {joules:.0} J", bytes(rate as u64), mix(report)),
        };
        self.progress.update(done, report.total_bytes, elapsed, None, what);
    }
}
