//! `nightwatt receive`: the other end of `nightwatt send`.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, Read, StdoutLock, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, ValueHint};
use nightwatt_clock::meter::monotonic;
use nightwatt_energy::energy::{Energy, Provenance};
use nightwatt_meters::Host;
use nightwatt_meters::sampler::{Opened, Sampler, Sink};
use nightwatt_transfer::codec::process_seconds;
use nightwatt_transfer::net::{Ends, Listener, Refusal, close_gently};
use nightwatt_transfer::receive::{
    self, Folder, Gauges, Pipe, ReceiveError, Received, SILENCE, Store,
};
use nightwatt_transfer::send::Report;
use nightwatt_transfer::wire::Spent;
use serde_json::json;

use crate::ExitStatus;
use crate::args::{MeterArgs, ticket};
use crate::commands::send::priced::{Priced, metered};
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::figures::{bytes, count};
use crate::{output, values};

/// Receive what `nightwatt send` sends, through ssh or on a port
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[command(after_help = EXAMPLES, group(ArgGroup::new("how").required(true).args(["stdio", "listen"])))]
pub(crate) struct Args {
    /// The folder to write into, which is made if it is not there; with `--listen`, - writes one file to stdout
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Refuse links that could lead outside DIR: absolute ones, and those with `..` behind a name
    #[arg(long)]
    pub(crate) safe_links: bool,
    /// Speak with the sender over stdin and stdout
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Wait for one sender on this address: 0.0.0.0:7000
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Write the ticket that the sender needs into FILE instead of printing it
    #[arg(long, value_name = "FILE", requires = "listen", conflicts_with_all = ["insecure", "stdio"], value_hint = ValueHint::FilePath)]
    pub(crate) ticket_file: Option<PathBuf>,
    /// Wait for the sender for this time
    #[arg(long = "for", value_name = "TIME", default_value = "24h", conflicts_with = "stdio", value_parser = values::some_time)]
    pub(crate) time: Duration,
    /// Listen without encryption and without a ticket: any machine that reaches the port can write into DIR
    #[arg(long, requires = "listen", conflicts_with = "stdio")]
    pub(crate) insecure: bool,
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    /// With `--listen`: print what was received as one JSON object
    #[arg(long, requires = "listen", conflicts_with = "stdio")]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  ssh nas nightwatt receive --stdio /backup      # as `send` runs it
  nightwatt receive --listen 0.0.0.0:7000 --ticket-file nas.ticket /backup
  nightwatt receive --listen 0.0.0.0:7000 - | tar -x

In authorized_keys, `command=\"nightwatt receive --stdio --safe-links /backup\"`
lets the owner of a key do this and nothing else.

Nothing outside DIR is written. A file gets its name only when all of it is on
the disk. A ticket is good for one transfer, which may be interrupted and
continued, and until this program ends.";

/// A sender that takes nothing is not waited for longer.
const ANSWER: Duration = Duration::from_secs(2);

/// Receives until all is there.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let is_stdout = args.folder == Path::new("-");
    let Some(address) = args.listen else {
        if is_stdout {
            return Err(Failure::new("with `--stdio`, stdout is for the sender")
                .into_usage()
                .hint("name a folder, or use `--listen`"));
        }
        return by_stdio(args);
    };
    if is_stdout && args.json {
        return Err(Failure::new("`--json` and contents cannot both go to stdout")
            .into_usage()
            .hint("leave `--json` out, or name a folder"));
    }
    by_socket(args, address, is_stdout)
}

fn opened(args: &Args) -> io::Result<Folder> {
    let store = Folder::open(&args.folder)?;
    Ok(if args.safe_links { store.wary_of_links() } else { store })
}

