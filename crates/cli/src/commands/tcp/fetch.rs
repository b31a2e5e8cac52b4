//! `nightwatt tcp fetch`: what connections cost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueHint;
use nightwatt_tcp::wire::{MOST_BUSY_POLL, Name};
use nightwatt_tcp::{Direction, Ended, Error, FetchReport, Plan, Second, SocketOptions, Until};
use serde_json::{Value, json};

use crate::ExitStatus;
use crate::errors::Failure;
use crate::figures::{count, counted};
use crate::{output, signals, values, whole_file};

/// `tcp fetch`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of `nightwatt tcp serve`: `HOST`, `HOST:PORT`, `[IPV6]:PORT`
    #[arg(value_name = "HOST[:PORT]", value_hint = ValueHint::Hostname)]
    pub(crate) server: String,
    #[command(flatten, next_help_heading = "What")]
    pub(crate) what: WhatArgs,
    #[command(flatten, next_help_heading = "How long")]
    pub(crate) until: UntilArgs,
    #[command(flatten, next_help_heading = "How")]
    pub(crate) how: HowArgs,
    #[command(flatten, next_help_heading = "Output")]
    pub(crate) found: FoundArgs,
}

/// What is moved.
#[derive(Debug, clap::Args)]
pub(crate) struct WhatArgs {
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connections: u32,
    /// Segments of each connection
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) segments: u64,
    /// Bytes of a segment
    #[arg(long, value_name = "BYTES", default_value_t = 1460, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(crate) segment_bytes: u32,
    /// Send from the client, and let the server confirm what it received
    #[arg(long)]
    pub(crate) send: bool,
}

/// Until when.
#[derive(Debug, clap::Args)]
pub(crate) struct UntilArgs {
    /// Open each connection once (the default)
    #[arg(long, conflicts_with_all = ["continuous", "time", "seconds", "count"])]
    pub(crate) once: bool,
    /// Replace each finished connection by a new one, until Ctrl-C
    #[arg(long)]
    pub(crate) continuous: bool,
    /// The same for this time; connections that are open at its end are cut off
    #[arg(short = 'd', long = "for", value_name = "TIME", value_parser = values::some_time)]
    pub(crate) time: Option<Duration>,
    /// The same for this many seconds
    #[arg(long, value_name = "N", conflicts_with = "time", value_parser = values::factor)]
    pub(crate) seconds: Option<f64>,
    /// The same until this many have been started
    #[arg(short = 'n', long, value_name = "TOTAL", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

/// How it is moved.
#[derive(Debug, clap::Args)]
pub(crate) struct HowArgs {
    /// Congestion control of the sender, such as reno, cubic, vegas, bbr [default: its system's]
    #[arg(long, value_name = "NAME", value_parser = congestion)]
    pub(crate) congestion: Option<Name>,
    /// Highest rate of the sender, per second: `100Mbit`, `1Gbit`. Linux does not pace the first ten packets
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) pacing: Option<u64>,
    /// Send buffer of the sender: `64k`, in units of 1000 bytes
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) send_buffer: Option<u32>,
    /// Receive buffer of the receiver
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) receive_buffer: Option<u32>,
    /// Poll the device for this many microseconds before sleeping, on both sides; at most 10000
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_BUSY_POLL)))]
    pub(crate) busy_poll: Option<u32>,
    /// Send small pieces immediately (`TCP_NODELAY`), on both sides
    #[arg(long)]
    pub(crate) nodelay: bool,
    /// Largest segment, including the headers of TCP's options
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(88..=32_767))]
    pub(crate) mss: Option<u16>,
    /// Compare every received byte with what was sent
    #[arg(long, conflicts_with = "discard")]
    pub(crate) verify: bool,
    /// Let the receiver's kernel drop the bytes, instead of copying them as programs do
    #[arg(long)]
    pub(crate) discard: bool,
    /// Longest time without progress on a connection
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::some_time)]
    pub(crate) timeout: Duration,
}

/// Output.
#[derive(Debug, clap::Args)]
pub(crate) struct FoundArgs {
    /// Keep records of the first N connections that end
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub(crate) records: u32,
    /// Write these records as CSV, one per row
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) rows: Option<PathBuf>,
    /// Do not ask the server for its figures at the end
    #[arg(long)]
    pub(crate) client_only: bool,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

fn congestion(text: &str) -> Result<Name, String> {
    let name = Name::new(text).filter(|name| !name.is_none());
    name.ok_or_else(|| "write the kernel's name for it, as in `cubic` or `bbr`".to_owned())
}

/// `100Mbit` as bytes per second.
fn rate(text: &str) -> Result<u64, String> {
    let wrong = || "write bits a second, as in `100Mbit` or `2.5Gbit`".to_owned();
    let number = text.strip_suffix("bit").ok_or_else(wrong)?;
    let (number, unit) = scaled(number);
    let bits = number.parse::<f64>().ok().map(|number| number * unit).ok_or_else(wrong)?;
    if (8.0..1e15).contains(&bits) { Ok((bits / 8.0) as u64) } else { Err(wrong()) }
}

/// `64k` as bytes.
fn size(text: &str) -> Result<u32, String> {
    let wrong = || "write bytes, as in `64k` or `4M`, less than 2G".to_owned();
    let (number, unit) = scaled(text);
    let bytes = number.parse::<f64>().ok().map(|number| number * unit).ok_or_else(wrong)?;
    if (1.0..2e9).contains(&bytes) { Ok(bytes as u32) } else { Err(wrong()) }
}

fn scaled(text: &str) -> (&str, f64) {
    let units = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
    let found = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    found.unwrap_or((text, 1.0))
}

/// Opens connections, and reports what they cost.
pub(super) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let plan = plan(args)?;
    // Checked before the work, so that a wrong path does not cost its results.
    if let Some(path) = &args.found.rows {
        whole_file::can_write(path).map_err(|error| unwritten(path, &error))?;
    }
    let stop = signals::stop_on_signals()?;
    let mut on_progress = |second: &Second| output::complain(&line(second));
    let on_progress: Option<&mut dyn FnMut(&Second)> =
        if args.found.json { None } else { Some(&mut on_progress) };
    let report =
        nightwatt_tcp::fetch(&plan, &stop, on_progress).map_err(|error| failure(&error))?;
    let written = match &args.found.rows {
        Some(path) => whole_file::write(path, nightwatt_tcp::csv(&report).as_bytes())
            .map_err(|error| unwritten(path, &error)),
        None => Ok(()),
    };
    // A run is worth its figures even if its rows could not be written.
    print(args, &report)?;
    written?;
    let all_is_well = report.failed == 0 && report.ended != Ended::GaveUp;
    Ok(if all_is_well { ExitStatus::Success } else { ExitStatus::Failed })
}

fn plan(args: &Args) -> Result<Plan, Failure> {
    let server = nightwatt_tcp::resolve(&args.server).map_err(|error| Failure::usage(&error))?;
    let (what, until, how) = (&args.what, &args.until, &args.how);
    let all = what.segments.checked_mul(u64::from(what.segment_bytes));
    let time = until.time.or(until.seconds.map(Duration::from_secs_f64));
    let repeats = until.continuous || time.is_some() || until.count.is_some();
    let once = (!repeats).then_some(u64::from(what.connections));
    Ok(Plan {
        connections: what.connections,
        bytes: all.ok_or_else(|| Failure::usage(&Error::TooLong))?,
        direction: if what.send { Direction::Send } else { Direction::Fetch },
        until: Until { count: until.count.or(once), time },
        options: SocketOptions {
            congestion: how.congestion.unwrap_or_default(),
            pacing: how.pacing.unwrap_or(0),
            send_buffer: how.send_buffer.unwrap_or(0),
            receive_buffer: how.receive_buffer.unwrap_or(0),
            busy_poll: how.busy_poll.unwrap_or(0),
            nodelay: how.nodelay,
            mss: how.mss.unwrap_or(0),
        },
        verify: how.verify,
        discard: how.discard,
        timeout: how.timeout,
        records: args.found.records as usize,
        wants_server_report: !args.found.client_only,
        ..Plan::new(server)
    })
}

/// An error during the run is not a mistake on the command line.
fn failure(error: &Error) -> Failure {
    match error {
        Error::GaveUp { .. } | Error::Epoll(_) | Error::Random => Failure::failed(error),
        error => Failure::usage(error),
    }
}

/// One second of a run, as a line of text.
fn line(second: &Second) -> String {
    format!(
        "{:>6} s  {:>7} running  {:>9} completed  {:>6} failed  {:>9.3} Gbit/s",
        second.second + 1,
        count(second.running),
        count(second.completed),
        count(second.failed),
        second.bytes as f64 * 8e-9
    )
}

fn print(args: &Args, report: &FetchReport) -> Result<(), Failure> {
    if !args.found.json {
        output::print(&output::folded(&nightwatt_tcp::text(report)))?;
        let kept = report.records.len() as u64;
        let ended = report.completed + report.failed + report.cut;
        if args.found.rows.is_some() && kept < ended {
            output::complain(&format!(
                "warning: the rows are the first {} of {}; `--records {ended}` keeps all",
                count(kept),
                counted(ended, "connection")
            ));
        }
        return Ok(());
    }
    let figures = serde_json::to_value(report);
    let mut value =
        figures.map_err(|error| Failure::because("cannot write the result as JSON", &error))?;
    let (what, how) = (&args.what, &args.how);
    if let Value::Object(fields) = &mut value {
        fields.insert("segments".to_owned(), json!(what.segments));
        fields.insert("segment_bytes".to_owned(), json!(what.segment_bytes));
        let wanted = json!({
            "congestion": how.congestion.map(|name| name.as_str().to_owned()),
            "pacing_bytes_s": how.pacing,
            "send_buffer_bytes": how.send_buffer,
            "receive_buffer_bytes": how.receive_buffer,
            "busy_poll_us": how.busy_poll,
            "nodelay": how.nodelay,
            "mss": how.mss,
            "verify": how.verify,
            "discard": how.discard,
        });
        fields.insert("options".to_owned(), wanted);
    }
    output::print_json(&value)
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::because(format!("cannot write {}", path.display()), error)
        .hint("check that its directory exists, may be written, and has room")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_bits_and_sizes_in_bytes() {
        assert_eq!(rate("100Mbit"), Ok(12_500_000));
        assert_eq!(rate("2.5Gbit"), Ok(312_500_000));
        assert_eq!(rate("8bit"), Ok(1));
        assert!(rate("100M").is_err() && rate("-1kbit").is_err() && rate("bit").is_err());
        assert_eq!(size("64k"), Ok(64_000));
        assert_eq!(size("1460"), Ok(1460));
        assert!(size("2G").is_err() && size("0").is_err() && size("k").is_err());
    }
}