fn by_stdio(args: &Args) -> Result<ExitStatus, Failure> {
    let store = match opened(args) {
        Ok(store) => store,
        Err(error) => return refuse(&args.folder, &error),
    };
    match metered_by(started(args)?, io::stdin(), io::stdout().lock(), store, None) {
        Ok(_) => Ok(ExitStatus::Success),
        // The sender was told, and prints it.
        Err(ReceiveError::Session(_) | ReceiveError::Frame(_) | ReceiveError::Message(_)) => {
            Ok(ExitStatus::Failed)
        }
        // The sender is gone, and knows why.
        Err(ReceiveError::Connection(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(ExitStatus::Failed)
        }
        Err(error) => Err(Failure::failed(&error)),
    }
}

/// The meters, and the folder if there is one.
fn prepared(args: &Args, is_stdout: bool) -> Result<(Sampler, Option<Folder>), Failure> {
    let store = if is_stdout { None } else { Some(writable(args)?) };
    Ok((started(args)?, store))
}

fn writable(args: &Args) -> Result<Folder, Failure> {
    opened(args).map_err(|error| {
        Failure::because(format!("cannot write into {}", args.folder.display()), &error)
            .hint(hint(&error))
    })
}

/// What fails now would fail when a sender is there.
fn check(args: &Args, is_stdout: bool) -> Result<(), Failure> {
    drop(args.meters.opened(&Host::default(), None)?);
    if is_stdout {
        return Ok(());
    }
    let was_there = args.folder.is_dir();
    drop(writable(args)?);
    if !was_there {
        // Each sender's session makes it: a dry run leaves none behind. Where it cannot be removed, it stays.
        let _ = fs::remove_dir(&args.folder);
    }
    Ok(())
}

/// Reports a failure to the sender.
fn turn_away(ends: Ends, failure: &Failure) {
    let Ends { writer, socket, .. } = ends;
    let text = failure.to_string();
    let lines: Vec<&str> = text.trim_start_matches("error: ").lines().map(str::trim).collect();
    // The sender may be gone.
    let _ = socket.set_write_timeout(Some(ANSWER));
    let _ = receive::refuse(writer, lines.join("; "));
    close_gently(&socket, monotonic);
}

fn by_socket(args: &Args, address: SocketAddr, is_stdout: bool) -> Result<ExitStatus, Failure> {
    check(args, is_stdout)?;
    let listener = if args.insecure {
        Listener::plain(address)
    } else {
        let mut token = [0; 32];
        getrandom::fill(&mut token)
            .map_err(|error| Failure::because("cannot make a token", &error))?;
        Listener::encrypted(address, token)
    };
    let listener = listener.map_err(|error| {
        Failure::failed(&error).hint("name another port, or end the program that has this one")
    })?;
    announce(args, &listener)?;
    loop {
        let mut refused = |it: Refusal| {
            output::complain(&format!("warning: {} was refused: {}", it.from, it.why));
        };
        let ends = listener.accept(monotonic, monotonic() + args.time, &mut refused);
        let ends = ends.map_err(|error| Failure::failed(&error))?;
        let (sampler, store) = match prepared(args, is_stdout) {
            Ok(prepared) => prepared,
            Err(failure) => {
                turn_away(ends, &failure);
                return Err(failure);
            }
        };
        let Ends { reader, writer, socket } = ends;
        // Any program may be a sender in the clear.
        let silence = args.insecure.then_some(SILENCE);
        let has_begun = Cell::new(false);
        let result = listener.while_busy(monotonic, || {
            let result = match store {
                None => {
                    let out = Watched { out: io::stdout().lock(), has_begun: &has_begun };
                    metered_by(sampler, reader, writer, Pipe::new(out), silence)
                }
                Some(store) => metered_by(sampler, reader, writer, store, silence),
            };
            close_gently(&socket, monotonic);
            result
        });
        match result {
            Ok(received) if received.is_trial => {
                output::complain("a dry run was answered; still waiting for the sender");
            }
            Ok(received) => return report(args, &received, is_stdout),
            // A part is on stdout already, and cannot be taken back.
            Err(error) if has_begun.get() => return Err(Failure::failed(&error)),
            Err(error) => {
                output::complain(&format!("warning: {error}; still waiting for the sender"));
            }
        }
    }
}

/// Stdout, and whether anything was written to it.
struct Watched<'a> {
    out: StdoutLock<'static>,
    has_begun: &'a Cell<bool>,
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.has_begun.set(self.has_begun.get() || !bytes.is_empty());
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn announce(args: &Args, listener: &Listener) -> Result<(), Failure> {
    let address = listener.address();
    let address = address.map_err(|error| Failure::because("cannot find the port", &error))?;
    let ticket = match (listener.ticket(), &args.ticket_file) {
        (None, _) => "without encryption, for any sender (`send --insecure tcp://...`)".to_owned(),
        (Some(ticket), Some(path)) => {
            ticket::write(path, ticket)?;
            format!("the sender needs the ticket in {} (`send --ticket-file`)", path.display())
        }
        (Some(ticket), None) => {
            format!("the sender needs this ticket in NIGHTWATT_TICKET: {}", ticket.reveal())
        }
    };
    output::complain(&format!("listening on {address}; {ticket}"));
    Ok(())
}

fn entries(number: u64) -> String {
    if number == 1 { "1 entry".to_owned() } else { format!("{} entries", count(number)) }
}

fn report(args: &Args, received: &Received, is_stdout: bool) -> Result<ExitStatus, Failure> {
    let receipt = &received.receipt;
    let spent = receipt.spent.as_ref();
    let words = format!(
        "received {} in {}; energy {}",
        bytes(receipt.bytes),
        entries(receipt.entries),
        spent.map_or_else(|| "unknown".to_owned(), Spent::text)
    );
    if is_stdout {
        output::complain(&words);
    } else if args.json {
        output::print_json(&json!({
            "entries": receipt.entries,
            "bytes": receipt.bytes,
            "removed": receipt.removed,
            "rejected_count": receipt.rejected_count,
            "energy": spent,
        }))?;
    } else {
        output::print(&words)?;
    }
    Ok(if receipt.rejected_count == 0 { ExitStatus::Success } else { ExitStatus::Failed })
}

/// The meters, which are read from now on.
fn started(args: &Args) -> Result<Sampler, Failure> {
    let meters = args.meters.opened(&Host::default(), None)?;
    Sampler::start(meters, None, |_: &Opened| -> Box<dyn Sink> { Box::new(()) })
        .map_err(|error| Failure::because("cannot start the meters' threads", &error))
}

/// Receives, and measures what this machine uses meanwhile.
fn metered_by(
    sampler: Sampler,
    reader: impl Read + Send + 'static,
    writer: impl Write,
    store: impl Store,
    silence: Option<Duration>,
) -> Result<Received, ReceiveError> {
    let (begin, before) = (monotonic(), process_seconds());
    sampler.begin(begin);
    let sampler = RefCell::new(Some(sampler));
    let prices = Priced::of(None, None);
    let spent = |cpu_seconds: f64| {
        let end = monotonic();
        let seconds = end.since(begin).as_secs_f64();
        let (measured, _) = sampler.borrow_mut().take()?.finish(end);
        let process_seconds = process_seconds() - before;
        let report = Report { cpu_seconds, process_seconds, ..Report::default() };
        let energy = metered(&measured, seconds);
        Some(spent_of(&energy.unwrap_or_else(|| prices.energy(&report, seconds))))
    };
    receive::run_metered(reader, writer, store, Gauges { clock: monotonic, spent: &spent, silence })
}

/// For the sender.
fn spent_of(energy: &Energy) -> Spent {
    let (is_measured, basis) = match &energy.provenance {
        Provenance::Measured { meter } => (true, meter.clone()),
        Provenance::Modelled { model } => (false, model.clone()),
        Provenance::Mixed { meter, model, .. } => (false, format!("{meter}, and {model}")),
    };
    let (joules, uncertainty) = (energy.joules.get(), energy.uncertainty.get());
    Spent { is_measured, joules, uncertainty, basis }
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotADirectory => "it is a file: name a folder",
        io::ErrorKind::NotFound => "make the folder that it is in, or name another one",
        io::ErrorKind::StorageFull => "its file system is full: make room there and send again",
        io::ErrorKind::QuotaExceeded => "your quota there is used up: make room and send again",
        io::ErrorKind::ReadOnlyFilesystem => {
            "its file system is mounted for reading only: mount it for writing"
        }
        _ => "name a folder that you may write to",
    }
}

/// The sender prints why.
fn refuse(folder: &Path, error: &io::Error) -> Result<ExitStatus, Failure> {
    let text = format!("cannot write into {}: {error}: {}", folder.display(), hint(error));
    let result = receive::refuse(io::stdout(), text);
    result.map_err(|error| Failure::because("cannot answer the sender", &error))?;
    Ok(ExitStatus::Failed)
}
